//! A journal in a folder, with memory over it.

use bytes::Bytes;
use metaclaw_memory::{Ask, Memory, Recalled, Settings};
use store::{NewTurn, Options, Store, TurnId};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Monday, 30 November 2026, noon.
pub(crate) const NOW: i64 = 1_796_040_000_000;
pub(crate) const DAY: i64 = 86_400_000;

pub(crate) struct Home {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) memory: Memory,
}

impl Home {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().expect("makes a folder");
        let store = open(&dir).await;
        let memory = Memory::open(store.clone(), Settings::default());
        Self { dir, store, memory }
    }

    /// The same files, as the next start finds them.
    pub(crate) async fn again(self) -> Self {
        self.store.close().await.expect("closes");
        let store = open(&self.dir).await;
        let memory = Memory::open(store.clone(), Settings::default());
        Self { dir: self.dir, store, memory }
    }

    pub(crate) async fn turn(&self, session: &str, turn_no: u32, at: i64, user: &str, answer: &str) -> TurnId {
        self.append(NewTurn {
            session: session.to_owned(),
            turn_no,
            started_ms: at,
            finished_ms: at + 1,
            stop: Some("end_turn".to_owned()),
            user_text: Some(user.to_owned()),
            answer_text: Some(answer.to_owned()),
            ..NewTurn::default()
        })
        .await
    }

    pub(crate) async fn append(&self, turn: NewTurn) -> TurnId {
        let body = format!("{{\"messages\":[{:?},{:?}]}}", turn.user_text, turn.answer_text);
        self.store.append(turn, Bytes::from(body)).await.expect("appends")
    }

    pub(crate) async fn work(&self) {
        while self.memory.work().await.expect("works") {}
        self.memory.flush_all().await.expect("listens");
    }

    /// What is recalled, from the copy beside the database and from the database itself, which must agree.
    pub(crate) async fn ask(&self, text: &str) -> Vec<Recalled> {
        let ask = Ask { text, now_ms: NOW, ..Ask::default() };
        let found = self.memory.recall(&ask).await.expect("recalls");
        let stored =
            Memory::open(self.store.clone(), self.memory.settings().clone()).recall(&ask).await.expect("recalls");
        let lines = |found: &[Recalled]| found.iter().map(|m| (m.id.clone(), m.line.clone())).collect::<Vec<_>>();
        assert_eq!(lines(&found), lines(&stored), "{text}");
        found
    }
}

async fn open(dir: &tempfile::TempDir) -> Store {
    let path = dir.path().join("metaclaw.db");
    Store::open(&path, Options::default(), &TaskTracker::new(), CancellationToken::new()).await.expect("opens")
}
