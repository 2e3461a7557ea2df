//! A window as search terms: its own words, with a share of what was said before it, who spoke, and when. Terms are 32-bit
//! numbers, so the index holds no text.

use std::collections::HashMap;

use text::{Side, Weight};

/// Saturation of a term's frequency.
const K: f32 = 1.2;
/// How much a window's length damps its words.
const B: f32 = 0.6;
/// Length of an ordinary window.
const PIVOT: f32 = 30.0;
/// What a word of the passage before counts, and of the one before that.
const BEFORE: [f32; 2] = [0.5, 0.2];
/// What the speaker's name counts, and the words of the date.
const SPEAKER: f32 = 1.0;
const DATE: f32 = 0.3;
/// A character pair or triple counts this share of a word.
const GRAM: f32 = 0.6;
/// A single character of a longer run, so that a word of one character is found inside it.
const SINGLE: f32 = 0.3;
/// Grammar written in Hiragana.
const GRAMMAR: f32 = 0.25;

/// Terms of one window by number, with what each says there (255 = saturated).
pub(crate) struct Document {
    tf: HashMap<u32, f32>,
}

impl Document {
    pub(crate) fn new(text: &str) -> Self {
        let mut tf = HashMap::new();
        each(text, Side::Indexed, |term| *tf.entry(term.number).or_default() += term.share);
        Self { tf }
    }

    /// Adds what was said before, the last first.
    pub(crate) fn after<'a>(mut self, before: impl IntoIterator<Item = &'a str>) -> Self {
        for (text, weight) in before.into_iter().zip(BEFORE) {
            self.add(text, weight);
        }
        self
    }

    pub(crate) fn spoken_by(mut self, speaker: &str) -> Self {
        // Everybody is user or assistant; names tell.
        if !matches!(speaker, "user" | "assistant") {
            self.add(speaker, SPEAKER);
        }
        self
    }

    pub(crate) fn on(mut self, date: &str) -> Self {
        self.add(date, DATE);
        self
    }

    fn add(&mut self, text: &str, weight: f32) {
        each(text, Side::Indexed, |term| *self.tf.entry(term.number).or_default() += weight * term.share);
    }

    pub(crate) fn finish(self) -> Vec<(u32, u8)> {
        let length: f32 = self.tf.values().sum();
        let damp = K * (1.0 - B + B * length / PIVOT);
        let impact = |tf: f32| ((tf / (tf + damp)) * 255.0).round().clamp(1.0, 255.0) as u8;
        let mut terms: Vec<_> = self.tf.into_iter().map(|(term, tf)| (term, impact(tf))).collect();
        terms.sort_unstable();
        terms
    }
}

/// A term of a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) number: u32,
    /// What it counts, apart from how rare it is.
    pub(crate) share: f32,
    pub(crate) text: String,
}

/// The terms of a query, each once.
pub(crate) fn asked(query: &str) -> Vec<Asked> {
    let mut all: Vec<Asked> = Vec::new();
    let mut seen = HashMap::new();
    each(query, Side::Query, |term| {
        if seen.insert(term.number, ()).is_none() {
            all.push(Asked { number: term.number, share: term.share, text: term.text.to_owned() });
        }
    });
    all
}

struct Found<'a> {
    number: u32,
    share: f32,
    text: &'a str,
}

fn each(text: &str, side: Side, mut found: impl FnMut(Found<'_>)) {
    let folded = text::fold(text);
    let mut single = 0;
    text::terms(&folded, side, &mut |term| {
        if term.weight == Weight::Stop {
            return;
        }
        let piece = &folded[term.span.clone()];
        let share = match (term.word, term.weight) {
            (true, _) => 1.0,
            (false, Weight::Common) if piece.chars().any(|c| ('\u{3041}'..='\u{309f}').contains(&c)) => GRAMMAR,
            (false, _) => GRAM,
        };
        // The low half of the hash is as good as the whole for a vocabulary of one person.
        found(Found { number: term.hash as u32, share, text: piece });
        if !term.word && share == GRAM && piece.chars().all(is_han) && piece.chars().nth(1).is_some() {
            for (at, c) in piece.char_indices() {
                let place = term.span.start + at;
                if place >= single {
                    single = place + c.len_utf8();
                    let text = &piece[at..at + c.len_utf8()];
                    let number = xxhash_rust::xxh3::xxh3_64(text.as_bytes()) as u32;
                    found(Found { number, share: SINGLE, text });
                }
            }
        }
    });
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// A name for a text whatever its case, width and spacing.
pub(crate) fn hash(text: &str) -> i64 {
    let folded = text::fold(text);
    let letters: String = folded.chars().filter(|c| c.is_alphanumeric()).collect();
    xxhash_rust::xxh3::xxh3_64(letters.as_bytes()).cast_signed()
}
