//! An `Ask` as an OpenAI Responses request. The conversation is sent whole; nothing is stored unless the client asked.

use serde_json::{Map, Value, json};

use super::to_chat::finish;
use super::{Ask, Choice, Part, Source, Thinking, Tool, ToolResult, Turn, Who, takes_effort, words};
use crate::Quirks;
use crate::ir::{Reasoning, ToolCall};

/// The smallest output limit OpenAI takes here.
const LEAST_OUTPUT: u64 = 16;

pub(super) fn write(ask: &Ask, quirks: &Quirks) -> Vec<u8> {
    let mut body = Map::new();
    let mut set = |key: &str, value: Value| _ = body.insert(key.to_owned(), value);
    set("model", ask.model.as_str().into());
    let system = words(&ask.system);
    if !system.is_empty() {
        set("instructions", system.into());
    }
    let mut input = Vec::new();
    for turn in &ask.turns {
        items(turn, ask, quirks, &mut input);
    }
    set("input", input.into());
    if !ask.tools.is_empty() {
        set("tools", ask.tools.iter().map(tool).collect::<Vec<_>>().into());
        if let Some(choice) = &ask.choice {
            set(
                "tool_choice",
                match choice {
                    Choice::Auto => "auto".into(),
                    Choice::None => "none".into(),
                    Choice::Any => "required".into(),
                    Choice::Tool(name) => {
                        let custom = ask.tool(name).is_some_and(|tool| tool.custom.is_some());
                        json!({"type": if custom { "custom" } else { "function" }, "name": name})
                    }
                },
            );
        }
        // Parallel calls are the default everywhere.
        if ask.parallel == Some(false) && quirks.parallel_tool_calls {
            set("parallel_tool_calls", false.into());
        }
    }
    if let Some(limit) = ask.max_tokens {
        set("max_output_tokens", limit.max(LEAST_OUTPUT).into());
    }
    for (key, value) in [("temperature", &ask.temperature), ("top_p", &ask.top_p)] {
        if let Some(value) = value {
            set(key, value.clone());
        }
    }
    let mut text = Map::new();
    if let Some(format) = &ask.format {
        text.insert("format".to_owned(), format.clone().into());
    }
    if let Some(verbosity) = &ask.verbosity {
        text.insert("verbosity".to_owned(), verbosity.clone());
    }
    if !text.is_empty() {
        set("text", text.into());
    }
    let thinks = takes_effort(&ask.model) && ask.thinking != Thinking::Off;
    if let Some(word) = ask.thinking.word()
        && (ask.thinking.explicit() || thinks)
    {
        set("reasoning", json!({"effort": word, "summary": "auto"}));
    }
    if thinks {
        // Without it the next request could not give the thinking back.
        set("include", json!(["reasoning.encrypted_content"]));
    }
    if ask.stream {
        set("stream", true.into());
    }
    if quirks.store {
        set("store", ask.openai.get("store").cloned().unwrap_or(Value::Bool(false)));
    }
    for (key, value) in ask.openai.iter().filter(|(key, _)| *key != "store") {
        body.insert(key.clone(), value.clone());
    }
    finish(body, quirks)
}

fn items(turn: &Turn, ask: &Ask, quirks: &Quirks, input: &mut Vec<Value>) {
    if turn.who == Who::System {
        let role = if quirks.system_role { "system" } else { "developer" };
        input.push(
            json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": words(&turn.parts)}]}),
        );
        return;
    }
    let mut content: Vec<Value> = Vec::new();
    for part in &turn.parts {
        let item = match part {
            Part::Result(result) => Some(result_item(result, ask)),
            Part::Call(call) => Some(call_item(call)),
            Part::Reasoning(one) => match reasoning_item(one) {
                Some(item) => Some(item),
                None => continue,
            },
            _ => None,
        };
        match item {
            Some(item) => {
                flush(turn.who, &mut content, input);
                input.push(item);
            }
            None => content.extend(self::part(part, turn.who == Who::Assistant)),
        }
    }
    flush(turn.who, &mut content, input);
}

/// Ends a message where an item of another kind begins.
fn flush(who: Who, content: &mut Vec<Value>, input: &mut Vec<Value>) {
    if !content.is_empty() {
        let role = if who == Who::Assistant { "assistant" } else { "user" };
        input.push(json!({"type": "message", "role": role, "content": std::mem::take(content)}));
    }
}

/// Only OpenAI's own thinking can go back there.
fn reasoning_item(reasoning: &Reasoning) -> Option<Value> {
    let (id, encrypted) = (reasoning.id.as_ref()?, reasoning.encrypted.as_ref()?);
    let summary =
        if reasoning.text.is_empty() { json!([]) } else { json!([{"type": "summary_text", "text": reasoning.text}]) };
    Some(json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": encrypted}))
}

fn call_item(call: &ToolCall) -> Value {
    if call.custom {
        return json!({"type": "custom_tool_call", "call_id": call.id, "name": call.name, "input": call.arguments});
    }
    let arguments = if call.arguments.is_empty() { "{}" } else { call.arguments.as_str() };
    json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments})
}

fn result_item(result: &ToolResult, ask: &Ask) -> Value {
    let calls = ask.turns.iter().flat_map(|turn| &turn.parts);
    let custom = result.custom
        || calls.into_iter().any(|part| matches!(part, Part::Call(call) if call.custom && call.id == result.id));
    let kind = if custom { "custom_tool_call_output" } else { "function_call_output" };
    let rich = result
        .parts
        .iter()
        .any(|part| matches!(part, Part::Image { .. } | Part::File { source: Source::Data { .. }, .. }));
    let output = if rich {
        result.parts.iter().filter_map(|one| part(one, false)).collect::<Vec<_>>().into()
    } else {
        Value::from(super::to_chat::result_text(result))
    };
    json!({"type": kind, "call_id": result.id, "output": output})
}

fn part(part: &Part, said: bool) -> Option<Value> {
    let text = |text: &str| json!({"type": if said { "output_text" } else { "input_text" }, "text": text});
    Some(match part {
        Part::Text { text: words, .. } if words.is_empty() => return None,
        Part::Text { text: words, .. } => text(words),
        Part::Refusal(refusal) if said => json!({"type": "refusal", "refusal": refusal}),
        Part::Refusal(refusal) => text(refusal),
        Part::Image { source, detail } => match source {
            Source::Id(id) => json!({"type": "input_image", "file_id": id, "detail": "auto"}),
            _ => {
                let mut image = json!({"type": "input_image", "image_url": source.as_url()?});
                image["detail"] = detail.clone().unwrap_or_else(|| "auto".into());
                image
            }
        },
        Part::File { source, name } => match source {
            Source::Text(words) => text(words),
            Source::Url(url) => json!({"type": "input_file", "file_url": url}),
            Source::Data { .. } => {
                let name = name.clone().unwrap_or_else(|| "document.pdf".to_owned());
                json!({"type": "input_file", "filename": name, "file_data": source.as_url()})
            }
            Source::Id(id) => json!({"type": "input_file", "file_id": id}),
        },
        Part::Audio(audio) => json!({"type": "input_audio", "input_audio": audio}),
        Part::Reasoning(_) | Part::Call(_) | Part::Result(_) => return None,
    })
}

fn tool(tool: &Tool) -> Value {
    let mut one = json!({"type": if tool.custom.is_some() { "custom" } else { "function" }, "name": tool.name});
    if let Some(description) = &tool.description {
        one["description"] = description.as_str().into();
    }
    match &tool.custom {
        Some(Value::Null) => {}
        Some(format) => one["format"] = flat(format),
        None => {
            one["parameters"] = tool.schema.clone();
            // The default here is strict, elsewhere it is not.
            one["strict"] = tool.strict.unwrap_or(false).into();
        }
    }
    one
}

/// Chat nests a grammar one level deeper.
fn flat(format: &Value) -> Value {
    let Some(grammar) = format.get("grammar").and_then(Value::as_object) else { return format.clone() };
    let mut flat = Map::new();
    flat.insert("type".to_owned(), "grammar".into());
    flat.extend(grammar.clone());
    Value::Object(flat)
}
