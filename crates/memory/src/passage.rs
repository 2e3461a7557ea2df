//! Cuts a text into passages: short enough to be quoted, whole sentences where the text has them. Every passage is a piece of
//! the text as it stands.

use std::ops::Range;

/// About sixty words of a Latin script; half as many characters of a script without blanks.
const LONG: u32 = 360;
/// A passage ends here even in the middle of a sentence.
const LONGEST: u32 = 720;
/// Passages kept of one text: its beginning says what it is.
const MOST: usize = 48;

/// The passages of `text`, without the blanks around them.
pub(crate) fn passages(text: &str) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let (mut start, mut width) = (0, 0);
    let mut last_end = None;
    let bytes = text.as_bytes();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        width += if c.is_ascii() { 1 } else { 2 };
        let next = chars.peek().map(|(_, c)| *c);
        let paragraph = c == '\n' && next.is_none_or(|n| n == '\n');
        if paragraph || c == '\n' || sentence_ends(bytes, at, c, next) {
            last_end = Some((end, width));
        }
        if (paragraph && width > LONG / 3) || width >= LONG {
            let cut = match last_end {
                Some((cut, w)) if w * 3 > LONG => cut,
                _ if width >= LONGEST => last_end.map_or(end, |(cut, _)| cut),
                _ => continue,
            };
            push(text, start..cut, &mut all);
            width = text[cut..end].chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum();
            (start, last_end) = (cut, None);
            if all.len() >= MOST {
                return all;
            }
        }
    }
    push(text, start..text.len(), &mut all);
    all
}

fn push(text: &str, range: Range<usize>, all: &mut Vec<Range<usize>>) {
    let piece = &text[range.clone()];
    let start = range.start + piece.len() - piece.trim_start().len();
    let end = start + piece.trim().len();
    if start < end {
        all.push(start..end);
    }
}

fn sentence_ends(bytes: &[u8], at: usize, c: char, next: Option<char>) -> bool {
    match c {
        '。' | '！' | '？' => true,
        '!' | '?' => next.is_none_or(char::is_whitespace),
        // Not in `v1.2`, `e.g.` or after an initial.
        '.' => next.is_none_or(char::is_whitespace) && at >= 2 && bytes[at - 2] != b'.' && bytes[at - 2] != b' ',
        _ => false,
    }
}

/// The sentences of `text`, in order.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut start = 0;
    let bytes = text.as_bytes();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, c)| *c);
        if c == '\n' || sentence_ends(bytes, at, c, next) {
            let end = at + c.len_utf8();
            all.push(text[start..end].trim());
            start = end;
        }
    }
    all.push(text[start..].trim());
    all.retain(|s| !s.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_one_passage() {
        assert!(passages("  Hello there. How are you?\n").into_iter().eq(std::iter::once(2..27)));
        assert!(passages(" \n ").is_empty());
    }

    #[test]
    fn versions_and_abbreviations_do_not_end_a_sentence() {
        assert_eq!(
            sentences("We use v1.2.3 now. It works, e.g. here.\n次です。はい"),
            ["We use v1.2.3 now.", "It works, e.g. here.", "次です。", "はい"]
        );
    }

    proptest::proptest! {
        #[test]
        fn passages_are_pieces_of_the_text_in_order_and_bounded(text in "[a-z猫。. \\n]{0,3000}") {
            let all = passages(&text);
            let mut before = 0;
            for range in all {
                assert!(range.start >= before && range.end <= text.len());
                assert!(text[range.clone()].chars().count() <= LONGEST as usize + 1);
                before = range.end;
            }
        }
    }
}
