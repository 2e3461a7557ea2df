//! `kill -9` at any moment: every turn that was kept or appended is there afterwards, whole and once, and the next start is
//! clean.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Home, turn};
use bytes::Bytes;
use metaclaw_store::{NewTurn, Options, Store, TurnFilter, TurnId};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const KILLS: usize = 60;
const APPENDERS: usize = 4;

#[test]
fn no_acknowledged_turn_is_lost_when_the_process_is_killed() {
    let home = Home::new();
    let mut acknowledged = BTreeSet::new();
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
        let rounds = if round + 1 == KILLS { 0..KILLS } else { round..round + 1 };
        runtime.block_on(check(&home, &acknowledged, rounds));
    }
    assert!(acknowledged.len() > KILLS, "the children did not get to work");
}

fn parse(line: &str) -> Option<String> {
    Some(line.strip_prefix("ack ")?.strip_suffix(" end")?.to_owned())
}

async fn check(home: &Home, acknowledged: &BTreeSet<String>, rounds: std::ops::Range<usize>) {
    let store = home.open().await;
    for session in rounds.flat_map(|round| (0..APPENDERS).map(move |appender| format!("s{round}-{appender}"))) {
        let mut found = BTreeMap::new();
        let mut after = TurnId(0);
        loop {
            let session = Some(session.clone());
            let filter = TurnFilter { session, after: Some(after), limit: 500, ..TurnFilter::default() };
            let turns = store.turns(&filter).await.expect("reads");
            let Some(last) = turns.last() else { break };
            after = last.id;
            for turn in turns {
                let words = turn.user_text.expect("has words");
                assert!(found.insert(words.clone(), turn.id).is_none(), "{words} is there twice");
            }
        }
        let prefix = format!("{session}-");
        for words in acknowledged.range(prefix.clone()..).take_while(|words| words.starts_with(&prefix)) {
            let id = found.get(words).unwrap_or_else(|| panic!("{words} is lost"));
            assert!(store.request_of(*id).await.expect("rebuilds").ends_with(words.as_bytes()));
        }
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
    for appender in 0..APPENDERS {
        let (store, round) = (store.clone(), round.clone());
        tracker.spawn(async move {
            let session = format!("s{round}-{appender}");
            let mut body = "a conversation that grows. ".repeat(20);
            for n in 0..100_000 {
                let words = format!("{session}-{n}");
                body.push_str(&words);
                let new = NewTurn { user_text: Some(words.clone()), ..turn(&session, n, 1) };
                let body = Bytes::from(body.clone());
                match n % 8 {
                    0 => drop(store.append(new, body).await.expect("appends")),
                    _ => drop(store.keep(new, body).await.expect("keeps")),
                }
                let mut out = std::io::stdout().lock();
                writeln!(out, "ack {words} end").and_then(|()| out.flush()).expect("says so");
            }
        });
    }
    tracker.close();
    tracker.wait().await;
}
