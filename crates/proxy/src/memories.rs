//! Long-term memory as knowledge: what the user said in this or any other conversation. Recall costs a request next to
//! nothing as long as memory is at hand; a large store is asked on a blocking thread, and what comes too late is left out.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use async_trait::async_trait;
use config::{Config, MemoryRetrieval};
use memory::{Known, Meant, Memory, Recalled};
use store::{MemoryTurn, TurnId};
use tokio::sync::{Notify, Semaphore};

use crate::knowledge::{Ask, Knowledge, Piece, told};
use crate::meaning::Meaning;
use crate::memory_routes::{self, OwnAnswer, OwnCall};

/// How long a request waits for memory, …
const PATIENCE: Duration = Duration::from_millis(300);
/// … and right after a start or a change, while it is being read.
const LOADING: Duration = Duration::from_secs(2);
/// Searches under way at most: one that took too long for its request still goes on.
const SEARCHES: usize = 2;
/// Longest part of the user's words that is searched with: beginning and end say what it is about.
const LONGEST: usize = 4000;

/// How memory works for agents, from the configuration.
#[derive(Debug, Clone)]
pub struct MemorySettings {
    /// Conversations are remembered and recalled.
    pub enabled: bool,
    /// Facts are taken from what was said without being asked for.
    pub extracts: bool,
    /// After so many turns of a session.
    pub flush_every: u32,
    /// The configured model is asked for facts as well.
    pub with_model: bool,
    /// Facts that say the same or the opposite are settled behind the requests.
    pub tidies: bool,
    /// Memory under the settings of the room itself.
    pub memory: Memory,
}

impl MemorySettings {
    /// From the user's configuration.
    pub fn from_config(config: &Config, memory: &Memory, zone: jiff::tz::TimeZone) -> Self {
        let of = &config.memory;
        let settings = memory::Settings {
            scope: of.scope.clone(),
            max_units: usize::try_from(of.max_injected_units).unwrap_or(usize::MAX),
            max_tokens: of.max_injected_tokens,
            words: of.retrieval_mode != MemoryRetrieval::Embedding,
            zone,
            ..memory.settings().clone()
        };
        Self {
            enabled: of.enabled,
            extracts: of.auto_extract && !of.manual_trigger,
            flush_every: of.flush_every,
            with_model: of.extract_with_model,
            tidies: of.auto_consolidate && !of.manual_trigger,
            memory: memory.with_settings(settings),
        }
    }

    /// Something may be added.
    fn recalls(&self) -> bool {
        let settings = self.memory.settings();
        self.enabled && settings.max_units > 0 && settings.max_tokens > 0
    }
}

/// Long-term memory as knowledge.
pub struct MemoryKnowledge {
    settings: Arc<ArcSwap<MemorySettings>>,
    meaning: Arc<ArcSwapOption<Meaning>>,
    changed: Arc<Notify>,
    searches: Arc<Semaphore>,
}

impl MemoryKnowledge {
    /// Memory under live settings, by meaning while there is one for it; `changed` is told when a client has changed it.
    pub fn new(
        settings: Arc<ArcSwap<MemorySettings>>,
        meaning: Arc<ArcSwapOption<Meaning>>,
        changed: Arc<Notify>,
    ) -> Self {
        Self { settings, meaning, changed, searches: Arc::new(Semaphore::new(SEARCHES)) }
    }

    fn meaning(&self) -> Option<Arc<Meaning>> {
        self.meaning.load_full().filter(|meaning| meaning.memories)
    }
}

/// What is asked of memory, by itself.
struct Question {
    text: String,
    scope: String,
    session: Arc<str>,
    now_ms: i64,
    meant: Option<Meant>,
    prompt: Prompt,
}

impl Question {
    fn ask<'a>(&'a self, known: Known<'a>) -> memory::Ask<'a> {
        memory::Ask {
            text: &self.text,
            scope: &self.scope,
            session: &self.session,
            now_ms: self.now_ms,
            meant: self.meant.as_ref(),
            known: Some(known),
            ..memory::Ask::default()
        }
    }

    /// What memory says at once, where it can.
    fn at_once(&self, memory: &Memory) -> Option<Vec<Recalled>> {
        let known = |memory: &Recalled| self.prompt.has(memory);
        memory.recall_now(&self.ask(Known(&known)))
    }

    async fn search(&self, memory: &Memory) -> memory::Result<Vec<Recalled>> {
        let known = |memory: &Recalled| self.prompt.has(memory);
        memory.recall(&self.ask(Known(&known))).await
    }
}

/// What the prompt says already: the request as it came, and what was added to its earlier messages.
struct Prompt {
    body: bytes::Bytes,
    added: Vec<Arc<str>>,
}

impl Prompt {
    fn has(&self, memory: &Recalled) -> bool {
        if self.added.iter().any(|block| block.contains(&memory.line)) {
            return true;
        }
        let words = memory.quote.as_ref().unwrap_or(&memory.content).trim();
        // Short words stand anywhere.
        words.len() >= 8
            && written(words).iter().any(|form| memchr::memmem::find(&self.body, form.as_bytes()).is_some())
    }
}

/// A text as it stands in JSON, with letters as they are and, where that differs, as escapes.
fn written(text: &str) -> Vec<String> {
    let Ok(quoted) = serde_json::to_string(text) else { return Vec::new() };
    let plain = quoted[1..quoted.len() - 1].to_owned();
    if plain.is_ascii() {
        return vec![plain];
    }
    let mut ascii = String::with_capacity(plain.len() * 2);
    for c in plain.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    vec![plain, ascii]
}

/// The beginning and the end of a long text.
fn telling(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(LONGEST / 2);
    let tail = text.ceil_char_boundary(text.len() - LONGEST / 2);
    format!("{}\n{}", &text[..head], &text[tail..])
}

#[async_trait]
impl Knowledge for MemoryKnowledge {
    async fn recall(&self, ask: &Ask) -> Vec<Piece> {
        let settings = self.settings.load_full();
        if !settings.recalls() || ask.remembered {
            return Vec::new();
        }
        let (meant, alone) = match self.meaning() {
            Some(meaning) if !settings.memory.is_empty() => match meaning.question(ask).await {
                Ok(meant) => (Some(meant), None),
                Err(why) => (None, Some(why)),
            },
            _ => (None, None),
        };
        let question = Question {
            meant,
            text: telling(&ask.text),
            scope: memory::scope_of(&ask.scope, &settings.memory.settings().scope),
            session: ask.session.clone(),
            now_ms: ask.now_ms,
            prompt: Prompt { body: ask.body.clone(), added: ask.added.clone() },
        };
        let found = match question.at_once(&settings.memory) {
            Some(found) => found,
            None => {
                let memory = settings.memory.clone();
                let patience = if memory.is_loading() { LOADING } else { PATIENCE };
                let search = async move { question.search(&memory).await };
                in_time(search, patience, &ask.session, self.searches.clone()).await
            }
        };
        let piece = |memory: Recalled| Piece {
            kind: "memory",
            id: memory.id,
            group: memory::LEAD,
            section: memory.line,
            score: memory.score,
            why: told(memory.why, alone.as_deref()),
            trial: None,
        };
        found.into_iter().map(piece).collect()
    }

    fn listens(&self) -> bool {
        self.settings.load().enabled
    }

    fn heard(&self, turn: MemoryTurn) {
        self.settings.load().memory.heard(turn);
    }

    fn numbered(&self, told: TurnId, row: Option<TurnId>) {
        self.settings.load().memory.numbered(told, row);
    }

    async fn serve(&self, call: &OwnCall) -> Option<OwnAnswer> {
        if call.path != "/memory" && !call.path.starts_with("/memory/") {
            return None;
        }
        let settings = self.settings.load_full();
        let answer = memory_routes::serve(&settings, self.meaning(), call).await;
        if answer.changed {
            self.changed.notify_one();
        }
        Some(answer)
    }

    fn budget(&self) -> u32 {
        let settings = self.settings.load();
        if settings.recalls() { settings.memory.settings().max_tokens } else { 0 }
    }
}

/// What memory finds within the time a request may wait; nothing if it takes longer.
async fn in_time<F>(search: F, patience: Duration, session: &str, searches: Arc<Semaphore>) -> Vec<Recalled>
where
    F: Future<Output = memory::Result<Vec<Recalled>>> + Send + 'static,
{
    let runtime = tokio::runtime::Handle::current();
    let search = async move {
        // Held until the search is over, whether anybody still waits for it or not.
        let turn = searches.acquire_owned().await;
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            runtime.block_on(search)
        });
        work.await
    };
    match tokio::time::timeout(patience, search).await {
        Ok(Ok(Ok(found))) => found,
        Ok(Ok(Err(error))) => {
            tracing::warn!(%session, %error, "memory cannot be asked; the turn goes on without it");
            Vec::new()
        }
        Ok(Err(error)) => {
            tracing::warn!(%session, %error, "memory was not asked; the turn goes on without it");
            Vec::new()
        }
        Err(_) => {
            tracing::warn!(%session, after = ?patience, "memory took too long; the turn goes on without it");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_a_body_however_it_is_written() {
        for body in [r#"{"content":"a \"b\" 中文 c"}"#, r#"{"content":"a \"b\" \u4e2d\u6587 c"}"#] {
            assert!(written("a \"b\" 中文").iter().any(|form| body.contains(form.as_str())), "{body}");
        }
        assert_eq!(written("😀"), ["😀", "\\ud83d\\ude00"]);
    }

    #[tokio::test]
    async fn searches_that_take_too_long_do_not_pile_up() {
        let (begun, go) = (Arc::new(std::sync::atomic::AtomicUsize::new(0)), Arc::new(Notify::new()));
        let searches = Arc::new(Semaphore::new(SEARCHES));
        for _ in 0..SEARCHES + 3 {
            let (begun, go) = (begun.clone(), go.clone());
            let search = async move {
                begun.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                go.notified().await;
                Ok(Vec::new())
            };
            assert!(in_time(search, Duration::from_millis(50), "s", searches.clone()).await.is_empty());
        }
        assert_eq!(begun.load(std::sync::atomic::Ordering::SeqCst), SEARCHES);
        // When they are over, others may search.
        go.notify_waiters();
        let freed = searches.acquire_many(SEARCHES as u32).await.unwrap();
        drop(freed);
    }

    #[test]
    fn long_words_are_searched_with_by_their_ends() {
        let text = format!("BEGIN {} 終わり", "あ".repeat(9000));
        let short = telling(&text);
        assert!(short.len() <= LONGEST + 1 && short.starts_with("BEGIN") && short.ends_with("終わり"));
    }
}
