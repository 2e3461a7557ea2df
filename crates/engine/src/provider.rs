//! Looks at providers the way a turn would use them: the list of models, one short call, and the model servers that run
//! on this machine. Nothing here is stored.

use std::time::Duration;

use bytes::Bytes;
use config::{Config, Credentials, LocalSecrets, Upstream};
use dialect::Dialect;
use futures::StreamExt;
use futures::future::join_all;
use http::{HeaderMap, HeaderValue};
use proxy::{Call, Endpoint, HttpModel, Model, Patience, Reply};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Code, LocalServer, Problem, ProviderReport, ProviderTest};
use crate::core::{Core, sentence};
use crate::evolve::NoAnswer;

/// How long a server on this machine may take to say what it has.
const LOCAL_PATIENCE: Duration = Duration::from_millis(800);
/// How long a provider may take with the test.
const PATIENCE: Duration = Duration::from_secs(45);
/// The same for work in the background that nobody waits for: the answer comes as one, and may be long.
const THINKING: Duration = Duration::from_secs(600);
/// The name of a form for an answer.
const ANSWER: &str = "answer";
/// Longest answer of a test that is read.
const LONGEST: usize = 1 << 20;
/// What the model is asked.
const READY: Prompt<'_> = Prompt {
    text: "Reply with one word: ready",
    tokens: 256,
    form: Form::Words,
    temperature: None,
    patience: PATIENCE,
};

/// Asks a provider for its models and, unless told not to, for one word.
pub(crate) async fn test(core: &Core, asked: &ProviderTest) -> Result<ProviderReport, Problem> {
    let config = described(core, asked)?;
    ask(core, &config, asked.models_only, asked.api_key.is_some()).await
}

/// Asks the provider of these settings. `own_key`: the person gave a key for the test, so one is at hand even where the
/// agents' own credentials are passed on.
pub(crate) async fn ask(
    core: &Core,
    config: &Config,
    models_only: bool,
    own_key: bool,
) -> Result<ProviderReport, Problem> {
    let upstream = config.upstream().map_err(|error| {
        Problem::new(Code::NotConfigured, format!("{}.", capital(&error.what))).hint(capital(&error.todo))
    })?;
    let label = config::preset(&upstream.provider)
        .filter(|preset| preset.id != "custom")
        .map_or_else(|| host(&upstream.base_url), |preset| preset.label.clone());
    if upstream.credentials == Credentials::Caller && !own_key {
        return Ok(ProviderReport {
            ok: true,
            message: format!("{label} is asked with each agent's own credentials, so there is no key to test with."),
            base_url: upstream.base_url,
            ..ProviderReport::default()
        });
    }
    if upstream.is_builtin() {
        return Ok(built_in(core, upstream, models_only).await);
    }
    let client = crate::http_client(config)?;
    let mut report = ProviderReport { base_url: upstream.base_url.clone(), ..ProviderReport::default() };
    // A model that is named needs no list, so the test is one call.
    let listed = match models_only || upstream.model_id.is_empty() {
        true => models(&client, &upstream, PATIENCE).await,
        false => Ok(Vec::new()),
    };
    if let Ok(models) = &listed {
        report.models.clone_from(models);
    }
    if models_only {
        report.ok = listed.is_ok();
        report.message = match &listed {
            Ok(models) if models.is_empty() => format!("{label} answers, but lists no model."),
            Ok(models) => format!("{label} lists {}.", number(models.len(), "model", "models")),
            Err(failure) => {
                report.status = failure.status;
                failure.told(&label)
            }
        };
        return Ok(report);
    }
    let preset_model = config::preset(&upstream.provider).map(|preset| preset.model_id.clone());
    let model = [Some(upstream.model_id.clone()), preset_model, report.models.first().cloned()]
        .into_iter()
        .flatten()
        .find(|model| !model.is_empty());
    let Some(model) = model else {
        report.message = match listed {
            Err(failure) => {
                report.status = failure.status;
                failure.told(&label)
            }
            Ok(_) => format!("{label} answers, but no model is loaded or named. Load or name one, then look again."),
        };
        return Ok(report);
    };
    let begun = Instant::now();
    let called = match of_http(upstream, client, PATIENCE) {
        Ok(provider) => call(&provider, &model, &READY).await.map(|words| words.chars().take(200).collect()),
        Err(failure) => Err(failure),
    };
    report.took_ms = Some(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
    report.model = Some(model.clone());
    match called {
        Ok(words) => {
            report.ok = true;
            report.message = format!("{label} answered with {model} in {:.1} s.", begun.elapsed().as_secs_f64());
            report.words = Some(words);
        }
        Err(failure) => {
            report.status = failure.status;
            report.message = failure.told_of(&label, &model);
        }
    }
    Ok(report)
}

/// The models on the shelf, and one word of the one that would answer.
async fn built_in(core: &Core, upstream: Upstream, models_only: bool) -> ProviderReport {
    let shelf = core.local().shelf();
    let models = shelf.kept().unwrap_or_default().into_iter().map(|kept| kept.id).collect();
    let mut report = ProviderReport { models, ..ProviderReport::default() };
    let Some(kept) = shelf.find(&upstream.model_id) else {
        report.message = match upstream.model_id.as_str() {
            "" => "No model has been fetched yet. See what there is: metaclaw models list".to_owned(),
            id => format!("The model {id} is not on this computer. Fetch it: metaclaw models fetch {id}"),
        };
        return report;
    };
    report.model = Some(kept.id.clone());
    if models_only {
        report.ok = true;
        report.message = format!("{} is on this computer.", kept.id);
        return report;
    }
    let begun = Instant::now();
    let asked = match proxy::BuiltinModel::new(upstream, core.local().built_in()) {
        Ok(model) => call(&model, &kept.id, &READY).await.map(|words| words.chars().take(200).collect()),
        Err(error) => Err(Failure { said: error.to_string(), ..Failure::default() }),
    };
    report.took_ms = Some(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
    if core.running().is_err() {
        // A command line goes on without it.
        core.local().room.leave();
    }
    match asked {
        Ok(words) => {
            report.ok = true;
            report.message =
                format!("The built-in model {} answered in {:.1} s.", kept.id, begun.elapsed().as_secs_f64());
            report.words = Some(words);
        }
        Err(failure) => {
            report.status = failure.status;
            report.message = sentence(&failure.said);
        }
    }
    report
}

/// The settings with what is to be tested over them. Another provider does not inherit address, key, headers or model;
/// neither does another server of the same provider get the key.
fn described(core: &Core, asked: &ProviderTest) -> Result<Config, Problem> {
    let mut loaded = core.reading().loaded.clone();
    let mut put = |key: &str, value: &str| {
        loaded.config.set(key, value).map_err(|problem| {
            Problem::invalid(format!("{} cannot be {}.", problem.key, problem.found))
                .hint(format!("Allowed: {}", problem.allowed))
        })
    };
    let current = core.config();
    let another = asked.provider.as_deref().is_some_and(|provider| provider != current.llm.provider);
    if another || asked.api_base.as_deref().is_some_and(|base| !is_same_server(&current, base)) {
        // The key of one provider never goes to another address.
        put("llm.api_key", "")?;
        put("llm.auth_method", "api_key")?;
        put("llm.headers", "{}")?;
    }
    if another {
        for key in ["llm.api_base", "llm.model_id", "llm.dialect"] {
            put(key, if key == "llm.dialect" { "auto" } else { "" })?;
        }
        put("llm.model_map", "{}")?;
    }
    let answers = [
        ("llm.provider", &asked.provider),
        ("llm.api_base", &asked.api_base),
        ("llm.api_key", &asked.api_key),
        ("llm.model_id", &asked.model_id),
        ("llm.dialect", &asked.dialect),
        ("llm.auth_method", &asked.auth_method),
    ];
    for (key, value) in answers {
        if let Some(value) = value {
            put(key, value)?;
        }
    }
    let path = core.config_path();
    let base = path.parent().unwrap_or(path);
    loaded
        .fetch_secrets(&LocalSecrets::of_process(base), path)
        .map_err(|error| Problem::new(Code::NotConfigured, sentence(&error)))?;
    Ok(loaded.config)
}

/// Whether `base` leads to the server that the settings ask now.
fn is_same_server(current: &Config, base: &str) -> bool {
    let now = current.upstream().map(|upstream| upstream.base_url).unwrap_or_else(|_| current.llm.api_base.clone());
    match (config::BaseUrl::parse(&now), config::BaseUrl::parse(base)) {
        (Ok(now), Ok(asked)) => now.is_same_server(&asked),
        _ => false,
    }
}

/// Why a provider gave no answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Failure {
    status: Option<u16>,
    said: String,
    /// The answer had no end.
    too_long: bool,
}

impl Failure {
    fn told(&self, label: &str) -> String {
        let said = if self.said.is_empty() { String::new() } else { format!(" It said: {}", self.said) };
        match self.status {
            None => sentence(&self.said),
            Some(status @ (401 | 403)) => {
                format!("{label} says {status}: this key is unknown or not allowed there. Paste it again.{said}")
            }
            Some(402) => format!("{label} says 402: the account has no credit left.{said}"),
            Some(404) => format!("{label} says 404: nothing is served at this address. Check the base URL.{said}"),
            Some(429) => format!("{label} says 429: too many requests, or no credit left. Try again in a while.{said}"),
            Some(status) if status >= 500 => {
                format!("{label} says {status}: it has trouble of its own. Try again in a while.{said}")
            }
            Some(status) => format!("{label} says {status}.{said}"),
        }
    }

    fn told_of(&self, label: &str, model: &str) -> String {
        match self.status {
            Some(404) => {
                let said = if self.said.is_empty() { String::new() } else { format!(" It said: {}", self.said) };
                format!(
                    "{label} says 404: it has no model {model} at this address. Choose another, or check the base URL.{said}"
                )
            }
            _ => self.told(label),
        }
    }

    fn no_answer(&self, label: &str, model: &str) -> NoAnswer {
        let for_good = self.too_long || matches!(self.status, Some(400 | 413 | 422));
        NoAnswer { said: self.told_of(label, model), for_good }
    }
}

/// In which form the answer is wanted.
#[derive(Clone, Copy)]
enum Form<'a> {
    Words,
    /// One JSON object.
    Object,
    /// One JSON object of this schema: by a response format, or as the input of a tool.
    Schema(&'a Value),
}

/// What a model is asked.
#[derive(Clone, Copy)]
struct Prompt<'a> {
    text: &'a str,
    /// Longest answer.
    tokens: u32,
    form: Form<'a>,
    /// `None`: the provider's own.
    temperature: Option<f64>,
    /// How long its answer may take once it has begun.
    patience: Duration,
}

impl<'a> Prompt<'a> {
    /// Asks for words in the background.
    fn of(text: &'a str, tokens: u32) -> Self {
        Self { text, tokens, form: Form::Words, temperature: None, patience: THINKING }
    }
}

/// Asks the configured model for a JSON object; its words as they came.
///
/// # Errors
/// Why there is no answer, as a sentence.
pub(crate) async fn ask_for_json(core: &Core, client: &reqwest::Client, text: &str) -> Result<String, String> {
    let config = core.config();
    let upstream = config.upstream().map_err(|error| error.to_string())?;
    if upstream.credentials == Credentials::Caller {
        return Err("the provider is asked with each agent's own credentials".to_owned());
    }
    if upstream.model_id.is_empty() {
        return Err("llm.model_id names no model".to_owned());
    }
    let (provider, label, model) = if upstream.is_builtin() {
        let model = upstream.model_id.clone();
        let provider = proxy::BuiltinModel::new(upstream, core.local().built_in());
        let provider: Box<dyn Model> = Box::new(provider.map_err(|error| error.to_string())?);
        (provider, "the built-in model".to_owned(), model)
    } else {
        over_http(upstream, client)?
    };
    words_of(&*provider, &label, &model, text, 2048).await
}

/// Asks the model that writes skills for a JSON object; its words as they came.
///
/// # Errors
/// Why there is no answer, as a sentence.
pub(crate) async fn ask_evolver(config: &Config, client: &reqwest::Client, text: &str) -> Result<String, NoAnswer> {
    let later = |said: String| NoAnswer { said, for_good: false };
    let upstream = config.evolver().map_err(|error| later(error.to_string()))?;
    let (provider, label, model) = over_http(upstream, client).map_err(later)?;
    let schema = skills::evolve::schema();
    let asked = asked(&*provider, &model, Prompt::of(text, 4096), Some(&schema)).await;
    asked.map_err(|failure| failure.no_answer(&label, &model))
}

/// What the model that judges is to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// An answer to a turn, in words.
    Answer,
    /// Which of two answers is better, as a JSON object.
    Comparison,
    /// How good an answer is, as a JSON object, one vote of several (`rl.prm_temperature`, `rl.prm_max_new_tokens`).
    Vote,
}

/// Asks the model that judges; its words as they came.
///
/// # Errors
/// Why there is no answer, as a sentence.
pub(crate) async fn ask_judge(
    config: &Config,
    client: &reqwest::Client,
    text: &str,
    wanted: Wanted,
) -> Result<String, NoAnswer> {
    let later = |said: String| NoAnswer { said, for_good: false };
    let upstream = config.judge().map_err(|error| later(error.to_string()))?;
    let upstream = upstream.ok_or_else(|| later("no judge is named".to_owned()))?;
    let (provider, label, model) = over_http(upstream, client).map_err(later)?;
    let prompt = Prompt::of(text, 4096);
    let answer = match wanted {
        Wanted::Answer => call(&*provider, &model, &prompt).await,
        Wanted::Comparison => asked(&*provider, &model, prompt, None).await,
        Wanted::Vote => {
            let (tokens, temperature) = (config.rl.prm_max_new_tokens, Some(config.rl.prm_temperature));
            asked(&*provider, &model, Prompt { tokens, temperature, ..prompt }, None).await
        }
    };
    answer.map_err(|failure| failure.no_answer(&label, &model))
}

/// The model that writes skills, if its provider serves it.
///
/// # Errors
/// Why nobody can be asked, as a sentence.
pub(crate) async fn look_for_evolver(config: &Config, client: &reqwest::Client) -> Result<String, String> {
    let upstream = config.evolver().map_err(|error| sentence(&error))?;
    let (model, label) = (upstream.model_id.clone(), host(&upstream.base_url));
    let named = upstream.model_for(Some(&model)).map_or_else(|| model.clone(), std::borrow::Cow::into_owned);
    match models(client, &upstream, PATIENCE).await {
        Ok(listed) if listed.contains(&named) || listed.contains(&model) => return Ok(model),
        Err(failure) if failure.status.is_none() || matches!(failure.status, Some(401..=403)) => {
            return Err(failure.told_of(&label, &model));
        }
        // Not every provider lists its models, or all of them.
        Ok(_) | Err(_) => {}
    }
    let provider = of_http(upstream, client.clone(), PATIENCE).map_err(|failure| failure.told_of(&label, &model))?;
    match call(&provider, &model, &READY).await {
        Ok(_) => Ok(model),
        Err(failure) => Err(failure.told_of(&label, &model)),
    }
}

/// A model that is asked over the network, what it is called in a sentence, and its id.
fn over_http(upstream: Upstream, client: &reqwest::Client) -> Result<(Box<dyn Model>, String, String), String> {
    let (label, model) = (host(&upstream.base_url), upstream.model_id.clone());
    let provider = of_http(upstream, client.clone(), THINKING).map_err(|failure| failure.said)?;
    Ok((Box::new(provider), label, model))
}

async fn words_of(provider: &dyn Model, label: &str, model: &str, text: &str, tokens: u32) -> Result<String, String> {
    asked(provider, model, Prompt::of(text, tokens), None).await.map_err(|failure| failure.told_of(label, model))
}

async fn asked(
    provider: &dyn Model,
    model: &str,
    prompt: Prompt<'_>,
    schema: Option<&Value>,
) -> Result<String, Failure> {
    let mut refused = None;
    // Not every server knows how to be asked for JSON, and fewer for a schema; not every model takes a temperature.
    let forms = schema.map(Form::Schema).into_iter().chain([Form::Object, Form::Words]);
    let forms = forms.map(|form| Prompt { form, ..prompt });
    let plain = Prompt { form: Form::Words, temperature: None, ..prompt };
    for prompt in forms.chain(prompt.temperature.map(|_| plain)) {
        match call(provider, model, &prompt).await {
            Err(failure) if matches!(failure.status, Some(400 | 422)) => refused = Some(failure),
            answer => return answer,
        }
    }
    Err(refused.unwrap_or_default())
}

fn of_http(upstream: Upstream, client: reqwest::Client, first_byte: Duration) -> Result<HttpModel, Failure> {
    let patience = Patience { first_byte, retries: 0, first_wait: Duration::from_millis(250) };
    HttpModel::new(upstream, client, patience, "test")
        .map_err(|error| Failure { said: error.to_string(), ..Failure::default() })
}

async fn call(provider: &dyn Model, model: &str, prompt: &Prompt<'_>) -> Result<String, Failure> {
    let failed = |said: String| Failure { said, ..Failure::default() };
    let dialect = provider.dialect();
    let model = provider.model_for(Some(model)).map_or_else(|| model.to_owned(), std::borrow::Cow::into_owned);
    let body = question(dialect, &model, provider, prompt).map_err(failed)?;
    let call = Call {
        endpoint: Endpoint::Generate,
        dialect,
        query: None,
        body,
        stream: false,
        headers: HeaderMap::new(),
        credentials: Vec::new(),
    };
    let reply = provider.send(call).await.map_err(|error| failed(error.to_string()))?;
    let status = reply.status.as_u16();
    let ok = reply.status.is_success();
    let body = tokio::time::timeout(prompt.patience, read(reply))
        .await
        .map_err(|_| failed(format!("the answer was not complete after {} s", prompt.patience.as_secs())))??;
    if !ok {
        return Err(Failure { status: Some(status), said: said(&body), ..Failure::default() });
    }
    match serde_json::from_slice::<Value>(&body) {
        Ok(answer) => Ok(words(dialect, &answer)),
        Err(_) => Err(failed("what came back is no API answer; check the base URL".to_owned())),
    }
}

/// A question in the provider's dialect, with what it refuses left out.
fn question(dialect: Dialect, model: &str, provider: &dyn Model, prompt: &Prompt<'_>) -> Result<Bytes, String> {
    let Prompt { text, tokens, form, temperature, .. } = *prompt;
    let mut body = match dialect {
        Dialect::Chat | Dialect::Messages => json!({
            "model": model, "max_tokens": tokens, "messages": [{"role": "user", "content": text}],
        }),
        Dialect::Responses => json!({"model": model, "max_output_tokens": tokens, "input": text, "store": false}),
    };
    if let Some(temperature) = temperature {
        body["temperature"] = json!(temperature);
    }
    match (dialect, form) {
        (Dialect::Chat, Form::Object) => body["response_format"] = json!({"type": "json_object"}),
        (Dialect::Chat, Form::Schema(schema)) => {
            body["response_format"] =
                json!({"type": "json_schema", "json_schema": {"name": ANSWER, "schema": schema, "strict": false}});
        }
        (Dialect::Responses, Form::Object) => body["text"] = json!({"format": {"type": "json_object"}}),
        (Dialect::Responses, Form::Schema(schema)) => {
            body["text"] =
                json!({"format": {"type": "json_schema", "name": ANSWER, "schema": schema, "strict": false}});
        }
        (Dialect::Messages, Form::Schema(schema)) => {
            body["tools"] = json!([{"name": ANSWER, "description": "Gives the answer.", "input_schema": schema}]);
            body["tool_choice"] = json!({"type": "tool", "name": ANSWER});
        }
        (_, Form::Words) | (Dialect::Messages, Form::Object) => {}
    }
    let request = dialect::Request::parse(dialect, Bytes::from(body.to_string())).map_err(|error| error.to_string())?;
    let mut edit = request.edit();
    edit.apply_quirks(provider.quirks());
    Ok(edit.finish())
}

async fn read(mut reply: Reply) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = reply.body.next().await {
        let chunk = chunk.map_err(|error| Failure { said: error.to_string(), ..Failure::default() })?;
        body.extend_from_slice(&chunk);
        if body.len() > LONGEST {
            let said = "the answer is longer than any answer to a short question".to_owned();
            return Err(Failure { said, too_long: true, ..Failure::default() });
        }
    }
    Ok(body)
}

/// What a provider's error body says, in at most 300 characters.
fn said(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let places = ["/error/message", "/message", "/detail", "/error", "/0/error/message"];
    let text = places.iter().find_map(|place| value.pointer(place).and_then(Value::as_str)).unwrap_or_default();
    text.chars().take(300).collect()
}

/// The words of an answer.
fn words(dialect: Dialect, answer: &Value) -> String {
    let text = match dialect {
        // Some put what they were to say into a call of a tool.
        Dialect::Chat => ["/choices/0/message/content", "/choices/0/message/tool_calls/0/function/arguments"]
            .iter()
            .filter_map(|place| answer.pointer(place)?.as_str())
            .find(|text| !text.trim().is_empty())
            .map(str::to_owned),
        Dialect::Messages => tool_input(answer.get("content")).or_else(|| parts(answer.get("content"))),
        Dialect::Responses => answer
            .get("output")
            .and_then(Value::as_array)
            .and_then(|items| items.iter().find_map(|item| parts(item.get("content")))),
    };
    text.unwrap_or_default().trim().to_owned()
}

fn parts(content: Option<&Value>) -> Option<String> {
    content?.as_array()?.iter().find_map(|part| part.get("text")?.as_str().map(str::to_owned))
}

/// What a tool was called with, as JSON.
fn tool_input(content: Option<&Value>) -> Option<String> {
    let is_call = |part: &&Value| part.get("type").and_then(Value::as_str) == Some("tool_use");
    content?.as_array()?.iter().find(is_call)?.get("input").map(Value::to_string)
}

/// The models a provider lists.
async fn models(client: &reqwest::Client, upstream: &Upstream, patience: Duration) -> Result<Vec<String>, Failure> {
    let mut request = client.get(format!("{}/models", upstream.base_url)).timeout(patience);
    for (name, value) in &upstream.headers {
        request = request.header(name, value.expose());
    }
    if let Credentials::Key(key) = &upstream.credentials {
        if upstream.dialect == Dialect::Messages.as_str() {
            request = request.header("x-api-key", sensitive(key.expose())).header("anthropic-version", "2023-06-01");
        } else {
            request = request.header("authorization", sensitive(&format!("Bearer {}", key.expose())));
        }
    }
    let failed = |error: &reqwest::Error| Failure {
        status: None,
        said: if error.is_timeout() {
            format!("{} did not answer within {} s", upstream.base_url, patience.as_secs())
        } else {
            format!("{} cannot be reached", upstream.base_url)
        },
        too_long: false,
    };
    let response = request.send().await.map_err(|error| failed(&error))?;
    let status = response.status();
    let body = response.bytes().await.map_err(|error| failed(&error))?;
    if !status.is_success() {
        return Err(Failure { status: Some(status.as_u16()), said: said(&body), ..Failure::default() });
    }
    Ok(model_ids(&body))
}

/// A value that no log or error shows; one that no header can carry becomes empty and is refused by the provider.
fn sensitive(text: &str) -> HeaderValue {
    let mut value = HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

/// Ids from the usual forms of a model list.
fn model_ids(body: &[u8]) -> Vec<String> {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let list = ["data", "models"].iter().find_map(|name| value.get(name)).unwrap_or(&value);
    let id = |item: &Value| {
        let id = ["id", "name", "model"].iter().find_map(|name| item.get(name)).unwrap_or(item);
        id.as_str().map(|id| id.strip_prefix("models/").unwrap_or(id).to_owned())
    };
    list.as_array().map(|items| items.iter().filter_map(id).collect()).unwrap_or_default()
}

/// The model servers of the presets that answer on this machine.
pub(crate) async fn local_servers(core: &Core) -> Vec<LocalServer> {
    let Ok(client) = crate::http_client(&core.config()) else { return Vec::new() };
    let looked = config::presets().iter().filter(|preset| preset.local && !preset.api_base.is_empty()).map(|preset| {
        let client = client.clone();
        async move {
            let mut loaded = config::Loaded::default();
            loaded.config.set("llm.provider", &preset.id).ok()?;
            let upstream = loaded.config.upstream().ok()?;
            let begun = Instant::now();
            let models = models(&client, &upstream, LOCAL_PATIENCE).await.ok()?;
            Some(LocalServer {
                provider: preset.id.clone(),
                label: preset.label.clone(),
                api_base: upstream.base_url,
                models,
                took_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            })
        }
    });
    join_all(looked).await.into_iter().flatten().collect()
}

fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest).to_owned()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn number(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_found_in_the_words_and_in_a_call_of_a_tool() {
        let called = json!({"content": [{"type": "text", "text": "Let me see."},
            {"type": "tool_use", "name": "answer", "input": {"action": "nothing"}}]});
        assert_eq!(words(Dialect::Messages, &called), r#"{"action":"nothing"}"#);
        assert_eq!(words(Dialect::Messages, &json!({"content": [{"type": "text", "text": " yes "}]})), "yes");
        let called = json!({"choices": [{"message": {"content": null,
            "tool_calls": [{"function": {"name": "answer", "arguments": "{\"action\":\"nothing\"}"}}]}}]});
        assert_eq!(words(Dialect::Chat, &called), r#"{"action":"nothing"}"#);
    }

    #[test]
    fn a_refusal_names_who_said_no_and_what_to_do() {
        let failure = Failure { status: Some(401), said: "bad key".into(), ..Failure::default() };
        assert_eq!(
            failure.told("Moonshot"),
            "Moonshot says 401: this key is unknown or not allowed there. Paste it again. It said: bad key"
        );
        let failure = Failure { status: Some(404), ..Failure::default() };
        assert!(failure.told_of("Ollama", "qwen3").starts_with("Ollama says 404: it has no model qwen3"));
    }

    #[test]
    fn model_lists_of_all_usual_forms_are_read() {
        assert_eq!(model_ids(br#"{"data":[{"id":"a"},{"id":"b"}]}"#), ["a", "b"]);
        assert_eq!(model_ids(br#"{"models":[{"name":"models/gemini"}]}"#), ["gemini"]);
        assert_eq!(model_ids(br#"["x"]"#), ["x"]);
        assert_eq!(model_ids(b"<html>"), Vec::<String>::new());
    }

    #[test]
    fn errors_of_all_usual_forms_are_read() {
        assert_eq!(said(br#"{"error":{"message":"m"}}"#), "m");
        assert_eq!(said(br#"{"detail":"d"}"#), "d");
        assert_eq!(said(br#"[{"error":{"message":"g"}}]"#), "g");
        assert_eq!(said(b"<html>"), "");
    }
}
