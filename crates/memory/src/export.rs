//! A scope as lines of JSON, one memory each, and back again: the exports of old versions are read, too.

use std::path::Path;

use serde::{Deserialize, Serialize};
use store::{Fact, FactFilter};

use crate::{Error, Memory, NewMemory, Result};

/// Label of what the user should look at.
pub const UNVERIFIED: &str = "unverified";

/// One memory in an export.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// Id.
    pub memory_id: String,
    /// Scope string.
    pub scope_id: String,
    /// Type.
    pub memory_type: String,
    /// What it says.
    pub content: String,
    /// A shorter form.
    pub summary: String,
    /// Session it comes from.
    pub source_session_id: String,
    /// First user turn.
    pub source_turn_start: u32,
    /// Last user turn.
    pub source_turn_end: u32,
    /// Names in it.
    pub entities: Vec<String>,
    /// What it is about.
    pub topics: Vec<String>,
    /// 0–1.
    pub importance: f64,
    /// 0–1.
    pub confidence: f64,
    /// `active`, `superseded`, `archived`, `quarantined`.
    pub status: String,
    /// Which memory took its place.
    pub superseded_by: String,
    /// When it was learned, ISO 8601.
    pub created_at: String,
    /// When it was changed, ISO 8601.
    pub updated_at: String,
    /// When it is to be archived, ISO 8601; empty = never.
    pub expires_at: String,
    /// Labels.
    pub tags: Vec<String>,
}

/// How an import went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// New memories.
    pub added: usize,
    /// Known already, forgotten before, or not active any more.
    pub skipped: usize,
    /// New ones that the user should look at: old installs could turn their sense round.
    pub unverified: usize,
}

fn iso(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms).unwrap_or_default().to_string()
}

/// An ISO time in ms since 1970.
fn millis(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(|t| t.as_millisecond())
}

impl From<Fact> for Line {
    fn from(fact: Fact) -> Self {
        Self {
            memory_id: fact.id,
            scope_id: fact.scope,
            memory_type: fact.kind,
            content: fact.content,
            summary: fact.summary,
            source_session_id: fact.session,
            source_turn_start: fact.turn_start,
            source_turn_end: fact.turn_end,
            entities: fact.entities,
            topics: fact.topics,
            importance: if fact.pinned { 1.0 } else { fact.importance },
            confidence: fact.confidence,
            status: fact.status,
            superseded_by: fact.superseded_by.unwrap_or_default(),
            created_at: iso(fact.recorded_ms),
            updated_at: iso(fact.updated_ms),
            expires_at: fact.expires_ms.map(iso).unwrap_or_default(),
            tags: fact.tags,
        }
    }
}

impl Memory {
    /// All facts of a scope (or of all), oldest first, as JSON lines.
    pub async fn export(&self, scope: Option<&str>, include_superseded: bool) -> Result<String> {
        let mut lines = Vec::new();
        let mut before = None;
        loop {
            let scope = scope.map(str::to_owned);
            let filter = FactFilter { scope, before, limit: 500, ..FactFilter::default() };
            let page = self.store.facts(&filter).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.key);
            for fact in page {
                if include_superseded || fact.status == "active" {
                    // A struct of strings and numbers always serialises.
                    lines.extend(serde_json::to_string(&Line::from(fact)));
                }
            }
        }
        lines.reverse();
        Ok(lines.iter().map(|line| format!("{line}\n")).collect())
    }

    /// Reads an export back: JSON lines, or one JSON document with a list of memories. Ids, scopes and times are kept;
    /// what is known or was forgotten is left out. Nothing is written if something cannot be read.
    pub async fn import(&self, text: &str, scope: Option<&str>, now_ms: i64) -> Result<Summary> {
        self.take_in(read(text)?, scope, now_ms, "import").await
    }

    /// Reads the database of an old install, which is not touched. `scratch` is a folder for a copy of it.
    pub async fn import_legacy(
        &self,
        path: &Path,
        scratch: &Path,
        scope: Option<&str>,
        now_ms: i64,
    ) -> Result<Summary> {
        let lines = store::read_legacy(path, scratch).await?.into_iter().map(Line::from).collect();
        self.take_in(lines, scope, now_ms, "legacy").await
    }

    async fn take_in(&self, lines: Vec<Line>, scope: Option<&str>, now_ms: i64, origin: &str) -> Result<Summary> {
        let mut summary = Summary::default();
        for line in lines {
            if line.content.trim().is_empty() || !matches!(line.status.as_str(), "" | "active") {
                summary.skipped += 1;
                continue;
            }
            let known = !line.memory_id.is_empty() && self.store.fact(&line.memory_id).await?.is_some();
            let is_kind = crate::facts::KINDS.contains(&line.memory_type.as_str());
            // Old installs lost negations in these: the user should look at them.
            let unsure = origin == "legacy"
                && matches!(line.memory_type.as_str(), "preference" | "procedural_observation")
                && !line.tags.iter().any(|tag| tag == UNVERIFIED);
            let mut tags = line.tags;
            if unsure {
                tags.push(UNVERIFIED.to_owned());
                summary.unverified += 1;
            }
            let new = NewMemory {
                id: line.memory_id,
                content: line.content,
                kind: if is_kind { line.memory_type } else { String::new() },
                scope: scope.map_or(line.scope_id, str::to_owned),
                session: line.source_session_id,
                tags,
                importance: Some(line.importance),
                pinned: line.importance >= 0.99,
                at_ms: millis(&line.created_at).unwrap_or(now_ms),
                origin: origin.to_owned(),
            };
            if !known && self.add(new).await?.is_some() {
                summary.added += 1;
            } else {
                summary.skipped += 1;
            }
        }
        Ok(summary)
    }
}

/// The memories of an export, in either form.
fn read(text: &str) -> Result<Vec<Line>> {
    let whole = serde_json::from_str::<serde_json::Value>(text).ok();
    let list = whole.and_then(|whole| match whole {
        serde_json::Value::Array(list) => Some(list),
        serde_json::Value::Object(mut members) => match members.remove("memories") {
            Some(serde_json::Value::Array(list)) => Some(list),
            _ => None,
        },
        _ => None,
    });
    let bad = |line: usize, error: serde_json::Error| Error::BadLine { line, reason: error.to_string() };
    if let Some(list) = list {
        let read = |(at, value)| serde_json::from_value(value).map_err(|error| bad(at, error));
        return (1..).zip(list).map(read).collect();
    }
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| serde_json::from_str(line).map_err(|error| bad(at, error))).collect()
}

impl From<store::Legacy> for Line {
    fn from(old: store::Legacy) -> Self {
        Self {
            memory_id: old.memory_id,
            scope_id: old.scope_id,
            memory_type: old.memory_type,
            content: old.content,
            summary: old.summary,
            source_session_id: old.source_session_id,
            source_turn_start: old.source_turn_start,
            source_turn_end: old.source_turn_end,
            importance: old.importance,
            confidence: old.confidence,
            status: old.status,
            created_at: old.created_at,
            updated_at: old.updated_at,
            expires_at: old.expires_at,
            tags: old.tags,
            ..Self::default()
        }
    }
}
