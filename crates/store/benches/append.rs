//! Journal speed: appends per second with 16 appenders, the time of a single append, memory after 100,000 turns.
//! Plain harness: medians over rounds, because the machine is shared. `cargo bench -p metaclaw-store`.
#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark prints its table, and stops where it cannot run"
)]

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use metaclaw_store::{Addition, Block, NewTurn, Options, Store, Usage};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const SYSTEM_BYTES: usize = 2_000;
const MESSAGE_BYTES: usize = 400;
const TURNS_PER_SESSION: usize = 10;

/// A conversation whose requests grow by one exchange each.
struct Conversation {
    session: String,
    body: String,
    turn: u32,
}

impl Conversation {
    fn new(name: &str) -> Self {
        let system = words(name.len(), SYSTEM_BYTES);
        let body = format!(r#"{{"model":"m","stream":true,"messages":[{{"role":"system","content":"{system}"}}]}}"#);
        Self { session: name.to_owned(), body, turn: 0 }
    }

    fn next(&mut self, at: i64) -> (NewTurn, Bytes) {
        self.turn += 1;
        let said = words(self.turn as usize * 31, MESSAGE_BYTES);
        self.body.truncate(self.body.len() - 2);
        let answered = words(self.turn as usize * 17, MESSAGE_BYTES);
        if self.turn > 1 {
            self.body.push_str(&format!(r#",{{"role":"assistant","content":"{answered}"}}"#));
        }
        self.body.push_str(&format!(r#",{{"role":"user","content":"{said}"}}]}}"#));
        let state = (u128::from(xxhash_rust::xxh3::xxh3_64(self.session.as_bytes())) << 64) | u128::from(self.turn);
        let turn = NewTurn {
            session: self.session.clone(),
            agent: Some("bench".into()),
            turn_no: self.turn,
            dialect: "openai-chat".into(),
            upstream_dialect: "openai-chat".into(),
            upstream: Some("bench".into()),
            model_asked: Some("m".into()),
            model_sent: Some("m".into()),
            started_ms: at,
            first_byte_ms: Some(at),
            finished_ms: at,
            status: Some(200),
            stop: Some("end_turn".into()),
            usage: Usage { input: Some(1000), output: Some(100), ..Usage::default() },
            headers: vec![("user-agent".into(), "bench/1".into())],
            additions: vec![Addition {
                kind: "skill".into(),
                id: "s".into(),
                score: 3.0,
                why: "words".into(),
                tokens: 200,
                version: None,
                share: None,
            }],
            block: Some(Block { message_hash: state ^ 7, occurrence: 0, text: words(5, 800) }),
            answer_json: Some(format!(r#"{{"blocks":[{{"type":"text","text":"{answered}"}}]}}"#)),
            answer_text: Some(answered),
            user_text: Some(said),
            prior_state: (self.turn > 1).then(|| state - 1),
            state_hash: Some(state),
            skill_generation: Some(1),
            ..NewTurn::default()
        };
        (turn, Bytes::from(self.body.clone()))
    }
}

fn words(seed: usize, bytes: usize) -> String {
    const WORDS: [&str; 16] = [
        "river", "stone", "cloud", "mend", "paper", "quick", "amber", "north", "lamp", "field", "glass", "tide",
        "root", "wheel", "song", "fern",
    ];
    let mut text = String::with_capacity(bytes + 8);
    let mut n = seed.wrapping_mul(2_654_435_761) | 1;
    while text.len() < bytes {
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(WORDS[n >> 60 & 15]);
        text.push(' ');
    }
    text
}

async fn open(path: &Path) -> Store {
    Store::open(path, Options::default(), &TaskTracker::new(), CancellationToken::new()).await.expect("opens")
}

async fn single(store: &Store, count: usize, round: usize) -> Vec<Duration> {
    let mut times = Vec::with_capacity(count);
    let mut talk = Conversation::new("");
    for n in 0..count {
        if n % TURNS_PER_SESSION == 0 {
            talk = Conversation::new(&format!("single-{round}-{n}"));
        }
        let (turn, body) = talk.next(n as i64);
        let start = Instant::now();
        store.append(turn, body).await.expect("appends");
        times.push(start.elapsed());
    }
    times.sort();
    times
}

async fn crowd(store: &Store, appenders: usize, each: usize, round: usize) -> f64 {
    let tracker = TaskTracker::new();
    let start = Instant::now();
    for appender in 0..appenders {
        let store = store.clone();
        tracker.spawn(async move {
            let mut talk = Conversation::new("");
            for n in 0..each {
                if n % TURNS_PER_SESSION == 0 {
                    talk = Conversation::new(&format!("crowd-{round}-{appender}-{n}"));
                }
                let (turn, body) = talk.next(n as i64);
                store.append(turn, body).await.expect("appends");
            }
        });
    }
    tracker.close();
    tracker.wait().await;
    (appenders * each) as f64 / start.elapsed().as_secs_f64()
}

fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or("VmRSS: 0 kB");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

fn main() {
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    runtime.block_on(async {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("metaclaw.db");
        let store = open(&path).await;
        let (mut p50, mut p99, mut rate) = (Vec::new(), Vec::new(), Vec::new());
        let mut memory = Vec::new();
        for round in 0..7 {
            let (store_, times) = (store.clone(), TaskTracker::new());
            let times = times.spawn(async move { single(&store_, 1_000, round).await }).await.expect("runs");
            p50.push(times[times.len() / 2].as_secs_f64() * 1e6);
            p99.push(times[times.len() * 99 / 100].as_secs_f64() * 1e6);
            rate.push(crowd(&store, 16, 1_000, round).await);
            memory.push(resident_mb());
            println!(
                "round {round}: p50 {:.0} µs, p99 {:.0} µs, {:.0}/s, {:.1} MB",
                p50[round], p99[round], rate[round], memory[round]
            );
        }
        store.close().await.expect("closes");
        let size = std::fs::metadata(&path).map_or(0, |m| m.len()) as f64;
        for list in [&mut p50, &mut p99, &mut rate] {
            list.sort_by(f64::total_cmp);
        }
        println!("| single append p50 | {:.0} µs |", p50[3]);
        println!("| single append p99 | {:.0} µs |", p99[3]);
        println!("| appends/s, 16 appenders | {:.0} |", rate[3]);
        println!("| resident after 17,000 / 119,000 turns | {:.1} / {:.1} MB |", memory[0], memory[6]);
        println!("| bytes on disk per turn | {:.0} |", size / 119_000.0);
    });
}
