//! The desktop program: tray, window and notifications around the engine. Thin: what it shows comes from the control API,
//! and what it is asked goes there.

#![cfg_attr(not(debug_assertions), windows_subsystem = "windows")]

mod app;
mod args;
mod autostart;
mod events;
mod feed;
#[cfg(target_os = "linux")]
mod first;
mod host;
#[cfg(target_os = "linux")]
mod indicator;
mod ipc;
mod notify;
#[cfg(target_os = "linux")]
mod power;
mod save;
mod show;
mod tray;
mod webkit;
mod window;
mod words;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use config::Home;
use engine::logs::LogControl;

use crate::args::Args;

/// As in the `metaclaw` command.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Another process of this program may have been asked to render a chat template.
    if let Some(code) = engine::rendered() {
        return code;
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(args) {
        Ok(code) => code,
        Err(said) => {
            let _ = writeln!(std::io::stderr(), "metaclaw-app: {said}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<ExitCode, String> {
    #[cfg(target_os = "linux")]
    if !["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
    {
        return Err("there is no display. The service without a window: metaclaw start".to_owned());
    }
    #[cfg(target_os = "linux")]
    if first::took_over() {
        return Ok(ExitCode::SUCCESS);
    }
    let home = Home::from_env(|name| std::env::var(name).ok()).map_err(|error| error.to_string())?;
    home.ensure().map_err(|error| format!("the folder {} cannot be used: {error}", home.dir().display()))?;
    let log = home.log_path();
    let log = LogControl::start(&log, true)
        .map_err(|error| format!("the log {} cannot be opened: {error}", log.display()))?;
    #[cfg(unix)]
    if let Err(error) = webkit::prepare(&home) {
        tracing::warn!(%error, "cannot start again with plainer drawing");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the runtime cannot be made: {error}"))?;
    let ended = app::run(args, home, log, &runtime).map_err(|error| error.to_string());
    // What still runs at this point has nothing left to lose.
    runtime.shutdown_background();
    ended
}
