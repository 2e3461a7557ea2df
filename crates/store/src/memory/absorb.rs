//! The journal as memory reads it, and the one transaction in which what was read becomes windows and facts.

use std::collections::{HashMap, HashSet};

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use super::{NewFact, facts, pack, scope_key};
use crate::{Outcome, Result, Scope, Store, TurnId};

/// A main row of the journal, as far as memory cares.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryTurn {
    /// Row number.
    pub id: TurnId,
    /// Session id.
    pub session: String,
    /// Agent, if known.
    pub agent: Option<String>,
    /// User turn within the session, from 1.
    pub turn_no: u32,
    /// Request within the user turn, from 0.
    pub step: u32,
    /// When the request arrived, ms since 1970.
    pub started_ms: i64,
    /// When the answer was complete, ms since 1970.
    pub finished_ms: i64,
    /// How it ended.
    pub outcome: Outcome,
    /// Why the model stopped.
    pub stop: Option<String>,
    /// The user's own words.
    pub user_text: Option<String>,
    /// The answer's text.
    pub answer_text: Option<String>,
    /// Whose memory it is.
    pub scope: Scope,
}

/// A passage to be remembered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewWindow {
    /// Scope string.
    pub scope: String,
    /// Session id.
    pub session: String,
    /// Journal row, if it comes from there.
    pub turn: Option<TurnId>,
    /// User turn within the session.
    pub turn_no: u32,
    /// Passage within the turn, from 0.
    pub part: u32,
    /// Who said it.
    pub speaker: String,
    /// When, ms since 1970.
    pub at_ms: i64,
    /// Not recalled until the user accepts it.
    pub quarantined: bool,
    /// Hash of the text, for tombstones.
    pub hash: i64,
    /// The text, without secrets.
    pub text: String,
    /// Terms by number, with what each says.
    pub terms: Vec<(u32, u8)>,
}

/// What a stretch of the journal became.
#[derive(Debug, Clone, Default)]
pub struct Absorbed {
    /// Where the cursor stood; `None` = this does not come from the journal, the cursor stays.
    pub cursor: Option<(TurnId, TurnId)>,
    /// Passages.
    pub windows: Vec<NewWindow>,
    /// Facts, in the order in which they were said.
    pub facts: Vec<NewFact>,
}

fn turn(row: &SqliteRow) -> sqlx::Result<MemoryTurn> {
    Ok(MemoryTurn {
        id: TurnId(row.try_get("id")?),
        session: row.try_get("session")?,
        agent: row.try_get("agent")?,
        turn_no: row.try_get("turn_no")?,
        step: row.try_get("step")?,
        started_ms: row.try_get("started")?,
        finished_ms: row.try_get("finished")?,
        outcome: Outcome::from_column(row.try_get("outcome")?),
        stop: row.try_get("stop")?,
        user_text: row.try_get("user_text")?,
        answer_text: row.try_get("answer_text")?,
        scope: Scope {
            user_id: row.try_get("user_id")?,
            workspace_id: row.try_get("workspace_id")?,
            memory_scope: row.try_get("memory_scope")?,
        },
    })
}

impl Store {
    /// Rows of main conversations after `after`, oldest first, at most `limit`; none of private sessions. The second
    /// value is the last row looked at, whatever its kind.
    pub async fn memory_turns(&self, after: TurnId, limit: u32) -> Result<(Vec<MemoryTurn>, TurnId)> {
        let rows = sqlx::query(
            "SELECT t.id, s.id AS session, t.agent, t.kind = 'main' AND s.private = 0 AS wanted, turn_no, step,
                    t.started, finished, outcome, stop, user_text, answer_text, user_id, workspace_id, memory_scope
             FROM turns t JOIN sessions s ON s.key = t.session WHERE t.id > ? ORDER BY t.id LIMIT ?",
        )
        .bind(after.0)
        .bind(limit)
        .fetch_all(self.settled().await)
        .await
        .map_err(|e| self.shared.sqlx(&e))?;
        let last = rows.last().map_or(Ok(after.0), |row| row.try_get("id"));
        let wanted = rows.iter().filter(|row| row.try_get("wanted").unwrap_or(false));
        let turns: sqlx::Result<Vec<_>> = wanted.map(turn).collect();
        Ok((turns.map_err(|e| self.shared.sqlx(&e))?, TurnId(last.map_err(|e| self.shared.sqlx(&e))?)))
    }

    /// The last rows of main conversations of one session up to `until`, oldest first.
    pub async fn memory_turns_before(&self, session: &str, until: TurnId, limit: u32) -> Result<Vec<MemoryTurn>> {
        let rows = sqlx::query(
            "SELECT t.id, s.id AS session, t.agent, turn_no, step, t.started, finished, outcome, stop, user_text,
                    answer_text, user_id, workspace_id, memory_scope
             FROM turns t JOIN sessions s ON s.key = t.session
             WHERE s.id = ? AND t.id <= ? AND t.kind = 'main' AND s.private = 0 ORDER BY t.id DESC LIMIT ?",
        )
        .bind(session)
        .bind(until.0)
        .bind(limit)
        .fetch_all(self.settled().await)
        .await;
        rows.and_then(|rows| rows.iter().rev().map(turn).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Up to which row the journal has been read.
    pub async fn memory_cursor(&self) -> Result<TurnId> {
        let turn = sqlx::query_scalar("SELECT turn FROM memory_cursor").fetch_one(self.settled().await).await;
        turn.map(TurnId).map_err(|e| self.shared.sqlx(&e))
    }

    /// Writes what was read and moves the cursor, in one transaction. `false`: another process has read that stretch
    /// meanwhile, and nothing was written.
    pub async fn memory_absorb(&self, absorbed: Absorbed) -> Result<bool> {
        self.write(move |conn, _| {
            Box::pin(async move {
                if let Some((from, to)) = absorbed.cursor {
                    let moved =
                        sqlx::query("UPDATE memory_cursor SET turn = ?2 WHERE turn = ?1").bind(from.0).bind(to.0);
                    if moved.execute(&mut *conn).await?.rows_affected() == 0 {
                        return Ok(false);
                    }
                }
                let mut scopes = HashMap::new();
                for window in &absorbed.windows {
                    if !scopes.contains_key(&window.scope) {
                        scopes.insert(window.scope.clone(), scope_key(conn, &window.scope).await?);
                    }
                }
                let mut gone: HashSet<(i64, i64)> = HashSet::new();
                for window in &absorbed.windows {
                    let scope = scopes.get(&window.scope).copied().unwrap_or_default();
                    if tombstoned(conn, scope, window.hash).await? {
                        gone.insert((scope, window.hash));
                        continue;
                    }
                    insert_window(conn, scope, None, window).await?;
                }
                for fact in absorbed.facts {
                    facts::learn(conn, fact).await?;
                }
                Ok(true)
            })
        })
        .await
    }
}

/// Whether this was forgotten before.
pub(super) async fn tombstoned(conn: &mut SqliteConnection, scope: i64, hash: i64) -> sqlx::Result<bool> {
    let found = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM memory_tombstones WHERE scope = ? AND hash = ?)");
    found.bind(scope).bind(hash).fetch_one(conn).await
}

pub(super) async fn insert_window(
    conn: &mut SqliteConnection,
    scope: i64,
    fact: Option<i64>,
    window: &NewWindow,
) -> sqlx::Result<()> {
    // A turn whose row is gone meanwhile (its session was deleted) is not remembered.
    let turn = window.turn.map(|t| t.0);
    sqlx::query(
        "INSERT INTO memory_windows
             (scope, fact, session, turn, turn_no, part, speaker, at, quarantined, hash, text, terms)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 WHERE ?4 IS NULL OR EXISTS (SELECT 1 FROM turns WHERE id = ?4)",
    )
    .bind(scope)
    .bind(fact)
    .bind(window.session.as_str())
    .bind(turn)
    .bind(window.turn_no)
    .bind(window.part)
    .bind(window.speaker.as_str())
    .bind(window.at_ms)
    .bind(window.quarantined)
    .bind(window.hash)
    .bind(window.text.as_str())
    .bind(pack(&window.terms))
    .execute(conn)
    .await?;
    Ok(())
}
