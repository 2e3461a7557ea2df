//! Memories are found by what they mean where the settings say so: in another language, by words alone where the model is late
//! or gone, anew for another model, on after a kill, and with nothing left of what is forgotten.

use std::path::Path;

use metaclaw_tests::agent::Chat;
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::Product;
use metaclaw_tests::provider::{Provider, Reply, Stream};
use metaclaw_tests::until;
use serde_json::{Value, json};

const SAID: &str = "Our boat lies at pier nine.";
const ASKED: &str = "船はどこ？";

/// What boats are to the model; told from all else in a file.
const BOAT: [f64; 8] = [0.9, 0.5, 0.25, -0.75, 0.6, -0.3, 0.45, -0.9];

/// A model to which boats are one thing, and each other text one of some others.
fn vector(text: &str) -> Vec<f64> {
    let mut numbers = vec![0.0; 1024];
    let own = 8 + text.bytes().fold(7usize, |sum, b| sum * 31 % 10_007 + usize::from(b)) % 1016;
    numbers[own] = 0.4;
    if ["boat", "船"].iter().any(|word| text.contains(word)) {
        numbers[..BOAT.len()].copy_from_slice(&BOAT);
    }
    numbers
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

fn settings(provider: &Provider, changes: &Value) -> Value {
    let mut settings = json!({
        "memory": {"enabled": true, "retrieval_mode": "hybrid"},
        "skills": {"enabled": false},
        "embedding": {"api_base": provider.base(), "api_model": "tiny", "patience_ms": 5000},
    });
    metaclaw_tests::product::merge(&mut settings, changes);
    settings
}

async fn by_meaning(product: &Product) -> Value {
    product.json(&["status"]).await["memory_by_meaning"].clone()
}

/// Waits until everything that was said has its vector.
async fn made(product: &Product, least: u64) {
    until("all memories have vectors", || async {
        let state = by_meaning(product).await;
        let ready = state["ready"].as_u64().unwrap_or_default();
        (state["on"] == true && ready >= least && state["of"] == ready).then_some(())
    })
    .await;
}

async fn say(product: &Product, words: &str) {
    Chat::new(Api::Chat).user(words).send(&product.agent()).await;
}

/// What the model that answers was sent last.
fn sent(provider: &Provider) -> String {
    let chat = provider.seen().into_iter().rfind(|seen| seen.head.target.ends_with("/completions"));
    chat.map(|seen| seen.text().to_owned()).unwrap_or_default()
}

fn asked_for(provider: &Provider, words: &str) -> usize {
    let asked = provider.all().into_iter().filter(|seen| seen.head.target.ends_with("/embeddings"));
    asked.filter(|seen| seen.text().contains(words)).count()
}

/// Files of the database that hold a vector of boats, as it is kept: a byte per number, the greatest 127.
fn files_with_vector(home: &Path) -> usize {
    let files = std::fs::read_dir(home).expect("the home").flatten();
    let ours = files.filter(|entry| entry.file_name().to_string_lossy().starts_with("metaclaw.db"));
    let is_it = |bytes: &[u8]| {
        bytes.iter().zip(BOAT).all(|(byte, x)| (f64::from(byte.cast_signed()) - x / 0.9 * 127.0).abs() < 2.0)
    };
    ours.filter(|entry| std::fs::read(entry.path()).unwrap_or_default().windows(BOAT.len()).any(is_it)).count()
}

#[tokio::test]
async fn what_was_said_in_another_language_is_found_and_the_trace_says_why() {
    let provider = Provider::start().await;
    provider.script(|seen| seen.head.target.ends_with("/embeddings").then(|| answer(&seen.json())));
    let product = Product::started(&provider, &settings(&provider, &json!({}))).await;
    say(&product, SAID).await;
    made(&product, 1).await;
    say(&product, ASKED).await;
    assert!(sent(&provider).contains("pier nine"), "{}", sent(&provider));
    let turn = product.turns().await.into_iter().find(|turn| turn.to_string().contains("by meaning"));
    assert!(turn.is_some(), "no turn says why");
    let found = product.json(&["memory", "search", ASKED]).await;
    assert!(found.to_string().contains("pier nine"), "{found}");
    say(&product, "Write a haiku about autumn leaves").await;
    assert!(!sent(&provider).contains("pier nine"), "{}", sent(&provider));
}

#[tokio::test]
async fn a_model_that_hangs_costs_no_more_than_a_turn_may_wait_and_words_count() {
    let provider = Provider::start().await;
    provider.script(|seen| {
        let question = seen.head.target.ends_with("/embeddings") && seen.text().contains("our boat lie?");
        if question {
            return Some(Stream::begin().hang());
        }
        seen.head.target.ends_with("/embeddings").then(|| answer(&seen.json()))
    });
    let product = Product::started(&provider, &settings(&provider, &json!({"embedding": {"patience_ms": 300}}))).await;
    say(&product, SAID).await;
    made(&product, 1).await;
    say(&product, "Where does our boat lie?").await;
    assert!(sent(&provider).contains("pier nine"), "{}", sent(&provider));
    let told = product.turns().await.into_iter().find(|turn| turn.to_string().contains("by words alone"));
    assert!(told.is_some(), "the trace hides it");
    assert!(by_meaning(&product).await["missed"].as_u64() >= Some(1));
}

#[tokio::test]
async fn what_is_forgotten_leaves_no_vector_in_the_files() {
    let provider = Provider::start().await;
    provider.script(|seen| seen.head.target.ends_with("/embeddings").then(|| answer(&seen.json())));
    let product = Product::started(&provider, &settings(&provider, &json!({}))).await;
    say(&product, SAID).await;
    made(&product, 1).await;
    assert!(files_with_vector(&product.home()) > 0, "it never was there");
    let found = product.json(&["memory", "search", ASKED]).await;
    let ids = found["hits"].as_array().into_iter().flatten().filter(|hit| hit.to_string().contains("pier nine"));
    for id in ids.filter_map(|hit| hit["id"].as_str()) {
        let said = product.cli(&["memory", "forget", id]).await;
        // The first takes the others along.
        assert!(said.code == 0 || said.code == 5, "{said:?}");
    }
    assert_eq!(files_with_vector(&product.home()), 0, "its vector is left");
    say(&product, ASKED).await;
    assert!(!sent(&provider).contains("pier nine"), "{}", sent(&provider));
}

#[tokio::test]
async fn another_model_makes_all_vectors_anew_and_a_kill_loses_none() {
    let provider = Provider::start().await;
    provider.script(|seen| seen.head.target.ends_with("/embeddings").then(|| answer(&seen.json())));
    let mut product = Product::started(&provider, &settings(&provider, &json!({}))).await;
    say(&product, SAID).await;
    made(&product, 1).await;
    let before = asked_for(&provider, SAID);
    product.kill().await;
    product.start().await;
    made(&product, 1).await;
    assert_eq!(asked_for(&provider, "pier nine"), asked_for(&provider, SAID));
    assert_eq!(asked_for(&provider, SAID), before, "a vector was made twice");
    let set = product.cli(&["config", "set", "embedding.api_model", "another"]).await;
    assert_eq!(set.code, 0, "{set:?}");
    until("the new model has made them", || async {
        let state = by_meaning(&product).await;
        let new = state["model"].as_str().is_some_and(|model| model.starts_with("another@"));
        (new && asked_for(&provider, SAID) > before).then_some(())
    })
    .await;
    made(&product, 1).await;
    say(&product, ASKED).await;
    assert!(sent(&provider).contains("pier nine"), "{}", sent(&provider));
}

#[tokio::test]
async fn vectors_go_on_being_made_after_a_kill_in_the_middle() {
    let provider = Provider::start().await;
    // Takes one batch of what was said, and no more until it is told.
    let hold = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let held = hold.clone();
    provider.script(move |seen| {
        if !seen.head.target.ends_with("/embeddings") {
            return None;
        }
        let later = seen.text().contains("second part");
        if later && held.load(std::sync::atomic::Ordering::SeqCst) {
            return Some(Stream::begin().hang());
        }
        Some(answer(&seen.json()))
    });
    let mut product = Product::started(&provider, &settings(&provider, &json!({}))).await;
    say(&product, SAID).await;
    made(&product, 1).await;
    hold.store(true, std::sync::atomic::Ordering::SeqCst);
    say(&product, "The second part of the story is about an otter.").await;
    until("the second part is asked for", || async { (asked_for(&provider, "second part") > 1).then_some(()) }).await;
    product.kill().await;
    hold.store(false, std::sync::atomic::Ordering::SeqCst);
    let before = asked_for(&provider, SAID);
    product.start().await;
    made(&product, 2).await;
    assert_eq!(asked_for(&provider, SAID), before, "what was done was done again");
}

#[tokio::test]
async fn auto_sends_nothing_that_is_remembered_to_an_endpoint_and_says_so() {
    let provider = Provider::start().await;
    provider.script(|seen| seen.head.target.ends_with("/embeddings").then(|| answer(&seen.json())));
    let product =
        Product::started(&provider, &settings(&provider, &json!({"memory": {"retrieval_mode": "auto"}}))).await;
    say(&product, SAID).await;
    say(&product, "Where does our boat lie?").await;
    assert!(sent(&provider).contains("pier nine"), "words do not count");
    let state = by_meaning(&product).await;
    assert!(state["on"] == false && state["reason"].as_str().is_some_and(|why| why.contains("endpoint")), "{state}");
    assert!(product.cli(&["status"]).await.all().contains("memory by meaning"), "status hides it");
    assert_eq!(asked_for(&provider, "boat"), 0);
    // Switched on while it runs.
    let set = product.cli(&["config", "set", "memory.retrieval_mode", "hybrid"]).await;
    assert_eq!(set.code, 0, "{set:?}");
    made(&product, 1).await;
    say(&product, ASKED).await;
    assert!(sent(&provider).contains("pier nine"), "{}", sent(&provider));
}
