//! Settings: every key with its value, default, source and meaning; changed one by one without touching the rest of the
//! file. Secrets leave here only when asked for by name.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::{Asked, Body, Problem};
use crate::core::Core;

/// What a key does in this release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingState {
    /// It works.
    Live,
    /// It is read and checked, and does nothing before the feature in `note` is here.
    Later,
    /// It is accepted so that old files load; `note` says what to use.
    Accepted,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Setting {
    /// Dotted path.
    pub key: String,
    /// The value in force; a secret as `(set)`, as its reference, or empty.
    #[schema(value_type = Value)]
    pub value: Value,
    /// What holds when the file does not say.
    #[schema(value_type = Value)]
    pub default: Value,
    /// Line of the config file that sets it; absent = default.
    pub line: Option<usize>,
    /// What it does.
    pub doc: String,
    /// What may stand there, in words.
    pub allowed: String,
    /// What may stand there, for a form: `{"type": "integer", "min": 0, "max": 10}`.
    #[schema(value_type = Object)]
    pub kind: Value,
    /// Its value is not shown.
    pub secret: bool,
    /// What it does in this release.
    pub state: SettingState,
    /// The note to `later` and `accepted`.
    pub note: Option<String>,
    /// A change counts from the next start.
    pub needs_restart: bool,
}

/// A finding about the config file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigFinding {
    /// `error` or `warning`.
    pub severity: String,
    /// Line, from 1; 0 = the file as a whole.
    pub line: usize,
    /// The key.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub fix: Option<String>,
}

/// All settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Settings {
    /// The config file.
    pub path: String,
    /// It exists.
    pub exists: bool,
    /// All settings, in the order of the starter file. Values are those in force: while the file has errors, the last
    /// good ones.
    pub settings: Vec<Setting>,
    /// What is wrong or odd in the file as it stands.
    pub findings: Vec<ConfigFinding>,
}

/// All settings.
#[utoipa::path(get, path = "/api/v1/config", operation_id = "config", tag = "config",
    responses((status = 200, body = Settings), (status = "default", body = Problem)))]
pub(super) async fn list(State(core): State<Core>) -> Json<Settings> {
    let (loaded, findings) = core.read_config();
    let exists = !core.reading().missing;
    let settings = config::keys().iter().map(|key| setting(key, &loaded)).collect();
    let path = core.config_path();
    Json(Settings { path: path.display().to_string(), exists, settings, findings })
}

/// Keys whose change counts from the next start.
pub(crate) const AT_START: &[&str] = &[
    "proxy.host",
    "proxy.port",
    "proxy.connect_timeout_seconds",
    "skills.dir",
    "control.tcp",
    "control.tcp_port",
    "log.max_mb",
    "log.keep_files",
];

fn setting(key: &config::Key, loaded: &config::Loaded) -> Setting {
    let (state, note) = match key.effect {
        config::Effect::Live => (SettingState::Live, None),
        config::Effect::Later(note) => (SettingState::Later, Some(note.to_owned())),
        config::Effect::Accepted(note) => (SettingState::Accepted, Some(note.to_owned())),
    };
    Setting {
        key: key.path.to_owned(),
        value: loaded.config.get(key.path).unwrap_or(Value::Null),
        default: key.default.clone(),
        line: loaded.source(key.path).map(|source| source.line),
        doc: key.doc.to_owned(),
        allowed: key.kind.allowed(),
        kind: serde_json::to_value(key.kind).unwrap_or(Value::Null),
        secret: key.secret,
        state,
        note,
        needs_restart: AT_START.contains(&key.path),
    }
}

/// A setting by one of its names, or one entry of a setting that holds entries: `llm.model_map.NAME`.
struct Known {
    key: &'static config::Key,
    entry: Option<String>,
}

fn known(name: &str) -> Result<Known, Problem> {
    if let Some(key) = config::keys().iter().find(|known| known.path == name || known.aliases.contains(&name)) {
        return Ok(Known { key, entry: None });
    }
    let entry = config::keys().iter().find_map(|key| {
        let maps = matches!(key.kind, config::Kind::Map | config::Kind::SecretMap);
        let entry = name.strip_prefix(key.path)?.strip_prefix('.')?;
        (maps && !entry.is_empty()).then(|| Known { key, entry: Some(entry.to_owned()) })
    });
    if let Some(entry) = entry {
        return Ok(entry);
    }
    // The editor knows the nearest name.
    let edit = config::Edit::Unset { key: name.to_owned() };
    match config::edit_text("", std::path::Path::new("config.yaml"), &[edit]) {
        Err(error) => Err(crate::core::edit_problem(&error)),
        Ok(_) => Err(Problem::not_found(format!("There is no setting {name}."))),
    }
}

impl Known {
    fn name(&self) -> String {
        self.entry.as_ref().map_or_else(|| self.key.path.to_owned(), |entry| format!("{}.{entry}", self.key.path))
    }

    /// As it is now.
    fn shown(&self, core: &Core) -> Setting {
        let (loaded, _) = core.read_config();
        let mut found = setting(self.key, &loaded);
        found.needs_restart |=
            core.running().is_ok_and(|run| run.restart_for(&loaded).iter().any(|key| key == self.key.path));
        if let Some(entry) = &self.entry {
            let kind = if found.secret { config::Kind::Secret } else { config::Kind::Text };
            found.value = found.value.get(entry).cloned().unwrap_or(Value::Null);
            found.default = Value::Null;
            found.line = found.line.filter(|_| !found.value.is_null());
            found.allowed = kind.allowed();
            found.kind = serde_json::to_value(kind).unwrap_or(Value::Null);
            found.key = self.name();
        }
        found
    }
}

/// How to show a setting.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SettingQuery {
    /// `true`: show the value even if it is a secret.
    pub reveal: Option<bool>,
}

/// One setting.
#[utoipa::path(get, path = "/api/v1/config/{key}", operation_id = "setting", tag = "config",
    params(("key" = String, Path, description = "Dotted path"), SettingQuery),
    responses((status = 200, body = Setting), (status = "default", body = Problem)))]
pub(super) async fn get(
    State(core): State<Core>,
    Path(key): Path<String>,
    Asked(query): Asked<SettingQuery>,
) -> Result<Json<Setting>, Problem> {
    let known = known(&key)?;
    let mut found = known.shown(&core);
    if query.reveal == Some(true) && found.secret {
        found.value = core.reveal(&known.name())?;
    }
    Ok(Json(found))
}

/// A new value: text as it would be typed, or JSON of the setting's kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SettingValue {
    /// The value.
    #[schema(value_type = Value)]
    pub value: Value,
}

/// Changes one setting in the file; comments, order and everything else stay.
#[utoipa::path(put, path = "/api/v1/config/{key}", operation_id = "settingPut", tag = "config",
    params(("key" = String, Path, description = "Dotted path")), request_body = SettingValue,
    responses((status = 200, body = Setting), (status = "default", body = Problem)))]
pub(super) async fn put(
    State(core): State<Core>,
    Path(key): Path<String>,
    Body(new): Body<SettingValue>,
) -> Result<Json<Setting>, Problem> {
    let known = known(&key)?;
    core.edit_config(&[(&known.name(), Some(new.value))]).await?;
    Ok(Json(known.shown(&core)))
}

/// Removes one setting from the file, so that its default counts again.
#[utoipa::path(delete, path = "/api/v1/config/{key}", operation_id = "settingUnset", tag = "config",
    params(("key" = String, Path, description = "Dotted path")),
    responses((status = 200, body = Setting), (status = "default", body = Problem)))]
pub(super) async fn unset(State(core): State<Core>, Path(key): Path<String>) -> Result<Json<Setting>, Problem> {
    let known = known(&key)?;
    core.edit_config(&[(&known.name(), None)]).await?;
    Ok(Json(known.shown(&core)))
}

/// A text to check; absent = the file as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigCheck {
    /// The whole text of a config file.
    #[serde(default)]
    pub text: Option<String>,
}

/// What is wrong or odd; no `error` among the findings = it can be used.
#[utoipa::path(post, path = "/api/v1/config/validate", operation_id = "configValidate", tag = "config",
    request_body = ConfigCheck,
    responses((status = 200, body = Vec<ConfigFinding>), (status = "default", body = Problem)))]
pub(super) async fn validate(
    State(core): State<Core>,
    Body(check): Body<ConfigCheck>,
) -> Result<Json<Vec<ConfigFinding>>, Problem> {
    let path = core.config_path();
    let read = match check.text {
        Some(text) => config::parse(&text, path),
        None => core.files().config(path, config::load).await,
    };
    match read {
        Err(config::ConfigError::Missing { file }) => {
            Err(Problem::not_found(format!("{} does not exist.", file.display()))
                .hint("Write one with: metaclaw setup"))
        }
        read => Ok(Json(findings(&read))),
    }
}

/// Everything that is wrong or odd in a reading of the file.
pub(crate) fn findings(read: &Result<config::Loaded, config::ConfigError>) -> Vec<ConfigFinding> {
    let error = |line, key: &str, message: String, fix| ConfigFinding {
        severity: "error".into(),
        line,
        key: key.to_owned(),
        message,
        fix,
    };
    match read {
        Ok(loaded) => loaded
            .warnings
            .iter()
            .map(|warning| ConfigFinding {
                severity: "warning".into(),
                line: warning.line,
                key: warning.key.clone(),
                message: warning.message.clone(),
                fix: warning.suggestion.clone(),
            })
            .collect(),
        Err(config::ConfigError::Invalid { problems, .. }) => problems
            .iter()
            .map(|problem| {
                let fix = format!("Allowed: {}", problem.allowed);
                error(problem.line, &problem.key, format!("found {}", problem.found), Some(fix))
            })
            .collect(),
        Err(config::ConfigError::Syntax { line, column, message, .. }) => {
            vec![error(*line, "", format!("column {column}: this is no YAML: {message}"), None)]
        }
        Err(config::ConfigError::Missing { .. }) => Vec::new(),
        Err(other) => vec![error(0, "", other.to_string(), None)],
    }
}
