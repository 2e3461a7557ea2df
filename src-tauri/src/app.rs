//! The program from its start to its end: plugins, the service, the tasks around it, and what the menu's entries do.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use clap::Parser;
use config::Home;
use engine::api::Status;
use engine::logs::LogControl;
use http::Method;
use tauri::{AppHandle, Manager, RunEvent};
use tokio::sync::{Notify, broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::args::Args;
use crate::autostart;
use crate::feed::{self, Heard};
use crate::host::{Host, Order};
use crate::ipc::{self, WindowEvents};
use crate::show;
use crate::tray::Act;
use crate::window;
use crate::words::{Words, words};

/// How long what is not the service may take to end.
const CLOSE: Duration = Duration::from_millis(500);

/// What every part of the program can reach.
pub(crate) struct Shell {
    pub home: Home,
    pub host: Host,
    /// What happens in the service.
    pub heard: broadcast::Sender<Heard>,
    /// Whether the desktop shows the icon; none while that is being found out.
    pub tray: watch::Receiver<Option<bool>>,
    /// Told when the present window has drawn; each window has its own.
    pub painted: ArcSwap<Notify>,
    pub window_events: WindowEvents,
    pub words: &'static Words,
    pub tasks: Tasks,
    pub ending: CancellationToken,
    /// Has the tray look at everything again.
    again: mpsc::Sender<()>,
    /// Holds what was copied for as long as others may want it.
    clipboard: Mutex<Option<arboard::Clipboard>>,
    quitting: AtomicBool,
}

/// What a second start asked for before this one was ready for it.
#[derive(Default)]
struct Early(Mutex<Option<Args>>);

/// Tasks of this program, from whatever thread they are begun.
#[derive(Clone)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    runtime: tokio::runtime::Handle,
}

impl Tasks {
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.tracker.spawn_on(work, &self.runtime));
    }
}

/// Runs until somebody quits.
pub(crate) fn run(
    args: Args,
    home: Home,
    log: LogControl,
    runtime: &tokio::runtime::Runtime,
) -> tauri::Result<ExitCode> {
    tauri::async_runtime::set(runtime.handle().clone());
    let tasks = Tasks { tracker: TaskTracker::new(), runtime: runtime.handle().clone() };
    let app = tauri::Builder::default()
        .manage(Early::default())
        .plugin(tauri_plugin_single_instance::init(second_start))
        .plugin(tauri_plugin_autostart::Builder::new().arg(autostart::ARGUMENT).build())
        .invoke_handler(tauri::generate_handler![
            ipc::api,
            ipc::api_events,
            ipc::about,
            ipc::start,
            ipc::painted,
            ipc::save
        ])
        .on_menu_event(|app, event| act(app, event.id().as_ref()))
        .setup(move |app| {
            begin(app.handle(), &args, home, log, &tasks);
            Ok(())
        })
        .build(context())?;
    let code = app.run_return(|_, event| {
        if let RunEvent::ExitRequested { api, code: None, .. } = event {
            // The last window is closed; the tray goes on.
            api.prevent_exit();
        }
    });
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// What was read from tauri.conf.json when this was compiled: pages, policy, capabilities.
#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "in what the macro makes, for a program that is started too early"
)]
fn context() -> tauri::Context {
    tauri::generate_context!()
}

fn begin(app: &AppHandle, args: &Args, home: Home, log: LogControl, tasks: &Tasks) {
    let (host, service) = Host::new(home.clone(), log);
    tasks.spawn(service);
    let heard = feed::channel();
    let ending = CancellationToken::new();
    let until_the_end = |work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        let ending = ending.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = work => {}
                () = ending.cancelled() => {}
            }
        });
    };
    until_the_end(Box::pin(feed::read(host.clone(), heard.clone())));
    let (panel, tray) = watch::channel(None);
    let (wake, woke) = mpsc::channel(1);
    #[cfg(target_os = "linux")]
    {
        until_the_end(Box::pin(crate::indicator::follow(panel)));
        until_the_end(Box::pin(crate::power::follow(wake)));
    }
    #[cfg(not(target_os = "linux"))]
    {
        // These systems always show it, and say nothing of sleep here.
        panel.send_replace(Some(true));
        drop((panel, wake));
    }
    let (again, looks) = mpsc::channel(1);
    app.manage(Shell {
        home,
        host,
        heard,
        tray,
        painted: ArcSwap::default(),
        window_events: WindowEvents::default(),
        words: words(|name| std::env::var(name).ok()),
        tasks: tasks.clone(),
        ending: ending.clone(),
        again,
        clipboard: Mutex::new(None),
        quitting: AtomicBool::new(false),
    });
    until_the_end(Box::pin(show::work(app.clone(), args.background, looks, woke)));
    until_the_end(Box::pin(signals(app.clone())));
    autostart::repair(app, &app.state::<Shell>().home);
    let early = app.state::<Early>().0.lock().unwrap_or_else(PoisonError::into_inner).take();
    for args in [Some(args), early.as_ref()].into_iter().flatten().filter(|args| !args.background) {
        window::open(app, args.page.as_deref());
    }
}

/// Another start of the program: it shows the window of this one, unless it came from the login.
fn second_start(app: &AppHandle, argv: Vec<String>, _folder: String) {
    let args = Args::try_parse_from(argv).unwrap_or_default();
    if args.background {
        return;
    }
    {
        let early = app.state::<Early>();
        let mut early = early.0.lock().unwrap_or_else(PoisonError::into_inner);
        if app.try_state::<Shell>().is_none() {
            *early = Some(args);
            return;
        }
    }
    window::open(app, args.page.as_deref());
}

/// What an entry of the menu does.
fn act(app: &AppHandle, id: &str) {
    let Some(shell) = app.try_state::<Shell>() else { return };
    match Act::of(id) {
        Some(Act::Open(page)) => window::open(app, page),
        Some(Act::Copy) => copy(app),
        Some(Act::Mode(mode)) => set_mode(app, mode),
        Some(Act::Start) => shell.host.order(Order::Start),
        Some(Act::Stop) => shell.host.order(Order::Stop),
        Some(Act::AtLogin) => {
            autostart::switch(app);
            let _ = shell.again.try_send(());
        }
        Some(Act::Quit) => quit(app),
        None => tracing::debug!(id, "an entry without an act"),
    }
}

fn copy(app: &AppHandle) {
    let (shell, app) = (app.state::<Shell>(), app.clone());
    shell.tasks.spawn(async move {
        let shell = app.state::<Shell>();
        let status: Option<Status> = shell.host.client().get("/api/v1/status").await.ok();
        let Some(url) = status.and_then(|status| status.base_url) else { return };
        let kept = tokio::task::spawn_blocking(move || {
            let mut clipboard = arboard::Clipboard::new()?;
            clipboard.set_text(url).map(|()| clipboard)
        });
        match kept.await {
            Ok(Ok(clipboard)) => {
                shell.clipboard.lock().unwrap_or_else(PoisonError::into_inner).replace(clipboard);
            }
            Ok(Err(error)) => tracing::warn!(%error, "the address was not copied"),
            Err(error) => tracing::warn!(%error, "the address was not copied"),
        }
    });
}

fn set_mode(app: &AppHandle, mode: &str) {
    let (shell, app) = (app.state::<Shell>(), app.clone());
    let value = serde_json::json!({ "value": mode });
    shell.tasks.spawn(async move {
        let shell = app.state::<Shell>();
        let set = shell.host.client().call(Method::PUT, "/api/v1/config/mode", Some(&value)).await;
        if let Err(problem) = set.map(|_: serde_json::Value| ()) {
            tracing::warn!(%problem, "the mode was not changed");
        }
    });
}

/// Ends the program: the service first, which finishes running answers and records them.
fn quit(app: &AppHandle) {
    let (shell, app) = (app.state::<Shell>(), app.clone());
    if shell.quitting.swap(true, Ordering::Relaxed) {
        return;
    }
    // Not on the tracker that it waits for.
    drop(tauri::async_runtime::spawn(async move {
        let shell = app.state::<Shell>();
        shell.host.quit().await;
        shell.ending.cancel();
        shell.window_events.end();
        shell.tasks.tracker.close();
        if tokio::time::timeout(CLOSE, shell.tasks.tracker.wait()).await.is_err() {
            tracing::debug!(open = shell.tasks.tracker.len(), "tasks that did not end in time");
        }
        app.exit(0);
    }));
}

#[cfg(unix)]
async fn signals(app: AppHandle) {
    use tokio::signal::unix::{SignalKind, signal};
    let all = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = all else {
        return tracing::warn!("signals cannot be heard");
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    quit(&app);
}

#[cfg(not(unix))]
async fn signals(_: AppHandle) {
    std::future::pending().await
}
