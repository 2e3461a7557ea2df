//! Forgetting for good: the fact or passage, its place in the index, what was made of it, and the words in the journal.
//! Deleted bytes are overwritten (`secure_delete`), the log and the spool are emptied, backups go; what stays is a hash, so
//! that it is not learned again.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use super::scrub::{self, Held, Needle, Whose};
use super::tidy::VERSIONS;
use super::{index, json, json_list, unpack};
use crate::{Error, NewTurn, Result, Scope, Store, blocks, migrate};

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
    /// Everything of one scope, journal included; what others said in the same sessions stays.
    Scope(String),
}

/// What went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Forgotten {
    /// Facts.
    pub facts: u64,
    /// Passages.
    pub windows: u64,
    /// Journal rows that were deleted, or whose words were taken out.
    pub turns: u64,
    /// Copies of the database from before migrations, which held it as well.
    pub backups: u64,
    /// Somebody reads the database: the last bytes of it are overwritten when he has done.
    pub pending: bool,
}

impl Forgotten {
    /// There was no such thing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.facts + self.windows + self.turns == 0
    }
}

/// Names the scope of a turn.
pub type ScopeOf = Arc<dyn Fn(&Scope) -> String + Send + Sync>;

/// How often, and how long apart, a moment without turns is waited for.
const SPOOL_TRIES: u32 = 50;
const SPOOL_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// What is to go, as the database stands.
#[derive(Debug, Default)]
struct Plan {
    facts: BTreeSet<i64>,
    windows: BTreeSet<i64>,
    needles: Vec<Needle>,
    /// Words that stand in bodies only: what was said whole, where memory left a secret out of it.
    raw: Vec<String>,
}

impl Plan {
    /// What is looked for in request bodies, each once.
    fn words(&self) -> Vec<String> {
        let telling = self.needles.iter().filter(|needle| needle.telling()).map(|needle| needle.text.clone());
        let words: BTreeSet<String> = telling.chain(self.raw.iter().cloned()).collect();
        words.into_iter().collect()
    }
}

/// What was found in the bodies before the words are taken out.
struct Searched {
    words: HashSet<String>,
    held: Vec<Held>,
    /// The last row that was looked at.
    until: i64,
}

impl Store {
    /// Deletes for good. Zeros if there is no such thing.
    pub async fn forget(&self, what: Forget, scope_of: ScopeOf, at_ms: i64) -> Result<Forgotten> {
        let searched = self.search_bodies(&what).await?;
        let mut done = self
            .write(move |conn, shared| {
                Box::pin(async move {
                    let plan = plan(conn, &what).await?;
                    let held = held(conn, &plan, searched).await?;
                    let mut done = Forgotten::default();
                    // Names under which it may have been put into prompts.
                    let mut names = Vec::new();
                    let mut erased = Vec::new();
                    if let Forget::Scope(scope) = &what {
                        let number = scope_number(conn, scope).await?;
                        let whose = whose(conn, number, &scope_of).await?;
                        erased = scrub::turns_of(conn, &whose).await?;
                    }
                    for key in &plan.facts {
                        names.push(forget_fact(conn, *key, at_ms).await?);
                        done.facts += 1;
                    }
                    let buried = match &what {
                        Forget::Window(id) => Some(*id),
                        _ => None,
                    };
                    done.windows += plan.windows.len() as u64;
                    names.extend(forget_windows(conn, &plan.windows, buried, at_ms).await?);
                    let mut scopes: HashMap<i64, Whose> = HashMap::new();
                    for needle in plan.needles.iter().filter(|n| !n.text.trim().is_empty()) {
                        let whose = match scopes.entry(needle.scope) {
                            Entry::Occupied(known) => known.into_mut(),
                            Entry::Vacant(new) => new.insert(whose(conn, needle.scope, &scope_of).await?),
                        };
                        done.turns += scrub::scrub(conn, needle, whose, &held, &plan.raw).await?;
                    }
                    unshow(conn, &names).await?;
                    match &what {
                        Forget::Session(session) => {
                            number_is_used(conn).await?;
                            let turns = sqlx::query_scalar("DELETE FROM sessions WHERE id = ? RETURNING requests");
                            let turns: Option<i64> = turns.bind(session.as_str()).fetch_optional(&mut *conn).await?;
                            done.turns += turns.unwrap_or_default().cast_unsigned();
                        }
                        Forget::Scope(scope) => {
                            number_is_used(conn).await?;
                            done.turns += scrub::erase(conn, &erased).await?;
                            empty_index(conn, scope).await?;
                        }
                        Forget::Fact { .. } | Forget::Window(_) => {}
                    }
                    blocks::drop_unused(conn, shared).await?;
                    // Requests that are under way may have been given it.
                    shared.buried.add(names);
                    // Nothing may be made to stand on a body that is gone.
                    shared.bases().clear();
                    shared.deletions.fetch_add(1, Ordering::AcqRel);
                    Ok(done)
                })
            })
            .await?;
        if !done.is_nothing() {
            // It is done: what cannot be cleared up just now is owed, and no reason to say that it failed.
            done.backups = self.drop_backups();
            done.pending = !self.cleared_up().await;
        }
        Ok(done)
    }

    /// Takes what is gone out of the index, and overwrites its bytes in log and spool. False while somebody reads the
    /// database: then the checkpointer goes on with it.
    pub(super) async fn cleared_up(&self) -> bool {
        let cleared = async {
            while self.memory_unindexed().await?.1 > 0 && self.memory_index(1024).await? > 0 {}
            self.empty_log().await
        };
        let cleared = cleared.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "what was forgotten is overwritten as soon as the journal can be written");
            self.shared.log_owed.owe();
            false
        });
        self.empty_spool().await;
        cleared
    }

    /// Looks for what is to go in the bodies of the whole journal, beside the writer.
    async fn search_bodies(&self, what: &Forget) -> Result<Searched> {
        let pool = self.settled().await.clone();
        let (what, path) = (what.clone(), self.shared.path.clone());
        let runtime = tokio::runtime::Handle::current();
        let search = async move {
            let mut conn = pool.acquire().await?;
            let until = sqlx::query_scalar("SELECT ifnull(max(id), 0) FROM turns").fetch_one(&mut *conn).await?;
            let words = plan(&mut conn, &what).await?.words();
            let held = scrub::holding(&mut conn, &words, 0).await?;
            Ok(Searched { words: words.into_iter().collect(), held, until })
        };
        let searched = tokio::task::spawn_blocking(move || runtime.block_on(search)).await;
        let searched = searched.map_err(|_| Error::Closed)?;
        searched.map_err(|e: sqlx::Error| Error::from_sqlx(&path, &e))
    }

    /// Deletes the copies of the database that migrations made: they hold what was forgotten. How many.
    fn drop_backups(&self) -> u64 {
        let mut gone = 0;
        for backup in migrate::backups_of(&self.shared.path) {
            match std::fs::remove_file(&backup) {
                Ok(()) => gone += 1,
                Err(error) => {
                    tracing::warn!(file = %backup.display(), %error, "a backup that holds what was forgotten could not be removed");
                }
            }
        }
        gone
    }

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

/// Names kept for turns that are not written yet.
const NAMES: NonZeroUsize = NonZeroUsize::MIN.saturating_add((1 << 16) - 1);

/// Names of memories that were forgotten lately. A turn that was asked with one of them and is written down only now
/// must not bring it back.
#[derive(Debug)]
pub(crate) struct Buried(Mutex<LruCache<String, ()>>);

impl Default for Buried {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(NAMES)))
    }
}

impl Buried {
    pub(super) fn add(&self, names: Vec<String>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            known.put(name, ());
        }
    }

    /// Takes the block out of a turn that such a memory stands in.
    pub(crate) fn keep_out(&self, turn: &mut NewTurn) {
        if turn.block.is_none() {
            return;
        }
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if turn.additions.iter().any(|added| added.kind == "memory" && known.contains(&added.id)) {
            turn.block = None;
        }
    }
}

/// What is to go, as the database stands; changes nothing.
async fn plan(conn: &mut SqliteConnection, what: &Forget) -> sqlx::Result<Plan> {
    let mut plan = Plan::default();
    match what {
        Forget::Fact { id, history } => plan.facts.extend(versions(conn, id, *history).await?),
        Forget::Window(id) => {
            let row =
                sqlx::query("SELECT scope, session, turn, text FROM memory_windows WHERE id = ? AND fact IS NULL");
            if let Some(row) = row.bind(id).fetch_optional(&mut *conn).await? {
                let (scope, session, text): (i64, String, String) =
                    (row.try_get("scope")?, row.try_get("session")?, row.try_get("text")?);
                plan.windows.insert(*id);
                // What was understood from these words goes with them.
                let taken = sqlx::query_scalar(
                    "SELECT key FROM memory_facts WHERE scope = ? AND session = ? AND quote <> '' AND instr(?, quote) > 0",
                );
                let taken: Vec<i64> = taken.bind(scope).bind(session).bind(text.as_str()).fetch_all(&mut *conn).await?;
                plan.facts.extend(taken);
                plan.needles.push(Needle { scope, text, turn: row.try_get("turn")? });
            }
        }
        Forget::Session(session) => {
            let facts: Vec<i64> = sqlx::query_scalar("SELECT key FROM memory_facts WHERE session = ?")
                .bind(session.as_str())
                .fetch_all(&mut *conn)
                .await?;
            plan.facts.extend(facts);
            let windows = sqlx::query_scalar("SELECT id FROM memory_windows WHERE session = ? AND fact IS NULL");
            let windows: Vec<i64> = windows.bind(session.as_str()).fetch_all(&mut *conn).await?;
            plan.windows.extend(windows);
        }
        Forget::Scope(scope) => {
            // Whatever was said in the scope goes row by row; no words of it are looked for in what others said.
            let scope = scope_number(conn, scope).await?;
            let facts: Vec<i64> = sqlx::query_scalar("SELECT key FROM memory_facts WHERE scope = ?")
                .bind(scope)
                .fetch_all(&mut *conn)
                .await?;
            plan.facts.extend(facts);
            let windows = sqlx::query_scalar("SELECT id FROM memory_windows WHERE scope = ? AND fact IS NULL");
            let windows: Vec<i64> = windows.bind(scope).fetch_all(&mut *conn).await?;
            plan.windows.extend(windows);
            return Ok(plan);
        }
    }
    let facts = sqlx::query(
        "SELECT scope, content, quote, turn FROM memory_facts WHERE key IN (SELECT value FROM json_each(?)) ORDER BY key",
    );
    for row in facts.bind(json_list(plan.facts.iter().copied())).fetch_all(&mut *conn).await? {
        let scope = row.try_get("scope")?;
        let (content, quote): (String, String) = (row.try_get("content")?, row.try_get("quote")?);
        if content != quote {
            plan.needles.push(Needle { scope, text: content, turn: None });
        }
        plan.needles.push(Needle { scope, text: quote, turn: row.try_get("turn")? });
    }
    // Passages that the words are part of go as well.
    for needle in plan.needles.iter().filter(|n| !n.text.trim().is_empty()) {
        let windows = sqlx::query_scalar(
            "SELECT id FROM memory_windows
             WHERE fact IS NULL AND scope = ?2 AND instr(text, ?1) > 0 AND (?3 OR turn = ?4)",
        );
        let windows = windows.bind(needle.text.as_str()).bind(needle.scope).bind(needle.telling());
        let windows: Vec<i64> = windows.bind(needle.turn).fetch_all(&mut *conn).await?;
        plan.windows.extend(windows);
        plan.raw.extend(said_whole(conn, needle).await?);
    }
    let summaries = summaries_of(conn, &plan).await?;
    plan.facts.extend(summaries);
    Ok(plan)
}

/// Summaries that were made of turns of which something goes. Their words are nobody's, and stand nowhere else but in
/// blocks, which go with their names.
async fn summaries_of(conn: &mut SqliteConnection, plan: &Plan) -> sqlx::Result<Vec<i64>> {
    let made = "WITH gone (session, first, last) AS (
                    SELECT session, turn_no, turn_no FROM memory_windows WHERE id IN (SELECT value FROM json_each(?1))
                    UNION
                    SELECT session, turn_start, turn_end FROM memory_facts WHERE key IN (SELECT value FROM json_each(?2))
                )
                SELECT DISTINCT s.key FROM gone JOIN memory_facts s ON s.session = gone.session
                WHERE s.kind = 'working_summary' AND s.origin = 'model' AND s.session <> ''
                  AND s.turn_start <= gone.last AND s.turn_end >= gone.first";
    let made = sqlx::query_scalar(made).bind(json_list(plan.windows.iter().copied()));
    made.bind(json_list(plan.facts.iter().copied())).fetch_all(conn).await
}

/// The text of the journal that the words come from, where it differs from them: memory leaves secrets out.
async fn said_whole(conn: &mut SqliteConnection, needle: &Needle) -> sqlx::Result<Option<String>> {
    let Some(turn) = needle.turn else { return Ok(None) };
    let said = "SELECT user_text, answer_text FROM turns WHERE id = ?1
                AND ifnull(instr(user_text, ?2), 0) + ifnull(instr(answer_text, ?2), 0) = 0";
    let said: Option<(Option<String>, Option<String>)> =
        sqlx::query_as(said).bind(turn).bind(needle.text.as_str()).fetch_optional(&mut *conn).await?;
    let Some((user, answer)) = said else { return Ok(None) };
    let parts = || needle.text.split(['[', ']']).map(str::trim).filter(|part| part.len() >= 8);
    Ok([user, answer].into_iter().flatten().find(|text| text.len() >= 12 && parts().any(|part| text.contains(part))))
}

/// The bodies that hold what is to go: what was found beside the writer, and what came since.
async fn held(conn: &mut SqliteConnection, plan: &Plan, searched: Searched) -> sqlx::Result<Vec<Held>> {
    let (known, new): (Vec<_>, Vec<_>) = plan.words().into_iter().partition(|words| searched.words.contains(words));
    let mut held = searched.held;
    held.extend(scrub::holding(conn, &known, searched.until).await?);
    held.extend(scrub::holding(conn, &new, 0).await?);
    Ok(held)
}

async fn scope_number(conn: &mut SqliteConnection, id: &str) -> sqlx::Result<i64> {
    let known = sqlx::query_scalar("SELECT key FROM memory_scopes WHERE id = ?").bind(id);
    Ok(known.fetch_optional(conn).await?.unwrap_or(-1))
}

/// A scope, and everything that turns may say to mean it.
async fn whose(conn: &mut SqliteConnection, key: i64, scope_of: &ScopeOf) -> sqlx::Result<Whose> {
    let id = sqlx::query_scalar("SELECT id FROM memory_scopes WHERE key = ?").bind(key);
    let Some(id): Option<String> = id.fetch_optional(&mut *conn).await? else {
        return Ok(Whose { key, named: "[]".to_owned() });
    };
    let all = "SELECT DISTINCT user_id, workspace_id, memory_scope FROM turns";
    let all: Vec<(Option<String>, Option<String>, Option<String>)> = sqlx::query_as(all).fetch_all(conn).await?;
    let scopes =
        all.into_iter().map(|(user_id, workspace_id, memory_scope)| Scope { user_id, workspace_id, memory_scope });
    let named = scopes.filter(|scope| scope_of(scope) == id);
    let named: Vec<_> = named.map(|s| serde_json::json!([s.user_id, s.workspace_id, s.memory_scope])).collect();
    Ok(Whose { key, named: serde_json::Value::from(named).to_string() })
}

/// Whichever rows go: the numbers up to here are used.
pub(super) async fn number_is_used(conn: &mut SqliteConnection) -> sqlx::Result<()> {
    let used = "UPDATE deleted_turns SET highest = max(highest, ifnull((SELECT max(id) FROM turns), 0))";
    sqlx::query(used).execute(conn).await?;
    Ok(())
}

/// The index of the scope goes with it: nothing of it is left to be named.
async fn empty_index(conn: &mut SqliteConnection, scope: &str) -> sqlx::Result<()> {
    for table in ["memory_postings", "memory_removed"] {
        let gone = sqlx::AssertSqlSafe(format!(
            "DELETE FROM {table} WHERE scope = (SELECT key FROM memory_scopes WHERE id = ?)"
        ));
        sqlx::query(gone).bind(scope).execute(&mut *conn).await?;
    }
    sqlx::query("UPDATE memory_scopes SET indexed = 0 WHERE id = ?").bind(scope).execute(conn).await?;
    Ok(())
}

async fn versions(conn: &mut SqliteConnection, id: &str, history: bool) -> sqlx::Result<Vec<i64>> {
    let query = if history { VERSIONS } else { "SELECT key FROM memory_facts WHERE id = ?1" };
    sqlx::query_scalar(query).bind(id).fetch_all(conn).await
}

/// Names of a passage in the additions of turns.
fn names_of(row: &SqliteRow) -> sqlx::Result<Vec<String>> {
    let (id, session, turn_no, part): (i64, String, i64, i64) =
        (row.try_get("id")?, row.try_get("session")?, row.try_get("turn_no")?, row.try_get("part")?);
    let turn: Option<i64> = row.try_get("turn")?;
    let mut names = vec![format!("w{id}"), format!("t{session}#{turn_no}.{part}")];
    names.extend(turn.map(|turn| format!("t{turn}.{part}")));
    Ok(names)
}

/// Takes the blocks out of the journal that these memories stand in.
pub(super) async fn unshow(conn: &mut SqliteConnection, names: &[String]) -> sqlx::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let shown = "UPDATE turns SET block = NULL, block_hash = NULL, block_nth = NULL
                 WHERE block IS NOT NULL AND EXISTS (SELECT 1 FROM json_each(additions) a
                    WHERE a.value ->> 'kind' = 'memory' AND a.value ->> 'id' IN (SELECT value FROM json_each(?)))";
    sqlx::query(shown).bind(json(names)).execute(conn).await?;
    Ok(())
}

/// Deletes a fact, so that it is not learned again; its name.
async fn forget_fact(conn: &mut SqliteConnection, key: i64, at_ms: i64) -> sqlx::Result<String> {
    let (id, scope, hash) = delete_fact(conn, key).await?;
    bury(conn, scope, hash, at_ms).await?;
    Ok(id)
}

/// Deletes a fact: its name, its scope, and the hash of its words.
pub(super) async fn delete_fact(conn: &mut SqliteConnection, key: i64) -> sqlx::Result<(String, i64, i64)> {
    // Its windows first: the index learns of them by their trigger.
    sqlx::query("DELETE FROM memory_windows WHERE fact = ?").bind(key).execute(&mut *conn).await?;
    let row = sqlx::query_as("DELETE FROM memory_facts WHERE key = ? RETURNING id, scope, hash");
    row.bind(key).fetch_one(&mut *conn).await
}

/// Deletes passages, and takes their words out of those after them; their names. What was meant itself is not learned
/// again.
pub(super) async fn forget_windows(
    conn: &mut SqliteConnection,
    windows: &BTreeSet<i64>,
    meant: Option<i64>,
    at_ms: i64,
) -> sqlx::Result<Vec<String>> {
    let gone = sqlx::query(
        "DELETE FROM memory_windows WHERE id IN (SELECT value FROM json_each(?))
         RETURNING id, scope, session, turn, turn_no, part, hash, terms",
    );
    let mut names = Vec::new();
    for row in gone.bind(json_list(windows.iter().copied())).fetch_all(&mut *conn).await? {
        let (id, session, terms): (i64, String, Vec<u8>) =
            (row.try_get("id")?, row.try_get("session")?, row.try_get("terms")?);
        names.extend(names_of(&row)?);
        index::unshare(conn, id, &session, &unpack(&terms)).await?;
        if meant == Some(id) {
            bury(conn, row.try_get("scope")?, row.try_get("hash")?, at_ms).await?;
        }
    }
    Ok(names)
}

async fn bury(conn: &mut SqliteConnection, scope: i64, hash: i64, at_ms: i64) -> sqlx::Result<()> {
    let grave = sqlx::query("INSERT OR REPLACE INTO memory_tombstones (scope, hash, at) VALUES (?, ?, ?)");
    grave.bind(scope).bind(hash).bind(at_ms).execute(conn).await?;
    Ok(())
}
