//! What is recalled beside the database: at once, the same as from it, and never what is not so any more.

use metaclaw_memory::{Ask, Known, Memory, NewMemory, Recalled, Settings};
use store::{Fact, FactFilter, FactPatch, MemoryTurn, Outcome, Scope, TurnId};

use crate::common::{DAY, Home, NOW};

fn now(memory: &Memory, text: &str) -> Option<Vec<Recalled>> {
    let nothing = |_: &Recalled| false;
    memory.recall_now(&Ask { text, known: Some(Known(&nothing)), now_ms: NOW, ..Ask::default() })
}

fn turn(id: TurnId, session: &str, turn_no: u32, user: &str) -> MemoryTurn {
    MemoryTurn {
        id,
        session: session.to_owned(),
        agent: None,
        turn_no,
        step: 0,
        started_ms: NOW - 1000,
        finished_ms: NOW,
        outcome: Outcome::Ok,
        stop: Some("end_turn".to_owned()),
        user_text: Some(user.to_owned()),
        answer_text: Some("I see.".to_owned()),
        scope: Scope::default(),
    }
}

#[tokio::test]
async fn a_turn_is_recalled_the_moment_it_was_heard_and_once_when_it_is_absorbed() {
    let home = Home::new().await;
    assert!(now(&home.memory, "anything").is_none(), "nothing is at hand before the first look");
    home.work().await;
    assert_eq!(now(&home.memory, "anything"), Some(Vec::new()));
    let said = "The ferry to Gozo leaves at a quarter past nine.";
    let id = home.turn("s1", 1, NOW - 1000, said, "I see.").await;
    assert_eq!(now(&home.memory, "When does the ferry to Gozo leave?"), Some(Vec::new()));
    home.memory.heard(turn(id, "s1", 1, said));
    let at_once = now(&home.memory, "When does the ferry to Gozo leave?").expect("is at hand");
    assert_eq!(at_once[0].content, said);
    assert_eq!(at_once[0].source.session_id, "s1");
    home.work().await;
    let later = now(&home.memory, "When does the ferry to Gozo leave?").expect("is at hand");
    assert_eq!(later.iter().filter(|m| m.content == said).count(), 1, "{later:?}");
    assert_eq!(later[0].line, at_once[0].line);
}

#[tokio::test]
async fn what_just_was_heard_goes_on_from_what_was_said_before_it() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - 2000, "Tell me about the lighthouse of Cordouan.", "It stands in the Gironde.").await;
    home.work().await;
    home.memory.heard(turn(TurnId(2), "s1", 2, "It must be tall, some 68 metres."));
    // A tool step repeats the words of its turn.
    home.memory.heard(turn(TurnId(3), "s1", 2, "It must be tall, some 68 metres."));
    home.memory.prepare();
    let found = now(&home.memory, "how tall is the Cordouan lighthouse").expect("is at hand");
    let asked: Vec<_> = found.iter().filter(|m| m.content == "It must be tall, some 68 metres.").collect();
    assert_eq!(asked.len(), 1, "{found:?}");
}

#[tokio::test]
async fn a_newer_statement_marks_the_older_words_as_changed() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - 9 * DAY, "My favourite tea is assam.", "Good.").await;
    home.work().await;
    home.turn("s2", 1, NOW - 2 * DAY, "My favourite tea is sencha now.", "Good.").await;
    home.work().await;
    let found = home.ask("which tea is my favourite?").await;
    let old: Vec<_> = found.iter().filter(|m| m.content.contains("assam")).collect();
    assert!(old.iter().all(|m| m.outdated_ms.is_some()), "{found:?}");
    assert!(found.iter().any(|m| m.content.contains("sencha")), "{found:?}");
}

#[tokio::test]
async fn what_was_forgotten_is_not_at_hand_either() {
    let home = Home::new().await;
    let text = "I keep the seed phrase in the piano.";
    let id = home.turn("s1", 1, NOW - DAY, text, "Fine.").await;
    home.memory.refresh().await.expect("looks");
    home.memory.heard(turn(id, "s1", 1, text));
    let found = now(&home.memory, "where is the seed phrase").expect("is at hand");
    home.memory.forget_id(&found[0].id, NOW).await.expect("forgets");
    assert!(now(&home.memory, "where is the seed phrase").is_none(), "what was at hand is gone");
    home.work().await;
    let found = now(&home.memory, "where is the seed phrase").expect("is at hand again");
    assert!(found.iter().all(|m| !m.content.contains("I keep the seed")), "{found:?}");
    // Said again, it is not remembered again, not even for a moment.
    home.memory.heard(turn(TurnId(id.0 + 1), "s2", 1, text));
    let found = now(&home.memory, "where is the seed phrase").expect("is at hand");
    assert!(found.iter().all(|m| m.content != text), "{found:?}");
}

#[tokio::test]
async fn another_process_changes_memory_and_it_is_noticed() {
    let home = Home::new().await;
    home.memory.notice().await.expect("looks");
    home.turn("s1", 1, NOW - DAY, "The kiln fires at 1240 degrees.", "Fine.").await;
    home.work().await;
    home.memory.notice().await.expect("looks");
    let found = now(&home.memory, "how hot does the kiln fire").expect("is at hand");
    let path = home.dir.path().join("metaclaw.db");
    let tracker = tokio_util::task::TaskTracker::new();
    let cancel = tokio_util::sync::CancellationToken::new();
    let other = store::Store::open(&path, store::Options::default(), &tracker, cancel).await.expect("opens");
    Memory::open(other.clone(), Settings::default()).forget_id(&found[0].id, NOW).await.expect("forgets");
    home.memory.notice().await.expect("looks");
    let found = now(&home.memory, "how hot does the kiln fire").expect("is at hand");
    assert!(found.iter().all(|m| !m.content.contains("1240")), "{found:?}");
    other.close().await.expect("closes");
}

#[tokio::test]
async fn what_is_pinned_comes_first_whatever_is_asked_and_leaves_room() {
    let home = Home::new().await;
    for i in 0..5 {
        let content = format!("Pinned rule {i}: answer in British English.");
        let new = NewMemory { content, pinned: true, at_ms: NOW - DAY + i, ..NewMemory::default() };
        home.memory.add(new).await.expect("adds").expect("is new");
    }
    home.turn("s1", 1, NOW - DAY, "The caravan is parked behind the mill.", "Fine.").await;
    home.work().await;
    let found = home.ask("where is the caravan parked?").await;
    assert_eq!(found.iter().take_while(|m| m.content.starts_with("Pinned")).count(), 3, "{found:?}");
    assert!(found.iter().any(|m| m.content.contains("behind the mill")), "{found:?}");
    assert_eq!(home.ask("hello").await.len(), 3);
    let fact: Fact =
        home.memory.facts(&FactFilter { pinned: Some(true), ..FactFilter::default() }).await.unwrap().remove(0);
    home.memory.patch(&fact.id, FactPatch { pinned: Some(false), ..FactPatch::default() }, NOW).await.expect("unpins");
    home.work().await;
    let filter = FactFilter { pinned: Some(true), ..FactFilter::default() };
    assert_eq!(home.memory.facts(&filter).await.expect("lists").len(), 4);
}

#[tokio::test]
async fn more_than_is_kept_at_hand_is_found_in_the_database() {
    let home = Home::new().await;
    let said: Vec<_> = (0..8300)
        .map(|i| metaclaw_memory::Utterance {
            speaker: "user".to_owned(),
            text: format!("Locker {i} belongs to team {}.", i % 7),
            at_ms: NOW - DAY,
            turn_no: i,
        })
        .collect();
    home.memory.hear("", "s1", &said).await.expect("hears");
    home.memory.refresh().await.expect("looks");
    assert!(now(&home.memory, "whose is locker 4711").is_none());
    let id = home.turn("s2", 1, NOW, "Locker nine thousand is mine, the heliotrope one.", "Fine.").await;
    home.memory.heard(turn(id, "s2", 1, "Locker nine thousand is mine, the heliotrope one."));
    let ask = Ask { text: "who has the heliotrope locker", now_ms: NOW, ..Ask::default() };
    let found = home.memory.recall(&ask).await.expect("recalls");
    assert!(found[0].content.contains("heliotrope"), "{found:?}");
}
