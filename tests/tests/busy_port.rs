//! A port that another program holds: a clear error that names the port and what to do, and nothing left behind.

use metaclaw_tests::product::Product;
use metaclaw_tests::provider::Provider;
use serde_json::json;
use tokio::net::TcpListener;

#[tokio::test]
async fn held_by_another_program() {
    let provider = Provider::start().await;
    let mut product = Product::at(&provider, &json!({}));
    let other = TcpListener::bind(product.addr()).await.expect("the port is free");
    product.spawn(&["start"]);
    let said = product.ended().await;
    assert_eq!(said.code, 1, "{said:#?}");
    assert!(said.err.contains(&product.port().to_string()), "{said:#?}");
    assert!(said.err.contains("proxy.port") || said.err.contains("--port"), "it does not say what to do: {said:#?}");
    assert!(!said.err.contains("panicked"), "{said:#?}");
    let daemon = product.cli(&["start", "--daemon"]).await;
    assert_eq!(daemon.code, 1, "{daemon:#?}");
    assert!(daemon.all().contains(&product.port().to_string()), "{daemon:#?}");
    assert_eq!(product.cli(&["status"]).await.code, 3);
    drop(other);
    product.start().await;
}
