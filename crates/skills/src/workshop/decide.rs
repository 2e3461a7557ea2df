//! Decisions over proposals and texts: by the rules where nobody has to be asked, else by a person.

use std::collections::HashMap;

use serde::Serialize;
use store::{NewSkillVersion, SkillProposal, SkillState, SkillVersion};

use super::learn::{Hold, checked};
use super::{Error, Moved, Result, Workshop, is_used};
use crate::lint::{Against, lint};
use crate::skill::hex;

/// What a revert did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reverted {
    /// What was reverted or removed.
    pub moved: Vec<Moved>,
    /// Learned skills that were made from the one that was reverted, or while it was shown, and are in use.
    pub descendants: Vec<String>,
}

impl Workshop {
    async fn waiting(&self, id: i64) -> Result<SkillProposal> {
        let found = self.store.skill_proposal(id).await?.ok_or(Error::NoProposal(id))?;
        if found.state == "waiting" { Ok(found) } else { Err(Error::Decided { id, state: found.state }) }
    }

    /// Takes a proposal: its text is written, and a learned skill goes on trial. `agents`: for whom it is; `None` = as it says.
    pub async fn take(&self, id: i64, agents: Option<&[String]>, now_ms: i64) -> Result<Moved> {
        let _one_at_a_time = self.taking.lock().await;
        let proposal = self.waiting(id).await?;
        let mut version = self.version(&proposal.name, proposal.version).await?;
        if let Some(agents) = agents {
            version = self.for_agents(&version, agents, now_ms).await?;
        }
        if !self.store.skill_claim(id, version.id).await? {
            return Err(Error::Decided { id, state: self.state_of(id).await? });
        }
        match self.finish(&proposal, &version, now_ms).await {
            Ok(moved) => Ok(moved),
            Err(error) => {
                let hold = match error {
                    Error::Outdated { .. } => Hold::Suggestion,
                    _ => Hold::Review,
                };
                self.store.skill_unclaim(id, hold.as_str()).await?;
                Err(error)
            }
        }
    }

    async fn state_of(&self, id: i64) -> Result<String> {
        Ok(self.store.skill_proposal(id).await?.ok_or(Error::NoProposal(id))?.state)
    }

    /// Writes the text of a claimed proposal; a learned skill goes on trial.
    async fn finish(&self, proposal: &SkillProposal, version: &SkillVersion, now_ms: i64) -> Result<Moved> {
        let learned = self.write(proposal, version, now_ms).await?;
        let (state, reason) = match learned {
            true => ("trial", "on trial: it is measured against conversations without it"),
            false => ("user", "your own file was changed as suggested"),
        };
        let trial = match learned {
            true => Some(SkillState {
                name: proposal.name.clone(),
                state: state.into(),
                version: version.id,
                hash: version.hash.clone(),
                agent: self.owner(proposal, version).await?,
                since_ms: now_ms,
                reason: reason.into(),
            }),
            false => None,
        };
        self.store.skill_taken(proposal.id, trial, now_ms).await?;
        self.refresh_measured().await?;
        Ok(Moved { name: proposal.name.clone(), state: state.into(), reason: reason.into() })
    }

    /// Whose a learned skill is: a revision changes nothing about that, else its text says so.
    async fn owner(&self, proposal: &SkillProposal, version: &SkillVersion) -> Result<String> {
        if proposal.kind == "revise" {
            let states = self.store.skill_states().await?;
            if let Some(state) = states.into_iter().find(|state| state.name == proposal.name) {
                return Ok(state.agent);
            }
        }
        let agents = checked(&version.name, &version.text).map(|skill| skill.agents).unwrap_or_default();
        Ok(if let [one] = agents.as_slice() { one.clone() } else { String::new() })
    }

    /// Takes up what a crash has left: proposals whose text was being written, and those that nobody has to be asked about.
    pub(super) async fn resume(&self, now_ms: i64) -> Result<Vec<Moved>> {
        let _one_at_a_time = self.taking.lock().await;
        let mut left = self.store.skill_proposals(Some("taking"), u32::MAX).await?;
        for proposal in self.store.skill_proposals(Some("waiting"), u32::MAX).await? {
            if proposal.hold.is_none() {
                if self.rules.review {
                    if self.store.skill_claim(proposal.id, proposal.version).await? {
                        self.store.skill_unclaim(proposal.id, Hold::Review.as_str()).await?;
                    }
                } else if self.store.skill_claim(proposal.id, proposal.version).await? {
                    left.push(proposal);
                }
            }
        }
        let mut moved = Vec::new();
        for proposal in left {
            let version = self.version(&proposal.name, proposal.version).await?;
            match self.finish(&proposal, &version, now_ms).await {
                Ok(one) => moved.push(one),
                Err(error) => {
                    tracing::info!(proposal = proposal.id, %error, "a proposal that was left waits for a person");
                    self.store.skill_unclaim(proposal.id, Hold::Suggestion.as_str()).await?;
                }
            }
        }
        Ok(moved)
    }

    /// Writes a proposal's text into the library; whether the skill is a learned one.
    async fn write(&self, proposal: &SkillProposal, version: &SkillVersion, now_ms: i64) -> Result<bool> {
        // As the files are by now, not as they were when they were last looked at.
        let read = |library: &crate::Library| {
            library.reload();
            Ok(library.snapshot())
        };
        let bank = self.files(read).await?;
        let (name, text) = (version.name.clone(), version.text.clone());
        let states: HashMap<_, _> = self.store.skill_states().await?.into_iter().map(|s| (s.name.clone(), s)).collect();
        let base = match proposal.base {
            Some(base) => self.store.skill_version(base).await?.map(|base| base.hash),
            None => None,
        };
        let now = bank.get(&name).map(|skill| hex(skill.content_hash));
        // What the yes was said to is what is written over; a text that is there already was written before a crash.
        if now.as_ref().is_some_and(|now| *now != version.hash && base.as_ref() != Some(now)) {
            return Err(Error::Outdated { name });
        }
        if proposal.kind == "import" {
            // The folder was held under the text that it came with.
            let first = self.version(&proposal.name, proposal.version).await?.hash;
            if self.bring_in(&name, &first, &text, now_ms).await? {
                return Ok(bank.get(&name).is_none() || states.contains_key(&name));
            }
        }
        match bank.get(&version.name) {
            None => {
                self.files(move |library| library.add_text(&name, &text, false, now_ms)).await?;
                Ok(true)
            }
            Some(skill) => {
                let hash = hex(skill.content_hash);
                if hash == version.hash {
                    return Ok(states.contains_key(&version.name) || version.origin != "user");
                }
                let over = skill.content_hash;
                let written = self.files(move |library| library.rewrite_over(&name, over, &text, now_ms)).await;
                if let Err(Error::Library(crate::Error::Changed { name, .. })) = written {
                    return Err(Error::Outdated { name });
                }
                written?;
                Ok(states.get(&version.name).is_some_and(|state| state.hash == hash))
            }
        }
    }

    /// The same text for other agents, as a version of its own.
    async fn for_agents(&self, version: &SkillVersion, agents: &[String], now_ms: i64) -> Result<SkillVersion> {
        let list = agents.join(", ");
        let Ok(Some(text)) = crate::front_matter::set_metadata(&version.text, crate::AGENTS_KEY, &list) else {
            let problem = "its front matter cannot be narrowed to agents line by line: edit the proposal, with \
                           `metadata:` on a line of its own";
            return Err(refused(&version.name, problem.to_owned()));
        };
        if text == version.text {
            return Ok(version.clone());
        }
        self.another(version, text, now_ms).await
    }

    /// Another text of the same origin.
    async fn another(&self, version: &SkillVersion, text: String, now_ms: i64) -> Result<SkillVersion> {
        let skill = checked(&version.name, &text).map_err(|problem| refused(&version.name, problem))?;
        let new = NewSkillVersion {
            name: version.name.clone(),
            hash: hex(skill.content_hash),
            text,
            origin: version.origin.clone(),
            source: version.source.clone(),
            parent: version.parent,
            session: version.session.clone(),
            turns: version.turns.clone(),
            model: version.model.clone(),
            at_ms: now_ms,
        };
        let ids = self.store.skill_versions_add(vec![new]).await?;
        self.version(&version.name, ids.first().copied().unwrap_or_default()).await
    }

    /// A proposal is not wanted.
    pub async fn reject(&self, id: i64, now_ms: i64) -> Result<SkillProposal> {
        let proposal = self.waiting(id).await?;
        if !self.store.skill_decide(id, "rejected", None, now_ms).await? {
            return Err(Error::Decided { id, state: self.state_of(id).await? });
        }
        if proposal.kind == "import" {
            let hash = self.version(&proposal.name, proposal.version).await?.hash;
            self.files(move |library| library.let_go_of(&hash)).await?;
        }
        Ok(proposal)
    }

    /// Gives a waiting proposal another text, by a person's hand; its new findings count.
    pub async fn edit(&self, id: i64, text: &str, now_ms: i64) -> Result<SkillProposal> {
        let proposal = self.waiting(id).await?;
        let version = self.version(&proposal.name, proposal.version).await?;
        let skill = checked(&version.name, text).map_err(|problem| refused(&version.name, problem))?;
        let bank = self.library.snapshot();
        let lints = lint(&skill, &Against { bank: Some(&bank), ..Against::default() });
        let before = version.hash.clone();
        let version = self.another(&version, text.to_owned(), now_ms).await?;
        if proposal.kind == "import" {
            let after = version.hash.clone();
            self.files(move |library| library.hold_as(&before, &after)).await?;
        }
        let findings = serde_json::to_string(&lints).unwrap_or_else(|_| "[]".into());
        self.store.skill_decide(id, "waiting", Some((version.id, findings)), now_ms).await?;
        self.store.skill_proposal(id).await?.ok_or(Error::NoProposal(id))
    }

    /// One text of a skill.
    pub async fn version(&self, name: &str, version: i64) -> Result<SkillVersion> {
        let found = self.store.skill_version(version).await?.filter(|found| found.name == name);
        found.ok_or_else(|| Error::NoVersion { name: name.to_owned(), version })
    }

    /// Brings an older text of a skill back; without one, the text before the present one, or a learned skill goes. With
    /// `descendants`, what was learned from it goes, too.
    pub async fn revert(&self, name: &str, to: Option<i64>, descendants: bool, now_ms: i64) -> Result<Reverted> {
        let states = self.store.skill_states().await?;
        let state = states.iter().find(|state| state.name == name && is_used(state)).cloned();
        let hash = self.library.snapshot().get(name).map(|skill| hex(skill.content_hash));
        let versions = self.store.skill_versions(name).await?;
        let now = versions.iter().find(|version| Some(&version.hash) == hash.as_ref()).cloned();
        let mut done = Reverted::default();
        let heirs = match now.as_ref().or(versions.last()) {
            Some(of) => self.heirs(of, &states).await?,
            None => Vec::new(),
        };
        match (to, state) {
            // Out of use already: there is nothing to take back but what came of it.
            (None, None) if hash.is_none() && !versions.is_empty() => {}
            (None, Some(state)) => done.moved.push(self.retire(&state, "you took it back".into(), true, now_ms).await?),
            (to, state) => {
                let before = now.as_ref().and_then(|now| now.parent);
                let older = versions.iter().rev().find(|v| now.as_ref().is_none_or(|now| v.id < now.id)).map(|v| v.id);
                let missing = || Error::NoVersion { name: name.to_owned(), version: to.unwrap_or_default() };
                let to = self.version(name, to.or(before).or(older).ok_or_else(missing)?).await?;
                let agent = state.or_else(|| states.iter().find(|state| state.name == name).cloned());
                self.bring_back(&to, agent, now_ms).await?;
                let reason = format!("version {} is back", to.id);
                let state = if to.origin == "evolved" { "trial" } else { "user" };
                done.moved.push(Moved { name: name.to_owned(), state: state.into(), reason });
            }
        }
        done.descendants = heirs.iter().map(|state| state.name.clone()).collect();
        if descendants {
            for heir in heirs {
                done.moved.push(
                    self.retire(&heir, format!("{name}, which it was learned from, was taken back"), true, now_ms)
                        .await?,
                );
            }
        }
        self.refresh_measured().await?;
        Ok(done)
    }

    async fn bring_back(&self, to: &SkillVersion, state: Option<SkillState>, now_ms: i64) -> Result<()> {
        let (name, text) = (to.name.clone(), to.text.clone());
        let there = self.library.snapshot().get(&to.name).is_some();
        self.files(move |library| match there {
            true => library.rewrite(&name, &text, now_ms),
            false => library.add_text(&name, &text, false, now_ms),
        })
        .await?;
        if to.origin == "evolved" {
            let agent = state.map(|state| state.agent).unwrap_or_default();
            let (name, hash) = (to.name.clone(), to.hash.clone());
            let reason = "you brought it back".to_owned();
            let back =
                SkillState { name, state: "trial".into(), version: to.id, hash, agent, since_ms: now_ms, reason };
            self.store.skill_put_states(vec![back]).await?;
        } else {
            self.store.skill_forget_states(vec![to.name.clone()]).await?;
        }
        Ok(())
    }

    /// Learned skills in use that come from a text: made from it, or learned in turns that it was shown in.
    pub(super) async fn heirs(&self, of: &SkillVersion, states: &[SkillState]) -> Result<Vec<SkillState>> {
        let mut heirs = self.store.skill_descendants(of.id).await?;
        heirs.extend(self.store.skill_taught_under(&of.name).await?);
        let used = |state: &&SkillState| {
            is_used(state) && state.name != of.name && heirs.iter().any(|heir| heir.id == state.version)
        };
        Ok(states.iter().filter(used).cloned().collect())
    }
}

fn refused(name: &str, problem: String) -> Error {
    let problem = crate::Problem::error(std::path::Path::new(name), problem, "");
    Error::Library(crate::Error::Invalid { problems: vec![problem] })
}
