//! A file that must not grow any more (a quota, a limit of the process): turns wait beside the journal, whoever starts or reads
//! meanwhile is not held up and throws nothing away, and everything is there once the limit is gone.

use metaclaw_tests::agent::hello;
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::Product;
use metaclaw_tests::provider::{Provider, Reply};
use serde_json::json;

/// No file grows beyond 1.5 MB; who tries gets an error instead of a signal.
const LIMIT: &str = "trap '' XFSZ && ulimit -f 3072 && exec \"$@\"";
/// Even less: nothing that was left can be taken over.
const LESS: &str = "trap '' XFSZ && ulimit -f 512 && exec \"$@\"";

#[tokio::test]
async fn turns_wait_and_nobody_hangs() {
    let provider = Provider::start().await;
    provider.script(|_| Some(Reply::text("Fine.")));
    let mut product = Product::at(&provider, &json!({"skills": {"enabled": false}}));
    if !product.spawn_in_mounts(LIMIT).await {
        return;
    }
    product.healthy().await.expect("it starts");
    let agent = product.agent();
    let mut promised = Vec::new();
    for n in 0..60 {
        let words = format!("turn {n:02} {}", noise(60_000, n));
        let got = agent.ask(Api::Chat, &hello(Api::Chat, &words, false)).await;
        assert_eq!(got.status(), 200, "{}", got.text());
        match got.head.header("x-metaclaw-warning") {
            Some(warning) => assert!(warning.contains("not recorded"), "{warning}"),
            None => promised.push(words[..7].to_owned()),
        }
    }
    assert!(promised.len() >= 15, "{}", promised.len());
    product.kill().await;
    let spool = product.home().join("metaclaw.db-spool");
    let left = std::fs::read(&spool).expect("the spool");
    assert!(!left.is_empty(), "nothing had to wait");

    let said = product.cli_in_mounts(LESS, &["turns", "--limit", "100", "--json"]).await.expect("as before");
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(said.err.contains("Some turns are not shown"), "{said:#?}");
    assert_eq!(std::fs::read(&spool).expect("the spool"), left, "a reader threw turns away");

    assert!(product.spawn_in_mounts(LESS).await);
    product.healthy().await.expect("it starts though it cannot take over");
    let got = product.agent().ask(Api::Chat, &hello(Api::Chat, "meanwhile", false)).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    let status = product.json(&["status"]).await;
    assert!(status.to_string().contains("cannot be read or written"), "{status}");
    let said = product.stop().await;
    assert_eq!(said.code, 0, "{said:#?}");

    product.start().await;
    let turns = product.turns().await;
    for words in &promised {
        let there =
            turns.iter().filter(|t| t["user_text"].as_str().is_some_and(|text| text.starts_with(words))).count();
        assert_eq!(there, 1, "{words}");
    }
    product.stop().await;
}

/// Text that does not get smaller.
fn noise(length: usize, seed: u64) -> String {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            char::from(b'a' + (x % 26) as u8)
        })
        .collect()
}
