//! Memory by meaning: vectors of windows and facts, made in the background and kept in the database; beside it a glance at
//! each ([`embed::Coarse`]), and as long as they are few the vectors themselves, so that a question asks no database.
//! What counts is how far a memory stands out among those of its scope: 1 where it reaches the bar ([`crate::common`]).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use embed::{Coarse, Embedder, Frame, Glance, Side, Vector};
use store::{MemoryMeaning, WindowVector};

use crate::common::{self, Common, Question, Usual};
use crate::{Error, Memory, Result};

/// Vectors that are kept whole beside the database; of more, none are.
const MOST: usize = 8192;
/// Vectors read from the database at once.
const PAGE: u32 = 512;
/// Vectors of an earlier model that are looked through at once.
const SWEEP: u32 = 2048;
/// Vectors that lie together.
const BLOCK: usize = 4096;
/// Of the best at a glance, so many are looked at whole.
const LOOKED: usize = 256;
/// Longest text that is turned into a vector, in bytes.
const LONGEST: usize = 2000;

/// What a question means.
#[derive(Debug, Clone)]
pub struct Meant {
    /// The model that says so, as [`Embedder::name`] has it.
    pub model: String,
    /// Its vector.
    pub vector: Vector,
}

/// How far memory by meaning has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// There may be more to be done now.
    pub more: bool,
    /// Vectors at hand.
    pub ready: u64,
    /// Windows that have none yet.
    pub missing: u64,
}

/// Vectors of one scope.
#[derive(Debug, Default)]
struct Shelf {
    blocks: Vec<Block>,
    usual: Usual,
}

#[derive(Debug, Default)]
struct Block {
    windows: Vec<i64>,
    coarse: Coarse,
    /// The vectors as they are kept, one after the other; empty if they are too many.
    whole: Vec<u8>,
}

/// The vectors of one model, as far as they were read.
#[derive(Debug)]
struct Known {
    of: MemoryMeaning,
    frame: Frame,
    common: Arc<Common>,
    /// The store's count of deletions when reading began.
    deletions: u64,
    /// Stretches of window numbers that are still to be read, both ends left out.
    unread: Vec<(i64, i64)>,
    /// Vectors of earlier models are gone up to here.
    swept: i64,
    names: HashMap<String, i64>,
    shelves: HashMap<i64, Shelf>,
    count: usize,
    whole: bool,
    missing: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Meanings {
    known: RwLock<Option<Known>>,
}

/// How near memories are to a question.
#[derive(Debug, Default)]
pub(crate) struct Near {
    /// Windows that may be meant, best first, with how far each stands out.
    pub(crate) best: Vec<(i64, f32)>,
    /// The same of these and of all windows that were named.
    pub(crate) stands: HashMap<i64, f32>,
}

/// What the database is asked for after a glance.
struct Glanced {
    made: i64,
    bar: f32,
    /// Known already.
    near: Vec<(i64, f32)>,
    /// To be looked at whole.
    look: Vec<i64>,
}

impl Known {
    fn new(of: MemoryMeaning, common: Common, deletions: u64) -> Self {
        let mut known = Self {
            of,
            frame: Frame::new(common.width()),
            common: Arc::new(common),
            deletions,
            unread: Vec::new(),
            swept: 0,
            names: HashMap::new(),
            shelves: HashMap::new(),
            count: 0,
            whole: true,
            missing: 0,
        };
        known.begin(deletions);
        known
    }

    /// Nothing was read yet.
    fn begin(&mut self, deletions: u64) {
        self.deletions = deletions;
        (self.shelves, self.count, self.whole) = (HashMap::new(), 0, true);
        self.unread = vec![(self.of.low - 1, self.of.high + 1)];
    }

    fn add(&mut self, new: &[WindowVector], usual: &HashMap<i64, Usual>) {
        for (scope, usual) in usual {
            self.shelves.entry(*scope).or_default().usual.add(usual);
        }
        if self.whole && self.count + new.len() > MOST {
            self.whole = false;
            self.shelves.values_mut().flat_map(|shelf| &mut shelf.blocks).for_each(|block| block.whole = Vec::new());
        }
        for WindowVector { window, scope, data } in new {
            let Some(vector) = Vector::unpacked(data).filter(|v| v.numbers().len() == self.frame.width()) else {
                continue;
            };
            let blocks = &mut self.shelves.entry(*scope).or_default().blocks;
            if blocks.last().is_none_or(|block| block.windows.len() >= BLOCK) {
                blocks.push(Block::default());
            }
            let Some(block) = blocks.last_mut() else { continue };
            block.windows.push(*window);
            block.coarse.push(&self.frame, &vector);
            if self.whole {
                block.whole.extend(data);
            }
            self.count += 1;
        }
    }

    /// What may be near in one scope.
    fn glance(&self, scope: i64, question: &Vector, named: &[i64]) -> Option<Glanced> {
        let mut glanced = Glanced { made: self.of.made, bar: 1.0, near: Vec::new(), look: Vec::new() };
        let Some(shelf) = self.shelves.get(&scope) else { return Some(glanced) };
        glanced.bar = self.common.bar(&shelf.usual);
        if self.whole {
            let stride = 4 + self.frame.width();
            for block in &shelf.blocks {
                let cosines = block.whole.chunks_exact(stride).map(|data| question.near(data).unwrap_or_default());
                glanced.near.extend(block.windows.iter().copied().zip(cosines));
            }
            return Some(glanced);
        }
        let glance = Glance::new(&self.frame, question)?;
        let mut best = Best::default();
        for block in &shelf.blocks {
            block.coarse.look(&glance, |at, about| {
                if about > best.least
                    && let Some(window) = block.windows.get(at)
                {
                    best.add(*window, about);
                }
            });
        }
        let known: HashSet<i64> = named.iter().copied().filter(|window| *window > 0).collect();
        glanced.look = best.finish();
        glanced.look.retain(|window| !known.contains(window));
        glanced.look.extend(known);
        Some(glanced)
    }
}

/// The best at a glance.
struct Best {
    found: Vec<(i64, f32)>,
    least: f32,
}

impl Default for Best {
    fn default() -> Self {
        Self { found: Vec::with_capacity(2 * LOOKED), least: f32::NEG_INFINITY }
    }
}

impl Best {
    fn add(&mut self, window: i64, about: f32) {
        self.found.push((window, about));
        if self.found.len() >= 2 * LOOKED {
            self.found.select_nth_unstable_by(LOOKED, |a, b| b.1.total_cmp(&a.1));
            self.found.truncate(LOOKED);
            self.least = self.found.iter().map(|f| f.1).fold(f32::MAX, f32::min);
        }
    }

    fn finish(mut self) -> Vec<i64> {
        self.found.sort_by(|a, b| b.1.total_cmp(&a.1));
        self.found.truncate(LOOKED);
        self.found.into_iter().map(|(window, _)| window).collect()
    }
}

impl Meanings {
    fn read(&self) -> RwLockReadGuard<'_, Option<Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Option<Known>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known, if it still is of this model.
    fn change(&self, made: i64, change: impl FnOnce(&mut Known)) {
        if let Some(known) = self.write().as_mut().filter(|known| known.of.made == made) {
            change(known);
        }
    }

    fn progress(&self, more: bool) -> Progress {
        let known = self.read();
        let Some(known) = known.as_ref() else { return Progress { more, ..Progress::default() } };
        Progress { more, ready: known.count as u64, missing: known.missing }
    }
}

/// What one round has to do.
enum Round {
    Meet,
    Read { of: MemoryMeaning, common: Arc<Common>, after: i64, before: i64 },
    Sweep { of: MemoryMeaning, after: i64 },
    Make(MemoryMeaning),
}

impl Memory {
    /// One round of making what memory means: reads vectors that are there, makes a bounded number that are missing.
    /// Call it again while there is more.
    pub async fn mean(&self, embedder: &dyn Embedder, limit: u32) -> Result<Progress> {
        let name = embedder.name();
        match self.next_round(&name) {
            Round::Meet => {
                let (of, common) = self.meet(embedder, name).await?;
                let known = Known::new(of, common, self.store.deletions());
                let missing = self.store.memory_unmeant_count(&known.of).await?;
                *self.meanings.write() = Some(Known { missing, ..known });
            }
            Round::Read { of, common, after, before } => {
                let page = self.store.memory_vectors(of.made, after, before, PAGE).await?;
                let mut by_scope: HashMap<i64, Vec<&WindowVector>> = HashMap::new();
                for vector in &page {
                    by_scope.entry(vector.scope).or_default().push(vector);
                }
                let usual = by_scope.iter().map(|(scope, vectors)| (*scope, common.usual(vectors))).collect();
                let scopes = self.store.memory_scopes().await?;
                self.meanings.change(of.made, |known| {
                    known.names = scopes.into_iter().map(|scope| (scope.id, scope.key)).collect();
                    // Whoever has thrown it away meanwhile begins anew.
                    if known.unread.last() != Some(&(after, before)) {
                        return;
                    }
                    known.unread.pop();
                    if let Some(last) = page.last().filter(|_| page.len() >= PAGE as usize) {
                        known.unread.push((last.window, before));
                    }
                    known.add(&page, &usual);
                });
            }
            Round::Sweep { of, after } => {
                let swept = self.store.memory_unmean(&of, after, SWEEP).await?;
                self.meanings.change(of.made, |known| match swept {
                    Some(last) => known.swept = last,
                    None => known.of.stale = false,
                });
            }
            Round::Make(of) => {
                let more = self.make(embedder, of, limit).await?;
                return Ok(self.meanings.progress(more));
            }
        }
        Ok(self.meanings.progress(true))
    }

    fn next_round(&self, name: &str) -> Round {
        let mut state = self.meanings.write();
        let Some(known) = state.as_mut().filter(|known| known.of.model == name) else {
            *state = None;
            return Round::Meet;
        };
        let deletions = self.store.deletions();
        if known.deletions != deletions {
            known.begin(deletions);
        }
        match known.unread.last() {
            Some((after, before)) => {
                Round::Read { of: known.of.clone(), common: known.common.clone(), after: *after, before: *before }
            }
            None if known.of.stale => Round::Sweep { of: known.of.clone(), after: known.swept },
            None => Round::Make(known.of.clone()),
        }
    }

    /// The model, with its vectors of commonplaces.
    async fn meet(&self, embedder: &dyn Embedder, name: String) -> Result<(MemoryMeaning, Common)> {
        if let Some(of) = self.store.memory_meaning().await?.filter(|of| of.model == name)
            && let Some(common) = Common::unpacked(&of.common)
        {
            return Ok((of, common));
        }
        let (common, packed) = Common::made(embedder).await?;
        let of = self.store.memory_meant_by(&name, packed).await?;
        Ok((of, common))
    }

    /// Makes some of the vectors that are missing; whether there may be more.
    async fn make(&self, embedder: &dyn Embedder, of: MemoryMeaning, limit: u32) -> Result<bool> {
        let (unmeant, reach) = self.store.memory_unmeant(&of, limit).await?;
        if unmeant.is_empty() {
            self.meanings.change(of.made, |known| known.missing = 0);
            return self.follow(&of).await;
        }
        let texts: Vec<String> = unmeant
            .iter()
            .map(|unmeant| unmeant.text[..unmeant.text.floor_char_boundary(LONGEST)].to_owned())
            .collect();
        let Some(common) = self.meanings.read().as_ref().map(|known| known.common.clone()) else { return Ok(true) };
        let vectors = each(embedder, &texts).await?;
        let packed = unmeant.iter().zip(vectors);
        let packed: Vec<(i64, Vec<u8>)> =
            packed.filter_map(|(of, vector)| Some((of.window, common.passage(&vector?).packed()))).collect();
        let Some(now) = self.store.memory_mean(&of, packed, reach).await? else { return self.follow(&of).await };
        let (from, until) = if reach.1 > of.high { (of.high, reach.1 + 1) } else { (reach.0 - 1, of.low) };
        let done = unmeant.len() as u64;
        self.meanings.change(of.made, |known| {
            known.of = now;
            // Those of windows that are gone by now are not among them.
            known.unread.push((from, until));
            known.missing = known.missing.saturating_sub(done);
        });
        Ok(true)
    }

    /// Takes over what another process has made; whether there was anything.
    async fn follow(&self, of: &MemoryMeaning) -> Result<bool> {
        let now = self.store.memory_meaning().await?;
        let Some(now) = now.filter(|now| now.model == of.model && now.made == of.made) else {
            *self.meanings.write() = None;
            return Err(Error::AnotherModel(of.model.clone()));
        };
        if (now.low, now.high) == (of.low, of.high) {
            return Ok(false);
        }
        let missing = self.store.memory_unmeant_count(&now).await?;
        self.meanings.change(of.made, |known| {
            let unread = [(of.high, now.high + 1), (now.low - 1, of.low)];
            known.unread.extend(unread.into_iter().filter(|(after, before)| before - after > 1));
            known.missing = missing;
            known.of = now;
        });
        Ok(true)
    }

    /// Memory by meaning is not wanted any more: nothing of it is kept beside the database.
    pub fn mean_nothing(&self) {
        *self.meanings.write() = None;
    }

    /// How near memories of a scope are to what a question means; `named` are looked at in any case. `None` = it cannot be
    /// told, as nothing was read yet.
    pub(crate) async fn near(&self, scope: &str, meant: &Meant, named: &[i64], limit: usize) -> Result<Option<Near>> {
        let (glanced, question) = {
            let state = self.meanings.read();
            let known = state.as_ref().filter(|known| known.of.model == meant.model);
            // Something was deleted: what is at hand may be of it.
            let Some(known) = known.filter(|known| known.deletions == self.store.deletions()) else { return Ok(None) };
            let Some(scope) = known.names.get(scope) else { return Ok(None) };
            let question = known.common.question(&meant.vector);
            let Some(glanced) = known.glance(*scope, &question.vector, named) else { return Ok(None) };
            (glanced, question)
        };
        let Question { vector, lean } = question;
        let mut near = glanced.near;
        if !glanced.look.is_empty() {
            let vectors = self.store.memory_vectors_of(glanced.made, &glanced.look).await?;
            near.extend(vectors.iter().filter_map(|v| Some((v.window, vector.near(&v.data)?))));
        }
        let mut near: Vec<(i64, f32)> = near.into_iter().map(|(id, cos)| (id, (cos + lean) / glanced.bar)).collect();
        let named: HashSet<i64> = named.iter().copied().collect();
        if near.len() > limit {
            near.select_nth_unstable_by(limit, |a, b| b.1.total_cmp(&a.1));
        }
        let mut stands: HashMap<i64, f32> =
            near.iter().skip(limit).filter(|(id, _)| named.contains(id)).copied().collect();
        near.truncate(limit);
        near.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        stands.extend(near.iter().copied());
        Ok(Some(Near { best: near, stands }))
    }
}

/// A vector for each text; `None` for one that the model cannot take, though it takes others.
async fn each(embedder: &dyn Embedder, texts: &[String]) -> Result<Vec<Option<Vector>>> {
    let error = match embedder.embed(Side::Passage, texts).await {
        Ok(vectors) => return Ok(vectors.into_iter().map(Some).collect()),
        Err(error) => error,
    };
    if embedder.embed(Side::Passage, &[common::plain()]).await.is_err() {
        return Err(error.into());
    }
    let mut vectors = Vec::with_capacity(texts.len());
    for text in texts {
        let vector = embedder.embed(Side::Passage, std::slice::from_ref(text)).await;
        vectors.push(
            vector
                .map_err(|error| tracing::debug!(%error, "a memory has no vector"))
                .ok()
                .and_then(|v| v.into_iter().next()),
        );
    }
    Ok(vectors)
}
