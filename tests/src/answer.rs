//! What a provider answers, once as plain facts and then as each API's whole body or event stream, in the form that the
//! real services use.

use serde_json::{Value, json};

/// The three APIs that agents and providers speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

impl Api {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    /// Where it is served.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
        }
    }

    /// The value of `llm.dialect`.
    pub fn config(self) -> &'static str {
        match self {
            Self::Chat => "openai-chat",
            Self::Responses => "openai-responses",
            Self::Messages => "anthropic-messages",
        }
    }

    /// The API that a request target belongs to.
    pub fn of(target: &str) -> Option<Self> {
        let path = target.split('?').next().unwrap_or_default();
        Self::ALL.into_iter().find(|api| path.ends_with(&api.path()[3..]))
    }
}

/// A call of one of the request's tools.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Call id.
    pub id: String,
    /// Tool name.
    pub name: String,
    /// Arguments as JSON text.
    pub arguments: String,
}

/// A provider's answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Text in the pieces in which it streams.
    pub text: Vec<String>,
    /// Reasoning text and, for Messages, its signature.
    pub reasoning: Option<(String, String)>,
    /// Tool calls, streamed in turn after the text.
    pub tools: Vec<Tool>,
    /// Input tokens, all of them.
    pub input: u64,
    /// Part of the input that came from the provider's cache.
    pub cached: u64,
    /// Output tokens.
    pub output: u64,
}

impl Answer {
    /// Text only, streamed word by word.
    pub fn text(text: &str) -> Self {
        Self {
            text: text.split_inclusive(' ').map(str::to_owned).collect(),
            reasoning: None,
            tools: Vec::new(),
            input: 50,
            cached: 20,
            output: 7,
        }
    }

    /// Nothing but tool calls, given as (name, JSON arguments).
    pub fn calls(calls: &[(&str, &str)]) -> Self {
        let mut answer = Self::text("");
        answer.text.clear();
        for (i, (name, arguments)) in calls.iter().enumerate() {
            let id = format!("call_{name}_{i}");
            answer.tools.push(Tool { id, name: (*name).to_owned(), arguments: (*arguments).to_owned() });
        }
        answer
    }

    /// With reasoning before the text.
    pub fn thinking(mut self, text: &str, signature: &str) -> Self {
        self.reasoning = Some((text.to_owned(), signature.to_owned()));
        self
    }

    /// The text in one piece.
    pub fn full_text(&self) -> String {
        self.text.concat()
    }

    /// The whole body.
    pub fn whole(&self, api: Api, model: &str) -> Value {
        match api {
            Api::Chat => self.chat(model),
            Api::Responses => self.responses(model, "completed"),
            Api::Messages => self.messages(model),
        }
    }

    /// The events of a stream, each as it stands on the wire. `usage` matters for Chat only, which sends it on request.
    pub fn events(&self, api: Api, model: &str, usage: bool) -> Vec<String> {
        match api {
            Api::Chat => self.chat_events(model, usage),
            Api::Responses => self.responses_events(model),
            Api::Messages => self.messages_events(model),
        }
    }

    fn chat_usage(&self) -> Value {
        json!({"prompt_tokens": self.input, "completion_tokens": self.output, "total_tokens": self.input + self.output,
               "prompt_tokens_details": {"cached_tokens": self.cached}})
    }

    fn chat(&self, model: &str) -> Value {
        let mut message = json!({"role": "assistant", "content": self.full_text(), "refusal": null, "annotations": []});
        if self.text.is_empty() {
            message["content"] = Value::Null;
        }
        if let Some((text, _)) = &self.reasoning {
            message["reasoning_content"] = json!(text);
        }
        if !self.tools.is_empty() {
            message["tool_calls"] = self
                .tools
                .iter()
                .map(
                    |t| json!({"id": t.id, "type": "function", "function": {"name": t.name, "arguments": t.arguments}}),
                )
                .collect();
        }
        let finish = if self.tools.is_empty() { "stop" } else { "tool_calls" };
        json!({"id": "chatcmpl-fake1", "object": "chat.completion", "created": 1_790_000_000, "model": model,
               "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
               "usage": self.chat_usage(), "service_tier": "default", "system_fingerprint": "fp_fake"})
    }

    fn chat_events(&self, model: &str, usage: bool) -> Vec<String> {
        let event = |choices: Value| {
            let mut chunk = json!({"id": "chatcmpl-fake1", "object": "chat.completion.chunk", "created": 1_790_000_000,
                                   "model": model, "system_fingerprint": "fp_fake", "choices": choices});
            if usage {
                chunk["usage"] = Value::Null;
            }
            chunk
        };
        let delta =
            |delta: Value| event(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]));
        let mut out = vec![delta(json!({"role": "assistant", "content": "", "refusal": null}))];
        if let Some((text, _)) = &self.reasoning {
            out.push(delta(json!({"reasoning_content": text})));
        }
        out.extend(self.text.iter().map(|t| delta(json!({"content": t}))));
        for (i, tool) in self.tools.iter().enumerate() {
            out.push(delta(json!({"tool_calls": [{"index": i, "id": tool.id, "type": "function",
                                                  "function": {"name": tool.name, "arguments": ""}}]})));
            for part in halves(&tool.arguments) {
                out.push(delta(json!({"tool_calls": [{"index": i, "function": {"arguments": part}}]})));
            }
        }
        let finish = if self.tools.is_empty() { "stop" } else { "tool_calls" };
        out.push(event(json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": finish}])));
        if usage {
            let mut last = event(json!([]));
            last["usage"] = self.chat_usage();
            out.push(last);
        }
        let mut out: Vec<String> = out.iter().map(|e| format!("data: {e}\n\n")).collect();
        out.push("data: [DONE]\n\n".to_owned());
        out
    }

    fn messages_usage(&self) -> Value {
        json!({"input_tokens": self.input - self.cached, "cache_creation_input_tokens": 0,
               "cache_read_input_tokens": self.cached, "output_tokens": self.output,
               "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}})
    }

    fn messages_blocks(&self) -> Vec<Value> {
        let mut blocks = Vec::new();
        if let Some((text, signature)) = &self.reasoning {
            blocks.push(json!({"type": "thinking", "thinking": text, "signature": signature}));
        }
        if !self.text.is_empty() {
            blocks.push(json!({"type": "text", "text": self.full_text()}));
        }
        for tool in &self.tools {
            let input: Value = serde_json::from_str(&tool.arguments).expect("tool arguments are JSON");
            blocks.push(json!({"type": "tool_use", "id": tool.id, "name": tool.name, "input": input}));
        }
        blocks
    }

    fn messages(&self, model: &str) -> Value {
        let stop = if self.tools.is_empty() { "end_turn" } else { "tool_use" };
        json!({"id": "msg_fake1", "type": "message", "role": "assistant", "model": model,
               "content": self.messages_blocks(), "stop_reason": stop, "stop_sequence": null,
               "usage": self.messages_usage()})
    }

    fn messages_events(&self, model: &str) -> Vec<String> {
        let mut first = self.messages(model);
        first["content"] = json!([]);
        first["stop_reason"] = Value::Null;
        first["usage"]["output_tokens"] = json!(1);
        let mut out = vec![json!({"type": "message_start", "message": first}), json!({"type": "ping"})];
        let mut index = 0;
        let mut block = |start: Value, deltas: Vec<Value>| {
            out.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
            for delta in deltas {
                out.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
            }
            out.push(json!({"type": "content_block_stop", "index": index}));
            index += 1;
        };
        if let Some((text, signature)) = &self.reasoning {
            let deltas = vec![
                json!({"type": "thinking_delta", "thinking": text}),
                json!({"type": "signature_delta", "signature": signature}),
            ];
            block(json!({"type": "thinking", "thinking": "", "signature": ""}), deltas);
        }
        if !self.text.is_empty() {
            let deltas = self.text.iter().map(|t| json!({"type": "text_delta", "text": t})).collect();
            block(json!({"type": "text", "text": ""}), deltas);
        }
        for tool in &self.tools {
            let parts = halves(&tool.arguments);
            let deltas = parts.iter().map(|p| json!({"type": "input_json_delta", "partial_json": p})).collect();
            block(json!({"type": "tool_use", "id": tool.id, "name": tool.name, "input": {}}), deltas);
        }
        let stop = if self.tools.is_empty() { "end_turn" } else { "tool_use" };
        out.push(json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
                        "usage": self.messages_usage()}));
        out.push(json!({"type": "message_stop"}));
        named(&out)
    }

    fn responses_output(&self) -> Vec<Value> {
        let mut output = Vec::new();
        if let Some((text, signature)) = &self.reasoning {
            output.push(json!({"id": "rs_fake1", "type": "reasoning", "encrypted_content": signature,
                               "summary": [{"type": "summary_text", "text": text}]}));
        }
        if !self.text.is_empty() {
            let part = json!({"type": "output_text", "text": self.full_text(), "annotations": [], "logprobs": []});
            output.push(json!({"id": "msg_fake1", "type": "message", "status": "completed", "role": "assistant",
                               "content": [part]}));
        }
        for tool in &self.tools {
            output.push(json!({"id": format!("fc_{}", tool.id), "type": "function_call", "status": "completed",
                               "call_id": tool.id, "name": tool.name, "arguments": tool.arguments}));
        }
        output
    }

    fn responses(&self, model: &str, status: &str) -> Value {
        let done = status == "completed";
        let usage = json!({"input_tokens": self.input, "input_tokens_details": {"cached_tokens": self.cached},
                           "output_tokens": self.output, "output_tokens_details": {"reasoning_tokens": 0},
                           "total_tokens": self.input + self.output});
        json!({"id": "resp_fake1", "object": "response", "created_at": 1_790_000_000, "status": status, "error": null,
               "incomplete_details": null, "instructions": null, "max_output_tokens": null, "model": model,
               "output": if done { self.responses_output() } else { Vec::new() }, "parallel_tool_calls": true,
               "previous_response_id": null, "reasoning": {"effort": null, "summary": null}, "store": false,
               "temperature": 1.0, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [],
               "top_p": 1.0, "truncation": "disabled", "usage": if done { usage } else { Value::Null }, "user": null,
               "metadata": {}})
    }

    fn responses_events(&self, model: &str) -> Vec<String> {
        let mut out = vec![
            json!({"type": "response.created", "response": self.responses(model, "in_progress")}),
            json!({"type": "response.in_progress", "response": self.responses(model, "in_progress")}),
        ];
        for (index, item) in self.responses_output().into_iter().enumerate() {
            let at = |mut event: Value| {
                event["item_id"] = item["id"].clone();
                event["output_index"] = json!(index);
                event
            };
            let mut empty = item.clone();
            if item["type"] != "reasoning" {
                empty["status"] = json!("in_progress");
            }
            match item["type"].as_str() {
                Some("message") => empty["content"] = json!([]),
                Some("function_call") => empty["arguments"] = json!(""),
                _ => empty["summary"] = json!([]),
            }
            out.push(json!({"type": "response.output_item.added", "output_index": index, "item": empty}));
            match item["type"].as_str() {
                Some("message") => {
                    let part = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
                    out.push(at(json!({"type": "response.content_part.added", "content_index": 0, "part": part})));
                    for text in &self.text {
                        out.push(at(json!({"type": "response.output_text.delta", "content_index": 0, "delta": text,
                                           "logprobs": []})));
                    }
                    out.push(at(json!({"type": "response.output_text.done", "content_index": 0,
                                       "text": self.full_text(), "logprobs": []})));
                    out.push(at(json!({"type": "response.content_part.done", "content_index": 0,
                                       "part": item["content"][0]})));
                }
                Some("function_call") => {
                    let arguments = item["arguments"].as_str().unwrap_or_default();
                    for part in halves(arguments) {
                        out.push(at(json!({"type": "response.function_call_arguments.delta", "delta": part})));
                    }
                    out.push(at(json!({"type": "response.function_call_arguments.done", "arguments": arguments,
                                       "name": item["name"]})));
                }
                _ => {
                    let part = json!({"type": "summary_text", "text": ""});
                    out.push(at(json!({"type": "response.reasoning_summary_part.added", "summary_index": 0,
                                       "part": part})));
                    let text = item["summary"][0]["text"].clone();
                    out.push(at(json!({"type": "response.reasoning_summary_text.delta", "summary_index": 0,
                                       "delta": text})));
                    out.push(at(json!({"type": "response.reasoning_summary_text.done", "summary_index": 0,
                                       "text": text})));
                    out.push(at(json!({"type": "response.reasoning_summary_part.done", "summary_index": 0,
                                       "part": item["summary"][0]})));
                }
            }
            out.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
        }
        out.push(json!({"type": "response.completed", "response": self.responses(model, "completed")}));
        for (n, event) in out.iter_mut().enumerate() {
            event["sequence_number"] = json!(n);
        }
        named(&out)
    }
}

fn named(events: &[Value]) -> Vec<String> {
    events.iter().map(|e| format!("event: {}\ndata: {e}\n\n", e["type"].as_str().unwrap_or_default())).collect()
}

/// Two parts that meet in the middle, cut at a character.
fn halves(text: &str) -> Vec<&str> {
    let mut middle = text.len() / 2;
    while !text.is_char_boundary(middle) {
        middle += 1;
    }
    let (a, b) = text.split_at(middle);
    vec![a, b]
}
