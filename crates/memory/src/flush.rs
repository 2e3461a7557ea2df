//! Windows → facts, a session at a time: after so many turns, at its end, or when somebody asks. Only the user's own words
//! are listened to.

use store::{NewWindow, Unheard, Window};

use crate::facts::{self, Heard};
use crate::{Memory, Result};

/// Passages listened to in one transaction.
const BATCH: u32 = 64;

/// What a round of listening brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Sessions listened to.
    pub sessions: usize,
    /// New facts.
    pub facts: usize,
}

impl Memory {
    /// Sessions with words that facts were not taken from yet.
    pub async fn unheard(&self) -> Result<Vec<Unheard>> {
        Ok(self.store.memory_unheard(i64::MAX).await?)
    }

    /// Takes the facts from what was said in a session since the last time; how many were new.
    pub async fn flush(&self, session: &str) -> Result<usize> {
        let zone = &self.settings().zone;
        let mut learned = 0;
        loop {
            let unheard = self.store.memory_unheard_of(session, BATCH).await?;
            if unheard.is_empty() {
                return Ok(learned);
            }
            let ids: Vec<i64> = unheard.iter().map(|(_, window)| window.id).collect();
            let mut found = Vec::new();
            for waiting in unheard {
                let window = window(waiting);
                found.extend(facts::hear(&Heard { window: &window, zone }));
            }
            let any = !found.is_empty();
            let new = self.store.memory_learn(&ids, found).await?;
            // Another process was faster with some of them: what is left is read anew.
            learned += new.unwrap_or_default();
            if any {
                self.live.facts_changed();
            }
        }
    }

    /// Sessions whose facts are due: `every` turns wait, or they have ended; those outside the journal end when nothing was
    /// said since `idle_ms`.
    pub async fn due(&self, every: u32, idle_ms: i64) -> Result<Vec<Unheard>> {
        let waiting = self.store.memory_unheard(idle_ms).await?.into_iter();
        Ok(waiting.filter(|s| s.ended || s.turns >= u64::from(every)).collect())
    }

    /// Takes the facts from every session that waits.
    pub async fn flush_all(&self) -> Result<Flushed> {
        let mut done = Flushed::default();
        for waiting in self.due(0, i64::MAX).await? {
            done.facts += self.flush(&waiting.session).await?;
            done.sessions += 1;
        }
        self.refresh().await?;
        Ok(done)
    }
}

/// A written passage as it was when it was new.
pub(crate) fn window((scope, said): (String, Window)) -> NewWindow {
    NewWindow {
        scope,
        session: said.session,
        turn: said.turn,
        turn_no: said.turn_no,
        part: said.part,
        speaker: said.speaker,
        at_ms: said.at_ms,
        quarantined: said.quarantined,
        text: said.text,
        ..NewWindow::default()
    }
}
