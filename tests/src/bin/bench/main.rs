//! The figures of the README, measured in one run on this machine: the product with journal and skills on, a plain nginx
//! reverse proxy and the direct call beside it, all in front of one fast fake provider. Prints a Markdown table. With
//! `builtin`: those of the built-in model; with `learning`: what looking for skills costs a turn beside it.

mod builtin;
mod direct;
mod learning;
mod load;
mod nginx;
mod upstream;

use std::fmt::Write as _;

use anyhow::{Context, Result};
use metaclaw_tests::product::{MODEL, Product, QUESTION};
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use direct::{Target, latencies, percentile};
use nginx::Nginx;
use upstream::{Pace, Upstream};

const LATENCY_ROUNDS: usize = 8;
const LATENCY_CALLS: usize = 500;
const BIG_CALLS: usize = 40;
const TURNS: usize = 100_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["upstream", port] => runtime.block_on(upstream::serve(port.parse()?, None)),
        [] => runtime.block_on(run()),
        ["builtin"] => runtime.block_on(builtin::run()),
        ["learning"] => runtime.block_on(learning::run()),
        _ => anyhow::bail!("usage: bench [builtin|learning]"),
    }
}

/// A request body whose last message finds a skill; `n` makes it one of a kind.
fn body(n: usize, stream: bool) -> String {
    json!({"model": "agents-model", "stream": stream, "temperature": 0.7,
           "messages": [{"role": "system", "content": "You are a careful assistant."},
                        {"role": "user", "content": format!("{QUESTION} This is question {n}.")}]})
    .to_string()
}

/// A long conversation of about 200 kB.
fn big_body(n: usize) -> String {
    let mut messages = Vec::new();
    for turn in 0..40 {
        let text =
            format!("Turn {turn} of {n}. ") + &"The quick brown fox jumps over the lazy dog; über 東京. ".repeat(42);
        messages.push(json!({"role": "user", "content": text}));
        messages.push(json!({"role": "assistant", "content": text}));
    }
    messages.push(json!({"role": "user", "content": format!("{QUESTION} This is question {n}.")}));
    json!({"model": "agents-model", "messages": messages}).to_string()
}

fn product(base: &str) -> Product {
    let settings = json!({"llm": {"model_id": MODEL}, "log": {"level": "info"}});
    let product = Product::with_base(base, &settings);
    product.teach();
    product
}

/// Time from the start of the process to its first healthy answer.
async fn start_time(product: &mut Product) -> Result<Duration> {
    let start = Instant::now();
    product.spawn(&["start"]);
    let target = Target::new(&product.addr());
    while !metaclaw_tests::product::health(&target.addr).await {
        sleep(Duration::from_micros(500)).await;
        anyhow::ensure!(start.elapsed() < Duration::from_secs(30), "the service does not start");
    }
    Ok(start.elapsed())
}

fn resident(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).context("VmRSS")?;
    let kb: f64 = line.split_whitespace().nth(1).context("a number")?.parse()?;
    Ok(kb / 1024.0)
}

fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .map_or("unknown processor", |l| l.trim_start_matches([' ', '\t', ':']));
    let cores = cpu.lines().filter(|l| l.starts_with("processor")).count();
    let memory: u64 = read("/proc/meminfo").split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{model}, {cores} cores, {} GiB, Linux {}", memory.div_ceil(1 << 20), kernel.trim())
}

fn micros(d: Duration) -> f64 {
    d.as_secs_f64() * 1e6
}

/// Median latency of each target, measured in turns so that drift hits all alike.
async fn medians(targets: &[&Target], calls: usize, body: fn(usize) -> String) -> Result<Vec<Duration>> {
    let mut all = vec![Vec::new(); targets.len()];
    let mut n = 0;
    for round in 0..=LATENCY_ROUNDS {
        for (at, target) in targets.iter().enumerate() {
            let bodies: Vec<String> = (0..calls).map(|i| body(n + i)).collect();
            n += calls;
            let got = latencies(target, &bodies).await?;
            // The first round warms up.
            if round > 0 {
                all[at].extend(got);
            }
        }
    }
    Ok(all.iter_mut().map(|list| percentile(list, 50.0)).collect())
}

async fn run() -> Result<()> {
    let mut table = String::from(
        "| what | direct | nginx | MetaClaw | added by MetaClaw | must | aim |\n|---|---|---|---|---|---|---|\n",
    );
    let upstream = Upstream::spawn().await?;
    let nginx = Nginx::start(&upstream.addr).await?;
    let mut product = product(&upstream.base());
    let first = start_time(&mut product).await?;
    let mut starts = Vec::new();
    for _ in 0..9 {
        product.stop().await;
        starts.push(start_time(&mut product).await?);
    }
    let start = percentile(&mut starts, 50.0);
    sleep(Duration::from_secs(2)).await;
    let idle = resident(product.pid())?;

    let (direct, through) = (Target::new(&upstream.addr), Target::new(nginx.addr()));
    let ours = Target::new(&product.addr());
    let targets = [&direct, &through, &ours];

    eprintln!("latency, 1 connection …");
    let got = medians(&targets, LATENCY_CALLS, |n| body(n, false)).await?;
    let (d, n, m) = (micros(got[0]), micros(got[1]), micros(got[2]));
    writeln!(
        table,
        "| latency, 1 connection, p50 | {d:.0} µs | {n:.0} µs | {m:.0} µs | **{:.3} ms** ({:.1} × nginx's {:.3} ms) | ≤ 0.3 ms | ≤ 0.1 ms |",
        (m - d) / 1e3,
        (m - d) / (n - d),
        (n - d) / 1e3
    )?;

    eprintln!("200 kB bodies …");
    let got = medians(&targets, BIG_CALLS, big_body).await?;
    let (d, n, m) = (micros(got[0]) / 1e3, micros(got[1]) / 1e3, micros(got[2]) / 1e3);
    writeln!(
        table,
        "| latency, 200 kB request body, p50 | {d:.2} ms | {n:.2} ms | {m:.2} ms | **{:.2} ms** | ≤ 2 ms | ≤ 1 ms |",
        m - d
    )?;

    eprintln!("streams …");
    let paced = upstream::paced(Pace { chunks: 40, gap: Duration::from_millis(4) }).await?;
    let slow_nginx = Nginx::start(&paced.addr).await?;
    let mut streaming = self::product(&paced.base());
    start_time(&mut streaming).await?;
    let mut delays = Vec::new();
    for addr in [paced.addr.as_str(), slow_nginx.addr(), &streaming.addr()] {
        let mut list = paced.delays(&Target::new(addr), 25, |n| body(n, true)).await?;
        delays.push((percentile(&mut list, 50.0), percentile(&mut list, 99.0)));
    }
    streaming.stop().await;
    let (d, n, m) = (micros(delays[0].0), micros(delays[1].0), micros(delays[2].0));
    writeln!(
        table,
        "| delay of a streamed chunk, p50 | {d:.0} µs | {n:.0} µs | {m:.0} µs | **{:.3} ms** | ≤ 0.2 ms | ≤ 0.05 ms |",
        (m - d) / 1e3
    )?;
    let (d, n, m) = (micros(delays[0].1), micros(delays[1].1), micros(delays[2].1));
    writeln!(
        table,
        "| delay of a streamed chunk, p99 | {d:.0} µs | {n:.0} µs | {m:.0} µs | {:.3} ms | | |",
        (m - d) / 1e3
    )?;

    eprintln!("throughput, 16 connections (wrk) …");
    let mut rates = vec![Vec::new(); 3];
    for round in 0..4 {
        for (at, target) in targets.iter().enumerate() {
            let rate = load::wrk(target, 16, 4, round * 10 + at).await?;
            if round > 0 {
                rates[at].push(rate);
            }
        }
    }
    let rate: Vec<f64> = rates
        .iter_mut()
        .map(|r| {
            r.sort_by(f64::total_cmp);
            r[r.len() / 2]
        })
        .collect();
    writeln!(
        table,
        "| throughput, 16 connections | {:.0}/s | {:.0}/s | **{:.0}/s** | {:.2} × direct, {:.2} × nginx | ≥ 4,000/s | ≥ 10,000/s |",
        rate[0],
        rate[1],
        rate[2],
        rate[2] / rate[0],
        rate[2] / rate[1]
    )?;

    eprintln!("{TURNS} turns …");
    product.stop().await;
    let mut product = self::product(&upstream.base());
    start_time(&mut product).await?;
    let began = Instant::now();
    load::turns(&Target::new(&product.addr()), 16, TURNS).await?;
    let took = began.elapsed().as_secs_f64();
    sleep(Duration::from_secs(2)).await;
    let after = resident(product.pid())?;
    writeln!(
        table,
        "| resident memory, idle / after {TURNS} turns | – | – | **{idle:.0} / {after:.0} MB** | – | ≤ 40 / ≤ 80 MB | ≤ 25 / ≤ 50 MB |"
    )?;
    writeln!(
        table,
        "| start to first healthy answer, p50 | – | – | **{:.0} ms** | – | ≤ 300 ms | ≤ 100 ms |",
        micros(start) / 1e3
    )?;
    // Figures of turns that were not recorded, or had nothing added, would be better than the truth.
    let recorded = product.json(&["turns", "--limit", &(2 * TURNS).to_string()]).await;
    let recorded = recorded.as_array().context("a list of turns")?;
    anyhow::ensure!(recorded.len() == TURNS, "{} of {TURNS} turns are in the journal", recorded.len());
    let bare = recorded.iter().filter(|turn| turn["additions"].as_array().is_none_or(Vec::is_empty)).count();
    anyhow::ensure!(bare == 0, "{bare} of {TURNS} turns had no skill added");
    product.stop().await;

    println!("{table}");
    println!("Machine: {}. Everything on this one machine: load generator, provider, nginx, MetaClaw", machine());
    println!(
        "({}), journal and skills on, every request a new question that a skill is added to.",
        version(&product).await
    );
    println!(
        "First start in an empty home, built-in skills installed: {:.0} ms. The {TURNS} turns took {took:.1} s.",
        micros(first) / 1e3
    );
    Ok(())
}

async fn version(product: &Product) -> String {
    product.cli(&["--version"]).await.out.trim().to_owned()
}
