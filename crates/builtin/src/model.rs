//! One loaded model: weights, vocabulary and template, and the loop that answers with them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use tokio::time::Instant;

use crate::apart::Unrendered;
use crate::attend::Cache;
use crate::chat::{Refusal, Wire, Wishes, nobody_waits, too_long};
use crate::error::{Fault, ModelFault};
use crate::gguf::Gguf;
use crate::net::{BATCH, Desk, Net, family};
use crate::reply::{End, Figures, Likelihood};
use crate::sample::{Sampler, likelihoods};
use crate::say::{Said, Speech, THINK};
use crate::template::Template;
use crate::vocab::{Unread, Vocab};

/// What of a model is needed to read a request: small, and shared with those who wait.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) stamp: Stamp,
    pub(crate) vocab: Vocab,
    pub(crate) template: Template,
    /// Longest text that it was trained on, tokens.
    pub(crate) trained: usize,
}

/// A file at a moment: another one in its place is another model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) file: PathBuf,
    length: u64,
    changed: Option<SystemTime>,
}

impl Stamp {
    pub(crate) fn of(file: &Path) -> Result<Self, ModelFault> {
        let meta = std::fs::metadata(file)
            .map_err(|error| ModelFault { file: file.to_path_buf(), fault: Fault::Io(error) })?;
        Ok(Self { file: file.to_path_buf(), length: meta.len(), changed: meta.modified().ok() })
    }
}

/// A conversation as tokens.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) tokens: Vec<u32>,
    /// Most tokens of the answer.
    room: usize,
    /// The answer begins within thoughts.
    thinking: bool,
    /// The model was shown tools.
    calls: bool,
}

impl Front {
    /// Reads a request for a context of so many tokens; 0 = all that the model was trained for. What cannot fit is found
    /// out before it is worked on, and the work ends with `ended`.
    pub(crate) fn prompt(
        &self,
        wire: &Wire,
        wishes: &Wishes,
        context: usize,
        ended: &dyn Fn() -> bool,
    ) -> Result<Prompt, Refusal> {
        let context = if context == 0 { self.trained } else { context.min(self.trained) };
        let (bytes, count) = wire.said();
        let least = self.vocab.least(bytes).max(count);
        if least > context {
            return Err(too_long(least, context));
        }
        let conversation = wire.conversation(&self.template, ended)?;
        let text = self.template.render(&conversation, &self.vocab, ended).map_err(|unrendered| match unrendered {
            Unrendered::Refused(reason) => Refusal::bad(
                "invalid_request",
                format!("The built-in model's chat template does not take this conversation: {reason}."),
            ),
            Unrendered::Broken(how) => Refusal {
                status: 503,
                code: "model_unusable",
                message: format!(
                    "The chat template of {} broke off: {how}. Take another file of this model, or another model.",
                    self.stamp.file.display()
                ),
            },
            Unrendered::Ended => nobody_waits(),
        })?;
        let tokens = self.vocab.tokens(&text, context, ended).map_err(|unread| match unread {
            Unread::TooLong => too_long(context + 1, context),
            Unread::Ended => nobody_waits(),
        })?;
        if tokens.is_empty() {
            return Err(Refusal::bad(
                "invalid_request",
                "The built-in model's chat template makes no text of this conversation.",
            ));
        }
        let room = wishes.room(tokens.len(), context)?;
        let thinking = text.trim_end().ends_with(THINK.0);
        Ok(Prompt { tokens, room, thinking, calls: !conversation.tools.is_empty() })
    }
}

/// Something that happened while a model answered.
#[derive(Debug)]
pub(crate) enum Step {
    Said(Vec<Said>, Vec<Likelihood>),
    Over(End, Figures),
    /// It cannot go on, for this reason.
    Failed(String),
}

/// Weights in memory, and what they have read last.
#[derive(Debug)]
pub(crate) struct Running {
    net: Net,
    cache: Cache,
    desk: Desk,
    /// The tokens of the cache.
    known: Vec<u32>,
}

/// Whether a file is a model of a kind that is built here, by its header. Reads the disk.
///
/// # Errors
/// What is wrong with it.
pub fn check(file: &Path) -> Result<(), Fault> {
    family(&Gguf::open(file)?).map(|_| ())
}

/// Loads a model.
/// `apart`: the program that renders the templates of strangers.
pub(crate) fn load(stamp: Stamp, apart: Option<PathBuf>) -> Result<(Running, Front), ModelFault> {
    let file = stamp.file.clone();
    read(stamp, apart).map_err(|fault| ModelFault { file, fault })
}

fn read(stamp: Stamp, apart: Option<PathBuf>) -> Result<(Running, Front), Fault> {
    let mut file = Gguf::open(&stamp.file)?;
    let net = Net::load(&mut file)?;
    let vocab = Vocab::load(&mut file)?;
    let source = file.text("tokenizer.chat_template").map(str::to_owned);
    let begin = vocab.begin_text(&file, "bos_token_id");
    let end = vocab.begin_text(&file, "eos_token_id");
    let template = Template::new(source.as_deref(), begin, end, apart)?;
    let (cache, trained) = (net.cache(), net.context);
    let running = Running { net, cache, desk: Desk::default(), known: Vec::new() };
    Ok((running, Front { stamp, vocab, template, trained }))
}

impl Running {
    /// Answers. `ended` is asked before every run through the network, and within it; `runs` counts them.
    pub(crate) fn answer(
        &mut self,
        front: &Front,
        (prompt, wishes): (&Prompt, &Wishes),
        queued_ms: f64,
        ended: &dyn Fn() -> bool,
        runs: &AtomicU64,
        tell: &mut dyn FnMut(Step),
    ) {
        let begun = Instant::now();
        // What the last conversation has in common with this one is not read again; one token always is.
        let common = self.known.iter().zip(&prompt.tokens).take_while(|(a, b)| a == b).count();
        let common = common.min(prompt.tokens.len() - 1);
        self.cache.cut(common);
        self.cache.shrink();
        self.known.truncate(common);
        let mut figures = Figures { prompt: prompt.tokens.len(), cached: common, queued_ms, ..Figures::default() };
        let mut batches = prompt.tokens[common..].chunks(BATCH).peekable();
        while let Some(batch) = batches.next() {
            let last = batches.peek().is_none();
            if ended() {
                return;
            }
            runs.fetch_add(1, Ordering::Relaxed);
            if self.net.run(batch, &mut self.cache, &mut self.desk, last, ended).is_none() {
                return;
            }
            self.known.extend_from_slice(batch);
        }
        figures.prompt_ms = begun.elapsed().as_secs_f64() * 1000.0;
        let begun = Instant::now();
        let mut sampler = Sampler::new(wishes.choice.clone());
        let thinking = front.template.knows(THINK.0).then_some(prompt.thinking);
        let mut speech = Speech::new(wishes.stops.clone(), thinking, prompt.calls);
        let end = loop {
            let token = sampler.next(self.desk.scores());
            figures.said += 1;
            if front.vocab.ends.contains(&token) {
                break End::Stop;
            }
            let likelihood = wishes.logprobs.map(|most| self.likelihood(&front.vocab, token, most));
            let said = speech.push(front.vocab.says(token), likelihood);
            let told = speech.likelihoods();
            if !said.is_empty() || !told.is_empty() {
                tell(Step::Said(said, told));
            }
            if let Some(sequence) = speech.stopped.take() {
                break End::Sequence(sequence);
            }
            if figures.said >= prompt.room {
                break End::Length;
            }
            if ended() {
                return;
            }
            runs.fetch_add(1, Ordering::Relaxed);
            if self.net.run(&[token], &mut self.cache, &mut self.desk, true, ended).is_none() {
                return;
            }
            self.known.push(token);
        };
        // Behind a stop sequence nothing is told.
        let rest = if matches!(end, End::Sequence(_)) { Vec::new() } else { speech.end() };
        let told = speech.likelihoods();
        if !rest.is_empty() || !told.is_empty() {
            tell(Step::Said(rest, told));
        }
        figures.said_ms = begun.elapsed().as_secs_f64() * 1000.0;
        tell(Step::Over(end, figures));
    }

    fn likelihood(&mut self, vocab: &Vocab, token: u32, most: usize) -> Likelihood {
        let (logprob, best) = likelihoods(self.desk.scores(), token, most);
        let others = best.into_iter().map(|(token, logprob)| (vocab.written(token).to_vec(), logprob)).collect();
        Likelihood { text: vocab.written(token).to_vec(), logprob, others }
    }
}
