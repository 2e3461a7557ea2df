//! The one error shape of the control API, `{code, message, hint}`, and its mapping to HTTP. Front ends match on the
//! code, never on the text.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What kind of problem it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The input cannot be used as it is.
    Invalid,
    /// No such session, turn, skill, setting or route.
    NotFound,
    /// A setting is missing, most often the provider or its key.
    NotConfigured,
    /// The service does not run.
    NotRunning,
    /// It exists already, or something changed meanwhile.
    Conflict,
    /// The token is missing or wrong.
    Unauthorized,
    /// The file system, or a rule, does not allow it.
    Forbidden,
    /// The provider answered with an error or not at all.
    Upstream,
    /// Not possible right now; later it may be.
    Unavailable,
    /// A fault of the program or the machine.
    Internal,
}

/// An error as every route answers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// What kind of problem it is.
    pub code: Code,
    /// What happened and where, one or two sentences.
    pub message: String,
    /// What to do about it.
    #[serde(default)]
    pub hint: Option<String>,
}

impl Problem {
    /// A problem without a hint.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::Invalid, message)
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(Code::Internal, message.to_string())
    }

    /// HTTP status of the code.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.code {
            Code::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::NotConfigured | Code::NotRunning | Code::Conflict => StatusCode::CONFLICT,
            Code::Unauthorized => StatusCode::UNAUTHORIZED,
            Code::Forbidden => StatusCode::FORBIDDEN,
            Code::Upstream => StatusCode::BAD_GATEWAY,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if self.code == Code::Internal {
            tracing::error!(message = %self.message, "control API");
        }
        (self.status(), Json(self)).into_response()
    }
}

/// A file system error becomes `forbidden` when the system refused, `internal` otherwise.
pub(crate) fn io(what: &str, error: &std::io::Error) -> Problem {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            Problem::new(Code::Forbidden, format!("{what}: {error}.")).hint("Check who owns the folder and its mode.")
        }
        std::io::ErrorKind::NotFound => Problem::not_found(format!("{what}: {error}.")),
        _ => Problem::internal(format!("{what}: {error}.")),
    }
}

/// A request body read as JSON of type `T`. What does not fit is `invalid`, in the API's own error shape. Content types
/// other than JSON are refused, so that a web page cannot post a form here.
pub(crate) struct Body<T>(pub T);

impl<S, T> axum::extract::FromRequest<S> for Body<T>
where
    S: Send + Sync,
    T: serde::de::DeserializeOwned,
{
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Problem> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(rejection) => {
                Err(Problem::invalid(format!("The request body does not fit: {}.", rejection.body_text())).hint(
                    "Send JSON of the shape that `metaclaw openapi` describes, with content-type application/json.",
                ))
            }
        }
    }
}

/// Query parameters read as `T`, with the API's own error shape.
pub(crate) struct Asked<T>(pub T);

impl<S, T> axum::extract::FromRequestParts<S> for Asked<T>
where
    S: Send + Sync,
    T: serde::de::DeserializeOwned,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut http::request::Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Query::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(Problem::invalid(format!("The query does not fit: {}.", rejection.body_text()))),
        }
    }
}
