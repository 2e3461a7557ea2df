//! Between an agent and a provider of the same API the body stays what the agent wrote, byte for byte, apart from the
//! documented edits: the model's name, our own session aliases, the request for usage, and the added block.

use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::product::{MODEL, Product};
use metaclaw_tests::provider::{Provider, Reply};
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::json;
use tokio::runtime::Runtime;

const SPACE: &[&str] = &["", "", "", " ", "\n  ", "\t", "\r\n"];
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "1.0",
    "1.50",
    "1e3",
    "1E+3",
    "0.1e-7",
    "123456789012345678901234567890",
    "-0.0",
    "1e400",
    "3.141592653589793238462643383279",
];
const STRINGS: &[&str] = &[
    r#""""#,
    r#""a""#,
    r#""\u0041\/\b""#,
    r#""\ud83c\udf1e""#,
    r#""東京 🌞""#,
    r#""<metaclaw-context>""#,
    r#""\u0000""#,
    r#""]}],\"messages\":[""#,
    r#""\\""#,
];

fn pick(list: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::sample::select(list).prop_map(str::to_owned)
}

/// Any JSON text, in forms that a parse and print would change.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![pick(NUMBERS), pick(STRINGS), pick(&["true", "false", "null"])];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            (prop::collection::vec((pick(SPACE), inner.clone(), pick(SPACE)), 0..4)).prop_map(|items| {
                let items: Vec<String> = items.iter().map(|(a, v, b)| format!("{a}{v}{b}")).collect();
                format!("[{}]", items.join(","))
            }),
            members(inner, 0..4).prop_map(|m| format!("{{{}}}", m.join(","))),
        ]
    })
}

fn members(value: impl Strategy<Value = String>, count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<String>> {
    let key = prop_oneof![pick(STRINGS), "[a-z_]{1,6}".prop_map(|k| format!("\"x_{k}\""))];
    prop::collection::vec((pick(SPACE), key, pick(SPACE), value, pick(SPACE)), count)
        .prop_map(|m| m.iter().map(|(a, k, b, v, c)| format!("{a}{k}{b}:{b}{v}{c}")).collect())
}

/// A request with its known members spread among unknown ones, in any order.
fn request(api: Api) -> impl Strategy<Value = String> {
    let extra_of_message = members(value(), 0..3);
    (members(value(), 0..6), extra_of_message, pick(SPACE), any::<prop::sample::Index>(), any::<bool>()).prop_map(
        move |(mut body, in_message, space, at, parts)| {
            let content = match (api, parts) {
                (Api::Responses, true) => r#"[{"type":"input_text","text":"Hi\u0021"}]"#,
                (_, true) => r#"[ {"text" : "Hi\u0021", "type":"text"}]"#,
                (_, false) => r#""Hi\u0021 ü""#,
            };
            let mut message = in_message;
            message.insert(at.index(message.len() + 1), format!("{space}\"role\":{space}\"user\""));
            message.insert(at.index(message.len() + 1), format!("\"content\"{space}:{content}"));
            let list = if api == Api::Responses { "input" } else { "messages" };
            let list = format!("\"{list}\":{space}[{space}{{{}}}{space}]", message.join(","));
            for member in [list, format!("\"model\"{space}: \"agents-model\""), "\"max_tokens\":1e3".to_owned()] {
                body.insert(at.index(body.len() + 1), member);
            }
            format!("{space}{{{}{space}}}{space}", body.join(","))
        },
    )
}

fn unchanged(api: Api) {
    let runtime = Runtime::new().expect("a runtime");
    let provider = runtime.block_on(Provider::start());
    // Answered without a look at the body: it holds JSON that not every parser takes.
    let answer = Answer::text("Fine.").whole(api, MODEL);
    provider.script(move |_| Some(Reply::json(200, &answer)));
    let settings = json!({"llm": {"dialect": api.config()}, "skills": {"enabled": false}});
    let product = runtime.block_on(Product::started(&provider, &settings));
    let agent = product.agent();
    proptest!(Config::with_cases(150), |(body in request(api))| {
        let got = runtime.block_on(agent.post(api.path(), &body));
        prop_assert_eq!(got.status(), 200, "{}", got.text());
        let expected = body.replace("\"agents-model\"", &format!("\"{MODEL}\""));
        let sent = provider.last();
        prop_assert_eq!(sent.text(), expected);
    });
}

#[test]
fn chat_bodies_reach_the_provider_as_written() {
    unchanged(Api::Chat);
}

#[test]
fn responses_bodies_reach_the_provider_as_written() {
    unchanged(Api::Responses);
}

#[test]
fn messages_bodies_reach_the_provider_as_written() {
    unchanged(Api::Messages);
}

#[tokio::test]
async fn only_the_usage_request_is_added_to_a_chat_stream_and_the_client_does_not_see_it() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let body = r#"{"messages": [{"role":"user","content":"hi"}],  "x": 1.50, "stream" : true,"model":"agents-model"}"#;
    let got = product.agent().post(Api::Chat.path(), body).await;
    let sent = provider.last();
    assert_eq!(sent.json()["stream_options"], json!({"include_usage": true}));
    assert!(sent.text().contains(r#""x": 1.50, "stream" : true,"#), "{}", sent.text());
    assert!(!got.text().contains("prompt_tokens"), "{}", got.text());

    let body = body.replace("\"x\": 1.50", r#""stream_options": {"include_obfuscation":false , "include_usage":true}"#);
    let got = product.agent().post(Api::Chat.path(), &body).await;
    assert_eq!(provider.last().text(), body.replace("agents-model", MODEL));
    assert!(got.text().contains("prompt_tokens"), "{}", got.text());
}

#[tokio::test]
async fn our_own_aliases_are_taken_out_and_nothing_else() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let body = r#"{"session_id":"s1", "turn_type" :"main","model":"agents-model","session_done":false,"user_id":"u",
        "memory_scope":"default", "workspace_id":"w" , "messages": [{"role":"user","content":"hi","session_id":"keep"}], "user":"u1"}"#;
    let got = product.agent().post(Api::Chat.path(), body).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    let sent = provider.last();
    let rest = sent.json();
    let keys: Vec<&String> = rest.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["model", "messages", "user"], "{}", sent.text());
    assert!(sent.text().contains(r#""messages": [{"role":"user","content":"hi","session_id":"keep"}], "user":"u1"}"#));
}

#[tokio::test]
async fn headers_that_matter_to_the_provider_come_through_and_ours_do_not() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({"llm": {"dialect": "anthropic-messages"}})).await;
    let agent = product
        .agent()
        .without_header("authorization")
        .with_header("x-api-key", metaclaw_tests::product::PROXY_KEY)
        .with_header("anthropic-version", "2023-06-01")
        .with_header("anthropic-beta", "some-beta-2026")
        .with_header("x-session-id", "s1")
        .with_header("accept-encoding", "gzip")
        .with_header("cookie", "a=b")
        .with_header("x-forwarded-for", "10.0.0.1");
    let got = agent.ask(Api::Messages, &metaclaw_tests::agent::hello(Api::Messages, "hi", false)).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    let head = &provider.last().head;
    assert_eq!(head.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(head.header("anthropic-beta"), Some("some-beta-2026"));
    assert_eq!(head.header("x-api-key"), Some(metaclaw_tests::product::UPSTREAM_KEY));
    assert_eq!(head.header("host"), Some(provider.addr()));
    for name in ["x-session-id", "cookie", "x-forwarded-for", "origin"] {
        assert_eq!(head.header(name), None, "{name} went to the provider");
    }
    assert!(!format!("{head:?}").contains(metaclaw_tests::product::PROXY_KEY), "{head:?}");
}

#[tokio::test]
async fn the_providers_reply_body_and_headers_come_through() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let body = r#"{ "id":"x", "object":"chat.completion","created":1,"model":"m","extra":1.50,
      "choices":[{"index":0,"message":{"role":"assistant","content":"A\u0042","odd":null},"finish_reason":"stop"}] }"#;
    let headers = [
        ("content-type", "application/json"),
        ("x-ratelimit-remaining-requests", "41"),
        ("openai-processing-ms", "12"),
        ("set-cookie", "a=b"),
    ];
    provider.next(Reply::with_headers(200, &headers, body));
    let got = product.agent().ask(Api::Chat, &metaclaw_tests::agent::hello(Api::Chat, "hi", false)).await;
    assert_eq!(got.text(), body);
    assert_eq!(got.head.header("x-ratelimit-remaining-requests"), Some("41"));
    assert_eq!(got.head.header("openai-processing-ms"), Some("12"));
    assert_eq!(got.head.header("x-request-id"), Some("req_fake"));
    assert!(got.head.header("x-metaclaw-session").is_some(), "{:?}", got.head);
    assert!(got.head.header("x-metaclaw-turn").is_some(), "{:?}", got.head);
    assert_eq!(got.head.header("set-cookie"), None);
}
