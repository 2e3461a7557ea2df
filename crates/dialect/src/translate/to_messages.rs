//! An `Ask` as an Anthropic Messages request: speakers alternate, results stand first, thinking is signed or left out.

use serde_json::{Map, Value, json};

use super::to_chat::{description, finish, schema};
use super::{Ask, Choice, Format, Part, Source, Thinking, Tool, Turn, Who, words};
use crate::Quirks;
use crate::encode::messages::input;
use crate::encode::string;
use crate::ir::{Reasoning, ToolCall};

/// Anthropic's smallest thinking budget.
const LEAST_BUDGET: u64 = 1024;

pub(super) fn write(ask: &Ask, quirks: &Quirks) -> Vec<u8> {
    let mut body = Map::new();
    let mut set = |key: &str, value: Value| _ = body.insert(key.to_owned(), value);
    let limit = ask.max_tokens.unwrap_or_else(|| default_limit(&ask.model, quirks));
    set("model", ask.model.as_str().into());
    set("max_tokens", limit.into());
    let mut system: Vec<Value> = ask.system.iter().filter_map(text).collect();
    if ask.format.as_ref().is_some_and(|format| matches!(format, Format::Json)) {
        system.push(json!({"type": "text", "text": "Answer with one JSON object and nothing else."}));
    }
    let cached = marks_cache(ask);
    if !cached && let Some(last) = system.last_mut() {
        last["cache_control"] = json!({"type": "ephemeral"});
    }
    if !system.is_empty() {
        set("system", system.into());
    }
    let forced = matches!(ask.choice, Some(Choice::Any | Choice::Tool(_)));
    if !ask.tools.is_empty() {
        set("tools", ask.tools.iter().map(tool).collect::<Vec<_>>().into());
        if let Some(choice) = choice(ask) {
            set("tool_choice", choice);
        }
    }
    let thinking = if forced || ends_in_bare_calls(ask) { Map::new() } else { thinking(ask, limit) };
    let thinks = thinking.get("thinking").is_some_and(|thinking| thinking["type"] != "disabled");
    let mut output = match thinking.get("output_config") {
        Some(Value::Object(output)) => output.clone(),
        _ => Map::new(),
    };
    if let Some(thinking) = thinking.get("thinking") {
        set("thinking", thinking.clone());
    }
    if !thinks {
        // Thinking allows its own sampling only; several models refuse both parameters together.
        match (&ask.temperature, &ask.top_p) {
            (Some(temperature), _) => set("temperature", at_most_one(temperature)),
            (None, Some(top_p)) => set("top_p", top_p.clone()),
            (None, None) => {}
        }
        if let Some(top_k) = &ask.top_k {
            set("top_k", top_k.clone());
        }
    }
    let stop: Vec<Value> =
        ask.stop.iter().filter(|stop| !stop.trim().is_empty()).map(|stop| stop.as_str().into()).collect();
    if !stop.is_empty() {
        set("stop_sequences", stop.into());
    }
    if let Some(Format::Schema(whole)) = &ask.format {
        output.insert("format".to_owned(), json!({"type": "json_schema", "schema": whole.schema}));
    }
    if !output.is_empty() {
        set("output_config", output.into());
    }
    if let Some(user) = &ask.user {
        set("metadata", json!({"user_id": user}));
    }
    if ask.stream {
        set("stream", true.into());
    }
    let mut bytes = finish(body, quirks);
    bytes.pop();
    bytes.extend_from_slice(b",\"messages\":[");
    bytes.extend_from_slice(messages(ask, !cached).join(",").as_bytes());
    bytes.extend_from_slice(b"]}");
    bytes
}

/// Where the client names no limit: what the model family allows.
fn default_limit(model: &str, quirks: &Quirks) -> u64 {
    let own = if model.contains("claude-3-5") || model.contains("claude-3.5") {
        8192
    } else if model.contains("claude-3-7") || model.contains("claude-3.7") {
        32_000
    } else if model.contains("claude-3") {
        4096
    } else {
        32_000
    };
    quirks.max_output_tokens.map_or(own, |most| own.min(most))
}

fn at_most_one(temperature: &Value) -> Value {
    if temperature.as_f64().is_some_and(|degree| degree > 1.0) { json!(1) } else { temperature.clone() }
}

/// Whether the client placed cache marks itself; then none are added.
fn marks_cache(ask: &Ask) -> bool {
    let parts = ask.system.iter().chain(ask.turns.iter().flat_map(|turn| &turn.parts));
    let marked = parts.into_iter().any(|part| matches!(part, Part::Text { cache: Some(_), .. }));
    marked || ask.tools.iter().any(|tool| tool.cache.is_some())
}

fn choice(ask: &Ask) -> Option<Value> {
    let serial = ask.parallel == Some(false);
    let mut choice = match &ask.choice {
        Some(Choice::None) => return Some(json!({"type": "none"})),
        Some(Choice::Any) => json!({"type": "any"}),
        Some(Choice::Tool(name)) => json!({"type": "tool", "name": name}),
        Some(Choice::Auto) => json!({"type": "auto"}),
        None if serial => json!({"type": "auto"}),
        None => return None,
    };
    if serial {
        choice["disable_parallel_tool_use"] = true.into();
    }
    Some(choice)
}

/// `thinking`, and the effort in `output_config` where the model takes one.
fn thinking(ask: &Ask, limit: u64) -> Map<String, Value> {
    let mut all = Map::new();
    let Some(word) = ask.thinking.word() else {
        if ask.thinking == Thinking::Off && !adaptive(&ask.model) {
            all.insert("thinking".to_owned(), json!({"type": "disabled"}));
        }
        return all;
    };
    if adaptive(&ask.model) {
        let effort = match word {
            "minimal" => "low",
            other => other,
        };
        all.insert("thinking".to_owned(), json!({"type": "adaptive"}));
        all.insert("output_config".to_owned(), json!({"effort": effort}));
        return all;
    }
    let wish = match word {
        "minimal" => return all,
        "low" => 2048,
        "high" | "xhigh" | "max" => 24_576,
        _ => 8192,
    };
    let budget = wish.min(limit / 2);
    if budget >= LEAST_BUDGET {
        all.insert("thinking".to_owned(), json!({"type": "enabled", "budget_tokens": budget}));
    }
    all
}

/// Claude models from 4.6 on set their own thinking budget.
fn adaptive(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let Some(rest) = name.strip_prefix("claude-") else { return false };
    let mut numbers = rest.split(['-', '.', '@']).filter_map(|word| word.parse::<u32>().ok());
    match (numbers.next(), numbers.next().filter(|minor| *minor < 100)) {
        (Some(major), _) if major > 4 => true,
        (Some(4), Some(minor)) => minor >= 6,
        _ => false,
    }
}

/// The conversation ends in tool results whose calls come without signed thinking: the provider refuses to think on.
fn ends_in_bare_calls(ask: &Ask) -> bool {
    let ends_in_results =
        ask.turns.last().is_some_and(|turn| turn.parts.iter().any(|part| matches!(part, Part::Result(_))));
    let last = ask.turns.iter().rev().find(|turn| turn.who == Who::Assistant);
    ends_in_results
        && last.is_some_and(|turn| {
            !turn.parts.iter().any(|part| matches!(part, Part::Reasoning(one) if thought(one).is_some()))
        })
}

fn messages(ask: &Ask, mark: bool) -> Vec<String> {
    let mut all: Vec<(&str, Vec<String>)> = Vec::new();
    for (index, turn) in ask.turns.iter().enumerate() {
        let last = index + 1 == ask.turns.len();
        let role = if turn.who == Who::Assistant { "assistant" } else { "user" };
        let blocks = blocks(turn, last);
        if blocks.is_empty() {
            continue;
        }
        match all.last_mut() {
            Some((before, said)) if *before == role => said.extend(blocks),
            before => {
                if before.is_none() && role == "assistant" {
                    all.push(("user", vec![json!({"type": "text", "text": "Continue."}).to_string()]));
                }
                all.push((role, blocks));
            }
        }
    }
    if all.is_empty() {
        // Instructions alone: somebody has to speak.
        all.push(("user", vec![json!({"type": "text", "text": "Begin."}).to_string()]));
    }
    if mark && let Some(("user", said)) = all.last_mut().map(|(role, said)| (*role, said)) {
        mark_last(said);
    }
    let message =
        |(role, said): &(&str, Vec<String>)| format!("{{\"role\":\"{role}\",\"content\":[{}]}}", said.join(","));
    all.iter().map(message).collect()
}

/// A cache mark on the newest message: everything up to here is read from cache on the next request.
fn mark_last(said: &mut [String]) {
    if let Some(last) = said.last_mut()
        && last.ends_with('}')
    {
        last.pop();
        last.push_str(",\"cache_control\":{\"type\":\"ephemeral\"}}");
    }
}

fn blocks(turn: &Turn, last: bool) -> Vec<String> {
    let mut all = Vec::new();
    for (index, part) in turn.parts.iter().enumerate() {
        let ends = last && index + 1 == turn.parts.len();
        match part {
            Part::Text { text: words, .. } if turn.who == Who::System && !words.trim().is_empty() => {
                all.push(json!({"type": "text", "text": format!("<system>\n{words}\n</system>")}).to_string());
            }
            // An answer to be continued must not end in white space.
            Part::Text { text: words, .. } if turn.who == Who::Assistant && ends => {
                let words = words.trim_end();
                if !words.is_empty() {
                    all.push(json!({"type": "text", "text": words}).to_string());
                }
            }
            Part::Reasoning(reasoning) => all.extend(thought(reasoning).map(|block| block.to_string())),
            Part::Call(call) => all.push(tool_use(call)),
            Part::Result(result) => {
                let content: Vec<Value> = result.parts.iter().filter_map(block).collect();
                let mut one = json!({"type": "tool_result", "tool_use_id": clean_id(&result.id), "content": content});
                if result.error {
                    one["is_error"] = true.into();
                }
                all.push(one.to_string());
            }
            _ => all.extend(block(part).map(|block| block.to_string())),
        }
    }
    all
}

/// Anthropic's own thinking goes back as it came; no other can.
fn thought(reasoning: &Reasoning) -> Option<Value> {
    if let Some(signature) = &reasoning.signature {
        return Some(json!({"type": "thinking", "thinking": reasoning.text, "signature": signature}));
    }
    let data = reasoning.encrypted.as_ref().filter(|_| reasoning.id.is_none())?;
    Some(json!({"type": "redacted_thinking", "data": data}))
}

fn tool_use(call: &ToolCall) -> String {
    let mut one = b"{\"type\":\"tool_use\",\"id\":".to_vec();
    string(&clean_id(&call.id), &mut one);
    one.extend_from_slice(b",\"name\":");
    string(&call.name, &mut one);
    one.extend_from_slice(b",\"input\":");
    let arguments = input(&call.arguments, call.custom);
    // Only an object is taken here.
    if arguments.trim_start().starts_with('{') {
        one.extend_from_slice(arguments.as_bytes());
    } else {
        one.extend_from_slice(b"{\"arguments\":");
        one.extend_from_slice(arguments.as_bytes());
        one.push(b'}');
    }
    one.push(b'}');
    String::from_utf8_lossy(&one).into_owned()
}

/// Ids may hold letters, digits, `_` and `-` only.
fn clean_id(id: &str) -> String {
    let clean: String =
        id.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect();
    if clean.is_empty() { "call".to_owned() } else { clean }
}

fn text(part: &Part) -> Option<Value> {
    let Part::Text { text, cache } = part else { return None };
    if text.trim().is_empty() {
        return None;
    }
    let mut one = json!({"type": "text", "text": text});
    if let Some(cache) = cache {
        one["cache_control"] = cache.clone();
    }
    Some(one)
}

fn block(part: &Part) -> Option<Value> {
    let note = |text: &str| json!({"type": "text", "text": text});
    Some(match part {
        Part::Text { .. } => return text(part),
        Part::Refusal(words) if words.trim().is_empty() => return None,
        Part::Refusal(words) => note(words),
        Part::Image { source, .. } => match source {
            Source::Url(url) => json!({"type": "image", "source": {"type": "url", "url": url}}),
            Source::Data { media, data } => {
                json!({"type": "image", "source": {"type": "base64", "media_type": media, "data": data}})
            }
            Source::Id(_) | Source::Text(_) => note("[image left out: it is stored at another provider]"),
        },
        Part::File { source, name } => {
            let source = match source {
                Source::Url(url) => json!({"type": "url", "url": url}),
                Source::Data { media, data } => json!({"type": "base64", "media_type": media, "data": data}),
                Source::Text(text) => json!({"type": "text", "media_type": "text/plain", "data": text}),
                Source::Id(_) => return Some(note("[document left out: it is stored at another provider]")),
            };
            let mut one = json!({"type": "document", "source": source});
            if let Some(name) = name {
                one["title"] = name.as_str().into();
            }
            one
        }
        Part::Audio(_) => note(&words(std::slice::from_ref(part))),
        Part::Reasoning(_) | Part::Call(_) | Part::Result(_) => return None,
    })
}

fn tool(tool: &Tool) -> Value {
    let mut one = json!({"name": tool.name});
    if let Some(description) = description(tool) {
        one["description"] = description.into();
    }
    one["input_schema"] = schema(tool);
    if let Some(cache) = &tool.cache {
        one["cache_control"] = cache.clone();
    }
    one
}
