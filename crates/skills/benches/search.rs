//! How long a search takes: on the built-in bank, on 1,000 and 2,000 skills, and for a long pasted text; by meaning as
//! well, the question's vector included, if the folder of an embedding model is named.
//! `cargo bench -p metaclaw-skills [-- FOLDER]`.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints its figures and may stop")]

use std::collections::HashSet;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use embed::{Embedder as _, Local, LocalOptions, Side, Vector};
use metaclaw_skills::{Bank, ByMeaning, Limits, Meaning, Meanings, Query, Skill, builtin, parse};
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
            skill.content_hash = i as u128;
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

/// Vectors as a bank of this size has; which they are does not change the time.
fn vectors(bank: &Bank) -> Meanings {
    let vector = |seed: usize| Vector::of((0..384).map(|at| ((seed * 31 + at) as f32).sin()).collect());
    let meaning = |at: usize| Meaning { whole: vector(at), examples: (0..9).map(|one| vector(at * 9 + one)).collect() };
    Meanings::new(
        (0..228).map(vector).collect(),
        bank.skills().iter().enumerate().map(|(at, skill)| (skill.content_hash, meaning(at))).collect(),
    )
}

fn measure_by_meaning(folder: &Path, bank: &Bank, queries: &[&str]) {
    let meanings = vectors(bank);
    let options = LocalOptions { folder: folder.to_owned(), threads: 0, idle: Duration::from_secs(600) };
    let (model, limits) = (Local::new(options), Limits::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        model.embed(Side::Query, &["warm up".to_owned()]).await.unwrap();
        let mut times: Vec<[u128; 2]> = Vec::new();
        for text in queries {
            let start = Instant::now();
            let question = model.embed(Side::Query, &[(*text).to_owned()]).await.unwrap().remove(0);
            let embedded = start.elapsed().as_nanos();
            let by = ByMeaning { question: &question, meanings: &meanings, words: true, floor: limits.floor };
            black_box(bank.search_by(&by, &Query { text, ..Query::default() }, &limits));
            times.push([start.elapsed().as_nanos(), start.elapsed().as_nanos() - embedded]);
        }
        for (name, part) in [("with the question's vector", 0), ("without it", 1)] {
            let mut times: Vec<u128> = times.iter().map(|time| time[part]).collect();
            times.sort_unstable();
            let at = |q: f64| times[((times.len() - 1) as f64 * q) as usize] as f64 / 1000.0;
            let name = format!("by words and meaning, {name}");
            println!("{name:48} {:5} skills  p50 {:8.1} µs  p99 {:8.1} µs", bank.len(), at(0.5), at(0.99));
        }
    });
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
    let thousand = Bank::new(many(1000), HashSet::new());
    measure("labelled queries", &thousand, &queries, 20);
    // Cargo adds `--bench`.
    if let Some(folder) = std::env::args().skip(1).find(|arg| !arg.starts_with("--")) {
        measure_by_meaning(Path::new(&folder), &thousand, &queries);
    }
    println!("building the index of 2,000 skills: {} ms", built.as_millis());
}
