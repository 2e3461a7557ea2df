//! A request in the form of OpenAI's Chat Completions, read into what the model needs, or refused with what is wrong.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::sample::Choice;
use crate::template::{Conversation, Template, weight};

/// Longest answer where the request names no limit. Small models do not always find an end.
const LONGEST_ANSWER: usize = 2048;
/// What is answered with where the request says nothing.
const TEMPERATURE: f32 = 0.6;
const TOP_P: f32 = 0.9;
/// Most stop sequences, and bytes of one: each is looked for behind every token.
const STOPS: usize = 16;
const LONGEST_STOP: usize = 1024;

/// Most messages, and calls in one of them, that are read at all. No context holds as many.
const MOST: usize = 1 << 16;

/// A request that is not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// A word for programs.
    pub code: &'static str,
    /// For people: what is wrong and what to do.
    pub message: String,
}

impl Refusal {
    pub(crate) fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self { status: 400, code, message: message.into() }
    }

    /// The error as Chat Completions writes it.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let kind = match self.status {
            400 => "invalid_request_error",
            429 => "rate_limit_error",
            _ => "server_error",
        };
        json!({"error": {"message": self.message, "type": kind, "code": self.code, "param": null}})
            .to_string()
            .into_bytes()
    }
}

/// The request as it comes.
#[derive(Debug, Deserialize)]
pub(crate) struct Wire {
    #[serde(deserialize_with = "some")]
    messages: Vec<Message>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    tool_choice: Option<Value>,
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    max_tokens: Option<usize>,
    #[serde(default)]
    max_completion_tokens: Option<usize>,
    #[serde(default)]
    temperature: Option<f32>,
    #[serde(default)]
    top_p: Option<f32>,
    #[serde(default)]
    top_k: Option<usize>,
    #[serde(default)]
    min_p: Option<f32>,
    #[serde(default)]
    seed: Option<i64>,
    #[serde(default)]
    presence_penalty: Option<f32>,
    #[serde(default)]
    frequency_penalty: Option<f32>,
    #[serde(default)]
    stop: Option<Stop>,
    #[serde(default)]
    logprobs: Option<bool>,
    #[serde(default)]
    top_logprobs: Option<usize>,
    #[serde(default)]
    n: Option<u32>,
    #[serde(default)]
    chat_template_kwargs: Option<Value>,
    #[serde(default)]
    response_format: Option<Value>,
    #[serde(default)]
    logit_bias: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "stop is a text or a list of texts")]
enum Stop {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Option<Content>,
    #[serde(default, deserialize_with = "calls")]
    tool_calls: Vec<Box<RawValue>>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "the content of a message is a text or a list of parts")]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
}

/// A list that is refused before it takes more memory than any conversation needs.
fn some<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    struct Few<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Few<T> {
        type Value = Vec<T>;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut read = Vec::new();
            while let Some(item) = list.next_element()? {
                if read.len() == MOST {
                    return Err(serde::de::Error::custom(format!("a list with more than {MOST} entries")));
                }
                read.push(item);
            }
            Ok(read)
        }

        fn visit_unit<E>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }
    }
    from.deserialize_any(Few(PhantomData))
}

/// What a call costs before it is shown: its own text.
fn calls<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Box<RawValue>>, D::Error> {
    some(from)
}

/// A request as the model takes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wishes {
    pub(crate) stream: bool,
    pub(crate) usage: bool,
    pub(crate) longest: Option<usize>,
    pub(crate) choice: Choice,
    pub(crate) stops: Vec<String>,
    /// Likelihoods, with this many alternatives.
    pub(crate) logprobs: Option<usize>,
}

impl Wire {
    /// Reads a body.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Refusal> {
        let wire: Self = serde_json::from_slice(body).map_err(|error| unreadable(body, &error))?;
        if wire.messages.is_empty() {
            return Err(Refusal::bad("invalid_request", "The request has no messages."));
        }
        if wire.n.is_some_and(|n| n != 1) {
            return Err(Refusal::bad("unsupported", "The built-in model gives one answer; leave n at 1."));
        }
        if wire.top_logprobs.is_some_and(|most| most > 20) {
            return Err(Refusal::bad("invalid_request", "top_logprobs is at most 20."));
        }
        if wire.temperature.is_some_and(|t| !(0.0..=2.0).contains(&t)) {
            return Err(Refusal::bad("invalid_request", "temperature lies between 0 and 2."));
        }
        if wire.max_completion_tokens.or(wire.max_tokens) == Some(0) {
            return Err(Refusal::bad("invalid_request", "max_tokens is at least 1."));
        }
        let stops = wire.stops();
        if stops.len() > STOPS || stops.iter().any(|stop| stop.len() > LONGEST_STOP) {
            let message = format!("At most {STOPS} stop sequences of at most {LONGEST_STOP} bytes are looked for.");
            return Err(Refusal::bad("invalid_request", message));
        }
        wire.can_be_done()?;
        Ok(wire)
    }

    /// Refuses what would otherwise be left out without a word.
    fn can_be_done(&self) -> Result<(), Refusal> {
        let cannot = |what: &str| Err(Refusal::bad("unsupported", format!("The built-in model cannot {what}.")));
        let format = self.response_format.as_ref().and_then(|format| format.get("type")?.as_str());
        if format.is_some_and(|kind| kind != "text") {
            return cannot("be made to answer in JSON; leave out response_format");
        }
        if self.tool_choice.as_ref().is_some_and(|choice| choice != "auto" && choice != "none" && !choice.is_null()) {
            return cannot("be made to call a tool; leave tool_choice at auto");
        }
        if self.logit_bias.as_ref().is_some_and(|bias| bias.as_object().is_none_or(|bias| !bias.is_empty())) {
            return cannot("be steered token by token; leave out logit_bias");
        }
        Ok(())
    }

    fn stops(&self) -> &[String] {
        match &self.stop {
            None => &[],
            Some(Stop::One(stop)) => std::slice::from_ref(stop),
            Some(Stop::Many(stops)) => stops,
        }
    }

    /// How it is to be answered. `seed` is taken where it names none.
    pub(crate) fn wishes(&self, stream: bool, seed: u64) -> Wishes {
        Wishes {
            stream: self.stream.unwrap_or(stream),
            usage: self.stream_options.as_ref().and_then(|options| options.include_usage).unwrap_or(false),
            longest: self.max_completion_tokens.or(self.max_tokens),
            choice: Choice {
                temperature: self.temperature.unwrap_or(TEMPERATURE),
                top_p: self.top_p.unwrap_or(TOP_P).clamp(0.0, 1.0),
                top_k: self.top_k.unwrap_or(0),
                min_p: self.min_p.unwrap_or(0.0).clamp(0.0, 1.0),
                presence: self.presence_penalty.unwrap_or(0.0),
                frequency: self.frequency_penalty.unwrap_or(0.0),
                seed: self.seed.map_or(seed, |seed| seed as u64),
            },
            stops: self.stops().iter().filter(|stop| !stop.is_empty()).cloned().collect(),
            logprobs: self.logprobs.unwrap_or(false).then(|| self.top_logprobs.unwrap_or(0)),
        }
    }

    /// There are tools that the model is to see.
    pub(crate) fn has_tools(&self) -> bool {
        self.tools.as_ref().is_some_and(|tools| !tools.is_empty())
            && self.tool_choice.as_ref().is_none_or(|choice| choice != "none")
    }

    /// The conversation as the template takes it.
    pub(crate) fn conversation(&self, template: &Template, ended: &dyn Fn() -> bool) -> Result<Conversation, Refusal> {
        let thinks = self
            .chat_template_kwargs
            .as_ref()
            .and_then(|options| options.get("enable_thinking")?.as_bool())
            .unwrap_or(false);
        let mut messages = Vec::with_capacity(self.messages.len());
        for message in &self.messages {
            if ended() {
                return Err(nobody_waits());
            }
            messages.push(message.shown(template.takes_tools)?);
        }
        let tools = match (&self.tools, self.has_tools() && template.takes_tools) {
            (Some(tools), true) => tools.clone(),
            _ => Vec::new(),
        };
        let bytes = messages.iter().chain(&tools).map(weight).sum();
        Ok(Conversation { messages, tools, bytes, thinks })
    }

    /// Bytes of what was said, calls included, and the messages and calls: no template makes much less of the former, and
    /// none makes less than a token of each of the latter.
    pub(crate) fn said(&self) -> (usize, usize) {
        self.messages.iter().fold((0, 0), |(bytes, count), message| {
            let content = message.content.as_ref().map_or(0, Content::bytes);
            let calls: usize = message.tool_calls.iter().map(|call| called(call.get())).sum();
            (bytes + content + calls, count + 1 + message.tool_calls.len())
        })
    }
}

impl Content {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Parts(parts) => parts.iter().filter_map(|part| part.text.as_ref()).map(String::len).sum(),
        }
    }
}

/// Bytes of a call as it is shown at the least: blanks may go, and six bytes of an escape become two.
fn called(call: &str) -> usize {
    call.bytes().filter(|byte| !byte.is_ascii_whitespace()).count() / 3
}

/// The answer for nobody.
pub(crate) fn nobody_waits() -> Refusal {
    Refusal { status: 499, code: "cancelled", message: "Nobody waits any more.".to_owned() }
}

/// A body that is no request, with the place in it where that shows.
fn unreadable(body: &[u8], error: &serde_json::Error) -> Refusal {
    let said = error.to_string();
    let what = said.rsplit_once(" at line ").map_or(said.as_str(), |(what, _)| what);
    let what = match what.split_once(", expected ") {
        Some((found, "usize" | "u32")) => format!("{found}, where a whole number from 0 up belongs"),
        Some((found, "f32")) => format!("{found}, where a number belongs"),
        Some((found, "i64")) => format!("{found}, where a whole number belongs"),
        _ => what.to_owned(),
    };
    let place = body.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1)).map(<[u8]>::len);
    let at = (place.sum::<usize>() + error.column()).min(body.len());
    let before = String::from_utf8_lossy(&body[at.saturating_sub(40)..at]).into_owned();
    Refusal::bad("invalid_request", format!("The request cannot be read: {what}, behind {before}"))
}

/// A conversation that the context does not hold, with the fewest tokens that it can have.
pub(crate) fn too_long(least: usize, context: usize) -> Refusal {
    Refusal::bad(
        "context_length_exceeded",
        format!(
            "The conversation has at least {least} tokens, and the built-in model's context holds {context} with the \
             answer. Begin a new conversation, allow more where the model was trained for it \
             (builtin.context_tokens), or choose a provider with a longer context: metaclaw setup"
        ),
    )
}

impl Wishes {
    /// The longest answer that fits, for a prompt of so many tokens in a context of so many.
    pub(crate) fn room(&self, prompt: usize, context: usize) -> Result<usize, Refusal> {
        let left = context.saturating_sub(prompt);
        if left == 0 {
            return Err(too_long(prompt, context));
        }
        Ok(left.min(self.longest.unwrap_or(LONGEST_ANSWER)))
    }
}

impl Message {
    fn shown(&self, tools: bool) -> Result<Value, Refusal> {
        let text = match &self.content {
            None => String::new(),
            Some(Content::Text(text)) => text.clone(),
            Some(Content::Parts(parts)) => {
                let mut texts = Vec::with_capacity(parts.len());
                for part in parts {
                    match (&part.text, &part.refusal, part.kind.as_str()) {
                        (Some(text), _, _) | (None, Some(text), _) => texts.push(text.as_str()),
                        (None, None, kind) => {
                            return Err(Refusal::bad(
                                "unsupported",
                                format!("The built-in model reads text only, and a message holds a part \"{kind}\"."),
                            ));
                        }
                    }
                }
                texts.join("\n")
            }
        };
        let role = if self.role == "developer" { "system" } else { self.role.as_str() };
        let calls = self.tool_calls.iter().map(|written| call(written)).collect::<Result<Vec<Value>, _>>()?;
        if tools {
            let mut shown = json!({"role": role, "content": text});
            if let Value::Object(shown) = &mut shown {
                if !calls.is_empty() {
                    shown.insert("tool_calls".to_owned(), Value::Array(calls));
                }
                for (key, value) in [("tool_call_id", &self.tool_call_id), ("name", &self.name)] {
                    if let Some(value) = value {
                        shown.insert(key.to_owned(), Value::String(value.clone()));
                    }
                }
            }
            return Ok(shown);
        }
        // A template that knows no tools would drop calls and results; as words they stay.
        let said = Some(text).filter(|text| !text.is_empty());
        let called = calls.iter().map(|call| call.get("function").unwrap_or(call).to_string());
        let text = said.into_iter().chain(called).collect::<Vec<_>>().join("\n");
        Ok(match role {
            "tool" | "function" => json!({"role": "user", "content": format!("Tool result:\n{text}")}),
            role => json!({"role": role, "content": text}),
        })
    }
}

/// A call with its arguments as an object, as templates expect them.
fn call(written: &RawValue) -> Result<Value, Refusal> {
    let mut call: Value = serde_json::from_str(written.get())
        .map_err(|error| Refusal::bad("invalid_request", format!("A tool call cannot be read: {error}.")))?;
    if let Some(Value::String(arguments)) = call.pointer("/function/arguments")
        && let Ok(Value::Object(arguments)) = serde_json::from_str(arguments)
        && let Some(place) = call.pointer_mut("/function/arguments")
    {
        *place = Value::Object(arguments);
    }
    Ok(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "it is given a literal")]
    fn read(body: Value) -> Result<Wire, Refusal> {
        Wire::read(body.to_string().as_bytes())
    }

    fn shown(message: Value, tools: bool) -> Result<Value, Refusal> {
        serde_json::from_value::<Message>(message).unwrap().shown(tools)
    }

    #[test]
    fn wishes_are_read_and_the_seed_is_the_requests_own() {
        let wire = read(json!({
            "messages": [{"role": "user", "content": "x"}], "temperature": 0, "seed": 5, "stop": "END", "logprobs": true,
            "top_logprobs": 2, "max_tokens": 9, "stream": true, "stream_options": {"include_usage": true}
        }))
        .unwrap();
        let wishes = wire.wishes(false, 99);
        assert_eq!((wishes.stream, wishes.usage, wishes.longest, wishes.logprobs), (true, true, Some(9), Some(2)));
        assert_eq!((wishes.choice.seed, wishes.choice.temperature), (5, 0.0));
        assert_eq!(wishes.stops, ["END"]);
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_a_reason() {
        assert_eq!(read(json!({"messages": []})).unwrap_err().status, 400);
        assert_eq!(read(json!({"messages": [{"role": "user"}], "n": 2})).unwrap_err().code, "unsupported");
        for (body, word) in [
            (json!({"response_format": {"type": "json_object"}}), "response_format"),
            (json!({"tool_choice": "required"}), "tool_choice"),
            (json!({"tool_choice": {"type": "function", "function": {"name": "look"}}}), "tool_choice"),
            (json!({"logit_bias": {"50256": -100}}), "logit_bias"),
            (json!({"max_tokens": 0}), "max_tokens"),
            (json!({"max_tokens": -1}), "whole number from 0 up belongs, behind"),
            (json!({"temperature": "hot"}), "a number belongs"),
            (json!({"stop": 5}), "stop is a text or a list of texts"),
            (json!({"stop": vec!["x"; 17]}), "16 stop sequences"),
            (json!({"stop": "x".repeat(1025)}), "1024 bytes"),
        ] {
            let mut whole = json!({"messages": [{"role": "user", "content": "x"}]});
            whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            let refusal = read(whole).unwrap_err();
            assert!(refusal.status == 400 && refusal.message.contains(word), "{refusal}");
        }
        let plain = json!({"messages": [{"role": "user"}], "response_format": {"type": "text"}, "tool_choice": "auto"});
        assert!(read(plain).is_ok());
        let image = json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]});
        assert!(shown(image, true).unwrap_err().message.contains("image_url"));
    }

    #[test]
    fn a_conversation_that_does_not_fit_says_how_long_it_is() {
        let wishes = read(json!({"messages": [{"role": "user", "content": "x"}]})).unwrap().wishes(false, 0);
        assert_eq!(wishes.room(100, 150), Ok(50));
        assert_eq!(wishes.room(100, 8192), Ok(LONGEST_ANSWER));
        let refusal = wishes.room(9000, 8192).unwrap_err();
        assert_eq!(refusal.code, "context_length_exceeded");
        assert!(refusal.message.contains("9000") && refusal.message.contains("8192"));
    }

    #[test]
    fn what_nobody_could_ever_say_is_refused_while_it_is_read() {
        let message = r#"{"role":"user"}"#;
        let many = |count: usize| format!("{{\"messages\":[{}]}}", vec![message; count].join(","));
        assert!(Wire::read(many(MOST).as_bytes()).is_ok());
        let refusal = Wire::read(many(MOST + 1).as_bytes()).unwrap_err();
        assert!(refusal.message.contains("more than 65536 entries"), "{refusal}");
        let calls = [r#"{"function":{"name":"f","arguments":"{}"}}"#; 5].join(",");
        let wire = format!("{{\"messages\":[{{\"role\":\"assistant\",\"tool_calls\":[{calls}]}},{message}]}}");
        let (bytes, count) = Wire::read(wire.as_bytes()).unwrap().said();
        assert!(count == 7 && bytes > 5 * 10, "{bytes} bytes, {count} messages and calls");
    }

    #[test]
    fn tools_become_words_where_the_template_knows_none() {
        let call = json!({"role": "assistant", "content": null, "tool_calls":
            [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1}"}}]});
        assert_eq!(
            shown(call.clone(), false).unwrap(),
            json!({"role": "assistant", "content": "{\"name\":\"look\",\"arguments\":{\"at\":1}}"})
        );
        assert_eq!(shown(call, true).unwrap()["tool_calls"][0]["function"]["arguments"]["at"], 1);
        let result = json!({"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "3 files"}]});
        assert_eq!(shown(result, false).unwrap(), json!({"role": "user", "content": "Tool result:\n3 files"}));
    }
}
