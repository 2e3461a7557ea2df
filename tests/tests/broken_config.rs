//! A config that cannot be used is refused with file, line, key and what is allowed, and never written over. A running
//! service goes on with the last good one.

use metaclaw_tests::agent::hello;
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::{MODEL, Product};
use metaclaw_tests::provider::Provider;
use metaclaw_tests::until;
use rstest::rstest;
use serde_json::json;

/// The config with one line put in place of another.
fn with_line(product: &Product, old: &str, new: &str) -> (String, usize) {
    let config = product.config();
    let line = config.lines().position(|l| l.trim_start().starts_with(old)).expect("the line") + 1;
    let text: Vec<&str> = config.lines().map(|l| if l.trim_start().starts_with(old) { new } else { l }).collect();
    (text.join("\n") + "\n", line)
}

#[rstest]
#[case::not_a_number("port:", "  port: many", "proxy.port")]
#[case::out_of_range("port:", "  port: 70000", "proxy.port")]
#[case::not_allowed("mode:", "mode: fast", "mode")]
#[case::wrong_shape("enabled:", "  enabled: [1]", "skills.enabled")]
#[case::no_address("api_base:", "  api_base: not a url", "llm.api_base")]
#[tokio::test]
async fn a_wrong_value_is_named_with_file_line_and_key(#[case] old: &str, #[case] new: &str, #[case] key: &str) {
    let provider = Provider::start().await;
    let mut product = Product::at(&provider, &json!({}));
    let (text, line) = with_line(&product, old, new);
    product.write_config(&text);
    product.spawn(&["start"]);
    let said = product.ended().await;
    assert_eq!(said.code, 4, "{said:#?}");
    for part in [&format!("config.yaml: line {line}: "), key] {
        assert!(said.err.contains(part), "{part:?} is missing: {}", said.err);
    }
    assert_eq!(product.config(), text, "the file was written over");
    let said = product.cli(&["config", "validate"]).await;
    assert!(said.code != 0 && said.all().contains(key), "{said:#?}");
}

#[rstest]
#[case::open_bracket("mode: [skills_only\nllm:\n  provider: custom\n")]
#[case::tabs("llm:\n\tprovider: custom\n")]
#[case::not_a_map("just words\n")]
#[case::binary("\u{0}\u{1}\u{2}")]
#[tokio::test]
async fn a_file_that_is_no_yaml_is_refused_and_kept(#[case] text: &str) {
    let mut product = Product::bare();
    product.write_config(text);
    product.spawn(&["start"]);
    let said = product.ended().await;
    assert!(said.code != 0, "{said:#?}");
    assert!(said.err.contains("config.yaml"), "{said:#?}");
    assert!(!said.err.contains("panicked"), "{said:#?}");
    let said = product.cli(&["config", "set", "skills.top_k", "3"]).await;
    assert!(said.code != 0, "{said:#?}");
    assert_eq!(product.config(), text, "the file was written over");
}

#[tokio::test]
async fn an_unknown_key_is_a_warning_with_a_suggestion() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({"skills": {"topk": 3}, "proxi": {"port": 1}})).await;
    let said = product.cli(&["config", "validate"]).await;
    assert!(said.all().contains("top_k"), "no suggestion: {said:#?}");
    assert!(said.all().contains("proxy"), "no suggestion: {said:#?}");
    let shown = product.output("err") + &product.output("out");
    assert!(shown.contains("topk"), "the start does not mention it: {shown}");
}

/// Old files and YAML 1.1 habits.
#[tokio::test]
async fn old_habits_are_understood() {
    let provider = Provider::start().await;
    let mut product = Product::at(&provider, &json!({"mode": null}));
    let old =
        "mode: madmax\nscheduler:\n  enabled: off\n  sleep_start: 23:00\n  sleep_end: 07:30\nmemory:\n  enabled: no\n";
    product.write_config(&(old.to_owned() + &product.config()));
    product.start().await;
    let get = async |key: &str| product.cli(&["config", "get", key]).await.out.trim().to_owned();
    assert_eq!(get("mode").await, "auto");
    assert_eq!(get("scheduler.sleep_start").await, "23:00");
    assert_eq!(get("scheduler.sleep_end").await, "07:30");
    assert_eq!(get("scheduler.enabled").await, "false");
    assert!(product.config().starts_with(old), "the file was written over");
}

#[tokio::test]
async fn a_running_service_keeps_the_last_good_config() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let good = product.config();
    product.write_config("mode: [");
    until("the service notices", || async {
        let log = product.cli(&["logs", "-n", "200"]).await.all() + &product.output("err") + &product.output("out");
        log.contains("config.yaml").then_some(())
    })
    .await;
    let got = product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", false)).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    assert_eq!(provider.last().json()["model"], MODEL);
    let status = product.cli(&["status"]).await;
    assert!(status.all().contains("config"), "status does not mention it: {status:#?}");
    product.write_config(&good.replace(MODEL, "another-model"));
    until("the repaired config counts", || async {
        product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", false)).await;
        (provider.last().json()["model"] == "another-model").then_some(())
    })
    .await;
}
