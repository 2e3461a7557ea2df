//! Skills found by what they mean: vectors of a skill's text and of the phrases it is known by, and of small talk, which
//! no skill is for. The vectors are made elsewhere and handed in; here they are compared.
//!
//! Whether a turn is about any skill at all, and about which, are two questions. A model's cosines of unlike things are
//! near those of like things, and near in another place for every question; so a skill counts only if it is about as near
//! as the nearest small talk, and skills are ordered by how far each stands out among all of them.

use std::collections::HashMap;

use embed::{Vector, dot};

use crate::bank::{Bank, Lexical, Query, Retriever};
use crate::index::Scored;
use crate::skill::Skill;

/// Phrases of a skill that get a vector of their own, spread over its keywords.
const PHRASES: usize = 12;
/// How much farther than the nearest small talk a skill may be. On the labelled queries with nothing to find, eight in a
/// hundred have a skill nearer than that.
const NEAR: f32 = -0.0267;
/// Skills that a question gets for their meaning alone.
const MOST: usize = 3;
/// Where words have found something, how far behind the best another may be.
const BEHIND: f32 = 4.0;
/// What standing out by its phrases and as a whole counts beside the words, in deviations.
const BY_PHRASE: f32 = 0.5;
const BY_WHOLE: f32 = 0.25;
/// What the words count: as often as they reach the floor, up to this much.
const BY_WORDS: f32 = 2.0;
const MOST_WORDS: f32 = 1.5;

/// What has to be turned into vectors for one skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// Its name, description and keywords: a passage.
    pub whole: String,
    /// Short phrases it is known by: like questions.
    pub phrases: Vec<String>,
}

impl Texts {
    /// Of a skill.
    pub fn of(skill: &Skill) -> Self {
        let name = skill.name.replace('-', " ");
        let whole = format!("{name}. {} {}", skill.description, skill.keywords.join(", "));
        let sentences = skill.description.split_inclusive(['.', '。']).map(str::trim).filter(|s| !s.is_empty());
        let mut phrases: Vec<String> = if skill.keywords.is_empty() {
            std::iter::once(name).chain(sentences.map(str::to_owned)).collect()
        } else {
            skill.keywords.clone()
        };
        let all = phrases.len();
        if all > PHRASES {
            let mut at = 0;
            phrases.retain(|_| {
                at += 1;
                at == 1 || (at - 1) * PHRASES / all != (at - 2) * PHRASES / all
            });
        }
        Self { whole: whole.trim_end().to_owned(), phrases }
    }
}

/// The vectors of one skill.
#[derive(Debug, Clone)]
pub struct Meaning {
    /// Of [`Texts::whole`].
    pub whole: Vector,
    /// Of [`Texts::phrases`].
    pub phrases: Vec<Vector>,
}

/// The vectors of a bank, all of one model.
#[derive(Debug, Clone, Default)]
pub struct Meanings {
    /// Of small talk: see [`small_talk`].
    pub small_talk: Vec<Vector>,
    /// By [`Skill::content_hash`].
    pub skills: HashMap<u128, Meaning>,
}

/// Things people say that no skill is for, in three languages.
pub fn small_talk() -> impl Iterator<Item = &'static str> {
    include_str!("small_talk.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Skills by meaning, and by their words as well unless they are not wanted.
#[derive(Debug, Clone, Copy)]
pub struct ByMeaning<'a> {
    /// The question's vector.
    pub question: &'a Vector,
    /// The bank's.
    pub meanings: &'a Meanings,
    /// Words count too: `hybrid`. Without, it is `embedding`.
    pub words: bool,
    /// [`crate::Limits::floor`] of the search.
    pub floor: f32,
}

impl Retriever for ByMeaning<'_> {
    fn name(&self) -> &'static str {
        if self.words { "hybrid" } else { "embedding" }
    }

    fn rank(&self, bank: &Bank, query: &Query<'_>) -> (Vec<Scored>, f32) {
        let (mut scored, raise) = if self.words { Lexical.rank(bank, query) } else { (Vec::new(), 1.0) };
        let floor = self.floor * raise;
        for pick in self.picks(bank, query, &scored, floor) {
            // Just above what the words must reach, so that what they are sure of goes first.
            let score = floor * 1.01;
            match scored.iter_mut().find(|known| known.skill == pick) {
                Some(known) if known.score >= score => {}
                Some(known) => (known.score, known.kept) = (score, true),
                None => scored.push(Scored { skill: pick, score, why: "by meaning".to_owned(), kept: true }),
            }
        }
        (scored, raise)
    }
}

impl ByMeaning<'_> {
    /// The skills that the question is about, whatever its words.
    fn picks(&self, bank: &Bank, query: &Query<'_>, scored: &[Scored], floor: f32) -> Vec<usize> {
        let near = |v: &Vector| dot(self.question, v);
        let nearest = |vectors: &[Vector], least: f32| vectors.iter().map(near).fold(least, f32::max);
        let known = bank.skills().iter().enumerate().filter_map(|(at, skill)| {
            let meaning = self.meanings.skills.get(&skill.content_hash)?;
            let whole = near(&meaning.whole);
            Some((at, [nearest(&meaning.phrases, whole), whole]))
        });
        let known: Vec<(usize, [f32; 2])> = known.collect();
        let wanted = known.iter().filter(|(at, _)| bank.is_wanted(*at, query));
        let best = wanted.clone().map(|(_, [_, whole])| *whole).fold(f32::NEG_INFINITY, f32::max);
        if best - nearest(&self.meanings.small_talk, f32::NEG_INFINITY) < NEAR {
            return Vec::new();
        }
        let spreads = [0, 1].map(|kind| Spread::of(known.iter().map(move |(_, cosines)| cosines[kind])));
        let mut words = vec![0.0f32; bank.len()];
        for scored in scored {
            if let Some(words) = words.get_mut(scored.skill) {
                *words = (scored.score / floor.max(f32::EPSILON) * self.floor).min(MOST_WORDS);
            }
        }
        let stands = |(at, cosines): &(usize, [f32; 2])| {
            let words = words.get(*at).copied().unwrap_or_default();
            let [phrase, whole] = [0, 1].map(|kind| spreads[kind].deviation(cosines[kind]));
            (*at, BY_WORDS * words + BY_PHRASE * phrase + BY_WHOLE * whole)
        };
        let mut stands: Vec<(usize, f32)> = wanted.map(stands).collect();
        stands.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let sure = scored.iter().any(|scored| scored.score >= floor && bank.is_wanted(scored.skill, query));
        let least = match stands.first() {
            Some((_, best)) if sure => best - BEHIND,
            _ => f32::NEG_INFINITY,
        };
        stands.into_iter().take(MOST).filter(|(_, stands)| *stands >= least).map(|(at, _)| at).collect()
    }
}

/// Mean and deviation of some numbers.
struct Spread {
    mean: f32,
    deviation: f32,
}

impl Spread {
    fn of(numbers: impl Iterator<Item = f32> + Clone) -> Self {
        let count = numbers.clone().count().max(1) as f32;
        let mean = numbers.clone().sum::<f32>() / count;
        let deviation = (numbers.map(|x| (x - mean) * (x - mean)).sum::<f32>() / count).sqrt();
        Self { mean, deviation }
    }

    fn deviation(&self, x: f32) -> f32 {
        if self.deviation > 0.0 { (x - self.mean) / self.deviation } else { 0.0 }
    }
}
