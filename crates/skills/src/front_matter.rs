//! The text of a SKILL.md: where the front matter and the body are, and edits that change one key's bytes and leave
//! every other byte as it was. Pure text in, pure text out; meaning is given by [`crate::parse`].

use std::ops::Range;

use crate::problem::{Finding, Severity};

/// The parts of a SKILL.md, as byte ranges of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Between the two fences, fences not included.
    pub yaml: Range<usize>,
    /// After the closing fence's line.
    pub body: Range<usize>,
    /// Line of the first body byte, from 1.
    pub body_line: u32,
}

/// Line of the first front matter line: the one after the opening fence.
pub(crate) const YAML_LINE: u32 = 2;

fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

/// Finds the fences. A byte order mark before the first one is skipped.
pub(crate) fn split(text: &str) -> Result<Parts, Finding> {
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut at = start;
    let mut yaml_start = None;
    for (number, line) in (1u32..).zip(text[start..].split_inclusive('\n')) {
        let next = at + line.len();
        match yaml_start {
            None if is_fence(line) => yaml_start = Some(next),
            None => break,
            Some(from) if is_fence(line) => {
                return Ok(Parts { yaml: from..at, body: next..text.len(), body_line: number + 1 });
            }
            Some(_) => {}
        }
        at = next;
    }
    Err(match yaml_start {
        None => Finding::new(
            Severity::Error,
            1,
            "the file does not begin with front matter",
            "make `---` the first line, then `name:` and `description:`, then `---` again",
        ),
        Some(_) => Finding::new(
            Severity::Error,
            1,
            "the front matter is not closed",
            "put a line with `---` between the front matter and the body",
        ),
    })
}

/// A top-level key of the front matter with the lines that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The key, without quotes.
    pub key: String,
    /// The whole entry, line ends and continuation lines included.
    pub span: Range<usize>,
    /// The first line's value, without the line end, blanks around it trimmed.
    pub value: Range<usize>,
    /// Line in the text the range was taken from, from 1, when `first_line` was given to [`entries`].
    pub line: u32,
    /// Whether the entry is a single line.
    pub single: bool,
}

/// The top-level entries in `text[within]`; lines before the first key belong to none.
pub(crate) fn entries(text: &str, within: Range<usize>, first_line: u32) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut at = within.start;
    for (line_number, line) in (first_line..).zip(text[within].split_inclusive('\n')) {
        let next = at + line.len();
        if let Some((key, value)) = key_line(line) {
            found.push(Entry {
                key,
                span: at..next,
                value: at + value.start..at + value.end,
                line: line_number,
                single: true,
            });
        } else if let Some(last) = found.last_mut() {
            // Blank lines and comments between two keys go with the key above, and stay where they are on an edit.
            if line.starts_with([' ', '\t', '-']) && !line.trim().is_empty() {
                last.span.end = next;
                last.single = false;
            }
        }
        at = next;
    }
    found
}

fn key_line(line: &str) -> Option<(String, Range<usize>)> {
    if line.starts_with([' ', '\t', '#', '-', '\r', '\n', '[', '{', '?', '%', '&', '*', '!', '|', '>', '@', '`']) {
        return None;
    }
    let bare = line.trim_end_matches(['\r', '\n']);
    let colon = bare.find(": ").or_else(|| bare.find(":\t")).or_else(|| bare.ends_with(':').then(|| bare.len() - 1))?;
    let key = bare[..colon].trim().trim_matches(['"', '\'']).to_owned();
    if key.is_empty() {
        return None;
    }
    let rest = &bare[colon + 1..];
    let start = colon + 1 + (rest.len() - rest.trim_start().len());
    let end = bare.trim_end().len();
    Some((key, start..end.max(start)))
}

/// `text` with the top-level scalar `key` set to `value`; all other bytes stay. A missing key is added at the end of
/// the front matter.
pub(crate) fn set(text: &str, key: &str, value: &str) -> Result<String, Finding> {
    let parts = split(text)?;
    let end = line_end(text, &parts);
    let line = format!("{key}: {}{end}", quote(value));
    let all = entries(text, parts.yaml.clone(), YAML_LINE);
    Ok(match all.iter().find(|e| e.key == key) {
        Some(entry) => splice(text, entry.span.clone(), &line),
        None => splice(text, parts.yaml.end..parts.yaml.end, &line),
    })
}

/// `text` without the top-level `key`.
pub(crate) fn unset(text: &str, key: &str) -> Result<String, Finding> {
    let parts = split(text)?;
    let all = entries(text, parts.yaml, YAML_LINE);
    Ok(match all.iter().find(|e| e.key == key) {
        Some(entry) => splice(text, entry.span.clone(), ""),
        None => text.to_owned(),
    })
}

/// `text` with `metadata.<key>` set to `value`; all other bytes stay. `None` when `metadata` is written in a form
/// (flow mapping, alias, scalar) that a line edit cannot extend.
pub(crate) fn set_metadata(text: &str, key: &str, value: &str) -> Result<Option<String>, Finding> {
    let parts = split(text)?;
    let end = line_end(text, &parts);
    let all = entries(text, parts.yaml.clone(), YAML_LINE);
    let Some(metadata) = all.iter().find(|e| e.key == "metadata") else {
        let block = format!("metadata:{end}  {key}: {}{end}", quote(value));
        return Ok(Some(splice(text, parts.yaml.end..parts.yaml.end, &block)));
    };
    if !metadata.value.is_empty() || metadata.single {
        return Ok(None);
    }
    let inner_start = text[metadata.span.clone()].find('\n').map_or(metadata.span.end, |n| metadata.span.start + n + 1);
    let inner = &text[inner_start..metadata.span.end];
    let indent = inner.len() - inner.trim_start_matches(' ').len();
    if indent == 0 {
        return Ok(None);
    }
    let pad = " ".repeat(indent);
    let mut at = inner_start;
    let mut found: Option<Range<usize>> = None;
    for line in inner.split_inclusive('\n') {
        let next = at + line.len();
        match line.strip_prefix(pad.as_str()) {
            Some(rest) if !rest.starts_with([' ', '\t']) => {
                if found.is_some() {
                    break;
                }
                if key_line(rest).is_some_and(|(k, _)| k == key) {
                    found = Some(at..next);
                }
            }
            _ => {
                if let Some(range) = &mut found {
                    range.end = next;
                }
            }
        }
        at = next;
    }
    let line = format!("{pad}{key}: {}{end}", quote(value));
    Ok(Some(splice(text, found.unwrap_or(metadata.span.end..metadata.span.end), &line)))
}

fn line_end(text: &str, parts: &Parts) -> &'static str {
    if text[..parts.body.start].contains("\r\n") { "\r\n" } else { "\n" }
}

fn splice(text: &str, range: Range<usize>, with: &str) -> String {
    let mut out = String::with_capacity(text.len() + with.len());
    out.push_str(&text[..range.start]);
    out.push_str(with);
    out.push_str(&text[range.end..]);
    out
}

/// A YAML scalar that reads back as exactly `value`: plain where that is safe, double-quoted otherwise.
pub(crate) fn quote(value: &str) -> String {
    let plain = value.chars().next().is_some_and(char::is_alphabetic)
        && !value.contains(": ")
        && !value.contains(" #")
        && !value.ends_with([':', ' '])
        && !value.chars().any(|c| c.is_control() || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}'))
        && !matches!(
            value.to_ascii_lowercase().as_str(),
            "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "null"
        );
    if plain {
        return value.to_owned();
    }
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
