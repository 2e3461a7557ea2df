//! An agent of one API with a provider of another: text, images, tools, parallel calls, tool results, reasoning, stop
//! reasons and usage arrive in the provider's form and come back in the agent's; streamed and whole say the same.

use metaclaw_tests::agent::{Agent, Chat, ended_well, hello};
use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::product::{MODEL, Product};
use metaclaw_tests::provider::{Provider, Reply};
use metaclaw_tests::wire::Event;
use rstest::rstest;
use serde_json::{Value, json};

async fn product(provider: &Provider, upstream: Api) -> Product {
    Product::started(provider, &json!({"llm": {"dialect": upstream.config()}})).await
}

fn tools(api: Api) -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    match api {
        Api::Chat => json!([{"type": "function", "function": {"name": "weather", "description": "Weather of a city",
                                                              "parameters": schema}}]),
        Api::Responses => json!([{"type": "function", "name": "weather", "description": "Weather of a city",
                                  "parameters": schema, "strict": false}]),
        Api::Messages => json!([{"name": "weather", "description": "Weather of a city", "input_schema": schema}]),
    }
}

/// (id, name, arguments) of the calls in a whole answer.
fn calls(api: Api, whole: &Value) -> Vec<(String, String, Value)> {
    let parsed = |v: &Value| -> Value { serde_json::from_str(v.as_str().unwrap_or_default()).expect("JSON arguments") };
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let list = match api {
        Api::Chat => &whole["choices"][0]["message"]["tool_calls"],
        Api::Responses => &whole["output"],
        Api::Messages => &whole["content"],
    };
    let items = list.as_array().into_iter().flatten();
    match api {
        Api::Chat => {
            items.map(|c| (text(&c["id"]), text(&c["function"]["name"]), parsed(&c["function"]["arguments"]))).collect()
        }
        Api::Responses => items
            .filter(|i| i["type"] == "function_call")
            .map(|c| (text(&c["call_id"]), text(&c["name"]), parsed(&c["arguments"])))
            .collect(),
        Api::Messages => items
            .filter(|b| b["type"] == "tool_use")
            .map(|c| (text(&c["id"]), text(&c["name"]), c["input"].clone()))
            .collect(),
    }
}

/// Puts a stream together the way the SDKs do.
fn folded(api: Api, events: &[Event]) -> Value {
    let events: Vec<Value> = events.iter().filter(|e| e.data != "[DONE]").map(Event::json).collect();
    match api {
        Api::Responses => events.last().expect("events")["response"].clone(),
        Api::Chat => {
            let mut message = json!({"role": "assistant", "content": null});
            let (mut finish, mut usage, mut calls) = (Value::Null, Value::Null, Vec::<Value>::new());
            for event in &events {
                if event["usage"].is_object() {
                    usage = event["usage"].clone();
                }
                let choice = &event["choices"][0];
                for key in ["content", "reasoning_content"] {
                    if let Some(part) = choice["delta"][key].as_str().filter(|p| !p.is_empty()) {
                        let before = message[key].as_str().unwrap_or_default().to_owned();
                        message[key] = json!(before + part);
                    }
                }
                for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
                    let index = call["index"].as_u64().expect("an index") as usize;
                    if calls.len() <= index {
                        assert_eq!(calls.len(), index, "call indexes rise by one");
                        calls.push(json!({"id": call["id"], "type": "function",
                                          "function": {"name": call["function"]["name"], "arguments": ""}}));
                    }
                    let before = calls[index]["function"]["arguments"].as_str().unwrap_or_default().to_owned();
                    let part = call["function"]["arguments"].as_str().unwrap_or_default();
                    calls[index]["function"]["arguments"] = json!(before + part);
                }
                if choice["finish_reason"].is_string() {
                    finish = choice["finish_reason"].clone();
                }
            }
            if !calls.is_empty() {
                message["tool_calls"] = json!(calls);
            }
            json!({"choices": [{"message": message, "finish_reason": finish}], "usage": usage})
        }
        Api::Messages => {
            let mut whole = events[0]["message"].clone();
            let (mut open, mut next, mut partial) = (None, 0, String::new());
            for event in &events[1..] {
                let index = event["index"].as_u64();
                match event["type"].as_str().expect("a type") {
                    "content_block_start" => {
                        assert_eq!((open, index), (None, Some(next)), "blocks open one at a time, indexes rise by one");
                        open = index;
                        next += 1;
                        partial.clear();
                        whole["content"].as_array_mut().expect("blocks").push(event["content_block"].clone());
                    }
                    "content_block_delta" => {
                        assert_eq!(open, index, "a delta goes to the open block");
                        let block = whole["content"].as_array_mut().expect("blocks").last_mut().expect("a block");
                        let delta = &event["delta"];
                        for key in ["text", "thinking", "signature"] {
                            if let Some(part) = delta[key].as_str() {
                                let before = block[key].as_str().unwrap_or_default().to_owned();
                                block[key] = json!(before + part);
                            }
                        }
                        partial.push_str(delta["partial_json"].as_str().unwrap_or_default());
                    }
                    "content_block_stop" => {
                        assert_eq!(open.take(), index, "the open block is the one that stops");
                        let block = whole["content"].as_array_mut().expect("blocks").last_mut().expect("a block");
                        if block["type"] == "tool_use" {
                            let text = if partial.is_empty() { "{}" } else { &partial };
                            block["input"] = serde_json::from_str(text).expect("JSON input");
                        }
                    }
                    "message_delta" => {
                        whole["stop_reason"] = event["delta"]["stop_reason"].clone();
                        for (key, value) in event["usage"].as_object().expect("usage") {
                            whole["usage"][key] = value.clone();
                        }
                    }
                    _ => {}
                }
            }
            assert_eq!(open, None, "a block stays open");
            whole
        }
    }
}

fn stop(api: Api, whole: &Value) -> String {
    let value = match api {
        Api::Chat => &whole["choices"][0]["finish_reason"],
        Api::Messages => &whole["stop_reason"],
        Api::Responses => &whole["status"],
    };
    value.as_str().unwrap_or_default().to_owned()
}

async fn both(agent: &Agent, provider: &Provider, api: Api, body: &Value, answer: &Answer) -> [Value; 2] {
    let mut body = body.clone();
    provider.next(Reply::Answer(answer.clone()));
    provider.next(Reply::Answer(answer.clone()));
    body["stream"] = json!(false);
    let whole = agent.ask(api, &body).await;
    assert_eq!(whole.status(), 200, "{}", whole.text());
    body["stream"] = json!(true);
    if api == Api::Chat {
        body["stream_options"] = json!({"include_usage": true});
    }
    let streamed = agent.ask(api, &body).await;
    assert_eq!(streamed.status(), 200, "{}", streamed.text());
    assert!(ended_well(api, &streamed.events()), "{}", streamed.text());
    [whole.json(), folded(api, &streamed.events())]
}

#[rstest]
#[tokio::test]
async fn text_reasoning_and_calls_come_back_in_the_agents_form(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[values(Api::Chat, Api::Responses, Api::Messages)] upstream: Api,
    #[values("text", "thinking", "calls", "all")] what: &str,
) {
    let provider = Provider::start().await;
    let product = product(&provider, upstream).await;
    let (text, words) = ("Grüße, 世界.", [("weather", r#"{"city": "東京"}"#), ("weather", r#"{"city":"Bern"}"#)]);
    let mut answer = if what == "calls" { Answer::calls(&words) } else { Answer::text(text) };
    if what == "all" {
        answer.tools = Answer::calls(&words).tools;
    }
    if what != "text" && what != "calls" {
        answer = answer.thinking("I should look.", "c2lnbmF0dXJl");
    }
    let mut body = hello(api, "Weather?", false);
    body["tools"] = tools(api);
    for whole in both(&product.agent(), &provider, api, &body, &answer).await {
        if what != "calls" {
            assert_eq!(metaclaw_tests::agent::text_of(api, &whole), text, "{whole:#}");
        }
        let expected: Vec<_> = answer
            .tools
            .iter()
            .map(|t| (t.id.clone(), t.name.clone(), serde_json::from_str(&t.arguments).expect("JSON")))
            .collect::<Vec<(String, String, Value)>>();
        assert_eq!(calls(api, &whole), expected, "{whole:#}");
        let tooled = !answer.tools.is_empty();
        let reason = match api {
            Api::Chat if tooled => "tool_calls",
            Api::Chat => "stop",
            Api::Messages if tooled => "tool_use",
            Api::Messages => "end_turn",
            Api::Responses => "completed",
        };
        assert_eq!(stop(api, &whole), reason, "{whole:#}");
        if answer.reasoning.is_some() {
            assert!(whole.to_string().contains("I should look."), "the reasoning is lost: {whole:#}");
            let keeps = |a: Api| a != Api::Chat;
            if keeps(api) && keeps(upstream) {
                assert!(whole.to_string().contains("c2lnbmF0dXJl"), "its signature is lost: {whole:#}");
            }
        }
        let usage = &whole["usage"];
        let (input, cached, output) = match api {
            Api::Chat => {
                (&usage["prompt_tokens"], &usage["prompt_tokens_details"]["cached_tokens"], &usage["completion_tokens"])
            }
            Api::Responses => {
                (&usage["input_tokens"], &usage["input_tokens_details"]["cached_tokens"], &usage["output_tokens"])
            }
            Api::Messages => (&usage["input_tokens"], &usage["cache_read_input_tokens"], &usage["output_tokens"]),
        };
        let total = if api == Api::Messages { 30 } else { 50 };
        assert_eq!((input.as_u64(), cached.as_u64(), output.as_u64()), (Some(total), Some(20), Some(7)), "{usage:#}");
    }
}

#[rstest]
#[tokio::test]
async fn a_tool_loop_arrives_in_the_providers_form(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[values(Api::Chat, Api::Responses, Api::Messages)] upstream: Api,
) {
    let provider = Provider::start().await;
    let product = product(&provider, upstream).await;
    let agent = product.agent();
    let words = [("weather", r#"{"city":"東京"}"#), ("weather", r#"{"city":"Bern"}"#)];
    provider.next(Reply::Answer(Answer::calls(&words)));
    let chat = Chat::new(api).with("tools", tools(api)).user("Weather?").send(&agent).await;
    let chat = chat.tool_result("call_weather_0", "sunny").tool_result("call_weather_1", "rain").send(&agent).await;
    chat.user("Thanks.").send(&agent).await;
    let sent = provider.last().json();
    assert_eq!(sent["model"], MODEL);
    assert_eq!(provider.last().api(), Some(upstream));
    match upstream {
        Api::Chat => {
            let roles: Vec<&str> =
                sent["messages"].as_array().expect("messages").iter().filter_map(|m| m["role"].as_str()).collect();
            assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant", "user"], "{sent:#}");
            assert_eq!(sent["messages"][1]["tool_calls"].as_array().map(Vec::len), Some(2));
            assert_eq!(sent["messages"][3]["tool_call_id"], "call_weather_1");
            assert_eq!(sent["tools"][0]["function"]["name"], "weather");
        }
        Api::Messages => {
            let messages = sent["messages"].as_array().expect("messages");
            let roles: Vec<&str> = messages.iter().filter_map(|m| m["role"].as_str()).collect();
            // Both results in one user message: what the API asks for.
            assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"], "{sent:#}");
            let ids: Vec<&str> = messages[2]["content"]
                .as_array()
                .expect("blocks")
                .iter()
                .filter_map(|b| b["tool_use_id"].as_str())
                .collect();
            assert_eq!(ids, ["call_weather_0", "call_weather_1"]);
            assert!(sent["max_tokens"].as_u64().is_some_and(|n| n > 0), "{sent:#}");
            assert_eq!(sent["tools"][0]["input_schema"]["type"], "object");
        }
        Api::Responses => {
            let kinds: Vec<&str> =
                sent["input"].as_array().expect("items").iter().filter_map(|m| m["type"].as_str()).collect();
            assert_eq!(kinds.iter().filter(|k| **k == "function_call").count(), 2, "{sent:#}");
            assert_eq!(kinds.iter().filter(|k| **k == "function_call_output").count(), 2, "{sent:#}");
            assert_eq!(sent["tools"][0]["name"], "weather");
        }
    }
}

#[rstest]
#[tokio::test]
async fn system_images_and_limits_are_translated(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[values(Api::Chat, Api::Responses, Api::Messages)] upstream: Api,
) {
    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let provider = Provider::start().await;
    let product = product(&provider, upstream).await;
    let url = format!("data:image/png;base64,{PNG}");
    let body = match api {
        Api::Chat => json!({"model": "m", "max_tokens": 321, "temperature": 0.25, "stop": ["END"], "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "What is this?"},
                                          {"type": "image_url", "image_url": {"url": url}}]}]}),
        Api::Responses => {
            json!({"model": "m", "max_output_tokens": 321, "temperature": 0.25, "instructions": "Be brief.",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "What is this?"},
                                                    {"type": "input_image", "image_url": url}]}]})
        }
        Api::Messages => json!({"model": "m", "max_tokens": 321, "temperature": 0.25, "stop_sequences": ["END"],
            "system": "Be brief.", "messages": [{"role": "user", "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]}]}),
    };
    let got = product.agent().ask(api, &body).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    let sent = provider.last().json();
    assert_eq!(sent["temperature"], 0.25, "{sent:#}");
    assert!(sent.to_string().contains(PNG), "the image is lost: {sent:#}");
    assert!(sent.to_string().contains("Be brief."), "the system prompt is lost: {sent:#}");
    let limit = [&sent["max_tokens"], &sent["max_completion_tokens"], &sent["max_output_tokens"]];
    assert!(limit.iter().any(|v| v.as_u64() == Some(321)), "the limit is lost: {sent:#}");
    match upstream {
        Api::Messages => {
            assert!(sent["system"].to_string().contains("Be brief."), "{sent:#}");
            assert!(sent["messages"].as_array().is_some_and(|m| m.iter().all(|m| m["role"] != "system")), "{sent:#}");
        }
        Api::Chat => assert_eq!(sent["messages"].as_array().map(Vec::len), Some(2), "{sent:#}"),
        Api::Responses => assert!(sent["input"].is_array() || sent["input"].is_string(), "{sent:#}"),
    }
    if api != Api::Responses && upstream != Api::Responses {
        assert!(sent.to_string().contains("END"), "the stop word is lost: {sent:#}");
    }
}

/// A thinking block with its signature goes back to Anthropic unharmed through a Responses agent, which keeps it as
/// encrypted reasoning.
#[tokio::test]
async fn a_signature_survives_the_way_there_and_back() {
    let provider = Provider::start().await;
    let product = product(&provider, Api::Messages).await;
    let agent = product.agent();
    provider.next(Reply::Answer(Answer::calls(&[("weather", "{}")]).thinking("Look first.", "c2lnbmF0dXJl")));
    let chat = Chat::new(Api::Responses).with("tools", tools(Api::Responses)).user("Weather?").send(&agent).await;
    chat.tool_result("call_weather_0", "sunny").send(&agent).await;
    let sent = provider.last().json();
    let block = &sent["messages"][1]["content"][0];
    assert_eq!(block["type"], "thinking", "{sent:#}");
    assert_eq!((&block["thinking"], &block["signature"]), (&json!("Look first."), &json!("c2lnbmF0dXJl")), "{sent:#}");
}
