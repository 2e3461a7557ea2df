//! How long recall and absorbing take at 10,000, 100,000 and 1,000,000 windows, and recall beside the database at fewer; by
//! words, and by meaning as well, with random vectors of 384 numbers: `cargo bench -p metaclaw-memory [-- SIZE…]`.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark prints its figures and may stop"
)]

use std::sync::Mutex;

use async_trait::async_trait;
use embed::{Embedder, Error, Side, Vector};
use metaclaw_memory::{Ask, Known, Meant, Memory, Settings, Utterance};
use store::{Options, Store};
use tokio::time::Instant;

/// Numbers that look random and are the same on every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    /// A word of a vocabulary of 40,000 with the frequencies of a natural language.
    fn word(&mut self) -> String {
        let rank = 40_000f64.powf(self.below(1_000_000) as f64 / 1e6) as u64;
        // Letters, so that stemming and hashing work as on words.
        let mut n = rank * 7919 + 131;
        let mut word = String::new();
        while n > 0 {
            word.push(char::from(b'a' + (n % 26) as u8));
            n /= 26;
        }
        word
    }

    fn sentence(&mut self, words: u64) -> String {
        (0..words).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }
}

/// A model without any sense.
struct Blind(Mutex<Dice>);

impl Blind {
    fn vector(&self) -> Vector {
        let mut dice = self.0.lock().unwrap();
        Vector::of((0..384).map(|_| dice.below(1_000_000) as f32 / 1e6 - 0.5).collect())
    }
}

#[async_trait]
impl Embedder for Blind {
    fn name(&self) -> String {
        "blind".to_owned()
    }

    async fn embed(&self, _: Side, texts: &[String]) -> Result<Vec<Vector>, Error> {
        Ok(texts.iter().map(|_| self.vector()).collect())
    }
}

/// Memory that this process has, in MB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() / 1024
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let asked: Vec<usize> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![0, 100, 1_000, 8_000, 10_000, 100_000, 1_000_000] } else { asked };
    runtime.block_on(run(&sizes));
}

async fn run(sizes: &[usize]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metaclaw.db");
    let tracker = tokio_util::task::TaskTracker::new();
    let store =
        Store::open(&path, Options::default(), &tracker, tokio_util::sync::CancellationToken::new()).await.unwrap();
    let memory = Memory::open(store.clone(), Settings::default());
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let blind = Blind(Mutex::new(Dice(0x51ed_270b_9a3f_c4d5)));
    let mut windows = 0;
    for size in sizes {
        let begun = Instant::now();
        let before = windows;
        while windows < *size {
            let said: Vec<Utterance> = (0..128)
                .map(|i| Utterance {
                    speaker: if i % 2 == 0 { "user" } else { "assistant" }.to_owned(),
                    text: dice.sentence(24),
                    at_ms: 1_700_000_000_000 + windows as i64,
                    turn_no: i,
                })
                .collect();
            windows += memory.hear("", &format!("s{}", windows / 1024), &said).await.unwrap().windows;
            while store.memory_unindexed().await.unwrap().0 >= 128 {
                store.memory_index(128).await.unwrap();
            }
        }
        let write = begun.elapsed() / u32::try_from(windows - before).unwrap().max(1);
        memory.refresh().await.unwrap();
        let begun = Instant::now();
        let before_vectors = memory.mean(&blind, 256).await.unwrap().ready;
        let vectors = loop {
            let progress = memory.mean(&blind, 256).await.unwrap();
            if !progress.more {
                break progress.ready;
            }
        };
        let made = begun.elapsed() / u32::try_from(vectors - before_vectors).unwrap().max(1);
        let (mut took, mut at_hand, mut by_both) = (Vec::new(), Vec::new(), Vec::new());
        let nothing = |_: &metaclaw_memory::Recalled| false;
        for _ in 0..200 {
            let words = 3 + dice.below(8);
            let text = dice.sentence(words);
            let ask = || Ask { text: &text, now_ms: 1_800_000_000_000, ..Ask::default() };
            let begun = Instant::now();
            let found = Memory::open(store.clone(), Settings::default()).recall(&ask()).await.unwrap();
            took.push(begun.elapsed());
            std::hint::black_box(found);
            let meant = Meant { model: blind.name(), vector: blind.vector() };
            let both = Ask { meant: Some(&meant), known: Some(Known(&nothing)), ..ask() };
            let begun = Instant::now();
            let found = match memory.recall_now(&both) {
                Some(found) => found,
                None => memory.recall(&both).await.unwrap(),
            };
            by_both.push(begun.elapsed());
            std::hint::black_box(found);
            let begun = Instant::now();
            let found = memory.recall_now(&Ask { known: Some(Known(&nothing)), ..ask() });
            at_hand.extend(std::hint::black_box(found).map(|_| begun.elapsed()));
        }
        took.sort();
        at_hand.sort();
        by_both.sort();
        println!("{windows} windows: recall p50 {:?}, p95 {:?}; write {write:?} a window", took[100], took[190]);
        println!(
            "  by meaning too: p50 {:?}, p95 {:?}; write {made:?} a vector; {} MB resident",
            by_both[100],
            by_both[190],
            resident()
        );
        if let [.., _] = at_hand[..] {
            println!("  at hand: p50 {:?}, p95 {:?}", at_hand[100], at_hand[190]);
        }
    }
    store.close().await.unwrap();
}
