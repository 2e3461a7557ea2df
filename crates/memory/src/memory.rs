//! The handle everybody holds: settings, the store, facts by the user's hand, forgetting. Absorbing and recalling are in their
//! own files.

use std::sync::Arc;

use jiff::tz::TimeZone;
use store::{
    Fact, FactFilter, FactPatch, FactWords, Forget, Forgotten, MemoryFigures, NewFact, NewWindow, Store, TurnId,
    Window, WindowFilter,
};

use crate::facts::{self, KINDS};
use crate::live::Live;
use crate::meaning::Meanings;
use crate::recall::Weights;
use crate::{Absorption, Error, LEAD, Result, base_scope, redact, scope_of, terms, time};

/// Windows that wait for the index before it is worth a transaction.
const TAIL: u64 = 128;

/// How memory works; from the configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Scope of those who name none.
    pub scope: String,
    /// Memories per message at most.
    pub max_units: usize,
    /// Tokens per message at most.
    pub max_tokens: u32,
    /// In which dates are told.
    pub zone: TimeZone,
    /// Words count where the meaning of a question is known.
    pub words: bool,
    /// What the signals of recall count.
    pub weights: Weights,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            scope: crate::DEFAULT_SCOPE.to_owned(),
            max_units: 6,
            max_tokens: 800,
            zone: TimeZone::UTC,
            words: true,
            weights: Weights::default(),
        }
    }
}

impl Settings {
    pub(crate) fn heading_tokens(&self) -> u32 {
        dialect::estimate_tokens(LEAD) + 2
    }
}

/// Long-term memory over one store. Cheap to clone.
#[derive(Clone)]
pub struct Memory {
    pub(crate) store: Store,
    settings: Arc<Settings>,
    pub(crate) meanings: Arc<Meanings>,
    pub(crate) live: Arc<Live>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A memory by the user's hand, or from an import.
#[derive(Debug, Clone, Default)]
pub struct NewMemory {
    /// What is to be remembered.
    pub content: String,
    /// One of the six types; empty = as the words say, else `semantic`.
    pub kind: String,
    /// Scope; empty = the default.
    pub scope: String,
    /// Session it belongs to, if any.
    pub session: String,
    /// Labels.
    pub tags: Vec<String>,
    /// 0–1.
    pub importance: Option<f64>,
    /// Always first.
    pub pinned: bool,
    /// When it was said, ms since 1970.
    pub at_ms: i64,
    /// `user` or `import`.
    pub origin: String,
    /// Id to keep; empty = a new one.
    pub id: String,
}

impl Memory {
    /// Memory over `store`.
    pub fn open(store: Store, settings: Settings) -> Self {
        Self { store, settings: Arc::new(settings), meanings: Arc::default(), live: Arc::default() }
    }

    /// The same memory under other settings.
    pub fn with_settings(&self, settings: Settings) -> Self {
        Self { settings: Arc::new(settings), ..self.clone() }
    }

    /// The database file.
    pub fn path(&self) -> &std::path::Path {
        self.store.path()
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// One round of background work: reads the journal on, moves a bounded number of windows into the index. True if there
    /// is more to be done.
    pub async fn work(&self) -> Result<bool> {
        let Absorption { done, .. } = self.absorb(64).await?;
        self.refresh().await?;
        let (tail, removed) = self.store.memory_unindexed().await?;
        if tail >= TAIL || removed > 0 {
            let limit = u32::try_from(TAIL).unwrap_or(u32::MAX);
            self.store.memory_index(limit).await?;
            return Ok(true);
        }
        Ok(!done)
    }

    /// Changes memory otherwise than by reading the journal on: what is kept beside the database is not what it says any
    /// more, before the change is written and after it.
    pub(crate) async fn changing<T>(&self, change: impl Future<Output = store::Result<T>>) -> Result<T> {
        self.live.forget();
        let done = change.await;
        self.live.forget();
        Ok(done?)
    }

    /// Remembers something by the user's hand; its id. What is known already keeps its id and is not doubled.
    pub async fn add(&self, new: NewMemory) -> Result<Option<String>> {
        let content = redact(new.content.trim()).into_owned();
        if content.is_empty() {
            return Err(Error::Empty);
        }
        if !new.kind.is_empty() && !KINDS.contains(&new.kind.as_str()) {
            return Err(Error::UnknownKind(new.kind));
        }
        let settings = self.settings();
        let scope = if new.scope.is_empty() { &settings.scope } else { &new.scope };
        let window = NewWindow {
            scope: base_scope(scope, &settings.scope),
            session: new.session,
            speaker: "user".to_owned(),
            at_ms: new.at_ms,
            hash: terms::hash(&content),
            text: content.clone(),
            ..NewWindow::default()
        };
        let heard = facts::Heard { window: &window, zone: &settings.zone };
        let understood = facts::hear(&heard).into_iter().find(|fact| fact.quote == content);
        let mut fact = understood.unwrap_or_else(|| NewFact {
            kind: "semantic".to_owned(),
            modality: "stated".to_owned(),
            subject: "user".to_owned(),
            content: content.clone(),
            valid_from_ms: new.at_ms,
            ..facts::bare(&heard, &content)
        });
        if !new.kind.is_empty() {
            fact.kind = new.kind;
        }
        if !new.id.is_empty() {
            fact.id = new.id;
        }
        fact.origin = if new.origin.is_empty() { "user".to_owned() } else { new.origin };
        fact.confidence = 1.0;
        fact.importance = new.importance.unwrap_or(0.8);
        fact.pinned = new.pinned;
        fact.tags = new.tags;
        fact.content = content;
        fact.window.text.clear();
        self.changing(self.store.add_fact(fact)).await
    }

    /// Facts, the last learned first.
    pub async fn facts(&self, filter: &FactFilter) -> Result<Vec<Fact>> {
        Ok(self.store.facts(filter).await?)
    }

    /// One fact.
    pub async fn fact(&self, id: &str) -> Result<Fact> {
        self.store.fact(id).await?.ok_or_else(|| Error::NoSuchMemory(id.to_owned()))
    }

    /// All versions of what a fact is about, the newest first; also those that took each other's place for saying the same.
    pub async fn history(&self, id: &str) -> Result<Vec<Fact>> {
        self.fact(id).await?;
        let keys = self.store.fact_versions(id).await?;
        let filter = FactFilter { keys: Some(keys), limit: 1000, ..FactFilter::default() };
        let mut versions = self.store.facts(&filter).await?;
        versions.sort_by_key(|f| std::cmp::Reverse((f.valid_from_ms, f.key)));
        Ok(versions)
    }

    /// New words for a fact.
    pub async fn edit(&self, id: &str, content: &str, now_ms: i64) -> Result<()> {
        let content = redact(content.trim()).into_owned();
        if content.is_empty() {
            return Err(Error::Empty);
        }
        let fact = self.fact(id).await?;
        let document = terms::Document::new(&content).on(&time::words(fact.valid_from_ms, &self.settings().zone));
        let patch = FactPatch {
            content: Some(FactWords { hash: terms::hash(&content), terms: document.finish(), content }),
            ..FactPatch::default()
        };
        self.patch(id, patch, now_ms).await
    }

    /// Changes of a fact other than its words.
    pub async fn patch(&self, id: &str, patch: FactPatch, now_ms: i64) -> Result<()> {
        if let Some(kind) = patch.kind.as_ref().filter(|kind| !KINDS.contains(&kind.as_str())) {
            return Err(Error::UnknownKind(kind.clone()));
        }
        let changed = self.changing(self.store.edit_fact(id, patch, now_ms)).await?;
        if changed { Ok(()) } else { Err(Error::NoSuchMemory(id.to_owned())) }
    }

    /// Passages as they were said, the last first, with their scopes.
    pub async fn passages(&self, filter: &WindowFilter) -> Result<Vec<(String, Window)>> {
        Ok(self.store.memory_passages(filter).await?)
    }

    /// The passage that an id means (`w12` or `t5.0`), with its scope; `None` for a fact's id.
    pub async fn passage(&self, id: &str) -> Result<Option<(String, Window)>> {
        match self.window_id(id).await? {
            Some(number) => Ok(self.store.memory_passage(number).await?),
            None => Ok(None),
        }
    }

    /// How much is remembered, in a scope or in all.
    pub async fn figures(&self, scope: Option<&str>) -> Result<MemoryFigures> {
        Ok(self.store.memory_figures(scope).await?)
    }

    /// All scopes, by name.
    pub async fn scopes(&self) -> Result<Vec<String>> {
        Ok(self.store.memory_scopes().await?.into_iter().map(|scope| scope.id).collect())
    }

    /// The last user turn that memory knows of a session; 0 = none.
    pub async fn last_turn(&self, session: &str) -> Result<u32> {
        Ok(self.store.memory_last_turn(session).await?)
    }

    /// Archives what has expired; how many facts.
    pub async fn expire(&self, now_ms: i64) -> Result<u64> {
        self.changing(self.store.expire_facts(now_ms)).await
    }

    /// A whole copy of the database, as of now, in a new file.
    pub async fn backup(&self, to: &std::path::Path) -> Result<()> {
        Ok(self.store.backup(to).await?)
    }

    /// Lets something be recalled that was kept back.
    pub async fn accept(&self, id: &str, now_ms: i64) -> Result<()> {
        if let Some(number) = self.window_id(id).await? {
            let accepted = self.changing(self.store.memory_accept(number)).await?;
            return if accepted { Ok(()) } else { Err(Error::NoSuchMemory(id.to_owned())) };
        }
        self.patch(id, FactPatch { status: Some("active".to_owned()), ..FactPatch::default() }, now_ms).await
    }

    /// Deletes for good: memory, index, and the words in the journal. What was forgotten is not learned again.
    pub async fn forget(&self, what: Forget, now_ms: i64) -> Result<Forgotten> {
        let default = self.settings().scope.clone();
        let scope_of = Arc::new(move |scope: &store::Scope| scope_of(scope, &default));
        self.changing(self.store.forget(what, scope_of, now_ms)).await
    }

    /// The number of the window that an id means: `w12` by itself, `t5.0` by the journal row it was told from, `tS#5.0` by
    /// session and user turn, where it was told before the row was there.
    async fn window_id(&self, id: &str) -> Result<Option<i64>> {
        if let Some(number) = id.strip_prefix('w').and_then(|n| n.parse().ok()) {
            return Ok(Some(number));
        }
        let Some((told, part)) = id.strip_prefix('t').and_then(|id| id.rsplit_once('.')) else { return Ok(None) };
        let Ok(part) = part.parse() else { return Ok(None) };
        if let Ok(turn) = told.parse().map(TurnId) {
            while self.store.memory_cursor().await? < turn && !self.absorb(64).await?.done {}
            return Ok(self.store.memory_window_at(turn, part).await?);
        }
        let Some((session, turn_no)) = told.rsplit_once('#') else { return Ok(None) };
        let Ok(turn_no) = turn_no.parse() else { return Ok(None) };
        while !self.absorb(64).await?.done {}
        Ok(self.store.memory_window_of(session, turn_no, part).await?)
    }

    /// Deletes the memory with this id, as [`crate::Recalled::id`] names it.
    pub async fn forget_id(&self, id: &str, now_ms: i64) -> Result<Forgotten> {
        let window = self.window_id(id).await?;
        let what = window.map_or_else(|| Forget::Fact { id: id.to_owned(), history: true }, Forget::Window);
        let gone = self.forget(what, now_ms).await?;
        if gone.is_nothing() { Err(Error::NoSuchMemory(id.to_owned())) } else { Ok(gone) }
    }
}
