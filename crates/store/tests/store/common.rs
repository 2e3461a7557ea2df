//! A folder with a database in it, and turns to put there.

use std::path::PathBuf;

use bytes::Bytes;
use metaclaw_store::{NewTurn, Options, Store, TurnId};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("makes a folder"))
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.0.path().join("metaclaw.db")
    }

    pub(crate) async fn open(&self) -> Store {
        self.open_with(Options::default()).await
    }

    pub(crate) async fn open_with(&self, options: Options) -> Store {
        Store::open(&self.db(), options, &TaskTracker::new(), CancellationToken::new()).await.expect("opens")
    }

    pub(crate) async fn append(&self, store: &Store, turn: NewTurn, body: &[u8]) -> TurnId {
        store.append(turn, Bytes::copy_from_slice(body)).await.expect("appends")
    }
}

pub(crate) fn turn(session: &str, turn_no: u32, at: i64) -> NewTurn {
    NewTurn {
        session: session.to_owned(),
        turn_no,
        dialect: "openai-chat".into(),
        upstream_dialect: "openai-chat".into(),
        started_ms: at,
        finished_ms: at,
        ..NewTurn::default()
    }
}
