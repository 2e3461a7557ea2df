//! `metaclaw setup`: answers from a file or from the wizard, shown as a change before they are written.

use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;

use engine::api::{SetupAnswers, SetupReport};
use http::Method;
use serde_json::{Map, Value};

use crate::args::Setup;
use crate::ctx::Ctx;
use crate::exit::{Exit, Fail, io};
use crate::out::Tone;

pub(crate) async fn run(ctx: &Ctx, args: Setup) -> Result<ExitCode, Fail> {
    let answers = match (&args.answers, args.non_interactive) {
        (Some(path), _) => read(path)?,
        (None, true) => Map::new(),
        (None, false) => {
            if !std::io::stdin().is_terminal() {
                return Err(Fail::usage("There is nobody to ask here.")
                    .hint("Give the answers in a file: metaclaw setup --non-interactive --answers FILE"));
            }
            super::wizard::ask(ctx, !args.no_test).await?
        }
    };
    let api = ctx.api().await?;
    // The wizard has made its test call already.
    let built_in = ["provider", "llm.provider"].iter().any(|key| answers.get(*key).is_some_and(|it| it == "builtin"));
    let test = !args.no_test && (args.answers.is_some() || args.non_interactive || built_in);
    if test {
        ctx.out.note("Asking the provider for one word…");
    }
    let body = SetupAnswers { answers, dry_run: args.dry_run, test };
    let call = api.call(Method::POST, "/api/v1/setup", Some(&body));
    let report: SetupReport = super::models::while_fetching(ctx, &api, call).await?;
    if ctx.out.json {
        ctx.out.value(&report);
    } else {
        print(ctx, &report, args.dry_run);
    }
    if let Some(failed) = report.test.as_ref().filter(|test| !test.ok) {
        return Err(Fail::failed(format!("{} Nothing was written.", failed.message))
            .hint("Correct the answers, or write them without the test call: --no-test"));
    }
    match &report.missing {
        Some(missing) if !args.dry_run => {
            Err(Fail::new(Exit::NotConfigured, format!("Written, but not complete yet: {missing}.")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn print(ctx: &Ctx, report: &SetupReport, dry_run: bool) {
    let out = &ctx.out;
    if let Some(test) = report.test.as_ref().filter(|test| test.ok) {
        out.line(&test.message);
    }
    let done = match (report.written, dry_run) {
        (true, _) if report.created => "Written",
        (true, _) => "Changed",
        (false, true) => "Would change",
        (false, false) => "Not changed",
    };
    out.line(&format!("{done}: {}", report.config));
    for change in &report.changes {
        let was = change.before.as_deref().map(|before| format!("  (was {before})")).unwrap_or_default();
        let now = change.after.as_deref().unwrap_or("(empty)");
        out.line(&format!("  {}: {}{}", change.key, out.paint(Tone::Strong, now), out.paint(Tone::Faint, &was)));
    }
    if report.written && report.missing.is_none() {
        out.note("Start it with: metaclaw start --daemon");
    }
}

fn read(path: &Path) -> Result<Map<String, Value>, Fail> {
    let (name, text) = if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Fail::failed(format!("Standard input could not be read: {error}.")))?;
        ("Standard input".to_owned(), text)
    } else {
        let text =
            std::fs::read_to_string(path).map_err(|error| io(&format!("{} cannot be read", path.display()), &error))?;
        (path.display().to_string(), text)
    };
    // JSON is YAML. The message holds no line of the text: keys stand in it.
    let answers = config::answers(&text, Path::new(&name))
        .map_err(|error| Fail::usage(format!("The answers cannot be read: {error}.")))?;
    if answers.is_empty() {
        return Err(Fail::usage(format!("{name} holds no answers of the form `key: value`.")));
    }
    Ok(answers)
}
