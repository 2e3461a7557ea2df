//! Tables of learned skills: texts with their history, proposals, and for each user turn which skills it had and what came
//! of it. What counts as good, and what becomes of a skill, is decided in `skills`; here it is written, each step whole.

mod bank;
mod turns;

pub use bank::{Generation, NewSkillVersion, SkillEvolution, SkillProposal, SkillState, SkillVersion};
pub use turns::{DueSession, Exposed, NewSkillTurn, Observation, PendingTurn, SkillOutcome, SkillRow, TurnRow};
