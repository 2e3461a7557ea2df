//! WordPiece with BERT's basic splitting: blanks, punctuation and Chinese characters part words; a word is cut from the
//! left into the longest known pieces.

use unicode_general_category::{GeneralCategory as Category, get_general_category as category};
use unicode_normalization::UnicodeNormalization as _;

use super::vocab::Vocab;

/// Longer words are unknown.
const LONGEST_WORD: usize = 100;

/// See the module.
pub(crate) struct WordPiece {
    vocab: Vocab,
    unknown: u32,
    /// Stands before a piece that is not the first of its word.
    inside: String,
    lower: bool,
    /// Accents go.
    bare: bool,
}

impl WordPiece {
    pub(crate) fn new(vocab: Vocab, unknown: u32, inside: String, lower: bool, bare: bool) -> Self {
        Self { vocab, unknown, inside, lower, bare }
    }

    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let clean: String = text.chars().filter(|c| !is_nothing(*c)).collect();
        let clean: String =
            if self.bare { clean.nfd().filter(|c| category(*c) != Category::NonspacingMark).collect() } else { clean };
        let clean = if self.lower { clean.to_lowercase() } else { clean };
        let mut from = 0;
        for (at, c) in clean.char_indices() {
            let alone = is_chinese(c) || is_punctuation(c);
            if alone || c.is_whitespace() {
                self.word(&clean[from..at], ids);
                from = at + c.len_utf8();
                if alone {
                    self.word(&clean[at..from], ids);
                }
            }
        }
        self.word(&clean[from..], ids);
    }

    fn word(&self, word: &str, ids: &mut Vec<u32>) {
        if word.is_empty() {
            return;
        }
        let places: Vec<usize> = word.char_indices().map(|(at, _)| at).chain([word.len()]).collect();
        if places.len() > LONGEST_WORD + 1 {
            ids.push(self.unknown);
            return;
        }
        let (begin, mut at) = (ids.len(), 0);
        let mut piece = String::new();
        while at + 1 < places.len() {
            let found = (at + 1..places.len()).rev().find_map(|to| {
                piece.clear();
                if at > 0 {
                    piece.push_str(&self.inside);
                }
                piece.push_str(&word[places[at]..places[to]]);
                self.vocab.find(&piece).map(|id| (id, to))
            });
            let Some((id, to)) = found else {
                ids.truncate(begin);
                ids.push(self.unknown);
                return;
            };
            ids.push(id);
            at = to;
        }
    }
}

/// Characters that are dropped: those that control, and the one that stands for what could not be read.
fn is_nothing(c: char) -> bool {
    let blank = matches!(c, '\t' | '\n' | '\r');
    matches!(c, '\0' | '\u{fffd}')
        || !blank
            && matches!(
                category(c),
                Category::Control
                    | Category::Format
                    | Category::PrivateUse
                    | Category::Unassigned
                    | Category::Surrogate
            )
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || matches!(
            category(c),
            Category::ConnectorPunctuation
                | Category::DashPunctuation
                | Category::OpenPunctuation
                | Category::ClosePunctuation
                | Category::InitialPunctuation
                | Category::FinalPunctuation
                | Category::OtherPunctuation
        )
}

/// The blocks of Chinese characters that BERT takes one by one.
fn is_chinese(c: char) -> bool {
    matches!(
        u32::from(c),
        0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x2_0000..=0x2_a6df | 0x2_a700..=0x2_b73f | 0x2_b740..=0x2_b81f
            | 0x2_b820..=0x2_ceaf | 0xf900..=0xfaff | 0x2_f800..=0x2_fa1f
    )
}
