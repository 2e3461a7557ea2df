//! What happened, for the event list and for workers that come later: settings changed, skills changed, weights swapped, ….

use serde::{Deserialize, Serialize};
use sqlx::Row as _;

use crate::{Result, Store};

/// An event to be written down.
#[derive(Debug, Clone, Default)]
pub struct NewEvent {
    /// When, ms since 1970.
    pub at_ms: i64,
    /// What kind, e.g. `skills.changed`.
    pub kind: String,
    /// The session it belongs to; deleted with it. The session must exist.
    pub session: Option<String>,
    /// Details, as JSON.
    pub json: String,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Rises in commit order.
    pub id: i64,
    /// When, ms since 1970.
    pub at_ms: i64,
    /// What kind.
    pub kind: String,
    /// The session it belongs to.
    pub session: Option<String>,
    /// Details, as JSON.
    pub json: String,
}

impl Store {
    /// Writes an event down; its number.
    pub async fn add_event(&self, event: NewEvent) -> Result<i64> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let done = sqlx::query("INSERT INTO events (at, kind, session, json) VALUES (?, ?, ?, ?)")
                    .bind(event.at_ms)
                    .bind(event.kind)
                    .bind(event.session)
                    .bind(event.json)
                    .execute(conn)
                    .await?;
                Ok(done.last_insert_rowid())
            })
        })
        .await
    }

    /// Events after number `after`, oldest first, of one kind or all, at most `limit`.
    pub async fn events(&self, after: i64, kind: Option<&str>, limit: u32) -> Result<Vec<Event>> {
        let sql = match kind {
            Some(_) => {
                "SELECT id, at, kind, session, json FROM events WHERE id > ?1 AND kind = ?3 ORDER BY id LIMIT ?2"
            }
            None => "SELECT id, at, kind, session, json FROM events WHERE id > ?1 ORDER BY id LIMIT ?2",
        };
        self.read_events(sql, after, kind, limit).await
    }

    /// Events before number `before`, newest first, of one kind or all, at most `limit`.
    pub async fn events_before(&self, before: i64, kind: Option<&str>, limit: u32) -> Result<Vec<Event>> {
        let sql = match kind {
            Some(_) => {
                "SELECT id, at, kind, session, json FROM events WHERE id < ?1 AND kind = ?3 ORDER BY id DESC LIMIT ?2"
            }
            None => "SELECT id, at, kind, session, json FROM events WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
        };
        self.read_events(sql, before, kind, limit).await
    }

    async fn read_events(&self, sql: &'static str, id: i64, kind: Option<&str>, limit: u32) -> Result<Vec<Event>> {
        let rows = sqlx::query(sql).bind(id).bind(limit).bind(kind).fetch_all(self.settled().await).await;
        let event = |row: sqlx::sqlite::SqliteRow| {
            Ok(Event {
                id: row.try_get(0)?,
                at_ms: row.try_get(1)?,
                kind: row.try_get(2)?,
                session: row.try_get(3)?,
                json: row.try_get(4)?,
            })
        };
        rows.and_then(|rows| rows.into_iter().map(event).collect()).map_err(|e| self.shared.sqlx(&e))
    }
}
