//! Tables of learned skills: texts with their history, proposals, for each user turn which skills it had and what came of it,
//! and what a judge said of answers with and without one. What counts as good, and what becomes of a skill, is decided in
//! `skills`; here it is written, each step whole.

mod bank;
mod replays;
mod spending;
mod turns;

pub use bank::{Generation, NewSkillVersion, SkillEvolution, SkillProposal, SkillState, SkillVersion};
pub use replays::{HeldOut, ReplayedTurn, SkillReplay};
pub use spending::Spent;
pub use turns::{
    DueSession, Exposed, KnownOutcome, NewSkillTurn, Observation, Pending, PendingTurn, SkillOutcome, SkillRow, TurnRow,
};
