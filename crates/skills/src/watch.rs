//! Live reload: file system events → one reload after a quiet moment. Where events cannot be had, the folder is read
//! again every few seconds, so that an edit shows in either case.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::event::ModifyKind;
use notify::{EventKind, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::library::{Library, Reloaded};

/// Quiet time after the last event before the folder is read.
const QUIET: Duration = Duration::from_millis(150);
/// However many events come, it is read after this.
const LONGEST: Duration = Duration::from_millis(1000);
/// How often the folder is read when it cannot be watched, and how often watching is tried again.
const POLL: Duration = Duration::from_secs(2);

impl Library {
    /// Watches the folder until `cancel`; the task runs on `tracker`. `on_change` is called after each reload that
    /// changed something, from that task: it must not block.
    pub fn watch(
        self: &Arc<Self>,
        tracker: &TaskTracker,
        cancel: CancellationToken,
        on_change: impl Fn(Reloaded) + Send + Sync + 'static,
    ) {
        let library = Arc::clone(self);
        tracker.spawn(async move {
            if cancel.run_until_cancelled(run(library, on_change)).await.is_none() {
                tracing::debug!("the skills folder is no longer watched");
            }
        });
    }
}

async fn run(library: Arc<Library>, on_change: impl Fn(Reloaded)) {
    let (events, mut arrived) = mpsc::channel::<()>(1);
    let mut watcher = None;
    let lost = Arc::new(AtomicBool::new(false));
    let mut poll = interval(POLL);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut read_now = false;
        tokio::select! {
            Some(()) = arrived.recv() => {
                settle(&mut arrived).await;
                read_now = true;
            }
            _ = poll.tick() => {}
        }
        // A folder that was moved or deleted takes its watch with it.
        if watcher.is_some() && (lost.swap(false, Ordering::Relaxed) || !library.dir().is_dir()) {
            watcher = None;
            read_now = true;
        }
        if watcher.is_none() {
            watcher = start(&library, events.clone(), Arc::clone(&lost));
            read_now = true;
        }
        if read_now {
            let reading = Arc::clone(&library);
            match tokio::task::spawn_blocking(move || reading.reload()).await {
                Ok(changes) if !changes.is_empty() => on_change(changes),
                Ok(_) => {}
                Err(error) => tracing::error!(%error, "reading the skills folder failed"),
            }
        }
    }
}

/// Waits until no event has come for [`QUIET`], at most [`LONGEST`].
async fn settle(arrived: &mut mpsc::Receiver<()>) {
    let end = Instant::now() + LONGEST;
    let mut quiet = Instant::now() + QUIET;
    loop {
        tokio::select! {
            Some(()) = arrived.recv() => quiet = Instant::now() + QUIET,
            () = sleep_until(quiet.min(end)) => return,
        }
    }
}

fn start(library: &Library, events: mpsc::Sender<()>, lost: Arc<AtomicBool>) -> Option<notify::RecommendedWatcher> {
    let dir = library.dir().to_owned();
    let watching = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Reading the folder makes access events; they must not lead to the next reading. A full channel already
        // holds the news.
        let Ok(event) = event else {
            let _ = events.try_send(());
            return;
        };
        let gone = event.kind.is_remove() || matches!(event.kind, EventKind::Modify(ModifyKind::Name(_)));
        if gone && event.paths.contains(&dir) {
            lost.store(true, Ordering::Relaxed);
        }
        if !event.kind.is_access() {
            let _ = events.try_send(());
        }
    })
    .and_then(|mut watcher| {
        watcher.watch(library.dir(), RecursiveMode::Recursive)?;
        Ok(watcher)
    });
    match watching {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            tracing::debug!(%error, dir = %library.dir().display(), "the skills folder is read every two seconds");
            None
        }
    }
}
