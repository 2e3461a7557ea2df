//! The one writer: a task that owns the one writing connection. It takes whatever is waiting, writes turns that wait together
//! with one statement (= one commit), and answers each caller after the commit. Other writes run in their own transactions.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, Connection, SqliteConnection};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::body::{self, Base, Encoded};
use crate::store::{Shared, connect};
use crate::{Error, NewTurn, Result, Store, TurnId};

/// Turns written by one statement at most.
const BATCH: usize = 32;

/// A turn ready to be written.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) turn: NewTurn,
    pub(crate) body: Bytes,
    pub(crate) encoded: Encoded,
    /// `Shared::deletions` when the body was begun.
    pub(crate) deletions: u64,
}

type Answer = oneshot::Sender<Result<TurnId>>;
type Done<'c> = Pin<Box<dyn Future<Output = ()> + Send + 'c>>;
/// A write that is not a turn. It answers its caller itself.
pub(crate) type Job = Box<dyn for<'c> FnOnce(&'c mut SqliteConnection, &'c Shared) -> Done<'c> + Send>;

/// What waits for the writer.
pub(crate) enum Op {
    Append(Box<Row>, Answer),
    Job(Job),
    Close(oneshot::Sender<Result<()>>),
}

impl Store {
    /// Runs `work` on the writing connection, in its turn, in one transaction: committed if it returns `Ok`.
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(
                &'c mut SqliteConnection,
                &'c Shared,
            ) -> Pin<Box<dyn Future<Output = sqlx::Result<T>> + Send + 'c>>
            + Send
            + 'static,
    {
        let (tx, rx) = oneshot::channel();
        let job: Job = Box::new(move |conn, shared| {
            Box::pin(async move {
                let result = async {
                    let mut transaction = conn.begin_with("BEGIN IMMEDIATE").await?;
                    let value = work(&mut transaction, shared).await?;
                    transaction.commit().await?;
                    Ok(value)
                };
                // A caller that went away does not need the answer.
                tx.send(result.await.map_err(|e| shared.sqlx(&e))).ok();
            })
        });
        self.send(Op::Job(job)).await?;
        rx.await.map_err(|_| Error::Closed)?
    }
}

/// Runs until `cancel` or [`Op::Close`]; what is waiting then is still written.
pub(crate) async fn run(
    shared: Arc<Shared>,
    conn: SqliteConnection,
    mut ops: mpsc::Receiver<Op>,
    dirty: Arc<Notify>,
    cancel: CancellationToken,
) {
    let mut writer = Writer { shared, conn, dirty, next: None };
    let mut waiting = Vec::with_capacity(BATCH);
    let mut closing = None;
    loop {
        let received = tokio::select! {
            biased;
            n = ops.recv_many(&mut waiting, BATCH) => n,
            () = cancel.cancelled(), if !ops.is_closed() => {
                ops.close();
                continue;
            }
        };
        if received == 0 {
            break;
        }
        let mut rows = Vec::new();
        for op in waiting.drain(..) {
            match op {
                Op::Append(row, answer) => rows.push((row, answer)),
                Op::Job(job) => {
                    writer.append(std::mem::take(&mut rows)).await;
                    job(&mut writer.conn, &writer.shared).await;
                    writer.dirty.notify_one();
                }
                Op::Close(answer) => {
                    ops.close();
                    closing = Some(answer);
                }
            }
        }
        writer.append(rows).await;
    }
    let Writer { shared, mut conn, .. } = writer;
    // The writer closes last: only then does SQLite empty the log and remove it.
    shared.ending.cancel();
    shared.checkpointed.cancelled().await;
    shared.readers.close().await;
    if let Err(error) = sqlx::raw_sql(EMPTY_LOG).execute(&mut conn).await {
        tracing::warn!(%error, "the journal's log could not be emptied; the next start does it");
    }
    let closed = conn.close().await.map_err(|e| shared.sqlx(&e));
    if let Err(error) = &closed {
        tracing::warn!(%error, "the journal did not close cleanly; nothing that was committed is lost");
    }
    if let Some(answer) = closing {
        answer.send(closed).ok();
    }
}

/// Moves the whole log into the database and cuts it to nothing.
const EMPTY_LOG: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

impl Store {
    /// Makes the log forget what was deleted. A reader in the middle of something may prevent it; then the log is written
    /// over in time.
    pub(crate) async fn empty_log(&self) -> Result<()> {
        // Two checkpoints at once: the second would give up.
        let _alone = self.shared.checkpointing.lock().await;
        let (tx, rx) = oneshot::channel();
        let job: Job = Box::new(move |conn, _| {
            Box::pin(async move {
                if let Err(error) = sqlx::raw_sql(EMPTY_LOG).execute(conn).await {
                    tracing::warn!(%error, "the journal's log could not be emptied");
                }
                tx.send(()).ok();
            })
        });
        self.send(Op::Job(job)).await?;
        rx.await.map_err(|_| Error::Closed)
    }
}

struct Writer {
    shared: Arc<Shared>,
    conn: SqliteConnection,
    dirty: Arc<Notify>,
    /// Number of the next turn; `None` = ask the database.
    next: Option<i64>,
}

impl Writer {
    /// Writes `rows` with one statement; if that fails for a reason that may lie in one row, each by itself.
    async fn append(&mut self, mut rows: Vec<(Box<Row>, Answer)>) {
        if rows.is_empty() {
            return;
        }
        let deletions = self.shared.deletions.load(Ordering::Acquire);
        for (row, _) in &mut rows {
            if row.deletions != deletions && row.encoded.base.is_some() {
                row.encoded = body::encode(&row.body, None, self.shared.options.keyframe_every);
            }
        }
        match self.insert(&rows).await {
            Ok(first) => self.answer(rows, first),
            Err(error) if rows.len() == 1 || matches!(error, Error::Busy { .. } | Error::ReadOnly { .. }) => {
                for (_, answer) in rows {
                    answer.send(Err(error.clone())).ok();
                }
            }
            Err(_) => {
                for (row, answer) in rows {
                    let one = vec![(row, answer)];
                    match self.insert(&one).await {
                        Ok(id) => self.answer(one, id),
                        Err(error) => one.into_iter().for_each(|(_, a)| drop(a.send(Err(error.clone())))),
                    }
                }
            }
        }
        self.dirty.notify_one();
    }

    /// Commits `rows`; the number of the first, the others follow it without a gap.
    async fn insert(&mut self, rows: &[(Box<Row>, Answer)]) -> Result<i64> {
        let mut tries = 0;
        loop {
            let Err(error) = self.execute(rows).await else {
                let first = self.next.unwrap_or(1);
                self.next = Some(first + rows.len() as i64);
                return Ok(first);
            };
            tries += 1;
            self.next = None;
            let again = match &error {
                // The connection's thread is gone, and with it the transaction.
                sqlx::Error::WorkerCrashed => {
                    self.conn = connect(&self.shared).await?;
                    true
                }
                // Another process has given the same number.
                sqlx::Error::Database(e) => e.is_unique_violation(),
                _ => false,
            };
            if let Err(error) = sqlx::raw_sql("ROLLBACK").execute(&mut self.conn).await {
                tracing::trace!(%error, "nothing to roll back");
            }
            if !again || tries > 3 {
                return Err(self.shared.sqlx(&error));
            }
        }
    }

    /// One statement text, hence one trip to the connection's thread: begin, sessions, turns, commit.
    async fn execute(&mut self, rows: &[(Box<Row>, Answer)]) -> sqlx::Result<()> {
        let next = match self.next {
            Some(next) => next,
            None => {
                let highest = "SELECT max(ifnull((SELECT max(id) FROM turns), 0), (SELECT highest FROM deleted_turns))";
                let highest: i64 = sqlx::query_scalar(highest).fetch_one(&mut self.conn).await?;
                *self.next.insert(highest + 1)
            }
        };
        let mut arguments = SqliteArguments::default();
        arguments.reserve(rows.len() * (SESSION_COLUMNS + COLUMNS.len() + 2), 0);
        for (row, _) in rows {
            bind_session(&mut arguments, row).map_err(sqlx::Error::Encode)?;
        }
        for (id, (row, _)) in (next..).zip(rows) {
            bind_turn(&mut arguments, id, row).map_err(sqlx::Error::Encode)?;
        }
        let sql: &'static str = &INSERTS[rows.len() - 1];
        sqlx::query_with(sql, arguments).execute(&mut self.conn).await?;
        Ok(())
    }

    fn answer(&self, rows: Vec<(Box<Row>, Answer)>, first: i64) {
        {
            let mut bases = self.shared.bases();
            for (id, (row, _)) in (first..).zip(&rows) {
                let key = (row.turn.session.clone(), row.turn.kind.is_main());
                bases.put(key, Base { turn: id, depth: row.encoded.depth, bytes: row.body.clone() });
            }
        }
        for (id, (_, answer)) in (first..).zip(rows) {
            answer.send(Ok(TurnId(id))).ok();
        }
    }
}

/// Columns of a turn, after its number and its session, in the order in which `bind_turn` adds their values.
#[rustfmt::skip]
const COLUMNS: &[&str] = &[
    "agent", "kind", "turn_no", "step", "started", "first_byte", "finished", "outcome", "status",
    "dialect", "upstream_dialect", "upstream", "model_asked", "model_sent", "stop",
    "usage_input", "usage_output", "usage_cache_read", "usage_cache_write", "usage_reasoning",
    "prior_state", "state", "weight_version", "skill_generation", "user_id", "workspace_id", "memory_scope",
    "block_hash", "block_nth", "body_base", "body_depth", "body_prefix", "body_suffix", "body_len", "body_hash",
    "body_codec", "error", "additions", "headers", "sampling", "block", "user_text", "answer_text", "answer", "body",
    "prompt_ids", "sampled_ids", "sampled_logprobs",
];

/// Values that `bind_session` adds.
const SESSION_COLUMNS: usize = 6;

/// What writes 1, 2, … `BATCH` rows. A main turn (`turns` > 0) opens its session again.
static INSERTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let turn = format!("(?, (SELECT key FROM sessions WHERE id = ?){})", ", ?".repeat(COLUMNS.len()));
    let insert = |n: usize| {
        format!(
            "BEGIN IMMEDIATE;
             INSERT INTO sessions (id, agent, started, last, turns, title, requests) VALUES {}
             ON CONFLICT (id) DO UPDATE SET
                 agent = coalesce(agent, excluded.agent),
                 last = max(last, excluded.last),
                 ended = iif(excluded.turns > 0, NULL, ended),
                 end_reason = iif(excluded.turns > 0, NULL, end_reason),
                 turns = max(turns, excluded.turns),
                 requests = requests + 1,
                 title = coalesce(title, excluded.title);
             INSERT INTO turns (id, session, {}) VALUES {};
             COMMIT",
            vec!["(?, ?, ?, ?, ?, ?, 1)"; n].join(", "),
            COLUMNS.join(", "),
            vec![turn.as_str(); n].join(", "),
        )
    };
    (1..=BATCH).map(insert).collect()
});

/// Characters of the user's first words that name a session.
const TITLE: usize = 120;

fn bind_session(args: &mut SqliteArguments, row: &Row) -> Result<(), sqlx::error::BoxDynError> {
    let t = &row.turn;
    let main = t.kind.is_main();
    let title = t.user_text.as_deref().filter(|words| main && !words.trim().is_empty());
    args.add(t.session.as_str())?;
    args.add(t.agent.as_deref())?;
    args.add(t.started_ms)?;
    args.add(t.finished_ms)?;
    args.add(if main { t.turn_no.max(1) } else { 0 })?;
    args.add(title.map(|words| {
        let title = words.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(TITLE);
        title.collect::<String>()
    }))?;
    Ok(())
}

fn bind_turn(args: &mut SqliteArguments, id: i64, row: &Row) -> Result<(), sqlx::error::BoxDynError> {
    let Row { turn: t, encoded: e, .. } = row;
    args.add(id)?;
    args.add(t.session.as_str())?;
    let hash = |h: Option<u128>| h.map(|h| h.to_be_bytes().to_vec());
    let count = |n: Option<u64>| n.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    args.add(t.agent.as_deref())?;
    args.add(t.kind.as_str())?;
    args.add(t.turn_no)?;
    args.add(t.step)?;
    args.add(t.started_ms)?;
    args.add(t.first_byte_ms)?;
    args.add(t.finished_ms)?;
    args.add(t.outcome.as_str())?;
    args.add(t.status)?;
    args.add(t.dialect)?;
    args.add(t.upstream_dialect)?;
    args.add(t.upstream.as_deref())?;
    args.add(t.model_asked.as_deref())?;
    args.add(t.model_sent.as_deref())?;
    args.add(t.stop.as_deref())?;
    args.add(count(t.usage.input))?;
    args.add(count(t.usage.output))?;
    args.add(count(t.usage.cache_read))?;
    args.add(count(t.usage.cache_write))?;
    args.add(count(t.usage.reasoning))?;
    args.add(hash(t.prior_state))?;
    args.add(hash(t.state_hash))?;
    args.add(t.weight_version)?;
    args.add(t.skill_generation)?;
    args.add(t.scope.user_id.as_deref())?;
    args.add(t.scope.workspace_id.as_deref())?;
    args.add(t.scope.memory_scope.as_deref())?;
    args.add(hash(t.block.as_ref().map(|b| b.message_hash)))?;
    args.add(t.block.as_ref().map(|b| b.occurrence))?;
    args.add(e.base)?;
    args.add(e.depth)?;
    args.add(e.prefix as i64)?;
    args.add(e.suffix as i64)?;
    args.add(e.len as i64)?;
    args.add(e.hash.cast_signed())?;
    args.add(i32::from(e.compressed))?;
    args.add(t.error.as_deref())?;
    args.add((!t.additions.is_empty()).then(|| serde_json::to_string(&t.additions)).transpose()?)?;
    args.add((!t.headers.is_empty()).then(|| serde_json::to_string(&t.headers)).transpose()?)?;
    let sampled = t.sampled.as_ref();
    args.add(sampled.and_then(|s| s.sampling.as_deref()))?;
    args.add(t.block.as_ref().map(|b| b.text.as_str()))?;
    args.add(t.user_text.as_deref())?;
    args.add(t.answer_text.as_deref())?;
    args.add(t.answer_json.as_deref())?;
    args.add(e.middle.as_slice())?;
    let ids = |ids: &[u32]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
    args.add(sampled.map(|s| ids(&s.prompt_ids)))?;
    args.add(sampled.map(|s| ids(&s.ids)))?;
    args.add(sampled.map(|s| s.logprobs.iter().flat_map(|p| p.to_le_bytes()).collect::<Vec<u8>>()))?;
    Ok(())
}
