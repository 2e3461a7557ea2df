//! What a request body says about its session, turn and user, beside the conversation itself.

use super::Request;
use crate::Dialect;
use crate::json::{Kind, Value};

/// The fields MetaClaw clients may put into any body besides the API's own. They never go upstream.
pub(crate) const ALIASES: [&str; 6] =
    ["session_id", "session_done", "turn_type", "memory_scope", "user_id", "workspace_id"];

/// Identity and size of a request. Empty texts count as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// Alias of `X-Session-Id`.
    pub session_id: Option<String>,
    /// Alias of `X-Session-Done`: 1, true, yes and on mean yes.
    pub session_done: bool,
    /// Alias of `X-Turn-Type`, trimmed, lower case.
    pub turn_type: Option<String>,
    /// Alias of `X-Memory-Scope`.
    pub memory_scope: Option<String>,
    /// Alias of `X-User-Id`.
    pub user_id: Option<String>,
    /// Alias of `X-Workspace-Id`.
    pub workspace_id: Option<String>,
    /// Anthropic's `metadata.user_id`, in which Claude Code tells its session.
    pub metadata_user_id: Option<String>,
    /// OpenAI's `prompt_cache_key`.
    pub prompt_cache_key: Option<String>,
    /// The Responses API's `previous_response_id`.
    pub previous_response_id: Option<String>,
    /// The output limit in tokens, under whatever name.
    pub max_tokens: Option<u64>,
    /// The conversation holds an image, a sound or a file.
    pub has_images: bool,
}

impl Hints {
    pub(super) fn of(request: &Request) -> Self {
        let root = request.json.root();
        let text = |key: &str| root.get(key).and_then(scalar);
        let limit = |key: &str| root.get(key).and_then(Value::as_i64).and_then(|limit| u64::try_from(limit).ok());
        Self {
            session_id: text("session_id"),
            session_done: text("session_done").is_some_and(|done| is_yes(&done)),
            turn_type: text("turn_type").map(|kind| kind.to_lowercase()),
            memory_scope: text("memory_scope"),
            user_id: text("user_id"),
            workspace_id: text("workspace_id"),
            metadata_user_id: root.get("metadata").and_then(|data| data.get("user_id")).and_then(scalar),
            prompt_cache_key: text("prompt_cache_key"),
            previous_response_id: text("previous_response_id"),
            max_tokens: match request.dialect {
                Dialect::Chat => limit("max_completion_tokens").or_else(|| limit("max_tokens")),
                Dialect::Responses => limit("max_output_tokens"),
                Dialect::Messages => limit("max_tokens"),
            },
            has_images: request.has_images,
        }
    }
}

/// The words that switch a flag on, in headers and bodies alike.
pub fn is_yes(text: &str) -> bool {
    ["1", "true", "yes", "on"].iter().any(|yes| text.trim().eq_ignore_ascii_case(yes))
}

/// A string, number or boolean as trimmed text; nothing where it is empty.
fn scalar(value: Value<'_>) -> Option<String> {
    let text = match value.kind() {
        Kind::String => value.as_str()?,
        Kind::Number | Kind::Bool => value.raw().into(),
        Kind::Null | Kind::Array | Kind::Object => return None,
    };
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
