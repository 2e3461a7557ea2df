//! Skills found by what they mean: vectors of a skill's text and of requests that it is for, and of everyday questions
//! that no skill is for: the background. The vectors are made elsewhere and handed in; here they are compared.
//!
//! Whether a turn is about any skill at all, and about which, are two questions. A model's cosines of unlike things are
//! near those of like things, and near in another place for every question and every model. So the background is the
//! measure: how near the nearest skill is, less how near the nearest everyday questions are, has to be more than what
//! nearly all everyday questions have themselves, each measured against the others. Skills are then ordered by how far
//! each leads.
//!
//! All of it without what the background has in common, languages among that ([`Common`]).
//!
//! A skill with example requests is as near as the nearest of them; one without is as near as its text, which says less.
//! The two are different measures, so each has an "usual" of its own.

use std::collections::HashMap;

use embed::{Common, Vector, dot};

use crate::bank::{Bank, Lexical, Query, Retriever};
use crate::index::Scored;
use crate::skill::{Origin, Skill};

/// Directions in which the three languages of the background part.
const LANGUAGES: usize = 2;
/// Examples of a skill that are compared, at most.
const EXAMPLES: usize = 12;
/// How many of its nearest examples speak for a skill.
const SPEAK: usize = 3;
/// What its text as a whole counts beside them.
const BY_WHOLE: f32 = 0.4;
/// How many of the nearest everyday questions speak for a question being one of them.
const NEAREST: usize = 5;
/// The share of everyday questions that a question must lead, for skills to be given for its meaning.
const LEADS: f32 = 0.94;
/// The share it must lead for what its words have found to stay, unless they are sure.
const DOUBTED: f32 = 0.9;
/// Words are sure that reach the floor this many times.
const SURE: f32 = 2.2;
/// Skills that a question gets for their meaning alone.
const MOST: usize = 4;
/// How far behind the best of them another may be, in deviations of the everyday leads.
const BEHIND: f32 = 1.5;

/// What has to be turned into vectors for one skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// Its name, description and keywords: a passage.
    pub whole: String,
    /// Requests that it is for: questions. Of its own front matter, or those that came with a built-in skill.
    pub examples: Vec<String>,
}

impl Texts {
    /// Of a skill.
    pub fn of(skill: &Skill) -> Self {
        let name = skill.name.replace('-', " ");
        let whole = format!("{name}. {} {}", skill.description, skill.keywords.join(", "));
        let mut examples = skill.examples.clone();
        if examples.is_empty() && matches!(skill.origin, Origin::Builtin | Origin::BuiltinEdited) {
            examples.extend(built_in_examples(&skill.name).map(str::to_owned));
        }
        examples.truncate(EXAMPLES);
        Self { whole: whole.trim_end().to_owned(), examples }
    }
}

/// The vectors of one skill.
#[derive(Debug, Clone)]
pub struct Meaning {
    /// Of [`Texts::whole`].
    pub whole: Vector,
    /// Of [`Texts::examples`].
    pub examples: Vec<Vector>,
}

impl Meaning {
    fn measure(&self) -> Measure {
        if self.examples.is_empty() { Measure::Text } else { Measure::Examples }
    }
}

/// How it is measured how near a skill is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Examples,
    Text,
}

/// The vectors of a skill, and how near its text is to everyday questions on the average.
#[derive(Debug, Clone)]
struct Known {
    meaning: Meaning,
    mean: f32,
}

impl Known {
    /// How near a question is.
    fn near(&self, question: &Vector) -> f32 {
        let whole = dot(question, &self.meaning.whole) - self.mean;
        match self.meaning.measure() {
            Measure::Text => whole,
            Measure::Examples => {
                BY_WHOLE.mul_add(whole, nearest(self.meaning.examples.iter().map(|v| dot(question, v)), SPEAK))
            }
        }
    }
}

/// The mean of the largest few.
fn nearest(cosines: impl Iterator<Item = f32>, few: usize) -> f32 {
    let mut cosines: Vec<f32> = cosines.collect();
    cosines.sort_by(|a, b| b.total_cmp(a));
    cosines.truncate(few);
    cosines.iter().sum::<f32>() / cosines.len().max(1) as f32
}

/// What the lead of the nearest skill is for everyday questions.
#[derive(Debug, Clone, Default)]
struct Usual {
    /// The least first.
    leads: Vec<f32>,
    mean: f32,
    deviation: f32,
}

impl Usual {
    fn of(mut leads: Vec<f32>) -> Self {
        leads.sort_by(f32::total_cmp);
        let count = leads.len().max(1) as f32;
        let mean = leads.iter().sum::<f32>() / count;
        let deviation = (leads.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / count).sqrt();
        Self { leads, mean, deviation }
    }

    /// What a question must have to lead this share of the everyday ones; without any, nothing.
    fn least(&self, share: f32) -> f32 {
        let last = self.leads.len().saturating_sub(1);
        self.leads.get((last as f32 * share).round() as usize).copied().unwrap_or(f32::NEG_INFINITY)
    }

    /// How far out a lead is, in deviations.
    fn out(&self, lead: f32) -> f32 {
        if self.deviation > 0.0 { (lead - self.mean) / self.deviation } else { lead }
    }
}

/// The vectors of a bank, all of one model.
#[derive(Debug, Clone, Default)]
pub struct Meanings {
    common: Common,
    /// Without what they have in common, as all vectors here.
    background: Vec<Vector>,
    /// By [`Skill::content_hash`].
    skills: HashMap<u128, Known>,
    by_examples: Usual,
    by_text: Usual,
}

impl Meanings {
    /// Of the vectors of [`background`] and of skills by their [`Skill::content_hash`]. Compares all with all: not for an
    /// async thread.
    pub fn new(background: Vec<Vector>, skills: HashMap<u128, Meaning>) -> Self {
        let count = background.len().max(1) as f32;
        let common = Common::of(&background, LANGUAGES);
        let without = |vectors: Vec<Vector>| vectors.iter().map(|vector| common.without(vector)).collect();
        let background: Vec<Vector> = without(background);
        let known = |(hash, meaning): (u128, Meaning)| {
            let meaning = Meaning { whole: common.without(&meaning.whole), examples: without(meaning.examples) };
            let mean = background.iter().map(|question| dot(question, &meaning.whole)).sum::<f32>() / count;
            (hash, Known { meaning, mean })
        };
        let skills = skills.into_iter().map(known).collect();
        let mut meanings = Self { common: common.clone(), background, skills, ..Self::default() };
        let everyday: Vec<f32> =
            (0..meanings.background.len()).map(|at| meanings.everyday(&meanings.background[at], Some(at))).collect();
        let usual = |measure: Measure| {
            let of = || meanings.skills.values().filter(|known| known.meaning.measure() == measure);
            let lead = |(question, everyday): (&Vector, &f32)| {
                of().map(|known| known.near(question)).fold(f32::NEG_INFINITY, f32::max) - everyday
            };
            match of().next() {
                Some(_) => Usual::of(meanings.background.iter().zip(&everyday).map(lead).collect()),
                None => Usual::default(),
            }
        };
        let (by_examples, by_text) = (usual(Measure::Examples), usual(Measure::Text));
        (meanings.by_examples, meanings.by_text) = (by_examples, by_text);
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

    fn usual(&self, measure: Measure) -> &Usual {
        match measure {
            Measure::Examples => &self.by_examples,
            Measure::Text => &self.by_text,
        }
    }

    /// How near the nearest everyday questions are to a question, `but` for one.
    fn everyday(&self, question: &Vector, but: Option<usize>) -> f32 {
        let others = self.background.iter().enumerate().filter(|(at, _)| Some(*at) != but);
        nearest(others.map(|(_, everyday)| dot(question, everyday)), NEAREST)
    }
}

/// Things people say and ask that no skill is for, in three languages.
pub fn background() -> impl Iterator<Item = &'static str> {
    include_str!("background.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// What people say when a built-in skill is what helps.
pub fn built_in_examples(name: &str) -> impl Iterator<Item = &'static str> {
    include_str!("examples.tsv")
        .lines()
        .filter_map(move |line| line.split_once('\t'))
        .filter(move |(of, _)| *of == name)
        .map(|(_, request)| request)
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

/// How far a skill leads the everyday questions.
#[derive(Debug, Clone, Copy)]
struct Lead {
    /// Place in the bank.
    skill: usize,
    /// More than nearly all everyday questions have.
    leads: bool,
    /// More than most of them have.
    likely: bool,
    /// In deviations of what they have.
    out: f32,
}

impl Retriever for ByMeaning<'_> {
    fn name(&self) -> &'static str {
        if self.words { "hybrid" } else { "embedding" }
    }

    fn rank(&self, bank: &Bank, query: &Query<'_>) -> (Vec<Scored>, f32) {
        let (mut scored, raise) = if self.words { Lexical.rank(bank, query) } else { (Vec::new(), 1.0) };
        let floor = self.floor * raise;
        let leads = self.leads(bank, query);
        if leads.iter().all(|lead| !lead.likely) {
            // Words that only happen to be a skill's. Of a skill without vectors nothing but its words is known.
            let vectors = |at: usize| {
                bank.skills().get(at).is_some_and(|skill| self.meanings.skills.contains_key(&skill.content_hash))
            };
            scored.retain(|scored| scored.score >= floor * SURE || !vectors(scored.skill));
        }
        if leads.iter().all(|lead| !lead.leads) {
            return (scored, raise);
        }
        for pick in picks(&leads) {
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
    /// How far each skill that is wanted leads.
    fn leads(&self, bank: &Bank, query: &Query<'_>) -> Vec<Lead> {
        let question = self.meanings.common.without(self.question);
        let everyday = self.meanings.everyday(&question, None);
        let least = [Measure::Examples, Measure::Text].map(|measure| {
            let usual = self.meanings.usual(measure);
            (usual.least(LEADS), usual.least(DOUBTED))
        });
        let wanted = bank.skills().iter().enumerate().filter(|(at, _)| bank.is_wanted(*at, query));
        let lead = |(at, skill): (usize, &std::sync::Arc<Skill>)| {
            let known = self.meanings.skills.get(&skill.content_hash)?;
            let measure = known.meaning.measure();
            let lead = known.near(&question) - everyday;
            let (leads, likely) = least[measure as usize];
            let out = self.meanings.usual(measure).out(lead);
            Some(Lead { skill: at, leads: lead >= leads, likely: lead >= likely, out })
        };
        wanted.filter_map(lead).collect()
    }
}

/// The skills that a question is about, whatever its words.
fn picks(leads: &[Lead]) -> Vec<usize> {
    let mut likely: Vec<&Lead> = leads.iter().filter(|lead| lead.likely).collect();
    likely.sort_by(|a, b| b.out.total_cmp(&a.out).then(a.skill.cmp(&b.skill)));
    let least = likely.first().map_or(0.0, |best| best.out - BEHIND);
    likely.into_iter().take(MOST).take_while(|lead| lead.out >= least).map(|lead| lead.skill).collect()
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
            (skill.content_hash, Meaning { examples: Vec::new(), whole })
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
        let (question, of) = (vector(1.0, 0.1, 1.0, 60), meanings(&bank, None));
        let meanings = Meanings { background: Vec::new(), by_text: Usual::default(), common: Common::default(), ..of };
        let by = ByMeaning { question: &question, meanings: &meanings, words: false, floor: Limits::default().floor };
        let hits = bank.search_by(&by, &Query { text: "qqq", ..Query::default() }, &Limits::default());
        assert_eq!(hits[0].skill.name, "boats");
        assert_eq!(Meanings::default().len(), 0);
    }

    #[test]
    fn a_skill_is_as_near_as_its_nearest_examples_and_measured_against_its_like() {
        let bank = bank();
        let background = (0..40).map(|own| vector(own as f32 / 200.0, 0.1, 1.0, own)).collect();
        let of = |skill: &Arc<Skill>| {
            // The text of the one about boats says nothing of them; its examples do.
            let boats = f32::from(u8::from(skill.name == "boats"));
            let whole = vector(0.0, 1.0 - boats, 0.3, 50);
            let examples = (0..6).map(|at| vector(if at < 3 { 1.0 } else { 0.0 }, 0.0, 0.2, at)).collect();
            (skill.content_hash, Meaning { examples: if boats > 0.0 { examples } else { Vec::new() }, whole })
        };
        let meanings = Meanings::new(background, bank.skills().iter().map(of).collect());
        let limits = Limits::default();
        let names = |question: &Vector| -> Vec<String> {
            let by = ByMeaning { question, meanings: &meanings, words: true, floor: limits.floor };
            let hits = bank.search_by(&by, &Query { text: "qqq", ..Query::default() }, &limits);
            hits.into_iter().map(|hit| hit.skill.name.clone()).collect()
        };
        assert_eq!(names(&vector(1.0, 0.0, 0.2, 55))[0], "boats");
        assert!(names(&vector(0.0, 1.0, 0.2, 55)).contains(&"bread".to_owned()), "by its text");
        assert!(names(&vector(0.1, 0.1, 1.0, 60)).is_empty());
    }

    #[test]
    fn every_built_in_skill_comes_with_examples_and_a_persons_own_count_first() {
        for skill in crate::builtin() {
            assert_eq!(built_in_examples(skill.name).count(), 9, "{}", skill.name);
        }
        let text = "---\nname: boats\ndescription: d\nmetadata:\n  metaclaw-examples: where do I berth | wo anlegen\n---\n\nb\n";
        let skill = parse(Path::new("boats/SKILL.md"), text.as_bytes()).skill.unwrap();
        assert_eq!(Texts::of(&skill).examples, ["where do I berth", "wo anlegen"]);
        let own = Skill { name: "write-email".into(), examples: Vec::new(), ..skill };
        assert!(Texts::of(&own).examples.is_empty(), "another text by that name");
        assert_eq!(Texts::of(&Skill { origin: Origin::BuiltinEdited, ..own }).examples.len(), 9);
    }
}
