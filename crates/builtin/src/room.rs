//! The room in which the model lives: loaded by the first request, one request after the other on a thread of its own,
//! gone again after a while without any. Requests come in as bodies of Chat Completions and leave as such.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use tokio::sync::{mpsc as channel, oneshot};
use tokio::time::Instant;

use crate::chat::{Refusal, Wire, Wishes};
use crate::model::{Front, Prompt, Running, Stamp, Step, load};
use crate::reply::Teller;

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
}

/// The world outside, handed in.
pub trait Outside: Send + Sync + 'static {
    /// Seconds since 1970.
    fn now_s(&self) -> i64;
    /// A random number.
    fn random(&self) -> u64;
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

struct Inner {
    outside: Box<dyn Outside>,
    state: Mutex<State>,
    /// Requests in the room, the one that is answered included.
    present: AtomicUsize,
    closing: AtomicBool,
    told_of_tools: AtomicBool,
}

#[derive(Default)]
struct State {
    settings: Settings,
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
    front: Option<Arc<Front>>,
    phase: Phase,
    speed: Option<f64>,
}

struct Job {
    file: PathBuf,
    wire: Wire,
    wishes: Wishes,
    /// Already read, if the model was here.
    prompt: Option<(Arc<Front>, Prompt)>,
    accepted: Option<oneshot::Sender<Result<(), Refusal>>>,
    steps: channel::UnboundedSender<Step>,
    came: Instant,
    _ticket: Ticket,
}

/// A place in the room.
struct Ticket(Arc<Inner>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.present.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
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
                present: AtomicUsize::new(0),
                closing: AtomicBool::new(false),
                told_of_tools: AtomicBool::new(false),
            }),
        }
    }

    /// Settings for what comes; a model that is loaded keeps its context and threads until it is loaded again.
    pub fn configure(&self, settings: Settings) {
        self.inner.state().settings = settings;
    }

    /// What goes on.
    #[must_use]
    pub fn look(&self) -> Look {
        let present = self.inner.present.load(Ordering::Relaxed);
        let state = self.inner.state();
        Look {
            phase: state.phase,
            file: state.front.as_ref().map(|front| front.stamp.file.clone()),
            waiting: present.saturating_sub(usize::from(matches!(state.phase, Phase::Busy | Phase::Loading))),
            speed: state.speed,
        }
    }

    /// Answers a request with the model in `file`, which is called `name`. Resolves when the request is accepted: read,
    /// found to fit, and in the queue.
    ///
    /// # Errors
    /// Why it is not answered, in the form of an HTTP error.
    pub async fn chat(&self, file: &Path, name: &str, body: &[u8], stream: bool) -> Result<Answer, Refusal> {
        let wire = Wire::read(body)?;
        let wishes = wire.wishes(stream, self.inner.outside.random());
        let ticket = self.ticket()?;
        if self.inner.is_closing() {
            return Err(closing());
        }
        let prompt = self.prompt(file, &wire, &wishes).await?;
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
        self.hand_in(Job { file, wire, wishes, prompt, accepted, steps, came, _ticket: ticket })?;
        if !known {
            acceptance.await.map_err(|_| broken())??;
        }
        Ok(Answer { stream, body: told(teller, heard) })
    }

    fn ticket(&self) -> Result<Ticket, Refusal> {
        let before = self.inner.present.fetch_add(1, Ordering::Relaxed);
        let ticket = Ticket(self.inner.clone());
        if before > LONGEST_QUEUE {
            return Err(Refusal {
                status: 429,
                code: "queue_full",
                message: format!("The built-in model answers one request at a time, and {LONGEST_QUEUE} wait already."),
            });
        }
        Ok(ticket)
    }

    /// Reads the request now if the model is here: it may have to wait long for its turn, and should not wait in vain.
    async fn prompt(&self, file: &Path, wire: &Wire, wishes: &Wishes) -> Result<Option<(Arc<Front>, Prompt)>, Refusal> {
        let front = self.inner.state().front.clone();
        let stamp = Stamp::of(file).ok();
        let Some(front) = front.filter(|front| Some(&front.stamp) == stamp.as_ref()) else { return Ok(None) };
        // Some milliseconds at the most, and others want the thread.
        tokio::task::yield_now().await;
        let prompt = front.prompt(wire, wishes)?;
        Ok(Some((front, prompt)))
    }

    fn hand_in(&self, job: Job) -> Result<(), Refusal> {
        let mut state = self.inner.state();
        let job = match &state.jobs {
            Some(jobs) => match jobs.send(job) {
                Ok(()) => return Ok(()),
                Err(mpsc::SendError(job)) => job,
            },
            None => job,
        };
        let (jobs, inbox) = mpsc::channel();
        let inner = self.inner.clone();
        let thread = std::thread::Builder::new().name("metaclaw-model".to_owned()).spawn(move || work(&inner, &inbox));
        state.thread = Some(thread.map_err(|error| Refusal {
            status: 503,
            code: "unavailable",
            message: format!("The built-in model got no thread to run on: {error}."),
        })?);
        let sent = jobs.send(job);
        state.jobs = Some(jobs);
        sent.map_err(|_| broken())
    }

    /// Lets the model leave memory as soon as nobody waits for it.
    pub fn leave(&self) {
        self.inner.state().jobs = None;
    }

    /// Ends what is being answered and waits for the thread. Blocks for a moment.
    pub fn close(&self) {
        self.inner.closing.store(true, Ordering::Relaxed);
        let thread = {
            let mut state = self.inner.state();
            state.jobs = None;
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
                None => return Some((Err("the built-in model was stopped".to_owned()), None)),
            }
        }
    })
    .boxed()
}

/// Puts things in order whatever ends the thread.
struct Leaving<'a>(&'a Inner);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        (state.front, state.phase) = (None, Phase::Away);
    }
}

fn work(inner: &Inner, inbox: &Receiver<Job>) {
    let _leaving = Leaving(inner);
    let mut here: Option<(Running, Arc<Front>, rayon::ThreadPool)> = None;
    loop {
        let idle = inner.state().settings.idle;
        let job = match inbox.recv_timeout(idle) {
            Ok(job) => job,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                // The model goes first, so that "away" means that its memory is free.
                here = None;
                let mut state = inner.state();
                match inbox.try_recv() {
                    Ok(job) => {
                        drop(state);
                        job
                    }
                    Err(_) => {
                        state.jobs = None;
                        tracing::debug!("the built-in model left memory");
                        return;
                    }
                }
            }
        };
        one(inner, job, &mut here);
        inner.state().phase = if here.is_some() { Phase::Idle } else { Phase::Away };
    }
}

fn one(inner: &Inner, mut job: Job, here: &mut Option<(Running, Arc<Front>, rayon::ThreadPool)>) {
    let ended = || job.steps.is_closed() || inner.is_closing();
    if ended() {
        return;
    }
    let mut refuse = |refusal: Refusal| match job.accepted.take() {
        Some(accepted) => drop(accepted.send(Err(refusal))),
        None => tracing::warn!(error = %refusal, "the built-in model cannot answer"),
    };
    if let Err(refusal) = fetch(inner, &job.file, here) {
        return refuse(refusal);
    }
    let Some((running, front, pool)) = here else { return };
    let prompt = match job.prompt.take() {
        // Read with this very model.
        Some((read_with, prompt)) if Arc::ptr_eq(&read_with, front) => prompt,
        _ => match front.prompt(&job.wire, &job.wishes) {
            Ok(prompt) => prompt,
            Err(refusal) => return refuse(refusal),
        },
    };
    if let Some(accepted) = job.accepted.take() {
        let _ = accepted.send(Ok(()));
    }
    if job.wire.has_tools() && !front.template.takes_tools && !inner.told_of_tools.swap(true, Ordering::Relaxed) {
        tracing::warn!("the built-in model's template knows no tools; those of the agent are left out");
    }
    inner.state().phase = Phase::Busy;
    let queued_ms = job.came.elapsed().as_secs_f64() * 1000.0;
    let mut speed = None;
    pool.install(|| {
        running.answer(front, &prompt, &job.wishes, queued_ms, &ended, &mut |step| {
            if let Step::Over(_, figures) = &step
                && figures.said_ms > 0.0
            {
                speed = Some(figures.said as f64 * 1000.0 / figures.said_ms);
            }
            // Nobody listens any more: `ended` says so before the next token.
            let _ = job.steps.send(step);
        });
    });
    if speed.is_some() {
        inner.state().speed = speed;
    }
}

/// Has the model of a file here.
fn fetch(
    inner: &Inner,
    file: &Path,
    here: &mut Option<(Running, Arc<Front>, rayon::ThreadPool)>,
) -> Result<(), Refusal> {
    let unusable = |message: String| Refusal { status: 503, code: "model_unusable", message };
    let stamp = Stamp::of(file).map_err(|fault| unusable(format!("{fault}.")))?;
    if here.as_ref().is_some_and(|(_, front, _)| front.stamp == stamp) {
        return Ok(());
    }
    let settings = {
        let mut state = inner.state();
        (state.front, state.phase) = (None, Phase::Loading);
        state.settings
    };
    // The one before makes room first.
    *here = None;
    let begun = Instant::now();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads(settings.threads))
        .thread_name(|nth| format!("metaclaw-model-{nth}"))
        .build()
        .map_err(|error| unusable(format!("The built-in model got no threads: {error}.")))?;
    let (running, front) = pool
        .install(|| load(stamp, settings.context))
        .map_err(|fault| unusable(format!("The built-in model in {fault}.")))?;
    tracing::info!(file = %file.display(), took_ms = begun.elapsed().as_millis() as u64, "the built-in model is loaded");
    let front = Arc::new(front);
    inner.state().front = Some(front.clone());
    *here = Some((running, front, pool));
    Ok(())
}

/// As many as the machine has, half of them where there are many: two of those often share one core.
fn threads(wanted: usize) -> usize {
    if wanted > 0 {
        return wanted.min(64);
    }
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    if all <= 4 { all } else { (all / 2).min(8) }
}
