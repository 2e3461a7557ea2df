//! A model file's chat template is a program of strangers. Whatever it does, the service stays, says what is wrong in the
//! agent's form, and answers the next request.

use metaclaw_tests::agent::hello;
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::{Product, health};
use serde_json::json;

#[expect(dead_code, reason = "shared with tests of the model")]
#[path = "../../crates/builtin/tests/tiny/mod.rs"]
mod tiny;

const PLAIN: &str = "{% for message in messages %}{{ message.role }}: {{ message.content[:9] }}\n{% endfor %}";

/// Templates that end a process, each in another way, some when they are read and some when they are rendered.
fn hostile() -> Vec<String> {
    let deep = "{% set ns = namespace(x=[]) %}{% for i in range(90000) %}{% set ns.x = [ns.x] %}{% endfor %}";
    let half = deep.replace("90000", "20000");
    vec![
        format!("{deep}hi"),
        format!("{}hi", deep.replace("[ns.x]", "{'a': ns.x}")),
        format!("{half}{{{{ ns.x }}}}"),
        format!("{half}{{{{ ns.x | tojson }}}}"),
        "{% set ns = namespace(x=['a']) %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x | length }}".to_owned(),
        format!("{{{{ {}1 }}}}", "-".repeat(60_000)),
        format!("{{{{ 1{} }}}}", "+1".repeat(32_000)),
        format!("{{{{ messages{} }}}}", ".a".repeat(32_000)),
        format!("{{{{ 1{} }}}}", "|abs".repeat(16_000)),
        format!("{{{{ {}1 }}}}", "not ".repeat(16_000)),
        format!("{{{{ {}1 }}}}", "1 if 1 else ".repeat(5_000)),
        format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(5_000)),
        format!("{{{{ 1 }}}}{}", " ".repeat(70_000)),
    ]
}

#[tokio::test]
async fn a_template_that_breaks_off_ends_its_own_answer_only() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("any.gguf");
    std::fs::write(&file, tiny::qwen3_with(PLAIN)).expect("a model");
    let settings = json!({"skills": {"enabled": false}, "llm": {"provider": "builtin", "api_base": null, "api_key": null,
        "dialect": null, "model_id": file}});
    let mut product = Product::with_base("", &settings);
    product.start().await;
    let agent = product.agent().patient();
    let mut broke_off = 0;
    for (nth, template) in hostile().iter().enumerate() {
        let shown: String = template.chars().take(60).collect();
        std::fs::write(&file, tiny::qwen3_with(template)).expect("a model");
        let api = [Api::Chat, Api::Messages, Api::Responses][nth % 3];
        let answer = agent.ask(api, &hello(api, "hi", false)).await;
        let (status, said) = (answer.status(), answer.text());
        // Some fit into a stack and are answered; the others say that it was the template.
        assert!([200, 400, 503].contains(&status), "{shown}: {status} {said}");
        assert!(status != 503 || said.contains("template"), "{shown}: {said}");
        broke_off += usize::from(said.contains("broke off"));
        assert!(health(&product.addr()).await, "{shown}");
        // And with a template as it should be the next one is answered.
        std::fs::write(&file, tiny::qwen3_with(PLAIN)).expect("a model");
        let answer = agent.ask(Api::Chat, &hello(Api::Chat, "hi", false)).await;
        assert_eq!(answer.status(), 200, "{shown}");
    }
    assert!(broke_off >= 3, "{broke_off} of them");
}

#[tokio::test]
async fn another_folder_for_models_counts_at_once_and_uninstall_looks_in_both() {
    let settings = json!({"skills": {"enabled": false}, "llm": {"provider": "builtin", "api_base": null, "api_key": null,
        "dialect": null, "model_id": "smollm2-135m-instruct"}});
    let mut product = Product::with_base("", &settings);
    let (before, after) = (product.home().join("models"), product.folder().join("disk"));
    for dir in [&before, &after] {
        std::fs::create_dir_all(dir).expect("a folder");
        std::fs::write(dir.join("smollm2-135m-instruct.gguf"), tiny::qwen3_with(PLAIN)).expect("a model");
    }
    product.start().await;
    let agent = product.agent().patient();
    let file = || async {
        assert_eq!(agent.ask(Api::Chat, &hello(Api::Chat, "hi", false)).await.status(), 200);
        product.json(&["models", "list"]).await["running"]["file"].as_str().map(std::path::PathBuf::from)
    };
    assert_eq!(file().await, Some(before.join("smollm2-135m-instruct.gguf")));
    let said = product.cli(&["config", "set", "builtin.dir", after.to_str().expect("a path")]).await;
    assert!(said.code == 0 && said.all().contains("In force"), "{said:#?}");
    assert_eq!(file().await, Some(after.join("smollm2-135m-instruct.gguf")));
    let said = product.cli(&["uninstall", "--yes"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(!before.exists() && !after.exists(), "both are gone");
}
