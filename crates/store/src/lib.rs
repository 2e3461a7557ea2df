//! The one SQLite database: migrations, typed tables, one writer. No policy.
//! The proxy hands in finished turns (`keep`: safe in the spool at once, in the database a moment later); everybody else reads
//! them back, and the engine ends, hides and deletes sessions. `memory` keeps its windows, facts and index here.

mod blocks;
mod body;
mod checkpoint;
mod error;
mod event;
mod insert;
mod lease;
mod memory;
mod migrate;
mod open;
mod read;
mod rejected;
mod session;
mod sessions;
mod skills;
mod spool;
mod store;
mod turn;
mod unsettled;
mod writer;

pub use error::{Error, Result};
pub use event::{Event, NewEvent};
pub use lease::Lease;
pub use memory::{
    Absorbed, CHUNK, Fact, FactFilter, FactPatch, FactWords, Forget, Forgotten, Legacy, MemoryFigures, MemoryMeaning,
    MemoryTurn, Merge, Merged, NewFact, NewWindow, NewWindows, Posting, PostingRow, Retired, ScopeInfo, ScopeOf,
    TailWindow, Unheard, Unmeant, Window, WindowFilter, WindowVector, decode, encode, read_legacy,
};
pub use session::{EndReason, Session, SessionFilter, StateMatch};
pub use skills::{
    DueSession, Exposed, Generation, HeldOut, KnownOutcome, NewSkillTurn, NewSkillVersion, Observation, Pending,
    PendingTurn, ReplayedTurn, SkillEvolution, SkillOutcome, SkillProposal, SkillReplay, SkillRow, SkillState,
    SkillVersion, Spent, TurnRow,
};
pub use store::{Kept, Options, Store};
pub use turn::{
    Addition, Block, Injected, Kind, NewTurn, Outcome, Sampled, Scope, Turn, TurnFilter, TurnId, TurnSummary, Usage,
};
