//! The dialect-neutral answer of a model, whole (`Answer`) and in motion (`Event`).
//! Decoders make it from upstream bytes, encoders turn it into client bytes, the journal stores it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ApiError, Dialect};

/// One finished (or cut) model answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The upstream's own answer id, as sent; empty if it sent none.
    pub id: String,
    /// The model name the upstream reported; empty if it reported none.
    pub model: String,
    /// Unix seconds, where the upstream reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<i64>,
    /// Content in the order it was produced.
    pub blocks: Vec<Block>,
    /// Why the model stopped.
    pub stop: Stop,
    /// Token counts; all zero if the upstream reported none.
    pub usage: Usage,
}

/// One piece of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Words for the user.
    Text {
        /// The words.
        text: String,
        /// Citations and the like, in the upstream's own form.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        annotations: Vec<Value>,
    },
    /// The model's thinking.
    Reasoning(Reasoning),
    /// A call of one of the client's tools.
    ToolCall(ToolCall),
    /// The model's refusal, where the dialect has a field of its own for it.
    Refusal {
        /// What the model said.
        text: String,
    },
    /// A piece only the upstream's dialect knows (server tools, images, …), kept as it came.
    Opaque {
        /// Whose piece it is.
        dialect: Dialect,
        /// The JSON of the block or item.
        value: Value,
    },
}

/// Thinking, with whatever the provider needs to take it back on the next request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reasoning {
    /// Readable thinking or its summary; may be empty.
    pub text: String,
    /// Anthropic's signature over the thinking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Encrypted thinking: Anthropic's redacted block or OpenAI's `encrypted_content`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<String>,
    /// The item id OpenAI Responses gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// A call of a client's tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolCall {
    /// The id the result must name.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Arguments: JSON text as the model wrote it, or free text of a `custom` tool.
    pub arguments: String,
    /// A free-text tool (OpenAI's `custom` kind).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub custom: bool,
    /// Provider extras that must come back with the call (Gemini's thought signature).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
}

/// Why the model stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It had said all.
    #[default]
    EndTurn,
    /// The output limit was reached.
    MaxTokens,
    /// It waits for tool results.
    ToolUse,
    /// One of the client's stop sequences came up (named where the dialect names it).
    StopSequence(Option<String>),
    /// The model declined.
    Refusal,
    /// A filter cut the answer.
    ContentFilter,
    /// A long server-side turn was paused; the client sends it back to go on.
    Pause,
    /// A reason no dialect of ours knows; also `cut` for an answer that was broken off.
    Other(String),
}

/// Token counts of one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// All prompt tokens, cached ones included (OpenAI's way of counting).
    pub input: u64,
    /// All answer tokens, reasoning included.
    pub output: u64,
    /// Part of `input` read from the provider's cache.
    pub cache_read: u64,
    /// Part of `input` written to the provider's cache.
    pub cache_write: u64,
    /// Part of `cache_write` with the one-hour lifetime.
    pub cache_write_1h: u64,
    /// Part of `output` spent on reasoning, where reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Whether the upstream reported anything at all.
    #[must_use]
    pub fn is_known(&self) -> bool {
        *self != Self::default()
    }
}

/// Who answers: the first thing a stream tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Head {
    /// Answer id, empty if unknown.
    pub id: String,
    /// Model name, empty if unknown.
    pub model: String,
    /// Unix seconds.
    pub created: Option<i64>,
}

/// An answer in motion. Blocks come strictly one after the other: `Open`, `Delta`*, `Close`.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The answer begins.
    Start(Head),
    /// A block begins; its texts are empty unless the upstream sent it in one piece.
    Open(Block),
    /// More of the open block.
    Delta(Delta),
    /// The open block is complete.
    Close,
    /// Token counts so far; a later one replaces it.
    Usage(Usage),
    /// Why the model stopped; no block follows.
    Stop(Stop),
    /// The upstream failed in the middle of its answer.
    Error(ApiError),
}

/// More of the open block.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// Words of a text, reasoning or refusal block, or argument text of a tool call.
    Text(String),
    /// The thinking's signature.
    Signature(String),
    /// Encrypted thinking.
    Encrypted(String),
    /// The reasoning item's id.
    Id(String),
    /// A citation.
    Annotation(Value),
    /// Provider extras of a tool call.
    Extra(Value),
    /// The final form of an opaque block.
    Value(Value),
}

impl Block {
    /// An empty text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), annotations: Vec::new() }
    }

    /// A reasoning block without signature.
    #[must_use]
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::Reasoning(Reasoning { text: text.into(), ..Reasoning::default() })
    }

    /// A call of a JSON tool.
    #[must_use]
    pub fn tool(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::ToolCall(ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            ..ToolCall::default()
        })
    }

    pub(crate) fn apply(&mut self, delta: Delta) {
        match (self, delta) {
            (Self::Text { text, .. } | Self::Refusal { text }, Delta::Text(more)) => text.push_str(&more),
            (Self::Text { annotations, .. }, Delta::Annotation(one)) => annotations.push(one),
            (Self::Reasoning(reasoning), Delta::Text(more)) => reasoning.text.push_str(&more),
            (Self::Reasoning(reasoning), Delta::Signature(more)) => {
                reasoning.signature.get_or_insert_default().push_str(&more);
            }
            (Self::Reasoning(reasoning), Delta::Encrypted(all)) => reasoning.encrypted = Some(all),
            (Self::Reasoning(reasoning), Delta::Id(id)) => reasoning.id = Some(id),
            (Self::ToolCall(call), Delta::Text(more)) => call.arguments.push_str(&more),
            (Self::ToolCall(call), Delta::Extra(extra)) => call.extra = Some(extra),
            (Self::Opaque { value, .. }, Delta::Value(all)) => *value = all,
            _ => {}
        }
    }

    /// Whether the block carries nothing a client could miss.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Text { text, annotations } => text.is_empty() && annotations.is_empty(),
            Self::Refusal { text } => text.is_empty(),
            Self::Reasoning(r) => r.text.is_empty() && r.signature.is_none() && r.encrypted.is_none(),
            Self::ToolCall(_) | Self::Opaque { .. } => false,
        }
    }
}

impl Answer {
    /// All words for the user, blocks joined by a newline.
    #[must_use]
    pub fn text(&self) -> String {
        let mut all = String::new();
        for block in &self.blocks {
            if let Block::Text { text, .. } | Block::Refusal { text } = block
                && !text.is_empty()
            {
                if !all.is_empty() {
                    all.push('\n');
                }
                all.push_str(text);
            }
        }
        all
    }

    /// The calls of client tools, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Makes `stop` agree with the blocks: a tool call means `ToolUse`, `ToolUse` means a tool call.
    pub(crate) fn settle(&mut self) {
        let calls = self.tool_calls().next().is_some();
        self.stop.settle(calls);
    }

    pub(crate) fn head(&self) -> Head {
        Head { id: self.id.clone(), model: self.model.clone(), created: self.created }
    }

    /// The same answer as a stream of events: the source of every whole-to-stream conversion.
    pub fn events(&self) -> Vec<Event> {
        let mut events = vec![Event::Start(self.head())];
        for block in &self.blocks {
            events.push(Event::Open(block.clone()));
            events.push(Event::Close);
        }
        if self.usage.is_known() {
            events.push(Event::Usage(self.usage));
        }
        events.push(Event::Stop(self.stop.clone()));
        events
    }
}

impl Stop {
    pub(crate) fn settle(&mut self, calls: bool) {
        match self {
            Self::EndTurn | Self::Other(_) if calls => *self = Self::ToolUse,
            Self::ToolUse if !calls => *self = Self::EndTurn,
            _ => {}
        }
    }
}

/// Builds the answer from events.
#[derive(Debug, Default)]
pub struct Fold {
    answer: Answer,
    open: bool,
}

impl Fold {
    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        match event {
            Event::Start(head) => {
                self.answer.id.clone_from(&head.id);
                self.answer.model.clone_from(&head.model);
                self.answer.created = head.created;
            }
            Event::Open(block) => {
                self.answer.blocks.push(block.clone());
                self.open = true;
            }
            Event::Delta(delta) => {
                if self.open
                    && let Some(block) = self.answer.blocks.last_mut()
                {
                    block.apply(delta.clone());
                }
            }
            Event::Close => self.close(),
            Event::Usage(usage) => self.answer.usage = *usage,
            Event::Stop(stop) => self.answer.stop = stop.clone(),
            Event::Error(_) => {}
        }
    }

    fn close(&mut self) {
        if self.open && self.answer.blocks.last().is_some_and(Block::is_empty) {
            self.answer.blocks.pop();
        }
        self.open = false;
    }

    /// What has been built so far.
    #[must_use]
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// The answer. `cut` marks one that was broken off.
    #[must_use]
    pub fn finish(mut self, cut: bool) -> Answer {
        self.close();
        if cut {
            self.answer.stop = Stop::Other("cut".to_owned());
        } else {
            self.answer.settle();
        }
        self.answer
    }
}

/// A count that may come as integer, float or not at all.
pub(crate) fn count(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| {
        let float = value.as_f64()?;
        // Counts above 2^53 do not exist; a negative or NaN one counts as zero.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating cast of a count")]
        Some(float as u64)
    })
}

/// A non-empty string member.
pub(crate) fn text_of<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}
