//! The providers that are known by name: address, dialect, and what each of them refuses.
//! In: `presets.yaml`, embedded. Out: rows for the setup, for defaults, and for the quirks of an upstream.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// A provider.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// What stands in `llm.provider`.
    pub id: String,
    /// Its name for people.
    pub label: String,
    /// Its address with version path; empty where the user must say.
    #[serde(default)]
    pub api_base: String,
    /// A model to start with; empty where the user must say.
    #[serde(default)]
    pub model_id: String,
    /// The dialect at `api_base`: `openai-chat`, `openai-responses` or `anthropic-messages`.
    pub dialect: String,
    /// The variable in which people keep its key.
    #[serde(default)]
    pub key_env: Option<String>,
    /// Where a key is made.
    #[serde(default)]
    pub key_url: Option<String>,
    /// Host names that are this provider's.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// What its API refuses, in the form of `dialect::Quirks`.
    #[serde(default = "nothing")]
    pub quirks: serde_json::Value,
    /// Its other dialects.
    #[serde(default)]
    pub also: Vec<Door>,
    /// Model ids of other catalogues, with the id that this API takes.
    #[serde(default)]
    pub models: BTreeMap<String, String>,
    /// Runs on the user's machine and needs no key.
    #[serde(default)]
    pub local: bool,
    /// Why it cannot be used yet.
    #[serde(default)]
    pub later: Option<String>,
}

/// Another dialect of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Door {
    /// As in [`Preset::dialect`].
    pub dialect: String,
    /// The path on the provider's host that takes the place of the path of `api_base`.
    pub path: String,
}

fn nothing() -> serde_json::Value {
    serde_json::Value::Object(serde_json::Map::new())
}

static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| {
    // A test reads the embedded file, so that a mistake in it cannot be shipped.
    serde_saphyr::from_str(include_str!("presets.yaml")).unwrap_or_default()
});

/// Other names of providers, as people and older versions write them.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("moonshot", "kimi"),
    ("moonshotai", "kimi"),
    ("dashscope", "qwen"),
    ("alibaba", "qwen"),
    ("claude", "anthropic"),
    ("google", "gemini"),
    ("ark", "volcengine"),
    ("doubao", "volcengine"),
    ("llama.cpp", "llamacpp"),
    ("llama-server", "llamacpp"),
    ("lm-studio", "lmstudio"),
    ("lm_studio", "lmstudio"),
    ("openai-compatible", "custom"),
    ("codex", "openai-codex"),
];

/// Every provider that is known by name.
#[must_use]
pub fn presets() -> &'static [Preset] {
    &PRESETS
}

/// A provider by its id or another name of it, in any case.
#[must_use]
pub fn preset(id: &str) -> Option<&'static Preset> {
    let id = id.trim().to_ascii_lowercase();
    let id = OTHER_NAMES.iter().find(|(other, _)| *other == id).map_or(id.as_str(), |(_, id)| id);
    PRESETS.iter().find(|preset| preset.id == id)
}

/// The provider whose host this is.
pub(crate) fn preset_of_host(host: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)))
}
