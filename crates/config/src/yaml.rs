//! A YAML document as a tree that remembers where everything stands.
//! In: the text of config.yaml. Out: nodes with byte ranges, for reading (`load`) and for cutting into the text (`edit`).
//! Scalars keep the text that was written (`0123456`, `1e5`, `on`), so that the key decides what they mean.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use serde_saphyr::granit_parser::{self as granit, Event, Parser, ScalarStyle, StructureStyle};

/// More nodes than any real settings file has; stops documents that multiply themselves by aliases.
const NODE_LIMIT: usize = 50_000;
/// Deepest nesting that is read.
const DEPTH_LIMIT: usize = 64;

/// Why a text is no YAML that we can read. Lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) message: String,
}

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Single,
    Double,
    /// `|` or `>`
    Block,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    /// Nothing, `~` or `null`.
    Null,
    Scalar {
        text: String,
        style: Style,
    },
    Sequence {
        items: Vec<Node>,
        flow: bool,
    },
    Mapping {
        entries: Vec<Entry>,
        flow: bool,
    },
}

/// A value and its place. `span` is the written value only: no anchor, no tag, no comment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) body: Body,
    /// Reached through `*alias` or `<<`: the text stands elsewhere and may be used elsewhere.
    pub(crate) shared: bool,
    /// Carries `&anchor` or `!tag`.
    pub(crate) decorated: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: Node,
    pub(crate) value: Node,
}

impl Node {
    /// The text of a scalar (or the empty text of a null).
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.body {
            Body::Scalar { text, .. } => Some(text),
            Body::Null => Some(""),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.body, Body::Null)
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.body {
            Body::Mapping { entries, .. } => entries,
            _ => &[],
        }
    }

    /// The value of `key`; where the key is written twice the last one counts, as in every YAML reader in use.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().rev().find(|entry| entry.key.text() == Some(key))
    }

    /// The last byte that belongs to this value.
    pub(crate) fn end(&self) -> usize {
        match &self.body {
            Body::Sequence { items, flow: false } => items.last().map_or(self.span.end, Self::end),
            Body::Mapping { entries, flow: false } => {
                entries.last().map_or(self.span.end, |entry| entry.value.end().max(entry.key.span.end))
            }
            _ => self.span.end,
        }
    }

    /// What kind of thing this is, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match &self.body {
            Body::Null => "nothing",
            Body::Scalar { .. } => "a value",
            Body::Sequence { .. } => "a list",
            Body::Mapping { .. } => "a section",
        }
    }
}

/// A parsed text: its root (an empty text has a null root) and its comments in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Document {
    pub(crate) root: Node,
    pub(crate) comments: Vec<String>,
}

impl Document {
    pub(crate) fn parse(text: &str) -> Result<Self, SyntaxError> {
        let mut builder = Builder::new(text);
        let mut parser = Parser::new_from_str(text);
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| SyntaxError {
                line: error.marker().line().max(1),
                column: error.marker().col() + 1,
                message: error.info(),
            })?;
            builder.take(event, &span)?;
        }
        Ok(builder.finish())
    }
}

enum Open {
    Sequence { node: Node, items: Vec<Node>, anchor: usize },
    Mapping { node: Node, entries: Vec<Entry>, key: Option<Node>, anchor: usize },
}

struct Builder<'t> {
    text: &'t str,
    open: Vec<Open>,
    root: Option<Node>,
    anchors: HashMap<usize, Node>,
    comments: Vec<String>,
    documents: usize,
    nodes: usize,
}

impl<'t> Builder<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            open: Vec::new(),
            root: None,
            anchors: HashMap::new(),
            comments: Vec::new(),
            documents: 0,
            nodes: 0,
        }
    }

    fn take(&mut self, event: Event<'_>, span: &granit::Span) -> Result<(), SyntaxError> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(at(span, "a second document (---) starts here; the settings are one document"));
                }
            }
            Event::Comment(text, _) => self.comments.push(text.trim_end().to_owned()),
            Event::Scalar(text, style, anchor, tag) => {
                let tagged = tag.is_some();
                let body = scalar(&text, style, tag.as_deref()).map_err(|message| at(span, &message))?;
                let node = self.node(span, body, anchor != 0 || tagged);
                if anchor != 0 {
                    self.anchors.insert(anchor, node.clone());
                }
                self.place(node, span)?;
            }
            Event::Alias(id) => {
                let Some(target) = self.anchors.get(&id) else {
                    return Err(at(span, "this alias stands inside the thing it names"));
                };
                let (nodes, depth) = extent(target);
                let mut node = target.clone();
                self.count(nodes, span)?;
                if self.open.len() + depth > DEPTH_LIMIT {
                    return Err(too_deep(span));
                }
                mark_shared(&mut node);
                node.span = self.range(span);
                (node.line, node.column) = (span.start.line(), span.start.col() + 1);
                self.place(node, span)?;
            }
            Event::SequenceStart(style, anchor, tag) => {
                collection_tag(tag.as_deref(), "seq").map_err(|message| at(span, &message))?;
                self.deeper(span)?;
                let body = Body::Sequence { items: Vec::new(), flow: style == StructureStyle::Flow };
                let node = self.node(span, body, anchor != 0 || tag.is_some());
                self.open.push(Open::Sequence { node, items: Vec::new(), anchor });
            }
            Event::MappingStart(style, anchor, tag) => {
                collection_tag(tag.as_deref(), "map").map_err(|message| at(span, &message))?;
                self.deeper(span)?;
                let body = Body::Mapping { entries: Vec::new(), flow: style == StructureStyle::Flow };
                let node = self.node(span, body, anchor != 0 || tag.is_some());
                self.open.push(Open::Mapping { node, entries: Vec::new(), key: None, anchor });
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span)?,
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, span: &granit::Span) -> Result<(), SyntaxError> {
        let end = self.range(span).end;
        let (node, anchor) = match self.open.pop() {
            Some(Open::Sequence { mut node, items, anchor }) => {
                let flow = matches!(node.body, Body::Sequence { flow: true, .. });
                node.span.end = if flow { end } else { items.last().map_or(node.span.end, Node::end) };
                node.body = Body::Sequence { items, flow };
                (node, anchor)
            }
            Some(Open::Mapping { mut node, entries, anchor, .. }) => {
                let flow = matches!(node.body, Body::Mapping { flow: true, .. });
                let entries = merged(entries);
                node.body = Body::Mapping { entries, flow };
                node.span.end = if flow { end } else { node.end().max(node.span.start) };
                (node, anchor)
            }
            None => return Ok(()),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.place(node, span)
    }

    fn place(&mut self, node: Node, span: &granit::Span) -> Result<(), SyntaxError> {
        self.count(1, span)?;
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::Sequence { items, .. }) => items.push(node),
            Some(Open::Mapping { entries, key, .. }) => match key.take() {
                None => *key = Some(node),
                Some(key) => entries.push(Entry { key, value: node }),
            },
        }
        Ok(())
    }

    fn deeper(&self, span: &granit::Span) -> Result<(), SyntaxError> {
        if self.open.len() >= DEPTH_LIMIT {
            return Err(too_deep(span));
        }
        Ok(())
    }

    fn count(&mut self, nodes: usize, span: &granit::Span) -> Result<(), SyntaxError> {
        self.nodes += nodes;
        if self.nodes > NODE_LIMIT {
            return Err(at(span, "too many values for a settings file"));
        }
        Ok(())
    }

    fn range(&self, span: &granit::Span) -> Range<usize> {
        let range = span.byte_range().unwrap_or(0..0);
        let end = range.end.min(self.text.len());
        range.start.min(end)..end
    }

    fn node(&self, span: &granit::Span, body: Body, decorated: bool) -> Node {
        let mut range = self.range(span);
        if matches!(body, Body::Scalar { style: Style::Block, .. }) {
            // The span of a block scalar runs over the line breaks behind it; the next line is not ours.
            let written = &self.text[range.clone()];
            range.end = range.start + written.trim_end_matches([' ', '\t', '\r', '\n']).len();
        }
        Node {
            span: range,
            line: span.start.line().max(1),
            column: span.start.col() + 1,
            body,
            shared: false,
            decorated,
        }
    }

    fn finish(self) -> Document {
        let root = self.root.unwrap_or(Node {
            span: 0..0,
            line: 1,
            column: 1,
            body: Body::Null,
            shared: false,
            decorated: false,
        });
        Document { root, comments: self.comments }
    }
}

fn at(span: &granit::Span, message: &str) -> SyntaxError {
    SyntaxError { line: span.start.line().max(1), column: span.start.col() + 1, message: message.to_owned() }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&granit::Tag>) -> Result<Body, String> {
    let style = match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted => Style::Single,
        ScalarStyle::DoubleQuoted => Style::Double,
        ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
    };
    let kind: Option<Cow<'_, str>> = tag.map(tag_name);
    match kind.as_deref() {
        // `!!str 123` and the like: the key decides anyway.
        None | Some("str" | "int" | "float" | "bool" | "null" | "" | "timestamp") => {}
        Some(other) => return Err(format!("the tag !{other} means nothing here; write the plain value")),
    }
    let null = style == Style::Plain && kind.as_deref() != Some("str") && is_null(text);
    Ok(if null { Body::Null } else { Body::Scalar { text: text.to_owned(), style } })
}

fn tag_name(tag: &granit::Tag) -> Cow<'_, str> {
    match tag.core_suffix() {
        Some(suffix) => Cow::Borrowed(suffix),
        None => Cow::Owned(format!("{}{}", tag.handle().trim_start_matches('!'), tag.suffix())),
    }
}

fn collection_tag(tag: Option<&granit::Tag>, expected: &str) -> Result<(), String> {
    match tag.map(tag_name) {
        None => Ok(()),
        Some(name) if name == expected || name.is_empty() => Ok(()),
        Some(name) => Err(format!("the tag !{name} means nothing here; write the plain value")),
    }
}

/// The null words of YAML 1.1.
pub(crate) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// `<<: *base` spelled out: entries of the base that the mapping does not have itself.
fn merged(entries: Vec<Entry>) -> Vec<Entry> {
    if !entries.iter().any(is_merge) {
        return entries;
    }
    let (merges, own): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(is_merge);
    let mut all: Vec<Entry> = Vec::new();
    for merge in merges {
        let bases = match merge.value.body {
            Body::Sequence { items, .. } => items,
            _ => vec![merge.value],
        };
        for base in bases {
            if let Body::Mapping { entries, .. } = base.body {
                for mut entry in entries {
                    let text = entry.key.text().map(str::to_owned);
                    let known = own.iter().chain(&all).any(|mine| mine.key.text().map(str::to_owned) == text);
                    if !known {
                        mark_shared(&mut entry.key);
                        mark_shared(&mut entry.value);
                        all.push(entry);
                    }
                }
            }
        }
    }
    all.extend(own);
    all
}

fn is_merge(entry: &Entry) -> bool {
    matches!(&entry.key.body, Body::Scalar { text, style: Style::Plain } if text == "<<")
        && matches!(entry.value.body, Body::Mapping { .. } | Body::Sequence { .. })
}

fn mark_shared(node: &mut Node) {
    node.shared = true;
    match &mut node.body {
        Body::Sequence { items, .. } => items.iter_mut().for_each(mark_shared),
        Body::Mapping { entries, .. } => entries.iter_mut().for_each(|entry| {
            mark_shared(&mut entry.key);
            mark_shared(&mut entry.value);
        }),
        _ => {}
    }
}

/// How many nodes there are, and how deep they are nested.
fn extent(node: &Node) -> (usize, usize) {
    let inner: Vec<(usize, usize)> = match &node.body {
        Body::Sequence { items, .. } => items.iter().map(extent).collect(),
        Body::Mapping { entries, .. } => {
            entries.iter().flat_map(|entry| [extent(&entry.key), extent(&entry.value)]).collect()
        }
        _ => return (1, 0),
    };
    let nodes: usize = inner.iter().map(|(nodes, _)| nodes).sum();
    (nodes + 1, inner.iter().map(|(_, depth)| depth).max().unwrap_or(&0) + 1)
}

fn too_deep(span: &granit::Span) -> SyntaxError {
    at(span, "nested too deeply for a settings file")
}
