//! Skills that are learned, from the first sign in a conversation to the verdict over them. Turns come from the journal
//! (`store`), skills live in the [`Library`]; the model is asked by somebody else, between [`Workshop::lesson`] and
//! [`Workshop::consider`].
//!
//! ```text
//! conversation ─▶ proposal ─▶ trial ─▶ active ─▶ retired
//!                    │ quarantine, suggestion: waits for a person
//! ```

mod decide;
mod keep;
mod learn;
mod observe;
mod replay;
mod score;
mod share;
mod weigh;

use std::sync::{Arc, Mutex};

use jiff::tz::TimeZone;
use serde::Serialize;
use store::Store;

use crate::Library;

pub use decide::Reverted;
pub use keep::Standing;
pub use learn::{Candidate, Considered, HISTORY, Hold, Trigger, history};
pub use score::Unscored;
pub use share::Offered;
pub use weigh::Measured;

/// How skills are learned; from the configuration.
#[derive(Debug, Clone)]
pub struct Rules {
    /// How likely a learned skill is to be held out of a turn that it fits, 0–0.5.
    pub control_share: f32,
    /// Learned skills that one agent may have.
    pub most_active: usize,
    /// Proposals of one asking.
    pub most_new: usize,
    /// Every proposal waits for a person.
    pub review: bool,
    /// Past turns in which a judge compares answers before a skill is promoted; 0 = no judge is asked.
    pub replay_turns: u32,
    /// A judge scores answers while a skill is measured by them: what came of those turns waits for it.
    pub scored: bool,
    /// In which times are written to the old history file.
    pub zone: TimeZone,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            control_share: 0.2,
            most_active: 50,
            most_new: 3,
            review: false,
            replay_turns: 0,
            scored: false,
            zone: TimeZone::UTC,
        }
    }
}

/// A learned skill went from one state to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Its name.
    pub name: String,
    /// `trial`, `active`, `retired`, `user` (a person has changed it: it is theirs).
    pub state: String,
    /// Why, in words.
    pub reason: String,
}

/// What kept something from being learned or decided.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The library.
    #[error(transparent)]
    Library(#[from] crate::Error),
    /// There is no such proposal.
    #[error("there is no proposal {0}")]
    NoProposal(i64),
    /// It was decided before.
    #[error("proposal {id} was {state} already")]
    Decided {
        /// Its number.
        id: i64,
        /// `taken` or `rejected`.
        state: String,
    },
    /// There is no such version.
    #[error("{name} has no version {version}")]
    NoVersion {
        /// The skill.
        name: String,
        /// The number asked for.
        version: i64,
    },
    /// The skill was changed after the proposal was made.
    #[error("{name} was changed after this was proposed; the edits no longer fit")]
    Outdated {
        /// The skill.
        name: String,
    },
    /// The session has nothing that may be learned from.
    #[error("session {0} has no turns to learn from; private sessions and turns from before this version are left out")]
    NoTurns(String),
    /// A file could not be written.
    #[error("{} cannot be written: {source}", path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A background thread was lost.
    #[error("the work was cut off")]
    CutOff,
}

/// The result of learning and deciding.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A learned skill that agents get: on trial, or active.
pub(crate) fn is_used(state: &store::SkillState) -> bool {
    matches!(state.state.as_str(), "trial" | "active")
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Workshop {
    pub(crate) library: Arc<Library>,
    pub(crate) store: Store,
    pub(crate) rules: Arc<Rules>,
    /// Fingerprint of the library when its texts were last written down.
    seen: Arc<Mutex<Option<u64>>>,
    /// Proposals are taken one at a time: what one is at is no leftover of a crash to another.
    taking: Arc<tokio::sync::Mutex<()>>,
}

impl std::fmt::Debug for Workshop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workshop").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl Workshop {
    /// A workshop over a library and a journal.
    pub fn new(library: Arc<Library>, store: Store, rules: Rules) -> Self {
        Self { library, store, rules: Arc::new(rules), seen: Arc::default(), taking: Arc::default() }
    }

    /// The same under other rules.
    #[must_use]
    pub fn with_rules(&self, rules: Rules) -> Self {
        Self { rules: Arc::new(rules), ..self.clone() }
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The library.
    pub fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// The journal.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Runs work on the library's files where it may take its time.
    pub(crate) async fn files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Library) -> Result<T, crate::Error> + Send + 'static,
    ) -> Result<T> {
        let library = Arc::clone(&self.library);
        let done = tokio::task::spawn_blocking(move || work(&library)).await;
        Ok(done.map_err(|_| Error::CutOff)??)
    }
}
