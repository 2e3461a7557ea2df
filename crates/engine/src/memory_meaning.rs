//! Memory by meaning in a running service: vectors of what is remembered, made behind the requests with the model that
//! `meanings` has, and only as fast as the machine has time for it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use config::{Config, Home, MemoryRetrieval};
use memory::Progress;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::ByMeaning;
use crate::bus::Bus;
use crate::core::sentence;
use crate::local::search_model;
use crate::meanings::MeaningRoom;
use crate::remember::{Memories, blocking};

/// Texts of one round.
const BATCH: u32 = 16;
/// Least pause between two rounds; else one as long as the round took, so that half of the time is the requests'.
const YIELD: Duration = Duration::from_millis(5);
/// How long a model that failed is left alone, and how often it is looked whether there is one by now.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether memories are to be found by meaning, as far as there is a model for it.
pub(crate) fn is_wanted(config: &Config, home: &Home) -> bool {
    config.memory.enabled
        && match config.memory.retrieval_mode {
            MemoryRetrieval::Keyword => false,
            MemoryRetrieval::Hybrid | MemoryRetrieval::Embedding => true,
            MemoryRetrieval::Auto => missing(config, home).is_none(),
        }
}

/// Why `auto` finds memories by their words.
fn missing(config: &Config, home: &Home) -> Option<String> {
    let folder = search_model(home, config);
    if !config.embedding.api_base.is_empty() {
        return Some(
            "What is remembered is not sent to an endpoint unless memory.retrieval_mode is hybrid or embedding."
                .to_owned(),
        );
    }
    if folder.join("model.safetensors").is_file() {
        return None;
    }
    let offer = folder.file_name().and_then(|name| models::offer(name.to_str()?));
    Some(match offer {
        Some(offer) => format!("The model {0} is not here; fetch it: metaclaw models fetch {0}.", offer.id),
        None => format!("There is no embedding model at {} (embedding.model).", folder.display()),
    })
}

/// How far it is.
#[derive(Debug, Clone, Default)]
struct Standing {
    on: bool,
    model: String,
    progress: Progress,
    reason: Option<String>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct MemoryMeaning {
    standing: ArcSwap<Standing>,
}

impl MemoryMeaning {
    /// What the status says of it.
    pub(crate) fn state(&self, config: &Config, home: &Home, room: &MeaningRoom) -> ByMeaning {
        let figure = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let mut state = unasked(config, home);
        if !state.wanted {
            return state;
        }
        let standing = self.standing.load();
        state.on = standing.on;
        state.model.clone_from(&standing.model);
        state.ready = figure(standing.progress.ready);
        state.of = figure(standing.progress.ready + standing.progress.missing);
        if state.reason.is_none() {
            state.reason = standing.reason.clone().or_else(|| room.state().reason.filter(|_| !standing.on));
        }
        if let Some(meaning) = &*room.meaning.load() {
            state.missed = meaning.missed();
        }
        state
    }
}

/// The same while no service runs.
pub(crate) fn unasked(config: &Config, home: &Home) -> ByMeaning {
    let mode = config.memory.retrieval_mode;
    ByMeaning {
        wanted: config.memory.enabled && mode != MemoryRetrieval::Keyword,
        reason: if config.memory.enabled && mode == MemoryRetrieval::Auto { missing(config, home) } else { None },
        ..ByMeaning::default()
    }
}

/// Makes vectors until the service ends. `look` reads the settings again: a model may have come meanwhile.
pub(crate) async fn work(
    memories: Arc<Memories>,
    room: Arc<MeaningRoom>,
    bus: Bus,
    look: Box<dyn Fn() + Send + Sync>,
    ending: CancellationToken,
) {
    let mut told: Option<String> = None;
    loop {
        let settings = memories.settings.load_full();
        let meaning = room.meaning.load_full().filter(|meaning| meaning.memories && settings.enabled);
        let (standing, wait) = match meaning {
            None => {
                settings.memory.mean_nothing();
                look();
                (Standing::default(), None)
            }
            Some(meaning) => {
                let (memory, begun) = (settings.memory.clone(), Instant::now());
                let embedder = Arc::clone(&meaning.embedder);
                let round = blocking(async move { memory.mean(&*embedder, BATCH).await });
                let done = tokio::select! {
                    () = ending.cancelled() => return,
                    done = round => done,
                };
                let before = memories.meaning.standing.load();
                let model = meaning.embedder.name();
                match done {
                    Ok(progress) => {
                        let wait = progress.more.then(|| begun.elapsed().max(YIELD));
                        (Standing { on: true, model, progress, reason: None }, wait)
                    }
                    Err(error) => {
                        let reason = Some(sentence(&error));
                        (Standing { on: false, model, progress: before.progress.clone(), reason }, None)
                    }
                }
            }
        };
        if told != standing.reason {
            if let Some(why) = &standing.reason {
                tracing::warn!("memories that are new are found by their words alone: {why}");
                bus.keep("meaning_off", json!({ "reason": why, "of": "memory" }));
            }
            told.clone_from(&standing.reason);
        }
        memories.meaning.standing.store(Arc::new(standing));
        match wait {
            Some(wait) => tokio::select! {
                () = ending.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            },
            None => tokio::select! {
                () = ending.cancelled() => return,
                () = room.ready.notified() => {}
                () = memories.meant.notified(), if told.is_none() => {}
                () = tokio::time::sleep(PATIENCE) => {}
            },
        }
    }
}
