//! Turns read back: lists, one turn, its request body, a session's injected blocks, and where a conversation state was seen.

use std::collections::HashMap;

use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row as _, Sqlite, SqliteConnection, SqlitePool};

use bytes::Bytes;

use crate::body::{self, Encoded};
use crate::{
    Block, Error, Injected, Kind, Outcome, Result, Sampled, Scope, StateMatch, Store, Turn, TurnFilter, TurnId,
    TurnSummary, Usage,
};

const SUMMARY: &str = "SELECT t.id, s.id AS session, t.agent, kind, turn_no, step, dialect, upstream_dialect, upstream, model_asked, \
    model_sent, t.started, first_byte, finished, status, outcome, error, stop, usage_input, usage_output, usage_cache_read, \
    usage_cache_write, usage_reasoning, additions, held_out, user_text, body_len, weight_version, skill_generation, \
    user_id, workspace_id, memory_scope";
const REST: &str = ", headers, block_hash, block_nth, \
    (SELECT text FROM blocks WHERE id = t.block) AS block, answer_text, answer, prior_state, state, sampling, \
    prompt_ids, sampled_ids, sampled_logprobs";

const FROM: &str = " FROM turns t JOIN sessions s ON s.key = t.session";

/// What a [`StateMatch`] is made of.
macro_rules! matches {
    () => {
        "SELECT s.id AS session, t.id, t.turn_no, t.step, t.finished, s.ended IS NOT NULL AS ended,
                EXISTS (SELECT 1 FROM turns n
                        WHERE n.session = t.session AND n.id > t.id AND n.prior_state = t.state) AS continued
         FROM turns t JOIN sessions s ON s.key = t.session "
    };
}

pub(crate) fn json<T: serde::de::DeserializeOwned + Default>(row: &SqliteRow, column: &str) -> sqlx::Result<T> {
    match row.try_get::<Option<&str>, _>(column)? {
        Some(text) => serde_json::from_str(text).map_err(|e| sqlx::Error::Decode(Box::new(e))),
        None => Ok(T::default()),
    }
}

fn hash(row: &SqliteRow, column: &str) -> sqlx::Result<Option<u128>> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    let hash = bytes.map(<[u8; 16]>::try_from).transpose();
    hash.map(|h| h.map(u128::from_be_bytes)).map_err(|e| sqlx::Error::Decode(Box::new(e)))
}

fn words<T>(row: &SqliteRow, column: &str, word: fn([u8; 4]) -> T) -> sqlx::Result<Vec<T>> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    let (words, _) = bytes.unwrap_or_default().as_chunks::<4>();
    Ok(words.iter().map(|w| word(*w)).collect())
}

fn summary(row: &SqliteRow) -> sqlx::Result<TurnSummary> {
    let count = |column| row.try_get::<Option<i64>, _>(column).map(|n| n.map(i64::cast_unsigned));
    Ok(TurnSummary {
        id: TurnId(row.try_get("id")?),
        session: row.try_get("session")?,
        agent: row.try_get("agent")?,
        kind: Kind::from(row.try_get::<&str, _>("kind")?),
        turn_no: row.try_get("turn_no")?,
        step: row.try_get("step")?,
        dialect: row.try_get("dialect")?,
        upstream_dialect: row.try_get("upstream_dialect")?,
        upstream: row.try_get("upstream")?,
        model_asked: row.try_get("model_asked")?,
        model_sent: row.try_get("model_sent")?,
        started_ms: row.try_get("started")?,
        first_byte_ms: row.try_get("first_byte")?,
        finished_ms: row.try_get("finished")?,
        status: row.try_get("status")?,
        outcome: Outcome::from_column(row.try_get("outcome")?),
        error: row.try_get("error")?,
        stop: row.try_get("stop")?,
        usage: Usage {
            input: count("usage_input")?,
            output: count("usage_output")?,
            cache_read: count("usage_cache_read")?,
            cache_write: count("usage_cache_write")?,
            reasoning: count("usage_reasoning")?,
        },
        additions: json(row, "additions")?,
        held_out: json(row, "held_out")?,
        user_text: row.try_get("user_text")?,
        request_len: row.try_get::<i64, _>("body_len")?.cast_unsigned(),
        weight_version: row.try_get("weight_version")?,
        skill_generation: row.try_get("skill_generation")?,
        scope: Scope {
            user_id: row.try_get("user_id")?,
            workspace_id: row.try_get("workspace_id")?,
            memory_scope: row.try_get("memory_scope")?,
        },
    })
}

fn block(row: &SqliteRow) -> sqlx::Result<Option<Block>> {
    let (Some(message_hash), Some(text)) = (hash(row, "block_hash")?, row.try_get("block")?) else { return Ok(None) };
    Ok(Some(Block { message_hash, occurrence: row.try_get::<Option<u32>, _>("block_nth")?.unwrap_or(0), text }))
}

fn whole(row: &SqliteRow) -> sqlx::Result<Turn> {
    let sampled = match row.try_get::<Option<&[u8]>, _>("sampled_ids")? {
        Some(_) => Some(Sampled {
            prompt_ids: words(row, "prompt_ids", u32::from_le_bytes)?,
            ids: words(row, "sampled_ids", u32::from_le_bytes)?,
            logprobs: words(row, "sampled_logprobs", f32::from_le_bytes)?,
            sampling: row.try_get("sampling")?,
        }),
        None => None,
    };
    Ok(Turn {
        summary: summary(row)?,
        headers: json(row, "headers")?,
        block: block(row)?,
        answer_text: row.try_get("answer_text")?,
        answer_json: row.try_get("answer")?,
        prior_state: hash(row, "prior_state")?,
        state_hash: hash(row, "state")?,
        sampled,
    })
}

/// The rows that a body is made of, the first first.
const CHAIN: &str = "WITH RECURSIVE chain (id, base) AS (
         SELECT id, body_base FROM turns WHERE id = ?
         UNION ALL
         SELECT t.id, t.body_base FROM chain JOIN turns t ON t.id = chain.base
     )
     SELECT id, body_base, body_depth, body_prefix, body_suffix, body_len, body_hash, body_codec, body
     FROM turns WHERE id IN (SELECT id FROM chain) ORDER BY body_depth";

/// The body at the end of a chain.
fn rebuild(chain: Vec<(i64, Encoded)>) -> std::result::Result<Vec<u8>, body::RebuildError> {
    let mut base = (None, Vec::new());
    for (turn, encoded) in chain {
        if encoded.base != base.0 {
            return Err(body::RebuildError::Shape);
        }
        base = (Some(turn), body::rebuild(&encoded, &base.1)?);
    }
    Ok(base.1)
}

/// A row's request body; `None` if there is none, or it cannot be rebuilt.
pub(crate) async fn body_of(conn: &mut SqliteConnection, id: i64) -> sqlx::Result<Option<Vec<u8>>> {
    let rows = sqlx::query(CHAIN).bind(id).fetch_all(conn).await?;
    let chain: Vec<_> = rows.iter().map(link).collect::<sqlx::Result<_>>()?;
    Ok(if chain.is_empty() { None } else { rebuild(chain).ok() })
}

/// One row of a body's chain: its number, and how it stands on the one before.
pub(crate) fn link(row: &SqliteRow) -> sqlx::Result<(i64, Encoded)> {
    let size = |column| row.try_get::<i64, _>(column).map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let encoded = Encoded {
        base: row.try_get("body_base")?,
        depth: row.try_get("body_depth")?,
        prefix: size("body_prefix")?,
        suffix: size("body_suffix")?,
        len: size("body_len")?,
        hash: row.try_get::<i64, _>("body_hash")?.cast_unsigned(),
        compressed: row.try_get("body_codec")?,
        middle: row.try_get("body")?,
    };
    Ok((row.try_get("id")?, encoded))
}

impl Store {
    /// Turns, newest first; oldest first with `filter.after`.
    pub async fn turns(&self, filter: &TurnFilter) -> Result<Vec<TurnSummary>> {
        let mut query = QueryBuilder::<Sqlite>::new(SUMMARY);
        query.push(FROM).push(" WHERE true");
        if let Some(session) = &filter.session {
            query.push(" AND t.session = (SELECT key FROM sessions WHERE id = ").push_bind(session.as_str()).push(")");
        }
        if let Some(agent) = &filter.agent {
            query.push(" AND t.agent = ").push_bind(agent.as_str());
        }
        if let Some(kind) = &filter.kind {
            query.push(" AND kind = ").push_bind(kind.as_str());
        }
        if let Some(outcome) = filter.outcome {
            query.push(" AND outcome = ").push_bind(outcome.as_str());
        }
        if let Some(turn_no) = filter.turn_no {
            query.push(" AND turn_no = ").push_bind(turn_no);
        }
        if let Some(since) = filter.since_ms {
            query.push(" AND t.started >= ").push_bind(since);
        }
        if let Some(until) = filter.until_ms {
            query.push(" AND t.started < ").push_bind(until);
        }
        if let Some(before) = filter.before {
            query.push(" AND t.id < ").push_bind(before.0);
        }
        if let Some(after) = filter.after {
            query.push(" AND t.id > ").push_bind(after.0);
        }
        query.push(if filter.after.is_some() { " ORDER BY t.id LIMIT " } else { " ORDER BY t.id DESC LIMIT " });
        query.push_bind(if filter.limit == 0 { 50 } else { filter.limit });
        let readers = match &filter.session {
            Some(session) => self.settled_session(session).await,
            None => self.settled().await,
        };
        let rows = query.build().fetch_all(readers).await;
        rows.and_then(|rows| rows.iter().map(summary).collect()).map_err(|e| self.shared.sqlx(&e))
    }

    /// One turn with its answer.
    pub async fn turn(&self, id: TurnId) -> Result<Option<Turn>> {
        let mut query = QueryBuilder::<Sqlite>::new(SUMMARY);
        query.push(REST).push(FROM).push(" WHERE t.id = ").push_bind(id.0);
        let row = query.build().fetch_optional(self.settled().await).await;
        row.and_then(|row| row.as_ref().map(whole).transpose()).map_err(|e| self.shared.sqlx(&e))
    }

    /// The request body, exactly as the client sent it.
    pub async fn request_of(&self, id: TurnId) -> Result<Bytes> {
        let rows = sqlx::query(CHAIN).bind(id.0).fetch_all(self.settled().await).await;
        let chain: sqlx::Result<Vec<_>> = rows.and_then(|rows| rows.iter().map(link).collect());
        let chain = chain.map_err(|e| self.shared.sqlx(&e))?;
        if chain.is_empty() {
            return Err(Error::NoSuchTurn(id.0));
        }
        let rebuilt = tokio::task::spawn_blocking(move || rebuild(chain).map(Bytes::from));
        let corrupt = |reason: String| Error::Corrupt {
            path: self.shared.path.clone(),
            reason: format!("turn {id}: {reason}"),
            backups: crate::migrate::backups_of(&self.shared.path),
        };
        rebuilt.await.map_err(|e| corrupt(e.to_string()))?.map_err(|e| corrupt(e.to_string()))
    }

    /// The blocks injected into a session's messages, in the order in which they were.
    pub async fn injections(&self, session: &str) -> Result<Vec<Block>> {
        let rows = sqlx::query(
            "SELECT block_hash, block_nth, (SELECT text FROM blocks WHERE id = block) AS block FROM turns
             WHERE session = (SELECT key FROM sessions WHERE id = ?) AND block_hash IS NOT NULL ORDER BY id",
        )
        .bind(session)
        .fetch_all(self.settled_session(session).await)
        .await;
        let mut blocks: Vec<Block> = rows
            .and_then(|rows| rows.iter().filter_map(|row| block(row).transpose()).collect())
            .map_err(|e| self.shared.sqlx(&e))?;
        // What was injected first stays.
        let mut seen = std::collections::HashSet::new();
        blocks.retain(|b| seen.insert((b.message_hash, b.occurrence)));
        Ok(blocks)
    }

    /// The same, by the names of the texts, with the texts of the last `newest` of them.
    pub async fn injected(&self, session: &str, newest: usize) -> Result<Vec<Injected>> {
        let rows = sqlx::query(
            "SELECT t.block_hash, t.block_nth, b.hash AS name FROM turns t JOIN blocks b ON b.id = t.block
             WHERE t.session = (SELECT key FROM sessions WHERE id = ?) AND t.block_hash IS NOT NULL ORDER BY t.id",
        )
        .bind(session)
        .fetch_all(self.settled_session(session).await)
        .await;
        let injected = |row: &SqliteRow| {
            let (Some(message_hash), Some(name)) = (hash(row, "block_hash")?, hash(row, "name")?) else {
                return Ok(None);
            };
            let occurrence = row.try_get::<Option<u32>, _>("block_nth")?.unwrap_or(0);
            Ok(Some(Injected { message_hash, occurrence, name, text: None }))
        };
        let mut blocks: Vec<Injected> = rows
            .and_then(|rows| rows.iter().filter_map(|row| injected(row).transpose()).collect())
            .map_err(|e| self.shared.sqlx(&e))?;
        // What was injected first stays.
        let mut seen = std::collections::HashSet::new();
        blocks.retain(|b| seen.insert((b.message_hash, b.occurrence)));
        let first = blocks.len().saturating_sub(newest);
        let newest = blocks.get_mut(first..).unwrap_or_default();
        let names: Vec<u128> = newest.iter().map(|block| block.name).collect();
        let texts = self.block_texts(&names).await?;
        newest.iter_mut().for_each(|block| block.text = texts.get(&block.name).cloned());
        Ok(blocks)
    }

    /// Injected texts by their names; those that are there.
    pub async fn block_texts(&self, names: &[u128]) -> Result<HashMap<u128, String>> {
        let mut texts = HashMap::new();
        for names in names.chunks(512) {
            let mut query = QueryBuilder::<Sqlite>::new("SELECT hash, text FROM blocks WHERE hash IN (");
            let mut list = query.separated(", ");
            for name in names {
                list.push_bind(name.to_be_bytes().to_vec());
            }
            query.push(")");
            let rows = query.build().fetch_all(&self.shared.readers).await;
            let text = |row: &SqliteRow| Ok((hash(row, "hash")?.unwrap_or_default(), row.try_get("text")?));
            let found: sqlx::Result<Vec<_>> = rows.and_then(|rows| rows.iter().map(text).collect());
            texts.extend(found.map_err(|e| self.shared.sqlx(&e))?);
        }
        Ok(texts)
    }

    /// Where an agent's conversations had this state, newest first; which of them have gone on from it.
    pub async fn session_by_state(&self, state: u128, agent: &str) -> Result<Vec<StateMatch>> {
        let query = sqlx::query(concat!(matches!(), "WHERE t.state = ? AND t.agent = ? ORDER BY t.id DESC LIMIT 64"));
        let query = query.bind(state.to_be_bytes().to_vec()).bind(agent);
        self.matches(query, self.settled_state(state).await).await
    }

    /// Where an agent got the answer with this id (OpenAI Responses), newest first.
    pub async fn session_by_answer(&self, answer: &str, agent: &str) -> Result<Vec<StateMatch>> {
        // In the words of the index, so that it is used.
        let query = sqlx::query(concat!(
            matches!(),
            "WHERE t.dialect = 'openai-responses' AND json_valid(t.answer) AND json_extract(t.answer, '$.id') = ?
               AND t.agent = ? ORDER BY t.id DESC LIMIT 64"
        ));
        self.matches(query.bind(answer).bind(agent), self.settled_briefly().await).await
    }

    async fn matches(
        &self,
        query: sqlx::query::Query<'_, Sqlite, sqlx::sqlite::SqliteArguments>,
        readers: &SqlitePool,
    ) -> Result<Vec<StateMatch>> {
        let rows = query.fetch_all(readers).await;
        let found = |row: &SqliteRow| {
            Ok(StateMatch {
                session: row.try_get("session")?,
                turn: TurnId(row.try_get("id")?),
                turn_no: row.try_get("turn_no")?,
                step: row.try_get("step")?,
                continued: row.try_get("continued")?,
                finished_ms: row.try_get("finished")?,
                ended: row.try_get("ended")?,
            })
        };
        rows.and_then(|rows| rows.iter().map(found).collect()).map_err(|e| self.shared.sqlx(&e))
    }
}
