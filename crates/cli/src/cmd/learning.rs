//! `metaclaw skills` for what is learned: proposals, decisions, texts, effects.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use engine::api::{
    EvolveAsk, Evolved, LearnedLog, Learning, Proposal, ProposalApproval, ProposalDetail, ProposalText, SkillEffect,
    SkillImport, SkillImported, SkillMoved, SkillReplay, SkillRevert, SkillReverted, Version, VersionDiff,
};
use engine::client::segment;
use http::Method;

use super::skills::{absolute, findings};
use super::{count, figure, query};
use crate::ctx::Ctx;
use crate::exit::Fail;
use crate::out::{Out, Tone, moment, printable};

pub(crate) async fn state(ctx: &Ctx) -> Result<ExitCode, Fail> {
    let learning: Learning = ctx.api().await?.get("/api/v1/skills-learning").await?;
    if ctx.out.json {
        ctx.out.value(&learning);
        return Ok(ExitCode::SUCCESS);
    }
    let state = &learning.state;
    ctx.out.line(&match (&state.reason, &state.model) {
        (Some(why), _) => format!("Learning is off: {why}"),
        (None, Some(model)) if state.on => format!("Skills are learned from conversations; {model} is asked."),
        _ if state.wanted => "Skills are learned from conversations while MetaClaw runs.".to_owned(),
        _ => {
            "Learning is off. It needs skills.enabled and skills.auto_evolve to be true, and rl.max_new_skills above 0."
                .to_owned()
        }
    });
    if learning.waiting > 0 {
        let waiting = count(learning.waiting as usize, "proposal waits", "proposals wait");
        ctx.out.line(&format!("{waiting} for you: metaclaw skills proposals"));
    }
    let now = Ctx::now();
    let rows: Vec<Vec<String>> = learning
        .skills
        .iter()
        .map(|skill| {
            vec![
                skill.name.clone(),
                skill.state.clone(),
                moment(skill.since_ms, &now),
                if skill.agent.is_empty() { "all".to_owned() } else { skill.agent.clone() },
                skill.source.clone(),
                printable(&skill.reason),
            ]
        })
        .collect();
    if !rows.is_empty() {
        ctx.out.line("");
        ctx.out.table(&["NAME", "STATE", "SINCE", "FOR", "FROM", "BECAUSE"], &rows);
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn evolve(ctx: &Ctx, session: Option<String>) -> Result<ExitCode, Fail> {
    let ask = EvolveAsk { session };
    ctx.out.progress(Some("Asking the model that writes skills; it may think for a while…"));
    let done = ctx.api().await?.call(Method::POST, "/api/v1/skills-evolve", Some(&ask)).await;
    ctx.out.progress(None);
    let done: Evolved = done?;
    if ctx.out.json {
        ctx.out.value(&done);
        return Ok(ExitCode::SUCCESS);
    }
    let note = printable(&done.note);
    ctx.out.line(&match done.outcome.as_str() {
        "nothing" if note.is_empty() => format!("Nothing to learn from {}.", done.session),
        "nothing" => format!("Nothing to learn from {}: {note}", done.session),
        "proposed" => format!("Learned from {}: {note}.", done.session),
        other => format!("What the model proposed cannot be used ({other}): {note}"),
    });
    moved(&ctx.out, &done.moved);
    for id in &done.waiting {
        ctx.out.note(&format!("Waits for you: metaclaw skills proposal {id}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn moved(out: &Out, moved: &[SkillMoved]) {
    for one in moved {
        out.line(&format!("{} → {}: {}", out.paint(Tone::Strong, &one.name), one.state, printable(&one.reason)));
    }
}

pub(crate) async fn proposals(ctx: &Ctx, all: bool) -> Result<ExitCode, Fail> {
    let state = (!all).then(|| "waiting".to_owned());
    let path = format!("/api/v1/skills-proposals{}", query(&[("state", state), ("limit", Some("200".into()))]));
    let found: Vec<Proposal> = ctx.api().await?.get(&path).await?;
    if ctx.out.json {
        ctx.out.value(&found);
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        ctx.out.note(if all { "Nothing was proposed yet." } else { "Nothing waits for you." });
        return Ok(ExitCode::SUCCESS);
    }
    let now = Ctx::now();
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|proposal| {
            vec![
                proposal.id.to_string(),
                moment(proposal.at_ms, &now),
                proposal.kind.clone(),
                proposal.name.clone(),
                standing(proposal),
                printable(&proposal.reason),
            ]
        })
        .collect();
    ctx.out.table(&["ID", "WHEN", "WHAT", "SKILL", "STATE", "BECAUSE"], &rows);
    Ok(ExitCode::SUCCESS)
}

fn standing(proposal: &Proposal) -> String {
    match (&proposal.hold, proposal.state.as_str()) {
        (Some(hold), "waiting") => format!("waiting ({hold})"),
        (_, state) => state.to_owned(),
    }
}

pub(crate) async fn proposal(ctx: &Ctx, id: i64) -> Result<ExitCode, Fail> {
    let found: ProposalDetail = ctx.api().await?.get(&format!("/api/v1/skills-proposals/{id}")).await?;
    if ctx.out.json {
        ctx.out.value(&found);
        return Ok(ExitCode::SUCCESS);
    }
    let of = &found.proposal;
    ctx.out.line(&ctx.out.paint(Tone::Strong, &format!("{} {}", of.kind, of.name)));
    let turns: Vec<String> = found.turns.iter().map(i64::to_string).collect();
    ctx.out.pairs(&[
        ("state", standing(of)),
        ("for", if of.agent.is_empty() { "all agents".into() } else { of.agent.clone() }),
        ("because", printable(&of.reason)),
        ("words of", found.source.clone()),
        ("session", found.session.clone().unwrap_or_default()),
        ("turns", turns.join(", ")),
        ("model", found.model.clone().unwrap_or_default()),
    ]);
    findings(&ctx.out, &found.findings);
    ctx.out.line("");
    changes(&ctx.out, &found.diff);
    if let Some(reply) = found.reply.as_deref().filter(|reply| !reply.is_empty()) {
        ctx.out.line("");
        ctx.out.line(&ctx.out.paint(Tone::Faint, "The model said:"));
        ctx.out.line(&ctx.out.paint(Tone::Faint, &printable(reply)));
    }
    if of.state == "waiting" {
        ctx.out.note(&format!("Decide: metaclaw skills approve {id}, or: metaclaw skills reject {id}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// A unified diff in colours.
fn changes(out: &Out, diff: &str) {
    for line in printable(diff).lines() {
        let tone = match line.as_bytes().first() {
            Some(b'+') => Tone::Added,
            Some(b'-') => Tone::Bad,
            Some(b'@') => Tone::Faint,
            _ => {
                out.line(line);
                continue;
            }
        };
        out.line(&out.paint(tone, line));
    }
}

pub(crate) async fn approve(ctx: &Ctx, id: i64, agents: Vec<String>, shared: bool) -> Result<ExitCode, Fail> {
    let approval = ProposalApproval { agents: (shared || !agents.is_empty()).then_some(agents) };
    let path = format!("/api/v1/skills-proposals/{id}/approve");
    let done: SkillMoved = ctx.api().await?.call(Method::POST, &path, Some(&approval)).await?;
    if ctx.out.json {
        ctx.out.value(&done);
        return Ok(ExitCode::SUCCESS);
    }
    moved(&ctx.out, std::slice::from_ref(&done));
    ctx.out.note(&format!("Take it back with: metaclaw skills revert {}", done.name));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn reject(ctx: &Ctx, id: i64) -> Result<ExitCode, Fail> {
    let path = format!("/api/v1/skills-proposals/{id}/reject");
    let done: Proposal = ctx.api().await?.call::<(), _>(Method::POST, &path, None).await?;
    told(ctx, &done, &format!("Rejected: {} {}.", done.kind, done.name))
}

pub(crate) async fn edit(ctx: &Ctx, id: i64, file: &Path) -> Result<ExitCode, Fail> {
    let unread = |error: std::io::Error| Fail::usage(format!("{} cannot be read: {error}.", file.display()));
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(unread)?;
        text
    } else {
        std::fs::read_to_string(file).map_err(unread)?
    };
    let path = format!("/api/v1/skills-proposals/{id}");
    let done: Proposal = ctx.api().await?.call(Method::PUT, &path, Some(&ProposalText { text })).await?;
    told(ctx, &done, &format!("Changed. Say yes to it with: metaclaw skills approve {id}"))
}

fn told<T: serde::Serialize>(ctx: &Ctx, value: &T, words: &str) -> Result<ExitCode, Fail> {
    if ctx.out.json {
        ctx.out.value(value);
    } else {
        ctx.out.line(words);
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn history(ctx: &Ctx, name: &str) -> Result<ExitCode, Fail> {
    let found: Vec<Version> = ctx.api().await?.get(&format!("/api/v1/skills/{}/history", segment(name))).await?;
    if ctx.out.json {
        ctx.out.value(&found);
        return Ok(ExitCode::SUCCESS);
    }
    let now = Ctx::now();
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|version| {
            vec![
                version.id.to_string(),
                if version.current { "in use" } else { "" }.to_owned(),
                moment(version.at_ms, &now),
                version.origin.clone(),
                version.parent.map(|parent| parent.to_string()).unwrap_or_default(),
                version.session.clone().unwrap_or_default(),
                version.model.clone().unwrap_or_default(),
            ]
        })
        .collect();
    ctx.out.table(&["TEXT", "", "SINCE", "BY", "MADE FROM", "SESSION", "MODEL"], &rows);
    ctx.out.note(&format!("What changed: metaclaw skills diff {name} --from ID --to ID"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn diff(ctx: &Ctx, name: &str, from: Option<i64>, to: Option<i64>) -> Result<ExitCode, Fail> {
    let number = |n: Option<i64>| n.map(|n| n.to_string());
    let path = format!("/api/v1/skills/{}/diff{}", segment(name), query(&[("from", number(from)), ("to", number(to))]));
    let found: VersionDiff = ctx.api().await?.get(&path).await?;
    if ctx.out.json {
        ctx.out.value(&found);
    } else if found.diff.is_empty() {
        ctx.out.line("Nothing changed.");
    } else {
        changes(&ctx.out, &found.diff);
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn revert(ctx: &Ctx, name: &str, revert: SkillRevert) -> Result<ExitCode, Fail> {
    let path = format!("/api/v1/skills/{}/revert", segment(name));
    let done: SkillReverted = ctx.api().await?.call(Method::POST, &path, Some(&revert)).await?;
    if ctx.out.json {
        ctx.out.value(&done);
        return Ok(ExitCode::SUCCESS);
    }
    moved(&ctx.out, &done.moved);
    if !revert.descendants && !done.descendants.is_empty() {
        let names = done.descendants.join(", ");
        ctx.out.note(&format!(
            "Learned from it and still in use: {names}. Take one back with: metaclaw skills revert NAME"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn effect(ctx: &Ctx, name: Option<&str>, agent: Option<String>) -> Result<ExitCode, Fail> {
    let asked = query(&[("agent", agent)]);
    let found: Vec<SkillEffect> = match name {
        Some(name) => {
            vec![ctx.api().await?.get(&format!("/api/v1/skills/{}/effect{asked}", segment(name))).await?]
        }
        None => ctx.api().await?.get(&format!("/api/v1/skills-effects{asked}")).await?,
    };
    if ctx.out.json {
        match name {
            Some(_) => ctx.out.value(&found[0]),
            None => ctx.out.value(&found),
        }
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        ctx.out.note("No skill has fitted a turn yet.");
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|effect| {
            vec![
                effect.name.clone(),
                share(effect.wins, effect.uses),
                share(effect.control_wins, effect.control),
                match (effect.effect, effect.low, effect.high) {
                    (Some(mean), Some(low), Some(high)) => {
                        format!("{:+.0} ({:+.0} to {:+.0})", mean * 100.0, low * 100.0, high * 100.0)
                    }
                    _ => "no comparison".to_owned(),
                },
                effect.verdict.replace('_', " "),
                figure(effect.tokens),
            ]
        })
        .collect();
    ctx.out.table(&["NAME", "GOOD WITH IT", "GOOD WITHOUT", "POINTS OF 100 (95 %)", "VERDICT", "TOKENS"], &rows);
    if let Some(last) = found.iter().find_map(|effect| effect.replays.first()) {
        ctx.out.line(&replayed(last));
    }
    Ok(ExitCode::SUCCESS)
}

/// What the judge said last.
fn replayed(of: &SkillReplay) -> String {
    let (at, model) = (moment(of.at_ms, &Ctx::now()), printable(&of.model));
    match of.better + of.worse + of.same {
        0 => format!("{at}: no past turn could be answered again for the judge."),
        all => format!(
            "{at}: {model} liked its answers better in {} of {}, worse in {} ({} tokens).",
            of.better,
            count(all as usize, "past turn", "past turns"),
            of.worse,
            figure(of.tokens)
        ),
    }
}

fn share(good: u32, turns: u32) -> String {
    format!("{good} of {turns}")
}

pub(crate) async fn import(ctx: &Ctx, path: &Path) -> Result<ExitCode, Fail> {
    let import = SkillImport { path: absolute(path)? };
    let done: SkillImported = ctx.api().await?.call(Method::POST, "/api/v1/skills-import", Some(&import)).await?;
    if ctx.out.json {
        ctx.out.value(&done);
        return Ok(ExitCode::SUCCESS);
    }
    findings(&ctx.out, &done.findings);
    for (id, name) in done.proposals.iter().zip(&done.names) {
        ctx.out.line(&format!("{name} waits for you: metaclaw skills proposal {id}"));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn log(ctx: &Ctx, n: u32, full: bool, file: Option<&Path>) -> Result<ExitCode, Fail> {
    let file = file.map(absolute).transpose()?;
    let path = format!("/api/v1/skills-learned-log{}", query(&[("limit", Some(n.to_string())), ("file", file)]));
    let log: LearnedLog = ctx.api().await?.get(&path).await?;
    if ctx.out.json {
        ctx.out.value(&log);
        return Ok(ExitCode::SUCCESS);
    }
    if !log.exists {
        ctx.out.note(&format!("Nothing was learned yet: there is no {}.", log.path));
        return Ok(ExitCode::SUCCESS);
    }
    let first = log.total - log.records.len() + 1;
    for (number, record) in (first..).zip(&log.records) {
        ctx.out.line(&format!(
            "[#{number}] {}  {} looked at, {} made{}{}",
            printable(&record.timestamp),
            count(record.num_failures_analyzed as usize, "turn", "turns"),
            count(record.num_skills_generated as usize, "skill", "skills"),
            if record.skill_names.is_empty() { "" } else { ": " },
            printable(&record.skill_names.join(", ")),
        ));
        if !full {
            continue;
        }
        for skill in &record.skills {
            ctx.out.line(&format!("  {} ({})", printable(&skill.name), printable(&skill.category)));
            ctx.out.line(&format!("  {}", printable(&skill.description)));
            for line in printable(&skill.content).lines() {
                ctx.out.line(&format!("    {line}"));
            }
        }
        for prompt in &record.failure_prompts {
            ctx.out.line(&ctx.out.paint(Tone::Faint, &format!("  … {}", printable(prompt))));
        }
    }
    ctx.out.note(&format!("{} in {}", count(log.total, "record", "records"), log.path));
    Ok(ExitCode::SUCCESS)
}
