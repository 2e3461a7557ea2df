//! One request for an answer, from its head to its last byte: identify, inject, forward, stream, record. The path of
//! every chat completion, response and message.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use dialect::{ApiError, Dialect, ErrorKind, Relay, RelaySpec, Request, failed_run, relay_whole, user_words};
use futures::FutureExt;
use store::{NewTurn, Outcome};
use tokio::time::Instant;

use crate::Proxy;
use crate::conversation::Conversation;
use crate::forward::{Question, collect_answer, error_response};
use crate::gate::Pass;
use crate::identify::{Who, automatic_id, identify, session_number};
use crate::inject;
use crate::model::{Endpoint, Route};
use crate::record::{Ending, Record, Recorded, micros};
use crate::sessions::Place;
use crate::settings::Settings;
use crate::stream::{AgentStream, Beginning, Begun, Failure, Flow, STOPPED};

/// The session a request belongs to.
pub const SESSION_HEADER: &str = "x-metaclaw-session";
/// The user turn within the session, from 1.
pub const TURN_HEADER: &str = "x-metaclaw-turn";
/// What the user should know about this answer.
pub const WARNING_HEADER: &str = "x-metaclaw-warning";

/// A request that was read and found its session.
struct Turn {
    proxy: Arc<Proxy>,
    settings: Arc<Settings>,
    question: Question,
    record: Record,
    session: Arc<str>,
    turn_no: u32,
    echo: bool,
    now_ms: i64,
}

/// Answers a request for an answer.
pub(crate) async fn converse(
    proxy: Arc<Proxy>,
    settings: Arc<Settings>,
    client: Dialect,
    parts: Parts,
    body: Bytes,
    pass: Pass,
) -> Response {
    let started = Instant::now();
    let request = match Request::parse(client, body) {
        Ok(request) => request,
        Err(error) => return error_response(client, &ApiError::from(error).into(), HeaderMap::new()),
    };
    let upstream = proxy.deps.upstream.load_full();
    let route = match &*upstream {
        Ok(route) => route.clone(),
        Err(todo) => {
            let mut error = ApiError::new(503, ErrorKind::Overloaded, todo.clone());
            error.code = Some("not_configured".to_owned());
            return error_response(client, &error.into(), HeaderMap::new());
        }
    };
    let mut turn = enter(proxy, settings, request, parts, pass, started).await;
    turn.record.asked(&turn.question.first_asked(&route));
    turn.record.timings.prepare_us = micros(started.elapsed());
    if turn.question.request.stream() { turn.stream(route).await } else { turn.whole(route).await }
}

/// Finds the session, opens the record, decides what is added.
async fn enter(
    proxy: Arc<Proxy>,
    settings: Arc<Settings>,
    request: Request,
    parts: Parts,
    pass: Pass,
    started: Instant,
) -> Turn {
    let client = request.dialect();
    let hints = request.hints();
    let mut who = identify(&parts.headers, &request, &hints);
    who.agent = settings.agent_of(who.agent, &pass);
    let talk = Conversation::of(&request, hints.previous_response_id.as_deref(), who.chain);
    let now_ms = proxy.deps.clock.now_ms();
    let session = proxy.session_of(&who, &talk, &request).await;
    let older = crate::recall::older(&proxy, &session, &talk).await;
    let mut place = proxy.sessions.enter(&session, &who, &talk, &older, started);
    place.scope = settings.memory_of(&place.scope, &who.agent, place.group.then_some(&*session));
    drop(older);
    let mut row = row(&request, &parts, &who, &place, &talk, now_ms);
    row.skill_generation = proxy.deps.knowledge.generation(&who.agent);
    let sent = request.bytes().clone();
    let echo = who.echo;
    let agent = who.agent.clone();
    let trigger = talk.trigger;
    // From here on the record closes itself, whatever happens.
    let mut record = Record::open(&proxy, &settings, &session, who, talk, client, started, row, sent);
    if let Some((index, key)) = place.open {
        let knowledge = &*proxy.deps.knowledge;
        let random = proxy.deps.clock.random();
        let asking = inject::Asking { place: &place, agent: &agent, headers: &parts.headers, now_ms, random };
        let made = match inject::question(&request, index, &asking, knowledge, &settings) {
            Some(ask) => inject::make(knowledge, &ask, settings.placement).await,
            None => None,
        };
        let decision = made.as_ref().map(|made| made.text.as_deref().map(Arc::<str>::from));
        let (used, ours) = proxy.sessions.decide(&session, key, decision.flatten());
        // Another request of the same turn may have been quicker; then its text counts, and its row tells of it.
        if let Some((made, turn)) = made.zip(record.turn()).filter(|_| ours) {
            turn.additions = made.additions;
            turn.held_out = made.held_out;
            // Without text: nobody decides anew for this message, not after a restart either.
            let text = used.as_deref().map(str::to_owned).unwrap_or_default();
            turn.block = Some(store::Block { message_hash: key.hash, occurrence: key.occurrence, text });
        }
        place.current = used;
    }
    let turn_no = place.turn_no;
    let question = Question {
        request: Arc::new(request),
        place,
        trigger,
        placement: settings.placement,
        headers: parts.headers,
        pass,
        query: parts.uri.query().map(str::to_owned),
        endpoint: Endpoint::Generate,
    };
    Turn { proxy, settings, question, record, session, turn_no, echo, now_ms }
}

/// What the journal row says before anybody was asked.
fn row(request: &Request, parts: &Parts, who: &Who, place: &Place, talk: &Conversation, now_ms: i64) -> NewTurn {
    let main = who.kind.is_main();
    let words = |(index, _): (usize, _)| user_words(&request.message_text(index)).into_owned();
    NewTurn {
        session: place.session.to_string(),
        agent: Some(who.agent.to_string()),
        kind: who.kind.clone(),
        turn_no: place.turn_no,
        step: place.step,
        dialect: request.dialect().as_str().into(),
        model_asked: request.model().map(std::borrow::Cow::into_owned),
        started_ms: now_ms,
        finished_ms: now_ms,
        headers: crate::headers::to_journal(&parts.headers),
        user_text: talk.trigger.filter(|_| main).map(words).filter(|text| !text.is_empty()),
        prior_state: talk.prior().filter(|_| main),
        scope: place.scope.clone(),
        ..NewTurn::default()
    }
}

impl Turn {
    fn spec(&self) -> RelaySpec {
        let request = &self.question.request;
        let client = request.dialect();
        RelaySpec {
            client_wants_usage: request.wants_usage(),
            session_id: self.echo.then(|| self.session.to_string()),
            request_model: request.model().map(std::borrow::Cow::into_owned),
            now: self.now_ms / 1000,
            fallback_id: format!("mc{:016x}", self.proxy.deps.clock.random()),
            ..RelaySpec::new(client, client)
        }
    }

    /// Headers of our own on every answer.
    fn tags(&self) -> Tags {
        Tags { session: header(&self.session), turn: HeaderValue::from(self.turn_no) }
    }

    async fn stream(self, route: Route) -> Response {
        let (spec, tags) = (self.spec(), self.tags());
        let Self { proxy, settings, question, record, .. } = self;
        let client = question.client();
        let asking = {
            let proxy = proxy.clone();
            async move {
                let (head, result) = question.ask(&proxy, &route).await;
                let result = result.map(|answering| {
                    let upstream = answering.dialect;
                    let custom_tools = custom_tools(&question, upstream);
                    let relay = Box::new(Relay::new(RelaySpec { upstream, custom_tools, ..spec }));
                    let reply = answering.reply;
                    Flow { body: reply.body, relay, weight_version: reply.weight_version, conceal: answering.conceal }
                });
                Begun { head, result }
            }
            .boxed()
        };
        let mut stream =
            AgentStream::new(proxy.clone(), client, record, asking, settings.keepalive, settings.stream_idle);
        match stream.begin().await {
            Beginning::Flows => {
                let mut headers = std::mem::take(&mut stream.headers);
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
                headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
                headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
                tags.put(&mut headers, &proxy, None);
                let mut response = Response::new(Body::new(stream));
                *response.headers_mut() = headers;
                response
            }
            Beginning::Failed(failure, recorded) => {
                let mut headers = std::mem::take(&mut stream.headers);
                tags.put(&mut headers, &proxy, Some(&recorded));
                error_response(client, &failure, headers)
            }
        }
    }

    async fn whole(self, route: Route) -> Response {
        let (spec, tags) = (self.spec(), self.tags());
        let Self { proxy, settings, question, mut record, .. } = self;
        let client = question.client();
        let cancel = proxy.deps.cancel.clone();
        let mut headers = HeaderMap::new();
        let mut weight_version = None;
        let answering = async {
            let (head, result) = question.ask(&proxy, &route).await;
            record.asked(&head);
            headers = head.headers;
            let answering = result?;
            record.first_byte();
            weight_version = answering.reply.weight_version;
            let upstream = answering.dialect;
            let custom_tools = custom_tools(&question, upstream);
            let spec = RelaySpec { upstream, custom_tools, ..spec };
            let body = collect_answer(answering.reply.body, settings.stream_idle).await;
            let answer = body
                .map_err(|reason| (broken(reason), None))
                .and_then(|body| relay_whole(&spec, &body).map_err(|error| (error, failed_run(&spec, &body))));
            answer.map_err(|(mut error, run)| {
                error.message = answering.conceal.text(error.message);
                if run.is_some() {
                    error.status = 200;
                }
                Failure { error, raw: run.map(|run| answering.conceal.bytes(run)) }
            })
        };
        let (answer, failed) = tokio::select! {
            biased;
            answer = answering => (answer, Outcome::Error),
            () = cancel.cancelled() => {
                let error = ApiError::new(503, ErrorKind::Overloaded, STOPPED);
                (Err(Failure::from(error)), Outcome::Cut)
            }
        };
        match answer {
            Ok((body, answer)) => {
                let ending =
                    Ending { outcome: Outcome::Ok, status: 200, error: None, answer: Some(answer), weight_version };
                let recorded = record.close(ending).await;
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                tags.put(&mut headers, &proxy, Some(&recorded));
                let mut response = Response::new(Body::from(body));
                *response.headers_mut() = headers;
                response
            }
            Err(failure) => {
                let ending = Ending {
                    outcome: failed,
                    status: failure.error.status,
                    error: Some(failure.error.message.clone()),
                    answer: None,
                    weight_version,
                };
                let recorded = record.close(ending).await;
                tags.put(&mut headers, &proxy, Some(&recorded));
                error_response(client, &failure, headers)
            }
        }
    }
}

fn broken(reason: String) -> ApiError {
    ApiError::new(502, ErrorKind::Upstream, reason)
}

fn custom_tools(question: &Question, upstream: Dialect) -> Vec<String> {
    if upstream == question.client() { Vec::new() } else { dialect::custom_tools(&question.request) }
}

struct Tags {
    session: HeaderValue,
    turn: HeaderValue,
}

impl Tags {
    fn put(self, headers: &mut HeaderMap, proxy: &Proxy, recorded: Option<&Recorded>) {
        headers.insert(HeaderName::from_static(SESSION_HEADER), self.session);
        headers.insert(HeaderName::from_static(TURN_HEADER), self.turn);
        let lost = match recorded {
            Some(Err(error)) => Some(header(&format!("this turn was {error}"))),
            Some(Ok(())) => None,
            None => proxy
                .is_journal_failing()
                .then(|| HeaderValue::from_static("turns do not get into the journal; see `metaclaw logs`")),
        };
        if let Some(lost) = lost {
            headers.insert(HeaderName::from_static(WARNING_HEADER), lost);
        }
    }
}

/// Any text as a header value: what a header cannot carry becomes `?`.
fn header(text: &str) -> HeaderValue {
    let plain: String = text.chars().map(|c| if c == ' ' || c.is_ascii_graphic() { c } else { '?' }).collect();
    HeaderValue::from_str(&plain).unwrap_or(HeaderValue::from_static("?"))
}

impl Proxy {
    /// The session a request belongs to: in memory, in the journal, or a new one.
    async fn session_of(&self, who: &Who, talk: &Conversation, request: &Request) -> Arc<str> {
        crate::recall::session_of(self, who, talk, || {
            let clock = &self.deps.clock;
            let number = session_number(clock.now_ms(), clock.random(), &self.last_session);
            automatic_id(request.model().as_deref(), number)
        })
        .await
    }
}
