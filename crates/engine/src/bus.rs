//! The event bus: what happens, live to every listener, and the rare events kept in the journal so that they can be
//! read back. One task numbers and stores them in order; a full or closed journal never holds an event back.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::Store;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use utoipa::ToSchema;

use crate::Clock;

/// How many events a slow listener may fall behind before it misses some.
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
    queue: mpsc::UnboundedSender<(Event, bool)>,
    live: broadcast::Sender<Event>,
    clock: Clock,
}

impl Bus {
    /// Starts the bus on `tasks`. Its task ends after `ending`, when everything said before is kept.
    pub(crate) fn start(journal: Store, clock: Clock, tasks: &TaskTracker, ending: CancellationToken) -> Self {
        let (queue, mut incoming) = mpsc::unbounded_channel::<(Event, bool)>();
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
        Self { queue, live, clock }
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
        let event = Event { id: None, at_ms: self.clock.now_ms(), kind: kind.to_owned(), data };
        let _ = self.queue.send((event, keep));
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
