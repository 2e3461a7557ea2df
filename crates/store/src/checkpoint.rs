//! Moves what was committed out of the write-ahead log and forces it to disk, at least every second while there is anything
//! new. Runs on a connection of its own, so that no append waits for the disk.

use std::sync::Arc;

use sqlx::{Connection, SqliteConnection};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::store::{Shared, connect};
use crate::writer::{Job, Op};
use crate::{Result, Store};

/// Runs until the writer has stopped.
pub(crate) async fn run(shared: Arc<Shared>, dirty: Arc<Notify>) {
    let store = Store { shared: Arc::clone(&shared) };
    let mut conn = None;
    let mut next = Instant::now();
    loop {
        tokio::select! {
            () = shared.stopped().cancelled() => break,
            () = dirty.notified() => {}
        }
        tokio::select! {
            () = shared.stopped().cancelled() => break,
            () = tokio::time::sleep_until(next) => {}
        }
        next = Instant::now() + shared.options.checkpoint_every;
        match passive(&shared, &mut conn).await {
            Ok(pages) if pages > shared.options.wal_pages => empty(&store).await,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "a checkpoint of the journal failed; the next one tries again");
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
}

/// Pages in the log after a checkpoint that blocks nobody.
async fn passive(shared: &Shared, conn: &mut Option<SqliteConnection>) -> Result<i64> {
    let conn = match conn {
        Some(conn) => conn,
        None => conn.insert(connect(shared).await?),
    };
    checkpoint(conn).await.map_err(|e| shared.sqlx(&e))
}

async fn checkpoint(conn: &mut SqliteConnection) -> sqlx::Result<i64> {
    let (_busy, pages, _moved): (i64, i64, i64) =
        sqlx::query_as("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(conn).await?;
    Ok(pages)
}

/// Lets the writer do the rest: while it does, nobody appends, so the log can start anew.
async fn empty(store: &Store) {
    let job: Job = Box::new(|conn, _| {
        Box::pin(async move {
            if let Err(error) = checkpoint(conn).await {
                tracing::warn!(%error, "the journal's log could not be emptied");
            }
        })
    });
    // Refused only when closing, which empties the log as well.
    store.send(Op::Job(job)).await.ok();
}
