//! Edits of the config and of skills count without a restart, soon, and without disturbing running requests.

use metaclaw_tests::agent::{blocks, ended_well, hello};
use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::product::{MODEL, PROXY_KEY, Product, QUESTION, SKILL, health};
use metaclaw_tests::provider::{Gate, Provider, Stream};
use metaclaw_tests::until;
use serde_json::json;

async fn asks(product: &Product, provider: &Provider) -> String {
    let got = product.agent().ask(Api::Chat, &hello(Api::Chat, QUESTION, false)).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    provider.last().text().to_owned()
}

#[tokio::test]
async fn a_skill_is_found_changed_and_gone_as_on_disk() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    assert_eq!(blocks(&asks(&product, &provider).await), 0);
    product.teach();
    until("the new skill is used", || async { asks(&product, &provider).await.contains("28.5 degrees").then_some(()) })
        .await;
    product.write_skill(SKILL, "Keeping zebrafish in an aquarium, water, larvae and feeding.", "Now 26 degrees.");
    until("the edit is used", || async { asks(&product, &provider).await.contains("26 degrees").then_some(()) }).await;
    // Editors write a new file and rename it over the old one.
    let folder = product.home().join("skills").join(SKILL);
    let text = std::fs::read_to_string(folder.join("SKILL.md")).expect("the skill").replace("26", "24");
    std::fs::write(folder.join(".SKILL.md.swp"), text).expect("a new file");
    std::fs::rename(folder.join(".SKILL.md.swp"), folder.join("SKILL.md")).expect("a rename");
    until("the renamed file is used", || async {
        asks(&product, &provider).await.contains("24 degrees").then_some(())
    })
    .await;
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    until("it is gone", || async { (blocks(&asks(&product, &provider).await) == 0).then_some(()) }).await;
}

#[tokio::test]
async fn another_model_and_another_provider() {
    let provider = Provider::start().await;
    let other = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    asks(&product, &provider).await;
    let said = product.cli(&["config", "set", "llm.model_id", "second-model"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    until("the new model is asked", || async {
        asks(&product, &provider).await.contains("second-model").then_some(())
    })
    .await;
    product.write_config(&product.config().replace(provider.addr(), other.addr()));
    until("the new provider is asked", || async {
        product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", false)).await;
        other.seen().last().map(|_| ())
    })
    .await;
}

#[tokio::test]
async fn a_running_stream_is_not_disturbed() {
    let provider = Provider::start().await;
    let events = Answer::text("one two three").events(Api::Chat, "fake-large", false);
    let gate = Gate::default();
    provider.next(Stream::begin().events(&events[..2]).gate(&gate).events(&events[2..]).end());
    let product = Product::started(&provider, &json!({})).await;
    let mut coming = product.agent().stream(Api::Chat, &hello(Api::Chat, "hi", true)).await;
    coming.event().await.expect("a stream").expect("an event");
    product.write_config(&product.config().replace(MODEL, "second-model"));
    until("the new model is asked", || async {
        asks(&product, &provider).await.contains("second-model").then_some(())
    })
    .await;
    gate.open();
    let mut seen = Vec::new();
    while let Some(event) = coming.event().await.expect("a proper end") {
        seen.push(event);
    }
    assert!(ended_well(Api::Chat, &seen), "{seen:#?}");
}

#[tokio::test]
async fn another_key_counts_at_once_and_the_old_one_no_more() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    product.write_config(&product.config().replace(PROXY_KEY, "another-key"));
    let agent = product.agent().without_header("authorization").with_header("authorization", "Bearer another-key");
    until("the new key opens", || async { (agent.get("/v1/models").await.status() == 200).then_some(()) }).await;
    assert_eq!(product.agent().get("/v1/models").await.status(), 401);
}

/// A new port: the service moves there, or says that it needs a restart. It never ends up on none.
#[tokio::test]
async fn another_port_is_taken_or_announced() {
    let provider = Provider::start().await;
    let mut product = Product::started(&provider, &json!({})).await;
    let (old, new) = (product.port(), Product::bare().port());
    let said = product.cli(&["config", "set", "proxy.port", &new.to_string()]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    if said.all().contains("restart") {
        assert!(health(&product.addr()).await);
    } else {
        product.set_port(new);
        until("the service answers there", || async { health(&product.addr()).await.then_some(()) }).await;
        let gone = !health(&format!("127.0.0.1:{old}")).await;
        assert!(gone, "it still answers on the old port");
    }
}

/// The comments, the order and everything unknown of the file survive edits by command.
#[tokio::test]
async fn an_edit_by_command_changes_one_line() {
    let provider = Provider::start().await;
    let product = Product::at(&provider, &json!({}));
    let text = format!("# My own notes\n{}\nmy_plugin: {{a: 1}}   # not yours\n", product.config());
    product.write_config(&text);
    let said = product.cli(&["config", "set", "llm.model_id", "second-model"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    let now = product.config();
    let changed: Vec<(&str, &str)> = text.lines().zip(now.lines()).filter(|(a, b)| a != b).collect();
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert_eq!(text.lines().count(), now.lines().count());
    assert!(changed[0].1.contains("second-model"));
}
