//! Strict clients: fold a stream into the whole body its dialect's SDK would build.

use bytes::Bytes;
use metaclaw_dialect::Dialect;
use metaclaw_dialect::sse::Splitter;
use serde_json::{Value, json};

/// The events of a complete stream: name and data.
pub(crate) fn events(stream: &[u8]) -> Vec<(String, String)> {
    let mut splitter = Splitter::default();
    let mut frames = Vec::new();
    splitter.push(&Bytes::copy_from_slice(stream), &mut frames).unwrap();
    assert_eq!(splitter.finish(), None, "the stream ends in the middle of an event");
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let with_data = frames.into_iter().filter_map(|frame| {
        let data = frame.data.as_ref()?;
        Some((frame.event.as_ref().map(text).unwrap_or_default(), text(data)))
    });
    with_data.collect()
}

pub(crate) fn fold(dialect: Dialect, stream: &[u8]) -> Value {
    match dialect {
        Dialect::Chat => chat(stream),
        Dialect::Messages => messages(stream),
        Dialect::Responses => responses(stream),
    }
}

fn append(value: &mut Value, more: &Value) {
    let all = value.as_str().unwrap_or_default().to_owned() + more.as_str().unwrap();
    *value = all.into();
}

fn chat(stream: &[u8]) -> Value {
    let all = events(stream);
    let (last, chunks) = all.split_last().expect("an empty stream");
    assert_eq!(last.1, "[DONE]", "a Chat stream ends with [DONE]");
    let mut message = json!({"role": null, "content": null, "refusal": null});
    let mut body = Value::Null;
    let mut finish = Value::Null;
    for (_, data) in chunks {
        let chunk: Value = serde_json::from_str(data).unwrap();
        assert_eq!(chunk["object"], "chat.completion.chunk");
        if body.is_null() {
            body = json!({"id": chunk["id"], "object": "chat.completion", "created": chunk["created"], "model": chunk["model"]});
        }
        assert_eq!(chunk["id"], body["id"], "one id for all chunks");
        let choices = chunk["choices"].as_array().unwrap();
        if let Some(usage) = chunk.get("usage").filter(|usage| !usage.is_null()) {
            assert!(choices.is_empty(), "token counts come in a chunk of their own");
            body["usage"] = usage.clone();
        }
        let Some(choice) = choices.first() else { continue };
        assert!(finish.is_null(), "nothing follows the finish reason");
        let delta = &choice["delta"];
        if delta.get("role").is_some() {
            message["role"] = delta["role"].clone();
        }
        assert_eq!(message["role"], "assistant", "the role comes first");
        for field in ["content", "refusal", "reasoning_content"] {
            if delta.get(field).is_some_and(Value::is_string) {
                append(&mut message[field], &delta[field]);
            }
        }
        if let Some(details) = delta.get("reasoning_details").and_then(Value::as_array) {
            if message.get("reasoning_details").is_none() {
                message["reasoning_details"] = json!([]);
            }
            message["reasoning_details"].as_array_mut().unwrap().extend(details.clone());
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            if message.get("tool_calls").is_none() {
                message["tool_calls"] = json!([]);
            }
            let calls = message["tool_calls"].as_array_mut().unwrap();
            let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            if index == calls.len() {
                let mut call = call.clone();
                assert!(call["id"].as_str().is_some_and(|id| !id.is_empty()), "a new call has an id");
                assert!(
                    call["function"]["name"].as_str().is_some_and(|name| !name.is_empty()),
                    "a new call has a name"
                );
                call.as_object_mut().unwrap().shift_remove("index");
                calls.push(call);
            } else {
                assert_eq!(index + 1, calls.len(), "calls come one after the other");
                assert!(call.get("id").is_none(), "the id comes once");
                append(&mut calls[index]["function"]["arguments"], &call["function"]["arguments"]);
            }
        }
        finish = choice["finish_reason"].clone();
    }
    assert!(finish.is_string(), "a finish reason must come");
    assert_eq!(
        finish == "tool_calls",
        message.get("tool_calls").is_some() && finish != "length",
        "reason and calls agree"
    );
    body["choices"] = json!([{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}]);
    body
}

fn messages(stream: &[u8]) -> Value {
    let mut body = Value::Null;
    let mut open: Option<(usize, String)> = None;
    let mut ended = false;
    for (name, data) in events(stream) {
        let event: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(event["type"], name, "event name and type agree");
        assert!(!ended, "nothing follows message_stop");
        if name == "ping" {
            continue;
        }
        if name == "message_start" {
            assert!(body.is_null(), "message_start comes once");
            body = event["message"].clone();
            for field in ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"] {
                assert!(body["usage"][field].is_u64(), "message_start counts {field}");
            }
            assert!(body["usage"]["cache_creation"]["ephemeral_5m_input_tokens"].is_u64(), "nested cache counts");
            continue;
        }
        assert!(!body.is_null(), "message_start comes first");
        match name.as_str() {
            "content_block_start" => {
                assert_eq!(open, None, "one block open at a time");
                assert!(body["stop_reason"].is_null(), "no block after the stop reason");
                let content = body["content"].as_array_mut().unwrap();
                assert_eq!(event["index"], content.len(), "indexes rise by one");
                let block = event["content_block"].clone();
                if block["type"] == "tool_use" {
                    assert_eq!(block["input"], json!({}));
                }
                open = Some((content.len(), String::new()));
                content.push(block);
            }
            "content_block_delta" => {
                let (index, input) = open.as_mut().expect("a delta without an open block");
                assert_eq!(event["index"], *index, "a delta names the open block");
                let block = &mut body["content"][*index];
                let delta = &event["delta"];
                match (delta["type"].as_str().unwrap(), block["type"].as_str().unwrap()) {
                    ("text_delta", "text") => append(&mut block["text"], &delta["text"]),
                    ("thinking_delta", "thinking") => {
                        assert_eq!(block["signature"], "", "no thinking after the signature");
                        append(&mut block["thinking"], &delta["thinking"]);
                    }
                    ("signature_delta", "thinking") => block["signature"] = delta["signature"].clone(),
                    ("input_json_delta", "tool_use") => input.push_str(delta["partial_json"].as_str().unwrap()),
                    (delta, block) => panic!("{delta} into a {block} block"),
                }
            }
            "content_block_stop" => {
                let (index, input) = open.take().expect("a stop without an open block");
                assert_eq!(event["index"], index, "a stop names the open block");
                if !input.is_empty() {
                    body["content"][index]["input"] =
                        serde_json::from_str(&input).unwrap_or_else(|_| json!({"arguments": input}));
                }
            }
            "message_delta" => {
                assert_eq!(open, None, "all blocks are closed before message_delta");
                assert!(body["stop_reason"].is_null(), "the stop reason comes once");
                assert!(event["delta"]["stop_reason"].is_string());
                body["stop_reason"] = event["delta"]["stop_reason"].clone();
                body["stop_sequence"] = event["delta"]["stop_sequence"].clone();
                for (field, count) in event["usage"].as_object().unwrap() {
                    body["usage"][field] = count.clone();
                }
            }
            "message_stop" => {
                assert!(body["stop_reason"].is_string(), "a stop reason must come");
                ended = true;
            }
            other => panic!("unknown event {other}"),
        }
    }
    assert!(ended, "a Messages stream ends with message_stop");
    let calls = body["content"].as_array().unwrap().iter().any(|block| block["type"] == "tool_use");
    assert!(body["stop_reason"] != "tool_use" || calls, "tool_use needs a tool_use block");
    body
}

fn responses(stream: &[u8]) -> Value {
    let mut body = Value::Null;
    let mut items: Vec<Value> = Vec::new();
    let mut item_open = false;
    let mut last: Option<Value> = None;
    for (number, (name, data)) in events(stream).into_iter().enumerate() {
        let event: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(event["type"], name, "event name and type agree");
        assert_eq!(event["sequence_number"], number, "sequence numbers rise by one");
        assert_eq!(last, None, "nothing follows the final response");
        if number == 0 {
            assert_eq!(name, "response.created");
            body = event["response"].clone();
            assert_eq!(body["output"], json!([]));
        }
        if let Some(index) = event.get("output_index").and_then(Value::as_u64) {
            let adds = usize::from(name == "response.output_item.added");
            assert_eq!(usize::try_from(index).unwrap() + 1, items.len() + adds, "events name the current item");
            if let Some(id) = event.get("item_id") {
                assert_eq!(*id, items.last().unwrap()["id"], "events name the item they belong to");
            }
        }
        match name.as_str() {
            "response.created" | "response.in_progress" => assert_eq!(event["response"]["status"], "in_progress"),
            "response.output_item.added" => {
                assert!(!item_open, "one item at a time");
                item_open = true;
                items.push(event["item"].clone());
            }
            "response.content_part.added" => {
                let content = items.last_mut().unwrap()["content"].as_array_mut().unwrap();
                assert_eq!(event["content_index"], content.len());
                content.push(event["part"].clone());
            }
            "response.output_text.delta" => {
                append(&mut items.last_mut().unwrap()["content"][0]["text"], &event["delta"]);
            }
            "response.output_text.done" => assert_eq!(event["text"], items.last().unwrap()["content"][0]["text"]),
            "response.refusal.delta" => {
                append(&mut items.last_mut().unwrap()["content"][0]["refusal"], &event["delta"]);
            }
            "response.refusal.done" => assert_eq!(event["refusal"], items.last().unwrap()["content"][0]["refusal"]),
            "response.content_part.done" => {
                assert_eq!(event["part"]["text"], items.last().unwrap()["content"][0]["text"]);
            }
            "response.reasoning_summary_part.added" => {
                items.last_mut().unwrap()["summary"].as_array_mut().unwrap().push(event["part"].clone());
            }
            "response.reasoning_summary_text.delta" => {
                append(&mut items.last_mut().unwrap()["summary"][0]["text"], &event["delta"]);
            }
            "response.reasoning_summary_text.done" => {
                assert_eq!(event["text"], items.last().unwrap()["summary"][0]["text"]);
            }
            "response.reasoning_summary_part.done" => {
                assert_eq!(event["part"], items.last().unwrap()["summary"][0]);
            }
            "response.function_call_arguments.delta" => {
                append(&mut items.last_mut().unwrap()["arguments"], &event["delta"]);
            }
            "response.function_call_arguments.done" => {
                assert_eq!(event["arguments"], items.last().unwrap()["arguments"]);
            }
            "response.custom_tool_call_input.delta" => {
                append(&mut items.last_mut().unwrap()["input"], &event["delta"]);
            }
            "response.custom_tool_call_input.done" => assert_eq!(event["input"], items.last().unwrap()["input"]),
            "response.output_item.done" => {
                assert!(item_open, "an item ends once");
                item_open = false;
                let built = items.last_mut().unwrap();
                let mut done = event["item"].clone();
                let finished = done.clone();
                // The final item has a status and encrypted thinking that no delta brings.
                for field in ["status", "encrypted_content"] {
                    done.as_object_mut().unwrap().shift_remove(field);
                    built.as_object_mut().unwrap().shift_remove(field);
                }
                assert_eq!(done, *built, "the deltas add up to the item");
                *built = finished;
            }
            "response.completed" | "response.incomplete" => last = Some(event["response"].clone()),
            other => panic!("unknown event {other}"),
        }
    }
    assert!(!item_open, "all items end");
    let last = last.expect("a Responses stream ends with its response");
    assert_eq!(last["id"], body["id"]);
    assert_eq!(last["output"], Value::from(items), "the final response repeats the items");
    last
}
