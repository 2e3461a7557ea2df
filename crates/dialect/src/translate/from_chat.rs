//! Chat Completions requests, and the shapes OpenClaw sends through that route, into an `Ask`.

use serde_json::{Map, Value};

use super::{Ask, Choice, Format, Part, Schema, Source, Thinking, Tool, ToolResult, Who, array, given, string};
use crate::decode::chat::extra_of;
use crate::ir::{Reasoning, ToolCall, count, text_of};

/// Fields that mean the same in Responses.
const SHARED: [&str; 8] = [
    "metadata",
    "store",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "top_logprobs",
    "user",
];

pub(super) fn read(body: &Map<String, Value>) -> Ask {
    let mut ask = Ask { model: string(body, "model").unwrap_or_default(), ..Ask::default() };
    for message in array(body, "messages").filter_map(Value::as_object) {
        self::message(message, &mut ask);
    }
    ask.tools = array(body, "tools").filter_map(Value::as_object).filter_map(tool).collect();
    ask.tools.extend(array(body, "functions").filter_map(Value::as_object).filter_map(function));
    ask.choice = body.get("tool_choice").and_then(choice);
    ask.parallel = body.get("parallel_tool_calls").and_then(Value::as_bool);
    ask.max_tokens = count(body.get("max_completion_tokens")).or_else(|| count(body.get("max_tokens")));
    ask.temperature = given(body, "temperature");
    ask.top_p = given(body, "top_p");
    ask.top_k = given(body, "top_k");
    ask.stop = match body.get("stop") {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    ask.format = body.get("response_format").and_then(Value::as_object).and_then(|format| {
        match format.get("type")?.as_str()? {
            "json_object" => Some(Format::Json),
            "json_schema" => schema(format.get("json_schema")?.as_object()?),
            _ => None,
        }
    });
    let nested = body.get("reasoning").and_then(|reasoning| reasoning.get("effort")).and_then(Value::as_str);
    ask.thinking = match text_of(body, "reasoning_effort").or(nested) {
        None => Thinking::Unset,
        Some("none") => Thinking::Off,
        Some(word) => Thinking::Effort { word: word.to_owned(), explicit: true },
    };
    ask.user = string(body, "user");
    ask.verbosity = given(body, "verbosity");
    for key in SHARED {
        if let Some(value) = given(body, key) {
            ask.openai.insert(key.to_owned(), value);
        }
    }
    ask
}

fn message(message: &Map<String, Value>, ask: &mut Ask) {
    let content = message.get("content");
    match message.get("role").and_then(Value::as_str).unwrap_or("user") {
        "system" | "developer" => {
            let parts = parts(content);
            if ask.turns.is_empty() { ask.system.extend(parts) } else { ask.say(Who::System, parts) }
        }
        "assistant" => {
            let said = assistant(message);
            ask.say(Who::Assistant, said);
        }
        "tool" | "function" | "toolResult" => {
            let id = text_of(message, "tool_call_id").or_else(|| text_of(message, "toolCallId"));
            let id = id.or_else(|| text_of(message, "name")).unwrap_or_default().to_owned();
            let error = ["is_error", "isError"].iter().any(|key| message.get(*key) == Some(&Value::Bool(true)));
            ask.say(Who::User, vec![Part::Result(ToolResult { id, parts: parts(content), error, custom: false })]);
        }
        _ => ask.say(Who::User, parts(content)),
    }
}

fn assistant(message: &Map<String, Value>) -> Vec<Part> {
    let mut said = reasoning(message);
    match message.get("content") {
        Some(Value::Array(all)) => {
            for part in all.iter().filter_map(Value::as_object) {
                match part.get("type").and_then(Value::as_str) {
                    Some("refusal") => said.extend(string(part, "refusal").map(Part::Refusal)),
                    Some("toolCall" | "tool_use") => said.push(Part::Call(openclaw_call(part))),
                    Some("thinking") => {
                        let signature = string(part, "thinkingSignature").or_else(|| string(part, "signature"));
                        let text = string(part, "thinking").unwrap_or_default();
                        said.push(Part::Reasoning(Reasoning { text, signature, ..Reasoning::default() }));
                    }
                    _ => said.extend(string(part, "text").map(Part::text)),
                }
            }
        }
        Some(Value::String(text)) => said.push(Part::text(text.as_str())),
        _ => {}
    }
    said.extend(text_of(message, "refusal").map(|text| Part::Refusal(text.to_owned())));
    for call in array(message, "tool_calls").filter_map(Value::as_object) {
        said.push(Part::Call(self::call(call)));
    }
    if let Some(function) = message.get("function_call").and_then(Value::as_object) {
        let name = string(function, "name").unwrap_or_default();
        let arguments = string(function, "arguments").unwrap_or_default();
        said.push(Part::Call(ToolCall { id: name.clone(), name, arguments, ..ToolCall::default() }));
    }
    said
}

fn reasoning(message: &Map<String, Value>) -> Vec<Part> {
    let text = text_of(message, "reasoning_content").or_else(|| text_of(message, "reasoning"));
    let mut all = Vec::new();
    for detail in array(message, "reasoning_details").filter_map(Value::as_object) {
        let (signature, encrypted) = (string(detail, "signature"), string(detail, "data"));
        if signature.is_none() && encrypted.is_none() {
            continue;
        }
        let text = string(detail, "text").unwrap_or_default();
        all.push(Reasoning { text, signature, encrypted, id: string(detail, "id") });
    }
    // Where the details have no words, they belong to the one reasoning text.
    if let Some(text) = text.filter(|_| all.iter().all(|one| one.text.is_empty())) {
        match all.iter_mut().find(|one| one.signature.is_some() || one.id.is_some()) {
            Some(one) => one.text.push_str(text),
            None => all.insert(0, Reasoning { text: text.to_owned(), ..Reasoning::default() }),
        }
    }
    all.into_iter().map(Part::Reasoning).collect()
}

fn call(call: &Map<String, Value>) -> ToolCall {
    let custom = call.get("custom").and_then(Value::as_object);
    let function = custom.or_else(|| call.get("function").and_then(Value::as_object));
    let member = |key: &str| function.and_then(|function| function.get(key));
    ToolCall {
        id: string(call, "id").unwrap_or_default(),
        name: member("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        arguments: as_text(member(if custom.is_some() { "input" } else { "arguments" })),
        custom: custom.is_some(),
        extra: extra_of(call),
    }
}

fn openclaw_call(part: &Map<String, Value>) -> ToolCall {
    ToolCall {
        id: string(part, "id").unwrap_or_default(),
        name: string(part, "name").unwrap_or_default(),
        arguments: as_text(part.get("arguments").or_else(|| part.get("input"))),
        ..ToolCall::default()
    }
}

pub(super) fn as_text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// User or tool content: a string or parts.
fn parts(content: Option<&Value>) -> Vec<Part> {
    match content {
        Some(Value::String(text)) => vec![Part::text(text.as_str())],
        Some(Value::Array(all)) => all.iter().filter_map(part).collect(),
        _ => Vec::new(),
    }
}

fn part(part: &Value) -> Option<Part> {
    if let Value::String(text) = part {
        return Some(Part::text(text.as_str()));
    }
    let part = part.as_object()?;
    Some(match part.get("type").and_then(Value::as_str).unwrap_or("text") {
        "text" | "input_text" => Part::Text { text: string(part, "text")?, cache: given(part, "cache_control") },
        "image_url" => {
            let image = part.get("image_url")?;
            let url = image.as_str().or_else(|| image.get("url")?.as_str())?;
            Part::Image { source: Source::url(url), detail: image.get("detail").cloned() }
        }
        // OpenClaw's own form.
        "image" if part.contains_key("data") => {
            let media = string(part, "mimeType").or_else(|| string(part, "media_type"));
            let media = media.unwrap_or_else(|| "image/png".to_owned());
            Part::Image { source: Source::Data { media, data: string(part, "data")? }, detail: None }
        }
        "input_audio" => Part::Audio(part.get("input_audio")?.clone()),
        "file" => {
            let file = part.get("file")?.as_object()?;
            let source = match (text_of(file, "file_data"), text_of(file, "file_id")) {
                (Some(data), _) => Source::url(data),
                (None, Some(id)) => Source::Id(id.to_owned()),
                (None, None) => return None,
            };
            Part::File { source, name: string(file, "filename") }
        }
        // Nothing another dialect has: its JSON at least is not lost.
        _ => Part::text(Value::Object(part.clone()).to_string()),
    })
}

fn tool(tool: &Map<String, Value>) -> Option<Tool> {
    if let Some(custom) = tool.get("custom").and_then(Value::as_object) {
        let mut made = function(custom)?;
        made.custom = Some(custom.get("format").cloned().unwrap_or(Value::Null));
        return Some(made);
    }
    let mut made = function(tool.get("function")?.as_object()?)?;
    made.cache = given(tool, "cache_control");
    Some(made)
}

fn function(function: &Map<String, Value>) -> Option<Tool> {
    Some(Tool {
        name: string(function, "name")?,
        description: string(function, "description"),
        schema: object_schema(function.get("parameters")),
        strict: function.get("strict").and_then(Value::as_bool),
        custom: None,
        cache: None,
    })
}

/// A tool's schema; every dialect wants an object there.
pub(super) fn object_schema(schema: Option<&Value>) -> Value {
    match schema {
        Some(Value::Object(schema)) => {
            let mut schema = schema.clone();
            schema.entry("type").or_insert_with(|| "object".into());
            Value::Object(schema)
        }
        _ => serde_json::json!({"type": "object", "properties": {}}),
    }
}

pub(super) fn choice(choice: &Value) -> Option<Choice> {
    match choice {
        Value::String(word) => match word.as_str() {
            "auto" => Some(Choice::Auto),
            "none" => Some(Choice::None),
            "required" | "any" => Some(Choice::Any),
            _ => None,
        },
        Value::Object(object) => match object.get("type").and_then(Value::as_str) {
            Some("allowed_tools") => {
                let allowed = object.get("allowed_tools").and_then(Value::as_object).unwrap_or(object);
                (text_of(allowed, "mode") == Some("required")).then_some(Choice::Any)
            }
            _ => {
                let inner = ["function", "custom"].iter().find_map(|key| object.get(*key)).and_then(Value::as_object);
                string(inner.unwrap_or(object), "name").map(Choice::Tool)
            }
        },
        _ => None,
    }
}

pub(super) fn schema(holder: &Map<String, Value>) -> Option<Format> {
    Some(Format::Schema(Box::new(Schema {
        name: string(holder, "name").unwrap_or_else(|| "answer".to_owned()),
        description: given(holder, "description"),
        schema: given(holder, "schema")?,
        strict: given(holder, "strict"),
    })))
}
