//! Takes secrets out of a text before it is remembered or learned from: keys, tokens, passwords, card numbers. What is left
//! says what kind of secret stood there.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

struct Rule {
    pattern: Regex,
    /// The group that is the secret.
    group: usize,
    kind: &'static str,
    check: fn(&str) -> bool,
}

/// Pattern, the group that is the secret, what kind it is, and what else must be true of it.
type Line = (&'static str, usize, &'static str, fn(&str) -> bool);

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let any: fn(&str) -> bool = |_| true;
    let rules: &[Line] = &[
        (r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)", 0, "private key", any),
        (r"\b(?:sk|pk|rk)-[A-Za-z0-9_\-]{16,}", 0, "key", any),
        (r"\b(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{10,}", 0, "key", any),
        (
            r"\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_\-]{16,}",
            0,
            "token",
            any,
        ),
        (r"\bxox[abeoprs]-[A-Za-z0-9\-]{10,}|\bhf_[A-Za-z0-9]{20,}|\bnpm_[A-Za-z0-9]{30,}", 0, "token", any),
        (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_\-]{30,}|\bya29\.[A-Za-z0-9_\-]{20,}", 0, "key", any),
        (r"\beyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]*", 0, "token", any),
        (r"(?i)\bbearer\s+([A-Za-z0-9._~+/=\-]{16,})", 1, "token", any),
        (r"(?i)\b[a-z][a-z0-9+.\-]*://[^\s:/@]+:([^\s@/]+)@", 1, "password", any),
        (
            r#"(?i)(?:pass(?:word|wd|phrase|code)?|pwd|secret|api[ _-]?key|access[ _-]?key|auth[ _-]?token|token|\bpin)\s*(?:(?:is|was|=|:|：)\s*)+["'`]?([^\s"'`,;]{4,})"#,
            1,
            "password",
            looks_secret,
        ),
        (
            r#"(?:密码|口令|密钥|暗証番号|パスワード|合言葉)\s*(?:是|为|は|=|:|：)\s*["'「]?([^\s"'」，。、]{4,}?)(?:です|だ|」|[\s，。、"']|$)"#,
            1,
            "password",
            unmarked,
        ),
        (r"\b\d(?:[ -]?\d){12,18}\b", 0, "card number", luhn),
        (r"\b\d{3}-\d{2}-\d{4}\b", 0, "social security number", any),
        (r"\b[A-Za-z0-9+/_\-]{40,}={0,2}", 0, "key", random),
    ];
    let build = |(pattern, group, kind, check): &Line| {
        let pattern = Regex::new(pattern).ok()?;
        Some(Rule { pattern, group: *group, kind, check: *check })
    };
    rules.iter().filter_map(build).collect()
});

/// The text without its secrets.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut out = Cow::Borrowed(text);
    for rule in RULES.iter() {
        if !rule.pattern.is_match(&out) {
            continue;
        }
        let replaced = rule.pattern.replace_all(&out, |found: &Captures<'_>| {
            let whole = found.get(0).map_or("", |m| m.as_str());
            let Some(secret) = found.get(rule.group).filter(|s| (rule.check)(s.as_str())) else {
                return whole.to_owned();
            };
            let start = found.get(0).map_or(0, |m| secret.start() - m.start());
            format!("{}[{} removed]{}", &whole[..start], rule.kind, &whole[start + secret.len()..])
        });
        if let Cow::Owned(replaced) = replaced {
            out = Cow::Owned(replaced);
        }
    }
    out
}

fn unmarked(word: &str) -> bool {
    !word.starts_with('[')
}

/// `the password is wrong` is no secret: it takes a digit, a sign or mixed case.
fn looks_secret(word: &str) -> bool {
    let word = word.trim_end_matches(['.', '!', '?', ')']);
    word.len() >= 4
        && !word.starts_with('[')
        && (word.bytes().any(|b| b.is_ascii_digit() || b"!@#$%^&*_+=~".contains(&b))
            || word.bytes().skip(1).any(|b| b.is_ascii_uppercase()) && word.bytes().any(|b| b.is_ascii_lowercase()))
}

fn luhn(number: &str) -> bool {
    let digits: Vec<u32> = number.chars().filter_map(|c| c.to_digit(10)).collect();
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, d)| {
            if i % 2 == 0 {
                *d
            } else if *d > 4 {
                d * 2 - 9
            } else {
                d * 2
            }
        })
        .sum();
    (13..=19).contains(&digits.len()) && sum.is_multiple_of(10) && digits.iter().any(|d| *d != digits[0])
}

/// Letters of both cases and digits, many different: no path, no word, no hash of one case.
fn random(word: &str) -> bool {
    let has = |test: fn(&u8) -> bool| word.as_bytes().iter().any(test);
    let kinds: std::collections::HashSet<u8> = word.bytes().collect();
    has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_digit)
        && kinds.len() > 18
        && word.bytes().filter(|b| *b == b'/').count() < 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out_and_named() {
        for (text, safe) in [
            ("my key is sk-abcdefghijklmnop1234, ok?", "my key is [key removed], ok?"),
            ("the password is hunter2", "the password is [password removed]"),
            ("密码是 Abc12345。", "密码是 [password removed]。"),
            ("パスワードは「tanuki99」です", "パスワードは「[password removed]」です"),
            ("card 4111 1111 1111 1111 until May", "card [card number removed] until May"),
            ("postgres://me:s3cret@db/x", "postgres://me:[password removed]@db/x"),
            ("Authorization: Bearer abcdefghijklmnopqrst", "Authorization: Bearer [token removed]"),
        ] {
            assert_eq!(redact(text), safe);
            assert_eq!(redact(safe), safe, "a second time changes nothing");
        }
    }

    #[test]
    fn ordinary_text_stays() {
        for text in [
            "The password is wrong again.",
            "Order 1234567890123 arrived",
            "see https://example.org/a:b and crates/memory/src/lib.rs",
            "commit 6335e32a0b1c2d3e4f5061728394a5b6c7d8e9f0",
            "我忘了密码",
        ] {
            assert_eq!(redact(text), text);
        }
    }
}
