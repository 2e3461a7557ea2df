//! Keeps the tray true: hears what happens, reads what the service says of itself, and has the icon, the menu and the
//! notifications follow. Opens the window where nothing else can be seen of the program.

use std::time::Duration;

use engine::api::{Event, Proposal, ServiceState, Settings, Status};
use tauri::{AppHandle, Manager};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use crate::app::Shell;
use crate::events::{self, Line};
use crate::feed::Heard;
use crate::host::{Host, Order, View};
use crate::notify::{self, Switches, Trouble};
use crate::tray::{self, Colour, Facts, Model};

/// So many events stand in the menu.
const RECENT: usize = 6;
/// What happens within this time is shown at once: a menu that is open does not like to be rewritten.
const GATHER: Duration = Duration::from_millis(80);
/// How long after a start at login the panel may take to come up.
const PANEL: Duration = Duration::from_secs(15);

/// What is known of the service.
struct Known {
    status: Option<Status>,
    switches: Switches,
    /// `app.tray_icon`
    tray_icon: String,
    recent: Vec<Line>,
    trouble: Trouble,
}

/// Shows until the program ends. `again` asks for a look at everything; `woke` says that the machine slept.
pub(crate) async fn work(
    app: AppHandle,
    background: bool,
    mut again: mpsc::Receiver<()>,
    mut woke: mpsc::Receiver<()>,
) {
    let shell = app.state::<Shell>();
    let (mut view, mut panel, mut heard) = (shell.host.view(), shell.tray.clone(), shell.heard.subscribe());
    let mut known = Known {
        status: None,
        switches: Switches::of(&[]),
        tray_icon: "auto".to_owned(),
        recent: Vec::new(),
        trouble: Trouble::default(),
    };
    let desktop = std::env::var("XDG_CURRENT_DESKTOP").unwrap_or_default();
    let mut shown: Option<Model> = None;
    // A start with a window needs no other sign of life.
    let mut unseen = background;
    let mut told_of_panels = true;
    let patience = tokio::time::sleep(PANEL);
    let mut patience = std::pin::pin!(patience);
    let ((), dark) = tokio::join!(known.read(&shell.host, shell.words), dark());
    loop {
        let now = view.borrow_and_update().clone();
        let first_run = known.status.as_ref().is_some_and(|status| status.state == ServiceState::FirstRun);
        let failed = matches!(&now, View::Stopped { problem: Some(_) });
        if unseen && (failed || (first_run && now.serves())) {
            unseen = false;
            crate::window::open(&app, None);
        }
        let model = tray::model(
            &Facts {
                view: &now,
                status: known.status.as_ref(),
                down_since_ms: known.trouble.down_since_ms(),
                recent: &known.recent,
                at_login: crate::autostart::state(&app),
                colour: Colour::suiting(&known.tray_icon, &desktop, dark),
            },
            shell.words,
        );
        if *panel.borrow_and_update() == Some(true) && shown.as_ref() != Some(&model) {
            shown = draw(&app, model).await;
        }
        tokio::select! {
            changed = view.changed() => {
                if changed.is_err() { return; }
                known.read(&shell.host, shell.words).await;
            }
            // The tray's own side registers again with a panel that comes back.
            changed = panel.changed(), if told_of_panels => told_of_panels = changed.is_ok(),
            next = heard.recv() => {
                if !known.take(next, &app, &shell).await { return; }
                tokio::time::sleep(GATHER).await;
                while let Ok(next) = heard.try_recv() {
                    if !known.take(Ok(next), &app, &shell).await { return; }
                }
            }
            Some(()) = again.recv() => {}
            Some(()) = woke.recv() => {
                shell.host.order(Order::Check);
                known.read(&shell.host, shell.words).await;
                if shown.take().is_some() {
                    let (main, handle) = (app.clone(), app.clone());
                    let _ = main.run_on_main_thread(move || tray::remove(&handle));
                }
            }
            () = &mut patience, if unseen => {
                unseen = false;
                if *panel.borrow() != Some(true) {
                    crate::window::open(&app, None);
                }
            }
        }
    }
}

/// Has the main thread show it; what is shown then.
async fn draw(app: &AppHandle, model: Model) -> Option<Model> {
    let (done, drawn) = tokio::sync::oneshot::channel();
    let handle = app.clone();
    let asked = app.run_on_main_thread(move || {
        let _ = done.send(tray::apply(&handle, &model).map(|()| model));
    });
    match asked.map(|()| drawn) {
        Ok(drawn) => match drawn.await {
            Ok(Ok(model)) => return Some(model),
            Ok(Err(error)) => tracing::warn!(%error, "the tray icon cannot be shown"),
            Err(_) => {}
        },
        Err(error) => tracing::warn!(%error, "the tray icon cannot be shown"),
    }
    None
}

impl Known {
    /// Reads everything anew.
    async fn read(&mut self, host: &Host, words: &crate::words::Words) {
        let client = host.client();
        self.status = client.get("/api/v1/status").await.ok();
        self.read_settings(host).await;
        if let Ok(kept) = client.get::<Vec<Event>>("/api/v1/events?limit=30").await {
            self.recent = kept.iter().filter_map(|event| events::line(event, words)).take(RECENT).collect();
        }
    }

    async fn read_settings(&mut self, host: &Host) {
        if let Ok(settings) = host.client().get::<Settings>("/api/v1/config").await {
            self.switches = Switches::of(&settings.settings);
            let icon = settings.settings.iter().find(|one| one.key == "app.tray_icon");
            self.tray_icon = icon.and_then(|one| one.value.as_str()).unwrap_or("auto").to_owned();
        }
    }

    /// Takes in what was heard; false when nothing will be heard any more.
    async fn take(&mut self, next: Result<Heard, RecvError>, app: &AppHandle, shell: &Shell) -> bool {
        match next {
            Ok(Heard::Event(event, _)) => {
                let provider = self.status.as_ref().map_or("", |status| status.provider.id.as_str());
                if let Some(note) = self.trouble.hear(&event, &self.switches, provider, shell.words) {
                    notify::show(app, note);
                }
                self.propose(&event, app, shell).await;
                if let Some(line) = events::line(&event, shell.words) {
                    self.recent.insert(0, line);
                    self.recent.truncate(RECENT);
                }
                if event.kind.starts_with("config_") {
                    self.read_settings(&shell.host).await;
                }
                if event.kind != "turn_finished" {
                    self.status = shell.host.client().get("/api/v1/status").await.ok().or(self.status.take());
                }
            }
            Ok(Heard::Missed | Heard::Open) | Err(RecvError::Lagged(_)) => self.read(&shell.host, shell.words).await,
            Ok(Heard::Quiet) => {}
            Err(RecvError::Closed) => return false,
        }
        true
    }

    /// Tells of skills that wait for the person, by their names.
    async fn propose(&self, event: &Event, app: &AppHandle, shell: &Shell) {
        let told = if event.kind == "skill_evolved" { events::proposals(event) } else { Vec::new() };
        if told.is_empty() || !self.switches.skill_waiting {
            return;
        }
        let path = "/api/v1/skills-proposals?state=waiting&limit=100";
        let Ok(waiting) = shell.host.client().get::<Vec<Proposal>>(path).await else { return };
        let named = waiting.into_iter().filter(|one| told.contains(&one.id)).map(|one| (one.id, one.name));
        if let Some(note) = notify::proposals(&named.collect::<Vec<_>>(), shell.words) {
            notify::show(app, note);
        }
    }
}

#[cfg(target_os = "linux")]
async fn dark() -> Option<bool> {
    crate::indicator::dark().await
}

#[cfg(not(target_os = "linux"))]
async fn dark() -> Option<bool> {
    None
}
