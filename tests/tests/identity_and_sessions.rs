//! Which session a request belongs to: what the agent says by header or body, what the known agents say in their own ways,
//! and otherwise the conversation itself.

use metaclaw_tests::agent::{Agent, Chat, hello};
use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::product::{PROXY_KEY, Product};
use metaclaw_tests::provider::{Gate, Provider, Reply, Stream};
use metaclaw_tests::until;
use rstest::rstest;
use serde_json::{Value, json};

async fn session(agent: &Agent, api: Api, body: &Value) -> String {
    let got = agent.ask(api, body).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    got.head.header("x-metaclaw-session").expect("the session's name").to_owned()
}

async fn continued(agent: &Agent, api: Api, chat: Chat) -> (String, Chat) {
    let got = agent.ask(api, &chat.body(false)).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    (got.head.header("x-metaclaw-session").expect("a session").to_owned(), chat.answer(&got.json()))
}

#[rstest]
#[tokio::test]
async fn two_chats_without_any_name_are_two_sessions(#[values(Api::Chat, Api::Responses, Api::Messages)] api: Api) {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({"llm": {"dialect": api.config()}})).await;
    let agent = product.agent();
    let (one, a) = continued(&agent, api, Chat::new(api).user("About cats.")).await;
    let (two, b) = continued(&agent, api, Chat::new(api).user("About dogs.")).await;
    assert_ne!(one, two);
    let (again_two, b) = continued(&agent, api, b.user("More.")).await;
    let (again_one, a) = continued(&agent, api, a.user("More.")).await;
    assert_eq!((&again_one, &again_two), (&one, &two));
    assert_eq!(continued(&agent, api, a.user("Even more.")).await.0, one);
    assert_eq!(continued(&agent, api, b.user("Even more.")).await.0, two);
}

#[tokio::test]
async fn two_chats_that_begin_with_the_same_words_stay_apart() {
    let provider = Provider::start().await;
    provider.script(|_| Some(Reply::text("Hello! How can I help?")));
    let product = Product::started(&provider, &json!({})).await;
    let agent = product.agent();
    let (one, a) = continued(&agent, Api::Chat, Chat::new(Api::Chat).user("Hi")).await;
    let (two, b) = continued(&agent, Api::Chat, Chat::new(Api::Chat).user("Hi")).await;
    assert_ne!(one, two, "a second chat with the same first words joined the first one");
    let (one_again, _) = continued(&agent, Api::Chat, a.user("About cats.")).await;
    let (two_again, _) = continued(&agent, Api::Chat, b.user("About dogs.")).await;
    assert_ne!(one_again, two_again);
    assert!([&one, &two].contains(&&one_again) && [&one, &two].contains(&&two_again));
}

#[tokio::test]
async fn a_tool_loop_is_one_turn_of_one_session() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let agent = product.agent();
    provider.next(Reply::Answer(Answer::calls(&[("look", "{}"), ("hear", "{}")])));
    let (first, chat) = continued(&agent, Api::Chat, Chat::new(Api::Chat).user("Look around.")).await;
    let chat = chat.tool_result("call_look_0", "a wall").tool_result("call_hear_1", "wind");
    let (second, chat) = continued(&agent, Api::Chat, chat).await;
    let (third, _) = continued(&agent, Api::Chat, chat.user("And now?")).await;
    assert_eq!((&first, &first), (&second, &third));
    let turns = product.turns().await;
    let numbers: Vec<(u64, u64)> = turns
        .iter()
        .map(|t| (t["turn"].as_u64().expect("a turn number"), t["step"].as_u64().expect("a step")))
        .collect();
    assert_eq!(numbers.len(), 3);
    assert_eq!(numbers[0].0, numbers[1].0, "{numbers:?}");
    assert_eq!(numbers[1].1, numbers[0].1 + 1, "{numbers:?}");
    assert_eq!(numbers[2].0, numbers[0].0 + 1, "{numbers:?}");
}

#[rstest]
#[case::header("x-session-id", "s-42")]
#[case::header_in_capitals("X-SESSION-ID", "s-42")]
#[tokio::test]
async fn a_named_session_is_taken_at_its_word(#[case] name: &str, #[case] value: &str) {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let agent = product.agent().with_header(name, value).with_header("x-turn-type", "main");
    let got = agent.ask(Api::Chat, &hello(Api::Chat, "one", false)).await;
    assert_eq!(got.head.header("x-metaclaw-session"), Some(value));
    assert_eq!(got.json()["session_id"], value, "the old reply member: {}", got.text());
    let got = agent.ask(Api::Chat, &hello(Api::Chat, "two", true)).await;
    for event in got.events().iter().filter(|e| e.data != "[DONE]") {
        assert_eq!(event.json()["session_id"], value, "{}", event.data);
    }
    let got = product.agent().ask(Api::Chat, &hello(Api::Chat, "three", false)).await;
    assert!(got.json().get("session_id").is_none(), "an agent that named no session got the member: {}", got.text());
}

#[tokio::test]
async fn a_session_named_in_the_body_is_the_same_as_in_the_header() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let mut body = hello(Api::Chat, "one", false);
    body["session_id"] = json!("s-7");
    body["turn_type"] = json!("main");
    assert_eq!(session(&product.agent(), Api::Chat, &body).await, "s-7");
    assert!(!provider.last().text().contains("s-7"));
    body["session_id"] = json!("other");
    let named = product.agent().with_header("x-session-id", "s-7").with_header("x-turn-type", "main");
    assert_eq!(session(&named, Api::Chat, &body).await, "s-7", "the header comes first");
}

#[tokio::test]
async fn openclaws_affinity_headers_name_the_session_without_their_counter() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let agent = |n: u32| {
        let id = format!("44b4c0de-0709:{n}");
        product
            .agent()
            .with_header("session_id", &id)
            .with_header("x-client-request-id", &id)
            .with_header("x-session-affinity", &id)
    };
    let one = session(&agent(0), Api::Chat, &hello(Api::Chat, "one", false)).await;
    let two = session(&agent(1), Api::Chat, &hello(Api::Chat, "two", false)).await;
    assert_eq!((one.as_str(), two.as_str()), ("44b4c0de-0709", "44b4c0de-0709"));
    let turns = product.turns().await;
    assert!(turns.iter().all(|t| t["kind"] == "main"), "{turns:#?}");
}

#[rstest]
#[case("user_3f2a_account_0c1d_session_5e8d1c1c-94d8-4d3c-a7e5-5c9c0a6d3e11")]
#[case(r#"{"device_id":"d","account_uuid":"","session_id":"5e8d1c1c-94d8-4d3c-a7e5-5c9c0a6d3e11"}"#)]
#[tokio::test]
async fn claude_codes_user_id_names_the_session(#[case] user_id: &str) {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({"llm": {"dialect": "anthropic-messages"}})).await;
    let mut body = hello(Api::Messages, "one", false);
    body["metadata"] = json!({"user_id": user_id});
    let name = session(&product.agent(), Api::Messages, &body).await;
    assert!(name.contains("5e8d1c1c-94d8-4d3c-a7e5-5c9c0a6d3e11"), "{name}");
    assert_eq!(provider.last().json()["metadata"]["user_id"], user_id, "what the provider is told stays");
}

#[tokio::test]
async fn a_prompt_cache_key_of_codex_holds_a_session_together() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({"llm": {"dialect": "openai-responses"}})).await;
    let ask = |text: &str, key: &str| {
        let mut body = hello(Api::Responses, text, false);
        body["prompt_cache_key"] = json!(key);
        body
    };
    let codex = product.agent().with_header("user-agent", "codex_cli_rs/0.171.0");
    let one = session(&codex, Api::Responses, &ask("one", "k1")).await;
    assert_eq!(session(&codex, Api::Responses, &ask("two", "k1")).await, one);
    assert_ne!(session(&codex, Api::Responses, &ask("one", "k2")).await, one);
    // Of another program it may be the key for all its chats.
    let program = product.agent().with_header("user-agent", "OpenAI/Python 1.2.3");
    let one = session(&program, Api::Responses, &ask("three", "k3")).await;
    assert_ne!(session(&program, Api::Responses, &ask("four", "k3")).await, one);
}

#[rstest]
#[tokio::test]
async fn a_done_signal_ends_the_session(#[values("1", "true", "YES", " on ")] done: &str) {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let agent = product.agent().with_header("x-session-id", "s-1").with_header("x-turn-type", "main");
    agent.ask(Api::Chat, &hello(Api::Chat, "one", false)).await;
    agent.with_header("x-session-done", done).ask(Api::Chat, &hello(Api::Chat, "bye", false)).await;
    until("the session ends", async || {
        let sessions = product.json(&["sessions"]).await;
        let list = if sessions.is_array() { &sessions } else { &sessions["sessions"] };
        let one = list.as_array().expect("a list").iter().find(|s| s["id"] == "s-1").expect("the session").clone();
        one["ended_ms"].is_i64().then_some(())
    })
    .await;
}

/// A client that lost its answer asks again: one session, not two.
#[tokio::test]
async fn a_retry_after_a_lost_answer_stays_in_its_session() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let agent = product.agent();
    let body = hello(Api::Chat, "Is anyone there?", true);
    provider.next(Stream::after(&Gate::default()).end());
    let request = agent.request("POST", Api::Chat.path(), body.to_string().as_bytes());
    let mut conn = metaclaw_tests::wire::Conn::connect(&product.addr()).await.expect("a connection");
    conn.send(&request).await.expect("a request");
    let seen = provider.arrives(1).await;
    drop(conn);
    seen.dropped().await;
    let got = agent.ask(Api::Chat, &body).await;
    let name = got.head.header("x-metaclaw-session").expect("a session").to_owned();
    let turns = metaclaw_tests::until("both turns are in the journal", || async {
        Some(product.turns().await).filter(|t| t.len() == 2)
    })
    .await;
    assert!(turns.iter().all(|t| t["session"] == name.as_str()), "{turns:#?}");
}

#[tokio::test]
async fn many_parallel_chats_each_keep_their_own_session() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..16 {
        let agent = product.agent();
        tasks.spawn(async move {
            let mut chat = Chat::new(Api::Chat).user(&format!("Subject {n}."));
            let mut names = Vec::new();
            for _ in 0..5 {
                let (name, next) = continued(&agent, Api::Chat, chat).await;
                names.push(name);
                chat = next.user("Go on.");
            }
            names.dedup();
            assert_eq!(names.len(), 1, "chat {n} changed its session: {names:?}");
            names.remove(0)
        });
    }
    let mut names: Vec<String> = tasks.join_all().await;
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 16);
    assert_eq!(product.agent().with_header("authorization", PROXY_KEY).get("/healthz").await.status(), 200);
}
