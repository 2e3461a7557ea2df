//! Moves what was committed out of the write-ahead log and forces it to disk, at least every second while there is anything
//! new. Runs on a connection of its own, so that no append waits for the disk. Where the log has to forget what was deleted,
//! it is emptied as well, as soon as no reader needs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::open::{connect, connect_options, is_settled};
use crate::store::Shared;
use crate::{Error, Result};

/// Moves the whole log into the database and cuts it to nothing.
pub(crate) const EMPTY_LOG: &str = "PRAGMA wal_checkpoint(TRUNCATE)";
/// How long a try to empty the log may keep the writer waiting for a reader, how often it is tried at once, and how long
/// apart.
const HOLD: Duration = Duration::from_millis(50);
const TRIES: u32 = 5;
const APART: Duration = Duration::from_millis(50);

/// A log that still holds what was deleted.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    owed: AtomicBool,
    woken: Notify,
}

impl Owed {
    fn owe(&self) {
        self.owed.store(true, Ordering::Release);
        self.woken.notify_one();
    }
}

/// Runs until the writer has stopped.
pub(crate) async fn run(shared: Arc<Shared>, dirty: Arc<Notify>) {
    let mut conn = None;
    let mut next = Instant::now();
    // What an earlier run left in the log, because somebody read it to the end, goes now.
    if !is_settled(&shared.path) {
        shared.log_owed.owe();
    }
    let mut failing = false;
    loop {
        tokio::select! {
            () = shared.ending.cancelled() => break,
            () = dirty.notified() => {}
            () = shared.log_owed.woken.notified() => {}
        }
        tokio::select! {
            () = shared.ending.cancelled() => break,
            () = tokio::time::sleep_until(next) => {}
        }
        next = Instant::now() + shared.options.checkpoint_every;
        match passive(&shared, &mut conn).await {
            Ok(()) if shared.log_owed.owed.load(Ordering::Acquire) => match truncate(&shared).await {
                Ok(true) => tracing::debug!("the journal's log is empty"),
                Ok(false) => shared.log_owed.woken.notify_one(),
                Err(error) => {
                    tracing::debug!(%error, "the journal's log could not be emptied; the next checkpoint tries again");
                    shared.log_owed.woken.notify_one();
                }
            },
            Ok(()) => failing = false,
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "a checkpoint of the journal failed; it is tried again every second");
                }
                conn = None;
                dirty.notify_one();
            }
        }
    }
    if let Some(conn) = conn
        && let Err(error) = conn.close().await
    {
        tracing::debug!(%error, "the checkpointing connection did not close cleanly");
    }
    shared.checkpointed.cancel();
}

/// One checkpoint that blocks nobody.
async fn passive(shared: &Shared, conn: &mut Option<SqliteConnection>) -> Result<()> {
    let _alone = shared.checkpointing.lock().await;
    let conn = match conn {
        Some(conn) => conn,
        None => conn.insert(connect(shared).await?),
    };
    sqlx::raw_sql("PRAGMA wal_checkpoint(PASSIVE)").execute(conn).await.map_err(|e| shared.sqlx(&e))?;
    Ok(())
}

/// Empties the log, so that nothing deleted is left in it or in the database. False while a reader needs it: then the
/// checkpointer tries on.
pub(crate) async fn empty(shared: &Shared) -> Result<bool> {
    for _ in 0..TRIES {
        if truncate(shared).await? {
            return Ok(true);
        }
        tokio::time::sleep(APART).await;
    }
    shared.log_owed.owe();
    Ok(false)
}

/// One try to empty the log; true if that went well. It keeps writers out while it waits, so it does not wait for long.
async fn truncate(shared: &Shared) -> Result<bool> {
    let _alone = shared.checkpointing.lock().await;
    let connect = connect_options(&shared.path, &shared.options).busy_timeout(HOLD.min(shared.options.busy_timeout));
    let mut conn = connect.connect().await.map_err(|e| shared.sqlx(&e))?;
    // Not done is not an error here, but the first column.
    let done: std::result::Result<(i64, i64, i64), _> = sqlx::query_as(EMPTY_LOG).fetch_one(&mut conn).await;
    conn.close().await.map_err(|e| shared.sqlx(&e))?;
    let emptied = match done.map_err(|e| shared.sqlx(&e)) {
        Ok((busy, ..)) => busy == 0,
        Err(Error::Busy { .. }) => false,
        Err(error) => return Err(error),
    };
    if emptied {
        shared.log_owed.owed.store(false, Ordering::Release);
    }
    Ok(emptied)
}
