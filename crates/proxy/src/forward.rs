//! From a request and what is added to it to a provider's answer: builds the body in the provider's dialect, asks, asks
//! the fallback where there is one, and sorts what comes back into an answer or an error in the agent's form.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use bytes::{Bytes, BytesMut};
use config::Placement;
use dialect::{ApiError, ApiErrorOrRaw, Dialect, ErrorKind, Request, translate_request, upstream_error};
use futures::StreamExt;

use crate::conceal::Conceal;
use crate::conversation::TurnKey;
use crate::events::Event;
use crate::gate::Pass;
use crate::headers::{self, to_agent, to_upstream};
use crate::model::{Call, Endpoint, Model, ModelError, Reply, ReplyBody, Route};
use crate::sessions::Place;
use crate::stream::Failure;
use crate::{Proxy, inject};

/// Most bytes of an error body that are read.
pub(crate) const MAX_ERROR: usize = 1 << 20;
/// Most bytes of a whole answer.
const MAX_ANSWER: usize = 256 << 20;
/// How long the rest of an error body may take.
pub(crate) const ERROR_PATIENCE: Duration = Duration::from_secs(10);

/// Everything it takes to ask a model, or another one after it.
pub(crate) struct Question {
    pub(crate) request: Arc<Request>,
    pub(crate) place: Place,
    pub(crate) trigger: Option<(usize, TurnKey)>,
    pub(crate) placement: Placement,
    pub(crate) headers: HeaderMap,
    pub(crate) pass: Pass,
    pub(crate) query: Option<String>,
    pub(crate) endpoint: Endpoint,
}

/// Who answered, for journal and headers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    /// Headers for the agent.
    pub(crate) headers: HeaderMap,
    /// Name of the provider.
    pub(crate) upstream: Option<Arc<str>>,
    /// Its dialect.
    pub(crate) dialect: Option<Dialect>,
    /// The model it was asked for.
    pub(crate) model: Option<String>,
}

/// An answer that begins.
pub(crate) struct Answering {
    pub(crate) dialect: Dialect,
    pub(crate) reply: Reply,
    /// For errors that are found in the answer itself.
    pub(crate) conceal: Conceal,
}

impl Question {
    /// The dialect the agent speaks.
    pub(crate) fn client(&self) -> Dialect {
        self.request.dialect()
    }

    /// The body for a model, and the model id in it.
    fn body_for(&self, model: &dyn Model, dialect: Dialect) -> Result<(Bytes, Option<String>), ApiError> {
        let asked = self.request.model();
        let chosen = model.model_for(asked.as_deref()).map(std::borrow::Cow::into_owned);
        let same = dialect == self.client();
        let mut edit = self.request.edit();
        if let Some(id) = &chosen {
            edit.set_model(id);
        }
        edit.strip_aliases();
        inject::apply(&mut edit, &self.place, self.trigger, self.placement);
        if same {
            if self.endpoint == Endpoint::Generate && model.quirks().stream_usage {
                edit.request_usage();
            }
            edit.apply_quirks(model.quirks());
            edit.unpack_reasoning();
            return Ok((edit.finish(), chosen));
        }
        let edited = Request::parse(self.client(), edit.finish())?;
        let body = translate_request(&edited, dialect, model.quirks())?;
        Ok((body, chosen))
    }

    fn call(&self, model: &dyn Model) -> Result<(Call, Head), ApiError> {
        let dialect = model.dialect_for(self.client());
        let same = dialect == self.client();
        let (body, chosen) = self.body_for(model, dialect)?;
        let credentials = match model.takes_caller_credentials() {
            false => Vec::new(),
            true if same => headers::credentials(&self.headers, self.pass),
            true => headers::translated(headers::credentials(&self.headers, self.pass), dialect),
        };
        let call = Call {
            endpoint: self.endpoint.clone(),
            dialect,
            query: self.query.clone().filter(|_| same),
            body,
            stream: self.request.stream(),
            headers: to_upstream(&self.headers, same),
            credentials,
        };
        let head = Head {
            headers: HeaderMap::new(),
            upstream: Some(model.name().clone()),
            dialect: Some(dialect),
            model: chosen,
        };
        Ok((call, head))
    }

    /// Who is asked first, as far as that is known before it answers.
    pub(crate) fn first_asked(&self, route: &Route) -> Head {
        let model = &*route.primary;
        let asked = self.request.model();
        Head {
            headers: HeaderMap::new(),
            upstream: Some(model.name().clone()),
            dialect: Some(model.dialect_for(self.client())),
            model: model.model_for(asked.as_deref()).map(std::borrow::Cow::into_owned),
        }
    }

    /// Asks one model. Errors of the provider come back as failures in the agent's form.
    pub(crate) async fn ask_one(&self, model: &Arc<dyn Model>) -> (Head, Result<Answering, Failure>) {
        let (call, mut head) = match self.call(&**model) {
            Ok(both) => both,
            Err(error) => return (Head::default(), Err(error.into())),
        };
        let dialect = call.dialect;
        let same = dialect == self.client();
        let conceal = Conceal::new(model, call.credentials.clone());
        let reply = match model.send(call).await {
            Ok(reply) => reply,
            Err(error) => return (head, Err(error.into())),
        };
        head.headers = to_agent(&reply.headers, same);
        if reply.status.is_success() {
            if let Some(error) = compressed(&reply, model.name()) {
                return (head, Err(error.into()));
            }
            return (head, Ok(Answering { dialect, reply, conceal }));
        }
        let failure = refused(dialect, self.client(), reply, model.name(), &conceal).await;
        (head, Err(failure))
    }

    /// Asks the main model, and the fallback if that one cannot answer.
    pub(crate) async fn ask(&self, proxy: &Proxy, route: &Route) -> (Head, Result<Answering, Failure>) {
        let (head, result) = self.ask_one(&route.primary).await;
        let (failure, fallback) = match (result, &route.fallback) {
            (Err(failure), Some(fallback)) if worth_another(&failure, &*route.primary) => (failure, fallback),
            (result, _) => return (head, result),
        };
        let reason = failure.error.message.clone();
        tracing::warn!(from = %route.primary.name(), to = %fallback.name(), %reason, "asking the fallback");
        proxy.emit(Event::FallbackUsed { from: route.primary.name().clone(), to: fallback.name().clone(), reason });
        match self.ask_one(fallback).await {
            (second, Ok(answering)) => (second, Ok(answering)),
            // The first provider's word is the one the user can act on.
            (_, Err(_)) => (head, Err(failure)),
        }
    }
}

/// Whether another provider may do better.
fn worth_another(failure: &Failure, model: &dyn Model) -> bool {
    match failure.error.status {
        401 | 403 => !model.takes_caller_credentials(),
        402 | 404 | 408 | 429 => true,
        status => status >= 500,
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        let (status, kind) = match &error {
            ModelError::Timeout { .. } => (504, ErrorKind::Timeout),
            ModelError::Unreachable { .. } | ModelError::Broken { .. } => (502, ErrorKind::Upstream),
        };
        ApiError::new(status, kind, error.to_string()).into()
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self { error, raw: None }
    }
}

/// The error for an answer that came compressed, which nobody asked for: neither its words nor a key in it can be seen.
pub(crate) fn compressed(reply: &Reply, name: &str) -> Option<ApiError> {
    let coding = headers::coding(&reply.headers)?;
    let status = if reply.status.is_success() { 502 } else { reply.status.as_u16() };
    let message = format!("{name} answered with status {} in a form nobody asked for ({coding})", reply.status);
    Some(ApiError::new(status, ApiError::kind_of(status), message))
}

/// A status that is no success, with whatever the provider said about it.
async fn refused(from: Dialect, to: Dialect, reply: Reply, name: &str, conceal: &Conceal) -> Failure {
    let status = reply.status;
    let content_type = reply.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).map(str::to_owned);
    if status.is_redirection() || status.is_informational() {
        let message = format!("{name} answered with a redirect ({status}), which is not followed; check llm.api_base");
        return ApiError::new(502, ErrorKind::Upstream, message).into();
    }
    if let Some(error) = compressed(&reply, name) {
        return error.into();
    }
    let body = conceal.bytes(collect(reply.body, MAX_ERROR, ERROR_PATIENCE).await.unwrap_or_default());
    match upstream_error(from, to, status.as_u16(), content_type.as_deref(), &body) {
        ApiErrorOrRaw::Raw => {
            let error = ApiError::new(status.as_u16(), ApiError::kind_of(status.as_u16()), message_in(&body));
            Failure { error, raw: Some(body) }
        }
        ApiErrorOrRaw::Error(error) => error.into(),
    }
}

/// The message of an error body that goes on as it is; for journal and log.
fn message_in(body: &[u8]) -> String {
    let json = serde_json::from_slice::<serde_json::Value>(body).unwrap_or_default();
    let told = json.pointer("/error/message").or_else(|| json.get("message")).or_else(|| json.get("error"));
    let text = told.and_then(serde_json::Value::as_str).map_or_else(|| String::from_utf8_lossy(body), Into::into);
    text.chars().take(500).collect()
}

/// Reads a body to its end; one that is silent for `idle` counts as broken.
pub(crate) async fn collect(mut body: ReplyBody, most: usize, idle: Duration) -> Result<Bytes, String> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    loop {
        let chunk = match tokio::time::timeout(idle, body.next()).await {
            Ok(Some(chunk)) => chunk.map_err(|e| e.to_string())?,
            Ok(None) => break,
            Err(_) => {
                return Err(format!(
                    "the provider has been silent for {} s in the middle of its answer",
                    idle.as_secs()
                ));
            }
        };
        if first.len() + all.len() + chunk.len() > most {
            return Err(format!("the provider's answer is longer than {} MiB", most >> 20));
        }
        if first.is_empty() && all.is_empty() {
            // Most answers come in one piece and are not copied.
            first = chunk;
        } else {
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&chunk);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// Reads a whole answer.
pub(crate) async fn collect_answer(body: ReplyBody, idle: Duration) -> Result<Bytes, String> {
    collect(body, MAX_ANSWER, idle).await
}

/// An error as an HTTP answer in the agent's form.
pub(crate) fn error_response(dialect: Dialect, failure: &Failure, extra: HeaderMap) -> axum::response::Response {
    let body = failure.raw.clone().unwrap_or_else(|| failure.error.render(dialect));
    let mut response = axum::response::Response::new(axum::body::Body::from(body));
    *response.status_mut() = StatusCode::from_u16(failure.error.status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = extra;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if failure.error.status == 401 && failure.raw.is_none() {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
