//! JSON that `serde_json` refuses and servers send all the same: unpaired surrogates, where a text was cut between the
//! two halves of a character, numbers beyond every range, broken UTF-8. Read here with as little loss as can be.

use std::borrow::Cow;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::text::hex;
use super::{Json, Kind};

/// The first half of a character that a stream cut in two: left out where it stood, and put before its second half when
/// that comes.
#[derive(Debug, Default)]
pub(crate) struct Halves(Option<u32>);

/// Reads a document. Unpaired surrogates become U+FFFD; `halves`, where there is one, joins those that two documents of
/// a stream share.
pub(crate) fn read_lossy<T: DeserializeOwned>(document: &[u8], halves: Option<&mut Halves>) -> serde_json::Result<T> {
    serde_json::from_slice(document).or_else(|error| match mend(document, halves) {
        Some(mended) => serde_json::from_str(&mended),
        None => Err(error),
    })
}

/// The document in a form that can be read; `None` where it is no JSON at all.
fn mend(document: &[u8], mut halves: Option<&mut Halves>) -> Option<String> {
    let text = String::from_utf8_lossy(document);
    let json = Json::parse(Bytes::copy_from_slice(text.as_bytes())).ok()?;
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for node in &json.nodes {
        let (start, end) = (node.start as usize, node.end as usize);
        let raw = &text[start..end];
        let mended = match node.kind {
            Kind::String if node.escaped => string(raw, halves.as_deref_mut()),
            Kind::Number => number(raw),
            _ => None,
        };
        if let Some(mended) = mended {
            out.push_str(&text[at..start]);
            out.push_str(&mended);
            at = end;
        }
    }
    out.push_str(&text[at..]);
    Some(out)
}

/// A number that fits; the largest there is in place of a larger one.
fn number(raw: &str) -> Option<Cow<'static, str>> {
    let value: f64 = raw.parse().ok()?;
    let largest = if value > 0.0 { f64::MAX } else { f64::MIN };
    value.is_infinite().then(|| format!("{largest:e}").into())
}

/// A string (with its quotes) without unpaired surrogates; `None` where there are none.
fn string(raw: &str, mut halves: Option<&mut Halves>) -> Option<Cow<'static, str>> {
    const GONE: &str = "\\ufffd";
    let inner = &raw[1..raw.len() - 1];
    let mut out = String::from("\"");
    let (mut from, mut at, mut found) = (0, 0, false);
    while let Some(backslash) = inner[at..].find('\\').map(|found| at + found) {
        let surrogate = hex(inner, backslash + 2)
            .filter(|code| inner.as_bytes()[backslash + 1] == b'u' && (0xD800..0xE000).contains(code));
        let Some(code) = surrogate else {
            at = backslash + 2;
            continue;
        };
        let behind = backslash + 6;
        let low = |at: usize| hex(inner, at + 2).filter(|code| (0xDC00..0xE000).contains(code));
        if code < 0xDC00 && inner.get(behind..behind + 2) == Some("\\u") && low(behind).is_some() {
            at = behind + 6;
            continue;
        }
        found = true;
        out.push_str(&inner[from..backslash]);
        match halves.as_deref_mut() {
            Some(halves) if code < 0xDC00 && behind == inner.len() => halves.0 = Some(code),
            Some(Halves(half)) if code >= 0xDC00 && backslash == 0 => match half.take() {
                Some(high) => out.push_str(&format!("\\u{high:04x}\\u{code:04x}")),
                None => out.push_str(GONE),
            },
            _ => out.push_str(GONE),
        }
        (from, at) = (behind, behind);
    }
    out.push_str(&inner[from..]);
    out.push('"');
    found.then_some(out.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_cut_in_two_becomes_a_mark_and_everything_else_stays() {
        let text = r#"{"a":"cut \ud83d","b":"\ude00 rest","c":"\ud83d\ude00 \\ud83d \ud83d\ud83d\ude00","d":[1e999,-1E400,1.5],"\udc00":0}"#;
        let value: Value = read_lossy(text.as_bytes(), None).unwrap();
        let expected = json!({"a": "cut \u{fffd}", "b": "\u{fffd} rest", "c": "😀 \\ud83d \u{fffd}😀",
                              "d": [f64::MAX, f64::MIN, 1.5], "\u{fffd}": 0});
        assert_eq!(value, expected);
        assert!(read_lossy::<Value>(b"{\"a\":\"\\ud83d\"", None).is_err());
        assert_eq!(read_lossy::<Value>(b"[\"\xff\"]", None).unwrap(), json!(["\u{fffd}"]));
    }

    #[test]
    fn the_halves_of_a_character_find_each_other_across_documents() {
        let mut halves = Halves::default();
        let mut read = |text: &str| read_lossy::<Value>(text.as_bytes(), Some(&mut halves)).unwrap();
        assert_eq!(read(r#"["half \ud83d"]"#), json!(["half "]));
        assert_eq!(read(r#"["between"]"#), json!(["between"]));
        assert_eq!(read(r#"["\ude00 rest"]"#), json!(["😀 rest"]));
        assert_eq!(read(r#"["\ude00 rest"]"#), json!(["\u{fffd} rest"]));
    }
}
