//! What goes to the provider, what comes back, and what happens when it does not.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue};
use dialect::Dialect;
use metaclaw_proxy::{Endpoint, Event, ModelError, Settings};
use rstest::rstest;
use serde_json::{Value, json};
use store::Outcome;

use crate::port::{Fake, Says, chunk, finish, port, port_with, request, user, whole};

const PATHS: [(&str, Dialect); 3] = [
    ("/v1/chat/completions", Dialect::Chat),
    ("/v1/responses", Dialect::Responses),
    ("/v1/messages", Dialect::Messages),
];

fn body(dialect: Dialect, text: &str) -> Value {
    match dialect {
        Dialect::Responses => json!({"model": "m", "input": text}),
        _ => json!({"model": "m", "max_tokens": 64, "messages": [user(text)]}),
    }
}

fn answer_text(dialect: Dialect, body: &Value) -> String {
    let path = match dialect {
        Dialect::Chat => "/choices/0/message/content",
        Dialect::Responses => "/output/0/content/0/text",
        Dialect::Messages => "/content/0/text",
    };
    body.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("no text in {body}")).to_owned()
}

#[tokio::test]
async fn every_dialect_reaches_every_provider() {
    for (path, client) in PATHS {
        for upstream in Dialect::ALL {
            let model = Arc::new(Fake::new(upstream));
            let port = port(&model, Settings::default()).await;
            let got = port.ask("POST", path, &[], body(client, "Salut").to_string()).await;
            assert_eq!(got.status, 200, "{client} {upstream}: {}", got.text());
            assert_eq!(answer_text(client, &got.json()), "Fine.");
            let sent = model.last();
            assert_eq!((sent.dialect, sent.endpoint), (upstream, Endpoint::Generate));
            assert!(String::from_utf8_lossy(&sent.body).contains("Salut"));
        }
    }
}

#[tokio::test]
async fn the_same_dialect_passes_byte_for_byte_both_ways() {
    let model = Arc::new(Fake::new(Dialect::Chat));
    let back = r#"{ "id":"x","choices":[ {"index":0,"message":{"role":"assistant","content":"A\u0042"},"finish_reason":"stop"}], "z":1.50 }"#;
    model.says(Says::Whole(200, "application/json", back.to_owned()));
    let port = port(&model, Settings::default()).await;
    let sent = r#"{ "messages" : [ {"role":"user" , "content":"hi\u0021"} ],"temperature":1.0,"model":"m","x":{"b":1,"a":2} }"#;
    let got = port.ask("POST", "/v1/chat/completions", &[], sent).await;
    assert_eq!(got.text(), back);
    assert_eq!(model.body(0), sent);
}

#[tokio::test]
async fn a_stream_asks_for_usage_unless_the_provider_cannot_take_it() {
    let mut model = Fake::new(Dialect::Chat);
    model.quirks.stream_usage = false;
    for (model, asked) in [(Arc::new(Fake::new(Dialect::Chat)), true), (Arc::new(model), false)] {
        let provider = model.streams();
        provider.unbounded_send(Ok(chunk("x"))).unwrap();
        provider.unbounded_send(Ok(finish())).unwrap();
        let port = port(&model, Settings::default()).await;
        port.chat(&request(&[user("hi")], true)).await;
        let sent: Value = serde_json::from_slice(&model.body(0)).unwrap();
        assert_eq!(sent.pointer("/stream_options/include_usage").is_some(), asked);
    }
}

#[tokio::test]
async fn errors_keep_status_headers_and_words_in_the_agents_form() {
    for (path, client) in PATHS {
        for upstream in Dialect::ALL {
            let model = Arc::new(Fake::new(upstream));
            *model.headers.lock().unwrap() = HeaderMap::from_iter([
                ("retry-after".parse().unwrap(), HeaderValue::from_static("30")),
                ("x-ratelimit-remaining-requests".parse().unwrap(), HeaderValue::from_static("0")),
                ("x-request-id".parse().unwrap(), HeaderValue::from_static("req_9")),
            ]);
            let told = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}});
            model.says(Says::Whole(429, "application/json", told.to_string()));
            let port = port(&model, Settings::default()).await;
            let got = port.ask("POST", path, &[], body(client, "hi").to_string()).await;
            assert_eq!(got.status, 429);
            assert_eq!(got.json()["error"]["message"], "Slow down.");
            assert_eq!(got.json()["type"] == "error", client == Dialect::Messages || upstream != Dialect::Messages);
            for (name, value) in
                [("retry-after", "30"), ("x-ratelimit-remaining-requests", "0"), ("x-request-id", "req_9")]
            {
                assert_eq!(got.header(name), value, "{client} {upstream}");
            }
            let turns = port.turns().await;
            assert_eq!((turns[0].outcome, turns[0].status), (Outcome::Error, Some(429)));
            assert_eq!(turns[0].error.as_deref(), Some("Slow down."));
        }
    }
}

#[rstest]
#[case::html(200, "text/html", "<html><title>Bad Gateway</title></html>")]
#[case::html_error(502, "text/html", "<html><title>Bad Gateway</title></html>")]
#[case::empty(200, "application/json", "")]
#[case::no_choices(200, "application/json", r#"{"id":"x","choices":[]}"#)]
#[case::cut(200, "application/json", r#"{"id":"#)]
#[tokio::test]
async fn odd_answers_are_readable_errors(
    #[case] status: u16,
    #[case] kind: &'static str,
    #[case] text: &str,
    #[values(false, true)] stream: bool,
) {
    let model = Arc::new(Fake::new(Dialect::Chat));
    model.says(Says::Whole(status, kind, text.to_owned()));
    let port = port(&model, Settings::default()).await;
    let got = port.chat(&request(&[user("hi")], stream)).await;
    assert_eq!(got.status, 502, "{}", got.text());
    let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(!message.is_empty() && !message.contains('<'), "{message}");
    assert_eq!(port.turns().await[0].outcome, Outcome::Error);
}

#[tokio::test]
async fn a_provider_that_repeats_its_key_does_not_give_it_away() {
    let words = "Incorrect API key provided: sk-fake-canary.";
    for (path, client) in PATHS {
        for (status, kind, text) in [
            (401, "application/json", json!({"error": {"message": words}}).to_string()),
            (200, "application/json", json!({"error": {"message": words}}).to_string()),
            (502, "text/html", format!("<html><title>{words}</title></html>")),
        ] {
            for stream in [false, true] {
                let model = Arc::new(Fake { secret: Some("sk-fake-canary"), ..Fake::new(Dialect::Chat) });
                model.says(Says::Whole(status, kind, text.clone()));
                let port = port(&model, Settings::default()).await;
                let mut asked = body(client, "hi");
                asked["stream"] = json!(stream);
                let got = port.ask("POST", path, &[], asked.to_string()).await;
                assert!(got.status >= 400 && got.text().contains("Incorrect API key"), "{}", got.text());
                let told = port.turns().await[0].error.clone().unwrap();
                assert!(!got.text().contains("canary") && !told.contains("canary"), "{told} {}", got.text());
            }
        }
    }
}

#[tokio::test]
async fn the_fallback_is_asked_in_its_own_dialect_and_with_its_own_model() {
    let first = Arc::new(Fake::new(Dialect::Chat));
    first.says(Says::Whole(503, "application/json", r#"{"error":{"message":"down"}}"#.to_owned()));
    let second = Arc::new(Fake { model_id: Some("other"), name: "second".into(), ..Fake::new(Dialect::Messages) });
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let mut port = port_with(&first, Some(&second), Settings::default(), folder).await;
    let got = port.chat(&request(&[user("hi")], false)).await;
    assert_eq!((got.status, answer_text(Dialect::Chat, &got.json())), (200, "Fine.".to_owned()));
    let sent: Value = serde_json::from_slice(&second.body(0)).unwrap();
    assert_eq!(sent["model"], "other");
    let turn = &port.turns().await[0];
    assert_eq!((turn.upstream.as_deref(), turn.upstream_dialect.as_str()), (Some("second"), "anthropic-messages"));
    assert!(matches!(port.event().await, Event::FallbackUsed { .. }));
}

#[tokio::test]
async fn when_both_fail_the_first_providers_word_counts() {
    let first = Arc::new(Fake::new(Dialect::Chat));
    first.says(Says::Whole(429, "application/json", r#"{"error":{"message":"busy"}}"#.to_owned()));
    let second = Arc::new(Fake::new(Dialect::Chat));
    second.says(Says::Fails(ModelError::Broken { name: "second".into(), reason: "gone".into() }));
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let port = port_with(&first, Some(&second), Settings::default(), folder).await;
    let got = port.chat(&request(&[user("hi")], false)).await;
    assert_eq!((got.status, &got.json()["error"]["message"]), (429, &json!("busy")));
}

#[tokio::test]
async fn a_bad_request_is_not_taken_to_the_fallback() {
    let first = Arc::new(Fake::new(Dialect::Chat));
    first.says(Says::Whole(400, "application/json", r#"{"error":{"message":"too long"}}"#.to_owned()));
    let second = Arc::new(Fake::new(Dialect::Chat));
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let port = port_with(&first, Some(&second), Settings::default(), folder).await;
    assert_eq!(port.chat(&request(&[user("hi")], false)).await.status, 400);
    assert_eq!(second.count(), 0);
}

#[tokio::test]
async fn a_request_that_comes_back_to_us_is_refused() {
    let model = Arc::new(Fake::new(Dialect::Chat));
    let port = port(&model, Settings::default()).await;
    let body = request(&[user("hi")], false).to_string();
    let got = port.ask("POST", "/v1/chat/completions", &[("x-metaclaw-hop", "hop-1")], body.clone()).await;
    assert_eq!((got.status, model.count()), (508, 0));
    // The provider's key, which it carries, is not the agent's; that is not what is wrong.
    let locked = self::port(&model, Settings { api_key: Some("k".into()), ..Settings::default() }).await;
    let headers = [("x-metaclaw-hop", "hop-1"), ("authorization", "Bearer sk-up")];
    let got = locked.ask("POST", "/v1/chat/completions", &headers, body.clone()).await;
    assert_eq!((got.status, model.count()), (508, 0));
    let got = port.ask("POST", "/v1/chat/completions", &[("x-metaclaw-hop", "another")], body).await;
    assert_eq!(got.status, 200);
}

#[tokio::test]
async fn other_paths_go_to_the_provider_as_they_are() {
    let model = Arc::new(Fake::new(Dialect::Chat));
    model.says(Says::Whole(201, "application/json", r#"{"data":[1]}"#.to_owned()));
    let port = port(&model, Settings::default()).await;
    let got = port.ask("POST", "/v1/embeddings?a=1", &[("user-agent", "x/1")], r#"{"input":"a"}"#).await;
    assert_eq!((got.status, got.text()), (201, r#"{"data":[1]}"#.to_owned()));
    let call = model.last();
    assert_eq!((call.query.as_deref(), &call.body[..]), (Some("a=1"), &br#"{"input":"a"}"#[..]));
    assert!(matches!(&call.endpoint, Endpoint::Other { path, .. } if path == "/embeddings"));
    for path in ["/v1/responses/resp_1", "/v1/messages/batches", "/v1/../secret", "/v1/files/%2e%2e/x", "/nowhere"] {
        let got = port.ask("GET", path, &[], "").await;
        assert_eq!(got.status, 404, "{path}");
        assert_eq!(got.json()["type"] == "error", path.contains("/messages"), "{path}");
    }
    assert_eq!(model.count(), 1);
    assert!(port.turns().await.is_empty(), "only conversations are recorded");
}

#[tokio::test]
async fn responses_sub_routes_reach_a_provider_of_that_dialect() {
    let model = Arc::new(Fake::new(Dialect::Responses));
    let port = port(&model, Settings::default()).await;
    for (method, path) in [
        ("GET", "/responses/resp_1"),
        ("DELETE", "/responses/resp_1"),
        ("POST", "/responses/resp_1/cancel"),
        ("GET", "/responses/resp_1/input_items"),
    ] {
        assert_eq!(port.ask(method, &format!("/v1{path}"), &[], "").await.status, 200);
        let Endpoint::Other { method: sent, path: to } = model.last().endpoint else { panic!() };
        assert_eq!((sent.as_str(), to.as_str()), (method, path));
    }
    let asked = json!({"model": "m", "input": "go on", "previous_response_id": "resp_1"}).to_string();
    port.ask("POST", "/v1/responses", &[], asked.clone()).await;
    assert_eq!(model.last().body, asked);
}

#[tokio::test]
async fn tokens_are_counted_by_the_provider_or_estimated_and_never_recorded() {
    let counted = |model: Fake| async move {
        let model = Arc::new(model);
        if model.dialect == Dialect::Messages {
            model.says(Says::Whole(200, "application/json", r#"{"input_tokens":7}"#.to_owned()));
            model.says(Says::Whole(500, "text/html", "<html>".to_owned()));
        }
        let port = port(&model, Settings::default()).await;
        let mut counts = Vec::new();
        for text in ["hello", "hello", "tell me about zebrafish"] {
            let body = json!({"model": "m", "messages": [user(text)]}).to_string();
            let got = port.ask("POST", "/v1/messages/count_tokens?beta=true", &[], body).await;
            assert_eq!(got.status, 200, "{}", got.text());
            counts.push(got.json()["input_tokens"].as_u64().unwrap());
        }
        assert!(port.turns().await.is_empty());
        (counts, model)
    };
    let (counts, model) = counted(Fake::new(Dialect::Messages)).await;
    assert_eq!(counts[0], 7);
    assert!((1..10).contains(&counts[1]), "{counts:?}");
    assert!(String::from_utf8_lossy(&model.last().body).contains("28.5 degrees"), "what is added counts too");
    assert_eq!(model.last().endpoint, Endpoint::CountTokens);
    let (counts, model) = counted(Fake::new(Dialect::Chat)).await;
    assert_eq!(model.count(), 0);
    assert!(counts[2] > counts[0] + 30, "{counts:?}");
}

#[tokio::test]
async fn models_are_listed_whatever_the_provider_says() {
    let model = Arc::new(Fake { model_id: Some("mine"), ..Fake::new(Dialect::Chat) });
    model.says(Says::Whole(200, "application/json", r#"{"data":[{"id":"theirs","x":1}]}"#.to_owned()));
    let port = port(&model, Settings::default()).await;
    for _ in 0..3 {
        let got = port.ask("GET", "/v1/models", &[], "").await.json();
        let ids: Vec<_> = got["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["mine", "theirs"]);
        assert_eq!(got["object"], "list");
    }
    assert_eq!(model.count(), 1, "the list is kept");
    let got = port.ask("GET", "/v1/models", &[("anthropic-version", "2023-06-01")], "").await.json();
    assert_eq!((&got["data"][0]["type"], &got["first_id"]), (&json!("model"), &json!("mine")));
    assert_eq!(port.ask("GET", "/v1/models/any/name", &[], "").await.json()["id"], "any/name");

    let broken = Arc::new(Fake::new(Dialect::Chat));
    broken.says(Says::Whole(500, "text/html", "<html>".to_owned()));
    let port = self::port(&broken, Settings::default()).await;
    let got = port.ask("GET", "/v1/models", &[], "").await;
    assert_eq!((got.status, &got.json()["data"][0]["id"]), (200, &json!("metaclaw-model")));
}

#[tokio::test]
async fn without_a_provider_agents_hear_what_to_do() {
    let model = Arc::new(Fake::new(Dialect::Chat));
    let port = port(&model, Settings::default()).await;
    port.deps.upstream.store(Arc::new(Err("no provider is set up: run `metaclaw setup`".to_owned())));
    let got = port.chat(&request(&[user("hi")], false)).await;
    assert_eq!((got.status, &got.json()["error"]["code"]), (503, &json!("not_configured")));
    assert!(got.text().contains("metaclaw setup"));
    assert_eq!(port.ask("GET", "/v1/models", &[], "").await.status, 200);
}

#[tokio::test]
async fn the_gate_speaks_the_agents_dialect() {
    let model = Arc::new(Fake::new(Dialect::Chat));
    let port = port(&model, Settings { api_key: Some("k".into()), max_body_bytes: 100, ..Settings::default() }).await;
    for (path, client) in PATHS {
        let got = port.ask("POST", path, &[], "{}").await;
        assert_eq!((got.status, got.json()["type"] == "error"), (401, client == Dialect::Messages));
        let got = port.ask("POST", path, &[("x-api-key", "k")], "x".repeat(101)).await;
        assert_eq!((got.status, got.json()["type"] == "error"), (413, client == Dialect::Messages));
        let got = port.ask("POST", path, &[("x-api-key", "k")], "{").await;
        assert_eq!(got.status, 400);
        let got = port.ask("GET", path, &[("x-api-key", "k")], "").await;
        assert_eq!((got.status, got.header("allow")), (405, "POST"));
        let got = port.ask("POST", path, &[("x-api-key", "k"), ("origin", "null")], "{}").await;
        assert_eq!(got.status, 403);
    }
    let got = port.ask("GET", "/healthz", &[], "").await;
    assert_eq!((got.status, &got.json()["ok"]), (200, &json!(true)));
    assert_eq!(port.ask("GET", "/healthz", &[("host", "evil.com")], "").await.status, 403);
    assert_eq!(port.ask("GET", "/k/k/v1/models", &[], "").await.status, 200);
    assert_eq!(port.ask("GET", "/k/wrong/v1/models", &[], "").await.status, 401);
    for (path, status) in [("/v1/memory/stats", 503), ("/v1/admin/train_step", 503), ("/v1/admin/x", 404)] {
        assert_eq!(port.ask("GET", path, &[], "").await.status, 401);
        let got = port.ask("GET", path, &[("x-api-key", "k")], "").await;
        assert_eq!((got.status, got.json()["detail"].is_string()), (status, true));
    }
    assert_eq!(model.count(), 1, "only the list of models was asked for");
}

#[tokio::test]
async fn only_a_page_let_in_by_name_may_read_answers() {
    let model = Arc::new(Fake::new(Dialect::Chat));
    let allowed_origins = vec!["https://chat.example".into()];
    let port = port(&model, Settings { api_key: Some("k".into()), allowed_origins, ..Settings::default() }).await;
    let asks = [("access-control-request-method", "POST"), ("access-control-request-headers", "authorization")];
    let path = "/v1/chat/completions";
    let got = port.ask("OPTIONS", path, &[("origin", "https://chat.example"), asks[0], asks[1]], "").await;
    assert_eq!((got.status, got.header("access-control-allow-origin")), (204, "https://chat.example"));
    assert_eq!(got.header("access-control-allow-headers"), "authorization");
    let page = [("origin", "https://chat.example"), ("authorization", "Bearer k")];
    let got = port.ask("POST", path, &page, request(&[user("hi")], false).to_string()).await;
    assert_eq!((got.status, got.header("access-control-allow-origin")), (200, "https://chat.example"));
    for (origin, status) in [("https://evil.example", 403), ("http://localhost:5173", 401), ("null", 403)] {
        let got = port.ask("OPTIONS", path, &[("origin", origin), asks[0]], "").await;
        assert_eq!((got.status, got.header("access-control-allow-origin")), (status, ""), "{origin}");
    }
}

#[tokio::test]
async fn a_journal_that_fails_is_loud_and_the_agent_is_served() {
    let model = Arc::new(Fake::new(Dialect::Chat));
    let mut port = port(&model, Settings::default()).await;
    port.store.close().await.unwrap();
    let got = port.chat(&request(&[user("hi")], false)).await;
    assert_eq!((got.status, answer_text(Dialect::Chat, &got.json())), (200, "Fine.".to_owned()));
    assert!(got.header("x-metaclaw-warning").contains("not recorded"), "{:?}", got.headers);
    assert!(matches!(port.event().await, Event::JournalFailed { .. }));
    assert!(port.proxy.is_journal_failing());
    let provider = model.streams();
    provider.unbounded_send(Ok(chunk("one"))).unwrap();
    provider.unbounded_send(Ok(finish())).unwrap();
    let got = port.chat(&request(&[user("hi")], true)).await;
    assert!(got.text().ends_with("[DONE]\n\n") && !got.header("x-metaclaw-warning").is_empty());
}

#[tokio::test]
async fn settings_count_from_the_next_request_on() {
    let model = Arc::new(Fake::new(Dialect::Chat));
    let port = port(&model, Settings::default()).await;
    assert_eq!(port.chat(&request(&[user("hi")], false)).await.status, 200);
    port.settings.store(Arc::new(Settings { api_key: Some("new".into()), ..Settings::default() }));
    assert_eq!(port.chat(&request(&[user("hi")], false)).await.status, 401);
    let other = Arc::new(Fake { name: "other".into(), ..Fake::new(Dialect::Messages) });
    other.says(Says::Whole(200, "application/json", whole(Dialect::Messages, "Other.")));
    let route = metaclaw_proxy::Route { primary: other.clone(), fallback: None };
    port.deps.upstream.store(Arc::new(Ok(route)));
    let body = request(&[user("hi")], false).to_string();
    let got = port.ask("POST", "/v1/chat/completions", &[("authorization", "Bearer new")], body).await;
    assert_eq!(answer_text(Dialect::Chat, &got.json()), "Other.");
}

#[tokio::test]
async fn a_key_in_an_error_of_any_path_stays_here() {
    let model = Arc::new(Fake { secret: Some("sk-upstream-canary"), ..Fake::new(Dialect::Chat) });
    let told = r#"{"error":{"message":"Incorrect API key provided: Bearer sk-upstream-canary"}}"#;
    for path in ["/v1/embeddings", "/v1/chat/completions", "/v1/images/generations"] {
        model.says(Says::Whole(401, "application/json", told.to_owned()));
        let port = port(&model, Settings::default()).await;
        let got = port.ask("POST", path, &[], body(Dialect::Chat, "hi").to_string()).await;
        assert_eq!((got.status, got.header("content-type")), (401, "application/json"));
        assert_eq!(got.text(), told.replace("sk-upstream-canary", "[key]"), "{path}");
    }
}

#[tokio::test]
async fn the_callers_credential_is_told_in_the_providers_dialect() {
    for (upstream, sent, told) in [
        (Dialect::Chat, ("x-api-key", "sk-1"), ("authorization", "Bearer sk-1")),
        (Dialect::Messages, ("x-api-key", "sk-1"), ("x-api-key", "sk-1")),
    ] {
        let model = Arc::new(Fake { caller: true, ..Fake::new(upstream) });
        let port = port(&model, Settings { passthrough: true, ..Settings::default() }).await;
        let got = port.ask("POST", "/v1/messages", &[sent], body(Dialect::Messages, "hi").to_string()).await;
        assert_eq!(got.status, 200);
        let told = vec![(told.0, HeaderValue::from_static(told.1))];
        assert_eq!(model.last().credentials, told);
    }
}

#[tokio::test]
async fn a_model_with_a_slash_in_its_name_is_found_in_either_spelling() {
    let model = Arc::new(Fake::new(Dialect::Chat));
    model.says(Says::Whole(200, "application/json", r#"{"data":[{"id":"org/name","x":1}]}"#.to_owned()));
    let port = port(&model, Settings::default()).await;
    for path in ["/v1/models/org%2Fname", "/v1/models/org/name"] {
        let got = port.ask("GET", path, &[], "").await;
        assert_eq!((got.status, &got.json()["x"]), (200, &json!(1)), "{path}");
    }
}

#[tokio::test]
async fn a_failed_run_of_responses_comes_as_the_provider_tells_it() {
    let run = r#"{ "id":"resp_1","object":"response","status":"failed","error":{"code":"server_error","message":"It broke."},"output":[] }"#;
    let model = Arc::new(Fake::new(Dialect::Responses));
    model.says(Says::Whole(200, "application/json", run.to_owned()));
    model.says(Says::Whole(200, "application/json", run.to_owned()));
    let port = port(&model, Settings::default()).await;
    let got = port.ask("POST", "/v1/responses", &[], body(Dialect::Responses, "hi").to_string()).await;
    assert_eq!((got.status, got.text()), (200, run.to_owned()));
    let got = port.ask("POST", "/v1/messages", &[], body(Dialect::Messages, "hi").to_string()).await;
    assert_eq!((got.status, &got.json()["error"]["message"]), (502, &json!("It broke.")));
    let turns = port.turns().await;
    assert_eq!(
        turns.iter().map(|t| (t.outcome, t.status)).collect::<Vec<_>>(),
        [(Outcome::Error, Some(200)), (Outcome::Error, Some(502))]
    );
    assert_eq!(turns[0].error.as_deref(), Some("It broke."));
}

#[tokio::test]
async fn thinking_packed_for_another_provider_never_reaches_one() {
    let chat = Arc::new(Fake::new(Dialect::Chat));
    let answer = json!({"id": "c1", "choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "Fine.", "reasoning_content": "hm"}}]});
    chat.says(Says::Whole(200, "application/json", answer.to_string()));
    let port = port(&chat, Settings::default()).await;
    let first = body(Dialect::Messages, "hi");
    let got = port.ask("POST", "/v1/messages", &[], first.to_string()).await.json();
    assert!(got["content"][0]["signature"].as_str().unwrap().starts_with("metaclaw:"), "{got}");
    // The user changes to a provider of the agent's own dialect.
    let anthropic = Arc::new(Fake::new(Dialect::Messages));
    let route = metaclaw_proxy::Route { primary: anthropic.clone(), fallback: None };
    port.deps.upstream.store(Arc::new(Ok(route)));
    let mut next = first;
    let said = json!({"role": "assistant", "content": got["content"]});
    next["messages"].as_array_mut().unwrap().extend([said, user("more")]);
    assert_eq!(port.ask("POST", "/v1/messages", &[], next.to_string()).await.status, 200);
    let sent: Value = serde_json::from_slice(&anthropic.last().body).unwrap();
    assert_eq!(sent["messages"][1]["content"], json!([{"type": "text", "text": "Fine."}]));
}

#[tokio::test]
async fn the_journal_tells_who_was_asked_and_when_an_answer_began() {
    let model = Arc::new(Fake { model_id: Some("big"), ..Fake::new(Dialect::Chat) });
    model.says(Says::Whole(400, "application/json", r#"{"error":{"message":"No."}}"#.to_owned()));
    let mut port = port(&model, Settings::default()).await;
    let got = port.chat(&request(&[user("hi")], true)).await;
    assert_eq!(got.status, 400);
    assert_eq!(port.turns().await[0].first_byte_ms, None, "no answer began");
    port.event().await;
    let (_hold, held) = tokio::sync::oneshot::channel();
    model.says(Says::Later(held, Box::new(Says::Whole(200, "application/json", String::new()))));
    {
        let call = port.open("POST", "/v1/chat/completions", &[], request(&[user("ho")], false).to_string());
        tokio::pin!(call);
        while model.count() < 2 {
            assert!(futures::poll!(&mut call).is_pending());
            tokio::task::yield_now().await;
        }
    }
    port.event().await;
    let turn = port.turns().await.pop().unwrap();
    assert_eq!((turn.upstream.as_deref(), turn.model_sent.as_deref()), (Some("fake"), Some("big")));
    assert_eq!(turn.upstream_dialect, "openai-chat");
    assert!(turn.error.unwrap().contains("went away"));
}

#[tokio::test]
async fn uploads_reach_the_provider_in_their_own_form() {
    let form = "--x\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x--\r\n";
    let kind = ("content-type", "multipart/form-data; boundary=x");
    for api_key in [None, Some("k".to_owned())] {
        let model = Arc::new(Fake::new(Dialect::Chat));
        *model.headers.lock().unwrap() =
            HeaderMap::from_iter([("content-encoding".parse().unwrap(), HeaderValue::from_static("br"))]);
        let port = port(&model, Settings { api_key: api_key.clone(), ..Settings::default() }).await;
        for path in ["/v1/files", "/v1/audio/transcriptions", "/v1/images/edits"] {
            let got = port.ask("POST", path, &[kind, ("content-encoding", "gzip"), ("x-api-key", "k")], form).await;
            assert_eq!((got.status, got.header("content-encoding")), (200, "br"), "{}", got.text());
            let call = model.last();
            assert_eq!(&call.body[..], form.as_bytes());
            assert_eq!(call.headers["content-type"], kind.1);
            assert_eq!(call.headers["content-encoding"], "gzip");
        }
        for (path, headers, status) in [
            ("/v1/chat/completions", &[("x-api-key", "k")][..], 415),
            ("/v1/files", &[("origin", "https://evil.com"), ("x-api-key", "k")], 403),
            ("/v1/files", &[("sec-fetch-site", "cross-site")], if api_key.is_some() { 401 } else { 415 }),
        ] {
            let got = port.ask("POST", path, &[&[kind], headers].concat(), form).await;
            assert_eq!(got.status, status, "{path} {headers:?}");
        }
        assert_eq!(model.count(), 3);
    }
}

#[tokio::test]
async fn an_answer_compressed_unasked_is_told_as_such() {
    let model = Arc::new(Fake::new(Dialect::Chat));
    *model.headers.lock().unwrap() =
        HeaderMap::from_iter([("content-encoding".parse().unwrap(), HeaderValue::from_static("gzip"))]);
    let port = port(&model, Settings::default()).await;
    for (status, expected) in [(200, 502), (401, 401), (429, 429)] {
        for (method, path) in [("POST", "/v1/chat/completions"), ("GET", "/v1/files/x")] {
            if (status, method) == (200, "GET") {
                continue;
            }
            model.says(Says::Whole(status, "application/json", "\u{1f}\u{8b}sk-1".to_owned()));
            let got = port.ask(method, path, &[], request(&[user("hi")], false).to_string()).await;
            assert_eq!((got.status, got.header("content-encoding")), (expected, ""));
            let told = got.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(told.contains("gzip") && !told.contains("sk-1"), "{told}");
        }
    }
}

#[tokio::test]
async fn no_spelling_of_a_path_leads_round_the_journal() {
    let model = Arc::new(Fake::new(Dialect::Chat));
    let port = port(&model, Settings::default()).await;
    let body = request(&[user("zebrafish")], false).to_string();
    let odd =
        ["/v1/./chat/completions", "/v1/chat/completions//", "/v1/%63hat/completions", "/v1//%2e/chat/completion%73/"];
    for path in odd {
        let got = port.ask("POST", path, &[], body.clone()).await;
        assert_eq!((got.status, got.header("x-metaclaw-turn")), (200, "1"), "{path}");
        assert!(String::from_utf8_lossy(&model.last().body).contains("<metaclaw-context>"), "{path}");
    }
    assert_eq!(port.turns().await.len(), odd.len());
    for path in [
        "/v1/chat/completions;a=b",
        "/v1/x/../chat/completions",
        "/v1/x/%2E%2e/chat/completions",
        "/v1/chat%2fcompletions",
    ] {
        assert_eq!(port.ask("POST", path, &[], body.clone()).await.status, 404, "{path}");
    }
    assert_eq!(model.count(), odd.len());
    // What goes to the provider has the usual spelling too.
    port.ask("GET", "/v1/./files//%66ile-1", &[], "").await;
    assert!(matches!(&model.last().endpoint, Endpoint::Other { path, .. } if path == "/files/file-1"));
}
