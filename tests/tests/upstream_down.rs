//! No provider at its address: the agent gets a clear error in its own form, soon; when the provider is back, so is the
//! service, without a restart.

use metaclaw_tests::agent::hello;
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::{Product, UPSTREAM_KEY};
use metaclaw_tests::provider::Provider;
use rstest::rstest;
use serde_json::json;
use tokio::time::{Duration, Instant};

#[rstest]
#[tokio::test]
async fn is_a_502_until_it_is_back(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[values(false, true)] stream: bool,
) {
    let provider = Provider::start().await;
    let addr = provider.addr().to_owned();
    drop(provider);
    let product = {
        let mut product = Product::with_base(&format!("http://{addr}/v1"), &json!({}));
        product.start().await;
        product
    };
    let start = Instant::now();
    let got = product.agent().ask(api, &hello(api, "hi", stream)).await;
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    assert_eq!(got.status(), 502, "{}", got.text());
    let body = got.json();
    let message = body["error"]["message"].as_str().expect("a message");
    assert!(message.contains(&addr) || message.contains("llm.api_base"), "it does not say where: {message}");
    assert!(!message.contains(UPSTREAM_KEY));
    assert_eq!(body["type"] == "error", api == Api::Messages, "{body}");
    let turns = product.turns().await;
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0]["outcome"], "error", "{:#}", turns[0]);

    let _back = Provider::on(&addr).await;
    let got = product.agent().ask(api, &hello(api, "hi", stream)).await;
    assert_eq!(got.status(), 200, "{}", got.text());
}

/// A server that takes the connection and never answers.
#[tokio::test]
async fn a_silent_address_times_out() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base = format!("http://{}/v1", silent.local_addr().expect("bound"));
    let settings = json!({"proxy": {"idle_timeout_seconds": 2, "keepalive_seconds": 1, "max_retries": 0}});
    let mut product = Product::with_base(&base, &settings);
    product.start().await;
    let start = Instant::now();
    let got = product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", false)).await;
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    assert!(matches!(got.status(), 502 | 504), "{} {}", got.status(), got.text());
    assert!(got.json()["error"]["message"].as_str().is_some_and(|m| m.contains('2')), "{}", got.text());
}

/// `doctor` names it and says what to do.
#[tokio::test]
async fn doctor_finds_it() {
    let mut product = Product::with_base("http://127.0.0.1:9/v1", &json!({}));
    product.start().await;
    let said = product.cli(&["doctor"]).await;
    assert!(said.code != 0, "{said:#?}");
    assert!(said.all().contains("127.0.0.1:9"), "{said:#?}");
}
