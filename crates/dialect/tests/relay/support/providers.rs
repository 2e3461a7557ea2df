//! Provider answers from samples, whole and streamed, in each dialect.

use metaclaw_dialect::Dialect;
use serde_json::{Value, json};

use super::sse;

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text(Vec<String>),
    Reasoning { parts: Vec<String>, signature: Option<String> },
    Tool { id: String, name: String, parts: Vec<String> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    End,
    Length,
    Tools,
}

#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) why: Why,
    pub(crate) fresh: u64,
    pub(crate) cached: u64,
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
}

impl Sample {
    pub(crate) fn new(pieces: Vec<Piece>, why: Why) -> Self {
        Self { pieces, why, fresh: 20, cached: 100, output: 30, reasoning: 7 }
    }

    pub(crate) fn whole(&self, dialect: Dialect) -> Value {
        match dialect {
            Dialect::Chat => self.chat_whole(),
            Dialect::Messages => self.messages_whole(),
            Dialect::Responses => self.responses_whole("completed"),
        }
    }

    pub(crate) fn stream(&self, dialect: Dialect) -> String {
        match dialect {
            Dialect::Chat => self.chat_stream(),
            Dialect::Messages => self.messages_stream(),
            Dialect::Responses => self.responses_stream(),
        }
    }

    /// Chat has one reasoning text and one content; what else a sample has is left out there.
    fn chat_pieces(&self) -> Vec<&Piece> {
        let reasoning = self.pieces.iter().find(|piece| matches!(piece, Piece::Reasoning { .. }));
        let text = self.pieces.iter().find(|piece| matches!(piece, Piece::Text(_)));
        let tools = self.pieces.iter().filter(|piece| matches!(piece, Piece::Tool { .. }));
        reasoning.into_iter().chain(text).chain(tools).collect()
    }

    fn chat_usage(&self) -> Value {
        json!({
            "prompt_tokens": self.fresh + self.cached, "completion_tokens": self.output,
            "total_tokens": self.fresh + self.cached + self.output,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
        })
    }

    fn chat_reason(&self) -> &'static str {
        match self.why {
            Why::End => "stop",
            Why::Length => "length",
            Why::Tools => "tool_calls",
        }
    }

    fn chat_whole(&self) -> Value {
        let mut message = json!({"role": "assistant", "content": null});
        for piece in self.chat_pieces() {
            match piece {
                Piece::Text(parts) => message["content"] = parts.concat().into(),
                Piece::Reasoning { parts, signature } => {
                    message["reasoning_content"] = parts.concat().into();
                    if let Some(signature) = signature {
                        message["reasoning_details"] =
                            json!([{"type": "reasoning.text", "text": parts.concat(), "signature": signature}]);
                    }
                }
                Piece::Tool { id, name, parts } => {
                    let call =
                        json!({"id": id, "type": "function", "function": {"name": name, "arguments": parts.concat()}});
                    if message.get("tool_calls").is_none() {
                        message["tool_calls"] = json!([]);
                    }
                    message["tool_calls"].as_array_mut().unwrap().push(call);
                }
            }
        }
        json!({
            "id": "chatcmpl-abc", "object": "chat.completion", "created": 1_690_000_000, "model": "m-1",
            "choices": [{"index": 0, "message": message, "finish_reason": self.chat_reason()}],
            "usage": self.chat_usage(),
        })
    }

    fn chat_stream(&self) -> String {
        let mut out = String::new();
        let mut chunk =
            |choices: Value, usage: Value| {
                out.push_str(&sse("", &json!({
                "id": "chatcmpl-abc", "object": "chat.completion.chunk", "created": 1_690_000_000, "model": "m-1",
                "choices": choices, "usage": usage,
            }).to_string()));
            };
        let mut delta = |delta: Value, reason: Value| {
            chunk(json!([{"index": 0, "delta": delta, "finish_reason": reason}]), Value::Null);
        };
        delta(json!({"role": "assistant", "content": ""}), Value::Null);
        let mut index = 0;
        for piece in self.chat_pieces() {
            match piece {
                Piece::Text(parts) => parts.iter().for_each(|part| delta(json!({"content": part}), Value::Null)),
                Piece::Reasoning { parts, signature } => {
                    parts.iter().for_each(|part| delta(json!({"reasoning_content": part}), Value::Null));
                    if let Some(signature) = signature {
                        let details = json!([{"type": "reasoning.text", "signature": signature}]);
                        delta(json!({"reasoning_details": details}), Value::Null);
                    }
                }
                Piece::Tool { id, name, parts } => {
                    let call = json!([{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]);
                    delta(json!({"tool_calls": call}), Value::Null);
                    for part in parts {
                        let call = json!([{"index": index, "function": {"arguments": part}}]);
                        delta(json!({"tool_calls": call}), Value::Null);
                    }
                    index += 1;
                }
            }
        }
        delta(json!({}), self.chat_reason().into());
        chunk(json!([]), self.chat_usage());
        out + "data: [DONE]\n\n"
    }

    fn messages_usage(&self, output: u64) -> Value {
        json!({
            "input_tokens": self.fresh, "cache_creation_input_tokens": 0, "cache_read_input_tokens": self.cached,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": output, "service_tier": "standard",
        })
    }

    fn messages_reason(&self) -> &'static str {
        match self.why {
            Why::End => "end_turn",
            Why::Length => "max_tokens",
            Why::Tools => "tool_use",
        }
    }

    fn messages_whole(&self) -> Value {
        let content: Vec<Value> = self.pieces.iter().map(|piece| match piece {
            Piece::Text(parts) => json!({"type": "text", "text": parts.concat()}),
            Piece::Reasoning { parts, signature } => {
                json!({"type": "thinking", "thinking": parts.concat(), "signature": signature.clone().unwrap_or_default()})
            }
            Piece::Tool { id, name, parts } => {
                let input: Value = serde_json::from_str(&parts.concat()).unwrap();
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }
        }).collect();
        json!({
            "id": "msg_abc", "type": "message", "role": "assistant", "model": "m-1", "content": content,
            "stop_reason": self.messages_reason(), "stop_sequence": null, "usage": self.messages_usage(self.output),
        })
    }

    fn messages_stream(&self) -> String {
        let mut out = String::new();
        let mut event = |data: Value| out.push_str(&sse(data["type"].as_str().unwrap(), &data.to_string()));
        event(json!({"type": "message_start", "message": {
            "id": "msg_abc", "type": "message", "role": "assistant", "model": "m-1", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": self.messages_usage(1),
        }}));
        event(json!({"type": "ping"}));
        for (index, piece) in self.pieces.iter().enumerate() {
            let mut deltas = Vec::new();
            let block = match piece {
                Piece::Text(parts) => {
                    deltas.extend(parts.iter().map(|part| json!({"type": "text_delta", "text": part})));
                    json!({"type": "text", "text": ""})
                }
                Piece::Reasoning { parts, signature } => {
                    deltas.extend(parts.iter().map(|part| json!({"type": "thinking_delta", "thinking": part})));
                    deltas.extend(signature.iter().map(|one| json!({"type": "signature_delta", "signature": one})));
                    json!({"type": "thinking", "thinking": "", "signature": ""})
                }
                Piece::Tool { id, name, parts } => {
                    deltas.push(json!({"type": "input_json_delta", "partial_json": ""}));
                    deltas.extend(parts.iter().map(|part| json!({"type": "input_json_delta", "partial_json": part})));
                    json!({"type": "tool_use", "id": id, "name": name, "input": {}})
                }
            };
            event(json!({"type": "content_block_start", "index": index, "content_block": block}));
            for delta in deltas {
                event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
            }
            event(json!({"type": "content_block_stop", "index": index}));
        }
        event(json!({
            "type": "message_delta", "delta": {"stop_reason": self.messages_reason(), "stop_sequence": null},
            "usage": {"output_tokens": self.output},
        }));
        event(json!({"type": "message_stop"}));
        out
    }

    fn responses_items(&self) -> Vec<Value> {
        self.pieces
            .iter()
            .enumerate()
            .map(|(index, piece)| match piece {
                Piece::Text(parts) => json!({
                    "type": "message", "id": format!("msg_{index}"), "status": "completed", "role": "assistant",
                    "content": [{"type": "output_text", "text": parts.concat(), "annotations": [], "logprobs": []}],
                }),
                Piece::Reasoning { parts, signature } => json!({
                    "type": "reasoning", "id": format!("rs_{index}"),
                    "summary": [{"type": "summary_text", "text": parts.concat()}], "encrypted_content": signature,
                }),
                Piece::Tool { id, name, parts } => json!({
                    "type": "function_call", "id": format!("fc_{index}"), "status": "completed", "call_id": id,
                    "name": name, "arguments": parts.concat(),
                }),
            })
            .collect()
    }

    fn responses_whole(&self, status: &str) -> Value {
        let done = status == "completed";
        let cut = done && self.why == Why::Length;
        json!({
            "id": "resp_abc", "object": "response", "created_at": 1_690_000_000, "model": "m-1",
            "status": if cut { "incomplete" } else { status },
            "incomplete_details": cut.then(|| json!({"reason": "max_output_tokens"})),
            "output": if done { self.responses_items() } else { Vec::new() },
            "usage": done.then(|| json!({
                "input_tokens": self.fresh + self.cached, "input_tokens_details": {"cached_tokens": self.cached},
                "output_tokens": self.output, "output_tokens_details": {"reasoning_tokens": self.reasoning},
                "total_tokens": self.fresh + self.cached + self.output,
            })),
        })
    }

    fn responses_stream(&self) -> String {
        let mut out = String::new();
        let mut number = 0;
        let mut event = |mut data: Value| {
            data["sequence_number"] = number.into();
            number += 1;
            out.push_str(&sse(data["type"].as_str().unwrap(), &data.to_string()));
        };
        event(json!({"type": "response.created", "response": self.responses_whole("in_progress")}));
        event(json!({"type": "response.in_progress", "response": self.responses_whole("in_progress")}));
        for ((index, piece), item) in self.pieces.iter().enumerate().zip(self.responses_items()) {
            let id = item["id"].clone();
            let mut begun = item.clone();
            match piece {
                Piece::Text(parts) => {
                    begun["content"] = json!([]);
                    event(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
                    let empty = json!({"type": "output_text", "text": "", "annotations": []});
                    event(
                        json!({"type": "response.content_part.added", "output_index": index, "item_id": id, "content_index": 0, "part": empty}),
                    );
                    for part in parts {
                        event(
                            json!({"type": "response.output_text.delta", "output_index": index, "item_id": id, "content_index": 0, "delta": part}),
                        );
                    }
                    event(
                        json!({"type": "response.output_text.done", "output_index": index, "item_id": id, "content_index": 0, "text": parts.concat()}),
                    );
                    event(
                        json!({"type": "response.content_part.done", "output_index": index, "item_id": id, "content_index": 0, "part": item["content"][0]}),
                    );
                }
                Piece::Reasoning { parts, .. } => {
                    begun["summary"] = json!([]);
                    begun["encrypted_content"] = Value::Null;
                    event(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
                    event(
                        json!({"type": "response.reasoning_summary_part.added", "output_index": index, "item_id": id, "summary_index": 0, "part": {"type": "summary_text", "text": ""}}),
                    );
                    for part in parts {
                        event(
                            json!({"type": "response.reasoning_summary_text.delta", "output_index": index, "item_id": id, "summary_index": 0, "delta": part}),
                        );
                    }
                    event(
                        json!({"type": "response.reasoning_summary_text.done", "output_index": index, "item_id": id, "summary_index": 0, "text": parts.concat()}),
                    );
                }
                Piece::Tool { parts, .. } => {
                    begun["arguments"] = "".into();
                    event(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
                    for part in parts {
                        event(
                            json!({"type": "response.function_call_arguments.delta", "output_index": index, "item_id": id, "delta": part}),
                        );
                    }
                    event(
                        json!({"type": "response.function_call_arguments.done", "output_index": index, "item_id": id, "arguments": parts.concat()}),
                    );
                }
            }
            event(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
        }
        let kind = if self.why == Why::Length { "response.incomplete" } else { "response.completed" };
        event(json!({"type": kind, "response": self.responses_whole("completed")}));
        out
    }
}
