//! The first run as data: how far the setup is, and answers that become edits of the config file. Keys that are not
//! answered stay as they are; a new file begins with comments and a generated proxy key.

use config::Edit;
use serde_json::{Map, Value};

use crate::api::{Problem, ProviderTest, SettingChange, SetupAnswers, SetupReport, SetupState};
use crate::core::{Core, edit_problem, typed_text};

/// The answer that allows a model to be fetched.
const FETCH: &str = "fetch_model";

/// Short names that answers may use.
const SHORT: &[(&str, &str)] = &[
    ("provider", "llm.provider"),
    ("model", "llm.model_id"),
    ("model_id", "llm.model_id"),
    ("base_url", "llm.api_base"),
    ("api_base", "llm.api_base"),
    ("api_key", "llm.api_key"),
    ("auth_method", "llm.auth_method"),
    ("dialect", "llm.dialect"),
    ("port", "proxy.port"),
    ("host", "proxy.host"),
    ("agent", "claw_type"),
    ("claw", "claw_type"),
];

/// How far the setup is.
pub(crate) fn state(core: &Core) -> Result<SetupState, Problem> {
    let reading = core.reading();
    if let Some(problem) = &reading.problem {
        return Err(Problem::invalid(format!("The config file cannot be used: {problem}."))
            .hint("Mend it first: metaclaw config validate"));
    }
    let config = &reading.loaded.config;
    let path = core.config_path();
    let missing = config.upstream().err().map(|error| error.to_string());
    let port = config.proxy.port;
    let ours = core.running().is_ok_and(|run| run.addr.port() == port)
        || crate::lock::holder(&core.home().lock_path()).flatten().is_some_and(|holder| holder.port == port);
    Ok(SetupState {
        configured: missing.is_none(),
        missing,
        config: path.display().to_string(),
        exists: path.exists(),
        provider: reading.loaded.source("llm.provider").map(|_| config.llm.provider.clone()),
        model_id: config.llm.model_id.clone(),
        api_base: config.llm.api_base.clone(),
        key_set: config.llm.api_key.is_configured(),
        mode: config.mode.to_string(),
        claw_type: config.claw_type.to_string(),
        skills: config.skills.enabled,
        port,
        port_free: ours || std::net::TcpListener::bind(("127.0.0.1", port)).is_ok(),
    })
}

/// Writes the answers, or says what they would change.
pub(crate) async fn answer(core: &Core, asked: SetupAnswers) -> Result<SetupReport, Problem> {
    let path = core.config_path().to_path_buf();
    let created = !path.exists();
    let mut answers = Vec::new();
    flatten(&asked.answers, "", &mut answers);
    let agreed = take(&mut answers, FETCH).is_some_and(|yes| yes == true || yes == "yes");
    let current = core.config().llm.provider;
    let edits = edits(answers, if created { None } else { Some(&current) })?;
    let before = if created { first_text(&**core.clock()) } else { read(&path)? };
    let (after, changes) = config::edit_text(&before, &path, &edits).map_err(|error| edit_problem(&error))?;
    let mut loaded = config::parse(&after, &path).map_err(|error| Problem::invalid(crate::core::sentence(&error)))?;
    let base = path.parent().unwrap_or(&path);
    let _ = loaded.fetch_secrets(&config::LocalSecrets::of_process(base), &path);
    let missing = loaded.config.upstream().err().map(|error| error.to_string());
    let mut report = SetupReport {
        written: false,
        config: path.display().to_string(),
        created,
        changes: shown(&changes),
        test: None,
        missing,
    };
    if loaded.config.upstream().is_ok_and(|upstream| upstream.is_builtin()) && !asked.dry_run {
        have_model(core, &loaded.config, agreed).await?;
    }
    if asked.test && report.missing.is_none() {
        let llm = &loaded.config.llm;
        let test = ProviderTest {
            provider: Some(llm.provider.clone()),
            api_base: Some(llm.api_base.clone()).filter(|base| !base.is_empty()),
            api_key: Some(llm.api_key.expose().to_owned()).filter(|key| !key.is_empty()),
            model_id: Some(llm.model_id.clone()).filter(|model| !model.is_empty()),
            dialect: Some(llm.dialect.to_string()),
            models_only: false,
        };
        let tested = crate::provider::test(core, &test).await?;
        let ok = tested.ok;
        report.test = Some(tested);
        if !ok {
            return Ok(report);
        }
    }
    if asked.dry_run {
        return Ok(report);
    }
    core.home()
        .ensure()
        .map_err(|error| crate::api::problem::io(&format!("{} cannot be made", core.home().dir().display()), &error))?;
    let write = move || if created { config::create(&path, &after) } else { config::apply(&path, &edits).map(|_| ()) };
    tokio::task::spawn_blocking(write).await.map_err(Problem::internal)?.map_err(|error| edit_problem(&error))?;
    core.reload().await;
    report.written = true;
    Ok(report)
}

/// Has the built-in provider's model here, fetched if that was agreed to.
async fn have_model(core: &Core, config: &config::Config, agreed: bool) -> Result<(), Problem> {
    let id = config.llm.model_id.as_str();
    if core.local().shelf().find(id).is_some() {
        return Ok(());
    }
    let offer = match builtin::offer(id) {
        Some(offer) => offer,
        None if id.is_empty() => {
            return Err(Problem::invalid("The built-in provider has no model yet.")
                .hint("Answer `model` with an id from `metaclaw models list`, or with the path of a GGUF file."));
        }
        None => {
            return Err(Problem::invalid(format!("There is no model {id}."))
                .hint("Answer `model` with an id from `metaclaw models list`, or with the path of a GGUF file."));
        }
    };
    if !agreed {
        return Err(Problem::invalid(format!("{}. Nothing is fetched without a yes.", crate::local::terms(offer)))
            .hint(format!("Say yes: add the answer {FETCH}: yes")));
    }
    crate::api::models::begin(core, id, true)?;
    match core.local().fetched().await.and_then(|state| crate::local::failed(&state)) {
        Some(problem) => Err(problem),
        None => Ok(()),
    }
}

fn take(answers: &mut Vec<(String, Value)>, name: &str) -> Option<Value> {
    let at = answers.iter().position(|(key, _)| key == name)?;
    Some(answers.remove(at).1)
}

/// A new file with nothing chosen yet, but with a key for the proxy.
pub(crate) fn first_text(clock: &dyn proxy::Clock) -> String {
    let mut random = [0_u8; 24];
    for eight in random.chunks_exact_mut(8) {
        eight.copy_from_slice(&clock.random().to_le_bytes());
    }
    config::first_config(&config::Answers::default(), &random)
}

fn read(path: &std::path::Path) -> Result<String, Problem> {
    std::fs::read_to_string(path)
        .map_err(|error| crate::api::problem::io(&format!("{} cannot be read", path.display()), &error))
}

/// Nested answers as dotted keys, in order.
fn flatten(answers: &Map<String, Value>, prefix: &str, to: &mut Vec<(String, Value)>) {
    for (name, value) in answers {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let is_map_key = config::keys().iter().any(|known| known.path == key);
        match value {
            Value::Object(inner) if !is_map_key => flatten(inner, &key, to),
            other => to.push((key, other.clone())),
        }
    }
}

/// Answers as edits. Another provider than the current one brings its own address and model, unless they are answered
/// too, and does not get the old one's key.
fn edits(answers: Vec<(String, Value)>, current: Option<&str>) -> Result<Vec<Edit>, Problem> {
    let mut named: Vec<(String, Option<String>)> = Vec::new();
    for (key, value) in answers {
        let long = SHORT.iter().find(|(short, _)| *short == key).map(|(_, long)| (*long).to_owned());
        let key = match (long, key.as_str(), &value) {
            (Some(long), _, _) => long,
            (None, "skills", Value::Bool(_)) => "skills.enabled".to_owned(),
            (None, "memory", Value::Bool(_)) => "memory.enabled".to_owned(),
            (None, "api_key_env", Value::String(name)) => {
                named.push(("llm.api_key".to_owned(), Some(format!("env:{name}"))));
                continue;
            }
            _ => key,
        };
        let value = match value {
            Value::Null => None,
            value => Some(typed_text(&value)),
        };
        named.push((key, value));
    }
    let provider = named.iter().find(|(key, _)| key == "llm.provider").and_then(|(_, value)| value.clone());
    if let Some(preset) = provider.as_deref().and_then(config::preset)
        && current.is_none_or(|current| current != preset.id)
    {
        let answered = |key: &str| named.iter().any(|(known, _)| known == key);
        let mut brought = Vec::new();
        if !answered("llm.api_base") {
            brought.push(("llm.api_base".to_owned(), Some(preset.api_base.clone())));
        }
        if !answered("llm.model_id") {
            brought.push(("llm.model_id".to_owned(), Some(preset.model_id.clone())));
        }
        if !answered("llm.api_key") && current.is_some() {
            brought.push(("llm.api_key".to_owned(), Some(String::new())));
        }
        if !answered("llm.dialect") && current.is_some() {
            brought.push(("llm.dialect".to_owned(), None));
        }
        named.extend(brought);
    }
    if named.is_empty() && current.is_some() {
        return Err(Problem::invalid("There are no answers.").hint("Answer at least `provider`."));
    }
    Ok(named
        .into_iter()
        .map(|(key, value)| match value {
            Some(value) => Edit::Set { key, value },
            None => Edit::Unset { key },
        })
        .collect())
}

fn shown(changes: &[config::Change]) -> Vec<SettingChange> {
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        other => Some(typed_text(other)),
    };
    changes
        .iter()
        .filter(|change| change.written)
        .map(|change| SettingChange {
            key: change.key.clone(),
            before: text(&change.before),
            after: text(&change.after),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn edits_of(answers: Value, current: Option<&str>) -> Vec<Edit> {
        let Value::Object(answers) = answers else { panic!("no object") };
        let mut flat = Vec::new();
        flatten(&answers, "", &mut flat);
        edits(flat, current).unwrap()
    }

    fn set(key: &str, value: &str) -> Edit {
        Edit::Set { key: key.into(), value: value.into() }
    }

    #[test]
    fn short_and_nested_answers_mean_the_same_keys() {
        let short = edits_of(json!({"model": "m", "port": 31000, "skills": false}), Some("kimi"));
        let long = edits_of(
            json!({"llm": {"model_id": "m"}, "proxy": {"port": 31000}, "skills": {"enabled": false}}),
            Some("kimi"),
        );
        assert_eq!(short, long);
        assert_eq!(short, [set("llm.model_id", "m"), set("proxy.port", "31000"), set("skills.enabled", "false")]);
    }

    #[test]
    fn another_provider_brings_its_address_and_model_and_does_not_get_the_old_key() {
        let made = edits_of(json!({"provider": "ollama"}), Some("kimi"));
        let preset = config::preset("ollama").unwrap();
        assert!(made.contains(&set("llm.api_base", &preset.api_base)));
        assert!(made.contains(&set("llm.api_key", "")));
        let same = edits_of(json!({"provider": "kimi"}), Some("kimi"));
        assert_eq!(same, [set("llm.provider", "kimi")]);
    }

    #[test]
    fn a_null_answer_takes_a_key_out() {
        assert_eq!(edits_of(json!({"llm.dialect": null}), Some("kimi")), [Edit::Unset { key: "llm.dialect".into() }]);
    }
}
