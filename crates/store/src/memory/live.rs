//! What a copy of memory beside the database is kept current with: the windows that came after the last one seen, and
//! whether another process has written meanwhile.

use std::collections::HashSet;

use sqlx::Row as _;

use super::search::window;
use super::{Window, memory_count};
use crate::store::Shared;
use crate::writer::{Job, Op};
use crate::{Error, Result, Store, TurnId};

/// Windows that came after one that is known.
#[derive(Debug, Clone, Default)]
pub struct NewWindows {
    /// Up to which row the journal had been read then.
    pub cursor: TurnId,
    /// With the scope of each, oldest first.
    pub windows: Vec<(String, Window)>,
    /// There are more than were asked for; then none are given.
    pub too_many: bool,
}

impl Store {
    /// Windows with a number above `after`, facts included, as of one moment; none if they are more than `most`.
    pub async fn memory_after(&self, after: i64, most: u32) -> Result<NewWindows> {
        let read = async {
            let mut tx = self.shared.readers.begin().await?;
            let cursor: i64 = sqlx::query_scalar("SELECT turn FROM memory_cursor").fetch_one(&mut *tx).await?;
            let mut new = NewWindows { cursor: TurnId(cursor), ..NewWindows::default() };
            let count = "SELECT count(*) FROM (SELECT 1 FROM memory_windows WHERE id > ? LIMIT ?)";
            let count: i64 =
                sqlx::query_scalar(count).bind(after).bind(i64::from(most) + 1).fetch_one(&mut *tx).await?;
            if count > i64::from(most) {
                new.too_many = true;
            } else if count > 0 {
                let rows = sqlx::query(
                    "SELECT w.id, w.fact, w.session, w.turn, w.turn_no, w.part, w.speaker, w.at, w.quarantined, w.text,
                            w.terms, NULL AS outdated, s.id AS scope_id
                     FROM memory_windows w JOIN memory_scopes s ON s.key = w.scope WHERE w.id > ? ORDER BY w.id",
                );
                for row in rows.bind(after).fetch_all(&mut *tx).await? {
                    new.windows.push((row.try_get("scope_id")?, window(&row)?));
                }
            }
            tx.commit().await?;
            Ok(new)
        };
        read.await.map_err(|e: sqlx::Error| self.shared.sqlx(&e))
    }

    /// Scopes and hashes of what was forgotten and is not to be learned again.
    pub async fn memory_buried(&self) -> Result<HashSet<(String, i64)>> {
        let buried =
            sqlx::query_as("SELECT s.id, t.hash FROM memory_tombstones t JOIN memory_scopes s ON s.key = t.scope");
        let buried: Vec<(String, i64)> =
            buried.fetch_all(&self.shared.readers).await.map_err(|e| self.shared.sqlx(&e))?;
        Ok(buried.into_iter().collect())
    }

    /// Grows whenever something is deleted through this handle.
    pub fn deletions(&self) -> u64 {
        self.shared.deletions.load(std::sync::atomic::Ordering::Acquire)
    }

    /// A number that changes when, and only when, another connection than the writer's has changed the database.
    pub async fn foreign_changes(&self) -> Result<i64> {
        let (tx, rx) = tokio::sync::oneshot::channel();
        let job: Job = Box::new(move |conn, shared: &Shared| {
            Box::pin(async move {
                let version = sqlx::query_scalar("PRAGMA data_version").fetch_one(conn).await;
                tx.send(version.map_err(|e| shared.sqlx(&e))).ok();
            })
        });
        self.send(Op::Job(job)).await?;
        rx.await.map_err(|_| Error::Closed)?
    }

    /// How much memory holds, in the scope or in all.
    pub async fn memory_figures(&self, scope: Option<&str>) -> Result<MemoryFigures> {
        let read = async {
            let facts = sqlx::query(
                "SELECT f.kind, f.status, count(*) AS n, sum(f.pinned) AS pinned FROM memory_facts f
                 JOIN memory_scopes s ON s.key = f.scope WHERE ?1 IS NULL OR s.id = ?1 GROUP BY f.kind, f.status",
            );
            let mut figures = MemoryFigures::default();
            for row in facts.bind(scope).fetch_all(&self.shared.readers).await? {
                let n = row.try_get::<i64, _>("n")?.cast_unsigned();
                let status: String = row.try_get("status")?;
                figures.pinned += row.try_get::<i64, _>("pinned")?.cast_unsigned();
                *figures.by_status.entry(status.clone()).or_default() += n;
                if status == "active" {
                    *figures.active_by_kind.entry(row.try_get("kind")?).or_default() += n;
                }
            }
            (figures.windows, figures.quarantined_windows, figures.sessions, figures.first_ms, figures.last_ms) =
                memory_count(&self.shared.readers, scope).await?;
            let tombs = "SELECT count(*) FROM memory_tombstones t JOIN memory_scopes s ON s.key = t.scope WHERE ?1 IS NULL OR s.id = ?1";
            let tombs: i64 = sqlx::query_scalar(tombs).bind(scope).fetch_one(&self.shared.readers).await?;
            figures.tombstones = tombs.cast_unsigned();
            let unread = "SELECT count(*) FROM turns WHERE id > (SELECT turn FROM memory_cursor) AND kind = 'main'";
            let unread: i64 = sqlx::query_scalar(unread).fetch_one(&self.shared.readers).await?;
            figures.unread = unread.cast_unsigned();
            Ok(figures)
        };
        read.await.map_err(|e: sqlx::Error| self.shared.sqlx(&e))
    }
}

/// How much memory holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryFigures {
    /// Facts by status.
    pub by_status: std::collections::BTreeMap<String, u64>,
    /// Active facts by type.
    pub active_by_kind: std::collections::BTreeMap<String, u64>,
    /// Pinned facts.
    pub pinned: u64,
    /// Passages.
    pub windows: u64,
    /// Passages that are not recalled.
    pub quarantined_windows: u64,
    /// Sessions they come from.
    pub sessions: u64,
    /// When the oldest passage was said, ms since 1970.
    pub first_ms: Option<i64>,
    /// When the newest was said, ms since 1970.
    pub last_ms: Option<i64>,
    /// Things that were forgotten and will not be learned again.
    pub tombstones: u64,
    /// Rows of main conversations that are not read yet, in all scopes.
    pub unread: u64,
}
