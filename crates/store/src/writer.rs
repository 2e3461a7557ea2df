//! The one writer: a task that owns the one writing connection. It takes whatever is waiting, writes turns that wait together
//! with one statement (= one commit), and answers each caller after the commit. Other writes run in their own transactions.
//! A turn that stands in the spool is not lost by a database that cannot be written: it waits here, or for the next start.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, Connection, SqliteConnection};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::blocks;
use crate::body::{self, Base, Encoded};
use crate::checkpoint::{self, EMPTY_LOG};
use crate::insert::{COLUMNS, LARGEST_CHUNK, SESSION_COLUMNS, bind_session, bind_turn, insert};
use crate::open::{self, connect};
use crate::spool::{Left, Opened, Spool};
use crate::store::Shared;
use crate::unsettled::OnItsWay;
use crate::{Error, NewTurn, Result, Store, TurnId, rejected};

/// Turns committed together at most.
const BATCH: usize = 128;

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
    pub(crate) _on_its_way: OnItsWay,
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
    /// The spool, locked, which another process had until now.
    Spool(std::fs::File),
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
                // Who was told that it failed must not find it done later.
                if tx.is_closed() {
                    return;
                }
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
        // Nobody is made to wait for a database that cannot be written.
        if let Some(error) = self.stalled() {
            return Err(error);
        }
        let done = async {
            self.send(Op::Job(job)).await?;
            rx.await.map_err(|_| Error::Closed)?
        };
        tokio::select! {
            biased;
            done = done => done,
            error = self.shared.stall() => Err(error),
        }
    }
}

/// Runs until `cancel` or [`Op::Close`]; what is waiting then is still written. Begins with the turns that an earlier process
/// left in the spool; `taken_over` hears when they are in, or have to wait.
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
        taken_over: Some(taken_over),
    };
    writer.take_over(left).await;
    writer.tell_taken_over();
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
                Op::Spool(file) => {
                    writer.append(std::mem::take(&mut rows)).await;
                    writer.own_spool(file).await;
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

impl Store {
    /// Makes the log forget what was deleted. False where a reader in the middle of something prevents it: it is done as
    /// soon as that has ended.
    pub(crate) async fn empty_log(&self) -> Result<bool> {
        let emptied = checkpoint::empty(&self.shared).await?;
        // The spool can be emptied between two turns only; what is left there is written over by the next ones.
        for _ in 0..100 {
            match self.shared.spool.get().map(Spool::wipe).transpose() {
                Ok(Some(false)) => self.flush().await?,
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "the journal's spool could not be emptied");
                    break;
                }
            }
        }
        Ok(emptied)
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
    /// Who opened the store waits for this.
    taken_over: Option<oneshot::Sender<()>>,
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
                let _on_its_way = OnItsWay::new(&self.shared.unsettled, &turn);
                Box::new(Row { turn, body, spooled: Some(seq), urgent: true, answer: None, _on_its_way })
            };
            let rows = std::mem::replace(&mut left, rest).into_iter().map(row).collect();
            self.append(rows).await;
        }
    }

    fn tell_taken_over(&mut self) {
        if let Some(taken_over) = self.taken_over.take() {
            taken_over.send(()).ok();
        }
    }

    /// Takes over the spool that another process has let go, and sets turns aside there from now on.
    async fn own_spool(&mut self, file: std::fs::File) {
        match open::read_spool(file, &self.shared.path, &mut self.conn, &self.shared.tracker).await {
            Ok(Opened { spool, left }) => {
                let last = left.last().map(|left| left.seq);
                self.take_over(left).await;
                if self.given_up {
                    return;
                }
                if let Some(last) = last {
                    spool.settle(last);
                }
                self.shared.spool.set(spool).ok();
                tracing::info!("the journal's spool is free again; finished turns are set aside there");
            }
            Err(error) => tracing::warn!(%error, "the journal's spool cannot be used before the next start"),
        }
    }

    /// Writes `rows` with one statement; if that fails for a reason that may lie in one row, each by itself. While the
    /// database cannot be written at all they wait, and so does everything behind them.
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
                    let Some(ready) = batch.first_mut() else { break };
                    let (row, path) = (&ready.row, &self.shared.path);
                    if let Err(error) = rejected::keep(path, &row.turn, &row.body, &error) {
                        let error = Error::from_io(rejected::path_of(path), &error);
                        if !self.wait(error).await {
                            self.given_up = true;
                            return;
                        }
                        continue;
                    }
                    let file = rejected::path_of(path);
                    tracing::error!(%error, file = %file.display(), "the journal does not take a turn; it is kept in the file");
                    ready.row.fail(&error);
                    let seq = ready.row.spooled;
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
        self.shared.stalled.send_if_modified(|stalled| stalled.take().is_some());
        self.dirty.notify_one();
    }

    /// Waits until the database may be worth another try. False when the store ends: the spool keeps what is in it.
    async fn wait(&mut self, error: Error) -> bool {
        let known = self.shared.stalled.send_replace(Some(error.clone()));
        self.tell_taken_over();
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
        let begin = |mut row: Box<Row>| {
            self.shared.buried.keep_out(&mut row.turn);
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
                bind_session(&mut arguments, &ready.row.turn).map_err(sqlx::Error::Encode)?;
            }
            for (id, ready) in (id..).zip(chunk) {
                bind_turn(&mut arguments, id, &ready.row.turn, &ready.encoded, ready.block)
                    .map_err(sqlx::Error::Encode)?;
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
        if let Some(spool) = self.shared.spool.get() {
            spool.settle(seq);
        }
    }

    /// At the end: an empty spool says that nothing is left to do.
    fn leave_spool(&self) {
        let Some(spool) = self.shared.spool.get() else { return };
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
