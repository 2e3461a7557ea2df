//! The door and the signposts of the agent port: gate, size limit, and which path leads where.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ALLOW, CONTENT_LENGTH,
    CONTENT_TYPE, VARY,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use dialect::{ApiError, Dialect, ErrorKind};
use http_body_util::{BodyExt, Limited};

use crate::forward::error_response;
use crate::gate::{self, Pass, Refusal};
use crate::headers::HOP_HEADER;
use crate::settings::Settings;
use crate::{Proxy, converse, count, list, other};

/// How long an agent may take to send its body.
const BODY_PATIENCE: Duration = Duration::from_secs(120);

/// Where a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door<'a> {
    Health,
    Generate(Dialect),
    CountTokens,
    Models(Option<&'a str>),
    /// `/v1/memory/…` and `/v1/admin/…`, which old MetaClaw clients know.
    Own(&'a str),
    /// Anything else of the provider's, without `/v1`.
    Provider(&'a str),
    Nowhere,
}

impl<'a> Door<'a> {
    fn at(path: &'a str) -> Self {
        if path == "/healthz" {
            return Self::Health;
        }
        // Base URLs with and without `/v1` are in use; some clients add it to one that has it.
        let mut rest = path;
        while let Some(shorter) = rest.strip_prefix("/v1").filter(|r| r.is_empty() || r.starts_with('/')) {
            rest = shorter;
        }
        let versioned = rest.len() < path.len();
        match rest.strip_suffix('/').unwrap_or(rest) {
            "/chat/completions" => Self::Generate(Dialect::Chat),
            "/responses" => Self::Generate(Dialect::Responses),
            "/messages" => Self::Generate(Dialect::Messages),
            "/messages/count_tokens" => Self::CountTokens,
            "/models" => Self::Models(None),
            _ if !versioned => Self::Nowhere,
            "" => Self::Nowhere,
            own if own.starts_with("/memory") || own.starts_with("/admin/") => Self::Own(own),
            model if model.starts_with("/models/") => Self::Models(model.strip_prefix("/models/")),
            other => Self::Provider(other),
        }
    }

    fn allowed(self) -> Option<&'static str> {
        match self {
            Self::Health | Self::Models(_) => Some("GET, HEAD"),
            Self::Generate(_) | Self::CountTokens => Some("POST"),
            Self::Own(_) | Self::Provider(_) | Self::Nowhere => None,
        }
    }
}

/// A path in its usual spelling, so that none leads round the door it belongs to: letters, digits and `-._~` stand for
/// themselves, empty and `.` segments are nothing. What then still leads upwards is refused where it would go out.
fn plainly(path: &str) -> Cow<'_, str> {
    let odd = path.contains('%') || path.contains("//") || path.contains("/.");
    if !odd {
        return Cow::Borrowed(path);
    }
    let mut decoded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        let (before, escape) = rest.split_at(at);
        decoded.push_str(before);
        let code = escape.get(1..3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let itself = code.map(char::from).filter(|c| c.is_ascii_alphanumeric() || "-._~".contains(*c));
        decoded.push(itself.unwrap_or('%'));
        rest = &escape[if itself.is_some() { 3 } else { 1 }..];
    }
    decoded.push_str(rest);
    let mut plain = String::with_capacity(decoded.len());
    for segment in decoded.split('/').filter(|segment| !segment.is_empty() && *segment != ".") {
        plain.push('/');
        plain.push_str(segment);
    }
    if plain.is_empty() || decoded.ends_with('/') {
        plain.push('/');
    }
    Cow::Owned(plain)
}

/// The dialect in which errors on this path are told.
pub(crate) fn dialect_of(path: &str, headers: &HeaderMap) -> Dialect {
    if path.contains("/messages") || headers.contains_key("anthropic-version") {
        Dialect::Messages
    } else if path.contains("/responses") {
        Dialect::Responses
    } else {
        Dialect::Chat
    }
}

/// Answers every request on the agent port.
pub(crate) async fn serve(State(proxy): State<Arc<Proxy>>, request: Request) -> Response {
    let settings = proxy.deps.settings.load_full();
    let (parts, body) = request.into_parts();
    let page = gate::listed_origin(&parts.headers, &settings);
    let mut response = match &page {
        // A browser asks before it sends; it brings no key yet.
        Some(_) if parts.method == Method::OPTIONS && gate::check_source(&parts, &settings).is_ok() => {
            preflight(&parts.headers)
        }
        _ => answer(proxy, settings, parts, body).await,
    };
    if let Some(page) = page {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, page);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        headers.append(VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// The answer to a page from a configured origin that asks whether it may send.
fn preflight(asked: &HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if let Some(names) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    response
}

async fn answer(proxy: Arc<Proxy>, settings: Arc<Settings>, parts: Parts, body: Body) -> Response {
    let (path_key, path) = gate::split_path_key(&parts.uri);
    let path = &*plainly(path);
    let dialect = dialect_of(path, &parts.headers);
    let refuse = |refusal: Refusal| refuse(dialect, &parts, refusal);
    if let Err(refusal) = gate::check_source(&parts, &settings) {
        return refuse(refusal);
    }
    let door = Door::at(path);
    if door == Door::Health && is_read(&parts.method) {
        return health();
    }
    // Asked before the key: what comes back here carries the provider's.
    if parts.headers.get_all(HOP_HEADER).iter().any(|hop| hop.as_bytes() == proxy.deps.hop.as_bytes()) {
        let message =
            "this request came from this proxy: llm.api_base leads back here; set it to the provider's address";
        return error_response(
            dialect,
            &ApiError::new(508, ErrorKind::InvalidRequest, message).into(),
            HeaderMap::new(),
        );
    }
    let typed = gate::check_type(&parts, matches!(door, Door::Provider(_)), &settings);
    let pass = match typed.and_then(|()| gate::check_caller(&parts, path_key, &settings)) {
        Ok(pass) => pass,
        Err(refusal) => return refuse(refusal),
    };
    if let Some(methods) = door.allowed()
        && !methods.split(", ").any(|m| m == parts.method.as_str())
    {
        let message = format!("{} is not possible on {path}; use {methods}", parts.method);
        let allow = HeaderMap::from_iter([(ALLOW, HeaderValue::from_static(methods))]);
        return error_response(dialect, &ApiError::new(405, ErrorKind::InvalidRequest, message).into(), allow);
    }
    let body = match read_body(&parts, body, &settings).await {
        Ok(body) => body,
        Err(error) => return error_response(dialect, &error.into(), HeaderMap::new()),
    };
    route(proxy, settings, parts, body, pass, dialect).await
}

async fn route(
    proxy: Arc<Proxy>,
    settings: Arc<Settings>,
    parts: Parts,
    body: Bytes,
    pass: Pass,
    dialect: Dialect,
) -> Response {
    let (_, path) = gate::split_path_key(&parts.uri);
    let path = &*plainly(path);
    match Door::at(path) {
        Door::Generate(client) => converse::converse(proxy, settings, client, parts, body, pass).await,
        Door::CountTokens => count::count_tokens(&proxy, &settings, &parts, body, pass).await,
        Door::Models(model) => list::models(&proxy, dialect, model, &parts, pass).await,
        Door::Own(path) => other::own(&proxy, &settings, path, &parts, body, pass).await,
        Door::Provider(path) => other::pass_through(&proxy, dialect, path, &parts, body, pass).await,
        Door::Health | Door::Nowhere => nowhere(dialect, &parts.method, path),
    }
}

/// No such route.
pub(crate) fn nowhere(dialect: Dialect, method: &Method, path: &str) -> Response {
    let message = format!(
        "there is no {method} {path} here; agents use /v1/chat/completions, /v1/responses, /v1/messages or /v1/models"
    );
    error_response(dialect, &ApiError::new(404, ErrorKind::NotFound, message).into(), HeaderMap::new())
}

fn is_read(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

fn health() -> Response {
    const BODY: &str = concat!("{\"ok\":true,\"status\":\"live\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}");
    let mut response = Response::new(Body::from(BODY));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn refuse(dialect: Dialect, parts: &Parts, refusal: Refusal) -> Response {
    tracing::debug!(method = %parts.method, %refusal, "request refused");
    error_response(dialect, &refusal.api_error().into(), HeaderMap::new())
}

/// Small bodies are cut out of the connection's read buffer: as long as they live, the connection would need another one.
fn own(body: Bytes) -> Bytes {
    const READ_BUFFER: usize = 8192;
    if body.len() < READ_BUFFER { Bytes::copy_from_slice(&body) } else { body }
}

async fn read_body(parts: &Parts, body: Body, settings: &Settings) -> Result<Bytes, ApiError> {
    let too_large = || {
        let message = format!(
            "the request is larger than {} MiB; raise proxy.max_body_mb in config.yaml if that is what you want",
            settings.max_body_bytes >> 20
        );
        ApiError::new(413, ErrorKind::TooLarge, message)
    };
    let announced = parts.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    if announced.is_some_and(|n| n > settings.max_body_bytes as u64) {
        return Err(too_large());
    }
    let limited = Limited::new(body, settings.max_body_bytes);
    match tokio::time::timeout(BODY_PATIENCE, limited.collect()).await {
        Ok(Ok(body)) => Ok(own(body.to_bytes())),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => {
            Err(ApiError::new(400, ErrorKind::InvalidRequest, format!("the request body broke off: {error}")))
        }
        Err(_) => Err(ApiError::new(408, ErrorKind::Timeout, "the request body did not arrive in time")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("/healthz", Door::Health)]
    #[case("/v1/chat/completions", Door::Generate(Dialect::Chat))]
    #[case("/chat/completions", Door::Generate(Dialect::Chat))]
    #[case("/v1/v1/messages", Door::Generate(Dialect::Messages))]
    #[case("/v1/responses/", Door::Generate(Dialect::Responses))]
    #[case("/v1/responses/resp_1", Door::Provider("/responses/resp_1"))]
    #[case("/v1/messages/count_tokens", Door::CountTokens)]
    #[case("/v1/messages/batches", Door::Provider("/messages/batches"))]
    #[case("/v1/models", Door::Models(None))]
    #[case("/v1/models/org/name", Door::Models(Some("org/name")))]
    #[case("/v1/memory/stats", Door::Own("/memory/stats"))]
    #[case("/v1/admin/train_step", Door::Own("/admin/train_step"))]
    #[case("/v1/embeddings", Door::Provider("/embeddings"))]
    #[case("/v1", Door::Nowhere)]
    #[case("/v10/models", Door::Nowhere)]
    #[case("/api/v1/models", Door::Nowhere)]
    #[case("/embeddings", Door::Nowhere)]
    #[case("/", Door::Nowhere)]
    #[case("/v1/./chat/completions", Door::Generate(Dialect::Chat))]
    #[case("/v1/chat/completions//", Door::Generate(Dialect::Chat))]
    #[case("/v1//chat//completions/.", Door::Generate(Dialect::Chat))]
    #[case("/%761/%63hat/%2e/completion%73", Door::Generate(Dialect::Chat))]
    #[case("/v1/messages/%63ount_tokens", Door::CountTokens)]
    #[case("/v1/files/%2e%2e/x", Door::Provider("/files/../x"))]
    #[case("/v1/files/a%20b%2Fc%zz%4", Door::Provider("/files/a%20b%2Fc%zz%4"))]
    #[case("/v1/chat%2fcompletions", Door::Provider("/chat%2fcompletions"))]
    #[case("/v1/files/.hidden", Door::Provider("/files/.hidden"))]
    #[case("/v1/.", Door::Nowhere)]
    #[case("//", Door::Nowhere)]
    fn paths_lead(#[case] path: &str, #[case] door: Door<'_>) {
        assert_eq!(Door::at(&plainly(path)), door);
    }
}
