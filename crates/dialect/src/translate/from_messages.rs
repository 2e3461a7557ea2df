//! Anthropic Messages requests into an `Ask`.

use serde_json::{Map, Value};

use super::from_chat::object_schema;
use super::{Ask, Choice, Format, Part, Schema, Source, Thinking, Tool, ToolResult, Who, array, given, string};
use crate::carry;
use crate::ir::{Reasoning, ToolCall, count, text_of};

/// `tape` is the same body unparsed: tool inputs are taken from it as they were written.
pub(super) fn read(body: &Map<String, Value>, tape: crate::Value<'_>) -> Ask {
    let mut ask = Ask { model: string(body, "model").unwrap_or_default(), ..Ask::default() };
    ask.system = match body.get("system") {
        Some(Value::String(text)) => vec![Part::text(text.as_str())],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_object).filter_map(text).collect(),
        _ => Vec::new(),
    };
    let raw = tape.get("messages").into_iter().flat_map(crate::Value::elements);
    for (message, raw) in array(body, "messages").zip(raw) {
        let Some(message) = message.as_object() else { continue };
        let who = match message.get("role").and_then(Value::as_str) {
            Some("assistant") => Who::Assistant,
            Some("system") => Who::System,
            _ => Who::User,
        };
        let parts = match message.get("content") {
            Some(Value::String(text)) => vec![Part::text(text.as_str())],
            Some(Value::Array(all)) => {
                let raw = raw.get("content").into_iter().flat_map(crate::Value::elements);
                all.iter().zip(raw).filter_map(|(block, raw)| self::block(block.as_object()?, raw)).collect()
            }
            _ => Vec::new(),
        };
        // Results first, then the user's words, which are another message elsewhere.
        let (results, rest): (Vec<Part>, Vec<Part>) =
            parts.into_iter().partition(|part| matches!(part, Part::Result(_)));
        ask.say(who, results);
        ask.say(who, rest);
    }
    ask.tools = array(body, "tools").filter_map(Value::as_object).filter_map(tool).collect();
    if let Some(choice) = body.get("tool_choice").and_then(Value::as_object) {
        ask.choice = match choice.get("type").and_then(Value::as_str) {
            Some("auto") => Some(Choice::Auto),
            Some("any") => Some(Choice::Any),
            Some("none") => Some(Choice::None),
            _ => string(choice, "name").map(Choice::Tool),
        };
        ask.parallel = choice.get("disable_parallel_tool_use").and_then(Value::as_bool).map(|off| !off);
    }
    ask.max_tokens = count(body.get("max_tokens"));
    ask.temperature = given(body, "temperature");
    ask.top_p = given(body, "top_p");
    ask.top_k = given(body, "top_k");
    ask.stop = array(body, "stop_sequences").filter_map(Value::as_str).map(str::to_owned).collect();
    let output = body.get("output_config").and_then(Value::as_object);
    let format = output.and_then(|output| output.get("format")).or_else(|| body.get("output_format"));
    ask.format = format.and_then(Value::as_object).and_then(super::from_chat::schema);
    ask.thinking = thinking(body.get("thinking"), output.and_then(|output| text_of(output, "effort")));
    ask.user =
        body.get("metadata").and_then(|metadata| metadata.get("user_id")).and_then(Value::as_str).map(str::to_owned);
    ask
}

fn thinking(config: Option<&Value>, effort: Option<&str>) -> Thinking {
    let kind = config.and_then(|config| config.get("type")).and_then(Value::as_str);
    match (kind, effort) {
        (Some("disabled"), _) => Thinking::Off,
        // OpenAI's scale ends at high.
        (_, Some("xhigh" | "max")) => Thinking::Effort { word: "high".to_owned(), explicit: false },
        (_, Some(word)) => Thinking::Effort { word: word.to_owned(), explicit: false },
        (Some("enabled"), None) => {
            Thinking::Budget(count(config.and_then(|config| config.get("budget_tokens"))).unwrap_or(8192))
        }
        (Some(_), None) => Thinking::Free,
        (None, None) => Thinking::Unset,
    }
}

fn text(block: &Map<String, Value>) -> Option<Part> {
    Some(Part::Text { text: string(block, "text")?, cache: given(block, "cache_control") })
}

fn block(block: &Map<String, Value>, raw: crate::Value<'_>) -> Option<Part> {
    Some(match block.get("type").and_then(Value::as_str)? {
        "text" => return text(block),
        kind @ ("image" | "document") => {
            let source = block.get("source")?.as_object()?;
            match source_of(source) {
                Some(source) if kind == "image" => Part::Image { source, detail: None },
                Some(source) => Part::File { source, name: string(block, "title") },
                // A file id: only Anthropic has the file.
                None => Part::text(format!("[{kind} left out: it is stored at another provider]")),
            }
        }
        "thinking" => Part::Reasoning(signed(block)),
        "redacted_thinking" => {
            let data = string(block, "data")?;
            match carry::unpack(&data) {
                // Extras of a tool call stay packed until the call is known.
                Some(carried) if carried.extra.is_none() => Part::Reasoning(unpacked(String::new(), carried)),
                _ => Part::Reasoning(Reasoning { encrypted: Some(data), ..Reasoning::default() }),
            }
        }
        "tool_use" => Part::Call(ToolCall {
            id: string(block, "id").unwrap_or_default(),
            name: string(block, "name").unwrap_or_default(),
            arguments: raw.get("input").map_or("{}", |input| input.raw()).to_owned(),
            ..ToolCall::default()
        }),
        "tool_result" => Part::Result(ToolResult {
            id: string(block, "tool_use_id").unwrap_or_default(),
            parts: match block.get("content") {
                Some(Value::String(text)) => vec![Part::text(text.as_str())],
                Some(Value::Array(all)) => {
                    let raw = raw.get("content").into_iter().flat_map(crate::Value::elements);
                    all.iter().zip(raw).filter_map(|(inner, raw)| self::block(inner.as_object()?, raw)).collect()
                }
                _ => Vec::new(),
            },
            error: block.get("is_error") == Some(&Value::Bool(true)),
            custom: false,
        }),
        // Steps of the provider's own tools mean nothing elsewhere.
        "server_tool_use" | "mcp_tool_use" | "container_upload" => return None,
        kind if kind.ends_with("_tool_result") => return None,
        "search_result" => Part::text(search_result(block)),
        _ => Part::text(Value::Object(block.clone()).to_string()),
    })
}

fn search_result(block: &Map<String, Value>) -> String {
    let texts = array(block, "content").filter_map(|part| part.get("text")).filter_map(Value::as_str);
    let head = ["title", "source"].iter().filter_map(|key| text_of(block, key));
    head.chain(texts).collect::<Vec<_>>().join("\n")
}

/// Thinking that this proxy packed unfolds; a provider's own signature means nothing elsewhere, but its text does.
fn signed(block: &Map<String, Value>) -> Reasoning {
    let text = string(block, "thinking").unwrap_or_default();
    match text_of(block, "signature").and_then(carry::unpack) {
        Some(carried) => unpacked(text, carried),
        None => Reasoning { text, ..Reasoning::default() },
    }
}

pub(super) fn unpacked(text: String, carried: carry::Carried) -> Reasoning {
    Reasoning { text, signature: carried.signature, encrypted: carried.encrypted, id: carried.id }
}

fn source_of(source: &Map<String, Value>) -> Option<Source> {
    Some(match source.get("type").and_then(Value::as_str)? {
        "base64" => Source::Data { media: string(source, "media_type")?, data: string(source, "data")? },
        "url" => Source::Url(string(source, "url")?),
        "text" => Source::Text(string(source, "data")?),
        "content" => match source.get("content")? {
            Value::String(text) => Source::Text(text.clone()),
            Value::Array(all) => {
                let texts = all.iter().filter_map(|part| part.get("text")).filter_map(Value::as_str);
                Source::Text(texts.collect::<Vec<_>>().join("\n"))
            }
            _ => return None,
        },
        _ => return None,
    })
}

fn tool(tool: &Map<String, Value>) -> Option<Tool> {
    // A typed tool runs at Anthropic or is known to its models only.
    if !matches!(tool.get("type").and_then(Value::as_str), None | Some("custom")) {
        return None;
    }
    Some(Tool {
        name: string(tool, "name")?,
        description: string(tool, "description"),
        schema: object_schema(tool.get("input_schema")),
        strict: tool.get("strict").and_then(Value::as_bool),
        custom: None,
        cache: given(tool, "cache_control"),
    })
}

impl From<Format> for Value {
    fn from(format: Format) -> Self {
        match format {
            Format::Json => serde_json::json!({"type": "json_object"}),
            Format::Schema(whole) => {
                let Schema { name, description, schema, strict } = *whole;
                let mut all = serde_json::json!({"type": "json_schema", "name": name});
                if let Some(description) = description {
                    all["description"] = description;
                }
                all["schema"] = schema;
                if let Some(strict) = strict {
                    all["strict"] = strict;
                }
                all
            }
        }
    }
}
