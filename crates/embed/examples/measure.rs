//! What a local model costs: `cargo run --release -p metaclaw-embed --example measure -- FOLDER [THREADS]`.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "it shows its figures")]

use std::path::PathBuf;
use std::time::Duration;

use metaclaw_embed::{Embedder as _, Local, LocalOptions, Side};
use tokio::time::Instant;

fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or_default() / 1024.0
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().expect("the folder of a model"));
    let threads = args.next().and_then(|threads| threads.parse().ok()).unwrap_or(0);
    let model = Local::new(LocalOptions { folder, threads, idle: Duration::from_secs(60) });
    println!("before: {:.0} MB", resident_mb());
    let start = Instant::now();
    let query = |n: usize| vec![format!("how should I write the date in row {n} of the table?")];
    model.embed(Side::Query, &query(0)).await.expect("a vector");
    println!("first vector after {:.0} ms, {:.0} MB", start.elapsed().as_secs_f64() * 1e3, resident_mb());
    let mut times = Vec::new();
    for n in 1..=200 {
        let start = Instant::now();
        model.embed(Side::Query, &query(n)).await.expect("a vector");
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!("a query of 15 tokens: p50 {:.1} ms, p99 {:.1} ms, {:.0} MB", times[100], times[198], resident_mb());
    let long = "The boat leaves the harbour at seven and comes back with the tide. ".repeat(12);
    let start = Instant::now();
    for n in 0..5 {
        model.embed(Side::Passage, &[format!("{n} {long}")]).await.expect("a vector");
    }
    println!("a passage of 200 tokens: {:.0} ms", start.elapsed().as_secs_f64() * 200.0);
}
