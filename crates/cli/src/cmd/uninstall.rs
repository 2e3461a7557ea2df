//! `metaclaw uninstall`: shows what goes and what stays, asks, stops the service, and removes it. The user's own words go
//! only after a second question.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use engine::uninstall::{Found, Plan, plan, remove};

use crate::args::Uninstall;
use crate::ctx::Ctx;
use crate::exit::{Fail, io};
use crate::out;

/// How long a running service may take to end.
const PATIENCE: Duration = Duration::from_secs(12);

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
    agreed(args, &planned)?;
    if let Some(holder) = ctx.holder() {
        super::stop::end(ctx, holder.as_ref(), PATIENCE, false).await?;
    }
    // A service that has ended has left other files than one that runs.
    let planned = look()?;
    let freed = remove(&ctx.home, &planned).map_err(|error| {
        Fail::failed(format!("Not all of it could be removed: {}.", error.to_string().trim_end_matches('.')))
            .hint("Run it again once that is mended.")
    })?;
    let program = std::env::current_exe().ok();
    if ctx.out.json {
        ctx.out.value(&serde_json::json!({
            "removed": planned.goes, "stays": planned.stays, "foreign": planned.foreign, "freed": freed,
            "program": program,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    ctx.out.line(&format!("Removed; {} are free.", out::bytes(freed)));
    if !planned.stays.is_empty() {
        ctx.out
            .note("Settings, turns, memories and skills are still here. They go with: metaclaw uninstall --everything");
    }
    if let Some(program) = program {
        ctx.out.note(&format!("The program itself: rm {}", program.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn show(ctx: &Ctx, head: &str, list: &[Found]) {
    if list.is_empty() {
        return;
    }
    ctx.out.line(head);
    for Found { path, bytes } in list {
        ctx.out.line(&format!("  {} ({})", path.display(), out::bytes(*bytes)));
    }
}

/// Asks, unless the answers were given along.
fn agreed(args: &Uninstall, planned: &Plan) -> Result<(), Fail> {
    let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let nothing = || Fail::failed("Nothing was removed.");
    let unasked = |error: inquire::InquireError| Fail::failed(format!("The question could not be asked: {error}."));
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
