//! Verdicts: learned skills with their evidence, and what becomes of them. A retired revision gives way to the text before
//! it, any other retired skill goes to the trash.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use store::{Observation, SkillState};

use super::{Moved, Result, Workshop, is_used};
use crate::proof::{Effect, Evidence, LEAST_FOR_RETIREMENT, Verdict};

/// A skill that is out of use and whose file is about to go.
pub(super) const GOING: &str = "going";

/// A skill and what is known of its effect.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// Hash of the text that was measured; empty = all its texts together.
    pub version: String,
    /// Agent; empty = all.
    pub agent: String,
    /// Turns on both sides, and tokens.
    pub evidence: Evidence,
    /// The difference it makes.
    pub effect: Option<Effect>,
    /// What can be said.
    pub verdict: Verdict,
    /// The bet that it helps: 20 proves it.
    pub for_help: f64,
    /// The bet that it harms.
    pub for_harm: f64,
}

/// What turns say together.
pub(super) fn evidence(observations: &[Observation]) -> Evidence {
    let mut all = Evidence::default();
    for seen in observations {
        all.see(seen.conversation, seen.held_out, seen.share, seen.good, seen.tokens);
    }
    all
}

impl Workshop {
    /// What is known of a skill: its text with this hash, or all of them; for one agent, or for all.
    pub async fn measured(&self, name: &str, version: Option<&str>, agent: Option<&str>) -> Result<Measured> {
        let evidence = evidence(&self.store.skill_observations(name, version, agent).await?);
        Ok(Measured {
            name: name.to_owned(),
            version: version.unwrap_or_default().to_owned(),
            agent: agent.unwrap_or_default().to_owned(),
            effect: evidence.effect(),
            verdict: evidence.verdict(),
            for_help: evidence.for_help(),
            for_harm: evidence.for_harm(),
            evidence,
        })
    }

    /// Moves the learned skills among `names` to where their evidence puts them, and keeps each agent's within the cap.
    pub async fn weigh(&self, names: &BTreeSet<String>, now_ms: i64) -> Result<Vec<Moved>> {
        let mut moved = Vec::new();
        for state in self.store.skill_states().await? {
            if !is_used(&state) || !names.contains(&state.name) {
                continue;
            }
            let known = self.measured(&state.name, Some(&state.hash), None).await?;
            match (state.state.as_str(), known.verdict) {
                ("trial", Verdict::Helps) => moved.extend(self.proven(&state, &known, now_ms).await?),
                (_, Verdict::Harms) => {
                    let turns = known.evidence.turns();
                    let heirs = self.heirs_of(&state).await?;
                    let heirs = match heirs.is_empty() {
                        true => String::new(),
                        false => format!("; learned while it was in use: {}", heirs.join(", ")),
                    };
                    let why = format!("it did harm: {} over {turns} turns{heirs}", shown(known.effect));
                    moved.push(self.retire(&state, why, true, now_ms).await?);
                }
                ("trial", Verdict::NoUse) => {
                    let why = format!("no use in {} turns: {}", known.evidence.turns(), shown(known.effect));
                    moved.push(self.retire(&state, why, true, now_ms).await?);
                }
                _ => {}
            }
        }
        moved.extend(self.keep_within(now_ms).await?);
        if !moved.is_empty() {
            self.refresh_measured().await?;
        }
        Ok(moved)
    }

    pub(super) async fn promote(&self, state: &SkillState, reason: String, now_ms: i64) -> Result<Moved> {
        let active = SkillState { state: "active".into(), since_ms: now_ms, reason: reason.clone(), ..state.clone() };
        self.store.skill_put_states(vec![active]).await?;
        Ok(Moved { name: state.name.clone(), state: "active".into(), reason })
    }

    /// Takes a learned skill out of use: the text before it comes back, if that is wanted and there is one, or the skill goes
    /// to the trash.
    pub(super) async fn retire(&self, state: &SkillState, reason: String, back: bool, now_ms: i64) -> Result<Moved> {
        let parent = match self.store.skill_version(state.version).await?.and_then(|version| version.parent) {
            Some(parent) if back => self.store.skill_version(parent).await?.filter(|parent| parent.name == state.name),
            _ => None,
        };
        if let Some(parent) = parent {
            let reason = format!("version {} is back; {reason}", parent.id);
            let (name, text) = (state.name.clone(), parent.text.clone());
            let over = u128::from_str_radix(&state.hash, 16).unwrap_or_default();
            self.files(move |library| library.rewrite_over(&name, over, &text, now_ms)).await?;
            // A text of a person's is not measured; a learned one stands where its own evidence puts it.
            if parent.origin != "evolved" {
                self.store.skill_forget_states(vec![state.name.clone()]).await?;
                return Ok(Moved { name: state.name.clone(), state: "user".into(), reason });
            }
            let known = self.measured(&state.name, Some(&parent.hash), None).await?;
            let proven = known.verdict == Verdict::Helps && self.passes(&state.name, &parent.hash).await?;
            let standing = if proven { "active" } else { "trial" };
            let back = SkillState {
                state: standing.into(),
                version: parent.id,
                hash: parent.hash,
                since_ms: now_ms,
                reason: reason.clone(),
                ..state.clone()
            };
            self.store.skill_put_states(vec![back]).await?;
            return Ok(Moved { name: state.name.clone(), state: standing.into(), reason });
        }
        // Out of use first, and marked until its file is gone, too: `sync` takes up what a crash has left.
        let going = SkillState { state: GOING.into(), since_ms: now_ms, reason, ..state.clone() };
        self.store.skill_put_states(vec![going.clone()]).await?;
        self.refresh_measured().await?;
        self.let_go(&going, now_ms).await
    }

    /// Removes the file of a skill that is going.
    pub(super) async fn let_go(&self, going: &SkillState, now_ms: i64) -> Result<Moved> {
        let (name, hash) = (going.name.clone(), u128::from_str_radix(&going.hash, 16).unwrap_or_default());
        let removed = self.files(move |library| library.remove_text(&name, hash, now_ms)).await;
        match removed {
            // Another text by now is somebody's work, and stays.
            Ok(()) | Err(super::Error::Library(crate::Error::NotFound { .. } | crate::Error::Changed { .. })) => {}
            // It is given to nobody, and goes when it can.
            Err(error) => {
                tracing::warn!(skill = going.name, %error, "a skill that is out of use cannot be moved to the trash yet");
                return Ok(Moved { name: going.name.clone(), state: "retired".into(), reason: going.reason.clone() });
            }
        }
        let gone = SkillState { state: "retired".into(), ..going.clone() };
        self.store.skill_put_states(vec![gone]).await?;
        Ok(Moved { name: going.name.clone(), state: "retired".into(), reason: going.reason.clone() })
    }

    /// Names of learned skills in use that were made from a skill, or learned in turns that it was shown in.
    async fn heirs_of(&self, state: &SkillState) -> Result<Vec<String>> {
        let Some(version) = self.store.skill_version(state.version).await? else { return Ok(Vec::new()) };
        let heirs = self.heirs(&version, &self.store.skill_states().await?).await?;
        Ok(heirs.into_iter().map(|heir| heir.name).collect())
    }

    /// The soft cap: of each agent's skills beyond it, the least useful go, as far as they had their chance.
    async fn keep_within(&self, now_ms: i64) -> Result<Vec<Moved>> {
        let mut of: BTreeMap<String, Vec<SkillState>> = BTreeMap::new();
        for state in self.store.skill_states().await?.into_iter().filter(is_used) {
            of.entry(state.agent.clone()).or_default().push(state);
        }
        let mut moved = Vec::new();
        for states in of.into_values().filter(|states| states.len() > self.rules.most_active) {
            let excess = states.len() - self.rules.most_active;
            let mut judged = Vec::new();
            for state in states {
                let known = self.measured(&state.name, Some(&state.hash), None).await?;
                if known.evidence.turns() >= LEAST_FOR_RETIREMENT {
                    judged.push((known.effect.map_or(0.0, |effect| effect.mean), state, known));
                }
            }
            judged.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.name.cmp(&b.1.name)));
            for (_, state, known) in judged.into_iter().take(excess) {
                let most = self.rules.most_active;
                let why = format!("{most} skills are enough; this was the least useful: {}", shown(known.effect));
                moved.push(self.retire(&state, why, false, now_ms).await?);
            }
        }
        Ok(moved)
    }
}

/// An effect for people: points of a hundred, with the interval.
pub(super) fn shown(effect: Option<Effect>) -> String {
    effect.map_or_else(
        || "no comparison yet".to_owned(),
        |e| format!("{:+.0} points ({:+.0} to {:+.0})", e.mean * 100.0, e.low * 100.0, e.high * 100.0),
    )
}
