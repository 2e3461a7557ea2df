//! What runs, where, and what needs the person: status and the doctor's checks.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Asked, Problem};
use crate::core::Core;

/// Whether the service runs and can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// Agents are served.
    Running,
    /// The service runs, but no provider is configured yet.
    FirstRun,
    /// The service is ending: no new requests, running answers are finished.
    Stopping,
    /// A process holds this home, but its control socket does not answer: it is starting or ending, or it hangs.
    Unreachable,
    /// No service runs in this home.
    Stopped,
}

/// Something that is accepted but does nothing in this release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Later {
    /// The setting or mode.
    pub what: String,
    /// What comes later.
    pub note: String,
}

/// The provider that answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderState {
    /// Id of the preset.
    pub id: String,
    /// Its address, version path included.
    pub base_url: Option<String>,
    /// The model that is asked.
    pub model: Option<String>,
    /// The dialect it speaks.
    pub dialect: Option<String>,
    /// Set if the agents' own credentials are passed on.
    pub passthrough: bool,
}

/// Skills in a few figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillFigures {
    /// Skills are added to turns.
    pub enabled: bool,
    /// Usable skills.
    pub count: u32,
    /// Of them, switched off.
    pub disabled: u32,
    /// Files that cannot be used.
    pub unusable: u32,
}

/// Whether skills are learned from conversations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LearningState {
    /// The settings want it (`skills.auto_evolve`).
    pub wanted: bool,
    /// It is done.
    pub on: bool,
    /// The model that is asked.
    pub model: Option<String>,
    /// Why nothing is learned though it is wanted.
    pub reason: Option<String>,
    /// The model that judges answers of learned skills; absent = none is asked.
    #[serde(default)]
    pub judge: Option<String>,
    /// Why it is not asked at the moment.
    #[serde(default)]
    pub judge_reason: Option<String>,
    /// It compares answers with and without a learned skill before that counts as proven.
    #[serde(default)]
    pub judge_compares: bool,
    /// It scores answers while a learned skill is measured by them.
    #[serde(default)]
    pub judge_scores: bool,
}

/// Whether skills, or memories, are found by meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ByMeaning {
    /// The settings want it (`skills.retrieval_mode`, `memory.retrieval_mode`).
    pub wanted: bool,
    /// It is done.
    pub on: bool,
    /// The model that makes the vectors.
    pub model: String,
    /// Skills, or passages and facts, that have theirs, …
    pub ready: u32,
    /// … of so many.
    pub of: u32,
    /// Turns of this run that were searched by their words alone, since the model was late or failed.
    pub missed: u64,
    /// Why they are found by their words though it is wanted.
    pub reason: Option<String>,
}

/// The state of the service and of its home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Whether it runs.
    pub state: ServiceState,
    /// Process id.
    pub pid: Option<u32>,
    /// Version of the program that answers.
    pub version: String,
    /// When it started, ms since 1970.
    pub since_ms: Option<i64>,
    /// `auto`, `rl` or `skills_only`, as this run has it.
    pub mode: String,
    /// Set if `--mode` overruled the config.
    pub mode_overruled: bool,
    /// What agents use as base URL for the OpenAI dialects. For Anthropic's, leave out `/v1`.
    pub base_url: Option<String>,
    /// Port for agents.
    pub port: u16,
    /// Why it listens elsewhere than the config says.
    pub listen_note: Option<String>,
    /// The key agents must send is set.
    pub key_required: bool,
    /// Address of the window's pages in a browser, without the token.
    pub ui_url: Option<String>,
    /// A provider is configured.
    pub configured: bool,
    /// What is missing for that.
    pub missing: Option<String>,
    /// The provider.
    pub provider: ProviderState,
    /// Skills.
    pub skills: SkillFigures,
    /// Whether new skills are learned.
    #[serde(default)]
    pub learning: LearningState,
    /// Whether skills are found by meaning.
    #[serde(default)]
    pub by_meaning: ByMeaning,
    /// Whether memories are found by meaning.
    #[serde(default)]
    pub memory_by_meaning: ByMeaning,
    /// The folder.
    pub home: String,
    /// The config file.
    pub config: String,
    /// The log file.
    pub log: Option<String>,
    /// Why the config file, as it stands now, is not in use; the last good one is.
    pub config_problem: Option<String>,
    /// What needs the person: turns that do not get into the journal, and what is odd in the config file.
    pub warnings: Vec<String>,
    /// What is asked for but comes with a later release.
    pub later: Vec<Later>,
    /// Settings that changed since the start and count from the next start.
    pub restart_for: Vec<String>,
}

/// The state of the service.
#[utoipa::path(get, path = "/api/v1/status", operation_id = "status", tag = "service",
    responses((status = 200, body = Status), (status = "default", body = Problem)))]
pub(super) async fn status(State(core): State<Core>) -> Json<Status> {
    Json(core.status())
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// In order.
    Good,
    /// Works, but look at it.
    Warn,
    /// Does not work.
    Bad,
    /// Not looked at.
    Skipped,
}

/// One check of the doctor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// What was looked at: `config`, `home`, `service`, `port`, `key`, `provider`, `skills`, `journal`, `later`.
    pub id: String,
    /// How it ended.
    pub grade: Grade,
    /// What was found.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// How to check.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DoctorQuery {
    /// `true`: make a real test call to the provider.
    pub live: Option<bool>,
}

/// Checks config, home, port, key, provider, skills and journal.
#[utoipa::path(get, path = "/api/v1/doctor", operation_id = "doctor", tag = "service", params(DoctorQuery),
    responses((status = 200, body = Vec<Check>), (status = "default", body = Problem)))]
pub(super) async fn doctor(State(core): State<Core>, Asked(query): Asked<DoctorQuery>) -> Json<Vec<Check>> {
    Json(crate::doctor::checks(&core, query.live.unwrap_or(false)).await)
}
