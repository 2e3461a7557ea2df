//! `metaclaw restart`: the running process starts its service anew with the options it had. After an update of the
//! program the old process ends and a new one takes over in the background, with the same options.

use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use engine::api::{ServiceState, Status};
use engine::lock::Holder;
use http::Method;
use rustix::process::{Pid, test_kill_process};
use tokio::time::Instant;

use crate::args::{Mode, Restart, Start, Stop, Target};
use crate::ctx::Ctx;
use crate::exit::Fail;

/// How often the service is asked whether it is back.
const PAUSE: Duration = Duration::from_millis(25);
/// How long nobody may hold the home between the end and the new start.
const GAP: Duration = Duration::from_secs(2);

pub(crate) async fn run(ctx: &Ctx, args: &Restart) -> Result<ExitCode, Fail> {
    let holder = ctx.meant(&args.target)?;
    let service = ctx.running().await?;
    let before: Status = service.get("/api/v1/status").await?;
    if before.version != env!("CARGO_PKG_VERSION") {
        ctx.out.note(&format!("Version {} ends, version {} starts.", before.version, env!("CARGO_PKG_VERSION")));
        let stop = Stop { timeout: args.timeout, force: false, target: Target::default() };
        Box::pin(super::stop::run(ctx, &stop)).await?;
        let start = holder.map_or_else(Start::default, |holder| same_options(&ctx.home.config_path(), holder));
        let ctx = Ctx { out: ctx.out.clone(), home: ctx.home.clone(), config: start.config.clone() };
        return Box::pin(super::start::run(&ctx, Start { daemon: true, ..start })).await;
    }
    let _: serde_json::Value = service.call::<(), _>(Method::POST, "/api/v1/restart", None).await?;
    let begun = Instant::now();
    let mut free_since = None;
    loop {
        tokio::time::sleep(PAUSE).await;
        if ctx.is_held() {
            free_since = None;
        } else if has_ended(before.pid) || free_since.get_or_insert_with(Instant::now).elapsed() > GAP {
            return Err(Fail::failed("The service has ended and did not start again.").hint("Why: metaclaw logs"));
        }
        if let Some(now) = back(ctx).await
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

async fn back(ctx: &Ctx) -> Option<Status> {
    let service = engine::client::Client::socket(&ctx.home.socket_path()).await?;
    service.get("/api/v1/status").await.ok()
}

/// Whether the process is gone. One that we may not signal is there.
fn has_ended(pid: Option<u32>) -> bool {
    let pid = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

/// The command line that the running service was started with.
fn same_options(own_config: &std::path::Path, holder: Holder) -> Start {
    let asked = holder.asked;
    Start {
        mode: asked.mode.as_deref().and_then(|mode| Mode::from_str(mode, true).ok()),
        port: asked.port,
        config: (holder.config != own_config).then_some(holder.config),
        log_file: asked.log_file,
        ui_port: asked.ui_port,
        ..Start::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_an_update_the_new_process_gets_the_options_of_the_old_one() {
        let holder = Holder {
            pid: 1,
            port: 30000,
            since: jiff::Timestamp::UNIX_EPOCH,
            version: "0.0.9".into(),
            config: "/etc/work.yaml".into(),
            log: Some("/var/log/x".into()),
            asked: engine::lock::Asked {
                mode: Some(config::Mode::SkillsOnly.to_string()),
                port: None,
                ui_port: Some(8080),
                log_file: Some("/var/log/x".into()),
            },
        };
        let start = same_options("/home/me/.metaclaw/config.yaml".as_ref(), holder.clone());
        assert!(matches!(start.mode, Some(Mode::SkillsOnly)));
        // The port of the config is no option of the command line, so the next edit of the config counts.
        assert_eq!((start.port, start.ui_port), (None, Some(8080)));
        assert_eq!(start.config, Some("/etc/work.yaml".into()));
        assert_eq!(start.log_file, Some("/var/log/x".into()));
        assert_eq!(same_options("/etc/work.yaml".as_ref(), holder).config, None);
    }
}
