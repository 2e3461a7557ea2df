//! Where requests go: the provider section and its preset as one ready-made answer.
//! In: the typed settings. Out: addresses, credentials, models and quirks for `proxy`, or what the user has to do first.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::base_url::BaseUrl;
use crate::preset::{Preset, preset};
use crate::table::DEFAULT_JUDGE;
use crate::{AuthMethod, Config, LlmDialect, Secret};

/// A provider that can be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// The id of its preset.
    pub provider: String,
    /// The base of its endpoints, with version path and without a slash at the end; empty for the built-in model.
    pub base_url: String,
    /// The dialect there: `openai-chat`, `openai-responses` or `anthropic-messages`.
    pub dialect: &'static str,
    /// Further dialects of the provider, each with its base. Empty if the user chose a dialect.
    pub also: Vec<(&'static str, String)>,
    /// How to identify.
    pub credentials: Credentials,
    /// The model that answers; empty = the one that was asked for.
    pub model_id: String,
    /// Other models for some of the names that are asked for.
    pub model_map: BTreeMap<String, String>,
    /// What its API refuses, in the form of `dialect::Quirks`.
    pub quirks: serde_json::Value,
    /// Headers to add to every request.
    pub headers: Vec<(String, Secret)>,
    /// Runs on this machine.
    pub local: bool,
    models: &'static BTreeMap<String, String>,
}

/// How MetaClaw identifies itself to a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Not at all.
    None,
    /// With this key; see [`Upstream::auth_headers`].
    Key(Secret),
    /// With what the agent sent.
    Caller,
}

/// Why nobody can be asked yet, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, thiserror::Error)]
#[error("{what}: {todo}")]
pub struct NotConfigured {
    /// The key that is missing or wrong.
    pub key: &'static str,
    /// What is the matter.
    pub what: String,
    /// What to do about it.
    pub todo: String,
}

/// The preset of the model inside MetaClaw.
const BUILTIN: &str = "builtin";

/// Why the built-in model does not write skills.
pub const ONLY_FOR_TRYING: &str = "the built-in model is for trying things out, not for writing skills";

static NO_MODELS: BTreeMap<String, String> = BTreeMap::new();

/// The part of the settings that describes one provider.
struct Described<'c> {
    provider: &'c str,
    auth: AuthMethod,
    api_base: &'c str,
    api_key: &'c Secret,
    model_id: &'c str,
    dialect: LlmDialect,
    key_names: [&'static str; 3],
}

/// A provider beside the one that answers.
struct Beside<'c> {
    provider: &'c str,
    api_base: &'c str,
    api_key: &'c Secret,
    key_names: [&'static str; 3],
}

fn todo<T>(key: &'static str, what: &str, todo: &str) -> Result<T, NotConfigured> {
    Err(NotConfigured { key, what: what.to_owned(), todo: todo.to_owned() })
}

impl Config {
    /// The provider that answers, or what the user has to do first.
    pub fn upstream(&self) -> Result<Upstream, NotConfigured> {
        let mut upstream = describe(&Described {
            provider: &self.llm.provider,
            auth: self.llm.auth_method,
            api_base: &self.llm.api_base,
            api_key: &self.llm.api_key,
            model_id: &self.llm.model_id,
            dialect: self.llm.dialect,
            key_names: ["llm.provider", "llm.api_base", "llm.api_key"],
        })?;
        upstream.model_map.clone_from(&self.llm.model_map);
        self.add_headers(&mut upstream);
        Ok(upstream)
    }

    /// The model that writes skills: `rl.evolver_*`, else the one that answers. A key only goes to the server it is for.
    pub fn evolver(&self) -> Result<Upstream, NotConfigured> {
        let own = &self.rl;
        let mut upstream = if own.evolver_api_base.is_empty() {
            self.upstream()?
        } else {
            self.beside(&Beside {
                provider: &own.evolver_provider,
                api_base: &own.evolver_api_base,
                api_key: &own.evolver_api_key,
                key_names: ["rl.evolver_provider", "rl.evolver_api_base", "rl.evolver_api_key"],
            })?
        };
        if !own.evolver_model.is_empty() {
            own.evolver_model.trim().clone_into(&mut upstream.model_id);
            upstream.model_map.clear();
        }
        if upstream.is_builtin() {
            return todo(
                "llm.provider",
                ONLY_FOR_TRYING,
                "name a model that writes them: rl.evolver_api_base, rl.evolver_api_key, rl.evolver_model",
            );
        }
        if upstream.credentials == Credentials::Caller {
            return todo(
                "llm.auth_method",
                "the provider is asked with each agent's own credentials",
                "name a model that MetaClaw may ask by itself: rl.evolver_api_base, rl.evolver_api_key, rl.evolver_model",
            );
        }
        if upstream.model_id.is_empty() {
            return todo(
                "rl.evolver_model",
                "no model is named that could write skills",
                "set rl.evolver_model, or llm.model_id",
            );
        }
        Ok(upstream)
    }

    /// The model that judges answers: `rl.prm_*`. `None`: there is no judge, since no address is named, or since nobody
    /// gave a key for the one that stands there by itself. A key only goes to the server it is for.
    pub fn judge(&self) -> Result<Option<Upstream>, NotConfigured> {
        let own = &self.rl;
        let at = own.prm_url.trim();
        let known = BaseUrl::parse(at).is_ok_and(|base| base.for_dialect("openai-chat") == DEFAULT_JUDGE);
        if at.is_empty() || known && !own.prm_api_key.is_configured() {
            return Ok(None);
        }
        let mut upstream = self.beside(&Beside {
            provider: &own.prm_provider,
            api_base: at,
            api_key: &own.prm_api_key,
            key_names: ["rl.prm_provider", "rl.prm_url", "rl.prm_api_key"],
        })?;
        own.prm_model.trim().clone_into(&mut upstream.model_id);
        if upstream.is_builtin() {
            return todo(
                "rl.prm_provider",
                "the built-in model is for trying things out, not for judging answers",
                "name a model that judges: rl.prm_url, rl.prm_api_key, rl.prm_model",
            );
        }
        if upstream.credentials == Credentials::Caller {
            return todo(
                "rl.prm_api_key",
                "the judge's server is asked with each agent's own credentials",
                "set rl.prm_api_key to a key that MetaClaw may use by itself",
            );
        }
        if upstream.model_id.is_empty() {
            return todo("rl.prm_model", "no model is named that could judge", "set rl.prm_model");
        }
        Ok(Some(upstream))
    }

    /// A provider that MetaClaw asks by itself, at an address of its own. On the server that answers, and without a key of
    /// its own, it is asked as that one is.
    fn beside(&self, named: &Beside<'_>) -> Result<Upstream, NotConfigured> {
        let main = self.upstream();
        let same = match (&main, BaseUrl::parse(named.api_base)) {
            (Ok(main), Ok(asked)) => BaseUrl::parse(&main.base_url).is_ok_and(|base| base.is_same_server(&asked)),
            _ => false,
        };
        let borrowed = same && !named.api_key.is_configured();
        let mut upstream = describe(&Described {
            // The default names nobody: the address tells whose API it is.
            provider: if named.provider == "openai" { "custom" } else { named.provider },
            auth: if borrowed { self.llm.auth_method } else { AuthMethod::ApiKey },
            api_base: named.api_base,
            api_key: if borrowed { &self.llm.api_key } else { named.api_key },
            model_id: if same { &self.llm.model_id } else { "" },
            dialect: LlmDialect::Auto,
            key_names: named.key_names,
        })?;
        if same {
            self.add_headers(&mut upstream);
        }
        Ok(upstream)
    }

    /// The provider that is asked when the first one cannot answer, if there is one.
    pub fn fallback(&self) -> Result<Option<Upstream>, NotConfigured> {
        let fallback = &self.llm.fallback;
        if fallback.provider.is_empty() && fallback.api_base.is_empty() {
            return Ok(None);
        }
        let mut upstream = describe(&Described {
            provider: if fallback.provider.is_empty() { "custom" } else { &fallback.provider },
            auth: AuthMethod::ApiKey,
            api_base: &fallback.api_base,
            api_key: &fallback.api_key,
            model_id: &fallback.model_id,
            dialect: fallback.dialect,
            key_names: ["llm.fallback.provider", "llm.fallback.api_base", "llm.fallback.api_key"],
        })?;
        if upstream.model_id.is_empty() {
            return Err(NotConfigured {
                key: "llm.fallback.model_id",
                what: "the fallback has no model".to_owned(),
                todo: "set llm.fallback.model_id; the names of the first provider mean nothing there".to_owned(),
            });
        }
        if upstream.provider == "openrouter" {
            self.add_openrouter(&mut upstream);
        }
        Ok(Some(upstream))
    }

    fn add_headers(&self, upstream: &mut Upstream) {
        if upstream.provider == "openrouter" {
            self.add_openrouter(upstream);
        }
        for (name, value) in &self.llm.headers {
            upstream.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            upstream.headers.push((name.clone(), value.clone()));
        }
    }

    fn add_openrouter(&self, upstream: &mut Upstream) {
        for (name, value) in [("X-Title", &self.openrouter.app_name), ("HTTP-Referer", &self.openrouter.app_url)] {
            if !value.is_empty() {
                upstream.headers.push((name.to_owned(), Secret::plain(value)));
            }
        }
    }
}

impl Upstream {
    /// Answers come from the model inside MetaClaw; there is no address.
    #[must_use]
    pub fn is_builtin(&self) -> bool {
        self.provider == BUILTIN
    }

    /// The model to send for the one that was asked for: an entry of `llm.model_map`, else `llm.model_id`, else the
    /// name itself. `None` if there is neither.
    #[must_use]
    pub fn model_for<'a>(&'a self, asked: Option<&'a str>) -> Option<Cow<'a, str>> {
        let mapped = asked.and_then(|asked| mapped(&self.model_map, asked));
        let chosen = mapped.or_else(|| Some(self.model_id.as_str()).filter(|id| !id.is_empty())).or(asked)?;
        Some(Cow::Borrowed(self.models.get(chosen).map_or(chosen, String::as_str)))
    }

    /// The headers that carry the key to a dialect of this provider: `x-api-key` to Anthropic itself, both headers to
    /// others that speak its dialect (they differ in which one they read), `Authorization: Bearer` else.
    #[must_use]
    pub fn auth_headers(&self, dialect: &str) -> Vec<(&'static str, Secret)> {
        let Credentials::Key(key) = &self.credentials else { return Vec::new() };
        let bearer = ("authorization", Secret::plain(&format!("Bearer {}", key.expose())));
        let own = ("x-api-key", Secret::plain(key.expose()));
        match (dialect, self.provider.as_str()) {
            ("anthropic-messages", "anthropic") => vec![own],
            ("anthropic-messages", _) => vec![own, bearer],
            _ => vec![bearer],
        }
    }

    /// The base for a dialect, if the provider serves it.
    #[must_use]
    pub fn base_for(&self, dialect: &str) -> Option<&str> {
        if dialect == self.dialect {
            return Some(&self.base_url);
        }
        self.also.iter().find(|(known, _)| *known == dialect).map(|(_, base)| base.as_str())
    }
}

/// The entry for a name; of the entries that end in `*`, the longest that fits.
fn mapped<'m>(map: &'m BTreeMap<String, String>, asked: &str) -> Option<&'m str> {
    if let Some(exact) = map.get(asked) {
        return Some(exact);
    }
    map.iter()
        .filter_map(|(pattern, model)| Some((pattern.strip_suffix('*')?, model)))
        .filter(|(prefix, _)| asked.starts_with(prefix))
        .max_by_key(|(prefix, _)| prefix.len())
        .map(|(_, model)| model.as_str())
}

fn describe(from: &Described<'_>) -> Result<Upstream, NotConfigured> {
    let [provider_key, base_key, secret_key] = from.key_names;
    let named = preset(from.provider);
    if let Some(later) = named.and_then(|preset| preset.later.as_ref()) {
        return Err(NotConfigured {
            key: provider_key,
            what: format!("provider {}", from.provider),
            todo: later.clone(),
        });
    }
    if let Some(preset) = named.filter(|preset| preset.id == BUILTIN) {
        // It has no address: what stands in llm.api_base is an earlier provider's.
        return Ok(Upstream {
            provider: preset.id.clone(),
            base_url: String::new(),
            dialect: "openai-chat",
            also: Vec::new(),
            credentials: Credentials::None,
            model_id: from.model_id.trim().to_owned(),
            model_map: BTreeMap::new(),
            quirks: preset.quirks.clone(),
            headers: Vec::new(),
            local: true,
            models: &NO_MODELS,
        });
    }
    let base_text = match (from.api_base.is_empty(), named) {
        (false, _) => from.api_base,
        (true, Some(preset)) if !preset.api_base.is_empty() => &preset.api_base,
        (true, _) => {
            return Err(NotConfigured {
                key: base_key,
                what: "no provider is set up".to_owned(),
                todo: format!("run `metaclaw setup`, or set {provider_key} or {base_key}"),
            });
        }
    };
    let base = BaseUrl::parse(base_text).map_err(|allowed| NotConfigured {
        key: base_key,
        what: format!("{base_key} is no address"),
        todo: format!("write {allowed}"),
    })?;
    // A known host is that provider, whatever it is called; behind any other host the named one is believed.
    let own_host = base.preset().is_some();
    let known = base.preset().or(named);
    let dialect = dialect_of(from.dialect, known, &base);
    let also = match from.dialect {
        LlmDialect::Auto if own_host => doors(known, &base, dialect),
        _ => Vec::new(),
    };
    let local = known.is_some_and(|preset| preset.local) || base.is_loopback();
    let credentials = credentials(from, known, local, secret_key)?;
    Ok(Upstream {
        provider: known.map_or_else(|| from.provider.to_owned(), |preset| preset.id.clone()),
        base_url: base.for_dialect(dialect),
        dialect,
        also,
        credentials,
        model_id: from.model_id.trim().to_owned(),
        model_map: BTreeMap::new(),
        quirks: known.map_or_else(|| serde_json::json!({}), |preset| preset.quirks.clone()),
        headers: Vec::new(),
        local,
        models: known.filter(|_| own_host).map_or(&NO_MODELS, |preset| &preset.models),
    })
}

/// The chosen dialect; else what the address itself says (`/anthropic`), else the provider's.
fn dialect_of(chosen: LlmDialect, known: Option<&Preset>, base: &BaseUrl) -> &'static str {
    let told = match chosen {
        LlmDialect::Auto if base.path().split('/').any(|part| part == "anthropic") => "anthropic-messages",
        LlmDialect::Auto => known.map_or("openai-chat", |preset| preset.dialect.as_str()),
        other => other.as_str(),
    };
    LlmDialect::WORDS.iter().find(|word| **word == told).copied().unwrap_or("openai-chat")
}

fn doors(known: Option<&Preset>, base: &BaseUrl, dialect: &str) -> Vec<(&'static str, String)> {
    let Some(preset) = known else { return Vec::new() };
    let own = BaseUrl::parse(&preset.api_base).ok().map(|own| (preset.dialect.clone(), own.path().to_owned()));
    let others = preset.also.iter().map(|door| (door.dialect.clone(), door.path.clone()));
    own.into_iter()
        .chain(others)
        .filter(|(other, _)| other != dialect)
        .filter_map(|(other, path)| {
            let word = LlmDialect::WORDS.iter().find(|word| **word == other)?;
            Some((*word, base.with_path(&path)))
        })
        .collect()
}

fn credentials(
    from: &Described<'_>,
    known: Option<&Preset>,
    local: bool,
    secret_key: &'static str,
) -> Result<Credentials, NotConfigured> {
    if from.auth == AuthMethod::Passthrough {
        return Ok(Credentials::Caller);
    }
    if !from.api_key.is_empty() {
        return Ok(Credentials::Key(from.api_key.clone()));
    }
    if let Some(problem) = from.api_key.problem() {
        return Err(NotConfigured {
            key: secret_key,
            what: format!("{secret_key} leads nowhere"),
            todo: format!("{problem}; provide it, or set {secret_key} anew"),
        });
    }
    if from.api_key.is_configured() {
        return Err(NotConfigured {
            key: secret_key,
            what: format!("{secret_key} was not fetched"),
            todo: "check that the keychain is unlocked and start again".to_owned(),
        });
    }
    if from.auth == AuthMethod::OauthToken {
        return Err(NotConfigured {
            key: "llm.auth_method",
            what: "auth_method oauth_token".to_owned(),
            todo: format!(
                "subscriptions are signed in to in a later release; set llm.auth_method to api_key and {secret_key} to a key"
            ),
        });
    }
    match known {
        Some(preset) if !local && preset.id != "custom" => Err(NotConfigured {
            key: secret_key,
            what: format!("{} needs a key", preset.label),
            todo: match (&preset.key_url, &preset.key_env) {
                (Some(url), Some(env)) => {
                    format!("make one at {url} and set {secret_key}, or set it to env:{env} if that variable holds it")
                }
                _ => format!("set {secret_key}"),
            },
        }),
        // Servers of one's own often need no key.
        _ => Ok(Credentials::None),
    }
}
