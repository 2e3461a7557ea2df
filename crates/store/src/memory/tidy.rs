//! Facts that say the same, or the opposite later: closed, never deleted, each with its reason, so that it can be undone. How
//! far it has been looked moves in the same transaction.

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::json;
use crate::{Result, Store};

/// One fact gives way to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    /// Number of the fact that is closed.
    pub closed: i64,
    /// Number of the fact that stays.
    pub by: i64,
    /// `same`, `opposite`, `newer`.
    pub why: &'static str,
}

/// What was done with a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// Id of the fact that was closed.
    pub closed: String,
    /// Id of the one that stays.
    pub by: String,
    /// `same`, `opposite`, `newer`.
    pub why: String,
    /// When, ms since 1970.
    pub at_ms: i64,
    /// When it was taken back.
    pub undone_ms: Option<i64>,
}

fn merged(row: &SqliteRow) -> sqlx::Result<Merged> {
    Ok(Merged {
        closed: row.try_get("closed")?,
        by: row.try_get("stays")?,
        why: row.try_get("why")?,
        at_ms: row.try_get("at")?,
        undone_ms: row.try_get("undone")?,
    })
}

impl Store {
    /// Up to which fact it has been looked.
    pub async fn memory_tidied(&self) -> Result<i64> {
        let fact = sqlx::query_scalar("SELECT fact FROM memory_tidied").fetch_one(&self.shared.readers).await;
        fact.map_err(|e| self.shared.sqlx(&e))
    }

    /// Numbers of the facts after this one, whatever their status, in their order.
    pub async fn fact_keys_after(&self, fact: i64, limit: u32) -> Result<Vec<i64>> {
        let keys = sqlx::query_scalar("SELECT key FROM memory_facts WHERE key > ? ORDER BY key LIMIT ?");
        let keys = keys.bind(fact).bind(limit).fetch_all(&self.shared.readers).await;
        keys.map_err(|e| self.shared.sqlx(&e))
    }

    /// Closes facts and notes that it has been looked up to fact `to`; how many were closed. What is pinned, closed already or
    /// was taken back by the user is left alone. `None`: another process was faster, and nothing was written.
    pub async fn memory_tidy(&self, from: i64, to: i64, merges: Vec<Merge>, at_ms: i64) -> Result<Option<usize>> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let moved = sqlx::query("UPDATE memory_tidied SET fact = ?2 WHERE fact = ?1").bind(from).bind(to);
                if moved.execute(&mut *conn).await?.rows_affected() == 0 {
                    return Ok(None);
                }
                let mut closed = 0;
                for merge in merges {
                    // What it was said to hold until is kept, for the way back.
                    let noted = sqlx::query(
                        "INSERT INTO memory_merges (at, why, closed, by, held_to)
                         SELECT ?1, ?2, c.key, b.key, c.valid_to FROM memory_facts c JOIN memory_facts b ON b.key = ?4
                         WHERE c.key = ?3 AND c.status = 'active' AND b.status = 'active' AND c.pinned = 0
                           AND c.scope = b.scope
                           AND NOT EXISTS (SELECT 1 FROM memory_merges m WHERE m.undone IS NOT NULL
                                           AND (m.closed = ?3 AND m.by = ?4 OR m.closed = ?4 AND m.by = ?3))",
                    );
                    let noted = noted.bind(at_ms).bind(merge.why).bind(merge.closed).bind(merge.by);
                    if noted.execute(&mut *conn).await?.rows_affected() == 0 {
                        continue;
                    }
                    if merge.why == "same" {
                        // It was said again, so it is not older than that.
                        let again = "UPDATE memory_facts AS b SET updated = max(b.updated, c.recorded)
                                     FROM memory_facts c WHERE c.key = ?1 AND b.key = ?2";
                        sqlx::query(again).bind(merge.closed).bind(merge.by).execute(&mut *conn).await?;
                    }
                    sqlx::query(
                        "UPDATE memory_facts AS c SET status = 'superseded', superseded_by = b.id,
                             valid_to = max(c.valid_from, b.valid_from), updated = max(c.updated, b.recorded)
                         FROM memory_facts b WHERE b.key = ?2 AND c.key = ?1",
                    )
                    .bind(merge.closed)
                    .bind(merge.by)
                    .execute(&mut *conn)
                    .await?;
                    closed += 1;
                }
                Ok(Some(closed))
            })
        })
        .await
    }

    /// Takes back that a fact was closed; this pair is left alone from then on. False if tidying up has not closed it.
    pub async fn memory_untidy(&self, id: &str, at_ms: i64) -> Result<bool> {
        let id = id.to_owned();
        self.write(move |conn, _| {
            Box::pin(async move {
                let last =
                    "SELECT m.id, m.closed, m.held_to FROM memory_merges m JOIN memory_facts f ON f.key = m.closed
                            WHERE f.id = ? AND f.status = 'superseded' AND m.undone IS NULL ORDER BY m.id DESC LIMIT 1";
                let last: Option<(i64, i64, Option<i64>)> =
                    sqlx::query_as(last).bind(id).fetch_optional(&mut *conn).await?;
                let Some((merge, closed, held_to)) = last else { return Ok(false) };
                let undone = sqlx::query("UPDATE memory_merges SET undone = ? WHERE id = ?").bind(at_ms).bind(merge);
                undone.execute(&mut *conn).await?;
                let back =
                    "UPDATE memory_facts SET status = 'active', superseded_by = NULL, valid_to = ?2, updated = ?3
                            WHERE key = ?1";
                sqlx::query(back).bind(closed).bind(held_to).bind(at_ms).execute(conn).await?;
                Ok(true)
            })
        })
        .await
    }

    /// Why these facts were closed by tidying up, the last reason of each last.
    pub async fn memory_merges(&self, ids: &[String]) -> Result<Vec<Merged>> {
        let rows = sqlx::query(
            "SELECT c.id AS closed, b.id AS stays, m.why, m.at, m.undone FROM memory_merges m
             JOIN memory_facts c ON c.key = m.closed JOIN memory_facts b ON b.key = m.by
             WHERE c.id IN (SELECT value FROM json_each(?)) ORDER BY m.id",
        );
        let rows = rows.bind(json(ids)).fetch_all(&self.shared.readers).await;
        rows.and_then(|rows| rows.iter().map(merged).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Numbers of all versions of what a fact is about: of the same slot, and those that one took the place of another of.
    pub async fn fact_versions(&self, id: &str) -> Result<Vec<i64>> {
        let keys = sqlx::query_scalar(VERSIONS).bind(id).fetch_all(&self.shared.readers).await;
        keys.map_err(|e| self.shared.sqlx(&e))
    }
}

/// Numbers of all versions of the fact with id `?1`.
pub(super) const VERSIONS: &str = "WITH RECURSIVE version (key) AS (
        SELECT key FROM memory_facts WHERE id = ?1
        UNION
        SELECT o.key FROM version v JOIN memory_facts f ON f.key = v.key JOIN memory_facts o
            ON o.scope = f.scope AND o.slot = f.slot
        UNION
        SELECT o.key FROM version v JOIN memory_facts f ON f.key = v.key JOIN memory_facts o ON o.superseded_by = f.id
        UNION
        SELECT o.key FROM version v JOIN memory_facts f ON f.key = v.key JOIN memory_facts o ON o.id = f.superseded_by
    )
    SELECT key FROM version";
