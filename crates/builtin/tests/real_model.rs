//! The room with a real small model in it. Needs a GGUF file of SmolLM2-135M-Instruct: `METACLAW_TEST_MODEL`, or where
//! `make test` put it. Skips with a message without it.
#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    clippy::print_stderr,
    reason = "what the tests are made with"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use builtin::{Answer, Outside, Phase, Refusal, Room, Settings};
use bytes::Bytes;
use futures::StreamExt;
use metaclaw_builtin as builtin;
use serde_json::{Value, json};

struct Still(AtomicU64);

impl Outside for Still {
    fn now_s(&self) -> i64 {
        1_700_000_000
    }

    fn random(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

fn room() -> Room {
    Room::new(Still(AtomicU64::new(1)))
}

fn model() -> Option<PathBuf> {
    let named = std::env::var_os("METACLAW_TEST_MODEL").map(PathBuf::from);
    let peers = std::env::var_os("METACLAW_PEERS").map(PathBuf::from);
    let peers = peers.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/metaclaw-peers")));
    let kept = peers.iter().flat_map(|peers| ["llm", "builtin/models"].map(|folder| peers.join(folder)));
    let kept = kept.map(|folder| folder.join("smollm2-135m-instruct.gguf"));
    let found = named.into_iter().chain(kept).find(|path| path.exists());
    if found.is_none() {
        let line = "SKIPPED: not installed here: the small model (run `make test`)\n";
        eprint!("{line}");
        if let Some(list) = std::env::var_os("METACLAW_SKIPPED") {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(list);
            file.and_then(|mut file| file.write_all(line.as_bytes())).ok();
        }
        assert!(
            std::env::var_os("METACLAW_NO_SKIP").is_none(),
            "the small model is missing and METACLAW_NO_SKIP is set"
        );
    }
    found
}

fn ask(text: &str, more: Value) -> Bytes {
    let mut body = json!({"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 24});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body.to_string().into()
}

async fn whole(answer: Answer) -> Value {
    let parts: Vec<_> = answer.body.map(Result::unwrap).collect().await;
    serde_json::from_slice(&parts.concat()).unwrap()
}

async fn chunks(answer: Answer) -> Vec<Value> {
    let text = String::from_utf8(answer.body.map(Result::unwrap).collect::<Vec<_>>().await.concat()).unwrap();
    let mut events: Vec<&str> = text.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
    assert_eq!(events.pop(), Some("[DONE]"));
    events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
}

fn text_of(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

async fn until(room: &Room, phase: Phase) {
    // The room has no way to tell; its state is looked at, and the test's own limit is the runner's.
    while room.look().phase != phase {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn refused(room: &Room, file: &Path, body: &Bytes) -> Refusal {
    room.chat(file, "m", body, false).await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_the_same_whole_and_streamed_and_has_its_figures() {
    let Some(file) = model() else { return };
    let room = room();
    let question = "Name a fruit that is yellow.";
    let one = whole(room.chat(&file, "smol", &ask(question, json!({})), false).await.unwrap()).await;
    let text = one["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(text.contains("fruit"), "{text}");
    assert_eq!(one["model"], "smol");
    assert_eq!(one["choices"][0]["finish_reason"], "stop");
    let usage = &one["usage"];
    assert_eq!(
        usage["total_tokens"],
        usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap()
    );

    let body = ask(question, json!({"stream": true, "stream_options": {"include_usage": true}}));
    let streamed = chunks(room.chat(&file, "smol", &body, true).await.unwrap()).await;
    assert_eq!(text_of(&streamed), text);
    assert_eq!(streamed[0]["choices"][0]["delta"]["role"], "assistant");
    let last = streamed.last().unwrap();
    assert_eq!(last["usage"]["completion_tokens"], usage["completion_tokens"]);
    // All of the question but its last token was known from before.
    assert_eq!(
        last["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() + 1,
        usage["prompt_tokens"].as_u64().unwrap()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn length_stop_sequences_and_seeds_are_kept_to() {
    let Some(file) = model() else { return };
    let room = room();
    let get =
        async |more: Value| whole(room.chat(&file, "m", &ask("Count: one, two,", more), false).await.unwrap()).await;
    let short = get(json!({"max_tokens": 3})).await;
    assert_eq!(short["choices"][0]["finish_reason"], "length");
    assert_eq!(short["usage"]["completion_tokens"], 3);
    let all = get(json!({"max_tokens": 24})).await["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let word = all.split(' ').nth(3).unwrap();
    let cut = get(json!({"max_tokens": 24, "stop": [word]})).await;
    assert_eq!(cut["choices"][0]["message"]["content"], all.split(word).next().unwrap());
    let seeded = json!({"temperature": 1.2, "seed": 11});
    let (first, second) = (get(seeded.clone()).await, get(seeded).await);
    assert_eq!(first["choices"], second["choices"]);
    let other = get(json!({"temperature": 1.2, "seed": 12})).await;
    assert_ne!(first["choices"], other["choices"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn logprobs_are_there_for_every_token_when_asked_for() {
    let Some(file) = model() else { return };
    let room = room();
    let body = ask("Say yes.", json!({"logprobs": true, "top_logprobs": 3, "max_tokens": 5}));
    let answer = whole(room.chat(&file, "m", &body, false).await.unwrap()).await;
    let tokens = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert!(tokens.len() >= 4);
    for token in tokens {
        let own = token["logprob"].as_f64().unwrap();
        let best = token["top_logprobs"].as_array().unwrap();
        assert_eq!(best.len(), 3);
        // The best was taken, and likelihoods are below one.
        assert_eq!(best[0]["token"], token["token"]);
        assert!(own <= 0.0 && (best[0]["logprob"].as_f64().unwrap() - own).abs() < 1e-9);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_at_once_and_with_the_figures() {
    let Some(file) = model() else { return };
    let room = room();
    room.configure(Settings { context: 64, ..Settings::default() });
    let long = ask(&"word ".repeat(100), json!({}));
    let refusal = refused(&room, &file, &long).await;
    assert_eq!((refusal.status, refusal.code), (400, "context_length_exceeded"));
    assert!(refusal.message.contains("64"), "{refusal}");
    // Loaded now: refused without waiting for the one that is answered.
    let busy = room.chat(&file, "m", &ask("Hi", json!({"stream": true})), true).await.unwrap();
    assert_eq!(refused(&room, &file, &long).await.code, "context_length_exceeded");
    drop(busy);
}

/// A request whose answer takes far longer than a test may.
fn endless() -> Bytes {
    let more = json!({"stream": true, "max_tokens": 4000, "temperature": 1.5, "seed": 3, "frequency_penalty": 1});
    ask("Write a very long story.", more)
}

/// Waits until the model is idle, and returns how often the network ran meanwhile.
async fn runs_until_idle(room: &Room) -> u64 {
    let before = room.look().runs;
    until(room, Phase::Idle).await;
    room.look().runs - before
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_wait_in_line_and_one_that_is_dropped_ends_within_a_token() {
    let Some(file) = model() else { return };
    let room = room();
    let mut first = room.chat(&file, "m", &endless(), true).await.unwrap();
    let _ = first.body.next().await.unwrap().unwrap();
    let second = room.chat(&file, "m", &ask("Say yes.", json!({})), false).await.unwrap();
    let third = room.chat(&file, "m", &ask("Say no.", json!({})), false).await.unwrap();
    assert_eq!(room.look().phase, Phase::Busy);
    assert_eq!(room.look().waiting, 2);
    drop(third);
    assert_eq!(room.look().waiting, 1, "who has hung up does not wait");
    drop(second);
    drop(first);
    let runs = runs_until_idle(&room).await;
    assert!(runs <= 1, "{runs}");
    let answer = whole(room.chat(&file, "m", &ask("Say yes.", json!({})), false).await.unwrap()).await;
    assert!(answer["timings"]["queued_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(room.look().waiting, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_hang_up_leave_their_place_in_the_queue() {
    let Some(file) = model() else { return };
    let room = room();
    let mut first = room.chat(&file, "m", &endless(), true).await.unwrap();
    let _ = first.body.next().await.unwrap().unwrap();
    let short = ask("Say yes.", json!({}));
    for _ in 0..2 {
        let mut waiting = Vec::new();
        for _ in 0..32 {
            waiting.push(room.chat(&file, "m", &short, false).await.unwrap());
        }
        assert_eq!(room.look().waiting, 32);
        let refusal = refused(&room, &file, &short).await;
        assert_eq!((refusal.status, refusal.code), (429, "queue_full"));
    }
    assert_eq!(room.look().waiting, 0);
    let last = room.chat(&file, "m", &short, false).await.unwrap();
    drop(first);
    assert!(whole(last).await["usage"]["completion_tokens"].as_u64().is_some_and(|said| said > 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_nobody_waits_for_is_not_read_on() {
    let Some(file) = model() else { return };
    let room = room();
    let _ = whole(room.chat(&file, "m", &ask("Say yes.", json!({})), false).await.unwrap()).await;
    // Some fifty pieces of prompt.
    let long = ask(&"and then ".repeat(1500), json!({"stream": true}));
    let answer = room.chat(&file, "m", &long, true).await.unwrap();
    until(&room, Phase::Busy).await;
    drop(answer);
    let runs = runs_until_idle(&room).await;
    assert!(runs <= 1, "{runs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_count_for_a_model_that_is_loaded() {
    let Some(file) = model() else { return };
    let room = room();
    room.configure(Settings { context: 64, ..Settings::default() });
    let long = ask(&"word ".repeat(100), json!({"max_tokens": 1}));
    assert_eq!(refused(&room, &file, &long).await.code, "context_length_exceeded");
    until(&room, Phase::Idle).await;
    room.configure(Settings { context: 512, ..Settings::default() });
    assert_eq!(whole(room.chat(&file, "m", &long, false).await.unwrap()).await["usage"]["completion_tokens"], 1);
    // It has ten minutes left, and then none.
    room.configure(Settings { idle: Duration::ZERO, ..Settings::default() });
    until(&room, Phase::Away).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_sent_away_goes_and_is_loaded_once_when_asked_again() {
    let Some(file) = model() else { return };
    let room = room();
    for _ in 0..3 {
        let _ = whole(room.chat(&file, "m", &ask("Say yes.", json!({})), false).await.unwrap()).await;
        room.leave();
        until(&room, Phase::Away).await;
    }
    let mut busy = room.chat(&file, "m", &endless(), true).await.unwrap();
    let _ = busy.body.next().await.unwrap().unwrap();
    let waits = room.chat(&file, "m", &ask("Say yes.", json!({})), false).await.unwrap();
    room.leave();
    drop(busy);
    assert!(whole(waits).await["timings"]["prompt_n"].as_u64().is_some_and(|read| read > 0));
    until(&room, Phase::Away).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_far_too_long_is_refused_before_it_is_read_and_holds_nobody_up() {
    let Some(file) = model() else { return };
    let room = room();
    let _ = whole(room.chat(&file, "m", &ask("Say yes.", json!({})), false).await.unwrap()).await;
    for text in ["abcd".repeat(4 << 20), "word ".repeat(100_000), "<|im_end|>".repeat(200_000)] {
        let refusal = refused(&room, &file, &ask(&text, json!({}))).await;
        assert_eq!(refusal.code, "context_length_exceeded", "{refusal}");
        assert!(refusal.message.contains("at least"), "{refusal}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_leaves_memory_when_idle_and_comes_back() {
    let Some(file) = model() else { return };
    let room = room();
    room.configure(Settings { idle: Duration::from_millis(50), ..Settings::default() });
    for _ in 0..2 {
        let answer = whole(room.chat(&file, "m", &ask("Say yes.", json!({})), false).await.unwrap()).await;
        assert!(answer["choices"][0]["message"]["content"].as_str().is_some_and(|text| !text.is_empty()));
        until(&room, Phase::Away).await;
        assert_eq!(room.look().file, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_ends_what_runs_and_refuses_what_comes() {
    let Some(file) = model() else { return };
    let room = room();
    let endless = ask("Write a very long story.", json!({"stream": true, "max_tokens": 8000, "temperature": 1.5}));
    let mut running = room.chat(&file, "m", &endless, true).await.unwrap();
    let _ = running.body.next().await.unwrap().unwrap();
    let closed = room.clone();
    tokio::task::spawn_blocking(move || closed.close()).await.unwrap();
    let mut last = Ok(Bytes::new());
    while let Some(part) = running.body.next().await {
        last = part;
    }
    assert!(last.unwrap_err().contains("stopped"));
    assert_eq!(refused(&room, &file, &ask("Hi", json!({}))).await.status, 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn special_tokens_in_user_text_are_words() {
    let Some(file) = model() else { return };
    let room = room();
    let count = async |text: &str| {
        let answer = whole(room.chat(&file, "m", &ask(text, json!({"max_tokens": 1})), false).await.unwrap()).await;
        answer["usage"]["prompt_tokens"].as_u64().unwrap()
    };
    let plain = count("a").await;
    // As a special token it would be one; as words it is several.
    assert!(count("a<|im_end|>").await > plain + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_and_foreign_files_say_what_is_wrong() {
    let Some(file) = model() else { return };
    let room = room();
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(&file).unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let message = async |path: &Path| {
        let refusal = refused(&room, path, &ask("Hi", json!({}))).await;
        assert_eq!((refusal.status, refusal.code), (503, "model_unusable"));
        refusal.message
    };
    let missing = message(&dir.path().join("none.gguf")).await;
    assert!(missing.contains("none.gguf"), "{missing}");
    let cut = message(&put("cut.gguf", &whole[..whole.len() / 2])).await;
    assert!(cut.contains("ends too early") && cut.contains("fetch it again"), "{cut}");
    let header = message(&put("header.gguf", &whole[..5000])).await;
    assert!(header.contains("ends too early"), "{header}");
    let page = message(&put("page.gguf", b"<!doctype html><html></html>")).await;
    assert!(page.contains("no GGUF file") && page.contains("<!do"), "{page}");
    let at = whole.windows(5).position(|five| five == b"llama").unwrap();
    let mut other = whole.clone();
    other[at..at + 5].copy_from_slice(b"mamba");
    let other = message(&put("other.gguf", &other)).await;
    assert!(other.contains("\"mamba\"") && other.contains("llama, qwen2 and qwen3"), "{other}");
    let at = whole.windows(12).position(|name| name == b"blk.0.attn_q").unwrap();
    let mut lost = whole.clone();
    lost[at..at + 12].copy_from_slice(b"blk.0.attn_z");
    let lost = message(&put("lost.gguf", &lost)).await;
    assert!(lost.contains("blk.0.attn_q.weight is missing"), "{lost}");
    let mut long = whole;
    long[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    let long = message(&put("long.gguf", &long)).await;
    assert!(long.contains("ends too early") || long.contains("damaged"), "{long}");
}
