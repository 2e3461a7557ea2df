//! What a running service keeps of memory beside the database, so that recall asks nobody: the turns that were just written
//! down, and a copy of all windows and facts as long as they are few. The copy follows the database; whoever changes
//! memory otherwise than by absorbing throws it away first, and `refresh` makes a new one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use store::{CHUNK, Fact, FactFilter, MemoryTurn, Posting, PostingRow, TurnId, Window};

use crate::absorb::{Reader, Said};
use crate::{Memory, Result, scope_of};

/// Windows that are kept beside the database; of more, none are.
const MOST: usize = 8192;
/// Windows that wait beside the copy's index before it is made anew.
const TAIL: usize = 256;
/// Turns that were just written down, and bytes of their text; the oldest beyond that are found in the journal.
const FRESH: usize = 64;
const FRESH_BYTES: usize = 1 << 20;
/// Text that may be cut and read while a request waits.
const QUICK_BYTES: usize = 24 << 10;

/// Numbers of turns from here on are not those of journal rows: they are safe, and not in the journal yet.
pub const UNNUMBERED: i64 = 1 << 62;

/// A turn that was just written down.
#[derive(Debug)]
struct Fresh {
    turn: MemoryTurn,
    /// Its journal row, or a number above all of them.
    id: AtomicI64,
    windows: OnceLock<Vec<Arc<Window>>>,
}

impl Fresh {
    fn id(&self) -> TurnId {
        TurnId(self.id.load(Ordering::Acquire))
    }

    fn bytes(&self) -> usize {
        [&self.turn.user_text, &self.turn.answer_text].into_iter().flatten().map(String::len).sum()
    }
}

/// Postings by term and chunk.
type Lists = HashMap<(u32, i64), Vec<Posting>>;

/// One scope of the copy.
#[derive(Debug, Default)]
struct Shelf {
    rows: HashMap<u32, Vec<Arc<PostingRow>>>,
    indexed: u64,
}

/// The copy.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    shelves: Arc<HashMap<String, Shelf>>,
    /// All windows by number, those of the tail as well.
    windows: Arc<BTreeMap<i64, Arc<Window>>>,
    scopes: Arc<HashMap<i64, Arc<str>>>,
    /// Windows that the index does not have.
    tail: Vec<(Arc<str>, Arc<Window>)>,
    facts: Arc<HashMap<i64, Arc<Fact>>>,
    /// Superseded facts by the turn they were taken from.
    outdated: Arc<HashMap<TurnId, Vec<Arc<Fact>>>>,
    /// The last two passages of every session, the last one last.
    last: Arc<HashMap<String, Vec<i64>>>,
    /// What was forgotten and is not to be learned again.
    buried: Arc<HashSet<(String, i64)>>,
    newest: i64,
    cursor: TurnId,
    /// The store's count of deletions when it was begun.
    deletions: u64,
}

#[derive(Debug, Default)]
struct State {
    copy: Option<Arc<Mirror>>,
    /// There are more windows than are kept.
    too_many: bool,
    fresh: Vec<Arc<Fresh>>,
    /// Facts have changed since the copy was made.
    new_facts: bool,
    /// Grows when a copy that is being made must not be used.
    epoch: u64,
    /// The database's count of changes by others.
    version: Option<i64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Live {
    state: Mutex<State>,
}

/// Memory as of one moment.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    copy: Arc<Mirror>,
    fresh: Vec<Arc<Fresh>>,
}

impl Live {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Throws the copy away: what it says is no longer so.
    pub(crate) fn forget(&self) {
        let mut state = self.state();
        state.epoch += 1;
        state.copy = None;
        state.too_many = false;
        state.fresh.clear();
    }

    /// The same, but what was just heard stays: nobody else has written it.
    fn outdate(&self) {
        let mut state = self.state();
        state.epoch += 1;
        state.copy = None;
        state.too_many = false;
    }

    /// A turn was written down.
    pub(crate) fn heard(&self, turn: MemoryTurn) {
        let mut state = self.state();
        let id = AtomicI64::new(turn.id.0);
        state.fresh.push(Arc::new(Fresh { turn, id, windows: OnceLock::new() }));
        let mut bytes: usize = state.fresh.iter().map(|f| f.bytes()).sum();
        while state.fresh.len() > FRESH || (bytes > FRESH_BYTES && state.fresh.len() > 1) {
            bytes -= state.fresh.remove(0).bytes();
        }
    }

    /// A turn that was heard under one number has another, or none.
    fn numbered(&self, told: TurnId, row: Option<TurnId>) {
        let mut state = self.state();
        match row {
            Some(row) => {
                if let Some(fresh) = state.fresh.iter().find(|f| f.turn.id == told) {
                    fresh.id.store(row.0, Ordering::Release);
                }
            }
            None => state.fresh.retain(|f| f.turn.id != told),
        }
    }

    /// Facts were learned or closed; the copy takes them over at the next look.
    pub(crate) fn facts_changed(&self) {
        self.state().new_facts = true;
    }

    /// Memory as it is known; `None` if there is no copy, or something was deleted (`deletions` of the store) since.
    pub(crate) fn snapshot(&self, deletions: u64) -> Option<Snapshot> {
        let state = self.state();
        let copy = state.copy.clone().filter(|copy| copy.deletions == deletions)?;
        let fresh = state.fresh.iter().filter(|f| f.id() > copy.cursor).cloned().collect();
        Some(Snapshot { copy, fresh })
    }

    /// Turns after `until` that were just written down.
    pub(crate) fn fresh_after(&self, until: TurnId) -> Vec<MemoryTurn> {
        self.state().fresh.iter().filter(|f| f.id() > until).map(|f| f.turn.clone()).collect()
    }
}

impl Snapshot {
    /// Nothing is remembered at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.copy.windows.is_empty() && self.fresh.is_empty()
    }

    /// Reading what was just written down would keep a request waiting.
    pub(crate) fn is_slow(&self) -> bool {
        let unread = self.fresh.iter().filter(|f| f.windows.get().is_none());
        unread.map(|f| f.bytes()).sum::<usize>() > QUICK_BYTES
    }

    pub(crate) fn indexed(&self, scope: &str) -> u64 {
        self.copy.shelves.get(scope).map_or(0, |shelf| shelf.indexed)
    }

    /// Rows of the index for these terms.
    pub(crate) fn rows(&self, scope: &str, terms: &[u32]) -> Vec<Arc<PostingRow>> {
        let Some(shelf) = self.copy.shelves.get(scope) else { return Vec::new() };
        terms.iter().filter_map(|term| shelf.rows.get(term)).flatten().cloned().collect()
    }

    /// Windows of the scope that the index does not have, written ones first.
    pub(crate) fn loose(&self, memory: &Memory, scope: &str) -> Vec<Arc<Window>> {
        let tail = self.copy.tail.iter().filter(|(of, _)| **of == *scope).map(|(_, window)| window.clone());
        let mut all: Vec<_> = tail.collect();
        self.read(memory);
        let default = &memory.settings().scope;
        for fresh in self.fresh.iter().filter(|f| scope_of(&f.turn.scope, default) == scope) {
            all.extend(fresh.windows.get().into_iter().flatten().cloned());
        }
        all
    }

    /// Cuts what was just written down into windows, each turn once.
    fn read(&self, memory: &Memory) {
        if self.fresh.iter().all(|f| f.windows.get().is_some()) {
            return;
        }
        let settings = memory.settings();
        let mut reader = Reader::new(&settings.scope, &settings.zone);
        for fresh in &self.fresh {
            let session = &fresh.turn.session;
            if !reader.sessions.contains_key(session) {
                reader.sessions.insert(session.clone(), self.said(session));
            }
            if let Some(windows) = fresh.windows.get() {
                reader.knows(&fresh.turn, windows.iter().map(|w| w.text.as_str()));
                continue;
            }
            // Numbers below zero, apart from those of other turns: they get theirs when they are written.
            let base = -1 - (fresh.turn.id.0 % 100_000) * 1000;
            let mut new = reader.windows(&fresh.turn);
            new.retain(|window| !self.copy.buried.contains(&(window.scope.clone(), window.hash)));
            let new = (0..).zip(new);
            let windows = new.map(|(part, new)| Arc::new(unwritten(base - part, new))).collect();
            // Somebody else may have been quicker, with the same.
            let _ = fresh.windows.set(windows);
        }
    }

    fn said(&self, session: &str) -> Said {
        let mut said = Said::default();
        for id in self.copy.last.get(session).into_iter().flatten() {
            if let Some(window) = self.copy.windows.get(id) {
                said.says(&window.text);
                said.turn_no = Some(window.turn_no);
            }
        }
        said
    }

    /// These windows, as far as they are written and of the scope.
    pub(crate) fn windows(&self, scope: &str, ids: impl Iterator<Item = i64>) -> Vec<Arc<Window>> {
        let of_scope = |id: &i64| self.copy.scopes.get(id).is_some_and(|of| **of == *scope);
        ids.filter(of_scope).filter_map(|id| self.copy.windows.get(&id).cloned()).collect()
    }

    /// Numbers of the scope's passages that were said in a time, the last first.
    pub(crate) fn said_in(&self, scope: &str, time: &std::ops::Range<i64>, limit: usize) -> Vec<i64> {
        let windows = self.copy.windows.iter().filter(|(_, w)| w.fact.is_none() && time.contains(&w.at_ms));
        let of_scope = windows.filter(|(id, _)| self.copy.scopes.get(id).is_some_and(|of| **of == *scope));
        let mut found: Vec<(i64, i64)> = of_scope.map(|(id, window)| (window.at_ms, *id)).collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.truncate(limit);
        found.into_iter().map(|(_, id)| id).collect()
    }

    pub(crate) fn fact(&self, key: i64) -> Option<Arc<Fact>> {
        self.copy.facts.get(&key).cloned()
    }

    /// Pinned facts of the scope.
    pub(crate) fn pinned(&self, scope: &str) -> Vec<Arc<Fact>> {
        let pinned = |fact: &&Arc<Fact>| fact.pinned && fact.status == "active" && fact.scope == scope;
        self.copy.facts.values().filter(pinned).cloned().collect()
    }

    /// When a newer statement took the place of one that was taken from this window.
    pub(crate) fn outdated_ms(&self, window: &Window) -> Option<i64> {
        let facts = self.copy.outdated.get(&window.turn?)?;
        let from_here = |f: &&Arc<Fact>| f.speaker == window.speaker && window.text.contains(&f.quote);
        facts.iter().filter(from_here).filter_map(|f| f.valid_to_ms).max()
    }
}

/// A window that has no number yet.
pub(crate) fn unwritten(id: i64, new: store::NewWindow) -> Window {
    Window {
        id,
        fact: None,
        session: new.session,
        turn: new.turn,
        turn_no: new.turn_no,
        part: new.part,
        speaker: new.speaker,
        at_ms: new.at_ms,
        quarantined: new.quarantined,
        text: new.text,
        terms: new.terms,
        outdated_ms: None,
    }
}

impl Mirror {
    /// This copy with what was written since.
    fn with(&self, new: store::NewWindows, facts: Option<Vec<Fact>>) -> Self {
        let mut copy = Self { cursor: new.cursor, ..self.share() };
        if !new.windows.is_empty() {
            let mut names: HashMap<String, Arc<str>> = HashMap::new();
            let (mut windows, mut scopes) = ((*self.windows).clone(), (*self.scopes).clone());
            let mut last = (*self.last).clone();
            for (scope, window) in new.windows {
                let name = names.entry(scope.clone()).or_insert_with(|| scope.into()).clone();
                copy.newest = copy.newest.max(window.id);
                if window.fact.is_none() {
                    let last = last.entry(window.session.clone()).or_default();
                    last.push(window.id);
                    last.drain(..last.len().saturating_sub(2));
                }
                let window = Arc::new(window);
                scopes.insert(window.id, name.clone());
                windows.insert(window.id, window.clone());
                copy.tail.push((name, window));
            }
            (copy.windows, copy.scopes, copy.last) = (Arc::new(windows), Arc::new(scopes), Arc::new(last));
        }
        if let Some(facts) = facts {
            let facts: Vec<Arc<Fact>> = facts.into_iter().map(Arc::new).collect();
            let mut outdated: HashMap<TurnId, Vec<Arc<Fact>>> = HashMap::new();
            for fact in facts.iter().filter(|f| f.status == "superseded" && !f.quote.is_empty()) {
                if let Some(turn) = fact.turn {
                    outdated.entry(turn).or_default().push(fact.clone());
                }
            }
            copy.outdated = Arc::new(outdated);
            copy.facts = Arc::new(facts.into_iter().map(|f| (f.key, f)).collect());
        }
        if copy.tail.len() > TAIL {
            copy.index();
        }
        copy
    }

    fn share(&self) -> Self {
        Self {
            shelves: self.shelves.clone(),
            windows: self.windows.clone(),
            scopes: self.scopes.clone(),
            tail: self.tail.clone(),
            facts: self.facts.clone(),
            outdated: self.outdated.clone(),
            last: self.last.clone(),
            buried: self.buried.clone(),
            newest: self.newest,
            cursor: self.cursor,
            deletions: self.deletions,
        }
    }

    /// Makes the index of all windows.
    fn index(&mut self) {
        let mut lists: HashMap<&Arc<str>, Lists> = HashMap::new();
        let mut counts: HashMap<&Arc<str>, u64> = HashMap::new();
        for (id, window) in &*self.windows {
            let Some(scope) = self.scopes.get(id) else { continue };
            let lists = lists.entry(scope).or_default();
            *counts.entry(scope).or_default() += 1;
            // Below the size of a chunk, which fits.
            let place = id.rem_euclid(CHUNK) as u16;
            for (term, impact) in &window.terms {
                let posting = Posting { place, impact: *impact };
                lists.entry((*term, id.div_euclid(CHUNK))).or_default().push(posting);
            }
        }
        let shelf = |(scope, lists): (&Arc<str>, Lists)| {
            let mut shelf = Shelf { indexed: counts.get(scope).copied().unwrap_or_default(), ..Shelf::default() };
            for ((term, chunk), postings) in lists {
                let n = u32::try_from(postings.len()).unwrap_or(u32::MAX);
                let row = PostingRow { term, chunk, n, data: store::encode(&postings) };
                shelf.rows.entry(term).or_default().push(Arc::new(row));
            }
            (scope.to_string(), shelf)
        };
        let shelves = lists.into_iter().map(shelf).collect();
        self.shelves = Arc::new(shelves);
        self.tail.clear();
    }
}

impl Memory {
    /// A turn was written down: it can be recalled from now on. Returns at once; [`Memory::work`] follows.
    /// Its number is that of its row, or above [`UNNUMBERED`] until [`Memory::numbered`] says it.
    pub fn heard(&self, turn: MemoryTurn) {
        self.live.heard(turn);
    }

    /// The turn that was heard under `told` is this row of the journal; `None` = it did not get there.
    pub fn numbered(&self, told: TurnId, row: Option<TurnId>) {
        self.live.numbered(told, row);
    }

    /// Nothing may be recalled from what is kept beside the database; used when memory is switched off.
    pub fn rest(&self) {
        self.live.forget();
    }

    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        self.live.snapshot(self.store.deletions())
    }

    /// Nothing is remembered, as far as that is known at once.
    pub fn is_empty(&self) -> bool {
        self.snapshot().is_some_and(|snapshot| snapshot.is_empty())
    }

    /// Memory will be at hand in a moment: nothing was read yet, or what was at hand has just changed.
    pub fn is_loading(&self) -> bool {
        let state = self.live.state();
        state.copy.is_none() && !state.too_many
    }

    /// Reads what was just written down, so that no request has to.
    pub fn prepare(&self) {
        if let Some(snapshot) = self.snapshot() {
            snapshot.read(self);
        }
    }

    /// Brings the copy up to what the database says.
    pub async fn refresh(&self) -> Result<()> {
        loop {
            let deletions = self.store.deletions();
            let (epoch, copy, too_many, new_facts) = {
                let mut state = self.live.state();
                let copy = state.copy.clone().filter(|copy| copy.deletions == deletions);
                if copy.is_none() && state.copy.is_some() {
                    // What was deleted may be among what was just heard.
                    state.fresh.clear();
                }
                (state.epoch, copy, state.too_many, std::mem::take(&mut state.new_facts))
            };
            if too_many {
                let cursor = self.store.memory_cursor().await?;
                self.live.state().fresh.retain(|f| f.id() > cursor);
                return Ok(());
            }
            let have = copy.as_ref().map_or(0, |copy| copy.windows.len());
            let room = u32::try_from(MOST.saturating_sub(have)).unwrap_or_default();
            let new = self.store.memory_after(copy.as_ref().map_or(0, |c| c.newest), room).await?;
            let too_many = new.too_many;
            let facts = if !too_many && (copy.is_none() || new_facts) {
                let most = u32::try_from(MOST).unwrap_or(u32::MAX);
                Some(self.store.facts(&FactFilter { limit: most, ..FactFilter::default() }).await?)
            } else {
                None
            };
            let cursor = new.cursor;
            let buried = if copy.is_none() { self.store.memory_buried().await? } else { HashSet::new() };
            let made = (!too_many).then(|| match copy {
                Some(copy) => Arc::new(copy.with(new, facts)),
                None => {
                    let empty = Mirror { deletions, buried: Arc::new(buried), ..Mirror::default() };
                    let mut first = empty.with(new, facts);
                    first.index();
                    Arc::new(first)
                }
            });
            let mut state = self.live.state();
            if state.epoch != epoch {
                state.new_facts |= new_facts;
                continue;
            }
            state.too_many = too_many;
            state.copy = made;
            state.fresh.retain(|f| f.id() > cursor);
            return Ok(());
        }
    }

    /// Looks whether another process has changed the database, and then reads it anew.
    pub async fn notice(&self) -> Result<()> {
        let version = self.store.foreign_changes().await?;
        let changed = {
            let mut state = self.live.state();
            state.version.replace(version).is_some_and(|before| before != version)
        };
        if changed {
            tracing::debug!("another process has changed the database");
            self.live.outdate();
            self.refresh().await?;
        }
        Ok(())
    }
}
