//! Facts that several sources have told: the same twice, or the opposite later. Every new fact is compared with the few of its
//! scope that share its words, so there are never all pairs; what gives way is closed with its reason, never deleted, and can be
//! taken back. Rules decide, no model.

use std::collections::{BTreeSet, HashSet};

use store::{Fact, FactFilter, Merge, Merged};

use crate::extract::negates;
use crate::pool::Pool;
use crate::recall::{CANDIDATES, Shelf};
use crate::{Memory, Result, facts, terms};

/// Facts that are looked at in one step.
const STEP: u32 = 32;
/// Facts that one is compared with at most.
const COMPARED: usize = 24;
/// Terms that are searched with.
const TERMS: usize = 24;

/// What a step of tidying up did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tidied {
    /// Facts that were looked at.
    pub looked: usize,
    /// Facts that were closed.
    pub closed: usize,
    /// There are more to be looked at.
    pub more: bool,
}

impl std::ops::AddAssign for Tidied {
    fn add_assign(&mut self, other: Self) {
        self.looked += other.looked;
        self.closed += other.closed;
        self.more = other.more;
    }
}

impl Memory {
    /// One step: the next facts are compared with those that share their words.
    pub async fn tidy(&self, now_ms: i64) -> Result<Tidied> {
        let from = self.store.memory_tidied().await?;
        let keys = self.store.fact_keys_after(from, STEP).await?;
        let Some(to) = keys.last().copied() else { return Ok(Tidied::default()) };
        let mut new = self.facts_with(&keys).await?;
        new.sort_by_key(|fact| fact.key);
        let (mut merges, mut closed) = (Vec::new(), HashSet::new());
        for fact in new.iter().filter(|fact| is_settled(fact)) {
            for other in self.akin(fact).await? {
                if closed.contains(&other.key) || closed.contains(&fact.key) {
                    continue;
                }
                if let Some(merge) = verdict(fact, &other) {
                    closed.insert(merge.closed);
                    merges.push(merge);
                }
            }
        }
        let write = self.store.memory_tidy(from, to, merges.clone(), now_ms);
        // Memory stays at hand where nothing is changed.
        let done = if merges.is_empty() { write.await? } else { self.changing(write).await? };
        let more = keys.len() >= STEP as usize;
        match done {
            Some(closed) => Ok(Tidied { looked: keys.len(), closed, more }),
            None => Ok(Tidied { more: true, ..Tidied::default() }),
        }
    }

    /// Facts of the scope that share words with this one and were learned before it.
    async fn akin(&self, fact: &Fact) -> Result<Vec<Fact>> {
        let mut asked = terms::asked(&fact.content);
        asked.sort_by(|a, b| b.share.total_cmp(&a.share));
        asked.truncate(TERMS);
        let shelf = Shelf::Store;
        let mut pool = Pool::open(self, &shelf, fact.scope.clone()).await?;
        pool.search(self, &shelf, &asked).await?;
        let idf = pool.idf(&asked, 0.0);
        let scores = pool.scores(&asked, &idf);
        let ids: Vec<i64> = scores.iter().take(CANDIDATES).map(|(id, _)| *id).filter(|id| *id > 0).collect();
        let windows = self.store.memory_windows(&ids).await?;
        let keys: Vec<i64> =
            windows.iter().filter_map(|w| w.fact).filter(|key| *key < fact.key).take(COMPARED).collect();
        let mut akin = self.facts_with(&keys).await?;
        akin.retain(is_settled);
        akin.sort_by_key(|fact| std::cmp::Reverse(fact.key));
        Ok(akin)
    }

    async fn facts_with(&self, keys: &[i64]) -> Result<Vec<Fact>> {
        let limit = u32::try_from(keys.len().max(1)).unwrap_or(u32::MAX);
        self.facts(&FactFilter { keys: Some(keys.to_vec()), limit, ..FactFilter::default() }).await
    }

    /// Takes back that tidying up has closed a fact; false if it has not.
    pub async fn untidy(&self, id: &str, now_ms: i64) -> Result<bool> {
        self.fact(id).await?;
        self.changing(self.store.memory_untidy(id, now_ms)).await
    }

    /// What tidying up did with these facts.
    pub async fn merges(&self, ids: &[String]) -> Result<Vec<Merged>> {
        Ok(self.store.memory_merges(ids).await?)
    }
}

/// A statement that holds now, and is no summary.
fn is_settled(fact: &Fact) -> bool {
    fact.status == "active" && fact.kind != "working_summary" && matches!(fact.modality.as_str(), "stated" | "")
}

/// What a fact says, to be compared.
struct Said {
    words: BTreeSet<u32>,
    /// As it was said, but for articles and punctuation.
    whole: Vec<String>,
    /// The same without what turns its sense round, and without the endings that go with that.
    without_negation: Vec<String>,
    numbers: Vec<String>,
    negative: bool,
    slot: Option<(String, String)>,
}

impl Said {
    fn of(fact: &Fact) -> Self {
        let understood = facts::understand(&fact.content);
        let slot = match (&fact.slot, &fact.value) {
            (Some(slot), Some(value)) => Some((slot.clone(), value.clone())),
            _ => understood.and_then(|statement| statement.slot.zip(statement.value)),
        };
        let folded = text::fold(&fact.content).into_owned();
        let numbers = folded.split(|c: char| !c.is_alphanumeric()).filter(|w| w.chars().any(char::is_numeric));
        let mut numbers: Vec<String> = numbers.map(str::to_owned).collect();
        numbers.sort();
        let negation: HashSet<u32> = NEGATIONS.iter().flat_map(|word| terms::asked(word)).map(|t| t.number).collect();
        let words = terms::asked(&fact.content).iter().map(|t| t.number).filter(|n| !negation.contains(n)).collect();
        let bare = |word: &&str| !ARTICLES.contains(word) && !word.is_empty();
        let whole: Vec<String> =
            folded.split_whitespace().map(|w| w.trim_matches(aside)).filter(bare).map(str::to_owned).collect();
        let turning = |word: &&String| !NEGATIONS.contains(&word.as_str());
        let without_negation = whole.iter().filter(turning).map(|word| bare_of(word)).collect();
        Self { words, whole, without_negation, numbers, negative: negates(&fact.content), slot }
    }
}

/// Words that say nothing of what is meant.
const ARTICLES: [&str; 3] = ["a", "an", "the"];

/// A word without an ending or a character that comes and goes with a negation.
fn bare_of(word: &str) -> String {
    let word = word.replace(['不', '没', '別', '别'], "");
    if word.len() > 3 { word.trim_end_matches('s').to_owned() } else { word }
}

/// Punctuation around a word.
fn aside(c: char) -> bool {
    !c.is_alphanumeric()
}

/// Words that turn a sense round; without them opposites are the same.
const NEGATIONS: [&str; 20] = [
    "not", "never", "no", "don't", "doesn't", "didn't", "won't", "can't", "cannot", "isn't", "aren't", "wasn't", "do",
    "does", "any", "anymore", "longer", "不", "没", "别",
];

/// Which of two facts gives way, if one does. `newer` was learned later.
fn verdict(newer: &Fact, older: &Fact) -> Option<Merge> {
    if newer.scope != older.scope || newer.speaker != older.speaker || newer.subject != older.subject {
        return None;
    }
    let (new, old) = (Said::of(newer), Said::of(older));
    // What was said later counts, whenever it was learned.
    let (late, early) = if newer.valid_from_ms >= older.valid_from_ms { (newer, older) } else { (older, newer) };
    let gives_way = |fact: &Fact, by: &Fact, why| (!fact.pinned).then_some(Merge { closed: fact.key, by: by.key, why });
    let same_words = !new.words.is_empty() && new.words == old.words && new.numbers == old.numbers;
    // Two words that a search passes over, or their order, may be all that tells two facts apart: on and off, before and after.
    if same_words && new.whole == old.whole && newer.expires_ms == older.expires_ms {
        // The same again changes nothing, unless the one that was there is worth less.
        let (stays, goes) = if rank(newer) > rank(older) { (newer, older) } else { (older, newer) };
        return gives_way(goes, stays, "same");
    }
    if same_words && new.negative != old.negative && new.without_negation == old.without_negation {
        return gives_way(early, late, "opposite");
    }
    match (new.slot, old.slot) {
        // Those of one slot with the same negation: facts that had none when they were learned.
        (Some((slot, value)), Some((of, before))) if slot == of && new.negative == old.negative => {
            let settled = newer.slot.is_some() && older.slot.is_some();
            if value == before || settled { None } else { gives_way(early, late, "newer") }
        }
        _ => None,
    }
}

/// Whose word counts more: what is pinned, what the user wrote, what rules took from his words, what a model named, what
/// was imported.
fn rank(fact: &Fact) -> u8 {
    match (fact.pinned, fact.origin.as_str()) {
        (true, _) => 4,
        (_, "user") => 3,
        (_, "rule") => 2,
        (_, "model") => 1,
        _ => 0,
    }
}
