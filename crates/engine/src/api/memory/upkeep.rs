//! Memory as a whole: erased by scope, exported, imported, copied, put in order.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use memory::{Keep, Tidied, base_scope};
use serde::{Deserialize, Serialize};
use store::{Forget, Retired};
use utoipa::{IntoParams, ToSchema};

use super::super::{Asked, Body, Code, Problem};
use super::{Memory, MemoryChange, memory_problem};
use crate::core::Core;
use crate::remember::{blocking, settled};
use crate::retention;

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

/// Facts that a dry run names at most.
const NAMED: u32 = 20;

/// How maintenance is done.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MemoryMaintainQuery {
    /// Nothing is changed; the answer says what would go.
    pub dry_run: Option<bool>,
}

/// What is over its time by `memory.retention_days` and `journal.retention_days`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct MemoryRetired {
    /// Facts.
    pub facts: u64,
    /// Passages.
    pub passages: u64,
    /// Rows of the journal whose words go, or that go whole.
    pub turns: u64,
    /// Sessions that go whole.
    pub sessions: u64,
    /// Pinned facts of that age, which stay.
    pub pinned: u64,
}

impl From<Retired> for MemoryRetired {
    fn from(gone: Retired) -> Self {
        Self {
            facts: gone.facts,
            passages: gone.windows,
            turns: gone.turns,
            sessions: gone.sessions,
            pinned: gone.pinned,
        }
    }
}

/// What a round of maintenance did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct MemoryMaintained {
    /// Nothing was changed.
    pub dry_run: bool,
    /// Sessions that facts were taken from.
    pub sessions: usize,
    /// New facts.
    pub facts: usize,
    /// Facts that expired.
    pub expired: u64,
    /// Facts that gave way to others that say the same, or the opposite later.
    pub closed: usize,
    /// What was over its time, and is deleted.
    pub retired: MemoryRetired,
    /// Some of the facts that would go; of a dry run only.
    pub going: Vec<Memory>,
    /// What was done, as a sentence.
    pub message: String,
}

/// Reads what is unread, takes the facts that wait, settles those that say the same or the opposite, archives what has
/// expired, deletes what is over its time.
#[utoipa::path(post, path = "/api/v1/memory/maintain", operation_id = "memoryMaintain", tag = "memory",
    params(MemoryMaintainQuery),
    responses((status = 200, body = MemoryMaintained), (status = "default", body = Problem)))]
pub(in crate::api) async fn maintain(
    State(core): State<Core>,
    Asked(query): Asked<MemoryMaintainQuery>,
) -> Result<Json<MemoryMaintained>, Problem> {
    let now_ms = core.clock().now_ms();
    let keep = retention::keep(&core.config());
    if query.dry_run.unwrap_or(false) {
        return would_go(&core, keep, now_ms).await.map(Json);
    }
    let room = core.memory_to_change().await?;
    let maintain = {
        let room = room.clone();
        async move {
            while room.work().await? {}
            let flushed = room.flush_all().await?;
            let mut tidied = Tidied::default();
            loop {
                tidied += room.tidy(now_ms).await?;
                if !tidied.more {
                    break;
                }
            }
            Ok((flushed, tidied, room.expire(now_ms).await?))
        }
    };
    let (flushed, tidied, expired) = blocking(maintain).await.map_err(memory_problem)?;
    let gone = retention::let_go(&room, keep, now_ms, None).await.map_err(memory_problem)?;
    let mut message = format!(
        "{} new facts from {} sessions, {} of {} looked at gave way to others, {expired} expired.",
        flushed.facts, flushed.sessions, tidied.closed, tidied.looked
    );
    if let Ok(run) = core.running()
        && tidied.closed > 0
    {
        settled(&run.bus, tidied);
    }
    if gone.is_nothing() {
        core.memory_changed();
    } else {
        core.memory_forgotten();
        if let Ok(run) = core.running() {
            retention::told(&run.bus, keep, gone);
        }
        message.push_str(&format!(" Over their time and deleted for good: {}.", listed(gone)));
    }
    Ok(Json(MemoryMaintained {
        sessions: flushed.sessions,
        facts: flushed.facts,
        expired,
        closed: tidied.closed,
        retired: gone.into(),
        message,
        ..MemoryMaintained::default()
    }))
}

/// What maintenance would delete.
async fn would_go(core: &Core, keep: Keep, now_ms: i64) -> Result<MemoryMaintained, Problem> {
    let mut would = MemoryMaintained { dry_run: true, ..MemoryMaintained::default() };
    let Some(room) = core.memory().await? else {
        "Nothing is remembered yet.".clone_into(&mut would.message);
        return Ok(would);
    };
    let [mut memory, journal] = room.overdue(keep, now_ms).await.map_err(memory_problem)?;
    let going = room.overdue_facts(keep, now_ms, NAMED).await.map_err(memory_problem)?;
    memory += journal;
    would.message = match (keep.is_for_ever(), memory.is_nothing()) {
        (true, _) => "Everything is kept for ever: memory.retention_days and journal.retention_days are 0.".to_owned(),
        (_, true) => "Nothing is over its time.".to_owned(),
        _ => format!("Over their time, and to be deleted for good: {}.", listed(memory)),
    };
    would.retired = memory.into();
    would.going = going.into_iter().map(Memory::from).collect();
    Ok(would)
}

fn listed(gone: Retired) -> String {
    let (facts, passages, turns, sessions) = (gone.facts, gone.windows, gone.turns, gone.sessions);
    format!("{facts} facts, {passages} passages, the words of {turns} rows of the journal, {sessions} whole sessions")
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
