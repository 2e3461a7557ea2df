//! `llm.auth_method: passthrough`: the provider gets the caller's own credentials as they came; the proxy's key travels in
//! a header of its own or in the base URL's path, and never reaches the provider.

use metaclaw_tests::agent::{Agent, hello};
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::{PROXY_KEY, Product, UPSTREAM_KEY};
use metaclaw_tests::provider::Provider;
use rstest::rstest;
use serde_json::json;

async fn product(provider: &Provider, api: Api) -> Product {
    Product::started(provider, &json!({"llm": {"auth_method": "passthrough", "dialect": api.config()}})).await
}

#[rstest]
#[case::bearer("authorization", "Bearer sk-callers-own")]
#[case::oauth("authorization", "Bearer sk-ant-oat01-callers-own")]
#[case::api_key("x-api-key", "sk-ant-callers-own")]
#[tokio::test]
async fn the_callers_credentials_reach_the_provider_as_they_came(
    #[values(Api::Chat, Api::Messages)] api: Api,
    #[case] name: &str,
    #[case] value: &str,
    #[values(false, true)] in_path: bool,
) {
    let provider = Provider::start().await;
    let product = product(&provider, api).await;
    let agent = Agent::new(&product.addr()).with_header(name, value).with_header("anthropic-beta", "oauth-2025-04-20");
    let body = hello(api, "hi", false).to_string();
    let got = if in_path {
        agent.post(&format!("/k/{PROXY_KEY}{}", api.path()), &body).await
    } else {
        agent.with_header("x-metaclaw-key", PROXY_KEY).post(api.path(), &body).await
    };
    assert_eq!(got.status(), 200, "{}", got.text());
    let head = &provider.last().head;
    assert_eq!(head.header(name), Some(value), "{head:?}");
    let all = format!("{head:?}");
    assert!(!all.contains(PROXY_KEY) && !all.contains(UPSTREAM_KEY), "{all}");
    assert_eq!(
        head.header("anthropic-beta").is_some(),
        api == Api::Messages || head.header("anthropic-beta").is_some()
    );
    assert!(head.target.starts_with(api.path()), "{}", head.target);
}

#[rstest]
#[case::no_proxy_key(None, "")]
#[case::wrong_header(Some("wrong"), "")]
#[case::wrong_path(None, "/k/wrong")]
#[tokio::test]
async fn the_proxys_own_key_is_still_asked_for(#[case] header: Option<&str>, #[case] path: &str) {
    let provider = Provider::start().await;
    let product = product(&provider, Api::Chat).await;
    let mut agent = Agent::new(&product.addr()).with_header("authorization", "Bearer sk-callers-own");
    if let Some(key) = header {
        agent = agent.with_header("x-metaclaw-key", key);
    }
    let got = agent.post(&format!("{path}{}", Api::Chat.path()), hello(Api::Chat, "hi", false).to_string()).await;
    assert_eq!(got.status(), 401, "{}", got.text());
    assert!(!got.text().contains("sk-callers-own"));
    assert!(provider.all().is_empty());
}

#[tokio::test]
async fn the_callers_key_is_in_no_file() {
    let provider = Provider::start().await;
    let mut product = product(&provider, Api::Chat).await;
    let agent = Agent::new(&product.addr()).with_header("authorization", "Bearer sk-callers-own-canary");
    let agent = agent.with_header("x-metaclaw-key", PROXY_KEY);
    agent.ask(Api::Chat, &hello(Api::Chat, "hi", false)).await;
    product.stop().await;
    for entry in std::fs::read_dir(product.home()).expect("the home").flatten() {
        if entry.file_type().is_ok_and(|t| t.is_file()) {
            let text = String::from_utf8_lossy(&std::fs::read(entry.path()).expect("a file")).into_owned();
            assert!(!text.contains("sk-callers-own-canary"), "{}", entry.path().display());
        }
    }
}
