//! A scope as lines of JSON, one memory each, and back again: the exports of old versions are read, too.

use serde::{Deserialize, Serialize};
use store::{Fact, FactFilter};

use crate::{Error, Memory, NewMemory, Result};

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
    /// Known already, or forgotten before.
    pub skipped: usize,
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

    /// Reads JSON lines back. Ids, scopes and times are kept; what is known or was forgotten is left out. Nothing is
    /// written if a line cannot be read.
    pub async fn import(&self, text: &str, scope: Option<&str>, now_ms: i64) -> Result<Summary> {
        let mut lines = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let line: Line = serde_json::from_str(line)
                .map_err(|error| Error::BadLine { line: number + 1, reason: error.to_string() })?;
            lines.push(line);
        }
        let mut summary = Summary::default();
        for line in lines {
            if line.content.trim().is_empty() || !matches!(line.status.as_str(), "" | "active") {
                summary.skipped += 1;
                continue;
            }
            let known = !line.memory_id.is_empty() && self.store.fact(&line.memory_id).await?.is_some();
            let new = NewMemory {
                id: line.memory_id,
                content: line.content,
                kind: if crate::facts::KINDS.contains(&line.memory_type.as_str()) {
                    line.memory_type
                } else {
                    String::new()
                },
                scope: scope.map_or(line.scope_id, str::to_owned),
                session: line.source_session_id,
                tags: line.tags,
                importance: Some(line.importance),
                pinned: line.importance >= 0.99,
                at_ms: millis(&line.created_at).unwrap_or(now_ms),
                origin: "import".to_owned(),
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
