//! One request of an agent, read but not changed: who speaks in it, what identifies it, where the user's turn starts.
//! Comes from `proxy` as bytes; edits of it go back as bytes through [`Request::edit`].

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use crate::Dialect;
use crate::json::{Json, Kind, SyntaxError, Value};

mod edit;
mod hash;
mod hints;
mod read;
mod results;

pub use edit::RequestEdit;
pub use hash::{answer_hash, chain};
pub use hints::{Hints, is_yes};
pub use results::ToolResult;

use hash::Digest;
use read::{Item, Part, Shape};

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions to the model (`system`, `developer`) and every role that no API knows.
    System,
    /// The user, or the agent in the user's place.
    User,
    /// The model: text, reasoning, tool calls.
    Assistant,
    /// Results of tool calls and nothing else.
    Tool,
}

/// One message of the conversation. In the Responses dialect the items of one answer (reasoning, text, calls) make up
/// one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Place among [`Request::messages`].
    pub index: usize,
    /// Who speaks.
    pub role: Role,
    /// Its bytes in the request.
    pub span: Range<usize>,
    /// Names the message in any form a client may send it: role, words, ids of tool calls and of tool results. White
    /// space, string or array form, cache marks, reasoning (`<think>…</think>` in an answer, too) and the wrappings that
    /// agents put around the user's words do not change it.
    pub hash: u128,
    /// A user's message with words of the user's own, beside what the agent wrapped around them.
    pub has_words: bool,
    /// A user's message with words, an image or a file: something a person sent.
    pub from_user: bool,
    /// Holds tool calls.
    calls: bool,
    /// Holds tool results.
    results: bool,
    /// Position of the first item in the document, and how many items belong to the message.
    first: u32,
    items: u32,
}

/// A request that was understood. Holds the bytes it came as.
#[derive(Debug, Clone)]
pub struct Request {
    dialect: Dialect,
    json: Json,
    messages: Vec<Message>,
    stream: bool,
    has_images: bool,
}

/// Why a body is not a request. Every case is the client's mistake (HTTP 400).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not JSON.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// JSON, but no object.
    #[error("the request body must be a JSON object, not {found}")]
    NotAnObject {
        /// What it is instead.
        found: &'static str,
    },
    /// No conversation in it.
    #[error("`{field}` is missing or empty; it must hold at least one message")]
    MissingMessages {
        /// The field that should hold it.
        field: &'static str,
    },
    /// A field holds the wrong kind of value.
    #[error("`{path}` must be {expected}, not {found}")]
    WrongType {
        /// The field, as in `messages[2].role`.
        path: String,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// The field means something only in its own dialect, and the provider speaks another one.
    #[error("`{path}` cannot be passed on: {reason}")]
    Untranslatable {
        /// The field, as in `input[2]`.
        path: String,
        /// Why, and what to do instead.
        reason: &'static str,
    },
}

impl RequestError {
    fn wrong(path: impl Into<String>, expected: &'static str, found: Option<Value<'_>>) -> Self {
        Self::WrongType {
            path: path.into(),
            expected,
            found: found.map_or("missing", |value| value.kind().described()),
        }
    }

    /// The field at fault, where one is known.
    pub fn param(&self) -> Option<&str> {
        match self {
            Self::MissingMessages { field } => Some(field),
            Self::WrongType { path, .. } | Self::Untranslatable { path, .. } => Some(path),
            Self::Syntax(_) | Self::NotAnObject { .. } => None,
        }
    }
}

impl Request {
    /// Reads a request body. Only what this crate relies on is checked; everything else is the upstream's to judge.
    pub fn parse(dialect: Dialect, body: Bytes) -> Result<Self, RequestError> {
        let json = Json::parse(body)?;
        let root = json.root();
        if !root.is_object() {
            return Err(RequestError::NotAnObject { found: root.kind().described() });
        }
        let stream = match root.get("stream") {
            None => false,
            Some(value) if value.is_null() => false,
            Some(value) => value.as_bool().ok_or_else(|| RequestError::wrong("stream", "a boolean", Some(value)))?,
        };
        if let Some(model) = root.get("model")
            && !matches!(model.kind(), Kind::String | Kind::Null)
        {
            return Err(RequestError::wrong("model", "a string", Some(model)));
        }
        let mut reading = Reading::default();
        match dialect {
            Dialect::Chat | Dialect::Messages => reading.messages(root)?,
            Dialect::Responses => reading.input(root)?,
        }
        let Reading { messages, has_images, .. } = reading;
        Ok(Self { dialect, json, messages, stream, has_images })
    }

    /// The dialect it was read as.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The whole document.
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// The body as it came.
    pub fn bytes(&self) -> &Bytes {
        self.json.bytes()
    }

    /// The model the client asked for.
    pub fn model(&self) -> Option<Cow<'_, str>> {
        self.json.root().get("model")?.as_str()
    }

    /// Whether the answer shall be streamed.
    pub fn stream(&self) -> bool {
        self.stream
    }

    /// Whether the client wants to see usage in a stream. Only Chat Completions has to be asked for it.
    pub fn wants_usage(&self) -> bool {
        if self.dialect != Dialect::Chat {
            return true;
        }
        let options = self.json.root().get("stream_options");
        options.and_then(|options| options.get("include_usage")).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The conversation in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The texts of a message joined by line ends; empty where there is no such message.
    pub fn message_text(&self, index: usize) -> String {
        let mut text = String::new();
        let Some(message) = self.messages.get(index) else { return text };
        self.each_text(message, &mut |words| {
            if let Some(words) = words.as_str() {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(&words);
            }
        });
        text
    }

    /// Whether the instructions to the model have these words, which must be such that JSON writes them as they are.
    pub fn instructions_have(&self, words: &str) -> bool {
        let mut found = false;
        self.each_system_text(&mut |text| found |= text.raw().contains(words));
        found
    }

    /// Shows the texts of a message one by one.
    pub(crate) fn each_text<'a>(&'a self, message: &Message, see: &mut dyn FnMut(Value<'a>)) {
        for item in self.json.following(message.first).take(message.items as usize) {
            let shape = if item.is_object() { Shape::Message } else { Shape::Content };
            read::parts_of(item, shape, &mut |part| {
                if let Part::Text(words) = part {
                    see(words);
                }
            });
        }
    }

    /// Shows the texts of the instructions to the model one by one.
    pub(crate) fn each_system_text<'a>(&'a self, see: &mut dyn FnMut(Value<'a>)) {
        if let Some(system) = read::instructions(self.dialect, self.json.root()) {
            read::parts_of(system, Shape::Content, &mut |part| {
                if let Part::Text(words) = part {
                    see(words);
                }
            });
        }
        for message in self.messages.iter().filter(|message| message.role == Role::System) {
            self.each_text(message, see);
        }
    }

    /// The user's message that triggered this request: the last one a person wrote, unless the model has already
    /// answered it and something else (a heartbeat, an event) speaks now. Tool results and messages that hold only
    /// what the agent put there are passed over.
    pub fn turn_start(&self) -> Option<usize> {
        let mut other_speaker = false;
        for message in self.messages.iter().rev() {
            match message.role {
                Role::User if message.from_user => return Some(message.index),
                Role::User => other_speaker = true,
                Role::Assistant if other_speaker && !message.calls => return None,
                Role::Assistant | Role::Tool | Role::System => {}
            }
        }
        None
    }

    /// Whether this request continues a turn: tool results came after the message that started it.
    pub fn is_tool_step(&self) -> bool {
        let start = self.turn_start().map_or(0, |start| start + 1);
        self.messages[start..].iter().any(|message| message.results)
    }

    /// What in the body tells session, turn and user.
    pub fn hints(&self) -> Hints {
        Hints::of(self)
    }

    /// Starts editing. The request itself stays as it is.
    pub fn edit(&self) -> RequestEdit<'_> {
        RequestEdit::new(self)
    }
}

/// What is gathered while the messages are read once.
#[derive(Default)]
struct Reading {
    messages: Vec<Message>,
    current: Digest,
    has_images: bool,
}

impl Reading {
    /// Chat Completions and Anthropic Messages.
    fn messages(&mut self, root: Value<'_>) -> Result<(), RequestError> {
        let list = match root.get("messages") {
            None => return Err(RequestError::MissingMessages { field: "messages" }),
            Some(list) if list.is_array() => list,
            Some(other) => return Err(RequestError::wrong("messages", "an array", Some(other))),
        };
        for (index, item) in list.elements().enumerate() {
            if !item.is_object() {
                return Err(RequestError::wrong(format!("messages[{index}]"), "an object", Some(item)));
            }
            let role = item.get("role");
            let Some(role) = role.filter(|role| role.kind() == Kind::String) else {
                return Err(RequestError::wrong(format!("messages[{index}].role"), "a string", role));
            };
            self.add(item, Shape::Message, read::role(role));
        }
        if self.messages.is_empty() {
            return Err(RequestError::MissingMessages { field: "messages" });
        }
        Ok(())
    }

    /// OpenAI Responses: a string, or a list of items. It may be left out where the conversation lies at the upstream.
    fn input(&mut self, root: Value<'_>) -> Result<(), RequestError> {
        let input = match root.get("input") {
            Some(input) if !input.is_null() => input,
            _ if ["previous_response_id", "conversation", "prompt"]
                .iter()
                .any(|key| root.get(key).is_some_and(|value| !value.is_null())) =>
            {
                return Ok(());
            }
            _ => return Err(RequestError::MissingMessages { field: "input" }),
        };
        if input.kind() == Kind::String {
            self.add(input, Shape::Content, Role::User);
            return Ok(());
        }
        if !input.is_array() {
            return Err(RequestError::wrong("input", "a string or an array", Some(input)));
        }
        // Items of one answer are gathered until something else speaks.
        let mut answer: Option<Message> = None;
        for (index, item) in input.elements().enumerate() {
            if !item.is_object() {
                return Err(RequestError::wrong(format!("input[{index}]"), "an object", Some(item)));
            }
            match read::item(item) {
                Item::Answer => self.extend_answer(&mut answer, item),
                Item::Message(role) => {
                    self.close_answer(&mut answer);
                    self.add(item, Shape::Message, role);
                }
            }
        }
        self.close_answer(&mut answer);
        Ok(())
    }

    fn extend_answer(&mut self, answer: &mut Option<Message>, item: Value<'_>) {
        let message = answer.get_or_insert_with(|| Message {
            index: self.messages.len(),
            role: Role::Assistant,
            span: item.span(),
            hash: 0,
            has_words: false,
            from_user: false,
            calls: false,
            results: false,
            first: item.position(),
            items: 0,
        });
        message.items += 1;
        message.span.end = item.span().end;
        let current = &mut self.current;
        read::parts_of(item, Shape::Message, &mut |part| match part {
            Part::Text(text) => current.json_text(text),
            Part::Call(id) => {
                message.calls = true;
                current.id(id);
            }
            Part::Result(_) | Part::Media(_) | Part::Other => {}
        });
    }

    fn close_answer(&mut self, answer: &mut Option<Message>) {
        if let Some(mut message) = answer.take() {
            message.hash = self.current.finish(Role::Assistant, None);
            self.messages.push(message);
        }
    }

    fn add(&mut self, item: Value<'_>, shape: Shape, role: Role) {
        let Self { current, has_images, .. } = self;
        let (mut words, mut media, mut calls, mut results) = (false, false, false, false);
        read::parts_of(item, shape, &mut |part| match part {
            Part::Text(text) => match role {
                Role::User => words |= current.user_text(text),
                Role::System => current.raw_text(text),
                // Agents shorten old tool output; the call's id names the result.
                Role::Tool => {}
                Role::Assistant => current.json_text(text),
            },
            Part::Call(id) => {
                calls = true;
                current.id(id);
            }
            Part::Result(id) => {
                results = true;
                current.id(id);
            }
            Part::Media(_) => {
                media = true;
                *has_images = true;
            }
            Part::Other => {}
        });
        let role = if role == Role::User && results && !words && !media { Role::Tool } else { role };
        if role == Role::User && media && !words {
            // A picture alone is named by what it shows: cache marks come and go.
            read::parts_of(item, shape, &mut |part| {
                if let Part::Media(part) = part {
                    part.members()
                        .filter(|(key, _)| !key.is_text("type") && !key.is_text("cache_control"))
                        .for_each(|(_, value)| self.current.plain_text(value.raw()));
                }
            });
        }
        let fallback = (role != Role::Assistant).then(|| item.raw());
        let hash = self.current.finish(role, fallback);
        self.messages.push(Message {
            index: self.messages.len(),
            role,
            span: item.span(),
            hash,
            has_words: words,
            from_user: role == Role::User && (words || media),
            calls,
            results: results || role == Role::Tool,
            first: item.position(),
            items: 1,
        });
    }
}
