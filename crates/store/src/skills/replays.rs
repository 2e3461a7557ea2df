//! Comparisons of answers with and without a learned skill: what a judge said of which turns, and what it took. The turns are
//! named; nothing that was said is kept here.

use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::read::json;
use crate::{Result, Store, TurnId};

/// One comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SkillReplay {
    /// Its number; 0 before it is written.
    pub id: i64,
    /// When, ms since 1970.
    pub at_ms: i64,
    /// The skill's name.
    pub name: String,
    /// Hash of its text.
    pub version: String,
    /// The judge.
    pub model: String,
    /// Turns whose answer with it was liked better.
    pub better: u32,
    /// Turns whose answer without it was.
    pub worse: u32,
    /// Turns in which neither was, both ways round.
    pub same: u32,
    /// Turns on both sides that were known of it then.
    pub exposures: u32,
    /// Estimated tokens, of questions and answers.
    pub tokens: u64,
    /// The turns.
    pub turns: Vec<ReplayedTurn>,
}

/// One turn of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayedTurn {
    /// Its first row in the journal.
    pub turn: TurnId,
    /// `better`, `worse`, `same`.
    pub verdict: String,
}

/// A turn that a skill fitted and was left out of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldOut {
    /// Its first row in the journal.
    pub turn: TurnId,
    /// Session id.
    pub session: String,
    /// User turn within the session.
    pub turn_no: u32,
}

fn replay(row: &SqliteRow) -> sqlx::Result<SkillReplay> {
    Ok(SkillReplay {
        id: row.try_get("id")?,
        at_ms: row.try_get("at")?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        model: row.try_get("model")?,
        better: row.try_get("better")?,
        worse: row.try_get("worse")?,
        same: row.try_get("same")?,
        exposures: row.try_get("exposures")?,
        tokens: u64::try_from(row.try_get::<i64, _>("tokens")?).unwrap_or_default(),
        turns: json(row, "turns")?,
    })
}

impl Store {
    /// Writes a comparison down; its number.
    pub async fn skill_replay_add(&self, new: SkillReplay) -> Result<i64> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let turns = serde_json::to_string(&new.turns).unwrap_or_else(|_| "[]".into());
                let done = sqlx::query(
                    "INSERT INTO skill_replays
                         (at, name, version, model, better, worse, same, exposures, tokens, turns)
                     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                )
                .bind(new.at_ms)
                .bind(new.name)
                .bind(new.version)
                .bind(new.model)
                .bind(new.better)
                .bind(new.worse)
                .bind(new.same)
                .bind(new.exposures)
                .bind(i64::try_from(new.tokens).unwrap_or(i64::MAX))
                .bind(turns)
                .execute(conn)
                .await?;
                Ok(done.last_insert_rowid())
            })
        })
        .await
    }

    /// The comparisons of a skill, newest first: of one text (its hash), or of all.
    pub async fn skill_replays(&self, name: &str, version: Option<&str>) -> Result<Vec<SkillReplay>> {
        let rows = sqlx::query(
            "SELECT * FROM skill_replays WHERE name = ?1 AND (?2 IS NULL OR version = ?2) ORDER BY id DESC",
        );
        let rows = rows.bind(name).bind(version).fetch_all(&self.shared.readers).await;
        rows.and_then(|rows| rows.iter().map(replay).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Turns that a text fitted and was left out of, and whose outcome is known, newest first; none of private sessions.
    pub async fn skill_held_out(&self, name: &str, version: &str, limit: u32) -> Result<Vec<HeldOut>> {
        let rows = sqlx::query(
            "SELECT t.turn, t.session, t.turn_no FROM skill_exposures e
             JOIN skill_turns t ON t.turn = e.turn JOIN sessions s ON s.id = t.session
             WHERE e.name = ?1 AND e.version = ?2 AND e.held_out = 1 AND t.settled IS NOT NULL AND s.private = 0
             ORDER BY t.turn DESC LIMIT ?3",
        );
        let rows = rows.bind(name).bind(version).bind(limit).fetch_all(&self.shared.readers).await;
        let held_out = |row: &SqliteRow| {
            Ok(HeldOut {
                turn: TurnId(row.try_get("turn")?),
                session: row.try_get("session")?,
                turn_no: row.try_get("turn_no")?,
            })
        };
        rows.and_then(|rows| rows.iter().map(held_out).collect()).map_err(|e| self.shared.sqlx(&e))
    }
}
