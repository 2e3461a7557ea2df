//! What an upstream's error answer says, whatever form it comes in.

use serde_json::{Map, Value};

use super::{ApiError, ErrorKind};
use crate::Dialect;

/// No message to the agent is longer, in characters.
const LONGEST: usize = 500;

/// How an upstream's error reaches the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiErrorOrRaw {
    /// The body already has the agent's form: it goes on byte for byte.
    Raw,
    /// The body must be written anew.
    Error(ApiError),
}

/// Reads an error answer of an upstream that speaks `from` for an agent that speaks `to`. JSON of the same family goes
/// on as it is; of everything else, an HTML page included, the message is kept (at most 500 characters).
pub fn upstream_error(
    from: Dialect,
    to: Dialect,
    status: u16,
    content_type: Option<&str>,
    body: &[u8],
) -> ApiErrorOrRaw {
    let json = serde_json::from_slice::<Map<String, Value>>(body).ok();
    let same_family = (from == Dialect::Messages) == (to == Dialect::Messages);
    match json {
        Some(object) if same_family && !object.is_empty() => ApiErrorOrRaw::Raw,
        Some(object) => ApiErrorOrRaw::Error(from_json(status, &object)),
        None => {
            let kind = ApiError::kind_of(status);
            ApiErrorOrRaw::Error(ApiError::new(status, kind, from_text(status, content_type, body)))
        }
    }
}

fn from_json(status: u16, object: &Map<String, Value>) -> ApiError {
    let nested = object.get("error").and_then(Value::as_object);
    let inner = nested.unwrap_or(object);
    let text = |key: &str| inner.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let message = text("message")
        .or_else(|| object.get("error").and_then(Value::as_str))
        .or_else(|| text("detail"))
        .or_else(|| text("msg"))
        .map_or_else(|| Value::Object(object.clone()).to_string(), str::to_owned);
    let code = match inner.get("code") {
        Some(Value::String(code)) => Some(code.clone()),
        Some(Value::Number(code)) => Some(code.to_string()),
        _ => None,
    };
    ApiError {
        status,
        kind: text("type").and_then(kind_named).unwrap_or_else(|| ApiError::kind_of(status)),
        code,
        param: text("param").map(str::to_owned),
        message: shortened(&message),
    }
}

fn kind_named(name: &str) -> Option<ErrorKind> {
    Some(match name {
        "invalid_request_error" => ErrorKind::InvalidRequest,
        "authentication_error" => ErrorKind::Authentication,
        "permission_error" | "billing_error" => ErrorKind::Permission,
        "not_found_error" => ErrorKind::NotFound,
        "request_too_large" => ErrorKind::TooLarge,
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => ErrorKind::RateLimit,
        "overloaded_error" | "service_unavailable_error" => ErrorKind::Overloaded,
        "timeout_error" => ErrorKind::Timeout,
        "api_error" | "server_error" => ErrorKind::Upstream,
        _ => return None,
    })
}

fn from_text(status: u16, content_type: Option<&str>, body: &[u8]) -> String {
    const READ: usize = 64 * 1024; // an error message stands at the front
    let body = String::from_utf8_lossy(&body[..body.len().min(READ)]);
    let html = content_type.is_some_and(|kind| kind.to_ascii_lowercase().contains("html"))
        || body.trim_start().get(..1) == Some("<");
    let text = if html { without_tags(&body) } else { body.into_owned() };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return format!("The model provider answered with status {status} and no message.");
    }
    let form = if html { "a web page instead of an API answer" } else { "text instead of an API answer" };
    shortened(&format!("The model provider answered with status {status} and {form}: {text}"))
}

/// The words of an HTML page; scripts and styles are left out.
fn without_tags(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some(open) = rest.find('<') {
        text.push_str(&rest[..open]);
        text.push(' ');
        rest = &rest[open..];
        let hidden = ["script", "style"]
            .into_iter()
            .find(|name| rest.get(1..=name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)));
        let end = match hidden {
            Some(name) => rest.to_ascii_lowercase().find(&format!("</{name}")).map(|close| close + 1),
            None => Some(0),
        };
        rest = match end.and_then(|end| rest[end..].find('>').map(|close| end + close + 1)) {
            Some(end) => &rest[end..],
            None => "",
        };
    }
    text.push_str(rest);
    text
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        Some(_) => text.chars().take(LONGEST - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}
