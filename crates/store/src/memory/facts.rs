//! Facts: learned once, closed by a newer statement about the same slot, edited and listed. Exact duplicates and
//! what was forgotten are left out before anything is written.

use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row as _, Sqlite, SqliteConnection};

use super::absorb::{insert_window, tombstoned};
use super::{NewWindow, json, scope_key};
use crate::{Result, Store, TurnId};

/// A fact to be learned, with its place in the index.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewFact {
    /// Its id.
    pub id: String,
    /// `episodic`, `semantic`, `preference`, `project_state`, `working_summary`, `procedural_observation`.
    pub kind: String,
    /// Not recalled until the user accepts it.
    pub quarantined: bool,
    /// What is recalled.
    pub content: String,
    /// A shorter form.
    pub summary: String,
    /// The words it was taken from, as the journal has them.
    pub quote: String,
    /// Who or what it is about.
    pub subject: String,
    /// What it answers; a newer fact of the same slot takes its place.
    pub slot: Option<String>,
    /// Its answer to that.
    pub value: Option<String>,
    /// It says that something is not so, or not to be done.
    pub negative: bool,
    /// `stated`, `asked`, `assumed`, `planned`, `retracted`. A retraction closes the slot and is not kept itself.
    pub modality: String,
    /// Folded words of the statement it takes the place of.
    pub replaces: Option<String>,
    /// Other slots that it closes.
    pub closes: Vec<String>,
    /// `rule`, `model`, `user`, `import`.
    pub origin: String,
    /// Last user turn it comes from; `window.turn_no` is the first.
    pub turn_end: u32,
    /// 0–1.
    pub importance: f64,
    /// 0–1.
    pub confidence: f64,
    /// Always first.
    pub pinned: bool,
    /// From when it holds, ms since 1970.
    pub valid_from_ms: i64,
    /// Until when it holds, where it was said.
    pub valid_to_ms: Option<i64>,
    /// When it is to be archived.
    pub expires_ms: Option<i64>,
    /// Names in it.
    pub entities: Vec<String>,
    /// What it is about.
    pub topics: Vec<String>,
    /// The user's labels.
    pub tags: Vec<String>,
    /// Scope, session, turn, speaker, time, hash of the folded words, terms. The text stays empty.
    pub window: NewWindow,
}

/// A fact as it is kept.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Fact {
    /// Number, for joining with windows.
    #[serde(skip)]
    pub key: i64,
    /// Its id.
    pub id: String,
    /// Scope string.
    pub scope: String,
    /// Type.
    pub kind: String,
    /// `active`, `superseded`, `archived`, `quarantined`.
    pub status: String,
    /// What is recalled.
    pub content: String,
    /// A shorter form.
    pub summary: String,
    /// The words it was taken from.
    pub quote: String,
    /// Who or what it is about.
    pub subject: String,
    /// What it answers.
    pub slot: Option<String>,
    /// Its answer to that.
    pub value: Option<String>,
    /// It says that something is not so, or not to be done.
    pub negative: bool,
    /// How it was said.
    pub modality: String,
    /// Who said it.
    pub speaker: String,
    /// Where it comes from.
    pub origin: String,
    /// Session id.
    pub session: String,
    /// Journal row.
    pub turn: Option<TurnId>,
    /// First user turn.
    pub turn_start: u32,
    /// Last user turn.
    pub turn_end: u32,
    /// 0–1.
    pub importance: f64,
    /// 0–1.
    pub confidence: f64,
    /// Always first.
    pub pinned: bool,
    /// From when it holds.
    pub valid_from_ms: i64,
    /// Until when it held; `None` = still.
    pub valid_to_ms: Option<i64>,
    /// When it was learned.
    pub recorded_ms: i64,
    /// When it was last changed; never by reading.
    pub updated_ms: i64,
    /// When it is to be archived.
    pub expires_ms: Option<i64>,
    /// Which fact took its place.
    pub superseded_by: Option<String>,
    /// Names in it.
    pub entities: Vec<String>,
    /// What it is about.
    pub topics: Vec<String>,
    /// The user's labels.
    pub tags: Vec<String>,
}

/// Which facts.
#[derive(Debug, Clone, Default)]
pub struct FactFilter {
    /// Of this scope.
    pub scope: Option<String>,
    /// With this status.
    pub status: Option<String>,
    /// Of this type.
    pub kind: Option<String>,
    /// About this slot.
    pub slot: Option<String>,
    /// Pinned or not.
    pub pinned: Option<bool>,
    /// Held at this moment, by what is known now.
    pub as_of_ms: Option<i64>,
    /// Known at this moment.
    pub known_at_ms: Option<i64>,
    /// Learned, changed or closed last before this moment.
    pub untouched_since_ms: Option<i64>,
    /// With these numbers.
    pub keys: Option<Vec<i64>>,
    /// Learned before the fact with this number (for paging back).
    pub before: Option<i64>,
    /// At most so many; 0 = 100.
    pub limit: u32,
}

/// What a fact says, with its place in the index.
#[derive(Debug, Clone, Default)]
pub struct FactWords {
    /// The words.
    pub content: String,
    /// Hash of the folded words.
    pub hash: i64,
    /// Their terms.
    pub terms: Vec<(u32, u8)>,
}

/// Changes by the user's hand; `None` = as it was.
#[derive(Debug, Clone, Default)]
pub struct FactPatch {
    /// New words.
    pub content: Option<FactWords>,
    /// New status.
    pub status: Option<String>,
    /// New type.
    pub kind: Option<String>,
    /// Pinned or not.
    pub pinned: Option<bool>,
    /// 0–1.
    pub importance: Option<f64>,
    /// All labels.
    pub tags: Option<Vec<String>>,
    /// When it is to be archived; `Some(None)` = never.
    pub expires_ms: Option<Option<i64>>,
}

const FACT: &str = "SELECT f.key, f.id, s.id AS scope, kind, status, content, summary, quote, subject, slot, value, negative,
    modality, speaker, origin, session, turn, turn_start, turn_end, importance, confidence, pinned, valid_from, valid_to,
    recorded, updated, expires, superseded_by, entities, topics, tags
    FROM memory_facts f JOIN memory_scopes s ON s.key = f.scope WHERE true";

fn fact(row: &SqliteRow) -> sqlx::Result<Fact> {
    let list = |column: &str| -> sqlx::Result<Vec<String>> {
        serde_json::from_str(row.try_get(column)?).map_err(|e| sqlx::Error::Decode(Box::new(e)))
    };
    Ok(Fact {
        key: row.try_get("key")?,
        id: row.try_get("id")?,
        scope: row.try_get("scope")?,
        kind: row.try_get("kind")?,
        status: row.try_get("status")?,
        content: row.try_get("content")?,
        summary: row.try_get("summary")?,
        quote: row.try_get("quote")?,
        subject: row.try_get("subject")?,
        slot: row.try_get("slot")?,
        value: row.try_get("value")?,
        negative: row.try_get("negative")?,
        modality: row.try_get("modality")?,
        speaker: row.try_get("speaker")?,
        origin: row.try_get("origin")?,
        session: row.try_get("session")?,
        turn: row.try_get::<Option<i64>, _>("turn")?.map(TurnId),
        turn_start: row.try_get("turn_start")?,
        turn_end: row.try_get("turn_end")?,
        importance: row.try_get("importance")?,
        confidence: row.try_get("confidence")?,
        pinned: row.try_get("pinned")?,
        valid_from_ms: row.try_get("valid_from")?,
        valid_to_ms: row.try_get("valid_to")?,
        recorded_ms: row.try_get("recorded")?,
        updated_ms: row.try_get("updated")?,
        expires_ms: row.try_get("expires")?,
        superseded_by: row.try_get("superseded_by")?,
        entities: list("entities")?,
        topics: list("topics")?,
        tags: list("tags")?,
    })
}

/// Writes a fact down; `None` if it is known, forgotten, or only took another one back.
pub(super) async fn learn(conn: &mut SqliteConnection, new: NewFact) -> sqlx::Result<Option<String>> {
    let window = &new.window;
    let scope = scope_key(conn, &window.scope).await?;
    if tombstoned(conn, scope, window.hash).await? {
        return Ok(None);
    }
    let retracted = new.modality == "retracted";
    if !new.quarantined
        && let Some(slot) = &new.slot
    {
        // The same again changes nothing, whatever its wording.
        let same: Option<i64> = sqlx::query_scalar(
            "SELECT key FROM memory_facts WHERE scope = ? AND slot = ? AND status = 'active' AND value IS ? AND negative = ?",
        )
        .bind(scope)
        .bind(slot.as_str())
        .bind(new.value.as_deref())
        .bind(new.negative)
        .fetch_optional(&mut *conn)
        .await?;
        if same.is_some() && !retracted {
            return Ok(None);
        }
        // Told late about an earlier time, it is history at once.
        sqlx::query(
            "UPDATE memory_facts SET status = 'superseded', valid_to = ?3, updated = ?4, superseded_by = ?5
             WHERE scope = ?1 AND slot = ?2 AND status = 'active' AND valid_from <= ?3
               AND (?6 IS NULL OR value = ?6)",
        )
        .bind(scope)
        .bind(slot.as_str())
        .bind(new.valid_from_ms)
        .bind(window.at_ms)
        .bind((!retracted).then_some(new.id.as_str()))
        .bind(new.value.as_deref().filter(|_| retracted))
        .execute(&mut *conn)
        .await?;
    }
    if !new.quarantined {
        take_place(conn, scope, &new, retracted).await?;
    }
    if retracted {
        return Ok(None);
    }
    let known: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM memory_facts
                        WHERE scope = ?1 AND hash = ?2 AND status IN ('active', 'quarantined') OR id = ?3)",
    )
    .bind(scope)
    .bind(window.hash)
    .bind(new.id.as_str())
    .fetch_one(&mut *conn)
    .await?;
    if known {
        return Ok(None);
    }
    let later: Option<(String, i64)> =
        match &new.slot {
            Some(slot) if !new.quarantined => sqlx::query_as(
                "SELECT id, valid_from FROM memory_facts WHERE scope = ? AND slot = ? AND status = 'active' LIMIT 1",
            )
            .bind(scope)
            .bind(slot.as_str())
            .fetch_optional(&mut *conn)
            .await?,
            _ => None,
        };
    let status = match (&later, new.quarantined) {
        (_, true) => "quarantined",
        (Some(_), false) => "superseded",
        (None, false) => "active",
    };
    let key: i64 = sqlx::query_scalar(
        "INSERT INTO memory_facts (id, scope, kind, status, content, summary, quote, subject, slot, value, negative,
            modality, speaker, origin, session, turn, turn_start, turn_end, importance, confidence, pinned, valid_from,
            valid_to, recorded, updated, expires, superseded_by, hash, entities, topics, tags)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key",
    )
    .bind(new.id.as_str())
    .bind(scope)
    .bind(new.kind.as_str())
    .bind(status)
    .bind(new.content.as_str())
    .bind(new.summary.as_str())
    .bind(new.quote.as_str())
    .bind(new.subject.as_str())
    .bind(new.slot.as_deref())
    .bind(new.value.as_deref())
    .bind(new.negative)
    .bind(new.modality.as_str())
    .bind(window.speaker.as_str())
    .bind(new.origin.as_str())
    .bind(window.session.as_str())
    .bind(window.turn.map(|t| t.0))
    .bind(window.turn_no)
    .bind(new.turn_end)
    .bind(new.importance)
    .bind(new.confidence)
    .bind(new.pinned)
    .bind(new.valid_from_ms)
    .bind(new.valid_to_ms.or(later.as_ref().map(|(_, from)| *from)))
    .bind(window.at_ms)
    .bind(window.at_ms)
    .bind(new.expires_ms)
    .bind(later.as_ref().map(|(id, _)| id.as_str()))
    .bind(window.hash)
    .bind(json(&new.entities))
    .bind(json(&new.topics))
    .bind(json(&new.tags))
    .fetch_one(&mut *conn)
    .await?;
    // Facts outlive their turn's row: what they say was learned.
    let window = NewWindow { turn: None, ..window.clone() };
    insert_window(conn, scope, Some(key), &window).await?;
    Ok(Some(new.id))
}

/// Closes what the fact says it takes the place of: other slots, and statements of the user with the words it names.
async fn take_place(conn: &mut SqliteConnection, scope: i64, new: &NewFact, retracted: bool) -> sqlx::Result<()> {
    let by = (!retracted).then_some(new.id.as_str());
    for slot in &new.closes {
        sqlx::query(
            "UPDATE memory_facts SET status = 'superseded', valid_to = ?3, updated = ?4, superseded_by = ?5
             WHERE scope = ?1 AND slot = ?2 AND status = 'active' AND valid_from <= ?3",
        )
        .bind(scope)
        .bind(slot.as_str())
        .bind(new.valid_from_ms)
        .bind(new.window.at_ms)
        .bind(by)
        .execute(&mut *conn)
        .await?;
    }
    let Some(words) = &new.replaces else { return Ok(()) };
    sqlx::query(
        "UPDATE memory_facts SET status = 'superseded', valid_to = ?3, updated = ?4, superseded_by = ?5
         WHERE scope = ?1 AND status = 'active' AND valid_from <= ?3 AND speaker = ?6 AND pinned = 0
           AND instr(lower(content), ?2) > 0",
    )
    .bind(scope)
    .bind(words.as_str())
    .bind(new.valid_from_ms)
    .bind(new.window.at_ms)
    .bind(by)
    .bind(new.window.speaker.as_str())
    .execute(conn)
    .await?;
    Ok(())
}

impl Store {
    /// Facts, the last learned first.
    pub async fn facts(&self, filter: &FactFilter) -> Result<Vec<Fact>> {
        let mut query = QueryBuilder::<Sqlite>::new(FACT);
        if let Some(scope) = &filter.scope {
            query.push(" AND f.scope = (SELECT key FROM memory_scopes WHERE id = ").push_bind(scope.as_str()).push(")");
        }
        if let Some(status) = &filter.status {
            query.push(" AND status = ").push_bind(status.as_str());
        }
        if let Some(kind) = &filter.kind {
            query.push(" AND kind = ").push_bind(kind.as_str());
        }
        if let Some(slot) = &filter.slot {
            query.push(" AND slot = ").push_bind(slot.as_str());
        }
        match filter.pinned {
            // A partial index knows these.
            Some(true) => drop(query.push(" AND pinned = 1")),
            Some(false) => drop(query.push(" AND pinned = 0")),
            None => {}
        }
        if let Some(at) = filter.as_of_ms {
            query.push(" AND status IN ('active', 'superseded') AND valid_from <= ").push_bind(at);
            query.push(" AND (valid_to IS NULL OR valid_to > ").push_bind(at).push(")");
        }
        if let Some(at) = filter.known_at_ms {
            query.push(" AND recorded <= ").push_bind(at);
        }
        if let Some(at) = filter.untouched_since_ms {
            query.push(" AND updated < ").push_bind(at);
        }
        if let Some(keys) = &filter.keys {
            let keys = serde_json::Value::from(keys.as_slice()).to_string();
            query.push(" AND f.key IN (SELECT value FROM json_each(").push_bind(keys).push("))");
        }
        if let Some(before) = filter.before {
            query.push(" AND f.key < ").push_bind(before);
        }
        query.push(" ORDER BY f.key DESC LIMIT ").push_bind(if filter.limit == 0 { 100 } else { filter.limit });
        let rows = query.build().fetch_all(&self.shared.readers).await;
        rows.and_then(|rows| rows.iter().map(fact).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// One fact.
    pub async fn fact(&self, id: &str) -> Result<Option<Fact>> {
        let mut query = QueryBuilder::<Sqlite>::new(FACT);
        query.push(" AND f.id = ").push_bind(id);
        let row = query.build().fetch_optional(&self.shared.readers).await;
        row.and_then(|row| row.as_ref().map(fact).transpose()).map_err(|e| self.shared.sqlx(&e))
    }

    /// Writes one fact down; its id, or `None` if it is known or was forgotten.
    pub async fn add_fact(&self, new: NewFact) -> Result<Option<String>> {
        self.write(move |conn, _| Box::pin(learn(conn, new))).await
    }

    /// Changes a fact; false if there is none of that id.
    pub async fn edit_fact(&self, id: &str, patch: FactPatch, at_ms: i64) -> Result<bool> {
        let id = id.to_owned();
        self.write(move |conn, _| {
            Box::pin(async move {
                let key: Option<i64> = sqlx::query_scalar("SELECT key FROM memory_facts WHERE id = ?")
                    .bind(id.as_str())
                    .fetch_optional(&mut *conn)
                    .await?;
                let Some(key) = key else { return Ok(false) };
                let mut query = QueryBuilder::<Sqlite>::new("UPDATE memory_facts SET updated = ");
                query.push_bind(at_ms);
                if let Some(FactWords { content, hash, .. }) = &patch.content {
                    query.push(", content = ").push_bind(content.as_str());
                    query.push(", hash = ").push_bind(*hash);
                }
                if let Some(status) = &patch.status {
                    query.push(", status = ").push_bind(status.as_str());
                }
                if let Some(kind) = &patch.kind {
                    query.push(", kind = ").push_bind(kind.as_str());
                }
                if let Some(pinned) = patch.pinned {
                    query.push(", pinned = ").push_bind(pinned);
                }
                if let Some(importance) = patch.importance {
                    query.push(", importance = ").push_bind(importance);
                }
                if let Some(tags) = &patch.tags {
                    query.push(", tags = ").push_bind(json(tags));
                }
                if let Some(expires) = patch.expires_ms {
                    query.push(", expires = ").push_bind(expires);
                }
                query.push(" WHERE key = ").push_bind(key);
                query.build().execute(&mut *conn).await?;
                if let Some(FactWords { hash, terms, .. }) = patch.content {
                    reindex(conn, key, hash, &terms).await?;
                }
                Ok(true)
            })
        })
        .await
    }

    /// Archives active facts whose time is over; how many.
    pub async fn expire_facts(&self, now_ms: i64) -> Result<u64> {
        self.write(move |conn, _| {
            Box::pin(async move {
                let done = sqlx::query(
                    "UPDATE memory_facts SET status = 'archived', updated = ?1 WHERE status = 'active' AND expires <= ?1",
                );
                Ok(done.bind(now_ms).execute(conn).await?.rows_affected())
            })
        })
        .await
    }
}

/// A new place in the index, under a new number: the old one leaves it by the trigger.
async fn reindex(conn: &mut SqliteConnection, fact: i64, hash: i64, terms: &[(u32, u8)]) -> sqlx::Result<()> {
    let moved = sqlx::query(
        "INSERT INTO memory_windows (scope, fact, session, turn, turn_no, part, speaker, at, quarantined, hash, text, terms)
         SELECT scope, fact, session, turn, turn_no, part, speaker, at, quarantined, ?2, text, ?3
         FROM memory_windows WHERE fact = ?1 ORDER BY id DESC LIMIT 1 RETURNING id",
    );
    let row = moved.bind(fact).bind(hash).bind(super::pack(terms)).fetch_optional(&mut *conn).await?;
    if let Some(row) = row {
        let id: i64 = row.try_get("id")?;
        sqlx::query("DELETE FROM memory_windows WHERE fact = ? AND id <> ?").bind(fact).bind(id).execute(conn).await?;
    }
    Ok(())
}
