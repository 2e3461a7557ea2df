//! Opening and closing the database, and the handle everybody holds. Writes go to the one writer task, finished turns through
//! the spool; reads go to a small pool.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::blocks::Known;
use crate::body::Bases;
use crate::spool::{self, Left, Record, Spool};
use crate::writer::{self, Op, Row};
use crate::{Error, NewTurn, Result, TurnId, checkpoint, migrate};

/// How long a reader waits for what was kept before.
const SETTLE_PATIENCE: Duration = Duration::from_secs(5);

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
    /// Injected texts that the database has.
    pub(crate) known_blocks: Known,
    /// Where turns stand until they are in the database; `None` = read-only, or another process has it.
    pub(crate) spool: Option<Spool>,
    /// Turns handed to the writer that it has not done with.
    pub(crate) unsettled: AtomicUsize,
    /// The conversation states that those turns came from and came to, and how many did.
    pub(crate) unsettled_states: Mutex<HashMap<u128, usize>>,
    /// Why the database cannot be written at the moment.
    pub(crate) stalled: Mutex<Option<Error>>,
    pub(crate) tracker: TaskTracker,
    /// Held by whoever runs a checkpoint.
    pub(crate) checkpointing: tokio::sync::Mutex<()>,
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

    fn unsettled_states(&self) -> MutexGuard<'_, HashMap<u128, usize>> {
        self.unsettled_states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ops(&self) -> Result<&mpsc::Sender<Op>> {
        let reason = || "it was opened for reading".to_owned();
        self.ops.as_ref().ok_or_else(|| Error::ReadOnly { path: self.path.clone(), reason: reason() })
    }

    /// Why the database cannot be written at the moment, if so.
    pub(crate) fn stalled(&self) -> Option<Error> {
        self.stalled.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A turn that the writer has not done with yet.
#[derive(Debug)]
pub(crate) struct Unsettled {
    shared: Arc<Shared>,
    states: [Option<u128>; 2],
}

impl Unsettled {
    pub(crate) fn new(shared: &Arc<Shared>, turn: &NewTurn) -> Self {
        let states = [turn.prior_state, turn.state_hash];
        let mut counts = shared.unsettled_states();
        for state in states.into_iter().flatten() {
            *counts.entry(state).or_default() += 1;
        }
        drop(counts);
        shared.unsettled.fetch_add(1, Ordering::AcqRel);
        Self { shared: Arc::clone(shared), states }
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        self.shared.unsettled.fetch_sub(1, Ordering::AcqRel);
        let mut counts = self.shared.unsettled_states();
        for state in self.states.into_iter().flatten() {
            if let Entry::Occupied(mut count) = counts.entry(state) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }
}

/// A turn that is safe. Resolves to its number when it is in the database, or to what keeps it out of there.
#[derive(Debug)]
pub struct Kept(oneshot::Receiver<Result<TurnId>>);

impl Future for Kept {
    type Output = Result<TurnId>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or(Err(Error::Closed)))
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
        probe.map_err(|e| Error::from_sqlx(path, &e))?;
        if let Some(pages) = options.max_pages {
            let limit = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
            sqlx::raw_sql(limit).execute(&mut conn).await.map_err(|e| Error::from_sqlx(path, &e))?;
        }
        let (spool, left) = open_spool(path, &mut conn, tracker).await?;
        let readers = reader_pool(reader_options(path, &options), &options);
        let (tx, rx) = mpsc::channel(options.queue);
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            ops: Some(tx),
            readers,
            bases: Mutex::new(Bases::new(options.base_bytes)),
            spool,
            deletions: AtomicU64::new(0),
            known_blocks: Known::default(),
            unsettled: AtomicUsize::new(0),
            unsettled_states: Mutex::default(),
            stalled: Mutex::new(None),
            closing: CancellationToken::new(),
            tracker: tracker.clone(),
            checkpointing: tokio::sync::Mutex::new(()),
            ending: CancellationToken::new(),
            checkpointed: CancellationToken::new(),
            options,
        });
        let dirty = Arc::new(tokio::sync::Notify::new());
        tracker.spawn(checkpoint::run(Arc::clone(&shared), Arc::clone(&dirty)));
        let (taken_over, done) = oneshot::channel();
        tracker.spawn(writer::run(Arc::clone(&shared), conn, rx, dirty, cancel, left, taken_over));
        done.await.map_err(|_| Error::Closed)?;
        Ok(Self { shared })
    }

    /// Opens an existing database for reading only, e.g. while the service runs. Never migrates.
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
        if spool::is_left(path) {
            take_over(path, &options).await;
        }
        let readers = reader_pool(connect, &options);
        let shared = Shared {
            path: path.to_owned(),
            ops: None,
            readers,
            bases: Mutex::new(Bases::new(0)),
            spool: None,
            deletions: AtomicU64::new(0),
            known_blocks: Known::default(),
            unsettled: AtomicUsize::new(0),
            unsettled_states: Mutex::default(),
            stalled: Mutex::new(None),
            closing: CancellationToken::new(),
            tracker: TaskTracker::new(),
            checkpointing: tokio::sync::Mutex::new(()),
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

    /// Takes a finished turn. When this returns, a killed process does not lose it; its number comes with the commit.
    pub async fn keep(&self, turn: NewTurn, body: Bytes) -> Result<Kept> {
        self.hand_in(turn, body, false).await
    }

    async fn hand_in(&self, turn: NewTurn, body: Bytes, urgent: bool) -> Result<Kept> {
        let record = self.shared.spool.as_ref().map(|spool| (spool, Record::new(&turn, &body)));
        let ops = self.shared.ops()?;
        let room = match self.shared.stalled() {
            None => ops.reserve().await.map_err(|_| Error::Closed)?,
            // Nobody is made to wait for a database that cannot be written.
            Some(error) => ops.try_reserve().map_err(|_| error)?,
        };
        let (tx, rx) = oneshot::channel();
        let _unsettled = Unsettled::new(&self.shared, &turn);
        let mut row = Some((room, Box::new(Row { turn, body, spooled: None, urgent, answer: Some(tx), _unsettled })));
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
        let mut kept = Kept(rx);
        if !spooled.unwrap_or_else(|error| {
            tracing::warn!(%error, "a turn could not be set aside; it waits for the database");
            false
        }) {
            queue(None);
            let id = (&mut kept).await?;
            let (tx, rx) = oneshot::channel();
            tx.send(Ok(id)).ok();
            kept = Kept(rx);
        }
        Ok(kept)
    }

    /// Writes a finished turn. Resolves when it is committed.
    pub async fn append(&self, turn: NewTurn, body: Bytes) -> Result<TurnId> {
        self.hand_in(turn, body, true).await?.await
    }

    /// Resolves when everything handed in before is committed, or cannot be.
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

    /// A reader's connections for a question about one conversation state: only turns that have to do with it are
    /// waited for.
    pub(crate) async fn settled_at(&self, state: u128) -> &SqlitePool {
        if self.shared.unsettled_states().contains_key(&state) { self.settled().await } else { &self.shared.readers }
    }

    /// A reader's connections, once what was kept before can be read there.
    pub(crate) async fn settled(&self) -> &SqlitePool {
        if self.shared.unsettled.load(Ordering::Acquire) > 0 && self.shared.stalled().is_none() {
            // Late is better than never: what is not in by then is found by the next reader.
            let _ = tokio::time::timeout(SETTLE_PATIENCE, self.flush()).await;
        }
        &self.shared.readers
    }
}

/// Options of every connection.
fn base_options(path: &Path, options: &Options) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(options.busy_timeout)
        .disable_statement_logging()
        .thread_name(|n| format!("journal-{n}"))
}

/// Options of connections that write: the writer's and the checkpointer's.
pub(crate) fn connect_options(path: &Path, options: &Options) -> SqliteConnectOptions {
    base_options(path, options)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .foreign_keys(true)
        .statement_cache_capacity(128)
        .pragma("secure_delete", "ON")
        .pragma("wal_autocheckpoint", options.wal_pages.to_string())
        // The log is written over in place; giving its blocks back and asking for them again costs more than the writing.
        .pragma("journal_size_limit", (u64::from(options.wal_pages) * 4096).to_string())
        .pragma("cache_size", "-4096")
}

fn reader_options(path: &Path, options: &Options) -> SqliteConnectOptions {
    base_options(path, options).read_only(true).statement_cache_capacity(32).pragma("cache_size", "-1024")
}

fn reader_pool(connect: SqliteConnectOptions, options: &Options) -> SqlitePool {
    // No timeouts: they would start a task of sqlx's own.
    SqlitePoolOptions::new()
        .max_connections(options.readers.max(1))
        .min_connections(0)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .acquire_timeout(Duration::from_secs(30))
        .connect_lazy_with(connect)
}

/// Makes the file (0600) where there is none, and keeps other processes from opening or migrating it meanwhile.
async fn lock_for_opening(path: &Path, tracker: &TaskTracker) -> Result<std::fs::File> {
    let owned = path.to_owned();
    let job = tracker.spawn_blocking(move || {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut name = owned.clone().into_os_string();
        name.push(".lock");
        let name = PathBuf::from(name);
        let lock = options.open(&name).map_err(|e| Error::from_io(owned.clone(), &e))?;
        lock.lock().map_err(|e| Error::from_io(owned.clone(), &e))?;
        // Only a file that is not there is opened here: closing an existing one would drop the POSIX locks that SQLite
        // holds on it elsewhere in this process.
        match options.create_new(true).open(&owned) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::from_io(owned, &error)),
            _ => Ok(lock),
        }
    });
    job.await.map_err(|e| Error::CannotOpen { path: path.to_owned(), reason: e.to_string() })?
}

/// The spool of the database behind `conn`, and what an earlier process left in it.
async fn open_spool(
    path: &Path,
    conn: &mut SqliteConnection,
    tracker: &TaskTracker,
) -> Result<(Option<Spool>, Vec<Left>)> {
    let row: (i64, i64) =
        sqlx::query_as("SELECT db, done FROM spool").fetch_one(conn).await.map_err(|e| Error::from_sqlx(path, &e))?;
    let owned = path.to_owned();
    let opened = tracker.spawn_blocking(move || Spool::open(&owned, row.0, row.1));
    let opened = opened.await.map_err(|e| Error::CannotOpen { path: path.to_owned(), reason: e.to_string() })?;
    match opened.map_err(|e| Error::from_io(spool::path_of(path), &e))? {
        Some(opened) => Ok((Some(opened.spool), opened.left)),
        None => Ok((None, Vec::new())),
    }
}

/// Brings what a killed process left in the spool into the database, so that a reader sees it. Where that cannot be done now,
/// the next start does it.
async fn take_over(path: &Path, options: &Options) {
    let tracker = TaskTracker::new();
    let opened = Box::pin(Store::open(path, options.clone(), &tracker, CancellationToken::new())).await;
    let taken = match opened {
        Ok(store) => store.close().await,
        Err(error) => Err(error),
    };
    if let Err(error) = taken {
        tracing::debug!(%error, "turns that were set aside stay in the spool");
    }
}

/// A connection of its own, for work that must not hold up the writer.
pub(crate) async fn connect(shared: &Shared) -> Result<SqliteConnection> {
    connect_options(&shared.path, &shared.options).connect().await.map_err(|e| shared.sqlx(&e))
}

/// The schema that the file has.
async fn look(connect: &SqliteConnectOptions, path: &Path) -> Result<i64> {
    let mut conn = connect.connect().await.map_err(|e| Error::from_sqlx(path, &e))?;
    let found = migrate::version(&mut conn, path).await;
    conn.close().await.map_err(|e| Error::from_sqlx(path, &e))?;
    found
}

/// Whether everything committed is in the database file itself.
fn is_settled(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).map_or_else(|e| e.kind() == std::io::ErrorKind::NotFound, |log| log.len() == 0)
}
