//! Before a skill that its turns have proven is promoted, a judge may compare answers: turns that had to do without it are
//! answered again, with it and without. What is asked is made in [`crate::replay`], who is asked is decided elsewhere; here it
//! is which turns, and what follows.

use std::collections::BTreeSet;
use std::sync::Arc;

use store::{HeldOut, ReplayedTurn, SkillReplay, SkillState};

use super::learn::checked;
use super::weigh::shown;
use super::{Measured, Moved, Result, Workshop};
use crate::proof::Verdict;
use crate::replay::{Case, EARLIER_TURNS, Judged};
use crate::{Hit, section};

/// How the reason of a skill ends that waits to be compared.
const WAITS: &str = "; waits for the judge to compare past answers";
/// How the reason of a skill begins that the judge did not like.
const HELD_BACK: &str = "held back: ";
/// Turns that are looked at for each one that is wanted: those with tools cannot be answered again.
const LOOKED_AT: usize = 8;

impl Workshop {
    /// A skill on trial that its turns have proven: it is promoted, waits for the judge, or is held back by it.
    pub(super) async fn proven(&self, state: &SkillState, known: &Measured, now_ms: i64) -> Result<Option<Moved>> {
        let helps = format!("it helps: {} over {} turns", shown(known.effect), known.evidence.turns());
        if self.rules.replay_turns == 0 {
            return Ok(Some(self.promote(state, helps, now_ms).await?));
        }
        let reason = match self.latest_replay(&state.name, &state.hash).await? {
            None if state.reason.ends_with(WAITS) => return Ok(None),
            None => format!("{helps}{WAITS}"),
            Some(of) if of.better >= of.worse => {
                let reason = format!("{helps}; {}", liked(&of));
                return Ok(Some(self.promote(state, reason, now_ms).await?));
            }
            Some(of) => {
                format!("{HELD_BACK}{}; compared again at {} turns", liked(&of), of.exposures.saturating_mul(2))
            }
        };
        if reason != state.reason {
            self.store.skill_put_states(vec![SkillState { reason, ..state.clone() }]).await?;
        }
        Ok(None)
    }

    async fn latest_replay(&self, name: &str, hash: &str) -> Result<Option<SkillReplay>> {
        Ok(self.store.skill_replays(name, Some(hash)).await?.into_iter().next())
    }

    /// Whether nothing but evidence stands between a text and its promotion.
    pub(super) async fn passes(&self, name: &str, hash: &str) -> Result<bool> {
        Ok(self.rules.replay_turns == 0
            || self.latest_replay(name, hash).await?.is_some_and(|of| of.better >= of.worse))
    }

    /// Skills on trial that can be compared now: those that wait for it, and those that were held back and have been in
    /// twice as many turns since.
    pub async fn awaiting_replay(&self) -> Result<Vec<SkillState>> {
        let mut awaiting = Vec::new();
        if self.rules.replay_turns == 0 {
            return Ok(awaiting);
        }
        for state in self.store.skill_states().await?.into_iter().filter(waits) {
            let known = self.measured(&state.name, Some(&state.hash), None).await?;
            let due = match self.latest_replay(&state.name, &state.hash).await? {
                None => true,
                Some(of) => of.worse > of.better && known.evidence.turns() >= of.exposures.saturating_mul(2),
            };
            if due && known.verdict == Verdict::Helps {
                awaiting.push(state);
            }
        }
        Ok(awaiting)
    }

    /// Skills that waited for a judge, where none is asked any more: they are to be weighed without one.
    pub async fn waiting_in_vain(&self) -> Result<BTreeSet<String>> {
        if self.rules.replay_turns > 0 {
            return Ok(BTreeSet::new());
        }
        let states = self.store.skill_states().await?.into_iter().filter(waits);
        Ok(states.map(|state| state.name).collect())
    }

    /// Turns that had to do without a skill and can be answered again, newest first, at most so many. Turns in which tools
    /// were used cannot: nobody has them here.
    pub async fn cases(&self, state: &SkillState, most: usize) -> Result<Vec<Case>> {
        let Some(version) = self.store.skill_version(state.version).await? else { return Ok(Vec::new()) };
        let Ok(skill) = checked(&version.name, &version.text) else { return Ok(Vec::new()) };
        let section = section(&Hit { skill: Arc::new(skill), score: 0.0, why: String::new() });
        let limit = u32::try_from(most.saturating_mul(LOOKED_AT)).unwrap_or(u32::MAX);
        let mut cases = Vec::new();
        for held in self.store.skill_held_out(&state.name, &state.hash, limit).await? {
            if cases.len() >= most {
                break;
            }
            cases.extend(self.case(&held, &section).await?);
        }
        Ok(cases)
    }

    async fn case(&self, held: &HeldOut, section: &str) -> Result<Option<Case>> {
        let first = held.turn_no.saturating_sub(EARLIER_TURNS);
        let rows = self.store.skill_turn_rows(&held.session, first, held.turn_no.saturating_add(1)).await?;
        let of = |turn_no: u32| rows.iter().filter(move |row| row.turn_no == turn_no);
        let words = |turn_no: u32| of(turn_no).find_map(|row| row.user_text.as_deref());
        if of(held.turn_no).any(|row| row.step > 0) {
            return Ok(None);
        }
        let Some(user) = words(held.turn_no).filter(|user| !user.trim().is_empty()) else { return Ok(None) };
        let pair = |turn_no: u32| {
            let answer = of(turn_no).filter_map(|row| row.answer_text.as_deref()).next_back()?;
            Some((words(turn_no)?.to_owned(), answer.to_owned()))
        };
        let earlier: Vec<_> = (first..held.turn_no).filter_map(pair).collect();
        Ok(Some(Case::new(held.turn.0, &earlier, user, words(held.turn_no + 1), section)))
    }

    /// Writes down what a judge said of a skill's answers, and weighs the skill again.
    pub async fn replayed(
        &self,
        state: &SkillState,
        verdicts: &[(i64, Judged)],
        model: &str,
        tokens: u64,
        now_ms: i64,
    ) -> Result<(SkillReplay, Vec<Moved>)> {
        let known = self.measured(&state.name, Some(&state.hash), None).await?;
        let count = |of: Judged| u32::try_from(verdicts.iter().filter(|(_, v)| *v == of).count()).unwrap_or(u32::MAX);
        let turn = |(turn, verdict): &(i64, Judged)| ReplayedTurn {
            turn: store::TurnId(*turn),
            verdict: verdict.as_str().to_owned(),
        };
        let replay = SkillReplay {
            id: 0,
            at_ms: now_ms,
            name: state.name.clone(),
            version: state.hash.clone(),
            model: model.to_owned(),
            better: count(Judged::Better),
            worse: count(Judged::Worse),
            same: count(Judged::Same),
            exposures: known.evidence.turns(),
            tokens,
            turns: verdicts.iter().map(turn).collect(),
        };
        let id = self.store.skill_replay_add(replay.clone()).await?;
        let moved = self.weigh(&BTreeSet::from([state.name.clone()]), now_ms).await?;
        Ok((SkillReplay { id, ..replay }, moved))
    }
}

fn waits(state: &SkillState) -> bool {
    state.state == "trial" && (state.reason.ends_with(WAITS) || state.reason.starts_with(HELD_BACK))
}

/// What a judge said, for people.
fn liked(of: &SkillReplay) -> String {
    match of.better + of.worse + of.same {
        0 => "no past turn could be answered again".to_owned(),
        all => {
            format!("the judge liked its answers better in {} of {all} past turns, worse in {}", of.better, of.worse)
        }
    }
}
