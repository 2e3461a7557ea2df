//! A second start says who holds the port and leaves the first service as it was.

use metaclaw_tests::agent::hello;
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::{Product, health};
use metaclaw_tests::provider::Provider;
use serde_json::json;

#[tokio::test]
async fn in_the_same_home() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let pid = product.pid();
    for args in [&["start"][..], &["start", "--daemon"], &["start", "--port", "1"]] {
        let said = product.cli(args).await;
        assert_eq!(said.code, 1, "{said:#?}");
        assert!(said.err.contains(&pid.to_string()), "it does not say who runs: {said:#?}");
    }
    assert_eq!(product.json(&["status"]).await["pid"], pid);
    let got = product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", false)).await;
    assert_eq!(got.status(), 200);
    assert_eq!(product.turns().await.len(), 1);
}

#[tokio::test]
async fn in_another_home() {
    let provider = Provider::start().await;
    let first = Product::started(&provider, &json!({})).await;
    let mut second = Product::at(&provider, &json!({"proxy": {"port": first.port()}}));
    second.set_port(first.port());
    second.spawn(&["start"]);
    let said = second.ended().await;
    assert_eq!(said.code, 1, "{said:#?}");
    assert!(said.err.contains(&first.port().to_string()), "it does not name the port: {said:#?}");
    assert!(said.err.contains(&first.pid().to_string()), "it does not say who holds it: {said:#?}");
    assert!(health(&first.addr()).await);
    assert_eq!(first.json(&["status"]).await["pid"], first.pid());
}
