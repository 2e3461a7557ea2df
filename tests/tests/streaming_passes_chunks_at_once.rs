//! A chunk leaves when it arrives: the client sees each event while the provider still holds back the next one, in the
//! provider's own bytes where both speak the same API.

use metaclaw_tests::agent::{ended_well, hello, text_of_events};
use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::product::Product;
use metaclaw_tests::provider::{Gate, Provider, Stream};
use rstest::rstest;
use serde_json::{Value, json};

async fn product(provider: &Provider, upstream: Api) -> Product {
    Product::started(provider, &json!({"llm": {"dialect": upstream.config()}})).await
}

fn asking_usage(api: Api, text: &str) -> Value {
    let mut body = hello(api, text, true);
    if api == Api::Chat {
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

#[rstest]
#[tokio::test]
async fn each_word_arrives_before_the_next_one_is_sent(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[values(Api::Chat, Api::Responses, Api::Messages)] upstream: Api,
) {
    let provider = Provider::start().await;
    let words = ["Alpha ", "βήτα ", "三 ", "fine"];
    let events = Answer::text(&words.concat()).events(upstream, "fake-large", true);
    let mut gates = Vec::new();
    let mut stream = Stream::begin();
    for event in &events {
        stream = stream.bytes(event);
        if words.iter().any(|w| event.contains(&format!("\"{w}\"")) && !event.contains(".done")) {
            let gate = Gate::default();
            stream = stream.gate(&gate);
            gates.push(gate);
        }
    }
    assert_eq!(gates.len(), words.len());
    provider.next(stream.end());
    let product = product(&provider, upstream).await;

    let mut coming = product.agent().stream(api, &asking_usage(api, "hi")).await;
    let mut seen = Vec::new();
    for (n, gate) in gates.iter().enumerate() {
        gate.reached().await;
        let so_far = words[..=n].concat();
        while text_of_events(api, &seen) != so_far {
            seen.push(coming.event().await.expect("a whole stream").expect("a word that was sent"));
        }
        gate.open();
    }
    while let Some(event) = coming.event().await.expect("a proper end") {
        seen.push(event);
    }
    assert_eq!(text_of_events(api, &seen), words.concat());
    assert!(ended_well(api, &seen), "{seen:#?}");
}

#[rstest]
#[tokio::test]
async fn the_providers_own_bytes_come_through(#[values(Api::Chat, Api::Responses, Api::Messages)] api: Api) {
    let provider = Provider::start().await;
    let events = Answer::text("Grüße aus 東京 🌞.").thinking("hm", "c2ln").events(api, "fake-large", true);
    provider.next(Stream::begin().events(&events).end());
    let product = product(&provider, api).await;
    let got = product.agent().ask(api, &asking_usage(api, "hi")).await;
    assert_eq!(got.text(), events.concat());
    assert!(got.head.header("content-type").is_some_and(|t| t.starts_with("text/event-stream")), "{:?}", got.head);
}

#[rstest]
#[tokio::test]
async fn a_stream_cut_anywhere_is_put_together_again(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[values(Api::Chat, Api::Messages)] upstream: Api,
    #[values(1, 2, 3, 7, 61)] size: usize,
) {
    let provider = Provider::start().await;
    let text = "Grüße, 世界 🌞 — \"quoted\" \\ and\nlines.";
    let events = Answer::text(text).events(upstream, "fake-large", true).concat();
    let mut stream = Stream::begin();
    for piece in events.as_bytes().chunks(size) {
        stream = stream.bytes(piece);
    }
    provider.next(stream.end());
    let product = product(&provider, upstream).await;
    let got = product.agent().ask(api, &asking_usage(api, "hi")).await;
    assert_eq!(text_of_events(api, &got.events()), text);
    assert!(ended_well(api, &got.events()), "{}", got.text());
    if api == upstream {
        assert_eq!(got.text(), events);
    }
}

#[rstest]
#[tokio::test]
async fn windows_line_ends_and_comments_are_understood(#[values(Api::Chat, Api::Responses, Api::Messages)] api: Api) {
    let provider = Provider::start().await;
    let events = Answer::text("one two").events(Api::Chat, "fake-large", false).concat().replace('\n', "\r\n");
    provider.next(Stream::begin().bytes(": OPENROUTER PROCESSING\r\n\r\n").bytes(&events).end());
    let product = product(&provider, Api::Chat).await;
    let got = product.agent().ask(api, &hello(api, "hi", true)).await;
    assert_eq!(text_of_events(api, &got.events()), "one two", "{}", got.text());
    assert!(ended_well(api, &got.events()), "{}", got.text());
}

#[rstest]
#[tokio::test]
async fn a_silent_provider_does_not_look_dead(#[values(Api::Chat, Api::Responses, Api::Messages)] api: Api) {
    let provider = Provider::start().await;
    let events = Answer::text("late").events(api, "fake-large", false);
    let gate = Gate::default();
    provider.next(Stream::begin().events(&events[..1]).gate(&gate).events(&events[1..]).end());
    let settings = json!({"llm": {"dialect": api.config()}, "proxy": {"keepalive_seconds": 1}});
    let product = Product::started(&provider, &settings).await;
    let mut coming = product.agent().stream(api, &hello(api, "hi", true)).await;
    let mut seen = Vec::new();
    // The provider says nothing at all until a sign of life has reached the client.
    loop {
        let event = coming.any().await.expect("a whole stream").expect("a sign of life");
        if !event.comments.is_empty() || event.name == "ping" {
            break;
        }
        seen.push(event);
    }
    gate.open();
    while let Some(event) = coming.event().await.expect("a proper end") {
        if event.name != "ping" {
            seen.push(event);
        }
    }
    assert_eq!(text_of_events(api, &seen), "late");
    assert!(ended_well(api, &seen), "{seen:#?}");
}
