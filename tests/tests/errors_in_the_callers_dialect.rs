//! Whatever goes wrong, the agent hears of it in the form its own SDK reads, with a status that fits.

use metaclaw_tests::agent::{Got, hello};
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::Product;
use metaclaw_tests::provider::{Provider, Reply};
use rstest::rstest;
use serde_json::{Value, json};

fn is_error(api: Api, got: &Got, status: u16) -> String {
    assert_eq!(got.status(), status, "{}", got.text());
    assert!(got.head.header("content-type").is_some_and(|t| t.starts_with("application/json")), "{:?}", got.head);
    let body = got.json();
    let error = &body["error"];
    assert!(error["type"].is_string(), "{body}");
    if api == Api::Messages {
        assert_eq!(body["type"], "error", "{body}");
    } else {
        for key in ["param", "code"] {
            assert!(error.get(key).is_some(), "{key} is missing: {body}");
        }
    }
    let message = error["message"].as_str().unwrap_or_else(|| panic!("no message: {body}"));
    assert!(!message.is_empty());
    message.to_owned()
}

#[rstest]
#[case::cut(r#"{"model": "m", "messages": ["#)]
#[case::nothing("")]
#[case::words("hello")]
#[case::two_values("{} {}")]
#[case::bad_utf8("{\"model\":\"\u{fffd}\"} x")]
#[tokio::test]
async fn invalid_json_is_a_400(#[values(Api::Chat, Api::Responses, Api::Messages)] api: Api, #[case] body: &str) {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let got = product.agent().post(api.path(), body).await;
    is_error(api, &got, 400);
    assert!(provider.seen().is_empty(), "it went to the provider");
}

#[rstest]
#[case::a_list(json!([]))]
#[case::nothing_to_answer(json!({"model": "m"}))]
#[case::messages_are_text(json!({"model": "m", "messages": "hi", "input": 7}))]
#[case::a_message_is_a_number(json!({"model": "m", "messages": [7], "input": [7]}))]
#[tokio::test]
async fn a_body_of_the_wrong_shape_is_a_400_that_says_where(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[case] body: Value,
) {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let got = product.agent().ask(api, &body).await;
    is_error(api, &got, 400);
    assert!(provider.seen().is_empty(), "it went to the provider");
}

/// Broken UTF-8 and very deep nesting are errors too, not crashes.
#[rstest]
#[tokio::test]
async fn hostile_bodies_are_a_400(#[values(Api::Chat, Api::Responses, Api::Messages)] api: Api) {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let agent = product.agent();
    let broken = b"{\"model\":\"\xff\xfe\",\"messages\":[],\"input\":\"\"}".to_vec();
    let deep = format!("{{\"messages\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000)).into_bytes();
    for body in [broken, deep] {
        is_error(api, &agent.post(api.path(), &body).await, 400);
    }
    assert_eq!(agent.get("/healthz").await.status(), 200);
}

#[rstest]
#[tokio::test]
async fn a_body_over_the_limit_is_a_413(#[values(Api::Chat, Api::Responses, Api::Messages)] api: Api) {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({"proxy": {"max_body_mb": 1}})).await;
    let body = hello(api, &"x".repeat(2_000_000), false).to_string();
    // The answer may come, and the connection end, before the whole body is written.
    let agent = product.agent();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
        api.path(),
        product.addr(),
        metaclaw_tests::product::PROXY_KEY,
        body.len()
    );
    let mut coming = agent.open_raw("POST", head.as_bytes()).await.expect("an answer to the head alone");
    let body = coming.rest().await.expect("its body");
    let got = Got { head: coming.head, body };
    let message = is_error(api, &got, 413);
    assert!(message.contains('1'), "it does not name the limit: {message}");
}

#[rstest]
#[case::bad_request(400, "invalid_request_error")]
#[case::bad_key(401, "authentication_error")]
#[case::no_right(403, "permission_error")]
#[case::no_model(404, "not_found_error")]
#[case::too_large(413, "request_too_large")]
#[case::unprocessable(422, "invalid_request_error")]
#[tokio::test]
async fn a_providers_refusal_keeps_its_status_and_its_words(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[values(Api::Chat, Api::Messages)] upstream: Api,
    #[case] status: u16,
    #[case] kind: &str,
    #[values(false, true)] stream: bool,
) {
    let provider = Provider::start().await;
    provider.next(Reply::error(upstream, status, kind, "The provider says why."));
    let product = Product::started(&provider, &json!({"llm": {"dialect": upstream.config()}})).await;
    let got = product.agent().ask(api, &hello(api, "hi", stream)).await;
    let message = is_error(api, &got, status);
    assert!(message.contains("The provider says why."), "{message}");
    if api == upstream {
        assert_eq!(got.json(), metaclaw_tests::provider::error_body(api, kind, "The provider says why."));
    }
    assert_eq!(got.head.header("x-request-id"), Some("req_fake"));
    assert_eq!(provider.seen().len(), 1, "a refusal was tried again");
}

#[tokio::test]
async fn a_path_that_nobody_serves_is_a_404_and_a_wrong_method_a_405() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let agent = product.agent();
    for path in ["/v1/images/generations", "/v1/no/such/thing"] {
        let got = agent.post(path, "{}").await;
        is_error(Api::Chat, &got, 404);
    }
    for (method, path) in [("GET", "/v1/chat/completions"), ("DELETE", "/v1/messages"), ("PUT", "/healthz")] {
        let got = agent.try_send(method, path, "").await.expect("an answer");
        assert_eq!(got.status(), 405, "{method} {path}: {}", got.text());
        assert!(got.head.header("allow").is_some(), "{:?}", got.head);
    }
    let got = agent.get("/docs").await;
    assert_eq!(got.status(), 404, "{}", got.text());
}

/// The control API is another door: nothing of it answers on the agents' port.
#[tokio::test]
async fn the_agents_port_does_not_serve_the_control_api() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    for path in
        ["/status", "/config", "/turns", "/sessions", "/api/status", "/api/v1/status", "/openapi.json", "/stop", "/"]
    {
        let got = product.agent().get(path).await;
        assert!(matches!(got.status(), 404 | 405), "{path}: {} {}", got.status(), got.text());
    }
}

#[tokio::test]
async fn without_a_provider_the_agent_hears_what_to_do() {
    let product = {
        let provider = Provider::start().await;
        let settings = json!({"llm": {"api_base": "", "api_key": "", "model_id": ""}});
        let mut product = Product::at(&provider, &settings);
        if let Err(said) = product.try_start().await {
            assert_eq!(said.code, 4, "{said:#?}");
            assert!(said.err.contains("llm.api_base") || said.err.contains("setup"), "{said:#?}");
            return;
        }
        product
    };
    let got = product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", false)).await;
    let message = is_error(Api::Chat, &got, 503);
    assert!(message.contains("metaclaw"), "it does not say what to do: {message}");
}
