//! Traditional Chinese characters as Simplified ones, so that one spelling of a word finds the other. Only for comparing:
//! what is stored and shown keeps its characters.
//!
//! The pairs are the first readings of OpenCC 1.4.2's `TSCharacters.txt` (<https://github.com/BYVoid/OpenCC>, Apache-2.0)
//! whose characters are both between U+4E00 and U+9FFF.

use std::borrow::Cow;
use std::sync::LazyLock;

const FIRST: u32 = 0x4e00;
const COUNT: usize = 0xa000 - 0x4e00;

/// Traditional and Simplified character by turns.
const PAIRS: &str = include_str!("simplified.txt");

/// The Simplified character of each place, 0 where it is its own.
static TABLE: LazyLock<Box<[u16]>> = LazyLock::new(|| {
    let mut table = vec![0_u16; COUNT].into_boxed_slice();
    let mut letters = PAIRS.chars().filter(|c| !c.is_whitespace());
    while let (Some(from), Some(to)) = (letters.next(), letters.next()) {
        if let (Some(place), Ok(to)) = (place(from).and_then(|at| table.get_mut(at)), u16::try_from(u32::from(to))) {
            *place = to;
        }
    }
    table
});

fn place(c: char) -> Option<usize> {
    u32::from(c).checked_sub(FIRST).and_then(|at| usize::try_from(at).ok()).filter(|at| *at < COUNT)
}

fn simple(c: char) -> Option<char> {
    let to = place(c).and_then(|at| TABLE.get(at)).copied().filter(|to| *to != 0)?;
    char::from_u32(to.into())
}

/// The text with Simplified characters in place of Traditional ones. Every character keeps its place and its length in
/// bytes.
pub fn simplify(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let Some(first) = text.char_indices().find(|(_, c)| simple(*c).is_some()).map(|(at, _)| at) else {
        return text.into();
    };
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first]);
    out.extend(text[first..].chars().map(|c| simple(c).unwrap_or(c)));
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traditional_words_become_simplified_ones() {
        assert_eq!(simplify("幫我寫一封郵件給老闆請假"), "帮我写一封邮件给老板请假");
        assert_eq!(simplify("幫我把這段話翻譯成英文"), "帮我把这段话翻译成英文");
        assert!(matches!(simplify("帮我写一封邮件, mail メール"), Cow::Borrowed(_)));
    }

    #[test]
    fn every_pair_has_two_characters_of_three_bytes() {
        let letters: Vec<char> = PAIRS.chars().filter(|c| !c.is_whitespace()).collect();
        assert_eq!(letters.len(), 2 * 2853);
        assert!(letters.iter().all(|c| place(*c).is_some()));
    }

    proptest::proptest! {
        #[test]
        fn places_stay(text in "[一-鿿a-z ]{0,40}") {
            let simple = simplify(&text);
            let places = |text: &str| text.char_indices().map(|(at, _)| at).collect::<Vec<_>>();
            assert_eq!(places(&simple), places(&text));
        }
    }
}
