//! What was found → how well it answers. The words and the meaning each on a scale of its own, with a share of what stands
//! beside a passage; then time, age, and what kind of memory it is.

use std::collections::HashMap;
use std::sync::Arc;

use store::{Fact, FactFilter, Window};

use crate::meaning::Near;
use crate::recall::{Ask, Shelf, Weights};
use crate::terms::Asked;
use crate::{Memory, Result, UNVERIFIED, time};

/// What an old memory counts that may say the opposite of what was meant.
const UNSURE: f32 = 0.7;

/// A memory that may answer.
pub(crate) struct Candidate {
    pub(crate) window: Arc<Window>,
    pub(crate) fact: Option<Arc<Fact>>,
    pub(crate) score: f32,
    /// Share of the question's telling words that it has.
    pub(crate) covered: f32,
    /// How far it stands out by meaning.
    pub(crate) stands: f32,
    pub(crate) why: Vec<String>,
}

impl Candidate {
    /// One that is wanted whatever the question.
    pub(crate) fn sure(window: Arc<Window>, fact: Option<Arc<Fact>>) -> Self {
        Self { window, fact, score: 1.0, covered: 1.0, stands: f32::NEG_INFINITY, why: Vec::new() }
    }
}

/// What was found, by every signal.
pub(crate) struct Found<'a> {
    pub(crate) windows: Vec<Arc<Window>>,
    /// By words, best first.
    pub(crate) scores: &'a [(i64, f32)],
    /// By meaning.
    pub(crate) near: Option<&'a Near>,
    pub(crate) asked: &'a [Asked],
    /// How rare each term of the question is in a large store.
    pub(crate) telling: &'a [f32],
}

impl Memory {
    /// Weighs what was found.
    pub(crate) async fn judge(&self, shelf: &Shelf, ask: &Ask<'_>, found: Found<'_>) -> Result<Vec<Candidate>> {
        let settings = self.settings();
        let weights = &settings.weights;
        let Found { windows, scores, near, asked, telling } = found;
        let facts = self.facts_of(shelf, &windows).await?;
        let named: Vec<std::ops::Range<i64>> =
            time::spans(ask.text, ask.now_ms, &settings.zone).iter().map(|s| s.when.millis(&settings.zone)).collect();
        let by_words: HashMap<i64, f32> = scores.iter().copied().collect();
        let words = with_neighbours(&windows, &by_words, weights.neighbours);
        let stands = near.map(|near| &near.stands);
        let total: f32 = asked.iter().zip(telling).map(|(a, idf)| a.share * idf).sum::<f32>().max(f32::EPSILON);
        let has = |window: &Window, term: &Asked| window.terms.binary_search_by_key(&term.number, |(t, _)| *t).is_ok();
        let covered = |window: &Arc<Window>| {
            let of = asked.iter().zip(telling).filter(|(term, _)| has(window, term));
            of.map(|(term, idf)| term.share * idf).sum::<f32>() / total
        };
        let covered: Vec<f32> = windows.iter().map(covered).collect();
        let by = if settings.words { covered.iter().copied().fold(0.0, f32::max) } else { 0.0 };
        let fused = fuse(&words, &windows, near, weights, by);
        let candidates = windows.into_iter().zip(fused).zip(covered).map(|((window, score), covered)| {
            let fact = window.fact.and_then(|key| facts.get(&key).cloned());
            let stands = stands.and_then(|all| all.get(&window.id)).copied().unwrap_or(f32::NEG_INFINITY);
            let mut score = score;
            if window.fact.is_some() {
                score *= weights.fact;
                if fact.as_ref().is_some_and(|fact| fact.tags.iter().any(|tag| tag == UNVERIFIED)) {
                    score *= UNSURE;
                }
            }
            if named.iter().any(|range| range.contains(&window.at_ms)) {
                score *= 1.0 + weights.time;
            }
            let months = (ask.now_ms - window.at_ms).max(0) as f32 / (30.0 * 86_400_000.0);
            score *= 1.0 - (weights.age * months).min(0.1);
            let found = asked.iter().zip(telling).filter(|(term, _)| has(&window, term));
            let mut why: Vec<(f32, &str)> = found.map(|(term, idf)| (term.share * idf, term.text.as_str())).collect();
            why.sort_by(|a, b| b.0.total_cmp(&a.0));
            let mut why: Vec<String> = why.into_iter().take(6).map(|(_, word)| word.to_owned()).collect();
            if stands >= weights.stands[1] {
                why.push("by meaning".to_owned());
            }
            let covered = if near.is_some() && !settings.words { 0.0 } else { covered };
            Candidate { window, fact, score, covered, stands, why }
        });
        Ok(candidates.collect())
    }

    async fn facts_of(&self, shelf: &Shelf, windows: &[Arc<Window>]) -> Result<HashMap<i64, Arc<Fact>>> {
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
        Ok(facts)
    }
}

/// What each has, with a share of what the passages before and after it in the same conversation have.
fn with_neighbours(windows: &[Arc<Window>], own: &HashMap<i64, f32>, shares: [f32; 2]) -> Vec<f32> {
    // A fact stands beside what was said when it was written down, not where it was said.
    let said = windows.iter().filter(|window| window.fact.is_none());
    let sessions: HashMap<i64, &str> = said.map(|w| (w.id, w.session.as_str())).collect();
    let share = |id: i64, neighbour: i64, session: &str, share: f32| {
        let same = sessions.get(&neighbour).is_some_and(|s| *s == session) && (id > 0) == (neighbour > 0);
        if same { share * own.get(&neighbour).copied().unwrap_or_default() } else { 0.0 }
    };
    let with = |window: &Arc<Window>| {
        let id = window.id;
        // Numbers of unread windows fall.
        let step = id.signum();
        let of = own.get(&id).copied().unwrap_or_default();
        if window.fact.is_some() {
            return of;
        }
        of + share(id, id - step, &window.session, shares[0]) + share(id, id + step, &window.session, shares[1])
    };
    windows.iter().map(with).collect()
}

/// Both signals as one: the words on the scale of their best, the meaning by how far it stands out. Words count little where
/// the best of them has little of the question, as where it is in another language than its answer.
fn fuse(words: &[f32], windows: &[Arc<Window>], near: Option<&Near>, weights: &Weights, covered: f32) -> Vec<f32> {
    let Some(near) = near else { return words.to_vec() };
    let top = words.iter().copied().fold(f32::EPSILON, f32::max);
    let by_words = (1.0 - weights.meaning) * (covered / weights.whole).min(1.0).powi(2) / top;
    let [none, whole] = weights.level;
    let own: HashMap<i64, f32> =
        near.stands.iter().map(|(id, stands)| (*id, ((stands - none) / (whole - none)).max(0.0))).collect();
    let meaning = with_neighbours(windows, &own, weights.near_neighbours);
    words.iter().zip(meaning).map(|(words, meaning)| by_words * words + weights.meaning * meaning).collect()
}
