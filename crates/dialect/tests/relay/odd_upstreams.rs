//! Answers that real servers have sent and that broke other proxies. None may become a silent empty answer, a fake end or a 500.

use crate::support::providers::{Piece, Sample, Why};
use crate::support::{clients, run, spec, sse};
use bytes::Bytes;
use metaclaw_dialect::{Block, Dialect, End, ErrorKind, Relay, RelaySpec, Stop, keepalive, relay_whole};
use rstest::rstest;
use serde_json::{Value, json};

const CHAT: Dialect = Dialect::Chat;
const RESPONSES: Dialect = Dialect::Responses;
const MESSAGES: Dialect = Dialect::Messages;

fn chunk(delta: Value) -> String {
    sse(
        "",
        &json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]}).to_string(),
    )
}

fn end(reason: &str) -> String {
    sse(
        "",
        &json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string(),
    )
}

fn usage() -> String {
    sse("", &json!({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 6}}}).to_string())
}

const DONE: &str = "data: [DONE]\n\n";

fn call(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    let mut call = json!({"function": {"arguments": arguments}});
    if let Some(index) = index {
        call["index"] = index.into();
    }
    if let Some(id) = id {
        call["id"] = id.into();
    }
    if let Some(name) = name {
        call["function"]["name"] = name.into();
    }
    json!({"tool_calls": [call]})
}

fn event(data: Value) -> String {
    sse(data["type"].as_str().unwrap(), &data.to_string())
}

fn start() -> String {
    event(
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}}),
    )
}

fn block(index: u64, block: Value, deltas: &[Value]) -> String {
    let mut all = event(json!({"type": "content_block_start", "index": index, "content_block": block}));
    for delta in deltas {
        all += &event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }
    all + &event(json!({"type": "content_block_stop", "index": index}))
}

fn stop(reason: &str) -> String {
    event(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}))
        + &event(json!({"type": "message_stop"}))
}

/// Relays to a client of another dialect and folds what it gets.
fn folded(upstream: Dialect, client: Dialect, stream: &str) -> Value {
    let (out, finished) = run(spec(upstream, client), stream.as_bytes(), &[23], End::Clean);
    assert_eq!(finished.error, None);
    clients::fold(client, &out)
}

fn failure(upstream: Dialect, client: Dialect, stream: &str, end: End) -> (String, metaclaw_dialect::Finished) {
    let (out, finished) = run(spec(upstream, client), stream.as_bytes(), &[23], end);
    assert!(finished.error.is_some(), "{}", String::from_utf8_lossy(&out));
    let out = String::from_utf8(out).unwrap();
    for normal in ["[DONE]", "message_stop", "response.completed"] {
        assert!(!out.contains(normal), "a failed answer ends with {normal}");
    }
    (out, finished)
}

// --- token counts ---

#[test]
fn usage_after_done_arrives_before_the_clients_done() {
    let stream = chunk(json!({"role": "assistant", "content": "hi"})) + &end("stop") + DONE + &usage();
    let mut relay = Relay::new(spec(CHAT, CHAT));
    let relayed = relay.push(&Bytes::from(stream.clone()));
    assert!(relayed.finished);
    assert!(!relay.needs_grace(), "the counts are here");
    let (out, finished) = run(spec(CHAT, CHAT), stream.as_bytes(), &[11], End::Clean);
    assert_eq!(clients::fold(CHAT, &out)["usage"]["prompt_tokens"], 9);
    assert_eq!(finished.answer.usage.cache_read, 6);
    let body = folded(CHAT, MESSAGES, &stream);
    assert_eq!((&body["usage"]["input_tokens"], &body["usage"]["cache_read_input_tokens"]), (&json!(3), &json!(6)));
}

#[test]
fn done_without_usage_asks_for_a_moment_of_grace() {
    let stream = chunk(json!({"role": "assistant", "content": "hi"})) + &end("stop") + DONE;
    let mut relay = Relay::new(spec(CHAT, MESSAGES));
    assert!(relay.push(&Bytes::from(stream)).finished);
    assert!(relay.needs_grace());
}

#[test]
fn a_usage_chunk_nobody_asked_for_is_dropped_and_nothing_else() {
    let head = chunk(json!({"role": "assistant", "content": "hi"})) + &end("stop");
    let stream = head.clone() + &usage() + DONE;
    let spec = RelaySpec { client_wants_usage: false, ..spec(CHAT, CHAT) };
    let (out, finished) = run(spec, stream.as_bytes(), &[7, 64], End::Clean);
    assert_eq!(String::from_utf8(out).unwrap(), head + DONE);
    assert_eq!(finished.answer.usage.input, 9);
}

#[test]
fn usage_in_the_last_content_chunk_is_read_and_left_in_place() {
    let last = sse("", &json!({"id": "c", "choices": [{"index": 0, "delta": {"content": "!"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}).to_string());
    let stream = chunk(json!({"content": "hi"})) + &last + DONE;
    let spec = RelaySpec { client_wants_usage: false, ..spec(CHAT, CHAT) };
    let (out, finished) = run(spec, stream.as_bytes(), &[1000], End::Clean);
    assert_eq!(String::from_utf8(out).unwrap(), stream);
    assert_eq!(finished.answer.usage.output, 2);
}

#[test]
fn cached_tokens_are_counted_apart_for_anthropic_and_together_for_openai() {
    let body = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7, "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 5}, "output_tokens": 3}});
    let (chat, answer) = relay_whole(&spec(MESSAGES, CHAT), &Bytes::from(body.to_string())).unwrap();
    let chat: Value = serde_json::from_slice(&chat).unwrap();
    assert_eq!(chat["usage"]["prompt_tokens"], 117);
    assert_eq!(chat["usage"]["prompt_tokens_details"], json!({"cached_tokens": 100, "cache_write_tokens": 7}));
    assert_eq!((answer.usage.input, answer.usage.cache_write_1h), (117, 5));
    let (back, _) = relay_whole(&spec(CHAT, MESSAGES), &Bytes::from(chat.to_string())).unwrap();
    let back: Value = serde_json::from_slice(&back).unwrap();
    assert_eq!((&back["usage"]["input_tokens"], &back["usage"]["cache_read_input_tokens"]), (&json!(10), &json!(100)));
    assert_eq!(back["usage"]["cache_creation"]["ephemeral_5m_input_tokens"], 7);
}

// --- chunks with pieces missing ---

#[test]
fn missing_roles_empty_choices_and_null_deltas_are_taken() {
    let stream = sse("", r#"{"choices":[],"prompt_filter_results":[]}"#)
        + &sse("", r#"{"choices":[{"delta":null}]}"#)
        + &chunk(json!({"content": "hel"}))
        + ": a comment\n\n"
        + &sse("", "not json")
        + &chunk(json!({"content": "lo"}))
        + DONE;
    let (out, finished) = run(spec(CHAT, MESSAGES), stream.as_bytes(), &[13], End::Clean);
    assert_eq!(clients::fold(MESSAGES, &out)["content"], json!([{"type": "text", "text": "hello"}]));
    assert_eq!(finished.answer.stop, Stop::EndTurn);
    assert_eq!(finished.problem.as_deref(), Some("a stream event is not JSON: not json"));
    // In its own dialect everything passes, whatever it is.
    let (out, _) = run(spec(CHAT, CHAT), stream.as_bytes(), &[13], End::Clean);
    assert_eq!(String::from_utf8(out).unwrap(), stream);
}

#[rstest]
#[case("reasoning_content")]
#[case("reasoning")]
fn thinking_is_read_under_either_name_and_never_mixed_with_words(#[case] field: &str) {
    let stream =
        chunk(json!({"role": "assistant", field: "hm"})) + &chunk(json!({"content": "hi"})) + &end("stop") + DONE;
    let body = folded(CHAT, MESSAGES, &stream);
    assert_eq!(body["content"][0]["thinking"], "hm");
    assert_eq!(body["content"][1]["text"], "hi");
    assert_eq!(folded(CHAT, RESPONSES, &stream)["output"][0]["summary"][0]["text"], "hm");
}

#[test]
fn thinking_under_both_names_is_taken_once() {
    let both = json!({"reasoning": "hm", "reasoning_content": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]});
    let stream = chunk(both) + &chunk(json!({"content": "hi"})) + &end("stop") + DONE;
    assert_eq!(folded(CHAT, MESSAGES, &stream)["content"][0]["thinking"], "hm");
}

#[test]
fn an_answer_without_finish_reason_ends_as_its_content_says() {
    let stream = chunk(call(Some(0), Some("a"), Some("f"), "{}")) + DONE;
    assert_eq!(folded(CHAT, MESSAGES, &stream)["stop_reason"], "tool_use");
    let stream = chunk(json!({"content": "hi"})) + DONE;
    assert_eq!(folded(CHAT, MESSAGES, &stream)["stop_reason"], "end_turn");
    // The reason came, the end marker did not.
    let stream = chunk(json!({"content": "hi"})) + &end("length");
    assert_eq!(folded(CHAT, MESSAGES, &stream)["stop_reason"], "max_tokens");
}

#[test]
fn the_last_event_may_lack_its_line_ends() {
    let stream = chunk(json!({"content": "hi"})) + &end("stop") + "data: [DONE]";
    let (out, finished) = run(spec(CHAT, CHAT), stream.as_bytes(), &[9], End::Clean);
    assert_eq!(finished.error, None);
    assert_eq!(String::from_utf8(out).unwrap(), stream.clone() + "\n\n");
    folded(CHAT, MESSAGES, &stream);
}

// --- tool calls ---

#[test]
fn two_calls_under_one_index_stay_two() {
    let stream = chunk(call(Some(0), Some("a"), Some("f"), "{\"x\":1}"))
        + &chunk(call(Some(0), Some("b"), Some("g"), ""))
        + &chunk(call(Some(0), None, None, "{\"y\":2}"))
        + &end("tool_calls")
        + DONE;
    let body = folded(CHAT, MESSAGES, &stream);
    assert_eq!(
        body["content"],
        json!([
            {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}, {"type": "tool_use", "id": "b", "name": "g", "input": {"y": 2}},
        ])
    );
}

#[test]
fn calls_without_index_or_id_are_told_apart_by_their_names() {
    let stream = chunk(json!({"tool_calls": [
        {"function": {"name": "f", "arguments": {"x": 1}}}, {"function": {"name": "g", "arguments": {"y": 2}}},
    ]})) + &end("stop")
        + DONE;
    let body = folded(CHAT, MESSAGES, &stream);
    assert_eq!(body["stop_reason"], "tool_use", "a call means tool_use whatever the server says");
    assert_eq!(body["content"][0]["input"], json!({"x": 1}));
    assert_eq!(body["content"][1]["name"], "g");
    assert_ne!(body["content"][0]["id"], body["content"][1]["id"]);
}

#[test]
fn id_and_name_repeated_on_every_piece_are_one_call() {
    let stream =
        ["{\"x\"", ":1", "}"].iter().map(|part| chunk(call(Some(0), Some("a"), Some("f"), part))).collect::<String>()
            + &end("tool_calls")
            + DONE;
    let body = folded(CHAT, MESSAGES, &stream);
    assert_eq!(body["content"], json!([{"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}]));
}

#[test]
fn interleaved_calls_are_put_in_order() {
    let stream = chunk(call(Some(0), Some("a"), Some("f"), "{\"x\":"))
        + &chunk(call(Some(1), Some("b"), Some("g"), "{\"y\":"))
        + &chunk(call(Some(0), None, None, "\"}\\\"{\"}"))
        + &chunk(json!({"content": "late words"}))
        + &chunk(call(Some(1), None, None, "2}"))
        + &end("tool_calls")
        + DONE;
    for client in [MESSAGES, RESPONSES] {
        folded(CHAT, client, &stream);
    }
    let body = folded(CHAT, MESSAGES, &stream);
    assert_eq!(body["content"][0]["input"], json!({"x": "}\"{"}));
    assert_eq!(body["content"][1]["input"], json!({"y": 2}));
    assert_eq!(body["content"][2]["text"], "late words");
}

#[test]
fn a_reason_of_tool_calls_without_a_call_is_no_tool_use() {
    let stream = chunk(json!({"content": "hi"})) + &end("tool_calls") + DONE;
    assert_eq!(folded(CHAT, MESSAGES, &stream)["stop_reason"], "end_turn");
}

#[test]
fn a_call_without_arguments_gets_an_empty_object() {
    let stream = chunk(call(Some(0), Some("a"), Some("f"), "")) + &end("tool_calls") + DONE;
    assert_eq!(folded(CHAT, MESSAGES, &stream)["content"][0]["input"], json!({}));
    assert_eq!(folded(CHAT, RESPONSES, &stream)["output"][0]["arguments"], "{}");
}

#[test]
fn arguments_that_come_only_when_done_are_not_lost() {
    let item = json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": ""});
    let mut done = item.clone();
    done["arguments"] = "{\"x\":1}".into();
    let created = event(
        json!({"type": "response.created", "response": {"id": "resp_1", "model": "m", "status": "in_progress", "output": []}}),
    );
    let added = event(json!({"type": "response.output_item.added", "output_index": 0, "item": item}));
    let arguments = event(
        json!({"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "fc_1", "arguments": "{\"x\":1}"}),
    );
    let ended = event(json!({"type": "response.output_item.done", "output_index": 0, "item": done}));
    let completed = event(
        json!({"type": "response.completed", "response": {"id": "resp_1", "model": "m", "status": "completed", "output": [done]}}),
    );
    // Each of the three places alone is enough, and all of them together say it once.
    for middle in
        [vec![&added, &arguments], vec![&added, &ended], vec![&ended], vec![], vec![&added, &arguments, &ended]]
    {
        let middle: String = middle.into_iter().map(String::as_str).collect();
        let stream = format!("{created}{middle}{completed}");
        for client in [CHAT, MESSAGES] {
            let (_, finished) = run(spec(RESPONSES, client), stream.as_bytes(), &[31], End::Clean);
            assert_eq!(finished.answer.blocks, [Block::tool("c1", "f", "{\"x\":1}")]);
        }
        assert_eq!(folded(RESPONSES, MESSAGES, &stream)["content"][0]["input"], json!({"x": 1}));
    }
}

#[test]
fn a_free_text_tool_of_codex_comes_back_as_one() {
    let arguments = json!({"input": "*** Begin\n\"x\""}).to_string();
    let (head, tail) = arguments.split_at(9);
    let stream = chunk(call(Some(0), Some("a"), Some("apply_patch"), head))
        + &chunk(call(Some(0), None, None, tail))
        + &end("tool_calls")
        + DONE;
    let spec = RelaySpec { custom_tools: vec!["apply_patch".to_owned()], ..spec(CHAT, RESPONSES) };
    let (out, _) = run(spec, stream.as_bytes(), &[40], End::Clean);
    let body = clients::fold(RESPONSES, &out);
    assert_eq!(body["output"][0]["type"], "custom_tool_call");
    assert_eq!(body["output"][0]["input"], "*** Begin\n\"x\"");
}

// --- thinking ---

#[test]
fn thinking_after_a_tool_call_gets_a_block_of_its_own() {
    let think = |text: &str| json!({"type": "thinking_delta", "thinking": text});
    let thinking = json!({"type": "thinking", "thinking": "", "signature": ""});
    let stream = start()
        + &block(0, thinking.clone(), &[think("a"), json!({"type": "signature_delta", "signature": "S1"})])
        + &block(
            1,
            json!({"type": "tool_use", "id": "t", "name": "f", "input": {}}),
            &[json!({"type": "input_json_delta", "partial_json": "{}"})],
        )
        + &block(2, thinking, &[think("b"), json!({"type": "signature_delta", "signature": "S2"})])
        + &stop("tool_use");
    let (_, finished) = run(spec(MESSAGES, MESSAGES), stream.as_bytes(), &[29], End::Clean);
    assert_eq!(finished.answer.blocks.len(), 3);
    let body = folded(MESSAGES, CHAT, &stream);
    assert_eq!(body["choices"][0]["message"]["reasoning_content"], "a\n\nb");
    assert_eq!(body["choices"][0]["message"]["reasoning_details"][1]["signature"], "S2");
    // The same from a Chat server: thinking, call, thinking.
    let stream = chunk(json!({"reasoning": "a"}))
        + &chunk(call(Some(0), Some("t"), Some("f"), "{}"))
        + &chunk(json!({"reasoning": "b"}))
        + &end("tool_calls")
        + DONE;
    let kinds: Vec<Value> = folded(CHAT, MESSAGES, &stream)["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].clone())
        .collect();
    assert_eq!(kinds, ["thinking", "tool_use", "thinking"]);
}

#[test]
fn thinking_that_is_only_a_signature_does_not_swallow_the_call_after_it() {
    let stream = start()
        + &block(
            0,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            &[json!({"type": "signature_delta", "signature": "Sig"})],
        )
        + &block(1, json!({"type": "tool_use", "id": "t", "name": "f", "input": {}}), &[])
        + &stop("tool_use");
    let message = folded(MESSAGES, CHAT, &stream)["choices"][0]["message"].clone();
    assert_eq!(message["tool_calls"][0]["function"], json!({"name": "f", "arguments": "{}"}));
    assert_eq!(message["reasoning_details"][0]["signature"], "Sig");
    assert_eq!(folded(MESSAGES, RESPONSES, &stream)["output"][1]["type"], "function_call");
}

#[test]
fn thinking_in_the_wrong_place_or_field_is_still_thinking() {
    // The delta's field is called `text`, and it goes into a text block.
    let stream = start()
        + &event(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}))
        + &event(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "text": "hm"}}))
        + &event(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}))
        + &event(json!({"type": "content_block_stop", "index": 0}))
        + &stop("end_turn");
    let message = folded(MESSAGES, CHAT, &stream)["choices"][0]["message"].clone();
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("hm"), &json!("hi")));
}

// --- ends ---

#[test]
fn a_block_that_is_never_closed_is_closed_for_the_client() {
    let stream = start()
        + &event(
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}}),
        )
        + &event(
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"x\":1}"}}),
        )
        + &stop("tool_use");
    assert_eq!(
        folded(MESSAGES, CHAT, &stream)["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"],
        "{\"x\":1}"
    );
    assert_eq!(folded(MESSAGES, RESPONSES, &stream)["output"][0]["arguments"], "{\"x\":1}");
}

#[test]
fn a_messages_stream_without_its_last_event_gets_one() {
    let whole = start()
        + &block(0, json!({"type": "text", "text": ""}), &[json!({"type": "text_delta", "text": "hi"})])
        + &stop("end_turn");
    let stream = whole.split("event: message_stop").next().unwrap().to_owned();
    let (out, finished) = run(spec(MESSAGES, MESSAGES), stream.as_bytes(), &[50], End::Clean);
    assert_eq!(finished.error, None);
    assert!(String::from_utf8(out).unwrap().ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
}

#[rstest]
fn a_stream_that_breaks_off_ends_with_an_error_in_the_clients_form(
    #[values(CHAT, RESPONSES, MESSAGES)] client: Dialect,
    #[values(CHAT, RESPONSES, MESSAGES)] upstream: Dialect,
) {
    let stream = match upstream {
        CHAT => chunk(json!({"role": "assistant", "content": "hel"})) + "data: {\"id\":\"c\",\"choi",
        MESSAGES => {
            start()
                + &event(
                    json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hel"}}),
                )
        }
        RESPONSES => {
            event(
                json!({"type": "response.created", "sequence_number": 0, "response": {"id": "resp_1", "model": "m", "status": "in_progress", "output": []}}),
            ) + &event(
                json!({"type": "response.output_text.delta", "sequence_number": 1, "output_index": 0, "content_index": 0, "delta": "hel"}),
            )
        }
    };
    let (out, finished) =
        failure(upstream, client, &stream, End::Cut { reason: "the provider reset the connection".to_owned() });
    let last = clients::events(out.as_bytes()).pop().unwrap();
    let data: Value = serde_json::from_str(&last.1).unwrap();
    match client {
        CHAT => assert_eq!(data["error"]["message"], "the provider reset the connection"),
        MESSAGES => {
            assert_eq!(last.0, "error");
            assert_eq!(
                data,
                json!({"type": "error", "error": {"type": "api_error", "message": "the provider reset the connection"}})
            );
        }
        RESPONSES => {
            assert_eq!(last.0, "response.failed");
            assert_eq!(data["response"]["status"], "failed");
            assert_eq!(data["response"]["error"]["message"], "the provider reset the connection");
            assert!(data["sequence_number"].as_u64().unwrap() >= 2);
        }
    }
    assert_eq!(finished.answer.text(), "hel");
    assert_eq!(finished.answer.stop, Stop::Other("cut".to_owned()));
    assert_eq!(finished.error.unwrap().status, 502);
    // The same where HTTP saw nothing wrong.
    failure(upstream, client, &stream, End::Clean);
}

#[rstest]
fn a_cut_before_the_first_byte_leaves_the_error_to_the_caller(#[values(CHAT, RESPONSES, MESSAGES)] client: Dialect) {
    let (out, finished) = failure(CHAT, client, "", End::Cut { reason: "connection refused".to_owned() });
    assert_eq!(finished.error.unwrap().message, "connection refused");
    assert!(out.contains("connection refused"), "and the event is there for a response that has begun");
}

#[rstest]
fn an_error_event_in_the_middle_is_said_in_the_clients_words(#[values(CHAT, RESPONSES, MESSAGES)] client: Dialect) {
    let stream = start()
        + &event(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hel"}}))
        + &event(json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}));
    let (out, finished) = failure(MESSAGES, client, &stream, End::Clean);
    assert!(out.contains("Overloaded"));
    assert_eq!(out.matches("\"message\":\"Overloaded\"").count(), 1, "once");
    assert_eq!(finished.error.unwrap().kind, ErrorKind::Overloaded);
    assert_eq!(finished.problem.as_deref(), Some("Overloaded"));
}

#[rstest]
#[case::unnamed("", r#"{"error":{"message":"Overloaded","type":"overloaded_error"}}"#)]
#[case::typed("", r#"{"type":"error","error":{"message":"Overloaded","type":"overloaded_error"}}"#)]
#[case::misnamed("message", r#"{"error":"Overloaded"}"#)]
fn an_anthropic_client_hears_an_error_event_that_is_not_named_so(#[case] name: &str, #[case] error: &str) {
    let begun = start()
        + &event(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hel"}}));
    for before in [begun.as_str(), ""] {
        let (out, finished) = failure(MESSAGES, MESSAGES, &(before.to_owned() + &sse(name, error)), End::Clean);
        let (last, data) = clients::events(out.as_bytes()).pop().unwrap();
        let data: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(
            (last.as_str(), &data["type"], &data["error"]["message"]),
            ("error", &json!("error"), &json!("Overloaded"))
        );
        assert_eq!(out.matches("Overloaded").count(), 1, "once");
        assert!(finished.error.is_some());
    }
    // One that is named stays as it is.
    let named = sse("error", r#"{"type":"error", "error":{"type":"overloaded_error","message":"x"},"request_id":"r"}"#);
    let (out, _) = failure(MESSAGES, MESSAGES, &(begun + &named), End::Clean);
    assert!(out.ends_with(&named), "{out}");
}

#[rstest]
fn half_an_event_at_the_end_goes_to_nobody(
    #[values(CHAT, RESPONSES, MESSAGES)] client: Dialect,
    #[values(
        "data: {\"id\":\"c\",\"half-a-",
        "data: Internal Server Error",
        "event: x\ndata: {\"a\": \"b",
        "event: mess"
    )]
    half: &str,
) {
    let stream = chunk(json!({"role": "assistant", "content": "hel"})) + half;
    let (out, finished) = failure(CHAT, client, &stream, End::Clean);
    for (_, data) in clients::events(out.as_bytes()) {
        assert!(serde_json::from_str::<Value>(&data).is_ok(), "{data}");
    }
    assert!(!out.contains("half-a-") && !out.contains("Internal"), "{out}");
    assert!(finished.error.unwrap().message.contains("before the end of the answer"));
    let told = finished.problem.unwrap();
    assert_eq!(told.contains("in the middle of an event"), half.contains("data"), "{told}");
    // Half a chunk of usage does not spoil an answer that is complete.
    let stream = chunk(json!({"role": "assistant", "content": "hi"})) + &end("stop") + "data: {\"usage\":{\"prompt";
    let (out, finished) = run(spec(CHAT, client), stream.as_bytes(), &[23], End::Clean);
    assert_eq!((finished.error, finished.answer.text().as_str()), (None, "hi"));
    assert!(!String::from_utf8(out).unwrap().contains("\"prompt\""));
}

#[test]
fn an_error_as_first_event_can_still_become_a_status() {
    for error in
        [r#"{"error":{"message":"slow down","type":"rate_limit_error","code":429}}"#, r#"{"error":"slow down"}"#]
    {
        let mut relay = Relay::new(spec(CHAT, CHAT));
        let relayed = relay.push(&Bytes::from(sse("", error)));
        assert_eq!(relayed.out, Bytes::new(), "nothing is sent before the caller decides");
        assert!(relayed.finished);
        let finished = relay.finish(End::Clean);
        assert_eq!(finished.error.unwrap().message, "slow down");
        assert_eq!(finished.out, Bytes::from(sse("", error)));
    }
}

#[test]
fn a_responses_stream_that_fails_says_why() {
    let stream = event(json!({"type": "response.created", "response": {"id": "r", "model": "m", "output": []}}))
        + &event(
            json!({"type": "response.failed", "response": {"id": "r", "status": "failed", "error": {"code": "rate_limit_exceeded", "message": "wait"}}}),
        );
    let (out, finished) = failure(RESPONSES, CHAT, &stream, End::Clean);
    assert!(out.contains("wait"));
    assert_eq!(finished.error.unwrap().status, 429);
}

// --- bodies of the wrong kind ---

#[test]
fn a_web_page_instead_of_an_answer_is_an_error_that_names_it() {
    let page = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>";
    let error = relay_whole(&spec(CHAT, CHAT), &Bytes::from(page)).unwrap_err();
    assert_eq!(error.status, 502);
    assert!(
        error.message.ends_with("web page instead of JSON: 502 Bad Gateway")
            || error.message.to_lowercase().contains("502 bad gateway"),
        "{}",
        error.message
    );
    let (out, finished) = failure(CHAT, MESSAGES, page, End::Clean);
    assert!(out.to_lowercase().contains("502 bad gateway"));
    assert_eq!(finished.error.unwrap().status, 502);
}

#[rstest]
#[case("no body", "")]
#[case("no object", "[1]")]
#[case("no choices", r#"{"id":"x","choices":[]}"#)]
#[case("choices null", r#"{"id":"x","choices":null}"#)]
#[case("message null", r#"{"choices":[{"index":0,"message":null,"finish_reason":"stop"}]}"#)]
#[case("an error with status 200", r#"{"error":{"message":"bad key","code":"invalid_api_key"}}"#)]
fn a_body_that_is_no_answer_is_a_502_and_never_an_empty_answer(#[case] what: &str, #[case] body: &str) {
    for client in Dialect::ALL {
        let error = relay_whole(&spec(CHAT, client), &Bytes::from(body.to_owned())).unwrap_err();
        assert!(error.status >= 400, "{what}");
        assert!(!error.message.is_empty());
    }
}

#[test]
fn tokens_without_content_are_an_error_unless_the_limit_explains_them() {
    let body = |reason: &str, tokens: u64| {
        let body = json!({"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": reason}], "usage": {"prompt_tokens": 1, "completion_tokens": tokens}});
        Bytes::from(body.to_string())
    };
    assert_eq!(relay_whole(&spec(CHAT, MESSAGES), &body("stop", 50)).unwrap_err().status, 502);
    relay_whole(&spec(CHAT, MESSAGES), &body("length", 50)).unwrap();
    relay_whole(&spec(CHAT, MESSAGES), &body("stop", 1)).unwrap();
    // In its own dialect the body passes as it is: the client sees what the provider said.
    assert_eq!(relay_whole(&spec(CHAT, CHAT), &body("stop", 50)).unwrap().0, body("stop", 50));
}

#[test]
fn an_empty_stream_is_no_answer() {
    failure(CHAT, CHAT, DONE, End::Clean);
    failure(CHAT, MESSAGES, DONE, End::Clean);
    failure(MESSAGES, CHAT, "", End::Clean);
    failure(CHAT, CHAT, "Internal error, please retry\n", End::Clean);
}

#[test]
fn a_legacy_function_call_and_content_parts_are_understood() {
    let body = json!({"id": "x", "model": "m", "choices": [{"message": {
        "role": "assistant", "function_call": {"name": "f", "arguments": "{}"},
        "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "hi"}],
    }, "finish_reason": "function_call"}]});
    let (_, answer) = relay_whole(&spec(CHAT, MESSAGES), &Bytes::from(body.to_string())).unwrap();
    assert_eq!(answer.blocks, [Block::reasoning("hm"), Block::text("hi"), Block::tool("call_x0", "f", "{}")]);
}

// --- what the client asked for ---

#[rstest]
fn the_session_id_stands_in_every_event_and_body(
    #[values(CHAT, RESPONSES, MESSAGES)] client: Dialect,
    #[values(CHAT, MESSAGES)] upstream: Dialect,
) {
    let sample = Sample::new(vec![Piece::Text(vec!["hi".to_owned()])], Why::End);
    let spec = RelaySpec { session_id: Some("s \"1\"".to_owned()), ..spec(upstream, client) };
    let (out, _) = run(spec.clone(), sample.stream(upstream).as_bytes(), &[33], End::Clean);
    for (_, data) in clients::events(&out).iter().filter(|(_, data)| data != "[DONE]") {
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["session_id"], "s \"1\"");
    }
    let (body, _) = relay_whole(&spec, &Bytes::from(sample.whole(upstream).to_string())).unwrap();
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["session_id"], "s \"1\"");
    if upstream == client {
        body.as_object_mut().unwrap().shift_remove("session_id");
        assert_eq!(body, sample.whole(upstream));
    }
}

#[test]
fn silence_is_filled_with_what_each_client_ignores() {
    assert_eq!(keepalive(CHAT), b": ping\n\n");
    assert_eq!(clients::events(keepalive(MESSAGES))[0].0, "ping");
    // Comments and pings of the provider are passed on at once.
    let mut relay = Relay::new(spec(CHAT, MESSAGES));
    assert_eq!(relay.push(&Bytes::from(": PROCESSING\n\n")).out, Bytes::from(": PROCESSING\n\n"));
    let mut relay = Relay::new(spec(MESSAGES, CHAT));
    assert_eq!(relay.push(&Bytes::from("event: ping\ndata: {\"type\": \"ping\"}\n\n")).out, Bytes::from(": ping\n\n"));
}

#[test]
fn a_chunk_of_whole_events_leaves_as_the_very_same_bytes() {
    let bytes = Bytes::from(chunk(json!({"content": "a"})) + &chunk(json!({"content": "b"})));
    let relayed = Relay::new(spec(CHAT, CHAT)).push(&bytes);
    assert_eq!(relayed.out.as_ptr(), bytes.as_ptr(), "a slice, not a copy");
    assert_eq!(relayed.out, bytes);
}

// --- characters cut in two ---

#[test]
fn a_character_cut_in_a_whole_answer_costs_that_character_only() {
    let body = r#"{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"cut emoji \ud83d"},"finish_reason":"stop"}],"x":1e999}"#;
    let body = Bytes::from_static(body.as_bytes());
    let (same, answer) = relay_whole(&spec(CHAT, CHAT), &body).unwrap();
    assert_eq!((same, answer.text()), (body.clone(), "cut emoji \u{fffd}".to_owned()));
    let (out, _) = relay_whole(&spec(CHAT, MESSAGES), &body).unwrap();
    let out: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(out["content"][0]["text"], "cut emoji \u{fffd}");
}

#[rstest]
fn a_character_that_two_chunks_share_arrives_whole(#[values(CHAT, RESPONSES, MESSAGES)] client: Dialect) {
    let cut = |text: &str| chunk(json!({"content": "@"})).replace('@', text);
    let stream = cut(r"half \ud83d") + &cut(r"\ude00 rest") + &end("stop") + DONE;
    let (out, finished) = run(spec(CHAT, client), stream.as_bytes(), &[23], End::Clean);
    assert_eq!((finished.error, finished.answer.text()), (None, "half 😀 rest".to_owned()));
    if client == CHAT {
        assert_eq!(String::from_utf8(out).unwrap(), stream, "bytes as they came");
    } else {
        assert!(String::from_utf8_lossy(&out).contains("😀"), "{}", String::from_utf8_lossy(&out));
    }
}

#[rstest]
fn a_part_that_cannot_be_read_makes_no_good_answer_in_another_dialect(#[values(RESPONSES, MESSAGES)] client: Dialect) {
    let stream = chunk(json!({"content": "one"})) + &sse("", "{\"choices\":[{") + &end("stop") + DONE;
    let (_, finished) = failure(CHAT, client, &stream, End::Clean);
    assert!(finished.error.unwrap().message.contains("not JSON"));
    let (_, same) = run(spec(CHAT, CHAT), stream.as_bytes(), &[23], End::Clean);
    assert_eq!(same.error, None, "the client of the same dialect got all of it");
    // What is no part of an answer is no loss.
    let chatter = chunk(json!({"content": "one"})) + &sse("", "heartbeat") + &end("stop") + DONE;
    let (_, finished) = run(spec(CHAT, client), chatter.as_bytes(), &[23], End::Clean);
    assert_eq!(finished.error, None);
}

#[rstest]
fn a_whole_body_that_breaks_off_says_so(#[values(CHAT, RESPONSES, MESSAGES)] client: Dialect) {
    let cut = End::Cut { reason: "connection reset".to_owned() };
    let (_, finished) = failure(CHAT, client, "{\"id\":\"x\",\"choices\":[", cut.clone());
    assert_eq!(finished.error.unwrap().message, "connection reset");
    let whole = json!({"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": "all"}, "finish_reason": "stop"}]});
    let (_, finished) = run(spec(CHAT, client), whole.to_string().as_bytes(), &[23], cut);
    assert_eq!((finished.error, finished.answer.text()), (None, "all".to_owned()));
}

#[rstest]
fn free_text_of_a_tool_is_never_cut_by_its_braces(#[values(CHAT, MESSAGES, RESPONSES)] client: Dialect) {
    let custom = |output: u64, rest: Value| {
        let mut event = json!({"output_index": output, "item_id": format!("ctc_{output}")});
        event.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        self::event(event)
    };
    let item = |kind: &str, output: u64, input: &str| {
        custom(
            output,
            json!({"type": kind, "item": {"type": "custom_tool_call", "id": format!("ctc_{output}"),
            "call_id": format!("c{output}"), "name": "apply_patch", "input": input}}),
        )
    };
    let delta = |output: u64, text: &str| {
        custom(output, json!({"type": "response.custom_tool_call_input.delta", "delta": text}))
    };
    let stream = event(json!({"type": "response.created", "response": {"id": "resp_1", "model": "m"}}))
        + &item("response.output_item.added", 0, "")
        + &delta(0, "{a}")
        + &item("response.output_item.added", 1, "")
        + &delta(1, "{ open")
        + &delta(0, " and more")
        + &item("response.output_item.done", 0, "{a} and more")
        + &item("response.output_item.done", 1, "{ open")
        + &event(
            json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}}),
        );
    let (out, finished) = run(spec(RESPONSES, client), stream.as_bytes(), &[31], End::Clean);
    let told: Vec<_> = finished
        .answer
        .blocks
        .iter()
        .map(|block| match block {
            Block::ToolCall(call) => call.arguments.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, ["{a} and more", "{ open"], "{}", String::from_utf8_lossy(&out));
}
