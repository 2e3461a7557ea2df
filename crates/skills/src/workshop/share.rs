//! Skills from other libraries: looked through, held, and used only after a person has said yes.

use std::path::Path;

use serde::Serialize;
use store::{NewSkillVersion, SkillProposal};

use super::{Hold, Result, Workshop};
use crate::Problem;
use crate::evolve::Source;
use crate::lint::{Against, lint};
use crate::skill::hex;

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
        let (found, mut problems) = self
            .files(move |library| {
                let source = library.source(&path, now_ms)?;
                let (found, problems) = library.found_in(&source.folder)?;
                let mut held = Vec::new();
                for (skill, folder) in found {
                    library.hold(&folder, &hex(skill.content_hash))?;
                    let bytes =
                        crate::disk::read_capped(&skill.path).map_err(crate::error::io("reading", &skill.path))?;
                    held.push((skill, String::from_utf8_lossy(&bytes).into_owned()));
                }
                Ok((held, problems))
            })
            .await?;
        let bank = self.library.snapshot();
        let (mut versions, mut proposals, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (skill, text) in found {
            let lints = lint(&skill, &Against { bank: Some(&bank), conversation: None });
            problems.extend(lints.iter().map(|lint| lint.problem(&skill.path)));
            names.push(skill.name.clone());
            proposals.push(SkillProposal {
                at_ms: now_ms,
                kind: "import".into(),
                name: skill.name.clone(),
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
