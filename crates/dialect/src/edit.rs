//! Edits of a JSON document as splices on its original bytes: what is not edited stays byte for byte what the sender
//! wrote, order, spacing, duplicate keys and number spelling included. Comes from `request`; goes upstream.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use bytes::Bytes;

use crate::json::{Json, Value, push_escaped, push_quoted};

/// A list of edits on one document. Nothing changes until [`Edits::apply`].
#[derive(Debug, Clone)]
pub struct Edits<'a> {
    json: &'a Json,
    splices: Vec<Splice<'a>>,
    containers: Vec<ContainerEdit<'a>>,
}

/// Bytes of the original that give way to others.
#[derive(Debug, Clone)]
struct Splice<'a> {
    span: Range<usize>,
    text: Cow<'a, str>,
}

/// What is taken out of and added to one object or array.
#[derive(Debug, Clone)]
struct ContainerEdit<'a> {
    container: Value<'a>,
    /// Positions of the removed elements, or of the removed members' keys.
    removed: Vec<u32>,
    /// New members or elements at the end: key (objects only) and raw JSON.
    added: Vec<(Option<String>, String)>,
    /// New elements at the front (arrays only).
    first: Vec<String>,
}

impl<'a> Edits<'a> {
    /// No edits yet on this document.
    pub fn new(json: &'a Json) -> Self {
        Self { json, splices: Vec::new(), containers: Vec::new() }
    }

    /// Gives a member of `object` this value (raw JSON), adding it at the end where it is missing. Where the key stands
    /// more than once, every occurrence is changed, so that no reader sees the old value.
    pub fn set_member(&mut self, object: Value<'a>, key: &str, raw: &str) {
        let mut found = false;
        let edit = self.container(object);
        for (name, value) in object.members().filter(|(name, _)| name.is_text(key)) {
            self.containers[edit].removed.retain(|removed| *removed != name.position());
            self.replace(value.span(), raw.to_owned());
            found = true;
        }
        if found {
            return;
        }
        let added = &mut self.containers[edit].added;
        match added.iter_mut().find(|(name, _)| name.as_deref() == Some(key)) {
            Some((_, old)) => raw.clone_into(old),
            None => added.push((Some(key.to_owned()), raw.to_owned())),
        }
    }

    /// Takes every member with this key out of `object`; nothing happens where there is none.
    pub fn remove_member(&mut self, object: Value<'a>, key: &str) {
        let edit = self.container(object);
        for (name, _) in object.members().filter(|(name, _)| name.is_text(key)) {
            let removed = &mut self.containers[edit].removed;
            if !removed.contains(&name.position()) {
                removed.push(name.position());
            }
        }
        self.containers[edit].added.retain(|(name, _)| name.as_deref() != Some(key));
    }

    /// Adds an element (raw JSON) at the end of `array`.
    pub fn append_element(&mut self, array: Value<'a>, raw: &str) {
        let edit = self.container(array);
        self.containers[edit].added.push((None, raw.to_owned()));
    }

    /// Takes an element out of `array`.
    pub fn remove_element(&mut self, array: Value<'a>, element: Value<'a>) {
        let edit = self.container(array);
        self.containers[edit].removed.push(element.position());
    }

    /// Adds an element (raw JSON) at the front of `array`.
    pub fn prepend_element(&mut self, array: Value<'a>, raw: &str) {
        let edit = self.container(array);
        self.containers[edit].first.push(raw.to_owned());
    }

    /// Appends plain text inside a string value, escaping it. Does nothing to other kinds.
    pub fn append_to_string(&mut self, string: Value<'a>, text: &str) {
        if string.inner().is_none() {
            return;
        }
        let mut escaped = String::with_capacity(text.len() + text.len() / 16);
        push_escaped(&mut escaped, text);
        let before_quote = string.span().end - 1;
        self.splices.push(Splice { span: before_quote..before_quote, text: Cow::Owned(escaped) });
    }

    /// Puts other text (raw JSON) where `span` stands. The last replacement of the same span counts; edits inside a
    /// replaced span are lost.
    pub fn replace(&mut self, span: Range<usize>, text: impl Into<Cow<'a, str>>) {
        let text = text.into();
        match self.splices.iter_mut().find(|splice| splice.span == span && !span.is_empty()) {
            Some(splice) => splice.text = text,
            None => self.splices.push(Splice { span, text }),
        }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.splices.is_empty() && self.containers.iter().all(ContainerEdit::is_empty)
    }

    /// The edited document. Without edits these are the original bytes, not a copy.
    pub fn apply(&self) -> Bytes {
        let original = self.json.bytes();
        if self.is_empty() {
            return original.clone();
        }
        let mut splices = self.splices.clone();
        for edit in &self.containers {
            edit.splices(&mut splices);
        }
        // Insertions come before what starts at the same place; of two that start together the longer one wins.
        splices.sort_by_key(|splice| (splice.span.start, !splice.span.is_empty(), Reverse(splice.span.end)));
        let grown: usize = splices.iter().map(|splice| splice.text.len()).sum();
        let mut out = Vec::with_capacity(original.len() + grown);
        let mut at = 0;
        for splice in &splices {
            if splice.span.start < at {
                continue; // inside something that is already gone
            }
            out.extend_from_slice(&original[at..splice.span.start]);
            out.extend_from_slice(splice.text.as_bytes());
            at = splice.span.end;
        }
        out.extend_from_slice(&original[at..]);
        Bytes::from(out)
    }

    /// The edit of this container, a new one where there is none yet.
    fn container(&mut self, container: Value<'a>) -> usize {
        let known = self.containers.iter().position(|edit| edit.container.position() == container.position());
        known.unwrap_or_else(|| {
            self.containers.push(ContainerEdit {
                container,
                removed: Vec::new(),
                added: Vec::new(),
                first: Vec::new(),
            });
            self.containers.len() - 1
        })
    }
}

impl<'a> ContainerEdit<'a> {
    fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && self.first.is_empty()
    }

    /// Turns the edit into splices, taking commas along with what is removed and adding them to what is added.
    fn splices(&self, out: &mut Vec<Splice<'a>>) {
        if self.is_empty() {
            return;
        }
        // Spans of the children with whether each stays.
        let children: Vec<(Range<usize>, bool)> = if self.container.is_object() {
            let member = |(key, value): (Value<'_>, Value<'_>)| {
                (key.span().start..value.span().end, !self.removed.contains(&key.position()))
            };
            self.container.members().map(member).collect()
        } else {
            self.container
                .elements()
                .map(|element| (element.span(), !self.removed.contains(&element.position())))
                .collect()
        };
        let open = self.container.span().start + 1;
        let first_kept = children.iter().position(|(_, stays)| *stays);

        // Behind a member that stays, a removed one goes together with the comma before it; ahead of the first that
        // stays, together with the comma after it.
        let mut last_end = None;
        for (index, (span, stays)) in children.iter().enumerate() {
            if *stays {
                last_end = Some(span.end);
                continue;
            }
            let gone = match first_kept {
                Some(kept) if index < kept => span.start..children[index + 1].0.start,
                Some(_) => children[index - 1].0.end..span.end,
                None if index + 1 < children.len() => span.start..children[index + 1].0.start,
                None => span.clone(),
            };
            out.push(Splice { span: gone, text: Cow::Borrowed("") });
        }

        let mut text = String::new();
        for raw in &self.first {
            text.push_str(raw);
            if last_end.is_some() || !self.added.is_empty() {
                text.push(',');
            }
        }
        if !text.is_empty() {
            out.push(Splice { span: open..open, text: Cow::Owned(std::mem::take(&mut text)) });
        }
        for (index, (key, raw)) in self.added.iter().enumerate() {
            if last_end.is_some() || index > 0 {
                text.push(',');
            }
            if let Some(key) = key {
                push_quoted(&mut text, key);
                text.push(':');
            }
            text.push_str(raw);
        }
        if !text.is_empty() {
            let end = last_end.unwrap_or(open);
            out.push(Splice { span: end..end, text: Cow::Owned(text) });
        }
    }
}
