//! What is kept for a time only: facts, passages and the words they come from in the journal, a bounded number at a time. As
//! with forgetting, nothing of them is left in the files; unlike it, the same may be learned again.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use sqlx::{Row as _, SqliteConnection};

use super::forget::{delete_fact, forget_windows, number_is_used, unshow};
use super::{json_list, scrub};
use crate::{Result, Store, blocks, migrate};

/// Copies from before updates hold what was retired since; so long they are kept all the same.
const BACKUPS: Duration = Duration::from_secs(24 * 60 * 60);

/// What is over its time, or what of it is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Retired {
    /// Facts.
    pub facts: u64,
    /// Passages.
    pub windows: u64,
    /// Rows of the journal whose words go.
    pub turns: u64,
    /// Sessions that go whole.
    pub sessions: u64,
    /// Pinned facts of that age, which stay.
    pub pinned: u64,
}

impl Retired {
    /// Nothing is, or was.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.facts + self.windows + self.turns + self.sessions == 0
    }
}

impl std::ops::AddAssign for Retired {
    fn add_assign(&mut self, other: Self) {
        self.facts += other.facts;
        self.windows += other.windows;
        self.turns += other.turns;
        self.sessions += other.sessions;
        self.pinned = self.pinned.max(other.pinned);
    }
}

/// Passages that were said before `?1`.
const OLD_WINDOWS: &str =
    "FROM memory_windows WHERE fact IS NULL AND scope IN (SELECT key FROM memory_scopes) AND at < ?1";
/// Facts that were learned, changed or closed last before `?1`; not the pinned ones.
const OLD_FACTS: &str = "FROM memory_facts WHERE pinned = 0 AND updated < ?1";
/// Sessions with calls beside conversations only, whose last is from before `?1`: they repeat what was said elsewhere.
const OLD_CALLS: &str = "FROM sessions WHERE last < ?1 AND requests > 0
     AND NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.key AND kind = 'main')";
/// Sessions whose last answer is from before `?1`. A mark that nothing may be learned of one that still runs stays.
const OLD_SESSIONS: &str = "FROM sessions WHERE last < ?1 AND (ended IS NOT NULL OR private = 0)";

impl Store {
    /// What memory has from before `before_ms`, as far as it is not pinned.
    pub async fn memory_overdue(&self, before_ms: i64) -> Result<Retired> {
        let count = async |sql: String| {
            let count = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(before_ms).bind(scrub::gone_hash());
            let count: i64 = count.fetch_one(&self.shared.readers).await.map_err(|e| self.shared.sqlx(&e))?;
            Result::Ok(count.cast_unsigned())
        };
        let turns = format!(
            "WITH due (session, last) AS (
                 SELECT t.session, max(t.id) FROM turns t WHERE t.id IN (SELECT turn {OLD_WINDOWS}) GROUP BY t.session
             )
             SELECT (SELECT count(*) FROM due JOIN turns t
                     ON t.session = due.session AND t.id <= due.last AND t.finished < ?1 AND t.body_hash <> ?2)
                  + ifnull((SELECT sum(requests) {OLD_CALLS}), 0)"
        );
        Ok(Retired {
            facts: count(format!("SELECT count(*) {OLD_FACTS}")).await?,
            windows: count(format!("SELECT count(*) {OLD_WINDOWS}")).await?,
            turns: count(turns).await?,
            sessions: count(format!("SELECT count(*) {OLD_CALLS}")).await?,
            pinned: count("SELECT count(*) FROM memory_facts WHERE pinned = 1 AND updated < ?1".to_owned()).await?,
        })
    }

    /// Whether memory has anything from before `before_ms` that goes.
    pub async fn memory_is_overdue(&self, before_ms: i64) -> Result<bool> {
        self.is_any(
            format!("SELECT EXISTS (SELECT 1 {OLD_FACTS}) OR EXISTS (SELECT 1 {OLD_WINDOWS}) OR EXISTS (SELECT 1 {OLD_CALLS})"),
            before_ms,
        )
        .await
    }

    /// Whether the journal has a session from before `before_ms` that goes.
    pub async fn is_session_overdue(&self, before_ms: i64) -> Result<bool> {
        self.is_any(format!("SELECT EXISTS (SELECT 1 {OLD_SESSIONS})"), before_ms).await
    }

    async fn is_any(&self, sql: String, before_ms: i64) -> Result<bool> {
        let any = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(before_ms);
        any.fetch_one(&self.shared.readers).await.map_err(|e| self.shared.sqlx(&e))
    }

    /// Deletes up to `limit` facts and passages from before `before_ms`, and their words in the journal as far as that is as
    /// old; nothing is buried. Call it until nothing went, and then [`Store::retired`].
    pub async fn memory_retire(&self, before_ms: i64, limit: u32) -> Result<Retired> {
        self.write(move |conn, shared| {
            Box::pin(async move {
                let facts = sqlx::AssertSqlSafe(format!("SELECT key {OLD_FACTS} ORDER BY updated LIMIT ?2"));
                let facts: Vec<i64> =
                    sqlx::query_scalar(facts).bind(before_ms).bind(limit).fetch_all(&mut *conn).await?;
                let windows = sqlx::AssertSqlSafe(format!("SELECT id {OLD_WINDOWS} LIMIT ?2"));
                let windows: Vec<i64> =
                    sqlx::query_scalar(windows).bind(before_ms).bind(limit).fetch_all(&mut *conn).await?;
                let windows: BTreeSet<i64> = windows.into_iter().collect();
                let mut done =
                    Retired { facts: facts.len() as u64, windows: windows.len() as u64, ..Retired::default() };
                let read = said_in(conn, &windows).await?;
                let mut names = Vec::new();
                for key in facts {
                    names.push(delete_fact(conn, key).await?.0);
                }
                names.extend(forget_windows(conn, &windows, None, before_ms).await?);
                for (session, last) in read {
                    done.turns += scrub::blank(conn, session, last, before_ms).await?;
                }
                let calls = delete_sessions(conn, OLD_CALLS, before_ms, limit).await?;
                (done.sessions, done.turns) = (calls.sessions, done.turns + calls.turns);
                if done.is_nothing() {
                    return Ok(done);
                }
                unshow(conn, &names).await?;
                blocks::drop_unused(conn, shared).await?;
                shared.buried.add(names);
                shared.bases().clear();
                shared.deletions.fetch_add(1, Ordering::AcqRel);
                Ok(done)
            })
        })
        .await
    }

    /// The sessions of the journal whose last answer is from before `before_ms`, with their rows.
    pub async fn sessions_overdue(&self, before_ms: i64) -> Result<Retired> {
        let counts = sqlx::AssertSqlSafe(format!("SELECT count(*), ifnull(sum(requests), 0) {OLD_SESSIONS}"));
        let counts = sqlx::query_as(counts).bind(before_ms).fetch_one(&self.shared.readers).await;
        let (sessions, turns): (i64, i64) = counts.map_err(|e| self.shared.sqlx(&e))?;
        Ok(Retired { sessions: sessions.cast_unsigned(), turns: turns.cast_unsigned(), ..Retired::default() })
    }

    /// Deletes up to `limit` sessions whose last answer is from before `before_ms`, with everything that belongs to them.
    /// Facts that were learned from them stay. Call it until nothing went, and then [`Store::retired`].
    pub async fn delete_sessions_before(&self, before_ms: i64, limit: u32) -> Result<Retired> {
        self.write(move |conn, shared| {
            Box::pin(async move {
                let done = delete_sessions(conn, OLD_SESSIONS, before_ms, limit).await?;
                if !done.is_nothing() {
                    blocks::drop_unused(conn, shared).await?;
                    shared.bases().clear();
                    shared.deletions.fetch_add(1, Ordering::AcqRel);
                }
                Ok(done)
            })
        })
        .await
    }

    /// Clears up after something was retired: the index, the log, the spool, copies from before updates. False while
    /// somebody reads the database: the last bytes are overwritten when he has done.
    pub async fn retired(&self, now: SystemTime) -> bool {
        for backup in migrate::backups_of(&self.shared.path) {
            let made = std::fs::metadata(&backup).and_then(|meta| meta.modified());
            let old = made.is_ok_and(|made| now.duration_since(made).is_ok_and(|age| age > BACKUPS));
            if old && let Err(error) = std::fs::remove_file(&backup) {
                tracing::warn!(file = %backup.display(), %error, "a backup that holds what was retired could not be removed");
            }
        }
        self.cleared_up().await
    }
}

/// The sessions that these passages were said in, each with the last row that one of them is of.
async fn said_in(conn: &mut SqliteConnection, windows: &BTreeSet<i64>) -> sqlx::Result<Vec<(i64, i64)>> {
    let sessions = "SELECT t.session, max(t.id) FROM turns t
                    WHERE t.id IN (SELECT turn FROM memory_windows WHERE id IN (SELECT value FROM json_each(?)))
                    GROUP BY t.session";
    sqlx::query_as(sessions).bind(json_list(windows.iter().copied())).fetch_all(conn).await
}

async fn delete_sessions(
    conn: &mut SqliteConnection,
    which: &'static str,
    before_ms: i64,
    limit: u32,
) -> sqlx::Result<Retired> {
    let keys = sqlx::AssertSqlSafe(format!("SELECT key {which} ORDER BY last LIMIT ?2"));
    let keys: Vec<i64> = sqlx::query_scalar(keys).bind(before_ms).bind(limit).fetch_all(&mut *conn).await?;
    if keys.is_empty() {
        return Ok(Retired::default());
    }
    number_is_used(conn).await?;
    let gone = "DELETE FROM sessions WHERE key IN (SELECT value FROM json_each(?)) RETURNING requests";
    let gone = sqlx::query(gone).bind(json_list(keys.into_iter())).fetch_all(conn).await?;
    let mut done = Retired { sessions: gone.len() as u64, ..Retired::default() };
    for row in gone {
        done.turns += row.try_get::<i64, _>("requests")?.cast_unsigned();
    }
    Ok(done)
}
