//! Requests from the agent's dialect into the provider's: read into one neutral form (`Ask`), written from it.
//! Only for different dialects; a request that stays in its dialect is never taken apart.

mod from_chat;
mod from_messages;
mod from_responses;
mod to_chat;
mod to_messages;
mod to_responses;

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::ir::{Reasoning, ToolCall};
use crate::{Dialect, Quirks, Request, RequestError};

/// The request's body in the provider's dialect. The same dialect gives the same bytes.
///
/// # Errors
/// `Untranslatable`: the request leans on state that only its own dialect's provider holds.
pub fn translate_request(request: &Request, to: Dialect, quirks: &Quirks) -> Result<Bytes, RequestError> {
    let from = request.dialect();
    if from == to {
        return Ok(request.bytes().clone());
    }
    let Ok(Value::Object(body)) = crate::json::read_lossy(request.bytes(), None) else {
        return Err(RequestError::NotAnObject { found: "something else" });
    };
    let mut ask = match from {
        Dialect::Chat => from_chat::read(&body),
        Dialect::Responses => from_responses::read(&body)?,
        Dialect::Messages => from_messages::read(&body, request.json().root()),
    };
    ask.restore_extras();
    ask.stream = request.stream();
    if let (Some(wanted), Some(most)) = (ask.max_tokens, quirks.max_output_tokens) {
        ask.max_tokens = Some(wanted.min(most));
    }
    Ok(Bytes::from(match to {
        Dialect::Chat => to_chat::write(&ask, quirks),
        Dialect::Responses => to_responses::write(&ask, quirks),
        Dialect::Messages => to_messages::write(&ask, quirks),
    }))
}

/// Names of the free-text tools a Responses request declares: `RelaySpec::custom_tools` of its answer.
#[must_use]
pub fn custom_tools(request: &Request) -> Vec<String> {
    let tools = request.json().root().get("tools").filter(|_| request.dialect() == Dialect::Responses);
    let custom = tools
        .into_iter()
        .flat_map(crate::Value::elements)
        .filter(|tool| tool.get("type").is_some_and(|kind| kind.is_text("custom")));
    custom.filter_map(|tool| Some(tool.get("name")?.as_str()?.into_owned())).collect()
}

/// What a request asks for, in no dialect's words.
#[derive(Debug, Default)]
struct Ask {
    model: String,
    /// Instructions that stand before the conversation.
    system: Vec<Part>,
    turns: Vec<Turn>,
    tools: Vec<Tool>,
    choice: Option<Choice>,
    parallel: Option<bool>,
    max_tokens: Option<u64>,
    temperature: Option<Value>,
    top_p: Option<Value>,
    top_k: Option<Value>,
    stop: Vec<String>,
    format: Option<Format>,
    thinking: Thinking,
    user: Option<String>,
    stream: bool,
    /// Fields that both OpenAI dialects know by the same name.
    openai: Map<String, Value>,
    verbosity: Option<Value>,
}

#[derive(Debug)]
struct Turn {
    who: Who,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// Instructions in the middle of the conversation.
    System,
    /// The user, and the results of tools.
    User,
    Assistant,
}

#[derive(Clone, Debug)]
enum Part {
    Text {
        text: String,
        cache: Option<Value>,
    },
    Image {
        source: Source,
        detail: Option<Value>,
    },
    File {
        source: Source,
        name: Option<String>,
    },
    /// `input_audio` in both OpenAI dialects.
    Audio(Value),
    Refusal(String),
    Reasoning(Reasoning),
    Call(ToolCall),
    Result(ToolResult),
}

#[derive(Clone, Debug)]
struct ToolResult {
    id: String,
    parts: Vec<Part>,
    error: bool,
    /// The result of a free-text tool.
    custom: bool,
}

#[derive(Clone, Debug)]
enum Source {
    Url(String),
    Data {
        media: String,
        data: String,
    },
    /// Plain text of a document.
    Text(String),
    /// A file stored at OpenAI, which both of its dialects can name.
    Id(String),
}

#[derive(Clone, Debug)]
struct Tool {
    name: String,
    description: Option<String>,
    schema: Value,
    strict: Option<bool>,
    /// The format of a free-text tool.
    custom: Option<Value>,
    cache: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    Auto,
    None,
    Any,
    Tool(String),
}

#[derive(Clone, Debug)]
enum Format {
    Json,
    Schema(Box<Schema>),
}

#[derive(Clone, Debug)]
struct Schema {
    name: String,
    description: Option<Value>,
    schema: Value,
    strict: Option<Value>,
}

/// How much the model shall think.
#[derive(Clone, Debug, Default, PartialEq)]
enum Thinking {
    /// Nothing said.
    #[default]
    Unset,
    Off,
    /// An effort word, and whether the client chose it in OpenAI's own terms.
    Effort {
        word: String,
        explicit: bool,
    },
    /// Anthropic's token budget.
    Budget(u64),
    /// As much as it sees fit.
    Free,
}

impl Thinking {
    fn word(&self) -> Option<&str> {
        match self {
            Self::Unset | Self::Off => None,
            Self::Effort { word, .. } => Some(word),
            Self::Budget(..4000) => Some("low"),
            Self::Budget(4000..16_000) | Self::Free => Some("medium"),
            Self::Budget(_) => Some("high"),
        }
    }

    fn explicit(&self) -> bool {
        matches!(self, Self::Effort { explicit: true, .. })
    }
}

impl Part {
    fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), cache: None }
    }
}

impl Source {
    fn url(url: &str) -> Self {
        let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(','));
        match data.and_then(|(head, data)| Some((head.strip_suffix(";base64")?, data))) {
            Some((media, data)) => {
                let media = media.split(';').next().unwrap_or_default();
                Self::Data { media: media.to_owned(), data: data.to_owned() }
            }
            None => Self::Url(url.to_owned()),
        }
    }

    /// As a URL, which both OpenAI dialects take everywhere.
    fn as_url(&self) -> Option<String> {
        match self {
            Self::Url(url) => Some(url.clone()),
            Self::Data { media, data } => Some(format!("data:{media};base64,{data}")),
            Self::Text(_) | Self::Id(_) => None,
        }
    }
}

impl Ask {
    /// Adds parts to the conversation; neighbours of the same speaker become one turn.
    fn say(&mut self, who: Who, parts: Vec<Part>) {
        if parts.is_empty() {
            return;
        }
        if who == Who::User && all_results(&parts) {
            return parts.into_iter().for_each(|part| self.result(part));
        }
        match self.turns.last_mut() {
            Some(last) if last.who == who && who == Who::Assistant => last.parts.extend(parts),
            _ => self.turns.push(Turn { who, parts }),
        }
    }

    /// Puts a result behind the answer that made its call, beside the other results of that answer. Responses lets notes,
    /// pictures and words stand between a call and its result; everywhere else the results come first.
    fn result(&mut self, part: Part) {
        let Part::Result(ToolResult { id, .. }) = &part else { return };
        let made = |turn: &Turn| turn.parts.iter().any(|part| matches!(part, Part::Call(call) if call.id == *id));
        // A result whose call is not there stays where it is.
        let at = self.turns.iter().rposition(made).map_or(self.turns.len(), |call| call + 1);
        let at = if at == self.turns.len() && at > 0 && is_results(&self.turns[at - 1]) { at - 1 } else { at };
        match self.turns.get_mut(at) {
            Some(turn) if is_results(turn) => turn.parts.push(part),
            _ => self.turns.insert(at, Turn { who: Who::User, parts: vec![part] }),
        }
    }

    /// Gives provider extras that travelled in a thinking field back to the tool calls they belong to.
    fn restore_extras(&mut self) {
        let mut extras = HashMap::new();
        let parts = || self.turns.iter().flat_map(|turn| &turn.parts);
        for part in parts() {
            if let Part::Reasoning(reasoning) = part
                && let Some(packed) = reasoning.encrypted.as_deref()
                && let Some((id, extra)) = crate::carry::unpack(packed).and_then(|carried| carried.extra)
            {
                extras.insert(id, extra);
            }
        }
        for turn in &mut self.turns {
            turn.parts.retain_mut(|part| match part {
                Part::Call(call) => {
                    if call.extra.is_none() {
                        call.extra = extras.remove(&call.id);
                    }
                    true
                }
                Part::Reasoning(reasoning) => {
                    let packed = reasoning.encrypted.as_deref().and_then(crate::carry::unpack);
                    packed.is_none_or(|carried| carried.extra.is_none())
                }
                _ => true,
            });
        }
    }

    fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

fn is_results(turn: &Turn) -> bool {
    turn.who == Who::User && all_results(&turn.parts)
}

fn all_results(parts: &[Part]) -> bool {
    parts.iter().all(|part| matches!(part, Part::Result(_)))
}

fn string(object: &Map<String, Value>, key: &str) -> Option<String> {
    object.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// A value that is neither missing nor null.
fn given(object: &Map<String, Value>, key: &str) -> Option<Value> {
    object.get(key).filter(|value| !value.is_null()).cloned()
}

fn array<'a>(object: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a Value> {
    object.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// All words of some parts, with notes where something has no words.
fn words(parts: &[Part]) -> String {
    let mut all: Vec<String> = Vec::new();
    for part in parts {
        match part {
            Part::Text { text, .. } | Part::Refusal(text) => all.push(text.clone()),
            Part::File { source: Source::Text(text), .. } => all.push(text.clone()),
            Part::File { name, .. } => {
                all.push(format!("[file {} left out]", name.as_deref().unwrap_or("without a name")));
            }
            Part::Audio(_) => all.push("[audio left out]".to_owned()),
            _ => {}
        }
    }
    all.join("\n\n")
}

/// Models of OpenAI's own, by their names.
fn is_openai(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    (takes_effort(name) || name.starts_with("gpt-") || name.starts_with("chatgpt-")) && !name.starts_with("gpt-oss")
}

/// OpenAI models that think, by their names: others refuse to be told how hard to.
fn takes_effort(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let o_series = name.strip_prefix('o').and_then(|rest| rest.chars().next()).is_some_and(|c| c.is_ascii_digit());
    let gpt = name.strip_prefix("gpt-").and_then(|rest| rest.chars().next()).and_then(|c| c.to_digit(10));
    o_series || gpt.is_some_and(|major| major >= 5) || name.starts_with("gpt-oss") || name.starts_with("codex")
}
