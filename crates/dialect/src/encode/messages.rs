//! Anthropic Messages events and bodies. Blocks get rising indexes; each is opened and closed once.

use serde_json::{Value, json};

use super::{Envelope, Wire, messages_usage, string};
use crate::ir::{Answer, Block, Delta, Event, Head, Reasoning, Stop, Usage};
use crate::relay::RelaySpec;
use crate::{Dialect, carry};

#[derive(Debug)]
pub(crate) struct Messages {
    spec: RelaySpec,
    wire: Wire,
    /// Same dialect upstream: signatures are the provider's own and go out as they are.
    native: bool,
    started: bool,
    index: u64,
    open: Option<Block>,
    /// `content_block_start` of the open block is out.
    shown: bool,
    calls: bool,
    usage: Usage,
    stop: Stop,
}

impl Messages {
    pub(crate) fn new(spec: &RelaySpec) -> Self {
        Self {
            spec: spec.clone(),
            wire: Wire::new(spec),
            native: spec.upstream == Dialect::Messages,
            started: false,
            index: 0,
            open: None,
            shown: false,
            calls: false,
            usage: Usage::default(),
            stop: Stop::default(),
        }
    }

    pub(crate) fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Start(head) => self.start(head, out),
            Event::Open(block) => {
                self.start(&Head::default(), out);
                self.open(block, out);
            }
            Event::Delta(delta) => self.delta(delta, out),
            Event::Close => self.close(out),
            Event::Usage(usage) => self.usage = *usage,
            Event::Stop(stop) => self.stop = stop.clone(),
            Event::Error(_) => {}
        }
    }

    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        self.start(&Head::default(), out);
        self.stop.settle(self.calls);
        let (reason, sequence) = stop_reason(&self.stop);
        let delta = json!({
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": sequence},
            "usage": messages_usage(&self.usage, false),
        });
        self.wire.send("message_delta", delta.to_string().as_bytes(), out);
        self.wire.send("message_stop", b"{\"type\":\"message_stop\"}", out);
    }

    fn start(&mut self, head: &Head, out: &mut Vec<u8>) {
        if self.started {
            return;
        }
        self.started = true;
        let envelope = Envelope::new(&self.spec, head);
        let start = json!({
            "type": "message_start",
            "message": {
                "id": format!("msg_{}", envelope.seed),
                "type": "message",
                "role": "assistant",
                "model": envelope.model,
                "content": [],
                "stop_reason": null,
                "stop_sequence": null,
                "usage": messages_usage(&self.usage, true),
            },
        });
        self.wire.send("message_start", start.to_string().as_bytes(), out);
    }

    fn open(&mut self, block: &Block, out: &mut Vec<u8>) {
        self.shown = false;
        match block {
            Block::Text { text, annotations } => {
                self.show(json!({"type": "text", "text": ""}), out);
                self.words("text_delta", "text", text, out);
                for one in annotations.iter().filter(|_| self.native) {
                    let delta = json!({"type": "citations_delta", "citation": one});
                    let data = json!({"type": "content_block_delta", "index": self.index, "delta": delta});
                    self.wire.send("content_block_delta", data.to_string().as_bytes(), out);
                }
                self.open = Some(Block::text(""));
            }
            Block::Refusal { text } => {
                self.show(json!({"type": "text", "text": ""}), out);
                self.words("text_delta", "text", text, out);
                self.open = Some(Block::text(""));
            }
            Block::Reasoning(reasoning) => {
                self.open = Some(block.clone());
                if !reasoning.text.is_empty() {
                    self.think(&reasoning.text, out);
                }
            }
            Block::ToolCall(call) => {
                self.calls = true;
                if let Some(data) = carry::pack_extra(call) {
                    self.alone(&json!({"type": "redacted_thinking", "data": data}), out);
                }
                let start = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
                self.show(start, out);
                if call.custom {
                    self.words("input_json_delta", "partial_json", CUSTOM_HEAD, out);
                    self.words("input_json_delta", "partial_json", &escaped(&call.arguments), out);
                } else {
                    self.words("input_json_delta", "partial_json", &call.arguments, out);
                }
                self.open = Some(block.clone());
            }
            Block::Opaque { dialect, value } => {
                self.open =
                    (*dialect == Dialect::Messages).then(|| Block::Opaque { dialect: *dialect, value: value.clone() });
            }
        }
    }

    fn delta(&mut self, delta: &Delta, out: &mut Vec<u8>) {
        let Some(mut open) = self.open.take() else { return };
        if let Delta::Text(text) = delta {
            match &open {
                Block::Text { .. } => self.words("text_delta", "text", text, out),
                Block::Reasoning(_) => self.think(text, out),
                Block::ToolCall(call) if call.custom => {
                    self.words("input_json_delta", "partial_json", &escaped(text), out);
                }
                Block::ToolCall(_) => self.words("input_json_delta", "partial_json", text, out),
                _ => {}
            }
        }
        if !matches!(open, Block::Text { .. }) {
            open.apply(delta.clone());
        }
        self.open = Some(open);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        match self.open.take() {
            Some(Block::Reasoning(reasoning)) => {
                let (start, signature) = thinking(&reasoning, self.native);
                if start["type"] == "redacted_thinking" {
                    self.alone(&start, out);
                    return;
                }
                if !self.shown {
                    self.show(json!({"type": "thinking", "thinking": "", "signature": ""}), out);
                }
                self.words("signature_delta", "signature", &signature, out);
            }
            Some(Block::Opaque { value, .. }) => {
                self.alone(&value, out);
                return;
            }
            Some(Block::ToolCall(call)) if call.custom => {
                self.words("input_json_delta", "partial_json", CUSTOM_TAIL, out);
            }
            Some(_) => {}
            None => return,
        }
        self.stop_block(out);
    }

    fn think(&mut self, text: &str, out: &mut Vec<u8>) {
        if !self.shown {
            self.show(json!({"type": "thinking", "thinking": "", "signature": ""}), out);
        }
        self.words("thinking_delta", "thinking", text, out);
    }

    fn show(&mut self, block: Value, out: &mut Vec<u8>) {
        self.shown = true;
        let mut start = json!({"type": "content_block_start", "index": self.index});
        start["content_block"] = block;
        self.wire.send("content_block_start", start.to_string().as_bytes(), out);
    }

    /// A block that has no deltas.
    fn alone(&mut self, block: &Value, out: &mut Vec<u8>) {
        self.show(block.clone(), out);
        self.stop_block(out);
    }

    fn stop_block(&mut self, out: &mut Vec<u8>) {
        let stop = format!("{{\"type\":\"content_block_stop\",\"index\":{}}}", self.index);
        self.wire.send("content_block_stop", stop.as_bytes(), out);
        self.index += 1;
        self.shown = false;
    }

    fn words(&self, kind: &str, field: &str, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        let mut data = Vec::with_capacity(text.len() + 96);
        data.extend_from_slice(b"{\"type\":\"content_block_delta\",\"index\":");
        data.extend_from_slice(self.index.to_string().as_bytes());
        data.extend_from_slice(b",\"delta\":{\"type\":\"");
        data.extend_from_slice(kind.as_bytes());
        data.extend_from_slice(b"\",\"");
        data.extend_from_slice(field.as_bytes());
        data.extend_from_slice(b"\":");
        string(text, &mut data);
        data.extend_from_slice(b"}}");
        self.wire.send("content_block_delta", &data, out);
    }
}

/// A free-text tool's input travels as the one string member of an object.
pub(crate) const CUSTOM_HEAD: &str = "{\"input\":\"";
pub(crate) const CUSTOM_TAIL: &str = "\"}";

fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

pub(crate) fn whole(spec: &RelaySpec, answer: &Answer) -> Vec<u8> {
    let native = spec.upstream == Dialect::Messages;
    let envelope = Envelope::new(spec, &answer.head());
    let mut stop = answer.stop.clone();
    stop.settle(answer.tool_calls().next().is_some());
    let (reason, sequence) = stop_reason(&stop);
    let mut content = Vec::new();
    let mut next = |block: &[u8]| {
        if !content.is_empty() {
            content.push(b',');
        }
        content.extend_from_slice(block);
    };
    for block in &answer.blocks {
        match block {
            Block::Text { text, annotations } => {
                let mut one = json!({"type": "text", "text": text});
                if native && !annotations.is_empty() {
                    one["citations"] = annotations.clone().into();
                }
                next(one.to_string().as_bytes());
            }
            Block::Refusal { text } => next(json!({"type": "text", "text": text}).to_string().as_bytes()),
            Block::Reasoning(reasoning) => next(thinking(reasoning, native).0.to_string().as_bytes()),
            Block::ToolCall(call) => {
                if let Some(data) = carry::pack_extra(call) {
                    next(json!({"type": "redacted_thinking", "data": data}).to_string().as_bytes());
                }
                let mut one = b"{\"type\":\"tool_use\",\"id\":".to_vec();
                string(&call.id, &mut one);
                one.extend_from_slice(b",\"name\":");
                string(&call.name, &mut one);
                one.extend_from_slice(b",\"input\":");
                one.extend_from_slice(input(&call.arguments, call.custom).as_bytes());
                one.push(b'}');
                next(&one);
            }
            Block::Opaque { dialect: Dialect::Messages, value } => next(value.to_string().as_bytes()),
            Block::Opaque { .. } => {}
        }
    }
    let head = json!({
        "id": format!("msg_{}", envelope.seed),
        "type": "message",
        "role": "assistant",
        "model": envelope.model,
    });
    let tail = json!({
        "stop_reason": reason,
        "stop_sequence": sequence,
        "usage": messages_usage(&answer.usage, true),
    });
    let mut body = head.to_string().into_bytes();
    body.pop();
    body.extend_from_slice(b",\"content\":[");
    body.extend_from_slice(&content);
    body.extend_from_slice(b"],");
    body.extend_from_slice(&tail.to_string().as_bytes()[1..]);
    body
}

/// Arguments as an `input` value: the model's own JSON text where it is JSON.
pub(crate) fn input(arguments: &str, custom: bool) -> String {
    if custom {
        return json!({"input": arguments}).to_string();
    }
    if arguments.trim().is_empty() {
        return "{}".to_owned();
    }
    match serde_json::from_str::<serde::de::IgnoredAny>(arguments) {
        Ok(_) => arguments.to_owned(),
        // Not JSON: the client's tool refuses it and the model sees what it wrote.
        Err(_) => json!({"arguments": arguments}).to_string(),
    }
}

/// A thinking or redacted block, and its signature.
fn thinking(reasoning: &Reasoning, native: bool) -> (Value, String) {
    let readable = !reasoning.text.is_empty() || (native && reasoning.signature.is_some());
    if !readable {
        let data = match &reasoning.encrypted {
            Some(data) if native => data.clone(),
            _ => carry::pack(reasoning),
        };
        return (json!({"type": "redacted_thinking", "data": data}), String::new());
    }
    let signature = if native { reasoning.signature.clone().unwrap_or_default() } else { carry::pack(reasoning) };
    (json!({"type": "thinking", "thinking": reasoning.text, "signature": signature}), signature)
}

fn stop_reason(stop: &Stop) -> (&'static str, Option<&str>) {
    match stop {
        Stop::EndTurn | Stop::Other(_) => ("end_turn", None),
        Stop::MaxTokens => ("max_tokens", None),
        Stop::ToolUse => ("tool_use", None),
        // A server that names no sequence said only "stop".
        Stop::StopSequence(None) => ("end_turn", None),
        Stop::StopSequence(Some(sequence)) => ("stop_sequence", Some(sequence)),
        Stop::Refusal | Stop::ContentFilter => ("refusal", None),
        Stop::Pause => ("pause_turn", None),
    }
}
