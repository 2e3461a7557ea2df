//! What the model said, as Chat Completions writes it: chunk by chunk, or whole.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value, json};

use crate::say::Said;

/// How likely a token was.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Likelihood {
    pub(crate) text: Vec<u8>,
    pub(crate) logprob: f32,
    pub(crate) others: Vec<(Vec<u8>, f32)>,
}

/// Why an answer is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Stop,
    /// This stop sequence came.
    Sequence(String),
    Length,
}

/// The figures of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) prompt: usize,
    /// Of those, known from the answer before.
    pub(crate) cached: usize,
    pub(crate) said: usize,
    pub(crate) queued_ms: f64,
    pub(crate) prompt_ms: f64,
    pub(crate) said_ms: f64,
}

/// Writes one answer.
#[derive(Debug)]
pub(crate) struct Teller {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) created: i64,
    pub(crate) stream: bool,
    pub(crate) usage: bool,
    pub(crate) logprobs: bool,
    begun: bool,
    calls: Vec<Value>,
    text: String,
    thoughts: String,
    likelihoods: Vec<Value>,
    /// The stop sequence that ended the answer.
    sequence: Option<String>,
}

impl Teller {
    pub(crate) fn new(id: String, model: String, created: i64) -> Self {
        Self {
            id,
            model,
            created,
            stream: false,
            usage: false,
            logprobs: false,
            begun: false,
            calls: Vec::new(),
            text: String::new(),
            thoughts: String::new(),
            likelihoods: Vec::new(),
            sequence: None,
        }
    }

    /// Takes what was said; returns what can be sent of it.
    pub(crate) fn say(&mut self, said: Vec<Said>, likelihoods: &[Likelihood]) -> Bytes {
        self.likelihoods.extend(likelihoods.iter().map(likelihood));
        let mut out = BytesMut::new();
        if self.stream && !self.begun {
            self.begun = true;
            self.chunk(&mut out, &json!({"role": "assistant", "content": ""}), None);
        }
        for said in said {
            let delta = match said {
                Said::Text(text) if self.stream => json!({"content": text}),
                Said::Thought(text) if self.stream => json!({"reasoning_content": text}),
                Said::Text(text) => {
                    self.text.push_str(&text);
                    continue;
                }
                Said::Thought(text) => {
                    self.thoughts.push_str(&text);
                    continue;
                }
                Said::Call(name, arguments) => {
                    let id = format!("call_{}_{}", self.id.trim_start_matches("chatcmpl-"), self.calls.len());
                    let call =
                        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
                    let mut told = json!({"index": self.calls.len()});
                    if let (Value::Object(told), Value::Object(call)) = (&mut told, &call) {
                        told.extend(call.clone());
                    }
                    self.calls.push(call);
                    if !self.stream {
                        continue;
                    }
                    json!({"tool_calls": [told]})
                }
            };
            self.chunk(&mut out, &delta, None);
        }
        out.freeze()
    }

    /// The rest of the answer.
    pub(crate) fn end(&mut self, end: End, figures: &Figures) -> Bytes {
        let reason = match end {
            End::Length => "length",
            End::Stop | End::Sequence(_) if !self.calls.is_empty() => "tool_calls",
            End::Stop => "stop",
            End::Sequence(sequence) => {
                self.sequence = Some(sequence);
                "stop"
            }
        };
        let mut out = BytesMut::new();
        if self.stream {
            if !self.begun {
                out.extend_from_slice(&self.say(Vec::new(), &[]));
            }
            self.chunk(&mut out, &json!({}), Some(reason));
            if self.usage {
                let mut last = self.head("chat.completion.chunk");
                last.insert("choices".to_owned(), json!([]));
                last.insert("usage".to_owned(), usage(figures));
                last.insert("timings".to_owned(), timings(figures));
                event(&mut out, &Value::Object(last));
            }
            out.extend_from_slice(b"data: [DONE]\n\n");
            return out.freeze();
        }
        let text = std::mem::take(&mut self.text);
        let mut message = json!({"role": "assistant", "content": text});
        if let Value::Object(message) = &mut message {
            if !self.thoughts.is_empty() {
                message.insert("reasoning_content".to_owned(), Value::String(std::mem::take(&mut self.thoughts)));
            }
            if !self.calls.is_empty() {
                message.insert("tool_calls".to_owned(), Value::Array(std::mem::take(&mut self.calls)));
            }
        }
        let mut choice = json!({"index": 0, "message": message, "finish_reason": reason});
        self.add_sequence(&mut choice);
        self.add_likelihoods(&mut choice);
        let mut whole = self.head("chat.completion");
        whole.insert("choices".to_owned(), json!([choice]));
        whole.insert("usage".to_owned(), usage(figures));
        whole.insert("timings".to_owned(), timings(figures));
        Bytes::from(Value::Object(whole).to_string())
    }

    fn head(&self, object: &str) -> Map<String, Value> {
        let mut head = Map::new();
        head.insert("id".to_owned(), json!(self.id));
        head.insert("object".to_owned(), json!(object));
        head.insert("created".to_owned(), json!(self.created));
        head.insert("model".to_owned(), json!(self.model));
        head
    }

    fn chunk(&mut self, out: &mut BytesMut, delta: &Value, reason: Option<&str>) {
        let mut choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        self.add_sequence(&mut choice);
        if reason.is_some() || delta.get("content").is_some_and(|text| text != "") {
            self.add_likelihoods(&mut choice);
        }
        let mut chunk = self.head("chat.completion.chunk");
        chunk.insert("choices".to_owned(), json!([choice]));
        event(out, &Value::Object(chunk));
    }

    /// As vLLM tells it: the dialects that have a place for it are given it.
    fn add_sequence(&self, choice: &mut Value) {
        if let (Some(sequence), Value::Object(choice)) = (&self.sequence, choice) {
            choice.insert("stop_reason".to_owned(), json!(sequence));
        }
    }

    fn add_likelihoods(&mut self, choice: &mut Value) {
        if !self.logprobs || (self.stream && self.likelihoods.is_empty()) {
            return;
        }
        let content = std::mem::take(&mut self.likelihoods);
        if let Value::Object(choice) = choice {
            choice.insert("logprobs".to_owned(), json!({"content": content}));
        }
    }
}

fn event(out: &mut BytesMut, value: &Value) {
    out.put_slice(b"data: ");
    out.put_slice(value.to_string().as_bytes());
    out.put_slice(b"\n\n");
}

fn usage(figures: &Figures) -> Value {
    json!({
        "prompt_tokens": figures.prompt,
        "completion_tokens": figures.said,
        "total_tokens": figures.prompt + figures.said,
        "prompt_tokens_details": {"cached_tokens": figures.cached},
    })
}

fn timings(figures: &Figures) -> Value {
    let rounded = |ms: f64| (ms * 1000.0).round() / 1000.0;
    json!({
        "queued_ms": rounded(figures.queued_ms),
        "prompt_n": figures.prompt - figures.cached,
        "prompt_ms": rounded(figures.prompt_ms),
        "predicted_n": figures.said,
        "predicted_ms": rounded(figures.said_ms),
    })
}

fn likelihood(token: &Likelihood) -> Value {
    let one = |text: &[u8], logprob: f32| {
        // JSON has no infinity.
        let logprob = f64::from(logprob.max(-9999.0));
        json!({"token": String::from_utf8_lossy(text), "logprob": logprob, "bytes": text})
    };
    let mut told = one(&token.text, token.logprob);
    let others: Vec<Value> = token.others.iter().map(|(text, logprob)| one(text, *logprob)).collect();
    if let Value::Object(told) = &mut told {
        told.insert("top_logprobs".to_owned(), Value::Array(others));
    }
    told
}
