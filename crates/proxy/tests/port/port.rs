//! An agent port in process, in front of a model that does what the test says. No network, no sleeping.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use dialect::{Dialect, Quirks};
use futures::channel::mpsc;
use futures::stream;
use http_body_util::BodyExt;
use metaclaw_proxy::{
    Ask, BodyError, Call, Clock, Deps, Event, Knowledge, Model, ModelError, Piece, Proxy, Reply, Route, Settings,
};
use serde_json::{Value, json};
use store::{Store, TurnFilter, TurnSummary};
use tokio::sync::{broadcast, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// A clock that stands still until the test moves it, and counts instead of drawing lots.
#[derive(Default)]
pub(crate) struct TestClock {
    ahead: AtomicI64,
    lots: AtomicU64,
}

impl TestClock {
    pub(crate) fn forward(&self, ms: i64) {
        self.ahead.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        1_790_000_000_000 + self.ahead.load(Ordering::Relaxed)
    }
    fn random(&self) -> u64 {
        self.lots.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// One answer of the fake model.
pub(crate) enum Says {
    Whole(u16, &'static str, String),
    Stream(mpsc::UnboundedReceiver<Result<Bytes, BodyError>>),
    /// A stream that holds its sender back.
    Bounded(mpsc::Receiver<Result<Bytes, BodyError>>),
    Fails(ModelError),
    /// Resolves when the test says so.
    Later(oneshot::Receiver<()>, Box<Says>),
}

/// A model that answers what it was told to, and remembers what it was asked.
pub(crate) struct Fake {
    pub(crate) dialect: Dialect,
    pub(crate) queue: Mutex<VecDeque<Says>>,
    pub(crate) calls: Mutex<Vec<Call>>,
    pub(crate) name: Arc<str>,
    pub(crate) quirks: Quirks,
    pub(crate) model_id: Option<&'static str>,
    pub(crate) secret: Option<&'static str>,
    /// The agents' own credentials go to it.
    pub(crate) caller: bool,
    pub(crate) headers: Mutex<HeaderMap>,
}

impl Fake {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            queue: Mutex::default(),
            calls: Mutex::default(),
            name: "fake".into(),
            quirks: Quirks::default(),
            model_id: None,
            secret: None,
            caller: false,
            headers: Mutex::default(),
        }
    }
    pub(crate) fn says(&self, says: Says) {
        self.queue.lock().unwrap().push_back(says);
    }
    /// A stream that the test feeds.
    pub(crate) fn streams(&self) -> mpsc::UnboundedSender<Result<Bytes, BodyError>> {
        let (tx, rx) = mpsc::unbounded();
        self.says(Says::Stream(rx));
        tx
    }
    pub(crate) fn body(&self, index: usize) -> Bytes {
        self.calls.lock().unwrap()[index].body.clone()
    }
    pub(crate) fn last(&self) -> Call {
        self.calls.lock().unwrap().last().unwrap().clone()
    }
    pub(crate) fn count(&self) -> usize {
        self.calls.lock().unwrap().len()
    }
}

/// What a provider answers where the test does not care.
pub(crate) fn whole(dialect: Dialect, text: &str) -> String {
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 2, "input_tokens": 3, "output_tokens": 2});
    match dialect {
        Dialect::Chat => json!({"id": "c1", "object": "chat.completion", "created": 1, "model": "up",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}], "usage": usage}),
        Dialect::Messages => json!({"id": "m1", "type": "message", "role": "assistant", "model": "up",
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": null, "usage": usage}),
        Dialect::Responses => json!({"id": "r1", "object": "response", "created_at": 1, "status": "completed", "model": "up",
            "output": [{"id": "msg1", "type": "message", "status": "completed", "role": "assistant",
                        "content": [{"type": "output_text", "text": text, "annotations": []}]}], "usage": usage}),
    }
    .to_string()
}

#[async_trait]
impl Model for Fake {
    fn dialect(&self) -> Dialect {
        self.dialect
    }
    fn name(&self) -> &Arc<str> {
        &self.name
    }
    fn model_for<'a>(&'a self, asked: Option<&'a str>) -> Option<Cow<'a, str>> {
        self.model_id.or(asked).map(Cow::Borrowed)
    }
    fn takes_caller_credentials(&self) -> bool {
        self.caller
    }
    fn secrets(&self) -> Vec<&str> {
        self.secret.into_iter().collect()
    }
    fn quirks(&self) -> &Quirks {
        &self.quirks
    }
    async fn send(&self, call: Call) -> Result<Reply, ModelError> {
        self.calls.lock().unwrap().push(call);
        let next = self.queue.lock().unwrap().pop_front();
        let mut next = next.unwrap_or_else(|| Says::Whole(200, "application/json", whole(self.dialect, "Fine.")));
        while let Says::Later(when, then) = next {
            let _ = when.await;
            next = *then;
        }
        let mut headers = self.headers.lock().unwrap().clone();
        let (status, body): (u16, metaclaw_proxy::ReplyBody) = match next {
            Says::Fails(error) => return Err(error),
            Says::Whole(status, kind, body) => {
                headers.insert("content-type", HeaderValue::from_static(kind));
                (status, Box::pin(stream::once(async move { Ok(Bytes::from(body)) })))
            }
            Says::Stream(rx) => {
                headers.insert("content-type", HeaderValue::from_static("text/event-stream"));
                (200, Box::pin(rx))
            }
            Says::Bounded(rx) => {
                headers.insert("content-type", HeaderValue::from_static("text/event-stream"));
                (200, Box::pin(rx))
            }
            Says::Later(..) => unreachable!(),
        };
        Ok(Reply { status: StatusCode::from_u16(status).unwrap(), headers, body, weight_version: None })
    }
}

/// One piece for every question that holds its word.
pub(crate) struct Notes(pub Vec<(&'static str, &'static str)>);

#[async_trait]
impl Knowledge for Notes {
    async fn recall(&self, ask: &Ask) -> Vec<Piece> {
        let found = self.0.iter().filter(|(word, _)| ask.text.contains(word));
        found
            .map(|(word, text)| Piece {
                kind: "skill",
                group: "",
                id: (*word).to_owned(),
                section: format!("## Skill: {word}\n{text}"),
                score: 1.0,
                why: (*word).to_owned(),
                trial: None,
            })
            .collect()
    }
}

/// The agent port and everything behind it.
pub(crate) struct Port {
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) router: axum::Router,
    pub(crate) store: Store,
    pub(crate) settings: Arc<ArcSwap<Settings>>,
    pub(crate) events: broadcast::Receiver<Event>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) deps: Deps,
    _folder: Arc<tempfile::TempDir>,
}

pub(crate) async fn port(model: &Arc<Fake>, settings: Settings) -> Port {
    port_with(model, None, settings, Arc::new(tempfile::tempdir().unwrap())).await
}

pub(crate) async fn port_with(
    model: &Arc<Fake>,
    fallback: Option<&Arc<Fake>>,
    settings: Settings,
    folder: Arc<tempfile::TempDir>,
) -> Port {
    let (tracker, cancel) = (TaskTracker::new(), CancellationToken::new());
    let path = folder.path().join("journal.db");
    let store = Store::open(&path, store::Options::default(), &tracker, CancellationToken::new()).await.unwrap();
    let (tx, events) = broadcast::channel(64);
    let settings = Arc::new(ArcSwap::from_pointee(settings));
    let fallback = fallback.map(|f| f.clone() as Arc<dyn Model>);
    let clock = Arc::new(TestClock::default());
    let deps = Deps {
        settings: settings.clone(),
        upstream: Arc::new(ArcSwap::from_pointee(Ok(Route { primary: model.clone(), fallback }))),
        knowledge: Arc::new(Notes(vec![("zebrafish", "Keep the water at 28.5 degrees."), ("rust", "Run clippy.")])),
        store: store.clone(),
        events: tx,
        tracker,
        cancel,
        clock: clock.clone(),
        hop: "hop-1".into(),
    };
    let proxy = Proxy::new(deps.clone());
    Port { router: proxy.router(), proxy, store, settings, events, clock, deps, _folder: folder }
}

pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }
    pub(crate) fn session(&self) -> String {
        self.header("x-metaclaw-session").to_owned()
    }
}

impl Port {
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Response {
        let mut request = Request::builder().method(method).uri(path).body(body.into()).unwrap();
        let defaults = [("host", "127.0.0.1:30000"), ("content-type", "application/json")];
        for (name, value) in defaults.iter().chain(headers) {
            let name = HeaderName::try_from(*name).unwrap();
            request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        }
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Got {
        let response = self.open(method, path, headers, body).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Got { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    pub(crate) async fn chat(&self, body: &Value) -> Got {
        self.ask("POST", "/v1/chat/completions", &[], body.to_string()).await
    }

    pub(crate) async fn turns(&self) -> Vec<TurnSummary> {
        let mut turns = self.store.turns(&TurnFilter::default()).await.unwrap();
        turns.reverse();
        turns
    }

    /// Waits for the next event.
    pub(crate) async fn event(&mut self) -> Event {
        tokio::time::timeout(Duration::from_secs(20), self.events.recv()).await.expect("an event").unwrap()
    }
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(crate) fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

pub(crate) fn request(messages: &[Value], stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "messages": messages})
}

pub(crate) fn chunk(text: &str) -> Bytes {
    format!(
        "data: {}\n\n",
        json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "up",
               "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
    )
    .into()
}

pub(crate) fn finish() -> Bytes {
    let last = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "up",
                      "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let usage = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [],
                       "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}});
    format!("data: {last}\n\ndata: {usage}\n\ndata: [DONE]\n\n").into()
}

/// The next bytes of a response that is being read.
pub(crate) async fn next(body: &mut Body) -> Option<Bytes> {
    let frame = tokio::time::timeout(Duration::from_secs(20), body.frame()).await.expect("in time")?;
    Some(frame.unwrap().into_data().unwrap())
}

/// Lets everything that can run now run.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
