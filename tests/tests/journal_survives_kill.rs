//! `kill -9` at any moment loses no turn whose client saw the end, and the next start is clean.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use metaclaw_tests::agent::{ended_well, hello};
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::Product;
use metaclaw_tests::provider::{Provider, Reply};
use metaclaw_tests::until;
use serde_json::json;
use tokio::task::JoinSet;

/// Kills in one run. At least 200 in `make test`.
const KILLS: usize = 210;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_two_hundred_kills_under_load() {
    let provider = Provider::start().await;
    provider.script(|_| Some(Reply::text("It is done.")));
    let mut product = Product::at(&provider, &json!({}));
    product.teach();

    let stop = Arc::new(AtomicBool::new(false));
    let ended = Arc::new(AtomicUsize::new(0));
    let seen_to_end = Arc::new(Mutex::new(Vec::new()));
    let mut load = JoinSet::new();
    for client in 0..8 {
        let (agent, stop, ended, seen) = (product.agent(), stop.clone(), ended.clone(), seen_to_end.clone());
        load.spawn(async move {
            let api = Api::ALL[client % 3];
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let mark = format!("mark-{client}-{n}-end");
                let stream = n % 3 != 0;
                let words = format!("Zebrafish feeding in the aquarium, {mark}");
                let got = agent.try_send("POST", api.path(), hello(api, &words, stream).to_string()).await;
                // Whole means whole: a proper HTTP end, and the API's own last event.
                match got {
                    Ok(got) if got.status() == 200 && (!stream || ended_well(api, &got.events())) => {
                        seen.lock().expect("no panic").push(mark);
                        ended.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(_) => {}
                    // The service is down just now.
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
                }
            }
        });
    }

    let mut journal = HashSet::new();
    for kill in 0..KILLS {
        product.start().await;
        let target = ended.load(Ordering::Relaxed) + 1 + (kill * 7919) % 12;
        until("turns go through", || async { (ended.load(Ordering::Relaxed) >= target).then_some(()) }).await;
        product.kill().await;
        // Read cold, right behind the kill: what a person would see who looks before the next start.
        for turn in product.json(&["turns", "--limit", "500"]).await.as_array().expect("a list") {
            if turn["outcome"] == "ok" {
                let words = turn["user_text"].as_str().expect("the user's words");
                journal.insert(words.rsplit(", ").next().expect("a mark").to_owned());
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    while load.join_next().await.is_some() {}

    product.start().await;
    let seen = seen_to_end.lock().expect("no panic").clone();
    let lost: Vec<&String> = seen.iter().filter(|mark| !journal.contains(*mark)).collect();
    assert!(seen.len() >= KILLS, "only {} turns went through", seen.len());
    assert!(lost.is_empty(), "{} of {} turns are lost: {lost:?}", lost.len(), seen.len());
    let said = product.stop().await;
    assert_eq!(said.code, 0, "{said:#?}");
    let doctor = product.cli(&["doctor", "--offline"]).await;
    assert!(!doctor.all().to_lowercase().contains("corrupt"), "{}", doctor.all());
}
