//! The harness itself, without the product: what the fake provider sends is what the client sees.

use metaclaw_tests::agent::{Agent, Chat, ended_well, hello, text_of, text_of_events};
use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::provider::{Gate, Provider, Reply, Stream};

#[tokio::test]
async fn answers_whole_and_streamed_say_the_same_in_every_api() {
    let provider = Provider::start().await;
    let agent = Agent::new(provider.addr());
    for api in Api::ALL {
        let answer = Answer::text("Grüße, 世界 and all.").thinking("Hm.", "c2ln");
        provider.next(Reply::Answer(answer.clone()));
        provider.next(Reply::Answer(answer));
        let whole = agent.ask(api, &hello(api, "hi", false)).await;
        assert_eq!(text_of(api, &whole.json()), "Grüße, 世界 and all.");
        let streamed = agent.ask(api, &hello(api, "hi", true)).await;
        assert_eq!(text_of_events(api, &streamed.events()), "Grüße, 世界 and all.");
        assert!(ended_well(api, &streamed.events()), "{}", streamed.text());
        assert_eq!(provider.last().api(), Some(api));
    }
}

#[tokio::test]
async fn a_gate_holds_the_reply_and_a_dropped_request_is_noticed() {
    let provider = Provider::start().await;
    let gate = Gate::default();
    provider.next(Stream::begin().bytes("data: one\n\n").gate(&gate).bytes("data: two\n\n").end());
    provider.next(Stream::begin().bytes("data: one\n\n").hang());
    let agent = Agent::new(provider.addr());

    let mut coming = agent.stream(Api::Chat, &hello(Api::Chat, "hi", true)).await;
    assert_eq!(coming.piece().await.unwrap().unwrap(), "data: one\n\n");
    gate.reached().await;
    gate.open();
    assert_eq!(coming.event().await.unwrap().unwrap().data, "two");
    assert_eq!(coming.event().await.unwrap(), None);

    let mut coming = agent.stream(Api::Chat, &hello(Api::Chat, "hi", true)).await;
    assert_eq!(coming.event().await.unwrap().unwrap().data, "one");
    coming.hang_up();
    provider.last().dropped().await;
}

#[tokio::test]
async fn a_reset_and_an_early_close_are_errors_to_the_client() {
    let provider = Provider::start().await;
    let agent = Agent::new(provider.addr());
    provider.next(Stream::begin().bytes("data: one\n\n").reset());
    provider.next(Stream::begin().bytes("data: one\n\n").close());
    for _ in 0..2 {
        let mut coming = agent.stream(Api::Chat, &hello(Api::Chat, "hi", true)).await;
        let rest = coming.rest().await;
        assert!(rest.is_err(), "{rest:?}");
    }
}

#[tokio::test]
async fn a_conversation_grows_as_clients_send_it() {
    let provider = Provider::start().await;
    let agent = Agent::new(provider.addr());
    for api in Api::ALL {
        provider.next(Reply::Answer(Answer::calls(&[("look", r#"{"at":"天"}"#), ("hear", "{}")])));
        let chat = Chat::new(api).user("look").send(&agent).await;
        let chat = chat.tool_result("call_look_0", "blue").tool_result("call_hear_1", "wind").send(&agent).await;
        let body = chat.user("and now?").body(true).to_string();
        for part in ["call_look_0", "call_hear_1", "blue", "This is reply", "and now?"] {
            assert!(body.contains(part), "{part} is missing: {body}");
        }
    }
}

/// The fake is close enough to the real services for their own SDKs.
#[tokio::test]
async fn the_official_sdks_accept_the_fake_provider() {
    let Some(python) = metaclaw_tests::peers::python() else { return };
    let provider = Provider::start().await;
    for (script, scenarios) in [
        (
            "openai_sdk.py",
            ["chat", "chat_stream", "chat_tools", "responses", "responses_stream", "responses_tools"].as_slice(),
        ),
        ("anthropic_sdk.py", ["messages", "messages_stream", "messages_tools"].as_slice()),
    ] {
        for scenario in scenarios {
            if scenario.ends_with("_tools") {
                provider.next(Reply::Answer(Answer::calls(&[("weather", r#"{"city":"Bern"}"#)])));
            }
            provider.next(Reply::text("Sunny in Bern."));
            let seen = metaclaw_tests::peers::sdk(&python, script, provider.addr(), "any", scenario).await;
            assert_eq!(seen["text"], "Sunny in Bern.", "{script} {scenario}: {seen}");
            assert_eq!(seen["calls"].is_array(), scenario.ends_with("_tools"), "{script} {scenario}: {seen}");
        }
    }
}
