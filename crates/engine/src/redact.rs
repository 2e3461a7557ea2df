//! Keeps secrets out of the log file and out of diagnostics: values known from the config, and whatever looks like a
//! key, a bearer token or a password in a URL. Pure; the log writer calls it on every line.

use std::borrow::Cow;

/// What stands where a secret stood.
pub(crate) const MASK: &str = "[secret]";

/// Prefixes that announce a key; what follows must be at least [`MIN_TAIL`] key characters.
const PREFIXES: &[&str] =
    &["sk-", "pk-", "rk-", "gsk_", "xai-", "AIza", "ghp_", "gho_", "github_pat_", "hf_", "ya29.", "eyJ", OWN, "AKIA"];
/// Words whose following value is a credential, compared without case.
const LABELS: &[&str] = &["bearer ", "basic ", "api_key=", "api-key=", "apikey=", "token=", "password=", "x-api-key: "];
/// The prefix of the keys that MetaClaw makes.
const OWN: &str = "mc-";
const MIN_TAIL: usize = 8;

/// Masks every known secret of `known` (values of six characters or more) and every key-like word in `text`.
#[must_use]
pub fn redact<'a>(text: &'a str, known: &[String]) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    for secret in known {
        if secret.len() >= 6 && text.contains(secret.as_str()) {
            text = Cow::Owned(text.replace(secret.as_str(), MASK));
        }
    }
    match shapes(&text) {
        Some(masked) => Cow::Owned(masked),
        None => text,
    }
}

/// `None` when nothing looked like a secret.
fn shapes(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out: Option<String> = None;
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        let boundary = at == 0 || !is_key_byte(bytes[at - 1]);
        if let Some((from, to)) = boundary.then(|| secret_at(bytes, at)).flatten() {
            let out = out.get_or_insert_with(|| String::with_capacity(text.len()));
            out.push_str(&text[copied..from]);
            out.push_str(MASK);
            (at, copied) = (to, to);
        } else {
            at += 1;
        }
    }
    let mut out = out?;
    out.push_str(&text[copied..]);
    Some(out)
}

/// The span of a secret that is announced at `at`. All bounds fall on ASCII bytes, so slicing is safe.
fn secret_at(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let rest = &bytes[at..];
    for prefix in PREFIXES {
        if rest.starts_with(prefix.as_bytes()) {
            // Keys of our own are one word: a path that begins like one is no key.
            let tail = &rest[prefix.len()..];
            let end = at + prefix.len() + if *prefix == OWN { word(tail) } else { run(tail) };
            if end - at - prefix.len() >= MIN_TAIL {
                return Some((at, end));
            }
        }
    }
    for label in LABELS {
        if rest.len() >= label.len() && rest[..label.len()].eq_ignore_ascii_case(label.as_bytes()) {
            let from = at + label.len();
            let end = from + run(&bytes[from..]);
            if end - from >= MIN_TAIL {
                return Some((from, end));
            }
        }
    }
    // scheme://user:password@host
    if rest.starts_with(b"//") {
        let host =
            rest[2..].iter().position(|byte| matches!(byte, b'/' | b' ' | b'"' | b'?')).unwrap_or(rest.len() - 2);
        let authority = &rest[2..2 + host];
        if let Some(sign) = authority.iter().rposition(|byte| *byte == b'@')
            && let Some(colon) = authority[..sign].iter().position(|byte| *byte == b':')
            && colon + 1 < sign
        {
            return Some((at + 2 + colon + 1, at + 2 + sign));
        }
    }
    None
}

/// Length of a key of one piece: it ends where a path or an assignment would go on.
fn word(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_key_byte(**byte)).count()
}

/// Length of any credential, padding included.
fn run(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_key_byte(**byte) || matches!(byte, b'.' | b'=' | b'+' | b'/')).count()
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn a_path_that_begins_like_a_key_of_ours_stays_and_keys_with_slashes_go_whole() {
        assert_eq!(redact("/tmp/mc-x7Yq/home/config.yaml", &[]), "/tmp/mc-x7Yq/home/config.yaml");
        assert_eq!(redact("key mc-Nwfex4CO9aNneit_h_wJp4 end", &[]), format!("key {MASK} end"));
        assert_eq!(redact("key sk-abc/def+ghi= end", &[]), format!("key {MASK} end"));
    }

    #[rstest]
    #[case("key sk-abcdefgh12345 used", "key [secret] used")]
    #[case("Authorization: Bearer abcdefghijkl", "Authorization: Bearer [secret]")]
    #[case("http://u:pass@h/x", "http://u:[secret]@h/x")]
    #[case("?token=abcdefghi&x=1", "?token=[secret]&x=1")]
    #[case("nothing to see: task-force, disk-usage", "nothing to see: task-force, disk-usage")]
    #[case("短い sk-短い", "短い sk-短い")]
    #[case("the value hunter22 is known", "the value [secret] is known")]
    fn secrets_are_masked_and_words_are_kept(#[case] line: &str, #[case] expected: &str) {
        assert_eq!(redact(line, &["hunter22".to_owned()]), expected);
    }

    proptest::proptest! {
        #[test]
        fn any_text_survives(text in "\\PC*") {
            let _ = redact(&text, &[]);
        }

        #[test]
        fn a_known_secret_never_remains(secret in "[a-zA-Z0-9]{8,40}", before in "[ -~]{0,20}", after in "[ -~]{0,20}") {
            let line = format!("{before}{secret}{after}");
            proptest::prop_assert!(!redact(&line, std::slice::from_ref(&secret)).contains(&secret));
        }
    }
}
