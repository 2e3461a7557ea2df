//! The library and the store in step: every text of every skill is kept, what a person has changed is theirs, and the proxy
//! knows which skills are measured.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use store::{Generation, NewSkillVersion, SkillState, SkillVersion};

use super::weigh::GOING;
use super::{Moved, Result, Workshop, is_used};
use crate::generation::{Generations, Set};
use crate::skill::{Origin, Skill, hex};

/// A learned skill as lists show it.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Where it stands.
    pub state: SkillState,
    /// Its text's number, and where it comes from.
    pub version: SkillVersion,
}

impl Workshop {
    /// Writes down the texts that the library has, and sees what a person has changed or removed. `force`: also where the
    /// library is as it was.
    pub async fn sync(&self, now_ms: i64, force: bool) -> Result<Vec<Moved>> {
        let states: HashMap<String, SkillState> =
            self.store.skill_states().await?.into_iter().map(|state| (state.name.clone(), state)).collect();
        // After the states: a skill that is taken meanwhile is then in the library without a state, and not the other way round.
        let bank = self.library.snapshot();
        let all = fingerprint(bank.skills(), self.rules.control_share);
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !force && seen == Some(all) {
            return Ok(Vec::new());
        }
        self.keep_texts(bank.skills(), &states, now_ms).await?;
        let mut moved = Vec::new();
        let (mut theirs, mut changed) = (Vec::new(), Vec::new());
        for skill in bank.skills() {
            let hash = hex(skill.content_hash);
            match states.get(&skill.name) {
                Some(state) if state.state == GOING && state.hash == hash => {
                    moved.push(self.let_go(state, now_ms).await?);
                }
                Some(state) if state.hash != hash => {
                    // A learned one that is back, or an older text of it: as it was. Another text: a person wrote it.
                    let known = self.store.skill_versions(&skill.name).await?;
                    let known = known.into_iter().find(|version| version.hash == hash);
                    if let Some(version) = known.filter(|version| version.origin == "evolved") {
                        changed.push(SkillState {
                            state: "trial".into(),
                            version: version.id,
                            hash,
                            since_ms: now_ms,
                            reason: "the file was put back".into(),
                            ..state.clone()
                        });
                    } else {
                        theirs.push(skill.name.clone());
                        moved.push(Moved {
                            name: skill.name.clone(),
                            state: "user".into(),
                            reason: "you have changed it: it is yours, and is no longer measured or changed".into(),
                        });
                    }
                }
                Some(state) if state.state == "retired" => {
                    let reason = "the file was brought back".to_owned();
                    changed.push(SkillState { state: "trial".into(), since_ms: now_ms, reason, ..state.clone() });
                }
                _ => {}
            }
        }
        let gone = states.values().filter(|state| state.state != "retired" && bank.get(&state.name).is_none());
        for state in gone {
            let reason = match state.state.as_str() {
                GOING => state.reason.clone(),
                _ => "the file was removed".to_owned(),
            };
            let retired =
                SkillState { state: "retired".into(), since_ms: now_ms, reason: reason.clone(), ..state.clone() };
            changed.push(retired);
            moved.push(Moved { name: state.name.clone(), state: "retired".into(), reason });
        }
        if !theirs.is_empty() {
            self.store.skill_forget_states(theirs).await?;
        }
        if !changed.is_empty() {
            self.store.skill_put_states(changed).await?;
        }
        self.refresh_measured().await?;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(all);
        // For the first time in this process: what the last one has left is taken up again.
        if seen.is_none() {
            moved.extend(self.resume(now_ms).await?);
        }
        Ok(moved)
    }

    pub(super) async fn keep_texts(
        &self,
        skills: &[Arc<Skill>],
        states: &HashMap<String, SkillState>,
        now_ms: i64,
    ) -> Result<()> {
        let read = skills.to_vec();
        let texts = tokio::task::spawn_blocking(move || {
            read.iter()
                .filter_map(|skill| {
                    let bytes = crate::disk::read_capped(&skill.path).ok()?;
                    // What was written since the library was read is kept the next time.
                    (xxhash_rust::xxh3::xxh3_128(&bytes) == skill.content_hash)
                        .then(|| (Arc::clone(skill), String::from_utf8_lossy(&bytes).into_owned()))
                })
                .collect::<Vec<_>>()
        });
        let texts = texts.await.map_err(|_| super::Error::CutOff)?;
        let version = |(skill, text): (Arc<Skill>, String)| NewSkillVersion {
            hash: hex(skill.content_hash),
            text,
            origin: if skill.origin == Origin::Builtin { "builtin" } else { "user" }.into(),
            source: if skill.origin == Origin::Builtin { "" } else { "user" }.into(),
            parent: states.get(&skill.name).filter(|state| state.hash != hex(skill.content_hash)).map(|s| s.version),
            name: skill.name.clone(),
            at_ms: now_ms,
            ..NewSkillVersion::default()
        };
        self.store.skill_versions_add(texts.into_iter().map(version).collect()).await?;
        Ok(())
    }

    /// Tells the library which skills are measured now.
    pub async fn refresh_measured(&self) -> Result<()> {
        let bank = self.library.snapshot();
        let share = self.rules.control_share.clamp(0.0, 0.5);
        let states = self.store.skill_states().await?;
        let there = |state: &SkillState| bank.get(&state.name).is_some_and(|s| hex(s.content_hash) == state.hash);
        let share_of = |state: &SkillState| match state.state.as_str() {
            // Held out of every turn until its file is gone.
            GOING => Some(1.0),
            _ => is_used(state).then_some(share),
        };
        let measured = states.iter().filter(|state| there(state));
        let measured = measured.filter_map(|state| Some((state.name.clone(), share_of(state)?)));
        self.library.measure(measured.collect());
        Ok(())
    }

    /// Learned skills, and where they stand.
    pub async fn standing(&self) -> Result<Vec<Standing>> {
        let mut all = Vec::new();
        for state in self.store.skill_states().await? {
            if let Some(version) = self.store.skill_version(state.version).await? {
                all.push(Standing { state, version });
            }
        }
        Ok(all)
    }

    /// Goes on counting generations where the last run stopped.
    pub async fn begin_count(&self, off: std::collections::HashSet<String>) -> Result<()> {
        let (sets, stamped) = self.store.skill_generations().await?;
        let sets = sets.into_iter().map(|g| (g.agent, Set { number: g.number, fingerprint: g.fingerprint }));
        self.library.begin_count(&Generations::new(sets, stamped), off);
        self.keep_generations(None).await?;
        Ok(())
    }

    /// Writes the generations down if they are others than `known`; gives back how they are.
    pub async fn keep_generations(&self, known: Option<&Generations>) -> Result<Option<Arc<Generations>>> {
        let Some(now) = self.library.generations().filter(|now| known != Some(&**now)) else { return Ok(None) };
        let sets = now.sets().map(|(agent, set)| Generation {
            agent: agent.to_owned(),
            number: set.number,
            fingerprint: set.fingerprint.clone(),
        });
        self.store.skill_put_generations(sets.collect()).await?;
        Ok(Some(now))
    }
}

fn fingerprint(skills: &[Arc<Skill>], control_share: f32) -> u64 {
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    hash.update(&control_share.to_le_bytes());
    for skill in skills {
        hash.update(skill.name.as_bytes());
        hash.update(&skill.content_hash.to_le_bytes());
    }
    hash.digest()
}
