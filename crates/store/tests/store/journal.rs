//! What the journal promises its callers: turns, sessions, states, blocks, events and leases come back as they were given.

use crate::common::{Home, turn};
use bytes::Bytes;
use metaclaw_store::{
    Addition, Block, EndReason, Error, Kind, NewEvent, NewTurn, Options, Outcome, Sampled, Scope, SessionFilter, Store,
    TurnFilter, TurnId, Usage,
};
use sqlx::{ConnectOptions, Connection};

fn full(session: &str) -> NewTurn {
    NewTurn {
        session: session.into(),
        agent: Some("openclaw".into()),
        kind: Kind::Main,
        turn_no: 3,
        step: 2,
        dialect: "anthropic-messages".into(),
        upstream_dialect: "openai-chat".into(),
        upstream: Some("kimi".into()),
        model_asked: Some("default".into()),
        model_sent: Some("kimi-k2".into()),
        started_ms: 1_000,
        first_byte_ms: Some(1_100),
        finished_ms: 1_200,
        status: Some(200),
        outcome: Outcome::Cut,
        error: Some("upstream reset".into()),
        stop: Some("max_tokens".into()),
        usage: Usage {
            input: Some(10),
            output: Some(20),
            cache_read: Some(3),
            cache_write: Some(4),
            reasoning: Some(5),
        },
        headers: vec![("user-agent".into(), "claw/1".into())],
        additions: vec![Addition {
            kind: "skill".into(),
            id: "git".into(),
            score: 1.5,
            why: "rebase".into(),
            tokens: 90,
            version: Some("00ff".into()),
            share: None,
        }],
        held_out: vec![Addition {
            kind: "skill".into(),
            id: "dates".into(),
            score: 0.5,
            why: "date".into(),
            tokens: 40,
            version: Some("ff00".into()),
            share: Some(0.25),
        }],
        block: Some(Block { message_hash: u128::MAX - 7, occurrence: 2, text: "<b>\n\u{1f980}\0</b>".into() }),
        answer_json: Some(r#"{"a":1}"#.into()),
        answer_text: Some("answer".into()),
        user_text: Some("  How do I\nrebase?  ".into()),
        prior_state: Some(1),
        state_hash: Some(u128::MAX),
        weight_version: Some(7),
        skill_generation: Some(9),
        sampled: Some(Sampled {
            prompt_ids: vec![1, 2, u32::MAX],
            ids: vec![5, 6],
            logprobs: vec![-0.25, f32::MIN_POSITIVE],
            sampling: Some(r#"{"temperature":1}"#.into()),
        }),
        scope: Scope { user_id: Some("u".into()), workspace_id: Some("w".into()), memory_scope: Some("m".into()) },
    }
}

#[tokio::test]
async fn a_turn_comes_back_as_it_was_given() {
    let home = Home::new();
    let store = home.open().await;
    let given = full("s");
    let body = Bytes::from_static(b"{\"messages\":[]}");
    let id = store.append(given.clone(), body.clone()).await.expect("appends");

    let got = store.turn(id).await.expect("reads").expect("is there");
    assert_eq!(got.summary.session, given.session);
    assert_eq!(got.summary.agent, given.agent);
    assert_eq!(got.summary.kind, given.kind);
    assert_eq!((got.summary.turn_no, got.summary.step), (3, 2));
    assert_eq!(got.summary.dialect, given.dialect);
    assert_eq!(got.summary.upstream_dialect, given.upstream_dialect);
    assert_eq!(got.summary.upstream, given.upstream);
    assert_eq!((got.summary.model_asked, got.summary.model_sent), (given.model_asked, given.model_sent));
    assert_eq!(
        (got.summary.started_ms, got.summary.first_byte_ms, got.summary.finished_ms),
        (1_000, Some(1_100), 1_200)
    );
    assert_eq!((got.summary.status, got.summary.outcome), (Some(200), Outcome::Cut));
    assert_eq!((got.summary.error, got.summary.stop), (given.error, given.stop));
    assert_eq!(got.summary.usage, given.usage);
    assert_eq!(got.summary.additions, given.additions);
    assert_eq!(got.summary.held_out, given.held_out);
    assert_eq!(got.summary.user_text, given.user_text);
    assert_eq!(got.summary.request_len, 15);
    assert_eq!((got.summary.weight_version, got.summary.skill_generation), (Some(7), Some(9)));
    assert_eq!(got.summary.scope, given.scope);
    assert_eq!((got.headers, got.block), (given.headers, given.block));
    assert_eq!((got.answer_text, got.answer_json), (given.answer_text, given.answer_json));
    assert_eq!((got.prior_state, got.state_hash), (given.prior_state, given.state_hash));
    assert_eq!(got.sampled, given.sampled);
    assert_eq!(store.request_of(id).await.expect("rebuilds"), body);

    let session = store.session("s").await.expect("reads").expect("is there");
    assert_eq!(session.title.as_deref(), Some("How do I rebase?"));
    assert_eq!((session.turns, session.requests, session.private), (3, 1, false));
    assert_eq!((session.started_ms, session.last_ms, session.ended_ms), (1_000, 1_200, None));
    store.close().await.expect("closes");
}

#[tokio::test]
async fn an_empty_turn_and_an_empty_body_are_fine() {
    let home = Home::new();
    let store = home.open().await;
    let id = home.append(&store, turn("s", 1, 1), b"").await;
    assert_eq!(store.request_of(id).await.expect("rebuilds"), Bytes::new());
    assert!(matches!(store.request_of(TurnId(99)).await, Err(Error::NoSuchTurn(99))));
    assert_eq!(store.turn(TurnId(99)).await.expect("reads"), None);
}

#[tokio::test]
async fn user_turns_are_counted_and_side_calls_are_not() {
    let home = Home::new();
    let store = home.open().await;
    for (turn_no, step) in [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)] {
        home.append(&store, NewTurn { turn_no, step, ..turn("s", 1, 1) }, b"{}").await;
    }
    let side = NewTurn {
        kind: Kind::Side("title".into()),
        turn_no: 9,
        user_text: Some("make a title".into()),
        ..turn("s", 1, 5)
    };
    home.append(&store, side, b"{}").await;
    let session = store.session("s").await.expect("reads").expect("is there");
    assert_eq!((session.turns, session.requests, session.title), (2, 6, None));
    let side = TurnFilter { kind: Some("title".into()), ..TurnFilter::default() };
    assert_eq!(store.turns(&side).await.expect("reads")[0].kind, Kind::Side("title".into()));
}

#[tokio::test]
async fn lists_filter_and_page() {
    let home = Home::new();
    let store = home.open().await;
    for n in 1..=9_i64 {
        let session = if n % 2 == 0 { "even" } else { "odd" };
        let outcome = if n == 5 { Outcome::Error } else { Outcome::Ok };
        let new = NewTurn { agent: Some(format!("a{}", n % 3)), outcome, ..turn(session, n as u32, n * 10) };
        home.append(&store, new, b"{}").await;
    }
    let ids = async |filter: TurnFilter| {
        store.turns(&filter).await.expect("reads").iter().map(|t| t.id.0).collect::<Vec<_>>()
    };
    let none = TurnFilter::default();
    assert_eq!(ids(none.clone()).await, [9, 8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(ids(TurnFilter { limit: 2, before: Some(TurnId(8)), ..none.clone() }).await, [7, 6]);
    assert_eq!(ids(TurnFilter { limit: 2, after: Some(TurnId(3)), ..none.clone() }).await, [4, 5]);
    assert_eq!(ids(TurnFilter { session: Some("even".into()), ..none.clone() }).await, [8, 6, 4, 2]);
    assert_eq!(ids(TurnFilter { session: Some("none".into()), ..none.clone() }).await, [0_i64; 0]);
    assert_eq!(ids(TurnFilter { agent: Some("a0".into()), ..none.clone() }).await, [9, 6, 3]);
    assert_eq!(ids(TurnFilter { outcome: Some(Outcome::Error), ..none.clone() }).await, [5]);
    assert_eq!(ids(TurnFilter { turn_no: Some(4), ..none.clone() }).await, [4]);
    assert_eq!(ids(TurnFilter { kind: Some("title".into()), ..none.clone() }).await, [0_i64; 0]);
    assert_eq!(ids(TurnFilter { since_ms: Some(30), until_ms: Some(60), ..none }).await, [5, 4, 3]);

    let sessions = async |filter: SessionFilter| {
        store.sessions(&filter).await.expect("reads").into_iter().map(|s| s.id).collect::<Vec<_>>()
    };
    assert_eq!(sessions(SessionFilter::default()).await, ["odd", "even"]);
    store.end_session("odd", EndReason::User, 100).await.expect("ends");
    assert_eq!(sessions(SessionFilter { open: Some(true), ..SessionFilter::default() }).await, ["even"]);
    assert_eq!(sessions(SessionFilter { open: Some(false), ..SessionFilter::default() }).await, ["odd"]);
    assert_eq!(sessions(SessionFilter { until_ms: Some(90), ..SessionFilter::default() }).await, ["even"]);
    assert_eq!(sessions(SessionFilter { since_ms: Some(90), limit: 5, ..SessionFilter::default() }).await, ["odd"]);
    assert_eq!(sessions(SessionFilter { agent: Some("a1".into()), ..SessionFilter::default() }).await, ["odd"]);
}

#[tokio::test]
async fn a_session_ends_once_and_a_main_turn_opens_it_again() {
    let home = Home::new();
    let store = home.open().await;
    home.append(&store, turn("s", 1, 100), b"{}").await;
    home.append(&store, turn("late", 1, 900), b"{}").await;
    assert!(store.end_session("s", EndReason::Explicit, 150).await.expect("ends"));
    assert!(!store.end_session("s", EndReason::Explicit, 160).await.expect("was ended"));
    assert!(!store.end_session("unknown", EndReason::Explicit, 160).await.expect("is unknown"));
    let ended = store.session("s").await.expect("reads").expect("is there");
    assert_eq!((ended.ended_ms, ended.end_reason), (Some(150), Some(EndReason::Explicit)));

    home.append(&store, NewTurn { kind: Kind::Side("title".into()), ..turn("s", 1, 200) }, b"{}").await;
    assert!(store.session("s").await.expect("reads").expect("is there").ended_ms.is_some());
    home.append(&store, turn("s", 2, 300), b"{}").await;
    let open = store.session("s").await.expect("reads").expect("is there");
    assert_eq!((open.ended_ms, open.end_reason), (None, None));

    assert_eq!(store.end_idle(500, 999, |id| id == "s").await.expect("ends"), Vec::<String>::new());
    assert_eq!(store.end_idle(500, 1_000, |_| false).await.expect("ends"), ["s"]);
    assert_eq!(store.end_idle(500, 1_001, |_| false).await.expect("ends"), Vec::<String>::new());
    let ended = store.session("s").await.expect("reads").expect("is there");
    assert_eq!((ended.ended_ms, ended.end_reason), (Some(1_000), Some(EndReason::Idle)));
}

#[tokio::test]
async fn a_session_is_private_before_its_first_turn_and_after() {
    let home = Home::new();
    let store = home.open().await;
    store.set_private("s", true, 5).await.expect("marks");
    home.append(&store, turn("s", 1, 10), b"{}").await;
    let session = store.session("s").await.expect("reads").expect("is there");
    assert_eq!((session.private, session.turns), (true, 1));
    store.set_private("s", false, 20).await.expect("takes the mark back");
    assert!(!store.session("s").await.expect("reads").expect("is there").private);
}

#[tokio::test]
async fn states_tell_what_was_continued_after_a_restart() {
    let home = Home::new();
    let store = home.open().await;
    let step = |session: &str, turn_no, prior, state| NewTurn {
        prior_state: prior,
        state_hash: Some(state),
        agent: Some("openclaw".into()),
        ..turn(session, turn_no, 10)
    };
    // Two sessions that began alike; only one went on.
    home.append(&store, step("a", 1, None, 11), b"{}").await;
    home.append(&store, step("b", 1, None, 11), b"{}").await;
    home.append(&store, step("a", 2, Some(11), 12), b"{}").await;
    store.close().await.expect("closes");

    let store = home.open().await;
    let found = store.session_by_state(11, "openclaw").await.expect("reads");
    let found: Vec<_> = found.iter().map(|m| (m.session.as_str(), m.turn.0, m.turn_no, m.continued)).collect();
    assert_eq!(found, [("b", 2, 1, false), ("a", 1, 1, true)]);
    assert_eq!(store.session_by_state(12, "openclaw").await.expect("reads")[0].turn_no, 2);
    assert!(store.session_by_state(13, "openclaw").await.expect("reads").is_empty());
    assert!(store.session_by_state(12, "another").await.expect("reads").is_empty());
    assert!(!store.session_by_state(12, "openclaw").await.expect("reads")[0].ended);
    store.end_session("a", EndReason::User, 99).await.expect("ends");
    assert!(store.session_by_state(12, "openclaw").await.expect("reads")[0].ended);
}

#[tokio::test]
async fn an_answer_is_found_by_its_id() {
    let home = Home::new();
    let store = home.open().await;
    let answered = |session: &str, agent: &str, id: &str| NewTurn {
        agent: Some(agent.into()),
        dialect: "openai-responses".into(),
        answer_json: Some(format!(r#"{{"id":"{id}","model":"m"}}"#)),
        ..turn(session, 1, 10)
    };
    home.append(&store, answered("a", "codex", "resp_1"), b"{}").await;
    home.append(&store, answered("b", "codex", "resp_2"), b"{}").await;
    home.append(&store, answered("c", "other", "resp_2"), b"{}").await;
    home.append(&store, NewTurn { answer_json: Some("no JSON".into()), ..answered("d", "codex", "") }, b"{}").await;
    home.append(&store, NewTurn { dialect: "openai-chat".into(), ..answered("e", "codex", "resp_2") }, b"{}").await;
    let found = store.session_by_answer("resp_2", "codex").await.expect("reads");
    assert_eq!(found.iter().map(|m| m.session.as_str()).collect::<Vec<_>>(), ["b"]);
    assert!(store.session_by_answer("resp_3", "codex").await.expect("reads").is_empty());
}

#[tokio::test]
async fn injected_blocks_are_there_after_a_restart_and_the_first_stays() {
    let home = Home::new();
    let store = home.open().await;
    let block = |message_hash, occurrence, text: &str| Block { message_hash, occurrence, text: text.into() };
    let given = [block(1, 0, "one"), block(1, 1, "two"), block(2, 0, ""), block(1, 0, "never")];
    for block in given.clone() {
        home.append(&store, NewTurn { block: Some(block), ..turn("s", 1, 1) }, b"{}").await;
        home.append(&store, turn("s", 1, 1), b"{}").await;
    }
    home.append(&store, NewTurn { block: Some(block(9, 0, "other")), ..turn("t", 1, 1) }, b"{}").await;
    store.close().await.expect("closes");
    let store = home.open().await;
    assert_eq!(store.injections("s").await.expect("reads"), given[..3]);
    assert_eq!(store.injections("none").await.expect("reads"), []);
}

#[tokio::test]
async fn a_deleted_session_is_gone_and_its_numbers_are_not_used_again() {
    let home = Home::new();
    let store = home.open().await;
    let text = "correct-horse-battery-staple";
    home.append(&store, turn("keep", 1, 1), b"{}").await;
    let gone =
        home.append(&store, NewTurn { user_text: Some(text.into()), ..turn("gone", 1, 1) }, text.as_bytes()).await;
    let event =
        NewEvent { at_ms: 1, kind: "k".into(), session: Some("gone".into()), json: format!("{{\"t\":\"{text}\"}}") };
    store.add_event(event).await.expect("adds");
    assert!(store.delete_session("gone").await.expect("deletes"));
    assert!(!store.delete_session("gone").await.expect("was deleted"));
    assert_eq!(store.turn(gone).await.expect("reads"), None);
    assert_eq!(store.events(0, None, 10).await.expect("reads"), []);
    store.close().await.expect("closes");
    assert!(!home.db().with_extension("db-wal").exists());
    let store = home.open().await;
    assert_eq!(home.append(&store, turn("new", 1, 1), b"{}").await, TurnId(gone.0 + 1));
}

#[tokio::test]
async fn what_was_deleted_is_in_no_file_while_the_store_runs() {
    let home = Home::new();
    let store = home.open().await;
    let text = "correct-horse-battery-staple";
    home.append(&store, turn("keep", 1, 1), b"{}").await;
    home.append(&store, NewTurn { user_text: Some(text.into()), ..turn("gone", 1, 1) }, text.as_bytes()).await;
    // By another process: closing a file that SQLite has open in this one would drop its locks.
    let found = || {
        ["db", "db-wal"].into_iter().any(|end| {
            let out =
                std::process::Command::new("grep").arg("-c").arg(text).arg(home.db().with_extension(end)).output();
            out.is_ok_and(|out| out.status.success())
        })
    };
    assert!(found());
    store.delete_session("gone").await.expect("deletes");
    assert!(!found());
}

#[tokio::test]
async fn sessions_over_their_time_go_a_few_at_a_time() {
    let home = Home::new();
    let store = home.open().await;
    for (name, at) in [("old", 10), ("older", 5), ("old-open", 10), ("private", 10), ("new", 100)] {
        home.append(&store, turn(name, 1, at), b"{}").await;
    }
    store.end_session("old", EndReason::Idle, 20).await.expect("ends");
    store.end_session("new", EndReason::Idle, 120).await.expect("ends");
    // That nothing may be learned of a session holds as long as it may go on.
    store.set_private("private", true, 10).await.expect("marks");
    let due = store.sessions_overdue(50).await.expect("counts");
    assert_eq!((due.sessions, due.turns), (3, 3));
    assert_eq!(store.delete_sessions_before(50, 2).await.expect("deletes").sessions, 2);
    assert_eq!(store.delete_sessions_before(50, 2).await.expect("deletes").sessions, 1);
    assert!(store.delete_sessions_before(50, 2).await.expect("deletes").is_nothing());
    let left = store.sessions(&SessionFilter::default()).await.expect("reads");
    let mut left: Vec<&str> = left.iter().map(|s| s.id.as_str()).collect();
    left.sort_unstable();
    assert_eq!(left, ["new", "private"]);
}

#[tokio::test]
async fn a_body_after_its_session_was_deleted_is_kept_whole() {
    let home = Home::new();
    let store = home.open().await;
    let (first, second) = ("x".repeat(500), "x".repeat(600));
    home.append(&store, turn("s", 1, 1), first.as_bytes()).await;
    store.delete_session("s").await.expect("deletes");
    let id = home.append(&store, turn("s", 2, 2), second.as_bytes()).await;
    assert_eq!(store.request_of(id).await.expect("rebuilds"), second);
}

#[tokio::test]
async fn who_reads_after_a_crash_sees_what_was_only_kept() {
    let home = Home::new();
    // The spool of a process that died before its writer came to it.
    let spool = home.db().with_extension("db-spool");
    let store = home.open().await;
    home.append(&store, turn("s", 1, 1), b"{}").await;
    let left = std::fs::read(&spool).expect("reads");
    store.close().await.expect("closes");
    let mut raw = sqlx::sqlite::SqliteConnectOptions::new().filename(home.db()).connect().await.expect("opens");
    sqlx::raw_sql("DELETE FROM sessions; UPDATE spool SET done = 0").execute(&mut raw).await.expect("takes back");
    raw.close().await.expect("closes");
    std::fs::write(&spool, left).expect("writes");
    let reader = Store::open_read_only(&home.db(), Options::default()).await.expect("opens");
    assert_eq!(reader.turns(&TurnFilter::default()).await.expect("reads").len(), 1);
    assert_eq!(std::fs::metadata(&spool).expect("is there").len(), 0, "nothing is left to do");
}

#[tokio::test]
async fn a_turn_that_is_kept_is_seen_by_the_next_reader() {
    let home = Home::new();
    let store = home.open().await;
    for n in 1..=50 {
        let kept = store.keep(turn("s", n, 1), Bytes::from(vec![b'{'; 3000])).await.expect("keeps");
        let turns = store.turns(&TurnFilter { limit: 100, ..TurnFilter::default() }).await.expect("reads");
        assert_eq!(turns.len(), n as usize);
        assert_eq!(kept.await.expect("commits"), turns[0].id);
    }
}

#[tokio::test]
async fn a_long_session_is_rebuilt_exactly_and_stored_small() {
    let home = Home::new();
    let store = home.open().await;
    let mut bodies = Vec::new();
    let mut body = String::from("[");
    for n in 0..100 {
        body.push_str(&format!("{{\"role\":\"user\",\"content\":\"message {n} {}\"}},", "word ".repeat(60)));
        let bytes = Bytes::from(format!("{{\"messages\":{body}{{}}],\"stream\":true}}"));
        let id = home.append(&store, turn("s", n + 1, 1), &bytes).await;
        // A side call in between has its own chain.
        home.append(&store, NewTurn { kind: Kind::Side("title".into()), ..turn("s", n + 1, 1) }, b"{\"title\":1}")
            .await;
        bodies.push((id, bytes));
    }
    let total: usize = bodies.iter().map(|(_, b)| b.len()).sum();
    for (id, bytes) in &bodies {
        assert_eq!(store.request_of(*id).await.expect("rebuilds"), *bytes);
    }
    store.close().await.expect("closes");
    let size = std::fs::metadata(home.db()).expect("is there").len();
    assert!((size as usize) < total / 4, "{size} bytes on disk for {total} bytes of requests");
    let store = home.open().await;
    for (id, bytes) in bodies.iter().step_by(31) {
        assert_eq!(store.request_of(*id).await.expect("rebuilds"), *bytes);
    }
}

#[tokio::test]
async fn concurrent_turns_all_get_their_own_number() {
    let home = Home::new();
    let store = home.open().await;
    let tracker = tokio_util::task::TaskTracker::new();
    let jobs: Vec<_> = (0..200)
        .map(|n| {
            let store = store.clone();
            tracker.spawn(async move {
                let text = format!("words of {n}");
                let new = NewTurn { user_text: Some(text.clone()), ..turn(&format!("s{}", n % 7), n, 1) };
                (store.append(new, Bytes::from(text.clone())).await.expect("appends"), text)
            })
        })
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    for job in jobs {
        let (id, text) = job.await.expect("runs");
        assert!(seen.insert(id));
        assert_eq!(store.request_of(id).await.expect("rebuilds"), text);
        assert_eq!(store.turn(id).await.expect("reads").expect("is there").summary.user_text, Some(text));
    }
    assert_eq!(seen.last(), Some(&TurnId(200)));
}

#[tokio::test]
async fn two_stores_on_one_file_do_not_lose_or_mix_turns() {
    let home = Home::new();
    let (one, two) = (home.open().await, home.open().await);
    for n in 0..20 {
        let (a, b) = tokio::join!(home.append(&one, turn("a", n, 1), b"aa"), home.append(&two, turn("b", n, 1), b"bb"));
        assert_ne!(a, b);
        assert_eq!(one.turn(a).await.expect("reads").expect("is there").summary.session, "a");
        assert_eq!(one.turn(b).await.expect("reads").expect("is there").summary.session, "b");
    }
    assert_eq!(two.turns(&TurnFilter { limit: 100, ..TurnFilter::default() }).await.expect("reads").len(), 40);
}

#[tokio::test]
async fn events_are_followed_by_number() {
    let home = Home::new();
    let store = home.open().await;
    for n in 0..5 {
        let kind = if n % 2 == 0 { "even" } else { "odd" };
        store
            .add_event(NewEvent { at_ms: n, kind: kind.into(), session: None, json: "{}".into() })
            .await
            .expect("adds");
    }
    let after = store.events(2, None, 2).await.expect("reads");
    assert_eq!(after.iter().map(|e| e.id).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(store.events(0, Some("odd"), 9).await.expect("reads").len(), 2);
}

#[tokio::test]
async fn a_lease_has_one_holder_until_it_runs_out() {
    let home = Home::new();
    let store = home.open().await;
    let a = store.take_lease("judge", "7", "a", 0, 100).await.expect("asks").expect("takes");
    assert_eq!(store.take_lease("judge", "7", "b", 50, 150).await.expect("asks"), None);
    assert!(store.take_lease("judge", "8", "b", 50, 150).await.expect("asks").is_some());
    let a = store.renew_lease(&a, 200).await.expect("asks").expect("renews");
    assert_eq!(store.take_lease("judge", "7", "b", 150, 250).await.expect("asks"), None);
    // `a` is late: `b` has it, and `a` can neither prolong it nor give it away.
    let b = store.take_lease("judge", "7", "b", 200, 300).await.expect("asks").expect("takes");
    assert!(b.fence > a.fence);
    assert_eq!(store.renew_lease(&a, 400).await.expect("asks"), None);
    assert!(!store.release_lease(&a).await.expect("asks"));
    assert!(store.release_lease(&b).await.expect("asks"));
    assert!(!store.release_lease(&b).await.expect("asks"));
    let c = store.take_lease("judge", "7", "c", 201, 300).await.expect("asks").expect("takes");
    assert!(c.fence > b.fence);
}

#[tokio::test]
async fn what_was_handed_in_is_written_before_the_store_ends() {
    let home = Home::new();
    let cancel = tokio_util::sync::CancellationToken::new();
    let tracker = tokio_util::task::TaskTracker::new();
    let store = Store::open(&home.db(), Options::default(), &tracker, cancel.clone()).await.expect("opens");
    let jobs = tokio_util::task::TaskTracker::new();
    let jobs: Vec<_> = (0..100)
        .map(|n| {
            let store = store.clone();
            jobs.spawn(async move { store.append(turn("s", n, 1), Bytes::new()).await })
        })
        .collect();
    tokio::task::yield_now().await;
    cancel.cancel();
    let mut written = 0;
    for job in jobs {
        match job.await.expect("runs") {
            Ok(_) => written += 1,
            Err(error) => assert!(matches!(error, Error::Closed), "{error}"),
        }
    }
    tracker.close();
    tracker.wait().await;
    assert!(matches!(store.flush().await, Err(Error::Closed)));
    let store = home.open().await;
    let found = store.turns(&TurnFilter { limit: 1_000, ..TurnFilter::default() }).await.expect("reads");
    assert_eq!(found.len(), written);
}

#[tokio::test]
async fn a_reader_sees_what_the_service_writes_and_cannot_write_itself() {
    let home = Home::new();
    let store = home.open().await;
    let reader = Store::open_read_only(&home.db(), Options::default()).await.expect("opens");
    let id = home.append(&store, turn("s", 1, 1), b"{}").await;
    assert!(reader.turn(id).await.expect("reads").is_some());
    assert!(matches!(reader.append(turn("s", 2, 1), Bytes::new()).await, Err(Error::ReadOnly { .. })));
    reader.close().await.expect("closes");
    home.append(&store, turn("s", 2, 1), b"{}").await;
    store.close().await.expect("closes");
}
