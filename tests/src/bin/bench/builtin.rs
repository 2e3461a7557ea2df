//! The figures of the built-in model, beside llama-server with the same file, prompts and threads, in turns so that drift
//! hits both alike: `bench builtin`. Prints a Markdown table.

use anyhow::{Context, Result};
use metaclaw_tests::agent::{Agent, hello};
use metaclaw_tests::answer::Api;
use metaclaw_tests::llama::llama;
use metaclaw_tests::peers::small_model;
use metaclaw_tests::product::Product;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use crate::{machine, percentile, resident};

const ROUNDS: usize = 5;
/// Tokens of an answer whose speed is measured.
const LONG: u32 = 128;

/// One answer.
struct Got {
    first: Duration,
    prompt: u64,
    /// Tokens per second behind the first.
    rate: f64,
}

async fn got(agent: &Agent, question: &str, most: u32) -> Result<Got> {
    let mut body = hello(Api::Chat, question, true);
    for (key, value) in
        [("max_tokens", json!(most)), ("temperature", json!(0)), ("stream_options", json!({"include_usage": true}))]
    {
        body[key] = value;
    }
    let begun = Instant::now();
    let mut stream = agent.stream(Api::Chat, &body).await;
    let (mut first, mut last, mut usage) = (None, Duration::ZERO, Value::Null);
    while let Some(event) = stream.event().await? {
        let Ok(chunk) = serde_json::from_str::<Value>(&event.data) else { continue };
        if chunk["choices"][0]["delta"]["content"].as_str().is_some_and(|text| !text.is_empty()) {
            last = begun.elapsed();
            first.get_or_insert(last);
        }
        if chunk["usage"].is_object() {
            usage = chunk["usage"].clone();
        }
    }
    let first = first.context("an answer")?;
    let said = usage["completion_tokens"].as_u64().context("usage")?;
    let rate = said.saturating_sub(1) as f64 / (last - first).as_secs_f64().max(1e-6);
    Ok(Got { first, prompt: usage["prompt_tokens"].as_u64().context("usage")?, rate })
}

fn median(mut list: Vec<f64>) -> f64 {
    list.sort_by(f64::total_cmp);
    list.get(list.len() / 2).copied().unwrap_or(f64::NAN)
}

async fn memory_after_unload(product: &Product) -> Result<f64> {
    // The shortest time that the model may be idle is a minute.
    let begun = Instant::now();
    while product.json(&["models", "list"]).await["running"]["phase"] != "away" {
        anyhow::ensure!(begun.elapsed() < Duration::from_secs(120), "the model does not leave memory");
        sleep(Duration::from_secs(1)).await;
    }
    // The allocator gives pages back within ten seconds.
    sleep(Duration::from_secs(12)).await;
    resident(product.pid())
}

pub(crate) async fn run() -> Result<()> {
    let model = small_model().context("the small model is not here: make test fetches it")?;
    let size = std::fs::metadata(&model)?.len() as f64 / 1048576.0;
    let threads = std::thread::available_parallelism().map_or(2, usize::from).to_string();
    let theirs = llama(&["--no-cache-prompt", "-t", &threads, "-tb", &threads]).await;
    let (_server, address) =
        theirs.context("llama-server is not here (tests/src/peers.rs says where it is looked for)")?;
    let theirs = Agent::new(&address).patient();
    let settings = json!({
        "llm": {"provider": "builtin", "model_id": model.display().to_string(), "api_base": null, "api_key": null, "dialect": null},
        "builtin": {"idle_minutes": 1}, "skills": {"enabled": false},
    });
    let mut product = Product::with_base("", &settings);
    product.start().await;
    let idle = resident(product.pid())?;
    let ours = product.agent().patient();
    let (mut rates, mut firsts) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let mut prompt = 0;
    // The first round warms up. Each prompt begins in its own way, so that neither side knows it already.
    for round in 0..=ROUNDS {
        let text = "The lamp in the hall is broken, and the man at the door asks for its price. ".repeat(26);
        let long = format!("Letter {round}. {text} What is broken?");
        let story = format!("Write a long story about ship number {round}.");
        for (at, agent) in [&ours, &theirs].into_iter().enumerate() {
            let (read, said) = (got(agent, &long, 4).await?, got(agent, &story, LONG).await?);
            prompt = read.prompt;
            if round > 0 {
                firsts[at].push(read.first);
                rates[at].push(said.rate);
            }
        }
    }
    let loaded = resident(product.pid())?;
    let [our_first, their_first] = firsts.map(|mut list| percentile(&mut list, 50.0).as_secs_f64() * 1e3);
    let [our_rate, their_rate] = rates.map(median);
    println!("SmolLM2 135M Q4_1 ({size:.0} MiB) on {threads} threads; medians of {ROUNDS}; {}\n", machine());
    println!("| what | MetaClaw | llama-server | must |\n|---|---|---|---|");
    println!(
        "| tokens per second | {our_rate:.0} ({:.0} %) | {their_rate:.0} | ≥ 60 % |",
        100.0 * our_rate / their_rate
    );
    println!("| first token, prompt of {prompt} tokens | {our_first:.0} ms | {their_first:.0} ms | ≤ 1000 ms |");
    println!("| memory, model loaded | {loaded:.0} MiB | | ≤ {:.0} MiB |", size + 150.0);
    let after = memory_after_unload(&product).await?;
    println!("| memory before · after it left | {idle:.0} · {after:.0} MiB | | the same |");
    product.stop().await;
    Ok(())
}
