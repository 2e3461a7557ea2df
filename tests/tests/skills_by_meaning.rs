//! Skills are found by what they mean where the settings say so, and by their words alone where the model is late or gone.

use metaclaw_tests::agent::Chat;
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::Product;
use metaclaw_tests::provider::{Provider, Reply, Stream};
use metaclaw_tests::until;
use serde_json::{Value, json};

const MARK: &str = "Say who was asked first.";

/// A model to which everything about boats is one thing, small talk another, and each other text a third.
fn vector(text: &str) -> Value {
    let boats = ["harbour", "boat", "vessel"].iter().any(|word| text.contains(word));
    if boats { json!([1.0, 0.1, 0.0]) } else { json!([0.0, 1.0, text.len() as f64 / 100.0]) }
}

fn answer(body: &Value) -> Reply {
    let texts = body["input"].as_array().cloned().unwrap_or_default();
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(at, text)| json!({"index": at, "embedding": vector(text.as_str().unwrap_or_default())}))
        .collect();
    Reply::json(200, &json!({"data": data}))
}

async fn product(provider: &Provider, changes: &Value) -> Product {
    let mut settings = json!({
        "skills": {"retrieval_mode": "hybrid"},
        "embedding": {"api_base": provider.base(), "api_model": "tiny", "patience_ms": 5000},
    });
    metaclaw_tests::product::merge(&mut settings, changes);
    let mut product = Product::at(provider, &settings);
    product.write_skill("harbour-office", "Letters to the harbour office. Use when a berth is asked for.", MARK);
    product.start().await;
    product
}

async fn by_meaning(product: &Product) -> Value {
    product.json(&["status"]).await["by_meaning"].clone()
}

#[tokio::test]
async fn a_skill_that_shares_no_word_with_the_question_is_found() {
    let provider = Provider::start().await;
    provider.script(|seen| seen.head.target.ends_with("/embeddings").then(|| answer(&seen.json())));
    let product = product(&provider, &json!({})).await;
    until("all skills have vectors", || async { (by_meaning(&product).await["on"] == true).then_some(()) }).await;
    Chat::new(Api::Chat).user("where can my vessel stay tonight").send(&product.agent()).await;
    let turn = product.turns().await.remove(0);
    assert!(turn.to_string().contains("harbour-office"), "{turn}");
    let sent = provider.seen().into_iter().rfind(|seen| seen.head.target.ends_with("/completions"));
    assert!(sent.is_some_and(|seen| seen.text().contains(MARK)));
    // A person who asks what a turn would get is told the same.
    let told = product.cli(&["skills", "search", "where can my vessel stay tonight"]).await;
    assert!(told.all().contains("harbour-office"), "{}", told.all());
    Chat::new(Api::Chat).user("I slept badly").send(&product.agent()).await;
    let talk = product.turns().await.into_iter().find(|turn| !turn.to_string().contains("harbour-office"));
    assert!(talk.is_some(), "small talk was given the skill");
    // After a start, nothing is asked for twice.
    let before = provider.all().iter().filter(|seen| seen.head.target.ends_with("/embeddings")).count();
    let mut product = product;
    product.stop().await;
    product.start().await;
    until("all skills have vectors", || async { (by_meaning(&product).await["on"] == true).then_some(()) }).await;
    assert_eq!(provider.all().iter().filter(|seen| seen.head.target.ends_with("/embeddings")).count(), before);
}

#[tokio::test]
async fn a_model_that_hangs_costs_a_turn_no_more_than_it_may_wait() {
    let provider = Provider::start().await;
    provider.script(|seen| {
        let question = seen.head.target.ends_with("/embeddings") && seen.text().contains("berth for the vessel");
        if question {
            return Some(Stream::begin().hang());
        }
        seen.head.target.ends_with("/embeddings").then(|| answer(&seen.json()))
    });
    let product = product(&provider, &json!({"embedding": {"patience_ms": 40}})).await;
    until("all skills have vectors", || async { (by_meaning(&product).await["on"] == true).then_some(()) }).await;
    Chat::new(Api::Chat).user("a letter to the harbour office: berth for the vessel").send(&product.agent()).await;
    let turn = product.turns().await.remove(0).to_string();
    assert!(turn.contains("harbour-office") && turn.contains("by words alone"), "{turn}");
    assert_eq!(by_meaning(&product).await["missed"], 1);
}

#[tokio::test]
async fn without_a_model_words_count_and_the_reason_is_told() {
    let provider = Provider::start().await;
    let product = product(&provider, &json!({"embedding": {"api_base": null, "model": "no-such-model"}})).await;
    let reason =
        until("the reason is told", || async { by_meaning(&product).await["reason"].as_str().map(str::to_owned) })
            .await;
    assert!(reason.contains("no-such-model") && reason.contains("config.json"), "{reason}");
    assert!(product.cli(&["status"]).await.all().contains("by meaning"), "status hides it");
    Chat::new(Api::Chat).user("a letter to the harbour office about a berth").send(&product.agent()).await;
    assert!(product.turns().await.remove(0).to_string().contains("harbour-office"));
}

#[tokio::test]
async fn a_model_that_can_be_fetched_is_named_with_the_way_to_it() {
    let provider = Provider::start().await;
    let product = product(&provider, &json!({"embedding": {"api_base": null, "model": "multilingual-e5-small"}})).await;
    let reason =
        until("the reason is told", || async { by_meaning(&product).await["reason"].as_str().map(str::to_owned) })
            .await;
    assert!(reason.contains("metaclaw models fetch multilingual-e5-small"), "{reason}");
    let models = product.json(&["models", "list"]).await;
    let offers = models["offers"].as_array().unwrap();
    let offer = offers.iter().find(|offer| offer["id"] == "multilingual-e5-small").unwrap();
    assert_eq!((&offer["purpose"], &offer["licence"]), (&json!("search"), &json!("MIT")));
    // Nobody who did not say yes has anything fetched.
    let refused = product.cli(&["models", "fetch", "multilingual-e5-small"]).await;
    assert!(refused.code != 0 && refused.all().contains("488 MB"), "{}", refused.all());
}

#[tokio::test]
async fn a_text_that_is_gone_leaves_no_vector_behind() {
    let provider = Provider::start().await;
    provider.script(|seen| seen.head.target.ends_with("/embeddings").then(|| answer(&seen.json())));
    let product = product(&provider, &json!({})).await;
    until("all skills have vectors", || async { (by_meaning(&product).await["on"] == true).then_some(()) }).await;
    let cache = product.home().join("cache/skill-vectors");
    let before = std::fs::metadata(&cache).unwrap().len();
    assert_eq!(product.cli(&["skills", "remove", "harbour-office"]).await.code, 0);
    until("its vectors are gone", || async {
        std::fs::metadata(&cache).is_ok_and(|meta| meta.len() < before).then_some(())
    })
    .await;
}
