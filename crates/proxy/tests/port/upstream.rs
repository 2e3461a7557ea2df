//! `HttpModel` against a provider on loopback: retries, headers, credentials, connections.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::Response;
use bytes::Bytes;
use config::Config;
use dialect::Dialect;
use futures::StreamExt;
use http_body_util::BodyExt;
use metaclaw_proxy::{Call, Endpoint, HttpModel, Model, ModelError, Patience, http_client};
use tokio_util::task::TaskTracker;

type Answers = Arc<Mutex<VecDeque<Response>>>;
type Seen = Arc<Mutex<Vec<(String, HeaderMap, Bytes)>>>;

struct Provider {
    base: String,
    answers: Answers,
    seen: Seen,
}

async fn answer(State((answers, seen)): State<(Answers, Seen)>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    seen.lock().unwrap().push((format!("{} {}", parts.method, parts.uri), parts.headers, body));
    answers.lock().unwrap().pop_front().unwrap_or_else(|| Response::new(Body::from("{\"ok\":true}")))
}

impl Provider {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let (answers, seen) = (Answers::default(), Seen::default());
        let router = Router::new().fallback(answer).with_state((answers.clone(), seen.clone()));
        TaskTracker::new().spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { base, answers, seen }
    }

    fn says(&self, status: u16, headers: &[(&str, &str)], body: &str) {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        self.answers.lock().unwrap().push_back(response.body(Body::from(body.to_owned())).unwrap());
    }

    fn seen(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

fn model(base: &str, extra: &str) -> HttpModel {
    let text = format!("llm:\n  provider: custom\n  api_base: {base}\n  api_key: sk-up\n  model_id: big\n{extra}");
    let config: Config = config::parse(&text, std::path::Path::new("config.yaml")).unwrap().config;
    let patience = Patience { first_byte: Duration::from_secs(20), retries: 2, first_wait: Duration::from_millis(1) };
    HttpModel::new(config.upstream().unwrap(), http_client(&config).unwrap(), patience, "hop").unwrap()
}

fn call(model: &HttpModel) -> Call {
    Call {
        endpoint: Endpoint::Generate,
        dialect: model.dialect(),
        query: None,
        body: Bytes::from_static(b"{\"a\":1}"),
        stream: false,
        headers: HeaderMap::new(),
        credentials: Vec::new(),
    }
}

async fn text(mut body: metaclaw_proxy::ReplyBody) -> String {
    let mut all = Vec::new();
    while let Some(chunk) = body.next().await {
        all.extend_from_slice(&chunk.unwrap());
    }
    String::from_utf8(all).unwrap()
}

#[tokio::test]
async fn what_passes_is_tried_again_and_what_does_not_is_not() {
    for (status, attempts) in [(429, 2), (500, 2), (503, 2), (529, 2), (400, 1), (401, 1), (404, 1), (422, 1)] {
        let provider = Provider::start().await;
        provider.says(status, &[], "no");
        let model = model(&provider.base, "");
        let reply = model.send(call(&model)).await.unwrap();
        assert_eq!(provider.seen(), attempts, "{status}");
        assert_eq!(reply.status.as_u16(), if attempts == 2 { 200 } else { status });
    }
}

#[tokio::test]
async fn retries_end_and_the_last_answer_counts() {
    let provider = Provider::start().await;
    for n in 0..5 {
        provider.says(503, &[], &format!("no {n}"));
    }
    let model = model(&provider.base, "");
    let reply = model.send(call(&model)).await.unwrap();
    assert_eq!((reply.status.as_u16(), provider.seen()), (503, 3));
    assert_eq!(text(reply.body).await, "no 2");
}

#[tokio::test]
async fn retry_after_is_honoured_when_short_and_passed_on_when_long() {
    let provider = Provider::start().await;
    provider.says(429, &[("retry-after-ms", "30"), ("retry-after", "600")], "wait");
    let model = model(&provider.base, "");
    let begun = tokio::time::Instant::now();
    assert_eq!(model.send(call(&model)).await.unwrap().status, 200);
    assert!(begun.elapsed() >= Duration::from_millis(30));
    for wait in ["600", "Wed, 21 Oct 2037 07:28:00 GMT", "1e300"] {
        provider.says(429, &[("retry-after", wait)], "wait");
        let reply = model.send(call(&model)).await.unwrap();
        assert_eq!((reply.status.as_u16(), reply.headers["retry-after"].to_str().unwrap()), (429, wait));
    }
    assert_eq!(provider.seen(), 5);
}

#[tokio::test]
async fn only_answers_are_waited_for() {
    let provider = Provider::start().await;
    provider.says(503, &[], "no");
    let model = model(&provider.base, "");
    let reply = model.send(Call { endpoint: Endpoint::CountTokens, ..call(&model) }).await.unwrap();
    assert_eq!((reply.status.as_u16(), provider.seen()), (503, 1));
}

#[tokio::test]
async fn nobody_there_says_where() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let model = model(&base, "");
    let error = model.send(call(&model)).await.unwrap_err();
    assert!(matches!(&error, ModelError::Unreachable { address, .. } if *address == base), "{error}");
    assert!(!error.to_string().contains("sk-up"));
}

#[tokio::test]
async fn each_dialect_has_its_path_and_its_way_of_identifying() {
    for (dialect, path, header, value) in [
        ("openai-chat", "/v1/chat/completions", "authorization", "Bearer sk-up"),
        ("openai-responses", "/v1/responses", "authorization", "Bearer sk-up"),
        ("anthropic-messages", "/v1/messages", "x-api-key", "sk-up"),
        // Of those that speak Anthropic's dialect, some read the one header and some the other.
        ("anthropic-messages", "/v1/messages", "authorization", "Bearer sk-up"),
    ] {
        let provider = Provider::start().await;
        let model = model(&provider.base, &format!("  dialect: {dialect}\n  headers: {{x-extra: yes-please}}\n"));
        let query = Some("beta=true".to_owned());
        model.send(Call { query, ..call(&model) }).await.unwrap();
        let (line, headers, body) = provider.seen.lock().unwrap().pop().unwrap();
        assert_eq!(line, format!("POST {path}?beta=true"));
        assert_eq!((headers[header].to_str().unwrap(), &body[..]), (value, &b"{\"a\":1}"[..]));
        assert_eq!(headers.contains_key("anthropic-version"), dialect.starts_with("anthropic"));
        for (name, value) in [
            ("accept-encoding", "identity"),
            ("content-type", "application/json"),
            ("x-extra", "yes-please"),
            ("x-metaclaw-hop", "hop"),
        ] {
            assert_eq!(headers[name], value);
        }
    }
}

#[tokio::test]
async fn passthrough_sends_the_callers_credentials_and_no_others() {
    let provider = Provider::start().await;
    let model = model(&provider.base, "  auth_method: passthrough\n");
    assert!(model.takes_caller_credentials());
    let value = HeaderValue::from_static("Bearer sk-ant-oat01");
    model.send(Call { credentials: vec![("authorization", value)], ..call(&model) }).await.unwrap();
    model.send(call(&model)).await.unwrap();
    let seen = provider.seen.lock().unwrap();
    assert_eq!(seen[0].1["authorization"], "Bearer sk-ant-oat01");
    assert!(!seen[1].1.contains_key("authorization") && !seen[1].1.contains_key("x-api-key"));
}

#[tokio::test]
async fn a_path_never_leads_off_the_providers_address() {
    let provider = Provider::start().await;
    let model = model(&provider.base, "");
    for path in ["/embeddings", "@evil.example/x", "/@evil.example/x"] {
        let endpoint = Endpoint::Other { method: Method::GET, path: path.to_owned() };
        let sent = model.send(Call { endpoint, ..call(&model) }).await;
        if let Ok(reply) = sent {
            assert_eq!(reply.status, 200);
        }
    }
    let seen = provider.seen.lock().unwrap();
    assert!(seen.iter().all(|(line, _, _)| line.starts_with("GET /v1")), "{seen:?}");
}

#[tokio::test]
async fn the_debug_form_of_a_model_shows_no_key() {
    let model = model("http://127.0.0.1:9/v1", "  headers: {x-secret: canary-header}\n");
    assert_eq!(model.dialect(), Dialect::Chat);
    let shown = format!("{model:?}");
    assert!(!shown.contains("sk-up") && !shown.contains("canary-header"), "{shown}");
}

#[test]
fn only_what_identifies_counts_as_a_secret() {
    let headers = "  headers: {X-Title: disabled, accept-language: application/json, x-proxy-token: tok-canary, Authorization: Bearer sk-other}\n";
    let model = model("http://127.0.0.1:9/v1", headers);
    let mut secrets = model.secrets();
    secrets.sort_unstable();
    assert_eq!(secrets, ["sk-other", "sk-up", "tok-canary"]);
    // Presets send their own headers along; those are in the open.
    let text = "llm:\n  provider: openrouter\n  api_key: sk-or\n  model_id: m\n";
    let config: Config = config::parse(text, std::path::Path::new("config.yaml")).unwrap().config;
    let patience = Patience { first_byte: Duration::from_secs(1), retries: 0, first_wait: Duration::ZERO };
    let model = HttpModel::new(config.upstream().unwrap(), http_client(&config).unwrap(), patience, "hop").unwrap();
    assert_eq!(model.secrets(), ["sk-or"]);
}

#[tokio::test]
async fn an_upload_keeps_its_form_and_everything_else_is_json() {
    let provider = Provider::start().await;
    let model = model(&provider.base, "");
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("multipart/form-data; boundary=x"));
    let endpoint = Endpoint::Other { method: Method::POST, path: "/files".to_owned() };
    model.send(Call { endpoint, headers, ..call(&model) }).await.unwrap();
    model.send(call(&model)).await.unwrap();
    let seen = provider.seen.lock().unwrap();
    assert_eq!(seen[0].1["content-type"], "multipart/form-data; boundary=x");
    assert_eq!(seen[1].1["content-type"], "application/json");
}
