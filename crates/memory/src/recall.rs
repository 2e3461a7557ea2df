//! A question → the memories that answer it. BM25 over the whole scope, the newest turns included whether absorbed or not;
//! neighbours, time and an optional embedding add to it; then near duplicates go, and what is left fills a token budget.
//! Reads only.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt as _;
use store::{CHUNK, Fact, FactFilter, PostingRow, TailWindow, TurnId, Window};

use crate::absorb::Reader;
use crate::echo::Echo;
use crate::live::{Snapshot, UNNUMBERED, unwritten};
use crate::terms::{self, Asked};
use crate::{Memory, Result, UNVERIFIED, base_scope, render, scope_of, time};

/// Windows whose text is looked at.
const CANDIDATES: usize = 96;
/// Rows of the journal that are searched before they are absorbed; more wait for the absorber.
const UNREAD: u32 = 256;
/// Windows below which a store is small.
const SMALL: f32 = 1000.0;
/// Nearest windows asked of an embedding.
const NEAREST: usize = 64;

/// What an old memory counts that may say the opposite of what was meant.
const UNSURE: f32 = 0.7;

/// Memories that are compared with the prompt.
const LOOKS: usize = 40;
/// Passages looked at for a question that asks for a time only, and the longest such question in bytes.
const SAID_IN: usize = 64;
const LONGEST_TIME: usize = 200;
/// Words of a question that asks what was said, whatever it was.
const TALKING: [&str; 30] = [
    "talk",
    "talks",
    "talked",
    "talking",
    "discuss",
    "discussed",
    "discussing",
    "discussion",
    "conversation",
    "chat",
    "chatted",
    "speak",
    "spoke",
    "said",
    "say",
    "tell",
    "told",
    "ask",
    "asked",
    "mention",
    "mentioned",
    "happen",
    "happened",
    "work",
    "worked",
    "remember",
    "recap",
    "summarise",
    "summarize",
    "summary",
];
/// Characters of such a question in Chinese and Japanese.
const TALKING_CJK: &str = "我们你咱和跟都一起聊谈说讨论讲了什么哪些事情过的吗呢啊话内容做干話題会言相談何私達僕俺君はがをにでとのもまましたたかねよっいてるすなんどこれあ";

/// What the signals count.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// Share of the embedding where there is one; the words have the rest.
    pub embedding: f32,
    /// Share of its score a window gives to the one after it, and to the one before it.
    pub neighbours: [f32; 2],
    /// What being said in the time the question names adds, as a share.
    pub time: f32,
    /// What a fact counts against the words it comes from.
    pub fact: f32,
    /// What a month of age takes, as a share; only decides between equals.
    pub age: f32,
    /// Least share of the question's telling words that the best memory must have; half of it is enough for others.
    pub floor: f32,
    /// Windows of the first search whose words are searched as well, and what they count.
    pub feedback: (usize, f32),
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            embedding: 0.5,
            neighbours: [0.2, 0.2],
            time: 0.3,
            fact: 1.1,
            age: 0.01,
            floor: 0.2,
            feedback: (5, 0.15),
        }
    }
}

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Ask<'a> {
    /// The user's own words.
    pub text: &'a str,
    /// Whose memory; empty = the default scope.
    pub scope: &'a str,
    /// In which session, so that nothing is shown twice; empty = none.
    pub session: &'a str,
    /// Now, ms since 1970.
    pub now_ms: i64,
    /// What the prompt has already; it is not repeated. Without it, what the journal says was added in this session.
    pub known: Option<Known<'a>>,
    /// Tokens that may be added; 0 = as the settings say.
    pub budget_tokens: u32,
    /// Memories that may be added; 0 = as the settings say.
    pub limit: usize,
    /// What held at this moment, instead of what holds now.
    pub as_of_ms: Option<i64>,
    /// A search by the user: everything that fits, quarantined and shown ones too, without a floor.
    pub search: bool,
}

/// Whether the prompt has a memory already.
#[derive(Clone, Copy)]
pub struct Known<'a>(pub &'a (dyn Fn(&Recalled) -> bool + Send + Sync));

impl std::fmt::Debug for Known<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Known")
    }
}

/// Where a memory comes from.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Source {
    /// Session id.
    pub session_id: String,
    /// User turn within it.
    pub turn: u32,
}

/// One memory.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Recalled {
    /// `w123` for a window, else the fact's id.
    pub id: String,
    /// The fact's type; `episodic` for a window.
    pub kind: String,
    /// What was said, whole.
    pub content: String,
    /// The words a fact was taken from, where they differ.
    #[serde(skip)]
    pub quote: Option<String>,
    /// As it is put into the context: dated, attributed, quoted.
    pub line: String,
    /// Who said it.
    pub speaker: String,
    /// When, ms since 1970.
    pub at_ms: i64,
    /// Higher is better; comparable within one question.
    pub score: f32,
    /// The words that matched.
    pub why: String,
    /// Estimated tokens of the line.
    pub tokens: u32,
    /// Where it was said.
    pub source: Source,
    /// The journal row.
    pub turn_id: Option<TurnId>,
    /// When a newer statement took its place.
    pub outdated_ms: Option<i64>,
    /// Not accepted by the user.
    pub quarantined: bool,
}

/// Windows that mean something similar, by an embedding.
#[async_trait]
pub trait Nearest: Send + Sync + 'static {
    /// Window numbers of `scope` with their cosine, best first. A model in trouble gives nothing.
    async fn nearest(&self, scope: &str, text: &str, limit: usize) -> Vec<(i64, f32)>;
}

struct Candidate {
    window: Arc<Window>,
    fact: Option<Arc<Fact>>,
    score: f32,
    covered: f32,
    why: Vec<String>,
}

/// Where recall reads from.
enum Shelf {
    Store,
    /// Beside the database; everything is at hand.
    Live(Snapshot),
}

impl Memory {
    /// What fits the question, best first; nothing if nothing does.
    pub async fn recall(&self, ask: &Ask<'_>) -> Result<Vec<Recalled>> {
        let shelf = match self.snapshot() {
            // What was added before must be asked of the journal.
            Some(snapshot) if ask.known.is_some() || ask.search || ask.session.is_empty() => Shelf::Live(snapshot),
            _ => Shelf::Store,
        };
        self.recall_from(&shelf, ask).await
    }

    /// The same at once, where that is possible: a request waits. `None` = only [`Memory::recall`] can tell.
    pub fn recall_now(&self, ask: &Ask<'_>) -> Option<Vec<Recalled>> {
        if ask.known.is_none() || self.nearest.is_some() {
            return None;
        }
        let snapshot = self.snapshot()?;
        if snapshot.is_empty() {
            return Some(Vec::new());
        }
        if snapshot.is_slow() {
            return None;
        }
        self.recall_from(&Shelf::Live(snapshot), ask).now_or_never()?.ok()
    }

    async fn recall_from(&self, shelf: &Shelf, ask: &Ask<'_>) -> Result<Vec<Recalled>> {
        let settings = self.settings();
        let default = &settings.scope;
        let scope = base_scope(if ask.scope.is_empty() { default } else { ask.scope }, default);
        let mut asked = terms::asked(ask.text);
        let echo = Echo::new(ask, &asked);
        if echo.is_greeting() {
            asked.clear();
        }
        asked.truncate(64);
        let nearest = match self.nearest() {
            Some(model) => model.nearest(&scope, ask.text, NEAREST).await,
            None => Vec::new(),
        };
        let pinned = if ask.search { Vec::new() } else { self.pinned(shelf, &scope).await? };
        if asked.is_empty() && nearest.is_empty() && pinned.is_empty() && self.only_time(ask).is_none() {
            return Ok(Vec::new());
        }
        let mut pool = Pool::open(self, shelf, scope).await?;
        pool.search(self, shelf, &asked).await?;
        let idf = pool.idf(&asked, 0.0);
        // How much of the question is covered is judged as in a large store: in a small one every word is rare.
        let telling = pool.idf(&asked, SMALL);
        let mut scores = pool.scores(&asked, &idf);
        let weights = &settings.weights;
        let fed = self.feed_back(shelf, &pool, &scores, &asked, weights).await?;
        if !fed.is_empty() {
            pool.search(self, shelf, &fed).await?;
            let idf = pool.idf(&fed, 0.0);
            let more: HashMap<i64, f32> = pool.scores(&fed, &idf).into_iter().collect();
            for (id, score) in &mut scores {
                *score += more.get(id).copied().unwrap_or_default();
            }
        }
        let windows = self.windows_of(shelf, &pool, &scores, &nearest).await?;
        let mut found = self.judge(shelf, ask, windows, &scores, &nearest, &asked, &telling).await?;
        found.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.window.id.cmp(&a.window.id)));
        if let Some(time) = self.only_time(ask) {
            found = self.said_in(shelf, &pool, time).await?;
        } else if !ask.search {
            echo.leave_out(&mut found, |candidate| (&candidate.window, candidate.fact.as_deref()));
        }
        self.choose(shelf, ask, pinned, found).await
    }

    /// The time that is asked about, if nothing else is: `What did we talk about yesterday?`
    fn only_time(&self, ask: &Ask<'_>) -> Option<std::ops::Range<i64>> {
        if ask.text.len() > LONGEST_TIME {
            return None;
        }
        let spans = time::spans(ask.text, ask.now_ms, &self.settings().zone);
        let span = spans.first()?;
        let rest = format!("{} {}", ask.text.get(..span.range.start)?, ask.text.get(span.range.end..)?);
        let about_talking = |asked: &Asked| {
            let cjk = !asked.text.is_ascii() && asked.text.chars().all(|c| TALKING_CJK.contains(c));
            cjk || TALKING.contains(&asked.text.as_str())
        };
        terms::asked(&rest).iter().all(about_talking).then(|| span.when.millis(&self.settings().zone))
    }

    /// What was said in a time, the last first.
    async fn said_in(&self, shelf: &Shelf, pool: &Pool, time: std::ops::Range<i64>) -> Result<Vec<Candidate>> {
        let ids = match shelf {
            Shelf::Live(snapshot) => snapshot.said_in(&pool.scope, &time, SAID_IN),
            Shelf::Store => self.store.memory_said_in(pool.key, time.clone(), SAID_IN as u32).await?,
        };
        let mut windows = match shelf {
            Shelf::Live(snapshot) => snapshot.windows(&pool.scope, ids.into_iter()),
            Shelf::Store => self.store.memory_windows(&ids).await?.into_iter().map(Arc::new).collect(),
        };
        windows.extend(pool.loose.iter().filter_map(|loose| match loose {
            Loose::Window(window) if window.id < 0 && time.contains(&window.at_ms) => Some(window.clone()),
            _ => None,
        }));
        // What the user said tells more of a day than what was answered.
        windows.sort_by_key(|w| std::cmp::Reverse((w.speaker != "assistant", w.at_ms, w.id)));
        let why = vec!["said then".to_owned()];
        let candidate = |window| Candidate { window, fact: None, score: 1.0, covered: 1.0, why: why.clone() };
        Ok(windows.into_iter().map(candidate).collect())
    }

    /// What the user wants to be remembered always.
    async fn pinned(&self, shelf: &Shelf, scope: &str) -> Result<Vec<Candidate>> {
        let mut facts = match shelf {
            Shelf::Live(snapshot) => snapshot.pinned(scope),
            Shelf::Store => {
                let filter = FactFilter {
                    scope: Some(scope.to_owned()),
                    status: Some("active".to_owned()),
                    pinned: Some(true),
                    ..FactFilter::default()
                };
                self.store.facts(&filter).await?.into_iter().map(Arc::new).collect()
            }
        };
        facts.sort_by_key(|f| std::cmp::Reverse((f.valid_from_ms, f.key)));
        let candidate = |fact: Arc<Fact>| {
            let window = Window {
                id: 0,
                fact: Some(fact.key),
                session: fact.session.clone(),
                turn: fact.turn,
                turn_no: fact.turn_end,
                part: 0,
                speaker: fact.speaker.clone(),
                at_ms: fact.valid_from_ms,
                quarantined: false,
                text: String::new(),
                terms: Vec::new(),
                outdated_ms: None,
            };
            let why = vec!["pinned".to_owned()];
            Candidate { window: Arc::new(window), fact: Some(fact), score: 1.0, covered: 1.0, why }
        };
        Ok(facts.into_iter().map(candidate).collect())
    }

    /// Windows of the journal rows that no absorber has read yet: recall never waits for it.
    async fn unread(&self, scope: &str) -> Result<Vec<Arc<Window>>> {
        let from = self.store.memory_cursor().await?;
        let (mut turns, to) = self.store.memory_turns(from, UNREAD).await?;
        // While much is unread, the newest are known all the same.
        turns.extend(self.live.fresh_after(to));
        let settings = self.settings();
        turns.retain(|turn| scope_of(&turn.scope, &settings.scope) == scope);
        if turns.is_empty() {
            return Ok(Vec::new());
        }
        let buried = self.store.memory_buried().await?;
        let mut reader = Reader::new(&settings.scope, &settings.zone);
        self.context(&mut reader, &turns, from).await?;
        let mut all = Vec::new();
        for turn in &turns {
            let new = reader.windows(turn).into_iter();
            for new in new.filter(|window| !buried.contains(&(window.scope.clone(), window.hash))) {
                // Numbers below zero: they get theirs when they are written.
                let id = -1 - i64::try_from(all.len()).unwrap_or_default();
                all.push(Arc::new(unwritten(id, new)));
            }
        }
        Ok(all)
    }

    /// Words that the best windows share beyond the question's.
    async fn feed_back(
        &self,
        shelf: &Shelf,
        pool: &Pool,
        scores: &[(i64, f32)],
        asked: &[Asked],
        weights: &Weights,
    ) -> Result<Vec<Asked>> {
        let (count, weight) = weights.feedback;
        if count == 0 || weight <= 0.0 || pool.indexed < 64 {
            return Ok(Vec::new());
        }
        let best: Vec<(i64, f32)> = scores.iter().copied().take(count).collect();
        let windows = self.windows_of(shelf, pool, &best, &[]).await?;
        let known: HashSet<u32> = asked.iter().map(|a| a.number).collect();
        let mut shares: HashMap<u32, (f32, usize)> = HashMap::new();
        for window in &windows {
            let Some((_, score)) = best.iter().find(|(id, _)| *id == window.id) else { continue };
            for (term, impact) in window.terms.iter().filter(|(term, _)| !known.contains(term)) {
                let share = shares.entry(*term).or_default();
                share.0 += score * f32::from(*impact) / 255.0;
                share.1 += 1;
            }
        }
        // One window's words alone say nothing.
        let mut shared: Vec<_> = shares.into_iter().filter(|(_, (_, n))| *n > 1).collect();
        shared.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then(a.0.cmp(&b.0)));
        shared.truncate(10);
        let top = shared.first().map_or(1.0, |(_, (share, _))| *share).max(f32::EPSILON);
        let fed = |(number, (share, _)): (u32, (f32, usize))| Asked {
            number,
            share: weight * share / top,
            text: String::new(),
        };
        Ok(shared.into_iter().map(fed).collect())
    }

    async fn windows_of(
        &self,
        shelf: &Shelf,
        pool: &Pool,
        scores: &[(i64, f32)],
        nearest: &[(i64, f32)],
    ) -> Result<Vec<Arc<Window>>> {
        let mut ids = HashSet::new();
        for (id, _) in scores.iter().take(CANDIDATES) {
            // With the neighbours that may gain from them.
            ids.extend([*id, id - 1, id + 1]);
        }
        ids.extend(nearest.iter().map(|(id, _)| *id));
        let stored = ids.iter().copied().filter(|id| *id > 0);
        let mut windows = match shelf {
            Shelf::Live(snapshot) => snapshot.windows(&pool.scope, stored),
            Shelf::Store => {
                let stored: Vec<i64> = stored.collect();
                let windows = if stored.is_empty() { Vec::new() } else { self.store.memory_windows(&stored).await? };
                windows.into_iter().map(Arc::new).collect()
            }
        };
        let unwritten = pool.loose.iter().filter_map(|loose| match loose {
            Loose::Window(window) if window.id < 0 && ids.contains(&window.id) => Some(window.clone()),
            _ => None,
        });
        windows.extend(unwritten);
        Ok(windows)
    }

    #[expect(clippy::too_many_arguments, reason = "what was found, by every signal")]
    async fn judge(
        &self,
        shelf: &Shelf,
        ask: &Ask<'_>,
        windows: Vec<Arc<Window>>,
        scores: &[(i64, f32)],
        nearest: &[(i64, f32)],
        asked: &[Asked],
        idf: &[f32],
    ) -> Result<Vec<Candidate>> {
        let settings = self.settings();
        let weights = &settings.weights;
        let keys: Vec<i64> = windows.iter().filter_map(|w| w.fact).collect();
        let mut facts: HashMap<i64, Arc<Fact>> = HashMap::new();
        match shelf {
            Shelf::Live(snapshot) => facts.extend(keys.iter().filter_map(|key| Some((*key, snapshot.fact(*key)?)))),
            Shelf::Store if keys.is_empty() => {}
            Shelf::Store => {
                let limit = u32::try_from(keys.len()).unwrap_or(u32::MAX);
                let filter = FactFilter { keys: Some(keys), limit, ..FactFilter::default() };
                facts.extend(self.store.facts(&filter).await?.into_iter().map(|f| (f.key, Arc::new(f))));
            }
        }
        let by_id: HashMap<i64, f32> = scores.iter().copied().collect();
        let sessions: HashMap<i64, &str> = windows.iter().map(|w| (w.id, w.session.as_str())).collect();
        let from_neighbour = |id: i64, neighbour: i64, session: &str, share: f32| {
            let same = sessions.get(&neighbour).is_some_and(|s| *s == session) && (id > 0) == (neighbour > 0);
            if same { share * by_id.get(&neighbour).copied().unwrap_or_default() } else { 0.0 }
        };
        let named: Vec<std::ops::Range<i64>> =
            time::spans(ask.text, ask.now_ms, &settings.zone).iter().map(|s| s.when.millis(&settings.zone)).collect();
        let mut scored: Vec<(i64, f32, f32, Vec<String>)> = Vec::with_capacity(windows.len());
        let total: f32 = asked.iter().zip(idf).map(|(a, idf)| a.share * idf).sum();
        for window in &windows {
            let mut score = by_id.get(&window.id).copied().unwrap_or_default();
            // Numbers of unread windows fall.
            let step = window.id.signum();
            score += from_neighbour(window.id, window.id - step, &window.session, weights.neighbours[0]);
            score += from_neighbour(window.id, window.id + step, &window.session, weights.neighbours[1]);
            if let Some(key) = window.fact {
                score *= weights.fact;
                if facts.get(&key).is_some_and(|fact| fact.tags.iter().any(|tag| tag == UNVERIFIED)) {
                    score *= UNSURE;
                }
            }
            if named.iter().any(|range| range.contains(&window.at_ms)) {
                score *= 1.0 + weights.time;
            }
            let months = (ask.now_ms - window.at_ms).max(0) as f32 / (30.0 * 86_400_000.0);
            score *= 1.0 - (weights.age * months).min(0.1);
            let mut covered = 0.0;
            let mut why: Vec<(f32, &str)> = Vec::new();
            for (term, idf) in asked.iter().zip(idf) {
                if window.terms.binary_search_by_key(&term.number, |(t, _)| *t).is_ok() {
                    covered += term.share * idf;
                    why.push((term.share * idf, &term.text));
                }
            }
            why.sort_by(|a, b| b.0.total_cmp(&a.0));
            let why = why.into_iter().take(6).map(|(_, word)| word.to_owned()).collect();
            scored.push((window.id, score, covered / total.max(f32::EPSILON), why));
        }
        fuse(&mut scored, nearest, weights.embedding);
        let candidates = windows.into_iter().zip(scored).map(|(window, (_, score, covered, why))| {
            let fact = window.fact.and_then(|key| facts.get(&key).cloned());
            Candidate { window, fact, score, covered, why }
        });
        Ok(candidates.collect())
    }

    async fn choose(
        &self,
        shelf: &Shelf,
        ask: &Ask<'_>,
        pinned: Vec<Candidate>,
        found: Vec<Candidate>,
    ) -> Result<Vec<Recalled>> {
        let settings = self.settings();
        let shown: HashSet<String> = if ask.known.is_some() || ask.session.is_empty() || ask.search {
            HashSet::new()
        } else {
            self.store.memory_shown(ask.session).await?.into_iter().collect()
        };
        let limit = if ask.limit == 0 { settings.max_units } else { ask.limit };
        let budget = if ask.budget_tokens == 0 { settings.max_tokens } else { ask.budget_tokens };
        // Heading and introduction are paid for, too.
        let mut left = budget.saturating_sub(settings.heading_tokens());
        // Once something fits, less is enough for what stands beside it.
        let best = found.iter().map(|c| c.covered).fold(0.0, f32::max);
        let floor = settings.weights.floor;
        let floor = if best < floor { floor } else { floor / 2.0 };
        let mut chosen: Vec<Recalled> = Vec::new();
        let mut terms_of: Vec<HashSet<u32>> = Vec::new();
        // What is pinned leaves room for what is asked.
        let always = pinned.len().min(limit.div_ceil(2));
        let (mut pins, mut looked, mut first) = (0, 0, pinned.into_iter());
        let mut rest = found.into_iter();
        while let Some(candidate) = first.next().or_else(|| rest.next()) {
            if chosen.len() >= limit {
                break;
            }
            let is_pin = candidate.window.id == 0;
            if is_pin && pins >= always {
                continue;
            }
            if candidate.score <= 0.0 || !ask.search && candidate.covered < floor {
                continue;
            }
            let Some(memory) = self.memory_of(shelf, ask, &candidate) else { continue };
            // `Okay.` is found by what was said before it.
            if !ask.search && memory.content.len() < 40 && terms::asked(&memory.content).is_empty() {
                continue;
            }
            // Looking through a long prompt takes its time.
            looked += 1;
            if looked > LOOKS {
                break;
            }
            let repeated = shown.contains(&memory.id)
                || ask.known.is_some_and(|known| known.0(&memory))
                || chosen
                    .iter()
                    .any(|c| c.line == memory.line || c.at_ms == memory.at_ms && c.content.contains(&memory.content));
            if repeated || memory.tokens > left {
                continue;
            }
            let terms: HashSet<u32> = candidate.window.terms.iter().map(|(t, _)| *t).collect();
            if !is_pin && terms_of.iter().any(|other| alike(&terms, other)) {
                continue;
            }
            pins += usize::from(is_pin);
            left -= memory.tokens;
            terms_of.push(terms);
            chosen.push(memory);
        }
        Ok(chosen)
    }

    /// The memory of a candidate, if it may be shown and holds at the time that is asked about.
    fn memory_of(&self, shelf: &Shelf, ask: &Ask<'_>, candidate: &Candidate) -> Option<Recalled> {
        let settings = self.settings();
        let Candidate { window, fact, score, why, .. } = candidate;
        let mut quarantined = window.quarantined;
        let mut outdated_ms = match shelf {
            Shelf::Live(snapshot) => snapshot.outdated_ms(window),
            Shelf::Store => window.outdated_ms,
        };
        let mut quote = None;
        let (id, kind, content, at_ms) = match fact {
            Some(fact) => {
                let holds = match ask.as_of_ms {
                    Some(at) => {
                        matches!(fact.status.as_str(), "active" | "superseded")
                            && fact.valid_from_ms <= at
                            && fact.valid_to_ms.is_none_or(|to| to > at)
                    }
                    None => {
                        fact.status == "active" && fact.valid_to_ms.is_none_or(|to| to > ask.now_ms)
                            || ask.search && fact.status == "quarantined"
                    }
                };
                if !holds || fact.expires_ms.is_some_and(|at| at <= ask.now_ms) {
                    return None;
                }
                quarantined |= fact.status == "quarantined";
                outdated_ms = None;
                quote = Some(fact.quote.clone()).filter(|quote| !quote.is_empty() && *quote != fact.content);
                (fact.id.clone(), fact.kind.clone(), fact.content.clone(), fact.valid_from_ms)
            }
            // A fact that is gone.
            None if window.fact.is_some() => return None,
            None => {
                if ask.as_of_ms.is_some_and(|at| window.at_ms > at) {
                    return None;
                }
                // A window that was not written yet has no number that would last.
                let id = match (window.id > 0, window.turn) {
                    (false, Some(turn)) if turn.0 >= UNNUMBERED => {
                        format!("t{}#{}.{}", window.session, window.turn_no, window.part)
                    }
                    (false, Some(turn)) => format!("t{turn}.{}", window.part),
                    _ => format!("w{}", window.id),
                };
                (id, "episodic".to_owned(), window.text.clone(), window.at_ms)
            }
        };
        if quarantined && !ask.search {
            return None;
        }
        let line = render::line(&window.speaker, at_ms, &content, outdated_ms, &settings.zone);
        Some(Recalled {
            tokens: dialect::estimate_tokens(&line) + 1,
            id,
            kind,
            content,
            quote,
            line,
            speaker: window.speaker.clone(),
            at_ms,
            score: *score,
            why: why.join(", "),
            source: Source { session_id: window.session.clone(), turn: window.turn_no },
            turn_id: window.turn.filter(|turn| turn.0 < UNNUMBERED),
            outdated_ms,
            quarantined,
        })
    }

    fn nearest(&self) -> Option<Arc<dyn Nearest>> {
        self.nearest.clone()
    }
}

/// Both scores on the scale of their best; what only one of them has found counts with that one's share.
fn fuse(scored: &mut [(i64, f32, f32, Vec<String>)], nearest: &[(i64, f32)], share: f32) {
    let (Some(best), Some(worst)) = (nearest.first(), nearest.last()) else { return };
    let top = scored.iter().map(|s| s.1).fold(f32::EPSILON, f32::max);
    let near: HashMap<i64, f32> = nearest.iter().copied().collect();
    let spread = (best.1 - worst.1).max(0.01);
    for (id, score, covered, _) in scored {
        let meaning = near.get(id).map_or(0.0, |cosine| (cosine - worst.1) / spread);
        *score = (1.0 - share) * *score / top + share * meaning;
        // What means the same need not have the words.
        *covered = covered.max(meaning);
    }
}

/// Nearly the same words.
fn alike(a: &HashSet<u32>, b: &HashSet<u32>) -> bool {
    let common = a.intersection(b).count();
    common * 10 > (a.len() + b.len() - common) * 8
}

/// A window beside the index.
enum Loose {
    /// Written, and not indexed yet.
    Tail(TailWindow),
    /// Not written yet, or at hand anyway.
    Window(Arc<Window>),
}

/// Everything that is searched for one question.
struct Pool {
    scope: String,
    /// The scope's number in the database.
    key: i64,
    indexed: u64,
    rows: Vec<Arc<PostingRow>>,
    loose: Vec<Loose>,
}

impl Pool {
    async fn open(memory: &Memory, shelf: &Shelf, scope: String) -> Result<Self> {
        let mut pool = Self { scope, key: -1, indexed: 0, rows: Vec::new(), loose: Vec::new() };
        match shelf {
            Shelf::Live(snapshot) => {
                pool.indexed = snapshot.indexed(&pool.scope);
                pool.loose.extend(snapshot.loose(memory, &pool.scope).into_iter().map(Loose::Window));
            }
            Shelf::Store => {
                if let Some(info) = memory.store.memory_scope(&pool.scope).await? {
                    (pool.key, pool.indexed) = (info.key, info.indexed);
                }
                pool.loose.extend(memory.unread(&pool.scope).await?.into_iter().map(Loose::Window));
            }
        }
        Ok(pool)
    }

    /// Finds the rows of these terms.
    async fn search(&mut self, memory: &Memory, shelf: &Shelf, asked: &[Asked]) -> Result<()> {
        let numbers: Vec<u32> = asked.iter().map(|a| a.number).collect();
        match shelf {
            Shelf::Live(snapshot) => self.rows = snapshot.rows(&self.scope, &numbers),
            Shelf::Store => {
                let (rows, tail) = memory.store.memory_postings(self.key, &numbers).await?;
                self.rows = rows.into_iter().map(Arc::new).collect();
                self.loose.retain(|loose| matches!(loose, Loose::Window(_)));
                self.loose.extend(tail.into_iter().map(Loose::Tail));
            }
        }
        self.rows.sort_by_key(|row| row.chunk);
        Ok(())
    }

    fn loose(&self) -> impl Iterator<Item = (i64, &[(u32, u8)])> {
        self.loose.iter().map(|loose| match loose {
            Loose::Tail(window) => (window.id, window.terms.as_slice()),
            Loose::Window(window) => (window.id, window.terms.as_slice()),
        })
    }

    fn idf(&self, asked: &[Asked], least: f32) -> Vec<f32> {
        let mut holders: HashMap<u32, u64> = HashMap::new();
        for row in &self.rows {
            *holders.entry(row.term).or_default() += u64::from(row.n);
        }
        for (_, terms) in self.loose() {
            for term in asked {
                if terms.binary_search_by_key(&term.number, |(t, _)| *t).is_ok() {
                    *holders.entry(term.number).or_default() += 1;
                }
            }
        }
        let all = (self.indexed as f32 + self.loose.len() as f32).max(least);
        let idf = |asked: &Asked| {
            let df = holders.get(&asked.number).copied().unwrap_or_default() as f32;
            (1.0 + (all - df + 0.5).max(0.0) / (df + 0.5)).ln()
        };
        asked.iter().map(idf).collect()
    }

    /// The best windows with their scores, best first.
    fn scores(&self, asked: &[Asked], idf: &[f32]) -> Vec<(i64, f32)> {
        let weight: HashMap<u32, f32> =
            asked.iter().zip(idf).map(|(a, idf)| (a.number, a.share * idf / 255.0)).collect();
        let mut best = Best::default();
        let mut sums = vec![0.0f32; CHUNK as usize];
        let mut rows = self.rows.as_slice();
        while let Some(first) = rows.first() {
            let end = rows.iter().position(|row| row.chunk != first.chunk).unwrap_or(rows.len());
            for row in &rows[..end] {
                let weight = weight.get(&row.term).copied().unwrap_or_default();
                store::decode(&row.data, |posting| {
                    if let Some(sum) = sums.get_mut(usize::from(posting.place)) {
                        *sum += weight * f32::from(posting.impact);
                    }
                });
            }
            for (place, sum) in (0i64..).zip(sums.iter_mut()) {
                if *sum > 0.0 {
                    best.add(first.chunk * CHUNK + place, *sum);
                    *sum = 0.0;
                }
            }
            rows = &rows[end..];
        }
        for (id, terms) in self.loose() {
            let sum: f32 = weight
                .iter()
                .filter_map(|(term, weight)| {
                    let at = terms.binary_search_by_key(term, |(t, _)| *t).ok()?;
                    Some(weight * f32::from(terms[at].1))
                })
                .sum();
            if sum > 0.0 {
                best.add(id, sum);
            }
        }
        best.finish()
    }
}

/// The best few of many, found without sorting them all.
#[derive(Default)]
struct Best {
    found: Vec<(i64, f32)>,
    least: f32,
}

impl Best {
    /// Kept for feedback and neighbours beyond [`CANDIDATES`].
    const KEPT: usize = 4 * CANDIDATES;

    fn add(&mut self, id: i64, score: f32) {
        if score <= self.least {
            return;
        }
        self.found.push((id, score));
        if self.found.len() >= 2 * Self::KEPT {
            self.found.select_nth_unstable_by(Self::KEPT, |a, b| b.1.total_cmp(&a.1));
            self.found.truncate(Self::KEPT);
            self.least = self.found.iter().map(|f| f.1).fold(f32::MAX, f32::min);
        }
    }

    fn finish(mut self) -> Vec<(i64, f32)> {
        self.found.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        self.found.truncate(Self::KEPT);
        self.found
    }
}
