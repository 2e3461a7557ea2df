//! The event bus: what happens, live to every listener, and the rare events kept in the journal so that they can be
//! read back. One task numbers and stores them in order. Nobody waits for it: what finds its queue full is counted and told as
//! `missed`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::Store;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use utoipa::ToSchema;

use crate::Clock;

/// How many events a slow listener may fall behind before it misses some, and how many may wait for the journal.
const BACKLOG: usize = 1024;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Number in the journal; absent for events that are not kept (turns are kept as turns).
    pub id: Option<i64>,
    /// When, ms since 1970.
    pub at_ms: i64,
    /// What: `service_started`, `config_changed`, `turn_finished`, …
    pub kind: String,
    /// The facts of this kind of event.
    #[schema(value_type = Object)]
    pub data: Value,
}

/// The sending side. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Bus {
    queue: mpsc::Sender<(Event, bool)>,
    /// Events that found the queue full since the last one that did not.
    missed: Arc<AtomicU64>,
    live: broadcast::Sender<Event>,
    clock: Clock,
}

impl Bus {
    /// Starts the bus on `tasks`. Its task ends after `ending`, when everything said before is kept.
    pub(crate) fn start(journal: Store, clock: Clock, tasks: &TaskTracker, ending: CancellationToken) -> Self {
        let (queue, mut incoming) = mpsc::channel::<(Event, bool)>(BACKLOG);
        let (live, _) = broadcast::channel(BACKLOG);
        let sender = live.clone();
        tasks.spawn(async move {
            loop {
                let next = tokio::select! {
                    biased;
                    next = incoming.recv() => next,
                    () = ending.cancelled() => None,
                };
                let Some((mut event, keep)) = next else { break };
                if keep {
                    let new = store::NewEvent {
                        at_ms: event.at_ms,
                        kind: event.kind.clone(),
                        session: None,
                        json: event.data.to_string(),
                    };
                    match journal.add_event(new).await {
                        Ok(id) => event.id = Some(id),
                        Err(error) => tracing::warn!(kind = event.kind, %error, "an event was not kept"),
                    }
                }
                let _ = sender.send(event);
            }
        });
        Self { queue, missed: Arc::default(), live, clock }
    }

    /// Tells all listeners, and keeps the event in the journal.
    pub(crate) fn keep(&self, kind: &str, data: Value) {
        self.send(kind, data, true);
    }

    /// Tells all listeners only.
    pub(crate) fn tell(&self, kind: &str, data: Value) {
        self.send(kind, data, false);
    }

    fn send(&self, kind: &str, data: Value, keep: bool) {
        let event = |kind: &str, data| Event { id: None, at_ms: self.clock.now_ms(), kind: kind.to_owned(), data };
        let missed = self.missed.swap(0, Ordering::Relaxed);
        let told = missed == 0 || self.queue.try_send((event("missed", json!({ "count": missed })), false)).is_ok();
        let back = if told { 0 } else { missed };
        let full = matches!(self.queue.try_send((event(kind, data), keep)), Err(TrySendError::Full(_)));
        self.missed.fetch_add(back + u64::from(full), Ordering::Relaxed);
    }

    /// A listener that hears everything from now on.
    #[must_use]
    pub(crate) fn listen(&self) -> broadcast::Receiver<Event> {
        self.live.subscribe()
    }
}

impl std::fmt::Debug for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bus").field("listeners", &self.live.receiver_count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_queue_counts_what_it_missed_and_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let (tasks, ending) = (TaskTracker::new(), CancellationToken::new());
        let path = dir.path().join("j.db");
        let journal = Store::open(&path, store::Options::default(), &tasks, ending.clone()).await.unwrap();
        let bus = Bus::start(journal, Arc::new(proxy::SystemClock), &tasks, ending.clone());
        let mut heard = bus.listen();
        // On this one-thread runtime the bus's task has no turn before we wait.
        for _ in 0..BACKLOG + 5 {
            bus.tell("turn_finished", Value::Null);
        }
        let mut take = async || heard.recv().await.unwrap();
        for _ in 0..BACKLOG {
            assert_eq!(take().await.kind, "turn_finished");
        }
        bus.tell("session_ended", Value::Null);
        let missed = take().await;
        assert_eq!((missed.kind.as_str(), missed.data), ("missed", json!({ "count": 5 })));
        assert_eq!(take().await.kind, "session_ended");
        ending.cancel();
    }
}
