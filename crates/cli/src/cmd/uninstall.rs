//! `metaclaw uninstall`: shows what goes and what stays, asks, stops the service, and removes it. The user's own words go
//! only after a second question.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use engine::uninstall::{Found, Plan, RemoveError, plan, remove};
use inquire::InquireError;

use crate::args::Uninstall;
use crate::ctx::Ctx;
use crate::exit::{Fail, io};
use crate::out;

/// How long a running service may take to end.
const PATIENCE: Duration = Duration::from_secs(12);
/// Most lines of a list: a home may be a folder with many other things in it.
const MOST: usize = 40;

pub(crate) async fn run(ctx: &Ctx, args: &Uninstall) -> Result<ExitCode, Fail> {
    let look = || {
        plan(&ctx.home, args.everything)
            .map_err(|error| io(&format!("{} cannot be read", ctx.home.dir().display()), &error))
    };
    let planned = look()?;
    if !ctx.out.json {
        show(ctx, "This goes:", &planned.goes);
        show(ctx, "This stays, since it is yours:", &planned.stays);
        show(ctx, "This stays, since MetaClaw has not put it there:", &planned.foreign);
    }
    // With a yes, empty folders go even so.
    if planned.goes.is_empty() && !args.yes && ctx.holder().is_none() {
        match ctx.out.json {
            true => report(ctx, &planned, 0),
            false => ctx.out.line(&format!("There is nothing to remove in {}.", ctx.home.dir().display())),
        }
        return Ok(ExitCode::SUCCESS);
    }
    agreed(ctx, args, &planned)?;
    if let Some(holder) = ctx.holder() {
        super::stop::end(ctx, holder.as_ref(), PATIENCE, false).await?;
    }
    // A service that has ended has left other files than one that runs.
    let planned = look()?;
    let freed = remove(&ctx.home, &planned).map_err(|error| match error {
        RemoveError::Used(error) => Fail::failed(format!("Nothing was removed: {error}.")),
        error @ RemoveError::Fetching { .. } => Fail::failed(format!("Nothing was removed: {error}."))
            .hint("Wait for it, or call it off: metaclaw models cancel"),
        error @ RemoveError::Left { .. } => {
            Fail::failed(format!("Not all of it could be removed: {error}.")).hint("Run it again once that is mended.")
        }
    })?;
    if ctx.out.json {
        report(ctx, &planned, freed);
        return Ok(ExitCode::SUCCESS);
    }
    ctx.out.line(&format!("Removed; {} are free.", out::bytes(freed)));
    if !planned.stays.is_empty() {
        ctx.out
            .note("Settings, turns, memories and skills are still here. They go with: metaclaw uninstall --everything");
    }
    if let Ok(program) = std::env::current_exe() {
        ctx.out.note(&format!("The program itself: rm {}", program.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn report(ctx: &Ctx, planned: &Plan, freed: u64) {
    ctx.out.value(&serde_json::json!({
        "removed": planned.goes, "stays": planned.stays, "foreign": planned.foreign, "freed": freed,
        "program": std::env::current_exe().ok(),
    }));
}

fn show(ctx: &Ctx, head: &str, list: &[Found]) {
    if list.is_empty() {
        return;
    }
    ctx.out.line(head);
    for Found { path, bytes, .. } in list.iter().take(MOST) {
        let size = if *bytes > 0 { format!(" ({})", out::bytes(*bytes)) } else { String::new() };
        ctx.out.line(&format!("  {}{size}", path.display()));
    }
    if list.len() > MOST {
        ctx.out.line(&format!("  and {} more", list.len() - MOST));
    }
}

/// Asks, unless the answers were given along.
fn agreed(ctx: &Ctx, args: &Uninstall, planned: &Plan) -> Result<(), Fail> {
    // In JSON nothing has been shown that could be agreed to.
    let asks = !ctx.out.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let nothing = || Fail::failed("Nothing was removed.");
    let unasked = |error: InquireError| match error {
        InquireError::OperationCanceled | InquireError::OperationInterrupted => nothing(),
        error => Fail::failed(format!("The question could not be asked: {error}.")),
    };
    if !args.yes {
        if !asks {
            return Err(Fail::usage("Nothing is removed without a yes.").hint("Say yes: metaclaw uninstall --yes"));
        }
        let question = format!("Remove {}?", super::count(planned.goes.len(), "file or folder", "files and folders"));
        if !inquire::Confirm::new(&question).with_default(false).prompt().map_err(unasked)? {
            return Err(nothing());
        }
    }
    if args.everything && !args.yes_everything {
        if !asks {
            return Err(Fail::usage("Settings, turns, memories and skills are not removed without a second yes.")
                .hint("Say it: metaclaw uninstall --everything --yes --yes-everything"));
        }
        let word =
            inquire::Text::new("Settings, turns, memories and skills cannot be brought back. Type \"everything\":");
        if word.prompt().map_err(unasked)?.trim() != "everything" {
            return Err(nothing());
        }
    }
    Ok(())
}
