//! The `metaclaw` command: reads the command line, asks the control API, prints. No product logic lives here.

mod args;
mod cmd;
mod ctx;
mod exit;
mod out;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Verb};
use crate::ctx::Ctx;
use crate::exit::Fail;
use crate::out::Out;

/// With glibc's allocator a third of a turn's time went into allocation, and its arenas kept what long conversations had used.
/// How it is set up stands in `.cargo/config.toml`.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Another process of this program may have been asked to render a chat template.
    if let Some(code) = engine::rendered() {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let out = Out::new(cli.shared.json, cli.shared.quiet, no_color);
    match run(cli, &out) {
        Ok(code) => code,
        Err(fail) => {
            out.fail(&fail);
            ExitCode::from(fail.exit as u8)
        }
    }
}

fn run(cli: Cli, out: &Out) -> Result<ExitCode, Fail> {
    let mut builder = match cli.verb {
        Verb::Start(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|error| Fail::failed(format!("The program could not start its runtime: {error}.")))?;
    let ended = runtime.block_on(Box::pin(verb(cli, out)));
    // What still runs at this point is a task of ours that has nothing left to lose.
    runtime.shutdown_background();
    ended
}

async fn verb(cli: Cli, out: &Out) -> Result<ExitCode, Fail> {
    let ctx = || Ctx::new(out.clone());
    match cli.verb {
        Verb::Setup(args) => cmd::setup::run(&ctx()?.with_config(args.config.as_deref())?, args).await,
        Verb::Start(args) => cmd::start::run(&ctx()?.with_config(args.config.as_deref())?, args).await,
        Verb::Stop(args) => cmd::stop::run(&ctx()?.with_config(args.target.config.as_deref())?, &args).await,
        Verb::Restart(args) => cmd::restart::run(&ctx()?.with_config(args.target.config.as_deref())?, &args).await,
        Verb::Status(args) => cmd::status::run(&ctx()?.with_config(args.config.as_deref())?, &args).await,
        Verb::Doctor(args) => cmd::doctor::run(&ctx()?, &args).await,
        Verb::Logs(args) => cmd::logs::run(&ctx()?, &args).await,
        Verb::Config(args) => cmd::config::run(&ctx()?.with_config(args.config.as_deref())?, args).await,
        Verb::Models(args) => cmd::models::run(&ctx()?, args).await,
        Verb::Skills(args) => cmd::skills::run(&ctx()?, args.verb).await,
        Verb::Memory(args) => Box::pin(cmd::memory::run(&ctx()?, args.verb)).await,
        Verb::Sessions(args) => cmd::sessions::run(&ctx()?, &args).await,
        Verb::Turns(args) => cmd::turns::run(&ctx()?, args).await,
        Verb::Uninstall(args) => cmd::uninstall::run(&ctx()?, &args).await,
        Verb::Completion { shell } => cmd::completion(out, shell),
        Verb::Openapi => cmd::openapi(out),
        Verb::Man { folder } => cmd::man(&folder),
    }
}
