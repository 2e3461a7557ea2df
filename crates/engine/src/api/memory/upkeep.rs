//! Memory as a whole: erased by scope, exported, imported, copied, put in order.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use memory::base_scope;
use serde::{Deserialize, Serialize};
use store::Forget;
use utoipa::{IntoParams, ToSchema};

use super::super::{Asked, Body, Code, Problem};
use super::{MemoryChange, memory_problem};
use crate::core::Core;
use crate::remember::blocking;

/// Erases a scope for good: facts, passages, index, and the conversations of the journal they come from.
#[utoipa::path(delete, path = "/api/v1/memory/scopes/{scope}", operation_id = "memoryErase", tag = "memory",
    params(("scope" = String, Path, description = "The scope string")),
    responses((status = 200, body = MemoryChange), (status = "default", body = Problem)))]
pub(in crate::api) async fn erase(
    State(core): State<Core>,
    Path(scope): Path<String>,
) -> Result<Json<MemoryChange>, Problem> {
    let room = core.memory_to_change().await?;
    let known = room.scopes().await.map_err(memory_problem)?;
    let scope = base_scope(&scope, &room.settings().scope);
    if !known.contains(&scope) {
        return Err(
            Problem::not_found(format!("There is no scope {scope}.")).hint("List them with: metaclaw memory scopes")
        );
    }
    // What was said and not read yet belongs to it as well.
    let now_ms = core.clock().now_ms();
    let erase = async move {
        while room.work().await? {}
        room.forget(Forget::Scope(scope), now_ms).await
    };
    let gone = blocking(erase).await.map_err(memory_problem)?;
    core.memory_forgotten();
    Ok(Json(MemoryChange::gone(gone)))
}

/// What is exported.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MemoryExportQuery {
    /// Of this scope; absent = all.
    pub scope: Option<String>,
    /// Superseded, archived and quarantined ones as well.
    pub all: Option<bool>,
}

/// Facts as JSON lines, the oldest first.
#[utoipa::path(get, path = "/api/v1/memory/export", operation_id = "memoryExport", tag = "memory",
    params(MemoryExportQuery),
    responses((status = 200, body = String, content_type = "application/x-ndjson"), (status = "default", body = Problem)))]
pub(in crate::api) async fn export(
    State(core): State<Core>,
    Asked(query): Asked<MemoryExportQuery>,
) -> Result<Response, Problem> {
    let lines = match core.memory().await? {
        Some(room) => room.export(query.scope.as_deref(), query.all.unwrap_or(false)).await.map_err(memory_problem)?,
        None => String::new(),
    };
    Ok(([(http::header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response())
}

/// What is imported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryImport {
    /// A file: an export (JSON lines or JSON), an old memory.db or a copy of one, an old policy.json; absolute. Empty =
    /// the database of an old install, where `memory.store_path` or `memory.dir` say.
    #[serde(default)]
    pub path: String,
    /// Instead: an export as text.
    #[serde(default)]
    pub text: Option<String>,
    /// Put everything into this scope instead of its own.
    #[serde(default)]
    pub scope: Option<String>,
}

/// How an import went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryImported {
    /// What was read.
    pub from: String,
    /// New memories.
    pub added: usize,
    /// Known already, forgotten before, or not active any more.
    pub skipped: usize,
    /// New ones that you should look at: old installs could turn their sense round. They have the label `unverified`.
    pub unverified: usize,
    /// Settings that were taken over.
    pub settings: Vec<String>,
    /// What was done, as a sentence.
    pub message: String,
}

/// Imports memories. The file is only read.
#[utoipa::path(post, path = "/api/v1/memory/import", operation_id = "memoryImport", tag = "memory",
    request_body = MemoryImport,
    responses((status = 200, body = MemoryImported), (status = "default", body = Problem)))]
pub(in crate::api) async fn import(
    State(core): State<Core>,
    Body(import): Body<MemoryImport>,
) -> Result<Json<MemoryImported>, Problem> {
    let imported = core.import_memory(import).await;
    core.memory_changed();
    imported.map(Json)
}

/// What a round of maintenance did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryMaintained {
    /// Sessions that facts were taken from.
    pub sessions: usize,
    /// New facts.
    pub facts: usize,
    /// Facts that expired.
    pub expired: u64,
    /// What was done, as a sentence.
    pub message: String,
}

/// Reads what is unread, takes the facts that wait, archives what has expired.
#[utoipa::path(post, path = "/api/v1/memory/maintain", operation_id = "memoryMaintain", tag = "memory",
    responses((status = 200, body = MemoryMaintained), (status = "default", body = Problem)))]
pub(in crate::api) async fn maintain(State(core): State<Core>) -> Result<Json<MemoryMaintained>, Problem> {
    let room = core.memory_to_change().await?;
    let now_ms = core.clock().now_ms();
    let maintain = async move {
        while room.work().await? {}
        let flushed = room.flush_all().await?;
        Ok((flushed, room.expire(now_ms).await?))
    };
    let (flushed, expired) = blocking(maintain).await.map_err(memory_problem)?;
    core.memory_changed();
    let message = format!("{} new facts from {} sessions, {expired} expired.", flushed.facts, flushed.sessions);
    Ok(Json(MemoryMaintained { sessions: flushed.sessions, facts: flushed.facts, expired, message }))
}

/// Where a copy goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryBackup {
    /// A file that is not there yet; absolute.
    pub path: String,
}

/// Writes a copy of the whole database, journal included, as of now.
#[utoipa::path(post, path = "/api/v1/memory/backup", operation_id = "memoryBackup", tag = "memory",
    request_body = MemoryBackup,
    responses((status = 200, body = MemoryChange), (status = "default", body = Problem)))]
pub(in crate::api) async fn backup(
    State(core): State<Core>,
    Body(to): Body<MemoryBackup>,
) -> Result<Json<MemoryChange>, Problem> {
    let path = std::path::PathBuf::from(&to.path);
    if !path.is_absolute() {
        return Err(Problem::invalid("The path must be absolute."));
    }
    if path.exists() {
        return Err(Problem::new(Code::Conflict, format!("{} exists already.", path.display())));
    }
    let room = core.memory_to_change().await?;
    room.backup(&path).await.map_err(memory_problem)?;
    Ok(Json(MemoryChange { message: format!("Copied to {}.", path.display()), ..MemoryChange::default() }))
}
