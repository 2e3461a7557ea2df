//! A question → the memories that answer it. BM25 over the whole scope, the newest turns included whether absorbed or not;
//! neighbours, time and, where it is known, the meaning add to it; then near duplicates go, and what is left fills a token budget.
//! Reads only.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::FutureExt as _;
use store::{Fact, FactFilter, TurnId, Window};

use crate::absorb::Reader;
use crate::echo::Echo;
use crate::live::{Snapshot, UNNUMBERED, unwritten};
use crate::meaning::Meant;
use crate::pool::{Loose, Pool};
use crate::score::{Candidate, Found};
use crate::terms::{self, Asked};
use crate::{Memory, Result, base_scope, render, scope_of, time};

/// Windows whose text is looked at.
pub(crate) const CANDIDATES: usize = 96;
/// Rows of the journal that are searched before they are absorbed; more wait for the absorber.
const UNREAD: u32 = 256;
/// Windows below which a store is small.
const SMALL: f32 = 1000.0;
/// Nearest windows by meaning.
const NEAREST: usize = 64;

/// Words that reach the floor this many times are not few.
const SURE: f32 = 3.0;
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
    /// Share of the meaning where it is known; the words have the rest.
    pub meaning: f32,
    /// Share of the question's telling words that the best memory must have for words to count whole beside the meaning.
    pub whole: f32,
    /// How far something must stand out by meaning to count, and to count whole; 1 is the bar of its scope.
    pub level: [f32; 2],
    /// Share of its score a window gives to the one after it, and to the one before it.
    pub neighbours: [f32; 2],
    /// The same by meaning.
    pub near_neighbours: [f32; 2],
    /// What being said in the time the question names adds, as a share.
    pub time: f32,
    /// What a fact counts against the words it comes from.
    pub fact: f32,
    /// What a month of age takes, as a share; only decides between equals.
    pub age: f32,
    /// Least share of the question's telling words that the best memory must have; half of it is enough for others.
    pub floor: f32,
    /// How far the best memory must stand out by meaning if its words are not enough, and how far others then.
    pub stands: [f32; 2],
    /// How far words that are few must stand out, where their meaning is known.
    pub doubt: f32,
    /// Windows of the first search whose words are searched as well, and what they count.
    pub feedback: (usize, f32),
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            meaning: 0.3,
            whole: 0.7,
            level: [0.5, 2.0],
            neighbours: [0.1, 0.3],
            near_neighbours: [0.5, 1.0],
            time: 0.3,
            fact: 1.1,
            age: 0.01,
            floor: 0.2,
            stands: [1.0, 0.5],
            doubt: 0.8,
            feedback: (5, 0.15),
        }
    }
}

impl Weights {
    /// Whether a memory answers the question, and not only shares something with it.
    fn answers(&self, candidate: &Candidate) -> bool {
        let &Candidate { covered, stands, .. } = candidate;
        let doubtful = stands > f32::NEG_INFINITY && stands < self.doubt && covered < SURE * self.floor;
        covered >= self.floor && !doubtful || stands >= self.stands[0]
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
    /// What it means, where that is known; recall is by meaning then as well.
    pub meant: Option<&'a Meant>,
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

/// Where recall reads from.
pub(crate) enum Shelf {
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
        ask.known?;
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
        let meant = ask.meant.filter(|_| !echo.is_greeting());
        let pinned = if ask.search { Vec::new() } else { self.pinned(shelf, &scope).await? };
        if asked.is_empty() && meant.is_none() && pinned.is_empty() && self.only_time(ask).is_none() {
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
        let mut ids = beside(scores.iter().take(CANDIDATES).map(|(id, _)| *id));
        let near = match meant {
            Some(meant) => self.near(&pool.scope, meant, &ids, NEAREST).await?,
            None => None,
        };
        ids.extend(near.iter().flat_map(|near| &near.best).map(|(id, _)| *id));
        let windows = self.windows_of(shelf, &pool, &ids).await?;
        let found = Found { windows, scores: &scores, near: near.as_ref(), asked: &asked, telling: &telling };
        let mut found = self.judge(shelf, ask, found).await?;
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
        let candidate = |window| Candidate { why: why.clone(), ..Candidate::sure(window, None) };
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
            Candidate { why, ..Candidate::sure(Arc::new(window), Some(fact)) }
        };
        Ok(facts.into_iter().map(candidate).collect())
    }

    /// Windows of the journal rows that no absorber has read yet: recall never waits for it.
    pub(crate) async fn unread(&self, scope: &str) -> Result<Vec<Arc<Window>>> {
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
        let ids = beside(best.iter().map(|(id, _)| *id));
        let windows = self.windows_of(shelf, pool, &ids).await?;
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

    async fn windows_of(&self, shelf: &Shelf, pool: &Pool, ids: &[i64]) -> Result<Vec<Arc<Window>>> {
        let ids: HashSet<i64> = ids.iter().copied().collect();
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
        // Once something answers, less is enough for what stands beside it.
        let answered = found.iter().any(|candidate| settings.weights.answers(candidate));
        let floor = settings.weights.floor / 2.0;
        let stands = settings.weights.stands[1];
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
            let fits = is_pin || answered && (candidate.covered >= floor || candidate.stands >= stands);
            if candidate.score <= 0.0 || !ask.search && !fits {
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
}

/// These windows with the neighbours that may gain from them.
fn beside(ids: impl Iterator<Item = i64>) -> Vec<i64> {
    ids.flat_map(|id| [id, id - 1, id + 1]).collect()
}

/// Nearly the same words.
fn alike(a: &HashSet<u32>, b: &HashSet<u32>) -> bool {
    let common = a.intersection(b).count();
    common * 10 > (a.len() + b.len() - common) * 8
}
