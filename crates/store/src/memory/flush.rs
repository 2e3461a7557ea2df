//! Passages that facts are still to be taken from, and the transaction in which that happens.

use sqlx::Row as _;

use super::search::window;
use super::{NewFact, Window, facts, json_list};
use crate::{Result, Store};

/// A session with words that facts were not taken from yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unheard {
    /// Session id.
    pub session: String,
    /// User turns of it that wait.
    pub turns: u64,
    /// It has ended, or nothing came for long.
    pub ended: bool,
}

impl Store {
    /// Sessions with words that facts were not taken from yet; those outside the journal count as ended when nothing was
    /// said since `idle_ms`.
    pub async fn memory_unheard(&self, idle_ms: i64) -> Result<Vec<Unheard>> {
        let rows = sqlx::query(
            "SELECT w.session, count(DISTINCT w.turn_no) AS turns,
                    CASE WHEN s.key IS NULL THEN max(w.at) < ?1 ELSE s.ended IS NOT NULL END AS ended
             FROM memory_windows w LEFT JOIN sessions s ON s.id = w.session
             WHERE w.heard = 0 AND w.fact IS NULL AND w.speaker = 'user' GROUP BY w.session",
        );
        let unheard = |row: &sqlx::sqlite::SqliteRow| {
            Ok(Unheard {
                session: row.try_get("session")?,
                turns: row.try_get::<i64, _>("turns")?.cast_unsigned(),
                ended: row.try_get("ended")?,
            })
        };
        let rows = rows.bind(idle_ms).fetch_all(&self.shared.readers).await;
        rows.and_then(|rows| rows.iter().map(unheard).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// The user's passages of a session that facts were not taken from yet, with their scopes, oldest first.
    pub async fn memory_unheard_of(&self, session: &str, limit: u32) -> Result<Vec<(String, Window)>> {
        let rows = sqlx::query(
            "SELECT w.id, w.fact, w.session, w.turn, w.turn_no, w.part, w.speaker, w.at, w.quarantined, w.text, w.terms,
                    NULL AS outdated, s.id AS scope_id
             FROM memory_windows w JOIN memory_scopes s ON s.key = w.scope
             WHERE w.session = ? AND w.heard = 0 AND w.fact IS NULL AND w.speaker = 'user' ORDER BY w.id LIMIT ?",
        );
        let rows = rows.bind(session).bind(limit).fetch_all(&self.shared.readers).await;
        let of = |row: &sqlx::sqlite::SqliteRow| Ok((row.try_get("scope_id")?, window(row)?));
        rows.and_then(|rows| rows.iter().map(of).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Everything that was said in a session, with its scopes, oldest first; nothing of a private one.
    pub async fn memory_said(&self, session: &str) -> Result<Vec<(String, Window)>> {
        let rows = sqlx::query(
            "SELECT w.id, w.fact, w.session, w.turn, w.turn_no, w.part, w.speaker, w.at, w.quarantined, w.text, w.terms,
                    NULL AS outdated, s.id AS scope_id
             FROM memory_windows w JOIN memory_scopes s ON s.key = w.scope
             WHERE w.session = ? AND w.fact IS NULL
               AND NOT EXISTS (SELECT 1 FROM sessions p WHERE p.id = w.session AND p.private = 1) ORDER BY w.id",
        );
        let rows = rows.bind(session).fetch_all(&self.shared.readers).await;
        let of = |row: &sqlx::sqlite::SqliteRow| Ok((row.try_get("scope_id")?, window(row)?));
        rows.and_then(|rows| rows.iter().map(of).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Writes down what was taken from these passages: how many facts were new. `None`: another process has heard one of
    /// them meanwhile, or it is gone, and nothing was written.
    pub async fn memory_learn(&self, windows: &[i64], new: Vec<NewFact>) -> Result<Option<usize>> {
        let (ids, all) = (json_list(windows.iter().copied()), windows.len() as u64);
        self.write(move |conn, _| {
            Box::pin(async move {
                let unheard =
                    "SELECT count(*) FROM memory_windows WHERE heard = 0 AND id IN (SELECT value FROM json_each(?))";
                let unheard: i64 = sqlx::query_scalar(unheard).bind(ids.as_str()).fetch_one(&mut *conn).await?;
                if unheard.cast_unsigned() != all {
                    return Ok(None);
                }
                let heard = "UPDATE memory_windows SET heard = 1 WHERE id IN (SELECT value FROM json_each(?))";
                sqlx::query(heard).bind(ids).execute(&mut *conn).await?;
                let mut learned = 0;
                for fact in new {
                    learned += usize::from(facts::learn(conn, fact).await?.is_some());
                }
                Ok(Some(learned))
            })
        })
        .await
    }
}
