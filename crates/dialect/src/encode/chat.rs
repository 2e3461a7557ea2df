//! OpenAI Chat Completions chunks and bodies.
//! All text goes into one `content`, all thinking into one `reasoning_content`; signatures travel in `reasoning_details`.

use serde_json::{Map, Value, json};

use super::{Envelope, Wire, chat_usage, string};
use crate::Dialect;
use crate::ir::{Answer, Block, Delta, Event, Head, Reasoning, Stop, ToolCall, Usage};
use crate::relay::RelaySpec;

#[derive(Debug)]
pub(crate) struct Chat {
    spec: RelaySpec,
    wire: Wire,
    started: bool,
    /// Everything of a chunk before its `choices`.
    prefix: Vec<u8>,
    open: Option<Block>,
    /// The open text block has sent nothing yet.
    begins: bool,
    joined: Joined,
    calls: usize,
    usage: Usage,
    stop: Stop,
}

/// Whether the next text needs a blank line before it: blocks that were apart must not run together.
#[derive(Debug, Default)]
struct Joined {
    text: bool,
    text_gap: bool,
    reasoning: bool,
}

impl Joined {
    fn text(&mut self, begins: bool) -> &'static str {
        let gap = begins && self.text && self.text_gap;
        self.text = true;
        self.text_gap = false;
        if gap { "\n\n" } else { "" }
    }

    fn reasoning(&mut self, begins: bool) -> &'static str {
        self.text_gap = true;
        let gap = begins && self.reasoning;
        self.reasoning |= begins;
        if gap { "\n\n" } else { "" }
    }

    fn other(&mut self) {
        self.text_gap = true;
    }
}

impl Chat {
    pub(crate) fn new(spec: &RelaySpec) -> Self {
        Self {
            spec: spec.clone(),
            wire: Wire::new(spec),
            started: false,
            prefix: Vec::new(),
            open: None,
            begins: false,
            joined: Joined::default(),
            calls: 0,
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
        self.stop.settle(self.calls > 0);
        let last: &[u8] = if self.joined.text || self.calls > 0 { b"{}" } else { b"{\"content\":\"\"}" };
        let reason = finish_reason(&self.stop);
        self.chunk(|out| out.extend_from_slice(last), Some(reason), out);
        if self.spec.client_wants_usage && self.usage.is_known() {
            let mut data = self.prefix.clone();
            data.extend_from_slice(b"\"choices\":[],\"usage\":");
            super::value(&chat_usage(&self.usage), &mut data);
            data.push(b'}');
            self.wire.send("", &data, out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn start(&mut self, head: &Head, out: &mut Vec<u8>) {
        if self.started {
            return;
        }
        self.started = true;
        let envelope = Envelope::new(&self.spec, head);
        let prefix = json!({
            "id": format!("chatcmpl-{}", envelope.seed),
            "object": "chat.completion.chunk",
            "created": envelope.created,
            "model": envelope.model,
        });
        self.prefix = prefix.to_string().into_bytes();
        self.prefix.pop();
        self.prefix.push(b',');
        self.chunk(|out| out.extend_from_slice(b"{\"role\":\"assistant\",\"content\":null}"), None, out);
    }

    fn chunk(&self, delta: impl FnOnce(&mut Vec<u8>), finish: Option<&str>, out: &mut Vec<u8>) {
        let mut data = self.prefix.clone();
        data.extend_from_slice(b"\"choices\":[{\"index\":0,\"delta\":");
        delta(&mut data);
        data.extend_from_slice(b",\"logprobs\":null,\"finish_reason\":");
        match finish {
            Some(reason) => string(reason, &mut data),
            None => data.extend_from_slice(b"null"),
        }
        data.extend_from_slice(b"}]}");
        self.wire.send("", &data, out);
    }

    fn open(&mut self, block: &Block, out: &mut Vec<u8>) {
        self.open = Some(match block {
            Block::Text { text, .. } => {
                self.begins = text.is_empty();
                if !text.is_empty() {
                    let gap = self.joined.text(true);
                    self.words("content", gap, text, out);
                }
                Block::text("")
            }
            Block::Refusal { text } => {
                self.words("refusal", "", text, out);
                Block::Refusal { text: String::new() }
            }
            Block::Reasoning(reasoning) => {
                let gap = self.joined.reasoning(!reasoning.text.is_empty());
                self.words("reasoning_content", gap, &reasoning.text, out);
                block.clone()
            }
            Block::ToolCall(call) => {
                self.joined.other();
                let index = self.calls;
                self.calls += 1;
                let mut opened = tool_call(&ToolCall { arguments: String::new(), ..call.clone() });
                opened.insert("index".to_owned(), index.into());
                let delta = json!({"tool_calls": [opened]});
                self.chunk(|out| super::value(&delta, out), None, out);
                self.arguments(call.custom, &call.arguments, out);
                block.clone()
            }
            Block::Opaque { .. } => {
                self.joined.other();
                block.clone()
            }
        });
    }

    fn delta(&mut self, delta: &Delta, out: &mut Vec<u8>) {
        let Some(mut open) = self.open.take() else { return };
        if let Delta::Text(text) = delta {
            match &open {
                Block::Text { .. } => {
                    let gap = self.joined.text(std::mem::take(&mut self.begins));
                    self.words("content", gap, text, out);
                }
                Block::Refusal { .. } => self.words("refusal", "", text, out),
                Block::Reasoning(reasoning) => {
                    let gap = if reasoning.text.is_empty() { self.joined.reasoning(true) } else { "" };
                    self.words("reasoning_content", gap, text, out);
                }
                Block::ToolCall(call) => self.arguments(call.custom, text, out),
                Block::Opaque { .. } => {}
            }
        }
        if !matches!(open, Block::Text { .. } | Block::Refusal { .. }) {
            open.apply(delta.clone());
        }
        self.open = Some(open);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        match self.open.take() {
            Some(Block::Reasoning(reasoning)) => {
                if let Some(detail) = detail(&reasoning) {
                    let delta = json!({"reasoning_details": [detail]});
                    self.chunk(|out| super::value(&delta, out), None, out);
                }
            }
            Some(Block::ToolCall(call)) if call.arguments.is_empty() && !call.custom => {
                self.arguments(false, "{}", out);
            }
            _ => {}
        }
    }

    fn words(&self, field: &str, gap: &str, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        let write = |out: &mut Vec<u8>| {
            out.push(b'{');
            string(field, out);
            out.push(b':');
            if gap.is_empty() {
                string(text, out);
            } else {
                string(&format!("{gap}{text}"), out);
            }
            out.push(b'}');
        };
        self.chunk(write, None, out);
    }

    fn arguments(&self, custom: bool, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        let index = self.calls.saturating_sub(1);
        let field = if custom { "custom\":{\"input" } else { "function\":{\"arguments" };
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(format!("{{\"tool_calls\":[{{\"index\":{index},\"{field}\":").as_bytes());
            string(text, out);
            out.extend_from_slice(b"}}]}");
        };
        self.chunk(write, None, out);
    }
}

pub(crate) fn whole(spec: &RelaySpec, answer: &Answer) -> Vec<u8> {
    let envelope = Envelope::new(spec, &answer.head());
    let mut joined = Joined::default();
    let (mut content, mut reasoning, mut refusal) = (String::new(), String::new(), String::new());
    let (mut details, mut calls) = (Vec::new(), Vec::new());
    for block in &answer.blocks {
        match block {
            Block::Text { text, .. } => {
                content.push_str(joined.text(true));
                content.push_str(text);
            }
            Block::Refusal { text } => refusal.push_str(text),
            Block::Reasoning(one) => {
                reasoning.push_str(joined.reasoning(!one.text.is_empty()));
                reasoning.push_str(&one.text);
                details.extend(detail(one));
            }
            Block::ToolCall(call) => {
                joined.other();
                let mut call = call.clone();
                if call.arguments.is_empty() && !call.custom {
                    call.arguments.push_str("{}");
                }
                calls.push(Value::Object(tool_call(&call)));
            }
            Block::Opaque { .. } => joined.other(),
        }
    }
    let mut stop = answer.stop.clone();
    stop.settle(!calls.is_empty());
    let mut message = json!({
        "role": "assistant",
        "content": if content.is_empty() && !calls.is_empty() { Value::Null } else { content.into() },
        "refusal": if refusal.is_empty() { Value::Null } else { refusal.into() },
    });
    if !reasoning.is_empty() {
        message["reasoning_content"] = reasoning.into();
    }
    if !details.is_empty() {
        message["reasoning_details"] = details.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let mut body = json!({
        "id": format!("chatcmpl-{}", envelope.seed),
        "object": "chat.completion",
        "created": envelope.created,
        "model": envelope.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(&stop)}],
    });
    if answer.usage.is_known() {
        body["usage"] = chat_usage(&answer.usage);
    }
    body.to_string().into_bytes()
}

/// A tool call as Chat clients and servers write it.
pub(crate) fn tool_call(call: &ToolCall) -> Map<String, Value> {
    let mut all = Map::new();
    all.insert("id".to_owned(), call.id.as_str().into());
    if call.custom {
        all.insert("type".to_owned(), "custom".into());
        all.insert("custom".to_owned(), json!({"name": call.name, "input": call.arguments}));
    } else {
        all.insert("type".to_owned(), "function".into());
        all.insert("function".to_owned(), json!({"name": call.name, "arguments": call.arguments}));
    }
    if let Some(Value::Object(extra)) = &call.extra {
        all.extend(extra.clone());
    }
    all
}

/// Signed or encrypted thinking in the form OpenRouter made common.
pub(crate) fn detail(reasoning: &Reasoning) -> Option<Value> {
    if let Some(data) = &reasoning.encrypted {
        let mut one = json!({"type": "reasoning.encrypted", "data": data});
        if let Some(id) = &reasoning.id {
            one["id"] = id.as_str().into();
            one["format"] = "openai-responses-v1".into();
        }
        return Some(one);
    }
    let signature = reasoning.signature.as_ref()?;
    Some(json!({
        "type": "reasoning.text",
        "text": reasoning.text,
        "signature": signature,
        "format": Dialect::Messages.as_str(),
    }))
}

fn finish_reason(stop: &Stop) -> &'static str {
    match stop {
        Stop::EndTurn | Stop::StopSequence(_) | Stop::Pause | Stop::Other(_) => "stop",
        Stop::MaxTokens => "length",
        Stop::ToolUse => "tool_calls",
        Stop::Refusal | Stop::ContentFilter => "content_filter",
    }
}
