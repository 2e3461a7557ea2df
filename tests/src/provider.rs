//! A provider on loopback that answers in all three APIs and misbehaves on command. Every request is kept with its exact
//! bytes; every reply is a list of steps, so that a test can stop, cut or break it at any byte. No step sleeps: a reply
//! waits at a [`Gate`] until the test opens it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::{Answer, Api};
use crate::wire::{Conn, Head, LAST_CHUNK, chunk};
use crate::within;

/// A point in a reply at which the provider waits for the test.
#[derive(Clone, Debug)]
pub struct Gate {
    open: Arc<watch::Sender<bool>>,
    reached: Arc<watch::Sender<bool>>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { open: Arc::new(watch::Sender::new(false)), reached: Arc::new(watch::Sender::new(false)) }
    }
}

impl Gate {
    /// Lets the reply go on.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until the provider stands at the gate.
    pub async fn reached(&self) {
        within("the provider reaches the gate", is_true(self.reached.subscribe())).await;
    }

    async fn pass(&self) {
        self.reached.send_replace(true);
        is_true(self.open.subscribe()).await;
    }
}

async fn is_true(mut flag: watch::Receiver<bool>) {
    if flag.wait_for(|v| *v).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// One step of a reply.
#[derive(Clone, Debug)]
pub enum Step {
    /// Bytes as they are.
    Raw(Bytes),
    /// Bytes as one chunk of a chunked body.
    Chunk(Bytes),
    /// Wait for the test.
    Gate(Gate),
    /// Reset the connection.
    Reset,
    /// Close the connection in good order, whatever was promised.
    Close,
    /// Say nothing more, for ever.
    Hang,
}

/// How one request is answered.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Properly, in the API and the form (whole or stream) that the request asks for.
    Answer(Answer),
    /// As the steps say.
    Steps(Vec<Step>),
}

impl Reply {
    /// A text answer.
    pub fn text(text: &str) -> Self {
        Self::Answer(Answer::text(text))
    }

    /// A whole reply with content length.
    pub fn whole(status: u16, content_type: &str, body: impl AsRef<[u8]>) -> Self {
        Self::with_headers(status, &[("content-type", content_type)], body)
    }

    /// A whole reply with these headers and a content length.
    pub fn with_headers(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = body.len().to_string();
        let mut all = headers.to_vec();
        all.push(("content-length", &length));
        let mut bytes = head(status, &all);
        bytes.extend_from_slice(body);
        Self::Steps(vec![Step::Raw(bytes.into())])
    }

    /// A whole JSON reply.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::whole(status, "application/json", body.to_string())
    }

    /// An error in the API's own form.
    pub fn error(api: Api, status: u16, kind: &str, message: &str) -> Self {
        Self::json(status, &error_body(api, kind, message))
    }

    /// An event stream with these events, one HTTP chunk each, and its proper end.
    pub fn stream(events: &[String]) -> Self {
        Stream::begin().events(events).end()
    }

    /// The page that a reverse proxy shows when what is behind it is down.
    pub fn html(status: u16) -> Self {
        Self::whole(
            status,
            "text/html; charset=utf-8",
            "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n\
             <hr><center>cloudflare</center>\r\n</body>\r\n</html>\r\n",
        )
    }
}

/// An error body in the API's own form.
pub fn error_body(api: Api, kind: &str, message: &str) -> Value {
    match api {
        Api::Messages => {
            json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"})
        }
        _ => json!({"error": {"message": message, "type": kind, "param": null, "code": null}}),
    }
}

fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status} Whatever\r\n");
    for (name, value) in headers {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    out.push_str("x-request-id: req_fake\r\n\r\n");
    out.into_bytes()
}

/// Builds a streamed reply step by step.
#[derive(Debug)]
pub struct Stream(Vec<Step>);

impl Stream {
    /// The head of an event stream.
    pub fn begin() -> Self {
        let headers = [("content-type", "text/event-stream; charset=utf-8"), ("transfer-encoding", "chunked")];
        Self(vec![Step::Raw(head(200, &headers).into())])
    }

    /// Starts with a gate before the first byte.
    pub fn after(gate: &Gate) -> Self {
        let mut stream = Self::begin();
        stream.0.insert(0, Step::Gate(gate.clone()));
        stream
    }

    /// One HTTP chunk of any bytes.
    pub fn bytes(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.0.push(Step::Chunk(Bytes::copy_from_slice(bytes.as_ref())));
        self
    }

    /// Each event as one HTTP chunk.
    pub fn events(mut self, events: &[String]) -> Self {
        for event in events {
            self = self.bytes(event);
        }
        self
    }

    /// Waits for the test.
    pub fn gate(mut self, gate: &Gate) -> Self {
        self.0.push(Step::Gate(gate.clone()));
        self
    }

    /// Ends properly.
    pub fn end(mut self) -> Reply {
        self.0.push(Step::Raw(Bytes::from_static(LAST_CHUNK)));
        Reply::Steps(self.0)
    }

    /// Ends with a connection reset.
    pub fn reset(mut self) -> Reply {
        self.0.push(Step::Reset);
        Reply::Steps(self.0)
    }

    /// Ends by closing the connection without the last chunk.
    pub fn close(mut self) -> Reply {
        self.0.push(Step::Close);
        Reply::Steps(self.0)
    }

    /// Never ends.
    pub fn hang(mut self) -> Reply {
        self.0.push(Step::Hang);
        Reply::Steps(self.0)
    }
}

/// A request as it came in.
#[derive(Debug)]
pub struct Seen {
    /// Method, target and headers as sent.
    pub head: Head,
    /// The body's bytes.
    pub body: Bytes,
    gone: watch::Sender<bool>,
}

impl Seen {
    /// The body as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("the request is not JSON ({e}): {}", String::from_utf8_lossy(&self.body)))
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a request body is UTF-8")
    }

    /// The API it was sent to.
    pub fn api(&self) -> Option<Api> {
        Api::of(&self.head.target)
    }

    /// Waits until the caller has dropped the connection while its reply was still being written.
    pub async fn dropped(&self) {
        within("the caller drops the request", is_true(self.gone.subscribe())).await;
    }
}

type Script = Box<dyn Fn(&Seen) -> Option<Reply> + Send + Sync>;

struct Shared {
    queue: Mutex<VecDeque<Reply>>,
    script: Mutex<Option<Script>>,
    seen: Mutex<Vec<Arc<Seen>>>,
    count: watch::Sender<usize>,
}

/// The provider. It stops when dropped.
pub struct Provider {
    addr: String,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Provider {
    /// Starts on a free port.
    pub async fn start() -> Self {
        Self::on("127.0.0.1:0").await
    }

    /// Starts on this address.
    pub async fn on(addr: &str) -> Self {
        let listener = TcpListener::bind(addr).await.expect("a free port");
        let addr = listener.local_addr().expect("a bound socket").to_string();
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            script: Mutex::default(),
            seen: Mutex::default(),
            count: watch::Sender::new(0),
        });
        let stop = CancellationToken::new();
        let (tasks, served, token) = (TaskTracker::new(), Arc::clone(&shared), stop.clone());
        let inner = tasks.clone();
        tasks.spawn(async move {
            loop {
                let stream = tokio::select! {
                    () = token.cancelled() => return,
                    accepted = listener.accept() => match accepted { Ok((stream, _)) => stream, Err(_) => continue },
                };
                let (shared, token) = (Arc::clone(&served), token.clone());
                inner.spawn(async move {
                    tokio::select! {
                        () = token.cancelled() => {}
                        _ = connection(Conn::new(stream), &shared) => {}
                    }
                });
            }
        });
        Self { addr, shared, stop }
    }

    /// `127.0.0.1:PORT`.
    pub fn addr(&self) -> &str {
        &self.addr
    }

    /// What goes into `llm.api_base`.
    pub fn base(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// Answers the next request for a model's answer this way. Requests without one get a short text.
    pub fn next(&self, reply: Reply) {
        lock(&self.shared.queue).push_back(reply);
    }

    /// Asks `script` how to answer each request; `None` leaves it to the queue and the default.
    pub fn script(&self, script: impl Fn(&Seen) -> Option<Reply> + Send + Sync + 'static) {
        *lock(&self.shared.script) = Some(Box::new(script));
    }

    /// All requests for a model's answer so far.
    pub fn seen(&self) -> Vec<Arc<Seen>> {
        lock(&self.shared.seen).iter().filter(|s| s.api().is_some()).map(Arc::clone).collect()
    }

    /// All requests so far, of any kind.
    pub fn all(&self) -> Vec<Arc<Seen>> {
        lock(&self.shared.seen).clone()
    }

    /// The last request for a model's answer.
    ///
    /// # Panics
    /// When there is none.
    pub fn last(&self) -> Arc<Seen> {
        self.seen().pop().expect("the provider saw a request")
    }

    /// Waits for the `n`th request of any kind (from 1).
    pub async fn arrives(&self, n: usize) -> Arc<Seen> {
        let mut count = self.shared.count.subscribe();
        within("a request reaches the provider", count.wait_for(|c| *c >= n)).await.expect("the provider runs");
        Arc::clone(&lock(&self.shared.seen)[n - 1])
    }
}

async fn connection(mut conn: Conn, shared: &Shared) -> std::io::Result<()> {
    while let Some(head) = conn.request_head().await? {
        if head.header("expect").is_some() {
            conn.send(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let body = conn.body().await?;
        let seen = Arc::new(Seen { head, body, gone: watch::Sender::new(false) });
        let reply = shared.reply(&seen);
        for step in steps(&seen, reply) {
            let sent = match step {
                Step::Raw(bytes) => conn.send(&bytes).await,
                Step::Chunk(bytes) => conn.send(&chunk(&bytes)).await,
                Step::Gate(gate) => tokio::select! {
                    () = gate.pass() => Ok(()),
                    () = conn.closed() => Err(std::io::ErrorKind::BrokenPipe.into()),
                },
                Step::Hang => {
                    conn.closed().await;
                    Err(std::io::ErrorKind::BrokenPipe.into())
                }
                Step::Reset => {
                    conn.reset();
                    return Ok(());
                }
                Step::Close => return Ok(()),
            };
            if let Err(error) = sent {
                seen.gone.send_replace(true);
                return Err(error);
            }
        }
    }
    Ok(())
}

impl Shared {
    fn reply(&self, seen: &Arc<Seen>) -> Reply {
        let n = {
            let mut list = lock(&self.seen);
            list.push(Arc::clone(seen));
            self.count.send_replace(list.len());
            list.len()
        };
        if let Some(reply) = lock(&self.script).as_ref().and_then(|script| script(seen)) {
            return reply;
        }
        let path = seen.head.target.split('?').next().unwrap_or_default();
        if path.ends_with("/models") {
            let models = [json!({"id": "fake-large", "object": "model", "created": 1_790_000_000, "owned_by": "fake"})];
            return Reply::json(200, &json!({"object": "list", "data": models}));
        }
        if path.ends_with("/count_tokens") {
            return Reply::json(200, &json!({"input_tokens": 4242}));
        }
        if seen.api().is_none() {
            return Reply::error(Api::Chat, 404, "invalid_request_error", "no such path");
        }
        lock(&self.queue).pop_front().unwrap_or_else(|| Reply::text(&format!("This is reply {n}.")))
    }
}

fn steps(seen: &Seen, reply: Reply) -> Vec<Step> {
    let answer = match reply {
        Reply::Steps(steps) => return steps,
        Reply::Answer(answer) => answer,
    };
    let (Some(api), Ok(body)) = (seen.api(), serde_json::from_slice::<Value>(&seen.body)) else {
        return steps(seen, Reply::error(Api::Chat, 400, "invalid_request_error", "the fake provider got no JSON"));
    };
    let model = body["model"].as_str().unwrap_or("fake-large");
    if body["stream"] == true {
        let usage = body["stream_options"]["include_usage"] == true;
        return steps(seen, Reply::stream(&answer.events(api, model, usage)));
    }
    steps(seen, Reply::json(200, &answer.whole(api, model)))
}
