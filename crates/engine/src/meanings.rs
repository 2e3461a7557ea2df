//! Skills by meaning: the embedding model of the settings, and the library's vectors, made in the background and kept
//! in a file between runs. While a vector is missing its skill is found by its words.

use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use config::{Config, Home, RetrievalMode};
use embed::{Embedder, Local, LocalOptions, Remote, RemoteOptions, Side, Vector};
use proxy::SkillsBy;
use serde_json::json;
use skills::{Library, Meanings, Texts, background};
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

use crate::api::ByMeaning;
use crate::bus::{Bus, Event};
use crate::core::sentence;
use crate::local::search_model;
use crate::memory_meaning;

/// How long a model that failed is left alone, and how often it is looked whether the folder holds another one.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the model may take with one batch.
const BATCH_PATIENCE: Duration = Duration::from_secs(120);
/// Texts that are asked for at once.
const BATCH: usize = 64;
/// The first line of the file; another form has another line.
const FORM: &str = "metaclaw vectors 1";
/// The file in `cache/`, and its name until it is whole.
pub(crate) const VECTORS: &str = "skill-vectors";
pub(crate) const NEW_VECTORS: &str = "skill-vectors.new";

/// What is wanted of it. Not `Debug`: it holds a key.
#[derive(Clone, PartialEq)]
struct Wish {
    skills_by: Option<SkillsBy>,
    memories: bool,
    patience: Duration,
    source: Source,
}

#[derive(Clone, PartialEq)]
enum Source {
    /// Of this machine, and its name: another one in its folder is another source.
    Local(LocalOptions, String),
    Remote {
        base: String,
        key: String,
        model: String,
    },
}

impl Wish {
    fn of(config: &Config, home: &Home) -> Option<Self> {
        let skills_by = match config.skills.retrieval_mode {
            RetrievalMode::Hybrid if config.skills.enabled => Some(SkillsBy::Both),
            RetrievalMode::Embedding if config.skills.enabled => Some(SkillsBy::Meaning),
            _ => None,
        };
        let memories = memory_meaning::is_wanted(config, home);
        if skills_by.is_none() && !memories {
            return None;
        }
        let of = &config.embedding;
        let source = if of.api_base.is_empty() {
            let options = LocalOptions {
                folder: search_model(home, config),
                threads: 0,
                idle: Duration::from_secs(u64::from(of.idle_minutes) * 60),
            };
            Source::Local(options, String::new())
        } else {
            Source::Remote {
                base: of.api_base.clone(),
                key: of.api_key.expose().to_owned(),
                model: of.api_model.clone(),
            }
        };
        Some(Self { skills_by, memories, patience: Duration::from_millis(u64::from(of.patience_ms)), source })
    }
}

/// See the module.
pub(crate) struct MeaningRoom {
    /// What the agent port asks.
    pub(crate) meaning: Arc<ArcSwapOption<proxy::Meaning>>,
    wish: Mutex<Option<Wish>>,
    /// There is a model, or none any more.
    pub(crate) ready: Notify,
    wake: Notify,
    home: Home,
    state: ArcSwap<ByMeaning>,
}

impl MeaningRoom {
    pub(crate) fn new(home: &Home, config: &Config) -> Self {
        let room = Self {
            meaning: Arc::default(),
            wish: Mutex::default(),
            ready: Notify::new(),
            wake: Notify::new(),
            home: home.clone(),
            state: ArcSwap::default(),
        };
        room.config_read(config);
        room
    }

    /// The settings may have changed.
    pub(crate) fn config_read(&self, config: &Config) {
        let wish = Wish::of(config, &self.home);
        let mut known = self.wish.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != wish {
            *known = wish;
            self.wake.notify_one();
        }
    }

    /// How far it is.
    pub(crate) fn state(&self) -> ByMeaning {
        let mut state = ByMeaning::clone(&self.state.load());
        if let Some(meaning) = &*self.meaning.load() {
            state.missed = meaning.missed();
        }
        state
    }

    async fn wish(&self) -> Option<Wish> {
        let mut wish = self.wish.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(Wish { source: Source::Local(options, name), .. }) = &mut wish {
            let folder = options.folder.clone();
            *name = tokio::task::spawn_blocking(move || embed::name_of(&folder)).await.unwrap_or_default();
        }
        wish
    }
}

/// Keeps the library's vectors. Ends with `ending`.
pub(crate) async fn work(
    room: Arc<MeaningRoom>,
    library: Arc<Library>,
    http: reqwest::Client,
    bus: Bus,
    ending: CancellationToken,
) {
    let mut events = bus.listen();
    let mut at_hand: Option<(Wish, Arc<proxy::Meaning>)> = None;
    loop {
        let wish = room.wish().await;
        if at_hand.as_ref().map(|(known, _)| known) != wish.as_ref() {
            at_hand = wish.map(|wish| {
                let embedder: Arc<dyn Embedder> = match &wish.source {
                    Source::Local(options, _) => Arc::new(Local::new(options.clone())),
                    Source::Remote { base, key, model } => Arc::new(Remote::new(
                        http.clone(),
                        RemoteOptions { base: base.clone(), key: key.clone(), model: model.clone() },
                    )),
                };
                let meaning = Arc::new(proxy::Meaning::new(embedder, wish.skills_by, wish.memories, wish.patience));
                (wish, meaning)
            });
            room.meaning.store(None);
            room.ready.notify_one();
        }
        let Some((wish, meaning)) = &at_hand else {
            room.state.store(Arc::default());
            tokio::select! {
                () = ending.cancelled() => return,
                () = room.wake.notified() => continue,
            }
        };
        let made = tokio::select! {
            () = ending.cancelled() => return,
            // Other settings count at once, whatever the model is at.
            () = room.wake.notified() => continue,
            made = make(&room, &library, meaning) => made.map_err(|why| missing(wish).unwrap_or(why)),
        };
        let failed = made.is_err();
        match made {
            Ok(()) => {
                room.meaning.store(Some(Arc::clone(meaning)));
                room.ready.notify_one();
            }
            Err(why) => {
                let before = room.state.load();
                if before.reason.as_ref() != Some(&why) {
                    tracing::warn!("skills are found by their words alone: {why}");
                    bus.keep("meaning_off", json!({ "reason": why }));
                }
                room.state.store(Arc::new(ByMeaning { reason: Some(why), ..ByMeaning::clone(&before) }));
                room.meaning.store(None);
                room.ready.notify_one();
            }
        }
        loop {
            tokio::select! {
                () = ending.cancelled() => return,
                () = room.wake.notified() => break,
                () = moved(&mut events) => break,
                () = tokio::time::sleep(PATIENCE) => {
                    if failed || room.wish().await.as_ref() != Some(wish) {
                        break;
                    }
                }
            }
        }
    }
}

/// What to do about a model that is not here, where it can be fetched.
fn missing(wish: &Wish) -> Option<String> {
    let Source::Local(options, _) = &wish.source else { return None };
    let offer = models::offer(options.folder.file_name()?.to_str()?)?;
    let fetched = options.folder.join("config.json").exists();
    (!fetched).then(|| format!("the model {0} is not here; fetch it: metaclaw models fetch {0}", offer.id))
}

/// Resolves when the library has changed, or may have, or another model is here.
async fn moved(events: &mut broadcast::Receiver<Event>) {
    loop {
        match events.recv().await {
            Ok(event) if event.kind.starts_with("skill") || event.kind == "model_fetched" => return,
            Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            Ok(_) => {}
        }
    }
}

/// Makes the vectors that are missing.
async fn make(room: &MeaningRoom, library: &Library, meaning: &proxy::Meaning) -> Result<(), String> {
    if meaning.skills_by.is_none() {
        room.state.store(Arc::default());
        return Ok(());
    }
    let bank = library.snapshot();
    let name = meaning.embedder.name();
    let of = u32::try_from(bank.len()).unwrap_or(u32::MAX);
    room.state.store(Arc::new(ByMeaning { wanted: true, model: name.clone(), of, ..ByMeaning::default() }));
    let file = room.home.dir().join("cache").join(VECTORS);
    let mut kept = {
        let (file, name) = (file.clone(), name.clone());
        tokio::task::spawn_blocking(move || read(&file, &name)).await.unwrap_or_default()
    };
    let wanted: Vec<(u128, Texts)> = bank.skills().iter().map(|skill| (skill.content_hash, Texts::of(skill))).collect();
    let mut passages: Vec<&str> = Vec::new();
    let mut queries: Vec<&str> = background().collect();
    for (_, texts) in &wanted {
        passages.push(&texts.whole);
        queries.extend(texts.examples.iter().map(String::as_str));
    }
    // Of texts that are gone nothing is kept.
    let before = kept.len();
    let needed: HashSet<u128> = (passages.iter().map(|text| key(Side::Passage, text)))
        .chain(queries.iter().map(|text| key(Side::Query, text)))
        .collect();
    kept.retain(|key, _| needed.contains(key));
    let stale = before - kept.len();
    let before = kept.len();
    for (side, texts) in [(Side::Passage, passages), (Side::Query, queries)] {
        let mut missing: Vec<String> =
            texts.into_iter().filter(|text| !kept.contains_key(&key(side, text))).map(str::to_owned).collect();
        missing.sort_unstable();
        missing.dedup();
        for batch in missing.chunks(BATCH) {
            let embedded = tokio::time::timeout(BATCH_PATIENCE, meaning.embedder.embed(side, batch)).await;
            let vectors = embedded
                .map_err(|_| format!("the embedding model gave nothing for {} s", BATCH_PATIENCE.as_secs()))?
                .map_err(|error| sentence(&error))?;
            kept.extend(batch.iter().zip(vectors).map(|(text, vector)| (key(side, text), vector)));
        }
    }
    let get = |side, text: &str| kept.get(&key(side, text)).cloned();
    let everyday: Vec<Vector> = background().filter_map(|text| get(Side::Query, text)).collect();
    let mut vectors = HashMap::with_capacity(wanted.len());
    for (hash, texts) in &wanted {
        if let Some(whole) = get(Side::Passage, &texts.whole) {
            let examples = texts.examples.iter().filter_map(|text| get(Side::Query, text)).collect();
            vectors.insert(*hash, skills::Meaning { whole, examples });
        }
    }
    let meanings = tokio::task::spawn_blocking(move || Meanings::new(everyday, vectors)).await;
    let meanings = meanings.map_err(|_| "the vectors of skills could not be compared".to_owned())?;
    let ready = u32::try_from(meanings.len()).unwrap_or(u32::MAX);
    meaning.skills.store(Arc::new(meanings));
    let now = ByMeaning { wanted: true, on: true, model: name.clone(), ready, of, ..ByMeaning::default() };
    room.state.store(Arc::new(now));
    if stale > 0 || kept.len() != before {
        let written = tokio::task::spawn_blocking(move || write(&file, &name, &kept)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "the vectors of skills are not kept for the next start");
        }
    }
    Ok(())
}

fn key(side: Side, text: &str) -> u128 {
    xxhash_rust::xxh3::xxh3_128_with_seed(text.as_bytes(), u64::from(side == Side::Passage))
}

/// What was kept for this model; nothing of another one, and nothing that cannot be read.
fn read(file: &Path, name: &str) -> HashMap<u128, Vector> {
    let mut kept = HashMap::new();
    let Ok(bytes) = std::fs::read(file) else { return kept };
    let head = format!("{FORM}\n{name}\n");
    let Some(mut rest) = bytes.strip_prefix(head.as_bytes()) else { return kept };
    while let Some((key, after)) = rest.split_first_chunk::<16>() {
        let Some((length, after)) = after.split_first_chunk::<4>() else { break };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some((packed, after)) = after.split_at_checked(length) else { break };
        if let Some(vector) = Vector::unpacked(packed) {
            kept.insert(u128::from_le_bytes(*key), vector);
        }
        rest = after;
    }
    kept
}

fn write(file: &Path, name: &str, kept: &HashMap<u128, Vector>) -> std::io::Result<()> {
    let mut bytes = format!("{FORM}\n{name}\n").into_bytes();
    for (key, vector) in kept {
        let packed = vector.packed();
        bytes.extend(key.to_le_bytes());
        bytes.extend(u32::try_from(packed.len()).unwrap_or_default().to_le_bytes());
        bytes.extend(packed);
    }
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let new = file.with_file_name(NEW_VECTORS);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&new)?.write_all(&bytes)?;
    std::fs::rename(new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_kept_for_their_model_and_damage_is_no_trouble() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cache").join("skill-vectors");
        assert!(read(&file, "m").is_empty());
        let kept: HashMap<u128, Vector> =
            (0..5u128).map(|n| (n << 100, Vector::of(vec![n as f32, 1.0, -2.0]))).collect();
        write(&file, "m", &kept).unwrap();
        let again = read(&file, "m");
        assert_eq!(again.len(), 5);
        for (key, vector) in &kept {
            assert!(embed::dot(vector, &again[key]) > 0.999);
        }
        assert!(read(&file, "another").is_empty());
        let whole = std::fs::read(&file).unwrap();
        for end in 0..whole.len() {
            std::fs::write(&file, &whole[..end]).unwrap();
            assert!(read(&file, "m").len() <= 5);
        }
    }
}
