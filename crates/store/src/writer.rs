//! The one writer: a task that owns the one writing connection. It takes whatever is waiting, writes turns that wait together
//! with one statement (= one commit), and answers each caller after the commit. Other writes run in their own transactions.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use sqlx::sqlite::{SqliteArguments, SqliteQueryResult};
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
    let mut writer = Writer { shared, conn, dirty };
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
    let Writer { shared, conn, .. } = writer;
    let closed = conn.close().await.map_err(|e| shared.sqlx(&e));
    if let Err(error) = &closed {
        tracing::warn!(%error, "the journal did not close cleanly; nothing that was committed is lost");
    }
    shared.stopped().cancel();
    if let Some(answer) = closing {
        answer.send(closed).ok();
    }
}

struct Writer {
    shared: Arc<Shared>,
    conn: SqliteConnection,
    dirty: Arc<Notify>,
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

    /// The id of the first row; the others follow it without a gap.
    async fn insert(&mut self, rows: &[(Box<Row>, Answer)]) -> Result<i64> {
        let result = match self.execute(rows).await {
            // The connection's thread is gone: nothing was committed by it that was not answered.
            Err(sqlx::Error::WorkerCrashed) => {
                self.conn = connect(&self.shared).await?;
                self.execute(rows).await
            }
            other => other,
        };
        let last = result.map_err(|e| self.shared.sqlx(&e))?.last_insert_rowid();
        Ok(last + 1 - rows.len() as i64)
    }

    async fn execute(&mut self, rows: &[(Box<Row>, Answer)]) -> sqlx::Result<SqliteQueryResult> {
        let mut arguments = SqliteArguments::default();
        arguments.reserve(rows.len() * COLUMNS.len(), 0);
        for (row, _) in rows {
            bind(&mut arguments, row).map_err(sqlx::Error::Encode)?;
        }
        let sql: &'static str = &INSERTS[rows.len() - 1];
        sqlx::query_with(sql, arguments).execute(&mut self.conn).await
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

/// Columns in the order in which `bind` adds their values.
#[rustfmt::skip]
const COLUMNS: &[&str] = &[
    "session", "agent", "kind", "turn_no", "step", "started", "first_byte", "finished", "outcome", "status",
    "dialect", "upstream_dialect", "upstream", "model_asked", "model_sent", "stop",
    "usage_input", "usage_output", "usage_cache_read", "usage_cache_write", "usage_reasoning",
    "prior_state", "state", "weight_version", "skill_generation", "user_id", "workspace_id", "memory_scope",
    "block_hash", "block_nth", "body_base", "body_depth", "body_prefix", "body_suffix", "body_len", "body_hash",
    "body_codec", "error", "additions", "headers", "sampling", "block", "user_text", "answer_text", "answer", "body",
    "prompt_ids", "sampled_ids", "sampled_logprobs",
];

/// `INSERT` for 1, 2, … `BATCH` rows.
static INSERTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let row = format!("({})", vec!["?"; COLUMNS.len()].join(","));
    (1..=BATCH)
        .map(|n| format!("INSERT INTO turns ({}) VALUES {}", COLUMNS.join(","), vec![row.as_str(); n].join(",")))
        .collect()
});

fn bind(args: &mut SqliteArguments, row: &Row) -> Result<(), sqlx::error::BoxDynError> {
    let Row { turn: t, encoded: e, .. } = row;
    let hash = |h: Option<u128>| h.map(|h| h.to_be_bytes().to_vec());
    let count = |n: Option<u64>| n.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    args.add(t.session.as_str())?;
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
