//! Moves windows from the tail into the inverted index and takes deleted ones out of it, a bounded number at a time.

use std::collections::BTreeMap;

use sqlx::{Row as _, SqliteConnection};

use super::postings::{self, CHUNK, Posting};
use super::{pack, unpack};
use crate::{Result, Store};

#[derive(Default)]
struct Change {
    add: Vec<Posting>,
    remove: Vec<u16>,
}

impl Store {
    /// Windows that are not in the index yet, and deleted ones that still are.
    pub async fn memory_unindexed(&self) -> Result<(u64, u64)> {
        let counts = sqlx::query(
            "SELECT (SELECT count(*) FROM memory_windows WHERE indexed = 0), (SELECT count(*) FROM memory_removed)",
        );
        let row = counts.fetch_one(&self.shared.readers).await;
        let counts = row.and_then(|row| Ok((row.try_get::<i64, _>(0)?, row.try_get::<i64, _>(1)?)));
        counts.map(|(a, b)| (a.cast_unsigned(), b.cast_unsigned())).map_err(|e| self.shared.sqlx(&e))
    }

    /// Indexes up to `limit` windows and cleans up after up to `limit` deleted ones, in one transaction; how many it
    /// was.
    pub async fn memory_index(&self, limit: u32) -> Result<usize> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let mut changes: BTreeMap<(i64, i64, u32), Change> = BTreeMap::new();
                let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
                let added = sqlx::query(
                    "UPDATE memory_windows SET indexed = 1
                     WHERE id IN (SELECT id FROM memory_windows WHERE indexed = 0 ORDER BY id LIMIT ?)
                     RETURNING id, scope, terms",
                )
                .bind(limit)
                .fetch_all(&mut *conn)
                .await?;
                let removed = sqlx::query(
                    "DELETE FROM memory_removed WHERE id IN (SELECT id FROM memory_removed LIMIT ?)
                     RETURNING id, scope, terms",
                )
                .bind(limit)
                .fetch_all(&mut *conn)
                .await?;
                for (rows, sign) in [(&added, 1), (&removed, -1)] {
                    for row in rows {
                        let (id, scope): (i64, i64) = (row.try_get("id")?, row.try_get("scope")?);
                        *counts.entry(scope).or_default() += sign;
                        // Below the size of a chunk, which fits.
                        let place = id.rem_euclid(CHUNK) as u16;
                        for (term, impact) in unpack(row.try_get("terms")?) {
                            let change = changes.entry((scope, id.div_euclid(CHUNK), term)).or_default();
                            if sign > 0 {
                                change.add.push(Posting { place, impact });
                            } else {
                                change.remove.push(place);
                            }
                        }
                    }
                }
                for ((scope, chunk, term), change) in changes {
                    rewrite(conn, (scope, chunk, term), &change).await?;
                }
                for (scope, delta) in counts {
                    sqlx::query("UPDATE memory_scopes SET indexed = max(0, indexed + ?) WHERE key = ?")
                        .bind(delta)
                        .bind(scope)
                        .execute(&mut *conn)
                        .await?;
                }
                Ok(added.len() + removed.len())
            })
        })
        .await
    }
}

/// Changes one row of the index.
async fn rewrite(conn: &mut SqliteConnection, key: (i64, i64, u32), change: &Change) -> sqlx::Result<()> {
    let (scope, chunk, term) = key;
    let old = sqlx::query_scalar("SELECT data FROM memory_postings WHERE scope = ? AND chunk = ? AND term = ?");
    let old: Option<Vec<u8>> = old.bind(scope).bind(chunk).bind(term).fetch_optional(&mut *conn).await?;
    let all = postings::merge(old.as_deref().unwrap_or_default(), &change.add, &change.remove);
    if all.is_empty() {
        let gone = sqlx::query("DELETE FROM memory_postings WHERE scope = ? AND chunk = ? AND term = ?");
        gone.bind(scope).bind(chunk).bind(term).execute(conn).await?;
        return Ok(());
    }
    sqlx::query("INSERT OR REPLACE INTO memory_postings (scope, chunk, term, n, data) VALUES (?, ?, ?, ?, ?)")
        .bind(scope)
        .bind(chunk)
        .bind(term)
        .bind(all.len() as i64)
        .bind(postings::encode(&all))
        .execute(conn)
        .await?;
    Ok(())
}

/// Takes the words of a deleted window out of the two after it, which hold a share of them.
pub(super) async fn unshare(
    conn: &mut SqliteConnection,
    id: i64,
    session: &str,
    terms: &[(u32, u8)],
) -> sqlx::Result<()> {
    let after = sqlx::query(
        "SELECT id, scope, indexed, terms FROM memory_windows
         WHERE session = ? AND id > ? AND fact IS NULL ORDER BY id LIMIT 2",
    );
    for row in after.bind(session).bind(id).fetch_all(&mut *conn).await? {
        let (id, scope): (i64, i64) = (row.try_get("id")?, row.try_get("scope")?);
        let gone = |term: u32| terms.binary_search_by_key(&term, |(t, _)| *t).is_ok();
        let (out, kept): (Vec<_>, Vec<_>) =
            unpack(row.try_get("terms")?).into_iter().partition(|(term, _)| gone(*term));
        let update = sqlx::query("UPDATE memory_windows SET terms = ? WHERE id = ?").bind(pack(&kept)).bind(id);
        update.execute(&mut *conn).await?;
        if row.try_get::<bool, _>("indexed")? {
            let change = Change { add: Vec::new(), remove: vec![id.rem_euclid(CHUNK) as u16] };
            for (term, _) in out {
                rewrite(conn, (scope, id.div_euclid(CHUNK), term), &change).await?;
            }
        }
    }
    Ok(())
}
