//! Sessions as the journal keeps them. The writer makes and counts them with their turns; ends, privacy and deletion come
//! from the proxy and the engine.

use serde::{Deserialize, Serialize};

use crate::TurnId;

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndReason {
    /// The client said so.
    Explicit,
    /// Nothing came for the configured time.
    Idle,
    /// The user closed it.
    User,
}

impl EndReason {
    /// The name the column holds.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::Idle => "idle",
            Self::User => "user",
        }
    }

    pub(crate) fn from_column(name: &str) -> Self {
        match name {
            "explicit" => Self::Explicit,
            "user" => Self::User,
            _ => Self::Idle,
        }
    }
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Session {
    /// Session id.
    pub id: String,
    /// Agent, if known.
    pub agent: Option<String>,
    /// First request, ms since 1970.
    pub started_ms: i64,
    /// Last answer, ms since 1970.
    pub last_ms: i64,
    /// When it ended, ms since 1970; `None` = open.
    pub ended_ms: Option<i64>,
    /// Why it ended.
    pub end_reason: Option<EndReason>,
    /// User turns so far.
    pub turns: u32,
    /// Journal rows: steps and side calls included.
    pub requests: u32,
    /// The first words the user said.
    pub title: Option<String>,
    /// Never used for learning.
    pub private: bool,
}

/// Which sessions to list, the last active first.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Of this agent.
    pub agent: Option<String>,
    /// Only open (`true`) or only ended ones.
    pub open: Option<bool>,
    /// Active at or after, ms since 1970.
    pub since_ms: Option<i64>,
    /// Last active before, ms since 1970 (for paging).
    pub until_ms: Option<i64>,
    /// At most so many; 0 = 50.
    pub limit: u32,
}

/// A place in the journal where a conversation had the state asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateMatch {
    /// Session id.
    pub session: String,
    /// The turn that led to the state.
    pub turn: TurnId,
    /// User turn number of that turn.
    pub turn_no: u32,
    /// Step of that turn.
    pub step: u32,
    /// Another turn of the session has gone on from this state.
    pub continued: bool,
    /// When the turn finished, ms since 1970.
    pub finished_ms: i64,
    /// The session has ended.
    pub ended: bool,
}
