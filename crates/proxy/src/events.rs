//! What the proxy tells the rest of the product, on the engine's bus. Events carry names and numbers, never conversation
//! text; whoever needs the text reads it from the journal.

use std::sync::Arc;

use serde::Serialize;
use store::{EndReason, Kind, Outcome, TurnId};

/// Something happened on the agent port.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A request ended and its row is in the journal.
    TurnFinished(TurnFinished),
    /// A session was ended: by the agent, or because nothing came for the configured time.
    SessionEnded {
        /// Session id.
        session: Arc<str>,
        /// Why.
        reason: EndReason,
    },
    /// A finished request could not be written down. The agent got its answer all the same.
    JournalFailed {
        /// Session id.
        session: Arc<str>,
        /// What the journal said.
        error: String,
    },
    /// The journal takes turns again after a failure.
    JournalRecovered,
    /// The main provider failed and the configured fallback was asked.
    FallbackUsed {
        /// Name of the provider that failed.
        from: Arc<str>,
        /// Name of the fallback.
        to: Arc<str>,
        /// What went wrong with the first.
        reason: String,
    },
}

/// The numbers of a finished request.
#[derive(Debug, Clone, Serialize)]
pub struct TurnFinished {
    /// Its row.
    pub id: TurnId,
    /// Session id.
    pub session: Arc<str>,
    /// Agent, where known.
    pub agent: Arc<str>,
    /// Main or side.
    pub kind: Kind,
    /// User turn in the session, from 1.
    pub turn_no: u32,
    /// Request within the user turn, from 0.
    pub step: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// HTTP status given to the agent.
    pub status: u16,
    /// Model the provider was asked for.
    pub model: Option<Arc<str>>,
    /// Skills and memories that were added.
    pub additions: usize,
    /// Where the time went.
    pub timings: Timings,
}

/// Where the time of a request went, in µs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Timings {
    /// From the last body byte to the request leaving for the provider: our own work on the way in.
    pub prepare_us: u64,
    /// From there to the provider's first answer byte.
    pub first_byte_us: Option<u64>,
    /// From arrival to the end of the answer, without the commit.
    pub total_us: u64,
    /// The commit of the journal row.
    pub commit_us: u64,
}
