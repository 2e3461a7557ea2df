//! `metaclaw config`: read and change settings. Secrets come from a prompt, standard input, the environment or a file;
//! the short form `config KEY VALUE` of older versions still takes them, with a warning.

use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use engine::api::{Code, ConfigCheck, ConfigFinding, Setting, SettingState, SettingValue, Settings};
use engine::client::{Client, segment};
use http::Method;
use serde_json::Value;

use super::count;
use crate::args::{Config, ConfigSet, ConfigVerb};
use crate::ctx::Ctx;
use crate::exit::{Exit, Fail, io};
use crate::out::{Out, Tone};

pub(crate) async fn run(ctx: &Ctx, args: Config) -> Result<ExitCode, Fail> {
    match (args.verb, args.key) {
        (Some(ConfigVerb::Show { set, all, prefix }), _) => show(ctx, set, all, prefix.as_deref()).await,
        (Some(ConfigVerb::Get { key, reveal }), _) => get(ctx, &key, reveal).await,
        (Some(ConfigVerb::Set(set)), _) => self::set(ctx, set).await,
        (Some(ConfigVerb::Unset { key }), _) => unset(ctx, &key).await,
        (Some(ConfigVerb::Path), _) => path(ctx),
        (Some(ConfigVerb::Validate), _) => validate(ctx).await,
        (None, Some(key)) => match args.value {
            None => get(ctx, &key, false).await,
            Some(value) => short_set(ctx, key, value).await,
        },
        (None, None) => Err(Fail::usage("Say what to do: metaclaw config show, or metaclaw config KEY [VALUE].")),
    }
}

async fn show(ctx: &Ctx, only_set: bool, all: bool, prefix: Option<&str>) -> Result<ExitCode, Fail> {
    let mut settings: Settings = ctx.api().await?.get("/api/v1/config").await?;
    settings.settings.retain(|setting| {
        (!only_set || setting.line.is_some()) && prefix.is_none_or(|prefix| setting.key.starts_with(prefix))
    });
    if ctx.out.json {
        ctx.out.value(&settings);
        return Ok(ExitCode::SUCCESS);
    }
    let out = &ctx.out;
    let there = if settings.exists { "" } else { " (does not exist yet; these are the defaults)" };
    out.line(&out.paint(Tone::Strong, &format!("{}{there}", settings.path)));
    let wide = settings.settings.iter().map(|setting| setting.key.len()).max().unwrap_or(0);
    for setting in &settings.settings {
        let value = shown(&setting.value);
        let value =
            if setting.line.is_some() { out.paint(Tone::Strong, &value) } else { out.paint(Tone::Faint, &value) };
        out.line(&format!("{:<wide$}  {value}  {}", setting.key, out.paint(Tone::Faint, &about(setting))));
        if all {
            out.line(&format!("{:<wide$}  {} Allowed: {}.", "", setting.doc, setting.allowed));
        }
    }
    findings(out, &settings.findings);
    Ok(ExitCode::SUCCESS)
}

/// Where the value comes from, and what it does not do yet.
fn about(setting: &Setting) -> String {
    let source = setting.line.map_or("default".to_owned(), |line| format!("line {line}"));
    match (&setting.state, &setting.note) {
        (SettingState::Live, _) => source,
        (SettingState::Later, Some(note)) => format!("{source}; does nothing yet: {note}"),
        (_, note) => format!("{source}; does nothing: {}", note.as_deref().unwrap_or_default()),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "(empty)".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "(none)".to_owned(),
        Value::Object(items) if items.is_empty() => "(none)".to_owned(),
        Value::Null => "(empty)".to_owned(),
        other => other.to_string(),
    }
}

async fn get(ctx: &Ctx, key: &str, reveal: bool) -> Result<ExitCode, Fail> {
    let path = format!("/api/v1/config/{}?reveal={reveal}", segment(key));
    let setting: Setting = ctx.api().await?.get(&path).await?;
    if ctx.out.json {
        ctx.out.value(&setting);
        return Ok(ExitCode::SUCCESS);
    }
    ctx.out.line(&match &setting.value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    });
    ctx.out.note(&ctx.out.paint(Tone::Faint, &format!("{} ({})", setting.doc, about(&setting))));
    if setting.secret && !reveal && setting.value.as_str().is_some_and(|value| !value.is_empty()) {
        ctx.out.note("To see it: metaclaw config get KEY --reveal");
    }
    Ok(ExitCode::SUCCESS)
}

async fn set(ctx: &Ctx, args: ConfigSet) -> Result<ExitCode, Fail> {
    let api = ctx.api().await?;
    let setting: Setting = api.get(&format!("/api/v1/config/{}", segment(&args.key))).await?;
    if setting.secret
        && let Some(value) = &args.value
        && !is_reference(value)
        && value != "-"
    {
        return Err(Fail::usage(format!("{} is a secret; on the command line it would stay in the shell's history.", setting.key))
            .hint(format!(
                "Be asked for it:      metaclaw config set {0}\nFrom a pipe:          … | metaclaw config set {0} --stdin\n\
                 From a variable:      metaclaw config set {0} --from-env NAME\nKeep it elsewhere:    metaclaw config set {0} env:NAME",
                setting.key
            )));
    }
    let value = match args {
        ConfigSet { stdin: true, .. } => stdin()?,
        ConfigSet { from_env: Some(name), .. } => std::env::var(&name)
            .map_err(|_| Fail::usage(format!("The variable {name} is not set, or holds no text.")))?,
        ConfigSet { from_file: Some(path), .. } => {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| io(&format!("{} cannot be read", path.display()), &error))?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        }
        ConfigSet { value: Some(value), .. } if value == "-" => stdin()?,
        ConfigSet { value: Some(value), .. } => value,
        ConfigSet { key, .. } => ask(&key, &setting)?,
    };
    write(ctx, &api, &setting, value).await
}

/// `config KEY VALUE` as older versions had it.
async fn short_set(ctx: &Ctx, key: String, value: String) -> Result<ExitCode, Fail> {
    if key == "llm.oauth_token" {
        return Err(Fail::failed("Subscriptions are signed in to in a later release; the token was not stored.")
            .hint("Use a key: metaclaw config set llm.api_key"));
    }
    let api = ctx.api().await?;
    let setting: Setting = api.get(&format!("/api/v1/config/{}", segment(&key))).await?;
    let value = if value == "-" { stdin()? } else { value };
    if setting.secret && !is_reference(&value) {
        ctx.out.warn(&format!(
            "the value of {key} now stands in your shell's history. Next time: metaclaw config set {key} (it asks)."
        ));
    }
    write(ctx, &api, &setting, value).await
}

async fn write(ctx: &Ctx, api: &Client, setting: &Setting, value: String) -> Result<ExitCode, Fail> {
    let path = format!("/api/v1/config/{}", segment(&setting.key));
    let new = SettingValue { value: Value::String(value) };
    let now: Setting = api.call(Method::PUT, &path, Some(&new)).await.map_err(|problem| {
        // A value that may not stand there is a wrong use of this command.
        let wrong = problem.code == Code::Invalid;
        let fail = Fail::from(problem);
        if wrong { Fail { exit: Exit::Usage, ..fail } } else { fail }
    })?;
    report(ctx, api, &now);
    Ok(ExitCode::SUCCESS)
}

async fn unset(ctx: &Ctx, key: &str) -> Result<ExitCode, Fail> {
    let api = ctx.api().await?;
    let path = format!("/api/v1/config/{}", segment(key));
    let now: Setting = api.call::<(), _>(Method::DELETE, &path, None).await?;
    report(ctx, &api, &now);
    Ok(ExitCode::SUCCESS)
}

fn report(ctx: &Ctx, api: &Client, setting: &Setting) {
    if ctx.out.json {
        ctx.out.value(setting);
        return;
    }
    let default = if setting.line.is_none() { " (default)" } else { "" };
    ctx.out.line(&format!("{}: {}{default}", setting.key, shown(&setting.value)));
    if let (SettingState::Later | SettingState::Accepted, Some(note)) = (setting.state, &setting.note) {
        ctx.out.note(&format!("It does nothing in this release: {note}."));
    } else if api.is_running() {
        ctx.out.note(if setting.needs_restart { "In force after: metaclaw restart" } else { "In force." });
    }
}

fn path(ctx: &Ctx) -> Result<ExitCode, Fail> {
    let path = ctx.config_path().display().to_string();
    if ctx.out.json {
        ctx.out.value(&serde_json::json!({ "path": path }));
    } else {
        ctx.out.line(&path);
    }
    Ok(ExitCode::SUCCESS)
}

async fn validate(ctx: &Ctx) -> Result<ExitCode, Fail> {
    let found: Vec<ConfigFinding> =
        ctx.api().await?.call(Method::POST, "/api/v1/config/validate", Some(&ConfigCheck::default())).await?;
    let errors = found.iter().filter(|finding| finding.severity == "error").count();
    if ctx.out.json {
        ctx.out.value(&found);
    } else {
        let path = ctx.config_path().display().to_string();
        ctx.out.line(&match (errors, found.len()) {
            (0, 0) => format!("{path} is in order."),
            (0, warnings) => format!("{path} can be used; {}.", count(warnings, "remark", "remarks")),
            (errors, _) => format!("{path} cannot be used: {}.", count(errors, "error", "errors")),
        });
        findings(&ctx.out, &found);
    }
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::from(Exit::Failed as u8) })
}

fn findings(out: &Out, findings: &[ConfigFinding]) {
    for finding in findings {
        let place = if finding.line > 0 { format!("line {}: ", finding.line) } else { String::new() };
        let key = if finding.key.is_empty() { String::new() } else { format!("{}: ", finding.key) };
        let fix = finding.fix.as_deref().map(|fix| format!(" ({fix})")).unwrap_or_default();
        let tone = if finding.severity == "error" { Tone::Bad } else { Tone::Warn };
        out.line(&format!("{} {place}{key}{}{fix}", out.paint(tone, &finding.severity), finding.message));
    }
}

fn is_reference(value: &str) -> bool {
    config::Reference::parse(value).is_some()
}

fn stdin() -> Result<String, Fail> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Fail::failed(format!("Standard input could not be read: {error}.")))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn ask(key: &str, setting: &Setting) -> Result<String, Fail> {
    if !std::io::stdin().is_terminal() {
        return Err(Fail::usage(format!("No value for {key}."))
            .hint("Give it as an argument, or with --stdin, --from-env or --from-file."));
    }
    let message = format!("{key}:");
    let answer = if setting.secret {
        inquire::Password::new(&message).without_confirmation().with_help_message(&setting.doc).prompt()
    } else {
        inquire::Text::new(&message).with_help_message(&setting.doc).prompt()
    };
    answer.map_err(|_| Fail::failed("Nothing was written."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_no_secrets_and_may_stand_on_the_command_line() {
        assert!(is_reference("env:KIMI_KEY") && is_reference("file:~/key") && !is_reference("sk-123"));
    }
}
