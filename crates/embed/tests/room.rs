//! The thread of a local model, with a model of one small layer; and an endpoint that misbehaves.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits for what it started"
)]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaclaw_embed::{Embedder as _, Error, Local, LocalOptions, Remote, RemoteOptions, Side, dot};
use serde_json::{Map, Value, json};

const HIDDEN: usize = 16;

/// A model whose numbers follow a rule.
fn write_model(folder: &Path) {
    let words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "boat", "green", "house"];
    let mut header = Map::new();
    let mut numbers: Vec<u8> = Vec::new();
    let mut add = |name: &str, shape: &[usize]| {
        let from = numbers.len();
        for i in 0..shape.iter().product::<usize>() {
            let x = if name.ends_with("LayerNorm.weight") { 1.0 } else { ((i * 7 + from) as f32 * 0.013).sin() * 0.3 };
            numbers.extend(x.to_le_bytes());
        }
        header.insert(name.to_owned(), json!({"dtype": "F32", "shape": shape, "data_offsets": [from, numbers.len()]}));
    };
    add("embeddings.word_embeddings.weight", &[words.len(), HIDDEN]);
    add("embeddings.position_embeddings.weight", &[32, HIDDEN]);
    add("embeddings.token_type_embeddings.weight", &[2, HIDDEN]);
    let layer = "encoder.layer.0.";
    for norm in ["embeddings", &format!("{layer}attention.output"), &format!("{layer}output")] {
        add(&format!("{norm}.LayerNorm.weight"), &[HIDDEN]);
        add(&format!("{norm}.LayerNorm.bias"), &[HIDDEN]);
    }
    for (dense, to, from) in [
        ("attention.self.query", HIDDEN, HIDDEN),
        ("attention.self.key", HIDDEN, HIDDEN),
        ("attention.self.value", HIDDEN, HIDDEN),
        ("attention.output.dense", HIDDEN, HIDDEN),
        ("intermediate.dense", 24, HIDDEN),
        ("output.dense", HIDDEN, 24),
    ] {
        add(&format!("{layer}{dense}.weight"), &[to, from]);
        add(&format!("{layer}{dense}.bias"), &[to]);
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(numbers);
    std::fs::write(folder.join("model.safetensors"), file).unwrap();
    let config = json!({"model_type": "bert", "hidden_size": HIDDEN, "intermediate_size": 24, "num_attention_heads": 2,
        "num_hidden_layers": 1, "max_position_embeddings": 32});
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let vocab: Map<String, Value> = words.iter().zip(0..).map(|(word, id)| ((*word).to_owned(), id.into())).collect();
    let tokenizer = json!({
        "added_tokens": [{"id": 2, "content": "[CLS]"}, {"id": 3, "content": "[SEP]"}],
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": vocab},
    });
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
}

fn model(folder: &Path, idle: Duration) -> Local {
    write_model(folder);
    Local::new(LocalOptions { folder: folder.to_owned(), threads: 1, idle })
}

async fn until(mut probe: impl FnMut() -> bool) {
    tokio::time::timeout(Duration::from_secs(30), async {
        while !probe() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it comes to pass");
}

#[tokio::test]
async fn a_model_is_read_by_the_first_text_and_goes_when_nothing_comes() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path(), Duration::from_millis(20));
    assert!(!model.look().loaded);
    let texts = ["red boat", "green house", "red boat"].map(str::to_owned);
    let vectors = model.embed(Side::Passage, &texts).await.unwrap();
    assert_eq!(vectors[0], vectors[2]);
    assert!(dot(&vectors[0], &vectors[1]) < 0.999);
    until(|| !model.look().loaded).await;
    // And comes back.
    let again = model.embed(Side::Query, &["green boat".to_owned()]).await.unwrap();
    assert_eq!(again[0].numbers().len(), HIDDEN);
}

#[tokio::test]
async fn texts_are_cut_to_what_the_model_takes() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path(), Duration::from_secs(60));
    let texts = ["red boat ".repeat(5000), String::new(), "\0\u{fffd}".to_owned()];
    assert_eq!(model.embed(Side::Passage, &texts).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_model_that_cannot_be_read_says_what_is_wrong_and_is_read_once_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let model =
        Local::new(LocalOptions { folder: folder.path().to_owned(), threads: 1, idle: Duration::from_secs(60) });
    let text = ["red".to_owned()];
    let error = model.embed(Side::Query, &text).await.unwrap_err();
    assert!(error.to_string().contains("config.json"), "{error}");
    assert!(model.look().failed.is_some());
    write_model(folder.path());
    let whole = std::fs::read(folder.path().join("model.safetensors")).unwrap();
    std::fs::write(folder.path().join("model.safetensors"), &whole[..whole.len() - 100]).unwrap();
    let error = model.embed(Side::Query, &text).await.unwrap_err();
    assert!(error.to_string().contains("cut short"), "{error}");
    std::fs::write(folder.path().join("model.safetensors"), whole).unwrap();
    assert!(model.embed(Side::Query, &text).await.is_ok());
    assert_eq!(model.look().failed, None);
}

#[tokio::test]
async fn queries_go_before_passages() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path(), Duration::from_secs(60));
    let passages: Vec<String> = (0..4000).map(|n| format!("{} boat {n}", "red ".repeat(28))).collect();
    let background = {
        let model = model.clone();
        tokio::spawn(async move { model.embed(Side::Passage, &passages).await })
    };
    until(|| model.look().loaded).await;
    assert!(model.embed(Side::Query, &["green house".to_owned()]).await.is_ok());
    assert!(model.look().waiting > 0, "the query waited for all of them");
    assert_eq!(background.await.unwrap().unwrap().len(), 4000);
}

#[tokio::test]
async fn closing_ends_the_waiting_and_what_is_dropped_is_not_computed() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path(), Duration::from_secs(60));
    let passages: Vec<String> = (0..200_000).map(|n| format!("red {n}")).collect();
    // Whoever gives up leaves no work behind.
    let given_up = tokio::time::timeout(Duration::ZERO, model.embed(Side::Passage, &passages)).await;
    assert!(given_up.is_err());
    tokio::time::timeout(Duration::from_secs(20), model.embed(Side::Passage, &["green".to_owned()]))
        .await
        .unwrap()
        .unwrap();
    let waiting = {
        let model = model.clone();
        tokio::spawn(async move { model.embed(Side::Passage, &passages).await })
    };
    until(|| model.look().waiting > 1000).await;
    model.close();
    assert!(matches!(waiting.await.unwrap(), Err(Error::Closed)));
    assert!(matches!(model.embed(Side::Query, &["red".to_owned()]).await, Err(Error::Closed)));
    until(|| !model.look().loaded).await;
}

async fn endpoint(answer: impl Fn(Value) -> (u16, Value) + Send + Sync + 'static) -> (String, Arc<Mutex<Vec<String>>>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let keys: Arc<Mutex<Vec<String>>> = Arc::default();
    let (seen, answer) = (keys.clone(), Arc::new(answer));
    let app = axum::Router::new().route(
        "/v1/embeddings",
        axum::routing::post(move |headers: axum::http::HeaderMap, axum::Json(body): axum::Json<Value>| {
            let key = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
            seen.lock().unwrap().push(key.unwrap_or_default());
            let (status, body) = answer(body);
            async move { (axum::http::StatusCode::from_u16(status).unwrap(), axum::Json(body)) }
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (base, keys)
}

fn remote(base: &str, key: &str) -> Remote {
    let options = RemoteOptions { base: base.to_owned(), key: key.to_owned(), model: "m".to_owned() };
    assert!(key.is_empty() || !format!("{options:?}").contains(key));
    Remote::new(reqwest::Client::new(), options)
}

#[tokio::test]
async fn an_endpoint_is_asked_in_batches_and_its_order_is_mended() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let (base, keys) = endpoint(move |body| {
        counted.fetch_add(1, Ordering::SeqCst);
        assert_eq!(body["model"], "m");
        let texts = body["input"].as_array().unwrap().clone();
        let items = texts.iter().enumerate().rev();
        let data: Vec<Value> = items
            .map(|(at, text)| json!({"index": at, "embedding": [text.as_str().unwrap().len() as f32, 1.0]}))
            .collect();
        (200, json!({"object": "list", "data": data}))
    })
    .await;
    let texts: Vec<String> = (0..130).map(|n| "x".repeat(n)).collect();
    let vectors = remote(&base, "secret-key").embed(Side::Query, &texts).await.unwrap();
    assert_eq!((vectors.len(), calls.load(Ordering::SeqCst)), (130, 3));
    for (n, vector) in vectors.iter().enumerate() {
        assert!((vector.numbers()[0] / vector.numbers()[1] - n as f32).abs() < 1e-2, "{n}");
    }
    assert!(keys.lock().unwrap().iter().all(|key| key == "Bearer secret-key"));
}

#[tokio::test]
async fn an_endpoint_that_gives_something_else_is_an_error_without_the_key() {
    for (status, body, what) in [
        (401, json!({"error": {"message": "no"}}), "key"),
        (404, json!({}), "no model m"),
        (500, json!({}), "500"),
        (200, json!({"data": []}), "0 vectors"),
        (200, json!({"data": [{"embedding": []}]}), "1 vectors"),
        (200, json!({"data": [{"embedding": ["a"]}]}), "embeddings"),
    ] {
        let (base, _) = endpoint(move |_| (status, body.clone())).await;
        let error = remote(&base, "secret-key").embed(Side::Query, &["a".to_owned()]).await.unwrap_err().to_string();
        assert!(error.contains(what) && !error.contains("secret-key"), "{error}");
    }
    let error = remote("http://127.0.0.1:1/v1", "").embed(Side::Query, &["a".to_owned()]).await.unwrap_err();
    assert!(matches!(error, Error::Endpoint { .. }));
}
