//! Turns that a skill is measured by, for a judge to score. What is asked is made in [`crate::score`]; who is asked, and how often,
//! is decided elsewhere.

use store::{Pending, TurnId};

use super::observe::told_by_the_user;
use super::{Result, Workshop};
use crate::replay::EARLIER_TURNS;
use crate::score::Answered;
use crate::signals::{Reaction, reaction};

/// Waiting turns that are looked at when others are settled.
const PASSED: u32 = 64;

/// A turn that waits for a judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unscored {
    /// Its first row in the journal.
    pub turn: TurnId,
    /// What the judge is to be asked.
    pub question: Answered,
}

impl Workshop {
    /// Turns that wait for a judge, oldest first, at most so many.
    pub async fn unscored(&self, limit: u32) -> Result<Vec<Unscored>> {
        let mut waiting = Vec::new();
        if !self.rules.scored {
            return Ok(waiting);
        }
        for turn in self.store.skill_pending(Pending::Unscored, limit).await? {
            if let Some(mut question) = self.question(&turn).await? {
                let rows = self.store.skill_turn_rows(&turn.session, turn.turn_no, turn.turn_no).await?;
                question.tools = self.tools(&rows).await?;
                waiting.push(Unscored { turn: turn.turn, question });
            }
        }
        Ok(waiting)
    }

    /// Turns that wait for a judge and need none do not wait: what the user did tells enough, or there are no words to judge.
    pub(super) async fn pass_what_needs_no_judge(&self) -> Result<()> {
        for turn in self.store.skill_pending(Pending::Unscored, PASSED).await? {
            if self.question(&turn).await?.is_none() {
                self.store.skill_score(turn.turn, None).await?;
            }
        }
        Ok(())
    }

    /// What a judge is to be asked about a turn, but for its tools; `None` = nothing.
    async fn question(&self, turn: &store::PendingTurn) -> Result<Option<Answered>> {
        let first = turn.turn_no.saturating_sub(EARLIER_TURNS);
        let rows = self.store.skill_turn_rows(&turn.session, first, turn.turn_no.saturating_add(1)).await?;
        let of = |turn_no: u32| rows.iter().filter(move |row| row.turn_no == turn_no);
        let words = |turn_no: u32| of(turn_no).find_map(|row| row.user_text.clone());
        let answer = |turn_no: u32| of(turn_no).filter_map(|row| row.answer_text.clone()).next_back();
        let these: Vec<_> = of(turn.turn_no).cloned().collect();
        let next = words(turn.turn_no + 1);
        if told_by_the_user(&these, next.as_deref().map_or(Reaction::None, reaction)).is_some() {
            return Ok(None);
        }
        let said = words(turn.turn_no).zip(answer(turn.turn_no));
        let Some((user, given)) = said.filter(|(user, given)| !user.trim().is_empty() && !given.trim().is_empty())
        else {
            return Ok(None);
        };
        let before = (first..turn.turn_no).filter_map(|turn_no| words(turn_no).zip(answer(turn_no))).collect();
        Ok(Some(Answered { before, user, tools: Vec::new(), answer: given, next }))
    }

    /// Writes down what a judge has to say of a turn; `None` = nothing.
    pub async fn scored(&self, turn: TurnId, score: Option<f64>) -> Result<()> {
        self.store.skill_score(turn, score).await?;
        Ok(())
    }
}
