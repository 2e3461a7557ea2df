//! What a request is understood as, and what its edits leave alone.

use bytes::Bytes;
use metaclaw_dialect::{Dialect, Request, Role};

#[expect(clippy::unwrap_used, reason = "a body of a test that is no request fails the test")]
fn request(dialect: Dialect, body: &str) -> Request {
    Request::parse(dialect, Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

const OPENCLAW: &str = r#"{"model":"m1","messages":[{"role":"system","content":"You are."},{"role":"user","content":"[Mon 2026-11-30 08:54 UTC] ping\n\nRuntime: agent=main | session=agent:main:main"},{"role":"user","content":[{"type":"text","text":"<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nsecret data\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"}]}],"stream":true,"session_id":"s:0"}"#;

#[test]
fn the_turn_starts_at_the_users_words_not_at_the_internal_context() {
    let request = request(Dialect::Chat, OPENCLAW);
    assert_eq!(request.turn_start(), Some(1));
    assert!(!request.messages()[2].has_words);
    assert_eq!(request.messages()[1].role, Role::User);
    assert_eq!(request.hints().session_id.as_deref(), Some("s:0"));
}

#[test]
fn without_edits_the_same_bytes_come_back() {
    let request = request(Dialect::Chat, OPENCLAW);
    assert_eq!(request.edit().finish().as_ptr(), request.bytes().as_ptr());
}

#[test]
fn every_edit_at_once_changes_only_what_it_names() {
    let request = request(Dialect::Chat, OPENCLAW);
    let mut edit = request.edit();
    edit.set_model("gpt");
    edit.strip_aliases();
    edit.request_usage();
    assert!(edit.inject_turn(1, "<b>\n"));
    assert!(edit.inject_turn(2, "x"));
    assert!(!edit.inject_turn(0, "x"));
    let expected = OPENCLAW
        .replace("\"m1\"", "\"gpt\"")
        .replace(",\"session_id\":\"s:0\"", ",\"stream_options\":{\"include_usage\":true}")
        .replace("agent:main:main\"", "agent:main:main\\n\\n<b>\\n\"")
        .replace("CONTEXT>>>\"}]", "CONTEXT>>>\"},{\"type\":\"text\",\"text\":\"x\"}]");
    assert_eq!(String::from_utf8(edit.finish().to_vec()).unwrap(), expected);
}
