//! Turns, as they are finished: which skills fitted them, and, once the user has gone on or the session has ended, what came
//! of them.

use std::collections::HashSet;

use dialect::{Dialect, Request};
use store::{Addition, Exposed, NewSkillTurn, Outcome, Pending, PendingTurn, SkillOutcome, SkillRow, TurnRow};

use super::{Result, Workshop};
use crate::signals::{Reaction, is_failure, reaction};

/// Rows of the journal that are read at once.
const ROWS: u32 = 256;
/// Turns that are settled at once.
const TURNS: u32 = 64;
/// Tools that may fail in a turn before it counts as bad by that alone.
const TOOL_ERRORS: u32 = 3;

/// What tools gave back in a turn, and whether they failed.
pub(super) type Tools = Vec<(String, bool)>;

impl Workshop {
    /// Reads the journal on; whether there was anything to read.
    pub async fn absorb(&self) -> Result<bool> {
        let (rows, from, to) = self.store.skill_rows(ROWS).await?;
        if from == to {
            return Ok(false);
        }
        let turns = rows.into_iter().map(entered).collect();
        self.store.skill_absorb(from, to, turns).await?;
        Ok(true)
    }

    /// Settles turns whose outcome can be known by now, but for those that a judge is to be asked about first: the skills that
    /// fitted them; `None` when there are no such turns.
    pub async fn settle(&self) -> Result<Option<Vec<String>>> {
        let which = if self.rules.scored {
            self.pass_what_needs_no_judge().await?;
            Pending::Ready
        } else {
            Pending::All
        };
        let pending = self.store.skill_pending(which, TURNS).await?;
        if pending.is_empty() {
            return Ok(None);
        }
        let mut outcomes = Vec::with_capacity(pending.len());
        for turn in pending {
            let outcome = self.outcome(&turn).await?;
            outcomes.push((turn.turn, outcome));
        }
        Ok(Some(self.store.skill_settle(outcomes).await?))
    }

    async fn outcome(&self, turn: &PendingTurn) -> Result<SkillOutcome> {
        let rows = self.store.skill_turn_rows(&turn.session, turn.turn_no, turn.turn_no.saturating_add(1)).await?;
        let (rows, next): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.turn_no == turn.turn_no);
        let tools = self.tools(&rows).await?;
        Ok(outcome(&rows, next.iter().find_map(|row| row.user_text.as_deref()), &tools, turn.judge))
    }

    /// What tools gave back in a user turn: its last request has all of it.
    pub(super) async fn tools(&self, rows: &[TurnRow]) -> Result<Tools> {
        let Some(last) = rows.iter().max_by_key(|row| row.step).filter(|row| row.step > 0) else {
            return Ok(Vec::new());
        };
        let Ok(dialect) = last.dialect.parse::<Dialect>() else { return Ok(Vec::new()) };
        let body = match self.store.request_of(last.id).await {
            Ok(body) => body,
            // Deleted meanwhile, or not to be read any more: then nothing is known of its tools.
            Err(store::Error::NoSuchTurn(_) | store::Error::Corrupt { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let read = move || {
            let Ok(request) = Request::parse(dialect, body) else { return Vec::new() };
            let results = request.tool_results().into_iter();
            results
                .map(|result| (result.is_error || is_failure(&result.text), result.text))
                .map(|(f, t)| (t, f))
                .collect()
        };
        tokio::task::spawn_blocking(read).await.map_err(|_| super::Error::CutOff)
    }
}

fn entered(row: SkillRow) -> NewSkillTurn {
    let exposed = |addition: Addition, held_out: bool| {
        (addition.kind == "skill").then(|| Exposed {
            name: addition.id,
            version: addition.version.unwrap_or_default(),
            held_out,
            share: addition.share.map_or(0.0, f64::from),
            tokens: addition.tokens,
        })
    };
    let added = row.additions.into_iter().filter_map(|addition| exposed(addition, false));
    let held = row.held_out.into_iter().filter_map(|addition| exposed(addition, true));
    NewSkillTurn {
        turn: row.id,
        session: row.session,
        turn_no: row.turn_no,
        agent: row.agent,
        exposed: added.chain(held).collect(),
    }
}

/// Requests of a turn that failed and came again, and answers that were asked for once more.
pub(super) fn repeated(rows: &[TurnRow]) -> (u32, u32) {
    let failed = |row: &TurnRow| matches!(row.outcome, Outcome::Error | Outcome::Cut);
    let retries = rows.iter().rev().skip(1).filter(|row| failed(row)).count();
    let mut from = HashSet::new();
    let whole = rows.iter().filter(|row| row.outcome == Outcome::Ok);
    let again = whole.filter(|row| !from.insert(row.prior_state.as_deref())).count();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (count(retries), count(again))
}

/// What the user did settles it: thanked, put right, asked for the answer again, or got none. `None`: the user did nothing that
/// tells.
pub(super) fn told_by_the_user(rows: &[TurnRow], reaction: Reaction) -> Option<bool> {
    let unanswered = rows.last().is_some_and(|row| matches!(row.outcome, Outcome::Error | Outcome::Cut));
    match reaction {
        Reaction::Thanks => Some(true),
        Reaction::Correction => Some(false),
        Reaction::None => (unanswered || repeated(rows).1 > 0).then_some(false),
    }
}

/// What came of a user turn. What the user did decides; then a judge that leans to a side; without either, it was good unless
/// something else spoke against it: a request repeated, a tool that failed at the end, or many that failed. It is the same
/// rule for turns with and without a skill, so what it misses it misses on both sides.
pub(super) fn outcome(
    rows: &[TurnRow],
    next: Option<&str>,
    tools: &[(String, bool)],
    judge: Option<f64>,
) -> SkillOutcome {
    let (retries, regenerations) = repeated(rows);
    let tool_errors = u32::try_from(tools.iter().filter(|(_, failed)| *failed).count()).unwrap_or(u32::MAX);
    let reaction = next.map_or(Reaction::None, reaction);
    let judged = judge.and_then(|score| (score != 0.5).then_some(score > 0.5));
    let good = told_by_the_user(rows, reaction).or(judged).unwrap_or_else(|| {
        let broken = tools.last().is_some_and(|(_, failed)| *failed) || tool_errors >= TOOL_ERRORS;
        retries == 0 && !broken
    });
    SkillOutcome { reaction: reaction.as_str(), tool_errors, retries, regenerations, good }
}

#[cfg(test)]
mod tests {
    use store::TurnId;

    use super::*;

    fn row(step: u32, outcome: Outcome, prior: u8) -> TurnRow {
        TurnRow {
            id: TurnId(i64::from(step) + 1),
            turn_no: 1,
            step,
            outcome,
            dialect: "openai-chat".into(),
            stop: None,
            prior_state: Some(vec![prior]),
            user_text: Some("do it".into()),
            answer_text: Some("done".into()),
        }
    }

    #[test]
    fn the_user_has_the_last_word() {
        let failed = [("Error: x".to_owned(), true)];
        assert!(outcome(&[row(0, Outcome::Ok, 1)], Some("thanks!"), &failed, None).good);
        assert!(!outcome(&[row(0, Outcome::Ok, 1)], Some("no, that's wrong"), &[], None).good);
        assert!(outcome(&[row(0, Outcome::Ok, 1)], Some("now the next file"), &[], None).good);
        assert!(outcome(&[row(0, Outcome::Ok, 1)], None, &[], None).good);
    }

    #[test]
    fn without_a_word_what_happened_counts() {
        let steps = [row(0, Outcome::Ok, 1), row(1, Outcome::Ok, 2), row(2, Outcome::Ok, 3)];
        assert!(
            outcome(&steps, None, &[("Error: x".into(), true), ("ok".into(), false)], None).good,
            "it was put right"
        );
        assert!(!outcome(&steps, None, &[("ok".into(), false), ("Error: x".into(), true)], None).good);
        let again = outcome(&[row(0, Outcome::Ok, 1), row(1, Outcome::Ok, 1)], None, &[], None);
        assert_eq!((again.regenerations, again.good), (1, false));
        let retried = outcome(&[row(0, Outcome::Error, 1), row(1, Outcome::Ok, 1)], None, &[], None);
        assert_eq!((retried.retries, retried.regenerations, retried.good), (1, 0, false));
        assert!(!outcome(&[row(0, Outcome::Cut, 1)], None, &[], None).good);
        let given_up = outcome(&[row(0, Outcome::Cancelled, 1)], None, &[], None);
        assert!(given_up.good, "who closes a window says nothing about the answer");
    }

    #[test]
    fn a_judge_is_heard_where_the_user_says_nothing() {
        let steps = [row(0, Outcome::Ok, 1), row(1, Outcome::Ok, 2)];
        let failed = [("Error: x".to_owned(), true)];
        for (score, fine, broken) in [(Some(1.0), true, true), (Some(0.0), false, false), (Some(0.5), true, false)] {
            assert_eq!(outcome(&steps, None, &[], score).good, fine, "{score:?}");
            assert_eq!(outcome(&steps, Some("next"), &failed, score).good, broken, "{score:?}");
        }
        assert!(outcome(&steps, Some("thanks!"), &[], Some(0.0)).good);
        assert!(!outcome(&steps, Some("no, that's wrong"), &[], Some(1.0)).good);
        let again = [row(0, Outcome::Ok, 1), row(1, Outcome::Ok, 1)];
        assert!(!outcome(&again, None, &[], Some(1.0)).good, "who asks for it again does not want it");
        assert!(!outcome(&[row(0, Outcome::Cut, 1)], None, &[], Some(1.0)).good);
    }
}
