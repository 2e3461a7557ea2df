//! `metaclaw start`: in the foreground, or detached in the background until it answers. Without a config it asks first;
//! where nobody can be asked it starts in the first-run state.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use engine::api::{Models, ServiceState, SetupAnswers, SetupReport, SetupState, Status};
use engine::client::Client;
use engine::{Engine, Overrides, StartError, StartOptions, lock, logs};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::args::{Mode, Setup, Start};
use crate::ctx::Ctx;
use crate::exit::{Exit, Fail, io};

/// How long a detached service may take to answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// The smallest of the models that are offered: it is here in a minute.
const TRY_MODEL: &str = "smollm2-135m-instruct";
/// How often it is asked.
const PAUSE: Duration = Duration::from_millis(15);

pub(crate) async fn run(ctx: &Ctx, args: Start) -> Result<ExitCode, Fail> {
    if args.wechat_relogin {
        ctx.out.warn("WeChat is linked in a later release; --wechat-relogin does nothing yet.");
    }
    if args.detached {
        // A session of its own: closing the terminal no longer ends the service.
        let _ = rustix::process::setsid();
        return serve(ctx, &args).await;
    }
    if let Some(path) = &ctx.config
        && !path.exists()
    {
        return Err(Fail::new(Exit::NotConfigured, format!("The config file {} does not exist.", path.display()))
            .hint("Leave out --config, or write it: metaclaw setup --config FILE"));
    }
    if let Some(holder) = ctx.holder() {
        return Err(held(holder.as_ref()));
    }
    let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && !ctx.out.json;
    let asked = asks && !args.try_it && !ctx.config_path().exists();
    if asked {
        ctx.out.note("No config yet, so first a few questions.");
        let setup = Setup { non_interactive: false, answers: None, no_test: false, dry_run: false, config: None };
        Box::pin(super::setup::run(ctx, setup)).await?;
    }
    let mut args = args;
    if args.try_it {
        args.try_it = try_out(ctx).await?;
    } else if asked {
        // Who has just chosen the built-in model wants to see it.
        let state: SetupState = ctx.api().await?.get("/api/v1/setup").await?;
        args.try_it = state.configured && state.provider.as_deref() == Some("builtin");
    }
    if args.daemon { detach(ctx, &args).await } else { serve(ctx, &args).await }
}

/// Sets up the built-in model, and memory, where no provider is set up. `--try` is the yes to the download; what it
/// fetches stands in its help, and is told. Returns whether the first turns are to be made: a provider that was chosen
/// before may cost money, and gets nothing that the user has not written.
async fn try_out(ctx: &Ctx) -> Result<bool, Fail> {
    let state: SetupState = ctx.api().await?.get("/api/v1/setup").await?;
    if state.configured {
        let provider = state.provider.unwrap_or_default();
        if provider != "builtin" {
            ctx.out.note(&format!(
                "MetaClaw is set up with the provider {provider}, so nothing was fetched and no trial turns are made; \
                 they would go there. To see the built-in model: metaclaw setup"
            ));
            return Ok(false);
        }
        have_model(ctx, &state.model_id).await?;
        return Ok(true);
    }
    let api = ctx.api().await?;
    let models: Models = api.get("/api/v1/models").await?;
    if let Some(offer) = models.offers.iter().find(|offer| offer.id == TRY_MODEL && !offer.kept) {
        ctx.out.note(&format!("No provider is set up. To try MetaClaw without one: {}", super::models::terms(offer)));
    }
    let answers = serde_json::json!({ "provider": "builtin", "model": TRY_MODEL, "fetch_model": true, "memory": true });
    let serde_json::Value::Object(answers) = answers else { return Ok(false) };
    let body = SetupAnswers { answers, dry_run: false, test: false };
    let call = api.call(http::Method::POST, "/api/v1/setup", Some(&body));
    let _: SetupReport = super::models::while_fetching(ctx, &api, call).await?;
    Ok(true)
}

/// Fetches the model of the settings where it is missing or was broken off.
async fn have_model(ctx: &Ctx, id: &str) -> Result<(), Fail> {
    let api = ctx.api().await?;
    let models: Models = api.get("/api/v1/models").await?;
    let id = if id.is_empty() && models.kept.is_empty() { TRY_MODEL } else { id };
    let Some(offer) = models.offers.iter().find(|offer| offer.id == id) else { return Ok(()) };
    if models.kept.iter().any(|kept| kept.id == id && kept.size >= offer.size) {
        return Ok(());
    }
    ctx.out.note(&format!("The model of the settings is not here, or not all of it. {}", super::models::terms(offer)));
    super::models::fetch_agreed(ctx, &api, id).await
}

/// Serves in this process until a signal or the control API ends it.
async fn serve(ctx: &Ctx, args: &Start) -> Result<ExitCode, Fail> {
    ctx.home
        .ensure()
        .map_err(|error| io(&format!("The folder {} cannot be used", ctx.home.dir().display()), &error))?;
    let log_file = log_file(ctx, args)?;
    let log = logs::LogControl::start(&log_file, !args.detached)
        .map_err(|error| io(&format!("The log {} cannot be opened", log_file.display()), &error))?;
    let stream = |kind| signal(kind).map_err(|error| Fail::failed(format!("Signals cannot be heard: {error}.")));
    let (mut interrupt, mut terminate) = (stream(SignalKind::interrupt())?, stream(SignalKind::terminate())?);
    let mut first = true;
    loop {
        let options = StartOptions {
            config: ctx.config.clone(),
            overrides: Overrides { mode: args.mode.map(mode), port: args.port },
            log: log.clone(),
            log_file: log_file.clone(),
            ui_port: args.ui_port,
            ..StartOptions::new(ctx.home.clone())
        };
        let engine = Box::pin(Engine::start(options)).await.map_err(|error| {
            // In the foreground the log is on this terminal, where the error comes anyway.
            if args.detached {
                tracing::error!("not started: {error}");
            }
            failed(&error)
        })?;
        if !args.detached {
            greet(ctx, &engine.status());
        }
        let mut stopped = None;
        if first && args.try_it && !args.detached && !ctx.out.json {
            let status = engine.status();
            tokio::select! {
                shown = super::first_turn::run(ctx, &status) => {
                    if let Err(fail) = shown {
                        ctx.out.fail(&fail);
                    }
                }
                _ = interrupt.recv() => stopped = Some(engine::End::Stop),
                _ = terminate.recv() => stopped = Some(engine::End::Stop),
            }
        }
        first = false;
        let end = match stopped {
            Some(end) => end,
            None => tokio::select! {
                end = engine.ended() => end,
                _ = interrupt.recv() => engine::End::Stop,
                _ = terminate.recv() => engine::End::Stop,
            },
        };
        if !args.detached && end == engine::End::Stop {
            ctx.out.note("Stopping; running answers are finished first. Ctrl-C again ends at once.");
        }
        tokio::select! {
            () = Box::pin(engine.stop()) => {}
            _ = interrupt.recv() => {
                return Err(Fail::failed("Ended at once. Answers that were running may be missing from the journal."));
            }
        }
        if end == engine::End::Stop {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn greet(ctx: &Ctx, status: &Status) {
    if ctx.out.json {
        ctx.out.value(status);
        return;
    }
    ctx.out.line(&format!(
        "MetaClaw {} serves agents on {}",
        status.version,
        status.base_url.as_deref().unwrap_or_default()
    ));
    for note in hints(status) {
        ctx.out.note(&note);
    }
}

/// What a person should know right after the start.
fn hints(status: &Status) -> Vec<String> {
    let mut notes: Vec<String> = status.listen_note.iter().cloned().collect();
    if status.state == ServiceState::FirstRun {
        let missing = status.missing.as_deref().unwrap_or("no provider is set up");
        notes.push(format!("Not set up yet: {missing}. Step by step: {} setup", own_name()));
    }
    if status.key_required {
        notes.push(format!("Agents send the key that `{} config get proxy.api_key --reveal` shows.", own_name()));
    }
    if let Some(url) = &status.ui_url {
        notes.push(format!("Window: {url} (its token is in {}/control.token)", status.home));
    }
    notes.extend(status.warnings.iter().cloned());
    notes.extend(status.later.iter().map(|later| format!("{}: {}.", later.what, later.note)));
    notes
}

/// How this program is called from a shell: by its name where the shell finds it, else by its path.
fn own_name() -> String {
    let own = std::env::current_exe().ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("metaclaw")).find(|file| file.is_file());
    called(own.as_deref(), found.as_deref())
}

fn called(own: Option<&Path>, found: Option<&Path>) -> String {
    match (own, found) {
        (Some(own), None) => own.display().to_string(),
        _ => "metaclaw".to_owned(),
    }
}

/// Starts this program again in the background and waits until it answers.
async fn detach(ctx: &Ctx, args: &Start) -> Result<ExitCode, Fail> {
    ctx.home
        .ensure()
        .map_err(|error| io(&format!("The folder {} cannot be used", ctx.home.dir().display()), &error))?;
    let log_file = log_file(ctx, args)?;
    let program = std::env::current_exe()
        .map_err(|error| Fail::failed(format!("This program's own file was not found: {error}.")))?;
    // Starts may run beside each other: each has a file of its own for what its process says.
    let said = ctx.home.dir().join(format!("start.{}.err", std::process::id()));
    let open = private(&said).map_err(|error| io(&format!("{} cannot be written", said.display()), &error))?;
    let mut child = tokio::process::Command::new(program)
        .args(child_args(ctx, args, &log_file))
        .env("METACLAW_RUNTIME_KIND", "daemon")
        .env("METACLAW_RUNTIME_LOG_PATH", &log_file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(open)
        .kill_on_drop(false)
        .spawn()
        .map_err(|error| Fail::failed(format!("The background process could not be started: {error}.")))?;
    let pid = child.id().unwrap_or_default();
    let begun = Instant::now();
    let mut told = false;
    let status = loop {
        if let Ok(Some(code)) = child.try_wait() {
            let fail = child_failed(&said, code.code(), &log_file);
            let _ = std::fs::remove_file(&said);
            return Err(fail);
        }
        if let Some(status) = answering(ctx, pid).await {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            let _ = child.start_kill();
            let _ = std::fs::remove_file(&said);
            return Err(Fail::failed(format!(
                "The service did not answer within {} s and was ended.",
                PATIENCE.as_secs()
            ))
            .hint(format!("What happened stands in {}", log_file.display())));
        }
        if !told && begun.elapsed() > Duration::from_secs(1) {
            ctx.out.note("Starting…");
            told = true;
        }
        tokio::time::sleep(PAUSE).await;
    };
    let _ = std::fs::remove_file(&said);
    if ctx.out.json {
        ctx.out.value(&status);
        return Ok(ExitCode::SUCCESS);
    }
    ctx.out.line("Started.");
    ctx.out.pairs(&[
        ("process", pid.to_string()),
        ("base URL", status.base_url.clone().unwrap_or_default()),
        ("log", log_file.display().to_string()),
    ]);
    for note in hints(&status) {
        ctx.out.note(&note);
    }
    if args.try_it {
        super::first_turn::run(ctx, &status).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A new file that only its owner can read.
fn private(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// The state of the service, once it is process `pid` and its agent port answers.
async fn answering(ctx: &Ctx, pid: u32) -> Option<Status> {
    let service = Client::socket(&ctx.home.socket_path()).await?;
    let status: Status = service.get("/api/v1/status").await.ok()?;
    let addr = status.base_url.as_deref()?.strip_prefix("http://")?.strip_suffix("/v1")?.parse().ok()?;
    (status.pid == Some(pid) && engine::health::answers(addr).await).then_some(status)
}

fn child_args(ctx: &Ctx, args: &Start, log_file: &Path) -> Vec<std::ffi::OsString> {
    let mut list: Vec<std::ffi::OsString> = ["--json", "start", "--detached"].map(Into::into).to_vec();
    if let Some(mode) = args.mode {
        list.extend(["--mode".into(), self::mode(mode).to_string().into()]);
    }
    if let Some(port) = args.port {
        list.extend(["--port".into(), port.to_string().into()]);
    }
    if let Some(port) = args.ui_port {
        list.extend(["--ui-port".into(), port.to_string().into()]);
    }
    if let Some(config) = &ctx.config {
        list.extend(["--config".into(), config.into()]);
    }
    list.extend(["--log-file".into(), log_file.into()]);
    list
}

/// What the background process said before it ended.
fn child_failed(said: &Path, code: Option<i32>, log_file: &Path) -> Fail {
    let text = std::fs::read_to_string(said).unwrap_or_default();
    let error = text
        .lines()
        .rev()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|value| value.get("error").cloned());
    let exit = match code {
        Some(2) => Exit::Usage,
        Some(4) => Exit::NotConfigured,
        Some(6) => Exit::NotPermitted,
        _ => Exit::Failed,
    };
    match error {
        Some(error) => Fail {
            exit,
            message: error.get("message").and_then(|m| m.as_str()).unwrap_or("The service did not start.").to_owned(),
            hint: error.get("hint").and_then(|h| h.as_str()).map(str::to_owned),
        },
        None => Fail::new(exit, format!("The service ended right after its start. {}", text.trim()))
            .hint(format!("What happened stands in {}", log_file.display())),
    }
}

fn log_file(ctx: &Ctx, args: &Start) -> Result<PathBuf, Fail> {
    match &args.log_file {
        Some(path) => std::path::absolute(path)
            .map_err(|error| Fail::usage(format!("{} is no usable path: {error}.", path.display()))),
        None => Ok(ctx.home.log_path()),
    }
}

fn mode(mode: Mode) -> config::Mode {
    match mode {
        Mode::Auto | Mode::Madmax => config::Mode::Auto,
        Mode::Rl => config::Mode::Rl,
        Mode::SkillsOnly => config::Mode::SkillsOnly,
    }
}

fn held(holder: Option<&lock::Holder>) -> Fail {
    let who = holder.map_or("another process, which is just starting or ending".to_owned(), |holder| {
        format!(
            "process {} on port {}, since {}",
            holder.pid,
            holder.port,
            holder.since.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S")
        )
    });
    Fail::failed(format!("MetaClaw already runs here: {who}. Nothing was changed."))
        .hint("See it: metaclaw status\nEnd it: metaclaw stop\nA second one needs a folder of its own: METACLAW_HOME=…")
}

/// Start errors as the person sees them.
fn failed(error: &StartError) -> Fail {
    let text = format!("{}.", error.to_string().trim_end_matches('.'));
    match error {
        StartError::Lock(lock::LockError::Held(holder)) => held(holder.as_deref()),
        StartError::Socket { source, .. } if source.kind() == std::io::ErrorKind::InvalidFilename => {
            Fail::failed(capital(&text)).hint("Set METACLAW_HOME to a folder with a shorter path.")
        }
        StartError::Home { source, .. }
        | StartError::Socket { source, .. }
        | StartError::Lock(lock::LockError::Io { source, .. }) => {
            let exit =
                if source.kind() == std::io::ErrorKind::PermissionDenied { Exit::NotPermitted } else { Exit::Failed };
            Fail::new(exit, capital(&text))
                .hint("Check who owns the folder, or set METACLAW_HOME to one that is yours.")
        }
        StartError::Config(_) => Fail::new(Exit::NotConfigured, format!("The config cannot be used. {text}"))
            .hint("Mend that place, then look again: metaclaw config validate"),
        StartError::PortTaken { addr, .. } => Fail::failed(format!("{} Nothing was changed.", capital(&text)))
            .hint(format!("Choose another port: metaclaw start --port {}", addr.port().saturating_add(1))),
        _ => Fail::failed(capital(&text)),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_the_shell_does_not_find_is_named_by_its_path() {
        let own = Path::new("/src/target/release/metaclaw");
        assert_eq!(called(Some(own), None), "/src/target/release/metaclaw");
        assert_eq!(called(Some(own), Some(Path::new("/usr/bin/metaclaw"))), "metaclaw");
    }
}
