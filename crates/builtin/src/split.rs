//! Cuts text into the pieces that a tokenizer merges within, as each family of models was trained. The rules are those
//! of the regular expressions that the families publish, written out, since they look ahead.

use unicode_general_category::{GeneralCategory as Category, get_general_category};

/// A family's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// GPT-2's.
    Gpt2,
    /// GPT-2's, every digit by itself.
    Smol,
    /// Llama 3's: up to three digits together.
    Llama3,
    /// Qwen's: every digit by itself.
    Qwen,
}

impl Rules {
    /// The rules that a file names in `tokenizer.ggml.pre`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "default" | "gpt-2" | "gpt2" => Self::Gpt2,
            "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" => Self::Smol,
            "llama3" | "llama-v3" | "llama-bpe" | "falcon3" => Self::Llama3,
            "qwen2" | "deepseek-r1-qwen" => Self::Qwen,
            _ => return None,
        })
    }

    /// Hands every piece of `text` to `piece`, in order; nothing is left out.
    pub(crate) fn split<'t>(self, text: &'t str, mut piece: impl FnMut(&'t str)) {
        if self == Self::Smol {
            // Digits stand alone before anything else is looked at.
            let mut rest = text;
            while let Some(at) = rest.find(is_number) {
                Self::Gpt2.walk(&rest[..at], &mut piece);
                let length = rest[at..].chars().next().map_or(0, char::len_utf8);
                piece(&rest[at..at + length]);
                rest = &rest[at + length..];
            }
            return Self::Gpt2.walk(rest, &mut piece);
        }
        self.walk(text, &mut piece);
    }

    fn walk<'t>(self, text: &'t str, piece: &mut impl FnMut(&'t str)) {
        let mut rest = text;
        while !rest.is_empty() {
            let length = match self {
                Self::Gpt2 | Self::Smol => gpt2(rest),
                Self::Llama3 => newer(rest, 3),
                Self::Qwen => newer(rest, 1),
            };
            let (one, behind) = rest.split_at(length);
            piece(one);
            rest = behind;
        }
    }
}

fn is_letter(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphabetic();
    }
    use Category::{LowercaseLetter, ModifierLetter, OtherLetter, TitlecaseLetter, UppercaseLetter};
    matches!(
        get_general_category(c),
        UppercaseLetter | LowercaseLetter | TitlecaseLetter | ModifierLetter | OtherLetter
    )
}

fn is_number(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_digit();
    }
    use Category::{DecimalNumber, LetterNumber, OtherNumber};
    matches!(get_general_category(c), DecimalNumber | LetterNumber | OtherNumber)
}

fn is_mark(c: char) -> bool {
    !c.is_whitespace() && !is_letter(c) && !is_number(c)
}

/// Bytes of the characters at the beginning that are `kind`, at most `most` of them.
fn run(text: &str, most: usize, kind: impl Fn(char) -> bool) -> usize {
    text.chars().take(most).take_while(|c| kind(*c)).map(char::len_utf8).sum()
}

/// A contraction at the beginning.
fn contraction(text: &str, any_case: bool) -> usize {
    let rest = text.as_bytes().strip_prefix(b"'").unwrap_or_default();
    for ending in ["re", "ve", "ll", "s", "t", "m", "d"] {
        let fits = rest.get(..ending.len()).is_some_and(|begin| match any_case {
            true => begin.eq_ignore_ascii_case(ending.as_bytes()),
            false => begin == ending.as_bytes(),
        });
        if fits {
            return 1 + ending.len();
        }
    }
    0
}

/// White space at the beginning; if something follows, its last character is left to that.
fn space(text: &str) -> usize {
    let all = run(text, usize::MAX, char::is_whitespace);
    let last = text[..all].chars().next_back().map_or(0, char::len_utf8);
    if all < text.len() && all > last { all - last } else { all }
}

fn gpt2(text: &str) -> usize {
    let short = contraction(text, false);
    if short > 0 {
        return short;
    }
    let blank = usize::from(text.starts_with(' '));
    for kind in [is_letter, is_number, is_mark] {
        let length = run(&text[blank..], usize::MAX, kind);
        if length > 0 {
            return blank + length;
        }
    }
    space(text)
}

fn newer(text: &str, digits: usize) -> usize {
    let short = contraction(text, true);
    if short > 0 {
        return short;
    }
    let first = text.chars().next().unwrap_or(' ');
    let before =
        if matches!(first, '\r' | '\n') || is_letter(first) || is_number(first) { 0 } else { first.len_utf8() };
    let letters = run(&text[before..], usize::MAX, is_letter);
    if letters > 0 {
        return before + letters;
    }
    let numbers = run(text, digits, is_number);
    if numbers > 0 {
        return numbers;
    }
    let blank = usize::from(first == ' ');
    let marks = run(&text[blank..], usize::MAX, is_mark);
    if marks > 0 {
        let end = blank + marks;
        return end + run(&text[end..], usize::MAX, |c| matches!(c, '\r' | '\n'));
    }
    // White space up to its last line end stays together.
    let all = run(text, usize::MAX, char::is_whitespace);
    match text[..all].rfind(['\r', '\n']) {
        Some(line_end) => line_end + 1,
        None => space(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn pieces(rules: Rules, text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        rules.split(text, |piece| found.push(piece));
        found
    }

    #[rstest]
    #[case(Rules::Gpt2, "I'm here,  now 2024!\n", &["I", "'m", " here", ",", " ", " now", " 2024", "!", "\n"])]
    #[case(Rules::Smol, "a 12  3", &["a", " ", "1", "2", "  ", "3"])]
    #[case(Rules::Llama3, "I'LL pay 12345 €\n\n x", &["I", "'LL", " pay", " ", "123", "45", " €\n\n", " x"])]
    #[case(Rules::Qwen, "x=12\n\n  y\tz", &["x", "=", "1", "2", "\n\n", " ", " y", "\tz"])]
    #[case(Rules::Qwen, "日本語 テスト。", &["日本語", " テスト", "。"])]
    #[case(Rules::Gpt2, "   ", &["   "])]
    fn text_is_cut_as_the_models_were_trained(#[case] rules: Rules, #[case] text: &str, #[case] wanted: &[&str]) {
        assert_eq!(pieces(rules, text), wanted);
    }

    proptest::proptest! {
        #[test]
        fn nothing_is_left_out(text in "\\PC{0,40}|[ \\t\\r\\na1'!é日]{0,40}") {
            for rules in [Rules::Gpt2, Rules::Smol, Rules::Llama3, Rules::Qwen] {
                proptest::prop_assert_eq!(pieces(rules, &text).concat(), text.as_str());
            }
        }
    }
}
