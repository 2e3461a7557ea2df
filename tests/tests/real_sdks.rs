//! The official Python SDKs see the same through the product as they see from the provider itself: text, streams, tool
//! loops, usage, errors; with the provider's API being their own or another one.

use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::peers::{python, sdk};
use metaclaw_tests::product::{PROXY_KEY, Product};
use metaclaw_tests::provider::{Provider, Reply};
use rstest::rstest;
use serde_json::{Value, json};

fn script(api: Api) -> &'static str {
    if api == Api::Messages { "anthropic_sdk.py" } else { "openai_sdk.py" }
}

fn queue(provider: &Provider, scenario: &str) {
    if scenario.ends_with("_tools") {
        let calls = [("weather", r#"{"city":"Zürich"}"#), ("weather", r#"{"city": "東京"}"#)];
        provider.next(Reply::Answer(Answer::calls(&calls)));
    }
    provider.next(Reply::text("Sunny in Zürich, 東京 too 🌞."));
}

/// What the SDK sees from a provider of its own API, without the product.
async fn direct(api: Api, scenario: &str) -> Option<Value> {
    let python = python()?;
    let provider = Provider::start().await;
    queue(&provider, scenario);
    Some(sdk(&python, script(api), provider.addr(), "any", scenario).await)
}

#[rstest]
#[case(Api::Chat, "chat")]
#[case(Api::Chat, "chat_stream")]
#[case(Api::Chat, "chat_tools")]
#[case(Api::Responses, "responses")]
#[case(Api::Responses, "responses_stream")]
#[case(Api::Responses, "responses_tools")]
#[case(Api::Messages, "messages")]
#[case(Api::Messages, "messages_stream")]
#[case(Api::Messages, "messages_tools")]
#[tokio::test]
async fn an_sdk_cannot_tell_the_product_from_its_provider(
    #[case] api: Api,
    #[case] scenario: &str,
    #[values(Api::Chat, Api::Responses, Api::Messages)] upstream: Api,
) {
    let Some(expected) = direct(api, scenario).await else { return };
    let provider = Provider::start().await;
    queue(&provider, scenario);
    let product = Product::started(&provider, &json!({"llm": {"dialect": upstream.config()}})).await;
    let seen = sdk(&python().expect("found before"), script(api), &product.addr(), PROXY_KEY, scenario).await;
    assert_eq!(seen, expected);
    assert!(provider.seen().iter().all(|s| s.api() == Some(upstream)));
}

#[rstest]
#[case(Api::Chat)]
#[case(Api::Messages)]
#[tokio::test]
async fn a_providers_refusal_keeps_its_class_status_and_retry_after(#[case] api: Api) {
    let Some(python) = python() else { return };
    let refuse = move || {
        let body = metaclaw_tests::provider::error_body(api, "rate_limit_error", "Slow down, please.");
        let headers = [("content-type", "application/json"), ("retry-after", "77")];
        Reply::with_headers(429, &headers, body.to_string())
    };
    let provider = Provider::start().await;
    provider.script(move |_| Some(refuse()));
    let expected = sdk(&python, script(api), provider.addr(), "any", "error").await;
    let product = Product::started(&provider, &json!({"llm": {"dialect": api.config()}})).await;
    let seen = sdk(&python, script(api), &product.addr(), PROXY_KEY, "error").await;
    assert_eq!(seen, expected);
    assert_eq!(seen["class"], "RateLimitError");
    assert_eq!(seen["retry_after"], "77");
}

#[rstest]
#[case(Api::Chat)]
#[case(Api::Messages)]
#[tokio::test]
async fn a_stream_that_breaks_is_an_error_to_the_sdk(
    #[case] api: Api,
    #[values(Api::Chat, Api::Responses, Api::Messages)] upstream: Api,
) {
    let Some(python) = python() else { return };
    let provider = Provider::start().await;
    let events = Answer::text("one two three").events(upstream, "fake-large", false);
    let cut = events.iter().position(|e| e.contains("two")).expect("a middle") + 1;
    provider.next(metaclaw_tests::provider::Stream::begin().events(&events[..cut]).reset());
    let product = Product::started(&provider, &json!({"llm": {"dialect": upstream.config()}})).await;
    let seen = sdk(&python, script(api), &product.addr(), PROXY_KEY, "stream_error").await;
    assert!(seen["class"].is_string(), "the SDK took a broken stream for a whole one: {seen}");
}

#[rstest]
#[case("openai_sdk.py")]
#[case("anthropic_sdk.py")]
#[tokio::test]
async fn models_are_listed_in_the_sdks_form(#[case] script: &str) {
    let Some(python) = python() else { return };
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let seen = sdk(&python, script, &product.addr(), PROXY_KEY, "models").await;
    assert!(seen["ids"].as_array().is_some_and(|ids| ids.iter().any(|id| id == "fake-large")), "{seen}");
}

#[tokio::test]
async fn tokens_are_counted_by_a_provider_that_can_and_estimated_otherwise() {
    let Some(python) = python() else { return };
    let provider = Provider::start().await;
    for (api, can) in [(Api::Messages, true), (Api::Chat, false)] {
        let product = Product::started(&provider, &json!({"llm": {"dialect": api.config()}})).await;
        let seen = sdk(&python, "anthropic_sdk.py", &product.addr(), PROXY_KEY, "count_tokens").await;
        let tokens = seen["tokens"].as_u64().expect("a number");
        assert!(if can { tokens == 4242 } else { (5..60).contains(&tokens) }, "{tokens}");
    }
    assert!(provider.seen().is_empty(), "counting reached a model");
}
