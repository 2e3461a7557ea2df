//! `metaclaw uninstall` takes away what MetaClaw can fetch or make again, never without a yes; the user's own words go after
//! a second one only, and what is not MetaClaw's never.

use metaclaw_tests::agent::hello;
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::{Product, health};
use metaclaw_tests::provider::Provider;
use metaclaw_tests::within;
use serde_json::json;

/// A service that runs, with a turn, a skill, models and a file of somebody else's.
async fn lived_in(provider: &Provider) -> Product {
    let mut product = Product::at(provider, &json!({}));
    product.teach();
    product.start().await;
    assert_eq!(product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", false)).await.status(), 200);
    let models = product.home().join("models");
    std::fs::create_dir_all(&models).expect("the folder");
    for name in ["smollm2-135m-instruct.gguf", "qwen3-0.6b.hub.part", "mine.gguf"] {
        std::fs::write(models.join(name), name).expect("a file");
    }
    std::fs::write(product.home().join("letter.odt"), "Dear").expect("a file");
    // What the desktop app leaves.
    std::fs::create_dir_all(product.home().join("window/localstorage")).expect("the folder");
    std::fs::write(product.home().join("window.json"), "{}").expect("a file");
    let entry = product.login_entry();
    std::fs::create_dir_all(entry.parent().expect("a folder")).expect("the folder");
    std::fs::write(entry, "[Desktop Entry]\nExec=/usr/bin/metaclaw-app --background\n").expect("a file");
    product
}

fn names(product: &Product, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(product.home().join(folder)).expect("the folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn nothing_goes_without_a_yes() {
    let provider = Provider::start().await;
    let product = lived_in(&provider).await;
    let before = names(&product, "models");
    let said = product.cli(&["uninstall"]).await;
    assert_eq!(said.code, 2, "{said:#?}");
    for shown in ["This goes:", "smollm2-135m-instruct.gguf", "since it is yours", "metaclaw.db", "letter.odt"] {
        assert!(said.out.contains(shown), "{shown}: {said:#?}");
    }
    assert!(said.err.contains("metaclaw uninstall --yes"), "{said:#?}");
    let said = product.cli(&["uninstall", "--everything", "--yes"]).await;
    assert_eq!(said.code, 2, "{said:#?}");
    assert!(said.err.contains("--yes-everything"), "{said:#?}");
    assert_eq!(names(&product, "models"), before);
    assert!(health(&product.addr()).await, "it still runs");
}

#[tokio::test]
async fn what_can_be_made_again_goes_and_the_users_words_stay() {
    let provider = Provider::start().await;
    let mut product = lived_in(&provider).await;
    let report = product.json(&["uninstall", "--yes"]).await;
    assert_eq!(product.ended().await.code, 0, "the service was stopped");
    assert_eq!(names(&product, "models"), ["mine.gguf"]);
    let left = names(&product, "");
    for stays in ["config.yaml", "metaclaw.db", "skills", "letter.odt"] {
        assert!(left.iter().any(|name| name == stays), "{stays}: {left:?}");
    }
    for goes in ["control.sock", "service.lock", "metaclaw.log", "control.token", "window", "window.json"] {
        assert!(left.iter().all(|name| name != goes), "{goes}: {left:?}");
    }
    assert!(left.iter().all(|name| !name.ends_with(".pid")), "{left:?}");
    assert!(!product.login_entry().exists(), "nothing starts a program that is gone");
    assert!(report["freed"].as_u64().is_some_and(|freed| freed > 0), "{report:#}");
    assert!(report["stays"].to_string().contains("metaclaw.db"), "{report:#}");
    assert!(report["foreign"].to_string().contains("letter.odt"), "{report:#}");
    // Nothing was lost that cannot be made again: it starts, and knows the turn.
    product.start().await;
    assert_eq!(product.turns().await.len(), 1);
}

#[tokio::test]
async fn an_entry_for_the_login_that_starts_another_program_stays() {
    let provider = Provider::start().await;
    let product = lived_in(&provider).await;
    std::fs::write(product.login_entry(), "[Desktop Entry]\nExec=/usr/bin/lobster\n").expect("a file");
    product.json(&["uninstall", "--yes"]).await;
    assert!(product.login_entry().exists());
}

#[tokio::test]
async fn everything_goes_after_a_second_yes_but_for_what_is_not_metaclaws() {
    let provider = Provider::start().await;
    let mut product = lived_in(&provider).await;
    let said = product.cli(&["uninstall", "--everything", "--yes", "--yes-everything"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    assert_eq!(product.ended().await.code, 0, "the service was stopped");
    assert_eq!(names(&product, ""), ["letter.odt", "models"]);
    std::fs::remove_file(product.home().join("letter.odt")).expect("the letter");
    std::fs::remove_file(product.home().join("models/mine.gguf")).expect("the model");
    // A second time there is nothing left to do, and the folder itself goes.
    let said = product.cli(&["uninstall", "--everything", "--yes", "--yes-everything"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(!product.home().exists());
}

#[tokio::test]
async fn where_there_is_nothing_it_says_so() {
    let provider = Provider::start().await;
    let product = Product::at(&provider, &json!({}));
    std::fs::remove_file(product.home().join("config.yaml")).expect("the config");
    let said = product.cli(&["uninstall"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(said.out.contains("There is nothing to remove"), "{said:#?}");
    assert_eq!(product.json(&["uninstall"]).await["freed"], 0);
}

#[tokio::test]
async fn what_another_process_fetches_is_fetched_once_and_not_taken_away() {
    let provider = Provider::start().await;
    let product = Product::at(&provider, &json!({}));
    // A hub that never answers.
    let hub = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let base = format!("http://{}", hub.local_addr().expect("an address"));
    let settings = format!("{}\nbuiltin: {{hub: \"{base}\", index: \"{base}\"}}\n", product.config());
    product.write_config(&settings);
    let fetch = ["models", "fetch", "smollm2-135m-instruct", "--yes"];
    let mut first = product.command(fetch).spawn().expect("the binary runs");
    let (asks, _) = within("the hub is asked", hub.accept()).await.expect("a connection");
    let holder = format!("process {}", first.id().expect("it runs"));
    let said = product.cli(&fetch).await;
    assert!(said.code != 0 && said.err.contains(&holder), "{said:#?}");
    let said = product.cli(&["uninstall", "--yes"]).await;
    assert!(said.code == 1 && said.err.contains("Nothing was removed") && said.err.contains(&holder), "{said:#?}");
    first.kill().await.expect("it ends");
    drop(asks);
    // The lock of a process that was killed holds nobody up.
    let said = product.cli(&["uninstall", "--yes"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(!product.home().join("models").exists());
}
