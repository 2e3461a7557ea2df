//! A request that failed before its first byte is tried again, later if the provider says so, then at the fallback. One
//! whose answer has begun never is.

use metaclaw_tests::agent::{hello, text_of, text_of_events};
use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::product::Product;
use metaclaw_tests::provider::{Provider, Reply, Step, Stream, error_body};
use rstest::rstest;
use serde_json::json;
use tokio::time::{Duration, Instant};

fn busy(status: u16, retry_after: &str) -> Reply {
    let headers = [("content-type", "application/json"), ("retry-after", retry_after)];
    Reply::with_headers(status, &headers, error_body(Api::Chat, "rate_limit_error", "Busy.").to_string())
}

#[rstest]
#[case::server_error(Reply::error(Api::Chat, 500, "server_error", "Oops."))]
#[case::bad_gateway(Reply::html(502))]
#[case::overloaded(Reply::error(Api::Chat, 503, "overloaded_error", "Overloaded."))]
#[case::reset_before_the_head(Reply::Steps(vec![Step::Reset]))]
#[case::closed_before_the_head(Reply::Steps(vec![Step::Close]))]
#[tokio::test]
async fn a_failure_before_the_first_byte_is_tried_again(#[case] failure: Reply, #[values(false, true)] stream: bool) {
    let provider = Provider::start().await;
    provider.next(failure);
    provider.next(Reply::text("Second time lucky."));
    let product = Product::started(&provider, &json!({})).await;
    let got = product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", stream)).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    let text = if stream { text_of_events(Api::Chat, &got.events()) } else { text_of(Api::Chat, &got.json()) };
    assert_eq!(text, "Second time lucky.");
    let seen = provider.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].body, seen[1].body);
    assert_eq!(product.turns().await.len(), 1, "one request, one turn");
}

#[tokio::test]
async fn a_short_retry_after_is_waited_for() {
    let provider = Provider::start().await;
    provider.next(busy(429, "1"));
    provider.next(Reply::text("Now."));
    let product = Product::started(&provider, &json!({})).await;
    let start = Instant::now();
    let got = product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", false)).await;
    assert_eq!(text_of(Api::Chat, &got.json()), "Now.");
    assert!(start.elapsed() >= Duration::from_millis(950), "asked again after {:?}", start.elapsed());
}

/// The agent knows better than we do what to do in ten minutes.
#[tokio::test]
async fn a_long_retry_after_goes_to_the_agent() {
    let provider = Provider::start().await;
    provider.next(busy(429, "600"));
    let product = Product::started(&provider, &json!({})).await;
    let got = product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", false)).await;
    assert_eq!(got.status(), 429);
    assert_eq!(got.head.header("retry-after"), Some("600"));
    assert_eq!(provider.seen().len(), 1);
}

#[tokio::test]
async fn retries_end() {
    let provider = Provider::start().await;
    provider.script(|_| Some(Reply::error(Api::Chat, 503, "overloaded_error", "Overloaded.")));
    let product = Product::started(&provider, &json!({"proxy": {"max_retries": 2}})).await;
    let got = product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", false)).await;
    assert!(matches!(got.status(), 502 | 503), "{}", got.text());
    assert!(got.text().contains("Overloaded."), "{}", got.text());
    assert_eq!(provider.seen().len(), 3);
}

#[tokio::test]
async fn an_answer_that_has_begun_is_never_asked_for_again() {
    let provider = Provider::start().await;
    let events = Answer::text("one two").events(Api::Chat, "fake-large", false);
    provider.next(Stream::begin().events(&events[..2]).reset());
    let product = Product::started(&provider, &json!({})).await;
    let mut coming = product.agent().stream(Api::Chat, &hello(Api::Chat, "hi", true)).await;
    while let Ok(Some(_)) = coming.event().await {}
    assert_eq!(provider.seen().len(), 1);
}

#[rstest]
#[tokio::test]
async fn the_fallback_answers_when_the_first_provider_cannot(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[values(Api::Chat, Api::Messages)] second: Api,
    #[values(false, true)] stream: bool,
) {
    let first = Provider::start().await;
    first.script(|_| Some(Reply::error(Api::Chat, 500, "server_error", "Down.")));
    let fallback = Provider::start().await;
    fallback.script(|_| Some(Reply::text("From the fallback.")));
    let settings = json!({
        "llm": {"fallback": {"provider": "custom", "api_base": fallback.base(), "api_key": "sk-second", "model_id": "other",
                             "dialect": second.config()}},
        "proxy": {"max_retries": 1},
    });
    let product = Product::started(&first, &settings).await;
    let got = product.agent().ask(api, &hello(api, "hi", stream)).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    let text = if stream { text_of_events(api, &got.events()) } else { text_of(api, &got.json()) };
    assert_eq!(text, "From the fallback.");
    let sent = fallback.last();
    assert_eq!(sent.json()["model"], "other");
    let key = sent.head.header("authorization").or(sent.head.header("x-api-key"));
    assert!(key.is_some_and(|k| k.contains("sk-second")), "{:?}", sent.head);
    assert!(first.seen().iter().all(|s| !format!("{:?}", s.head).contains("sk-second")));
}

#[tokio::test]
async fn a_refusal_of_the_request_itself_does_not_go_to_the_fallback() {
    let first = Provider::start().await;
    first.next(Reply::error(Api::Chat, 400, "invalid_request_error", "Too long."));
    let fallback = Provider::start().await;
    let settings = json!({"llm": {"fallback": {"provider": "custom", "api_base": fallback.base(), "api_key": "k",
                                               "model_id": "other", "dialect": "openai-chat"}}});
    let product = Product::started(&first, &settings).await;
    let got = product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", false)).await;
    assert_eq!(got.status(), 400);
    assert!(fallback.seen().is_empty());
}
