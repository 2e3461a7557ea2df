//! `metaclaw doctor`: every check on one line, with what to do where something is wrong.

use std::process::ExitCode;

use engine::api::{Check, Grade};

use crate::args::Doctor;
use crate::ctx::Ctx;
use crate::exit::Fail;
use crate::out::Tone;

pub(crate) async fn run(ctx: &Ctx, args: &Doctor) -> Result<ExitCode, Fail> {
    let api = ctx.api().await?;
    if !args.offline {
        ctx.out.note("Looking, with one short test call to the provider…");
    }
    let checks: Vec<Check> = api.get(&format!("/api/v1/doctor?live={}", !args.offline)).await?;
    let bad = checks.iter().filter(|check| check.grade == Grade::Bad).count();
    if ctx.out.json {
        ctx.out.value(&checks);
    } else {
        for check in &checks {
            let (word, tone) = match check.grade {
                Grade::Good => ("ok  ", Tone::Good),
                Grade::Warn => ("note", Tone::Warn),
                Grade::Bad => ("BAD ", Tone::Bad),
                Grade::Skipped => ("skip", Tone::Faint),
            };
            ctx.out.line(&format!("{}  {:<9} {}", ctx.out.paint(tone, word), check.id, check.message));
            for line in check.hint.iter().flat_map(|hint| hint.lines()) {
                ctx.out.line(&format!("                {}", ctx.out.paint(Tone::Faint, line)));
            }
        }
    }
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
