//! Sessions: read from the journal, ended by hand.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Asked, Problem};
use crate::core::Core;

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Session id.
    pub id: String,
    /// The agent, where known.
    pub agent: Option<String>,
    /// First request, ms since 1970.
    pub started_ms: i64,
    /// Last answer, ms since 1970.
    pub last_ms: i64,
    /// When it ended, ms since 1970; absent while open.
    pub ended_ms: Option<i64>,
    /// `explicit`, `idle` or `user`.
    pub end_reason: Option<String>,
    /// User turns.
    pub turns: u32,
    /// Requests: tool steps and side calls included.
    pub requests: u32,
    /// The first words the user said.
    pub title: Option<String>,
    /// Never used for learning.
    pub private: bool,
}

impl From<store::Session> for Session {
    fn from(session: store::Session) -> Self {
        Self {
            id: session.id,
            agent: session.agent,
            started_ms: session.started_ms,
            last_ms: session.last_ms,
            ended_ms: session.ended_ms,
            end_reason: session.end_reason.map(|reason| reason.as_str().to_owned()),
            turns: session.turns,
            requests: session.requests,
            title: session.title,
            private: session.private,
        }
    }
}

/// Which sessions.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SessionsQuery {
    /// Of this agent.
    pub agent: Option<String>,
    /// Only open (`true`) or only ended ones (`false`).
    pub open: Option<bool>,
    /// Last active before, ms since 1970: the `last_ms` of the last one of the page before.
    pub before_ms: Option<i64>,
    /// At most so many; 50 if absent, 1,000 at most.
    pub limit: Option<u32>,
}

/// Sessions, the last active first.
#[utoipa::path(get, path = "/api/v1/sessions", operation_id = "sessions", tag = "turns", params(SessionsQuery),
    responses((status = 200, body = Vec<Session>), (status = "default", body = Problem)))]
pub(super) async fn list(
    State(core): State<Core>,
    Asked(query): Asked<SessionsQuery>,
) -> Result<Json<Vec<Session>>, Problem> {
    let Some(store) = core.journal().await? else { return Ok(Json(Vec::new())) };
    let filter = store::SessionFilter {
        agent: query.agent,
        open: query.open,
        until_ms: query.before_ms,
        limit: query.limit.unwrap_or(50).clamp(1, 1000),
        ..store::SessionFilter::default()
    };
    let sessions = store.sessions(&filter).await.map_err(super::store_problem)?;
    Ok(Json(sessions.into_iter().map(Session::from).collect()))
}

/// One session.
#[utoipa::path(get, path = "/api/v1/sessions/{id}", operation_id = "session", tag = "turns",
    params(("id" = String, Path, description = "Session id")),
    responses((status = 200, body = Session), (status = "default", body = Problem)))]
pub(super) async fn show(State(core): State<Core>, Path(id): Path<String>) -> Result<Json<Session>, Problem> {
    let missing = || Problem::not_found(format!("There is no session {id}.")).hint("List them with: metaclaw sessions");
    let Some(store) = core.journal().await? else { return Err(missing()) };
    let session = store.session(&id).await.map_err(super::store_problem)?.ok_or_else(missing)?;
    Ok(Json(session.into()))
}
