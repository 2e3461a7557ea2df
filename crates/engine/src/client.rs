//! Speaks the control API: over the Unix socket of a running service, or to the router inside this process. The command
//! line and the window use it, so neither knows which door is open.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::api::{Code, Problem};

/// How long a service may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a service may take to answer a question about itself.
const ANSWER: Duration = Duration::from_secs(10);
/// How long what it has to ask a provider for, or to do on the disk, may take.
const WORK: Duration = Duration::from_secs(150);
/// And with a model that thinks before it answers, twice if need be.
const THOUGHT: Duration = Duration::from_secs(1300);

/// A way to the control API.
#[derive(Clone, Debug)]
pub struct Client {
    door: Door,
    tasks: TaskTracker,
}

#[derive(Clone, Debug)]
enum Door {
    Socket(PathBuf),
    Inside(Router),
}

impl Client {
    /// The service that listens on `socket`, if one answers.
    pub async fn socket(socket: &Path) -> Option<Self> {
        connect(socket).await.ok()?;
        Some(Self { door: Door::Socket(socket.to_path_buf()), tasks: TaskTracker::new() })
    }

    /// A router of this process.
    #[must_use]
    pub fn inside(router: Router) -> Self {
        Self { door: Door::Inside(router), tasks: TaskTracker::new() }
    }

    /// Whether a running service is at the other end.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.door, Door::Socket(_))
    }

    /// Sends one request; the answer's body may be a stream. `path` begins with `/api/v1/`.
    ///
    /// # Errors
    /// `not_running` when the service is gone, and whatever the API itself answers.
    pub async fn send(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Response<Body>, Problem> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request =
            request.body(Body::from(body.unwrap_or_default())).map_err(|error| Problem::invalid(error.to_string()))?;
        let patience = patience(request.method(), request.uri().path());
        let response = match &self.door {
            Door::Inside(router) => match router.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
            Door::Socket(path) => {
                let stream = connect(path).await.map_err(|error| gone(&error))?;
                let (mut sender, connection) =
                    hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| gone(&error))?;
                self.tasks.spawn(async move {
                    let _ = connection.await;
                });
                let head = tokio::time::timeout(patience, sender.send_request(request)).await;
                head.map_err(|_| silent(patience))?.map_err(|error| gone(&error))?.map(Body::new)
            }
        };
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = collect(response, patience).await?;
        Err(serde_json::from_slice(&body)
            .unwrap_or_else(|_| Problem::internal(format!("The service answered {status} without an explanation."))))
    }

    /// Sends `body` as JSON and reads the answer as `T`.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn call<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<T, Problem> {
        let body = body.map(serde_json::to_vec).transpose().map_err(Problem::internal)?;
        let patience = patience(&method, path);
        let bytes = collect(self.send(method, path, body).await?, patience).await?;
        let bytes: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        serde_json::from_slice(bytes).map_err(|error| {
            Problem::internal(format!("The service's answer to {path} was not understood: {error}."))
                .hint("The running service may be of another version. Restart it: metaclaw restart")
        })
    }

    /// Reads `path` as `T`.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Problem> {
        self.call::<(), T>(Method::GET, path, None).await
    }
}

async fn connect(path: &Path) -> std::io::Result<UnixStream> {
    tokio::time::timeout(CONNECT, crate::socket::connect(path)).await.map_err(std::io::Error::other)?
}

async fn collect(response: Response<Body>, patience: Duration) -> Result<Bytes, Problem> {
    let body = tokio::time::timeout(patience, response.into_body().collect()).await.map_err(|_| silent(patience))?;
    Ok(body.map_err(|error| gone(&error))?.to_bytes())
}

/// How long to wait for the head of an answer, and for a body that is no stream.
fn patience(method: &Method, path: &str) -> Duration {
    let asks_others = path.starts_with("/api/v1/doctor") || path.starts_with("/api/v1/providers");
    if path.starts_with("/api/v1/skills-evolve") || path.starts_with("/api/v1/memory/maintain") {
        return THOUGHT;
    }
    if *method == Method::GET && !asks_others { ANSWER } else { WORK }
}

/// A process that holds the socket and says nothing: stopped, or stuck.
fn silent(patience: Duration) -> Problem {
    Problem::new(Code::Unavailable, format!("The service did not answer within {} s.", patience.as_secs()))
        .hint("If it stays so, end it: metaclaw stop --force")
}

fn gone(error: &dyn std::fmt::Display) -> Problem {
    Problem::new(Code::NotRunning, format!("The service did not answer: {error}."))
        .hint("See whether it still runs: metaclaw status")
}

/// One path segment, escaped for use in a path.
#[must_use]
pub fn segment(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            use std::fmt::Write;
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}
