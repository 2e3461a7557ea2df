//! `metaclaw stop`: asks the service to end, waits until its lock is free, and ends it by force only when told to.

use std::process::ExitCode;
use std::time::Duration;

use engine::client::Client;
use engine::lock::Holder;
use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::args::Stop;
use crate::ctx::Ctx;
use crate::exit::{Exit, Fail};

/// How often the lock is looked at.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the service may take to say that it ends.
const ASK: Duration = Duration::from_secs(2);
/// After this long a person is told that we wait.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) async fn run(ctx: &Ctx, args: &Stop) -> Result<ExitCode, Fail> {
    let holder = ctx.meant(&args.target)?;
    let pid = holder.as_ref().map(|holder| holder.pid);
    end(ctx, holder.as_ref(), Duration::from_secs(args.timeout), args.force).await?;
    if ctx.out.json {
        ctx.out.value(&serde_json::json!({ "stopped": true, "pid": pid }));
    } else {
        ctx.out.line(&pid.map_or("Stopped.".to_owned(), |pid| format!("Stopped. Process {pid} has ended.")));
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends the service that holds this home.
pub(super) async fn end(ctx: &Ctx, holder: Option<&Holder>, patience: Duration, force: bool) -> Result<(), Fail> {
    let pid = holder.map(|holder| holder.pid);
    let ask = async {
        let service = Client::socket(&ctx.home.socket_path()).await?;
        service.call::<(), serde_json::Value>(Method::POST, "/api/v1/stop", None).await.ok()
    };
    // A process that hangs takes the connection and says nothing: then the signal asks.
    if !matches!(tokio::time::timeout(ASK, ask).await, Ok(Some(_))) && ctx.is_held() {
        signal(pid, Signal::TERM)?;
    }
    if !wait_until_free(ctx, patience, true).await {
        if !force {
            return Err(Fail::failed(format!("The service did not end within {} s.", patience.as_secs()))
                .hint("Look at what it does: metaclaw logs\nEnd it at once: metaclaw stop --force"));
        }
        signal(pid, Signal::KILL)?;
        if !wait_until_free(ctx, Duration::from_secs(5), false).await {
            return Err(Fail::failed("The service could not be ended."));
        }
        if let Some(holder) = holder {
            let _ = std::fs::remove_file(ctx.home.pid_path(holder.port));
        }
    }
    Ok(())
}

/// True once nobody holds the home.
pub(super) async fn wait_until_free(ctx: &Ctx, patience: Duration, tell: bool) -> bool {
    let begun = Instant::now();
    let mut told = !tell;
    while ctx.holder().is_some() {
        if begun.elapsed() >= patience {
            return false;
        }
        if !told && begun.elapsed() >= PATIENCE {
            ctx.out.note("Waiting for running answers to end…");
            told = true;
        }
        tokio::time::sleep(PAUSE).await;
    }
    true
}

fn signal(pid: Option<u32>, signal: Signal) -> Result<(), Fail> {
    let pid = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let Some(pid) = pid else {
        return Err(Fail::failed("The service is just starting; try again in a moment."));
    };
    kill_process(pid, signal).map_err(|error| {
        let exit = if error == rustix::io::Errno::PERM { Exit::NotPermitted } else { Exit::Failed };
        Fail::new(exit, format!("Process {} could not be signalled: {error}.", pid.as_raw_nonzero()))
    })
}
