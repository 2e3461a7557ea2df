//! Memory asked: everything that fits, or exactly what a turn would get.

use axum::Json;
use axum::extract::State;
use memory::{Ask, Recalled, section};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::{Body, Problem};
use super::memory_problem;
use crate::core::Core;

/// A question to memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemorySearch {
    /// The words.
    pub text: String,
    /// Whose memory; empty = the default scope.
    #[serde(default)]
    pub scope: String,
    /// At most so many; 0 = 20, or as many as a turn would get with `as_turn`.
    #[serde(default)]
    pub limit: usize,
    /// What held at this moment, ms since 1970.
    #[serde(default)]
    pub as_of_ms: Option<i64>,
    /// Exactly what a turn with these words would get, and nothing else.
    #[serde(default)]
    pub as_turn: bool,
}

/// A memory that fits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryHit {
    /// Its id.
    pub id: String,
    /// Its type.
    pub kind: String,
    /// What was said, whole.
    pub content: String,
    /// As it would be put into a prompt.
    pub line: String,
    /// Who said it.
    pub speaker: String,
    /// When, ms since 1970.
    pub at_ms: i64,
    /// Higher is better; comparable within one question.
    pub score: f32,
    /// The matched words.
    pub why: String,
    /// Estimated tokens.
    pub tokens: u32,
    /// Session it comes from.
    pub session: String,
    /// User turn within it.
    pub turn: u32,
    /// Row of the journal.
    pub turn_id: Option<i64>,
    /// When a newer statement took its place, ms since 1970.
    pub outdated_ms: Option<i64>,
    /// Kept back until you accept it.
    pub quarantined: bool,
}

impl From<&Recalled> for MemoryHit {
    fn from(found: &Recalled) -> Self {
        Self {
            id: found.id.clone(),
            kind: found.kind.clone(),
            content: found.content.clone(),
            line: found.line.clone(),
            speaker: found.speaker.clone(),
            at_ms: found.at_ms,
            score: found.score,
            why: found.why.clone(),
            tokens: found.tokens,
            session: found.source.session_id.clone(),
            turn: found.source.turn,
            turn_id: found.turn_id.map(|turn| turn.0),
            outdated_ms: found.outdated_ms,
            quarantined: found.quarantined,
        }
    }
}

/// What memory has to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryPreview {
    /// Fitting memories, best first.
    pub hits: Vec<MemoryHit>,
    /// The section as it would be put into a prompt.
    pub block: String,
    /// Estimated tokens of it.
    pub tokens: u32,
    /// The budget.
    pub budget: u32,
}

/// Searches memory: everything that fits, or exactly what a turn with these words would get.
#[utoipa::path(post, path = "/api/v1/memory/search", operation_id = "memorySearch", tag = "memory",
    request_body = MemorySearch,
    responses((status = 200, body = MemoryPreview), (status = "default", body = Problem)))]
pub(in crate::api) async fn search(
    State(core): State<Core>,
    Body(search): Body<MemorySearch>,
) -> Result<Json<MemoryPreview>, Problem> {
    let Some(room) = core.memory().await? else { return Ok(Json(MemoryPreview::default())) };
    let settings = room.settings();
    let words = dialect::user_words(&search.text);
    let budget = settings.max_tokens;
    let meant = core.meant(&words).await;
    let ask = Ask {
        text: &words,
        meant: meant.as_ref(),
        scope: &search.scope,
        now_ms: core.clock().now_ms(),
        budget_tokens: if search.as_turn { 0 } else { u32::MAX },
        limit: if search.as_turn || search.limit > 0 { search.limit } else { 20 },
        as_of_ms: search.as_of_ms,
        search: !search.as_turn,
        ..Ask::default()
    };
    let found = room.recall(&ask).await.map_err(memory_problem)?;
    let block = section(&found);
    Ok(Json(MemoryPreview {
        hits: found.iter().map(MemoryHit::from).collect(),
        tokens: dialect::estimate_tokens(&block),
        block,
        budget,
    }))
}
