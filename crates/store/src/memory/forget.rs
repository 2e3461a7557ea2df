//! Forgetting for good: the fact or passage, its place in the index, what was made of it, and the words in the journal.
//! Deleted bytes are overwritten (`secure_delete`) and the log is emptied; what stays is a hash, so that it is not learned
//! again.

use std::sync::atomic::Ordering;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use super::{index, scope_key, unpack};
use crate::{Result, Store, blocks};

/// What is to be forgotten.
#[derive(Debug, Clone)]
pub enum Forget {
    /// One fact, with every older and newer version of its slot if `history`.
    Fact {
        /// Its id.
        id: String,
        /// Older versions as well.
        history: bool,
    },
    /// One passage.
    Window(i64),
    /// Everything of one session, its journal included.
    Session(String),
    /// Everything of one scope, journal included.
    Scope(String),
}

/// What went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Forgotten {
    /// Facts.
    pub facts: u64,
    /// Passages.
    pub windows: u64,
    /// Journal rows whose words were taken out.
    pub turns: u64,
}

/// Words on their way out.
struct Needle {
    scope: i64,
    text: String,
    /// The journal row they come from.
    turn: Option<i64>,
}

impl Needle {
    /// Long enough to mean the same wherever they stand; shorter words go only where they were said.
    fn telling(&self) -> bool {
        self.text.len() >= 12
    }
}

/// How often, and how long apart, a moment without turns is waited for.
const SPOOL_TRIES: u32 = 50;
const SPOOL_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// What stands in the journal where something was forgotten.
const GONE: &str = "[forgotten]";
/// What stands there instead of a request body that held it.
const GONE_BODY: &[u8] = b"{\"forgotten\":true}";

impl Store {
    /// Deletes for good. Zeros if there is no such thing.
    pub async fn forget(&self, what: Forget, at_ms: i64) -> Result<Forgotten> {
        let done = self
            .write(move |conn, shared| {
                Box::pin(async move {
                    let mut done = Forgotten::default();
                    let mut needles = Vec::new();
                    let mut sessions = Vec::new();
                    // Names under which it may have been put into prompts.
                    let mut names = Vec::new();
                    match &what {
                        Forget::Fact { id, history } => {
                            for key in versions(conn, id, *history).await? {
                                names.push(forget_fact(conn, key, at_ms, &mut needles).await?);
                                done.facts += 1;
                            }
                        }
                        Forget::Window(id) => {
                            let row = sqlx::query("DELETE FROM memory_windows WHERE id = ? AND fact IS NULL RETURNING scope, session, turn, turn_no, part, hash, text, terms");
                            if let Some(row) = row.bind(id).fetch_optional(&mut *conn).await? {
                                let scope: i64 = row.try_get("scope")?;
                                let (session, terms): (String, Vec<u8>) = (row.try_get("session")?, row.try_get("terms")?);
                                names.extend(names_of(*id, &row)?);
                                index::unshare(conn, *id, &session, &unpack(&terms)).await?;
                                bury(conn, scope, row.try_get("hash")?, at_ms).await?;
                                let text: String = row.try_get("text")?;
                                // What was understood from these words goes with them.
                                let taken = sqlx::query_scalar(
                                    "SELECT key FROM memory_facts
                                     WHERE scope = ? AND session = ? AND quote <> '' AND instr(?, quote) > 0",
                                );
                                let taken: Vec<i64> = taken.bind(scope).bind(session).bind(text.as_str()).fetch_all(&mut *conn).await?;
                                for key in taken {
                                    names.push(forget_fact(conn, key, at_ms, &mut needles).await?);
                                    done.facts += 1;
                                }
                                needles.push(Needle { scope, text, turn: row.try_get("turn")? });
                                done.windows += 1;
                            }
                        }
                        Forget::Session(session) => sessions.push(session.clone()),
                        Forget::Scope(scope) => {
                            let key = scope_key(conn, scope).await?;
                            sessions = sqlx::query_scalar("SELECT DISTINCT session FROM memory_windows WHERE scope = ?")
                                .bind(key)
                                .fetch_all(&mut *conn)
                                .await?;
                        }
                    }
                    for session in &sessions {
                        let facts: Vec<i64> = sqlx::query_scalar("SELECT key FROM memory_facts WHERE session = ?")
                            .bind(session.as_str())
                            .fetch_all(&mut *conn)
                            .await?;
                        for key in facts {
                            names.push(forget_fact(conn, key, at_ms, &mut needles).await?);
                            done.facts += 1;
                        }
                    }
                    if let Forget::Scope(scope) = &what {
                        let facts = sqlx::query_scalar("SELECT f.key FROM memory_facts f JOIN memory_scopes s ON s.key = f.scope WHERE s.id = ?");
                        let facts: Vec<i64> = facts.bind(scope.as_str()).fetch_all(&mut *conn).await?;
                        for key in facts {
                            names.push(forget_fact(conn, key, at_ms, &mut needles).await?);
                            done.facts += 1;
                        }
                    }
                    // Passages that the words are part of go as well, and so does what the journal holds.
                    for needle in needles.iter().filter(|n| !n.text.trim().is_empty()) {
                        let gone = sqlx::query(
                            "DELETE FROM memory_windows
                             WHERE fact IS NULL AND scope = ?2 AND instr(text, ?1) > 0 AND (?3 OR turn = ?4)
                             RETURNING id, session, turn, turn_no, part, terms",
                        );
                        let gone = gone.bind(needle.text.as_str()).bind(needle.scope).bind(needle.telling());
                        for row in gone.bind(needle.turn).fetch_all(&mut *conn).await? {
                            let (session, terms): (String, Vec<u8>) = (row.try_get("session")?, row.try_get("terms")?);
                            let id = row.try_get("id")?;
                            names.extend(names_of(id, &row)?);
                            index::unshare(conn, id, &session, &unpack(&terms)).await?;
                            done.windows += 1;
                        }
                        done.turns += scrub(conn, needle).await?;
                    }
                    unshow(conn, &names).await?;
                    if !sessions.is_empty() {
                        sqlx::query("UPDATE deleted_turns SET highest = max(highest, ifnull((SELECT max(id) FROM turns), 0))")
                            .execute(&mut *conn)
                            .await?;
                    }
                    for session in &sessions {
                        let gone = sqlx::query("DELETE FROM memory_windows WHERE session = ?").bind(session.as_str());
                        done.windows += gone.execute(&mut *conn).await?.rows_affected();
                        let turns = sqlx::query("DELETE FROM sessions WHERE id = ? RETURNING requests").bind(session.as_str());
                        if let Some(row) = turns.fetch_optional(&mut *conn).await? {
                            done.turns += row.try_get::<i64, _>("requests")?.cast_unsigned();
                        }
                    }
                    if let Forget::Scope(scope) = &what {
                        // The index of the scope goes with it: nothing of it is left to be named.
                        for table in ["memory_postings", "memory_removed"] {
                            let gone = sqlx::AssertSqlSafe(format!(
                                "DELETE FROM {table} WHERE scope = (SELECT key FROM memory_scopes WHERE id = ?)"
                            ));
                            sqlx::query(gone).bind(scope.as_str()).execute(&mut *conn).await?;
                        }
                        sqlx::query("UPDATE memory_scopes SET indexed = 0 WHERE id = ?").bind(scope.as_str()).execute(&mut *conn).await?;
                    }
                    blocks::drop_unused(conn, shared).await?;
                    // Nothing may be made to stand on a body that is gone.
                    shared.bases().clear();
                    shared.deletions.fetch_add(1, Ordering::AcqRel);
                    Ok(done)
                })
            })
            .await?;
        if done != Forgotten::default() {
            while self.memory_unindexed().await?.1 > 0 && self.memory_index(1024).await? > 0 {}
            self.empty_log().await?;
            self.empty_spool().await;
        }
        Ok(done)
    }
}

impl Store {
    /// Takes the bytes of finished turns out of the file beside the database, as soon as none of them is on its way.
    async fn empty_spool(&self) {
        let Some(spool) = self.shared.spool.get() else { return };
        for _ in 0..SPOOL_TRIES {
            self.settled().await;
            match spool.wipe() {
                Ok(true) => return,
                Ok(false) => tokio::time::sleep(SPOOL_PAUSE).await,
                Err(error) => return tracing::warn!(%error, "the journal's spool could not be emptied"),
            }
        }
        tracing::warn!("turns came without a pause; the journal's spool is emptied at the end");
    }
}

async fn versions(conn: &mut SqliteConnection, id: &str, history: bool) -> sqlx::Result<Vec<i64>> {
    let query = if history {
        "SELECT v.key FROM memory_facts f JOIN memory_facts v
         ON v.key = f.key OR (v.scope = f.scope AND v.slot = f.slot) WHERE f.id = ?"
    } else {
        "SELECT key FROM memory_facts WHERE id = ?"
    };
    sqlx::query_scalar(query).bind(id).fetch_all(conn).await
}

/// Names of a passage in the additions of turns.
fn names_of(id: i64, row: &SqliteRow) -> sqlx::Result<Vec<String>> {
    let (session, turn_no, part): (String, i64, i64) =
        (row.try_get("session")?, row.try_get("turn_no")?, row.try_get("part")?);
    let turn: Option<i64> = row.try_get("turn")?;
    let mut names = vec![format!("w{id}"), format!("t{session}#{turn_no}.{part}")];
    names.extend(turn.map(|turn| format!("t{turn}.{part}")));
    Ok(names)
}

/// Takes the blocks out of the journal that these memories stand in.
async fn unshow(conn: &mut SqliteConnection, names: &[String]) -> sqlx::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let shown = "UPDATE turns SET block = NULL, block_hash = NULL, block_nth = NULL
                 WHERE block IS NOT NULL AND EXISTS (SELECT 1 FROM json_each(additions) a
                    WHERE a.value ->> 'kind' = 'memory' AND a.value ->> 'id' IN (SELECT value FROM json_each(?)))";
    sqlx::query(shown).bind(super::json(names)).execute(conn).await?;
    Ok(())
}

async fn forget_fact(
    conn: &mut SqliteConnection,
    key: i64,
    at_ms: i64,
    needles: &mut Vec<Needle>,
) -> sqlx::Result<String> {
    // Its windows first: the index learns of them by their trigger.
    sqlx::query("DELETE FROM memory_windows WHERE fact = ?").bind(key).execute(&mut *conn).await?;
    let row = sqlx::query("DELETE FROM memory_facts WHERE key = ? RETURNING id, scope, hash, content, quote, turn");
    let row = row.bind(key).fetch_one(&mut *conn).await?;
    let scope = row.try_get("scope")?;
    bury(conn, scope, row.try_get("hash")?, at_ms).await?;
    let (content, quote): (String, String) = (row.try_get("content")?, row.try_get("quote")?);
    let turn: Option<i64> = row.try_get("turn")?;
    if content != quote {
        needles.push(Needle { scope, text: content, turn: None });
    }
    needles.push(Needle { scope, text: quote, turn });
    row.try_get("id")
}

async fn bury(conn: &mut SqliteConnection, scope: i64, hash: i64, at_ms: i64) -> sqlx::Result<()> {
    let grave = sqlx::query("INSERT OR REPLACE INTO memory_tombstones (scope, hash, at) VALUES (?, ?, ?)");
    grave.bind(scope).bind(hash).bind(at_ms).execute(conn).await?;
    Ok(())
}

/// Takes the words out of the journal: out of the texts, and from the first turn that held them, every request body of
/// that session, since each repeats the conversation before it. How many rows were changed.
async fn scrub(conn: &mut SqliteConnection, needle: &Needle) -> sqlx::Result<u64> {
    let held = sqlx::query(
        "SELECT t.session, min(t.id) AS first,
                max(t.id = ?2 AND ifnull(instr(user_text, ?1), 0) + ifnull(instr(answer_text, ?1), 0) = 0) AS differs
         FROM turns t JOIN sessions s ON s.key = t.session
         WHERE t.id = ?2 OR ?3 AND s.id IN (SELECT session FROM memory_windows WHERE scope = ?4)
               AND (instr(user_text, ?1) > 0 OR instr(answer_text, ?1) > 0 OR instr((SELECT text FROM blocks WHERE id = t.block), ?1) > 0)
         GROUP BY t.session",
    );
    let held = held.bind(needle.text.as_str()).bind(needle.turn).bind(needle.telling()).bind(needle.scope);
    let mut changed = 0;
    for row in held.fetch_all(&mut *conn).await? {
        let (session, first): (i64, i64) = (row.try_get("session")?, row.try_get("first")?);
        // Bodies before the first that held it are not touched, and none of them stands on a later one.
        let rows = sqlx::query(
            "UPDATE turns SET
                 user_text = replace(user_text, ?3, ?4), answer_text = replace(answer_text, ?3, ?4),
                 answer = NULL, error = NULL, prompt_ids = NULL, sampled_ids = NULL,
                 sampled_logprobs = NULL, body = ?5, body_base = NULL, body_depth = 0, body_prefix = 0, body_suffix = 0,
                 body_len = ?6, body_hash = ?7, body_codec = 0
             WHERE session = ?1 AND id >= ?2",
        );
        let rows = rows
            .bind(session)
            .bind(first)
            .bind(needle.text.as_str())
            .bind(GONE)
            .bind(GONE_BODY)
            .bind(GONE_BODY.len() as i64)
            .bind(xxhash_rust::xxh3::xxh3_64(GONE_BODY).cast_signed());
        changed += rows.execute(&mut *conn).await?.rows_affected();
        // Under another hash: whoever adds the same text again gets a block of its own.
        let blocks = "UPDATE blocks SET text = replace(text, ?1, ?2), hash = randomblob(16) WHERE instr(text, ?1) > 0";
        sqlx::query(blocks).bind(needle.text.as_str()).bind(GONE).execute(&mut *conn).await?;
        if row.try_get::<bool, _>("differs")? {
            // The journal's words and ours differ (a secret was left out): then the whole text goes.
            let wipe = sqlx::query("UPDATE turns SET user_text = ?2, answer_text = ?2 WHERE id = ?1");
            wipe.bind(needle.turn).bind(GONE).execute(&mut *conn).await?;
        }
        let title =
            "UPDATE sessions SET title = NULL WHERE key = ?1 AND (instr(title, ?2) > 0 OR instr(?2, title) > 0)";
        sqlx::query(title).bind(session).bind(needle.text.as_str()).execute(&mut *conn).await?;
    }
    Ok(changed)
}
