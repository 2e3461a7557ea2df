//! The model inside MetaClaw: where it runs, what is on its shelf, and the one fetch that may be under way. A fetch is
//! begun only by somebody who was shown what comes and said yes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use config::{Config, Home};
use models::{Addresses, FetchError, Offer, Progress, Purpose, Shelf, Stage};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Clock;
use crate::api::{Code, FetchStage, FetchState, Problem};
use crate::core::sentence;

/// See the module.
pub(crate) struct Local {
    /// One for the whole process: settings come and go, the model stays.
    pub(crate) room: builtin::Room,
    shelf: ArcSwap<Shelf>,
    home: Home,
    tasks: TaskTracker,
    cancel: CancellationToken,
    fetching: Arc<Mutex<Option<Fetching>>>,
}

struct Fetching {
    state: FetchState,
    cancel: CancellationToken,
    over: tokio::sync::watch::Receiver<bool>,
}

fn lock(fetching: &Mutex<Option<Fetching>>) -> MutexGuard<'_, Option<Fetching>> {
    fetching.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Local {
    pub(crate) fn new(home: &Home, config: &Config, clock: &Clock) -> Self {
        let room = builtin::Room::new(proxy::Outside { clock: Arc::clone(clock), renderer: builtin::renderer() });
        room.configure(settings(config));
        Self {
            room,
            shelf: ArcSwap::from_pointee(shelf(home, config)),
            home: home.clone(),
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
            fetching: Arc::default(),
        }
    }

    pub(crate) fn shelf(&self) -> Arc<Shelf> {
        self.shelf.load_full()
    }

    /// The model as the settings have it now.
    pub(crate) fn built_in(&self) -> proxy::BuiltIn {
        proxy::BuiltIn { room: self.room.clone(), shelf: Shelf::clone(&self.shelf.load()) }
    }

    /// The fetch that is under way, or how the last one ended.
    pub(crate) fn fetching(&self) -> Option<FetchState> {
        lock(&self.fetching).as_ref().map(|fetching| fetching.state.clone())
    }

    /// Begins to fetch an offer; `told` hears how it ended. Returns when it has begun.
    pub(crate) fn fetch(
        &self,
        offer: &'static Offer,
        config: &Config,
        told: impl FnOnce(&FetchState) + Send + 'static,
    ) -> Result<FetchState, Problem> {
        let mut fetching = lock(&self.fetching);
        if let Some(running) = fetching.as_ref().filter(|running| running.state.running) {
            return if running.state.id == offer.id {
                Ok(running.state.clone())
            } else {
                Err(Problem::new(Code::Conflict, format!("{} is being fetched.", running.state.id))
                    .hint("Wait for it, or call it off: metaclaw models cancel"))
            };
        }
        crate::install_tls();
        let client = models::fetch_client().map_err(Problem::internal)?;
        let addresses = addresses(config);
        let cancel = self.cancel.child_token();
        let (over, ended) = tokio::sync::watch::channel(false);
        let state = FetchState {
            id: offer.id.to_owned(),
            running: true,
            stage: FetchStage::Download,
            source: offer.sources.first().map(models::Source::told).unwrap_or_default(),
            done: 0,
            total: offer.size(),
            problem: None,
        };
        *fetching = Some(Fetching { state: state.clone(), cancel: cancel.clone(), over: ended });
        drop(fetching);
        let (shelf, shared) = (self.shelf(), Arc::clone(&self.fetching));
        self.tasks.spawn(async move {
            let progress = |progress: Progress| {
                if let Some(fetching) = lock(&shared).as_mut() {
                    let Progress { stage, source, done, total } = progress;
                    let stage = match stage {
                        Stage::Download => FetchStage::Download,
                        Stage::Unpack => FetchStage::Unpack,
                    };
                    fetching.state = FetchState { stage, source, done, total, ..fetching.state.clone() };
                }
            };
            let result = models::fetch(&client, &shelf, offer, &addresses, check, &cancel, &progress).await;
            let state = lock(&shared).as_mut().map(|fetching| {
                fetching.state.running = false;
                fetching.state.problem = result.err().map(|error| sentence(&error));
                fetching.state.clone()
            });
            if let Some(state) = state {
                match &state.problem {
                    None => tracing::info!(id = state.id, "model fetched"),
                    Some(problem) => tracing::warn!(id = state.id, %problem, "model not fetched"),
                }
                told(&state);
            }
            let _ = over.send(true);
        });
        Ok(state)
    }

    /// Waits until no fetch is under way and returns how the last one ended.
    pub(crate) async fn fetched(&self) -> Option<FetchState> {
        let over = lock(&self.fetching).as_ref().map(|fetching| fetching.over.clone());
        if let Some(mut over) = over {
            let _ = over.wait_for(|over| *over).await;
        }
        self.fetching()
    }

    /// Calls off the fetch that is under way. What has come stays.
    pub(crate) fn call_off(&self) -> bool {
        let fetching = lock(&self.fetching);
        let running = fetching.as_ref().filter(|fetching| fetching.state.running);
        if let Some(running) = running {
            running.cancel.cancel();
        }
        running.is_some()
    }

    /// Settings for what comes.
    pub(crate) fn configure(&self, config: &Config) {
        self.room.configure(settings(config));
        self.shelf.store(Arc::new(shelf(&self.home, config)));
    }

    /// Ends everything here, within a moment.
    pub(crate) async fn close(&self) {
        self.cancel.cancel();
        self.tasks.close();
        let room = self.room.clone();
        let closed = tokio::task::spawn_blocking(move || room.close());
        let _ = tokio::join!(self.tasks.wait(), closed);
    }
}

/// Where the settings have models kept.
fn shelf(home: &Home, config: &Config) -> Shelf {
    Shelf::new(home.resolve(&config.builtin.dir))
}

fn settings(config: &Config) -> builtin::Settings {
    let built_in = &config.builtin;
    let whole = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    builtin::Settings {
        threads: whole(built_in.threads),
        context: whole(built_in.context_tokens),
        idle: Duration::from_secs(u64::from(built_in.idle_minutes.max(1)) * 60),
    }
}

/// Whether the settings have a model of this machine find by meaning.
pub(crate) fn searches(config: &Config) -> bool {
    let skills = config.skills.enabled && config.skills.retrieval_mode != config::RetrievalMode::Template;
    let memories = config.memory.enabled && config.memory.retrieval_mode != config::MemoryRetrieval::Keyword;
    config.embedding.api_base.is_empty() && (skills || memories)
}

/// Where the model that finds by meaning is: a folder of its own, or one of that name beside the built-in models.
pub(crate) fn search_model(home: &Home, config: &Config) -> PathBuf {
    let model = &config.embedding.model;
    if model.contains(['/', '\\']) { home.resolve(model) } else { home.resolve(&config.builtin.dir).join(model) }
}

/// Whether what came is a model.
fn check(purpose: Purpose, path: &Path) -> Result<(), String> {
    match purpose {
        Purpose::Chat => builtin::check(path).map_err(|fault| fault.to_string()),
        Purpose::Search => embed::check(path).map_err(|error| error.to_string()),
    }
}

/// Where models are fetched from.
pub(crate) fn addresses(config: &Config) -> Addresses {
    Addresses { hub: config.builtin.hub.clone(), index: config.builtin.index.clone() }
}

/// What somebody has to know before he says yes.
pub(crate) fn terms(offer: &Offer) -> String {
    format!(
        "{} is a download of {} MB from {}, under the licence {}",
        offer.label,
        megabytes(offer.size()),
        sources(offer).join(" or "),
        offer.licence
    )
}

/// Where an offer comes from, with the size where that is another one: packages are smaller than what is in them.
pub(crate) fn sources(offer: &Offer) -> Vec<String> {
    let told = |source: &models::Source| match source.download(offer.size()) {
        size if size == offer.size() => source.told(),
        size => format!("{} ({} MB)", source.told(), megabytes(size)),
    };
    offer.sources.iter().map(told).collect()
}

fn megabytes(bytes: u64) -> u64 {
    (bytes + 500_000) / 1_000_000
}

/// A fetch that failed, as a problem of the API.
pub(crate) fn failed(state: &FetchState) -> Option<Problem> {
    let problem = state.problem.clone()?;
    Some(Problem::new(Code::Upstream, problem).hint("What has come so far is kept; the next fetch goes on from there."))
}

impl From<FetchError> for Problem {
    fn from(error: FetchError) -> Self {
        Self::new(Code::Upstream, sentence(&error))
    }
}
