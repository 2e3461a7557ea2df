//! Events and whole answers into client bytes: one encoder per dialect.
//! Terminal events are written by `end`, so that the caller can hold them back until the turn is recorded.

pub(crate) mod chat;
pub(crate) mod messages;
pub(crate) mod responses;

use serde_json::{Value, json};

use crate::ir::{Answer, Event, Head, Usage};
use crate::relay::RelaySpec;
use crate::{ApiError, Dialect};

#[derive(Debug)]
pub(crate) enum Encoder {
    Chat(chat::Chat),
    Responses(Box<responses::Responses>),
    Messages(messages::Messages),
}

impl Encoder {
    pub(crate) fn new(spec: &RelaySpec) -> Self {
        match spec.client {
            Dialect::Chat => Self::Chat(chat::Chat::new(spec)),
            Dialect::Responses => Self::Responses(Box::new(responses::Responses::new(spec))),
            Dialect::Messages => Self::Messages(messages::Messages::new(spec)),
        }
    }

    /// Writes what an event means to the client. Usage and stop are kept for `end`.
    pub(crate) fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        match self {
            Self::Chat(chat) => chat.event(event, out),
            Self::Responses(responses) => responses.event(event, out),
            Self::Messages(messages) => messages.event(event, out),
        }
    }

    /// Writes the normal end of the answer.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Chat(chat) => chat.end(out),
            Self::Responses(responses) => responses.end(out),
            Self::Messages(messages) => messages.end(out),
        }
    }

    /// Writes the end of an answer that failed.
    pub(crate) fn error(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        match self {
            Self::Responses(responses) => responses.error(error, out),
            Self::Chat(_) => Wire::default().send("", &error.render(Dialect::Chat), out),
            Self::Messages(_) => Wire::default().send("error", &error.render(Dialect::Messages), out),
        }
    }
}

/// A whole answer body in the client's dialect.
pub(crate) fn whole(spec: &RelaySpec, answer: &Answer) -> Vec<u8> {
    let body = match spec.client {
        Dialect::Chat => chat::whole(spec, answer),
        Dialect::Responses => responses::whole(spec, answer),
        Dialect::Messages => messages::whole(spec, answer),
    };
    Wire::new(spec).body(body)
}

/// Writes stream events, each with the session id if the client wants one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire {
    /// `"session_id":"…"`, or empty.
    session: Vec<u8>,
}

impl Wire {
    pub(crate) fn new(spec: &RelaySpec) -> Self {
        let session =
            spec.session_id.as_ref().map(|id| format!("\"session_id\":{}", Value::from(id.as_str())).into_bytes());
        Self { session: session.unwrap_or_default() }
    }

    pub(crate) fn adds_session(&self) -> bool {
        !self.session.is_empty()
    }

    pub(crate) fn send(&self, name: &str, data: &[u8], out: &mut Vec<u8>) {
        if !name.is_empty() {
            out.extend_from_slice(b"event: ");
            out.extend_from_slice(name.as_bytes());
            out.push(b'\n');
        }
        out.extend_from_slice(b"data: ");
        self.object(data, out);
        out.extend_from_slice(b"\n\n");
    }

    pub(crate) fn body(&self, body: Vec<u8>) -> Vec<u8> {
        if self.session.is_empty() {
            return body;
        }
        let mut out = Vec::with_capacity(body.len() + self.session.len() + 1);
        self.object(&body, &mut out);
        out
    }

    /// Copies a JSON object, with the session id as its first member. Anything else is copied as it is.
    pub(crate) fn object(&self, object: &[u8], out: &mut Vec<u8>) {
        let brace = object.iter().position(|byte| !byte.is_ascii_whitespace()).filter(|at| object[*at] == b'{');
        match brace {
            Some(at) if !self.session.is_empty() => {
                let (head, rest) = object.split_at(at + 1);
                out.extend_from_slice(head);
                out.extend_from_slice(&self.session);
                if rest.trim_ascii_start().first() != Some(&b'}') {
                    out.push(b',');
                }
                out.extend_from_slice(rest);
            }
            _ => out.extend_from_slice(object),
        }
    }
}

/// Id, model and time of the answer as the client sees them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Envelope {
    /// The bare id that all ids of this answer derive from.
    pub(crate) seed: String,
    pub(crate) model: String,
    pub(crate) created: i64,
}

impl Envelope {
    pub(crate) fn new(spec: &RelaySpec, head: &Head) -> Self {
        let id = if head.id.is_empty() { spec.fallback_id.as_str() } else { head.id.as_str() };
        let bare =
            ["chatcmpl-", "resp_", "msg_", "gen-"].iter().find_map(|prefix| id.strip_prefix(prefix)).unwrap_or(id);
        let seed = bare.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).take(48).collect();
        let model =
            if head.model.is_empty() { spec.request_model.clone().unwrap_or_default() } else { head.model.clone() };
        Self { seed, model, created: head.created.unwrap_or(spec.now) }
    }
}

/// Appends a JSON string.
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    // Writing a string to a Vec cannot fail.
    _ = serde_json::to_writer(out, text);
}

/// Appends any JSON value.
pub(crate) fn value(value: &Value, out: &mut Vec<u8>) {
    _ = serde_json::to_writer(out, value);
}

pub(crate) fn chat_usage(usage: &Usage) -> Value {
    let mut prompt = json!({"cached_tokens": usage.cache_read});
    if usage.cache_write > 0 {
        prompt["cache_write_tokens"] = usage.cache_write.into();
    }
    let mut all = json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input.saturating_add(usage.output),
        "prompt_tokens_details": prompt,
    });
    if let Some(reasoning) = usage.reasoning {
        all["completion_tokens_details"] = json!({"reasoning_tokens": reasoning});
    }
    all
}

pub(crate) fn responses_usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning.unwrap_or_default()},
        "total_tokens": usage.input.saturating_add(usage.output),
    })
}

/// Anthropic counts cached prompt tokens apart from `input_tokens`.
pub(crate) fn messages_usage(usage: &Usage, nested: bool) -> Value {
    let long = usage.cache_write_1h.min(usage.cache_write);
    let mut all = json!({
        "input_tokens": usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
    });
    if nested {
        all["cache_creation"] =
            json!({"ephemeral_5m_input_tokens": usage.cache_write - long, "ephemeral_1h_input_tokens": long});
    }
    all["output_tokens"] = usage.output.into();
    if let Some(reasoning) = usage.reasoning {
        all["output_tokens_details"] = json!({"thinking_tokens": reasoning});
    }
    if nested {
        all["service_tier"] = "standard".into();
    }
    all
}
