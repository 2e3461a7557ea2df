//! The texts of skills and what was decided about them: versions, proposals, states, generations.

use serde::Serialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row as _, Sqlite};

use crate::{Result, Store};

/// A text to be kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewSkillVersion {
    /// The skill's name.
    pub name: String,
    /// Hash of the text, hexadecimal.
    pub hash: String,
    /// The whole SKILL.md.
    pub text: String,
    /// `builtin`, `user`, `evolved`, `import`.
    pub origin: String,
    /// Where the content comes from: `user`, `assistant`, `tool`, `import`; empty = not known.
    pub source: String,
    /// The version it was made from.
    pub parent: Option<i64>,
    /// The session it was made from.
    pub session: Option<String>,
    /// The rows of the journal it was made from.
    pub turns: Vec<i64>,
    /// The model that wrote it.
    pub model: Option<String>,
    /// When, ms since 1970.
    pub at_ms: i64,
}

/// A text that a skill has or had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkillVersion {
    /// Its number.
    pub id: i64,
    /// The skill's name.
    pub name: String,
    /// Hash of the text, hexadecimal.
    pub hash: String,
    /// The whole SKILL.md.
    pub text: String,
    /// `builtin`, `user`, `evolved`, `import`.
    pub origin: String,
    /// Where the content comes from.
    pub source: String,
    /// The version it was made from.
    pub parent: Option<i64>,
    /// The session it was made from.
    pub session: Option<String>,
    /// The rows of the journal it was made from.
    pub turns: Vec<i64>,
    /// The model that wrote it.
    pub model: Option<String>,
    /// When, ms since 1970.
    pub at_ms: i64,
}

/// One time the model was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SkillEvolution {
    /// Its number; 0 before it is written.
    pub id: i64,
    /// When, ms since 1970.
    pub at_ms: i64,
    /// About which session.
    pub session: String,
    /// Whose.
    pub agent: String,
    /// `turns`, `end`, `hand`.
    pub trigger: String,
    /// The first user turn it saw.
    pub first_turn: u32,
    /// The last one.
    pub last_turn: u32,
    /// The model.
    pub model: String,
    /// What it said, as it came.
    pub reply: String,
    /// `nothing`, `proposed`, `refused`, `malformed`.
    pub outcome: String,
    /// Why, in words.
    pub note: String,
}

/// A skill, or a change of one, that was proposed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SkillProposal {
    /// Its number; 0 before it is written.
    pub id: i64,
    /// When, ms since 1970.
    pub at_ms: i64,
    /// The asking it comes from.
    pub evolution: Option<i64>,
    /// `create`, `revise`, `import`.
    pub kind: String,
    /// The skill's name.
    pub name: String,
    /// The text.
    pub version: i64,
    /// The text it revises.
    pub base: Option<i64>,
    /// Whose; empty = everybody's.
    pub agent: String,
    /// `waiting`, `taking` (its text is being written), `taken`, `rejected`.
    pub state: String,
    /// Why it waits: `quarantine`, `suggestion`, `review`, `full`.
    pub hold: Option<String>,
    /// What the linter says, as JSON.
    pub findings: String,
    /// Why, in the model's words.
    pub reason: String,
    /// When it was decided, ms since 1970.
    pub decided_ms: Option<i64>,
}

/// Where a learned skill stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SkillState {
    /// Its name.
    pub name: String,
    /// `trial`, `active`, `retired`.
    pub state: String,
    /// The text.
    pub version: i64,
    /// Hash of the text.
    pub hash: String,
    /// Whose; empty = everybody's.
    pub agent: String,
    /// Since when, ms since 1970.
    pub since_ms: i64,
    /// Why, in words.
    pub reason: String,
}

/// The number of the last change of a set of skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation {
    /// Whose set; empty = what all share.
    pub agent: String,
    /// The number.
    pub number: i64,
    /// Names the set.
    pub fingerprint: String,
}

fn version(row: &SqliteRow) -> sqlx::Result<SkillVersion> {
    let turns: String = row.try_get("turns")?;
    Ok(SkillVersion {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        hash: row.try_get("hash")?,
        text: row.try_get("text")?,
        origin: row.try_get("origin")?,
        source: row.try_get("source")?,
        parent: row.try_get("parent")?,
        session: row.try_get("session")?,
        turns: serde_json::from_str(&turns).unwrap_or_default(),
        model: row.try_get("model")?,
        at_ms: row.try_get("at")?,
    })
}

fn evolution(row: &SqliteRow) -> sqlx::Result<SkillEvolution> {
    Ok(SkillEvolution {
        id: row.try_get("id")?,
        at_ms: row.try_get("at")?,
        session: row.try_get("session")?,
        agent: row.try_get("agent")?,
        trigger: row.try_get("trigger")?,
        first_turn: row.try_get("first_turn")?,
        last_turn: row.try_get("last_turn")?,
        model: row.try_get("model")?,
        reply: row.try_get("reply")?,
        outcome: row.try_get("outcome")?,
        note: row.try_get("note")?,
    })
}

fn proposal(row: &SqliteRow) -> sqlx::Result<SkillProposal> {
    Ok(SkillProposal {
        id: row.try_get("id")?,
        at_ms: row.try_get("at")?,
        evolution: row.try_get("evolution")?,
        kind: row.try_get("kind")?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        base: row.try_get("base")?,
        agent: row.try_get("agent")?,
        state: row.try_get("state")?,
        hold: row.try_get("hold")?,
        findings: row.try_get("findings")?,
        reason: row.try_get("reason")?,
        decided_ms: row.try_get("decided")?,
    })
}

impl Store {
    /// Keeps texts; the number of each. One that is known keeps its number and its origin.
    pub async fn skill_versions_add(&self, versions: Vec<NewSkillVersion>) -> Result<Vec<i64>> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let mut ids = Vec::with_capacity(versions.len());
                for new in versions {
                    let turns = serde_json::Value::from(new.turns).to_string();
                    sqlx::query(
                        "INSERT INTO skill_versions (name, hash, text, origin, source, parent, session, turns, model, at)
                         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name, hash) DO NOTHING",
                    )
                    .bind(new.name.as_str())
                    .bind(new.hash.as_str())
                    .bind(new.text)
                    .bind(new.origin)
                    .bind(new.source)
                    .bind(new.parent)
                    .bind(new.session)
                    .bind(turns)
                    .bind(new.model)
                    .bind(new.at_ms)
                    .execute(&mut *conn)
                    .await?;
                    let id = sqlx::query_scalar("SELECT id FROM skill_versions WHERE name = ? AND hash = ?");
                    ids.push(id.bind(new.name).bind(new.hash).fetch_one(&mut *conn).await?);
                }
                Ok(ids)
            })
        })
        .await
    }

    /// The texts of a skill, oldest first.
    pub async fn skill_versions(&self, name: &str) -> Result<Vec<SkillVersion>> {
        let rows = sqlx::query("SELECT * FROM skill_versions WHERE name = ? ORDER BY id").bind(name);
        let rows = rows.fetch_all(&self.shared.readers).await;
        rows.and_then(|rows| rows.iter().map(version).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// One text.
    pub async fn skill_version(&self, id: i64) -> Result<Option<SkillVersion>> {
        let row = sqlx::query("SELECT * FROM skill_versions WHERE id = ?").bind(id);
        let row = row.fetch_optional(&self.shared.readers).await;
        row.and_then(|row| row.as_ref().map(version).transpose()).map_err(|e| self.shared.sqlx(&e))
    }

    /// The texts that were made from this one, and from those.
    pub async fn skill_descendants(&self, id: i64) -> Result<Vec<SkillVersion>> {
        let rows = sqlx::query(
            "WITH RECURSIVE made (id) AS (
                 SELECT id FROM skill_versions WHERE parent = ?
                 UNION SELECT v.id FROM made JOIN skill_versions v ON v.parent = made.id)
             SELECT * FROM skill_versions WHERE id IN (SELECT id FROM made) ORDER BY id",
        );
        let rows = rows.bind(id).fetch_all(&self.shared.readers).await;
        rows.and_then(|rows| rows.iter().map(version).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Texts of other skills that were learned in turns in which this skill was shown.
    pub async fn skill_taught_under(&self, name: &str) -> Result<Vec<SkillVersion>> {
        let rows = sqlx::query(
            "SELECT * FROM skill_versions v WHERE v.origin = 'evolved' AND v.name <> ?1 AND EXISTS (
                 SELECT 1 FROM json_each(v.turns) j JOIN skill_exposures e ON e.turn = j.value
                 WHERE e.name = ?1 AND e.held_out = 0)
             ORDER BY v.id",
        );
        let rows = rows.bind(name).fetch_all(&self.shared.readers).await;
        rows.and_then(|rows| rows.iter().map(version).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Writes down that the model was asked, what was proposed on it, and up to where the session is looked through.
    /// The proposals' numbers; none where the session is gone meanwhile.
    pub async fn skill_evolved(&self, asked: SkillEvolution, proposals: Vec<SkillProposal>) -> Result<Vec<i64>> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let there = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM sessions WHERE id = ? AND private = 0");
                if there.bind(asked.session.as_str()).fetch_one(&mut *conn).await? == 0 {
                    return Ok(Vec::new());
                }
                let (session, last) = (asked.session.clone(), asked.last_turn);
                let done = sqlx::query(
                    "INSERT INTO skill_evolutions
                         (at, session, agent, trigger, first_turn, last_turn, model, reply, outcome, note)
                     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                )
                .bind(asked.at_ms)
                .bind(asked.session.as_str())
                .bind(asked.agent)
                .bind(asked.trigger)
                .bind(asked.first_turn)
                .bind(asked.last_turn)
                .bind(asked.model)
                .bind(asked.reply)
                .bind(asked.outcome)
                .bind(asked.note)
                .execute(&mut *conn)
                .await?;
                let evolution = done.last_insert_rowid();
                super::turns::pass(conn, &session, last).await?;
                let mut ids = Vec::new();
                for new in proposals {
                    ids.push(propose(conn, SkillProposal { evolution: Some(evolution), ..new }).await?);
                }
                Ok(ids)
            })
        })
        .await
    }

    /// Enters proposals that no model made.
    pub async fn skill_propose(&self, proposals: Vec<SkillProposal>) -> Result<Vec<i64>> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let mut ids = Vec::new();
                for new in proposals {
                    ids.push(propose(conn, new).await?);
                }
                Ok(ids)
            })
        })
        .await
    }

    /// Times the model was asked, newest first.
    pub async fn skill_evolutions(&self, session: Option<&str>, limit: u32) -> Result<Vec<SkillEvolution>> {
        let rows =
            sqlx::query("SELECT * FROM skill_evolutions WHERE ?1 IS NULL OR session = ?1 ORDER BY id DESC LIMIT ?2");
        let rows = rows.bind(session).bind(limit).fetch_all(&self.shared.readers).await;
        rows.and_then(|rows| rows.iter().map(evolution).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// One time the model was asked.
    pub async fn skill_evolution(&self, id: i64) -> Result<Option<SkillEvolution>> {
        let row = sqlx::query("SELECT * FROM skill_evolutions WHERE id = ?").bind(id);
        let row = row.fetch_optional(&self.shared.readers).await;
        row.and_then(|row| row.as_ref().map(evolution).transpose()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Proposals, newest first: in this state, or all.
    pub async fn skill_proposals(&self, state: Option<&str>, limit: u32) -> Result<Vec<SkillProposal>> {
        let rows =
            sqlx::query("SELECT * FROM skill_proposals WHERE ?1 IS NULL OR state = ?1 ORDER BY id DESC LIMIT ?2");
        let rows = rows.bind(state).bind(limit).fetch_all(&self.shared.readers).await;
        rows.and_then(|rows| rows.iter().map(proposal).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// One proposal.
    pub async fn skill_proposal(&self, id: i64) -> Result<Option<SkillProposal>> {
        let row = sqlx::query("SELECT * FROM skill_proposals WHERE id = ?").bind(id);
        let row = row.fetch_optional(&self.shared.readers).await;
        row.and_then(|row| row.as_ref().map(proposal).transpose()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Decides a proposal that waits, or gives it another text first. False if it does not wait any more.
    pub async fn skill_decide(
        &self,
        id: i64,
        state: &'static str,
        version: Option<(i64, String)>,
        at_ms: i64,
    ) -> Result<bool> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let (version, findings) = version.unzip();
                let done = sqlx::query(
                    "UPDATE skill_proposals SET state = ?2, version = ifnull(?3, version),
                            findings = ifnull(?4, findings), decided = CASE WHEN ?2 = 'waiting' THEN NULL ELSE ?5 END
                     WHERE id = ?1 AND state = 'waiting'",
                )
                .bind(id)
                .bind(state)
                .bind(version)
                .bind(findings)
                .bind(at_ms)
                .execute(conn)
                .await?;
                Ok(done.rows_affected() == 1)
            })
        })
        .await
    }

    /// Claims a proposal that waits, with the text that is about to be written. False if it does not wait any more.
    pub async fn skill_claim(&self, id: i64, version: i64) -> Result<bool> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let claimed =
                    "UPDATE skill_proposals SET state = 'taking', version = ? WHERE id = ? AND state = 'waiting'";
                let done = sqlx::query(claimed).bind(version).bind(id).execute(conn).await?;
                Ok(done.rows_affected() == 1)
            })
        })
        .await
    }

    /// Gives a claimed proposal back: it waits for this reason.
    pub async fn skill_unclaim(&self, id: i64, hold: &'static str) -> Result<()> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let back = "UPDATE skill_proposals SET state = 'waiting', hold = ifnull(hold, ?) WHERE id = ? AND state = 'taking'";
                sqlx::query(back).bind(hold).bind(id).execute(conn).await?;
                Ok(())
            })
        })
        .await
    }

    /// A claimed proposal is taken, and its skill stands where it stands now, at once.
    pub async fn skill_taken(&self, id: i64, state: Option<SkillState>, at_ms: i64) -> Result<()> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let taken = "UPDATE skill_proposals SET state = 'taken', decided = ? WHERE id = ? AND state = 'taking'";
                sqlx::query(taken).bind(at_ms).bind(id).execute(&mut *conn).await?;
                if let Some(state) = state {
                    put_state(conn, state).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Where learned skills stand, by name.
    pub async fn skill_states(&self) -> Result<Vec<SkillState>> {
        let rows = sqlx::query(
            "SELECT s.*, v.hash FROM skill_states s JOIN skill_versions v ON v.id = s.version ORDER BY s.name",
        );
        let rows = rows.fetch_all(&self.shared.readers).await;
        let state = |row: &SqliteRow| {
            Ok(SkillState {
                name: row.try_get("name")?,
                state: row.try_get("state")?,
                version: row.try_get("version")?,
                hash: row.try_get("hash")?,
                agent: row.try_get("agent")?,
                since_ms: row.try_get("since")?,
                reason: row.try_get("reason")?,
            })
        };
        rows.and_then(|rows| rows.iter().map(state).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Puts learned skills where they stand now.
    pub async fn skill_put_states(&self, states: Vec<SkillState>) -> Result<()> {
        self.write(move |conn, _| {
            Box::pin(async move {
                for state in states {
                    put_state(conn, state).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// A skill is not a learned one any more: it is the user's.
    pub async fn skill_forget_states(&self, names: Vec<String>) -> Result<()> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let names = serde_json::Value::from(names).to_string();
                let gone = "DELETE FROM skill_states WHERE name IN (SELECT value FROM json_each(?))";
                sqlx::query(gone).bind(names).execute(conn).await?;
                Ok(())
            })
        })
        .await
    }

    /// The generations of all sets, and the highest number that was ever stamped on a turn.
    pub async fn skill_generations(&self) -> Result<(Vec<Generation>, i64)> {
        let read = async {
            let rows: Vec<(String, i64, String)> =
                sqlx::query_as("SELECT agent, number, fingerprint FROM skill_generations")
                    .fetch_all(&self.shared.readers)
                    .await?;
            // Later rows never have lower numbers but for a turn or two that overlapped.
            let stamped = "SELECT ifnull(max(skill_generation), 0) FROM
                               (SELECT skill_generation FROM turns ORDER BY id DESC LIMIT 200)";
            let stamped: i64 = sqlx::query_scalar(stamped).fetch_one(&self.shared.readers).await?;
            let sets = rows.into_iter().map(|(agent, number, fingerprint)| Generation { agent, number, fingerprint });
            Ok((sets.collect(), stamped))
        };
        read.await.map_err(|e| self.shared.sqlx(&e))
    }

    /// Keeps the generations of all sets.
    pub async fn skill_put_generations(&self, sets: Vec<Generation>) -> Result<()> {
        if sets.is_empty() {
            return Ok(());
        }
        self.write(move |conn, _| {
            Box::pin(async move {
                sqlx::query("DELETE FROM skill_generations").execute(&mut *conn).await?;
                let mut query =
                    QueryBuilder::<Sqlite>::new("INSERT INTO skill_generations (agent, number, fingerprint) ");
                query.push_values(sets, |mut row, set| {
                    row.push_bind(set.agent).push_bind(set.number).push_bind(set.fingerprint);
                });
                query.build().execute(conn).await?;
                Ok(())
            })
        })
        .await
    }
}

async fn put_state(conn: &mut sqlx::SqliteConnection, state: SkillState) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO skill_states (name, state, version, agent, since, reason) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (name) DO UPDATE SET state = excluded.state, version = excluded.version,
             agent = excluded.agent, since = excluded.since, reason = excluded.reason",
    )
    .bind(state.name)
    .bind(state.state)
    .bind(state.version)
    .bind(state.agent)
    .bind(state.since_ms)
    .bind(state.reason)
    .execute(conn)
    .await?;
    Ok(())
}

async fn propose(conn: &mut sqlx::SqliteConnection, new: SkillProposal) -> sqlx::Result<i64> {
    let done = sqlx::query(
        "INSERT INTO skill_proposals
             (at, evolution, kind, name, version, base, agent, state, hold, findings, reason, decided)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(new.at_ms)
    .bind(new.evolution)
    .bind(new.kind)
    .bind(new.name)
    .bind(new.version)
    .bind(new.base)
    .bind(new.agent)
    .bind(new.state)
    .bind(new.hold)
    .bind(new.findings)
    .bind(new.reason)
    .bind(new.decided_ms)
    .execute(conn)
    .await?;
    Ok(done.last_insert_rowid())
}
