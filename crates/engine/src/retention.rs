//! What is kept for a time only (`memory.retention_days`, `journal.retention_days`) goes when that is over: behind the
//! requests, a step at a time, resting as long as a step took.

use std::sync::Arc;
use std::time::Duration;

use config::Config;
use memory::{Keep, Memory};
use serde_json::json;
use store::Retired;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::bus::Bus;
use crate::core::Core;
use crate::remember::{Memories, blocking};

/// After a start, requests go first for so long.
const FIRST: Duration = Duration::from_secs(60);
/// How often it is looked.
const LOOK: Duration = Duration::from_secs(60 * 60);
/// Between two steps at least.
const YIELD: Duration = Duration::from_millis(10);

/// How long things are kept, as the settings say.
pub(crate) fn keep(config: &Config) -> Keep {
    Keep { memory_days: config.memory.retention_days, journal_days: config.journal.retention_days }
}

/// Lets go what is over its time until the service ends.
pub(crate) async fn work(core: Core, memories: Arc<Memories>, bus: Bus, ending: CancellationToken) {
    let mut next = Instant::now() + FIRST;
    let mut failing = false;
    loop {
        tokio::select! {
            () = ending.cancelled() => return,
            () = memories.kept.notified() => {}
            () = tokio::time::sleep_until(next) => {}
        }
        next = Instant::now() + LOOK;
        let keep = **memories.keep.load();
        if keep.is_for_ever() {
            continue;
        }
        let now_ms = core.clock().now_ms();
        let done = let_go(&memories.memory(), keep, now_ms, Some(&ending)).await;
        match done {
            Ok(gone) if gone.is_nothing() => failing = false,
            Ok(gone) => {
                failing = false;
                core.memory_forgotten();
                told(&bus, keep, gone);
            }
            Err(error) => {
                if !ending.is_cancelled() && !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "what is over its time cannot be deleted; it is tried again every hour");
                }
            }
        }
    }
}

/// Tells of what went.
pub(crate) fn told(bus: &Bus, keep: Keep, gone: Retired) {
    tracing::info!(
        facts = gone.facts,
        passages = gone.windows,
        turns = gone.turns,
        sessions = gone.sessions,
        memory_days = keep.memory_days,
        journal_days = keep.journal_days,
        "what was over its time is deleted"
    );
    bus.keep(
        "memory_retired",
        json!({ "facts": gone.facts, "passages": gone.windows, "turns": gone.turns, "sessions": gone.sessions }),
    );
}

/// Deletes what is over its time. With `ending`, behind the requests: it rests after each step, and stops when that says so.
pub(crate) async fn let_go(
    memory: &Memory,
    keep: Keep,
    now_ms: i64,
    ending: Option<&CancellationToken>,
) -> memory::Result<Retired> {
    let mut gone = Retired::default();
    loop {
        let begun = Instant::now();
        let step = memory.clone();
        let step = blocking(async move { step.retire(keep, now_ms).await }).await?;
        if step.is_nothing() {
            break;
        }
        gone += step;
        if let Some(ending) = ending {
            tokio::select! {
                () = ending.cancelled() => break,
                () = tokio::time::sleep(begun.elapsed().max(YIELD)) => {}
            }
        }
    }
    if !gone.is_nothing() && !ending.is_some_and(CancellationToken::is_cancelled) {
        let memory = memory.clone();
        blocking(async move { memory.retired(now_ms).await }).await?;
    }
    Ok(gone)
}
