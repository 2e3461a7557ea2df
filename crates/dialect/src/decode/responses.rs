//! OpenAI Responses answers, streamed or whole, into events.
//! Deltas, `done` events and the final response may each carry what the others lack: whatever was not streamed is made up for.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{Seen, error_of, read_error, upstream_fault};
use crate::ir::{Block, Delta, Head, Reasoning, Stop, ToolCall, Usage, count, text_of};
use crate::sequence::{Key, Sequencer};
use crate::{ApiError, Dialect};

#[derive(Debug, Default)]
pub(crate) struct Responses {
    next: Key,
    /// Blocks by output index and part.
    parts: HashMap<(u64, Part), Streamed>,
    /// Output indexes whose item is complete.
    done: HashSet<u64>,
    /// Output index by item id, for events without an index.
    ids: HashMap<String, u64>,
    highest: Option<u64>,
    sequence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Content(u64),
    Reasoning,
    Call,
}

#[derive(Debug)]
struct Streamed {
    key: Key,
    text: String,
    /// The reasoning part the last delta belonged to; parts are set off by a blank line.
    section: Option<(bool, u64)>,
}

impl Responses {
    pub(crate) fn event(&mut self, event: &Map<String, Value>, name: &str, seq: &mut Sequencer) -> Seen {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or(name);
        if let Some(number) = count(event.get("sequence_number")) {
            self.sequence = number.saturating_add(1);
        }
        let delta = text_of(event, "delta").unwrap_or_default();
        match kind {
            "response.created" | "response.in_progress" | "response.queued" => {
                if let Some(response) = event.get("response").and_then(Value::as_object) {
                    seq.start(head(response));
                }
            }
            "response.output_item.added" => {
                if let Some(item) = event.get("item").and_then(Value::as_object) {
                    let output = self.output_index(event, item);
                    self.item_added(output, item, seq);
                }
            }
            "response.content_part.added" => {
                let (output, at) = self.place(event);
                let kind = event.get("part").and_then(|part| part.get("type")).and_then(Value::as_str);
                match kind {
                    Some("output_text") => _ = self.part(output, Part::Content(at), || Block::text(""), seq),
                    Some("refusal") => _ = self.part(output, Part::Content(at), refusal, seq),
                    _ => {}
                }
            }
            "response.output_text.delta" => {
                let (output, at) = self.place(event);
                self.more(output, Part::Content(at), || Block::text(""), delta, seq);
            }
            "response.refusal.delta" => {
                let (output, at) = self.place(event);
                self.more(output, Part::Content(at), refusal, delta, seq);
            }
            "response.output_text.annotation.added" => {
                let (output, at) = self.place(event);
                if let (Some(part), Some(one)) = (self.parts.get(&(output, Part::Content(at))), event.get("annotation"))
                {
                    seq.delta(part.key, Delta::Annotation(one.clone()));
                }
            }
            "response.output_text.done" => {
                let (output, at) = self.place(event);
                let text = text_of(event, "text").unwrap_or_default();
                self.rest(output, Part::Content(at), || Block::text(""), text, seq);
            }
            "response.refusal.done" => {
                let (output, at) = self.place(event);
                self.rest(output, Part::Content(at), refusal, text_of(event, "refusal").unwrap_or_default(), seq);
            }
            "response.content_part.done" => {
                let (output, at) = self.place(event);
                if let Some(part) = event.get("part").and_then(Value::as_object) {
                    self.content(output, at, part, seq);
                }
            }
            "response.reasoning_summary_text.delta" => {
                let at = count(event.get("summary_index")).unwrap_or_default();
                self.thought(event, (false, at), delta, seq);
            }
            "response.reasoning_text.delta" => {
                let at = count(event.get("content_index")).unwrap_or_default();
                self.thought(event, (true, at), delta, seq);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let (output, _) = self.place(event);
                let custom = kind.starts_with("response.custom");
                self.more(output, Part::Call, || bare_call(event, custom), delta, seq);
            }
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                let (output, _) = self.place(event);
                let custom = kind.starts_with("response.custom");
                let text = event.get(if custom { "input" } else { "arguments" });
                self.rest(output, Part::Call, || bare_call(event, custom), &raw_text(text), seq);
            }
            "response.output_item.done" => {
                if let Some(item) = event.get("item").and_then(Value::as_object) {
                    let output = self.output_index(event, item);
                    self.item_done(output, item, seq);
                }
            }
            "response.completed" | "response.incomplete" | "response.done" | "response.cancelled" => {
                if let Some(response) = event.get("response").and_then(Value::as_object) {
                    self.response(response, seq);
                } else {
                    self.done(seq);
                }
                return Seen::Terminal;
            }
            "response.failed" => {
                let response = event.get("response").and_then(Value::as_object);
                seq.error(failure(response));
                return Seen::Error;
            }
            _ => {
                return match error_of(event) {
                    Some(error) => {
                        seq.error(error);
                        Seen::Error
                    }
                    None => Seen::Nothing,
                };
            }
        }
        Seen::Content
    }

    /// The number the next event would have.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    #[expect(clippy::unused_self, reason = "same shape as the other decoders")]
    pub(crate) fn done(&mut self, seq: &mut Sequencer) {
        seq.stop(Stop::EndTurn);
    }

    pub(crate) fn whole(&mut self, body: &Map<String, Value>, seq: &mut Sequencer) -> Result<(), ApiError> {
        if let Some(error) = error_of(body) {
            return Err(error);
        }
        if text_of(body, "status") == Some("failed") {
            return Err(failure(Some(body)));
        }
        if !body.get("output").is_some_and(Value::is_array) {
            return Err(upstream_fault("the provider's answer has no output"));
        }
        seq.start(head(body));
        self.response(body, seq);
        Ok(())
    }

    /// The final response: items that were never streamed, counts, stop reason.
    fn response(&mut self, response: &Map<String, Value>, seq: &mut Sequencer) {
        if !seq.started() {
            seq.start(head(response));
        }
        let output = response.get("output").and_then(Value::as_array);
        for (output, item) in (0..).zip(output.into_iter().flatten()) {
            if let Some(item) = item.as_object()
                && !self.done.contains(&output)
            {
                self.item_done(output, item, seq);
            }
        }
        if let Some(usage) = response.get("usage").and_then(Value::as_object) {
            seq.usage(usage_of(usage));
        }
        let reason =
            response.get("incomplete_details").and_then(|details| details.get("reason")).and_then(Value::as_str);
        seq.stop(match (text_of(response, "status"), reason) {
            (Some("incomplete"), Some("content_filter")) => Stop::ContentFilter,
            (Some("incomplete"), Some("max_output_tokens" | "max_tokens") | None) => Stop::MaxTokens,
            (Some("incomplete"), Some(other)) => Stop::Other(other.to_owned()),
            (Some("cancelled"), _) => Stop::Other("cancelled".to_owned()),
            _ => Stop::EndTurn,
        });
    }

    fn item_added(&mut self, output: u64, item: &Map<String, Value>, seq: &mut Sequencer) {
        match item.get("type").and_then(Value::as_str) {
            Some("function_call") => _ = self.part(output, Part::Call, || call(item, false), seq),
            Some("custom_tool_call") => _ = self.part(output, Part::Call, || call(item, true), seq),
            Some("reasoning") => {
                let id = text_of(item, "id").map(str::to_owned);
                let block = || Block::Reasoning(Reasoning { id, ..Reasoning::default() });
                self.part(output, Part::Reasoning, block, seq);
            }
            // Messages open with their parts, all else when it is complete.
            _ => {}
        }
    }

    fn item_done(&mut self, output: u64, item: &Map<String, Value>, seq: &mut Sequencer) {
        if !self.done.insert(output) {
            return;
        }
        match item.get("type").and_then(Value::as_str) {
            Some("message") => {
                for (at, part) in (0..).zip(item.get("content").and_then(Value::as_array).into_iter().flatten()) {
                    if let Some(part) = part.as_object() {
                        self.content(output, at, part, seq);
                    }
                }
                let open: Vec<Key> =
                    self.parts.iter().filter(|(place, _)| place.0 == output).map(|(_, part)| part.key).collect();
                for key in open {
                    seq.close(key);
                }
            }
            Some("function_call") => self.call_done(output, item, false, seq),
            Some("custom_tool_call") => self.call_done(output, item, true, seq),
            Some("reasoning") => self.reasoning_done(output, item, seq),
            _ => {
                let value = Value::Object(item.clone());
                let key = self.part(output, Part::Call, || Block::Opaque { dialect: Dialect::Responses, value }, seq);
                seq.close(key);
            }
        }
    }

    fn content(&mut self, output: u64, at: u64, part: &Map<String, Value>, seq: &mut Sequencer) {
        let place = Part::Content(at);
        let known = self.parts.contains_key(&(output, place));
        match part.get("type").and_then(Value::as_str) {
            Some("output_text" | "text") => {
                let text = text_of(part, "text").unwrap_or_default();
                if !known && text.is_empty() {
                    return;
                }
                let key = self.rest(output, place, || Block::text(""), text, seq);
                if !known {
                    for one in part.get("annotations").and_then(Value::as_array).into_iter().flatten() {
                        seq.delta(key, Delta::Annotation(one.clone()));
                    }
                }
                seq.close(key);
            }
            Some("refusal") => {
                let key = self.rest(output, place, refusal, text_of(part, "refusal").unwrap_or_default(), seq);
                seq.close(key);
            }
            _ => {}
        }
    }

    fn call_done(&mut self, output: u64, item: &Map<String, Value>, custom: bool, seq: &mut Sequencer) {
        let text = raw_text(item.get(if custom { "input" } else { "arguments" }));
        let block = || match call(item, custom) {
            Block::ToolCall(call) => Block::ToolCall(ToolCall { arguments: String::new(), ..call }),
            other => other,
        };
        let key = self.rest(output, Part::Call, block, &text, seq);
        seq.close(key);
    }

    fn reasoning_done(&mut self, output: u64, item: &Map<String, Value>, seq: &mut Sequencer) {
        let texts = |key: &str| -> Vec<&str> {
            let parts = item.get(key).and_then(Value::as_array);
            parts.into_iter().flatten().filter_map(|part| part.get("text")).filter_map(Value::as_str).collect()
        };
        let summary = texts("summary");
        let text = if summary.is_empty() { texts("content").join("\n\n") } else { summary.join("\n\n") };
        let encrypted = text_of(item, "encrypted_content");
        let known = self.parts.contains_key(&(output, Part::Reasoning));
        if !known && text.is_empty() && encrypted.is_none() {
            return;
        }
        let id = text_of(item, "id").map(str::to_owned);
        let block = || Block::Reasoning(Reasoning { id, ..Reasoning::default() });
        let key = self.rest(output, Part::Reasoning, block, &text, seq);
        if let Some(encrypted) = encrypted {
            seq.delta(key, Delta::Encrypted(encrypted.to_owned()));
        }
        seq.close(key);
    }

    fn thought(&mut self, event: &Map<String, Value>, section: (bool, u64), delta: &str, seq: &mut Sequencer) {
        let (output, _) = self.place(event);
        let id = text_of(event, "item_id").map(str::to_owned);
        let block = || Block::Reasoning(Reasoning { id, ..Reasoning::default() });
        let key = self.part(output, Part::Reasoning, block, seq);
        let Some(part) = self.parts.get_mut(&(output, Part::Reasoning)) else { return };
        if part.section.is_some_and(|(full, _)| full != section.0) {
            // Summary and full text both come: the first kind seen is the one shown.
            return;
        }
        let gap = if part.section.is_some_and(|last| last != section) { "\n\n" } else { "" };
        part.section = Some(section);
        let text = format!("{gap}{delta}");
        part.text.push_str(&text);
        if !text.is_empty() {
            seq.delta(key, Delta::Text(text));
        }
    }

    /// The block at a place, opened if it is new there.
    fn part(&mut self, output: u64, part: Part, block: impl FnOnce() -> Block, seq: &mut Sequencer) -> Key {
        if let Some(known) = self.parts.get(&(output, part)) {
            return known.key;
        }
        self.next += 1;
        let key = self.next;
        let block = block();
        let text = if let Block::ToolCall(call) = &block { call.arguments.clone() } else { String::new() };
        self.parts.insert((output, part), Streamed { key, text, section: None });
        self.highest = self.highest.max(Some(output));
        seq.open(key, block);
        key
    }

    fn more(&mut self, output: u64, part: Part, block: impl FnOnce() -> Block, delta: &str, seq: &mut Sequencer) {
        let key = self.part(output, part, block, seq);
        if delta.is_empty() {
            return;
        }
        if let Some(known) = self.parts.get_mut(&(output, part)) {
            known.text.push_str(delta);
        }
        seq.delta(key, Delta::Text(delta.to_owned()));
    }

    /// Sends what a final text has beyond the deltas.
    fn rest(&mut self, output: u64, part: Part, block: impl FnOnce() -> Block, text: &str, seq: &mut Sequencer) -> Key {
        let key = self.part(output, part, block, seq);
        if let Some(known) = self.parts.get_mut(&(output, part))
            && let Some(rest) = text.strip_prefix(known.text.as_str())
            && !rest.is_empty()
        {
            known.text.push_str(rest);
            seq.delta(key, Delta::Text(rest.to_owned()));
        }
        key
    }

    fn output_index(&mut self, event: &Map<String, Value>, item: &Map<String, Value>) -> u64 {
        let id = text_of(item, "id");
        let known = id.and_then(|id| self.ids.get(id)).copied();
        let index =
            count(event.get("output_index")).or(known).unwrap_or_else(|| self.highest.map_or(0, |last| last + 1));
        self.highest = self.highest.max(Some(index));
        if let Some(id) = id {
            self.ids.insert(id.to_owned(), index);
        }
        index
    }

    /// Output index and content index of an event.
    fn place(&self, event: &Map<String, Value>) -> (u64, u64) {
        let known = || text_of(event, "item_id").and_then(|id| self.ids.get(id)).copied();
        let output = count(event.get("output_index")).or_else(known).or(self.highest).unwrap_or_default();
        (output, count(event.get("content_index")).unwrap_or_default())
    }
}

fn head(response: &Map<String, Value>) -> Head {
    Head {
        id: text_of(response, "id").unwrap_or_default().to_owned(),
        model: text_of(response, "model").unwrap_or_default().to_owned(),
        created: count(response.get("created_at")).and_then(|at| i64::try_from(at).ok()).filter(|at| *at > 0),
    }
}

fn refusal() -> Block {
    Block::Refusal { text: String::new() }
}

fn call(item: &Map<String, Value>, custom: bool) -> Block {
    let id = text_of(item, "call_id").or_else(|| text_of(item, "id")).unwrap_or_default();
    Block::ToolCall(ToolCall {
        id: id.to_owned(),
        name: text_of(item, "name").unwrap_or_default().to_owned(),
        arguments: raw_text(item.get(if custom { "input" } else { "arguments" })),
        custom,
        extra: None,
    })
}

/// A call whose `output_item.added` never came.
fn bare_call(event: &Map<String, Value>, custom: bool) -> Block {
    Block::ToolCall(ToolCall {
        id: text_of(event, "call_id").or_else(|| text_of(event, "item_id")).unwrap_or_default().to_owned(),
        name: text_of(event, "name").unwrap_or_default().to_owned(),
        custom,
        ..ToolCall::default()
    })
}

/// Text that some servers send as an object.
fn raw_text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn failure(response: Option<&Map<String, Value>>) -> ApiError {
    match response.and_then(|response| response.get("error")).and_then(Value::as_object) {
        Some(error) => read_error(error),
        None => upstream_fault("the provider reported that the answer failed and gave no reason"),
    }
}

fn usage_of(usage: &Map<String, Value>) -> Usage {
    let from = |details: &str, key: &str| count(usage.get(details).and_then(|details| details.get(key)));
    Usage {
        input: count(usage.get("input_tokens")).unwrap_or_default(),
        output: count(usage.get("output_tokens")).unwrap_or_default(),
        cache_read: from("input_tokens_details", "cached_tokens").unwrap_or_default(),
        cache_write: from("input_tokens_details", "cache_write_tokens").unwrap_or_default(),
        cache_write_1h: 0,
        reasoning: from("output_tokens_details", "reasoning_tokens"),
    }
}
