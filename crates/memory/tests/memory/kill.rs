//! `kill -9` while the journal is read into memory: nothing that was answered is missing afterwards, nothing is there twice.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use metaclaw_memory::{Memory, Settings};
use store::{Options, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::common::{Home, NOW};

const KILLS: usize = 8;

#[tokio::test]
async fn every_answered_turn_is_remembered_once_whenever_the_process_is_killed() {
    let mut home = Home::new().await;
    let mut acknowledged = Vec::new();
    for round in 0..KILLS {
        home.store.close().await.expect("closes");
        let mut child = Command::new(std::env::current_exe().expect("has a name"))
            .args(["--exact", "kill::child_talks", "--ignored", "--nocapture"])
            .env("MEMORY_CHILD", home.dir.path().join("metaclaw.db"))
            .env("MEMORY_ROUND", round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        let mut seen: Vec<String> = Vec::new();
        while seen.len() < 3 + round * 29 % 70 {
            seen.extend(word_of(&lines.next().expect("goes on").expect("is text")));
        }
        child.kill().expect("kills");
        child.wait().expect("ends");
        seen.extend(lines.map_while(Result::ok).filter_map(|line| word_of(&line)));
        acknowledged.extend(seen);
        home = home.again().await;
        home.work().await;
    }
    for session in 0..KILLS {
        let session = format!("s{session}");
        let windows = home.store.memory_windows_of(&session).await.expect("lists").len();
        let filter = store::TurnFilter { session: Some(session), limit: 10_000, ..store::TurnFilter::default() };
        let turns = home.store.turns(&filter).await.expect("lists").len();
        assert_eq!(windows, 2 * turns, "one for what was asked, one for the answer");
    }
    for word in acknowledged.iter().step_by(7) {
        let found = home.ask(word).await;
        assert!(found.iter().any(|m| m.content.contains(word)), "{word} is not remembered");
    }
}

fn word_of(line: &str) -> Option<String> {
    Some(line.strip_prefix("ack ")?.strip_suffix(" end")?.to_owned())
}

#[tokio::test]
#[ignore = "the process that is killed"]
async fn child_talks() {
    let Ok(path) = std::env::var("MEMORY_CHILD") else { return };
    let round = std::env::var("MEMORY_ROUND").unwrap_or_default();
    let tracker = TaskTracker::new();
    let store =
        Store::open(path.as_ref(), Options::default(), &tracker, CancellationToken::new()).await.expect("opens");
    let memory = Memory::open(store.clone(), Settings::default());
    for turn in 1u32.. {
        // A word of its own for every turn, in letters.
        let word: String = format!("{round}x{turn}")
            .bytes()
            .map(|b| char::from(if b == b'x' { b'x' } else { b'a' + (b - b'0') }))
            .collect();
        let word = format!("zq{word}qz");
        let new = store::NewTurn {
            session: format!("s{round}"),
            turn_no: turn,
            started_ms: NOW,
            finished_ms: NOW,
            user_text: Some(format!("The parcel {word} lies in the shed.")),
            answer_text: Some("Noted, thank you.".to_owned()),
            ..store::NewTurn::default()
        };
        store.append(new, bytes::Bytes::from_static(b"{}")).await.expect("appends");
        writeln!(std::io::stdout(), "ack {word} end").expect("writes");
        memory.absorb(3).await.expect("absorbs");
        store.memory_index(5).await.expect("indexes");
    }
}
