//! Turns: what the agent sent, what was added and why, what came back. Read from the journal; the forwarded form is
//! rebuilt from the stored request and the session's remembered blocks.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Asked, Problem};
use crate::core::Core;
use crate::diff::Change;

/// Tokens as the provider counted them; absent where it did not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tokens {
    /// Prompt tokens, cached ones included.
    pub input: Option<u64>,
    /// Answer tokens, reasoning included.
    pub output: Option<u64>,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: Option<u64>,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: Option<u64>,
    /// Answer tokens spent on reasoning.
    pub reasoning: Option<u64>,
}

/// One thing that was added to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Addition {
    /// `skill` or `memory`.
    pub kind: String,
    /// Skill name or memory id.
    pub id: String,
    /// Retrieval score.
    pub score: f32,
    /// Why it was picked.
    pub why: String,
    /// Estimated tokens it cost.
    pub tokens: u32,
}

impl From<store::Addition> for Addition {
    fn from(of: store::Addition) -> Self {
        Self { kind: of.kind, id: of.id, score: of.score, why: of.why, tokens: of.tokens }
    }
}

/// A turn's row: one request and its answer. A user turn with tool calls has several, told apart by `step`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TurnRow {
    /// Number of the row.
    pub id: i64,
    /// Session id.
    pub session: String,
    /// The agent, where known.
    pub agent: Option<String>,
    /// `main`, or the name of a side call: `title`, `heartbeat`, `compaction`, …
    pub kind: String,
    /// User turn within the session, from 1.
    pub turn: u32,
    /// Request within the user turn, from 0.
    pub step: u32,
    /// The agent's dialect.
    pub dialect: String,
    /// The provider's dialect.
    pub upstream_dialect: String,
    /// The provider.
    pub provider: Option<String>,
    /// The model the agent asked for.
    pub model_asked: Option<String>,
    /// The model the provider was asked for.
    pub model_sent: Option<String>,
    /// When the request arrived, ms since 1970.
    pub started_ms: i64,
    /// When the first byte of the answer left, ms since 1970.
    pub first_byte_ms: Option<i64>,
    /// When the answer was complete, ms since 1970.
    pub finished_ms: i64,
    /// HTTP status the agent got.
    pub status: Option<u16>,
    /// `ok`, `error`, `cancelled` (the agent went away) or `cut` (the provider broke off).
    pub outcome: String,
    /// What went wrong.
    pub error: Option<String>,
    /// Why the model stopped.
    pub stop: Option<String>,
    /// Tokens.
    pub tokens: Tokens,
    /// What was added, and why.
    pub additions: Vec<Addition>,
    /// Learned skills that fitted and were left out, to see what they do.
    #[serde(default)]
    pub held_out: Vec<Addition>,
    /// The user's own words.
    pub user_text: Option<String>,
    /// Length of the agent's request in bytes.
    pub request_bytes: u64,
    /// Weights that answered, where they are ours.
    pub weight_version: Option<i64>,
    /// The number of the last change of the skills that the agent could get.
    #[serde(default)]
    pub skill_generation: Option<i64>,
}

impl From<store::TurnSummary> for TurnRow {
    fn from(turn: store::TurnSummary) -> Self {
        Self {
            id: turn.id.0,
            session: turn.session,
            agent: turn.agent,
            kind: turn.kind.as_str().to_owned(),
            turn: turn.turn_no,
            step: turn.step,
            dialect: turn.dialect,
            upstream_dialect: turn.upstream_dialect,
            provider: turn.upstream,
            model_asked: turn.model_asked,
            model_sent: turn.model_sent,
            started_ms: turn.started_ms,
            first_byte_ms: turn.first_byte_ms,
            finished_ms: turn.finished_ms,
            status: turn.status,
            outcome: turn.outcome.as_str().to_owned(),
            error: turn.error,
            stop: turn.stop,
            tokens: Tokens {
                input: turn.usage.input,
                output: turn.usage.output,
                cache_read: turn.usage.cache_read,
                cache_write: turn.usage.cache_write,
                reasoning: turn.usage.reasoning,
            },
            additions: turn.additions.into_iter().map(Addition::from).collect(),
            held_out: turn.held_out.into_iter().map(Addition::from).collect(),
            user_text: turn.user_text,
            request_bytes: turn.request_len,
            weight_version: turn.weight_version,
            skill_generation: turn.skill_generation,
        }
    }
}

/// A header that was kept with the request; never a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Header {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// A whole turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Turn {
    /// What lists show.
    #[serde(flatten)]
    pub row: TurnRow,
    /// Request headers that were kept.
    pub headers: Vec<Header>,
    /// The block this turn added first, exactly as it went to the provider.
    pub block: Option<String>,
    /// The answer's text.
    pub answer_text: Option<String>,
    /// The whole answer in the neutral form: blocks, stop reason, tokens.
    #[schema(value_type = Option<Object>)]
    pub answer: Option<serde_json::Value>,
    /// How the answer was taken, once the user has gone on or the session has ended.
    #[serde(default)]
    pub taken: Option<Taken>,
}

/// How the answer of a user turn was taken: what learned skills are measured by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Taken {
    /// What the user said next: `correction`, `thanks` or `none`.
    pub reaction: String,
    /// Tools that failed on the way.
    pub tool_errors: u32,
    /// Requests that failed and came again.
    pub retries: u32,
    /// Answers that were asked for once more.
    pub regenerations: u32,
    /// The judge's score, 0 (it served nobody) to 1; absent = it was not asked, or had nothing to say.
    #[serde(default)]
    pub judge: Option<f64>,
    /// It counts as good.
    pub good: bool,
}

impl From<store::KnownOutcome> for Taken {
    fn from(of: store::KnownOutcome) -> Self {
        let store::KnownOutcome { reaction, tool_errors, retries, regenerations, judge, good } = of;
        Self { reaction, tool_errors, retries, regenerations, judge, good }
    }
}

/// Which turns.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TurnsQuery {
    /// Of this session.
    pub session: Option<String>,
    /// Of this agent.
    pub agent: Option<String>,
    /// `main` or the name of a side call.
    pub kind: Option<String>,
    /// `ok`, `error`, `cancelled` or `cut`.
    pub outcome: Option<String>,
    /// Older than this one (the last id of the page before).
    pub before: Option<i64>,
    /// Newer than this one, oldest first.
    pub after: Option<i64>,
    /// At most so many; 50 if absent, 1,000 at most.
    pub limit: Option<u32>,
}

/// Turns, newest first.
#[utoipa::path(get, path = "/api/v1/turns", operation_id = "turns", tag = "turns", params(TurnsQuery),
    responses((status = 200, body = Vec<TurnRow>), (status = "default", body = Problem)))]
pub(super) async fn list(
    State(core): State<Core>,
    Asked(query): Asked<TurnsQuery>,
) -> Result<Json<Vec<TurnRow>>, Problem> {
    let outcome = match query.outcome.as_deref() {
        None => None,
        Some("ok") => Some(store::Outcome::Ok),
        Some("error") => Some(store::Outcome::Error),
        Some("cancelled") => Some(store::Outcome::Cancelled),
        Some("cut") => Some(store::Outcome::Cut),
        Some(other) => {
            return Err(
                Problem::invalid(format!("\"{other}\" is no outcome.")).hint("Allowed: ok, error, cancelled, cut.")
            );
        }
    };
    let Some(store) = core.journal().await? else { return Ok(Json(Vec::new())) };
    let filter = store::TurnFilter {
        session: query.session,
        agent: query.agent,
        kind: query.kind,
        outcome,
        before: query.before.map(store::TurnId),
        after: query.after.map(store::TurnId),
        limit: query.limit.unwrap_or(50).clamp(1, 1000),
        ..store::TurnFilter::default()
    };
    let turns = store.turns(&filter).await.map_err(super::store_problem)?;
    Ok(Json(turns.into_iter().map(TurnRow::from).collect()))
}

/// One turn, whole.
#[utoipa::path(get, path = "/api/v1/turns/{id}", operation_id = "turn", tag = "turns",
    params(("id" = String, Path, description = "Number of the turn, or `last`")),
    responses((status = 200, body = Turn), (status = "default", body = Problem)))]
pub(super) async fn show(State(core): State<Core>, Path(id): Path<String>) -> Result<Json<Turn>, Problem> {
    let (store, turn) = find(&core, &id).await?;
    let row = &turn.summary;
    let taken = match row.kind.is_main() {
        true => store.skill_outcome(&row.session, row.turn_no).await.map_err(super::store_problem)?,
        false => None,
    };
    let answer = turn.answer_json.as_deref().and_then(|text| serde_json::from_str(text).ok());
    Ok(Json(Turn {
        row: turn.summary.into(),
        headers: turn.headers.into_iter().map(|(name, value)| Header { name, value }).collect(),
        block: turn.block.map(|block| block.text).filter(|text| !text.is_empty()),
        answer_text: turn.answer_text,
        answer,
        taken: taken.map(Taken::from),
    }))
}

async fn find<'a>(core: &'a Core, id: &str) -> Result<(&'a store::Store, store::Turn), Problem> {
    let missing = || Problem::not_found(format!("There is no turn {id}.")).hint("List them with: metaclaw turns");
    let store = core.journal().await?.ok_or_else(missing)?;
    let id = if id == "last" {
        let filter = store::TurnFilter { limit: 1, ..store::TurnFilter::default() };
        let newest = store.turns(&filter).await.map_err(super::store_problem)?;
        newest.first().map(|turn| turn.id).ok_or_else(missing)?
    } else {
        store::TurnId(id.parse().map_err(|_| {
            Problem::invalid(format!("\"{id}\" is no turn number.")).hint("List them with: metaclaw turns")
        })?)
    };
    let turn = store.turn(id).await.map_err(super::store_problem)?.ok_or_else(missing)?;
    Ok((store, turn))
}

/// Which form of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The agent's bytes.
    #[default]
    Sent,
    /// What went to the provider.
    Forwarded,
}

/// Which form of a request.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RequestQuery {
    /// `sent` (if absent) or `forwarded`.
    #[param(inline)]
    pub form: Option<Form>,
}

/// A turn's request body, byte for byte.
#[utoipa::path(get, path = "/api/v1/turns/{id}/request", operation_id = "turnRequest", tag = "turns",
    params(("id" = String, Path, description = "Number of the turn, or `last`"), RequestQuery),
    responses((status = 200, description = "The body", body = String, content_type = "application/json"),
              (status = "default", body = Problem)))]
pub(super) async fn request(
    State(core): State<Core>,
    Path(id): Path<String>,
    Asked(query): Asked<RequestQuery>,
) -> Result<Response, Problem> {
    let (store, turn) = find(&core, &id).await?;
    let bytes = match query.form.unwrap_or_default() {
        Form::Sent => store.request_of(turn.summary.id).await.map_err(super::store_problem)?,
        Form::Forwarded => crate::replay::forms(&core, store, &turn).await?.forwarded,
    };
    Ok(([(http::header::CONTENT_TYPE, "application/json")], Body::from(bytes)).into_response())
}

/// What MetaClaw changed in a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TurnDiff {
    /// Number of the turn.
    pub id: i64,
    /// Length of the agent's request.
    pub sent_bytes: u64,
    /// Length of what went to the provider.
    pub forwarded_bytes: u64,
    /// True if the agent's and the provider's dialects differ: `changes` then shows what was changed before translation.
    pub translated: bool,
    /// The changes, in document order. Empty = forwarded byte for byte.
    pub changes: Vec<Change>,
}

/// What MetaClaw changed in a turn's request.
#[utoipa::path(get, path = "/api/v1/turns/{id}/diff", operation_id = "turnDiff", tag = "turns",
    params(("id" = String, Path, description = "Number of the turn, or `last`")),
    responses((status = 200, body = TurnDiff), (status = "default", body = Problem)))]
pub(super) async fn diff(State(core): State<Core>, Path(id): Path<String>) -> Result<Json<TurnDiff>, Problem> {
    let (store, turn) = find(&core, &id).await?;
    let forms = crate::replay::forms(&core, store, &turn).await?;
    let parse = |bytes: &[u8]| serde_json::from_slice(bytes).map_err(Problem::internal);
    Ok(Json(TurnDiff {
        id: turn.summary.id.0,
        sent_bytes: forms.sent.len() as u64,
        forwarded_bytes: forms.forwarded.len() as u64,
        translated: turn.summary.dialect != turn.summary.upstream_dialect,
        changes: crate::diff::changes(&parse(&forms.sent)?, &parse(&forms.edited)?),
    }))
}
