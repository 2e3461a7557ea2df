//! What an upstream cannot take. Carried as data by the provider presets; read by `request` (same dialect) and by
//! `translate` (different dialects).

use serde::{Deserialize, Serialize};

/// Differences between an upstream and the API it says it speaks. The default takes everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quirks {
    /// Takes `role: "developer"`. Where not, such messages go as `system`.
    pub developer_role: bool,
    /// Takes `role: "system"` in the input of the Responses API. Where not, such items go as `developer`.
    pub system_role: bool,
    /// Takes `store`. Where not, it is left out.
    pub store: bool,
    /// The name it wants for the output limit of a chat completion.
    pub max_tokens_field: MaxTokensField,
    /// The largest output limit it takes, in tokens. A larger one is lowered to this.
    pub max_output_tokens: Option<u64>,
    /// Takes `stream_options.include_usage`. Where not, `stream_options` is left out.
    pub stream_usage: bool,
    /// Takes the thinking of earlier answers back (`reasoning_content`) in translated requests. Some need it, some refuse it.
    pub reasoning_history: bool,
    /// Takes `parallel_tool_calls`. Where not, it is left out.
    pub parallel_tool_calls: bool,
    /// Takes OpenClaw's fixed first message of a new session. Some content filters refuse that text; it then goes as a
    /// neutral greeting request.
    pub session_start_prompt: bool,
    /// Further top-level fields it refuses; they are left out.
    pub drop_fields: Vec<String>,
}

impl Default for Quirks {
    fn default() -> Self {
        Self {
            developer_role: true,
            system_role: true,
            store: true,
            max_tokens_field: MaxTokensField::AsSent,
            max_output_tokens: None,
            stream_usage: true,
            reasoning_history: true,
            parallel_tool_calls: true,
            session_start_prompt: true,
            drop_fields: Vec::new(),
        }
    }
}

/// The field that carries the output limit of a chat completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// Whatever the client used.
    #[default]
    AsSent,
    /// `max_tokens`
    MaxTokens,
    /// `max_completion_tokens`
    MaxCompletionTokens,
}
