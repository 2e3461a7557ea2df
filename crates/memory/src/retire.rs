//! What is kept for a time only goes when that is over, a step at a time. What is pinned stays.

use std::time::{Duration, SystemTime};

use store::{Fact, FactFilter, Retired};

use crate::{Memory, Result};

/// Facts and passages of one step, and sessions.
const STEP: u32 = 256;
const SESSIONS: u32 = 16;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// How long things are kept, in days; 0 = for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep {
    /// Facts and passages, with their words in the journal.
    pub memory_days: u32,
    /// Sessions of the journal, with the passages that were made of them.
    pub journal_days: u32,
}

impl Keep {
    /// Everything is kept for ever.
    #[must_use]
    pub fn is_for_ever(self) -> bool {
        self == Self::default()
    }

    fn before(days: u32, now_ms: i64) -> Option<i64> {
        (days > 0).then(|| now_ms.saturating_sub(DAY_MS.saturating_mul(days.into())))
    }
}

impl Memory {
    /// What is over its time: of memory, and of the journal.
    pub async fn overdue(&self, keep: Keep, now_ms: i64) -> Result<[Retired; 2]> {
        let mut due = [Retired::default(); 2];
        if let Some(before) = Keep::before(keep.memory_days, now_ms) {
            due[0] = self.store.memory_overdue(before).await?;
        }
        if let Some(before) = Keep::before(keep.journal_days, now_ms) {
            due[1] = self.store.sessions_overdue(before).await?;
        }
        Ok(due)
    }

    /// Facts that are over their time, a few of them.
    pub async fn overdue_facts(&self, keep: Keep, now_ms: i64, limit: u32) -> Result<Vec<Fact>> {
        let Some(before) = Keep::before(keep.memory_days, now_ms) else { return Ok(Vec::new()) };
        let filter =
            FactFilter { untouched_since_ms: Some(before), pinned: Some(false), limit, ..FactFilter::default() };
        self.facts(&filter).await
    }

    /// One step of letting go what is over its time; call it until nothing went, and then [`Memory::retired`].
    pub async fn retire(&self, keep: Keep, now_ms: i64) -> Result<Retired> {
        let mut gone = Retired::default();
        if let Some(before) = Keep::before(keep.memory_days, now_ms) {
            // Looked up by a reader: memory stays at hand where nothing goes.
            if self.store.memory_is_overdue(before).await? {
                gone += self.changing(self.store.memory_retire(before, STEP)).await?;
            }
        }
        if let Some(before) = Keep::before(keep.journal_days, now_ms)
            && self.store.is_session_overdue(before).await?
        {
            gone += self.changing(self.store.delete_sessions_before(before, SESSIONS)).await?;
        }
        Ok(gone)
    }

    /// Clears up behind what went. False while somebody reads the database; then its last bytes follow.
    pub async fn retired(&self, now_ms: i64) -> Result<bool> {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(now_ms.max(0).cast_unsigned());
        let cleared = self.store.retired(now).await;
        self.refresh().await?;
        Ok(cleared)
    }
}
