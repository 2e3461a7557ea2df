//! The one writer: a task that owns the one writing connection. It takes whatever is waiting, writes turns that wait together
//! with one statement (= one commit), and answers each caller after the commit. Other writes run in their own transactions.
//! A turn that stands in the spool is not lost by a database that cannot be written: it waits here, or for the next start.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::{LazyLock, PoisonError};

use bytes::Bytes;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, Connection, SqliteConnection};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::blocks;
use crate::body::{self, Base, Encoded};
use crate::spool::{Left, Spool};
use crate::store::{Shared, Unsettled, connect};
use crate::{Error, NewTurn, Result, Store, TurnId};

/// Turns committed together at most.
const BATCH: usize = 128;
/// Turns written by one statement: powers of two up to this one.
const LARGEST_CHUNK: usize = 32;

/// A turn to be written.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) turn: NewTurn,
    pub(crate) body: Bytes,
    /// Its number in the spool; `None` = it stands nowhere else.
    pub(crate) spooled: Option<i64>,
    /// Somebody waits for the commit.
    pub(crate) urgent: bool,
    /// Who waits for it; nobody any more once told of an error.
    pub(crate) answer: Option<oneshot::Sender<Result<TurnId>>>,
    /// Counts it until it is dropped.
    pub(crate) _unsettled: Unsettled,
}

type Done<'c> = Pin<Box<dyn Future<Output = ()> + Send + 'c>>;
/// A write that is not a turn. It answers its caller itself.
pub(crate) type Job = Box<dyn for<'c> FnOnce(&'c mut SqliteConnection, &'c Shared) -> Done<'c> + Send>;

/// What waits for the writer.
pub(crate) enum Op {
    Append(Box<Row>),
    Job(Job),
    /// Answered when everything before it is done.
    Flush(oneshot::Sender<()>),
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

/// Runs until `cancel` or [`Op::Close`]; what is waiting then is still written. Begins with the turns that an earlier process
/// left in the spool; `taken_over` hears when they are in.
pub(crate) async fn run(
    shared: Arc<Shared>,
    conn: SqliteConnection,
    mut ops: mpsc::Receiver<Op>,
    dirty: Arc<Notify>,
    cancel: CancellationToken,
    left: Vec<Left>,
    taken_over: oneshot::Sender<()>,
) {
    let mut writer = Writer {
        shared,
        conn,
        dirty,
        cancel: cancel.clone(),
        next: None,
        spooled: 0,
        given_up: false,
        last_commit: None,
    };
    writer.take_over(left).await;
    taken_over.send(()).ok();
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
        writer.gather(&mut ops, &mut waiting).await;
        let mut rows = Vec::new();
        for op in waiting.drain(..) {
            match op {
                Op::Append(row) => rows.push(row),
                Op::Job(job) => {
                    writer.append(std::mem::take(&mut rows)).await;
                    job(&mut writer.conn, &writer.shared).await;
                    writer.dirty.notify_one();
                }
                Op::Flush(answer) => {
                    writer.append(std::mem::take(&mut rows)).await;
                    answer.send(()).ok();
                }
                Op::Close(answer) => {
                    ops.close();
                    closing = Some(answer);
                }
            }
        }
        writer.append(rows).await;
    }
    writer.leave_spool();
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
        rx.await.map_err(|_| Error::Closed)?;
        // The spool can be emptied between two turns only; what is left there is written over by the next ones.
        for _ in 0..100 {
            match self.shared.spool.as_ref().map(Spool::wipe).transpose() {
                Ok(Some(false)) => self.flush().await?,
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "the journal's spool could not be emptied");
                    break;
                }
            }
        }
        Ok(())
    }
}

struct Writer {
    shared: Arc<Shared>,
    conn: SqliteConnection,
    dirty: Arc<Notify>,
    cancel: CancellationToken,
    /// Number of the next turn; `None` = ask the database.
    next: Option<i64>,
    /// Highest number of the spool that was taken over.
    spooled: i64,
    last_commit: Option<Instant>,
    /// The store ended while the database could not be written: what is in the spool stays there.
    given_up: bool,
}

/// A turn with its body as its row keeps it.
struct Ready {
    row: Box<Row>,
    encoded: Encoded,
    /// Name of the injected text.
    block: Option<u128>,
}

impl Writer {
    /// While turns come one upon the other, waits for some more: every page they share is then written once for all of them.
    /// Nobody waits with it; an agent's turn is safe in the spool.
    async fn gather(&self, ops: &mut mpsc::Receiver<Op>, waiting: &mut Vec<Op>) {
        let Some(until) = self.last_commit.map(|at| at + self.shared.options.gather) else { return };
        let patient = |op: &Op| matches!(op, Op::Append(row) if row.spooled.is_some() && !row.urgent);
        while waiting.len() < BATCH && waiting.iter().all(patient) {
            let room = BATCH - waiting.len();
            match tokio::time::timeout_at(until, ops.recv_many(waiting, room)).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
    }

    /// Writes what an earlier process left in the spool.
    async fn take_over(&mut self, mut left: Vec<Left>) {
        if left.is_empty() {
            return;
        }
        tracing::info!(turns = left.len(), "taking over turns that an earlier run had set aside");
        while !left.is_empty() {
            let rest = left.split_off(left.len().min(BATCH));
            let row = |Left { seq, turn, body }| {
                let _unsettled = Unsettled::new(&self.shared, &turn);
                Box::new(Row { turn, body, spooled: Some(seq), urgent: true, answer: None, _unsettled })
            };
            let rows = std::mem::replace(&mut left, rest).into_iter().map(row).collect();
            self.append(rows).await;
        }
    }

    /// Writes `rows` with one statement; if that fails for a reason that may lie in one row, each by itself. While the
    /// database cannot be written at all, spooled rows wait, and so does everything behind them.
    #[expect(clippy::vec_box, reason = "a row is large and moves from the queue to lists and batches")]
    async fn append(&mut self, mut rows: Vec<Box<Row>>) {
        if self.given_up {
            rows.retain(|row| row.spooled.is_none());
        }
        let mut batch = self.encode(rows).await;
        while !batch.is_empty() {
            match self.insert(&batch).await {
                Ok(first) => {
                    self.committed(batch, first);
                    break;
                }
                Err(error) if error.is_of_the_database() => {
                    batch.iter_mut().for_each(|ready| ready.row.fail(&error));
                    batch.retain(|ready| ready.row.spooled.is_some());
                    if batch.is_empty() {
                        return;
                    }
                    if !self.wait(error).await {
                        self.given_up = true;
                        return;
                    }
                    // Its base may be gone: another process may have had the database.
                    let rows = batch.into_iter().map(|ready| ready.row).collect();
                    self.shared.bases().clear();
                    self.shared.known_blocks.forget();
                    batch = self.encode(rows).await;
                }
                Err(error) if batch.len() == 1 => {
                    let seq = batch.iter().find_map(|ready| ready.row.spooled);
                    tracing::error!(%error, "a turn could not be written");
                    batch.iter_mut().for_each(|ready| ready.row.fail(&error));
                    self.settle(seq);
                    break;
                }
                Err(_) => {
                    for ready in batch {
                        Box::pin(self.append(vec![ready.row])).await;
                    }
                    break;
                }
            }
        }
        self.shared.stalled.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.dirty.notify_one();
    }

    /// Waits until the database may be worth another try. False when the store ends: the spool keeps what is in it.
    async fn wait(&self, error: Error) -> bool {
        let known = self.shared.stalled.lock().unwrap_or_else(PoisonError::into_inner).replace(error.clone());
        let ending = self.cancel.is_cancelled() || self.shared.closing.is_cancelled();
        if known.is_none() || ending {
            tracing::error!(%error, "finished turns wait in the spool until the journal can be written");
        }
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => false,
            () = self.shared.closing.cancelled() => false,
            () = tokio::time::sleep(self.shared.options.retry_every) => true,
        }
    }

    /// Makes bodies small: long work on blocking threads, all of it at once.
    #[expect(clippy::vec_box, reason = "a row is large and moves from the queue to lists and batches")]
    async fn encode(&self, rows: Vec<Box<Row>>) -> Vec<Ready> {
        enum Work {
            Done(Encoded),
            Running(tokio::task::JoinHandle<Encoded>),
        }
        let every = self.shared.options.keyframe_every;
        let begin = |row: Box<Row>| {
            let base = self.shared.bases().get(&(row.turn.session.clone(), row.turn.kind.is_main()));
            let work = if body::is_heavy(&row.body, base.as_ref()) {
                let body = row.body.clone();
                let encode = move || body::encode(&body, base.as_ref(), every);
                Work::Running(self.shared.tracker.spawn_blocking(encode))
            } else {
                Work::Done(body::encode(&row.body, base.as_ref(), every))
            };
            (row, work)
        };
        let begun: Vec<_> = rows.into_iter().map(begin).collect();
        let mut ready = Vec::with_capacity(begun.len());
        for (row, work) in begun {
            let encoded = match work {
                Work::Done(encoded) => encoded,
                Work::Running(job) => match job.await {
                    Ok(encoded) => encoded,
                    // The blocking thread was lost: the whole body stands on nothing.
                    Err(_) => body::encode(&row.body, None, every),
                },
            };
            let block = row.turn.block.as_ref().map(|block| blocks::hash_of(&block.text));
            ready.push(Ready { row, encoded, block });
        }
        ready
    }

    /// Commits `rows`; the number of the first, the others follow it without a gap.
    async fn insert(&mut self, rows: &[Ready]) -> Result<i64> {
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

    /// One transaction. The first statement's text begins it and the last one's ends it: a few turns are one trip to the
    /// connection's thread.
    async fn execute(&mut self, rows: &[Ready]) -> sqlx::Result<()> {
        let texts = rows.iter().filter_map(|ready| ready.block.zip(ready.row.turn.block.as_ref()));
        let texts = texts.map(|(hash, block)| (hash, block.text.as_str()));
        blocks::put(&mut self.conn, &self.shared, texts).await?;
        let next = match self.next {
            Some(next) => next,
            None => {
                let highest = "SELECT max(ifnull((SELECT max(id) FROM turns), 0), (SELECT highest FROM deleted_turns))";
                let highest: i64 = sqlx::query_scalar(highest).fetch_one(&mut self.conn).await?;
                *self.next.insert(highest + 1)
            }
        };
        let spooled = rows.iter().filter_map(|ready| ready.row.spooled).max().unwrap_or(self.spooled);
        let (mut id, mut rest) = (next, rows);
        while !rest.is_empty() {
            let size = LARGEST_CHUNK.min(1 << rest.len().ilog2());
            let (chunk, others) = rest.split_at(size);
            let (first, last) = (id == next, others.is_empty());
            let mut arguments = SqliteArguments::default();
            arguments.reserve(size * (SESSION_COLUMNS + COLUMNS.len() + 2) + 1, 0);
            for ready in chunk {
                bind_session(&mut arguments, &ready.row).map_err(sqlx::Error::Encode)?;
            }
            for (id, ready) in (id..).zip(chunk) {
                bind_turn(&mut arguments, id, ready).map_err(sqlx::Error::Encode)?;
            }
            if last {
                arguments.add(spooled).map_err(sqlx::Error::Encode)?;
            }
            sqlx::query_with(insert(size, first, last), arguments).execute(&mut self.conn).await?;
            id += size as i64;
            rest = others;
        }
        Ok(())
    }

    fn committed(&mut self, batch: Vec<Ready>, first: i64) {
        self.last_commit = Some(Instant::now());
        let spooled = batch.iter().filter_map(|ready| ready.row.spooled).max();
        {
            let mut bases = self.shared.bases();
            for (id, ready) in (first..).zip(&batch) {
                let key = (ready.row.turn.session.clone(), ready.row.turn.kind.is_main());
                bases.put(key, Base { turn: id, depth: ready.encoded.depth, bytes: ready.row.body.clone() });
            }
        }
        self.settle(spooled);
        for (id, ready) in (first..).zip(batch) {
            ready.row.answer(Ok(TurnId(id)));
        }
    }

    fn settle(&mut self, spooled: Option<i64>) {
        let Some(seq) = spooled else { return };
        self.spooled = self.spooled.max(seq);
        if let Some(spool) = &self.shared.spool {
            spool.settle(seq);
        }
    }

    /// At the end: an empty spool says that nothing is left to do.
    fn leave_spool(&self) {
        let Some(spool) = &self.shared.spool else { return };
        match spool.wipe() {
            Ok(true) => {}
            Ok(false) => tracing::warn!("turns stay in the spool for the next start"),
            Err(error) => tracing::warn!(%error, "the journal's spool could not be emptied"),
        }
        if let Err(error) = spool.release() {
            tracing::debug!(%error, "the journal's spool stays locked until the process ends");
        }
    }
}

impl Row {
    /// Tells whoever waits for it.
    fn answer(mut self, result: Result<TurnId>) {
        if let Some(answer) = self.answer.take() {
            answer.send(result).ok();
        }
    }

    fn fail(&mut self, error: &Error) {
        if let Some(answer) = self.answer.take() {
            answer.send(Err(error.clone())).ok();
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
    "body_codec", "error", "additions", "held_out", "headers", "sampling", "block", "user_text", "answer_text", "answer", "body",
    "prompt_ids", "sampled_ids", "sampled_logprobs",
];

/// Values that `bind_session` adds.
const SESSION_COLUMNS: usize = 6;

/// What writes `size` rows, a power of two.
fn insert(size: usize, first: bool, last: bool) -> &'static str {
    &INSERTS[size.ilog2() as usize * 4 + usize::from(first) * 2 + usize::from(last)]
}

/// What writes 1, 2, 4, … `LARGEST_CHUNK` rows: in the middle of a transaction, at its end, at its beginning, and as the
/// whole of it. A main turn (`turns` > 0) opens its session again.
static INSERTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let value = |column: &&str| match *column {
        "block" => ", (SELECT id FROM blocks WHERE hash = ?)",
        _ => ", ?",
    };
    let values: String = COLUMNS.iter().map(value).collect();
    let turn = format!("(?, (SELECT key FROM sessions WHERE id = ?){values})");
    let insert = |n: usize, first: bool, last: bool| {
        let (begin, commit) = ("BEGIN IMMEDIATE;", ";\nUPDATE spool SET done = max(done, ?);\nCOMMIT");
        format!(
            "{}
             INSERT INTO sessions (id, agent, started, last, turns, title, requests) VALUES {}
             ON CONFLICT (id) DO UPDATE SET
                 agent = coalesce(agent, excluded.agent),
                 last = max(last, excluded.last),
                 ended = iif(excluded.turns > 0, NULL, ended),
                 end_reason = iif(excluded.turns > 0, NULL, end_reason),
                 turns = max(turns, excluded.turns),
                 requests = requests + 1,
                 title = coalesce(title, excluded.title);
             INSERT INTO turns (id, session, {}) VALUES {}{}",
            if first { begin } else { "" },
            vec!["(?, ?, ?, ?, ?, ?, 1)"; n].join(", "),
            COLUMNS.join(", "),
            vec![turn.as_str(); n].join(", "),
            if last { commit } else { "" },
        )
    };
    let sizes = (0..=LARGEST_CHUNK.ilog2()).map(|n| 1 << n);
    let places = [(false, false), (false, true), (true, false), (true, true)];
    sizes.flat_map(|n| places.map(|(first, last)| insert(n, first, last))).collect()
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

fn bind_turn(args: &mut SqliteArguments, id: i64, ready: &Ready) -> Result<(), sqlx::error::BoxDynError> {
    let (t, e) = (&ready.row.turn, &ready.encoded);
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
    args.add(&*t.dialect)?;
    args.add(&*t.upstream_dialect)?;
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
    args.add((!t.held_out.is_empty()).then(|| serde_json::to_string(&t.held_out)).transpose()?)?;
    args.add((!t.headers.is_empty()).then(|| serde_json::to_string(&t.headers)).transpose()?)?;
    let sampled = t.sampled.as_ref();
    args.add(sampled.and_then(|s| s.sampling.as_deref()))?;
    args.add(hash(ready.block))?;
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
