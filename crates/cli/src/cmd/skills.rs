//! `metaclaw skills`

use std::path::Path;
use std::process::ExitCode;

use engine::api::{
    Skill, SkillAdd, SkillChange, SkillCheck, SkillExport, SkillFinding, SkillList, SkillLogEntry, SkillPreview,
    SkillRevert, SkillSearch,
};
use engine::client::segment;
use http::Method;
use serde::Serialize;

use super::{count, figure, learning};
use crate::args::SkillsVerb;
use crate::ctx::Ctx;
use crate::exit::{Exit, Fail};
use crate::out::{Out, Tone, moment, printable};

pub(crate) async fn run(ctx: &Ctx, verb: SkillsVerb) -> Result<ExitCode, Fail> {
    match verb {
        SkillsVerb::List => list(ctx).await,
        SkillsVerb::Show { name } => show(ctx, &name).await,
        SkillsVerb::Search { words } => search(ctx, words.join(" ")).await,
        SkillsVerb::Validate { path } => validate(ctx, path.as_deref()).await,
        SkillsVerb::Add { path, replace } => {
            let add = SkillAdd { path: Some(absolute(&path)?), text: None, replace };
            change(ctx, Method::POST, "/api/v1/skills", Some(&add)).await
        }
        SkillsVerb::Remove { name } => {
            change::<()>(ctx, Method::DELETE, &format!("/api/v1/skills/{}", segment(&name)), None).await
        }
        SkillsVerb::Enable { name } => {
            change::<()>(ctx, Method::POST, &format!("/api/v1/skills/{}/enable", segment(&name)), None).await
        }
        SkillsVerb::Disable { name } => {
            change::<()>(ctx, Method::POST, &format!("/api/v1/skills/{}/disable", segment(&name)), None).await
        }
        SkillsVerb::Log { n, learned, full, file } => match learned || full || file.is_some() {
            true => learning::log(ctx, n, full, file.as_deref()).await,
            false => log(ctx, n).await,
        },
        SkillsVerb::Undo => change::<()>(ctx, Method::POST, "/api/v1/skills-undo", None).await,
        SkillsVerb::Learning => learning::state(ctx).await,
        SkillsVerb::Evolve { session } => learning::evolve(ctx, session).await,
        SkillsVerb::Proposals { all } => learning::proposals(ctx, all).await,
        SkillsVerb::Proposal { id } => learning::proposal(ctx, id).await,
        SkillsVerb::Approve { id, agents, shared } => learning::approve(ctx, id, agents, shared).await,
        SkillsVerb::Reject { id } => learning::reject(ctx, id).await,
        SkillsVerb::Edit { id, file } => learning::edit(ctx, id, &file).await,
        SkillsVerb::History { name } => learning::history(ctx, &name).await,
        SkillsVerb::Diff { name, from, to } => learning::diff(ctx, &name, from, to).await,
        SkillsVerb::Revert { name, version, descendants } => {
            learning::revert(ctx, &name, SkillRevert { version, descendants }).await
        }
        SkillsVerb::Export { path, names } => {
            let export = SkillExport { path: absolute(&path)?, names };
            change(ctx, Method::POST, "/api/v1/skills-export", Some(&export)).await
        }
        SkillsVerb::Import { path } => learning::import(ctx, &path).await,
        SkillsVerb::Effect { name, agent } => learning::effect(ctx, name.as_deref(), agent).await,
    }
}

async fn list(ctx: &Ctx) -> Result<ExitCode, Fail> {
    let list: SkillList = ctx.api().await?.get("/api/v1/skills").await?;
    if ctx.out.json {
        ctx.out.value(&list);
        return Ok(ExitCode::SUCCESS);
    }
    if list.skills.is_empty() {
        ctx.out.note(&format!(
            "No skills in {}. The built-in ones are written there by the first `metaclaw start`.",
            list.dir
        ));
    } else {
        let rows: Vec<Vec<String>> = list
            .skills
            .iter()
            .map(|skill| {
                vec![
                    skill.name.clone(),
                    skill.category.clone(),
                    if skill.enabled { "on" } else { "off" }.to_owned(),
                    skill.origin.replace('_', ", "),
                    skill.tokens.to_string(),
                    skill.description.clone(),
                ]
            })
            .collect();
        ctx.out.table(&["NAME", "CATEGORY", "STATE", "ORIGIN", "TOKENS", "DESCRIPTION"], &rows);
    }
    if !list.enabled {
        ctx.out.note("Skills are switched off: metaclaw config set skills.enabled true");
    }
    findings(&ctx.out, &list.findings);
    Ok(ExitCode::SUCCESS)
}

async fn show(ctx: &Ctx, name: &str) -> Result<ExitCode, Fail> {
    let skill: Skill = ctx.api().await?.get(&format!("/api/v1/skills/{}", segment(name))).await?;
    if ctx.out.json {
        ctx.out.value(&skill);
        return Ok(ExitCode::SUCCESS);
    }
    let row = &skill.row;
    let state = match (row.enabled, row.manual) {
        (false, _) => "switched off",
        (true, true) => "only on request",
        (true, false) => "on",
    };
    ctx.out.line(&ctx.out.paint(Tone::Strong, &row.name));
    ctx.out.pairs(&[
        ("category", row.category.clone()),
        ("state", state.to_owned()),
        ("origin", row.origin.replace('_', ", ")),
        ("for", if row.agents.is_empty() { "all agents".into() } else { row.agents.join(", ") }),
        ("tokens", figure(u64::from(row.tokens))),
        ("file", row.path.clone()),
    ]);
    ctx.out.line("");
    ctx.out.line(&printable(skill.text.trim_end()));
    findings(&ctx.out, &skill.findings);
    Ok(ExitCode::SUCCESS)
}

async fn search(ctx: &Ctx, text: String) -> Result<ExitCode, Fail> {
    let search = SkillSearch { text, agent: None };
    let preview: SkillPreview = ctx.api().await?.call(Method::POST, "/api/v1/skills-search", Some(&search)).await?;
    if ctx.out.json {
        ctx.out.value(&preview);
        return Ok(ExitCode::SUCCESS);
    }
    if preview.hits.is_empty() {
        ctx.out.line("Nothing would be added to these words.");
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = preview
        .hits
        .iter()
        .map(|hit| {
            vec![
                if hit.used { "added" } else { "no room" }.to_owned(),
                hit.name.clone(),
                format!("{:.2}", hit.score),
                hit.tokens.to_string(),
                hit.why.clone(),
            ]
        })
        .collect();
    ctx.out.table(&["WOULD BE", "NAME", "SCORE", "TOKENS", "BECAUSE OF"], &rows);
    ctx.out.line("");
    ctx.out
        .line(&ctx.out.paint(Tone::Faint, &format!("About {} of at most {} tokens:", preview.tokens, preview.budget)));
    for line in printable(&preview.block).lines() {
        ctx.out.line(&format!("{} {}", ctx.out.paint(Tone::Added, "+"), line));
    }
    Ok(ExitCode::SUCCESS)
}

async fn validate(ctx: &Ctx, path: Option<&Path>) -> Result<ExitCode, Fail> {
    let check = SkillCheck { path: path.map(absolute).transpose()?, text: None };
    let found: Vec<SkillFinding> = ctx.api().await?.call(Method::POST, "/api/v1/skills-validate", Some(&check)).await?;
    let errors = found.iter().filter(|finding| finding.severity == "error").count();
    if ctx.out.json {
        ctx.out.value(&found);
    } else {
        findings(&ctx.out, &found);
        ctx.out.line(&match (errors, found.len()) {
            (0, 0) => "In order.".to_owned(),
            (0, remarks) => format!("Usable; {}.", count(remarks, "remark", "remarks")),
            (errors, _) => format!("{}.", count(errors, "error", "errors")),
        });
    }
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::from(Exit::Failed as u8) })
}

async fn log(ctx: &Ctx, n: u32) -> Result<ExitCode, Fail> {
    let entries: Vec<SkillLogEntry> = ctx.api().await?.get(&format!("/api/v1/skills-log?limit={n}")).await?;
    if ctx.out.json {
        ctx.out.value(&entries);
        return Ok(ExitCode::SUCCESS);
    }
    if entries.is_empty() {
        ctx.out.note("No changes yet.");
    }
    let now = Ctx::now();
    for entry in &entries {
        let undo = if entry.undo { "" } else { "  (cannot be undone)" };
        ctx.out.line(&format!("{}  {}{undo}", moment(entry.at_ms, &now), entry.message));
    }
    Ok(ExitCode::SUCCESS)
}

async fn change<B: Serialize>(ctx: &Ctx, method: Method, path: &str, body: Option<&B>) -> Result<ExitCode, Fail> {
    let done: SkillChange = ctx.api().await?.call(method, path, body).await?;
    if ctx.out.json {
        ctx.out.value(&done);
        return Ok(ExitCode::SUCCESS);
    }
    ctx.out.line(&done.message);
    if done.undo {
        ctx.out.note("Take it back with: metaclaw skills undo");
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn findings(out: &Out, findings: &[SkillFinding]) {
    for finding in findings {
        let tone = match finding.severity.as_str() {
            "error" => Tone::Bad,
            "warning" => Tone::Warn,
            _ => Tone::Faint,
        };
        let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
        let fix = if finding.fix.is_empty() { String::new() } else { format!(" ({})", finding.fix) };
        out.line(&format!("{} {}{line}: {}{fix}", out.paint(tone, &finding.severity), finding.file, finding.message));
    }
}

pub(super) fn absolute(path: &Path) -> Result<String, Fail> {
    let path = std::path::absolute(path)
        .map_err(|error| Fail::usage(format!("{} is no usable path: {error}.", path.display())))?;
    Ok(path.display().to_string())
}
