//! A finished request as the journal keeps it: what the proxy hands in, and what readers get back.
//! Written by `writer`, read by `read`; plain data, no policy.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Row number of a turn. Numbers rise in commit order and are never used twice, so "after this one" is a safe cursor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnId(pub i64);

impl std::fmt::Display for TurnId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Main conversation, or a call the client makes beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A step of a user turn.
    #[default]
    Main,
    /// A side call: `title`, `heartbeat`, `compaction`, …
    Side(String),
}

impl Kind {
    /// `main`, or the name of the side call.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Main => "main",
            Self::Side(name) => name,
        }
    }

    /// True for the main conversation.
    pub fn is_main(&self) -> bool {
        matches!(self, Self::Main)
    }
}

impl From<&str> for Kind {
    fn from(name: &str) -> Self {
        if name == "main" { Self::Main } else { Self::Side(name.to_owned()) }
    }
}

impl Serialize for Kind {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Self::from(&*String::deserialize(d)?))
    }
}

/// How the request ended, seen from the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The whole answer was there.
    #[default]
    Ok,
    /// The client got an error.
    Error,
    /// The client went away first.
    Cancelled,
    /// Upstream broke off in the middle of the answer.
    Cut,
}

impl Outcome {
    /// The name the column holds.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Cut => "cut",
        }
    }

    pub(crate) fn from_column(name: &str) -> Self {
        match name {
            "ok" => Self::Ok,
            "cancelled" => Self::Cancelled,
            "cut" => Self::Cut,
            _ => Self::Error,
        }
    }
}

/// Tokens as the provider counted them; `None` = not said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens, cached ones included.
    pub input: Option<u64>,
    /// Answer tokens, reasoning included.
    pub output: Option<u64>,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: Option<u64>,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: Option<u64>,
    /// Answer tokens spent on reasoning.
    pub reasoning: Option<u64>,
}

/// One thing that was added to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Addition {
    /// `skill` or `memory`.
    pub kind: String,
    /// Skill name or memory id.
    pub id: String,
    /// Retrieval score.
    pub score: f32,
    /// Why it was picked, in words.
    pub why: String,
    /// Estimated tokens it cost.
    pub tokens: u32,
    /// Hash of a skill's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How likely it was to be left out, for a skill that is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f32>,
}

/// Text that was put into a message of the conversation and has to be put back there, byte for byte, ever after. Without
/// text: that nothing is put there, ever after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Hash of the message it stands in.
    pub message_hash: u128,
    /// Which occurrence of that hash in the conversation, from 0.
    pub occurrence: u32,
    /// The text.
    pub text: String,
}

impl Block {
    /// What the journal calls a text by.
    #[must_use]
    pub fn name(text: &str) -> u128 {
        crate::blocks::hash_of(text)
    }
}

/// A [`Block`] by the name of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injected {
    /// Hash of the message it stands in.
    pub message_hash: u128,
    /// Which occurrence of that hash in the conversation, from 0.
    pub occurrence: u32,
    /// [`Block::name`] of the text.
    pub name: u128,
    /// The text, if it was asked for and is there.
    pub text: Option<String>,
}

/// What our own sampler produced; the trainer uses exactly these numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// Tokens of the prompt.
    pub prompt_ids: Vec<u32>,
    /// Tokens sampled.
    pub ids: Vec<u32>,
    /// The sampler's log-probability of each sampled token.
    pub logprobs: Vec<f32>,
    /// Sampling parameters, as JSON.
    pub sampling: Option<String>,
}

/// Whose memory a turn belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// User.
    pub user_id: Option<String>,
    /// Workspace.
    pub workspace_id: Option<String>,
    /// Explicit memory scope.
    pub memory_scope: Option<String>,
}

/// A finished request, to be appended. The body travels beside it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NewTurn {
    /// Session id.
    pub session: String,
    /// Agent, if known.
    pub agent: Option<String>,
    /// Main or side.
    pub kind: Kind,
    /// User turn within the session, from 1.
    pub turn_no: u32,
    /// Request within the user turn, from 0.
    pub step: u32,
    /// The client's dialect.
    pub dialect: Cow<'static, str>,
    /// The provider's dialect.
    pub upstream_dialect: Cow<'static, str>,
    /// Name of the provider.
    pub upstream: Option<String>,
    /// Model the client asked for.
    pub model_asked: Option<String>,
    /// Model the provider was asked for.
    pub model_sent: Option<String>,
    /// When the request arrived, ms since 1970.
    pub started_ms: i64,
    /// When the first byte of the answer left, ms since 1970.
    pub first_byte_ms: Option<i64>,
    /// When the answer was complete, ms since 1970.
    pub finished_ms: i64,
    /// HTTP status given to the client.
    pub status: Option<u16>,
    /// How it ended.
    pub outcome: Outcome,
    /// What went wrong, in words.
    pub error: Option<String>,
    /// Why the model stopped, in the neutral form's name.
    pub stop: Option<String>,
    /// Tokens.
    pub usage: Usage,
    /// Request headers worth keeping; never credentials.
    pub headers: Vec<(String, String)>,
    /// What was added, and why.
    pub additions: Vec<Addition>,
    /// Skills that fitted and were left out, to see what they do.
    pub held_out: Vec<Addition>,
    /// The injected block, on the request that injected it first; without text: it was decided that nothing is added.
    pub block: Option<Block>,
    /// The whole answer, as JSON.
    pub answer_json: Option<String>,
    /// The answer's text.
    pub answer_text: Option<String>,
    /// The user's own words.
    pub user_text: Option<String>,
    /// State of the conversation that this request continued; `None` = a new conversation.
    pub prior_state: Option<u128>,
    /// State of the conversation after the answer; `None` = nothing can continue it (side calls, errors).
    pub state_hash: Option<u128>,
    /// Weights that answered.
    pub weight_version: Option<i64>,
    /// Skill generation at the time of the answer.
    pub skill_generation: Option<i64>,
    /// Tokens and log-probabilities, where we sampled ourselves.
    pub sampled: Option<Sampled>,
    /// Whose memory it is.
    pub scope: Scope,
}

/// A turn as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnSummary {
    /// Row number.
    pub id: TurnId,
    /// Session id.
    pub session: String,
    /// Agent, if known.
    pub agent: Option<String>,
    /// Main or side.
    pub kind: Kind,
    /// User turn within the session, from 1.
    pub turn_no: u32,
    /// Request within the user turn, from 0.
    pub step: u32,
    /// The client's dialect.
    pub dialect: String,
    /// The provider's dialect.
    pub upstream_dialect: String,
    /// Name of the provider.
    pub upstream: Option<String>,
    /// Model the client asked for.
    pub model_asked: Option<String>,
    /// Model the provider was asked for.
    pub model_sent: Option<String>,
    /// When the request arrived, ms since 1970.
    pub started_ms: i64,
    /// When the first byte of the answer left, ms since 1970.
    pub first_byte_ms: Option<i64>,
    /// When the answer was complete, ms since 1970.
    pub finished_ms: i64,
    /// HTTP status given to the client.
    pub status: Option<u16>,
    /// How it ended.
    pub outcome: Outcome,
    /// What went wrong, in words.
    pub error: Option<String>,
    /// Why the model stopped.
    pub stop: Option<String>,
    /// Tokens.
    pub usage: Usage,
    /// What was added, and why.
    pub additions: Vec<Addition>,
    /// Skills that fitted and were left out, to see what they do.
    pub held_out: Vec<Addition>,
    /// The user's own words.
    pub user_text: Option<String>,
    /// Length of the request body in bytes.
    pub request_len: u64,
    /// Weights that answered.
    pub weight_version: Option<i64>,
    /// Skill generation at the time of the answer.
    pub skill_generation: Option<i64>,
    /// Whose memory it is.
    pub scope: Scope,
}

/// A whole turn, without the request body (see [`crate::Store::request_of`]).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Turn {
    /// What lists show.
    #[serde(flatten)]
    pub summary: TurnSummary,
    /// Kept request headers.
    pub headers: Vec<(String, String)>,
    /// The block this request injected first; without text: nothing was added, and that stays so.
    pub block: Option<Block>,
    /// The answer's text.
    pub answer_text: Option<String>,
    /// The whole answer, as JSON.
    pub answer_json: Option<String>,
    /// State of the conversation that this request continued.
    pub prior_state: Option<u128>,
    /// State of the conversation after the answer.
    pub state_hash: Option<u128>,
    /// Tokens and log-probabilities, where we sampled ourselves.
    pub sampled: Option<Sampled>,
}

/// Which turns to list; newest first unless `after` is given.
#[derive(Debug, Clone, Default)]
pub struct TurnFilter {
    /// Of this session.
    pub session: Option<String>,
    /// Of this agent.
    pub agent: Option<String>,
    /// `main` or the name of a side call.
    pub kind: Option<String>,
    /// With this outcome.
    pub outcome: Option<Outcome>,
    /// This user turn of the session.
    pub turn_no: Option<u32>,
    /// Started at or after, ms since 1970.
    pub since_ms: Option<i64>,
    /// Started before, ms since 1970.
    pub until_ms: Option<i64>,
    /// Older than this turn (for paging back).
    pub before: Option<TurnId>,
    /// Newer than this turn, oldest first (for following).
    pub after: Option<TurnId>,
    /// At most so many; 0 = 50.
    pub limit: u32,
}
