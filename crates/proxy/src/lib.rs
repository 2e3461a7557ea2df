//! The agent-facing HTTP server: identify, inject, forward, stream, record. An agent cannot tell it from its provider.
//! Requests come from agents; answers come from a [`Model`]; text to add comes from [`Knowledge`]; finished turns go to
//! the store, and word of them to the engine's bus.

mod background;
mod blocks;
mod builtin_model;
mod clock;
mod conceal;
mod conversation;
mod converse;
mod count;
mod events;
mod forward;
mod gate;
mod headers;
mod http_model;
mod identify;
mod inject;
mod knowledge;
mod list;
mod meaning;
mod memories;
mod memory_routes;
mod model;
mod other;
mod recall;
mod record;
mod serve;
mod sessions;
mod settings;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use store::{EndReason, Store};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use builtin_model::{BuiltIn, BuiltinModel, Outside};
pub use clock::{Clock, SystemClock};
pub use config::Placement;
pub use converse::{SESSION_HEADER, TURN_HEADER, WARNING_HEADER};
pub use events::{Event, Timings, TurnFinished};
pub use gate::KEY_HEADER;
pub use http_model::{BadUpstream, HttpModel, Patience, http_client, route};
pub use inject::placement_of;
pub use knowledge::{Ask, Knowledge, NoKnowledge, Piece, SkillKnowledge, SkillSettings, Sources, Trial};
pub use meaning::{Meaning, SkillsBy};
pub use memories::{MemoryKnowledge, MemorySettings};
pub use memory_routes::{OwnAnswer, OwnCall};
pub use model::{BodyError, Call, Endpoint, Model, ModelError, Reply, ReplyBody, Route, Upstream};
pub use settings::Settings;

use sessions::Sessions;

/// What the agent port works with. Settings and route are swapped whole by the engine when the configuration changes.
#[derive(Clone)]
pub struct Deps {
    /// Live settings.
    pub settings: Arc<ArcSwap<Settings>>,
    /// Who answers.
    pub upstream: Arc<ArcSwap<Upstream>>,
    /// What can be added.
    pub knowledge: Arc<dyn Knowledge>,
    /// The journal.
    pub store: Store,
    /// The engine's bus.
    pub events: broadcast::Sender<Event>,
    /// Owner of everything that outlives its request.
    pub tracker: TaskTracker,
    /// Ends the background work, and the answers that still run: their agents are told.
    pub cancel: CancellationToken,
    /// Wall time and randomness.
    pub clock: Arc<dyn Clock>,
    /// Names this process to providers, so that a request that comes back to it is refused; see [`new_hop`].
    pub hop: Arc<str>,
}

/// A name for this process, for [`Deps::hop`].
pub fn new_hop(clock: &dyn Clock) -> Arc<str> {
    format!("{:016x}", clock.random()).into()
}

/// The agent port.
pub struct Proxy {
    deps: Deps,
    sessions: Sessions,
    models: list::Cache,
    journal_failing: AtomicBool,
    /// Number of the newest session that nothing names.
    last_session: AtomicU64,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}

impl Proxy {
    /// An agent port that serves nobody yet.
    pub fn new(deps: Deps) -> Arc<Self> {
        Arc::new(Self {
            deps,
            sessions: Sessions::default(),
            models: list::Cache::default(),
            journal_failing: AtomicBool::new(false),
            last_session: AtomicU64::new(0),
        })
    }

    /// The routes of the agent port. Every request passes the gate first.
    pub fn router(self: &Arc<Self>) -> axum::Router {
        axum::Router::new().fallback(serve::serve).with_state(self.clone())
    }

    /// Whether the last finished turn could not be written down.
    pub fn is_journal_failing(&self) -> bool {
        self.journal_failing.load(Ordering::Relaxed)
    }

    /// Words were taken out of the journal: what was put into messages is read from there again.
    pub fn journal_changed(&self) {
        self.sessions.journal_changed();
    }

    /// Ends a session: in memory, in the journal, and on the bus.
    pub async fn end_session(&self, session: &Arc<str>, reason: EndReason) {
        self.sessions.forget(session);
        match self.deps.store.end_session(session, reason, self.deps.clock.now_ms()).await {
            Ok(true) => self.emit(Event::SessionEnded { session: session.clone(), reason }),
            Ok(false) => {}
            Err(error) => tracing::warn!(%session, %error, "the end of the session was not recorded"),
        }
    }

    fn emit(&self, event: Event) {
        // Nobody listens: fine.
        let _ = self.deps.events.send(event);
    }
}

/// The routes of the agent port, for those who need nothing else of it.
pub fn router(deps: Deps) -> axum::Router {
    Proxy::new(deps).router()
}
