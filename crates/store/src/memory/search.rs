//! What recall reads: rows of the index, the tail beside it, and the windows themselves.

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::{json_list as list, unpack};
use crate::{Result, Store, TurnId};

/// A scope with what is in it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ScopeInfo {
    /// Its number.
    #[serde(skip)]
    pub key: i64,
    /// The scope string.
    pub id: String,
    /// Windows in the index.
    pub indexed: u64,
}

/// One row of the inverted index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostingRow {
    /// The term.
    pub term: u32,
    /// Which chunk of window numbers.
    pub chunk: i64,
    /// Postings in it.
    pub n: u32,
    /// The postings; see [`super::decode`].
    pub data: Vec<u8>,
}

/// A window that the index does not have yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailWindow {
    /// Its number.
    pub id: i64,
    /// Its terms.
    pub terms: Vec<(u32, u8)>,
}

/// A remembered passage, or a fact where `fact` is set.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Its number.
    pub id: i64,
    /// The fact's key.
    pub fact: Option<i64>,
    /// Session id.
    pub session: String,
    /// Journal row.
    pub turn: Option<TurnId>,
    /// User turn within the session.
    pub turn_no: u32,
    /// Passage within the turn.
    pub part: u32,
    /// Who said it.
    pub speaker: String,
    /// When, ms since 1970.
    pub at_ms: i64,
    /// Not to be recalled.
    pub quarantined: bool,
    /// The text; empty for a fact.
    pub text: String,
    /// Its terms.
    pub terms: Vec<(u32, u8)>,
    /// When a newer statement took the place of one that was taken from this turn.
    pub outdated_ms: Option<i64>,
}

pub(super) fn window(row: &SqliteRow) -> sqlx::Result<Window> {
    Ok(Window {
        id: row.try_get("id")?,
        fact: row.try_get("fact")?,
        session: row.try_get("session")?,
        turn: row.try_get::<Option<i64>, _>("turn")?.map(TurnId),
        turn_no: row.try_get("turn_no")?,
        part: row.try_get("part")?,
        speaker: row.try_get("speaker")?,
        at_ms: row.try_get("at")?,
        quarantined: row.try_get("quarantined")?,
        text: row.try_get("text")?,
        terms: unpack(row.try_get("terms")?),
        outdated_ms: row.try_get("outdated")?,
    })
}

impl Store {
    /// All scopes, by name.
    pub async fn memory_scopes(&self) -> Result<Vec<ScopeInfo>> {
        let rows =
            sqlx::query("SELECT key, id, indexed FROM memory_scopes ORDER BY id").fetch_all(&self.shared.readers);
        let info = |row: &SqliteRow| {
            Ok(ScopeInfo {
                key: row.try_get(0)?,
                id: row.try_get(1)?,
                indexed: row.try_get::<i64, _>(2)?.cast_unsigned(),
            })
        };
        rows.await.and_then(|rows| rows.iter().map(info).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// One scope.
    pub async fn memory_scope(&self, id: &str) -> Result<Option<ScopeInfo>> {
        let row = sqlx::query("SELECT key, id, indexed FROM memory_scopes WHERE id = ?").bind(id);
        let row = row.fetch_optional(&self.shared.readers).await.map_err(|e| self.shared.sqlx(&e))?;
        let info = |row: &SqliteRow| {
            Ok(ScopeInfo {
                key: row.try_get(0)?,
                id: row.try_get(1)?,
                indexed: row.try_get::<i64, _>(2)?.cast_unsigned(),
            })
        };
        row.as_ref().map(info).transpose().map_err(|e: sqlx::Error| self.shared.sqlx(&e))
    }

    /// Rows of the index for these terms, and all windows of the tail, of one scope, as of one moment.
    pub async fn memory_postings(&self, scope: i64, terms: &[u32]) -> Result<(Vec<PostingRow>, Vec<TailWindow>)> {
        let read = async {
            let mut tx = self.shared.readers.begin().await?;
            let span: (Option<i64>, Option<i64>) = sqlx::query_as(
                "SELECT (SELECT min(chunk) FROM memory_postings WHERE scope = ?1),
                        (SELECT max(chunk) FROM memory_postings WHERE scope = ?1)",
            )
            .bind(scope)
            .fetch_one(&mut *tx)
            .await?;
            let chunks = match span {
                (Some(low), Some(high)) => list(low..=high),
                _ => "[]".to_owned(),
            };
            let rows = sqlx::query(
                "SELECT p.term, p.chunk, p.n, p.data
                 FROM json_each(?2) c CROSS JOIN json_each(?3) t CROSS JOIN memory_postings p
                 WHERE p.scope = ?1 AND p.chunk = c.value AND p.term = t.value",
            )
            .bind(scope)
            .bind(chunks)
            .bind(list(terms.iter().map(|t| i64::from(*t))))
            .fetch_all(&mut *tx)
            .await?;
            let tail = sqlx::query("SELECT id, terms FROM memory_windows WHERE scope = ? AND indexed = 0");
            let tail = tail.bind(scope).fetch_all(&mut *tx).await?;
            tx.commit().await?;
            let posting = |row: &SqliteRow| {
                Ok(PostingRow {
                    term: row.try_get(0)?,
                    chunk: row.try_get(1)?,
                    n: row.try_get(2)?,
                    data: row.try_get(3)?,
                })
            };
            let rows: sqlx::Result<Vec<_>> = rows.iter().map(posting).collect();
            let window = |row: &SqliteRow| Ok(TailWindow { id: row.try_get(0)?, terms: unpack(row.try_get(1)?) });
            let tail: sqlx::Result<Vec<_>> = tail.iter().map(window).collect();
            Ok((rows?, tail?))
        };
        read.await.map_err(|e: sqlx::Error| self.shared.sqlx(&e))
    }

    /// These windows, as far as they still are there; in no particular order.
    pub async fn memory_windows(&self, ids: &[i64]) -> Result<Vec<Window>> {
        let rows = sqlx::query(
            "SELECT w.id, w.fact, w.session, w.turn, w.turn_no, w.part, w.speaker, w.at, w.quarantined, w.text, w.terms,
                    CASE WHEN w.fact IS NULL THEN
                        (SELECT max(f.valid_to) FROM memory_facts f
                         WHERE f.turn = w.turn AND f.status = 'superseded' AND f.speaker = w.speaker
                           AND f.quote <> '' AND instr(w.text, f.quote) > 0)
                    END AS outdated
             FROM json_each(?) i CROSS JOIN memory_windows w ON w.id = i.value",
        )
        .bind(list(ids.iter().copied()))
        .fetch_all(&self.shared.readers)
        .await;
        rows.and_then(|rows| rows.iter().map(window).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Numbers of passages that were said in a time, ms since 1970, the last first.
    pub async fn memory_said_in(&self, scope: i64, time: std::ops::Range<i64>, limit: u32) -> Result<Vec<i64>> {
        let ids = sqlx::query_scalar(
            "SELECT id FROM memory_windows WHERE scope = ? AND fact IS NULL AND at >= ? AND at < ? ORDER BY at DESC LIMIT ?",
        );
        let ids = ids.bind(scope).bind(time.start).bind(time.end).bind(limit).fetch_all(&self.shared.readers).await;
        ids.map_err(|e| self.shared.sqlx(&e))
    }

    /// The window that is this passage of a journal row.
    pub async fn memory_window_at(&self, turn: TurnId, part: u32) -> Result<Option<i64>> {
        let id = sqlx::query_scalar("SELECT id FROM memory_windows WHERE turn = ? AND part = ? AND fact IS NULL");
        let id = id.bind(turn.0).bind(part).fetch_optional(&self.shared.readers).await;
        id.map_err(|e| self.shared.sqlx(&e))
    }

    /// The first window that is this passage of a user turn.
    pub async fn memory_window_of(&self, session: &str, turn_no: u32, part: u32) -> Result<Option<i64>> {
        let id = sqlx::query_scalar(
            "SELECT min(id) FROM memory_windows WHERE session = ? AND turn_no = ? AND part = ? AND fact IS NULL",
        );
        let id = id.bind(session).bind(turn_no).bind(part).fetch_one(&self.shared.readers).await;
        id.map_err(|e| self.shared.sqlx(&e))
    }

    /// Numbers of windows with the given session, oldest first.
    pub async fn memory_windows_of(&self, session: &str) -> Result<Vec<i64>> {
        let ids = sqlx::query_scalar("SELECT id FROM memory_windows WHERE session = ? ORDER BY id").bind(session);
        ids.fetch_all(&self.shared.readers).await.map_err(|e| self.shared.sqlx(&e))
    }

    /// Ids of memories that were put into this session before.
    pub async fn memory_shown(&self, session: &str) -> Result<Vec<String>> {
        let ids = sqlx::query_scalar(
            "SELECT DISTINCT a.value ->> 'id' FROM turns t, json_each(t.additions) a
             WHERE t.session = (SELECT key FROM sessions WHERE id = ?) AND t.additions IS NOT NULL
               AND a.value ->> 'kind' = 'memory'",
        );
        ids.bind(session).fetch_all(&self.shared.readers).await.map_err(|e| self.shared.sqlx(&e))
    }
}
