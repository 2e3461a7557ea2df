//! Kept for a time only: what is older goes from every file, what is pinned and what is newer stays, and the same may be
//! learned again.

use metaclaw_memory::Keep;
use store::{NewTurn, TurnId};

use crate::common::{DAY, Home, NOW};

const MONTH: Keep = Keep { memory_days: 30, journal_days: 0 };

fn files(home: &Home) -> Vec<u8> {
    let read = |name: &str| std::fs::read(home.dir.path().join(name)).unwrap_or_default();
    ["metaclaw.db", "metaclaw.db-wal", "metaclaw.db-spool"].into_iter().flat_map(read).collect()
}

fn holds(all: &[u8], text: &str) -> bool {
    memchr::memmem::find(all, text.as_bytes()).is_some()
}

async fn let_go(home: &Home, keep: Keep) -> store::Retired {
    let mut all = store::Retired::default();
    loop {
        let gone = home.memory.retire(keep, NOW).await.expect("retires");
        if gone.is_nothing() {
            break;
        }
        all += gone;
    }
    assert!(home.memory.retired(NOW).await.expect("clears up"));
    home.store.flush().await.expect("flushes");
    all
}

async fn body(home: &Home, turn: TurnId) -> String {
    String::from_utf8(home.store.request_of(turn).await.expect("reads").to_vec()).expect("is text")
}

#[tokio::test]
async fn what_is_over_its_time_is_nowhere_and_the_rest_stays() {
    let home = Home::new().await;
    let old = NOW - 40 * DAY;
    home.turn("s1", 1, old, "My locker code word is Xylophonist.", "Noted.").await;
    home.turn("s2", 1, old, "My boat is called Quetzalcoatl.", "Aye.").await;
    home.turn("s3", 1, NOW - DAY, "My locker key hangs behind the barometer.", "Fine.").await;
    // A call beside a conversation, in a session of its own.
    let aside =
        NewTurn { kind: store::Kind::Side("title".to_owned()), user_text: None, ..said(old, "The Xylophonist") };
    home.append(NewTurn { session: "aside".to_owned(), ..aside }).await;
    home.work().await;
    while home.store.memory_index(100).await.expect("indexes") > 0 {}
    let facts = home.memory.facts(&store::FactFilter::default()).await.expect("lists");
    let boat = facts.iter().find(|f| f.content.contains("Quetzalcoatl")).expect("was learned");
    let pin = store::FactPatch { pinned: Some(true), ..store::FactPatch::default() };
    home.memory.patch(&boat.id, pin, old).await.expect("pins");

    let [due, journal] = home.memory.overdue(MONTH, NOW).await.expect("counts");
    assert!(journal.is_nothing(), "the journal is kept for ever");
    assert!(due.facts == 1 && due.windows == 4 && due.turns == 3 && due.sessions == 1 && due.pinned == 1, "{due:?}");
    assert!(holds(&files(&home), "Xylophonist"), "nothing has gone yet");
    let named = home.memory.overdue_facts(MONTH, NOW, 10).await.expect("lists");
    assert!(named.len() == 1 && named[0].content.contains("Xylophonist"), "{named:?}");

    let gone = let_go(&home, MONTH).await;
    assert_eq!(
        (gone.facts, gone.windows, gone.turns, gone.sessions),
        (due.facts, due.windows, due.turns, due.sessions)
    );
    assert!(!holds(&files(&home), "Xylophonist"));
    assert!(home.ask("locker code word").await.iter().all(|m| !m.content.contains("Xylo")));
    assert!(home.ask("where is the key of the locker?").await.iter().any(|m| m.content.contains("barometer")));
    assert!(home.ask("what is my boat called?").await.iter().any(|m| m.content.contains("Quetzalcoatl")), "is pinned");
    assert_eq!(home.store.memory_unindexed().await.expect("counts").1, 0, "the index names nothing that is gone");
    assert_eq!(let_go(&home, MONTH).await, store::Retired::default());

    // Nothing was buried.
    home.turn("s4", 1, NOW, "My locker code word is Xylophonist.", "Noted.").await;
    home.work().await;
    assert!(home.ask("what is the locker code word?").await.iter().any(|m| m.content.contains("Xylo")));
}

fn said(at: i64, words: &str) -> NewTurn {
    NewTurn {
        session: "long".to_owned(),
        turn_no: 1,
        started_ms: at,
        finished_ms: at,
        stop: Some("end_turn".to_owned()),
        user_text: Some(words.to_owned()),
        answer_text: Some("Noted.".to_owned()),
        ..NewTurn::default()
    }
}

#[tokio::test]
async fn a_conversation_that_goes_on_keeps_its_newer_turns_whole() {
    let home = Home::new().await;
    let filler = "f".repeat(4000);
    let mut turns = Vec::new();
    for n in 1..=6_u32 {
        let days = if n <= 3 { 40 } else { 2 };
        let at = NOW - days * DAY + i64::from(n);
        let turn = NewTurn { turn_no: n, ..said(at, &format!("Report number {n} is from the observatory.")) };
        let body = format!("{{\"filler\":\"{filler}\",\"n\":{n}}}");
        turns.push((home.store.append(turn, body.clone().into()).await.expect("appends"), body));
    }
    home.work().await;
    let gone = let_go(&home, MONTH).await;
    assert_eq!((gone.windows, gone.turns, gone.sessions), (6, 3, 0));
    for (n, (turn, was)) in (1..).zip(&turns) {
        let kept = home.store.turn(*turn).await.expect("reads").expect("is there");
        if n <= 3 {
            assert_eq!(body(&home, *turn).await, "{\"forgotten\":true}");
            assert_eq!(kept.answer_text.as_deref(), Some("[forgotten]"));
        } else {
            // It stood on one that is gone.
            assert_eq!(body(&home, *turn).await, *was);
            assert!(kept.summary.user_text.is_some_and(|text| text.contains(&format!("number {n}"))));
        }
    }
    let home = home.again().await;
    assert!(
        home.ask("report of the observatory")
            .await
            .iter()
            .all(|m| m.content.contains("Report number") && m.at_ms > NOW - 30 * DAY)
    );
}

#[tokio::test]
async fn the_journal_has_a_time_of_its_own() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - 20 * DAY, "My locker code word is Xylophonist.", "Noted, and written down.").await;
    home.turn("s2", 1, NOW - DAY, "The kestrel nests in the belfry.", "Indeed.").await;
    home.work().await;
    let gone = let_go(&home, Keep { memory_days: 0, journal_days: 7 }).await;
    assert_eq!((gone.sessions, gone.turns, gone.facts), (1, 1, 0));
    assert!(!holds(&files(&home), "written down"), "the passages go with their turns");
    assert!(home.store.session("s1").await.expect("reads").is_none());
    let found = home.ask("what is the locker code word?").await;
    assert!(found.iter().any(|m| m.content.contains("Xylophonist")), "what was learned stays: {found:?}");
    assert!(home.ask("kestrel belfry").await.iter().any(|m| m.content.contains("kestrel")));
}

#[tokio::test]
async fn a_day_after_an_update_its_backup_goes_as_well() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - 40 * DAY, "The kestrel nests in the belfry.", "Indeed.").await;
    home.work().await;
    let backups = home.dir.path().join("backups");
    std::fs::create_dir(&backups).expect("a folder");
    let made = [("before-v8-0001.db", 2), ("before-v9-0002.db", 0)].map(|(name, days)| {
        let path = backups.join(name);
        std::fs::write(&path, b"a copy").expect("writes");
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis((NOW - days * DAY).cast_unsigned());
        std::fs::File::options().write(true).open(&path).expect("opens").set_modified(at).expect("dates");
        path
    });
    let_go(&home, MONTH).await;
    assert!(!made[0].exists() && made[1].exists());
}
