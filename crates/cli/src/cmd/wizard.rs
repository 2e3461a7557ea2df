//! The questions of `metaclaw setup`, one step after the other. Esc goes one step back, Ctrl-C ends without writing
//! anything. What is known already is the default, so that running it again is an edit.

use engine::api::{LocalServer, ModelOffer, ModelPurpose, Models, Provider, ProviderReport, ProviderTest, SetupState};
use engine::client::Client;
use http::Method;
use inquire::{Confirm, CustomType, InquireError, Password, PasswordDisplayMode, Select, Text};
use serde_json::{Map, Value, json};

use crate::ctx::Ctx;
use crate::exit::Fail;

/// What was chosen so far.
#[derive(Clone, Debug, Default)]
struct Chosen {
    provider: String,
    label: String,
    api_base: Option<String>,
    local: bool,
    key_env: Option<String>,
    key_env_set: bool,
    key_url: Option<String>,
    api_key: Option<String>,
    key_kept: bool,
    passthrough: bool,
    models: Vec<String>,
    model: String,
    /// The person agreed to fetch the model.
    fetch: bool,
    preset_model: String,
    skills: bool,
    mode: &'static str,
    port: u16,
}

/// A step either goes on, or back to the one before it.
enum Go {
    On,
    Back,
    /// Repeats the step of this number.
    To(usize),
}

const BUILTIN: &str = "builtin";
const PROVIDER: usize = 0;
const KEY: usize = 1;

/// Asks everything and returns the answers. Nothing is written here.
pub(super) async fn ask(ctx: &Ctx, test: bool) -> Result<Map<String, Value>, Fail> {
    let api = ctx.api().await?;
    let state: SetupState = api.get("/api/v1/setup").await?;
    let presets: Vec<Provider> = api.get("/api/v1/providers").await?;
    ctx.out.note("Setting up MetaClaw. Enter takes what is shown, Esc goes back, Ctrl-C ends. Nothing is written before the end.");
    ctx.out.note("Looking for model servers on this computer…");
    let local: Vec<LocalServer> = api.get("/api/v1/providers/local").await?;
    let mut chosen = Chosen { skills: state.skills, port: state.port, mode: "auto", ..Chosen::default() };
    let mut step = PROVIDER;
    loop {
        let went = match step {
            PROVIDER => provider(&state, &presets, &local, &mut chosen),
            KEY => key(&state, &mut chosen),
            2 => model(ctx, &api, &mut chosen, test).await,
            3 => skills(&mut chosen),
            4 => mode(&state, &mut chosen),
            5 => port(&state, &mut chosen),
            6 => confirm(ctx, &state, &chosen),
            _ => return Ok(answers(&chosen)),
        };
        step = match settle(went)? {
            Go::On => step + 1,
            Go::Back => back(step, &chosen),
            Go::To(step) => step,
        };
    }
}

/// The step before; steps that were passed over are passed over on the way back, too.
fn back(step: usize, chosen: &Chosen) -> usize {
    match step.saturating_sub(1) {
        KEY if chosen.local => PROVIDER,
        step => step,
    }
}

fn settle(went: Result<Go, InquireError>) -> Result<Go, Fail> {
    match went {
        Ok(go) => Ok(go),
        Err(InquireError::OperationCanceled) => Ok(Go::Back),
        Err(InquireError::OperationInterrupted) => Err(Fail::failed("Nothing was written.")),
        Err(InquireError::NotTTY) => Err(Fail::usage("There is nobody to ask here.")
            .hint("Give the answers in a file: metaclaw setup --non-interactive --answers FILE")),
        Err(error) => Err(Fail::failed(format!("The question could not be asked: {error}. Nothing was written."))),
    }
}

fn provider(
    state: &SetupState,
    presets: &[Provider],
    local: &[LocalServer],
    chosen: &mut Chosen,
) -> Result<Go, InquireError> {
    let mut entries: Vec<(String, &str, Option<&LocalServer>)> = Vec::new();
    for server in local {
        let models = match server.models.len() {
            0 => "runs, but no model is loaded".to_owned(),
            1..4 => server.models.join(", "),
            more => format!("{}, and {} more", server.models[..2].join(", "), more - 2),
        };
        entries.push((format!("{}  {} ({models})", server.label, server.api_base), &server.provider, Some(server)));
    }
    entries.push(("Try it now without a key  (a small model inside MetaClaw; not for work)".to_owned(), BUILTIN, None));
    for preset in presets.iter().filter(|p| !p.local && p.id != "custom" && p.later.is_none()) {
        entries.push((preset.label.clone(), &preset.id, None));
    }
    for preset in
        presets.iter().filter(|p| p.local && p.id != BUILTIN && !local.iter().any(|server| server.provider == p.id))
    {
        entries.push((format!("{}  (not found running)", preset.label), &preset.id, None));
    }
    entries.push(("Another OpenAI- or Anthropic-compatible address".to_owned(), "custom", None));
    let labels: Vec<String> = entries.iter().map(|entry| entry.0.clone()).collect();
    let start =
        state.provider.as_deref().and_then(|current| entries.iter().position(|entry| entry.1 == current)).unwrap_or(0);
    let picked = Select::new("Where should answers come from?", labels)
        .with_starting_cursor(start)
        .with_page_size(12)
        .with_help_message("Type to search. Servers on this computer need no key, and nothing leaves it.")
        .raw_prompt()?
        .index;
    let (_, id, server) = &entries[picked];
    let Some(preset) = presets.iter().find(|preset| preset.id == **id) else { return Ok(Go::Back) };
    let same = state.provider.as_deref() == Some(preset.id.as_str());
    *chosen = Chosen {
        provider: preset.id.clone(),
        label: preset.label.clone(),
        local: preset.local,
        key_env: preset.key_env.clone(),
        key_env_set: preset.key_env_set,
        key_url: preset.key_url.clone(),
        models: server.map(|server| server.models.clone()).unwrap_or_default(),
        preset_model: if same && !state.model_id.is_empty() { state.model_id.clone() } else { preset.model_id.clone() },
        skills: chosen.skills,
        mode: chosen.mode,
        port: chosen.port,
        ..Chosen::default()
    };
    if preset.api_base.is_empty() && preset.id != BUILTIN {
        let current = if same { state.api_base.as_str() } else { "" };
        let base = Text::new("Base URL:")
            .with_initial_value(current)
            .with_placeholder("http://127.0.0.1:8080/v1")
            .with_help_message(
                "With or without /v1. Anthropic-compatible addresses are recognised by /anthropic in them.",
            )
            .with_validator(|text: &str| {
                Ok(if text.starts_with("http://") || text.starts_with("https://") {
                    inquire::validator::Validation::Valid
                } else {
                    inquire::validator::Validation::Invalid("An address begins with http:// or https://.".into())
                })
            })
            .prompt()?;
        chosen.api_base = Some(base);
    }
    Ok(Go::On)
}

fn key(state: &SetupState, chosen: &mut Chosen) -> Result<Go, InquireError> {
    if chosen.local {
        return Ok(Go::On);
    }
    let has_key = keeps(state, chosen);
    let keep = "Keep the key that is set";
    let variable = chosen.key_env.as_ref().map(|name| {
        let set = if chosen.key_env_set { "is set" } else { "is not set here" };
        format!("Take it from the variable {name} ({set})")
    });
    let paste = "Paste a key";
    let pass = "Pass on what each agent sends (a subscription login, for example)";
    let none = "No key";
    let mut ways = Vec::new();
    if has_key {
        ways.push(keep.to_owned());
    }
    if chosen.key_env_set {
        ways.extend(variable.clone());
    }
    ways.push(paste.to_owned());
    if !chosen.key_env_set {
        ways.extend(variable.clone());
    }
    ways.push(pass.to_owned());
    if chosen.provider == "custom" {
        ways.push(none.to_owned());
    }
    let help = chosen.key_url.as_ref().map(|url| format!("Keys are made at {url}"));
    let mut question = Select::new("Which key?", ways);
    if let Some(help) = &help {
        question = question.with_help_message(help);
    }
    let way = question.prompt()?;
    chosen.api_key = None;
    chosen.key_kept = way == keep;
    chosen.passthrough = way == pass;
    if way == paste {
        let key = Password::new("Key:")
            .with_display_mode(PasswordDisplayMode::Masked)
            .without_confirmation()
            .with_help_message("It is written into the config file, which only you can read.")
            .prompt()?;
        chosen.api_key = Some(key.trim().to_owned());
    } else if Some(&way) == variable.as_ref() {
        chosen.api_key = chosen.key_env.as_ref().map(|name| format!("env:{name}"));
    } else if way == none {
        chosen.api_key = Some(String::new());
    }
    Ok(Go::On)
}

async fn model(ctx: &Ctx, api: &Client, chosen: &mut Chosen, test: bool) -> Result<Go, InquireError> {
    if chosen.passthrough {
        chosen.model = String::new();
        ctx.out.note("Each agent's own model is used.");
        return Ok(Go::On);
    }
    if chosen.provider == BUILTIN {
        return built_in(ctx, api, chosen).await;
    }
    if chosen.models.is_empty() {
        ctx.out.note(&format!("Asking {} which models it has…", chosen.label));
        let asked = ProviderTest { models_only: true, ..probe(chosen) };
        match report(api, &asked).await {
            Ok(listed) if listed.ok => chosen.models = listed.models,
            Ok(listed) => {
                ctx.out.note(&listed.message);
                // Some gateways refuse only the list: without another key the model is named by hand and tried.
                if matches!(listed.status, Some(401 | 403)) && !chosen.local && retry("Another key?")? {
                    return Ok(Go::To(KEY));
                }
            }
            Err(message) => ctx.out.note(&message),
        }
    }
    chosen.model = pick_model(chosen)?;
    if !test {
        return Ok(Go::On);
    }
    ctx.out.note(&format!("Asking {} for one word…", chosen.label));
    let tried = report(api, &ProviderTest { model_id: Some(chosen.model.clone()), ..probe(chosen) }).await;
    let message = match tried {
        Ok(report) if report.ok => {
            ctx.out.note(&report.message);
            return Ok(Go::On);
        }
        Ok(report) => report.message,
        Err(message) => message,
    };
    ctx.out.note(&message);
    let ways = vec!["Choose another model", "Choose another key", "Choose another provider", "Go on all the same"];
    Ok(match Select::new("What now?", ways).raw_prompt()?.index {
        0 => Go::To(2),
        1 if !chosen.local => Go::To(KEY),
        1 | 2 => Go::To(PROVIDER),
        _ => Go::On,
    })
}

/// A model that is here, or one that may be fetched. It is fetched after the last question.
async fn built_in(ctx: &Ctx, api: &Client, chosen: &mut Chosen) -> Result<Go, InquireError> {
    ctx.out.note("Looking where models can be had…");
    let models: Models = match api.get("/api/v1/models?look=true").await {
        Ok(models) => models,
        Err(problem) => {
            ctx.out.note(&problem.message);
            return Ok(Go::To(PROVIDER));
        }
    };
    let here = models.kept.iter().filter(|kept| kept.purpose == ModelPurpose::Chat);
    let mut entries: Vec<(String, String, Option<&ModelOffer>)> =
        here.map(|kept| (format!("{}  (here)", kept.id), kept.id.clone(), None)).collect();
    let some_here = !entries.is_empty();
    for offer in models.offers.iter().filter(|offer| !offer.kept && offer.purpose == ModelPurpose::Chat) {
        let text = format!("{}  ({} to fetch; {})", offer.label, super::models::megabytes(offer.size), offer.about);
        entries.push((text, offer.id.clone(), Some(offer)));
    }
    let wanted = Some(&chosen.preset_model).filter(|id| !id.is_empty()).or(models.suggested.as_ref());
    let start = match some_here {
        true => 0,
        false => entries.iter().position(|entry| Some(&entry.1) == wanted).unwrap_or(0),
    };
    let labels = entries.iter().map(|entry| entry.0.clone()).collect();
    let picked = Select::new("Which model?", labels).with_starting_cursor(start).raw_prompt()?.index;
    let (_, id, offer) = &entries[picked];
    chosen.fetch = false;
    if let Some(offer) = offer {
        if !super::models::agreed(offer)? {
            return Ok(Go::To(PROVIDER));
        }
        chosen.fetch = true;
    }
    chosen.model.clone_from(id);
    Ok(Go::On)
}

fn pick_model(chosen: &Chosen) -> Result<String, InquireError> {
    if chosen.models.is_empty() {
        return Text::new("Model:")
            .with_initial_value(&chosen.preset_model)
            .with_help_message("Empty: the model that each agent asks for.")
            .prompt();
    }
    let own = "Another name…".to_owned();
    let mut models = chosen.models.clone();
    models.push(own.clone());
    let start = models.iter().position(|model| *model == chosen.preset_model).unwrap_or(0);
    let picked = Select::new("Which model?", models)
        .with_starting_cursor(start)
        .with_page_size(12)
        .with_help_message("Type to search.")
        .prompt()?;
    if picked == own {
        return Text::new("Model:").with_initial_value(&chosen.preset_model).prompt();
    }
    Ok(picked)
}

fn retry(question: &str) -> Result<bool, InquireError> {
    Confirm::new(question).with_default(true).prompt()
}

/// Whether there is a key that may be kept: one of this provider, and of this server.
fn keeps(state: &SetupState, chosen: &Chosen) -> bool {
    let server = |text: &str| config::BaseUrl::parse(text).ok();
    let same_server = chosen.api_base.as_deref().is_none_or(|base| match (server(base), server(&state.api_base)) {
        (Some(new), Some(old)) => new.is_same_server(&old),
        _ => false,
    });
    state.key_set && state.provider.as_deref() == Some(chosen.provider.as_str()) && same_server
}

/// What the test call is made with. A kept key stays out of it: the service knows it.
fn probe(chosen: &Chosen) -> ProviderTest {
    ProviderTest {
        provider: Some(chosen.provider.clone()),
        api_base: chosen.api_base.clone(),
        api_key: chosen.api_key.clone(),
        auth_method: Some("api_key".to_owned()),
        ..ProviderTest::default()
    }
}

async fn report(api: &Client, test: &ProviderTest) -> Result<ProviderReport, String> {
    api.call(Method::POST, "/api/v1/providers/test", Some(test)).await.map_err(|problem| match problem.hint {
        Some(hint) => format!("{} {hint}", problem.message),
        None => problem.message,
    })
}

fn skills(chosen: &mut Chosen) -> Result<Go, InquireError> {
    chosen.skills = Confirm::new("Add skills to turns?")
        .with_default(chosen.skills)
        .with_help_message(
            "Short notes that fit the message, added once per turn. You see every one: metaclaw turns show",
        )
        .prompt()?;
    Ok(Go::On)
}

fn mode(state: &SetupState, chosen: &mut Chosen) -> Result<Go, InquireError> {
    let modes = [
        ("auto", "auto         skills now; training, once it is here, only while you are away"),
        ("skills_only", "skills_only  skills, and no training"),
        ("rl", "rl           skills now; training, once it is here, as soon as a batch is full"),
    ];
    let start = modes.iter().position(|(mode, _)| *mode == state.mode).unwrap_or(0);
    let picked = Select::new("Mode:", modes.map(|(_, text)| text).to_vec())
        .with_starting_cursor(start)
        .with_help_message("Training comes with a later release; until then all three serve alike.")
        .raw_prompt()?
        .index;
    chosen.mode = modes[picked].0;
    Ok(Go::On)
}

fn port(state: &SetupState, chosen: &mut Chosen) -> Result<Go, InquireError> {
    let kept = state.port;
    let kept_free = state.port_free;
    let port = CustomType::<u16>::new("Port for agents:")
        .with_default(chosen.port)
        .with_error_message("A whole number from 0 to 65535; 0 takes any free port.")
        .with_validator(move |port: &u16| {
            let free =
                if *port == kept { kept_free } else { std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok() };
            Ok(if free {
                inquire::validator::Validation::Valid
            } else {
                inquire::validator::Validation::Invalid("Another program listens there. Choose another port.".into())
            })
        })
        .prompt()?;
    chosen.port = port;
    Ok(Go::On)
}

fn confirm(ctx: &Ctx, state: &SetupState, chosen: &Chosen) -> Result<Go, InquireError> {
    let key = match (&chosen.api_key, chosen.key_kept, chosen.passthrough) {
        (_, _, true) => "each agent's own",
        (_, true, _) => "the one that is set",
        (Some(key), _, _) if key.starts_with("env:") => key.as_str(),
        (Some(key), _, _) if !key.is_empty() => "(pasted)",
        _ => "none",
    };
    let model = if chosen.model.is_empty() { "the one each agent asks for" } else { &chosen.model };
    ctx.out.note(&format!(
        "\n  provider  {}\n  model     {model}\n  key       {key}\n  skills    {}\n  mode      {}\n  port      {}\n",
        chosen.label,
        if chosen.skills { "on" } else { "off" },
        chosen.mode,
        chosen.port
    ));
    let question = format!("Write this to {}?", state.config);
    let yes = Confirm::new(&question)
        .with_default(true)
        .with_help_message("Everything else in the file stays as it is.")
        .prompt()?;
    Ok(if yes { Go::On } else { Go::Back })
}

fn answers(chosen: &Chosen) -> Map<String, Value> {
    let mut answers = Map::new();
    let mut put = |key: &str, value: Value| {
        answers.insert(key.to_owned(), value);
    };
    put("llm.provider", json!(chosen.provider));
    if let Some(base) = &chosen.api_base {
        put("llm.api_base", json!(base));
    }
    put("llm.auth_method", json!(if chosen.passthrough { "passthrough" } else { "api_key" }));
    if let Some(key) = &chosen.api_key {
        put("llm.api_key", json!(key));
    }
    put("llm.model_id", json!(chosen.model));
    if chosen.fetch {
        put("fetch_model", json!(true));
    }
    put("skills.enabled", json!(chosen.skills));
    put("mode", json!(chosen.mode));
    put("proxy.port", json!(chosen.port));
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_key_is_not_among_the_answers() {
        let chosen = Chosen { provider: "kimi".into(), key_kept: true, mode: "auto", port: 30000, ..Chosen::default() };
        let answers = answers(&chosen);
        assert!(!answers.contains_key("llm.api_key"));
        assert_eq!(answers["llm.provider"], "kimi");
    }

    #[test]
    fn a_key_is_kept_for_the_server_it_belongs_to_only() {
        let state = SetupState {
            configured: true,
            missing: None,
            config: String::new(),
            exists: true,
            provider: Some("custom".into()),
            model_id: "m".into(),
            api_base: "http://10.0.0.7:8000/v1".into(),
            key_set: true,
            mode: "auto".into(),
            claw_type: "none".into(),
            skills: true,
            port: 1,
            port_free: true,
        };
        let keeps = |provider: &str, base: Option<&str>| {
            let chosen = Chosen { provider: provider.into(), api_base: base.map(Into::into), ..Chosen::default() };
            keeps(&state, &chosen)
        };
        assert!(keeps("custom", Some("http://10.0.0.7:8000")));
        assert!(!keeps("custom", Some("http://10.0.0.8:8000/v1")));
        assert!(!keeps("kimi", None));
    }

    #[test]
    fn going_back_passes_over_the_key_of_a_local_server() {
        let chosen = Chosen { local: true, ..Chosen::default() };
        assert_eq!(back(2, &chosen), PROVIDER);
        assert_eq!(back(2, &Chosen::default()), KEY);
        assert_eq!(back(PROVIDER, &Chosen::default()), PROVIDER);
    }
}
