//! When the agent hangs up, the provider's request ends too, and the journal says so; nobody else notices.

use metaclaw_tests::agent::hello;
use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::product::Product;
use metaclaw_tests::provider::{Gate, Provider, Stream};
use metaclaw_tests::until;
use metaclaw_tests::wire::Conn;
use rstest::rstest;
use serde_json::json;

async fn product(provider: &Provider, upstream: Api) -> Product {
    Product::started(provider, &json!({"llm": {"dialect": upstream.config()}})).await
}

async fn is_cancelled(product: &Product) {
    let turns =
        until("the turn is in the journal", || async { Some(product.turns().await).filter(|t| !t.is_empty()) }).await;
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0]["outcome"], "cancelled", "{:#}", turns[0]);
}

#[rstest]
#[tokio::test]
async fn in_the_middle_of_a_stream(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[values(Api::Chat, Api::Messages)] upstream: Api,
) {
    let provider = Provider::start().await;
    let events = Answer::text("one two three").events(upstream, "fake-large", false);
    provider.next(Stream::begin().events(&events[..4]).hang());
    let product = product(&provider, upstream).await;
    let mut coming = product.agent().stream(api, &hello(api, "hi", true)).await;
    coming.event().await.expect("a stream").expect("its first event");
    coming.hang_up();
    provider.last().dropped().await;
    is_cancelled(&product).await;
}

#[rstest]
#[tokio::test]
async fn before_the_first_byte(#[values(false, true)] stream: bool) {
    let provider = Provider::start().await;
    provider.next(Stream::after(&Gate::default()).end());
    let product = product(&provider, Api::Chat).await;
    let body = hello(Api::Chat, "hi", stream).to_string();
    let mut conn = Conn::connect(&product.addr()).await.expect("a connection");
    conn.send(&product.agent().request("POST", Api::Chat.path(), body.as_bytes())).await.expect("a request");
    let seen = provider.arrives(1).await;
    drop(conn);
    seen.dropped().await;
    is_cancelled(&product).await;
}

/// Back-pressure: a client that does not read holds the provider back instead of filling our memory.
#[tokio::test]
async fn a_client_that_does_not_read_slows_the_provider_down() {
    let provider = Provider::start().await;
    let big = format!(
        "data: {}\n\n",
        json!({"id": "x", "choices": [{"index": 0, "delta": {"content": "x".repeat(60_000)}}]})
    );
    let (end, mut stream) = (Gate::default(), Stream::begin());
    for _ in 0..2_000 {
        stream = stream.bytes(&big);
    }
    provider.next(stream.gate(&end).end());
    let product = product(&provider, Api::Chat).await;
    let coming = product.agent().stream(Api::Chat, &hello(Api::Chat, "hi", true)).await;
    let before = resident_kb(product.pid());
    // 120 MB are on offer; give them every chance to pile up.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let grown = resident_kb(product.pid()).saturating_sub(before);
    assert!(grown < 40_000, "{grown} kB piled up behind a client that does not read");
    coming.hang_up();
    provider.last().dropped().await;
}

fn resident_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("its resident size");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}
