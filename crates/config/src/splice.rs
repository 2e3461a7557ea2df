//! Cutting one value into or out of a YAML text without touching the rest.
//! In: the text and a path. Out: the text with one splice. Afterwards both texts are read and compared: if anything but
//! the asked-for value differs, the splice is refused.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use crate::yaml::{Body, Document, Entry, Node, Style, SyntaxError};

/// Why nothing was changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SpliceError {
    Syntax(SyntaxError),
    ByHand { line: usize, why: &'static str },
}

impl From<SyntaxError> for SpliceError {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error)
    }
}

/// The text with `value` at `path`. An equal value that stands there already gives the same text.
pub(crate) fn put(text: &str, path: &[&str], value: &Value) -> Result<String, SpliceError> {
    let (bom, body) = split_bom(text);
    let document = Document::parse(body)?;
    // A map is changed name by name, so that what stands beside its names stays.
    if let (Value::Object(wanted), Some(node)) = (value, find(&document.root, path))
        && !node.shared
        && !node.entries().is_empty()
    {
        let names: Vec<String> = node.entries().iter().filter_map(|e| e.key.text().map(str::to_owned)).collect();
        let mut out = text.to_owned();
        for (name, value) in wanted {
            out = put(&out, &[path, &[name]].concat(), value)?;
        }
        for name in names.iter().filter(|name| !wanted.contains_key(*name)) {
            out = remove(&out, &[path, &[name]].concat())?;
        }
        return Ok(out);
    }
    let before = Plain::of(&document.root);
    let mut wanted = before.clone();
    wanted.set(path, Plain::of_value(value));
    if wanted == before {
        return Ok(text.to_owned());
    }
    let out = Splicer { text: body, newline: newline_of(body) }.put(&document.root, path, value)?;
    let line = find(&document.root, path).map_or(document.root.line, |node| node.line);
    let after =
        Document::parse(&out).map_err(|_| SpliceError::ByHand { line, why: "the change would break the file" })?;
    if Plain::of(&after.root) != wanted {
        return Err(SpliceError::ByHand { line, why: "the change would reach other values" });
    }
    if after.comments != document.comments {
        return Err(SpliceError::ByHand { line, why: "comments stand inside the value" });
    }
    Ok(format!("{bom}{out}"))
}

/// The text without the key at `path`. A path that is not there gives the same text.
pub(crate) fn remove(text: &str, path: &[&str]) -> Result<String, SpliceError> {
    let (bom, body) = split_bom(text);
    let document = Document::parse(body)?;
    let mut wanted = Plain::of(&document.root);
    if !wanted.unset(path) {
        return Ok(text.to_owned());
    }
    let out = Splicer { text: body, newline: newline_of(body) }.remove(&document.root, path)?;
    let line = find(&document.root, path).map_or(document.root.line, |node| node.line);
    let after =
        Document::parse(&out).map_err(|_| SpliceError::ByHand { line, why: "the change would break the file" })?;
    if Plain::of(&after.root).without_empty(path) != wanted.without_empty(path) {
        return Err(SpliceError::ByHand { line, why: "the change would reach other values" });
    }
    Ok(format!("{bom}{out}"))
}

/// The node at `path`.
pub(crate) fn find<'n>(root: &'n Node, path: &[&str]) -> Option<&'n Node> {
    path.iter().try_fold(root, |node, name| node.get(name).map(|entry| &entry.value))
}

/// A value as it is written on one line.
pub(crate) fn render(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => render_text(text),
        Value::Array(items) => format!("[{}]", items.iter().map(render).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entries: Vec<String> =
                map.iter().map(|(name, value)| format!("{}: {}", render_text(name), render(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// A text so that every YAML reader, old or new, reads a text: plain where that is sure, else in double quotes.
fn render_text(text: &str) -> String {
    let first = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        || text.starts_with("~/")
        || text.starts_with("./");
    let inside = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./+@:~=".contains(&b));
    let colon = text.ends_with(':');
    let word = matches!(
        text.to_ascii_lowercase().as_str(),
        "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null" | "nan" | "inf"
    );
    if first && inside && !colon && !word { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Control characters, line separators and the byte-order mark.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') => {
                let code = c as u32;
                out.push_str(&format!("\\u{code:04x}"));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The new value in the quotes of the old one.
fn render_like(old: Option<Style>, value: &Value) -> String {
    match (old, value) {
        (Some(Style::Double), Value::String(text)) => quoted(text),
        (Some(Style::Single), Value::String(text)) if text.chars().all(|c| !c.is_control() && c != '\'') => {
            format!("'{text}'")
        }
        _ => render(value),
    }
}

fn split_bom(text: &str) -> (&str, &str) {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    }
}

fn newline_of(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

struct Splicer<'t> {
    text: &'t str,
    newline: &'static str,
}

impl Splicer<'_> {
    fn put(&self, root: &Node, path: &[&str], value: &Value) -> Result<String, SpliceError> {
        let mut node = root;
        for (depth, name) in path.iter().enumerate() {
            let rest = &path[depth..];
            if node.shared {
                return Err(SpliceError::ByHand { line: node.line, why: "it comes from an alias (*)" });
            }
            match &node.body {
                Body::Mapping { entries, flow } => match own(entries, name) {
                    Some(entry) if depth + 1 == path.len() => return self.replace(entry, value),
                    Some(entry) if entry.value.is_null() => return self.fill(root, entry, &rest[1..], value),
                    Some(entry) => node = &entry.value,
                    None if *flow => return self.add_to_flow(node, entries, rest, value),
                    None => return self.add_to_block(root, node, entries, rest, value),
                },
                Body::Null if depth == 0 => return Ok(self.append(rest, value)),
                _ => {
                    return Err(SpliceError::ByHand {
                        line: node.line,
                        why: "a plain value stands where a section should",
                    });
                }
            }
        }
        Err(SpliceError::ByHand { line: root.line, why: "no key was named" })
    }

    /// Another value for an entry that is there.
    fn replace(&self, entry: &Entry, value: &Value) -> Result<String, SpliceError> {
        let node = &entry.value;
        match &node.body {
            Body::Null if !self.written(node) => {
                let colon = self.colon(entry)?;
                Ok(self.splice(colon..colon, &format!(" {}", render(value))))
            }
            Body::Sequence { items, flow: false } if !node.shared && !items.is_empty() => {
                self.replace_items(entry, items, value)
            }
            Body::Mapping { flow: false, .. } if !node.shared => {
                Ok(self.splice(self.colon(entry)?..node.end(), &format!(" {}", render(value))))
            }
            // Its span begins behind the | or >.
            Body::Scalar { style: Style::Block, .. } if !node.shared => {
                Ok(self.splice(self.colon(entry)?..node.end(), &format!(" {}", render(value))))
            }
            Body::Scalar { style, .. } if !node.shared => {
                Ok(self.splice(node.span.clone(), &render_like(Some(*style), value)))
            }
            _ => Ok(self.splice(node.span.clone(), &render(value))),
        }
    }

    /// A list that is written one item a line keeps its lines, where items only go or come at the end.
    fn replace_items(&self, entry: &Entry, items: &[Node], value: &Value) -> Result<String, SpliceError> {
        let whole = || Ok(self.splice(self.colon(entry)?..entry.value.end(), &format!(" {}", render(value))));
        let Value::Array(wanted) = value else { return whole() };
        let texts: Vec<Value> = items.iter().map(|item| Value::from(item.text().unwrap_or("\0"))).collect();
        let kept: Vec<&Value> = texts.iter().filter(|text| wanted.contains(text)).collect();
        let same_start = kept.len() <= wanted.len() && kept.iter().zip(wanted).all(|(kept, wanted)| *kept == wanted);
        if kept.is_empty() || !same_start {
            return whole();
        }
        let dash = |item: &Node| self.text[..item.span.start].rfind('-');
        let Some(first_dash) = dash(&items[0]) else { return whole() };
        let indent = &self.text[line_start(self.text, first_dash)..first_dash];
        let mut out = self.text.to_owned();
        if wanted.len() > kept.len() {
            let mut end = line_end(self.text, entry.value.end());
            let mut lines: String =
                wanted[kept.len()..].iter().map(|item| format!("{indent}- {}{}", render(item), self.newline)).collect();
            if !self.text[..end].ends_with('\n') {
                lines = format!("{}{}", self.newline, lines.trim_end());
                end = self.text.len();
            }
            out.insert_str(end, &lines);
        }
        for (item, text) in items.iter().zip(&texts).rev() {
            if !wanted.contains(text) {
                let Some(dash) = dash(item) else { return whole() };
                out.replace_range(line_start(self.text, dash)..line_end(self.text, item.end()), "");
            }
        }
        Ok(out)
    }

    /// A section that is there but empty.
    fn fill(&self, root: &Node, entry: &Entry, rest: &[&str], value: &Value) -> Result<String, SpliceError> {
        let key_start = entry.key.span.start;
        let indent = key_start - line_start(self.text, key_start);
        let inner = indent + step(root);
        let colon = self.colon(entry)?;
        let mut text = self.text.to_owned();
        if self.written(&entry.value) {
            // `llm: ~`
            text.replace_range(entry.value.span.clone(), "");
        }
        let at = line_end(&text, colon);
        let lines = block_lines(rest, value, inner, step(root), self.newline);
        Ok(insert_lines(&text, at, &lines, self.newline))
    }

    fn add_to_block(
        &self,
        root: &Node,
        node: &Node,
        entries: &[Entry],
        rest: &[&str],
        value: &Value,
    ) -> Result<String, SpliceError> {
        let by_hand = SpliceError::ByHand { line: node.line, why: "the section has no lines of its own" };
        let mine = || entries.iter().filter(|entry| !entry.key.shared);
        let Some(first) = mine().next() else { return Err(by_hand) };
        let indent = first.key.span.start - line_start(self.text, first.key.span.start);
        let end = mine().map(|entry| entry.value.end_of_line_value().max(entry.key.span.end)).max().unwrap_or(0);
        let lines = block_lines(rest, value, indent, step(root), self.newline);
        Ok(insert_lines(self.text, line_end(self.text, end), &lines, self.newline))
    }

    fn add_to_flow(&self, node: &Node, entries: &[Entry], rest: &[&str], value: &Value) -> Result<String, SpliceError> {
        let [name, inner @ ..] = rest else {
            return Err(SpliceError::ByHand { line: node.line, why: "no key was named" });
        };
        let nested =
            inner.iter().rev().fold(render(value), |inside, name| format!("{{{}: {inside}}}", render_text(name)));
        let new = format!("{}: {nested}", render_text(name));
        match entries.iter().rfind(|entry| !entry.key.shared) {
            Some(last) => {
                let end = self.flow_end(last);
                Ok(self.splice(end..end, &format!(", {new}")))
            }
            None => {
                let inside = node.span.start + 1;
                Ok(self.splice(inside..inside, &new))
            }
        }
    }

    /// Keys for a text that has none yet.
    fn append(&self, rest: &[&str], value: &Value) -> String {
        let lines = block_lines(rest, value, 0, 2, self.newline);
        insert_lines(self.text, self.text.len(), &lines, self.newline)
    }

    fn remove(&self, root: &Node, path: &[&str]) -> Result<String, SpliceError> {
        let Some((name, parents)) = path.split_last() else { return Ok(self.text.to_owned()) };
        let Some(parent) = find(root, parents) else { return Ok(self.text.to_owned()) };
        if parent.shared {
            return Err(SpliceError::ByHand { line: parent.line, why: "it comes from an alias (*)" });
        }
        let (entries, flow) = match &parent.body {
            Body::Mapping { entries, flow } => (entries, *flow),
            _ => return Ok(self.text.to_owned()),
        };
        let mut out = self.text.to_owned();
        // Every writing of the key, from the last one up.
        for entry in entries.iter().rev().filter(|entry| entry.key.text() == Some(name)) {
            if entry.key.shared {
                return Err(SpliceError::ByHand { line: parent.line, why: "it comes from an alias (*)" });
            }
            let range = if flow { self.flow_range(entry) } else { self.block_range(entry)? };
            out.replace_range(range, "");
        }
        Ok(out)
    }

    fn block_range(&self, entry: &Entry) -> Result<Range<usize>, SpliceError> {
        let start = line_start(self.text, entry.key.span.start);
        if !self.text[start..entry.key.span.start].trim().is_empty() {
            return Err(SpliceError::ByHand { line: entry.key.line, why: "something else stands on the same line" });
        }
        let end = if entry.value.shared || entry.value.is_null() {
            entry.value.span.end.max(entry.key.span.end)
        } else {
            entry.value.end()
        };
        Ok(start..line_end(self.text, end.max(entry.key.span.end)))
    }

    fn flow_range(&self, entry: &Entry) -> Range<usize> {
        let start = entry.key.span.start;
        let end = self.flow_end(entry);
        let after = self.text[end..].trim_start();
        if after.starts_with(',') {
            let comma = self.text.len() - after.len() + 1;
            let gap = self.text[comma..].len() - self.text[comma..].trim_start_matches(' ').len();
            return start..comma + gap;
        }
        let before = self.text[..start].trim_end();
        match before.strip_suffix(',') {
            Some(kept) => kept.len()..end,
            None => start..end,
        }
    }

    fn flow_end(&self, entry: &Entry) -> usize {
        if entry.value.is_null() && !self.written(&entry.value) {
            return self.colon(entry).unwrap_or(entry.key.span.end);
        }
        entry.value.span.end.max(entry.key.span.end)
    }

    /// Whether a null is written out (`~`, `null`).
    fn written(&self, node: &Node) -> bool {
        !self.text.get(node.span.clone()).unwrap_or_default().is_empty()
    }

    /// The place behind the colon of an entry.
    fn colon(&self, entry: &Entry) -> Result<usize, SpliceError> {
        let after = &self.text[entry.key.span.end..];
        let skipped = after.trim_start_matches([' ', '\t']);
        if skipped.starts_with(':') {
            return Ok(self.text.len() - skipped.len() + 1);
        }
        Err(SpliceError::ByHand { line: entry.key.line, why: "key and value are written apart" })
    }

    fn splice(&self, range: Range<usize>, new: &str) -> String {
        let mut out = String::with_capacity(self.text.len() + new.len());
        out.push_str(&self.text[..range.start]);
        out.push_str(new);
        out.push_str(&self.text[range.end..]);
        out
    }
}

impl Node {
    /// Where the last line of this value is: an alias ends where it is written.
    fn end_of_line_value(&self) -> usize {
        if self.shared { self.span.end } else { self.end() }
    }
}

fn own<'e>(entries: &'e [Entry], name: &str) -> Option<&'e Entry> {
    entries.iter().rev().find(|entry| !entry.key.shared && entry.key.text() == Some(name))
}

/// How far sections of this file are indented.
fn step(root: &Node) -> usize {
    root.entries()
        .iter()
        .filter(|entry| !entry.value.shared)
        .find_map(|entry| match &entry.value.body {
            Body::Mapping { entries, flow: false } => entries.first().map(|inner| inner.key.column),
            _ => None,
        })
        .map_or(2, |column| column.saturating_sub(1).clamp(1, 8))
}

fn block_lines(path: &[&str], value: &Value, indent: usize, step: usize, newline: &str) -> String {
    let mut lines = String::new();
    for (depth, name) in path.iter().enumerate() {
        lines.push_str(&" ".repeat(indent + depth * step));
        lines.push_str(&render_text(name));
        lines.push(':');
        if depth + 1 == path.len() {
            lines.push(' ');
            lines.push_str(&render(value));
        }
        lines.push_str(newline);
    }
    lines
}

/// Whole lines put in at the start of a line, or behind a last line that was not ended.
fn insert_lines(text: &str, at: usize, lines: &str, newline: &str) -> String {
    let (before, after) = text.split_at(at);
    if before.is_empty() || before.ends_with('\n') {
        format!("{before}{lines}{after}")
    } else {
        format!("{before}{newline}{}{after}", lines.trim_end_matches(['\r', '\n']))
    }
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The start of the next line, or the end of the text.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

/// What a text says, without how: for comparing before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Plain {
    Null,
    Text(String),
    List(Vec<Plain>),
    Map(BTreeMap<String, Plain>),
}

impl Plain {
    fn of(node: &Node) -> Self {
        match &node.body {
            Body::Null => Self::Null,
            Body::Scalar { text, .. } => Self::Text(text.clone()),
            Body::Sequence { items, .. } => Self::List(items.iter().map(Self::of).collect()),
            Body::Mapping { entries, .. } => Self::Map(
                entries
                    .iter()
                    .map(|entry| {
                        let name = match &entry.key.body {
                            Body::Scalar { text, .. } => text.clone(),
                            other => format!("\0{other:?}"),
                        };
                        (name, Self::of(&entry.value))
                    })
                    .collect(),
            ),
        }
    }

    fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) | Value::Number(_) => Self::Text(value.to_string()),
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(items) => Self::List(items.iter().map(Self::of_value).collect()),
            Value::Object(map) => {
                Self::Map(map.iter().map(|(name, value)| (name.clone(), Self::of_value(value))).collect())
            }
        }
    }

    fn set(&mut self, path: &[&str], value: Self) {
        let Some((name, rest)) = path.split_first() else {
            *self = value;
            return;
        };
        if !matches!(self, Self::Map(_)) {
            *self = Self::Map(BTreeMap::new());
        }
        if let Self::Map(map) = self {
            map.entry((*name).to_owned()).or_insert(Self::Null).set(rest, value);
        }
    }

    fn unset(&mut self, path: &[&str]) -> bool {
        match (self, path) {
            (Self::Map(map), [name]) => map.remove(*name).is_some(),
            (Self::Map(map), [name, rest @ ..]) => map.get_mut(*name).is_some_and(|inner| inner.unset(rest)),
            _ => false,
        }
    }

    /// A section that lost its last key reads as null: along `path`, empty and null are the same.
    fn without_empty(mut self, path: &[&str]) -> Self {
        if let (Self::Map(map), [name, rest @ ..]) = (&mut self, path)
            && let Some(inner) = map.remove(*name)
        {
            map.insert((*name).to_owned(), inner.without_empty(rest));
        }
        match self {
            Self::Map(map) if map.is_empty() => Self::Null,
            other => other,
        }
    }
}
