//! Learning skills in a running service: reads finished turns behind the requests, settles what came of them, moves skills to
//! where the evidence puts them, and asks the configured model what a session teaches. Nothing here is waited for by an agent.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use config::Config;
use futures::future::BoxFuture;
use jiff::tz::TimeZone;
use serde_json::json;
use skills::generation::Generations;
use skills::workshop::{Considered, Moved, Rules, Trigger, Workshop};
use store::{DueSession, Spent, Store};
use tokio::sync::{Notify, broadcast};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use xxhash_rust::xxh3::Xxh3;

use crate::Clock;
use crate::bus::Bus;
use crate::core::sentence;
use crate::judge::{AskJudge, Judge, replay_turns, scores};

/// Turns that come close together are read together.
const GATHER: Duration = Duration::from_millis(200);
/// Between two rounds, while there is much to read: requests go first.
const YIELD: Duration = Duration::from_millis(10);
/// How often it is looked for what nobody told of.
const LOOK: Duration = Duration::from_secs(60);
/// How long after a failure nobody is asked.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a session that is being looked through is held for that: the model is asked twice at most.
const LEASE_MS: i64 = 25 * 60 * 1000;
/// Its name.
const LEASE: &str = "skill_evolution";
/// How often a session is tried that the model cannot be asked about.
const TRIES: u32 = 3;
/// Sessions that are looked through in one round.
const SESSIONS: u32 = 8;

/// Why the model that writes skills gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoAnswer {
    /// As a sentence.
    pub(crate) said: String,
    /// It is about this question (too long, not allowed), and asking it again later changes nothing.
    pub(crate) for_good: bool,
}

/// Asks the model that writes skills; its words.
pub(crate) type AskEvolver = Arc<dyn Fn(String) -> BoxFuture<'static, Result<String, NoAnswer>> + Send + Sync>;
/// Looks whether there is such a model, and names it.
pub(crate) type LookForEvolver = Arc<dyn Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// When conversations are looked through.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Habits {
    enabled: bool,
    /// After so many user turns of a session; 0 = only at its end.
    every: u32,
    /// Whom it asks, as a hash: a key is nothing to keep around.
    asked: u64,
}

impl Habits {
    fn of(config: &Config) -> Self {
        Self {
            enabled: config.skills.enabled && config.skills.auto_evolve && config.rl.max_new_skills > 0,
            every: u32::try_from(config.skills.evolution_every_n_turns).unwrap_or(0),
            asked: match config.evolver() {
                Ok(upstream) => {
                    let mut hash = Xxh3::new();
                    let keys = [config.rl.evolver_api_key.expose(), config.llm.api_key.expose()];
                    for part in [upstream.base_url.as_str(), &upstream.model_id].into_iter().chain(keys) {
                        hash.update(part.as_bytes());
                        hash.update(&[0]);
                    }
                    hash.digest()
                }
                Err(_) => 0,
            },
        }
    }
}

/// Whether skills are learned, and why not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The settings want it.
    pub(crate) wanted: bool,
    /// The model that is asked.
    pub(crate) model: Option<String>,
    /// Why nothing is learned though it is wanted.
    pub(crate) trouble: Option<String>,
}

/// Learning of a running service.
pub(crate) struct Evolution {
    workshop: ArcSwap<Workshop>,
    habits: ArcSwap<Habits>,
    standing: ArcSwap<Standing>,
    pub(crate) judge: Judge,
    /// Something is to be looked at: a setting, a decision by hand, a changed file.
    wake: Notify,
    /// Sessions may be due.
    due: Notify,
}

/// How skills are learned, from the configuration.
pub(crate) fn rules(config: &Config) -> Rules {
    let count = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    Rules {
        control_share: config.skills.control_share as f32,
        most_active: count(config.skills.max_learned),
        most_new: count(config.rl.max_new_skills).max(1),
        review: config.skills.review,
        replay_turns: replay_turns(config),
        scored: scores(config),
        zone: TimeZone::system(),
    }
}

impl Evolution {
    pub(crate) fn new(library: Arc<skills::Library>, store: Store, config: &Config) -> Self {
        let habits = Habits::of(config);
        Self {
            workshop: ArcSwap::from_pointee(Workshop::new(library, store, rules(config))),
            standing: ArcSwap::from_pointee(Standing { wanted: habits.enabled, ..Standing::default() }),
            habits: ArcSwap::from_pointee(habits),
            judge: Judge::new(config),
            wake: Notify::new(),
            due: Notify::new(),
        }
    }

    /// The workshop under the settings in force.
    pub(crate) fn workshop(&self) -> Workshop {
        Workshop::clone(&self.workshop.load())
    }

    pub(crate) fn standing(&self) -> Arc<Standing> {
        self.standing.load_full()
    }

    /// Puts settings in force.
    pub(crate) fn config_read(&self, config: &Config) {
        let workshop = self.workshop.load().with_rules(rules(config));
        workshop.library().switch_off(config.skills.disabled.iter().cloned().collect());
        self.workshop.store(Arc::new(workshop));
        self.habits.store(Arc::new(Habits::of(config)));
        self.judge.config_read(config);
        self.changed();
    }

    /// Something was changed by hand.
    pub(crate) fn changed(&self) {
        self.wake.notify_one();
    }
}

/// Tells of skills that went from one state to another.
pub(crate) fn tell(bus: &Bus, moved: &[Moved]) {
    for one in moved {
        tracing::info!(skill = one.name, state = one.state, reason = one.reason, "a learned skill was moved");
        bus.keep("skill_moved", json!(one));
    }
}

/// Tells what came of an asking.
pub(crate) fn tell_considered(bus: &Bus, session: &str, done: &Considered) {
    tracing::info!(session, outcome = done.outcome, note = done.note, "a session was looked through for skills");
    bus.keep(
        "skill_evolved",
        json!({ "session": session, "outcome": done.outcome, "proposals": done.proposals, "waiting": done.waiting }),
    );
    tell(bus, &done.moved);
}

/// Looks through turns of a session, and asks the model at most twice.
pub(crate) async fn look_through(
    workshop: &Workshop,
    ask: &AskEvolver,
    model: &str,
    due: &DueSession,
    trigger: Trigger,
    now_ms: i64,
) -> Result<Option<Considered>, Failed> {
    let (room, of) = (workshop.clone(), due.clone());
    let lesson = blocking(async move { room.lesson(&of).await }).await?;
    let Some(lesson) = lesson.filter(|lesson| trigger == Trigger::Hand || lesson.teaches()) else {
        let passed = vec![(due.session.clone(), due.last)];
        workshop.store().skill_passed(passed).await.map_err(|error| Failed::Here(error.to_string()))?;
        return Ok(None);
    };
    let (question, _) = lesson.prompt();
    let ask = async |question: String| {
        // What was asked is spent, whatever comes of it.
        let spend = async |text: &str| {
            let written = workshop.store().spend(Spent::Learn, u64::from(dialect::estimate_tokens(text)), now_ms).await;
            written.map_err(|error| Failed::Here(error.to_string()))
        };
        spend(&question).await?;
        let answer = ask(question).await.map_err(Failed::There)?;
        spend(&answer).await?;
        Ok(answer)
    };
    let mut answer = ask(question.clone()).await?;
    let mut found = check(workshop, &lesson, &answer).await?;
    if let Err(problem) = &found {
        let again = ask(skills::evolve::repair(&question, &answer, problem)).await?;
        answer = format!("{answer}\n\n--- {problem}; asked once more: ---\n\n{again}");
        found = check(workshop, &lesson, &again).await?;
    }
    let (room, model) = (workshop.clone(), model.to_owned());
    let done = blocking(async move { room.consider(&lesson, trigger, &model, &answer, found, now_ms).await }).await?;
    Ok(Some(done))
}

type Found = Result<(Vec<skills::workshop::Candidate>, String), String>;

async fn check(workshop: &Workshop, lesson: &skills::evolve::Lesson, answer: &str) -> Result<Found, Failed> {
    let (room, lesson, answer) = (workshop.clone(), lesson.clone(), answer.to_owned());
    blocking(async move { room.candidates(&lesson, &answer).await }).await
}

/// Why a session was not looked through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failed {
    /// The model gave no answer.
    #[error("{}", .0.said)]
    There(NoAnswer),
    /// The journal or the library could not be used.
    #[error("{0}")]
    Here(String),
}

/// Runs a future on a thread where it may take its time.
pub(crate) async fn blocking<T, F>(work: F) -> Result<T, Failed>
where
    T: Send + 'static,
    F: Future<Output = skills::workshop::Result<T>> + Send + 'static,
{
    let runtime = tokio::runtime::Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(work)).await;
    done.map_err(|error| Failed::Here(error.to_string()))?.map_err(|error| Failed::Here(error.to_string()))
}

/// What the workers work with.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) evolution: Arc<Evolution>,
    pub(crate) bus: Bus,
    pub(crate) clock: Clock,
    pub(crate) ask: AskEvolver,
    pub(crate) look: LookForEvolver,
    pub(crate) judge: AskJudge,
    pub(crate) ending: CancellationToken,
}

/// Asks the model about sessions that are due, until the service ends. It may think for minutes, so this is apart from
/// [`work`].
pub(crate) async fn learn(tools: Tools) {
    let ending = tools.ending.clone();
    let holder = format!("{}-{:08x}", std::process::id(), tools.clock.random() & 0xffff_ffff);
    let mut learner =
        Learner { tools, holder, failing: false, looked: None, rest_until: None, troubled: HashMap::new() };
    let evolution = Arc::clone(&learner.tools.evolution);
    // One service has this home: whoever held these is gone.
    if let Err(error) = evolution.workshop().store().free_leases(LEASE).await {
        tracing::warn!(%error, "sessions that were looked through when the last run ended wait a while");
    }
    loop {
        tokio::select! {
            biased;
            () = ending.cancelled() => return,
            () = evolution.due.notified() => {}
        }
        tokio::select! {
            biased;
            () = ending.cancelled() => return,
            () = learner.round() => {}
        }
    }
}

/// Reads the journal, settles and weighs, until the service ends.
pub(crate) async fn work(tools: Tools, mut heard: broadcast::Receiver<proxy::Event>) {
    let ending = tools.ending.clone();
    let mut worker = Worker { tools, failing: false, generations: None };
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = ending.cancelled() => return,
            event = heard.recv() => match event {
                Ok(proxy::Event::TurnFinished(turn)) if turn.kind.is_main() => {}
                Ok(proxy::Event::SessionEnded { .. }) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Ok(_) => continue,
                Err(broadcast::error::RecvError::Closed) => return,
            },
            () = worker.tools.evolution.wake.notified() => {}
            _ = looks.tick() => {}
        }
        tokio::select! {
            biased;
            () = ending.cancelled() => return,
            () = worker.round(&mut heard) => {}
        }
    }
}

struct Worker {
    tools: Tools,
    /// The last round failed; told once.
    failing: bool,
    generations: Option<Arc<Generations>>,
}

impl Worker {
    async fn round(&mut self, heard: &mut broadcast::Receiver<proxy::Event>) {
        tokio::time::sleep(GATHER).await;
        // What was told meanwhile is read now.
        while heard.try_recv().is_ok() {}
        let done = self.steps().await;
        match done {
            Ok(()) => {
                if std::mem::take(&mut self.failing) {
                    tracing::info!("skills read the journal again");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "skills cannot be learned at the moment");
                }
            }
        }
    }

    async fn steps(&mut self) -> Result<(), Failed> {
        let workshop = self.tools.evolution.workshop();
        let now_ms = self.tools.clock.now_ms();
        let room = workshop.clone();
        let moved = blocking(async move { room.sync(now_ms, false).await }).await?;
        tell(&self.tools.bus, &moved);
        self.keep_generations(&workshop).await?;
        loop {
            let room = workshop.clone();
            if !blocking(async move { room.absorb().await }).await? {
                break;
            }
            tokio::time::sleep(YIELD).await;
        }
        let mut names = BTreeSet::new();
        loop {
            let room = workshop.clone();
            let Some(of) = blocking(async move { room.settle().await }).await? else { break };
            names.extend(of);
            tokio::time::sleep(YIELD).await;
        }
        let room = workshop.clone();
        names.extend(blocking(async move { room.waiting_in_vain().await }).await?);
        if !names.is_empty() {
            let room = workshop.clone();
            let moved = blocking(async move { room.weigh(&names, now_ms).await }).await?;
            tell(&self.tools.bus, &moved);
            self.keep_generations(&workshop).await?;
        }
        self.tools.evolution.due.notify_one();
        self.tools.evolution.judge.wake();
        Ok(())
    }

    /// Keeps the count, and tells that turns from before are of another set of skills.
    async fn keep_generations(&mut self, workshop: &Workshop) -> Result<(), Failed> {
        let kept = workshop.keep_generations(self.generations.as_deref()).await;
        if let Some(now) = kept.map_err(|error| Failed::Here(error.to_string()))? {
            if self.generations.is_some() {
                let agents: serde_json::Map<_, _> =
                    now.sets().map(|(agent, set)| (agent.to_owned(), json!(set.number))).collect();
                self.tools.bus.keep("skill_generation", json!({ "generation": now.number(), "agents": agents }));
            }
            self.generations = Some(now);
        }
        Ok(())
    }
}

/// Asks the model that writes skills.
struct Learner {
    tools: Tools,
    holder: String,
    /// The last round failed; told once.
    failing: bool,
    /// The settings for which it was looked whether there is a model, and when.
    looked: Option<(Habits, Result<String, String>, Instant)>,
    rest_until: Option<Instant>,
    /// Sessions that the model was not to be asked about: how often, and when it is tried again.
    troubled: HashMap<String, (u32, Instant)>,
}

impl Learner {
    async fn round(&mut self) {
        let workshop = self.tools.evolution.workshop();
        match self.evolve(&workshop).await {
            Ok(()) => self.failing = false,
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "no session can be looked through at the moment");
                }
            }
        }
    }

    async fn evolve(&mut self, workshop: &Workshop) -> Result<(), Failed> {
        let habits = Habits::clone(&self.tools.evolution.habits.load());
        if !habits.enabled {
            self.stand(Standing::default());
            self.looked = None;
            return self.pass_over(workshop).await;
        }
        let model = match self.model(&habits).await {
            Ok(model) => model,
            Err(trouble) => {
                self.stand(Standing { wanted: true, model: None, trouble: Some(trouble) });
                return Ok(());
            }
        };
        if self.rest_until.is_some_and(|until| Instant::now() < until) {
            return Ok(());
        }
        let due = workshop.store().skill_due(habits.every, SESSIONS).await;
        for due in due.map_err(|error| Failed::Here(error.to_string()))? {
            // One that makes trouble does not keep others waiting.
            if self.troubled.get(&due.session).is_some_and(|(_, again)| Instant::now() < *again) {
                continue;
            }
            let trigger = if due.ended { Trigger::End } else { Trigger::Turns };
            let now_ms = self.tools.clock.now_ms();
            let lease = workshop
                .store()
                .take_lease(LEASE, &due.session, &self.holder, now_ms, now_ms + LEASE_MS)
                .await
                .map_err(|error| Failed::Here(error.to_string()))?;
            let Some(lease) = lease else { continue };
            let done = look_through(workshop, &self.tools.ask, &model, &due, trigger, now_ms).await;
            let _ = workshop.store().release_lease(&lease).await;
            match done {
                Ok(done) => {
                    self.troubled.remove(&due.session);
                    self.stand(Standing { wanted: true, model: Some(model.clone()), trouble: None });
                    if let Some(done) = done {
                        tell_considered(&self.tools.bus, &due.session, &done);
                        self.tools.evolution.changed();
                    }
                }
                Err(Failed::There(no)) if no.for_good => {
                    self.leave_out(workshop, &due, trigger, &model, &no.said).await?;
                }
                Err(Failed::There(no)) => {
                    // The turns stay where they are; somebody is asked again later.
                    self.rest_until = Some(Instant::now() + PATIENCE);
                    self.stand(Standing { wanted: true, model: Some(model), trouble: Some(sentence(&no.said)) });
                    return Ok(());
                }
                Err(failed) => return Err(failed),
            }
        }
        self.stand(Standing { wanted: true, model: Some(model), trouble: None });
        Ok(())
    }

    /// The model cannot be asked about this session. After some times it is passed, and that is written down.
    async fn leave_out(
        &mut self,
        workshop: &Workshop,
        due: &DueSession,
        trigger: Trigger,
        model: &str,
        said: &str,
    ) -> Result<(), Failed> {
        let (times, again) = self.troubled.entry(due.session.clone()).or_insert((0, Instant::now()));
        *times += 1;
        *again = Instant::now() + PATIENCE;
        tracing::info!(session = due.session, times = *times, said, "a session could not be looked through");
        if *times < TRIES {
            return Ok(());
        }
        self.troubled.remove(&due.session);
        let failed = store::SkillEvolution {
            at_ms: self.tools.clock.now_ms(),
            session: due.session.clone(),
            agent: due.agent.clone(),
            trigger: trigger.as_str().to_owned(),
            first_turn: due.first,
            last_turn: due.last,
            model: model.to_owned(),
            outcome: "failed".to_owned(),
            note: sentence(&said),
            ..store::SkillEvolution::default()
        };
        let written = workshop.store().skill_evolved(failed, Vec::new()).await;
        written.map_err(|error| Failed::Here(error.to_string()))?;
        self.tools.bus.keep(
            "skill_evolved",
            json!({ "session": due.session, "outcome": "failed", "note": sentence(&said), "proposals": [], "waiting": [] }),
        );
        Ok(())
    }

    /// Nothing is learned from what ended while learning was off: switching it on does not bring that back.
    async fn pass_over(&self, workshop: &Workshop) -> Result<(), Failed> {
        let here = |error: store::Error| Failed::Here(error.to_string());
        loop {
            let due = workshop.store().skill_due(0, 256).await.map_err(here)?;
            if due.is_empty() {
                return Ok(());
            }
            let passed = due.into_iter().map(|due| (due.session, due.last)).collect();
            workshop.store().skill_passed(passed).await.map_err(here)?;
        }
    }

    /// The model that writes skills, looked for when the settings have changed, and again after a failure.
    async fn model(&mut self, habits: &Habits) -> Result<String, String> {
        let known = self.looked.as_ref().filter(|(of, _, _)| of == habits);
        if let Some((_, found, at)) = known
            && (found.is_ok() || at.elapsed() < PATIENCE)
        {
            return found.clone();
        }
        // Others may answer at once.
        self.rest_until = None;
        let found = (self.tools.look)().await;
        self.looked = Some((habits.clone(), found.clone(), Instant::now()));
        found
    }

    fn stand(&self, now: Standing) {
        let now = Arc::new(now);
        let before = self.tools.evolution.standing.swap(Arc::clone(&now));
        if before.trouble != now.trouble {
            match &now.trouble {
                Some(why) => {
                    // Who tries MetaClaw out has chosen what keeps it off: no fault that a terminal has to show.
                    if why.to_lowercase().contains(&config::ONLY_FOR_TRYING.to_lowercase()) {
                        tracing::info!("learning is off: {why}");
                    } else {
                        tracing::warn!("learning is off: {why}");
                    }
                    self.tools.bus.keep("learning_off", json!({ "reason": why }));
                }
                None => {
                    tracing::info!("learning is on");
                    self.tools.bus.keep("learning_on", json!({ "model": now.model }));
                }
            }
        }
    }
}
