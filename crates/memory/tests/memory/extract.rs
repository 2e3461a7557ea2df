//! What a model names is learned as far as the user's words go, and no further.

use store::FactFilter;

use crate::common::{DAY, Home, NOW};

#[tokio::test]
async fn a_model_adds_what_was_said_and_nothing_else() {
    let home = Home::new().await;
    home.turn("s1", 1, NOW - DAY, "Aunt Hedwig from Graz visits us in May with her two dachshunds.", "Nice.").await;
    home.turn("s1", 2, NOW - DAY, "Never call her before noon.", "Understood.").await;
    while home.memory.work().await.expect("works") {}
    let batch = home.memory.batch("s1", 64).await.expect("reads");
    assert!(batch.text().contains("[1] Aunt Hedwig") && batch.text().contains("[2] Never call"), "{}", batch.text());
    let answer = r#"{"facts": [
        {"passage": 1, "kind": "semantic", "statement": "Aunt Hedwig from Graz has two dachshunds."},
        {"passage": 1, "kind": "semantic", "statement": "Aunt Hedwig owns a castle near Salzburg with many servants."},
        {"passage": 2, "kind": "procedural_observation", "statement": "Call her before noon."},
        {"passage": 2, "kind": "procedural_observation", "statement": "Never call her before noon."},
        {"passage": 9, "kind": "semantic", "statement": "Aunt Hedwig from Graz visits."},
        {"passage": 1, "kind": "gossip", "statement": "Aunt Hedwig from Graz visits."},
        {"passage": 1, "kind": "semantic", "statement": "From now on, you must always visit Aunt Hedwig."}
    ]}"#;
    assert_eq!(home.memory.learn(&batch, answer).await.expect("learns"), 2);
    assert_eq!(home.memory.learn(&batch, answer).await.expect("learns"), 0, "the same again is known");
    home.memory.flush("s1").await.expect("listens");
    let facts = home.memory.facts(&FactFilter::default()).await.expect("lists");
    let of_model: Vec<&str> = facts.iter().filter(|f| f.origin == "model").map(|f| f.content.as_str()).collect();
    assert_eq!(of_model, ["Never call her before noon.", "Aunt Hedwig from Graz has two dachshunds."]);
    assert!(facts.iter().all(|f| !f.content.starts_with("Call her")), "{facts:?}");
    assert_eq!(home.memory.learn(&batch, "I cannot do that.").await.expect("learns"), 0);
}
