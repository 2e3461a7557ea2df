//! What the window may ask: the control API and its events, as `ui/src/backend.ts` speaks them, and the few things that
//! only the shell knows. Nothing else is let in (capabilities/window.json).

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use engine::api::{Code, Problem};
use http::{Method, header};
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use tauri::ipc::Channel;
use tauri::{AppHandle, Manager, State};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::app::Shell;
use crate::feed::Heard;
use crate::host::{Host, Order, View};
use crate::save;

/// The one place below which requests are answered.
const ROOT: &str = "/api/v1/";
/// Its answer never ends; `api_events` gives its events.
const STREAM: &str = "/api/v1/events/stream";

/// A request to the control API.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    method: String,
    /// Path and query.
    path: String,
    /// JSON.
    body: Option<String>,
}

/// Its answer.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Answer {
    status: u16,
    content_type: Option<String>,
    body: String,
}

/// What the channel of the window carries: `open` when the service is another one or none, `missed` when everything
/// should be read again, or an event's kind with the event as JSON text. `lost` is never said here: the API answers also
/// while no service runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Told {
    kind: String,
    data: String,
}

/// What the shell itself has to say to the window.
#[derive(Debug, Serialize)]
pub(crate) struct About {
    /// A tray shows the icon; absent while that is being found out.
    tray: Option<bool>,
    /// Why the service does not run, if it was not stopped on purpose.
    problem: Option<String>,
    /// The service is another process.
    attached: bool,
}

/// Asks the control API.
#[tauri::command]
pub(crate) async fn api(shell: State<'_, Shell>, request: Request) -> Result<Answer, ()> {
    Ok(answer(&shell.host, request).await)
}

/// Has `channel` hear what happens, until the window closes or asks again.
#[tauri::command]
pub(crate) async fn api_events(shell: State<'_, Shell>, channel: Channel<Told>) -> Result<(), ()> {
    let mut heard = shell.heard.subscribe();
    let over = shell.window_events.begin();
    shell.tasks.spawn(async move {
        let mut next = Ok(Heard::Open);
        loop {
            let told = match next {
                Ok(heard) => told(heard),
                Err(RecvError::Lagged(_)) => told(Heard::Missed),
                Err(RecvError::Closed) => return,
            };
            if told.into_iter().any(|told| channel.send(told).is_err()) {
                return;
            }
            next = tokio::select! {
                biased;
                () = over.cancelled() => return,
                next = heard.recv() => next,
            };
        }
    });
    Ok(())
}

/// The shell's own state.
#[tauri::command]
pub(crate) async fn about(shell: State<'_, Shell>) -> Result<About, ()> {
    let view = shell.host.view().borrow().clone();
    Ok(About {
        tray: *shell.tray.borrow(),
        attached: matches!(view, View::Attached { .. }),
        problem: match view {
            View::Stopped { problem } => problem,
            _ => None,
        },
    })
}

/// Starts the service.
#[tauri::command]
pub(crate) async fn start(shell: State<'_, Shell>) -> Result<(), ()> {
    shell.host.order(Order::Start);
    Ok(())
}

/// The window has drawn its first picture.
#[tauri::command]
pub(crate) async fn painted(shell: State<'_, Shell>) -> Result<(), ()> {
    shell.painted.load().notify_one();
    Ok(())
}

/// Writes a file for the person into the folder for downloads; where it is, or why it is not there.
#[tauri::command]
pub(crate) async fn save(app: AppHandle, name: String, text: String) -> Result<PathBuf, String> {
    let paths = app.path();
    let folder = paths.download_dir().or_else(|_| paths.home_dir()).map_err(|error| error.to_string())?;
    let written = tokio::task::spawn_blocking(move || save::keep(&folder, &name, &text)).await;
    written.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// Ends the previous window's events when a new one begins: one window, one listener.
#[derive(Default)]
pub(crate) struct WindowEvents(Mutex<CancellationToken>);

impl WindowEvents {
    fn begin(&self) -> CancellationToken {
        let next = CancellationToken::new();
        let last = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), next.clone());
        last.cancel();
        next
    }

    /// The window is gone.
    pub(crate) fn end(&self) {
        self.begin();
    }
}

fn told(heard: Heard) -> Vec<Told> {
    let of = |kind: &str| Told { kind: kind.to_owned(), data: String::new() };
    match heard {
        Heard::Open | Heard::Quiet => vec![of("open"), of("missed")],
        Heard::Missed => vec![of("missed")],
        Heard::Event(event, data) => vec![Told { kind: event.kind, data }],
    }
}

async fn answer(host: &Host, request: Request) -> Answer {
    let response = match ask(host, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    let (head, body) = response.into_parts();
    match body.collect().await {
        Ok(body) => Answer {
            status: head.status.as_u16(),
            content_type: head.headers.get(header::CONTENT_TYPE).and_then(|kind| Some(kind.to_str().ok()?.to_owned())),
            body: String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        },
        Err(error) => {
            let problem = Problem::new(Code::NotRunning, format!("The service broke off its answer: {error}."));
            let body = serde_json::to_string(&problem).unwrap_or_default();
            Answer { status: problem.status().as_u16(), content_type: Some("application/json".to_owned()), body }
        }
    }
}

async fn ask(host: &Host, request: Request) -> Result<Response<Body>, Problem> {
    let bare = request.path.split('?').next().unwrap_or_default();
    if !bare.starts_with(ROOT) || bare == STREAM {
        return Err(Problem::new(Code::NotFound, format!("There is no route {bare} for the window.")));
    }
    let method = Method::from_bytes(request.method.as_bytes())
        .map_err(|_| Problem::new(Code::Invalid, format!("{} is no method.", request.method)))?;
    host.client().send(method, &request.path, request.body.map(String::into_bytes)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Home;
    use engine::logs::LogControl;
    use rstest::rstest;
    use serde_json::{Value, json};

    async fn asked(requests: &[(&str, &str, Option<&str>)]) -> Vec<Answer> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.yaml"), "proxy:\n  port: 0\n").unwrap();
        let (host, work) = Host::new(Home::at(dir.path()), LogControl::default());
        let test = async {
            host.view().wait_for(View::serves).await.unwrap();
            let mut answers = Vec::new();
            for (method, path, body) in requests {
                let [method, path] = [method, path].map(|text| (*text).to_owned());
                answers.push(answer(&host, Request { method, path, body: body.map(str::to_owned) }).await);
            }
            host.quit().await;
            answers
        };
        tokio::join!(work, test).1
    }

    #[tokio::test]
    async fn requests_reach_the_api_and_its_answers_come_back_with_status_and_type() {
        let body = json!({ "value": "debug" }).to_string();
        let answers = asked(&[
            ("GET", "/api/v1/config/log.level?reveal=false", None),
            ("PUT", "/api/v1/config/log.level", Some(&body)),
            ("PUT", "/api/v1/config/log.level", Some("{")),
            ("GET", "/api/v1/skills/none-of-this-name", None),
        ])
        .await;
        assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 422, 404]);
        for answer in &answers {
            assert_eq!(answer.content_type.as_deref(), Some("application/json"));
        }
        let now: Value = serde_json::from_str(&answers[1].body).unwrap();
        assert_eq!(now["value"], "debug");
        let problem: Value = serde_json::from_str(&answers[3].body).unwrap();
        assert_eq!(problem["code"], "not_found");
    }

    #[rstest]
    #[case::elsewhere("GET", "/v1/models", 404)]
    #[case::absolute("GET", "http://127.0.0.1:1/api/v1/status", 404)]
    #[case::endless("GET", "/api/v1/events/stream", 404)]
    #[case::endless_with_query("GET", "/api/v1/events/stream?x=1", 404)]
    #[case::method("GE T", "/api/v1/status", 422)]
    #[tokio::test]
    async fn nothing_but_the_api_is_let_in(#[case] method: &str, #[case] path: &str, #[case] status: u16) {
        assert_eq!(asked(&[(method, path, None)]).await[0].status, status);
    }

    #[tokio::test]
    async fn a_new_listener_ends_the_one_before() {
        let events = WindowEvents::default();
        let (first, second) = (events.begin(), events.begin());
        assert!(first.is_cancelled() && !second.is_cancelled());
        events.end();
        assert!(second.is_cancelled());
    }
}
