//! Whose memory a request gets: user, workspace and scope as it names them, the agent by its key where each agent has a memory
//! of its own, and in a group only what was said there.

use metaclaw_tests::agent::{Agent, Chat};
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::{Product, merge};
use metaclaw_tests::provider::Provider;
use metaclaw_tests::until;
use serde_json::{Value, json};

const KEYS: [(&str, &str); 2] = [("red", "key-of-red"), ("blue", "key-of-blue")];

async fn remembering(provider: &Provider, changes: &Value) -> Product {
    let keys: serde_json::Map<String, Value> =
        KEYS.iter().map(|(agent, key)| ((*agent).to_owned(), json!(key))).collect();
    let mut settings =
        json!({"memory": {"enabled": true}, "skills": {"enabled": false}, "proxy": {"agent_keys": keys}});
    merge(&mut settings, changes);
    Product::started(provider, &settings).await
}

fn agent(product: &Product, name: &str) -> Agent {
    let key = KEYS.iter().find(|(agent, _)| *agent == name).map(|(_, key)| *key).expect("an agent");
    product.agent().without_header("authorization").with_header("authorization", &format!("Bearer {key}"))
}

/// Asks in a new conversation; what the provider was sent.
async fn asked(provider: &Provider, agent: &Agent, words: &str) -> String {
    Chat::new(Api::Chat).user(words).send(agent).await;
    provider.last().text().to_owned()
}

const SAID: &str = "The spare key hangs behind the blue vase.";
const ASKED: &str = "Where does the spare key hang?";

#[tokio::test]
async fn agents_share_unless_the_settings_say_otherwise() {
    let provider = Provider::start().await;
    let product = remembering(&provider, &json!({})).await;
    asked(&provider, &agent(&product, "red"), SAID).await;
    assert!(asked(&provider, &agent(&product, "blue"), ASKED).await.contains("behind the blue vase"));
}

#[tokio::test]
async fn an_agent_with_a_key_is_read_by_nobody_else_whatever_they_send() {
    let provider = Provider::start().await;
    let mut product = remembering(&provider, &json!({"memory": {"shared_by_agents": false}})).await;
    let red = agent(&product, "red");
    asked(&provider, &red, SAID).await;
    asked(&provider, &red.clone().with_header("x-user-id", "alice"), "My aunt breeds alpacas in Arequipa.").await;
    assert!(asked(&provider, &red, ASKED).await.contains("behind the blue vase"));
    product.json(&["memory", "maintain"]).await;
    let scopes = product.json(&["memory", "scopes"]).await;
    let named: Vec<&str> = scopes.as_array().expect("a list").iter().filter_map(|s| s["scope"].as_str()).collect();
    assert_eq!(named, ["@agent:red|default", "@agent:red|user:alice"], "{scopes}");

    let blue = agent(&product, "blue");
    let claims = product.agent();
    for (who, other) in [("another agent", &blue), ("one without a key of its own", &claims)] {
        for (header, value) in [
            ("x-metaclaw-agent", "red"),
            ("x-memory-scope", "default"),
            ("x-memory-scope", "@agent:red|default"),
            ("x-memory-scope", "@agent:red"),
            ("x-user-id", "x|@agent:red"),
            ("x-workspace-id", "@agent:red|default"),
        ] {
            let other = other.clone().with_header(header, value);
            let sent = asked(&provider, &other, ASKED).await;
            assert!(!sent.contains("behind the blue vase"), "{who}, {header}: {value}: {sent}");
            let alice = other.with_header("x-user-id", "alice");
            let sent = asked(&provider, &alice, "Where does my aunt breed alpacas?").await;
            assert!(!sent.contains("Arequipa"), "{who}, {header}: {value}: {sent}");
        }
        for path in ["search?q=spare%20key&scope=%40agent%3Ared%7Cdefault", "search?q=spare%20key", "summary"] {
            let got = other.try_send("GET", &format!("/v1/memory/{path}"), "").await.expect("an answer");
            assert!(
                !got.text().contains("blue vase") && !got.text().contains("\"@agent:red"),
                "{who}, {path}: {}",
                got.text()
            );
        }
    }
    // Its own ids are no way in either.
    let own = red.try_send("GET", "/v1/memory/search?q=spare%20key", "").await.expect("an answer").json();
    let id = own[0]["memory_id"].as_str().expect("finds its own");
    let status =
        async |agent: &Agent| agent.try_send("GET", &format!("/v1/memory/{id}"), "").await.expect("answers").status();
    assert_eq!((status(&red).await, status(&blue).await, status(&claims).await), (200, 404, 404));
    // After a restart it is the same memory.
    product.stop().await;
    product.start().await;
    assert!(asked(&provider, &red, ASKED).await.contains("behind the blue vase"));
}

/// A message as OpenClaw sends it from a group.
fn in_a_group(words: &str) -> String {
    let facts = json!({"message_id": "7", "is_group_chat": true, "conversation_label": "Family"});
    format!("Conversation info: ⟦openclaw:ctx⟧\n```json\n{facts:#}\n```\n\n{words}")
}

#[tokio::test]
async fn a_group_hears_nothing_private_and_what_it_says_stays_there() {
    let provider = Provider::start().await;
    let mut product = remembering(&provider, &json!({})).await;
    let openclaw = |session: &str| product.agent().with_header("x-session-affinity", &format!("{session}:0"));
    let (private, family, club) = (openclaw("mine"), openclaw("family"), openclaw("club"));
    asked(&provider, &private, SAID).await;
    let sent = asked(&provider, &family, &in_a_group(ASKED)).await;
    assert!(!sent.contains("behind the blue vase"), "{sent}");
    asked(&provider, &family, &in_a_group("Grandmother's surprise party is at the Marlowe pier.")).await;
    let party = "Where is grandmother's surprise party?";
    for (who, words) in [(&private, party.to_owned()), (&club, in_a_group(party))] {
        let sent = asked(&provider, who, &words).await;
        assert!(!sent.contains("Marlowe"), "{sent}");
    }
    // In the group it is known, in a message without its mark as well, and after a restart.
    assert!(asked(&provider, &family, party).await.contains("Marlowe"));
    assert!(!asked(&provider, &family, ASKED).await.contains("behind the blue vase"));
    product.stop().await;
    product.start().await;
    assert!(!asked(&provider, &family, ASKED).await.contains("behind the blue vase"));
    assert!(asked(&provider, &family, "Where will grandmother's surprise party be?").await.contains("Marlowe"));
    assert!(asked(&provider, &private, "Where do I find the spare key?").await.contains("behind the blue vase"));
    let scopes = product.json(&["memory", "scopes"]).await;
    let named: Vec<&str> = scopes.as_array().expect("a list").iter().filter_map(|s| s["scope"].as_str()).collect();
    assert!(named.contains(&"default|@group:family"), "{scopes}");
    // What was said there is forgotten like everything else.
    product.json(&["memory", "forget", "--scope", "default|@group:family", "--yes"]).await;
    until("the scope is empty", || async {
        let stats = product.json(&["memory", "stats", "--scope", "default|@group:family"]).await;
        (stats["passages"] == 0).then_some(())
    })
    .await;
    assert!(asked(&provider, &private, "So where is the spare key?").await.contains("behind the blue vase"));
}

#[tokio::test]
async fn an_agent_can_say_that_it_speaks_to_a_group() {
    let provider = Provider::start().await;
    let product = remembering(&provider, &json!({})).await;
    asked(&provider, &product.agent(), SAID).await;
    let group = product.agent().with_header("x-metaclaw-group", "yes");
    let sent = asked(&provider, &group, ASKED).await;
    assert!(!sent.contains("behind the blue vase"), "{sent}");
}

#[tokio::test]
async fn a_scope_holds_for_its_session_and_old_scope_strings_mean_what_they_did() {
    let provider = Provider::start().await;
    let mut product = remembering(&provider, &json!({})).await;
    let openclaw = product.agent().with_header("x-session-affinity", "s:0");
    asked(&provider, &openclaw.clone().with_header("x-memory-scope", "user:al|workspace:w|session:s"), SAID).await;
    // Not named again, it still holds; after a restart as well.
    asked(&provider, &openclaw, "The sailing boat lies at pier nine of the Marlowe harbour.").await;
    product.stop().await;
    product.start().await;
    assert!(asked(&provider, &openclaw, ASKED).await.contains("behind the blue vase"));
    let other = product.agent().with_header("x-user-id", "al").with_header("x-workspace-id", "w");
    assert!(
        asked(&provider, &other, "At which pier does the sailing boat lie?").await.contains("pier nine"),
        "the same scope"
    );
    assert!(!asked(&provider, &product.agent(), "Where is the spare key?").await.contains("behind the blue vase"));
}
