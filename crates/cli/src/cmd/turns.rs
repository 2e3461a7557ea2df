//! `metaclaw turns` and `metaclaw turns show`: what was said, what was added and why, what came back.

use std::process::ExitCode;

use engine::api::{Change, ChangeKind, Taken, Turn, TurnDiff, TurnRow};
use engine::client::segment;
use http::Method;
use http_body_util::BodyExt;

use super::{count, figure, query};
use crate::args::{RequestForm, Turns, TurnsVerb};
use crate::ctx::Ctx;
use crate::exit::Fail;
use crate::out::{Out, Tone, bytes, duration, moment, printable};

/// How many turns are asked for at a time.
const PAGE: usize = 1000;

pub(crate) async fn run(ctx: &Ctx, args: Turns) -> Result<ExitCode, Fail> {
    match args.verb {
        None => list(ctx, &args).await,
        Some(TurnsVerb::Show { id, request: None }) => show(ctx, &id).await,
        Some(TurnsVerb::Show { id, request: Some(form) }) => request(ctx, &id, form).await,
    }
}

async fn list(ctx: &Ctx, args: &Turns) -> Result<ExitCode, Fail> {
    let api = ctx.api().await?;
    let mut turns: Vec<TurnRow> = Vec::new();
    while let missing @ 1.. = usize::try_from(args.limit).unwrap_or(usize::MAX).saturating_sub(turns.len()) {
        let filter = query(&[
            ("session", args.session.clone()),
            ("before", turns.last().map(|turn| turn.id.to_string())),
            ("limit", Some(missing.min(PAGE).to_string())),
        ]);
        let page: Vec<TurnRow> = api.get(&format!("/api/v1/turns{filter}")).await?;
        let last = page.len() < missing.min(PAGE);
        turns.extend(page);
        if last {
            break;
        }
    }
    if ctx.out.json {
        ctx.out.value(&turns);
        return Ok(ExitCode::SUCCESS);
    }
    if turns.is_empty() {
        ctx.out.note(match &args.session {
            Some(_) => "No turns of that session. List the sessions with: metaclaw sessions",
            None => "No turns yet. The first one appears when an agent has had an answer through MetaClaw.",
        });
        return Ok(ExitCode::SUCCESS);
    }
    let now = Ctx::now();
    let rows: Vec<Vec<String>> = turns
        .iter()
        .map(|turn| {
            vec![
                turn.id.to_string(),
                moment(turn.started_ms, &now),
                short(&turn.session),
                if turn.kind == "main" { format!("{}.{}", turn.turn, turn.step) } else { turn.kind.clone() },
                turn.outcome.clone(),
                duration(turn.finished_ms - turn.started_ms),
                if turn.additions.is_empty() { String::new() } else { format!("+{}", turn.additions.len()) },
                turn.error.clone().or_else(|| turn.user_text.clone()).unwrap_or_default(),
            ]
        })
        .collect();
    ctx.out.table(&["ID", "STARTED", "SESSION", "TURN", "ENDED", "TOOK", "ADDED", "WORDS"], &rows);
    Ok(ExitCode::SUCCESS)
}

fn short(session: &str) -> String {
    crate::out::cut(session, 18)
}

async fn show(ctx: &Ctx, id: &str) -> Result<ExitCode, Fail> {
    let api = ctx.api().await?;
    let turn: Turn = api.get(&format!("/api/v1/turns/{}", segment(id))).await?;
    // A request that was no JSON has no diff; the turn is shown all the same.
    let diff: Result<TurnDiff, _> = api.get(&format!("/api/v1/turns/{}/diff", turn.row.id)).await;
    if ctx.out.json {
        ctx.out.value(&serde_json::json!({ "turn": turn, "diff": diff.ok() }));
        return Ok(ExitCode::SUCCESS);
    }
    head(&ctx.out, &turn);
    words(&ctx.out, "Said", turn.row.user_text.as_deref());
    additions(&ctx.out, &turn.row);
    match &diff {
        Ok(diff) => changes(&ctx.out, diff),
        Err(problem) => ctx.out.note(&format!("The change cannot be shown: {problem}")),
    }
    if let Some(error) = &turn.row.error {
        words(&ctx.out, "Went wrong", Some(error));
    }
    words(&ctx.out, "Answered", turn.answer_text.as_deref().filter(|text| !text.is_empty()));
    tool_calls(&ctx.out, &turn);
    Ok(ExitCode::SUCCESS)
}

fn head(out: &Out, turn: &Turn) {
    let (now, row) = (Ctx::now(), &turn.row);
    let kind = match row.kind.as_str() {
        "main" => format!("user turn {}, step {}", row.turn, row.step),
        side => format!("side call: {side}"),
    };
    out.line(&out.paint(Tone::Strong, &format!("Turn {}", row.id)));
    let mut rows = vec![
        ("session", format!("{} ({kind})", row.session)),
        ("when", format!("{}, took {}", moment(row.started_ms, &now), took(row))),
        (
            "ended",
            format!("{}{}", row.outcome, row.status.map(|status| format!(", status {status}")).unwrap_or_default()),
        ),
        ("model", models(row)),
        ("tokens", tokens(row)),
    ];
    if let Some(agent) = &row.agent {
        rows.insert(0, ("agent", agent.clone()));
    }
    if let Some(taken) = &turn.taken {
        rows.push(("taken", how_taken(taken)));
    }
    out.pairs(&rows);
}

/// How the user took an answer, for people.
fn how_taken(taken: &Taken) -> String {
    let several = |n: u32, one: &str, more: &str| (n > 0).then(|| count(n as usize, one, more));
    let signs = [
        (taken.reaction == "thanks").then(|| "the user was thankful".to_owned()),
        (taken.reaction == "correction").then(|| "the user put it right".to_owned()),
        taken.judge.map(|score| format!("the judge gave it {score:.2} of 1")),
        several(taken.regenerations, "answer asked for again", "answers asked for again"),
        several(taken.tool_errors, "tool failed", "tools failed"),
        several(taken.retries, "request repeated", "requests repeated"),
    ];
    let signs: Vec<String> = signs.into_iter().flatten().collect();
    let how = if taken.good { "well" } else { "badly" };
    if signs.is_empty() { how.to_owned() } else { format!("{how} ({})", signs.join(", ")) }
}

fn took(row: &TurnRow) -> String {
    let whole = duration(row.finished_ms - row.started_ms);
    match row.first_byte_ms {
        Some(first) => format!("{whole}, first words after {}", duration(first - row.started_ms)),
        None => whole,
    }
}

fn models(row: &TurnRow) -> String {
    let asked = row.model_asked.as_deref().unwrap_or("no model");
    let sent = row.model_sent.as_deref().unwrap_or(asked);
    let provider = row.provider.as_deref().unwrap_or("the provider");
    let dialects = if row.dialect == row.upstream_dialect {
        row.dialect.clone()
    } else {
        format!("{} translated to {}", row.dialect, row.upstream_dialect)
    };
    if asked == sent {
        format!("{sent} at {provider} ({dialects})")
    } else {
        format!("{sent} at {provider}, asked for as {asked} ({dialects})")
    }
}

fn tokens(row: &TurnRow) -> String {
    let tokens = &row.tokens;
    let part = |number: Option<u64>, word: &str| number.map(|n| format!("{} {word}", figure(n)));
    let parts: Vec<String> = [
        part(tokens.input, "in"),
        part(tokens.cache_read, "of them from the cache"),
        part(tokens.output, "out"),
        part(tokens.reasoning.filter(|n| *n > 0), "of them reasoning"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() { "not told by the provider".into() } else { parts.join(", ") }
}

fn words(out: &Out, title: &str, text: Option<&str>) {
    let Some(text) = text else { return };
    out.line("");
    out.line(&out.paint(Tone::Strong, title));
    for line in printable(text).lines() {
        out.line(&format!("  {line}"));
    }
}

fn additions(out: &Out, row: &TurnRow) {
    out.line("");
    if !row.held_out.is_empty() {
        let names: Vec<&str> = row.held_out.iter().map(|held| held.id.as_str()).collect();
        let told = format!("Left out this time, to see what it does: {}", names.join(", "));
        out.line(&out.paint(Tone::Faint, &told));
    }
    if row.additions.is_empty() {
        out.line(&out.paint(Tone::Faint, "Nothing new was added in this turn."));
        return;
    }
    let total: u64 = row.additions.iter().map(|a| u64::from(a.tokens)).sum();
    out.line(&out.paint(
        Tone::Strong,
        &format!(
            "Added by MetaClaw: {}, about {} tokens",
            count(row.additions.len(), "piece", "pieces"),
            figure(total)
        ),
    ));
    let rows: Vec<Vec<String>> = row
        .additions
        .iter()
        .map(|a| {
            vec![format!("  {}", a.kind), a.id.clone(), format!("{:.2}", a.score), a.tokens.to_string(), a.why.clone()]
        })
        .collect();
    out.table(&["  KIND", "NAME", "SCORE", "TOKENS", "WHY"], &rows);
}

fn changes(out: &Out, diff: &TurnDiff) {
    out.line("");
    let sizes = format!("{} from the agent, {} to the provider", bytes(diff.sent_bytes), bytes(diff.forwarded_bytes));
    if diff.changes.is_empty() {
        let how = if diff.translated { "Only translated" } else { "Forwarded byte for byte" };
        out.line(&out.paint(Tone::Faint, &format!("{how}: {sizes}.")));
        return;
    }
    out.line(&out.paint(Tone::Strong, &format!("Changes to the request: {sizes}")));
    for change in &diff.changes {
        for line in change_lines(change) {
            let tone = match line.chars().next() {
                Some('+') => Some(Tone::Added),
                Some('-') => Some(Tone::Faint),
                _ => None,
            };
            out.line(&format!("  {}", tone.map_or_else(|| line.clone(), |tone| out.paint(tone, &line))));
        }
    }
}

/// One change as lines with a sign, so that it reads without colour.
fn change_lines(change: &Change) -> Vec<String> {
    let role = change.role.as_deref().map(|role| format!(" ({role})")).unwrap_or_default();
    let mut lines = vec![format!("@ {}{role}", change.at)];
    let signed = |sign: char, text: &str, lines: &mut Vec<String>| {
        lines.extend(printable(text).trim_matches('\n').lines().map(|line| format!("{sign} {line}")));
    };
    match change.kind {
        ChangeKind::Added => {
            let text = change.added.as_deref().or(change.after.as_deref()).unwrap_or_default();
            signed('+', text, &mut lines);
        }
        ChangeKind::Removed => signed('-', change.before.as_deref().unwrap_or_default(), &mut lines),
        ChangeKind::Changed => {
            signed('-', change.before.as_deref().unwrap_or_default(), &mut lines);
            signed('+', change.after.as_deref().unwrap_or_default(), &mut lines);
        }
    }
    lines
}

fn tool_calls(out: &Out, turn: &Turn) {
    let blocks = turn.answer.as_ref().and_then(|answer| answer.get("blocks")).and_then(|blocks| blocks.as_array());
    let calls: Vec<String> = blocks
        .into_iter()
        .flatten()
        .filter_map(|block| {
            let call = block.get("tool_call").or_else(|| block.get("ToolCall")).unwrap_or(block);
            let name = call.get("name")?.as_str()?;
            let arguments = call.get("arguments").and_then(|text| text.as_str()).unwrap_or_default();
            Some(format!("  {name}({})", crate::out::cut(arguments, out.width().saturating_sub(name.len() + 4))))
        })
        .collect();
    if !calls.is_empty() {
        out.line("");
        out.line(&out.paint(Tone::Strong, &format!("Called {}", count(calls.len(), "tool", "tools"))));
        for call in calls {
            out.line(&printable(&call));
        }
    }
}

async fn request(ctx: &Ctx, id: &str, form: RequestForm) -> Result<ExitCode, Fail> {
    let form = match form {
        RequestForm::Sent => "sent",
        RequestForm::Forwarded => "forwarded",
    };
    let path = format!("/api/v1/turns/{}/request?form={form}", segment(id));
    let response = ctx.api().await?.send(Method::GET, &path, None).await?;
    let body = response
        .into_body()
        .collect()
        .await
        .map_err(|error| Fail::failed(format!("The request could not be read: {error}.")))?;
    ctx.out.raw(&body.to_bytes());
    ctx.out.note("");
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reads_without_colour() {
        let change = Change {
            at: "messages[2].content".into(),
            kind: ChangeKind::Added,
            role: Some("user".into()),
            added: Some("\n\n<metaclaw-context>\nNotes\n</metaclaw-context>".into()),
            before: Some("hi".into()),
            after: None,
        };
        insta::assert_snapshot!(change_lines(&change).join("\n"), @r"
        @ messages[2].content (user)
        + <metaclaw-context>
        + Notes
        + </metaclaw-context>
        ");
        let change = Change {
            at: "model".into(),
            kind: ChangeKind::Changed,
            role: None,
            added: None,
            before: Some("gpt-4o".into()),
            after: Some("kimi-k2".into()),
        };
        insta::assert_snapshot!(change_lines(&change).join("\n"), @r"
        @ model
        - gpt-4o
        + kimi-k2
        ");
    }
}
