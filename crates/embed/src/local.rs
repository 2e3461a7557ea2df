//! A model of this machine on a thread of its own: read by the first text, gone again after a while without any. Queries
//! go before passages, so that the many texts of a background job never make a turn wait for more than one of them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lru::LruCache;
use tokio::sync::oneshot;
use xxhash_rust::xxh3::{Xxh3, xxh3_128_with_seed};

use crate::bert::Bert;
use crate::{Embedder, Error, Side, Vector};

/// Vectors kept for texts that are asked about again.
const KEPT: NonZeroUsize = NonZeroUsize::new(512).unwrap();

/// What is run, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalOptions {
    /// With `config.json`, `tokenizer.json` and `model.safetensors`, as on the Hugging Face hub.
    pub folder: PathBuf,
    /// Threads that compute; 0 = as many as the machine has, at most four.
    pub threads: usize,
    /// Without a text for so long, the model leaves memory.
    pub idle: Duration,
}

/// The model as others see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// It is in memory.
    pub loaded: bool,
    /// Texts that wait.
    pub waiting: usize,
    /// Why it could not be read the last time, if so.
    pub failed: Option<String>,
}

/// See the module. Cheap to clone; the thread ends with the last clone, or with [`Local::close`].
#[derive(Clone)]
pub struct Local(Arc<Inner>);

struct Inner {
    name: String,
    options: LocalOptions,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    queries: VecDeque<Job>,
    passages: VecDeque<Job>,
    kept: LruCache<u128, Vector>,
    running: bool,
    loaded: bool,
    closed: bool,
    failed: Option<String>,
}

struct Job {
    side: Side,
    text: String,
    key: u128,
    answer: oneshot::Sender<Result<Vector, Error>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        close(&self.shared);
    }
}

fn close(shared: &Shared) {
    let mut state = shared.state();
    state.closed = true;
    state.queries.clear();
    state.passages.clear();
    shared.work.notify_all();
}

impl Local {
    /// A model that nobody has asked for yet. Of its files some parts are read, to name it.
    pub fn new(options: LocalOptions) -> Self {
        let state = State {
            queries: VecDeque::new(),
            passages: VecDeque::new(),
            kept: LruCache::new(KEPT),
            running: false,
            loaded: false,
            closed: false,
            failed: None,
        };
        Self(Arc::new(Inner {
            name: name_of(&options.folder),
            options,
            shared: Arc::new(Shared { state: Mutex::new(state), work: Condvar::new() }),
        }))
    }

    /// What it does now.
    pub fn look(&self) -> Look {
        let state = self.0.shared.state();
        Look { loaded: state.loaded, waiting: state.queries.len() + state.passages.len(), failed: state.failed.clone() }
    }

    /// Ends the work after the text at hand; whoever waits is told.
    pub fn close(&self) {
        close(&self.0.shared);
    }

    fn ask(&self, side: Side, text: &str) -> Result<Asked, Error> {
        let shared = &self.0.shared;
        let key = xxh3_128_with_seed(text.as_bytes(), u64::from(side == Side::Passage));
        let mut state = shared.state();
        if state.closed {
            return Err(Error::Closed);
        }
        if let Some(vector) = state.kept.get(&key) {
            return Ok(Asked::Known(vector.clone()));
        }
        let (answer, coming) = oneshot::channel();
        let job = Job { side, text: text.to_owned(), key, answer };
        match side {
            Side::Query => state.queries.push_back(job),
            Side::Passage => state.passages.push_back(job),
        }
        if !state.running {
            let (shared, options) = (Arc::clone(shared), self.0.options.clone());
            let spawned = std::thread::Builder::new().name("embed".to_owned()).spawn(move || run(&shared, &options));
            spawned.map_err(|error| Error::Model {
                file: self.0.options.folder.clone(),
                what: format!("no thread for it: {error}"),
            })?;
            state.running = true;
        }
        shared.work.notify_one();
        Ok(Asked::Coming(coming))
    }
}

enum Asked {
    Known(Vector),
    Coming(oneshot::Receiver<Result<Vector, Error>>),
}

#[async_trait]
impl Embedder for Local {
    fn name(&self) -> String {
        self.0.name.clone()
    }

    async fn embed(&self, side: Side, texts: &[String]) -> Result<Vec<Vector>, Error> {
        let asked = texts.iter().map(|text| self.ask(side, text)).collect::<Result<Vec<_>, _>>()?;
        let mut vectors = Vec::with_capacity(asked.len());
        for asked in asked {
            vectors.push(match asked {
                Asked::Known(vector) => vector,
                Asked::Coming(coming) => coming.await.map_err(|_| Error::Closed)??,
            });
        }
        Ok(vectors)
    }
}

/// Names the model of a folder by what its files hold, so that one that was exchanged is another: from parts of them, since
/// they are large.
pub fn name_of(folder: &Path) -> String {
    let mut hash = Xxh3::new();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        // What cannot be read counts as empty: the model cannot be read then either.
        let _ = sample(&folder.join(name), &mut hash);
    }
    let folder = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{folder}@{:016x}", hash.digest())
}

fn sample(file: &Path, hash: &mut Xxh3) -> std::io::Result<()> {
    const PARTS: u64 = 64;
    let mut file = File::open(file)?;
    let length = file.metadata()?.len();
    hash.update(&length.to_le_bytes());
    let mut part = Vec::with_capacity(1 << 12);
    for number in 0..PARTS {
        part.clear();
        file.seek(SeekFrom::Start(length / PARTS * number))?;
        file.by_ref().take(1 << 12).read_to_end(&mut part)?;
        hash.update(&part);
    }
    Ok(())
}

/// Lets go of what waits if the thread breaks off: whoever waits is told, and the next text starts another one.
struct Breaking<'a>(&'a Shared);

impl Drop for Breaking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.state();
            (state.running, state.loaded) = (false, false);
            state.failed = Some("the embedding model broke off".to_owned());
            state.queries.clear();
            state.passages.clear();
            tracing::error!("the embedding model broke off; it is read again by the next text");
        }
    }
}

/// The thread: ends when it is closed, or when nothing came for a while.
fn run(shared: &Shared, options: &LocalOptions) {
    let _breaking = Breaking(shared);
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(4),
        threads => threads,
    };
    let mut model: Option<Bert> = None;
    while let Some(job) = next(shared, options.idle) {
        // Nobody waits for it any more.
        if job.answer.is_closed() {
            continue;
        }
        if model.is_none() {
            match Bert::open(&options.folder, threads) {
                Ok(read) => {
                    model = Some(read);
                    let mut state = shared.state();
                    (state.loaded, state.failed) = (true, None);
                }
                Err(error) => {
                    tracing::warn!(%error, "the embedding model cannot be read");
                    shared.state().failed = Some(error.to_string());
                    let _ = job.answer.send(Err(error));
                    continue;
                }
            }
        }
        let Some(model) = model.as_mut() else { continue };
        let found = model.embed(job.side, &job.text);
        if let Ok(vector) = &found {
            shared.state().kept.put(job.key, vector.clone());
        }
        // Whoever asked may have gone meanwhile.
        let _ = job.answer.send(found);
    }
}

/// The next text; queries first. `None` = the thread is to end, and others know that it has.
fn next(shared: &Shared, idle: Duration) -> Option<Job> {
    let mut state = shared.state();
    loop {
        if state.closed {
            (state.running, state.loaded) = (false, false);
            return None;
        }
        if let Some(job) = state.queries.pop_front().or_else(|| state.passages.pop_front()) {
            return Some(job);
        }
        let (again, waited) = shared.work.wait_timeout(state, idle).unwrap_or_else(PoisonError::into_inner);
        state = again;
        if waited.timed_out() && state.queries.is_empty() && state.passages.is_empty() {
            (state.running, state.loaded) = (false, false);
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(side: Side) -> (Job, oneshot::Receiver<Result<Vector, Error>>) {
        let (answer, coming) = oneshot::channel();
        (Job { side, text: "x".to_owned(), key: 1, answer }, coming)
    }

    #[test]
    fn a_thread_that_breaks_off_tells_who_waits_and_makes_room_for_another() {
        let folder = tempfile::tempdir().unwrap();
        let local = Local::new(LocalOptions { folder: folder.path().into(), threads: 1, idle: Duration::from_secs(9) });
        let shared = Arc::clone(&local.0.shared);
        let (query, waiting) = job(Side::Query);
        {
            let mut state = shared.state();
            (state.running, state.loaded) = (true, true);
            state.queries.push_back(query);
        }
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                let _breaking = Breaking(&shared);
                panic!("as a fault in the arithmetic would");
            })
        };
        thread.join().unwrap_err();
        assert!(waiting.blocking_recv().is_err(), "whoever waits is told");
        let look = local.look();
        assert!(!look.loaded && look.waiting == 0 && look.failed.is_some(), "{look:?}");
        assert!(!shared.state().running, "the next text starts another thread");
    }

    #[test]
    fn a_model_that_was_exchanged_has_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.safetensors");
        let absent = name_of(folder.path());
        std::fs::write(&file, vec![7; 100_000]).unwrap();
        let one = name_of(folder.path());
        std::fs::write(&file, vec![8; 100_000]).unwrap();
        let other = name_of(folder.path());
        assert!(absent != one && one != other);
        let copy = folder.path().join("copy");
        std::fs::create_dir(&copy).unwrap();
        std::fs::copy(&file, copy.join("model.safetensors")).unwrap();
        assert_eq!(name_of(&copy).split('@').next_back(), other.split('@').next_back());
    }
}
