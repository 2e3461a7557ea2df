//! SIGTERM and `stop` end the service within ten seconds in every mode, with nothing lost, whatever is going on.

use metaclaw_tests::agent::{ended_well, hello};
use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::product::{Product, health, signal};
use metaclaw_tests::provider::{Gate, Provider, Stream};
use metaclaw_tests::until;
use rstest::rstest;
use serde_json::json;
use tokio::time::{Duration, Instant};

#[rstest]
#[tokio::test]
async fn a_signal_ends_it_in_every_mode(
    #[values("skills_only", "auto", "rl")] mode: &str,
    #[values("TERM", "INT")] name: &str,
) {
    let provider = Provider::start().await;
    let mut product = Product::started(&provider, &json!({ "mode": mode })).await;
    product.agent().ask(Api::Chat, &hello(Api::Chat, "hi", false)).await;
    let start = Instant::now();
    signal(product.pid(), name).await;
    let said = product.ended().await;
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(!health(&product.addr()).await);
    assert_eq!(product.turns().await.len(), 1);
    assert!(!product.home().join("control.sock").exists(), "the socket was left behind");
}

/// A stream that is nearly done gets its end; one that never ends does not hold the stop up, and its agent is told.
#[tokio::test]
async fn a_running_stream_is_finished_and_a_hanging_one_is_cut() {
    let provider = Provider::start().await;
    let events = Answer::text("one two").events(Api::Chat, "fake-large", false);
    let gate = Gate::default();
    provider.next(Stream::begin().events(&events[..2]).gate(&gate).events(&events[2..]).end());
    provider.next(Stream::begin().events(&events[..2]).hang());
    let mut product = Product::started(&provider, &json!({})).await;
    let agent = product.agent();
    let mut ending = agent.stream(Api::Chat, &hello(Api::Chat, "ends", true)).await;
    ending.event().await.expect("a stream").expect("an event");
    let mut hanging = agent.stream(Api::Chat, &hello(Api::Chat, "hangs", true)).await;
    hanging.event().await.expect("a stream").expect("an event");

    let start = Instant::now();
    product.terminate().await;
    until("the door is shut", || async { (!health(&product.addr()).await).then_some(()) }).await;
    gate.open();
    let mut seen = Vec::new();
    while let Some(event) = ending.event().await.expect("a proper end") {
        seen.push(event);
    }
    assert!(ended_well(Api::Chat, &seen), "{seen:#?}");
    let said = product.ended().await;
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(said.code, 0, "{said:#?}");
    let mut last = String::new();
    while let Some(event) = hanging.event().await.expect("a proper end") {
        last = event.data;
    }
    assert!(last.contains("\"error\"") && last.contains("being stopped"), "{last}");

    let turns = product.turns().await;
    let outcome = |text: &str| turns.iter().find(|t| t["user_text"] == text).map(|t| t["outcome"].clone());
    assert_eq!(outcome("ends"), Some(json!("ok")), "{turns:#?}");
    assert!(outcome("hangs").is_some_and(|o| o != "ok"), "{turns:#?}");
}

#[tokio::test]
async fn stop_waits_until_it_has_ended_and_says_when_there_was_nothing() {
    let provider = Provider::start().await;
    let mut product = Product::started(&provider, &json!({})).await;
    let said = product.cli(&["stop"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(!health(&product.addr()).await);
    assert_eq!(product.ended().await.code, 0);
    let said = product.cli(&["stop"]).await;
    assert_eq!(said.code, 3, "{said:#?}");
}

/// A process that does not answer any more is what `--force` is for.
#[tokio::test]
async fn a_service_that_hangs_is_told_and_ended_by_force() {
    let provider = Provider::start().await;
    let mut product = Product::started(&provider, &json!({})).await;
    signal(product.pid(), "STOP").await;
    let said = product.cli(&["status"]).await;
    assert!(said.code == 1 && said.err.contains("did not answer"), "{said:#?}");
    let said = product.cli(&["stop", "--timeout", "1"]).await;
    assert!(said.code == 1 && said.err.contains("--force"), "{said:#?}");
    let said = product.cli(&["stop", "--timeout", "1", "--force"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    product.ended().await;
    product.start().await;
}

/// A mistake in the config, or a port that is taken, never costs the service that runs.
#[tokio::test]
async fn a_restart_that_would_fail_is_refused() {
    let provider = Provider::start().await;
    let product = Product::started(&provider, &json!({})).await;
    let good = product.config();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port();
    for (broken, says) in [
        (format!("{good}nonsense: [\n"), "config.yaml".to_owned()),
        (good.replace(&format!("port: {}", product.port()), &format!("port: {port}")), port.to_string()),
    ] {
        product.write_config(&broken);
        let said = product.cli(&["restart"]).await;
        assert_eq!(said.code, 1, "{said:#?}");
        assert!(said.err.contains(&says) && said.err.contains("runs on"), "{said:#?}");
        assert!(health(&product.addr()).await);
    }
    product.write_config(&good);
    assert_eq!(product.cli(&["restart"]).await.code, 0);
    // Another service than the one that runs is not meant.
    let other = product.folder().join("other.yaml").display().to_string();
    std::fs::write(&other, &good).expect("a config");
    for verb in ["restart", "stop"] {
        for target in [["--port", "1"], ["--config", &other]] {
            let said = product.cli(&[verb, target[0], target[1]]).await;
            assert_eq!(said.code, 3, "{verb} {target:?}: {said:#?}");
        }
    }
    assert!(health(&product.addr()).await);
}

/// Background start: back when it answers, and `stop` finds it.
#[tokio::test]
async fn a_daemon_starts_and_stops_by_command() {
    let provider = Provider::start().await;
    let product = Product::at(&provider, &json!({}));
    let said = product.cli(&["start", "--daemon"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(health(&product.addr()).await, "it came back before it answered");
    let status = product.json(&["status"]).await;
    let pid = status["pid"].as_u64().unwrap_or_else(|| panic!("no pid: {status:#}"));
    assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
    let again = product.cli(&["start", "--daemon"]).await;
    assert_eq!(again.code, 1, "{again:#?}");
    assert!(again.all().contains(&pid.to_string()), "it does not say who is there: {again:#?}");
    let said = product.cli(&["restart"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(health(&product.addr()).await);
    let said = product.cli(&["stop"]).await;
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(!health(&product.addr()).await);
    assert_eq!(product.cli(&["status"]).await.code, 3);
}

/// What the kill leaves behind does not disturb the next start, nor a stop without a service.
#[tokio::test]
async fn leftovers_of_a_kill_do_no_harm() {
    let provider = Provider::start().await;
    let mut product = Product::started(&provider, &json!({})).await;
    product.kill().await;
    assert_eq!(product.cli(&["status"]).await.code, 3);
    assert_eq!(product.cli(&["stop"]).await.code, 3);
    product.start().await;
    assert_eq!(product.stop().await.code, 0);
}
