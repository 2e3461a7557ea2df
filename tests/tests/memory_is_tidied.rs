//! Behind the requests: facts that say the same or the opposite are settled, told, shown with the reason and taken back by hand;
//! an ended session is summed up by the configured model, in the call that takes its facts.

use metaclaw_tests::agent::Chat;
use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::product::Product;
use metaclaw_tests::provider::{Provider, Reply};
use metaclaw_tests::until;
use serde_json::{Value, json};

async fn listed(product: &Product, more: &[&str]) -> Vec<Value> {
    let page = product.json(&[&["memory", "list"], more].concat()).await;
    page["memories"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn what_says_the_same_or_the_opposite_is_settled_and_can_be_taken_back() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({"memory": {"enabled": true}})).await;
    let add = async |words: &str| {
        let added = product.json(&["memory", "add", words]).await;
        added["id"].as_str().expect("an id").to_owned()
    };
    add("The archive room has a blue door.").await;
    let again = add("Archive room has a blue door").await;
    until("the second gives way", || async {
        (product.json(&["memory", "show", &again]).await["status"] == "superseded").then_some(())
    })
    .await;
    let history = product.json(&["memory", "history", &again]).await;
    let closed =
        history.as_array().expect("a list").iter().find(|m| m["id"] == again.as_str()).expect("is listed").clone();
    assert_eq!((history.as_array().map(Vec::len), &closed["gave_way"]), (Some(2), &json!("same")), "{history}");
    assert!(product.cli(&["memory", "history", &again]).await.out.contains("the other says the same"));
    assert!(product.cli(&["logs", "-n", "200"]).await.all().contains("facts gave way to others"));
    product.json(&["memory", "undo", &again]).await;
    assert_eq!(product.cli(&["memory", "undo", &again]).await.code, 1, "once");
    let done = product.json(&["memory", "maintain"]).await;
    assert_eq!(done["closed"], 0, "the pair is left alone: {done}");
    assert_eq!(listed(&product, &["--status", "active"]).await.len(), 2);
}

#[tokio::test]
async fn an_ended_session_is_summed_up_in_one_call_and_the_summary_goes_with_its_sources() {
    let provider = Provider::start().await;
    let changes = json!({"memory": {"enabled": true, "extract_with_model": true, "flush_every": 50}, "skills": {"enabled": false}});
    let product = Product::started(&provider, &changes).await;
    let agent = product.agent();
    let chat = Chat::new(Api::Chat).user("I move to Graz in May with my two dachshunds.").send(&agent).await;
    let chat = chat.user("The flat in the Annenstrasse is my favourite.").send(&agent).await;
    provider.next(Reply::Answer(Answer::text("Fingers crossed.")));
    let summary = "The user moves to Graz in May with two dachshunds; the flat in the Annenstrasse is still open.";
    let answer = json!({
        "facts": [{"passage": 1, "kind": "semantic", "statement": "I move to Graz in May with two dachshunds."}],
        "summary": summary,
    });
    provider.next(Reply::Answer(Answer::text(&answer.to_string())));
    chat.user("Whether I get the flat is still open.").send(&agent.with_header("x-session-done", "1")).await;
    let kept = until("the session is summed up", || async {
        listed(&product, &["--kind", "working_summary"]).await.into_iter().next()
    })
    .await;
    assert_eq!(
        (&kept["content"], &kept["origin"], &kept["speaker"]),
        (&json!(summary), &json!("model"), &json!("summary"))
    );
    let asked = provider.last().text().to_owned();
    assert!(asked.contains("[1] I move to Graz") && asked.contains("user: The flat in the Annenstrasse"), "{asked}");
    assert!(
        listed(&product, &["--status", "active"])
            .await
            .iter()
            .any(|m| m["content"].to_string().contains("with two dachshunds."))
    );

    // In a later conversation what was said comes before it.
    Chat::new(Api::Chat).user("When do I move to Graz with the dachshunds?").send(&agent).await;
    let sent = provider.last().text().to_owned();
    let said = sent.find("I move to Graz in May with").expect("what was said");
    assert!(sent.find("still open.").is_none_or(|summary| said < summary), "{sent}");

    let passages = listed(&product, &["--passages"]).await;
    let flat =
        passages.iter().find(|m| m["content"] == "The flat in the Annenstrasse is my favourite.").expect("is listed");
    product.json(&["memory", "forget", flat["id"].as_str().expect("an id")]).await;
    assert!(listed(&product, &["--kind", "working_summary"]).await.is_empty());
}
