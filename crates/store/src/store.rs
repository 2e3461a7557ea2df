//! Opening and closing the database, and the handle everybody holds. Writes go to the one writer task, finished turns through
//! the spool; reads go to a small pool.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use sqlx::{ConnectOptions, SqlitePool};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::blocks::Known;
use crate::body::Bases;
use crate::memory::Buried;
use crate::open::{self, connect_options, is_settled, lock_for_opening, look, reader_options, reader_pool};
use crate::spool::{self, Opened, Record, Spool};
use crate::unsettled::{OnItsWay, Unsettled};
use crate::writer::{self, Op, Row};
use crate::{Error, NewTurn, Result, TurnId, checkpoint, migrate};

/// How long a reader waits for what was kept before, …
const SETTLE_PATIENCE: Duration = Duration::from_secs(5);
/// … and how long where an agent waits with it.
const AGENTS_PATIENCE: Duration = Duration::from_millis(100);

/// How a store is opened. The defaults are the product's.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long to wait for another process's write lock.
    pub busy_timeout: Duration,
    /// Connections for reading.
    pub readers: u32,
    /// Writes that may wait; more make their callers wait.
    pub queue: usize,
    /// Bytes of request bodies kept to make deltas against.
    pub base_bytes: usize,
    /// A whole body at least every so many of a session.
    pub keyframe_every: u32,
    /// How often what was committed is forced to disk and moved out of the write-ahead log.
    pub checkpoint_every: Duration,
    /// How long after a commit turns that nobody waits for are gathered for the next one.
    pub gather: Duration,
    /// How long the writer waits before it tries again to write to a database that could not be written.
    pub retry_every: Duration,
    /// Size of the write-ahead log, in pages of 4 KiB, from which the writer itself empties it; only a flood gets there.
    pub wal_pages: u32,
    /// Backups kept from before migrations.
    pub backups: usize,
    /// Limit of the database, in pages of 4 KiB; reaching it is [`Error::DiskFull`].
    pub max_pages: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(5),
            readers: 2,
            queue: 2048,
            base_bytes: 8 << 20,
            keyframe_every: 32,
            checkpoint_every: Duration::from_secs(1),
            gather: Duration::from_millis(10),
            retry_every: Duration::from_secs(1),
            wal_pages: 16384,
            backups: 3,
            max_pages: None,
        }
    }
}

/// The database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    pub(crate) options: Options,
    /// `None` = opened read-only.
    ops: Option<mpsc::Sender<Op>>,
    pub(crate) readers: SqlitePool,
    pub(crate) bases: Mutex<Bases>,
    /// Grows when turns or memories are deleted: what was kept of them elsewhere is not so any more.
    pub(crate) deletions: AtomicU64,
    /// Memories that were forgotten lately.
    pub(crate) buried: Buried,
    /// Injected texts that the database has.
    pub(crate) known_blocks: Known,
    /// Where turns stand until they are in the database; empty = read-only, or another process has it.
    pub(crate) spool: OnceLock<Spool>,
    pub(crate) unsettled: Arc<Unsettled>,
    /// Why the database cannot be written at the moment.
    pub(crate) stalled: watch::Sender<Option<Error>>,
    pub(crate) tracker: TaskTracker,
    /// Held by whoever runs a checkpoint.
    pub(crate) checkpointing: tokio::sync::Mutex<()>,
    /// The log still has to forget what was deleted.
    pub(crate) log_owed: checkpoint::Owed,
    /// [`Store::close`] was called: nobody waits for a database that cannot be written.
    pub(crate) closing: CancellationToken,
    /// The writer has stopped taking work.
    pub(crate) ending: CancellationToken,
    /// The checkpointer has closed its connection.
    pub(crate) checkpointed: CancellationToken,
}

impl Shared {
    pub(crate) fn bases(&self) -> MutexGuard<'_, Bases> {
        self.bases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sqlx(&self, error: &sqlx::Error) -> Error {
        Error::from_sqlx(&self.path, error)
    }

    pub(crate) fn ops(&self) -> Result<&mpsc::Sender<Op>> {
        let reason = || "it was opened for reading".to_owned();
        self.ops.as_ref().ok_or_else(|| Error::ReadOnly { path: self.path.clone(), reason: reason() })
    }

    /// Why the database cannot be written at the moment, if so.
    pub(crate) fn stalled(&self) -> Option<Error> {
        self.stalled.borrow().clone()
    }

    /// Resolves when the database cannot be written, to why.
    pub(crate) async fn stall(&self) -> Error {
        match self.stalled.subscribe().wait_for(Option::is_some).await {
            Ok(stalled) => stalled.clone().unwrap_or(Error::Closed),
            Err(_) => Error::Closed,
        }
    }
}

/// A turn that was taken. Resolves to its number when it is in the database, or to what keeps it out of there.
#[derive(Debug)]
pub struct Kept {
    number: oneshot::Receiver<Result<TurnId>>,
    unsafe_yet: Option<Error>,
}

impl Kept {
    /// Why the turn stands in memory only, waiting for a database that cannot be written, if it does: a killed process
    /// would lose it.
    pub fn in_memory_only(&self) -> Option<&Error> {
        self.unsafe_yet.as_ref()
    }
}

impl Future for Kept {
    type Output = Result<TurnId>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.number).poll(cx).map(|answer| answer.unwrap_or(Err(Error::Closed)))
    }
}

impl Store {
    /// Opens (or makes) the database at `path`, migrates it, and starts the writer and the checkpointer on `tracker`.
    /// They end after `cancel`: what was handed in before is committed first.
    pub async fn open(path: &Path, options: Options, tracker: &TaskTracker, cancel: CancellationToken) -> Result<Self> {
        let _lock = lock_for_opening(path, tracker).await?;
        let connect = connect_options(path, &options);
        let mut conn = connect.connect().await.map_err(|e| Error::from_sqlx(path, &e))?;
        if migrate::version(&mut conn, path).await? < migrate::newest() {
            migrate::migrate(&mut conn, path, options.backups).await?;
        }
        // Fails here, and not at the first turn, if the file cannot be written.
        let probe = sqlx::raw_sql("BEGIN IMMEDIATE; ROLLBACK").execute(&mut conn).await;
        match probe.map_err(|e| Error::from_sqlx(path, &e)) {
            // It will let go; turns wait in the spool until then.
            Ok(_) | Err(Error::Busy { .. }) => {}
            Err(error) => return Err(error),
        }
        if let Some(pages) = options.max_pages {
            let limit = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
            sqlx::raw_sql(limit).execute(&mut conn).await.map_err(|e| Error::from_sqlx(path, &e))?;
        }
        let opened = open::open_spool(path, &mut conn, tracker).await?;
        let owned = opened.is_some();
        let (spool, left) = opened.map(|Opened { spool, left }| (spool.into(), left)).unwrap_or_default();
        let readers = reader_pool(reader_options(path, &options), &options);
        let (tx, rx) = mpsc::channel(options.queue);
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            ops: Some(tx),
            readers,
            bases: Mutex::new(Bases::new(options.base_bytes)),
            spool,
            deletions: AtomicU64::new(0),
            buried: Buried::default(),
            known_blocks: Known::default(),
            unsettled: Arc::default(),
            stalled: watch::Sender::new(None),
            closing: CancellationToken::new(),
            tracker: tracker.clone(),
            checkpointing: tokio::sync::Mutex::new(()),
            log_owed: checkpoint::Owed::default(),
            ending: CancellationToken::new(),
            checkpointed: CancellationToken::new(),
            options,
        });
        let dirty = Arc::new(tokio::sync::Notify::new());
        tracker.spawn(checkpoint::run(Arc::clone(&shared), Arc::clone(&dirty)));
        let (taken_over, done) = oneshot::channel();
        tracker.spawn(writer::run(Arc::clone(&shared), conn, rx, dirty, cancel, left, taken_over));
        if !owned {
            tracker.spawn(open::get_spool(Arc::clone(&shared)));
        }
        // Answered when they are in, or cannot be for now.
        done.await.map_err(|_| Error::Closed)?;
        Ok(Self { shared })
    }

    /// Opens an existing database for reading only, e.g. while the service runs. Never migrates. What a killed process left
    /// in the spool is brought in first; where that cannot be done, [`Self::stalled`] says why.
    pub async fn open_read_only(path: &Path, options: Options) -> Result<Self> {
        std::fs::metadata(path).map_err(|e| Error::from_io(path.to_owned(), &e))?;
        let mut connect = reader_options(path, &options);
        let found = match look(&connect, path).await {
            // In a folder that cannot be written SQLite cannot make its -shm file. With no log beside it the file is all
            // there is, and nobody can change it.
            Err(_) if is_settled(path) => {
                connect = connect.immutable(true);
                look(&connect, path).await?
            }
            found => found?,
        };
        if found < migrate::newest() {
            return Err(Error::OlderSchema { path: path.to_owned(), found, known: migrate::newest() });
        }
        let left = if spool::is_left(path) { open::take_over(path, &options).await } else { None };
        let readers = reader_pool(connect, &options);
        let shared = Shared {
            path: path.to_owned(),
            ops: None,
            readers,
            bases: Mutex::new(Bases::new(0)),
            spool: OnceLock::new(),
            deletions: AtomicU64::new(0),
            buried: Buried::default(),
            known_blocks: Known::default(),
            unsettled: Arc::default(),
            stalled: watch::Sender::new(left),
            closing: CancellationToken::new(),
            tracker: TaskTracker::new(),
            checkpointing: tokio::sync::Mutex::new(()),
            log_owed: checkpoint::Owed::default(),
            ending: CancellationToken::new(),
            checkpointed: CancellationToken::new(),
            options,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Why the database cannot be written at the moment, if so. Turns that were set aside wait for it.
    pub fn stalled(&self) -> Option<Error> {
        self.shared.stalled()
    }

    /// Whether turns go straight to the database instead of being set aside first, because another process has the spool.
    pub fn is_without_spool(&self) -> bool {
        self.shared.ops.is_some() && self.shared.spool.get().is_none()
    }

    /// Takes a finished turn. When this returns, a killed process does not lose it, unless it is
    /// [in memory only](Kept::in_memory_only); its number comes with the commit.
    ///
    /// # Errors
    /// The turn was not taken.
    pub async fn keep(&self, turn: NewTurn, body: Bytes) -> Result<Kept> {
        self.hand_in(turn, body, false).await
    }

    async fn hand_in(&self, turn: NewTurn, body: Bytes, urgent: bool) -> Result<Kept> {
        let record = self.shared.spool.get().map(|spool| (spool, Record::new(&turn, &body)));
        let ops = self.shared.ops()?;
        let room = match self.shared.stalled() {
            None => tokio::select! {
                room = ops.reserve() => room.map_err(|_| Error::Closed)?,
                error = self.shared.stall() => return Err(error),
            },
            // Nobody is made to wait for a database that cannot be written.
            Some(error) => ops.try_reserve().map_err(|_| error)?,
        };
        let (tx, number) = oneshot::channel();
        let _on_its_way = OnItsWay::new(&self.shared.unsettled, &turn);
        let mut row = Some((room, Box::new(Row { turn, body, spooled: None, urgent, answer: Some(tx), _on_its_way })));
        let mut queue = |spooled: Option<i64>| {
            if let Some((room, mut row)) = row.take() {
                row.spooled = spooled;
                room.send(Op::Append(row));
            }
        };
        let spooled = match record {
            Some((spool, record)) => record.and_then(|record| spool.put(record, |seq| queue(Some(seq)))),
            None => Ok(false),
        };
        let mut kept = Kept { number, unsafe_yet: None };
        let spooled = spooled.unwrap_or_else(|error| {
            if self.shared.stalled().is_none() {
                tracing::warn!(%error, "a turn could not be set aside; it waits for the database");
            }
            false
        });
        if spooled {
            return Ok(kept);
        }
        if let Some(error) = self.shared.stalled() {
            return Err(error);
        }
        queue(None);
        tokio::select! {
            biased;
            id = &mut kept => {
                let (tx, number) = oneshot::channel();
                tx.send(Ok(id?)).ok();
                kept.number = number;
            }
            error = self.shared.stall() => kept.unsafe_yet = Some(error),
        }
        Ok(kept)
    }

    /// Writes a finished turn. Resolves when it is committed.
    pub async fn append(&self, turn: NewTurn, body: Bytes) -> Result<TurnId> {
        self.hand_in(turn, body, true).await?.await
    }

    /// Resolves when everything handed in before is committed.
    pub async fn flush(&self) -> Result<()> {
        let (tx, rx) = oneshot::channel();
        self.send(Op::Flush(tx)).await?;
        rx.await.map_err(|_| Error::Closed)
    }

    /// Commits what is waiting, empties the write-ahead log, closes the database. Later writes get [`Error::Closed`].
    pub async fn close(&self) -> Result<()> {
        self.shared.closing.cancel();
        if self.shared.ops.is_some() {
            let (tx, rx) = oneshot::channel();
            if self.send(Op::Close(tx)).await.is_ok() {
                rx.await.map_err(|_| Error::Closed)??;
            }
        }
        self.shared.readers.close().await;
        Ok(())
    }

    pub(crate) async fn send(&self, op: Op) -> Result<()> {
        self.shared.ops()?.send(op).await.map_err(|_| Error::Closed)
    }

    /// A reader's connections, once what was kept before can be read there.
    pub(crate) async fn settled(&self) -> &SqlitePool {
        self.settle(self.shared.unsettled.any(), SETTLE_PATIENCE).await
    }

    /// The same for a question about one session, which an agent waits for: only its own turns are waited for.
    pub(crate) async fn settled_session(&self, session: &str) -> &SqlitePool {
        self.settle(self.shared.unsettled.has_session(session), AGENTS_PATIENCE).await
    }

    /// The same for a question about one state of a conversation.
    pub(crate) async fn settled_state(&self, state: u128) -> &SqlitePool {
        self.settle(self.shared.unsettled.has_state(state), AGENTS_PATIENCE).await
    }

    async fn settle(&self, wait: bool, patience: Duration) -> &SqlitePool {
        if wait && self.shared.stalled().is_none() {
            // Late is better than never: what is not in by then is found by the next reader.
            tokio::select! {
                _ = tokio::time::timeout(patience, self.flush()) => {}
                _ = self.shared.stall() => {}
            }
        }
        &self.shared.readers
    }
}
