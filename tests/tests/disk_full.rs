//! A full disk: the agent is not cut off from its model or gets a clear error, nothing crashes, no committed turn is lost,
//! and once there is room again the journal goes on.

use metaclaw_tests::agent::hello;
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::{Product, health};
use metaclaw_tests::provider::{Provider, Reply};
use serde_json::json;

#[tokio::test]
async fn loses_nothing_and_recovers() {
    let provider = Provider::start().await;
    provider.script(|_| Some(Reply::text("Fine.")));
    let mut product = Product::at(&provider, &json!({"skills": {"enabled": false}}));
    // A small disk of its own, in a mount namespace of the service's own.
    let home = product.home();
    let script = format!(
        "cp '{0}/config.yaml' '{1}/saved.yaml' && mount -t tmpfs -o size=12m tmpfs '{0}' && cp '{1}/saved.yaml' '{0}/config.yaml' && exec \"$@\"",
        home.display(),
        product.folder().display()
    );
    if !product.spawn_in_mounts(&script).await {
        return;
    }
    product.healthy().await.expect("it starts");
    let inside = std::path::PathBuf::from(format!("/proc/{}/root{}", product.pid(), home.display()));
    let agent = product.agent();
    assert_eq!(agent.ask(Api::Chat, &hello(Api::Chat, "before", false)).await.status(), 200);

    // Fill what is left, to the last byte.
    let filler = inside.join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file on the small disk");
    for block in [1 << 20, 4096, 512, 1] {
        while std::io::Write::write_all(&mut file, &vec![7; block]).is_ok() {}
    }
    drop(file);
    let (mut unrecorded, mut recorded) = (0, Vec::new());
    for n in 0..20 {
        // Bodies big enough that they cannot hide in pages already there.
        let words = format!("during {n} {}", incompressible(100_000, n));
        let got = agent.ask(Api::Chat, &hello(Api::Chat, &words, false)).await;
        // Rule one before rule two: the answer arrives, and says that it is not written down.
        assert_eq!(got.status(), 200, "{}", got.text());
        assert_eq!(got.json()["choices"][0]["message"]["content"], "Fine.");
        match got.head.header("x-metaclaw-warning") {
            Some(warning) => {
                assert!(warning.contains("not recorded"), "{warning}");
                unrecorded += 1;
            }
            None => recorded.push(words[..12].trim_end().to_owned()),
        }
    }
    assert!(unrecorded > 0, "the disk was never full");
    assert!(health(&product.addr()).await, "it died: {}", product.output("err"));

    std::fs::remove_file(&filler).expect("room again");
    let got = agent.ask(Api::Chat, &hello(Api::Chat, "after", false)).await;
    assert_eq!(got.status(), 200, "{}", got.text());
    // The spool first: what leaves it meanwhile is in the database.
    for name in ["metaclaw.db-spool", "metaclaw.db", "metaclaw.db-wal", "metaclaw.db-shm"] {
        // The small disk goes with the process; look at the journal outside.
        std::fs::copy(inside.join(name), home.join(name)).ok();
    }
    let turns = product.turns().await;
    for words in ["before", "after"] {
        assert!(turns.iter().any(|t| t["user_text"] == words && t["outcome"] == "ok"), "{words} is not in the journal");
    }
    for words in &recorded {
        let there = turns.iter().any(|t| t["user_text"].as_str().is_some_and(|text| text.starts_with(words)));
        assert!(there, "{words} came without a warning and is not in the journal");
    }
    let said = product.stop().await;
    assert_eq!(said.code, 0, "{said:#?}");
}

fn incompressible(length: usize, seed: u64) -> String {
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
