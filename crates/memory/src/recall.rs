//! A question → the memories that answer it. BM25 over the whole scope, the newest turns included whether absorbed or not;
//! neighbours, time and an optional embedding add to it; then near duplicates go, and what is left fills a token budget.
//! Reads only.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use store::{CHUNK, Fact, FactFilter, PostingRow, TailWindow, TurnId, Window};

use crate::absorb::Reader;
use crate::terms::{self, Asked};
use crate::{Memory, Result, base_scope, render, scope_of, time};

/// Windows whose text is looked at.
const CANDIDATES: usize = 96;
/// Rows of the journal that are searched before they are absorbed; more wait for the absorber.
const UNREAD: u32 = 256;
/// Windows below which a store is small.
const SMALL: f32 = 1000.0;
/// Nearest windows asked of an embedding.
const NEAREST: usize = 64;

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
    /// Everything that is in the prompt already; what stands there is not repeated.
    pub prompt: &'a str,
    /// Tokens that may be added; 0 = as the settings say.
    pub budget_tokens: u32,
    /// Memories that may be added; 0 = as the settings say.
    pub limit: usize,
    /// What held at this moment, instead of what holds now.
    pub as_of_ms: Option<i64>,
    /// A search by the user: everything that fits, quarantined and shown ones too, without a floor.
    pub search: bool,
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
    window: Window,
    fact: Option<Fact>,
    score: f32,
    covered: f32,
    why: Vec<String>,
}

impl Memory {
    /// What fits the question, best first; nothing if nothing does.
    pub async fn recall(&self, ask: &Ask<'_>) -> Result<Vec<Recalled>> {
        let settings = self.settings();
        let default = &settings.scope;
        let scope = base_scope(if ask.scope.is_empty() { default } else { ask.scope }, default);
        let mut asked = terms::asked(ask.text);
        asked.truncate(64);
        let nearest = match self.nearest() {
            Some(model) => model.nearest(&scope, ask.text, NEAREST).await,
            None => Vec::new(),
        };
        if asked.is_empty() && nearest.is_empty() {
            return Ok(Vec::new());
        }
        let info = self.store.memory_scope(&scope).await?;
        let key = info.as_ref().map_or(-1, |info| info.key);
        let unread = self.unread(&scope).await?;
        let mut pool =
            Pool { indexed: info.map_or(0, |info| info.indexed), unread, rows: Vec::new(), tail: Vec::new() };
        pool.search(self, key, &asked).await?;
        let idf = pool.idf(&asked, 0.0);
        // How much of the question is covered is judged as in a large store: in a small one every word is rare.
        let telling = pool.idf(&asked, SMALL);
        let mut scores = pool.scores(&asked, &idf);
        let weights = &settings.weights;
        let fed = self.feed_back(&pool, &scores, &asked, weights).await?;
        if !fed.is_empty() {
            let mut wider = Pool { rows: Vec::new(), tail: Vec::new(), ..pool };
            wider.search(self, key, &fed).await?;
            let idf = wider.idf(&fed, 0.0);
            let more: HashMap<i64, f32> = wider.scores(&fed, &idf).into_iter().collect();
            for (id, score) in &mut scores {
                *score += more.get(id).copied().unwrap_or_default();
            }
            pool = wider;
        }
        let windows = self.windows_of(&pool, &scores, &nearest).await?;
        let mut found = self.judge(ask, windows, &scores, &nearest, &asked, &telling).await?;
        found.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.window.id.cmp(&a.window.id)));
        self.choose(ask, found).await
    }

    /// Windows of the journal rows that no absorber has read yet: recall never waits for it.
    async fn unread(&self, scope: &str) -> Result<Vec<Window>> {
        let from = self.store.memory_cursor().await?;
        let (mut turns, _) = self.store.memory_turns(from, UNREAD).await?;
        let settings = self.settings();
        turns.retain(|turn| scope_of(&turn.scope, &settings.scope) == scope);
        if turns.is_empty() {
            return Ok(Vec::new());
        }
        let mut reader = Reader::new(&settings.scope, &settings.zone);
        self.context(&mut reader, &turns, from).await?;
        let mut all = Vec::new();
        for turn in &turns {
            for new in reader.windows(turn) {
                // Numbers below zero: they get theirs when they are written.
                let id = -1 - i64::try_from(all.len()).unwrap_or_default();
                all.push(Window {
                    id,
                    fact: None,
                    session: new.session,
                    turn: new.turn,
                    turn_no: new.turn_no,
                    part: new.part,
                    speaker: new.speaker,
                    at_ms: new.at_ms,
                    quarantined: new.quarantined,
                    text: new.text,
                    terms: new.terms,
                    outdated_ms: None,
                });
            }
        }
        Ok(all)
    }

    /// Words that the best windows share beyond the question's.
    async fn feed_back(
        &self,
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
        let windows = self.windows_of(pool, &best, &[]).await?;
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

    async fn windows_of(&self, pool: &Pool, scores: &[(i64, f32)], nearest: &[(i64, f32)]) -> Result<Vec<Window>> {
        let mut ids = HashSet::new();
        for (id, _) in scores.iter().take(CANDIDATES) {
            // With the neighbours that may gain from them.
            ids.extend([*id, id - 1, id + 1]);
        }
        ids.extend(nearest.iter().map(|(id, _)| *id));
        let stored: Vec<i64> = ids.iter().copied().filter(|id| *id > 0).collect();
        let mut windows = if stored.is_empty() { Vec::new() } else { self.store.memory_windows(&stored).await? };
        windows.extend(pool.unread.iter().filter(|w| ids.contains(&w.id)).cloned());
        Ok(windows)
    }

    async fn judge(
        &self,
        ask: &Ask<'_>,
        windows: Vec<Window>,
        scores: &[(i64, f32)],
        nearest: &[(i64, f32)],
        asked: &[Asked],
        idf: &[f32],
    ) -> Result<Vec<Candidate>> {
        let settings = self.settings();
        let weights = &settings.weights;
        let keys: Vec<i64> = windows.iter().filter_map(|w| w.fact).collect();
        let mut facts: HashMap<i64, Fact> = HashMap::new();
        if !keys.is_empty() {
            let limit = u32::try_from(keys.len()).unwrap_or(u32::MAX);
            let filter = FactFilter { keys: Some(keys), limit, ..FactFilter::default() };
            facts.extend(self.store.facts(&filter).await?.into_iter().map(|f| (f.key, f)));
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
            if window.fact.is_some() {
                score *= weights.fact;
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

    async fn choose(&self, ask: &Ask<'_>, found: Vec<Candidate>) -> Result<Vec<Recalled>> {
        let settings = self.settings();
        let shown: HashSet<String> = if ask.session.is_empty() || ask.search {
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
        for candidate in found {
            if chosen.len() >= limit {
                break;
            }
            if candidate.score <= 0.0 || !ask.search && candidate.covered < floor {
                continue;
            }
            let Some(memory) = self.memory_of(ask, &candidate) else { continue };
            // `Okay.` is found by what was said before it.
            if !ask.search && memory.content.len() < 40 && terms::asked(&memory.content).is_empty() {
                continue;
            }
            let repeated = shown.contains(&memory.id)
                || !ask.prompt.is_empty() && ask.prompt.contains(memory.content.trim())
                || chosen.iter().any(|c| c.content.contains(&memory.content) && c.at_ms == memory.at_ms);
            if repeated || memory.tokens > left {
                continue;
            }
            let terms: HashSet<u32> = candidate.window.terms.iter().map(|(t, _)| *t).collect();
            if terms_of.iter().any(|other| alike(&terms, other)) {
                continue;
            }
            left -= memory.tokens;
            terms_of.push(terms);
            chosen.push(memory);
        }
        Ok(chosen)
    }

    /// The memory of a candidate, if it may be shown and holds at the time that is asked about.
    fn memory_of(&self, ask: &Ask<'_>, candidate: &Candidate) -> Option<Recalled> {
        let settings = self.settings();
        let Candidate { window, fact, score, why, .. } = candidate;
        let mut quarantined = window.quarantined;
        let mut outdated_ms = window.outdated_ms;
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
            line,
            speaker: window.speaker.clone(),
            at_ms,
            score: *score,
            why: why.join(", "),
            source: Source { session_id: window.session.clone(), turn: window.turn_no },
            turn_id: window.turn,
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

/// Everything that is searched for one question.
struct Pool {
    indexed: u64,
    unread: Vec<Window>,
    rows: Vec<PostingRow>,
    tail: Vec<TailWindow>,
}

impl Pool {
    async fn search(&mut self, memory: &Memory, scope: i64, asked: &[Asked]) -> Result<()> {
        let numbers: Vec<u32> = asked.iter().map(|a| a.number).collect();
        (self.rows, self.tail) = memory.store.memory_postings(scope, &numbers).await?;
        self.rows.sort_by_key(|row| row.chunk);
        Ok(())
    }

    fn loose(&self) -> impl Iterator<Item = (i64, &[(u32, u8)])> {
        let tail = self.tail.iter().map(|w| (w.id, w.terms.as_slice()));
        tail.chain(self.unread.iter().map(|w| (w.id, w.terms.as_slice())))
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
        let all = (self.indexed as f32 + (self.tail.len() + self.unread.len()) as f32).max(least);
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
