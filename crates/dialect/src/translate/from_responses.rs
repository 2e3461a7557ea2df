//! OpenAI Responses requests into an `Ask`.

use serde_json::{Map, Value};

use super::from_chat::{as_text, choice, object_schema, schema};
use super::from_messages::unpacked;
use super::{Ask, Format, Part, Source, Thinking, Tool, ToolResult, Who, array, given, string};
use crate::ir::{Reasoning, ToolCall, count, text_of};
use crate::{RequestError, carry};

/// Fields that mean the same in Chat Completions.
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

pub(super) fn read(body: &Map<String, Value>) -> Result<Ask, RequestError> {
    for (field, reason) in [
        (
            "previous_response_id",
            "the earlier conversation is kept by another provider; send the whole conversation in `input`",
        ),
        ("conversation", "the conversation is kept by another provider; send it in `input`"),
        ("prompt", "prompt templates are kept by another provider; send the text in `instructions`"),
    ] {
        if given(body, field).is_some() {
            return Err(RequestError::Untranslatable { path: field.to_owned(), reason });
        }
    }
    let mut ask = Ask { model: string(body, "model").unwrap_or_default(), ..Ask::default() };
    match body.get("instructions") {
        Some(Value::String(text)) => ask.system.push(Part::text(text.as_str())),
        Some(Value::Array(items)) => {
            for item in items.iter().filter_map(Value::as_object) {
                ask.system.extend(content(item.get("content")));
            }
        }
        _ => {}
    }
    match body.get("input") {
        Some(Value::String(text)) => ask.say(Who::User, vec![Part::text(text.as_str())]),
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                match item {
                    Value::Object(item) => self::item(index, item, &mut ask)?,
                    Value::String(text) => ask.say(Who::User, vec![Part::text(text.as_str())]),
                    _ => {}
                }
            }
        }
        _ => {}
    }
    ask.tools = array(body, "tools").filter_map(Value::as_object).filter_map(tool).collect();
    ask.choice = body.get("tool_choice").and_then(choice);
    ask.parallel = body.get("parallel_tool_calls").and_then(Value::as_bool);
    ask.max_tokens = count(body.get("max_output_tokens"));
    ask.temperature = given(body, "temperature");
    ask.top_p = given(body, "top_p");
    let text = body.get("text").and_then(Value::as_object);
    ask.verbosity = text.and_then(|text| given(text, "verbosity"));
    ask.format = text.and_then(|text| text.get("format")?.as_object()).and_then(|format| {
        match format.get("type")?.as_str()? {
            "json_object" => Some(Format::Json),
            "json_schema" => schema(format),
            _ => None,
        }
    });
    let effort = body.get("reasoning").and_then(|reasoning| reasoning.get("effort")).and_then(Value::as_str);
    ask.thinking = match effort {
        None => Thinking::Unset,
        Some("none") => Thinking::Off,
        Some(word) => Thinking::Effort { word: word.to_owned(), explicit: true },
    };
    ask.user = string(body, "user");
    for key in SHARED {
        if let Some(value) = given(body, key) {
            ask.openai.insert(key.to_owned(), value);
        }
    }
    Ok(ask)
}

fn item(index: usize, item: &Map<String, Value>, ask: &mut Ask) -> Result<(), RequestError> {
    match item.get("type").and_then(Value::as_str).unwrap_or("message") {
        "message" => {
            let parts = content(item.get("content"));
            match item.get("role").and_then(Value::as_str) {
                Some("assistant") => ask.say(Who::Assistant, parts),
                Some("system" | "developer") if ask.turns.is_empty() => ask.system.extend(parts),
                Some("system" | "developer") => ask.say(Who::System, parts),
                _ => ask.say(Who::User, parts),
            }
        }
        kind @ ("function_call" | "custom_tool_call") => {
            let custom = kind == "custom_tool_call";
            ask.say(
                Who::Assistant,
                vec![Part::Call(ToolCall {
                    id: text_of(item, "call_id").or_else(|| text_of(item, "id")).unwrap_or_default().to_owned(),
                    name: string(item, "name").unwrap_or_default(),
                    arguments: as_text(item.get(if custom { "input" } else { "arguments" })),
                    custom,
                    extra: None,
                })],
            );
        }
        kind @ ("function_call_output" | "custom_tool_call_output") => {
            let output = item.get("output");
            let parts = match output {
                Some(Value::String(_) | Value::Array(_)) => content(output),
                other => vec![Part::text(as_text(other))],
            };
            let id = string(item, "call_id").unwrap_or_default();
            let custom = kind == "custom_tool_call_output";
            ask.say(Who::User, vec![Part::Result(ToolResult { id, parts, error: false, custom })]);
        }
        "reasoning" => ask.say(Who::Assistant, reasoning(item).into_iter().map(Part::Reasoning).collect()),
        "item_reference" => {
            return Err(RequestError::Untranslatable {
                path: format!("input[{index}]"),
                reason: "it refers to an item kept by another provider; send the item itself",
            });
        }
        // Steps of the provider's own tools mean nothing elsewhere.
        _ => {}
    }
    Ok(())
}

fn reasoning(item: &Map<String, Value>) -> Option<Reasoning> {
    let texts = |key: &str| -> Vec<&str> {
        array(item, key).filter_map(|part| part.get("text")).filter_map(Value::as_str).collect()
    };
    let summary = texts("summary");
    let text = if summary.is_empty() { texts("content").join("\n\n") } else { summary.join("\n\n") };
    let packed = text_of(item, "encrypted_content");
    match packed.and_then(carry::unpack) {
        // Extras of a tool call stay packed until the call is known.
        Some(carried) if carried.extra.is_some() => {
            Some(Reasoning { encrypted: packed.map(str::to_owned), ..Reasoning::default() })
        }
        Some(carried) => Some(unpacked(text, carried)),
        None if text.is_empty() => None,
        // The encrypted form is OpenAI's; elsewhere only the summary can be read.
        None => Some(Reasoning { text, ..Reasoning::default() }),
    }
}

fn content(content: Option<&Value>) -> Vec<Part> {
    match content {
        Some(Value::String(text)) => vec![Part::text(text.as_str())],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_object).filter_map(part).collect(),
        _ => Vec::new(),
    }
}

fn part(part: &Map<String, Value>) -> Option<Part> {
    Some(match part.get("type").and_then(Value::as_str).unwrap_or("input_text") {
        "input_text" | "output_text" | "text" | "summary_text" => Part::text(string(part, "text")?),
        "refusal" => Part::Refusal(string(part, "refusal")?),
        "input_image" => {
            let source = match (text_of(part, "image_url"), text_of(part, "file_id")) {
                (Some(url), _) => Source::url(url),
                (None, Some(id)) => Source::Id(id.to_owned()),
                (None, None) => return None,
            };
            Part::Image { source, detail: given(part, "detail") }
        }
        "input_file" => {
            let source = match (text_of(part, "file_data"), text_of(part, "file_url"), text_of(part, "file_id")) {
                (Some(data), ..) => Source::url(data),
                (None, Some(url), _) => Source::Url(url.to_owned()),
                (None, None, Some(id)) => Source::Id(id.to_owned()),
                _ => return None,
            };
            Part::File { source, name: string(part, "filename") }
        }
        "input_audio" => Part::Audio(part.get("input_audio")?.clone()),
        _ => Part::text(Value::Object(part.clone()).to_string()),
    })
}

fn tool(tool: &Map<String, Value>) -> Option<Tool> {
    let kind = tool.get("type").and_then(Value::as_str).unwrap_or("function");
    // Every other kind runs at OpenAI or is known to its models only.
    if !matches!(kind, "function" | "custom") {
        return None;
    }
    Some(Tool {
        name: string(tool, "name")?,
        description: string(tool, "description"),
        schema: object_schema(tool.get("parameters")),
        strict: tool.get("strict").and_then(Value::as_bool),
        custom: (kind == "custom").then(|| tool.get("format").cloned().unwrap_or(Value::Null)),
        cache: None,
    })
}
