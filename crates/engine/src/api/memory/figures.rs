//! Memory in figures, whole and scope by scope.

use axum::Json;
use axum::extract::State;
use memory::Memory as Room;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::super::{Asked, Problem};
use super::memory_problem;
use crate::core::Core;

/// Memory in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryStats {
    /// Conversations are remembered and recalled.
    pub enabled: bool,
    /// The scope they are of; absent = all.
    pub scope: Option<String>,
    /// Facts by status.
    pub by_status: std::collections::BTreeMap<String, u64>,
    /// Active facts by type.
    pub active_by_kind: std::collections::BTreeMap<String, u64>,
    /// Pinned facts.
    pub pinned: u64,
    /// Passages.
    pub passages: u64,
    /// Facts and passages that wait for the user's decision.
    pub quarantined: u64,
    /// Sessions they come from.
    pub sessions: u64,
    /// When the oldest passage was said, ms since 1970.
    pub first_ms: Option<i64>,
    /// When the newest was said, ms since 1970.
    pub last_ms: Option<i64>,
    /// What was forgotten for good and will not be learned again.
    pub forgotten: u64,
    /// Turns that are not read into memory yet; they are recalled all the same.
    pub unread: u64,
    /// Sessions that facts are still to be taken from.
    pub waiting: u64,
    /// Bytes of the whole database.
    pub db_bytes: u64,
}

/// Of which scope.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MemoryScopeQuery {
    /// Of this scope; absent = all.
    pub scope: Option<String>,
}

/// Memory in figures.
#[utoipa::path(get, path = "/api/v1/memory/stats", operation_id = "memoryStats", tag = "memory",
    params(MemoryScopeQuery), responses((status = 200, body = MemoryStats), (status = "default", body = Problem)))]
pub(in crate::api) async fn stats(
    State(core): State<Core>,
    Asked(query): Asked<MemoryScopeQuery>,
) -> Result<Json<MemoryStats>, Problem> {
    let enabled = core.config().memory.enabled;
    let Some(room) = core.memory().await? else {
        return Ok(Json(MemoryStats { enabled, scope: query.scope, ..MemoryStats::default() }));
    };
    stats_of(&room, query.scope, enabled).await.map(Json)
}

async fn stats_of(room: &Room, scope: Option<String>, enabled: bool) -> Result<MemoryStats, Problem> {
    let figures = room.figures(scope.as_deref()).await.map_err(memory_problem)?;
    let waiting = room.unheard().await.map_err(memory_problem)?;
    let quarantined = figures.by_status.get("quarantined").copied().unwrap_or_default();
    Ok(MemoryStats {
        enabled,
        scope,
        pinned: figures.pinned,
        passages: figures.windows,
        quarantined: figures.quarantined_windows + quarantined,
        sessions: figures.sessions,
        first_ms: figures.first_ms,
        last_ms: figures.last_ms,
        forgotten: figures.tombstones,
        unread: figures.unread,
        waiting: waiting.len() as u64,
        db_bytes: std::fs::metadata(room.path()).map_or(0, |meta| meta.len()),
        by_status: figures.by_status,
        active_by_kind: figures.active_by_kind,
    })
}

/// Every scope in figures.
#[utoipa::path(get, path = "/api/v1/memory/scopes", operation_id = "memoryScopes", tag = "memory",
    responses((status = 200, body = Vec<MemoryStats>), (status = "default", body = Problem)))]
pub(in crate::api) async fn scopes(State(core): State<Core>) -> Result<Json<Vec<MemoryStats>>, Problem> {
    let Some(room) = core.memory().await? else { return Ok(Json(Vec::new())) };
    let enabled = core.config().memory.enabled;
    let mut all = Vec::new();
    for scope in room.scopes().await.map_err(memory_problem)? {
        all.push(stats_of(&room, Some(scope), enabled).await?);
    }
    Ok(Json(all))
}
