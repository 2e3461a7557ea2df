//! What passages and facts mean, as vectors of one model: made in the background, newest first, a bounded number at a time,
//! and gone with their windows. How far it has come moves in the transaction that writes them.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use super::json_list;
use crate::{Result, Store};

/// Whose vectors they are, and how far they have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryMeaning {
    /// Name of the model.
    pub model: String,
    /// Grows with every change of the model.
    pub made: i64,
    /// Every window from here …
    pub low: i64,
    /// … to here has its vector, unless it could not have one.
    pub high: i64,
    /// Vectors of an earlier model are left.
    pub stale: bool,
    /// The model's vectors of commonplaces, as whoever set the model packed them.
    pub common: Vec<u8>,
}

/// A window without a vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmeant {
    /// Its number.
    pub window: i64,
    /// Its words, or the fact's.
    pub text: String,
}

/// A vector as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowVector {
    /// The window.
    pub window: i64,
    /// Number of its scope.
    pub scope: i64,
    /// The vector, packed.
    pub data: Vec<u8>,
}

fn meaning(row: &SqliteRow) -> sqlx::Result<MemoryMeaning> {
    Ok(MemoryMeaning {
        model: row.try_get("model")?,
        made: row.try_get("made")?,
        low: row.try_get("low")?,
        high: row.try_get("high")?,
        stale: row.try_get("stale")?,
        common: row.try_get("common")?,
    })
}

async fn known(conn: &mut SqliteConnection) -> sqlx::Result<Option<MemoryMeaning>> {
    let row = sqlx::query("SELECT * FROM memory_meaning").fetch_optional(conn).await?;
    row.as_ref().map(meaning).transpose()
}

fn vector(row: &SqliteRow) -> sqlx::Result<WindowVector> {
    Ok(WindowVector { window: row.try_get(0)?, scope: row.try_get(1)?, data: row.try_get(2)? })
}

impl Store {
    /// The model of the vectors; `None` = there never was one.
    pub async fn memory_meaning(&self) -> Result<Option<MemoryMeaning>> {
        let row = sqlx::query("SELECT * FROM memory_meaning").fetch_optional(&self.shared.readers).await;
        row.and_then(|row| row.as_ref().map(meaning).transpose()).map_err(|e| self.shared.sqlx(&e))
    }

    /// From now on vectors are this model's. Of the same one they stay; those of another are made anew, the newest window
    /// first.
    pub async fn memory_meant_by(&self, model: &str, common: Vec<u8>) -> Result<MemoryMeaning> {
        let model = model.to_owned();
        self.write(move |conn, _| {
            Box::pin(async move {
                match known(conn).await? {
                    Some(before) if before.model == model => {
                        let update = sqlx::query("UPDATE memory_meaning SET common = ?").bind(common.as_slice());
                        update.execute(&mut *conn).await?;
                        Ok(MemoryMeaning { common, ..before })
                    }
                    before => {
                        let newest = "SELECT ifnull(max(id), 0) FROM memory_windows";
                        let high: i64 = sqlx::query_scalar(newest).fetch_one(&mut *conn).await?;
                        let made = before.as_ref().map_or(1, |before| before.made + 1);
                        let new = MemoryMeaning { model, made, low: high + 1, high, stale: before.is_some(), common };
                        sqlx::query(
                            "INSERT OR REPLACE INTO memory_meaning (one, model, made, low, high, stale, common)
                             VALUES (1, ?, ?, ?, ?, ?, ?)",
                        )
                        .bind(new.model.as_str())
                        .bind(new.made)
                        .bind(new.low)
                        .bind(new.high)
                        .bind(new.stale)
                        .bind(new.common.as_slice())
                        .execute(conn)
                        .await?;
                        Ok(new)
                    }
                }
            })
        })
        .await
    }

    /// Windows without a vector: the new ones in their order, then the old ones, the last first; none if all have theirs.
    /// The second value is how far it has come when these are done.
    pub async fn memory_unmeant(&self, of: &MemoryMeaning, limit: u32) -> Result<(Vec<Unmeant>, (i64, i64))> {
        let read = async {
            for (from, order) in [(of.high, "w.id > ? ORDER BY w.id"), (of.low, "w.id < ? ORDER BY w.id DESC")] {
                let query = sqlx::AssertSqlSafe(format!(
                    "SELECT w.id, ifnull(f.content, w.text) FROM memory_windows w
                     LEFT JOIN memory_facts f ON f.key = w.fact WHERE {order} LIMIT ?"
                ));
                let rows = sqlx::query(query).bind(from).bind(limit).fetch_all(&self.shared.readers).await?;
                let unmeant = |row: &SqliteRow| Ok(Unmeant { window: row.try_get(0)?, text: row.try_get(1)? });
                let found: Vec<Unmeant> = rows.iter().map(unmeant).collect::<sqlx::Result<_>>()?;
                if let Some(last) = found.last() {
                    let reach = if last.window > of.high { (of.low, last.window) } else { (last.window, of.high) };
                    return Ok((found, reach));
                }
            }
            Ok((Vec::new(), (of.low, of.high)))
        };
        read.await.map_err(|e: sqlx::Error| self.shared.sqlx(&e))
    }

    /// How many windows have no vector yet.
    pub async fn memory_unmeant_count(&self, of: &MemoryMeaning) -> Result<u64> {
        let count = sqlx::query_scalar(
            "SELECT (SELECT count(*) FROM memory_windows WHERE id > ?) + (SELECT count(*) FROM memory_windows WHERE id < ?)",
        );
        let count = count.bind(of.high).bind(of.low).fetch_one(&self.shared.readers).await;
        count.map(i64::cast_unsigned).map_err(|e| self.shared.sqlx(&e))
    }

    /// Writes vectors and how far it has come; of windows that are gone meanwhile nothing is written. `None`: another
    /// process has done that stretch, or has another model, and nothing was written.
    pub async fn memory_mean(
        &self,
        of: &MemoryMeaning,
        vectors: Vec<(i64, Vec<u8>)>,
        reach: (i64, i64),
    ) -> Result<Option<MemoryMeaning>> {
        let of = of.clone();
        self.write(move |conn, _| {
            Box::pin(async move {
                let moved = sqlx::query(
                    "UPDATE memory_meaning SET low = ?1, high = ?2 WHERE made = ?3 AND model = ?4 AND low = ?5 AND high = ?6",
                );
                let moved = moved.bind(reach.0).bind(reach.1);
                let moved = moved.bind(of.made).bind(of.model.as_str()).bind(of.low).bind(of.high);
                if moved.execute(&mut *conn).await?.rows_affected() == 0 {
                    return Ok(None);
                }
                for (window, data) in vectors {
                    sqlx::query(
                        "INSERT OR REPLACE INTO memory_vectors (window, scope, made, data)
                         SELECT id, scope, ?2, ?3 FROM memory_windows WHERE id = ?1",
                    )
                    .bind(window)
                    .bind(of.made)
                    .bind(data)
                    .execute(&mut *conn)
                    .await?;
                }
                Ok(Some(MemoryMeaning { low: reach.0, high: reach.1, ..of }))
            })
        })
        .await
    }

    /// Deletes vectors of earlier models among the `limit` windows after `after`; the last one looked at, or `None` when
    /// none are left.
    pub async fn memory_unmean(&self, of: &MemoryMeaning, after: i64, limit: u32) -> Result<Option<i64>> {
        let made = of.made;
        self.write(move |conn, _| {
            Box::pin(async move {
                let last = "SELECT max(window) FROM (SELECT window FROM memory_vectors WHERE window > ? ORDER BY window LIMIT ?)";
                let last: Option<i64> =
                    sqlx::query_scalar(last).bind(after).bind(limit).fetch_one(&mut *conn).await?;
                let Some(last) = last else {
                    let done = "UPDATE memory_meaning SET stale = 0 WHERE made = ?";
                    sqlx::query(done).bind(made).execute(conn).await?;
                    return Ok(None);
                };
                let gone = "DELETE FROM memory_vectors WHERE window > ? AND window <= ? AND made < ?";
                sqlx::query(gone).bind(after).bind(last).bind(made).execute(conn).await?;
                Ok(Some(last))
            })
        })
        .await
    }

    /// Vectors of windows between two numbers, both left out, in their order.
    pub async fn memory_vectors(&self, made: i64, after: i64, before: i64, limit: u32) -> Result<Vec<WindowVector>> {
        let rows = sqlx::query(
            "SELECT window, scope, data FROM memory_vectors
             WHERE window > ? AND window < ? AND made = ? ORDER BY window LIMIT ?",
        );
        let rows = rows.bind(after).bind(before).bind(made).bind(limit).fetch_all(&self.shared.readers).await;
        rows.and_then(|rows| rows.iter().map(vector).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// The vectors of these windows, as far as they have one; in no particular order.
    pub async fn memory_vectors_of(&self, made: i64, windows: &[i64]) -> Result<Vec<WindowVector>> {
        let rows = sqlx::query(
            "SELECT v.window, v.scope, v.data FROM json_each(?) i CROSS JOIN memory_vectors v ON v.window = i.value
             WHERE v.made = ?",
        );
        let rows = rows.bind(json_list(windows.iter().copied())).bind(made).fetch_all(&self.shared.readers).await;
        rows.and_then(|rows| rows.iter().map(vector).collect()).map_err(|e| self.shared.sqlx(&e))
    }
}
