//! Skills from other libraries: looked through, held, and used only after a person has said yes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use store::{NewSkillVersion, SkillProposal};

use super::{Hold, Result, Workshop};
use crate::Problem;
use crate::evolve::Source;
use crate::lint::{Against, Flaw, Lint, lint};
use crate::skill::{Skill, hex};

/// What an import brought.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Offered {
    /// Numbers of the proposals, one for each skill.
    pub proposals: Vec<i64>,
    /// Names of the skills.
    pub names: Vec<String>,
    /// What was not taken, and what to look at.
    pub problems: Vec<Problem>,
}

impl Workshop {
    /// Offers the skills of a folder or a zip; each waits for a person.
    pub async fn offer(&self, path: &Path, now_ms: i64) -> Result<Offered> {
        let path = path.to_owned();
        let waiting = self.store.skill_proposals(Some("waiting"), u32::MAX).await?;
        let mut held_by = HashMap::new();
        for one in waiting.iter().filter(|one| one.kind == "import") {
            held_by.insert(self.version(&one.name, one.version).await?.hash, one.id);
        }
        let (found, mut problems) = self
            .files(move |library| {
                let source = library.source(&path, now_ms)?;
                let (found, mut problems) = library.found_in(&source.folder)?;
                let mut held = Vec::new();
                for (skill, folder) in found {
                    let hash = hex(skill.content_hash);
                    // What somebody is about to say yes to is not exchanged.
                    if let Some(id) = held_by.get(&hash) {
                        let message = format!("this very text waits already, as proposal {id}");
                        problems.push(Problem::error(&skill.path, message, "decide that one first"));
                        continue;
                    }
                    library.hold(&folder, &hash)?;
                    let files = library.files_beside(&hash);
                    let bytes =
                        crate::disk::read_capped(&skill.path).map_err(crate::error::io("reading", &skill.path))?;
                    held.push((skill, String::from_utf8_lossy(&bytes).into_owned(), files));
                }
                Ok((held, problems))
            })
            .await?;
        let bank = self.library.snapshot();
        let (mut versions, mut proposals, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (skill, text, files) in found {
            let mut lints = lint(&skill, &Against { bank: Some(&bank), ..Against::default() });
            if !files.is_empty() {
                let message = format!("it brings files that an agent may read or run: {}", files.join(", "));
                lints.push(Lint::new(Flaw::Files, message));
            }
            problems.extend(lints.iter().map(|lint| lint.problem(&skill.path)));
            names.push(skill.name.clone());
            // What it would take the place of.
            let base = match bank.get(&skill.name) {
                Some(known) => self.text_now(known, now_ms).await?,
                None => None,
            };
            proposals.push(SkillProposal {
                at_ms: now_ms,
                kind: "import".into(),
                name: skill.name.clone(),
                base,
                state: "waiting".into(),
                hold: Some(Hold::Quarantine.as_str().into()),
                findings: serde_json::to_string(&lints).unwrap_or_else(|_| "[]".into()),
                reason: "from another library".into(),
                ..SkillProposal::default()
            });
            versions.push(NewSkillVersion {
                hash: hex(skill.content_hash),
                name: skill.name,
                text,
                origin: "import".into(),
                source: Source::Import.as_str().into(),
                at_ms: now_ms,
                ..NewSkillVersion::default()
            });
        }
        let ids = self.store.skill_versions_add(versions).await?;
        for (proposal, id) in proposals.iter_mut().zip(ids) {
            proposal.version = id;
        }
        Ok(Offered { proposals: self.store.skill_propose(proposals).await?, names, problems })
    }

    /// The number of the text that a skill has now; `None` where its file says something else by now.
    async fn text_now(&self, skill: &Arc<Skill>, now_ms: i64) -> Result<Option<i64>> {
        let states = self.store.skill_states().await?.into_iter().map(|state| (state.name.clone(), state)).collect();
        self.keep_texts(std::slice::from_ref(skill), &states, now_ms).await?;
        let versions = self.store.skill_versions(&skill.name).await?;
        let hash = hex(skill.content_hash);
        Ok(versions.into_iter().rev().find(|version| version.hash == hash).map(|version| version.id))
    }

    /// Brings a held folder into the library, with the text that was agreed to; false if none is held.
    pub(super) async fn bring_in(&self, name: &str, first: &str, text: &str, now_ms: i64) -> Result<bool> {
        let (name, first, text) = (name.to_owned(), first.to_owned(), text.to_owned());
        self.files(move |library| {
            let held = library.held(&first);
            if !held.is_dir() {
                return Ok(false);
            }
            let file = held.join("SKILL.md");
            crate::disk::write_atomic(&file, text.as_bytes()).map_err(crate::error::io("writing", &file))?;
            let done = library.import(&held, true, now_ms)?;
            let _ = std::fs::remove_dir_all(&held);
            Ok(done.names.contains(&name))
        })
        .await
    }
}
