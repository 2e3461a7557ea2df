//! How long a search takes: on the built-in bank, on 2,000 skills, and for a long pasted text.
//! `cargo bench -p metaclaw-skills`.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints its figures and may stop")]

use std::collections::HashSet;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use metaclaw_skills::{Bank, Limits, Query, Skill, builtin, parse};
use tokio::time::Instant;

fn skills() -> Vec<Arc<Skill>> {
    let one =
        |b: &metaclaw_skills::Builtin| parse(&Path::new(b.name).join("SKILL.md"), b.text.as_bytes()).skill.unwrap();
    builtin().iter().map(|b| Arc::new(one(b))).collect()
}

/// Copies of the bank with some words of their own, as a large user library has.
fn many(count: usize) -> Vec<Arc<Skill>> {
    let base = skills();
    (0..count)
        .map(|i| {
            let mut skill = Skill::clone(&base[i % base.len()]);
            skill.name = format!("{}-{i}", skill.name);
            skill.description.push_str(&format!(" For project{} and team{}.", i % 97, i % 31));
            Arc::new(skill)
        })
        .collect()
}

fn measure(name: &str, bank: &Bank, queries: &[&str], rounds: usize) {
    let mut times: Vec<u128> = Vec::new();
    for _ in 0..rounds {
        for text in queries {
            let start = Instant::now();
            black_box(bank.search(&Query { text, ..Query::default() }, &Limits::default()));
            times.push(start.elapsed().as_nanos());
        }
    }
    times.sort_unstable();
    let at = |q: f64| times[((times.len() - 1) as f64 * q) as usize] as f64 / 1000.0;
    println!("{name:32} {:5} skills  p50 {:8.1} µs  p99 {:8.1} µs", bank.len(), at(0.5), at(0.99));
}

fn main() {
    let queries: Vec<&str> = include_str!("../tests/queries.tsv")
        .lines()
        .filter(|l| !l.starts_with('#'))
        .filter_map(|l| l.splitn(3, '\t').nth(2))
        .collect();
    let long = format!("{}\nwhy does this test fail?", queries.join("\n").repeat(4));
    let small = Bank::new(skills(), HashSet::new());
    let start = Instant::now();
    let large = Bank::new(many(2000), HashSet::new());
    let built = start.elapsed();
    measure("labelled queries", &small, &queries, 200);
    measure("labelled queries", &large, &queries, 10);
    measure("60 kB pasted text", &small, &[&long], 200);
    measure("60 kB pasted text", &large, &[&long], 50);
    println!("building the index of 2,000 skills: {} ms", built.as_millis());
}
