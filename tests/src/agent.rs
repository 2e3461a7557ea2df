//! An agent as the product sees it: sends exact bytes, sees each chunk of the answer, keeps a conversation the way real
//! clients do.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::answer::Api;
use crate::wire::{Conn, Event, Events, Head};
use crate::{PATIENCE, within_for};

/// Where an agent sends its requests, and what it puts in every head.
#[derive(Clone, Debug)]
pub struct Agent {
    addr: String,
    headers: Vec<(String, String)>,
    patience: Duration,
}

/// A whole answer.
#[derive(Debug)]
pub struct Got {
    /// Status and headers.
    pub head: Head,
    /// The body, unframed.
    pub body: Bytes,
}

impl Got {
    /// HTTP status.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("not JSON ({e}): {:?} {}", self.head, self.text()))
    }

    /// The body's events.
    pub fn events(&self) -> Vec<Event> {
        Events::of(&self.body)
    }
}

/// An answer that is still coming in.
#[derive(Debug)]
pub struct Coming {
    /// Status and headers.
    pub head: Head,
    conn: Conn,
    patience: Duration,
    events: Events,
    ready: VecDeque<Event>,
}

impl Coming {
    /// The next HTTP chunk, `None` at the proper end.
    ///
    /// # Errors
    /// When the connection ends before the body does.
    pub async fn piece(&mut self) -> std::io::Result<Option<Bytes>> {
        within_for(self.patience, "the next piece of the answer", self.conn.piece()).await
    }

    /// The next event that carries data, `None` at the proper end.
    ///
    /// # Errors
    /// As [`Coming::piece`].
    pub async fn event(&mut self) -> std::io::Result<Option<Event>> {
        loop {
            match self.any().await? {
                Some(event) if event.data.is_empty() => {}
                other => return Ok(other),
            }
        }
    }

    /// The next event or comment.
    ///
    /// # Errors
    /// As [`Coming::piece`].
    pub async fn any(&mut self) -> std::io::Result<Option<Event>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            match self.piece().await? {
                Some(piece) => self.ready.extend(self.events.push(&piece)),
                None => return Ok(None),
            }
        }
    }

    /// Everything that is left, unframed.
    ///
    /// # Errors
    /// As [`Coming::piece`].
    pub async fn rest(&mut self) -> std::io::Result<Bytes> {
        within_for(self.patience, "the rest of the answer", self.conn.body()).await
    }

    /// Hangs up without waiting for the end.
    pub fn hang_up(self) {
        drop(self.conn);
    }
}

impl Agent {
    /// An agent without a key.
    pub fn new(addr: &str) -> Self {
        Self { addr: addr.to_owned(), headers: Vec::new(), patience: PATIENCE }
    }

    /// The same agent with one more header.
    #[must_use]
    pub fn with_header(&self, name: &str, value: &str) -> Self {
        let mut agent = self.clone();
        agent.headers.push((name.to_owned(), value.to_owned()));
        agent
    }

    /// The same agent with more time for each step of an answer: for a real model on a busy machine.
    #[must_use]
    pub fn patient(mut self) -> Self {
        self.patience = 10 * PATIENCE;
        self
    }

    /// The same agent without this header.
    #[must_use]
    pub fn without_header(&self, name: &str) -> Self {
        let mut agent = self.clone();
        agent.headers.retain(|(n, _)| n != name);
        agent
    }

    /// The bytes of a request as this agent sends it.
    pub fn request(&self, method: &str, target: &str, body: &[u8]) -> Vec<u8> {
        let mut head = format!("{method} {target} HTTP/1.1\r\nhost: {}\r\n", self.addr);
        if method == "POST" {
            head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        [head.as_bytes(), body].concat()
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// When the connection fails or is closed without an answer.
    pub async fn open(&self, method: &str, target: &str, body: impl AsRef<[u8]>) -> std::io::Result<Coming> {
        self.open_raw(method, &self.request(method, target, body.as_ref())).await
    }

    /// Sends any bytes and waits for the head of an answer.
    ///
    /// # Errors
    /// As [`Agent::open`].
    pub async fn open_raw(&self, method: &str, bytes: &[u8]) -> std::io::Result<Coming> {
        let mut conn = Conn::connect(&self.addr).await?;
        conn.send(bytes).await?;
        let head = within_for(self.patience, "the answer begins", conn.response_head(method)).await?;
        Ok(Coming { head, conn, patience: self.patience, events: Events::default(), ready: VecDeque::new() })
    }

    /// Sends a request and reads its whole answer.
    ///
    /// # Errors
    /// When the connection fails, or ends before the answer does.
    pub async fn try_send(&self, method: &str, target: &str, body: impl AsRef<[u8]>) -> std::io::Result<Got> {
        let mut coming = self.open(method, target, body).await?;
        let body = coming.rest().await?;
        Ok(Got { head: coming.head, body })
    }

    /// POSTs a body.
    ///
    /// # Panics
    /// When there is no whole answer.
    pub async fn post(&self, target: &str, body: impl AsRef<[u8]>) -> Got {
        self.try_send("POST", target, body).await.expect("a whole answer")
    }

    /// POSTs a JSON value.
    ///
    /// # Panics
    /// As [`Agent::post`].
    pub async fn ask(&self, api: Api, body: &Value) -> Got {
        self.post(api.path(), body.to_string()).await
    }

    /// GETs a target.
    ///
    /// # Panics
    /// When there is no whole answer.
    pub async fn get(&self, target: &str) -> Got {
        self.try_send("GET", target, "").await.expect("a whole answer")
    }

    /// Starts a streamed answer.
    ///
    /// # Panics
    /// When no answer begins.
    pub async fn stream(&self, api: Api, body: &Value) -> Coming {
        self.open("POST", api.path(), body.to_string()).await.expect("an answer begins")
    }
}

/// A request body with one user message.
pub fn hello(api: Api, text: &str, stream: bool) -> Value {
    Chat::new(api).user(text).body(stream)
}

/// A conversation as a client keeps it: the whole history goes out with every request.
#[derive(Clone, Debug)]
pub struct Chat {
    api: Api,
    history: Vec<Value>,
    extra: Value,
}

impl Chat {
    /// An empty conversation without a system prompt.
    pub fn new(api: Api) -> Self {
        Self { api, history: Vec::new(), extra: json!({}) }
    }

    /// Adds a member to every request body.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.extra[key] = value;
        self
    }

    /// Adds a message of the user's.
    #[must_use]
    pub fn user(mut self, text: &str) -> Self {
        self.history.push(match self.api {
            Api::Responses => {
                json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
            }
            _ => json!({"role": "user", "content": text}),
        });
        self
    }

    /// Adds any history item.
    #[must_use]
    pub fn item(mut self, item: Value) -> Self {
        self.history.push(item);
        self
    }

    /// Adds the answer that came, as the SDKs send it back.
    #[must_use]
    pub fn answer(mut self, whole: &Value) -> Self {
        match self.api {
            Api::Chat => {
                let message = &whole["choices"][0]["message"];
                let mut back = json!({"role": "assistant", "content": message["content"]});
                if message["tool_calls"].is_array() {
                    back["tool_calls"] = message["tool_calls"].clone();
                }
                self.history.push(back);
            }
            Api::Messages => self.history.push(json!({"role": "assistant", "content": whole["content"]})),
            Api::Responses => self.history.extend(whole["output"].as_array().expect("an output list").clone()),
        }
        self
    }

    /// Adds the result of a tool call.
    #[must_use]
    pub fn tool_result(mut self, call: &str, text: &str) -> Self {
        let block = json!({"type": "tool_result", "tool_use_id": call, "content": text});
        // Results of parallel calls share one user message in Messages.
        let last =
            self.history.last_mut().filter(|m| self.api == Api::Messages && m["content"][0]["type"] == "tool_result");
        if let Some(results) = last.and_then(|m| m["content"].as_array_mut()) {
            results.push(block);
            return self;
        }
        let item = match self.api {
            Api::Chat => json!({"role": "tool", "tool_call_id": call, "content": text}),
            Api::Messages => json!({"role": "user", "content": [block]}),
            Api::Responses => json!({"type": "function_call_output", "call_id": call, "output": text}),
        };
        self.item(item)
    }

    /// The next request's body.
    pub fn body(&self, stream: bool) -> Value {
        let mut body = json!({"model": "agents-model", "stream": stream});
        match self.api {
            Api::Responses => body["input"] = json!(self.history),
            _ => body["messages"] = json!(self.history),
        }
        if self.api == Api::Messages {
            body["max_tokens"] = json!(1024);
        }
        for (key, value) in self.extra.as_object().expect("members") {
            body[key] = value.clone();
        }
        body
    }

    /// Sends the conversation, whole answer, and adds it.
    ///
    /// # Panics
    /// When the answer is an error.
    pub async fn send(self, agent: &Agent) -> Self {
        let got = agent.ask(self.api, &self.body(false)).await;
        assert_eq!(got.status(), 200, "{}", got.text());
        let whole = got.json();
        self.answer(&whole)
    }
}

/// Text of a whole answer.
pub fn text_of(api: Api, whole: &Value) -> String {
    let join = |list: &Value, key: &str| -> String {
        list.as_array().into_iter().flatten().filter_map(|b| b[key].as_str()).collect()
    };
    match api {
        Api::Chat => whole["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned(),
        Api::Messages => join(&whole["content"], "text"),
        Api::Responses => {
            whole["output"].as_array().into_iter().flatten().map(|item| join(&item["content"], "text")).collect()
        }
    }
}

/// Text of a streamed answer, from its deltas.
pub fn text_of_events(api: Api, events: &[Event]) -> String {
    let mut text = String::new();
    for event in events.iter().filter(|e| e.data != "[DONE]") {
        let json = event.json();
        let part = match api {
            Api::Chat => json["choices"][0]["delta"]["content"].as_str(),
            Api::Messages => json["delta"]["text"].as_str(),
            Api::Responses if json["type"] == "response.output_text.delta" => json["delta"].as_str(),
            Api::Responses => None,
        };
        text.push_str(part.unwrap_or_default());
    }
    text
}

/// Whether a stream ended the way the API says it must.
pub fn ended_well(api: Api, events: &[Event]) -> bool {
    events.last().is_some_and(|last| match api {
        Api::Chat => last.data == "[DONE]",
        Api::Messages => last.name == "message_stop",
        Api::Responses => last.name == "response.completed",
    })
}

/// The line that opens the block of added notes.
pub const BLOCK: &str = "<metaclaw-context>";
/// The line that closes it.
pub const BLOCK_END: &str = "</metaclaw-context>";

/// How many blocks a request body holds.
pub fn blocks(body: &str) -> usize {
    body.matches(BLOCK).count()
}

/// The messages (or input items) of a request body.
pub fn history(body: &Value) -> Vec<Value> {
    let list = if body["messages"].is_array() { &body["messages"] } else { &body["input"] };
    list.as_array().cloned().unwrap_or_default()
}
