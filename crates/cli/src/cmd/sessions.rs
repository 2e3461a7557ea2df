//! `metaclaw sessions`

use std::process::ExitCode;

use engine::api::Session;

use super::query;
use crate::args::Sessions;
use crate::ctx::Ctx;
use crate::exit::Fail;
use crate::out::{Tone, moment};

pub(crate) async fn run(ctx: &Ctx, args: &Sessions) -> Result<ExitCode, Fail> {
    let filter = query(&[("agent", args.agent.clone()), ("limit", Some(args.limit.to_string()))]);
    let sessions: Vec<Session> = ctx.api().await?.get(&format!("/api/v1/sessions{filter}")).await?;
    if ctx.out.json {
        ctx.out.value(&sessions);
        return Ok(ExitCode::SUCCESS);
    }
    if sessions.is_empty() {
        ctx.out.note("No sessions yet. The first one appears when an agent has had an answer through MetaClaw.");
        return Ok(ExitCode::SUCCESS);
    }
    let now = Ctx::now();
    let rows: Vec<Vec<String>> = sessions
        .iter()
        .map(|session| {
            vec![
                session.id.clone(),
                session.agent.clone().unwrap_or_default(),
                moment(session.last_ms, &now),
                session.turns.to_string(),
                session.end_reason.clone().unwrap_or_else(|| "open".into()),
                session.title.clone().unwrap_or_default(),
            ]
        })
        .collect();
    ctx.out.table(&["SESSION", "AGENT", "LAST", "TURNS", "STATE", "FIRST WORDS"], &rows);
    if rows.len() == usize::try_from(args.limit).unwrap_or(usize::MAX) {
        ctx.out.note(&ctx.out.paint(Tone::Faint, "There may be more: --limit N"));
    }
    Ok(ExitCode::SUCCESS)
}
