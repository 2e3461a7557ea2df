//! Upstream answers into events: one decoder per dialect, for single stream events and whole bodies alike,
//! so that both ways give the same answer.

pub(crate) mod chat;
pub(crate) mod messages;
pub(crate) mod responses;

use serde_json::{Map, Value};

use crate::ir::{Answer, Fold};
use crate::json::{Halves, read_lossy};
use crate::sequence::Sequencer;
use crate::{ApiError, Dialect, ErrorKind};

/// What a stream event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Part of the answer.
    Content,
    /// A Chat chunk with token counts and nothing else.
    UsageOnly,
    /// The dialect's end marker.
    Terminal,
    /// The upstream reported a failure.
    Error,
    /// Nothing we read (a ping, an unknown event).
    Nothing,
    /// Not JSON.
    Garbage,
}

/// One provider's stream, and what one event of it left for the next.
#[derive(Debug)]
pub(crate) struct Decoder {
    pub(crate) dialect: Decoding,
    halves: Halves,
}

#[derive(Debug)]
pub(crate) enum Decoding {
    Chat(chat::Chat),
    Responses(responses::Responses),
    Messages(messages::Messages),
}

impl Decoder {
    pub(crate) fn new(dialect: Dialect) -> Self {
        let dialect = match dialect {
            Dialect::Chat => Decoding::Chat(chat::Chat::default()),
            Dialect::Responses => Decoding::Responses(responses::Responses::default()),
            Dialect::Messages => Decoding::Messages(messages::Messages::default()),
        };
        Self { dialect, halves: Halves::default() }
    }

    /// Reads one stream event. `name` is the SSE `event:` field.
    pub(crate) fn event(&mut self, name: Option<&[u8]>, data: &[u8], seq: &mut Sequencer) -> Seen {
        let trimmed = data.trim_ascii();
        if trimmed.starts_with(b"[DONE]") {
            self.done(seq);
            return Seen::Terminal;
        }
        if trimmed.is_empty() {
            return Seen::Nothing;
        }
        let Ok(Value::Object(object)) = read_lossy(trimmed, Some(&mut self.halves)) else { return Seen::Garbage };
        let name = name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default();
        match &mut self.dialect {
            Decoding::Chat(chat) => chat.chunk(&object, seq),
            Decoding::Responses(responses) => responses.event(&object, name, seq),
            Decoding::Messages(messages) => messages.event(&object, name, seq),
        }
    }

    fn done(&mut self, seq: &mut Sequencer) {
        match &mut self.dialect {
            Decoding::Chat(chat) => chat.done(seq),
            Decoding::Responses(responses) => responses.done(seq),
            Decoding::Messages(messages) => messages.done(seq),
        }
    }

    /// Ends an answer whose end marker never came, if the model had said why it stopped. False: it had not.
    pub(crate) fn end_without_marker(&mut self, seq: &mut Sequencer) -> bool {
        let finished = self.finish_seen();
        if finished {
            self.done(seq);
        }
        finished
    }

    /// Whether the model has told why it stopped ahead of the end marker. In Responses the marker tells it.
    pub(crate) fn finish_seen(&self) -> bool {
        match &self.dialect {
            Decoding::Chat(chat) => chat.finish_seen(),
            Decoding::Responses(_) => false,
            Decoding::Messages(messages) => messages.finish_seen(),
        }
    }

    /// Whether the model gave a reason for its end, which makes an empty answer a real one.
    pub(crate) fn reason_seen(&self) -> bool {
        matches!(&self.dialect, Decoding::Responses(_)) || self.finish_seen()
    }

    /// Whether token counts may still come after the end marker.
    pub(crate) fn usage_may_follow(&self) -> bool {
        matches!(&self.dialect, Decoding::Chat(chat) if !chat.usage_seen)
    }
}

/// Reads a whole answer body.
pub(crate) fn whole(dialect: Dialect, body: &Map<String, Value>) -> Result<Answer, ApiError> {
    let mut seq = Sequencer::default();
    match dialect {
        Dialect::Chat => chat::Chat::default().whole(body, &mut seq)?,
        Dialect::Responses => responses::Responses::default().whole(body, &mut seq)?,
        Dialect::Messages => messages::Messages::default().whole(body, &mut seq)?,
    }
    let mut fold = Fold::default();
    for event in seq.drain() {
        if let crate::ir::Event::Error(error) = event {
            return Err(error);
        }
        fold.push(&event);
    }
    Ok(fold.finish(false))
}

pub(crate) fn upstream_fault(message: impl Into<String>) -> ApiError {
    ApiError::new(502, ErrorKind::Upstream, message)
}

/// The error an object reports instead of an answer, in any of the forms servers use.
pub(crate) fn error_of(object: &Map<String, Value>) -> Option<ApiError> {
    let error = match object.get("error") {
        Some(Value::Null) | None => {
            let named = object.get("type").and_then(Value::as_str) == Some("error");
            return named.then(|| read_error(object));
        }
        Some(error) => error,
    };
    Some(match error {
        Value::Object(error) => read_error(error),
        Value::String(message) => upstream_fault(message.as_str()),
        other => upstream_fault(other.to_string()),
    })
}

pub(crate) fn read_error(error: &Map<String, Value>) -> ApiError {
    let text = |key: &str| error.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let message =
        text("message").or_else(|| text("detail")).unwrap_or("the provider reported an error without a message");
    let category = text("type").or_else(|| text("code")).unwrap_or_default();
    let number = ["status", "code", "status_code"].iter().find_map(|key| error.get(*key).and_then(Value::as_u64));
    let (status, kind) = match category {
        "overloaded_error" | "service_unavailable_error" | "overloaded" | "server_overloaded" => {
            (529, ErrorKind::Overloaded)
        }
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => (429, ErrorKind::RateLimit),
        "invalid_request_error" | "invalid_prompt" | "context_length_exceeded" => (400, ErrorKind::InvalidRequest),
        "authentication_error" | "invalid_api_key" => (401, ErrorKind::Authentication),
        "permission_error" => (403, ErrorKind::Permission),
        "not_found_error" => (404, ErrorKind::NotFound),
        "timeout_error" => (504, ErrorKind::Timeout),
        _ => match number.and_then(|number| u16::try_from(number).ok()).filter(|number| (400..600).contains(number)) {
            Some(status) => (status, ApiError::kind_of(status)),
            None => (502, ErrorKind::Upstream),
        },
    };
    let mut fault = ApiError::new(status, kind, message);
    fault.code = text("code").map(str::to_owned);
    fault.param = text("param").map(str::to_owned);
    fault
}
