//! The memory routes that clients of the Python MetaClaw know, `/v1/memory/…`, in their shapes. They stand on the agent port,
//! behind its key; everything else about memory is on the control API.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::http::Method;
use bytes::Bytes;
use memory::{Ask, Memory, Recalled, Utterance, Within, base_scope};
use serde::Deserialize;
use serde_json::{Value, json};
use store::{Fact, MemoryFigures};

use crate::meaning::Meaning;
use crate::memories::MemorySettings;

/// A request on one of MetaClaw's own routes.
#[derive(Debug)]
pub struct OwnCall {
    /// HTTP method.
    pub method: Method,
    /// What follows `/v1`.
    pub path: String,
    /// Its query.
    pub query: HashMap<String, String>,
    /// Its body.
    pub body: Bytes,
    /// Now, ms since 1970.
    pub now_ms: i64,
    /// The agent that asks, where each has a memory of its own; it gets no other.
    pub agent: Option<Arc<str>>,
}

/// The answer to it.
#[derive(Debug, PartialEq)]
pub struct OwnAnswer {
    /// HTTP status.
    pub status: u16,
    /// JSON body.
    pub body: Value,
    /// Memory was changed.
    pub changed: bool,
}

type Answer = Result<Value, OwnAnswer>;

/// Answers a memory route.
pub(crate) async fn serve(settings: &MemorySettings, meaning: Option<Arc<Meaning>>, call: &OwnCall) -> OwnAnswer {
    if !settings.enabled {
        return refuse(503, "memory not enabled");
    }
    let routes = Routes { settings, meaning, memory: &settings.memory, call };
    let path = call.path.strip_prefix("/memory").unwrap_or_default().trim_end_matches('/');
    let get = call.method == Method::GET || call.method == Method::HEAD;
    let post = call.method == Method::POST;
    let changes = matches!(path, "/maintenance" | "/ingest" | "/buffer_turn" | "/flush_session");
    let answer = match path {
        "/stats" if get => routes.stats().await,
        "/search" if get => routes.search().await,
        "/health" if get => routes.health().await,
        "/summary" if get => routes.summary().await,
        "/feedback-analysis" if get => routes.feedback().await,
        "/operator-report" if get => routes.operator_report().await,
        "/action-plan" if post => routes.action_plan().await,
        "/maintenance" if post => routes.maintenance().await,
        "/ingest" if post => routes.ingest().await,
        "/buffer_turn" if post => routes.buffer_turn().await,
        "/flush_session" if post => routes.flush_session().await,
        id if get && id.len() > 1 && !id[1..].contains('/') => routes.one(&id[1..]).await,
        "" | "/" => Err(refuse(404, "Not Found")),
        _ if get || post => Err(refuse(405, "Method Not Allowed")),
        _ => Err(refuse(404, "Not Found")),
    };
    match answer {
        Ok(body) => OwnAnswer { status: 200, body, changed: changes },
        Err(refusal) => refusal,
    }
}

fn refuse(status: u16, detail: &str) -> OwnAnswer {
    OwnAnswer { status, body: json!({ "detail": detail }), changed: false }
}

#[expect(clippy::needless_pass_by_value, reason = "used as a function in map_err")]
fn failed(error: memory::Error) -> OwnAnswer {
    match error {
        memory::Error::NoSuchMemory(_) => refuse(404, "memory not found"),
        memory::Error::Store(_) => {
            tracing::warn!(%error, "a memory route failed");
            refuse(503, &error.to_string())
        }
        _ => refuse(422, &error.to_string()),
    }
}

struct Routes<'a> {
    settings: &'a MemorySettings,
    meaning: Option<Arc<Meaning>>,
    memory: &'a Memory,
    call: &'a OwnCall,
}

/// A turn as clients hand it in.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SaidTurn {
    prompt_text: String,
    response_text: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SessionBody {
    session_id: String,
    turn: SaidTurn,
    scope: Option<String>,
    scope_id: Option<String>,
    timestamp: Option<Value>,
    #[serde(rename = "final")]
    last: Option<bool>,
}

impl Routes<'_> {
    fn default_scope(&self) -> &str {
        &self.memory.settings().scope
    }

    fn scope(&self) -> String {
        let named = self.call.query.get("scope").map_or("", String::as_str);
        self.in_scope(named)
    }

    fn in_scope(&self, named: &str) -> String {
        let default = self.default_scope();
        let named = base_scope(if named.trim().is_empty() { default } else { named }, default);
        match &self.call.agent {
            // A scope as the summary names it.
            Some(agent) if memory::is_agents(&named, agent) => named,
            Some(agent) => {
                let named = store::Scope { memory_scope: Some(named), ..store::Scope::default() };
                let within = Within { agent: Some(agent), group: None };
                memory::scope_of(&memory::narrow(&named, default, within), default)
            }
            None => named,
        }
    }

    /// Whether who asks may see this scope.
    fn may_see(&self, scope: &str) -> bool {
        self.call.agent.as_deref().is_none_or(|agent| memory::is_agents(scope, agent))
    }

    fn body(&self) -> Result<SessionBody, OwnAnswer> {
        if self.call.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(SessionBody::default());
        }
        serde_json::from_slice(&self.call.body).map_err(|error| refuse(422, &format!("the body does not fit: {error}")))
    }

    /// How memories are found now.
    fn found_by(&self) -> &'static str {
        match (&self.meaning, self.memory.settings().words) {
            (None, _) => "keyword",
            (Some(_), true) => "hybrid",
            (Some(_), false) => "embedding",
        }
    }

    async fn figures(&self, scope: &str) -> Result<MemoryFigures, OwnAnswer> {
        self.memory.figures(Some(scope)).await.map_err(failed)
    }

    async fn stats(&self) -> Answer {
        let figures = self.figures(&self.scope()).await?;
        Ok(stats(&figures))
    }

    async fn search(&self) -> Answer {
        let text = self.call.query.get("q").map_or("", String::as_str);
        let limit = self.call.query.get("limit").and_then(|n| n.parse::<usize>().ok()).unwrap_or(20).clamp(1, 200);
        let scope = self.scope();
        let meant = match &self.meaning {
            Some(meaning) => meaning.by_hand(text).await.ok(),
            None => None,
        };
        let ask = Ask {
            text,
            scope: &scope,
            meant: meant.as_ref(),
            now_ms: self.call.now_ms,
            budget_tokens: u32::MAX,
            limit,
            search: true,
            ..Ask::default()
        };
        let found = self.memory.recall(&ask).await.map_err(failed)?;
        let facts = self.facts_of(&found).await?;
        let hit = |memory: &Recalled| {
            let terms: Vec<&str> = memory.why.split(", ").filter(|term| !term.is_empty()).collect();
            json!({
                "memory_id": memory.id, "type": memory.kind, "score": memory.score,
                // As it would be put into a prompt: dated, attributed, quoted.
                "content": memory.line.trim_start_matches("- "), "text": memory.content,
                "importance": facts.get(&memory.id).map_or(0.5, |fact| fact.importance),
                "access_count": 0, "matched_terms": terms, "created_at": iso(memory.at_ms),
                "source": memory.source, "quarantined": memory.quarantined,
            })
        };
        Ok(found.iter().map(hit).collect())
    }

    async fn facts_of(&self, found: &[Recalled]) -> Result<HashMap<String, Fact>, OwnAnswer> {
        let mut facts = HashMap::new();
        for memory in found.iter().filter(|m| m.id.len() > 20) {
            if let Ok(fact) = self.memory.fact(&memory.id).await {
                facts.insert(memory.id.clone(), fact);
            }
        }
        Ok(facts)
    }

    async fn one(&self, id: &str) -> Answer {
        if let Some((scope, window)) = self.memory.passage(id).await.map_err(failed)? {
            if !self.may_see(&scope) {
                return Err(refuse(404, "memory not found"));
            }
            return Ok(json!({
                "memory_id": id, "scope_id": scope, "type": "episodic", "content": window.text, "summary": "",
                "importance": 0.5, "entities": [], "topics": [], "tags": [], "pinned": false,
                "created_at": iso(window.at_ms), "updated_at": iso(window.at_ms), "expires_at": "",
                "source": {"session_id": window.session, "turn": window.turn_no},
            }));
        }
        let fact = self.memory.fact(id).await.map_err(failed)?;
        if !self.may_see(&fact.scope) {
            return Err(refuse(404, "memory not found"));
        }
        Ok(json!({
            "memory_id": fact.id, "scope_id": fact.scope, "type": fact.kind, "content": fact.content,
            "summary": fact.summary, "importance": fact.importance, "entities": fact.entities, "topics": fact.topics,
            "tags": fact.tags, "pinned": fact.pinned, "created_at": iso(fact.recorded_ms),
            "updated_at": iso(fact.updated_ms), "expires_at": fact.expires_ms.map(iso).unwrap_or_default(),
            "status": fact.status, "source": {"session_id": fact.session, "turn": fact.turn_end},
        }))
    }

    async fn health(&self) -> Answer {
        let scope = self.scope();
        let figures = self.figures(&scope).await?;
        let issues = issues(&figures);
        let size = std::fs::metadata(self.memory.path()).map_or(0, |meta| meta.len());
        let healthy = issues.is_empty();
        Ok(json!({
            "scope_id": scope, "passed": healthy,
            "checks": {
                "integrity": {"ok": true}, "health_score": if healthy { 100 } else { 75 },
                "staleness": {"unread_turns": figures.unread}, "duplicates": 0, "db_size": {"bytes": size},
            },
            "issues": issues,
            "summary": if healthy { "memory is in order".to_owned() } else { issues.join("; ") },
        }))
    }

    async fn summary(&self) -> Answer {
        let mut scopes = Vec::new();
        let mut active = 0;
        for scope in self.memory.scopes().await.map_err(failed)?.into_iter().filter(|scope| self.may_see(scope)) {
            let figures = self.figures(&scope).await?;
            active += count(&figures, "active");
            let total: u64 = figures.by_status.values().sum();
            scopes.push(json!({
                "scope_id": scope, "active": count(&figures, "active"), "total": total, "passages": figures.windows,
            }));
        }
        let settings = self.memory.settings();
        let size = std::fs::metadata(self.memory.path()).map_or(0, |meta| meta.len());
        Ok(json!({
            "schema_version": 6, "scope_count": scopes.len(), "scopes": scopes, "total_active_memories": active,
            "embedder": self.meaning.as_ref().map(|meaning| meaning.embedder.name()),
            "policy": {
                "retrieval_mode": self.found_by(), "max_injected_units": settings.max_units,
                "max_injected_tokens": settings.max_tokens,
            },
            "db": {"path": self.memory.path(), "bytes": size}, "integrity": {"ok": true},
        }))
    }

    async fn feedback(&self) -> Answer {
        let scope = self.scope();
        let figures = self.figures(&scope).await?;
        Ok(json!({
            "scope_id": scope, "total": count(&figures, "active"), "pinned": figures.pinned,
            "superseded": count(&figures, "superseded"), "forgotten": figures.tombstones,
        }))
    }

    async fn operator_report(&self) -> Answer {
        let scope = self.scope();
        let figures = self.figures(&scope).await?;
        Ok(json!({
            "scope_id": scope, "stats": stats(&figures), "passages": figures.windows, "sessions": figures.sessions,
            "quarantined": figures.quarantined_windows + count(&figures, "quarantined"), "pinned": figures.pinned,
            "forgotten": figures.tombstones, "unread_turns": figures.unread, "issues": issues(&figures),
        }))
    }

    async fn action_plan(&self) -> Answer {
        let scope = self.scope();
        let figures = self.figures(&scope).await?;
        let mut actions = Vec::new();
        let quarantined = figures.quarantined_windows + count(&figures, "quarantined");
        if quarantined > 0 {
            actions.push(json!({
                "action": "review", "priority": "medium", "count": quarantined,
                "description": "memories that give orders wait for your decision",
                "command": "metaclaw memory search --quarantined",
            }));
        }
        if figures.unread > 0 {
            actions.push(json!({
                "action": "maintain", "priority": "low", "count": figures.unread,
                "description": "turns are not read into memory yet", "command": "metaclaw memory maintain",
            }));
        }
        Ok(json!({ "scope_id": scope, "total_actions": actions.len(), "actions": actions }))
    }

    async fn maintenance(&self) -> Answer {
        let scope = self.scope();
        let before = self.figures(&scope).await?;
        let (memory, now_ms) = (self.memory.clone(), self.call.now_ms);
        let expired = aside(async move {
            while memory.work().await? {}
            memory.flush_all().await?;
            memory.expire(now_ms).await
        });
        let expired = expired.await.map_err(failed)?;
        let after = self.figures(&scope).await?;
        let superseded = count(&after, "superseded").saturating_sub(count(&before, "superseded"));
        Ok(json!({
            "scope_id": scope, "expired": expired,
            "consolidation": {"superseded": superseded, "decayed": 0, "reinforced": 0},
            "retention_archived": 0, "orphans_removed": 0, "gc_removed": 0, "compacted": true,
        }))
    }

    /// Takes the facts from what waits, of one session or of all.
    async fn ingest(&self) -> Answer {
        let body = self.body()?;
        let memory = self.memory.clone();
        let taken = aside(async move {
            while memory.work().await? {}
            let waiting = memory.unheard().await?;
            let mut sessions = Vec::new();
            let (mut added, mut turns) = (0, 0);
            for session in waiting.iter().filter(|s| body.session_id.is_empty() || s.session == body.session_id) {
                let new = memory.flush(&session.session).await?;
                added += new;
                turns += session.turns;
                sessions.push(json!({ "session_id": session.session, "added": new, "turns": session.turns }));
            }
            memory.refresh().await?;
            Ok((added, turns, sessions))
        });
        let (added, turns, mut sessions) = taken.await.map_err(failed)?;
        if self.call.agent.is_some() {
            // They may be others'.
            sessions.clear();
        }
        Ok(json!({ "added": added, "buffered_turns": turns, "sessions": sessions }))
    }

    async fn buffer_turn(&self) -> Answer {
        let body = self.body()?;
        if body.session_id.trim().is_empty() {
            return Err(refuse(422, "session_id is missing"));
        }
        let at_ms = match &body.timestamp {
            Some(time) => moment(time).ok_or_else(|| {
                refuse(422, "timestamp is no time: give ISO 8601, or seconds or milliseconds since 1970")
            })?,
            None => self.call.now_ms,
        };
        let scope = self.in_scope(body.scope_id.as_deref().or(body.scope.as_deref()).unwrap_or_default());
        let turn_no = self.memory.last_turn(&body.session_id).await.map_err(failed)?.saturating_add(1);
        let said = |speaker: &str, text: &str, later: i64| Utterance {
            speaker: speaker.to_owned(),
            text: text.trim().to_owned(),
            at_ms: at_ms.saturating_add(later),
            turn_no,
        };
        let words = dialect::user_words(&body.turn.prompt_text);
        let mut utterances = vec![said("user", &words, 0), said("assistant", &body.turn.response_text, 1)];
        utterances.retain(|u| !u.text.is_empty());
        if utterances.is_empty() {
            return Err(refuse(422, "the turn is empty: give turn.prompt_text, turn.response_text or both"));
        }
        let (memory, extracts, every) = (self.memory.clone(), self.settings.extracts, self.settings.flush_every);
        let flushed = aside(async move {
            memory.hear(&scope, &body.session_id, &utterances).await?;
            let waiting = memory.unheard().await?;
            let turns = waiting.iter().find(|s| s.session == body.session_id).map_or(0, |s| s.turns);
            if !extracts || turns < u64::from(every) {
                return Ok(None);
            }
            let added = memory.flush(&body.session_id).await?;
            memory.refresh().await?;
            Ok(Some(added))
        });
        let added = flushed.await.map_err(failed)?;
        Ok(json!({ "flushed": added.is_some(), "added": added }))
    }

    async fn flush_session(&self) -> Answer {
        let body = self.body()?;
        // Final or not is the same: nothing of a session is kept outside the database.
        let _ = body.last;
        if body.session_id.trim().is_empty() {
            return Err(refuse(422, "session_id is missing"));
        }
        let memory = self.memory.clone();
        let added = aside(async move {
            while memory.work().await? {}
            let added = memory.flush(&body.session_id).await?;
            memory.refresh().await?;
            Ok(added)
        });
        let added = added.await.map_err(failed)?;
        Ok(json!({ "added": added }))
    }
}

/// Runs what reads and cuts much text on a thread where it holds up no agent.
async fn aside<T, F>(work: F) -> memory::Result<T>
where
    T: Send + 'static,
    F: Future<Output = memory::Result<T>> + Send + 'static,
{
    let runtime = tokio::runtime::Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(work)).await;
    done.unwrap_or_else(|_| Err(memory::Error::Store(store::Error::Closed)))
}

fn count(figures: &MemoryFigures, status: &str) -> u64 {
    figures.by_status.get(status).copied().unwrap_or_default()
}

fn stats(figures: &MemoryFigures) -> Value {
    let total: u64 = figures.by_status.values().sum();
    let active = count(figures, "active");
    let share = |n: u64, of: u64| if of == 0 { 0.0 } else { n as f64 / of as f64 };
    let dominant = figures.active_by_kind.iter().max_by_key(|(_, n)| **n).map(|(kind, _)| kind.clone());
    let ratios: BTreeMap<&String, f64> =
        figures.active_by_kind.iter().map(|(kind, n)| (kind, share(*n, active))).collect();
    json!({
        "total": total, "active": active, "active_by_type": figures.active_by_kind,
        "memory_density": share(active, total), "dominant_type": dominant.unwrap_or_default(),
        "type_count": figures.active_by_kind.len(), "type_ratios": ratios, "superseded": total - active,
        "passages": figures.windows,
    })
}

fn issues(figures: &MemoryFigures) -> Vec<String> {
    let mut issues = Vec::new();
    let quarantined = figures.quarantined_windows + count(figures, "quarantined");
    if quarantined > 0 {
        issues.push(format!("{quarantined} memories wait for your decision"));
    }
    if figures.unread > 1000 {
        issues.push(format!("{} turns are not read into memory yet", figures.unread));
    }
    issues
}

fn iso(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms).unwrap_or_default().to_string()
}

/// A time as clients write it: ISO 8601, seconds or milliseconds since 1970.
fn moment(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => {
            let number = number.as_f64()?;
            // Seconds until the year 5138.
            let ms = if number.abs() < 1e11 { number * 1000.0 } else { number };
            Some(ms as i64)
        }
        Value::String(text) => {
            let text = text.trim();
            if let Ok(number) = text.parse::<f64>() {
                return moment(&json!(number));
            }
            let zoned = text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond);
            zoned.or_else(|| {
                let civil = text.parse::<jiff::civil::DateTime>().ok()?;
                Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond())
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_work_is_done_on_another_thread() {
        let here = std::thread::current().id();
        let there = aside(async { Ok(std::thread::current().id()) }).await.expect("runs");
        assert_ne!(here, there);
    }

    #[test]
    fn times_are_read_in_every_form() {
        for value in [
            json!(1_796_040_000),
            json!(1_796_040_000_000_i64),
            json!("2026-11-30T12:00:00Z"),
            json!("2026-11-30T14:00:00+02:00"),
            json!("2026-11-30T12:00:00"),
            json!("1796040000.0"),
        ] {
            assert_eq!(moment(&value), Some(1_796_040_000_000), "{value}");
        }
        assert_eq!(moment(&json!("tomorrow")), None);
        assert_eq!(moment(&json!(null)), None);
    }

    #[test]
    fn an_empty_memory_has_plain_stats() {
        let empty = stats(&MemoryFigures::default());
        assert_eq!(
            (&empty["total"], &empty["memory_density"], &empty["dominant_type"]),
            (&json!(0), &json!(0.0), &json!(""))
        );
    }
}
