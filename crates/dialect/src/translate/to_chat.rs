//! An `Ask` as a Chat Completions request.

use serde_json::{Map, Value, json};

use super::{Ask, Choice, Format, Part, Source, Tool, ToolResult, Turn, Who, is_openai, takes_effort, words};
use crate::encode::chat::{detail, tool_call};
use crate::encode::messages::input;
use crate::ir::ToolCall;
use crate::{MaxTokensField, Quirks};

/// OpenAI takes no more stop sequences than this.
const MOST_STOPS: usize = 4;

pub(super) fn write(ask: &Ask, quirks: &Quirks) -> Vec<u8> {
    let mut body = Map::new();
    let mut set = |key: &str, value: Value| _ = body.insert(key.to_owned(), value);
    set("model", ask.model.as_str().into());
    set("messages", messages(ask, quirks).into());
    if !ask.tools.is_empty() {
        set("tools", ask.tools.iter().map(tool).collect::<Vec<_>>().into());
        if let Some(choice) = &ask.choice {
            set(
                "tool_choice",
                match choice {
                    Choice::Auto => "auto".into(),
                    Choice::None => "none".into(),
                    Choice::Any => "required".into(),
                    Choice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
                },
            );
        }
        // Parallel calls are the default everywhere.
        if ask.parallel == Some(false) && quirks.parallel_tool_calls {
            set("parallel_tool_calls", false.into());
        }
    }
    if let Some(limit) = ask.max_tokens {
        let completion = match quirks.max_tokens_field {
            MaxTokensField::AsSent => takes_effort(&ask.model) && !ask.model.contains("gpt-oss"),
            MaxTokensField::MaxTokens => false,
            MaxTokensField::MaxCompletionTokens => true,
        };
        set(if completion { "max_completion_tokens" } else { "max_tokens" }, limit.into());
    }
    for (key, value) in [("temperature", &ask.temperature), ("top_p", &ask.top_p)] {
        if let Some(value) = value {
            set(key, value.clone());
        }
    }
    let stop: Vec<Value> = ask.stop.iter().take(MOST_STOPS).map(|stop| stop.as_str().into()).collect();
    if !stop.is_empty() {
        set("stop", stop.into());
    }
    match &ask.format {
        Some(Format::Json) => set("response_format", json!({"type": "json_object"})),
        Some(schema) => {
            let mut inner = Value::from(schema.clone());
            if let Value::Object(inner) = &mut inner {
                inner.shift_remove("type");
            }
            set("response_format", json!({"type": "json_schema", "json_schema": inner}));
        }
        None => {}
    }
    if let Some(word) = ask.thinking.word()
        && (ask.thinking.explicit() || takes_effort(&ask.model))
    {
        set("reasoning_effort", word.into());
    }
    if ask.stream {
        set("stream", true.into());
        if quirks.stream_usage {
            set("stream_options", json!({"include_usage": true}));
        }
    }
    // Other servers of this dialect refuse what only OpenAI's models know.
    if is_openai(&ask.model) {
        if let Some(verbosity) = &ask.verbosity {
            set("verbosity", verbosity.clone());
        }
        for (key, value) in ask.openai.iter().filter(|(key, _)| *key != "store" || quirks.store) {
            body.insert(key.clone(), value.clone());
        }
    } else if let Some(user) = ask.openai.get("user") {
        set("user", user.clone());
    }
    finish(body, quirks)
}

/// Leaves out what the provider refuses.
pub(super) fn finish(mut body: Map<String, Value>, quirks: &Quirks) -> Vec<u8> {
    for field in &quirks.drop_fields {
        body.shift_remove(field);
    }
    Value::Object(body).to_string().into_bytes()
}

fn messages(ask: &Ask, quirks: &Quirks) -> Vec<Value> {
    let mut all = Vec::new();
    let system = words(&ask.system);
    if !system.is_empty() {
        all.push(json!({"role": "system", "content": system}));
    }
    for turn in &ask.turns {
        match turn.who {
            Who::System => all.push(json!({"role": "system", "content": words(&turn.parts)})),
            Who::User => user(turn, &mut all),
            Who::Assistant => all.extend(assistant(turn, ask, quirks)),
        }
    }
    all
}

fn user(turn: &Turn, all: &mut Vec<Value>) {
    let mut seen = Vec::new();
    for part in &turn.parts {
        if let Part::Result(result) = part {
            all.push(json!({"role": "tool", "tool_call_id": result.id, "content": result_text(result)}));
            // A tool message takes no pictures: they follow as the user's.
            let pictures = result.parts.iter().filter(|part| matches!(part, Part::Image { .. }));
            let pictures: Vec<Value> = pictures.filter_map(self::part).collect();
            if !pictures.is_empty() {
                seen.push(json!({"type": "text", "text": format!("Image returned by tool call {}:", result.id)}));
                seen.extend(pictures);
            }
        }
    }
    seen.extend(turn.parts.iter().filter_map(part));
    match seen.as_slice() {
        [] => {}
        [one] if one["type"] == "text" && one.get("cache_control").is_none() => {
            all.push(json!({"role": "user", "content": one["text"]}));
        }
        _ => all.push(json!({"role": "user", "content": seen})),
    }
}

pub(super) fn result_text(result: &ToolResult) -> String {
    let text = words(&result.parts);
    match result.error {
        true if text.is_empty() => "Error".to_owned(),
        true if !text.to_ascii_lowercase().starts_with("error") => format!("Error: {text}"),
        _ => text,
    }
}

fn assistant(turn: &Turn, ask: &Ask, quirks: &Quirks) -> Option<Value> {
    let (mut content, mut refusal) = (Vec::new(), String::new());
    let (mut reasoning, mut details, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for part in &turn.parts {
        match part {
            Part::Text { text, .. } if !text.is_empty() => content.push(text.as_str()),
            Part::Refusal(text) => refusal.push_str(text),
            Part::Reasoning(one) => {
                if !one.text.is_empty() {
                    reasoning.push(one.text.as_str());
                }
                details.extend(detail(one));
            }
            Part::Call(call) => calls.push(Value::Object(tool_call(&as_function(call, ask)))),
            _ => {}
        }
    }
    if content.is_empty() && refusal.is_empty() && calls.is_empty() {
        return None;
    }
    let content = content.join("\n\n");
    let mut message = json!({
        "role": "assistant",
        "content": if content.is_empty() { Value::Null } else { content.into() },
    });
    if !refusal.is_empty() {
        message["refusal"] = refusal.into();
    }
    if quirks.reasoning_history && !reasoning.is_empty() {
        message["reasoning_content"] = reasoning.join("\n\n").into();
    }
    if quirks.reasoning_history && !details.is_empty() {
        message["reasoning_details"] = details.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    Some(message)
}

/// Free-text tools go as JSON tools with one string: few servers know the other kind.
fn as_function(call: &ToolCall, ask: &Ask) -> ToolCall {
    let custom = call.custom || ask.tool(&call.name).is_some_and(|tool| tool.custom.is_some());
    let arguments = if call.custom { input(&call.arguments, true) } else { call.arguments.clone() };
    let arguments = if arguments.is_empty() { "{}".to_owned() } else { arguments };
    ToolCall { custom: false, arguments, extra: call.extra.clone().filter(|_| !custom), ..call.clone() }
}

fn part(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text { text, cache } => {
            let mut one = json!({"type": "text", "text": text});
            if let Some(cache) = cache {
                one["cache_control"] = cache.clone();
            }
            one
        }
        Part::Image { source, detail } => match source.as_url() {
            Some(url) => {
                let mut image = json!({"url": url});
                if let Some(detail) = detail {
                    image["detail"] = detail.clone();
                }
                json!({"type": "image_url", "image_url": image})
            }
            None => json!({"type": "text", "text": "[image left out: it is stored at another provider]"}),
        },
        Part::File { source, name } => match source {
            Source::Data { .. } => {
                let name = name.clone().unwrap_or_else(|| "document.pdf".to_owned());
                json!({"type": "file", "file": {"filename": name, "file_data": source.as_url()}})
            }
            Source::Text(text) => json!({"type": "text", "text": text}),
            Source::Url(url) => json!({"type": "text", "text": format!("[document: {url}]")}),
            Source::Id(id) => json!({"type": "file", "file": {"file_id": id}}),
        },
        Part::Audio(audio) => json!({"type": "input_audio", "input_audio": audio}),
        Part::Refusal(text) => json!({"type": "text", "text": text}),
        Part::Reasoning(_) | Part::Call(_) | Part::Result(_) => return None,
    })
}

fn tool(tool: &Tool) -> Value {
    let mut function = json!({"name": tool.name});
    if let Some(description) = description(tool) {
        function["description"] = description.into();
    }
    function["parameters"] = schema(tool);
    if let Some(strict) = tool.strict.filter(|_| tool.custom.is_none()) {
        function["strict"] = strict.into();
    }
    json!({"type": "function", "function": function})
}

/// A free-text tool's description, with its grammar, which the schema cannot say.
pub(super) fn description(tool: &Tool) -> Option<String> {
    let grammar = tool
        .custom
        .as_ref()
        .and_then(|format| format.get("definition").or_else(|| format.get("grammar")?.get("definition")));
    match (&tool.description, grammar.and_then(Value::as_str)) {
        (Some(text), Some(grammar)) => Some(format!("{text}\n\nThe input must follow this grammar:\n{grammar}")),
        (None, Some(grammar)) => Some(format!("The input must follow this grammar:\n{grammar}")),
        (text, None) => text.clone(),
    }
}

pub(super) fn schema(tool: &Tool) -> Value {
    if tool.custom.is_some() {
        return json!({"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"], "additionalProperties": false});
    }
    tool.schema.clone()
}
