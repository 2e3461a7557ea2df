//! Facts over time: updates, history, "as of", the user's hand, export and import.

use metaclaw_memory::{Ask, NewMemory};
use store::{FactFilter, FactPatch};

use crate::common::{DAY, Home, NOW};

async fn active(home: &Home) -> Vec<String> {
    let filter = FactFilter { status: Some("active".to_owned()), ..FactFilter::default() };
    home.memory.facts(&filter).await.expect("lists").into_iter().map(|f| f.content).collect()
}

#[tokio::test]
async fn a_newer_statement_takes_the_place_of_the_older_and_history_stays() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - 90 * DAY, "I live in Lisbon.", "ok").await;
    home.turn("s2", 1, NOW - 30 * DAY, "I moved to Oslo.", "ok").await;
    home.work().await;
    assert_eq!(active(&home).await, ["I moved to Oslo."]);
    let filter = FactFilter { as_of_ms: Some(NOW - 60 * DAY), ..FactFilter::default() };
    let then = home.memory.facts(&filter).await.expect("lists");
    assert_eq!(then.len(), 1);
    assert_eq!(then[0].content, "I live in Lisbon.");
    assert_eq!(then[0].valid_to_ms, Some(NOW - 30 * DAY));
    let history = home.memory.history(&then[0].id).await.expect("lists");
    assert_eq!(
        history.iter().map(|f| f.content.as_str()).collect::<Vec<_>>(),
        ["I moved to Oslo.", "I live in Lisbon."]
    );
    let found = home.ask("where do I live now, Lisbon or Oslo?").await;
    let old = found.iter().find(|m| m.content.contains("Lisbon")).expect("is background still");
    assert!(old.line.ends_with("(changed 2026-10-31)"), "{}", old.line);
    let ask =
        Ask { text: "where did I live, in Lisbon?", now_ms: NOW, as_of_ms: Some(NOW - 60 * DAY), ..Ask::default() };
    let found = home.memory.recall(&ask).await.expect("recalls");
    assert!(found.iter().all(|m| !m.content.contains("Oslo")), "{found:?}");
}

#[tokio::test]
async fn the_same_again_is_not_doubled() {
    let home = Home::new().await;
    for (n, text) in [(1, "I live in Oslo."), (2, "i live in  Oslo"), (3, "I now live in Oslo!")] {
        home.turn("s1", n, NOW - DAY, text, "ok").await;
    }
    home.work().await;
    assert_eq!(active(&home).await, ["I live in Oslo."]);
}

#[tokio::test]
async fn times_in_facts_are_absolute() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW, "My flight to Porto is next Friday.", "ok").await;
    home.work().await;
    assert_eq!(active(&home).await, ["My flight to Porto is next Friday (2026-12-04)."]);
}

#[tokio::test]
async fn facts_by_hand_are_kept_edited_pinned_exported_and_imported() {
    let home = Home::new().await;
    let new = |content: &str| NewMemory { content: content.to_owned(), at_ms: NOW, ..NewMemory::default() };
    let id = home.memory.add(new("The boiler was installed by Ferrand & Sons")).await.expect("adds").expect("is new");
    assert_eq!(home.memory.add(new("the boiler was installed by Ferrand & sons")).await.expect("adds"), None);
    home.memory.edit(&id, "The boiler was installed by Baxi Ltd", NOW).await.expect("edits");
    assert!(home.ask("who installed the boiler?").await[0].content.contains("Baxi"));
    assert!(home.ask("Ferrand").await.is_empty(), "the old words find nothing");
    home.memory.patch(&id, FactPatch { pinned: Some(true), ..FactPatch::default() }, NOW).await.expect("pins");
    let lines = home.memory.export(Some("default"), false).await.expect("exports");
    assert_eq!(lines.lines().count(), 1);
    let other = Home::new().await;
    let done = other.memory.import(&lines, None, NOW).await.expect("imports");
    assert_eq!((done.added, done.skipped), (1, 0));
    let fact = other.memory.fact(&id).await.expect("has it");
    assert!(fact.pinned && fact.recorded_ms == NOW, "{fact:?}");
    assert_eq!(other.memory.import(&lines, None, NOW).await.expect("imports").skipped, 1);
    assert!(other.memory.import("{\"content\":\"x\"}\nnonsense", None, NOW).await.is_err());
    assert!(other.memory.add(NewMemory { kind: "odd".to_owned(), ..new("x y z") }).await.is_err());
}
