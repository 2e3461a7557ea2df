//! Moves what was committed out of the write-ahead log and forces it to disk, at least every second while there is anything
//! new. Runs on a connection of its own, so that no append waits for the disk.

use std::sync::Arc;

use sqlx::{Connection, SqliteConnection};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Result;
use crate::open::connect;
use crate::store::Shared;

/// Runs until the writer has stopped.
pub(crate) async fn run(shared: Arc<Shared>, dirty: Arc<Notify>) {
    let mut conn = None;
    let mut next = Instant::now();
    let mut failing = false;
    loop {
        tokio::select! {
            () = shared.ending.cancelled() => break,
            () = dirty.notified() => {}
        }
        tokio::select! {
            () = shared.ending.cancelled() => break,
            () = tokio::time::sleep_until(next) => {}
        }
        next = Instant::now() + shared.options.checkpoint_every;
        match passive(&shared, &mut conn).await {
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
