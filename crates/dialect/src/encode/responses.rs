//! OpenAI Responses events and bodies, in the order the official SDKs and Codex check.
//! The whole body is the `response` of the stream's last event: one state machine makes both.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Envelope, Wire, responses_usage, string};
use crate::ir::{Answer, Block, Delta, Event, Head, Reasoning, Stop, ToolCall, Usage};
use crate::relay::RelaySpec;
use crate::{ApiError, Dialect, carry};

#[derive(Debug)]
pub(crate) struct Responses {
    spec: RelaySpec,
    wire: Wire,
    native: bool,
    /// Tools the client declared as free text; other upstreams know them as JSON tools with one string.
    custom: BTreeSet<String>,
    envelope: Option<Envelope>,
    sequence: u64,
    output: Vec<Value>,
    open: Option<Block>,
    shown: bool,
    usage: Usage,
    stop: Stop,
}

impl Responses {
    pub(crate) fn new(spec: &RelaySpec) -> Self {
        Self {
            spec: spec.clone(),
            wire: Wire::new(spec),
            native: spec.upstream == Dialect::Responses,
            custom: spec.custom_tools.iter().cloned().collect(),
            envelope: None,
            sequence: 0,
            output: Vec::new(),
            open: None,
            shown: false,
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
        let name = if status(&self.stop) == "completed" { "response.completed" } else { "response.incomplete" };
        let response = self.response(status(&self.stop));
        self.send(name, json!({"response": response}), out);
    }

    pub(crate) fn error(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        let code = error.code.clone().unwrap_or_else(|| "server_error".to_owned());
        if self.envelope.is_none() {
            self.send("error", json!({"code": code, "message": error.message, "param": error.param}), out);
            return;
        }
        let mut response = self.response("failed");
        response["error"] = json!({"code": code, "message": error.message});
        self.send("response.failed", json!({"response": response}), out);
    }

    /// Continues the numbering of a stream that was passed on as it came.
    pub(crate) fn resume(&mut self, next: u64) {
        self.sequence = next;
    }

    fn start(&mut self, head: &Head, out: &mut Vec<u8>) {
        if self.envelope.is_some() {
            return;
        }
        self.envelope = Some(Envelope::new(&self.spec, head));
        let response = self.response("in_progress");
        self.send("response.created", json!({"response": response}), out);
        self.send("response.in_progress", json!({"response": response}), out);
    }

    fn response(&self, status: &str) -> Value {
        let fallback = Envelope::default();
        let envelope = self.envelope.as_ref().unwrap_or(&fallback);
        let running = status == "in_progress";
        let reason = match &self.stop {
            Stop::MaxTokens => Some("max_output_tokens"),
            Stop::ContentFilter | Stop::Refusal => Some("content_filter"),
            _ => None,
        };
        json!({
            "id": format!("resp_{}", envelope.seed),
            "object": "response",
            "created_at": envelope.created,
            "status": status,
            "background": false,
            "error": null,
            "incomplete_details": reason.filter(|_| status == "incomplete").map(|reason| json!({"reason": reason})),
            "instructions": null,
            "max_output_tokens": null,
            "model": envelope.model,
            "output": if running { json!([]) } else { json!(self.output) },
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "reasoning": {"effort": null, "summary": null},
            "store": false,
            "temperature": null,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": null,
            "truncation": "disabled",
            "usage": if !running && self.usage.is_known() { responses_usage(&self.usage) } else { Value::Null },
            "user": null,
            "metadata": {},
        })
    }

    fn open(&mut self, block: &Block, out: &mut Vec<u8>) {
        self.shown = false;
        match block {
            Block::Text { text, .. } => {
                self.show_message(&json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []}), out);
                self.words("response.output_text.delta", text, out);
                self.open = Some(block.clone());
            }
            Block::Refusal { text } => {
                self.show_message(&json!({"type": "refusal", "refusal": ""}), out);
                self.words("response.refusal.delta", text, out);
                self.open = Some(block.clone());
            }
            Block::Reasoning(reasoning) => {
                self.open = Some(Block::Reasoning(reasoning.clone()));
                if !reasoning.text.is_empty() {
                    self.show_summary(out);
                    self.words("response.reasoning_summary_text.delta", &reasoning.text, out);
                }
            }
            Block::ToolCall(call) => {
                if let Some(data) = carry::pack_extra(call) {
                    let item = self.reasoning_item(&Reasoning::default(), Some(data));
                    self.added(&json!({"type": "reasoning", "id": item["id"], "summary": []}), out);
                    self.done(item, out);
                }
                let unwrap = self.custom.contains(&call.name);
                let item = self.call_item(&ToolCall { arguments: String::new(), ..call.clone() }, "in_progress");
                self.added(&item, out);
                if call.custom {
                    self.words("response.custom_tool_call_input.delta", &call.arguments, out);
                } else if !unwrap {
                    self.words("response.function_call_arguments.delta", &call.arguments, out);
                }
                self.open = Some(block.clone());
            }
            Block::Opaque { dialect, .. } => {
                self.open = (*dialect == Dialect::Responses).then(|| block.clone());
            }
        }
    }

    fn delta(&mut self, delta: &Delta, out: &mut Vec<u8>) {
        let Some(mut open) = self.open.take() else { return };
        if let Delta::Text(text) = delta {
            match &open {
                Block::Text { .. } => self.words("response.output_text.delta", text, out),
                Block::Refusal { .. } => self.words("response.refusal.delta", text, out),
                Block::Reasoning(_) => {
                    self.show_summary(out);
                    self.words("response.reasoning_summary_text.delta", text, out);
                }
                Block::ToolCall(call) if call.custom => self.words("response.custom_tool_call_input.delta", text, out),
                Block::ToolCall(call) if self.custom.contains(&call.name) => {}
                Block::ToolCall(_) => self.words("response.function_call_arguments.delta", text, out),
                Block::Opaque { .. } => {}
            }
        }
        open.apply(delta.clone());
        self.open = Some(open);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let Some(open) = self.open.take() else { return };
        let item_id = self.item_id(&open);
        let index = self.output.len();
        match open {
            Block::Text { text, annotations } => {
                let annotations = if self.native { annotations } else { Vec::new() };
                let part = json!({"type": "output_text", "text": text, "annotations": annotations, "logprobs": []});
                let done = json!({"item_id": item_id, "output_index": index, "content_index": 0, "text": text, "logprobs": []});
                self.send("response.output_text.done", done, out);
                self.message_done(&item_id, &part, out);
            }
            Block::Refusal { text } => {
                let part = json!({"type": "refusal", "refusal": text});
                let done = json!({"item_id": item_id, "output_index": index, "content_index": 0, "refusal": text});
                self.send("response.refusal.done", done, out);
                self.message_done(&item_id, &part, out);
            }
            Block::Reasoning(reasoning) => {
                let native = reasoning.encrypted.clone().filter(|_| self.native);
                let packed = (!self.native && (reasoning.signature.is_some() || reasoning.encrypted.is_some()))
                    .then(|| carry::pack(&reasoning));
                let item = self.reasoning_item(&reasoning, native.or(packed));
                if self.shown {
                    let part = json!({"type": "summary_text", "text": reasoning.text});
                    let at = json!({"item_id": item_id, "output_index": index, "summary_index": 0});
                    let mut done = at.clone();
                    done["text"] = reasoning.text.as_str().into();
                    self.send("response.reasoning_summary_text.done", done, out);
                    let mut done = at;
                    done["part"] = part;
                    self.send("response.reasoning_summary_part.done", done, out);
                } else {
                    self.added(&json!({"type": "reasoning", "id": item_id, "summary": []}), out);
                }
                self.done(item, out);
            }
            Block::ToolCall(call) => self.call_done(call, &item_id, out),
            Block::Opaque { value, .. } => {
                self.added(&value, out);
                self.done(value, out);
            }
        }
        self.shown = false;
    }

    fn call_done(&mut self, mut call: ToolCall, item_id: &str, out: &mut Vec<u8>) {
        let index = self.output.len();
        if !call.custom && self.custom.contains(&call.name) {
            call.arguments = unwrapped(&call.arguments);
            call.custom = true;
            self.words("response.custom_tool_call_input.delta", &call.arguments, out);
        }
        if call.custom {
            let done = json!({"item_id": item_id, "output_index": index, "input": call.arguments});
            self.send("response.custom_tool_call_input.done", done, out);
        } else {
            if call.arguments.is_empty() {
                call.arguments.push_str("{}");
                self.words("response.function_call_arguments.delta", "{}", out);
            }
            let done = json!({
                "item_id": item_id, "output_index": index, "name": call.name, "arguments": call.arguments,
            });
            self.send("response.function_call_arguments.done", done, out);
        }
        let item = self.call_item(&call, "completed");
        self.done(item, out);
    }

    fn show_message(&mut self, part: &Value, out: &mut Vec<u8>) {
        self.shown = true;
        let id = self.id("msg");
        let item = json!({"type": "message", "id": id, "status": "in_progress", "role": "assistant", "content": []});
        self.added(&item, out);
        let added = json!({"item_id": id, "output_index": self.output.len(), "content_index": 0, "part": part});
        self.send("response.content_part.added", added, out);
    }

    fn show_summary(&mut self, out: &mut Vec<u8>) {
        if self.shown {
            return;
        }
        self.shown = true;
        let id = self.id("rs");
        self.added(&json!({"type": "reasoning", "id": id, "summary": []}), out);
        let part = json!({"type": "summary_text", "text": ""});
        let added = json!({"item_id": id, "output_index": self.output.len(), "summary_index": 0, "part": part});
        self.send("response.reasoning_summary_part.added", added, out);
    }

    fn message_done(&mut self, id: &str, part: &Value, out: &mut Vec<u8>) {
        let done = json!({"item_id": id, "output_index": self.output.len(), "content_index": 0, "part": part});
        self.send("response.content_part.done", done, out);
        let item = json!({"type": "message", "id": id, "status": "completed", "role": "assistant", "content": [part]});
        self.done(item, out);
    }

    fn added(&mut self, item: &Value, out: &mut Vec<u8>) {
        self.send("response.output_item.added", json!({"output_index": self.output.len(), "item": item}), out);
    }

    fn done(&mut self, item: Value, out: &mut Vec<u8>) {
        self.send("response.output_item.done", json!({"output_index": self.output.len(), "item": item}), out);
        self.output.push(item);
    }

    fn reasoning_item(&self, reasoning: &Reasoning, encrypted: Option<String>) -> Value {
        let summary = if reasoning.text.is_empty() {
            json!([])
        } else {
            json!([{"type": "summary_text", "text": reasoning.text}])
        };
        let mut item = json!({"type": "reasoning", "id": self.id("rs"), "summary": summary});
        if let Some(encrypted) = encrypted {
            item["encrypted_content"] = encrypted.into();
        }
        item
    }

    fn call_item(&self, call: &ToolCall, status: &str) -> Value {
        if call.custom || self.custom.contains(&call.name) {
            return json!({
                "type": "custom_tool_call", "id": self.id("ctc"), "status": status,
                "call_id": call.id, "name": call.name, "input": call.arguments,
            });
        }
        json!({
            "type": "function_call", "id": self.id("fc"), "status": status,
            "call_id": call.id, "name": call.name, "arguments": call.arguments,
        })
    }

    fn item_id(&self, block: &Block) -> String {
        self.id(match block {
            Block::Text { .. } | Block::Refusal { .. } => "msg",
            Block::Reasoning(_) => "rs",
            Block::ToolCall(call) if call.custom || self.custom.contains(&call.name) => "ctc",
            _ => "fc",
        })
    }

    /// The id of the item at the current output index.
    fn id(&self, kind: &str) -> String {
        let seed = self.envelope.as_ref().map(|envelope| envelope.seed.as_str()).unwrap_or_default();
        format!("{kind}_{seed}_{}", self.output.len())
    }

    /// A delta event; deltas are most of a stream, so they are written without a JSON tree.
    fn words(&mut self, name: &str, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        let (kind, place) = match name {
            "response.output_text.delta" => ("msg", ",\"content_index\":0,\"logprobs\":[]"),
            "response.refusal.delta" => ("msg", ",\"content_index\":0"),
            "response.reasoning_summary_text.delta" => ("rs", ",\"summary_index\":0"),
            "response.custom_tool_call_input.delta" => ("ctc", ""),
            _ => ("fc", ""),
        };
        let mut data = Vec::with_capacity(text.len() + 192);
        let head = format!(
            "{{\"type\":\"{name}\",\"sequence_number\":{},\"item_id\":\"{}\",\"output_index\":{}{place},\"delta\":",
            self.sequence,
            self.id(kind),
            self.output.len(),
        );
        data.extend_from_slice(head.as_bytes());
        string(text, &mut data);
        data.push(b'}');
        self.sequence += 1;
        self.wire.send(name, &data, out);
    }

    fn send(&mut self, name: &str, members: Value, out: &mut Vec<u8>) {
        let mut data = json!({"type": name, "sequence_number": self.sequence});
        self.sequence += 1;
        if let (Value::Object(data), Value::Object(members)) = (&mut data, members) {
            data.extend(members);
        }
        self.wire.send(name, data.to_string().as_bytes(), out);
    }
}

/// The text inside `{"input": "…"}`; anything else is the text itself.
fn unwrapped(arguments: &str) -> String {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(mut members)) => match members.remove("input") {
            Some(Value::String(text)) => text,
            _ => arguments.to_owned(),
        },
        _ => arguments.to_owned(),
    }
}

fn status(stop: &Stop) -> &'static str {
    match stop {
        Stop::MaxTokens | Stop::ContentFilter => "incomplete",
        _ => "completed",
    }
}

pub(crate) fn whole(spec: &RelaySpec, answer: &Answer) -> Vec<u8> {
    let mut machine = Responses::new(spec);
    let mut unsent = Vec::new();
    for event in answer.events() {
        machine.event(&event, &mut unsent);
        unsent.clear();
    }
    let mut response = machine.response(status(&machine.stop));
    response["status"] = status(&machine.stop).into();
    response.to_string().into_bytes()
}
