//! A streamed answer on its way to the agent. Pulls from the provider only as fast as the agent reads; every chunk leaves
//! the moment it arrives, a tee folds it; the last event waits until the journal has the turn. Dropped by the server
//! when the agent goes away, which ends the exchange with the provider in the same moment.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::HeaderMap;
use bytes::Bytes;
use dialect::{Answer, ApiError, Dialect, End, ErrorKind, Relay, RelaySpec};
use futures::future::BoxFuture;
use http_body::{Body, Frame};
use store::Outcome;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::Proxy;
use crate::conceal::Conceal;
use crate::forward::Head;
use crate::model::{BodyError, ReplyBody};
use crate::record::{Closing, Ending, Record, Recorded};

/// What agents are told whose answers still run when the service has to end.
pub(crate) const STOPPED: &str = "MetaClaw is being stopped";
/// How long the provider may take after the end of its answer to tell the usage that was asked for.
const USAGE_GRACE: Duration = Duration::from_millis(500);
/// How long the end marker of an answer may take that is otherwise complete.
const MARKER_GRACE: Duration = Duration::from_secs(2);
/// How long a provider may take to close an answer that is complete, so that its connection can be used again.
const DRAIN: Duration = Duration::from_secs(2);

/// What asking led to.
pub(crate) struct Begun {
    pub(crate) head: Head,
    pub(crate) result: Result<Flow, Failure>,
}

/// An answer that flows.
pub(crate) struct Flow {
    pub(crate) body: ReplyBody,
    pub(crate) relay: Box<Relay>,
    pub(crate) weight_version: Option<i64>,
    pub(crate) conceal: Conceal,
}

/// An error for the agent.
pub(crate) struct Failure {
    pub(crate) error: ApiError,
    /// The body to give instead of the rendered error: the provider's own.
    pub(crate) raw: Option<Bytes>,
}

enum Stage {
    /// The provider has not begun to answer.
    Waiting(BoxFuture<'static, Begun>),
    /// Chunks come.
    Flowing(Flow),
    /// The end is known; the journal takes the turn, the provider closes its side.
    Committing {
        commit: Closing,
        last: Bytes,
        body: Option<ReplyBody>,
    },
    Over,
}

/// What [`AgentStream::begin`] found.
pub(crate) enum Beginning {
    /// The first bytes are there, or the provider is silent long enough for a keep-alive.
    Flows,
    /// Nothing was sent yet, so this can still be a proper error answer. The record is closed.
    Failed(Failure, Recorded),
}

/// See the module.
pub(crate) struct AgentStream {
    proxy: Arc<Proxy>,
    client: Dialect,
    stage: Stage,
    record: Option<Record>,
    /// Bytes that were pulled while looking how the answer begins.
    first: Option<Bytes>,
    /// Something went to the agent.
    sent: bool,
    /// The provider's headers for the agent, once they are known.
    pub(crate) headers: HeaderMap,
    failure: Option<Failure>,
    keepalive: Option<Duration>,
    idle: Duration,
    /// When the provider last said something.
    heard: Instant,
    /// When the agent last got something.
    told: Instant,
    /// The end of the grace for late usage, or for a late end marker.
    grace: Option<Instant>,
    timer: Pin<Box<Sleep>>,
    /// Made when the provider is waited for.
    stopping: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl AgentStream {
    pub(crate) fn new(
        proxy: Arc<Proxy>,
        client: Dialect,
        record: Record,
        answer: BoxFuture<'static, Begun>,
        keepalive: Option<Duration>,
        idle: Duration,
    ) -> Self {
        let now = Instant::now();
        let mut stream = Self {
            proxy,
            client,
            stage: Stage::Waiting(answer),
            record: Some(record),
            first: None,
            sent: false,
            headers: HeaderMap::new(),
            failure: None,
            keepalive,
            idle,
            heard: now,
            told: now,
            grace: None,
            timer: Box::pin(tokio::time::sleep_until(now)),
            stopping: None,
        };
        stream.arm();
        stream
    }

    /// Waits until it is clear how the answer begins.
    pub(crate) async fn begin(&mut self) -> Beginning {
        let first = std::future::poll_fn(|cx| self.poll_bytes(cx)).await;
        match (first, self.failure.take()) {
            (_, Some(failure)) => {
                let recorded = match std::mem::replace(&mut self.stage, Stage::Over) {
                    Stage::Committing { commit, .. } => commit.await,
                    _ => Err("not recorded".to_owned()),
                };
                Beginning::Failed(failure, recorded)
            }
            (bytes, None) => {
                self.first = bytes;
                Beginning::Flows
            }
        }
    }

    /// The time at which something has to happen if the provider stays silent.
    fn deadline(&self) -> Instant {
        let waiting = matches!(self.stage, Stage::Waiting(_));
        let broken = (!waiting).then(|| self.heard + self.idle);
        let quiet = self.keepalive.map(|k| self.told + k);
        let far = self.told + Duration::from_secs(3600);
        [broken, quiet, self.grace].into_iter().flatten().min().unwrap_or(far)
    }

    fn arm(&mut self) {
        let at = self.deadline();
        self.timer.as_mut().reset(at);
    }

    /// The next bytes for the agent; `None` = the end, or (before anything was sent) `failure`.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match &mut self.stage {
                Stage::Waiting(answer) => match answer.as_mut().poll(cx) {
                    Poll::Ready(begun) => {
                        self.heard = Instant::now();
                        self.begun(begun);
                        continue;
                    }
                    Poll::Pending => {}
                },
                Stage::Flowing(flow) => match flow.body.as_mut().poll_next(cx) {
                    Poll::Ready(chunk) => match self.chunk(chunk) {
                        Some(out) => return Poll::Ready(Some(self.tell(out))),
                        None => continue,
                    },
                    Poll::Pending => {}
                },
                Stage::Committing { commit, last, body } => {
                    if self.failure.is_some() {
                        // `begin` waits for the commit itself, and answers with the error.
                        return Poll::Ready(None);
                    }
                    // The end of the provider's stream frees its connection for the next request.
                    if let Some(rest) = body
                        && let Poll::Ready(None | Some(Err(_))) = rest.as_mut().poll_next(cx)
                    {
                        *body = None;
                    }
                    match Pin::new(commit).poll(cx) {
                        Poll::Ready(_) => {
                            let last = std::mem::take(last);
                            if let Some(body) = body.take() {
                                self.drain(body);
                            }
                            self.stage = Stage::Over;
                            if last.is_empty() {
                                return Poll::Ready(None);
                            }
                            return Poll::Ready(Some(self.tell(last)));
                        }
                        Poll::Pending => return Poll::Pending,
                    }
                }
                Stage::Over => return Poll::Ready(None),
            }
            // The provider is silent.
            if self.is_stopping(cx) {
                self.stop();
                continue;
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            if self.grace.is_some_and(|at| now >= at) {
                self.end(End::Clean, false);
                continue;
            }
            if matches!(self.stage, Stage::Flowing(_)) && now >= self.heard + self.idle {
                let reason = format!("the provider has been silent for {} s", self.idle.as_secs());
                self.end(End::Cut { reason }, false);
                continue;
            }
            if self.grace.is_none() && self.keepalive.is_some_and(|k| now >= self.told + k) {
                let ping = self.tell(Bytes::from_static(dialect::keepalive(self.client)));
                self.arm();
                return Poll::Ready(Some(ping));
            }
            // Something happened since the timer was set; it is set anew and polled once more.
            self.arm();
        }
    }

    /// Whether the service is going down and has waited for running answers as long as it can.
    fn is_stopping(&mut self, cx: &mut Context<'_>) -> bool {
        let cancel = &self.proxy.deps.cancel;
        let stopping = self.stopping.get_or_insert_with(|| Box::pin(cancel.clone().cancelled_owned()));
        stopping.as_mut().poll(cx).is_ready()
    }

    /// Tells the agent that nothing more will come.
    fn stop(&mut self) {
        let reason = STOPPED.to_owned();
        if matches!(self.stage, Stage::Flowing(_)) {
            self.end(End::Cut { reason }, false);
        } else {
            let error = ApiError::new(503, ErrorKind::Overloaded, reason);
            self.fail(error.into(), Outcome::Cut, None, None);
        }
    }

    fn tell(&mut self, bytes: Bytes) -> Bytes {
        self.told = Instant::now();
        self.sent = true;
        bytes
    }

    fn begun(&mut self, begun: Begun) {
        let Begun { head, result } = begun;
        if let Some(record) = &mut self.record {
            record.asked(&head);
        }
        self.headers = head.headers;
        match result {
            Ok(flow) => {
                self.stage = Stage::Flowing(flow);
                self.arm();
            }
            Err(failure) => self.fail(failure, Outcome::Error, None, None),
        }
    }

    /// Takes what the provider said; gives what goes to the agent.
    fn chunk(&mut self, chunk: Option<Result<Bytes, BodyError>>) -> Option<Bytes> {
        let Stage::Flowing(flow) = &mut self.stage else { return None };
        let out = match chunk {
            Some(Ok(bytes)) => {
                let mut relayed = flow.relay.push(&bytes);
                if flow.relay.is_faulty() {
                    relayed.out = flow.conceal.bytes(relayed.out);
                }
                let late_usage = relayed.finished && flow.relay.needs_grace();
                if let Some(record) = &mut self.record {
                    record.first_byte();
                }
                if self.grace.is_none() {
                    self.heard = Instant::now();
                }
                if relayed.finished && !late_usage {
                    self.end(End::Clean, !relayed.out.is_empty());
                } else if late_usage && self.grace.is_none() {
                    self.grace = Some(Instant::now() + USAGE_GRACE);
                    self.arm();
                } else if flow.relay.lacks_only_its_marker() {
                    // Counted from the last word: of several answers in one, others may still go on.
                    self.grace = Some(Instant::now() + MARKER_GRACE);
                    self.arm();
                }
                relayed.out
            }
            Some(Err(error)) if self.grace.is_none() => {
                self.end(End::Cut { reason: error.to_string() }, false);
                Bytes::new()
            }
            Some(Err(_)) | None => {
                self.end(End::Clean, false);
                Bytes::new()
            }
        };
        Some(out).filter(|out| !out.is_empty())
    }

    /// The provider's answer is over. `more` tells that the last chunk is about to go out.
    fn end(&mut self, end: End, more: bool) {
        self.grace = None;
        let Stage::Flowing(flow) = std::mem::replace(&mut self.stage, Stage::Over) else { return };
        let Flow { body, relay, weight_version, conceal } = flow;
        let mut finished = relay.finish(end);
        if finished.problem.is_some() || finished.error.is_some() {
            finished.out = conceal.bytes(finished.out);
        }
        finished.problem = finished.problem.map(|problem| conceal.text(problem));
        if let Some(error) = &mut finished.error {
            error.message = conceal.text(std::mem::take(&mut error.message));
        }
        let answer = finished.answer;
        match finished.error {
            None => {
                let ending = Ending {
                    outcome: Outcome::Ok,
                    status: 200,
                    error: finished.problem,
                    answer: Some(answer),
                    weight_version,
                };
                self.close(ending, finished.out, Some(body));
            }
            Some(error) if self.sent || more => {
                let error = Some(finished.problem.unwrap_or(error.message));
                let ending = Ending { outcome: Outcome::Cut, status: 200, error, answer: Some(answer), weight_version };
                self.close(ending, finished.out, None);
            }
            Some(error) => self.fail(error.into(), Outcome::Error, Some(answer), weight_version),
        }
    }

    /// Ends without an answer: as an HTTP error while that is possible, else as an error event.
    fn fail(&mut self, failure: Failure, outcome: Outcome, answer: Option<Answer>, weight_version: Option<i64>) {
        let error = Some(failure.error.message.clone());
        if self.sent {
            let event = error_event(self.client, &failure.error);
            self.close(Ending { outcome, status: 200, error, answer, weight_version }, event, None);
        } else {
            let ending = Ending { outcome, status: failure.error.status, error, answer, weight_version };
            self.failure = Some(failure);
            self.close(ending, Bytes::new(), None);
        }
    }

    fn close(&mut self, ending: Ending, last: Bytes, body: Option<ReplyBody>) {
        self.stage = match self.record.take() {
            Some(record) => Stage::Committing { commit: record.close(ending), last, body },
            None => Stage::Over,
        };
    }

    /// Reads the provider's stream to its end, where that comes soon, so that the connection can be used again.
    fn drain(&self, mut body: ReplyBody) {
        self.proxy.deps.tracker.spawn(async move {
            let rest = async { while let Some(Ok(_)) = futures::StreamExt::next(&mut body).await {} };
            // Whatever is not over by then is closed instead.
            let _ = tokio::time::timeout(DRAIN, rest).await;
        });
    }
}

/// An error as the last event of a stream that has begun.
fn error_event(client: Dialect, error: &ApiError) -> Bytes {
    match client {
        Dialect::Chat => [b"data: ", &error.render(client)[..], b"\n\n"].concat().into(),
        Dialect::Messages => [b"event: error\ndata: ", &error.render(client)[..], b"\n\n"].concat().into(),
        // The failed response carries a whole response object, which the relay knows how to make.
        Dialect::Responses => {
            let relay = Relay::new(RelaySpec::new(client, client));
            relay.finish(End::Cut { reason: error.message.clone() }).out
        }
    }
}

impl Body for AgentStream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        this.poll_bytes(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && matches!(self.stage, Stage::Over)
    }
}

impl Drop for AgentStream {
    /// The agent went away: what was said so far is recorded, what is being recorded gets there. Many agents stop
    /// reading when the model has told why it stopped; that is the end of a good answer.
    fn drop(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Flowing(Flow { body, relay, weight_version, conceal }) => {
                drop(body);
                let answered = relay.is_answered();
                let reason = "the agent went away".to_owned();
                let finished = relay.finish(if answered { End::Clean } else { End::Cut { reason: reason.clone() } });
                let problem = finished.problem.map(|problem| conceal.text(problem));
                let (outcome, error) = match finished.error {
                    None => (Outcome::Ok, problem),
                    Some(_) if answered => (Outcome::Cut, problem),
                    Some(_) => (Outcome::Cancelled, Some(reason)),
                };
                if let Some(record) = self.record.take() {
                    let answer = Some(finished.answer);
                    drop(record.close(Ending { outcome, status: 200, error, answer, weight_version }));
                }
            }
            // The record, if it is still open, closes itself; a row under way gets there.
            Stage::Waiting(_) | Stage::Committing { .. } | Stage::Over => {}
        }
    }
}
