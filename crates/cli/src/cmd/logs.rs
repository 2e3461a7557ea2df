//! `metaclaw logs`: the last lines, and with `-f` what follows until Ctrl-C.

use std::process::ExitCode;
use std::time::Duration;

use engine::api::LogLines;

use crate::args::Logs;
use crate::ctx::Ctx;
use crate::exit::Fail;

/// How often a followed log is read again.
const PAUSE: Duration = Duration::from_millis(250);

pub(crate) async fn run(ctx: &Ctx, args: &Logs) -> Result<ExitCode, Fail> {
    let mut page: LogLines = ctx.api().await?.get(&format!("/api/v1/logs?lines={}", args.lines)).await?;
    if page.lines.is_empty() && !args.follow {
        ctx.out.note(&format!("The log {} is empty.", page.path));
    }
    if ctx.out.json && !args.follow {
        ctx.out.value(&page);
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        for line in &page.lines {
            ctx.out.line(line);
        }
        if !args.follow {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
            () = tokio::time::sleep(PAUSE) => {}
        }
        // Asked anew each time: the service may stop and start while we follow.
        page = ctx.api().await?.get(&format!("/api/v1/logs?after={}", page.next)).await?;
    }
}
