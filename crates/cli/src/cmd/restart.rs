//! `metaclaw restart`: the running process starts its service anew with the options it had. After an update of the
//! program the old process ends and a new one takes over in the background.

use std::process::ExitCode;
use std::time::Duration;

use engine::api::{ServiceState, Status};
use http::Method;
use tokio::time::Instant;

use crate::args::{Restart, Start, Stop, Target};
use crate::ctx::Ctx;
use crate::exit::Fail;

/// How often the service is asked whether it is back.
const PAUSE: Duration = Duration::from_millis(25);

pub(crate) async fn run(ctx: &Ctx, args: &Restart) -> Result<ExitCode, Fail> {
    let service = ctx.running().await?;
    let before: Status = service.get("/api/v1/status").await?;
    if before.version != env!("CARGO_PKG_VERSION") {
        ctx.out.note(&format!("Version {} ends, version {} starts.", before.version, env!("CARGO_PKG_VERSION")));
        let stop = Stop { timeout: args.timeout, force: false, target: Target::default() };
        Box::pin(super::stop::run(ctx, &stop)).await?;
        let start = Start { port: Some(before.port), daemon: true, config: ctx.config.clone(), ..Start::default() };
        return Box::pin(super::start::run(ctx, start)).await;
    }
    let _: serde_json::Value = service.call::<(), _>(Method::POST, "/api/v1/restart", None).await?;
    let begun = Instant::now();
    loop {
        tokio::time::sleep(PAUSE).await;
        if let Ok(api) = ctx.running().await
            && let Ok(now) = api.get::<Status>("/api/v1/status").await
            && now.since_ms != before.since_ms
            && matches!(now.state, ServiceState::Running | ServiceState::FirstRun)
        {
            if ctx.out.json {
                ctx.out.value(&now);
            } else {
                ctx.out.line(&format!("Restarted. {}", now.base_url.unwrap_or_default()));
            }
            return Ok(ExitCode::SUCCESS);
        }
        if begun.elapsed() > Duration::from_secs(args.timeout) {
            return Err(Fail::failed(format!("The service is not back after {} s.", args.timeout))
                .hint("What happened: metaclaw logs"));
        }
    }
}
