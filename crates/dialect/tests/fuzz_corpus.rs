//! The fuzz bodies over the corpus, over every beginning of its files and over files with single bytes exchanged.

use std::path::PathBuf;

use metaclaw_dialect::Dialect;

#[path = "../fuzz/src/bodies.rs"]
mod bodies;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = files.filter_map(|file| std::fs::read(file.ok()?.path()).ok()).collect();
    files.sort();
    files
}

fn replay(target: &str, body: impl Fn(&[u8])) {
    replay_at(target, 400, body);
}

/// At so many points of each file.
fn replay_at(target: &str, points: usize, body: impl Fn(&[u8])) {
    const EXCHANGED: [u8; 12] = [b'"', b'\\', b'{', b'}', b'[', b']', b',', b':', b'0', b'u', 0, 0xFF];
    let files = corpus(target);
    assert!(!files.is_empty(), "the corpus of {target} is missing");
    for file in files {
        body(&file);
        // Long files in larger steps, so that the work stays the same.
        let step = file.len() / points + 1;
        for at in (0..file.len()).step_by(step) {
            body(&file[..at]);
            let mut changed = file.clone();
            for byte in EXCHANGED {
                changed[at] = byte;
                body(&changed);
            }
        }
    }
}

#[test]
fn json_holds_on_the_corpus() {
    replay("json", bodies::json);
}

#[test]
fn json_holds_on_the_request_corpora() {
    for target in ["request_chat", "request_responses", "request_messages"] {
        replay(target, bodies::json);
    }
}

#[test]
fn chat_requests_hold_on_the_corpus() {
    replay("request_chat", |data| bodies::request(Dialect::Chat, data));
}

#[test]
fn responses_requests_hold_on_the_corpus() {
    replay("request_responses", |data| bodies::request(Dialect::Responses, data));
}

#[test]
fn messages_requests_hold_on_the_corpus() {
    replay("request_messages", |data| bodies::request(Dialect::Messages, data));
}

#[test]
fn event_streams_hold_on_the_corpus() {
    replay("sse", bodies::sse);
}

#[test]
fn relays_hold_on_the_corpus() {
    replay_at("relay", 80, bodies::relay);
}
