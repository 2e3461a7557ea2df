//! Requests between the dialects: one rich conversation in each, and the cases that real clients and servers quarrel over.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;
use metaclaw_dialect::{Dialect, Quirks, Request, RequestError, custom_tools, translate_request};
use rstest::rstest;
use serde_json::{Value, json};

fn translate(from: Dialect, to: Dialect, body: &Value) -> Value {
    translate_with(from, to, body, &Quirks::default()).unwrap()
}

fn translate_with(from: Dialect, to: Dialect, body: &Value, quirks: &Quirks) -> Result<Value, RequestError> {
    let request = Request::parse(from, Bytes::from(body.to_string())).unwrap();
    let out = translate_request(&request, to, quirks)?;
    // What comes out must be a request of the other dialect.
    Request::parse(to, out.clone()).expect("a readable request");
    Ok(serde_json::from_slice(&out).unwrap())
}

/// The same conversation in each dialect: system, picture, thinking, two parallel calls, one failed result, words after it.
fn rich(dialect: Dialect) -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    match dialect {
        Dialect::Chat => json!({
            "model": "gpt-5.2", "stream": true, "stream_options": {"include_usage": true}, "max_completion_tokens": 900,
            "temperature": 0.2, "top_p": 0.9, "stop": ["END"], "parallel_tool_calls": false, "tool_choice": "required",
            "reasoning_effort": "high", "prompt_cache_key": "s-1",
            "response_format": {"type": "json_schema", "json_schema": {"name": "w", "strict": true, "schema": schema}},
            "tools": [{"type": "function", "function": {"name": "weather", "description": "Looks out", "parameters": schema}}],
            "messages": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
                ]},
                {"role": "assistant", "content": "I look.", "reasoning_content": "Two cities.", "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}},
                    {"id": "call_2", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}},
                ]},
                {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
                {"role": "tool", "tool_call_id": "call_2", "content": "sun"},
                {"role": "user", "content": "And now?"},
            ],
        }),
        Dialect::Responses => json!({
            "model": "gpt-5.2", "stream": true, "store": false, "max_output_tokens": 900, "temperature": 0.2, "top_p": 0.9,
            "parallel_tool_calls": false, "tool_choice": {"type": "function", "name": "weather"},
            "reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"],
            "text": {"format": {"type": "json_schema", "name": "w", "schema": schema, "strict": true}, "verbosity": "low"},
            "tools": [
                {"type": "function", "name": "weather", "description": "Looks out", "parameters": schema, "strict": false},
                {"type": "custom", "name": "apply_patch", "description": "Edits", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
                {"type": "web_search"},
            ],
            "instructions": "Be brief.",
            "input": [
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandbox is on."}]},
                {"role": "user", "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
                ]},
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Two cities."}], "encrypted_content": "gAAA"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
                {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{\"city\":\"Oslo\"}"},
                {"type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin\n\"x\""},
                {"type": "function_call_output", "call_id": "call_1", "output": [
                    {"type": "input_text", "text": "rain"}, {"type": "input_image", "image_url": "https://x/y.png"},
                ]},
                {"type": "custom_tool_call_output", "call_id": "call_2", "output": "done"},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
            ],
        }),
        Dialect::Messages => json!({
            "model": "claude-sonnet-4-5", "stream": true, "max_tokens": 900, "temperature": 1, "stop_sequences": ["END"],
            "thinking": {"type": "enabled", "budget_tokens": 5000}, "metadata": {"user_id": "u_session_1"},
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
            "tools": [
                {"name": "weather", "description": "Looks out", "input_schema": schema, "cache_control": {"type": "ephemeral"}},
                {"type": "web_search_20250305", "name": "web_search"},
            ],
            "system": [{"type": "text", "text": "You are."}, {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                    {"type": "document", "title": "a.pdf", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}},
                ]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "Two cities.", "signature": "EqQB"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo", "n": 123_456_789_012_345_678_u64}},
                    {"type": "tool_use", "id": "toolu_2", "name": "weather", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": [
                        {"type": "text", "text": "rain"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "BBBB"}},
                    ]},
                    {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": true, "content": "no such city"},
                    {"type": "text", "text": "And now?"},
                ]},
            ],
        }),
    }
}

#[rstest]
#[case(Dialect::Chat, Dialect::Messages)]
#[case(Dialect::Chat, Dialect::Responses)]
#[case(Dialect::Messages, Dialect::Chat)]
#[case(Dialect::Messages, Dialect::Responses)]
#[case(Dialect::Responses, Dialect::Chat)]
#[case(Dialect::Responses, Dialect::Messages)]
fn a_rich_conversation_is_carried_over(#[case] from: Dialect, #[case] to: Dialect) {
    let name = format!("request_{}_to_{}", from.as_str(), to.as_str());
    insta::assert_json_snapshot!(name, translate(from, to, &rich(from)));
}

#[test]
fn the_same_dialect_gives_the_same_bytes() {
    for dialect in Dialect::ALL {
        let bytes = Bytes::from(format!(" {}\n", rich(dialect)));
        let request = Request::parse(dialect, bytes.clone()).unwrap();
        let out = translate_request(&request, dialect, &Quirks::default()).unwrap();
        assert_eq!(out, bytes);
    }
}

#[test]
fn a_conversation_kept_by_another_provider_is_refused_with_a_reason() {
    let body = json!({"model": "m", "previous_response_id": "resp_1", "input": "hi"});
    let error = translate_with(Dialect::Responses, Dialect::Chat, &body, &Quirks::default()).unwrap_err();
    assert_eq!(error.param(), Some("previous_response_id"));
    assert!(error.to_string().contains("send the whole conversation"), "{error}");
    let body =
        json!({"model": "m", "input": [{"role": "user", "content": "hi"}, {"type": "item_reference", "id": "rs_1"}]});
    let error = translate_with(Dialect::Responses, Dialect::Messages, &body, &Quirks::default()).unwrap_err();
    assert_eq!(error.param(), Some("input[1]"));
}

#[test]
fn tool_inputs_keep_their_numbers() {
    let text = r#"{"model":"m","max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"big": 123456789012345678901234567890, "f": 0.1e-7}}]}]}"#;
    let request = Request::parse(Dialect::Messages, Bytes::from(text)).unwrap();
    let chat = translate_request(&request, Dialect::Chat, &Quirks::default()).unwrap();
    let chat: Value = serde_json::from_slice(&chat).unwrap();
    let arguments = chat["messages"][0]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert_eq!(arguments, r#"{"big": 123456789012345678901234567890, "f": 0.1e-7}"#);
    let request = Request::parse(Dialect::Chat, Bytes::from(chat.to_string())).unwrap();
    let back = translate_request(&request, Dialect::Messages, &Quirks::default()).unwrap();
    assert!(String::from_utf8_lossy(&back).contains(r#""input":{"big": 123456789012345678901234567890, "f": 0.1e-7}"#));
}

#[test]
fn thinking_is_not_asked_for_where_the_provider_would_refuse_it() {
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let mut body = json!({
        "model": "claude-sonnet-4-5", "reasoning_effort": "high", "max_tokens": 30_000, "temperature": 0.5, "tools": tools,
        "messages": [
            {"role": "user", "content": "go"}, {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "ok"},
        ],
    });
    let out = translate(Dialect::Chat, Dialect::Messages, &body);
    assert_eq!(out.get("thinking"), None, "a tool loop that began without signed thinking goes on without");
    assert_eq!(out["temperature"], 0.5);
    body["messages"][1]["reasoning_details"] = json!([{"type": "reasoning.text", "text": "hm", "signature": "Eq"}]);
    let out = translate(Dialect::Chat, Dialect::Messages, &body);
    assert_eq!(out["thinking"], json!({"type": "enabled", "budget_tokens": 15_000}));
    assert_eq!(out.get("temperature"), None, "thinking sets its own sampling");
    assert_eq!(out["messages"][1]["content"][0], json!({"type": "thinking", "thinking": "hm", "signature": "Eq"}));
    body["tool_choice"] = "required".into();
    assert_eq!(
        translate(Dialect::Chat, Dialect::Messages, &body).get("thinking"),
        None,
        "a forced tool excludes thinking"
    );
    body["tool_choice"] = "auto".into();
    body["model"] = "claude-opus-4-6".into();
    let out = translate(Dialect::Chat, Dialect::Messages, &body);
    assert_eq!(out["thinking"], json!({"type": "adaptive"}));
    assert_eq!(out["output_config"], json!({"effort": "high"}));
    // A model that does not think is not told how hard to.
    let body = json!({"model": "gpt-4o", "max_tokens": 9, "thinking": {"type": "enabled", "budget_tokens": 2000}, "messages": [{"role": "user", "content": "go"}]});
    assert_eq!(translate(Dialect::Messages, Dialect::Chat, &body).get("reasoning_effort"), None);
    assert_eq!(translate(Dialect::Messages, Dialect::Responses, &body).get("reasoning"), None);
}

#[test]
fn what_an_upstream_cannot_take_is_left_out() {
    let quirks = Quirks {
        store: false,
        stream_usage: false,
        parallel_tool_calls: false,
        reasoning_history: false,
        max_output_tokens: Some(100),
        drop_fields: vec!["temperature".to_owned()],
        ..Quirks::default()
    };
    let out = translate_with(Dialect::Messages, Dialect::Chat, &rich(Dialect::Messages), &quirks).unwrap();
    assert_eq!(out["max_tokens"], 100);
    for field in ["stream_options", "parallel_tool_calls", "temperature", "store"] {
        assert_eq!(out.get(field), None, "{field}");
    }
    assert_eq!(out["messages"][2].get("reasoning_content"), None);
    let out = translate_with(Dialect::Messages, Dialect::Responses, &rich(Dialect::Messages), &quirks).unwrap();
    assert_eq!(out.get("store"), None);
}

#[test]
fn openclaw_shapes_and_empty_pieces_are_taken() {
    let body = json!({"model": "m", "messages": [
        {"role": "assistant", "content": "   "},
        {"role": "user", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image", "data": "AAAA", "mimeType": "image/webp"}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm"}, {"type": "toolCall", "id": "functions.read:0", "name": "read", "arguments": {"p": 1}},
        ]},
        {"role": "toolResult", "toolCallId": "functions.read:0", "isError": true, "content": [{"type": "text", "text": "gone"}]},
        {"role": "system", "content": "Now be kind."},
    ]});
    let out = translate(Dialect::Chat, Dialect::Messages, &body);
    insta::assert_json_snapshot!(out["messages"]);
    let body = json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]});
    assert_eq!(translate(Dialect::Messages, Dialect::Responses, &body)["max_output_tokens"], 16);
}

#[test]
fn free_text_tools_are_named_for_the_answer() {
    let body = Bytes::from(rich(Dialect::Responses).to_string());
    let request = Request::parse(Dialect::Responses, body).unwrap();
    assert_eq!(custom_tools(&request), ["apply_patch"]);
}

/// Each client gets thinking in its own form, sends it back, and the provider gets its own form again.
#[rstest]
#[case(Dialect::Messages, Dialect::Chat)]
#[case(Dialect::Messages, Dialect::Responses)]
#[case(Dialect::Responses, Dialect::Chat)]
#[case(Dialect::Responses, Dialect::Messages)]
fn thinking_comes_back_to_its_provider(#[case] upstream: Dialect, #[case] client: Dialect) {
    use metaclaw_dialect::{RelaySpec, relay_whole};
    let call = json!({"id": "c1", "name": "f"});
    let answer = match upstream {
        Dialect::Messages => {
            json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "EqQB"},
            {"type": "redacted_thinking", "data": "Redacted=="},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
        ], "usage": {"input_tokens": 1, "output_tokens": 1}})
        }
        _ => json!({"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5", "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gAAA"},
            {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gBBB"},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
        ]}),
    };
    let (body, _) = relay_whole(&RelaySpec::new(upstream, client), &Bytes::from(answer.to_string())).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let next = match client {
        Dialect::Chat => json!({"model": "gpt-5", "messages": [
            {"role": "user", "content": "go"}, body["choices"][0]["message"], {"role": "tool", "tool_call_id": call["id"], "content": "ok"},
        ]}),
        Dialect::Messages => json!({"model": "gpt-5", "max_tokens": 99, "messages": [
            {"role": "user", "content": "go"}, {"role": "assistant", "content": body["content"]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]},
        ]}),
        Dialect::Responses => {
            let mut input = vec![json!({"role": "user", "content": "go"})];
            input.extend(body["output"].as_array().unwrap().clone());
            input.push(json!({"type": "function_call_output", "call_id": "c1", "output": "ok"}));
            json!({"model": "gpt-5", "input": input})
        }
    };
    let out = translate(client, upstream, &next);
    let back = match upstream {
        Dialect::Messages => out["messages"][1]["content"].clone(),
        _ => json!([out["input"][1], out["input"][2]]),
    };
    let expected = match upstream {
        Dialect::Messages => answer["content"].clone(),
        _ => json!([answer["output"][0], answer["output"][1]]),
    };
    assert_eq!(back, expected);
}

#[test]
fn a_thought_signature_returns_with_its_call() {
    use metaclaw_dialect::{RelaySpec, relay_whole};
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": {"google": {"thought_signature": "Sig"}}});
    let answer = json!({"id": "x", "model": "gemini", "choices": [{"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    for client in [Dialect::Messages, Dialect::Responses] {
        let (body, _) = relay_whole(&RelaySpec::new(Dialect::Chat, client), &Bytes::from(answer.to_string())).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let next = if client == Dialect::Messages {
            json!({"model": "m", "max_tokens": 9, "messages": [
                {"role": "user", "content": "go"}, {"role": "assistant", "content": body["content"]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]},
            ]})
        } else {
            let mut input = vec![json!({"role": "user", "content": "go"})];
            input.extend(body["output"].as_array().unwrap().clone());
            json!({"model": "m", "input": input})
        };
        let out = translate(client, Dialect::Chat, &next);
        assert_eq!(out["messages"][1], json!({"role": "assistant", "content": null, "tool_calls": [call]}));
    }
}

/// Kinds of the parts of a message: `tool_result a1`, `text`, …
fn kinds(message: &Value) -> Vec<String> {
    let kind = |block: &Value| match block["type"].as_str().unwrap() {
        "tool_result" => format!("result {}", block["tool_use_id"].as_str().unwrap()),
        other => other.to_owned(),
    };
    message["content"].as_array().unwrap().iter().map(kind).collect()
}

#[test]
fn results_stand_first_whatever_came_between_them_and_their_calls() {
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "ok"});
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let body = |input: Vec<Value>| json!({"model": "m", "input": input});
    let words_between =
        body(vec![said("user", "go"), call("a1"), call("a2"), output("a1"), said("user", "see image"), output("a2")]);
    let note_between = body(vec![said("user", "go"), call("a1"), said("developer", "be quick"), output("a1")]);
    let two_steps = body(vec![
        said("user", "go"),
        call("a1"),
        said("developer", "be quick"),
        call("a2"),
        output("a2"),
        output("a1"),
    ]);

    let out = translate(Dialect::Responses, Dialect::Messages, &words_between);
    assert_eq!(kinds(&out["messages"][2]), ["result a1", "result a2", "text"]);
    let out = translate(Dialect::Responses, Dialect::Messages, &note_between);
    assert_eq!(kinds(&out["messages"][2]), ["result a1", "text"]);
    let out = translate(Dialect::Responses, Dialect::Messages, &two_steps);
    assert_eq!(kinds(&out["messages"][2]), ["result a1", "text"]);
    assert_eq!(kinds(&out["messages"][4]), ["result a2"]);

    let roles = |body: &Value| {
        let out = translate(Dialect::Responses, Dialect::Chat, body);
        let role = |m: &Value| m["tool_call_id"].as_str().or(m["role"].as_str()).unwrap().to_owned();
        out["messages"].as_array().unwrap().iter().map(role).collect::<Vec<_>>()
    };
    assert_eq!(roles(&words_between), ["user", "assistant", "a1", "a2", "user"]);
    assert_eq!(roles(&note_between), ["user", "assistant", "a1", "system"]);
    assert_eq!(roles(&two_steps), ["user", "assistant", "a1", "system", "assistant", "a2"]);

    let calls = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "a1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]});
    let chat = json!({"model": "m", "messages": [said("user", "go"), calls, said("system", "be quick"),
        {"role": "tool", "tool_call_id": "a1", "content": "ok"}]});
    let out = translate(Dialect::Chat, Dialect::Messages, &chat);
    assert_eq!(kinds(&out["messages"][2]), ["result a1", "text"]);
}

#[test]
fn instructions_alone_become_a_request_all_the_same() {
    let body = json!({"model": "m", "messages": [{"role": "system", "content": "Tell a story."}]});
    let out = translate(Dialect::Chat, Dialect::Messages, &body);
    assert_eq!(out["system"][0]["text"], "Tell a story.");
    assert_eq!((out["messages"].as_array().unwrap().len(), &out["messages"][0]["role"]), (1, &json!("user")));
}

#[test]
fn a_text_cut_inside_a_character_is_no_reason_to_refuse_it() {
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"cut \ud83d"}],"x":1e999}"#;
    let request = Request::parse(Dialect::Messages, Bytes::from_static(body.as_bytes())).unwrap();
    let out = translate_request(&request, Dialect::Chat, &Quirks::default()).unwrap();
    let out: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(out["messages"][0]["content"], "cut \u{fffd}");
}
