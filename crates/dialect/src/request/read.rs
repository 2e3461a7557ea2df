//! The shapes of messages in the three dialects, and in what OpenClaw and the SDKs send besides. One reader for all of
//! them: the shapes do not contradict each other.

use std::borrow::Cow;

use super::Role;
use crate::Dialect;
use crate::json::{Kind, Value};

/// What a message holds, as far as reading it needs.
pub(super) enum Part<'a> {
    /// A JSON string with words.
    Text(Value<'a>),
    /// An image, a sound, a file: the whole part.
    Media(Value<'a>),
    /// A tool call and its id.
    Call(Option<Value<'a>>),
    /// A tool result and the id of its call.
    Result(Option<Value<'a>>),
    /// Reasoning and everything unknown.
    Other,
}

/// What is being read.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// An object with a role or a type.
    Message,
    /// Content only: a string or a list of parts.
    Content,
}

/// What an item of the Responses input is.
pub(super) enum Item {
    /// A piece of the model's answer.
    Answer,
    /// A message of its own.
    Message(Role),
}

/// The system prompt outside the conversation.
pub(super) fn instructions(dialect: Dialect, root: Value<'_>) -> Option<Value<'_>> {
    match dialect {
        Dialect::Chat => None,
        Dialect::Messages => root.get("system"),
        Dialect::Responses => root.get("instructions"),
    }
}

pub(super) fn role(role: Value<'_>) -> Role {
    match role.as_str().as_deref() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function" | "toolResult") => Role::Tool,
        _ => Role::System,
    }
}

pub(super) fn item(item: Value<'_>) -> Item {
    let kind = text_of(item, "type");
    match kind.as_deref() {
        None | Some("message") => match item.get("role").map(role) {
            Some(Role::Assistant) => Item::Answer,
            Some(role) => Item::Message(role),
            None => Item::Answer,
        },
        Some("mcp_approval_response") => Item::Message(Role::Tool),
        Some(kind) if kind.ends_with("_output") => Item::Message(Role::Tool),
        Some(_) => Item::Answer,
    }
}

fn text_of<'a>(object: Value<'a>, key: &str) -> Option<Cow<'a, str>> {
    object.get(key)?.as_str()
}

/// Walks over the parts of a message or of a content.
pub(super) fn parts_of<'a>(value: Value<'a>, shape: Shape, see: &mut dyn FnMut(Part<'a>)) {
    match shape {
        Shape::Content => content(value, see),
        Shape::Message => message(value, see),
    }
}

fn message<'a>(message: Value<'a>, see: &mut dyn FnMut(Part<'a>)) {
    let (mut role_name, mut type_name, mut result_id, mut call_id) = (None, None, None, None);
    let (mut id, mut name) = (None, None);
    let mut function_call = false;
    for (key, value) in message.members() {
        match key.inner().unwrap_or_default() {
            "role" => role_name = value.as_str(),
            "type" => type_name = value.as_str(),
            "content" => content(value, see),
            "refusal" if value.kind() == Kind::String => see(Part::Text(value)),
            "tool_calls" => {
                for call in value.elements() {
                    see(Part::Call(call.get("id")));
                }
            }
            "function_call" if value.is_object() => function_call = true,
            "tool_call_id" | "toolCallId" => result_id = Some(value),
            "call_id" => call_id = Some(value),
            "id" => id = Some(value),
            "name" => name = Some(value),
            _ => {}
        }
    }
    if function_call {
        see(Part::Call(message.get("function_call").and_then(|call| call.get("name"))));
    }
    match type_name.as_deref() {
        Some("function_call" | "custom_tool_call") => see(Part::Call(call_id.or(id))),
        Some(kind) if kind.ends_with("_output") => see(Part::Result(call_id.or(id))),
        _ => {}
    }
    match role_name.as_deref() {
        Some("tool" | "toolResult") => see(Part::Result(result_id)),
        Some("function") => see(Part::Result(name)),
        _ => {}
    }
}

fn content<'a>(value: Value<'a>, see: &mut dyn FnMut(Part<'a>)) {
    match value.kind() {
        Kind::String => see(Part::Text(value)),
        Kind::Array => {
            for element in value.elements() {
                if element.kind() == Kind::String { see(Part::Text(element)) } else { part(element, see) }
            }
        }
        Kind::Object => part(value, see),
        Kind::Null | Kind::Bool | Kind::Number => {}
    }
}

fn part<'a>(part: Value<'a>, see: &mut dyn FnMut(Part<'a>)) {
    let kind = text_of(part, "type");
    match kind.as_deref() {
        Some("text" | "input_text" | "output_text") | None => match part.get("text") {
            Some(text) if text.kind() == Kind::String => see(Part::Text(text)),
            _ => see(Part::Other),
        },
        Some("refusal") => match part.get("refusal") {
            Some(text) if text.kind() == Kind::String => see(Part::Text(text)),
            _ => see(Part::Other),
        },
        Some("tool_use" | "toolCall") => see(Part::Call(part.get("id"))),
        Some("tool_result") => see(Part::Result(part.get("tool_use_id"))),
        Some(
            "image" | "image_url" | "input_image" | "input_audio" | "audio" | "input_file" | "file" | "document"
            | "video_url" | "input_video" | "video" | "audio_url",
        ) => see(Part::Media(part)),
        Some(_) => see(Part::Other),
    }
}
