//! What learning costs those who talk meanwhile: `bench learning`. Two services before one provider get the same turns and
//! the same corrected conversations; one of them looks through these for skills. Prints a Markdown table.

use anyhow::Result;
use metaclaw_tests::agent::Chat;
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::{MODEL, Product};
use metaclaw_tests::provider::{Provider, Reply};
use serde_json::json;
use tokio::time::{Duration, sleep};

use crate::direct::{Target, latencies, percentile};
use crate::{body, machine, micros};

const ROUNDS: usize = 12;
const CALLS: usize = 500;
/// Corrected conversations of each round.
const SESSIONS: usize = 8;

/// What the model says that is asked for a skill: seldom anything, as in life.
fn reply(n: usize) -> String {
    if !n.is_multiple_of(4) {
        return json!({"action": "nothing", "reason": "nothing new"}).to_string();
    }
    json!({"action": "create", "name": format!("lesson-{n}"), "category": "productivity", "keywords": [format!("topic{n}")],
           "description": format!("Lists of topic {n}. Use when topic{n} is asked for."), "turns": [2], "reason": "corrected",
           "body": format!("1. Sort topic {n} by date.\n2. Write dates as year, month and day.\n3. Say what is left out.")})
    .to_string()
}

async fn product(provider: &Provider, learns: bool) -> Product {
    let settings = json!({"llm": {"model_id": MODEL}, "skills": {"auto_evolve": learns}});
    let mut product = Product::at(provider, &settings);
    product.teach();
    product.start().await;
    product
}

/// Conversations in which the user puts something right.
async fn corrected(product: &Product, round: usize) {
    for n in 0..SESSIONS {
        let agent = product.agent().with_header("x-session-id", &format!("s{round}-{n}"));
        let agent = agent.with_header("x-turn-type", "main");
        let chat = Chat::new(Api::Chat).user(&format!("List topic{n} of week {round}.")).send(&agent).await;
        let agent = agent.with_header("x-session-done", "true");
        chat.user("No, that's wrong. Sort them by date, always.").send(&agent).await;
    }
}

pub(crate) async fn run() -> Result<()> {
    let provider = Provider::start().await;
    let asked = std::sync::atomic::AtomicUsize::new(0);
    provider.script(move |seen| {
        let asks = seen.text().contains("You keep the skill library");
        asks.then(|| Reply::text(&reply(asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed))))
    });
    let products = [product(&provider, false).await, product(&provider, true).await];
    let mut all = [Vec::new(), Vec::new()];
    let mut n = 0;
    for round in 0..=ROUNDS {
        // Each is first every second time.
        for at in [round % 2, 1 - round % 2] {
            corrected(&products[at], round).await;
            let bodies: Vec<String> = (0..CALLS).map(|i| body(n + i, false)).collect();
            n += CALLS;
            let got = latencies(&Target::new(&products[at].addr()), &bodies).await?;
            // The first round warms up.
            if round > 0 {
                all[at].extend(got);
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
    let looked = provider.seen().iter().filter(|seen| seen.text().contains("You keep the skill library")).count();
    anyhow::ensure!(looked >= ROUNDS * SESSIONS / 2, "only {looked} conversations were looked through");
    let [off, on] = all.each_mut().map(|list| [50.0, 95.0, 99.0].map(|p| micros(percentile(list, p)) / 1000.0));
    println!("| a turn, whole | learning off | learning on | ratio |\n|---|---|---|---|");
    for (name, at) in [("median", 0), ("p95", 1), ("p99", 2)] {
        println!("| {name} | {:.2} ms | {:.2} ms | {:.2} |", off[at], on[at], on[at] / off[at]);
    }
    println!("\n{looked} conversations looked through; {} turns each. {}", ROUNDS * CALLS, machine());
    Ok(())
}
