//! Everything on the agent port that is no conversation: the provider's other endpoints, passed through as they are, and
//! the routes old MetaClaw clients know.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use dialect::{ApiError, Dialect, ErrorKind};

use crate::Proxy;
use crate::conceal::Conceal;
use crate::forward::{ERROR_PATIENCE, MAX_ERROR, collect, compressed, error_response};
use crate::gate::Pass;
use crate::headers::{credentials, to_agent, to_upstream};
use crate::identify::agent_name;
use crate::memory_routes::OwnCall;
use crate::model::{Call, Endpoint, Model};
use crate::serve::nowhere;
use crate::settings::Settings;
use crate::stream::Failure;

/// Routes of MetaClaw's own that old clients know.
pub(crate) async fn own(
    proxy: &Proxy,
    settings: &Settings,
    path: &str,
    parts: &Parts,
    body: Bytes,
    pass: Pass,
) -> Response {
    let query = axum::extract::Query::try_from_uri(&parts.uri).map(|query| query.0).unwrap_or_default();
    let now_ms = proxy.deps.clock.now_ms();
    let said = || agent_name(&parts.headers, Dialect::Chat);
    let agent = (!settings.memory_is_shared).then(|| settings.agent_of(said(), &pass));
    let call = OwnCall { method: parts.method.clone(), path: path.to_owned(), query, body, now_ms, agent };
    if let Some(answer) = proxy.deps.knowledge.serve(&call).await {
        let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return json_response(status, &answer.body);
    }
    let detail = if path.starts_with("/memory") {
        "memory not enabled"
    } else if path == "/admin/train_step" {
        "no trainer: training is not running"
    } else {
        return detail(StatusCode::NOT_FOUND, "Not Found");
    };
    self::detail(StatusCode::SERVICE_UNAVAILABLE, detail)
}

fn detail(status: StatusCode, text: &str) -> Response {
    json_response(status, &serde_json::json!({ "detail": text }))
}

fn json_response(status: StatusCode, body: &serde_json::Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The dialect in which the upstream serves this path, if it does.
fn served_as(model: &dyn Model, path: &str, client: Dialect) -> Option<Dialect> {
    let wanted: &[Dialect] = if path.starts_with("/messages") {
        &[Dialect::Messages]
    } else if path.starts_with("/responses") || path.starts_with("/conversations") {
        &[Dialect::Responses]
    } else if client == Dialect::Messages {
        &[Dialect::Messages]
    } else {
        &[Dialect::Chat, Dialect::Responses]
    };
    wanted.iter().copied().find(|dialect| model.dialect_for(*dialect) == *dialect)
}

/// A path the provider's own address is joined with: nothing in it may lead elsewhere.
fn is_plain(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    !["..", "%2e", "//", "\\", "%5c", "%2f", ";"].iter().any(|odd| lower.contains(odd))
}

/// Hands a request to the provider as it is, and its answer back.
pub(crate) async fn pass_through(
    proxy: &Arc<Proxy>,
    client: Dialect,
    path: &str,
    parts: &Parts,
    body: Bytes,
    pass: Pass,
) -> Response {
    let upstream = proxy.deps.upstream.load_full();
    let Ok(route) = &*upstream else { return nowhere(client, &parts.method, &format!("/v1{path}")) };
    let model = &route.primary;
    let Some(dialect) = served_as(&**model, path, client).filter(|_| is_plain(path)) else {
        let message = format!("{} does not serve /v1{path}", model.name());
        return error_response(client, &ApiError::new(404, ErrorKind::NotFound, message).into(), HeaderMap::new());
    };
    let mut headers = to_upstream(&parts.headers, true);
    if !body.is_empty() {
        copy(&parts.headers, &mut headers);
    }
    let call = Call {
        endpoint: Endpoint::Other { method: parts.method.clone(), path: path.to_owned() },
        dialect,
        query: parts.uri.query().map(str::to_owned),
        body,
        stream: false,
        headers,
        credentials: caller_credentials(&**model, parts, pass),
    };
    let conceal = Conceal::new(model, call.credentials.clone());
    match model.send(call).await {
        Ok(reply) => {
            let mut headers = to_agent(&reply.headers, true);
            copy(&reply.headers, &mut headers);
            let body = if reply.status.is_success() {
                Body::from_stream(reply.body)
            } else if let Some(error) = compressed(&reply, model.name()) {
                return error_response(client, &error.into(), to_agent(&reply.headers, true));
            } else {
                // What a provider says about a key it refuses holds the key.
                let told = collect(reply.body, MAX_ERROR, ERROR_PATIENCE).await;
                Body::from(conceal.bytes(told.unwrap_or_default()))
            };
            let mut response = Response::new(body);
            *response.status_mut() = reply.status;
            *response.headers_mut() = headers;
            response
        }
        Err(error) => error_response(client, &Failure::from(error), HeaderMap::new()),
    }
}

/// What says how a body is to be read goes with it, both ways.
fn copy(from: &HeaderMap, to: &mut HeaderMap) {
    for name in [CONTENT_TYPE, CONTENT_ENCODING] {
        if let Some(value) = from.get(&name) {
            to.insert(name, value.clone());
        }
    }
}

/// The agent's own credentials, if this upstream takes those.
pub(crate) fn caller_credentials(model: &dyn Model, parts: &Parts, pass: Pass) -> Vec<(&'static str, HeaderValue)> {
    if model.takes_caller_credentials() { credentials(&parts.headers, pass) } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_off_the_providers_address() {
        for odd in ["/../admin", "/a/%2e%2e/b", "/a//evil.com", "/a\\b", "/%2Fevil", "/x/..", "/chat/completions;a=b"] {
            assert!(!is_plain(odd), "{odd}");
        }
        for plain in ["/embeddings", "/responses/resp_1/cancel", "/files/file-abc.jsonl"] {
            assert!(is_plain(plain), "{plain}");
        }
    }
}
