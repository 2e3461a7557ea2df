//! What was handed to the writer and is not in the database yet: readers that ask for it wait, others do not.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::xxh3_128;

use crate::NewTurn;

/// See the module. A turn is found by its session and by the conversation states it came from and came to.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    turns: AtomicUsize,
    keys: Mutex<HashMap<u128, usize>>,
}

impl Unsettled {
    fn keys(&self) -> MutexGuard<'_, HashMap<u128, usize>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything is on its way.
    pub(crate) fn any(&self) -> bool {
        self.turns.load(Ordering::Acquire) > 0
    }

    /// Whether a turn of this session is on its way.
    pub(crate) fn has_session(&self, session: &str) -> bool {
        self.any() && self.keys().contains_key(&key_of(session))
    }

    /// Whether a turn that came from or to this state is on its way.
    pub(crate) fn has_state(&self, state: u128) -> bool {
        self.any() && self.keys().contains_key(&state)
    }
}

/// Counts a turn until it is dropped.
#[derive(Debug)]
pub(crate) struct OnItsWay {
    of: Arc<Unsettled>,
    keys: [Option<u128>; 3],
}

impl OnItsWay {
    pub(crate) fn new(of: &Arc<Unsettled>, turn: &NewTurn) -> Self {
        let keys = [Some(key_of(&turn.session)), turn.prior_state, turn.state_hash];
        let mut counts = of.keys();
        for key in keys.into_iter().flatten() {
            *counts.entry(key).or_default() += 1;
        }
        drop(counts);
        of.turns.fetch_add(1, Ordering::AcqRel);
        Self { of: Arc::clone(of), keys }
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.of.turns.fetch_sub(1, Ordering::AcqRel);
        let mut counts = self.of.keys();
        for key in self.keys.into_iter().flatten() {
            if let Entry::Occupied(mut count) = counts.entry(key) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }
}

/// States are hashes of another kind of text, so that sessions and states do not meet.
fn key_of(session: &str) -> u128 {
    xxh3_128(session.as_bytes())
}
