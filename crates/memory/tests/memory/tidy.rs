//! Facts that say the same or the opposite are settled a few at a time, by rules, with their history, and can be unsettled.

use metaclaw_memory::{Memory, NewMemory, Tidied};
use store::{Fact, FactFilter};

use crate::common::{DAY, Home, NOW};

async fn add(memory: &Memory, content: &str, origin: &str, days: i64) -> String {
    let new = NewMemory {
        content: content.to_owned(),
        kind: "semantic".to_owned(),
        at_ms: NOW - days * DAY,
        origin: origin.to_owned(),
        ..NewMemory::default()
    };
    memory.add(new).await.expect("adds").expect("is new")
}

async fn tidy(home: &Home) -> Tidied {
    let mut all = Tidied::default();
    loop {
        let step = home.memory.tidy(NOW).await.expect("tidies");
        all += step;
        if !step.more {
            return all;
        }
    }
}

async fn fact(home: &Home, id: &str) -> Fact {
    home.memory.fact(id).await.expect("is there")
}

#[tokio::test]
async fn the_same_is_kept_once_and_the_opposite_gives_way_to_what_was_said_later() {
    let home = Home::new().await;
    let first = add(&home.memory, "The archive room has a blue door.", "legacy", 30).await;
    let again = add(&home.memory, "Archive room has a blue door", "import", 20).await;
    let likes = add(&home.memory, "The parrot eats walnuts in winter.", "import", 10).await;
    let not = add(&home.memory, "The parrot does not eat walnuts in winter.", "import", 2).await;
    let room = add(&home.memory, "Room 4 has a projector.", "import", 9).await;
    let other = add(&home.memory, "Room 5 has a projector.", "import", 8).await;
    let done = tidy(&home).await;
    assert_eq!((done.looked, done.closed), (6, 2), "{done:?}");
    for (id, status) in [
        (&first, "active"),
        (&again, "superseded"),
        (&likes, "superseded"),
        (&not, "active"),
        (&room, "active"),
        (&other, "active"),
    ] {
        assert_eq!(fact(&home, id).await.status, status, "{:?}", fact(&home, id).await);
    }
    assert_eq!(fact(&home, &likes).await.superseded_by.as_deref(), Some(not.as_str()));
    assert_eq!(fact(&home, &likes).await.valid_to_ms, Some(NOW - 2 * DAY), "it held until then");
    let history = home.memory.history(&not).await.expect("lists");
    assert_eq!(history.iter().map(|f| f.id.as_str()).collect::<Vec<_>>(), [not.as_str(), likes.as_str()]);
    let why = home.memory.merges(&[again.clone(), likes.clone()]).await.expect("lists");
    let why: Vec<&str> = why.iter().map(|m| m.why.as_str()).collect();
    assert_eq!(why, ["same", "opposite"]);
    // As of then it was so.
    let as_of = FactFilter { as_of_ms: Some(NOW - 5 * DAY), ..FactFilter::default() };
    assert!(home.memory.facts(&as_of).await.expect("lists").iter().any(|f| f.id == likes));
    let found = home.ask("does the parrot eat walnuts?").await;
    assert!(found.iter().all(|m| m.id != likes) && found.iter().any(|m| m.id == not), "{found:?}");
}

#[tokio::test]
async fn it_can_be_taken_back_and_stays_so() {
    let home = Home::new().await;
    let first = add(&home.memory, "The archive room has a blue door.", "import", 30).await;
    let again = add(&home.memory, "Archive room has a blue door", "import", 20).await;
    assert!(!home.memory.untidy(&again, NOW).await.expect("looks"), "nothing was done yet");
    assert_eq!(tidy(&home).await.closed, 1);
    assert!(home.memory.untidy(&again, NOW).await.expect("takes back"));
    assert_eq!(fact(&home, &again).await.status, "active");
    assert_eq!(fact(&home, &again).await.valid_to_ms, None);
    assert!(!home.memory.untidy(&again, NOW).await.expect("looks"), "once");
    // Whatever comes: this pair is left alone.
    add(&home.memory, "The archive room has a blue door and a lamp.", "import", 1).await;
    tidy(&home).await;
    for id in [&first, &again] {
        assert_eq!(fact(&home, id).await.status, "active");
    }
}

#[tokio::test]
async fn what_is_pinned_or_the_users_own_gives_way_to_nothing_that_is_not() {
    let home = Home::new().await;
    let imported = add(&home.memory, "The archive room has a blue door.", "import", 30).await;
    let own = add(&home.memory, "Archive room has a blue door", "user", 20).await;
    let pinned = add(&home.memory, "The parrot eats walnuts in winter.", "import", 10).await;
    let pin = store::FactPatch { pinned: Some(true), ..store::FactPatch::default() };
    home.memory.patch(&pinned, pin, NOW).await.expect("pins");
    let not = add(&home.memory, "The parrot does not eat walnuts in winter.", "import", 2).await;
    tidy(&home).await;
    for (id, status) in [(&imported, "superseded"), (&own, "active"), (&pinned, "active"), (&not, "active")] {
        assert_eq!(fact(&home, id).await.status, status);
    }
}

#[tokio::test]
async fn scopes_and_speakers_are_never_mixed() {
    let home = Home::new().await;
    let mut ids = Vec::new();
    for (scope, content) in
        [("user:a", "The archive room has a blue door."), ("user:b", "Archive room has a blue door")]
    {
        let new =
            NewMemory { content: content.to_owned(), scope: scope.to_owned(), at_ms: NOW, ..NewMemory::default() };
        ids.push(home.memory.add(new).await.expect("adds").expect("is new"));
    }
    assert_eq!(tidy(&home).await.closed, 0);
    for id in &ids {
        assert_eq!(fact(&home, id).await.status, "active");
    }
}

#[tokio::test]
async fn it_is_done_in_bounded_steps_and_goes_on_where_it_was() {
    let home = Home::new().await;
    for n in 0..80 {
        add(&home.memory, &format!("Locker number {n} belongs to visitor {n}."), "import", 100 - n).await;
    }
    add(&home.memory, "Locker number 7 belongs to the visitor 7!", "import", 1).await;
    let step = home.memory.tidy(NOW).await.expect("tidies");
    assert_eq!((step.looked, step.closed, step.more), (32, 0, true));
    let home = home.again().await;
    let rest = tidy(&home).await;
    assert_eq!((rest.looked, rest.closed), (49, 1), "it goes on after the first step");
    assert_eq!(home.memory.tidy(NOW).await.expect("tidies"), Tidied::default(), "nothing is looked at twice");
    // Another process that was faster: what it did is not done again.
    assert_eq!(home.store.memory_tidy(3, 9, Vec::new(), NOW).await.expect("looks"), None);
}

#[tokio::test]
async fn what_gave_way_is_forgotten_with_what_it_gave_way_to() {
    let home = Home::new().await;
    add(&home.memory, "The xylophonist has a blue door.", "import", 30).await;
    let again = add(&home.memory, "Xylophonist has a blue door", "user", 20).await;
    assert_eq!(tidy(&home).await.closed, 1);
    home.memory.forget_id(&again, NOW).await.expect("forgets");
    home.store.flush().await.expect("flushes");
    let file = std::fs::read(home.dir.path().join("metaclaw.db")).expect("the file");
    assert!(memchr::memmem::find(&file, b"xylophonist").is_none());
}

#[tokio::test]
async fn facts_that_one_small_word_or_their_order_tells_apart_are_not_the_same() {
    let home = Home::new().await;
    let mut all = Vec::new();
    for (one, other) in [
        ("The heating is on at night.", "The heating is off at night."),
        ("Ben prefers tea over coffee.", "Ben prefers coffee over tea."),
        ("The meeting is before noon.", "The meeting is after noon."),
        ("Anna manages Ben.", "Ben manages Anna."),
        ("The alarm is on.", "The alarm is not off."),
    ] {
        all.push(add(&home.memory, one, "import", 30).await);
        let later = add(&home.memory, other, "import", 2).await;
        all.push(later.clone());
        tidy(&home).await;
        assert_eq!(fact(&home, &later).await.status, "active", "what was said later counts: {other}");
    }
    let merges = home.memory.merges(&all).await.expect("lists");
    assert!(merges.iter().all(|merge| merge.why == "newer"), "{merges:?}");
    assert_eq!(fact(&home, &all[6]).await.status, "active", "Anna manages Ben");
}
