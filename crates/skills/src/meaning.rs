//! Skills found by what they mean: vectors of a skill's text and of the phrases it is known by, and of everyday questions
//! that no skill is for: the background. The vectors are made elsewhere and handed in; here they are compared.
//!
//! Whether a turn is about any skill at all, and about which, are two questions. A model's cosines of unlike things are
//! near those of like things, and near in another place for every question, every skill and every model. So the
//! background is the measure: how much nearer than usual the nearest skill is, less how near the nearest everyday
//! questions are, has to be more than what nearly all everyday questions have themselves, each measured against the
//! others. Skills are then ordered by how far each stands out among all of them.

use std::collections::HashMap;

use embed::{Vector, dot};

use crate::bank::{Bank, Lexical, Query, Retriever};
use crate::index::Scored;
use crate::skill::Skill;

/// Phrases of a skill that get a vector of their own, spread over its keywords.
const PHRASES: usize = 12;
/// How many of the nearest everyday questions speak for a question being one of them.
const NEAREST: usize = 5;
/// The share of everyday questions that a question must lead, for skills to be given for its meaning.
const LEADS: f32 = 0.95;
/// The share it must lead for what its words have found to stay, unless they are sure.
const DOUBTED: f32 = 0.5;
/// Words are sure that reach the floor this many times.
const SURE: f32 = 2.0;
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
    background: Vec<Vector>,
    /// By [`Skill::content_hash`], with how near it is to everyday questions on the average.
    skills: HashMap<u128, (Meaning, f32)>,
    /// What [`Meanings::excess`] is for everyday questions, the least first.
    usual: Vec<f32>,
}

impl Meanings {
    /// Of the vectors of [`background`] and of skills by their [`Skill::content_hash`]. Compares all with all: not for an
    /// async thread.
    pub fn new(background: Vec<Vector>, skills: HashMap<u128, Meaning>) -> Self {
        let count = background.len().max(1) as f32;
        let with_mean = |(hash, meaning): (u128, Meaning)| {
            let mean = background.iter().map(|question| dot(question, &meaning.whole)).sum::<f32>() / count;
            (hash, (meaning, mean))
        };
        let skills = skills.into_iter().map(with_mean).collect();
        let mut meanings = Self { background, skills, usual: Vec::new() };
        let all = |at: usize| meanings.excess(&meanings.background[at], Some(at), meanings.skills.values());
        let mut usual: Vec<f32> = (0..meanings.background.len()).map(all).collect();
        usual.sort_by(f32::total_cmp);
        meanings.usual = usual;
        meanings
    }

    /// The number of skills that have vectors.
    pub fn len(&self) -> usize {
        self.skills.len()
    }

    /// Whether no skill has any.
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }

    /// How much nearer than usual the nearest of `skills` is to a question, less how near the nearest everyday questions
    /// are, `but` for one.
    fn excess<'a>(
        &self,
        question: &Vector,
        but: Option<usize>,
        skills: impl Iterator<Item = &'a (Meaning, f32)>,
    ) -> f32 {
        let best = skills.map(|(meaning, mean)| dot(question, &meaning.whole) - mean).fold(f32::NEG_INFINITY, f32::max);
        let others = self.background.iter().enumerate().filter(|(at, _)| Some(*at) != but);
        let mut near: Vec<f32> = others.map(|(_, everyday)| dot(question, everyday)).collect();
        near.sort_by(|a, b| b.total_cmp(a));
        near.truncate(NEAREST);
        best - near.iter().sum::<f32>() / near.len().max(1) as f32
    }

    /// What a question must have to lead this share of the everyday ones; without any, nothing.
    fn least(&self, share: f32) -> f32 {
        let last = self.usual.len().saturating_sub(1);
        self.usual.get((last as f32 * share).round() as usize).copied().unwrap_or(f32::NEG_INFINITY)
    }
}

/// Things people say and ask that no skill is for, in three languages.
pub fn background() -> impl Iterator<Item = &'static str> {
    include_str!("background.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
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
        let known = bank.skills().iter().enumerate().filter(|(at, _)| bank.is_wanted(*at, query));
        let known = known.filter_map(|(_, skill)| self.meanings.skills.get(&skill.content_hash));
        let excess = self.meanings.excess(self.question, None, known);
        if excess < self.meanings.least(DOUBTED) {
            // Words that only happen to be a skill's. Of a skill without vectors nothing but its words is known.
            let vectors = |at: usize| {
                bank.skills().get(at).is_some_and(|skill| self.meanings.skills.contains_key(&skill.content_hash))
            };
            scored.retain(|scored| scored.score >= floor * SURE || !vectors(scored.skill));
        }
        if excess < self.meanings.least(LEADS) {
            return (scored, raise);
        }
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
            let (meaning, _) = self.meanings.skills.get(&skill.content_hash)?;
            let whole = near(&meaning.whole);
            Some((at, [nearest(&meaning.phrases, whole), whole]))
        });
        let known: Vec<(usize, [f32; 2])> = known.collect();
        let wanted = known.iter().filter(|(at, _)| bank.is_wanted(*at, query));
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::{Limits, parse};

    fn bank() -> Bank {
        let skill = |(name, topic): (&str, &str)| {
            let keywords = format!("metadata:\n  metaclaw-keywords: {topic}");
            let text = format!("---\nname: {name}\ndescription: About {name}.\n{keywords}\n---\n\nDo it.\n");
            Arc::new(parse(&Path::new(name).join("SKILL.md"), text.as_bytes()).skill.unwrap())
        };
        Bank::new([("boats", "berths"), ("bread", "sourdough")].map(skill).to_vec(), HashSet::new())
    }

    /// Boats, bread, everyday things, and what only this text has.
    fn vector(boats: f32, bread: f32, everyday: f32, own: usize) -> Vector {
        let mut numbers = vec![0.0; 64];
        (numbers[0], numbers[1], numbers[2], numbers[3 + own]) = (boats, bread, everyday, 0.3);
        Vector::of(numbers)
    }

    fn meanings(bank: &Bank, left_out: Option<&str>) -> Meanings {
        let background = (0..40).map(|own| vector(own as f32 / 200.0, 0.1, 1.0, own)).collect();
        let of = |skill: &Arc<Skill>| {
            let boats = f32::from(u8::from(skill.name == "boats"));
            let whole = vector(boats, 1.0 - boats, 0.3, 50);
            (skill.content_hash, Meaning { phrases: vec![whole.clone()], whole })
        };
        let skills = bank.skills().iter().filter(|skill| left_out != Some(skill.name.as_str())).map(of).collect();
        Meanings::new(background, skills)
    }

    fn found(text: &str, question: &Vector, left_out: Option<&str>) -> Vec<String> {
        let bank = bank();
        let (meanings, limits) = (meanings(&bank, left_out), Limits::default());
        let by = ByMeaning { question, meanings: &meanings, words: true, floor: limits.floor };
        let hits = bank.search_by(&by, &Query { text, ..Query::default() }, &limits);
        hits.into_iter().map(|hit| hit.skill.name.clone()).collect()
    }

    #[test]
    fn what_leads_everyday_questions_is_given_a_skill_and_what_is_one_of_them_none() {
        assert_eq!(found("qqq", &vector(1.0, 0.0, 0.2, 60), None)[0], "boats");
        assert!(found("qqq", &vector(0.1, 0.1, 1.0, 60), None).is_empty());
    }

    #[test]
    fn words_that_only_happen_to_be_a_skills_are_dropped_where_its_meaning_is_known() {
        let everyday = vector(0.02, 0.05, 1.0, 60);
        assert!(!bank().search(&Query { text: "berths", ..Query::default() }, &Limits::default()).is_empty());
        assert!(found("berths", &everyday, None).is_empty());
        assert_eq!(found("berths", &everyday, Some("boats")), ["boats"], "nothing but its words is known");
        assert_eq!(found("boats and berths", &everyday, None), ["boats"], "its words are sure");
    }

    #[test]
    fn without_a_background_the_nearest_is_taken() {
        let bank = bank();
        let meanings = Meanings { background: Vec::new(), usual: Vec::new(), ..meanings(&bank, None) };
        assert!(meanings.excess(&vector(0.0, 0.0, 1.0, 60), None, meanings.skills.values()) >= meanings.least(LEADS));
        assert_eq!(Meanings::default().len(), 0);
    }
}
