//! `metaclaw status`: what runs, where, and what needs the person.

use std::process::ExitCode;

use engine::api::{ByMeaning, ServiceState, Status};

use super::{count, figure};
use crate::args::Target;
use crate::ctx::Ctx;
use crate::exit::{Exit, Fail};
use crate::out::{Out, Tone, duration};

pub(crate) async fn run(ctx: &Ctx, args: &Target) -> Result<ExitCode, Fail> {
    let status: Status = ctx.api().await?.get("/api/v1/status").await?;
    if let Some(port) = args.port
        && status.state != ServiceState::Stopped
        && status.port != port
    {
        return Err(Fail::new(
            Exit::NotRunning,
            format!("No service of this home uses port {port}; it uses {}.", status.port),
        ));
    }
    if ctx.out.json {
        ctx.out.value(&status);
    } else {
        print(&ctx.out, &status);
    }
    Ok(match status.state {
        ServiceState::Stopped => ExitCode::from(Exit::NotRunning as u8),
        ServiceState::Unreachable => ExitCode::from(Exit::Failed as u8),
        _ => ExitCode::SUCCESS,
    })
}

fn print(out: &Out, status: &Status) {
    out.line(&sentence(out, status));
    let mut rows = Vec::new();
    if let Some(url) = &status.base_url {
        rows.push(("base URL", url.clone()));
    }
    rows.push(("key", if status.key_required { "proxy.api_key is required".into() } else { "none asked for".into() }));
    rows.push(("provider", provider(status)));
    rows.push((
        "mode",
        if status.mode_overruled { format!("{} (this run)", status.mode) } else { status.mode.clone() },
    ));
    rows.push(("skills", skills(status)));
    if let Some(reason) = &status.learning.reason {
        rows.push(("learning", format!("off: {reason}")));
    }
    match (&status.learning.judge, &status.learning.judge_reason) {
        (_, Some(reason)) => rows.push(("judge", format!("not asked: {reason}"))),
        (Some(model), None) => {
            let of = &status.learning;
            let does = [
                (of.judge_compares, "compares answers before a learned skill is kept"),
                (of.judge_scores, "scores answers while one is measured"),
            ];
            let does: Vec<_> = does.into_iter().filter_map(|(does, what)| does.then_some(what)).collect();
            rows.push(("judge", format!("{model} {}", does.join(", "))));
        }
        (None, None) => {}
    }
    rows.extend(by_meaning("by meaning", "skills", &status.by_meaning));
    rows.extend(by_meaning("memory by meaning", "passages and facts", &status.memory_by_meaning));
    if let Some(url) = &status.ui_url {
        rows.push(("window", url.clone()));
    }
    rows.push(("config", status.config.clone()));
    if let Some(log) = &status.log {
        rows.push(("log", log.clone()));
    }
    out.pairs(&rows);
    for note in notes(status) {
        out.note(&note);
    }
}

/// Whether something is found by meaning, as far as it is wanted.
fn by_meaning(name: &'static str, what: &str, meaning: &ByMeaning) -> Option<(&'static str, String)> {
    if let Some(reason) = &meaning.reason {
        return Some((name, format!("off: {reason}")));
    }
    let late = if meaning.missed == 0 { String::new() } else { format!(", {} turns by words alone", meaning.missed) };
    meaning.on.then(|| (name, format!("{} ({} of {} {what}{late})", meaning.model, meaning.ready, meaning.of)))
}

fn sentence(out: &Out, status: &Status) -> String {
    let since = status.since_ms.map(|since| Ctx::now().timestamp().as_millisecond() - since);
    let about = match (status.pid, since) {
        (Some(pid), Some(since)) => format!(" Process {pid}, for {}.", duration(since)),
        (Some(pid), None) => format!(" Process {pid}."),
        _ => String::new(),
    };
    match status.state {
        ServiceState::Running => out.paint(Tone::Good, "Running.") + &about,
        ServiceState::FirstRun => out.paint(Tone::Warn, "Running, but not set up yet.") + &about,
        ServiceState::Stopping => out.paint(Tone::Warn, "Stopping.") + &about,
        ServiceState::Unreachable => {
            out.paint(
                Tone::Warn,
                "A process holds this home and does not answer: it is starting or ending, or it hangs.",
            ) + &about
                + " If it stays so: metaclaw stop --force"
        }
        ServiceState::Stopped => {
            format!("{} Start it with: metaclaw start --daemon", out.paint(Tone::Strong, "Not running."))
        }
    }
}

fn provider(status: &Status) -> String {
    if let Some(missing) = &status.missing {
        return missing.clone();
    }
    let provider = &status.provider;
    let model = provider.model.as_deref().unwrap_or("the model each agent asks for");
    let with = if provider.passthrough { ", with the agents' own credentials" } else { "" };
    format!(
        "{model} at {}{}{with}",
        provider.id,
        provider.base_url.as_deref().map(|url| format!(" ({url})")).unwrap_or_default()
    )
}

fn skills(status: &Status) -> String {
    let skills = &status.skills;
    let mut text = if skills.enabled { figure(u64::from(skills.count)) } else { "off".to_owned() };
    if skills.enabled && skills.disabled > 0 {
        text.push_str(&format!(", {} switched off", skills.disabled));
    }
    if skills.unusable > 0 {
        let files = count(skills.unusable as usize, "file", "files");
        text.push_str(&format!(", {files} with faults (metaclaw skills validate)"));
    }
    text
}

fn notes(status: &Status) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(note) = &status.listen_note {
        notes.push(note.clone());
    }
    if let Some(problem) = &status.config_problem {
        let kept = if status.state == ServiceState::Stopped { "" } else { " The last good settings stay in use." };
        notes.push(format!("The config file is not used as it is now: {problem}.{kept}"));
    }
    if !status.restart_for.is_empty() {
        notes.push(format!("Changed, and in force after a restart: {}.", status.restart_for.join(", ")));
    }
    notes.extend(status.warnings.iter().cloned());
    notes.extend(status.later.iter().map(|later| format!("{}: {}", later.what, later.note)));
    notes
}
