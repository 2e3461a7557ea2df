//! First run: what is missing, and the answers that fill it. The wizard of the command line and the window's first-run
//! pages both end here.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::providers::ProviderReport;
use super::{Body, Problem};
use crate::core::Core;

/// How far the setup is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetupState {
    /// A provider can be asked.
    pub configured: bool,
    /// What is missing for that.
    pub missing: Option<String>,
    /// The config file.
    pub config: String,
    /// It exists.
    pub exists: bool,
    /// `llm.provider`, if the file names one.
    pub provider: Option<String>,
    /// `llm.model_id`
    pub model_id: String,
    /// `llm.api_base`
    pub api_base: String,
    /// `llm.api_key` is set, or refers to where it is kept.
    pub key_set: bool,
    /// `mode`
    pub mode: String,
    /// `claw_type`
    pub claw_type: String,
    /// `skills.enabled`
    pub skills: bool,
    /// `proxy.port`
    pub port: u16,
    /// Nobody else listens on that port (a running MetaClaw does not count).
    pub port_free: bool,
}

/// How far the setup is.
#[utoipa::path(get, path = "/api/v1/setup", operation_id = "setup", tag = "setup",
    responses((status = 200, body = SetupState), (status = "default", body = Problem)))]
pub(super) async fn state(State(core): State<Core>) -> Result<Json<SetupState>, Problem> {
    crate::setup::state(&core).map(Json)
}

/// Answers to write.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SetupAnswers {
    /// Config keys with values, nested or dotted; or the short names `provider`, `model`, `base_url`, `api_key`, `port`,
    /// `host`, `agent`, `skills`. Keys that are not named stay as they are. `fetch_model: yes` agrees to the download of
    /// a model that the built-in provider lacks.
    #[schema(value_type = Object)]
    pub answers: Map<String, Value>,
    /// Only say what would change.
    #[serde(default)]
    pub dry_run: bool,
    /// Make a test call before writing; if it fails, nothing is written.
    #[serde(default)]
    pub test: bool,
}

/// A setting that an answer changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingChange {
    /// Its key.
    pub key: String,
    /// What stood in the file; absent = nothing. Secrets are masked.
    pub before: Option<String>,
    /// What stands there then. Secrets are masked.
    pub after: Option<String>,
}

/// What the answers did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetupReport {
    /// The file was written.
    pub written: bool,
    /// The config file.
    pub config: String,
    /// It did not exist before.
    pub created: bool,
    /// What changed.
    pub changes: Vec<SettingChange>,
    /// How the test call ended, if one was made.
    pub test: Option<ProviderReport>,
    /// What is still missing before a provider can be asked.
    pub missing: Option<String>,
}

/// Writes answers into the config file; everything else in it stays.
#[utoipa::path(post, path = "/api/v1/setup", operation_id = "setupAnswer", tag = "setup", request_body = SetupAnswers,
    responses((status = 200, body = SetupReport), (status = "default", body = Problem)))]
pub(super) async fn answer(
    State(core): State<Core>,
    Body(answers): Body<SetupAnswers>,
) -> Result<Json<SetupReport>, Problem> {
    crate::setup::answer(&core, answers).await.map(Json)
}
