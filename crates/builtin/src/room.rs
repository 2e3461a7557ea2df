//! The room in which the model lives: loaded by the first request, one request after the other on a thread of its own,
//! gone again after a while without any. Requests come in as bodies of Chat Completions and leave as such.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use tokio::sync::{Semaphore, mpsc as channel, oneshot};
use tokio::time::Instant;

use crate::chat::{Refusal, Wire, Wishes};
use crate::model::{Front, Prompt, Stamp, Step};
use crate::reply::Teller;
use crate::work::work;

/// Requests that may wait.
const LONGEST_QUEUE: usize = 32;

/// How the model is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Threads that compute; 0 = chosen by the machine.
    pub threads: usize,
    /// Longest conversation with its answer, in tokens; 0 = what the model was trained for.
    pub context: usize,
    /// Without a request for so long, the model leaves memory.
    pub idle: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { threads: 0, context: 4096, idle: Duration::from_secs(600) }
    }
}

/// What the model is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// It is not in memory.
    #[default]
    Away,
    /// It is being read from disk.
    Loading,
    /// It waits for a request.
    Idle,
    /// It answers.
    Busy,
}

/// The room as others see it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Look {
    /// What the model is doing.
    pub phase: Phase,
    /// The file it was read from.
    pub file: Option<PathBuf>,
    /// Requests that wait behind the one that is answered.
    pub waiting: usize,
    /// Tokens per second of the last answer.
    pub speed: Option<f64>,
    /// Runs through the network so far: one for a token that is said, and for each piece of a prompt.
    pub runs: u64,
}

/// The world outside, handed in.
pub trait Outside: Send + Sync + 'static {
    /// Seconds since 1970.
    fn now_s(&self) -> i64;
    /// A random number.
    fn random(&self) -> u64;
    /// The program that renders templates of strangers in a process of its own; see [`crate::renderer`]. `None`: it is done
    /// in this process, which such a template can end.
    fn renderer(&self) -> Option<PathBuf> {
        None
    }
}

/// An answer that has begun: the body's bytes. Dropping it ends the work within one token.
pub struct Answer {
    /// Server-sent events rather than one JSON body.
    pub stream: bool,
    /// The body. An error says why it broke off.
    pub body: BoxStream<'static, Result<Bytes, String>>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Room {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    outside: Box<dyn Outside>,
    state: Mutex<State>,
    /// Rung when the model's thread has something to look at.
    pub(crate) bell: Condvar,
    /// Lets one request at a time be read.
    reader: Arc<Semaphore>,
    /// Requests that are read or wait to be.
    reading: AtomicUsize,
    pub(crate) runs: AtomicU64,
    closing: AtomicBool,
    pub(crate) told_of_tools: AtomicBool,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) queue: VecDeque<Job>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// There is a thread that takes what is in the queue.
    pub(crate) works: bool,
    /// The model is to go as soon as nobody waits.
    pub(crate) leaves: bool,
    pub(crate) front: Option<Arc<Front>>,
    pub(crate) phase: Phase,
    pub(crate) speed: Option<f64>,
}

impl State {
    /// Requests that wait and that somebody still waits for; the others go.
    fn waiting(&mut self) -> usize {
        self.queue.retain(|job| !job.steps.is_closed());
        self.queue.len()
    }
}

pub(crate) struct Job {
    pub(crate) file: PathBuf,
    pub(crate) wire: Wire,
    pub(crate) wishes: Wishes,
    /// Already read, if the model was here.
    pub(crate) prompt: Option<(Arc<Front>, Prompt)>,
    pub(crate) accepted: Option<oneshot::Sender<Result<(), Refusal>>>,
    /// Closed when nobody waits for the answer any more.
    pub(crate) steps: channel::UnboundedSender<Step>,
    pub(crate) came: Instant,
}

/// What a request says.
type Asked = (Wire, Wishes, Option<(Arc<Front>, Prompt)>);

/// A place among those that are read.
struct Place(Arc<Inner>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.reading.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells those who work for a caller that he is gone.
struct Caller(Arc<AtomicBool>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Inner {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    pub(crate) fn renderer(&self) -> Option<PathBuf> {
        self.outside.renderer()
    }

    /// Reads a request, with the model's own words if the model is here: it may have to wait long for its turn, and should
    /// not wait in vain.
    fn read(
        &self,
        file: &Path,
        body: &[u8],
        (stream, seed): (bool, u64),
        ended: &dyn Fn() -> bool,
    ) -> Result<Asked, Refusal> {
        let wire = Wire::read(body)?;
        let wishes = wire.wishes(stream, seed);
        let (front, context) = {
            let state = self.state();
            (state.front.clone(), state.settings.context)
        };
        let stamp = Stamp::of(file).ok();
        let prompt = match front.filter(|front| Some(&front.stamp) == stamp.as_ref()) {
            Some(front) => {
                let prompt = front.prompt(&wire, &wishes, context, ended)?;
                Some((front, prompt))
            }
            None => None,
        };
        Ok((wire, wishes, prompt))
    }
}

impl Room {
    /// An empty room.
    #[must_use]
    pub fn new(outside: impl Outside) -> Self {
        Self {
            inner: Arc::new(Inner {
                outside: Box::new(outside),
                state: Mutex::default(),
                bell: Condvar::new(),
                reader: Arc::new(Semaphore::new(1)),
                reading: AtomicUsize::new(0),
                runs: AtomicU64::new(0),
                closing: AtomicBool::new(false),
                told_of_tools: AtomicBool::new(false),
            }),
        }
    }

    /// Settings for what comes. The threads of a model that is loaded stay as they are until it is loaded again.
    pub fn configure(&self, settings: Settings) {
        self.inner.state().settings = settings;
        self.inner.bell.notify_all();
    }

    /// What goes on.
    #[must_use]
    pub fn look(&self) -> Look {
        let reading = self.inner.reading.load(Ordering::Relaxed);
        let mut state = self.inner.state();
        Look {
            phase: state.phase,
            file: state.front.as_ref().map(|front| front.stamp.file.clone()),
            waiting: reading + state.waiting(),
            speed: state.speed,
            runs: self.inner.runs.load(Ordering::Relaxed),
        }
    }

    /// Answers a request with the model in `file`, which is called `name`. Resolves when the request is accepted: read,
    /// found to fit, and in the queue. Needs a Tokio runtime, for what would hold up its threads.
    ///
    /// # Errors
    /// Why it is not answered, in the form of an HTTP error.
    pub async fn chat(&self, file: &Path, name: &str, body: &Bytes, stream: bool) -> Result<Answer, Refusal> {
        let place = self.place()?;
        let (wire, wishes, prompt) = self.read(file, body, stream).await?;
        let (accepted, acceptance) = oneshot::channel();
        let (steps, heard) = channel::unbounded_channel();
        let mut teller = Teller::new(
            format!("chatcmpl-{:016x}", self.inner.outside.random()),
            name.to_owned(),
            self.inner.outside.now_s(),
        );
        (teller.stream, teller.usage, teller.logprobs) = (wishes.stream, wishes.usage, wishes.logprobs.is_some());
        let known = prompt.is_some();
        let stream = wishes.stream;
        let file = file.to_path_buf();
        let accepted = (!known).then_some(accepted);
        let came = Instant::now();
        self.hand_in(Job { file, wire, wishes, prompt, accepted, steps, came })?;
        drop(place);
        if !known {
            let ended = |_| if self.inner.is_closing() { closing() } else { broken() };
            acceptance.await.map_err(ended)??;
        }
        Ok(Answer { stream, body: told(teller, heard) })
    }

    fn place(&self) -> Result<Place, Refusal> {
        let before = self.inner.reading.fetch_add(1, Ordering::Relaxed);
        let place = Place(self.inner.clone());
        if before + self.inner.state().waiting() >= LONGEST_QUEUE {
            return Err(Refusal {
                status: 429,
                code: "queue_full",
                message: format!("The built-in model answers one request at a time, and {LONGEST_QUEUE} wait already."),
            });
        }
        Ok(place)
    }

    /// Reads a request on a thread where that may take its time, one at a time, and only while its caller waits.
    async fn read(&self, file: &Path, body: &Bytes, stream: bool) -> Result<Asked, Refusal> {
        let turn = self.inner.reader.clone().acquire_owned().await.map_err(|_| closing())?;
        if self.inner.is_closing() {
            return Err(closing());
        }
        let gone = Arc::new(AtomicBool::new(false));
        let _caller = Caller(gone.clone());
        let (inner, file, body) = (self.inner.clone(), file.to_path_buf(), body.clone());
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let ended = || gone.load(Ordering::Relaxed) || inner.is_closing();
            inner.read(&file, &body, (stream, inner.outside.random()), &ended)
        });
        work.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request to the built-in model could not be read");
            Err(broken())
        })
    }

    fn hand_in(&self, job: Job) -> Result<(), Refusal> {
        let mut state = self.inner.state();
        if self.inner.is_closing() {
            return Err(closing());
        }
        state.queue.push_back(job);
        if state.works {
            self.inner.bell.notify_all();
            return Ok(());
        }
        let inner = self.inner.clone();
        let thread = std::thread::Builder::new().name("metaclaw-model".to_owned()).spawn(move || work(&inner));
        match thread {
            Ok(thread) => (state.thread, state.works) = (Some(thread), true),
            Err(error) => {
                state.queue.pop_back();
                return Err(Refusal {
                    status: 503,
                    code: "unavailable",
                    message: format!("The built-in model got no thread to run on: {error}."),
                });
            }
        }
        Ok(())
    }

    /// Lets the model leave memory as soon as nobody waits for it.
    pub fn leave(&self) {
        let mut state = self.inner.state();
        state.leaves = state.works;
        self.inner.bell.notify_all();
    }

    /// Ends what is being answered and waits for the thread. Blocks for a moment.
    pub fn close(&self) {
        self.inner.closing.store(true, Ordering::Relaxed);
        let thread = {
            let mut state = self.inner.state();
            self.inner.bell.notify_all();
            state.thread.take()
        };
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Room").field("look", &self.look()).finish()
    }
}

fn closing() -> Refusal {
    Refusal { status: 503, code: "stopping", message: "MetaClaw is stopping.".to_owned() }
}

fn broken() -> Refusal {
    Refusal {
        status: 500,
        code: "internal",
        message: "The built-in model's thread ended; see metaclaw logs.".to_owned(),
    }
}

/// The body of an answer.
fn told(teller: Teller, heard: channel::UnboundedReceiver<Step>) -> BoxStream<'static, Result<Bytes, String>> {
    stream::unfold(Some((teller, heard)), |state| async move {
        let (mut teller, mut heard) = state?;
        loop {
            match heard.recv().await {
                Some(Step::Said(said, likelihoods)) => {
                    let bytes = teller.say(said, &likelihoods);
                    if !bytes.is_empty() {
                        return Some((Ok(bytes), Some((teller, heard))));
                    }
                }
                Some(Step::Over(end, figures)) => return Some((Ok(teller.end(end, &figures)), None)),
                Some(Step::Failed(reason)) => return Some((Err(reason), None)),
                None => return Some((Err("the built-in model was stopped".to_owned()), None)),
            }
        }
    })
    .boxed()
}
