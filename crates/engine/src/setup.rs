//! The first run as data: how far the setup is, and answers that become edits of the config file. Keys that are not
//! answered stay as they are; a new file begins with comments and a generated proxy key.

use config::{AuthMethod, Config, ConfigError, Edit};
use serde_json::{Map, Value};

use crate::api::{Problem, SettingChange, SetupAnswers, SetupReport, SetupState};
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
        exists: !reading.missing,
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
    let text = match core.files().config(&path, config::read_text).await {
        Ok(text) => Some(text),
        Err(ConfigError::Missing { .. }) => None,
        Err(error) => return Err(Problem::invalid(crate::core::sentence(&error))),
    };
    let created = text.is_none();
    let mut answers = Vec::new();
    flatten(&asked.answers, "", &mut answers);
    let agreed = take(&mut answers, FETCH).is_some_and(|yes| yes == true || yes == "yes");
    let current = core.config();
    let edits = edits(answers, if created { None } else { Some(&current) })?;
    let before = text.unwrap_or_else(|| first_text(&**core.clock()));
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
        // What is tested is what would be written.
        let own_key = loaded.config.llm.auth_method == AuthMethod::ApiKey;
        let tested = crate::provider::ask(core, &loaded.config, false, own_key).await?;
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
    let named: Vec<String> = edits.iter().map(|edit| edit.key().to_owned()).collect();
    let write = move || if created { config::create(&path, &after) } else { config::apply(&path, &edits).map(|_| ()) };
    core.write_config(write).await?;
    core.reload(&named.iter().map(String::as_str).collect::<Vec<_>>()).await;
    report.written = true;
    Ok(report)
}

/// Has the built-in provider's model here, fetched if that was agreed to.
async fn have_model(core: &Core, config: &Config, agreed: bool) -> Result<(), Problem> {
    let id = config.llm.model_id.as_str();
    let kept = core.local().shelf().find(id);
    // A file that is shorter than the one of its name was broken off.
    let whole = models::offer(id).map_or(0, models::Offer::size);
    if kept.is_some_and(|kept| kept.size >= whole) {
        return Ok(());
    }
    let offer = match models::offer(id).filter(|offer| offer.purpose == models::Purpose::Chat) {
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
/// too, and does not get what belonged to the old one: key, headers, names of models, way of showing who asks. An answered
/// key is used.
fn edits(answers: Vec<(String, Value)>, current: Option<&Config>) -> Result<Vec<Edit>, Problem> {
    let mut named: Vec<(String, Option<String>)> = Vec::new();
    for (key, value) in answers {
        let long = SHORT.iter().find(|(short, _)| *short == key).map(|(_, long)| (*long).to_owned());
        let key = match (long, key.as_str(), &value) {
            (Some(long), _, _) => long,
            (None, "skills", Value::Bool(_) | Value::String(_)) => "skills.enabled".to_owned(),
            (None, "memory", Value::Bool(_) | Value::String(_)) => "memory.enabled".to_owned(),
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
    let key_answered =
        named.iter().any(|(key, value)| key == "llm.api_key" && value.as_deref().is_some_and(|v| !v.is_empty()));
    let method_answered = named.iter().any(|(key, _)| key == "llm.auth_method");
    if let Some(preset) = provider.as_deref().and_then(config::preset)
        && current.is_none_or(|current| current.llm.provider != preset.id)
    {
        named = brought(preset, current.is_some(), named);
    } else if key_answered && !method_answered && current.is_some_and(|c| c.llm.auth_method != AuthMethod::ApiKey) {
        named.push(("llm.auth_method".to_owned(), Some(AuthMethod::ApiKey.to_string())));
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

/// The answers with what comes along with another provider. `old`: there was one before.
fn brought(
    preset: &config::Preset,
    old: bool,
    answers: Vec<(String, Option<String>)>,
) -> Vec<(String, Option<String>)> {
    let answered = |key: &str| answers.iter().any(|(known, _)| known == key);
    let mut all = Vec::new();
    for (key, value) in [("llm.api_base", &preset.api_base), ("llm.model_id", &preset.model_id)] {
        if !answered(key) {
            all.push((key.to_owned(), Some(value.clone())));
        }
    }
    if old && !answered("llm.api_key") {
        all.push(("llm.api_key".to_owned(), Some(String::new())));
    }
    if old {
        let gone = ["llm.dialect", "llm.auth_method", "llm.headers", "llm.model_map"];
        all.extend(gone.iter().filter(|key| !answered(key)).map(|key| ((*key).to_owned(), None)));
    }
    // Answered entries of a map come after the map of the old provider is gone.
    all.extend(answers);
    all
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

    fn of(provider: &str) -> Config {
        let mut config = Config::default();
        config.set("llm.provider", provider).unwrap();
        config
    }

    fn edits_of(answers: Value, current: Option<&Config>) -> Vec<Edit> {
        let Value::Object(answers) = answers else { panic!("no object") };
        let mut flat = Vec::new();
        flatten(&answers, "", &mut flat);
        edits(flat, current).unwrap()
    }

    fn set(key: &str, value: &str) -> Edit {
        Edit::Set { key: key.into(), value: value.into() }
    }

    fn unset(key: &str) -> Edit {
        Edit::Unset { key: key.into() }
    }

    #[test]
    fn short_and_nested_answers_mean_the_same_keys() {
        let kimi = of("kimi");
        let short = edits_of(json!({"model": "m", "port": 31000, "skills": false}), Some(&kimi));
        let long = edits_of(
            json!({"llm": {"model_id": "m"}, "proxy": {"port": 31000}, "skills": {"enabled": false}}),
            Some(&kimi),
        );
        assert_eq!(short, long);
        assert_eq!(short, [set("llm.model_id", "m"), set("proxy.port", "31000"), set("skills.enabled", "false")]);
        assert_eq!(edits_of(json!({"skills": "off"}), Some(&kimi)), [set("skills.enabled", "off")]);
    }

    #[test]
    fn another_provider_brings_its_address_and_model_and_gets_nothing_of_the_old_one() {
        let made = edits_of(json!({"provider": "ollama", "llm.headers.X-Mine": "v"}), Some(&of("kimi")));
        let preset = config::preset("ollama").unwrap();
        assert!(made.contains(&set("llm.api_base", &preset.api_base)));
        assert!(made.contains(&set("llm.api_key", "")));
        for key in ["llm.headers", "llm.model_map", "llm.auth_method", "llm.dialect"] {
            assert!(made.contains(&unset(key)), "{key}");
        }
        let at = |edit: &Edit| made.iter().position(|made| made == edit).unwrap();
        assert!(at(&unset("llm.headers")) < at(&set("llm.headers.X-Mine", "v")));
        let same = edits_of(json!({"provider": "kimi"}), Some(&of("kimi")));
        assert_eq!(same, [set("llm.provider", "kimi")]);
    }

    #[test]
    fn an_answered_key_is_used() {
        let mut passes_on = of("custom");
        passes_on.set("llm.auth_method", "passthrough").unwrap();
        let made = edits_of(json!({"api_key": "k"}), Some(&passes_on));
        assert_eq!(made, [set("llm.api_key", "k"), set("llm.auth_method", "api_key")]);
        let made = edits_of(json!({"api_key": "k", "auth_method": "passthrough"}), Some(&passes_on));
        assert!(!made.contains(&set("llm.auth_method", "api_key")));
    }

    #[test]
    fn a_null_answer_takes_a_key_out() {
        assert_eq!(edits_of(json!({"llm.dialect": null}), Some(&of("kimi"))), [unset("llm.dialect")]);
    }
}
