//! OpenAI Chat Completions answers, streamed or whole, into events.
//! Takes what real servers send: no role, empty choices, usage anywhere, tool calls without index or id.

use serde_json::{Map, Value};

use super::{Seen, error_of, upstream_fault};
use crate::ApiError;
use crate::ir::{Block, Delta, Head, Stop, ToolCall, Usage, count, text_of};
use crate::sequence::{Key, Sequencer};

#[derive(Debug, Default)]
pub(crate) struct Chat {
    next: Key,
    /// From the answer's id: makes the ids of calls that came without one.
    id: String,
    /// The text, reasoning or refusal block that deltas of its kind go to.
    prose: Option<(Prose, Key)>,
    reasoning_text: bool,
    /// The open reasoning block has its signature: more thinking is another block.
    signed: bool,
    calls: Vec<Call>,
    finish: Option<Stop>,
    pub(crate) usage_seen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prose {
    Text,
    Reasoning,
    Refusal,
}

#[derive(Debug)]
struct Call {
    key: Key,
    index: Option<u64>,
    id: String,
    arguments: String,
}

impl Chat {
    pub(crate) fn chunk(&mut self, chunk: &Map<String, Value>, seq: &mut Sequencer) -> Seen {
        if let Some(error) = error_of(chunk) {
            seq.error(error);
            return Seen::Error;
        }
        if !seq.started() {
            let head = head(chunk);
            self.id.extend(head.id.chars().filter(char::is_ascii_alphanumeric).take(24));
            seq.start(head);
        }
        let choices = chunk.get("choices").and_then(Value::as_array);
        let mut usage = usage_of(chunk);
        for choice in choices.into_iter().flatten().filter_map(Value::as_object) {
            if choice.get("index").and_then(Value::as_u64).unwrap_or(0) != 0 {
                continue;
            }
            usage = usage.or_else(|| usage_of(choice));
            if let Some(message) = choice.get("delta").or_else(|| choice.get("message")).and_then(Value::as_object) {
                self.message(message, seq);
            } else if let Some(text) = text_of(choice, "text") {
                self.prose(Prose::Text, text, seq);
            }
            if let Some(reason) = text_of(choice, "finish_reason") {
                if reason == "error" {
                    let message = "the provider ended the answer with an error and gave no reason";
                    seq.error(upstream_fault(message));
                    return Seen::Error;
                }
                self.finish = Some(match (stop_of(reason), text_of(choice, "stop_reason")) {
                    // vLLM and the built-in model say which stop sequence came.
                    (Stop::EndTurn, Some(sequence)) => Stop::StopSequence(Some(sequence.to_owned())),
                    (stop, _) => stop,
                });
                seq.close_all();
                self.prose = None;
            }
        }
        let has_usage = usage.is_some();
        if let Some(usage) = usage {
            self.usage_seen = true;
            seq.usage(usage);
        }
        match choices {
            Some(choices) if !choices.is_empty() => Seen::Content,
            _ if has_usage => Seen::UsageOnly,
            _ => Seen::Nothing,
        }
    }

    /// Ends the answer: at `[DONE]`, or where the stream ends after a finish reason.
    pub(crate) fn done(&mut self, seq: &mut Sequencer) {
        let stop = self.finish.clone().unwrap_or_default();
        seq.stop(stop);
    }

    pub(crate) fn finish_seen(&self) -> bool {
        self.finish.is_some()
    }

    pub(crate) fn whole(&mut self, body: &Map<String, Value>, seq: &mut Sequencer) -> Result<(), ApiError> {
        if let Some(error) = error_of(body) {
            return Err(error);
        }
        let choices = body.get("choices").and_then(Value::as_array);
        if choices.is_none_or(Vec::is_empty) {
            return Err(upstream_fault("the provider's answer has no choices"));
        }
        let content = choices.into_iter().flatten().any(|choice| {
            choice.get("message").or_else(|| choice.get("delta")).is_some_and(Value::is_object)
                || choice.get("text").is_some_and(Value::is_string)
        });
        if !content {
            return Err(upstream_fault("the provider's answer holds no message"));
        }
        if self.chunk(body, seq) != Seen::Error {
            self.done(seq);
        }
        Ok(())
    }

    fn message(&mut self, message: &Map<String, Value>, seq: &mut Sequencer) {
        let reasoning = text_of(message, "reasoning_content").or_else(|| text_of(message, "reasoning"));
        let details = message.get("reasoning_details").and_then(Value::as_array);
        let signed = |detail: &Value| detail.get("signature").is_some_and(Value::is_string);
        let several = details.is_some_and(|all| all.iter().filter(|one| signed(one)).count() > 1);
        if let Some(text) = reasoning.filter(|_| !several) {
            self.reasoning_text = true;
            self.prose(Prose::Reasoning, text, seq);
        }
        for detail in details.into_iter().flatten().filter_map(Value::as_object) {
            self.detail(detail, several, seq);
        }
        match message.get("content") {
            Some(Value::String(text)) => self.prose(Prose::Text, text, seq),
            Some(Value::Array(parts)) => {
                for part in parts.iter().filter_map(Value::as_object) {
                    self.part(part, seq);
                }
            }
            _ => {}
        }
        if let Some(refusal) = text_of(message, "refusal") {
            self.prose(Prose::Refusal, refusal, seq);
        }
        if let Some(calls) = message.get("tool_calls").and_then(Value::as_array) {
            for call in calls.iter().filter_map(Value::as_object) {
                self.call(call, seq);
            }
        } else if let Some(function) = message.get("function_call").and_then(Value::as_object) {
            let mut call = Map::new();
            call.insert("function".to_owned(), Value::Object(function.clone()));
            self.call(&call, seq);
        }
    }

    /// Some servers send content as parts, thinking among them.
    fn part(&mut self, part: &Map<String, Value>, seq: &mut Sequencer) {
        match part.get("type").and_then(Value::as_str) {
            Some("thinking" | "reasoning") => match part.get("thinking").or_else(|| part.get("text")) {
                Some(Value::String(text)) => self.prose(Prose::Reasoning, text, seq),
                Some(Value::Array(parts)) => {
                    for text in parts.iter().filter_map(|part| part.get("text")).filter_map(Value::as_str) {
                        self.prose(Prose::Reasoning, text, seq);
                    }
                }
                _ => {}
            },
            Some("refusal") => self.prose(Prose::Refusal, text_of(part, "refusal").unwrap_or_default(), seq),
            _ => self.prose(Prose::Text, text_of(part, "text").unwrap_or_default(), seq),
        }
    }

    fn prose(&mut self, prose: Prose, mut text: &str, seq: &mut Sequencer) {
        if text.is_empty() {
            return;
        }
        let again = prose == Prose::Reasoning && self.signed;
        if again {
            // Thinking that follows a signed block was set off by a blank line for readers.
            text = text.strip_prefix("\n\n").unwrap_or(text);
        }
        match self.prose {
            Some((open, key)) if open == prose && !again && seq.is_open(key) => {
                seq.delta(key, Delta::Text(text.to_owned()));
            }
            _ => {
                let block = match prose {
                    Prose::Text => Block::text(text),
                    Prose::Reasoning => Block::reasoning(text),
                    Prose::Refusal => Block::Refusal { text: text.to_owned() },
                };
                self.open_prose(prose, block, seq);
            }
        }
    }

    fn open_prose(&mut self, prose: Prose, block: Block, seq: &mut Sequencer) -> Key {
        let key = self.key();
        seq.open(key, block);
        self.prose = Some((prose, key));
        self.signed = false;
        key
    }

    /// OpenRouter's form of signed and encrypted thinking.
    fn detail(&mut self, detail: &Map<String, Value>, alone: bool, seq: &mut Sequencer) {
        let open = match self.prose {
            Some((Prose::Reasoning, key)) if !alone && !self.signed && seq.is_open(key) => Some(key),
            _ => None,
        };
        let text = text_of(detail, "text").or_else(|| text_of(detail, "summary"));
        let fresh = text.filter(|_| alone || !self.reasoning_text).unwrap_or_default();
        let signature = text_of(detail, "signature");
        let encrypted = text_of(detail, "data");
        if fresh.is_empty() && signature.is_none() && encrypted.is_none() {
            return;
        }
        let key = match open {
            Some(key) => {
                if !fresh.is_empty() {
                    seq.delta(key, Delta::Text(fresh.to_owned()));
                }
                key
            }
            None => self.open_prose(Prose::Reasoning, Block::reasoning(fresh), seq),
        };
        if let Some(signature) = signature {
            seq.delta(key, Delta::Signature(signature.to_owned()));
            self.signed = true;
        }
        if let Some(data) = encrypted {
            seq.delta(key, Delta::Encrypted(data.to_owned()));
            self.signed = true;
            if let Some(id) = text_of(detail, "id") {
                seq.delta(key, Delta::Id(id.to_owned()));
            }
        }
    }

    fn call(&mut self, call: &Map<String, Value>, seq: &mut Sequencer) {
        let index = count(call.get("index"));
        let id = text_of(call, "id").unwrap_or_default();
        let custom = call.get("custom").and_then(Value::as_object);
        let function = custom.or_else(|| call.get("function").and_then(Value::as_object));
        let name = function.and_then(|function| text_of(function, "name")).unwrap_or_default();
        let arguments = match function.and_then(|function| function.get("arguments").or_else(|| function.get("input")))
        {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        let extra = extra_of(call);
        if let Some(at) = self.find_call(index, id, name) {
            let known = &mut self.calls[at];
            known.arguments.push_str(&arguments);
            let key = known.key;
            if !arguments.is_empty() {
                seq.delta(key, Delta::Text(arguments));
            }
            if let Some(extra) = extra {
                seq.delta(key, Delta::Extra(extra));
            }
            return;
        }
        if id.is_empty() && name.is_empty() && arguments.is_empty() {
            return;
        }
        let key = self.key();
        let id = if id.is_empty() { format!("call_{}{}", self.id, self.calls.len()) } else { id.to_owned() };
        self.calls.push(Call { key, index, id: id.clone(), arguments: arguments.clone() });
        self.prose = None;
        let call = ToolCall { id, name: name.to_owned(), arguments, custom: custom.is_some(), extra };
        seq.open(key, Block::ToolCall(call));
    }

    /// Which known call a piece belongs to; `None` = a new one. Servers number calls badly: the same index for
    /// two calls, no index at all, the id repeated on every piece.
    fn find_call(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let whole = |call: &Call| serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
        if !id.is_empty()
            && let Some(at) =
                self.calls.iter().rposition(|call| call.id == id && (index.is_none() || call.index == index))
        {
            return Some(at);
        }
        let at = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index)?,
            None => self.calls.len().checked_sub(1)?,
        };
        let call = &self.calls[at];
        if name.is_empty() {
            return Some(at);
        }
        // A name on a later piece: another call if it brings an id of its own, or if the first one is whole.
        let another = !id.is_empty() || whole(call) || index.is_none();
        (!another).then_some(at)
    }

    fn key(&mut self) -> Key {
        self.next += 1;
        self.next
    }
}

fn head(chunk: &Map<String, Value>) -> Head {
    Head {
        id: text_of(chunk, "id").unwrap_or_default().to_owned(),
        model: text_of(chunk, "model").unwrap_or_default().to_owned(),
        created: count(chunk.get("created")).and_then(|at| i64::try_from(at).ok()).filter(|at| *at > 0),
    }
}

/// Members of a tool call that the provider wants back as they were.
pub(crate) fn extra_of(call: &Map<String, Value>) -> Option<Value> {
    let mut extra = Map::new();
    for key in ["extra_content", "provider_specific_fields", "thought_signature"] {
        if let Some(value) = call.get(key).filter(|value| !value.is_null()) {
            extra.insert(key.to_owned(), value.clone());
        }
    }
    (!extra.is_empty()).then_some(Value::Object(extra))
}

pub(crate) fn stop_of(reason: &str) -> Stop {
    match reason {
        "stop" | "end_turn" | "eos" | "STOP" => Stop::EndTurn,
        "length" | "max_tokens" | "MAX_TOKENS" => Stop::MaxTokens,
        "tool_calls" | "function_call" | "tool_use" => Stop::ToolUse,
        "content_filter" | "sensitive" => Stop::ContentFilter,
        "refusal" => Stop::Refusal,
        "stop_sequence" => Stop::StopSequence(None),
        other => Stop::Other(other.to_owned()),
    }
}

fn usage_of(holder: &Map<String, Value>) -> Option<Usage> {
    let usage =
        holder.get("usage").and_then(Value::as_object).or_else(|| holder.get("x_groq")?.get("usage")?.as_object())?;
    let prompt = usage.get("prompt_tokens_details");
    let from = |details: Option<&Value>, key: &str| count(details.and_then(|details| details.get(key)));
    let cache_read = from(prompt, "cached_tokens")
        .or_else(|| count(usage.get("cache_read_input_tokens")))
        .or_else(|| count(usage.get("prompt_cache_hit_tokens")))
        .or_else(|| count(usage.get("cached_tokens")));
    let cache_write = from(prompt, "cache_write_tokens")
        .or_else(|| from(prompt, "cache_creation_tokens"))
        .or_else(|| count(usage.get("cache_creation_input_tokens")));
    Some(Usage {
        input: count(usage.get("prompt_tokens")).or_else(|| count(usage.get("input_tokens"))).unwrap_or_default(),
        output: count(usage.get("completion_tokens")).or_else(|| count(usage.get("output_tokens"))).unwrap_or_default(),
        cache_read: cache_read.unwrap_or_default(),
        cache_write: cache_write.unwrap_or_default(),
        cache_write_1h: 0,
        reasoning: from(usage.get("completion_tokens_details"), "reasoning_tokens"),
    })
}
