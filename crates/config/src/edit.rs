//! Changing keys in the text of a file: the key is looked up, the value checked and typed, and one splice is made.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::load::{check, is_secret_text, read_document, text_node};
use crate::preset::preset;
use crate::splice::{self, SpliceError};
use crate::suggest::nearest;
use crate::table::{Effect, Row, row, rows};
use crate::yaml::Document;
use crate::{ConfigError, EditError, Kind, Problem};

/// One change to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// The key gets a value, written as on a command line.
    Set {
        /// Dotted path; `llm.model_map.NAME` is one entry of a map.
        key: String,
        /// The value. Lists: `a, b` or `[a, b]`; maps: `{a: b}`.
        value: String,
    },
    /// The key goes, so that its default holds.
    Unset {
        /// Dotted path.
        key: String,
    },
}

impl Edit {
    /// The key it changes.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Set { key, .. } | Self::Unset { key } => key,
        }
    }
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The key, by its name of today.
    pub key: String,
    /// Its value before, as it may be shown.
    pub before: Value,
    /// Its value now, as it may be shown.
    pub after: Value,
    /// Whether the file changed.
    pub written: bool,
    /// What the key does today.
    pub effect: Effect,
}

/// The text with all edits made, or the reason why not. `file` is only for messages.
pub fn edit_text(text: &str, file: &Path, edits: &[Edit]) -> Result<(String, Vec<Change>), EditError> {
    let mut now = text.to_owned();
    let mut changes = Vec::new();
    for edit in edits {
        let (next, change) = edit_one(&now, file, edit)?;
        now = next;
        changes.push(change);
    }
    Ok((now, changes))
}

/// A key of the table, and for maps the name of an entry.
struct Target {
    row: &'static Row,
    entry: Option<String>,
}

fn target(key: &str) -> Result<Target, EditError> {
    if let Some(row) = row(key) {
        return Ok(Target { row, entry: None });
    }
    for row in rows().iter().filter(|row| matches!(row.key.kind, Kind::Map | Kind::SecretMap)) {
        if let Some(entry) = key.strip_prefix(row.key.path).and_then(|rest| rest.strip_prefix('.'))
            && !entry.is_empty()
        {
            return Ok(Target { row, entry: Some(entry.to_owned()) });
        }
    }
    Err(EditError::UnknownKey { key: key.to_owned(), suggestion: nearest(key).map(str::to_owned) })
}

fn edit_one(text: &str, file: &Path, edit: &Edit) -> Result<(String, Change), EditError> {
    let (key, value) = match edit {
        Edit::Set { key, value } => (key, Some(value)),
        Edit::Unset { key } => (key, None),
    };
    let target = target(key)?;
    let written = value.map(|value| typed(&target, value)).transpose()?;
    let syntax = |error: crate::yaml::SyntaxError| {
        EditError::Broken(ConfigError::Syntax {
            file: file.to_path_buf(),
            line: error.line,
            column: error.column,
            message: error.message,
        })
    };
    let document = Document::parse(text).map_err(syntax)?;
    let by_hand = |error| match error {
        SpliceError::Syntax(error) => syntax(error),
        SpliceError::ByHand { line, why } => {
            EditError::ByHand { file: file.to_path_buf(), line, key: key.clone(), why }
        }
    };
    let next = match &written {
        Some(value) => {
            let path = place(&document, target.row);
            let path = full(path, &target);
            splice::put(text, &path, value).map_err(by_hand)?
        }
        None => {
            let names = std::iter::once(&target.row.key.path).chain(target.row.key.aliases);
            let mut next = text.to_owned();
            for name in names {
                next = splice::remove(&next, &full(name, &target)).map_err(by_hand)?;
            }
            next
        }
    };
    let path = target.row.key.path;
    let shown = |document: &Document| read_document(document).loaded.config.get(path).unwrap_or(Value::Null);
    let before = shown(&document);
    let after = if next == text { before.clone() } else { shown(&Document::parse(&next).map_err(syntax)?) };
    let change = Change {
        key: match &target.entry {
            Some(entry) => format!("{path}.{entry}"),
            None => path.to_owned(),
        },
        before,
        after,
        written: next != text,
        effect: target.row.key.effect,
    };
    Ok((next, change))
}

/// The name under which the key stands in the file: the one of today, unless only an old one says something.
fn place(document: &Document, row: &Row) -> &'static str {
    let said = |name: &str| {
        let path: Vec<&str> = name.split('.').collect();
        splice::find(&document.root, &path).is_some_and(|node| node.text().is_none_or(|text| !text.is_empty()))
    };
    let path = row.key.path;
    if said(path) {
        return path;
    }
    row.key.aliases.iter().copied().find(|alias| said(alias)).unwrap_or(path)
}

fn full<'p>(path: &'p str, target: &'p Target) -> Vec<&'p str> {
    path.split('.').chain(target.entry.as_deref()).collect()
}

fn typed(target: &Target, value: &str) -> Result<Value, EditError> {
    let row = target.row;
    let not_allowed = |problem: Problem| EditError::NotAllowed(problem);
    if let Some(entry) = &target.entry {
        let secret = matches!(row.key.kind, Kind::SecretMap);
        let name_ok = !secret || http::HeaderName::from_bytes(entry.as_bytes()).is_ok();
        if !name_ok || (secret && !is_secret_text(value)) {
            return Err(not_allowed(Problem {
                line: 0,
                column: 0,
                key: format!("{}.{entry}", row.key.path),
                found: "a name or value that no header can have".to_owned(),
                allowed: row.key.kind.allowed(),
            }));
        }
        return Ok(Value::String(if secret { value.trim() } else { value }.to_owned()));
    }
    let checked = check(row, &text_node(value, &row.key.kind)).map_err(not_allowed)?;
    // The id of a provider, whatever name of it was used.
    if matches!(row.key.kind, Kind::Provider)
        && let Some(known) = checked.as_str().and_then(preset)
    {
        return Ok(Value::String(known.id.clone()));
    }
    Ok(checked)
}

/// A value as it stands in a file.
pub(crate) fn render_value(value: &Value) -> String {
    splice::render(value)
}
