//! Long-term memory: what is remembered, what would be recalled, changes by the user's hand, forgetting for good.

pub(super) mod figures;
pub(super) mod search;
pub(super) mod upkeep;

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use store::{Fact, FactFilter, FactPatch, Forgotten, Window, WindowFilter};
use utoipa::{IntoParams, ToSchema};

use super::{Asked, Body, Code, Problem};
use crate::core::Core;

pub use self::figures::{MemoryScopeQuery, MemoryStats};
pub use self::search::{MemoryHit, MemoryPreview, MemorySearch};
pub use self::upkeep::{
    MemoryBackup, MemoryExportQuery, MemoryImport, MemoryImported, MemoryMaintainQuery, MemoryMaintained, MemoryRetired,
};

/// A memory: a fact, or a passage as it was said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Memory {
    /// Its id; passages begin with `w`.
    pub id: String,
    /// Whose it is.
    pub scope: String,
    /// `episodic`, `semantic`, `preference`, `project_state`, `working_summary`, `procedural_observation`.
    pub kind: String,
    /// `active`, `superseded`, `archived`, `quarantined`.
    pub status: String,
    /// What is remembered.
    pub content: String,
    /// The words it was taken from.
    pub quote: String,
    /// Who said it.
    pub speaker: String,
    /// `journal` (a passage), `rule`, `model`, `user`, `import`, `legacy`.
    pub origin: String,
    /// Session it comes from.
    pub session: String,
    /// User turn within the session.
    pub turn: u32,
    /// Row of the journal, for `turns show`.
    pub turn_id: Option<i64>,
    /// Always told first.
    pub pinned: bool,
    /// 0–1.
    pub importance: f64,
    /// 0–1.
    pub confidence: f64,
    /// Labels.
    pub tags: Vec<String>,
    /// From when it holds, ms since 1970.
    pub valid_from_ms: i64,
    /// Until when it held, ms since 1970; absent = still.
    pub valid_to_ms: Option<i64>,
    /// When it was learned, ms since 1970.
    pub recorded_ms: i64,
    /// When it was changed by hand or by a newer statement, ms since 1970.
    pub updated_ms: i64,
    /// When it will be archived, ms since 1970.
    pub expires_ms: Option<i64>,
    /// Which memory took its place.
    pub superseded_by: Option<String>,
    /// Why it gave way, where nobody said so: `same` (it said the same), `opposite` (the opposite was said later), `newer` (another
    /// answer was given later). It can be undone.
    pub gave_way: Option<String>,
}

impl From<Fact> for Memory {
    fn from(fact: Fact) -> Self {
        Self {
            id: fact.id,
            scope: fact.scope,
            kind: fact.kind,
            status: fact.status,
            content: fact.content,
            quote: fact.quote,
            speaker: fact.speaker,
            origin: fact.origin,
            session: fact.session,
            turn: fact.turn_end,
            turn_id: fact.turn.map(|turn| turn.0),
            pinned: fact.pinned,
            importance: fact.importance,
            confidence: fact.confidence,
            tags: fact.tags,
            valid_from_ms: fact.valid_from_ms,
            valid_to_ms: fact.valid_to_ms,
            recorded_ms: fact.recorded_ms,
            updated_ms: fact.updated_ms,
            expires_ms: fact.expires_ms,
            superseded_by: fact.superseded_by,
            gave_way: None,
        }
    }
}

/// Says of closed facts why they gave way.
async fn with_reasons(room: &::memory::Memory, mut memories: Vec<Memory>) -> Result<Vec<Memory>, Problem> {
    let closed: Vec<String> = memories.iter().filter(|m| m.status == "superseded").map(|m| m.id.clone()).collect();
    if closed.is_empty() {
        return Ok(memories);
    }
    for merged in room.merges(&closed).await.map_err(memory_problem)?.into_iter().filter(|m| m.undone_ms.is_none()) {
        let closed =
            memories.iter_mut().find(|m| m.id == merged.closed && m.superseded_by.as_ref() == Some(&merged.by));
        if let Some(memory) = closed {
            memory.gave_way = Some(merged.why);
        }
    }
    Ok(memories)
}

fn passage((scope, window): (String, Window)) -> Memory {
    Memory {
        id: format!("w{}", window.id),
        scope,
        kind: "episodic".to_owned(),
        status: if window.quarantined { "quarantined" } else { "active" }.to_owned(),
        content: window.text,
        speaker: window.speaker,
        origin: "journal".to_owned(),
        session: window.session,
        turn: window.turn_no,
        turn_id: window.turn.map(|turn| turn.0),
        importance: 0.5,
        confidence: 1.0,
        valid_from_ms: window.at_ms,
        recorded_ms: window.at_ms,
        updated_ms: window.at_ms,
        ..Memory::default()
    }
}

/// A page of memories.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryPage {
    /// The last learned first.
    pub memories: Vec<Memory>,
    /// `before` of the next page; absent = this is the last.
    pub next: Option<i64>,
}

/// Which memories.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MemoryQuery {
    /// Of this scope.
    pub scope: Option<String>,
    /// With this status; `quarantined` lists passages as well.
    pub status: Option<String>,
    /// Of this type.
    pub kind: Option<String>,
    /// Pinned ones, or the others.
    pub pinned: Option<bool>,
    /// What held at this moment, ms since 1970.
    pub as_of_ms: Option<i64>,
    /// Passages instead of facts, of this session if it is not empty.
    pub passages: Option<String>,
    /// `next` of the page before.
    pub before: Option<i64>,
    /// At most so many; 50 if absent, 1,000 at most.
    pub limit: Option<u32>,
}

/// Memories, the last learned first.
#[utoipa::path(get, path = "/api/v1/memory", operation_id = "memories", tag = "memory", params(MemoryQuery),
    responses((status = 200, body = MemoryPage), (status = "default", body = Problem)))]
pub(super) async fn list(
    State(core): State<Core>,
    Asked(query): Asked<MemoryQuery>,
) -> Result<Json<MemoryPage>, Problem> {
    let Some(room) = core.memory().await? else { return Ok(Json(MemoryPage::default())) };
    let limit = query.limit.unwrap_or(50).clamp(1, 1000);
    let full = |count: usize| count >= usize::try_from(limit).unwrap_or(usize::MAX);
    if let Some(session) = query.passages {
        let filter = WindowFilter {
            scope: query.scope,
            session: Some(session).filter(|session| !session.is_empty()),
            quarantined: query.status.as_deref().map(|status| status == "quarantined"),
            before: query.before,
            limit,
        };
        let found = room.passages(&filter).await.map_err(memory_problem)?;
        let next = found.last().filter(|_| full(found.len())).map(|(_, window)| window.id);
        return Ok(Json(MemoryPage { memories: found.into_iter().map(passage).collect(), next }));
    }
    let filter = FactFilter {
        scope: query.scope.clone(),
        status: query.status.clone(),
        kind: query.kind,
        pinned: query.pinned,
        as_of_ms: query.as_of_ms,
        before: query.before,
        limit,
        ..FactFilter::default()
    };
    let found = room.facts(&filter).await.map_err(memory_problem)?;
    let next = found.last().filter(|_| full(found.len())).map(|fact| fact.key);
    let mut memories: Vec<Memory> = found.into_iter().map(Memory::from).collect();
    if query.status.as_deref() == Some("quarantined") && query.before.is_none() {
        let kept_back = WindowFilter { scope: query.scope, quarantined: Some(true), limit, ..WindowFilter::default() };
        memories.extend(room.passages(&kept_back).await.map_err(memory_problem)?.into_iter().map(passage));
    }
    Ok(Json(MemoryPage { memories, next }))
}

/// Something to remember.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryAdd {
    /// What.
    pub content: String,
    /// Its type; empty = as the words say.
    #[serde(default)]
    pub kind: String,
    /// Whose; empty = the default scope.
    #[serde(default)]
    pub scope: String,
    /// Labels.
    #[serde(default)]
    pub tags: Vec<String>,
    /// 0–1.
    #[serde(default)]
    pub importance: Option<f64>,
    /// Always told first.
    #[serde(default)]
    pub pinned: bool,
}

/// What a change of memory did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryChange {
    /// The memory it touched, if it is one.
    pub id: Option<String>,
    /// What was done, as a sentence.
    pub message: String,
    /// Facts that are gone.
    #[serde(default)]
    pub facts: u64,
    /// Passages that are gone.
    #[serde(default)]
    pub passages: u64,
    /// Rows of the journal whose words were taken out.
    #[serde(default)]
    pub turns: u64,
    /// Bytes of it are still on disk, until whoever reads the database has done.
    #[serde(default)]
    pub pending: bool,
}

impl MemoryChange {
    fn of(id: &str, message: impl Into<String>) -> Self {
        Self { id: Some(id.to_owned()), message: message.into(), ..Self::default() }
    }

    fn gone(gone: Forgotten) -> Self {
        let mut message = format!(
            "Forgotten for good: {} facts, {} passages, and their words in {} rows of the journal.",
            gone.facts, gone.windows, gone.turns
        );
        if gone.backups > 0 {
            message.push_str(&format!(
                " {} from before updates went as well, because the words were in there.",
                if gone.backups == 1 { "The backup".to_owned() } else { format!("The {} backups", gone.backups) }
            ));
        }
        if gone.pending {
            message.push_str(
                " Another program is reading the database: the last bytes on disk are overwritten as soon as it has done.",
            );
        }
        Self {
            message,
            pending: gone.pending,
            facts: gone.facts,
            passages: gone.windows,
            turns: gone.turns,
            ..Self::default()
        }
    }
}

/// Remembers something by the user's hand.
#[utoipa::path(post, path = "/api/v1/memory", operation_id = "memoryAdd", tag = "memory", request_body = MemoryAdd,
    responses((status = 200, body = MemoryChange), (status = "default", body = Problem)))]
pub(super) async fn add(State(core): State<Core>, Body(add): Body<MemoryAdd>) -> Result<Json<MemoryChange>, Problem> {
    let room = core.memory_to_change().await?;
    let new = memory::NewMemory {
        content: add.content,
        kind: add.kind,
        scope: add.scope,
        tags: add.tags,
        importance: add.importance,
        pinned: add.pinned,
        at_ms: core.clock().now_ms(),
        ..memory::NewMemory::default()
    };
    let id = room.add(new).await.map_err(memory_problem)?;
    core.memory_changed();
    match id {
        Some(id) => Ok(Json(MemoryChange::of(&id, "Remembered."))),
        None => Err(Problem::new(Code::Conflict, "This is remembered already, or it was forgotten for good before.")),
    }
}

/// How recall weighs and what it may add.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryPolicy {
    /// How memories are found.
    pub retrieval_mode: String,
    /// Memories per turn at most.
    pub max_injected_units: usize,
    /// Tokens of memories per turn at most.
    pub max_injected_tokens: u32,
    /// After how many turns of a session facts are taken.
    pub flush_every: u32,
    /// The weights, each with what it does.
    pub weights: Vec<MemoryWeight>,
}

/// One weight of recall.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryWeight {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f32,
    /// What it does.
    pub note: String,
}

/// The settings and weights of recall.
#[utoipa::path(get, path = "/api/v1/memory/policy", operation_id = "memoryPolicy", tag = "memory",
    responses((status = 200, body = MemoryPolicy), (status = "default", body = Problem)))]
pub(super) async fn policy(State(core): State<Core>) -> Result<Json<MemoryPolicy>, Problem> {
    let config = core.config();
    let weights = memory::Weights::default();
    let found_by = match (core.memory_by_meaning().on, config.memory.retrieval_mode) {
        (false, _) => "keyword".to_owned(),
        (true, config::MemoryRetrieval::Embedding) => "embedding".to_owned(),
        (true, _) => "hybrid".to_owned(),
    };
    let weight =
        |name: &str, value: f32, note: &str| MemoryWeight { name: name.to_owned(), value, note: note.to_owned() };
    Ok(Json(MemoryPolicy {
        retrieval_mode: found_by,
        max_injected_units: usize::try_from(config.memory.max_injected_units).unwrap_or(usize::MAX),
        max_injected_tokens: config.memory.max_injected_tokens,
        flush_every: config.memory.flush_every,
        weights: vec![
            weight(
                "meaning",
                weights.meaning,
                "share of the meaning where a question's is known; the words have the rest",
            ),
            weight(
                "stands out",
                weights.stands[0],
                "how far the best memory must stand out by meaning if its words are not enough",
            ),
            weight("neighbours", weights.neighbours[0], "share of its score a passage gives to the ones beside it"),
            weight("time", weights.time, "what being said in the time a question names adds"),
            weight("fact", weights.fact, "what a fact counts against the words it comes from"),
            weight("age", weights.age, "what a month of age takes; only decides between equals"),
            weight(
                "floor",
                weights.floor,
                "least share of the question's telling words that the best memory must have",
            ),
            weight("feedback", weights.feedback.1, "what words count that the best passages share"),
        ],
    }))
}

/// One memory, whole.
#[utoipa::path(get, path = "/api/v1/memory/{id}", operation_id = "memory", tag = "memory",
    params(("id" = String, Path, description = "Id of the memory")),
    responses((status = 200, body = Memory), (status = "default", body = Problem)))]
pub(super) async fn show(State(core): State<Core>, Path(id): Path<String>) -> Result<Json<Memory>, Problem> {
    let room = core.memory().await?.ok_or_else(|| memory_problem(memory::Error::NoSuchMemory(id.clone())))?;
    if let Some(found) = room.passage(&id).await.map_err(memory_problem)? {
        return Ok(Json(passage(found)));
    }
    let fact = vec![room.fact(&id).await.map_err(memory_problem)?.into()];
    let fact = with_reasons(&room, fact).await?.pop();
    fact.map(Json).ok_or_else(|| memory_problem(memory::Error::NoSuchMemory(id)))
}

/// All versions of what a fact is about, the newest first.
#[utoipa::path(get, path = "/api/v1/memory/{id}/history", operation_id = "memoryHistory", tag = "memory",
    params(("id" = String, Path, description = "Id of the memory")),
    responses((status = 200, body = Vec<Memory>), (status = "default", body = Problem)))]
pub(super) async fn history(State(core): State<Core>, Path(id): Path<String>) -> Result<Json<Vec<Memory>>, Problem> {
    let room = core.memory().await?.ok_or_else(|| memory_problem(memory::Error::NoSuchMemory(id.clone())))?;
    let versions = room.history(&id).await.map_err(memory_problem)?;
    with_reasons(&room, versions.into_iter().map(Memory::from).collect()).await.map(Json)
}

/// Changes of a fact; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryEdit {
    /// New words.
    #[serde(default)]
    pub content: Option<String>,
    /// New type.
    #[serde(default)]
    pub kind: Option<String>,
    /// `active` or `archived`.
    #[serde(default)]
    pub status: Option<String>,
    /// Always told first, or not.
    #[serde(default)]
    pub pinned: Option<bool>,
    /// 0–1.
    #[serde(default)]
    pub importance: Option<f64>,
    /// All labels.
    #[serde(default)]
    pub tags: Option<Vec<String>>,
    /// When it is to be archived, ms since 1970; 0 = never.
    #[serde(default)]
    pub expires_ms: Option<i64>,
}

/// Changes a fact.
#[utoipa::path(patch, path = "/api/v1/memory/{id}", operation_id = "memoryEdit", tag = "memory",
    params(("id" = String, Path, description = "Id of the memory")), request_body = MemoryEdit,
    responses((status = 200, body = MemoryChange), (status = "default", body = Problem)))]
pub(super) async fn edit(
    State(core): State<Core>,
    Path(id): Path<String>,
    Body(edit): Body<MemoryEdit>,
) -> Result<Json<MemoryChange>, Problem> {
    let room = core.memory_to_change().await?;
    let now_ms = core.clock().now_ms();
    if room.passage(&id).await.map_err(memory_problem)?.is_some() {
        return Err(Problem::invalid("A passage is what was said; it can be forgotten, not edited.")
            .hint("Add a memory of your own: metaclaw memory add"));
    }
    if let Some(status) = edit.status.as_deref().filter(|status| !matches!(*status, "active" | "archived")) {
        return Err(Problem::invalid(format!("The status cannot be {status}.")).hint("Allowed: active, archived"));
    }
    if edit.importance.is_some_and(|importance| !(0.0..=1.0).contains(&importance)) {
        return Err(Problem::invalid("The importance must lie between 0 and 1."));
    }
    if let Some(content) = &edit.content {
        room.edit(&id, content, now_ms).await.map_err(memory_problem)?;
    }
    let patch = FactPatch {
        content: None,
        status: edit.status,
        kind: edit.kind,
        pinned: edit.pinned,
        importance: edit.importance,
        tags: edit.tags,
        expires_ms: edit.expires_ms.map(|at| (at > 0).then_some(at)),
    };
    room.patch(&id, patch, now_ms).await.map_err(memory_problem)?;
    core.memory_changed();
    Ok(Json(MemoryChange::of(&id, "Changed.")))
}

/// Forgets a memory for good: every version of it, its place in the index, and its words in the journal. It is not learned
/// again.
#[utoipa::path(delete, path = "/api/v1/memory/{id}", operation_id = "memoryForget", tag = "memory",
    params(("id" = String, Path, description = "Id of the memory")),
    responses((status = 200, body = MemoryChange), (status = "default", body = Problem)))]
pub(super) async fn forget(State(core): State<Core>, Path(id): Path<String>) -> Result<Json<MemoryChange>, Problem> {
    let room = core.memory_to_change().await?;
    let gone = room.forget_id(&id, core.clock().now_ms()).await.map_err(memory_problem)?;
    core.memory_forgotten();
    Ok(Json(MemoryChange { id: Some(id), ..MemoryChange::gone(gone) }))
}

/// Lets a memory be recalled that was kept back. To refuse it, forget it.
#[utoipa::path(post, path = "/api/v1/memory/{id}/accept", operation_id = "memoryAccept", tag = "memory",
    params(("id" = String, Path, description = "Id of the memory")),
    responses((status = 200, body = MemoryChange), (status = "default", body = Problem)))]
pub(super) async fn accept(State(core): State<Core>, Path(id): Path<String>) -> Result<Json<MemoryChange>, Problem> {
    let room = core.memory_to_change().await?;
    room.accept(&id, core.clock().now_ms()).await.map_err(memory_problem)?;
    core.memory_changed();
    Ok(Json(MemoryChange::of(&id, "Accepted; it can be recalled from now on.")))
}

/// Takes back that a memory gave way to another that says the same or the opposite. The two are left alone from then on.
#[utoipa::path(post, path = "/api/v1/memory/{id}/undo", operation_id = "memoryUndo", tag = "memory",
    params(("id" = String, Path, description = "Id of the memory that gave way")),
    responses((status = 200, body = MemoryChange), (status = "default", body = Problem)))]
pub(super) async fn undo(State(core): State<Core>, Path(id): Path<String>) -> Result<Json<MemoryChange>, Problem> {
    let room = core.memory_to_change().await?;
    if !room.untidy(&id, core.clock().now_ms()).await.map_err(memory_problem)? {
        return Err(Problem::new(Code::Conflict, "This memory has not given way by itself.")
            .hint("See what became of it: metaclaw memory history ID"));
    }
    core.memory_changed();
    Ok(Json(MemoryChange::of(&id, "It holds again.")))
}

/// Memory errors in the API's shape.
pub(crate) fn memory_problem(error: memory::Error) -> Problem {
    match error {
        memory::Error::Store(error) => super::store_problem(error),
        memory::Error::NoSuchMemory(id) => {
            Problem::not_found(format!("There is no memory {id}.")).hint("Find it with: metaclaw memory search WORDS")
        }
        other => Problem::invalid(crate::core::sentence(&other)),
    }
}
