//! The lexical index over a bank: BM25 with field weights for single terms, and whole phrases from names and
//! keywords. Scores are on a fixed scale, whatever the bank's size: one distinctive phrase is about 1.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use aho_corasick::AhoCorasick;

use text::{Side, Term, Weight};

use crate::skill::Skill;

/// What a word counts in each field, in term frequencies. In all but the body it counts once.
const NAME: f32 = 2.5;
const KEYWORDS: f32 = 0.8;
const DESCRIPTION: f32 = 1.4;
const BODY: f32 = 0.3;
/// Term saturation: a frequency of `K` gives half of a term's weight.
const K: f32 = 1.2;
/// How much the length of a skill's body damps its words.
const B: f32 = 0.6;
/// A character pair or triple counts this share of a word: a word of four characters has three pairs.
const GRAM: f32 = 0.6;
/// Everyday words count this share.
const COMMON: f32 = 0.3;
/// The first phrase counts 1, each further one of the same skill this share of the one before.
const PHRASE_DECAY: f32 = 0.6;
/// Share of a phrase of two Chinese or Japanese characters.
const SHORT_PATTERN: f32 = 0.85;
/// Inverse document frequency that counts as fully distinctive (about one skill in twenty).
const FULL_IDF: f32 = 3.0;

/// Bytes of a query that are looked at: its beginning and, of a longer one, its end. What the user says is at one of
/// the two; a pasted log is in between.
const QUERY_HEAD: usize = 4096;
const QUERY_TAIL: usize = 2048;
/// Number of telling words up to which a query's length does not raise the floor.
const SHORT_QUERY: f32 = 12.0;

#[derive(Default, Clone, Copy)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 << 8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

type ByHash<V> = HashMap<u64, V, BuildHasherDefault<Identity>>;

#[derive(Debug, Clone, Copy)]
struct Posting {
    skill: u32,
    /// Saturated term frequency, 0–1.
    tf: f32,
}

#[derive(Debug)]
struct Phrase {
    /// Term hashes of a phrase of words; empty for one that is matched as characters.
    terms: Box<[u64]>,
    /// Has a word that is not of everyday talk. `find` in a query is no hit for `findings`.
    telling: bool,
    weight: f32,
    skills: Vec<u32>,
}

/// See the module.
pub(crate) struct Index {
    terms: ByHash<(f32, Range<u32>)>,
    postings: Vec<Posting>,
    phrases: Vec<Phrase>,
    by_first: ByHash<Vec<u32>>,
    characters: Option<AhoCorasick>,
    /// The phrase of each pattern of `characters`.
    patterns: Vec<u32>,
    skills: usize,
}

/// One skill's score for a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// Position in [`crate::Bank::skills`].
    pub skill: usize,
    /// Comparable within one query and, roughly, between queries: 1 is one distinctive phrase.
    pub score: f32,
    /// The words of the query that matched, the telling ones first.
    pub why: String,
    /// It stays however much better the best is: it was picked for something else than its words.
    pub kept: bool,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("terms", &self.terms.len()).field("phrases", &self.phrases.len()).finish()
    }
}

impl Index {
    pub(crate) fn new<'a>(skills: impl ExactSizeIterator<Item = &'a Skill>) -> Self {
        let count = skills.len();
        let mut frequencies: Vec<ByHash<f32>> = Vec::with_capacity(count);
        let mut lengths: Vec<f32> = Vec::with_capacity(count);
        let mut words_of: HashMap<Words, Vec<u32>> = HashMap::new();
        let mut characters_of: HashMap<String, Vec<u32>> = HashMap::new();
        for (number, skill) in (0u32..).zip(skills) {
            let mut fields = Fields::default();
            fields.add(&skill.name, NAME);
            fields.next();
            fields.add(&skill.description, DESCRIPTION);
            fields.next();
            for keyword in &skill.keywords {
                let folded = text::fold(keyword);
                if text::has_cjk(&folded) {
                    fields.add(keyword, KEYWORDS);
                    let packed = pack(&folded).0;
                    if packed.chars().count() > 1 {
                        note(characters_of.entry(packed).or_default(), number);
                    }
                    continue;
                }
                let phrase = Words::of(&folded);
                if phrase.hashes.len() > 1 {
                    fields.add(keyword, KEYWORDS);
                }
                if !phrase.hashes.is_empty() {
                    note(words_of.entry(phrase).or_default(), number);
                }
            }
            let name = Words::of(&text::fold(&skill.name));
            if name.hashes.len() > 1 {
                note(words_of.entry(name).or_default(), number);
            }
            let mut tf = fields.finish();
            let mut length = 0.0;
            text::terms(&text::fold(&skill.body), Side::Indexed, &mut |t| {
                if t.weight != Weight::Stop {
                    *tf.entry(t.hash).or_default() += BODY;
                    length += 1.0;
                }
            });
            lengths.push(length);
            frequencies.push(tf);
        }
        let mut index = Self {
            terms: ByHash::default(),
            postings: Vec::new(),
            phrases: Vec::new(),
            by_first: ByHash::default(),
            characters: None,
            patterns: Vec::new(),
            skills: count,
        };
        index.add_terms(&frequencies, &lengths);
        index.add_phrases(words_of, characters_of);
        index
    }

    fn add_terms(&mut self, frequencies: &[ByHash<f32>], lengths: &[f32]) {
        let mean = (lengths.iter().sum::<f32>() / lengths.len().max(1) as f32).max(1.0);
        let mut by_term: ByHash<Vec<Posting>> = ByHash::default();
        for ((skill, tf), length) in (0u32..).zip(frequencies).zip(lengths) {
            let damped = 1.0 - B + B * length / mean;
            for (hash, tf) in tf {
                // Only what the body alone says is damped by the body's length.
                let tf = if *tf < DESCRIPTION { tf / damped } else { *tf };
                by_term.entry(*hash).or_default().push(Posting { skill, tf: tf / (tf + K) });
            }
        }
        let mut all: Vec<_> = by_term.into_iter().collect();
        all.sort_unstable_by_key(|(hash, _)| *hash);
        for (hash, postings) in all {
            let from = u32::try_from(self.postings.len()).unwrap_or(u32::MAX);
            let weight = self.idf(postings.len());
            self.postings.extend(postings);
            let to = u32::try_from(self.postings.len()).unwrap_or(u32::MAX);
            self.terms.insert(hash, (weight, from..to));
        }
    }

    fn add_phrases(&mut self, words_of: HashMap<Words, Vec<u32>>, characters_of: HashMap<String, Vec<u32>>) {
        let mut words_of: Vec<_> = words_of.into_iter().collect();
        words_of.sort_unstable();
        for (words, skills) in words_of {
            let number = u32::try_from(self.phrases.len()).unwrap_or(u32::MAX);
            self.by_first.entry(words.hashes[0]).or_default().push(number);
            let weight = words.weight() * self.idf(skills.len());
            self.phrases.push(Phrase { terms: words.hashes.into(), telling: words.telling, weight, skills });
        }
        let mut characters_of: Vec<_> = characters_of.into_iter().collect();
        characters_of.sort_unstable();
        let mut patterns = Vec::with_capacity(characters_of.len());
        for (pattern, skills) in characters_of {
            self.patterns.push(u32::try_from(self.phrases.len()).unwrap_or(u32::MAX));
            let short = if pattern.chars().count() < 3 { SHORT_PATTERN } else { 1.0 };
            self.phrases.push(Phrase {
                terms: Box::default(),
                telling: true,
                weight: short * self.idf(skills.len()),
                skills,
            });
            patterns.push(pattern);
        }
        if !patterns.is_empty() {
            match AhoCorasick::new(&patterns) {
                Ok(found) => self.characters = Some(found),
                Err(error) => tracing::warn!(%error, "keywords without blanks are not searched as phrases"),
            }
        }
    }

    /// 1 for what few skills have, towards 0 for what all have. In a small bank "few" is one.
    fn idf(&self, holders: usize) -> f32 {
        let (n, df) = (self.skills as f32, holders as f32);
        let idf = |df: f32| (1.0 + (n - df + 0.5) / (df + 0.5)).ln();
        (idf(df) / idf(1.0).min(FULL_IDF)).min(1.0)
    }

    /// The score of every skill that shares a term with `query`, in the bank's order, and the factor by which the
    /// query's length raises the floor.
    pub(crate) fn rank(&self, query: &str) -> (Vec<Scored>, f32) {
        let asked = Asked::new(query);
        let mut scores = vec![0.0f32; self.skills];
        let mut seen: ByHash<()> = ByHash::default();
        let mut telling = 0.0f32;
        for term in asked.terms.iter().filter(|t| t.weight != Weight::Stop) {
            if seen.insert(term.hash, ()).is_some() {
                continue;
            }
            if term.weight == Weight::Full {
                telling += if term.word { 1.0 } else { 0.5 };
            }
            if let Some((idf, postings)) = self.terms.get(&term.hash) {
                let weight = idf * share(term);
                for posting in self.postings_of(postings) {
                    scores[posting.skill as usize] += weight * posting.tf;
                }
            }
        }
        let phrases = self.phrases_in(&asked);
        let mut counted = vec![0u8; if phrases.is_empty() { 0 } else { self.skills }];
        for (phrase, _) in &phrases {
            let phrase = &self.phrases[*phrase as usize];
            for skill in &phrase.skills {
                let before = &mut counted[*skill as usize];
                scores[*skill as usize] += phrase.weight * PHRASE_DECAY.powi(i32::from(*before));
                *before = before.saturating_add(1);
            }
        }
        let found = scores.iter().enumerate().filter(|(_, s)| **s > 0.0);
        let scored =
            found.map(|(skill, score)| Scored { skill, score: *score, why: String::new(), kept: false }).collect();
        (scored, (telling / SHORT_QUERY).max(1.0).ln().mul_add(0.35, 1.0))
    }

    fn postings_of(&self, range: &Range<u32>) -> &[Posting] {
        &self.postings[range.start as usize..range.end as usize]
    }

    /// Phrases that occur in the query, each once, in order of weight, with the place in its text.
    fn phrases_in(&self, asked: &Asked) -> Vec<(u32, Range<usize>)> {
        let mut found: Vec<(u32, Range<usize>)> = Vec::new();
        for (at, term) in asked.terms.iter().enumerate() {
            let Some(candidates) = self.by_first.get(&term.hash) else { continue };
            for number in candidates {
                let phrase = &self.phrases[*number as usize];
                let Some(window) = asked.terms.get(at..at + phrase.terms.len()) else { continue };
                if window.iter().zip(phrase.terms.iter()).all(|(t, hash)| t.hash == *hash)
                    && (!phrase.telling || window.iter().any(|t| t.weight == Weight::Full))
                {
                    found.push((*number, term.span.start..window[window.len() - 1].span.end));
                }
            }
        }
        if let Some(characters) = self.characters.as_ref().filter(|_| text::has_cjk(&asked.text)) {
            let (packed, places) = pack(&asked.text);
            for hit in characters.find_overlapping_iter(&packed) {
                found.push((self.patterns[hit.pattern().as_usize()], places[hit.start()]..places[hit.end()]));
            }
        }
        found.sort_by(|a, b| {
            let weight = |n: u32| self.phrases[n as usize].weight;
            weight(b.0).total_cmp(&weight(a.0)).then(a.0.cmp(&b.0)).then(a.1.start.cmp(&b.1.start))
        });
        found.dedup_by_key(|(number, _)| *number);
        found
    }

    /// For each of `skills`, the query's words that speak for it, the telling ones first, at most six.
    pub(crate) fn why(&self, query: &str, skills: &[usize]) -> Vec<String> {
        let asked = Asked::new(query);
        let phrases = self.phrases_in(&asked);
        skills.iter().map(|skill| self.why_one(&asked, &phrases, u32::try_from(*skill).unwrap_or(u32::MAX))).collect()
    }

    fn why_one(&self, asked: &Asked, phrases: &[(u32, Range<usize>)], skill: u32) -> String {
        let mut found: Vec<(f32, Range<usize>)> = Vec::new();
        for (number, span) in phrases {
            let phrase = &self.phrases[*number as usize];
            if phrase.skills.binary_search(&skill).is_ok() {
                found.push((1.0 + phrase.weight, span.clone()));
            }
        }
        for term in asked.terms.iter().filter(|t| t.weight != Weight::Stop) {
            let Some((idf, postings)) = self.terms.get(&term.hash) else { continue };
            let postings = self.postings_of(postings);
            if let Ok(at) = postings.binary_search_by_key(&skill, |p| p.skill) {
                found.push((idf * postings[at].tf * share(term), term.span.clone()));
            }
        }
        // Pairs of one Chinese or Japanese word are shown as that word.
        found.sort_by(|a, b| a.1.start.cmp(&b.1.start).then(b.1.end.cmp(&a.1.end)));
        found.dedup_by(|next, last| {
            let joined = next.1.start < last.1.end;
            if joined {
                last.0 = last.0.max(next.0);
                last.1.end = last.1.end.max(next.1.end);
            }
            joined
        });
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.start.cmp(&b.1.start)));
        let mut words: Vec<&str> = Vec::new();
        for (_, span) in found {
            let word = &asked.text[span];
            if words.len() < 6 && !words.contains(&word) {
                words.push(word);
            }
        }
        words.join(", ")
    }
}

fn share(term: &Term) -> f32 {
    let kind = if term.word { 1.0 } else { GRAM };
    if term.weight == Weight::Common { kind * COMMON } else { kind }
}

/// A query, folded and cut into terms.
struct Asked {
    text: String,
    terms: Vec<Term>,
}

impl Asked {
    fn new(query: &str) -> Self {
        let text = text::fold(&shorten(query)).into_owned();
        let mut terms = Vec::with_capacity(text.len() / 5);
        text::terms(&text, Side::Query, &mut |t| terms.push(t));
        Self { text, terms }
    }
}

fn shorten(query: &str) -> std::borrow::Cow<'_, str> {
    if query.len() <= QUERY_HEAD + QUERY_TAIL {
        return query.into();
    }
    let head = query.floor_char_boundary(QUERY_HEAD);
    let tail = query.ceil_char_boundary(query.len() - QUERY_TAIL);
    format!("{}\n{}", &query[..head], &query[tail..]).into()
}

fn note(holders: &mut Vec<u32>, skill: u32) {
    if holders.last() != Some(&skill) {
        holders.push(skill);
    }
}

/// Words of name, description and keywords: each counts once per field.
#[derive(Default)]
struct Fields {
    tf: ByHash<f32>,
    field: ByHash<f32>,
}

impl Fields {
    fn add(&mut self, text: &str, weight: f32) {
        text::terms(&text::fold(text), Side::Indexed, &mut |t| {
            if t.weight != Weight::Stop {
                self.field.insert(t.hash, weight);
            }
        });
    }

    fn next(&mut self) {
        for (hash, weight) in self.field.drain() {
            *self.tf.entry(hash).or_default() += weight;
        }
    }

    fn finish(mut self) -> ByHash<f32> {
        self.next();
        self.tf
    }
}

/// A phrase made of words.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Words {
    hashes: Vec<u64>,
    telling: bool,
    common: bool,
}

impl Words {
    fn of(folded: &str) -> Self {
        let mut words = Self { hashes: Vec::new(), telling: false, common: false };
        text::terms(folded, Side::Indexed, &mut |t| {
            words.hashes.push(t.hash);
            words.telling |= t.weight == Weight::Full;
            words.common |= t.weight == Weight::Common;
        });
        words
    }

    /// A phrase of everyday words alone must be long to be telling.
    fn weight(&self) -> f32 {
        match (self.telling, self.common, self.hashes.len()) {
            (true, ..) => 1.0,
            (false, true, 3..) => 0.85,
            (false, true, _) => 0.5,
            (false, false, _) => 0.4,
        }
    }
}

/// The text without blanks, and for each byte of it (and its end) the place in the text.
fn pack(text: &str) -> (String, Vec<usize>) {
    let mut packed = String::with_capacity(text.len());
    let mut places = Vec::with_capacity(text.len() + 1);
    let mut end = 0;
    let text = text::simplify(text);
    for (at, c) in text.char_indices().filter(|(_, c)| !c.is_whitespace()) {
        packed.push(c);
        places.extend(at..at + c.len_utf8());
        end = at + c.len_utf8();
    }
    places.push(end);
    (packed, places)
}
