//! Whoever answers: a provider over HTTP today, our own sampler tomorrow. `converse` hands in finished bodies in the
//! model's own dialect and gets back a status, headers and a stream of body bytes.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use bytes::Bytes;
use dialect::{Dialect, Quirks};
use futures::Stream;

/// Body bytes as they arrive. Dropping it ends the exchange with the upstream.
pub type ReplyBody = Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>;

/// The upstream broke off in the middle of its answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the provider broke off in the middle of its answer: {0}")]
pub struct BodyError(pub String);

/// What is asked of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// An answer, in the model's own dialect: `/chat/completions`, `/responses` or `/messages`.
    Generate,
    /// `/messages/count_tokens`
    CountTokens,
    /// Anything else below the upstream's version path, as the agent asked for it.
    Other {
        /// Method.
        method: Method,
        /// Path behind `/v1`, with a leading slash.
        path: String,
    },
}

/// One request to an upstream.
#[derive(Debug, Clone)]
pub struct Call {
    /// What is asked.
    pub endpoint: Endpoint,
    /// The dialect of the body, and of the answer that is expected.
    pub dialect: Dialect,
    /// The agent's query string, where it makes sense upstream.
    pub query: Option<String>,
    /// The whole body, in the model's dialect.
    pub body: Bytes,
    /// The answer shall be streamed.
    pub stream: bool,
    /// The agent's headers that may travel on.
    pub headers: HeaderMap,
    /// The agent's own credentials (`authorization`, `x-api-key`), where those go upstream.
    pub credentials: Vec<(&'static str, HeaderValue)>,
}

/// The beginning of an answer.
pub struct Reply {
    /// HTTP status.
    pub status: StatusCode,
    /// Headers as the upstream sent them.
    pub headers: HeaderMap,
    /// The body.
    pub body: ReplyBody,
    /// The weights that answer, where we sample ourselves.
    pub weight_version: Option<i64>,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").field("status", &self.status).field("headers", &self.headers).finish_non_exhaustive()
    }
}

/// There is no answer at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No connection.
    #[error("{name} cannot be reached at {address}: {reason}; check llm.api_base and the network (`metaclaw doctor`)")]
    Unreachable {
        /// Name of the upstream.
        name: String,
        /// Where.
        address: String,
        /// What the network said.
        reason: String,
    },
    /// Connected, but no answer in time.
    #[error("{name} did not begin to answer within {seconds} s")]
    Timeout {
        /// Name of the upstream.
        name: String,
        /// How long we waited.
        seconds: u64,
    },
    /// The exchange broke before the answer began.
    #[error("the connection to {name} broke before an answer came: {reason}")]
    Broken {
        /// Name of the upstream.
        name: String,
        /// What the network said.
        reason: String,
    },
}

/// Something that answers.
#[async_trait]
pub trait Model: Send + Sync + 'static {
    /// What it speaks first of all.
    fn dialect(&self) -> Dialect;
    /// What it is best asked in for an agent that speaks `client`; nothing is lost where that is the same.
    fn dialect_for(&self, client: Dialect) -> Dialect {
        let _ = client;
        self.dialect()
    }
    /// A short name for journal and messages, e.g. the provider's.
    fn name(&self) -> &Arc<str>;
    /// The model id to send for the one that was asked for; `None` = there is none at all.
    fn model_for<'a>(&'a self, asked: Option<&'a str>) -> Option<Cow<'a, str>>;
    /// The agents' own credentials go to it.
    fn takes_caller_credentials(&self) -> bool {
        false
    }
    /// The keys it identifies with, so that they can be taken out of its errors.
    fn secrets(&self) -> Vec<&str> {
        Vec::new()
    }
    /// What it cannot take.
    fn quirks(&self) -> &Quirks;
    /// Asks. Resolves when the answer's head is there; retries, if any, are over by then.
    async fn send(&self, call: Call) -> Result<Reply, ModelError>;
}

/// Who is asked, and who next.
#[derive(Clone)]
pub struct Route {
    /// The main model.
    pub primary: Arc<dyn Model>,
    /// Asked when the main one cannot answer.
    pub fallback: Option<Arc<dyn Model>>,
}

/// The route in force, or why there is none (shown to agents and users).
pub type Upstream = Result<Route, String>;

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = (self.primary.name(), self.fallback.as_ref().map(|m| m.name()));
        f.debug_tuple("Route").field(&names).finish()
    }
}
