//! Errors as the agent sees them: one value, rendered in the form its SDK expects.

use bytes::Bytes;
use serde_json::json;

use crate::Dialect;
use crate::request::RequestError;

mod upstream;

pub use upstream::{ApiErrorOrRaw, upstream_error};

/// What went wrong, in the field's own categories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is malformed or asks for something impossible. 400
    InvalidRequest,
    /// No key, or a wrong one. 401
    Authentication,
    /// The key may not do this. 403
    Permission,
    /// No such route or model. 404
    NotFound,
    /// The body is too large. 413
    TooLarge,
    /// Too many requests. 429
    RateLimit,
    /// The upstream is overloaded or the service is not ready. 503, 529
    Overloaded,
    /// Took too long. 504
    Timeout,
    /// The upstream failed or answered with something unreadable. 502
    Upstream,
    /// A fault of our own. 500
    Internal,
}

/// An error answer: status and everything its body says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status.
    pub status: u16,
    /// Category.
    pub kind: ErrorKind,
    /// A short machine-readable code, where there is one.
    pub code: Option<String>,
    /// The field at fault, where there is one.
    pub param: Option<String>,
    /// For people: what, where, and what to do.
    pub message: String,
}

impl ApiError {
    /// An error without code and field.
    pub fn new(status: u16, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { status, kind, code: None, param: None, message: message.into() }
    }

    /// The category an HTTP status stands for.
    pub fn kind_of(status: u16) -> ErrorKind {
        match status {
            401 => ErrorKind::Authentication,
            403 => ErrorKind::Permission,
            404 => ErrorKind::NotFound,
            408 | 504 => ErrorKind::Timeout,
            413 => ErrorKind::TooLarge,
            429 => ErrorKind::RateLimit,
            503 | 529 => ErrorKind::Overloaded,
            400..=499 => ErrorKind::InvalidRequest,
            502 => ErrorKind::Upstream,
            _ => ErrorKind::Internal,
        }
    }

    /// The body in a dialect's form. The OpenAI forms also carry `detail`, which old MetaClaw clients read.
    pub fn render(&self, dialect: Dialect) -> Bytes {
        let body = match dialect {
            Dialect::Chat | Dialect::Responses => json!({
                "error": {
                    "message": self.message,
                    "type": self.openai_type(),
                    "param": self.param,
                    "code": self.code,
                },
                "detail": self.message,
            }),
            Dialect::Messages => json!({
                "type": "error",
                "error": { "type": self.anthropic_type(), "message": self.message },
            }),
        };
        Bytes::from(body.to_string())
    }

    fn openai_type(&self) -> &'static str {
        match self.kind {
            ErrorKind::InvalidRequest | ErrorKind::NotFound | ErrorKind::TooLarge => "invalid_request_error",
            ErrorKind::Authentication => "authentication_error",
            ErrorKind::Permission => "permission_error",
            ErrorKind::RateLimit => "rate_limit_error",
            ErrorKind::Overloaded => "service_unavailable_error",
            ErrorKind::Timeout => "timeout_error",
            ErrorKind::Upstream => "upstream_error",
            ErrorKind::Internal => "server_error",
        }
    }

    fn anthropic_type(&self) -> &'static str {
        match self.kind {
            ErrorKind::InvalidRequest => "invalid_request_error",
            ErrorKind::Authentication => "authentication_error",
            ErrorKind::Permission => "permission_error",
            ErrorKind::NotFound => "not_found_error",
            ErrorKind::TooLarge => "request_too_large",
            ErrorKind::RateLimit => "rate_limit_error",
            ErrorKind::Overloaded => "overloaded_error",
            ErrorKind::Timeout => "timeout_error",
            ErrorKind::Upstream | ErrorKind::Internal => "api_error",
        }
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        let param = error.param().map(str::to_owned);
        if matches!(&error, RequestError::Syntax(syntax) if syntax.message == crate::json::TOO_MANY) {
            return Self { param, ..Self::new(413, ErrorKind::TooLarge, error.to_string()) };
        }
        let code = matches!(error, RequestError::Syntax(_)).then(|| "invalid_json".to_owned());
        Self { status: 400, kind: ErrorKind::InvalidRequest, code, param, message: error.to_string() }
    }
}
