//! The model's own thread: takes one request after the other out of the room's queue, has the right model in memory for it,
//! and lets go of everything after a while without any.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tokio::time::Instant;

use crate::chat::Refusal;
use crate::model::{Front, Running, Stamp, Step, load};
use crate::room::{Inner, Job, Phase};

/// The model that is in memory, and the threads that it computes on.
type Here = Option<(Running, Arc<Front>, rayon::ThreadPool)>;

/// Puts things in order if the thread ends in another way than it should.
struct Leaving<'a> {
    inner: &'a Inner,
    done: bool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.done {
            let mut state = self.inner.state();
            (state.front, state.phase, state.works, state.leaves) = (None, Phase::Away, false, false);
            state.queue.clear();
        }
    }
}

/// Works until nobody has come for a while, or the room is closed.
pub(crate) fn work(inner: &Inner) {
    let mut leaving = Leaving { inner, done: false };
    let mut here: Here = None;
    loop {
        if let Some(mut job) = next(inner) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| one(inner, &mut job, &mut here))) {
                // Whatever state the model is in, it is not used again.
                here = None;
                inner.state().front = None;
                let what = said(panic.as_ref());
                tracing::error!(file = %job.file.display(), panic = what, "the built-in model failed");
                let refusal = unusable(format!("The built-in model in {} failed: {what}.", job.file.display()));
                refuse(&mut job, refusal);
            }
            inner.state().phase = if here.is_some() { Phase::Idle } else { Phase::Away };
            continue;
        }
        // The model goes first, so that "away" means that its memory is free.
        here = None;
        let mut state = inner.state();
        if inner.is_closing() {
            state.queue.clear();
        }
        // From here on a request begins another thread, so nothing is done behind this lock.
        if state.queue.is_empty() {
            (state.front, state.phase, state.works, state.leaves) = (None, Phase::Away, false, false);
            leaving.done = true;
            tracing::debug!("the built-in model left memory");
            return;
        }
    }
}

/// The next request that somebody waits for. `None`: nobody came for as long as the model may stay.
fn next(inner: &Inner) -> Option<Job> {
    let since = Instant::now();
    let mut state = inner.state();
    loop {
        if inner.is_closing() {
            return None;
        }
        while let Some(job) = state.queue.pop_front() {
            if !job.steps.is_closed() {
                return Some(job);
            }
        }
        // Settings may have changed while it waited.
        let left = state.settings.idle.saturating_sub(since.elapsed());
        if state.leaves || left.is_zero() {
            return None;
        }
        state = inner.bell.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for a reason that was not told")
}

fn unusable(message: String) -> Refusal {
    Refusal { status: 503, code: "model_unusable", message }
}

fn refuse(job: &mut Job, refusal: Refusal) {
    match job.accepted.take() {
        Some(accepted) => drop(accepted.send(Err(refusal))),
        None => {
            tracing::warn!(error = %refusal, "the built-in model cannot answer");
            let _ = job.steps.send(Step::Failed(refusal.message));
        }
    }
}

fn one(inner: &Inner, job: &mut Job, here: &mut Here) {
    let steps = job.steps.clone();
    let ended = || steps.is_closed() || inner.is_closing();
    if let Err(refusal) = fetch(inner, &job.file, here) {
        return refuse(job, refusal);
    }
    let Some((running, front, pool)) = here else { return };
    let prompt = match job.prompt.take() {
        // Read with this very model.
        Some((read_with, prompt)) if Arc::ptr_eq(&read_with, front) => prompt,
        _ => {
            let context = inner.state().settings.context;
            match front.prompt(&job.wire, &job.wishes, context, &ended) {
                Ok(prompt) => prompt,
                Err(refusal) => return refuse(job, refusal),
            }
        }
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
        running.answer(front, (&prompt, &job.wishes), queued_ms, &ended, &inner.runs, &mut |step| {
            // The first token comes of the prompt; the time is that of the others.
            if let Step::Over(_, figures) = &step
                && figures.said > 1
                && figures.said_ms > 0.0
            {
                speed = Some((figures.said - 1) as f64 * 1000.0 / figures.said_ms);
            }
            // Nobody listens any more: `ended` says so before the next token.
            let _ = steps.send(step);
        });
    });
    if speed.is_some() {
        inner.state().speed = speed;
    }
}

/// Has the model of a file here.
fn fetch(inner: &Inner, file: &Path, here: &mut Here) -> Result<(), Refusal> {
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
        .install(|| load(stamp, inner.renderer()))
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
