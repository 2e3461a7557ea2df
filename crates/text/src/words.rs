//! Text → search terms. English words are stemmed; Chinese and Japanese runs become character pairs (Katakana:
//! triples); full-width and half-width forms are folded. Used on what is indexed (skills, memories) and on queries.

use std::borrow::Cow;
use std::ops::Range;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};
use xxhash_rust::xxh3::xxh3_64;

use crate::simplified::simplify;
use crate::stop_words::{self, Phrases};

/// How much a term says about what a text is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Function words: never searched, only counted inside phrases.
    Stop,
    /// Words of everyday talk: they count, but little.
    Common,
    /// All others.
    Full,
}

/// One search term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// xxh3-64 of the stem, the word or the characters.
    pub hash: u64,
    /// What it says.
    pub weight: Weight,
    /// Where it stands in the folded text.
    pub span: Range<usize>,
    /// A Latin-type word, which phrases may be made of.
    pub word: bool,
}

/// Folds case, width and compatibility forms.
pub fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        if text.bytes().any(|b| b.is_ascii_uppercase()) { text.to_ascii_lowercase().into() } else { text.into() }
    } else if is_nfkc_quick(text.chars()) == IsNormalized::Yes && !text.chars().any(char::is_uppercase) {
        text.into()
    } else {
        text.nfkc().flat_map(char::to_lowercase).collect::<String>().into()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Han,
    Hiragana,
    Katakana,
    Other,
}

fn class(c: char) -> Class {
    match c {
        '0'..='9' | 'a'..='z' | 'A'..='Z' => Class::Word,
        '\0'..='\u{7f}' => Class::Other,
        '\u{3041}'..='\u{309f}' => Class::Hiragana,
        '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}' => Class::Katakana,
        '々' | '〆' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' => Class::Han,
        '\u{20000}'..='\u{3ffff}' => Class::Han,
        // Korean syllables are written with blanks between words, but particles stick to them: pairs serve both.
        '\u{ac00}'..='\u{d7a3}' => Class::Han,
        c if c.is_alphanumeric() => Class::Word,
        _ => Class::Other,
    }
}

/// Whether a text has characters that are written without blanks between words.
pub fn has_cjk(text: &str) -> bool {
    !text.is_ascii() && text.chars().any(|c| matches!(class(c), Class::Han | Class::Hiragana | Class::Katakana))
}

/// Which side of the search a text is on: a query's Katakana words are also cut into pairs, so that they meet
/// two-letter words of what is indexed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What is searched.
    Indexed,
    /// What is searched for.
    Query,
}

/// Calls `each` for every term of `folded` (see [`fold`]), in order. Traditional and Simplified Chinese are one spelling.
pub fn terms(folded: &str, side: Side, each: &mut impl FnMut(Term)) {
    let simple = simplify(folded);
    let folded = simple.as_ref();
    let stemmer = Stemmer::create(Algorithm::English);
    let mut at = 0;
    while let Some(c) = folded[at..].chars().next() {
        let kind = class(c);
        let mut end = at + c.len_utf8();
        if kind != Class::Other {
            while let Some(next) = folded[end..].chars().next() {
                if class(next) != kind && !joins(folded, at, end, next) {
                    break;
                }
                end += next.len_utf8();
            }
        }
        match kind {
            Class::Other => {}
            Class::Word => word(folded, at..end, &stemmer, each),
            Class::Han => pieces(folded, at..end, &stop_words::HAN, each, &mut han),
            Class::Hiragana => hiragana(folded, at..end, each),
            Class::Katakana => katakana(folded, at..end, side, each),
        }
        at = end;
    }
}

/// Signs that belong to the word before them: `c++`, `c#`, and the apostrophe of `don't`.
fn joins(text: &str, start: usize, at: usize, next: char) -> bool {
    match next {
        '+' | '#' => at - start <= 2 && text.as_bytes()[start].is_ascii_lowercase(),
        '\'' | '’' => {
            text.as_bytes()[at - 1].is_ascii_lowercase() && text[at + next.len_utf8()..].starts_with(['t', 's'])
        }
        _ => false,
    }
}

fn word(text: &str, span: Range<usize>, stemmer: &Stemmer, each: &mut impl FnMut(Term)) {
    let raw = &text[span.clone()];
    let bare = raw.strip_suffix("'s").or_else(|| raw.strip_suffix("’s")).unwrap_or(raw);
    let weight = if stop_words::is_stop(bare) {
        Weight::Stop
    } else if stop_words::is_common(bare) || bare.len() == 1 || bare.bytes().all(|b| b.is_ascii_digit()) {
        Weight::Common
    } else {
        Weight::Full
    };
    let hash = if bare.len() > 3 && bare.bytes().all(|b| b.is_ascii_lowercase()) {
        let stem = stemmer.stem(bare);
        xxh3_64(stem.as_bytes())
    } else {
        xxh3_64(bare.as_bytes())
    };
    each(Term { hash, weight, span, word: true });
}

/// Cuts a run at stop phrases and hands the pieces to `cut`.
fn pieces<F: FnMut(Term)>(
    text: &str,
    run: Range<usize>,
    stops: &Phrases,
    each: &mut F,
    cut: &mut impl FnMut(&str, Range<usize>, &mut F),
) {
    let mut from = run.start;
    let mut at = run.start;
    while at < run.end {
        let rest = &text[at..run.end];
        if let Some(stop) = stops.at_start_of(rest) {
            if from < at {
                cut(text, from..at, each);
            }
            at += stop.len();
            from = at;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    if from < run.end {
        cut(text, from..run.end, each);
    }
}

/// Particles stand at the beginning or the end of a run of Hiragana, so single letters are dropped only there. What is
/// left is mostly grammar still, and counts little.
fn hiragana<F: FnMut(Term)>(text: &str, run: Range<usize>, each: &mut F) {
    pieces(text, run, &stop_words::HIRAGANA, each, &mut |text: &str, piece: Range<usize>, each: &mut F| {
        let inner = text[piece.clone()].trim_start_matches(is_particle);
        let start = piece.end - inner.len();
        let end = start + inner.trim_end_matches(is_particle).len();
        if start < end {
            grams(text, start..end, 2, Weight::Common, each);
        }
    });
}

fn is_particle(c: char) -> bool {
    stop_words::PARTICLES.contains(c)
}

fn han<F: FnMut(Term)>(text: &str, run: Range<usize>, each: &mut F) {
    if !grams(text, run.clone(), 2, Weight::Full, each) {
        each(term(text, run, Weight::Common));
    }
}

fn katakana(text: &str, run: Range<usize>, side: Side, each: &mut impl FnMut(Term)) {
    let long = grams(text, run.clone(), 3, Weight::Full, each);
    if !long || side == Side::Query {
        grams(text, run, 2, Weight::Full, each);
    }
}

/// All windows of `n` characters; `false` when the run is shorter.
fn grams(text: &str, run: Range<usize>, n: usize, weight: Weight, each: &mut impl FnMut(Term)) -> bool {
    let mut any = false;
    let starts = text[run.clone()].char_indices().map(|(i, _)| run.start + i);
    let ends = text[run.clone()].char_indices().map(|(i, c)| run.start + i + c.len_utf8()).skip(n - 1);
    for (start, end) in starts.zip(ends) {
        any = true;
        each(term(text, start..end, weight));
    }
    any
}

fn term(text: &str, span: Range<usize>, weight: Weight) -> Term {
    Term { hash: xxh3_64(&text.as_bytes()[span.clone()]), weight, span, word: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, side: Side) -> Vec<String> {
        let folded = fold(text);
        let mut out = Vec::new();
        terms(&folded, side, &mut |t| {
            if t.weight != Weight::Stop {
                out.push(folded[t.span].to_owned());
            }
        });
        out
    }

    fn hashes(text: &str) -> Vec<u64> {
        let folded = fold(text);
        let mut out = Vec::new();
        terms(&folded, Side::Query, &mut |t| out.push(t.hash));
        out
    }

    #[test]
    fn inflected_english_words_meet_in_one_term() {
        assert_eq!(hashes("testing"), hashes("Tests"));
        assert_eq!(hashes("meeting's"), hashes("meetings"));
    }

    #[test]
    fn full_width_and_half_width_forms_are_one_term() {
        assert_eq!(hashes("ＡＰＩ"), hashes("api"));
        assert_eq!(hashes("ﾒｰﾙ"), hashes("メール"));
    }

    #[test]
    fn latin_words_inside_chinese_are_words() {
        assert_eq!(shown("用Python写爬虫", Side::Query), ["用", "python", "写爬", "爬虫"]);
    }

    #[test]
    fn polite_phrases_are_not_terms() {
        assert_eq!(shown("議事録をまとめてください", Side::Query), ["議事", "事録", "まと", "とめ"]);
        assert_eq!(shown("请帮我总结会议", Side::Query), ["总结", "结会", "会议"]);
    }

    #[test]
    fn traditional_and_simplified_chinese_are_one_spelling() {
        assert_eq!(hashes("請幫我寫一封郵件"), hashes("请帮我写一封邮件"));
        assert_eq!(hashes("場合"), hashes("场合"));
        assert_eq!(shown("總結會議", Side::Query), ["總結", "結會", "會議"], "what is shown keeps its characters");
    }

    #[test]
    fn katakana_words_are_found_inside_longer_ones() {
        let skill = shown("レビュー", Side::Indexed);
        let query = shown("コードレビュー", Side::Query);
        assert!(skill.iter().all(|t| query.contains(t)), "{skill:?} {query:?}");
    }

    #[test]
    fn names_of_languages_keep_their_signs() {
        assert_eq!(shown("C++ or C# now", Side::Query), ["c++", "c#"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_cut_at_character_borders(text in "\\PC{0,60}") {
            let folded = fold(&text);
            for side in [Side::Indexed, Side::Query] {
                terms(&folded, side, &mut |t| assert!(folded.get(t.span).is_some_and(|s| !s.is_empty())));
            }
        }
    }
}
