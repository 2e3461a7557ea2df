//! A real model on the other side: llama-server with a small instruct model, whole and streamed, in two APIs, with the
//! skill added and the turn in the journal. Skips where the peer is not installed.

use metaclaw_tests::agent::{Chat, ended_well, hello, text_of, text_of_events};
use metaclaw_tests::answer::Api;
use metaclaw_tests::llama::llama;
use metaclaw_tests::peers::{python, sdk};
use metaclaw_tests::product::{PROXY_KEY, Product, QUESTION};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn answers_through_the_product_in_every_api() {
    let Some((_llama, addr)) = llama(&["-n", "16"]).await else { return };
    for upstream in [Api::Chat, Api::Messages] {
        let settings = json!({"llm": {"dialect": upstream.config(), "model_id": "smollm2", "provider": "llamacpp"}});
        let mut product = Product::with_base(&format!("http://{addr}"), &settings);
        product.teach();
        product.start().await;
        let agent = product.agent().patient();
        let apis = if upstream == Api::Chat { &Api::ALL[..] } else { &[Api::Messages] };
        for &api in apis {
            let mut body = hello(api, QUESTION, false);
            let limit = if api == Api::Responses { "max_output_tokens" } else { "max_tokens" };
            body[limit] = json!(8);
            body["temperature"] = json!(0);
            let whole = agent.ask(api, &body).await;
            assert_eq!(whole.status(), 200, "{}", whole.text());
            assert!(!text_of(api, &whole.json()).trim().is_empty(), "{}", whole.text());
            body["stream"] = json!(true);
            let streamed = agent.ask(api, &body).await;
            let text = text_of_events(api, &streamed.events());
            assert!(!text.trim().is_empty(), "{}", streamed.text());
            let end = streamed.events().pop().expect("events");
            assert!(ended_well(api, &streamed.events()) || end.name == "response.incomplete", "{}", streamed.text());
        }
        // It saw the skill: the words are in what the journal says went up, and the model's own count grew.
        let turns = product.turns().await;
        assert_eq!(turns.len(), 2 * apis.len(), "{turns:#?}");
        for turn in &turns {
            assert_eq!(turn["outcome"], "ok", "{turn:#}");
            assert!(turn["tokens"]["input"].as_u64().is_some_and(|n| n > 60), "{turn:#}");
            assert!(turn["tokens"]["output"].as_u64().is_some_and(|n| n > 0), "{turn:#}");
            assert_eq!(turn["additions"][0]["id"], metaclaw_tests::product::SKILL, "{turn:#}");
        }
        let chat = Chat::new(Api::Chat).with("max_tokens", json!(8)).user("Say hello.").send(&agent).await;
        chat.user("And again.").send(&agent).await;
    }
}

#[tokio::test]
async fn answers_the_sdks() {
    let (Some(python), Some((_llama, addr))) = (python(), llama(&["-n", "16"]).await) else { return };
    let settings = json!({"llm": {"model_id": "smollm2", "provider": "llamacpp"}});
    let mut product = Product::with_base(&format!("http://{addr}/v1"), &settings);
    product.start().await;
    for (script, scenario) in [
        ("openai_sdk.py", "chat_stream"),
        ("openai_sdk.py", "responses"),
        ("anthropic_sdk.py", "messages_stream"),
        ("openai_sdk.py", "models"),
    ] {
        let seen = sdk(&python, script, &product.addr(), PROXY_KEY, scenario).await;
        let text = seen["text"].as_str().unwrap_or_default();
        assert!(!text.trim().is_empty() || scenario == "models", "{scenario}: {seen}");
    }
}

#[tokio::test]
async fn is_told_what_was_said_in_another_conversation() {
    let Some((_llama, addr)) = llama(&["-n", "16"]).await else { return };
    let settings = json!({"llm": {"model_id": "smollm2", "provider": "llamacpp"}, "memory": {"enabled": true}});
    let mut product = Product::with_base(&format!("http://{addr}/v1"), &settings);
    product.start().await;
    let agent = product.agent().patient();
    let chat = || Chat::new(Api::Chat).with("max_tokens", json!(12)).with("temperature", json!(0));
    chat().user("My parrot is called Zazu and speaks Finnish.").send(&agent).await;
    chat().user("What is the name of my parrot?").send(&agent).await;
    let turns = product.turns().await;
    let last = &turns.last().expect("two turns")["id"];
    let sent = product.cli(&["turns", "show", &last.to_string(), "--request", "forwarded"]).await;
    assert!(sent.out.contains("Relevant Long-Term Memory") && sent.out.contains("Zazu"), "{sent:?}");
    let shown = product.json(&["turns", "show", &last.to_string()]).await;
    assert_eq!(
        (&shown["turn"]["outcome"], &shown["turn"]["additions"][0]["kind"]),
        (&json!("ok"), &json!("memory")),
        "{shown}"
    );
}

#[tokio::test]
async fn looks_through_a_finished_conversation_for_something_to_learn() {
    let Some((_llama, addr)) = llama(&["-n", "200"]).await else { return };
    let settings = json!({"llm": {"model_id": "smollm2", "provider": "llamacpp"}, "skills": {"auto_evolve": true, "evolution_every_n_turns": 1000}});
    let mut product = Product::with_base(&format!("http://{addr}/v1"), &settings);
    product.start().await;
    let agent = product.agent().patient().with_header("x-session-id", "s1").with_header("x-turn-type", "main");
    let chat = Chat::new(Api::Chat).with("max_tokens", json!(12)).with("temperature", json!(0));
    let chat = chat.user("List three birds with the dates on which they come back.").send(&agent).await;
    chat.user("No, that's wrong. From now on write dates as year, month and day.").send(&agent).await;
    // A prompt of a thousand words takes such a model a while.
    let asked = product.command(["skills", "evolve", "--session", "s1", "--json"]).output();
    let said =
        tokio::time::timeout(Duration::from_secs(280), asked).await.expect("an answer").expect("the command runs");
    let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    let done: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{text}"));
    // So small a model seldom keeps to the form; whatever it said is kept, and judged by the same rules.
    let outcomes = ["nothing", "proposed", "refused", "malformed"];
    assert!(outcomes.iter().any(|outcome| done["outcome"] == *outcome), "{done:#}");
    let log = product.json(&["skills", "log", "--learned"]).await;
    assert_eq!(log["records"][0]["num_failures_analyzed"], 2, "{log}");
    let state = &product.json(&["status"]).await["learning"];
    assert_eq!((&state["on"], &state["reason"]), (&json!(true), &json!(null)), "{state}");
}
