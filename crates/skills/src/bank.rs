//! An immutable set of skills with its index: what one turn is answered with. Made by [`crate::Library`] on every
//! reload; searched by the proxy for each user turn.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use crate::index::{Index, Scored};
use crate::skill::{GENERAL, Skill};

/// A skill must reach this score to be given to the agent; calibrated on `tests/queries.tsv`.
pub const DEFAULT_FLOOR: f32 = 0.7;
/// A hit must have at least this share of the best hit's score.
const SHARE_OF_BEST: f32 = 0.45;

/// What to look for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<'a> {
    /// The user's own words.
    pub text: &'a str,
    /// The agent that asks, for skills that are only for some.
    pub agent: Option<&'a str>,
    /// Names the caller does not want, besides those disabled in the library.
    pub disabled: Option<&'a HashSet<String>>,
}

/// Upper bounds; most turns get fewer skills, many none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// At most this many of category `general`.
    pub top_k: usize,
    /// At most this many of all other categories together.
    pub task_specific_top_k: usize,
    /// The least score, see [`DEFAULT_FLOOR`].
    pub floor: f32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { top_k: 6, task_specific_top_k: 10, floor: DEFAULT_FLOOR }
    }
}

/// A skill that fits a query.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The skill.
    pub skill: Arc<Skill>,
    /// See [`Scored::score`].
    pub score: f32,
    /// The matched words of the query, for people to read.
    pub why: String,
}

/// A way to score a bank's skills for a query: [`Lexical`], or [`crate::ByMeaning`].
pub trait Retriever: Send + Sync {
    /// Short name for traces.
    fn name(&self) -> &'static str;
    /// Scores in any order; skills without a score are left out. The second value multiplies the floor.
    fn rank(&self, bank: &Bank, query: &Query<'_>) -> (Vec<Scored>, f32);
}

/// BM25 over words and phrases: `skills.retrieval_mode: template`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lexical;

impl Retriever for Lexical {
    fn name(&self) -> &'static str {
        "lexical"
    }

    fn rank(&self, bank: &Bank, query: &Query<'_>) -> (Vec<Scored>, f32) {
        bank.index.rank(query.text)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Bank {
    skills: Vec<Arc<Skill>>,
    by_name: HashMap<String, usize>,
    disabled: HashSet<String>,
    index: Index,
    fingerprint: u64,
}

impl Default for Bank {
    fn default() -> Self {
        Self::new(Vec::new(), HashSet::new())
    }
}

impl Bank {
    /// A bank of `skills`, of which those named in `disabled` are kept but never found. Sorted by name; of two skills
    /// with one name the first stays.
    pub fn new(mut skills: Vec<Arc<Skill>>, disabled: HashSet<String>) -> Self {
        skills.sort_by(|a, b| a.name.cmp(&b.name));
        skills.dedup_by(|later, first| later.name == first.name);
        let by_name = skills.iter().enumerate().map(|(i, s)| (s.name.clone(), i)).collect();
        let index = Index::new(skills.iter().map(AsRef::as_ref));
        let mut hash = Xxh3::new();
        for skill in skills.iter().filter(|s| !disabled.contains(&s.name)) {
            hash.update(skill.name.as_bytes());
            hash.update(&skill.content_hash.to_le_bytes());
        }
        Self { skills, by_name, disabled, index, fingerprint: hash.digest() }
    }

    /// All skills, disabled ones too, by name.
    pub fn skills(&self) -> &[Arc<Skill>] {
        &self.skills
    }

    /// The skill with this name, disabled or not.
    pub fn get(&self, name: &str) -> Option<&Arc<Skill>> {
        self.by_name.get(name).map(|i| &self.skills[*i])
    }

    /// Whether the library lists the skill as active.
    pub fn is_enabled(&self, name: &str) -> bool {
        !self.disabled.contains(name)
    }

    /// Number of skills, disabled ones too.
    pub fn len(&self) -> usize {
        self.skills.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }

    /// Changes when, and only when, the active skills or their contents change; the same on every machine.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The skills that fit `query`, best first, by words. Empty when nothing fits.
    pub fn search(&self, query: &Query<'_>, limits: &Limits) -> Vec<Hit> {
        self.search_by(&Lexical, query, limits)
    }

    /// The same with another way of scoring.
    pub fn search_by(&self, retriever: &dyn Retriever, query: &Query<'_>, limits: &Limits) -> Vec<Hit> {
        if query.text.trim().is_empty() || self.skills.is_empty() {
            return Vec::new();
        }
        let (mut scored, raise) = retriever.rank(self, query);
        let floor = limits.floor * raise;
        scored.retain(|s| s.score >= floor && self.is_wanted(s.skill, query));
        // Equal scores are ordered by name: the bank's order.
        scored.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.skill.cmp(&b.skill)));
        let Some(best) = scored.first().map(|s| s.score) else { return Vec::new() };
        let (mut general, mut specific) = (limits.top_k, limits.task_specific_top_k);
        let mut chosen = Vec::new();
        for scored in scored {
            if scored.score < best * SHARE_OF_BEST && !scored.kept {
                continue;
            }
            let skill = &self.skills[scored.skill];
            let left = if skill.category == GENERAL { &mut general } else { &mut specific };
            if *left == 0 {
                continue;
            }
            *left -= 1;
            chosen.push(scored);
        }
        let numbers: Vec<usize> = chosen.iter().map(|s| s.skill).collect();
        let words = self.index.why(query.text, &numbers);
        let hit = |(scored, words): (Scored, String)| Hit {
            skill: Arc::clone(&self.skills[scored.skill]),
            score: scored.score,
            why: if scored.why.is_empty() { words } else { scored.why },
        };
        chosen.into_iter().zip(words).map(hit).collect()
    }

    pub(crate) fn is_wanted(&self, skill: usize, query: &Query<'_>) -> bool {
        self.skills.get(skill).is_some_and(|skill| {
            !skill.manual
                && skill.is_for(query.agent)
                && !self.disabled.contains(&skill.name)
                && !query.disabled.is_some_and(|d| d.contains(&skill.name))
        })
    }
}
