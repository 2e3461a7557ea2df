//! Retention: what is older than the settings say is named by a dry run, deleted by hand or by itself, and then in no file;
//! what is pinned and what is new stays.

use std::path::Path;

use metaclaw_tests::agent::Chat;
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::Product;
use metaclaw_tests::provider::Provider;
use metaclaw_tests::until;
use serde_json::json;

/// The files of the database, and what lies beside it, that hold these words.
fn files_with(home: &Path, words: &str) -> Vec<String> {
    let files = std::fs::read_dir(home).expect("the home").filter_map(Result::ok).map(|entry| entry.path());
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let ours = files.filter(|path| name(path).starts_with("metaclaw.db"));
    let holds = |path: &Path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(words.len()).any(|part| part == words.as_bytes())
    };
    ours.filter(|path| holds(path)).map(|path| name(&path)).collect()
}

/// Says something long ago, and something now.
async fn said(product: &Product) {
    let agent = product.agent();
    for (session, words) in [("a", "My locker code word is xylophonist."), ("b", "My boat is called Quetzalcoatl.")] {
        let turn = json!({
            "session_id": session, "turn": {"prompt_text": words, "response_text": "Noted."},
            "timestamp": "2020-03-01T10:00:00Z",
        });
        assert_eq!(agent.post("/v1/memory/buffer_turn", turn.to_string()).await.status(), 200);
    }
    Chat::new(Api::Chat).user("The boat needs new sails before summer.").send(&agent).await;
    product.json(&["memory", "maintain"]).await;
    let facts = product.json(&["memory", "list"]).await;
    let boat = facts["memories"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|fact| fact["content"].as_str().is_some_and(|content| content.contains("Quetzalcoatl")));
    product.json(&["memory", "pin", boat.expect("was learned")["id"].as_str().expect("an id")]).await;
}

#[tokio::test]
async fn what_is_over_its_time_is_named_before_it_goes() {
    let provider = Provider::start().await;
    let mut product = Product::started(&provider, &json!({"memory": {"enabled": true}})).await;
    said(&product).await;
    let dry = product.json(&["memory", "maintain", "--dry-run"]).await;
    assert_eq!((&dry["dry_run"], &dry["retired"]["facts"]), (&json!(true), &json!(0)), "kept for ever: {dry}");
    product.stop().await;

    // Without a service, it is done by hand alone.
    product.json(&["config", "set", "memory.retention_days", "30"]).await;
    let dry = product.json(&["memory", "maintain", "--dry-run"]).await;
    assert_eq!(dry["retired"]["facts"], 1, "{dry}");
    assert!(dry["retired"]["passages"].as_u64() >= Some(2), "{dry}");
    assert!(dry["going"][0]["content"].as_str().is_some_and(|c| c.contains("xylophonist")), "{dry}");
    assert_ne!(files_with(&product.home(), "xylophonist"), [""; 0], "a dry run changes nothing");
    let done = product.json(&["memory", "maintain"]).await;
    assert_eq!((&done["dry_run"], &done["retired"]["facts"]), (&json!(false), &json!(1)), "{done}");
    assert_eq!(files_with(&product.home(), "xylophonist"), [""; 0]);
    assert_ne!(files_with(&product.home(), "Quetzalcoatl"), [""; 0], "what is pinned stays");
    assert_ne!(files_with(&product.home(), "new sails"), [""; 0], "what is new stays");
}

#[tokio::test]
async fn a_running_service_lets_it_go_by_itself_and_tells() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({"memory": {"enabled": true}})).await;
    said(&product).await;
    assert_ne!(files_with(&product.home(), "xylophonist"), [""; 0]);
    product.json(&["config", "set", "memory.retention_days", "30"]).await;
    until("it is in no file", || async { files_with(&product.home(), "xylophonist").is_empty().then_some(()) }).await;
    until("it is told", || async {
        product.cli(&["logs", "-n", "200"]).await.all().contains("what was over its time is deleted").then_some(())
    })
    .await;
    let found = product.json(&["memory", "search", "what is my boat called"]).await;
    assert!(found["hits"].to_string().contains("Quetzalcoatl"), "{found}");
}
