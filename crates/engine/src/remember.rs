//! Long-term memory in a running service: settings that follow the config, and the worker that reads finished turns into
//! memory behind the requests. What it has not read yet is recalled all the same.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use config::Config;
use futures::future::BoxFuture;
use jiff::tz::TimeZone;
use memory::{Flushed, Memory, Tidied};
use proxy::MemorySettings;
use serde_json::json;
use store::Store;
use tokio::sync::{Notify, broadcast};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::Clock;
use crate::bus::Bus;
use crate::memory_meaning::MemoryMeaning;
use crate::retention;

/// Turns that come close together are read together.
const GATHER: Duration = Duration::from_millis(100);
/// Between two rounds, while there is much to read: requests go first.
const YIELD: Duration = Duration::from_millis(10);
/// How often it is looked whether another process has changed memory, and whether facts are due.
const LOOK: Duration = Duration::from_secs(1);
const DUE: Duration = Duration::from_secs(60);
/// After an error.
const PATIENCE: Duration = Duration::from_secs(5);
/// Sessions outside the journal end after so long.
const IDLE_MS: i64 = 30 * 60 * 1000;

/// Passages that a model reads at once.
const PASSAGES: u32 = 64;

/// Asks the configured model for JSON.
pub(crate) type AskModel = Box<dyn Fn(String) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// Memory of a running service.
pub(crate) struct Memories {
    pub(crate) settings: Arc<ArcSwap<MemorySettings>>,
    /// Something is to be read, or memory was changed by hand.
    pub(crate) wake: Arc<Notify>,
    /// Something was read, or memory was changed: what it means is to be looked at.
    pub(crate) meant: Notify,
    /// Memory by meaning.
    pub(crate) meaning: MemoryMeaning,
    /// How long things are kept.
    pub(crate) keep: ArcSwap<memory::Keep>,
    /// That has changed.
    pub(crate) kept: Notify,
}

impl Memories {
    pub(crate) fn new(store: Store, config: &Config) -> Self {
        let memory = Memory::open(store, memory::Settings::default());
        let settings = MemorySettings::from_config(config, &memory, TimeZone::system());
        Self {
            settings: Arc::new(ArcSwap::from_pointee(settings)),
            wake: Arc::default(),
            meant: Notify::new(),
            meaning: MemoryMeaning::default(),
            keep: ArcSwap::from_pointee(retention::keep(config)),
            kept: Notify::new(),
        }
    }

    /// Memory under the settings in force.
    pub(crate) fn memory(&self) -> Memory {
        self.settings.load().memory.clone()
    }

    /// Puts settings in force.
    pub(crate) fn config_read(&self, config: &Config) {
        let before = self.settings.load_full();
        let now = MemorySettings::from_config(config, &before.memory, TimeZone::system());
        if before.enabled && !now.enabled {
            now.memory.rest();
        }
        self.settings.store(Arc::new(now));
        self.wake.notify_one();
        let keep = retention::keep(config);
        if *self.keep.swap(Arc::new(keep)) != keep {
            self.kept.notify_one();
        }
    }

    /// Memory was changed by hand: what is at hand is made anew.
    pub(crate) fn changed(&self) {
        self.wake.notify_one();
    }
}

/// What woke the worker.
enum Woken {
    /// Turns were written down, or memory was changed.
    Read,
    /// This session has ended.
    Ended(Arc<str>),
    /// Nothing; time has passed.
    Look,
}

/// Reads finished turns into memory until the service ends.
pub(crate) async fn work(
    memories: Arc<Memories>,
    mut heard: broadcast::Receiver<proxy::Event>,
    bus: Bus,
    clock: Clock,
    ask: AskModel,
    ending: CancellationToken,
) {
    let mut worker = Worker { memories, bus, clock, ask, ending, failing: false, untidy: true, seen: None };
    worker.read(None).await;
    let mut due = tokio::time::Instant::now();
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let enabled = worker.memories.settings.load().enabled;
        let woken = tokio::select! {
            biased;
            () = worker.ending.cancelled() => return,
            event = heard.recv() => match event {
                Ok(proxy::Event::TurnFinished(turn)) if turn.kind.is_main() => Woken::Read,
                Ok(proxy::Event::SessionEnded { session, .. }) => Woken::Ended(session),
                Ok(_) => continue,
                Err(broadcast::error::RecvError::Lagged(_)) => Woken::Read,
                Err(broadcast::error::RecvError::Closed) => return,
            },
            () = worker.memories.wake.notified() => Woken::Read,
            _ = looks.tick(), if enabled => Woken::Look,
        };
        match woken {
            Woken::Read => worker.read(None).await,
            Woken::Ended(session) => worker.read(Some(session)).await,
            Woken::Look => {
                worker.look().await;
                if due.elapsed() >= DUE {
                    due = tokio::time::Instant::now();
                    worker.flush_due().await;
                }
                worker.tidy().await;
            }
        }
    }
}

struct Worker {
    memories: Arc<Memories>,
    bus: Bus,
    clock: Clock,
    ask: AskModel,
    ending: CancellationToken,
    /// The last round failed; told once.
    failing: bool,
    /// There may be facts that were not compared with others yet.
    untidy: bool,
    /// The database's log when it was last looked at.
    seen: Option<(u64, std::time::SystemTime)>,
}

impl Worker {
    /// Reads what is there, and takes the facts that are due; of this session all.
    async fn read(&mut self, ended: Option<Arc<str>>) {
        let settings = self.memories.settings.load_full();
        if !settings.enabled {
            return;
        }
        self.untidy = true;
        let memory = settings.memory.clone();
        let first = memory.clone();
        // Cutting and reading words takes its time; not on a thread that serves requests.
        let _ = tokio::task::spawn_blocking(move || first.prepare()).await;
        self.pause(GATHER).await;
        loop {
            let round = memory.clone();
            let done = blocking(async move { round.work().await }).await;
            match self.told(done) {
                Some(true) => self.pause(YIELD).await,
                Some(false) => break,
                None => {
                    self.pause(PATIENCE).await;
                    break;
                }
            }
            if self.ending.is_cancelled() {
                return;
            }
        }
        self.memories.meant.notify_one();
        if let Some(session) = ended.filter(|_| settings.extracts) {
            self.flush(&settings, vec![(session.to_string(), true)]).await;
        }
        self.flush_due().await;
    }

    /// Takes the facts from all sessions that have said enough, or have ended.
    async fn flush_due(&mut self) {
        let settings = self.memories.settings.load_full();
        if !settings.enabled || !settings.extracts {
            return;
        }
        let idle_ms = self.clock.now_ms().saturating_sub(IDLE_MS);
        let (memory, every) = (settings.memory.clone(), settings.flush_every);
        let due = blocking(async move { memory.due(every, idle_ms).await }).await;
        if let Some(due) = self.told(due).filter(|due| !due.is_empty()) {
            self.flush(&settings, due.into_iter().map(|due| (due.session, due.ended)).collect()).await;
        }
    }

    /// Takes the facts from sessions; from one that has ended a summary as well, where a model writes it.
    async fn flush(&mut self, settings: &MemorySettings, sessions: Vec<(String, bool)>) {
        self.untidy = true;
        let mut all = Flushed { sessions: sessions.len(), ..Flushed::default() };
        for (session, ended) in sessions {
            if settings.with_model {
                all.facts += self.ask_model(&settings.memory, &session, ended).await;
            }
            let memory = settings.memory.clone();
            let flushed = blocking(async move {
                let facts = memory.flush(&session).await?;
                memory.refresh().await?;
                Ok(facts)
            });
            let flushed = flushed.await;
            let Some(facts) = self.told(flushed) else { return };
            all.facts += facts;
            if self.ending.is_cancelled() {
                return;
            }
        }
        self.learned(all);
        self.memories.meant.notify_one();
    }

    /// Lets the configured model name facts, beside the rules, and sum an ended session up; one call. Whatever goes wrong,
    /// the rules go on.
    async fn ask_model(&mut self, memory: &Memory, session: &str, ended: bool) -> usize {
        let learned = async {
            let batch = memory.batch(session, PASSAGES).await.map_err(|error| error.to_string())?;
            let whole = if ended { memory.to_summarize(session).await } else { Ok(None) };
            let whole = whole.map_err(|error| error.to_string())?;
            if batch.is_empty() && whole.is_none() {
                return Ok(0);
            }
            let answer = (self.ask)(memory::question(&batch, whole.as_ref())).await?;
            let mut learned = memory.learn(&batch, &answer).await.map_err(|error| error.to_string())?;
            if let Some(whole) = whole {
                let summary = memory.summarize(&whole, &memory::summary_in(&answer)).await;
                learned += usize::from(summary.map_err(|error| error.to_string())?);
            }
            Ok(learned)
        };
        let learned: Result<usize, String> = tokio::select! {
            () = self.ending.cancelled() => return 0,
            learned = learned => learned,
        };
        match learned {
            Ok(facts) => facts,
            Err(error) => {
                tracing::warn!(session, %error, "the model was not asked for facts; the rules take them");
                0
            }
        }
    }

    /// One step of settling facts that say the same or the opposite; there is one each time nothing else is to be done.
    async fn tidy(&mut self) {
        let settings = self.memories.settings.load_full();
        if !settings.enabled || !settings.tidies || !std::mem::take(&mut self.untidy) {
            return;
        }
        let (memory, now_ms) = (settings.memory.clone(), self.clock.now_ms());
        let tidied = blocking(async move {
            let tidied = memory.tidy(now_ms).await?;
            if tidied.closed > 0 {
                memory.refresh().await?;
            }
            Ok(tidied)
        });
        let tidied = tidied.await;
        if let Some(tidied) = self.told(tidied) {
            self.untidy = tidied.more;
            if tidied.closed > 0 {
                settled(&self.bus, tidied);
            }
        }
    }

    fn learned(&self, flushed: Flushed) {
        if flushed.facts > 0 {
            tracing::debug!(facts = flushed.facts, sessions = flushed.sessions, "facts learned");
            self.bus.tell("memory_learned", json!({ "facts": flushed.facts, "sessions": flushed.sessions }));
        }
    }

    /// Looks whether another process has changed the database; only when its log has changed at all.
    async fn look(&mut self) {
        let memory = self.memories.memory();
        let now = log_of(memory.path());
        if now == self.seen {
            return;
        }
        self.seen = now;
        let noticed = blocking(async move { memory.notice().await }).await;
        self.told(noticed);
        self.memories.meant.notify_one();
    }

    async fn pause(&self, time: Duration) {
        tokio::select! {
            () = self.ending.cancelled() => {}
            () = tokio::time::sleep(time) => {}
        }
    }

    /// An error is told once, until it goes well again.
    fn told<T>(&mut self, done: memory::Result<T>) -> Option<T> {
        match done {
            Ok(value) => {
                if std::mem::take(&mut self.failing) {
                    tracing::info!("memory reads the journal again");
                }
                Some(value)
            }
            Err(error) => {
                if !self.ending.is_cancelled() && !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "memory cannot read the journal on; what was said stays there");
                }
                None
            }
        }
    }
}

/// Tells that facts gave way to others.
pub(crate) fn settled(bus: &Bus, tidied: Tidied) {
    tracing::info!(closed = tidied.closed, "facts gave way to others that say the same, or the opposite later");
    bus.keep("memory_tidied", json!({ "closed": tidied.closed }));
}

/// Size and time of the database's log.
fn log_of(path: &std::path::Path) -> Option<(u64, std::time::SystemTime)> {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    let meta = std::fs::metadata(name).ok()?;
    Some((meta.len(), meta.modified().ok()?))
}

/// Runs a future on a thread where it may take its time.
pub(crate) async fn blocking<T, F>(work: F) -> memory::Result<T>
where
    T: Send + 'static,
    F: Future<Output = memory::Result<T>> + Send + 'static,
{
    let runtime = tokio::runtime::Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(work)).await;
    done.unwrap_or_else(|_| Err(memory::Error::Store(store::Error::Closed)))
}
