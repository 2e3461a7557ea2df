//! What one question is searched in: rows of the inverted index for its terms, and the windows that the index does not have.

use std::collections::HashMap;
use std::sync::Arc;

use store::{CHUNK, PostingRow, TailWindow, Window};

use crate::recall::{CANDIDATES, Shelf};
use crate::terms::Asked;
use crate::{Memory, Result};

/// A window beside the index.
pub(crate) enum Loose {
    /// Written, and not indexed yet.
    Tail(TailWindow),
    /// Not written yet, or at hand anyway.
    Window(Arc<Window>),
}

/// Everything that is searched for one question.
pub(crate) struct Pool {
    pub(crate) scope: String,
    /// The scope's number in the database.
    pub(crate) key: i64,
    pub(crate) indexed: u64,
    rows: Vec<Arc<PostingRow>>,
    pub(crate) loose: Vec<Loose>,
}

impl Pool {
    pub(crate) async fn open(memory: &Memory, shelf: &Shelf, scope: String) -> Result<Self> {
        let mut pool = Self { scope, key: -1, indexed: 0, rows: Vec::new(), loose: Vec::new() };
        match shelf {
            Shelf::Live(snapshot) => {
                pool.indexed = snapshot.indexed(&pool.scope);
                pool.loose.extend(snapshot.loose(memory, &pool.scope).into_iter().map(Loose::Window));
            }
            Shelf::Store => {
                if let Some(info) = memory.store.memory_scope(&pool.scope).await? {
                    (pool.key, pool.indexed) = (info.key, info.indexed);
                }
                pool.loose.extend(memory.unread(&pool.scope).await?.into_iter().map(Loose::Window));
            }
        }
        Ok(pool)
    }

    /// Finds the rows of these terms.
    pub(crate) async fn search(&mut self, memory: &Memory, shelf: &Shelf, asked: &[Asked]) -> Result<()> {
        let numbers: Vec<u32> = asked.iter().map(|a| a.number).collect();
        match shelf {
            Shelf::Live(snapshot) => self.rows = snapshot.rows(&self.scope, &numbers),
            Shelf::Store => {
                let (rows, tail) = memory.store.memory_postings(self.key, &numbers).await?;
                self.rows = rows.into_iter().map(Arc::new).collect();
                self.loose.retain(|loose| matches!(loose, Loose::Window(_)));
                self.loose.extend(tail.into_iter().map(Loose::Tail));
            }
        }
        self.rows.sort_by_key(|row| row.chunk);
        Ok(())
    }

    fn loose(&self) -> impl Iterator<Item = (i64, &[(u32, u8)])> {
        self.loose.iter().map(|loose| match loose {
            Loose::Tail(window) => (window.id, window.terms.as_slice()),
            Loose::Window(window) => (window.id, window.terms.as_slice()),
        })
    }

    pub(crate) fn idf(&self, asked: &[Asked], least: f32) -> Vec<f32> {
        let mut holders: HashMap<u32, u64> = HashMap::new();
        for row in &self.rows {
            *holders.entry(row.term).or_default() += u64::from(row.n);
        }
        for (_, terms) in self.loose() {
            for term in asked {
                if terms.binary_search_by_key(&term.number, |(t, _)| *t).is_ok() {
                    *holders.entry(term.number).or_default() += 1;
                }
            }
        }
        let all = (self.indexed as f32 + self.loose.len() as f32).max(least);
        let idf = |asked: &Asked| {
            let df = holders.get(&asked.number).copied().unwrap_or_default() as f32;
            (1.0 + (all - df + 0.5).max(0.0) / (df + 0.5)).ln()
        };
        asked.iter().map(idf).collect()
    }

    /// The best windows with their scores, best first.
    pub(crate) fn scores(&self, asked: &[Asked], idf: &[f32]) -> Vec<(i64, f32)> {
        let weight: HashMap<u32, f32> =
            asked.iter().zip(idf).map(|(a, idf)| (a.number, a.share * idf / 255.0)).collect();
        let mut best = Best::default();
        let mut sums = vec![0.0f32; CHUNK as usize];
        let mut rows = self.rows.as_slice();
        while let Some(first) = rows.first() {
            let end = rows.iter().position(|row| row.chunk != first.chunk).unwrap_or(rows.len());
            for row in &rows[..end] {
                let weight = weight.get(&row.term).copied().unwrap_or_default();
                store::decode(&row.data, |posting| {
                    if let Some(sum) = sums.get_mut(usize::from(posting.place)) {
                        *sum += weight * f32::from(posting.impact);
                    }
                });
            }
            for (place, sum) in (0i64..).zip(sums.iter_mut()) {
                if *sum > 0.0 {
                    best.add(first.chunk * CHUNK + place, *sum);
                    *sum = 0.0;
                }
            }
            rows = &rows[end..];
        }
        for (id, terms) in self.loose() {
            let sum: f32 = weight
                .iter()
                .filter_map(|(term, weight)| {
                    let at = terms.binary_search_by_key(term, |(t, _)| *t).ok()?;
                    Some(weight * f32::from(terms[at].1))
                })
                .sum();
            if sum > 0.0 {
                best.add(id, sum);
            }
        }
        best.finish()
    }
}

/// The best few of many, found without sorting them all.
#[derive(Default)]
struct Best {
    found: Vec<(i64, f32)>,
    least: f32,
}

impl Best {
    /// Kept for feedback and neighbours beyond [`CANDIDATES`].
    const KEPT: usize = 4 * CANDIDATES;

    fn add(&mut self, id: i64, score: f32) {
        if score <= self.least {
            return;
        }
        self.found.push((id, score));
        if self.found.len() >= 2 * Self::KEPT {
            self.found.select_nth_unstable_by(Self::KEPT, |a, b| b.1.total_cmp(&a.1));
            self.found.truncate(Self::KEPT);
            self.least = self.found.iter().map(|f| f.1).fold(f32::MAX, f32::min);
        }
    }

    fn finish(mut self) -> Vec<(i64, f32)> {
        self.found.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        self.found.truncate(Self::KEPT);
        self.found
    }
}
