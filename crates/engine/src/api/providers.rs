//! Providers: the presets, local servers that answer, and a live test of one provider.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Body, Problem};
use crate::core::Core;

/// A provider known by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Provider {
    /// What stands in `llm.provider`.
    pub id: String,
    /// Its name for people.
    pub label: String,
    /// Its address; empty where the person must say.
    pub api_base: String,
    /// A model to start with; empty where the person must say.
    pub model_id: String,
    /// `openai-chat`, `openai-responses` or `anthropic-messages`.
    pub dialect: String,
    /// The variable in which people keep its key.
    pub key_env: Option<String>,
    /// That variable is set where the service runs.
    pub key_env_set: bool,
    /// Where a key is made.
    pub key_url: Option<String>,
    /// Runs on this machine and needs no key.
    pub local: bool,
    /// Why it cannot be used yet.
    pub later: Option<String>,
}

/// All providers known by name.
#[utoipa::path(get, path = "/api/v1/providers", operation_id = "providers", tag = "providers",
    responses((status = 200, body = Vec<Provider>), (status = "default", body = Problem)))]
pub(super) async fn list() -> Json<Vec<Provider>> {
    Json(
        config::presets()
            .iter()
            .map(|preset| Provider {
                id: preset.id.clone(),
                label: preset.label.clone(),
                api_base: preset.api_base.clone(),
                model_id: preset.model_id.clone(),
                dialect: preset.dialect.clone(),
                key_env_set: preset
                    .key_env
                    .as_ref()
                    .is_some_and(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty())),
                key_env: preset.key_env.clone(),
                key_url: preset.key_url.clone(),
                local: preset.local,
                later: preset.later.clone(),
            })
            .collect(),
    )
}

/// A server on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalServer {
    /// Id of the preset.
    pub provider: String,
    /// Its name for people.
    pub label: String,
    /// Its address.
    pub api_base: String,
    /// The models it has; empty = it runs, but no model is loaded.
    pub models: Vec<String>,
    /// How long it took to answer, ms.
    pub took_ms: u64,
}

/// Model servers that answer on this machine.
#[utoipa::path(get, path = "/api/v1/providers/local", operation_id = "localServers", tag = "providers",
    responses((status = 200, body = Vec<LocalServer>), (status = "default", body = Problem)))]
pub(super) async fn local(State(core): State<Core>) -> Json<Vec<LocalServer>> {
    Json(crate::provider::local_servers(&core).await)
}

/// What to test. What is absent comes from the config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderTest {
    /// Id of the preset.
    #[serde(default)]
    pub provider: Option<String>,
    /// Its address.
    #[serde(default)]
    pub api_base: Option<String>,
    /// The key, or a reference: `env:NAME`, `file:PATH`, `keychain:NAME`. Not stored.
    #[serde(default)]
    pub api_key: Option<String>,
    /// The model.
    #[serde(default)]
    pub model_id: Option<String>,
    /// Its dialect.
    #[serde(default)]
    pub dialect: Option<String>,
    /// How it is shown who asks: `api_key` or `passthrough`.
    #[serde(default)]
    pub auth_method: Option<String>,
    /// Only ask for the list of models; no call that costs tokens.
    #[serde(default)]
    pub models_only: bool,
}

/// How a test ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderReport {
    /// Everything that was asked for worked.
    pub ok: bool,
    /// As a sentence: what came back, or who said no and what to do.
    pub message: String,
    /// The address that was asked.
    pub base_url: String,
    /// The models the provider lists; empty if it does not.
    pub models: Vec<String>,
    /// The model that was called.
    pub model: Option<String>,
    /// How long the call took, ms.
    pub took_ms: Option<u64>,
    /// What the model said.
    pub words: Option<String>,
    /// HTTP status of a refusal.
    pub status: Option<u16>,
}

/// Asks a provider for its models and for one word.
#[utoipa::path(post, path = "/api/v1/providers/test", operation_id = "providerTest", tag = "providers",
    request_body = ProviderTest,
    responses((status = 200, body = ProviderReport), (status = "default", body = Problem)))]
pub(super) async fn test(
    State(core): State<Core>,
    Body(test): Body<ProviderTest>,
) -> Result<Json<ProviderReport>, Problem> {
    crate::provider::test(&core, &test).await.map(Json)
}
