//! The judge (`rl.prm_*`) in a running service. It scores answers while a learned skill is measured by them ([`crate::score`]);
//! and before a learned skill that its turns have proven is promoted, past turns that had to do without it are answered again,
//! with it and without, and it says which answer it likes better. Bounded by turns for each skill and by tokens for each day;
//! neither an agent nor learning waits for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use config::Config;
use futures::future::BoxFuture;
use serde_json::json;
use skills::replay::{Case, Judged, judged, liked};
use skills::workshop::Workshop;
use store::{Lease, SkillState, Spent};
use tokio::sync::Notify;
use tokio::time::Instant;
use xxhash_rust::xxh3::Xxh3;

use crate::core::sentence;
use crate::evolve::{Failed, NoAnswer, Tools, blocking, tell};
use crate::provider::Wanted;

/// How long after a failure nobody is asked.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How long a skill that is compared is held for that, from each question on: longer than an answer may take.
const LEASE_MS: i64 = 25 * 60 * 1000;
/// Its name.
const LEASE: &str = "skill_replay";
pub(crate) const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Asks the judge's model; its words.
pub(crate) type AskJudge = Arc<dyn Fn(String, Wanted) -> BoxFuture<'static, Result<String, NoAnswer>> + Send + Sync>;

/// How many past turns are compared under these settings; 0 = there is no judge. One that is named and cannot be asked is
/// waited for.
pub(crate) fn replay_turns(config: &Config) -> u32 {
    match config.judge() {
        Ok(None) => 0,
        Ok(Some(_)) | Err(_) => config.skills.replay_turns,
    }
}

/// Whether answers are scored under these settings while a skill is measured by them.
pub(crate) fn scores(config: &Config) -> bool {
    !matches!(config.judge(), Ok(None)) && config.skills.score_daily_tokens > 0
}

/// What the settings say about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Habits {
    /// The judge; `None` = nobody is asked.
    model: Option<String>,
    /// What is missing for that.
    pub(crate) missing: Option<String>,
    turns: usize,
    daily_tokens: u64,
    /// Votes on one answer.
    pub(crate) votes: u32,
    /// Tokens of a day for scores; 0 = none are asked for.
    pub(crate) score_tokens: u64,
    /// Whom it asks, as a hash: a key is nothing to keep around.
    pub(crate) asked: u64,
}

impl Habits {
    fn of(config: &Config) -> Self {
        let turns = usize::try_from(replay_turns(config)).unwrap_or(usize::MAX);
        let score_tokens = if scores(config) { u64::from(config.skills.score_daily_tokens) } else { 0 };
        if turns == 0 && score_tokens == 0 {
            return Self::default();
        }
        let of = Self { turns, score_tokens, votes: config.rl.prm_m.max(1), ..Self::default() };
        let upstream = match config.judge() {
            Ok(Some(upstream)) => upstream,
            Ok(None) => return Self::default(),
            Err(error) => return Self { missing: Some(sentence(&error)), ..of },
        };
        let mut hash = Xxh3::new();
        let keys = [config.rl.prm_api_key.expose(), config.llm.api_key.expose()];
        for part in [upstream.base_url.as_str(), &upstream.model_id].into_iter().chain(keys) {
            hash.update(part.as_bytes());
            hash.update(&[0]);
        }
        Self {
            model: Some(upstream.model_id),
            daily_tokens: u64::from(config.skills.replay_daily_tokens),
            asked: hash.digest(),
            ..of
        }
    }
}

/// What a judge is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Answers with a learned skill and without it.
    Compare,
    /// Answers of turns that a learned skill is measured by.
    Score,
}

/// What a judge does, and why not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The judge; `None` = none is asked for.
    pub(crate) model: Option<String>,
    /// It compares answers.
    pub(crate) compares: bool,
    /// It scores them.
    pub(crate) scores: bool,
    /// Why it does not do the one or the other at the moment.
    troubles: [Option<String>; 2],
}

impl Standing {
    fn of(habits: &Habits) -> Self {
        Self {
            model: habits.model.clone(),
            compares: habits.turns > 0,
            scores: habits.score_tokens > 0,
            troubles: [habits.missing.clone(), None],
        }
    }

    /// Why it is not asked at the moment.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.troubles.iter().flatten().map(String::as_str).next()
    }
}

/// The judge of a running service.
pub(crate) struct Judge {
    habits: ArcSwap<Habits>,
    standing: ArcSwap<Standing>,
    /// Skills may wait for it.
    wake: Notify,
    /// Turns may.
    pub(crate) score: Notify,
}

impl Judge {
    pub(crate) fn new(config: &Config) -> Self {
        let habits = Habits::of(config);
        Self {
            standing: ArcSwap::from_pointee(Standing::of(&habits)),
            habits: ArcSwap::from_pointee(habits),
            wake: Notify::new(),
            score: Notify::new(),
        }
    }

    /// Skills or turns may wait for it.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
        self.score.notify_one();
    }

    /// The settings in force.
    pub(crate) fn habits(&self) -> Arc<Habits> {
        self.habits.load_full()
    }

    /// What the settings alone say.
    pub(crate) fn standing_of(config: &Config) -> Standing {
        Standing::clone(&Self::new(config).standing())
    }

    pub(crate) fn standing(&self) -> Arc<Standing> {
        self.standing.load_full()
    }

    /// Puts settings in force; what kept the judge before them may keep it no longer.
    pub(crate) fn config_read(&self, config: &Config) {
        let habits = Habits::of(config);
        if **self.habits.load() != habits {
            let before = self.standing.swap(Arc::new(Standing::of(&habits)));
            told(&before, &self.standing.load());
            self.habits.store(Arc::new(habits));
        }
    }

    /// Why it does not do its duty at the moment. What was found under settings that no longer hold is not told.
    pub(crate) fn stand(&self, duty: Duty, habits: &Habits, trouble: Option<&str>) {
        if **self.habits.load() != *habits {
            return;
        }
        let put = |standing: &Arc<Standing>| {
            let mut standing = Standing::clone(standing);
            let [compare, score] = &mut standing.troubles;
            let slot = if duty == Duty::Compare { compare } else { score };
            *slot = trouble.map(str::to_owned);
            standing
        };
        let before = self.standing.rcu(put);
        told(&before, &self.standing.load());
    }
}

fn told(before: &Standing, now: &Standing) {
    if before.trouble() != now.trouble() {
        match now.trouble() {
            Some(why) => tracing::warn!("the judge of learned skills is not asked at the moment: {why}"),
            None => tracing::info!("the judge of learned skills is asked where one is named"),
        }
    }
}

/// Compares what waits for it, until the service ends.
pub(crate) async fn work(tools: Tools) {
    let (ending, evolution) = (tools.ending.clone(), Arc::clone(&tools.evolution));
    let holder = format!("{}-{:08x}", std::process::id(), tools.clock.random() & 0xffff_ffff);
    // One service has this home: whoever held these is gone.
    if let Err(error) = evolution.workshop().store().free_leases(LEASE).await {
        tracing::warn!(%error, "skills that were compared when the last run ended wait a while");
    }
    let begun = HashMap::new();
    let mut bench = Bench { tools, holder, habits: Habits::default(), failing: false, rest_until: None, begun };
    loop {
        tokio::select! {
            biased;
            () = ending.cancelled() => return,
            () = evolution.judge.wake.notified() => {}
        }
        tokio::select! {
            biased;
            () = ending.cancelled() => return,
            () = bench.round() => {}
        }
    }
}

/// A comparison that is under way.
#[derive(Debug, Default)]
struct Begun {
    verdicts: Vec<(i64, Judged)>,
    /// Tokens that were spent on it.
    tokens: u64,
}

/// Where comparisons stand.
struct Bench {
    tools: Tools,
    holder: String,
    /// The settings they were begun under.
    habits: Habits,
    /// The last round failed; told once.
    failing: bool,
    rest_until: Option<Instant>,
    /// By name and hash of the text.
    begun: HashMap<(String, String), Begun>,
}

/// What came of a step.
enum Step {
    /// A turn was compared, or the verdict is in.
    On,
    /// Somebody else is at it, or the settings have changed.
    Left,
    /// Not at the moment, for this reason.
    Wait(String),
}

impl Bench {
    async fn round(&mut self) {
        let done = self.sit().await;
        match done {
            Ok(()) => self.failing = false,
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "answers cannot be compared at the moment");
                }
            }
        }
    }

    /// Compares one past turn of the first skill that waits for it; more to do wakes it again.
    async fn sit(&mut self) -> Result<(), Failed> {
        let workshop = self.tools.evolution.workshop();
        let habits = Habits::clone(&self.tools.evolution.judge.habits.load());
        if habits != self.habits {
            self.rest_until = None;
            if habits.asked != self.habits.asked {
                // Another judge has another taste.
                self.begun.values_mut().for_each(|begun| begun.verdicts.clear());
            }
            self.habits = habits.clone();
        }
        let Some(model) = habits.model.clone().filter(|_| habits.turns > 0) else { return Ok(()) };
        if self.rest_until.is_some_and(|until| Instant::now() < until) {
            return Ok(());
        }
        let room = workshop.clone();
        let awaiting = blocking(async move { room.awaiting_replay().await }).await?;
        self.begun.retain(|(name, hash), _| awaiting.iter().any(|s| s.name == *name && s.hash == *hash));
        for state in awaiting {
            let step = match self.compare(&workshop, &state, &habits, &model).await {
                Ok(step) => step,
                Err(Failed::There(no)) => Step::Wait(sentence(&no.said)),
                Err(failed) => return Err(failed),
            };
            match step {
                Step::On => {
                    self.stand(&habits, None);
                    self.tools.evolution.judge.wake();
                    return Ok(());
                }
                Step::Left => {}
                Step::Wait(why) => {
                    self.rest_until = Some(Instant::now() + PATIENCE);
                    self.stand(&habits, Some(&why));
                    return Ok(());
                }
            }
        }
        self.stand(&habits, None);
        Ok(())
    }

    fn stand(&self, habits: &Habits, trouble: Option<&str>) {
        self.tools.evolution.judge.stand(Duty::Compare, habits, trouble);
    }

    async fn compare(
        &mut self,
        workshop: &Workshop,
        state: &SkillState,
        habits: &Habits,
        model: &str,
    ) -> Result<Step, Failed> {
        let key = (state.name.clone(), state.hash.clone());
        let (room, of, most) = (workshop.clone(), state.clone(), habits.turns);
        let mut cases = blocking(async move { room.cases(&of, most).await }).await?;
        let done = self.begun.get(&key).map_or(&[][..], |begun| &begun.verdicts);
        cases.retain(|case| done.iter().all(|(turn, _)| *turn != case.turn));
        cases.truncate(most.saturating_sub(done.len()));
        let now_ms = self.tools.clock.now_ms();
        // A turn that a day's tokens cannot pay for is left out; if they pay for none, somebody has to know.
        let dear = cases.first().filter(|_| done.is_empty()).map(Case::least_tokens);
        cases.retain(|case| case.least_tokens() <= habits.daily_tokens);
        let Some(case) = cases.first() else {
            return match dear {
                Some(tokens) => Ok(Step::Wait(format!(
                    "Comparing one answer with {} to one without takes {tokens} tokens at least, and skills.replay_daily_tokens allows {}.",
                    state.name, habits.daily_tokens
                ))),
                None => self.record(workshop, state, model, &key).await,
            };
        };
        let used = workshop.store().spent_since(Spent::Compare, now_ms - DAY_MS).await.map_err(|error| here(&error))?;
        if used + case.least_tokens() > habits.daily_tokens {
            return Ok(Step::Wait(format!(
                "The day's tokens for comparing are used up ({used} of {} in skills.replay_daily_tokens); {} waits until there \
                 are some again.",
                habits.daily_tokens, state.name
            )));
        }
        let lease = workshop.store().take_lease(LEASE, &state.name, &self.holder, now_ms, now_ms + LEASE_MS).await;
        let Some(lease) = lease.map_err(|error| here(&error))? else { return Ok(Step::Left) };
        let mut asking = Asking { tools: &self.tools, workshop, lease, spent: 0, asked: habits.asked };
        let verdict = asking.case(case).await;
        let Asking { lease, spent, .. } = asking;
        let _ = workshop.store().release_lease(&lease).await;
        let begun = self.begun.entry(key).or_default();
        begun.tokens += spent;
        let Some(verdict) = verdict? else { return Ok(Step::Left) };
        begun.verdicts.push((case.turn, verdict));
        Ok(Step::On)
    }

    async fn record(
        &mut self,
        workshop: &Workshop,
        state: &SkillState,
        model: &str,
        key: &(String, String),
    ) -> Result<Step, Failed> {
        // What could not be written down is not asked for again.
        let (verdicts, tokens) =
            self.begun.get(key).map_or_else(Default::default, |begun| (begun.verdicts.clone(), begun.tokens));
        let (room, of, by, now_ms) = (workshop.clone(), state.clone(), model.to_owned(), self.tools.clock.now_ms());
        let (replay, moved) = blocking(async move { room.replayed(&of, &verdicts, &by, tokens, now_ms).await }).await?;
        self.begun.remove(key);
        let (better, worse, same) = (replay.better, replay.worse, replay.same);
        tracing::info!(skill = state.name, better, worse, same, tokens, "answers with a learned skill were compared");
        let told = json!({ "skill": state.name, "better": better, "worse": worse, "same": same, "tokens": tokens });
        self.tools.bus.keep("skill_replayed", told);
        tell(&self.tools.bus, &moved);
        self.tools.evolution.changed();
        Ok(Step::On)
    }
}

pub(crate) fn here(error: &store::Error) -> Failed {
    Failed::Here(error.to_string())
}

/// The questions about one turn.
struct Asking<'a> {
    tools: &'a Tools,
    workshop: &'a Workshop,
    lease: Lease,
    /// Tokens.
    spent: u64,
    asked: u64,
}

impl Asking<'_> {
    /// Answers a turn twice and has the answers judged both ways round. `None`: somebody else is at it, or it is another
    /// judge's.
    async fn case(&mut self, case: &Case) -> Result<Option<Judged>, Failed> {
        let Some(with) = self.ask(case.answer_prompt(true), Wanted::Answer).await? else { return Ok(None) };
        let Some(without) = self.ask(case.answer_prompt(false), Wanted::Answer).await? else { return Ok(None) };
        if with.trim() == without.trim() {
            return Ok(Some(Judged::Same));
        }
        let Some(first) = self.ask(case.compare_prompt(&with, &without), Wanted::Comparison).await? else {
            return Ok(None);
        };
        let Some(second) = self.ask(case.compare_prompt(&without, &with), Wanted::Comparison).await? else {
            return Ok(None);
        };
        Ok(Some(judged(liked(&first), liked(&second))))
    }

    async fn ask(&mut self, question: String, wanted: Wanted) -> Result<Option<String>, Failed> {
        let now_ms = self.tools.clock.now_ms();
        let held =
            self.workshop.store().renew_lease(&self.lease, now_ms + LEASE_MS).await.map_err(|error| here(&error))?;
        let Some(held) = held.filter(|_| self.tools.evolution.judge.habits.load().asked == self.asked) else {
            return Ok(None);
        };
        self.lease = held;
        // What was asked is spent, whatever comes of it.
        self.spend(&question, now_ms).await?;
        let answer = (self.tools.judge)(question, wanted).await.map_err(Failed::There)?;
        self.spend(&answer, now_ms).await?;
        Ok(Some(answer))
    }

    async fn spend(&mut self, text: &str, now_ms: i64) -> Result<(), Failed> {
        let tokens = u64::from(dialect::estimate_tokens(text));
        self.spent += tokens;
        self.workshop.store().spend(Spent::Compare, tokens, now_ms).await.map_err(|error| here(&error))
    }
}
