//! What turns say about skills: read from the journal once, settled when the user has reacted, asked for by skill.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use crate::read::json;
use crate::{Addition, Outcome, Result, Store, TurnId};

/// A main row of the journal, as far as skills care.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillRow {
    /// Row number.
    pub id: TurnId,
    /// Session id.
    pub session: String,
    /// User turn within the session, from 1.
    pub turn_no: u32,
    /// Agent; empty = unknown.
    pub agent: String,
    /// What was added.
    pub additions: Vec<Addition>,
    /// What fitted and was left out.
    pub held_out: Vec<Addition>,
}

/// A user turn to be entered, with the skills that fitted it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewSkillTurn {
    /// Row of the journal.
    pub turn: TurnId,
    /// Session id.
    pub session: String,
    /// User turn within the session.
    pub turn_no: u32,
    /// Agent; empty = unknown.
    pub agent: String,
    /// Skills that fitted it.
    pub exposed: Vec<Exposed>,
}

/// A skill that fitted a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposed {
    /// Its name.
    pub name: String,
    /// Hash of its text.
    pub version: String,
    /// It was left out.
    pub held_out: bool,
    /// How likely that was; 0 = it is not measured against turns without it.
    pub share: f64,
    /// Estimated tokens.
    pub tokens: u32,
}

/// A user turn whose outcome can be known now.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingTurn {
    /// Its first row in the journal.
    pub turn: TurnId,
    /// Session id.
    pub session: String,
    /// User turn within the session.
    pub turn_no: u32,
    /// The judge's score, 0–1.
    pub judge: Option<f64>,
}

/// Which turns are asked for whose outcome is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// All of them.
    All,
    /// Those that wait for no judge: no skill is measured by them, or the judge has said what it has to say.
    Ready,
    /// Those that a skill is measured by and that the judge has not been asked about; none of private sessions.
    Unscored,
}

/// One request of a user turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRow {
    /// Row number.
    pub id: TurnId,
    /// User turn within the session.
    pub turn_no: u32,
    /// Request within the user turn, from 0.
    pub step: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// The API that the request is in.
    pub dialect: String,
    /// Why the model stopped.
    pub stop: Option<String>,
    /// State of the conversation that it continued.
    pub prior_state: Option<Vec<u8>>,
    /// The user's own words.
    pub user_text: Option<String>,
    /// The answer's text.
    pub answer_text: Option<String>,
}

/// What came of a user turn, beside a judge's score.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SkillOutcome {
    /// `correction`, `thanks` or `none`.
    pub reaction: &'static str,
    /// Tools that failed in it.
    pub tool_errors: u32,
    /// Requests that failed and came again.
    pub retries: u32,
    /// Answers that were asked for once more.
    pub regenerations: u32,
    /// It counts as good.
    pub good: bool,
}

/// What is known of a user turn's outcome.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownOutcome {
    /// `correction`, `thanks` or `none`.
    pub reaction: String,
    /// Tools that failed in it.
    pub tool_errors: u32,
    /// Requests that failed and came again.
    pub retries: u32,
    /// Answers that were asked for once more.
    pub regenerations: u32,
    /// The judge's score, 0–1.
    pub judge: Option<f64>,
    /// It counts as good.
    pub good: bool,
}

/// A turn that a skill fitted, and what came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Observation {
    /// Number of its session.
    pub conversation: i64,
    /// The skill was left out.
    pub held_out: bool,
    /// How likely that was.
    pub share: f64,
    /// What came of it was good.
    pub good: bool,
    /// Estimated tokens that the skill cost, or would have.
    pub tokens: u32,
}

/// A session with turns that were not looked through yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueSession {
    /// Session id.
    pub session: String,
    /// Agent; empty = unknown.
    pub agent: String,
    /// The first user turn.
    pub first: u32,
    /// The last user turn.
    pub last: u32,
    /// The session has ended.
    pub ended: bool,
}

fn turn_row(row: &SqliteRow) -> sqlx::Result<TurnRow> {
    Ok(TurnRow {
        id: TurnId(row.try_get("id")?),
        turn_no: row.try_get("turn_no")?,
        step: row.try_get("step")?,
        outcome: Outcome::from_column(row.try_get("outcome")?),
        dialect: row.try_get("dialect")?,
        stop: row.try_get("stop")?,
        prior_state: row.try_get("prior_state")?,
        user_text: row.try_get("user_text")?,
        answer_text: row.try_get("answer_text")?,
    })
}

impl Store {
    /// Rows of main conversations that skills have not read yet, oldest first, at most `limit`; none of private sessions.
    /// Then where the cursor stands, and the last row looked at, whatever its kind.
    pub async fn skill_rows(&self, limit: u32) -> Result<(Vec<SkillRow>, TurnId, TurnId)> {
        let readers = self.settled().await;
        let read = async {
            let from: i64 = sqlx::query_scalar("SELECT turn FROM skill_cursor").fetch_one(readers).await?;
            let rows = sqlx::query(
                "SELECT t.id, s.id AS session, turn_no, ifnull(t.agent, '') AS agent, additions, held_out,
                        kind = 'main' AND s.private = 0 AS wanted
                 FROM turns t JOIN sessions s ON s.key = t.session WHERE t.id > ? ORDER BY t.id LIMIT ?",
            );
            let rows = rows.bind(from).bind(limit).fetch_all(readers).await?;
            let last = rows.last().map_or(Ok(from), |row| row.try_get("id"))?;
            let wanted = rows.iter().filter(|row| row.try_get("wanted").unwrap_or(false));
            let row = |row: &SqliteRow| {
                Ok(SkillRow {
                    id: TurnId(row.try_get("id")?),
                    session: row.try_get("session")?,
                    turn_no: row.try_get("turn_no")?,
                    agent: row.try_get("agent")?,
                    additions: json(row, "additions")?,
                    held_out: json(row, "held_out")?,
                })
            };
            let rows: sqlx::Result<Vec<_>> = wanted.map(row).collect();
            Ok((rows?, TurnId(from), TurnId(last)))
        };
        read.await.map_err(|e| self.shared.sqlx(&e))
    }

    /// Enters user turns and moves the cursor with them. False, and nothing is written, where another process was quicker.
    pub async fn skill_absorb(&self, from: TurnId, to: TurnId, turns: Vec<NewSkillTurn>) -> Result<bool> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let moved = sqlx::query("UPDATE skill_cursor SET turn = ? WHERE turn = ?");
                if moved.bind(to.0).bind(from.0).execute(&mut *conn).await?.rows_affected() == 0 {
                    return Ok(false);
                }
                for turn in turns {
                    enter(conn, &turn).await?;
                }
                Ok(true)
            })
        })
        .await
    }

    /// User turns whose outcome is not known yet and can be: the user has said something since, or the session has ended.
    pub async fn skill_pending(&self, which: Pending, limit: u32) -> Result<Vec<PendingTurn>> {
        let unscored = match which {
            Pending::All => None,
            Pending::Ready => Some(false),
            Pending::Unscored => Some(true),
        };
        let rows = sqlx::query(
            "SELECT turn, session, turn_no, judge
             FROM skill_turns t WHERE settled IS NULL AND (
                 EXISTS (SELECT 1 FROM skill_turns n WHERE n.session = t.session AND n.turn_no > t.turn_no)
                 OR EXISTS (SELECT 1 FROM sessions s WHERE s.id = t.session AND s.ended IS NOT NULL))
               AND (?1 IS NULL OR ?1 = (scored = 0
                 AND EXISTS (SELECT 1 FROM sessions s WHERE s.id = t.session AND s.private = 0)
                 AND EXISTS (SELECT 1 FROM skill_exposures e WHERE e.turn = t.turn AND e.share > 0 AND e.share < 1)))
             ORDER BY turn LIMIT ?2",
        );
        let rows = rows.bind(unscored).bind(limit).fetch_all(&self.shared.readers).await;
        let pending = |row: &SqliteRow| {
            Ok(PendingTurn {
                turn: TurnId(row.try_get("turn")?),
                session: row.try_get("session")?,
                turn_no: row.try_get("turn_no")?,
                judge: row.try_get("judge")?,
            })
        };
        rows.and_then(|rows| rows.iter().map(pending).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Writes down what a judge has to say of a turn: a score from 0 to 1, or nothing. Whether it came in time.
    pub async fn skill_score(&self, turn: TurnId, score: Option<f64>) -> Result<bool> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let scored =
                    "UPDATE skill_turns SET scored = 1, judge = ?2 WHERE turn = ?1 AND scored = 0 AND settled IS NULL";
                let done = sqlx::query(scored).bind(turn.0).bind(score).execute(conn).await?;
                Ok(done.rows_affected() > 0)
            })
        })
        .await
    }

    /// A judge's scores of these user turns of a session, by their numbers.
    pub async fn skill_scores(&self, session: &str, first: u32, last: u32) -> Result<Vec<(u32, f64)>> {
        let rows = sqlx::query_as(
            "SELECT turn_no, judge FROM skill_turns
             WHERE session = ? AND turn_no BETWEEN ? AND ? AND judge IS NOT NULL ORDER BY turn_no",
        );
        let rows = rows.bind(session).bind(first).bind(last).fetch_all(&self.shared.readers).await;
        rows.map_err(|e| self.shared.sqlx(&e))
    }

    /// What came of a user turn, once that is known.
    pub async fn skill_outcome(&self, session: &str, turn_no: u32) -> Result<Option<KnownOutcome>> {
        let row = sqlx::query(
            "SELECT reaction, tool_errors, retries, regenerations, judge, good FROM skill_turns
             WHERE session = ? AND turn_no = ? AND settled IS NOT NULL",
        );
        let known = |row: SqliteRow| {
            Ok(KnownOutcome {
                reaction: row.try_get::<Option<String>, _>("reaction")?.unwrap_or_default(),
                tool_errors: row.try_get("tool_errors")?,
                retries: row.try_get("retries")?,
                regenerations: row.try_get("regenerations")?,
                judge: row.try_get("judge")?,
                good: row.try_get::<Option<bool>, _>("good")?.unwrap_or(false),
            })
        };
        let row = row.bind(session).bind(turn_no).fetch_optional(&self.shared.readers).await;
        row.and_then(|row| row.map(known).transpose()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Main rows of these user turns of a session, oldest first.
    pub async fn skill_turn_rows(&self, session: &str, first: u32, last: u32) -> Result<Vec<TurnRow>> {
        let rows = sqlx::query(
            "SELECT id, turn_no, step, outcome, dialect, stop, prior_state, user_text, answer_text FROM turns
             WHERE session = (SELECT key FROM sessions WHERE id = ?) AND kind = 'main' AND turn_no BETWEEN ? AND ?
             ORDER BY id",
        );
        let rows = rows.bind(session).bind(first).bind(last).fetch_all(self.settled().await).await;
        rows.and_then(|rows| rows.iter().map(turn_row).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Writes down what came of user turns; what is known already stays. The skills that fitted them.
    pub async fn skill_settle(&self, outcomes: Vec<(TurnId, SkillOutcome)>) -> Result<Vec<String>> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let turns = crate::memory::json_list(outcomes.iter().map(|(turn, _)| turn.0));
                for (turn, outcome) in outcomes {
                    sqlx::query(
                        "UPDATE skill_turns SET reaction = ?2, tool_errors = ?3, retries = ?4, regenerations = ?5,
                                good = ?6,
                                settled = (SELECT ifnull(max(settled), 0) + 1 FROM skill_turns)
                         WHERE turn = ?1 AND settled IS NULL",
                    )
                    .bind(turn.0)
                    .bind(outcome.reaction)
                    .bind(outcome.tool_errors)
                    .bind(outcome.retries)
                    .bind(outcome.regenerations)
                    .bind(outcome.good)
                    .execute(&mut *conn)
                    .await?;
                }
                let names = "SELECT DISTINCT name FROM skill_exposures WHERE turn IN (SELECT value FROM json_each(?))";
                sqlx::query_scalar(names).bind(turns).fetch_all(conn).await
            })
        })
        .await
    }

    /// Turns that a skill fitted and whose outcome is known, in the order in which it became known. Of one text (its
    /// hash), of one agent, or of all.
    pub async fn skill_observations(
        &self,
        name: &str,
        version: Option<&str>,
        agent: Option<&str>,
    ) -> Result<Vec<Observation>> {
        let rows = sqlx::query(
            "SELECT s.key, e.held_out, e.share, e.tokens, t.good FROM skill_exposures e
             JOIN skill_turns t ON t.turn = e.turn JOIN sessions s ON s.id = t.session
             WHERE e.name = ?1 AND (?2 IS NULL OR e.version = ?2) AND (?3 IS NULL OR t.agent = ?3)
               AND t.settled IS NOT NULL
             ORDER BY t.settled",
        );
        let rows = rows.bind(name).bind(version).bind(agent).fetch_all(&self.shared.readers).await;
        let observation = |row: &SqliteRow| {
            Ok(Observation {
                conversation: row.try_get("key")?,
                held_out: row.try_get("held_out")?,
                share: row.try_get("share")?,
                good: row.try_get::<Option<bool>, _>("good")?.unwrap_or(false),
                tokens: row.try_get("tokens")?,
            })
        };
        rows.and_then(|rows| rows.iter().map(observation).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Names and texts' hashes of skills that fitted any turn.
    pub async fn skill_observed(&self) -> Result<Vec<(String, String)>> {
        let rows = sqlx::query_as("SELECT DISTINCT name, version FROM skill_exposures ORDER BY name, version");
        rows.fetch_all(&self.shared.readers).await.map_err(|e| self.shared.sqlx(&e))
    }

    /// Sessions with at least `every` user turns that were not looked through (0 = never for that), or that have ended
    /// with any; none of private ones. While a session goes on, its newest turn does not count: nobody knows yet how the user
    /// takes it.
    pub async fn skill_due(&self, every: u32, limit: u32) -> Result<Vec<DueSession>> {
        let rows = sqlx::query(
            "SELECT t.session, max(t.agent) AS agent, min(t.turn_no) AS first_turn, max(t.turn_no) AS last_turn,
                    s.ended IS NOT NULL AS is_over
             FROM skill_turns t JOIN sessions s ON s.id = t.session
             WHERE t.looked = 0 AND s.private = 0 AND (s.ended IS NOT NULL
                   OR EXISTS (SELECT 1 FROM skill_turns n WHERE n.session = t.session AND n.turn_no > t.turn_no))
             GROUP BY t.session HAVING is_over OR (?1 > 0 AND count(*) >= ?1) ORDER BY min(t.turn) LIMIT ?2",
        );
        let rows = rows.bind(every).bind(limit).fetch_all(&self.shared.readers).await;
        let due = |row: &SqliteRow| {
            Ok(DueSession {
                session: row.try_get("session")?,
                agent: row.try_get("agent")?,
                first: row.try_get("first_turn")?,
                last: row.try_get("last_turn")?,
                ended: row.try_get("is_over")?,
            })
        };
        rows.and_then(|rows| rows.iter().map(due).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// What is known of one session, looked through or not; `None` where skills know no turn of it.
    pub async fn skill_session(&self, session: &str) -> Result<Option<DueSession>> {
        let row = sqlx::query_as::<_, (String, u32, u32, bool)>(
            "SELECT max(t.agent), min(t.turn_no), max(t.turn_no), s.ended IS NOT NULL
             FROM skill_turns t JOIN sessions s ON s.id = t.session WHERE t.session = ? AND s.private = 0
             GROUP BY t.session",
        );
        let row = row.bind(session).fetch_optional(&self.shared.readers).await.map_err(|e| self.shared.sqlx(&e))?;
        let known = |(agent, first, last, ended)| DueSession { session: session.to_owned(), agent, first, last, ended };
        Ok(row.map(known))
    }

    /// The session that was last active and that skills know turns of.
    pub async fn skill_latest_session(&self) -> Result<Option<String>> {
        let latest = sqlx::query_scalar(
            "SELECT t.session FROM skill_turns t JOIN sessions s ON s.id = t.session WHERE s.private = 0
             ORDER BY t.turn DESC LIMIT 1",
        );
        latest.fetch_optional(&self.shared.readers).await.map_err(|e| self.shared.sqlx(&e))
    }

    /// Sessions are looked through up to these user turns.
    pub async fn skill_passed(&self, sessions: Vec<(String, u32)>) -> Result<()> {
        self.write(move |conn, _| {
            Box::pin(async move {
                for (session, through) in sessions {
                    pass(conn, &session, through).await?;
                }
                Ok(())
            })
        })
        .await
    }
}

/// A session is looked through up to a user turn; while it goes on, its newest turn is not, since nobody knows yet how the
/// user takes it.
pub(super) async fn pass(conn: &mut SqliteConnection, session: &str, through: u32) -> sqlx::Result<()> {
    let pass = "UPDATE skill_turns SET looked = 1 WHERE session = ?1 AND turn_no <= ?2 AND looked = 0
                  AND ((SELECT ended FROM sessions WHERE id = ?1) IS NOT NULL
                       OR turn_no < (SELECT max(turn_no) FROM skill_turns WHERE session = ?1))";
    sqlx::query(pass).bind(session).bind(through).execute(conn).await?;
    Ok(())
}

async fn enter(conn: &mut SqliteConnection, turn: &NewSkillTurn) -> sqlx::Result<()> {
    // A row that was deleted meanwhile takes its user turn with it.
    sqlx::query(
        "INSERT INTO skill_turns (turn, session, turn_no, agent)
         SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM turns WHERE id = ?1) ON CONFLICT DO NOTHING",
    )
    .bind(turn.turn.0)
    .bind(turn.session.as_str())
    .bind(turn.turn_no)
    .bind(turn.agent.as_str())
    .execute(&mut *conn)
    .await?;
    for exposed in &turn.exposed {
        sqlx::query(
            "INSERT INTO skill_exposures (turn, name, version, held_out, share, tokens)
             SELECT turn, ?3, ?4, ?5, ?6, ?7 FROM skill_turns WHERE session = ?1 AND turn_no = ?2 ON CONFLICT DO NOTHING",
        )
        .bind(turn.session.as_str())
        .bind(turn.turn_no)
        .bind(exposed.name.as_str())
        .bind(exposed.version.as_str())
        .bind(exposed.held_out)
        .bind(exposed.share)
        .bind(exposed.tokens)
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}
