//! How connections, the lock for opening and the spool are opened, and who takes over what an earlier process left.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::spool::{self, Opened, Spool};
use crate::store::{Options, Shared};
use crate::writer::Op;
use crate::{Error, Result, Store, migrate};

/// How long a reader tries to bring into the database what a killed process left in the spool.
const READERS_PATIENCE: Duration = Duration::from_secs(1);

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

pub(crate) fn reader_options(path: &Path, options: &Options) -> SqliteConnectOptions {
    base_options(path, options).read_only(true).statement_cache_capacity(32).pragma("cache_size", "-1024")
}

pub(crate) fn reader_pool(connect: SqliteConnectOptions, options: &Options) -> SqlitePool {
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
pub(crate) async fn lock_for_opening(path: &Path, tracker: &TaskTracker) -> Result<std::fs::File> {
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

/// The spool of the database behind `conn`, and what an earlier process left in it. `None`: another process has it.
pub(crate) async fn open_spool(
    path: &Path,
    conn: &mut SqliteConnection,
    tracker: &TaskTracker,
) -> Result<Option<Opened>> {
    let owned = path.to_owned();
    match tracker.spawn_blocking(move || Spool::lock(&owned)).await {
        Ok(Ok(Some(file))) => read_spool(file, path, conn, tracker).await.map(Some),
        Ok(Ok(None)) => Ok(None),
        Ok(Err(error)) => Err(Error::from_io(spool::path_of(path), &error)),
        Err(error) => Err(Error::CannotOpen { path: path.to_owned(), reason: error.to_string() }),
    }
}

/// Reads the locked spool. What it still has to give is asked of the database afterwards: who had the spool before may have
/// been at work until it let go.
pub(crate) async fn read_spool(
    file: std::fs::File,
    path: &Path,
    conn: &mut SqliteConnection,
    tracker: &TaskTracker,
) -> Result<Opened> {
    let row: (i64, i64) =
        sqlx::query_as("SELECT db, done FROM spool").fetch_one(conn).await.map_err(|e| Error::from_sqlx(path, &e))?;
    match tracker.spawn_blocking(move || Spool::read(file, row.0, row.1)).await {
        Ok(opened) => opened.map_err(|e| Error::from_io(spool::path_of(path), &e)),
        Err(error) => Err(Error::CannotOpen { path: path.to_owned(), reason: error.to_string() }),
    }
}

/// Tries to get the spool that another process had when the store was opened.
pub(crate) async fn get_spool(shared: Arc<Shared>) {
    tracing::warn!("another process has the journal's spool; turns go straight to the database until it lets go");
    loop {
        tokio::select! {
            () = shared.ending.cancelled() => return,
            () = shared.closing.cancelled() => return,
            () = tokio::time::sleep(shared.options.retry_every) => {}
        }
        let path = shared.path.clone();
        match shared.tracker.spawn_blocking(move || Spool::lock(&path)).await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(file))) => {
                if let Ok(ops) = shared.ops() {
                    ops.send(Op::Spool(file)).await.ok();
                }
                return;
            }
            Ok(Err(error)) => tracing::debug!(%error, "the journal's spool cannot be opened"),
            Err(_) => return,
        }
    }
}

/// Brings what a killed process left in the spool into the database, so that a reader sees it. Where that cannot be done now,
/// it stays there and the next start does it; this is why.
pub(crate) async fn take_over(path: &Path, options: &Options) -> Option<Error> {
    let tracker = TaskTracker::new();
    let options = Options { busy_timeout: READERS_PATIENCE, ..options.clone() };
    let opened = Box::pin(Store::open(path, options, &tracker, CancellationToken::new())).await;
    let taken = match opened {
        Ok(store) => match store.stalled() {
            Some(error) => store.close().await.and(Err(error)),
            None => store.close().await,
        },
        Err(error) => Err(error),
    };
    taken.err()
}

/// A connection of its own, for work that must not hold up the writer.
pub(crate) async fn connect(shared: &Shared) -> Result<SqliteConnection> {
    connect_options(&shared.path, &shared.options).connect().await.map_err(|e| shared.sqlx(&e))
}

/// The schema that the file has.
pub(crate) async fn look(connect: &SqliteConnectOptions, path: &Path) -> Result<i64> {
    let mut conn = connect.connect().await.map_err(|e| Error::from_sqlx(path, &e))?;
    let found = migrate::version(&mut conn, path).await;
    conn.close().await.map_err(|e| Error::from_sqlx(path, &e))?;
    found
}

/// Whether everything committed is in the database file itself.
pub(crate) fn is_settled(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).map_or_else(|e| e.kind() == std::io::ErrorKind::NotFound, |log| log.len() == 0)
}
