//! Anthropic Messages answers, streamed or whole, into events.

use serde_json::{Map, Value};

use super::{Seen, error_of, upstream_fault};
use crate::ir::{Block, Delta, Head, Reasoning, Stop, ToolCall, Usage, count, text_of};
use crate::sequence::Sequencer;
use crate::{ApiError, Dialect};

#[derive(Debug, Default)]
pub(crate) struct Messages {
    usage: Usage,
    stop: Option<Stop>,
    /// The open block's index, its start object, and its streamed input where it is not a client's tool.
    open: Option<(u64, Map<String, Value>, String)>,
}

impl Messages {
    pub(crate) fn event(&mut self, event: &Map<String, Value>, name: &str, seq: &mut Sequencer) -> Seen {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or(name);
        match kind {
            "message_start" => {
                if let Some(message) = event.get("message").and_then(Value::as_object) {
                    self.head(message, seq);
                    // Some servers put a whole message here.
                    for block in message.get("content").and_then(Value::as_array).into_iter().flatten() {
                        self.block(block, seq);
                    }
                }
                Seen::Content
            }
            "content_block_start" => {
                self.close_unclosed(seq);
                if let Some(block) = event.get("content_block").and_then(Value::as_object) {
                    let index = self.index(event);
                    self.start(index, block, seq);
                }
                Seen::Content
            }
            "content_block_delta" => {
                let index = self.index(event);
                if let Some(delta) = event.get("delta").and_then(Value::as_object) {
                    self.delta(index, delta, seq);
                }
                Seen::Content
            }
            "content_block_stop" => {
                self.close_unclosed(seq);
                Seen::Content
            }
            "message_delta" => {
                if let Some(usage) = event.get("usage").and_then(Value::as_object) {
                    self.usage(usage, seq);
                }
                if let Some(delta) = event.get("delta").and_then(Value::as_object)
                    && let Some(reason) = text_of(delta, "stop_reason")
                {
                    self.close_unclosed(seq);
                    seq.close_all();
                    self.stop = Some(stop_of(reason, delta));
                }
                Seen::Content
            }
            "message_stop" => {
                self.done(seq);
                Seen::Terminal
            }
            _ => match error_of(event) {
                Some(error) => {
                    seq.error(error);
                    Seen::Error
                }
                None => Seen::Nothing,
            },
        }
    }

    pub(crate) fn done(&mut self, seq: &mut Sequencer) {
        self.close_unclosed(seq);
        seq.stop(self.stop.clone().unwrap_or_default());
    }

    pub(crate) fn finish_seen(&self) -> bool {
        self.stop.is_some()
    }

    pub(crate) fn whole(&mut self, body: &Map<String, Value>, seq: &mut Sequencer) -> Result<(), ApiError> {
        if let Some(error) = error_of(body) {
            return Err(error);
        }
        let content = match body.get("content") {
            Some(Value::Array(content)) => content.as_slice(),
            Some(text @ Value::String(_)) => std::slice::from_ref(text),
            _ => return Err(upstream_fault("the provider's answer has no content")),
        };
        self.head(body, seq);
        for block in content {
            self.block(block, seq);
        }
        self.stop = text_of(body, "stop_reason").map(|reason| stop_of(reason, body));
        self.done(seq);
        Ok(())
    }

    fn head(&mut self, message: &Map<String, Value>, seq: &mut Sequencer) {
        seq.start(Head {
            id: text_of(message, "id").unwrap_or_default().to_owned(),
            model: text_of(message, "model").unwrap_or_default().to_owned(),
            created: None,
        });
        if let Some(usage) = message.get("usage").and_then(Value::as_object) {
            self.usage(usage, seq);
        }
    }

    /// Counts are running totals; a later event may repeat only some of them.
    fn usage(&mut self, usage: &Map<String, Value>, seq: &mut Sequencer) {
        let fresh = self.usage.input.saturating_sub(self.usage.cache_read).saturating_sub(self.usage.cache_write);
        let nested = usage.get("cache_creation");
        let fresh = count(usage.get("input_tokens")).unwrap_or(fresh);
        if let Some(read) = count(usage.get("cache_read_input_tokens")) {
            self.usage.cache_read = read;
        }
        if let Some(write) = count(usage.get("cache_creation_input_tokens")) {
            self.usage.cache_write = write;
        }
        if let Some(write) = count(nested.and_then(|nested| nested.get("ephemeral_1h_input_tokens"))) {
            self.usage.cache_write_1h = write;
        }
        if let Some(output) = count(usage.get("output_tokens")) {
            self.usage.output = output;
        }
        let details = usage.get("output_tokens_details");
        if let Some(thinking) = count(details.and_then(|details| details.get("thinking_tokens"))) {
            self.usage.reasoning = Some(thinking);
        }
        self.usage.input = fresh.saturating_add(self.usage.cache_read).saturating_add(self.usage.cache_write);
        seq.usage(self.usage);
    }

    fn index(&self, event: &Map<String, Value>) -> u64 {
        count(event.get("index")).or_else(|| self.open.as_ref().map(|open| open.0)).unwrap_or_default()
    }

    fn block(&mut self, block: &Value, seq: &mut Sequencer) {
        let index = self.open.as_ref().map_or(0, |open| open.0 + 1);
        match block {
            Value::Object(block) => self.start(index, block, seq),
            Value::String(text) => seq.open(index, Block::text(text.as_str())),
            _ => return,
        }
        self.close_unclosed(seq);
        seq.close(index);
    }

    fn start(&mut self, index: u64, block: &Map<String, Value>, seq: &mut Sequencer) {
        let string = |key: &str| text_of(block, key).map(str::to_owned);
        let opened = match block.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" => Block::Text {
                text: string("text").unwrap_or_default(),
                annotations: block.get("citations").and_then(Value::as_array).cloned().unwrap_or_default(),
            },
            "thinking" => Block::Reasoning(Reasoning {
                text: string("thinking").unwrap_or_default(),
                signature: string("signature"),
                ..Reasoning::default()
            }),
            "redacted_thinking" => Block::Reasoning(Reasoning { encrypted: string("data"), ..Reasoning::default() }),
            "tool_use" => Block::ToolCall(ToolCall {
                id: string("id").unwrap_or_default(),
                name: string("name").unwrap_or_default(),
                ..ToolCall::default()
            }),
            _ => Block::Opaque { dialect: Dialect::Messages, value: Value::Object(block.clone()) },
        };
        seq.open(index, opened);
        self.open = Some((index, block.clone(), String::new()));
    }

    fn delta(&mut self, index: u64, delta: &Map<String, Value>, seq: &mut Sequencer) {
        let kind = delta.get("type").and_then(Value::as_str).unwrap_or_default();
        let text = |key: &str| text_of(delta, key).map(|text| Delta::Text(text.to_owned()));
        let (fits, change) = match kind {
            "text_delta" => ("text", text("text")),
            // One server names the field `text`.
            "thinking_delta" => ("thinking", text("thinking").or_else(|| text("text"))),
            "signature_delta" => ("thinking", text_of(delta, "signature").map(|one| Delta::Signature(one.to_owned()))),
            "input_json_delta" => {
                let partial = text_of(delta, "partial_json").unwrap_or_default();
                if let Some((_, _, input)) = &mut self.open {
                    input.push_str(partial);
                }
                ("tool_use", text("partial_json"))
            }
            "citations_delta" => ("text", delta.get("citation").cloned().map(Delta::Annotation)),
            _ => return,
        };
        let Some(change) = change else { return };
        let open = self.open.as_ref().filter(|open| open.0 == index && seq.is_open(index));
        let same = open.and_then(|open| open.1.get("type")).and_then(Value::as_str) == Some(fits);
        if !same && matches!(fits, "text" | "thinking") && matches!(change, Delta::Text(_)) {
            // A delta for a block that is closed or of another kind: the words go into a block of their own.
            self.close_unclosed(seq);
            let mut block = Map::new();
            block.insert("type".to_owned(), fits.into());
            self.start(index, &block, seq);
        }
        if same || self.open.as_ref().is_some_and(|open| open.1.get("type").and_then(Value::as_str) == Some(fits)) {
            seq.delta(index, change);
        }
    }

    /// Closes the open block, with its input where that came in the start event or belongs to a server's tool.
    fn close_unclosed(&mut self, seq: &mut Sequencer) {
        let Some((index, block, input)) = &mut self.open else { return };
        let index = *index;
        if seq.is_open(index) {
            match block.get("type").and_then(Value::as_str) {
                Some("tool_use") if input.is_empty() => {
                    let text = match block.get("input") {
                        Some(Value::String(text)) => text.clone(),
                        Some(Value::Null) | None => "{}".to_owned(),
                        Some(given) => given.to_string(),
                    };
                    seq.delta(index, Delta::Text(text));
                }
                Some("tool_use") => {}
                _ if !input.is_empty() => {
                    let value = serde_json::from_str(input).unwrap_or_else(|_| Value::String(input.clone()));
                    block.insert("input".to_owned(), value);
                    seq.delta(index, Delta::Value(Value::Object(block.clone())));
                }
                _ => {}
            }
            seq.close(index);
        }
        input.clear();
    }
}

pub(crate) fn stop_of(reason: &str, holder: &Map<String, Value>) -> Stop {
    match reason {
        "end_turn" => Stop::EndTurn,
        "max_tokens" | "model_context_window_exceeded" => Stop::MaxTokens,
        "tool_use" => Stop::ToolUse,
        "stop_sequence" => Stop::StopSequence(text_of(holder, "stop_sequence").map(str::to_owned)),
        "refusal" => Stop::Refusal,
        "pause_turn" => Stop::Pause,
        other => super::chat::stop_of(other),
    }
}
