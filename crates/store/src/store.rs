//! Opening and closing the database, and the handle everybody holds. Writes go to the one writer task, reads to a small pool.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::{self, Bases, Encoded};
use crate::writer::{self, Op, Row};
use crate::{Error, Kind, NewTurn, Result, TurnId, checkpoint, migrate};

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
            queue: 256,
            base_bytes: 8 << 20,
            keyframe_every: 32,
            checkpoint_every: Duration::from_secs(1),
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
    /// Grows when turns are deleted: a delta begun before may stand on a body that is gone.
    pub(crate) deletions: AtomicU64,
    tracker: TaskTracker,
    /// Held by whoever runs a checkpoint.
    pub(crate) checkpointing: tokio::sync::Mutex<()>,
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
}

/// A request body on its way into the journal: begun when the request arrives, completed by [`Store::append`].
#[derive(Debug)]
pub struct Pending {
    pub(crate) session: String,
    pub(crate) main: bool,
    pub(crate) body: Bytes,
    pub(crate) deletions: u64,
    encoded: Encoding,
}

#[derive(Debug)]
enum Encoding {
    Done(Encoded),
    Running(JoinHandle<Encoded>),
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
        let readers = reader_pool(reader_options(path, &options), &options);
        let (tx, rx) = mpsc::channel(options.queue);
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            ops: Some(tx),
            readers,
            bases: Mutex::new(Bases::new(options.base_bytes)),
            deletions: AtomicU64::new(0),
            tracker: tracker.clone(),
            checkpointing: tokio::sync::Mutex::new(()),
            ending: CancellationToken::new(),
            checkpointed: CancellationToken::new(),
            options,
        });
        let dirty = Arc::new(tokio::sync::Notify::new());
        tracker.spawn(checkpoint::run(Arc::clone(&shared), Arc::clone(&dirty)));
        tracker.spawn(writer::run(Arc::clone(&shared), conn, rx, dirty, cancel));
        Ok(Self { shared })
    }

    /// Opens an existing database for reading only, e.g. while the service runs. Never migrates.
    pub async fn open_read_only(path: &Path, options: Options) -> Result<Self> {
        std::fs::metadata(path).map_err(|e| Error::from_io(path.to_owned(), &e))?;
        let connect = reader_options(path, &options);
        let mut conn = connect.connect().await.map_err(|e| Error::from_sqlx(path, &e))?;
        let found = migrate::version(&mut conn, path).await?;
        conn.close().await.map_err(|e| Error::from_sqlx(path, &e))?;
        if found < migrate::newest() {
            return Err(Error::OlderSchema { path: path.to_owned(), found, known: migrate::newest() });
        }
        let readers = reader_pool(connect, &options);
        let shared = Shared {
            path: path.to_owned(),
            ops: None,
            readers,
            bases: Mutex::new(Bases::new(0)),
            deletions: AtomicU64::new(0),
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

    /// Starts to encode the body of a request that has just arrived. Returns at once; long work runs on a blocking thread.
    pub fn begin(&self, session: &str, kind: &Kind, body: Bytes) -> Pending {
        // The count before the base: a deletion in between makes the writer encode anew, never the other way round.
        let deletions = self.shared.deletions.load(Ordering::Acquire);
        let main = kind.is_main();
        let base = self.shared.bases().get(&(session.to_owned(), main));
        let every = self.shared.options.keyframe_every;
        let encoded = if body::is_heavy(&body, base.as_ref()) {
            let body = body.clone();
            Encoding::Running(self.shared.tracker.spawn_blocking(move || body::encode(&body, base.as_ref(), every)))
        } else {
            Encoding::Done(body::encode(&body, base.as_ref(), every))
        };
        Pending { session: session.to_owned(), main, body, deletions, encoded }
    }

    /// Writes a finished turn. Resolves when it is committed: from then on a killed process does not lose it.
    pub async fn append(&self, turn: NewTurn, body: Pending) -> Result<TurnId> {
        let Pending { session, main, body, mut deletions, encoded } = body;
        let same = session == turn.session && main == turn.kind.is_main();
        let encoded = match encoded {
            Encoding::Done(encoded) if same => Some(encoded),
            Encoding::Running(job) if same => job.await.ok(),
            _ => None,
        };
        let encoded = match encoded {
            Some(encoded) => encoded,
            // Begun under another session, or the blocking thread was lost: the whole body stands on nothing.
            None => {
                deletions = self.shared.deletions.load(Ordering::Acquire);
                body::encode(&body, None, self.shared.options.keyframe_every)
            }
        };
        let (tx, rx) = oneshot::channel();
        let row = Row { turn, body, encoded, deletions };
        self.send(Op::Append(Box::new(row), tx)).await?;
        rx.await.map_err(|_| Error::Closed)?
    }

    /// Resolves when everything handed in before is committed.
    pub async fn flush(&self) -> Result<()> {
        self.write(|_, _| Box::pin(async { Ok(()) })).await
    }

    /// Commits what is waiting, empties the write-ahead log, closes the database. Later writes get [`Error::Closed`].
    pub async fn close(&self) -> Result<()> {
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
        match &self.shared.ops {
            Some(ops) => ops.send(op).await.map_err(|_| Error::Closed),
            None => Err(Error::ReadOnly { path: self.shared.path.clone(), reason: "it was opened for reading".into() }),
        }
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

/// A connection of its own, for work that must not hold up the writer.
pub(crate) async fn connect(shared: &Shared) -> Result<SqliteConnection> {
    connect_options(&shared.path, &shared.options).connect().await.map_err(|e| shared.sqlx(&e))
}
