//! A home that cannot be written: the start says so, with the path and what to do, and exits; commands that only read work.

use metaclaw_tests::agent::hello;
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::Product;
use metaclaw_tests::provider::Provider;
use serde_json::json;

#[tokio::test]
async fn is_said_with_path_and_advice() {
    let provider = Provider::start().await;
    let mut product = Product::started(&provider, &json!({})).await;
    product.stop().await;
    let home = product.home();
    let script = format!("mount --bind '{0}' '{0}' && mount -o remount,ro,bind '{0}' && exec \"$@\"", home.display());
    if !product.spawn_in_mounts(&script).await {
        return;
    }
    let said = product.ended().await;
    assert!(matches!(said.code, 1 | 6), "{said:#?}");
    assert!(said.err.contains(&home.display().to_string()), "the path is not named: {said:#?}");
    assert!(said.err.to_lowercase().contains("read-only") || said.err.contains("writ"), "{said:#?}");
    assert!(!said.err.contains("panicked"), "{said:#?}");
    product.start().await;
}

#[tokio::test]
async fn commands_that_only_read_work() {
    let provider = Provider::start().await;
    let mut product = Product::started(&provider, &json!({})).await;
    assert_eq!(product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", false)).await.status(), 200);
    product.stop().await;
    let home = product.home();
    let script = format!("mount --bind '{0}' '{0}' && mount -o remount,ro,bind '{0}' && exec \"$@\"", home.display());
    for args in [
        &["turns", "--json"][..],
        &["turns", "show", "1"],
        &["sessions"],
        &["skills", "list"],
        &["config", "show"],
        &["logs"],
    ] {
        let Some(said) = product.cli_in_mounts(&script, args).await else { return };
        assert_eq!(said.code, 0, "{args:?}: {said:#?}");
        assert!(!said.out.trim().is_empty(), "{args:?}: {said:#?}");
    }
}
