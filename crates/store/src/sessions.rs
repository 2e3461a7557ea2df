//! Sessions read and changed: lists, ends, privacy, deletion.

use std::sync::atomic::Ordering;

use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row as _, Sqlite};

use crate::{EndReason, Result, Session, SessionFilter, Store, blocks};

const COLUMNS: &str =
    "SELECT id, agent, started, last, ended, end_reason, turns, requests, title, private FROM sessions";

fn session(row: &SqliteRow) -> sqlx::Result<Session> {
    Ok(Session {
        id: row.try_get("id")?,
        agent: row.try_get("agent")?,
        started_ms: row.try_get("started")?,
        last_ms: row.try_get("last")?,
        ended_ms: row.try_get("ended")?,
        end_reason: row.try_get::<Option<&str>, _>("end_reason")?.map(EndReason::from_column),
        turns: row.try_get("turns")?,
        requests: row.try_get("requests")?,
        title: row.try_get("title")?,
        private: row.try_get("private")?,
    })
}

impl Store {
    /// One session.
    pub async fn session(&self, id: &str) -> Result<Option<Session>> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        query.push(" WHERE id = ").push_bind(id);
        let row = query.build().fetch_optional(self.settled_session(id).await).await;
        row.and_then(|row| row.as_ref().map(session).transpose()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Sessions, the last active first.
    pub async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        query.push(" WHERE true");
        if let Some(agent) = &filter.agent {
            query.push(" AND agent = ").push_bind(agent.as_str());
        }
        match filter.open {
            Some(true) => drop(query.push(" AND ended IS NULL")),
            Some(false) => drop(query.push(" AND ended IS NOT NULL")),
            None => {}
        }
        if let Some(since) = filter.since_ms {
            query.push(" AND last >= ").push_bind(since);
        }
        if let Some(until) = filter.until_ms {
            query.push(" AND last < ").push_bind(until);
        }
        query.push(" ORDER BY last DESC, id LIMIT ").push_bind(if filter.limit == 0 { 50 } else { filter.limit });
        let rows = query.build().fetch_all(self.settled().await).await;
        rows.and_then(|rows| rows.iter().map(session).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Ends an open session; false if there is none open of that name.
    pub async fn end_session(&self, id: &str, reason: EndReason, at_ms: i64) -> Result<bool> {
        let id = id.to_owned();
        self.write(move |conn, _| {
            Box::pin(async move {
                let done = sqlx::query("UPDATE sessions SET ended = ?, end_reason = ? WHERE id = ? AND ended IS NULL")
                    .bind(at_ms)
                    .bind(reason.as_str())
                    .bind(id)
                    .execute(conn)
                    .await?;
                Ok(done.rows_affected() == 1)
            })
        })
        .await
    }

    /// Ends every open session whose last answer is from before `before_ms`, but for those that `active` names (a
    /// request of theirs may be under way); which ones.
    pub async fn end_idle(
        &self,
        before_ms: i64,
        at_ms: i64,
        active: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<Vec<String>> {
        // Looked up by a reader, so that the writer does not search; what has come alive meanwhile stays open.
        let idle: Vec<(i64, String)> = sqlx::query_as("SELECT key, id FROM sessions WHERE ended IS NULL AND last < ?")
            .bind(before_ms)
            .fetch_all(self.settled().await)
            .await
            .map_err(|e| self.shared.sqlx(&e))?;
        if idle.iter().all(|(_, id)| active(id)) {
            return Ok(Vec::new());
        }
        self.write(move |conn, _| {
            Box::pin(async move {
                let mut ended = Vec::with_capacity(idle.len());
                for (key, id) in idle {
                    if active(&id) {
                        continue;
                    }
                    let end = "UPDATE sessions SET ended = ?1, end_reason = 'idle'
                               WHERE key = ?2 AND ended IS NULL AND last < ?3";
                    let end = sqlx::query(end).bind(at_ms).bind(key).bind(before_ms);
                    if end.execute(&mut *conn).await?.rows_affected() == 1 {
                        ended.push(id);
                    }
                }
                Ok(ended)
            })
        })
        .await
    }

    /// Marks a session as never to be used for learning, or takes the mark back. Works before its first turn, too.
    pub async fn set_private(&self, id: &str, private: bool, at_ms: i64) -> Result<()> {
        let id = id.to_owned();
        self.write(move |conn, _| {
            Box::pin(async move {
                sqlx::query(
                    "INSERT INTO sessions (id, started, last, private) VALUES (?1, ?3, ?3, ?2)
                     ON CONFLICT (id) DO UPDATE SET private = excluded.private",
                )
                .bind(id)
                .bind(private)
                .bind(at_ms)
                .execute(conn)
                .await?;
                Ok(())
            })
        })
        .await
    }

    /// Deletes a session with everything that belongs to it, overwriting the bytes; false if there was none.
    pub async fn delete_session(&self, id: &str) -> Result<bool> {
        let id = id.to_owned();
        let deleted: Vec<String> = self
            .write(move |conn, shared| {
                Box::pin(async move {
                    // Whichever of them go: the numbers up to here are used.
                    sqlx::query(
                        "UPDATE deleted_turns SET highest = max(highest, ifnull((SELECT max(id) FROM turns), 0))",
                    )
                    .execute(&mut *conn)
                    .await?;
                    let deleted = "DELETE FROM sessions WHERE id = ?1 RETURNING id";
                    let deleted: Vec<String> = sqlx::query_scalar(deleted).bind(id).fetch_all(&mut *conn).await?;
                    if !deleted.is_empty() {
                        blocks::drop_unused(conn, shared).await?;
                        let mut bases = shared.bases();
                        for id in &deleted {
                            bases.remove(&(id.clone(), true));
                            bases.remove(&(id.clone(), false));
                        }
                        drop(bases);
                        shared.deletions.fetch_add(1, Ordering::AcqRel);
                    }
                    Ok(deleted)
                })
            })
            .await?;
        if !deleted.is_empty() {
            self.empty_log().await?;
        }
        Ok(!deleted.is_empty())
    }
}
