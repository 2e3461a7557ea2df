//! `POST /v1/messages/count_tokens`: the provider's own count where it has one, else an estimate; in both cases with what
//! would be added to the request. Called in bursts by editors: never an error of ours, never in the journal.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use dialect::{ApiError, Dialect, Request, count_tokens_estimate};
use tokio::time::Instant;

use crate::Proxy;
use crate::conversation::Conversation;
use crate::forward::{Question, collect, error_response};
use crate::gate::Pass;
use crate::identify::identify;
use crate::inject;
use crate::model::{Endpoint, Route};
use crate::settings::Settings;

/// How long the provider may take to count.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn count_tokens(
    proxy: &Arc<Proxy>,
    settings: &Arc<Settings>,
    parts: &Parts,
    body: Bytes,
    pass: Pass,
) -> Response {
    let client = Dialect::Messages;
    let request = match Request::parse(client, body) {
        Ok(request) => Arc::new(request),
        Err(error) => return error_response(client, &ApiError::from(error).into(), HeaderMap::new()),
    };
    let hints = request.hints();
    let mut who = identify(&parts.headers, &request, &hints);
    who.agent = settings.agent_of(who.agent, &pass);
    let talk = Conversation::of(&request, None, who.chain);
    let session = proxy.sessions.whereabouts(&who, &talk, Instant::now());
    let older = crate::recall::older(proxy, &session, &talk).await;
    let mut place = proxy.sessions.preview(&session, &who, &talk, &older);
    place.scope = settings.memory_of(&place.scope, &who.agent, place.group.then_some(&*session));
    let knowledge = &*proxy.deps.knowledge;
    let now_ms = proxy.deps.clock.now_ms();
    let asking = inject::Asking { place: &place, agent: &who.agent, headers: &parts.headers, now_ms, random: 0 };
    if let Some((index, _)) = place.open
        && let Some(ask) = inject::question(&request, index, &asking, knowledge, settings)
    {
        let made = inject::make(knowledge, &ask, settings.placement).await;
        place.current = made.and_then(|made| made.text).map(Into::into);
    }
    let question = Question {
        request: request.clone(),
        place,
        trigger: talk.trigger,
        placement: settings.placement,
        headers: parts.headers.clone(),
        pass,
        query: parts.uri.query().map(str::to_owned),
        endpoint: Endpoint::CountTokens,
    };
    let upstream = proxy.deps.upstream.load_full();
    if let Ok(route) = &*upstream
        && route.primary.dialect_for(client) == client
        && let Some(counted) = ask(&question, route).await
    {
        return json(counted);
    }
    let added = question.place.put_back.iter().map(|(_, text)| text).chain(&question.place.current);
    let added: u64 = added.map(|text| u64::from(dialect::estimate_tokens(text))).sum();
    json(serde_json::json!({ "input_tokens": count_tokens_estimate(&request) + added }).to_string().into())
}

/// The provider's count, if it gives one in time.
async fn ask(question: &Question, route: &Route) -> Option<Bytes> {
    let answer = async {
        let (_, result) = question.ask_one(&route.primary).await;
        let body = collect(result.ok()?.reply.body, 1 << 20, PATIENCE).await.ok()?;
        let count: serde_json::Value = serde_json::from_slice(&body).ok()?;
        count.get("input_tokens")?.is_u64().then_some(body)
    };
    tokio::time::timeout(PATIENCE, answer).await.ok().flatten()
}

fn json(body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
