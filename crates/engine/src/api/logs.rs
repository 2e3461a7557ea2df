//! The log file, its last lines and what follows.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Asked, Problem};
use crate::core::Core;
use crate::logs;

/// Lines of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLines {
    /// The file.
    pub path: String,
    /// Whole lines, oldest first.
    pub lines: Vec<String>,
    /// Pass as `after` to get what follows.
    pub next: u64,
}

/// Which lines.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// The last so many; 200 if absent, 10,000 at most.
    pub lines: Option<usize>,
    /// Instead: everything after this place.
    pub after: Option<u64>,
}

/// Lines of the log file. Secrets were masked when it was written.
#[utoipa::path(get, path = "/api/v1/logs", operation_id = "logs", tag = "service", params(LogQuery),
    responses((status = 200, body = LogLines), (status = "default", body = Problem)))]
pub(super) async fn lines(State(core): State<Core>, Asked(query): Asked<LogQuery>) -> Result<Json<LogLines>, Problem> {
    let path = core.log_path();
    let shown = path.display().to_string();
    let read = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || match query.after {
            Some(after) => logs::since(&path, after),
            None => logs::tail(&path, query.lines.unwrap_or(200).clamp(1, 10_000)),
        })
    };
    let tail = read
        .await
        .map_err(Problem::internal)?
        .map_err(|error| super::problem::io(&format!("The log {shown} cannot be read"), &error))?;
    Ok(Json(LogLines { path: shown, lines: tail.lines, next: tail.next }))
}
