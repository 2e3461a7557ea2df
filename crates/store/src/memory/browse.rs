//! Passages as a person browses them, what waits for the user's decision, and a copy of the whole database.

use std::path::Path;

use sqlx::{QueryBuilder, Row as _, Sqlite};

use super::Window;
use super::search::window;
use crate::open::connect;
use crate::{Result, Store, migrate};

/// Which passages.
#[derive(Debug, Clone, Default)]
pub struct WindowFilter {
    /// Of this scope.
    pub scope: Option<String>,
    /// Of this session.
    pub session: Option<String>,
    /// Kept back until the user accepts them, or not.
    pub quarantined: Option<bool>,
    /// With a lower number (for paging back).
    pub before: Option<i64>,
    /// At most so many; 0 = 100.
    pub limit: u32,
}

impl Store {
    /// Passages with their scopes, the last written first; facts are not among them.
    pub async fn memory_passages(&self, filter: &WindowFilter) -> Result<Vec<(String, Window)>> {
        let mut query = QueryBuilder::<Sqlite>::new(
            "SELECT w.id, w.fact, w.session, w.turn, w.turn_no, w.part, w.speaker, w.at, w.quarantined, w.text, w.terms,
                    NULL AS outdated, s.id AS scope_id
             FROM memory_windows w JOIN memory_scopes s ON s.key = w.scope WHERE w.fact IS NULL",
        );
        if let Some(scope) = &filter.scope {
            query.push(" AND s.id = ").push_bind(scope.as_str());
        }
        if let Some(session) = &filter.session {
            query.push(" AND w.session = ").push_bind(session.as_str());
        }
        if let Some(quarantined) = filter.quarantined {
            query.push(" AND w.quarantined = ").push_bind(quarantined);
        }
        if let Some(before) = filter.before {
            query.push(" AND w.id < ").push_bind(before);
        }
        query.push(" ORDER BY w.id DESC LIMIT ").push_bind(if filter.limit == 0 { 100 } else { filter.limit });
        let rows = query.build().fetch_all(&self.shared.readers).await;
        let of = |row: &sqlx::sqlite::SqliteRow| Ok((row.try_get("scope_id")?, window(row)?));
        rows.and_then(|rows| rows.iter().map(of).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// One passage with its scope.
    pub async fn memory_passage(&self, id: i64) -> Result<Option<(String, Window)>> {
        let filter = WindowFilter { before: id.checked_add(1), limit: 1, ..WindowFilter::default() };
        Ok(self.memory_passages(&filter).await?.into_iter().find(|(_, window)| window.id == id))
    }

    /// Lets a passage be recalled that was kept back; false if there is none of that number.
    pub async fn memory_accept(&self, id: i64) -> Result<bool> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let accepted = sqlx::query("UPDATE memory_windows SET quarantined = 0 WHERE id = ? AND fact IS NULL");
                Ok(accepted.bind(id).execute(conn).await?.rows_affected() > 0)
            })
        })
        .await
    }

    /// The last user turn that memory knows of a session; 0 = none.
    pub async fn memory_last_turn(&self, session: &str) -> Result<u32> {
        let last = sqlx::query_scalar("SELECT ifnull(max(turn_no), 0) FROM memory_windows WHERE session = ?");
        last.bind(session).fetch_one(&self.shared.readers).await.map_err(|e| self.shared.sqlx(&e))
    }

    /// Writes a whole copy of the database, as of now, into a new file that only this user can read.
    pub async fn backup(&self, to: &Path) -> Result<()> {
        let mut conn = connect(&self.shared).await?;
        migrate::copy_into(&mut conn, &self.shared.path, to).await?;
        sqlx::Connection::close(conn).await.map_err(|e| self.shared.sqlx(&e))
    }
}
