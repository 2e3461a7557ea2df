//! A JSON document as one flat list of spans over the original bytes. Comes from a request or an answer on the wire;
//! goes to `request` (reading) and `edit` (splicing). Nothing is copied or normalised: every value knows its exact bytes.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use bytestring::ByteString;

mod mend;
mod scan;
mod text;

pub(crate) use mend::{Halves, read_lossy};

pub(crate) use text::{escape_at, push_escaped, push_quoted, unescape_into};

/// How deeply arrays and objects may be nested. The same bound as `serde_json`, so that what is accepted here can
/// also be read by it.
pub const MAX_DEPTH: usize = 127;

/// How many values and keys a document may hold: far more than any conversation does, and a bound for the memory that
/// one odd body takes.
pub const MAX_VALUES: usize = 4 << 20;

/// What a [`SyntaxError`] says of a document with more than [`MAX_VALUES`].
pub(crate) const TOO_MANY: &str = "more than 4 million values";

/// Where and why a text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON at line {line}, column {column}: {message}")]
pub struct SyntaxError {
    /// Byte offset of the first byte that does not fit.
    pub offset: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub message: &'static str,
}

/// What kind of JSON value something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// Any number; its text is kept as written.
    Number,
    /// A string.
    String,
    /// `[…]`
    Array,
    /// `{…}`
    Object,
}

impl Kind {
    /// The kind's name for messages: "an array", "a string", …
    pub fn described(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

/// One value: its span, and where the list goes on after everything inside it. Object members are two nodes in a row,
/// key and value.
#[derive(Debug, Clone, Copy)]
struct Node {
    start: u32,
    end: u32,
    next: u32,
    kind: Kind,
    /// Strings only: holds at least one backslash.
    escaped: bool,
}

/// A parsed document. Cloning is cheap for the bytes and copies the span list.
#[derive(Debug, Clone)]
pub struct Json {
    text: ByteString,
    nodes: Vec<Node>,
}

impl Json {
    /// Parses a whole document. Accepts exactly the JSON grammar in UTF-8 (as `serde_json` does for a raw value):
    /// duplicate keys, numbers of any size and unpaired `\u` surrogates are let through, because real clients send
    /// them and the upstream may take them.
    pub fn parse(bytes: Bytes) -> Result<Self, SyntaxError> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(at(&[], 0, "the document is larger than 4 GiB"));
        }
        let nodes = match scan::scan(&bytes) {
            Ok(nodes) => nodes,
            Err((offset, message)) => return Err(at(&bytes, offset, message)),
        };
        let original = bytes.clone();
        match ByteString::try_from(bytes) {
            Ok(text) => Ok(Self { text, nodes }),
            Err(error) => Err(at(&original, error.valid_up_to(), "the text is not valid UTF-8")),
        }
    }

    /// The outermost value.
    pub fn root(&self) -> Value<'_> {
        self.value(0)
    }

    /// The document as it came.
    pub fn bytes(&self) -> &Bytes {
        self.text.as_bytes()
    }

    /// The value with this position in the list; see [`Value::position`].
    pub(crate) fn value(&self, position: u32) -> Value<'_> {
        Value { json: self, position }
    }

    /// The value at this position and its later siblings in an array.
    pub(crate) fn following(&self, position: u32) -> Elements<'_> {
        Elements { json: self, at: position, end: self.nodes.len() as u32 }
    }

    fn node(&self, position: u32) -> Node {
        self.nodes[position as usize]
    }
}

#[cold]
fn at(bytes: &[u8], offset: usize, message: &'static str) -> SyntaxError {
    let before = &bytes[..offset.min(bytes.len())];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let column = 1 + String::from_utf8_lossy(&before[line_start..]).chars().count();
    SyntaxError { offset, line, column, message }
}

/// A value inside a [`Json`]. Copying it copies two words.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    json: &'a Json,
    position: u32,
}

impl<'a> Value<'a> {
    fn node(self) -> Node {
        self.json.node(self.position)
    }

    /// Place of the value in its document's list; [`Json::value`] turns it back into the value.
    pub(crate) fn position(self) -> u32 {
        self.position
    }

    /// What it is.
    pub fn kind(self) -> Kind {
        self.node().kind
    }

    /// The bytes it takes in the document, quotes and brackets included.
    pub fn span(self) -> Range<usize> {
        let node = self.node();
        node.start as usize..node.end as usize
    }

    /// Its text exactly as written.
    pub fn raw(self) -> &'a str {
        &self.json.text[self.span()]
    }

    /// The member with this key; of duplicates the last, as JSON readers do. `None` for anything but an object.
    pub fn get(self, key: &str) -> Option<Value<'a>> {
        self.members().filter(|(name, _)| name.is_text(key)).last().map(|(_, value)| value)
    }

    /// The members of an object in order, duplicates included, keys as string values. Empty for anything else.
    pub fn members(self) -> Members<'a> {
        let node = self.node();
        let (at, end) = if node.kind == Kind::Object { (self.position + 1, node.next) } else { (0, 0) };
        Members { json: self.json, at, end }
    }

    /// The elements of an array in order. Empty for anything else.
    pub fn elements(self) -> Elements<'a> {
        let node = self.node();
        let (at, end) = if node.kind == Kind::Array { (self.position + 1, node.next) } else { (0, 0) };
        Elements { json: self.json, at, end }
    }

    /// A string's text, borrowed where it holds no escapes. Unpaired surrogates become U+FFFD.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        let inner = self.inner()?;
        Some(if self.node().escaped {
            let mut text = String::with_capacity(inner.len());
            unescape_into(inner, &mut text);
            Cow::Owned(text)
        } else {
            Cow::Borrowed(inner)
        })
    }

    /// A string's text between the quotes, still escaped.
    pub(crate) fn inner(self) -> Option<&'a str> {
        let node = self.node();
        (node.kind == Kind::String).then(|| &self.json.text[node.start as usize + 1..node.end as usize - 1])
    }

    /// About the first `limit` bytes of a string's text; empty for anything else.
    pub(crate) fn text_start(self, limit: usize) -> Cow<'a, str> {
        let inner = self.inner().unwrap_or_default();
        let mut end = limit.min(inner.len());
        while !inner.is_char_boundary(end) {
            end -= 1;
        }
        let start = &inner[..end];
        if !start.contains('\\') {
            return Cow::Borrowed(start);
        }
        let mut text = String::with_capacity(start.len());
        unescape_into(start, &mut text);
        Cow::Owned(text)
    }

    /// Whether a string holds escapes.
    pub(crate) fn is_escaped(self) -> bool {
        self.node().escaped
    }

    /// Whether this is the string `text`.
    pub fn is_text(self, text: &str) -> bool {
        match self.inner() {
            Some(inner) if self.node().escaped => inner.len() > text.len() && self.as_str().as_deref() == Some(text),
            Some(inner) => inner == text,
            None => false,
        }
    }

    /// A boolean's value.
    pub fn as_bool(self) -> Option<bool> {
        (self.kind() == Kind::Bool).then(|| self.raw() == "true")
    }

    /// A number's value where it is written as an integer that fits.
    pub fn as_i64(self) -> Option<i64> {
        (self.kind() == Kind::Number).then(|| self.raw().parse().ok()).flatten()
    }

    /// A number's value.
    pub fn as_f64(self) -> Option<f64> {
        (self.kind() == Kind::Number).then(|| self.raw().parse().ok()).flatten()
    }

    /// Whether it is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// Whether it is an object.
    pub fn is_object(self) -> bool {
        self.kind() == Kind::Object
    }

    /// Whether it is an array.
    pub fn is_array(self) -> bool {
        self.kind() == Kind::Array
    }
}

/// Iterates over an object's members. See [`Value::members`].
#[derive(Debug, Clone)]
pub struct Members<'a> {
    json: &'a Json,
    at: u32,
    end: u32,
}

impl<'a> Iterator for Members<'a> {
    type Item = (Value<'a>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let key = self.json.value(self.at);
        let value = self.json.value(self.at + 1);
        self.at = value.node().next;
        Some((key, value))
    }
}

/// Iterates over an array's elements. See [`Value::elements`].
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    json: &'a Json,
    at: u32,
    end: u32,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let value = self.json.value(self.at);
        self.at = value.node().next;
        Some(value)
    }
}
