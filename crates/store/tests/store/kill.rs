//! `kill -9` at any moment: every turn whose append had returned is there afterwards, and the next start is clean.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Home, turn};
use bytes::Bytes;
use metaclaw_store::{NewTurn, Options, Store, TurnId};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const KILLS: usize = 60;

#[test]
fn no_acknowledged_turn_is_lost_when_the_process_is_killed() {
    let home = Home::new();
    let mut acknowledged = BTreeMap::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    for round in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().expect("has a name"))
            .args(["--exact", "kill::child_appends", "--ignored", "--nocapture"])
            .env("STORE_CHILD", home.db())
            .env("STORE_ROUND", round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        // From the first moments to some way in; where exactly the kill falls is up to the scheduler.
        let after = round * 37 % 150;
        let mut seen = Vec::new();
        while seen.len() < after {
            seen.extend(parse(&lines.next().expect("goes on").expect("is text")));
        }
        child.kill().expect("kills");
        child.wait().expect("ends");
        // What it had said before it died counts; the last line may be torn.
        seen.extend(lines.map_while(Result::ok).filter_map(|line| parse(&line)));
        acknowledged.extend(seen);
        runtime.block_on(check(&home, &acknowledged, round + 1 == KILLS));
    }
    assert!(acknowledged.len() > KILLS, "the children did not get to work");
}

fn parse(line: &str) -> Option<(i64, String)> {
    let (id, words) = line.strip_prefix("ack ")?.strip_suffix(" end")?.split_once(' ')?;
    Some((id.parse().ok()?, words.to_owned()))
}

async fn check(home: &Home, acknowledged: &BTreeMap<i64, String>, all: bool) {
    let store = home.open().await;
    let from = if all { 0 } else { acknowledged.len().saturating_sub(40) };
    for (id, words) in acknowledged.iter().skip(from) {
        let turn = store.turn(TurnId(*id)).await.expect("reads").unwrap_or_else(|| panic!("turn {id} is lost"));
        assert_eq!(turn.summary.user_text.as_ref(), Some(words));
        assert!(store.request_of(TurnId(*id)).await.expect("rebuilds").ends_with(words.as_bytes()));
    }
    store.close().await.expect("closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the test above in a process of its own, to be killed"]
async fn child_appends() {
    let (Ok(path), Ok(round)) = (std::env::var("STORE_CHILD"), std::env::var("STORE_ROUND")) else { return };
    let tracker = TaskTracker::new();
    let store =
        Store::open(Path::new(&path), Options::default(), &tracker, CancellationToken::new()).await.expect("opens");
    for appender in 0..4 {
        let (store, round) = (store.clone(), round.clone());
        tracker.spawn(async move {
            let session = format!("s{round}-{appender}");
            let mut body = "a conversation that grows. ".repeat(20);
            for n in 0..100_000 {
                let words = format!("{session}-{n}");
                body.push_str(&words);
                let new = NewTurn { user_text: Some(words.clone()), ..turn(&session, n, 1) };
                let id = store.append(new, Bytes::from(body.clone())).await.expect("appends");
                let mut out = std::io::stdout().lock();
                writeln!(out, "ack {id} {words} end").and_then(|()| out.flush()).expect("says so");
            }
        });
    }
    tracker.close();
    tracker.wait().await;
}
