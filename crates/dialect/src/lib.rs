//! The LLM API dialects: parse, edit in place, translate, stream. Pure: no I/O.
//! Bytes of a request or an answer come in from `proxy`; what they mean, and the bytes to send on, go back to it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

mod carry;
mod decode;
pub mod edit;
mod encode;
pub mod error;
pub mod ir;
pub mod json;
pub mod query;
pub mod quirks;
pub mod relay;
pub mod request;
mod sequence;
pub mod sse;
pub mod tokens;
mod translate;

pub use error::{ApiError, ApiErrorOrRaw, ErrorKind, upstream_error};
pub use ir::{Answer, Block, Event, Fold, Reasoning, Stop, ToolCall, Usage};
pub use json::{Json, SyntaxError, Value};
pub use query::{SideKind, is_group, side_kind, user_words};
pub use quirks::{MaxTokensField, Quirks};
pub use relay::{End, Finished, Relay, RelaySpec, Relayed, failed_run, keepalive, relay_whole};
pub use request::{Hints, Message, Request, RequestEdit, RequestError, Role, ToolResult, answer_hash, chain, is_yes};
pub use tokens::{count_tokens_estimate, estimate_tokens};
pub use translate::{custom_tools, translate_request};

/// One of the three wire forms in which agents and providers talk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Dialect {
    /// OpenAI Chat Completions, `/v1/chat/completions`.
    #[serde(rename = "openai-chat")]
    Chat,
    /// OpenAI Responses, `/v1/responses`.
    #[serde(rename = "openai-responses")]
    Responses,
    /// Anthropic Messages, `/v1/messages`.
    #[serde(rename = "anthropic-messages")]
    Messages,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    /// The name used in configuration, journal and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "openai-chat",
            Self::Responses => "openai-responses",
            Self::Messages => "anthropic-messages",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an API dialect; use openai-chat, openai-responses or anthropic-messages")]
pub struct UnknownDialect(pub String);

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == name).ok_or_else(|| UnknownDialect(name.to_owned()))
    }
}
