//! Forgetting for good: nothing of it is left in the database file or its log, and it is not learned again.

use store::{Forget, TurnId};

use crate::common::{DAY, Home, NOW};

fn bytes_of(home: &Home) -> Vec<u8> {
    let mut all = Vec::new();
    for name in ["metaclaw.db", "metaclaw.db-wal"] {
        all.extend(std::fs::read(home.dir.path().join(name)).unwrap_or_default());
    }
    all
}

fn contains(all: &[u8], text: &str) -> bool {
    all.windows(text.len()).any(|w| w == text.as_bytes())
}

#[tokio::test]
async fn a_forgotten_fact_is_nowhere_and_not_learned_again() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - DAY, "Hello there.", "Hi.").await;
    let kept = home.turn("s0", 1, NOW - DAY, "I like sailing.", "Nice.").await;
    home.turn("s1", 2, NOW - DAY, "My locker code word is Xylophonist.", "Noted.").await;
    home.turn("s1", 3, NOW - DAY, "What is the weather?", "Sunny.").await;
    home.work().await;
    while home.store.memory_index(100).await.expect("indexes") > 0 {}
    let facts = home.memory.facts(&store::FactFilter::default()).await.expect("lists");
    let fact = facts.iter().find(|f| f.content.contains("Xylophonist")).expect("was learned");
    let gone = home.memory.forget_id(&fact.id, NOW).await.expect("forgets");
    assert!(gone.facts == 1 && gone.windows >= 1 && gone.turns >= 1, "{gone:?}");
    assert!(home.ask("what is the locker code word?").await.iter().all(|m| !m.content.contains("Xylo")));
    home.store.flush().await.expect("flushes");
    assert!(!contains(&bytes_of(&home), "Xylophonist"));
    assert!(contains(&home.store.request_of(kept).await.expect("reads"), "sailing"), "other sessions are untouched");
    assert!(contains(&home.store.request_of(TurnId(1)).await.expect("reads"), "Hello"), "and what was said before");
    home.turn("s2", 1, NOW, "My locker code word is Xylophonist.", "Noted.").await;
    home.work().await;
    let again = home.memory.facts(&store::FactFilter::default()).await.expect("lists");
    assert!(again.iter().all(|f| !f.content.contains("Xylophonist")), "{again:?}");
}

#[tokio::test]
async fn a_forgotten_passage_and_session_leave_the_index() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - DAY, "Quetzalcoatl visited the observatory.", "Indeed.").await;
    home.turn("s2", 1, NOW - DAY, "Quinoa grows beside the observatory.", "Indeed.").await;
    home.work().await;
    while home.store.memory_index(100).await.expect("indexes") > 0 {}
    let found = home.ask("observatory Quetzalcoatl").await;
    home.memory.forget_id(&found[0].id, NOW).await.expect("forgets");
    assert!(home.ask("Quetzalcoatl").await.is_empty());
    assert!(!contains(&bytes_of(&home), "Quetzalcoatl"));
    home.memory.forget(Forget::Session("s2".to_owned()), NOW).await.expect("forgets");
    assert!(home.ask("quinoa observatory").await.is_empty());
    assert!(!contains(&bytes_of(&home), "Quinoa"));
    assert!(home.memory.forget_id("w99999", NOW).await.is_err(), "there is no such memory");
}

#[tokio::test]
async fn a_whole_scope_can_be_erased() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - DAY, "My favourite bird is the kingfisher.", "Indeed.").await;
    home.work().await;
    home.memory.forget(Forget::Scope("default".to_owned()), NOW).await.expect("forgets");
    assert!(home.ask("favourite bird").await.is_empty());
    assert_eq!(home.memory.export(None, true).await.expect("exports"), "");
    assert!(!contains(&bytes_of(&home), "kingfisher"));
}

#[tokio::test]
async fn a_session_deleted_from_the_journal_leaves_no_window_behind() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - DAY, "The kestrel nests in the belfry.", "Indeed.").await;
    home.work().await;
    while home.store.memory_index(100).await.expect("indexes") > 0 {}
    home.store.delete_session("s1").await.expect("deletes");
    assert!(home.ask("kestrel belfry").await.is_empty());
    home.work().await;
    assert_eq!(home.store.memory_unindexed().await.expect("counts"), (0, 0));
}
