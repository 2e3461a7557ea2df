//! From a stretch of a conversation to a skill on trial: what the model is shown, and what becomes of its answer.

use std::io::Write as _;
use std::path::Path;

use serde::Serialize;
use serde_json::json;
use store::{DueSession, NewSkillVersion, SkillEvolution, SkillProposal, SkillState, SkillVersion};

use super::{Moved, Result, Workshop, is_used};
use crate::evolve::{Existing, Learned, Lesson, LessonTurn, Said, Source, read, revised, source};
use crate::lint::{Against, Flaw, Lint, lint};
use crate::parse::parse;
use crate::signals::reaction;
use crate::skill::{Skill, hex};
use crate::{Bank, Draft, Limits, Query};

/// The old file of what was learned.
pub const HISTORY: &str = "evolution_history.jsonl";
/// Of a longer history only the end is read.
const HISTORY_BYTES: u64 = 16 << 20;
/// Skills whose bodies the model sees, so that it can revise them.
const WITH_BODY: usize = 4;
/// Rejected proposals that a new one is compared with.
const UNWANTED: u32 = 200;
/// User turns that are looked at in one asking.
const TURNS: u32 = 60;

/// What set off an asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Enough turns of a session.
    Turns,
    /// A session's end.
    End,
    /// A person.
    Hand,
}

impl Trigger {
    /// Its name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::End => "end",
            Self::Hand => "hand",
        }
    }
}

/// Why a proposal waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// Its content comes from outside, or is dangerous.
    Quarantine,
    /// It would change a person's own file.
    Suggestion,
    /// The settings say so.
    Review,
    /// The agent has enough learned skills on trial.
    Full,
}

impl Hold {
    /// Its name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quarantine => "quarantine",
            Self::Suggestion => "suggestion",
            Self::Review => "review",
            Self::Full => "full",
        }
    }
}

/// A proposal as it was understood and checked.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// `create`, `revise` or `import`.
    pub kind: &'static str,
    /// The skill as it would be.
    pub skill: Skill,
    /// Its SKILL.md.
    pub text: String,
    /// What it revises.
    pub base: Option<SkillVersion>,
    /// Where its content comes from.
    pub source: Source,
    /// What the linter says.
    pub lints: Vec<Lint>,
    /// Why it waits for a person; `None` = it goes on trial at once.
    pub hold: Option<Hold>,
    /// Why, in the model's words.
    pub reason: String,
    /// Rows of the journal that taught it.
    pub rows: Vec<i64>,
}

/// What came of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Considered {
    /// `nothing`, `proposed`, `refused`, `malformed`.
    pub outcome: String,
    /// In words.
    pub note: String,
    /// Numbers of the proposals.
    pub proposals: Vec<i64>,
    /// Those that wait for a person.
    pub waiting: Vec<i64>,
    /// Skills that are on trial now.
    pub moved: Vec<Moved>,
}

impl Workshop {
    /// What is to be asked about a session's turns; `None` where there are none to be had.
    pub async fn lesson(&self, due: &DueSession) -> Result<Option<Lesson>> {
        let first = due.first.max(due.last.saturating_sub(TURNS - 1));
        let rows = self.store.skill_turn_rows(&due.session, first, due.last.saturating_add(1)).await?;
        let scores = self.store.skill_scores(&due.session, first, due.last).await?;
        let mut turns: Vec<LessonTurn> = Vec::new();
        for turn_no in first..=due.last {
            let of: Vec<_> = rows.iter().filter(|row| row.turn_no == turn_no).cloned().collect();
            let Some(user) = of.iter().find_map(|row| row.user_text.clone()) else { continue };
            let tools = self.tools(&of).await?;
            let next = rows.iter().filter(|row| row.turn_no == turn_no + 1).find_map(|row| row.user_text.clone());
            let (retries, regenerations) = super::observe::repeated(&of);
            turns.push(LessonTurn {
                turn_no,
                rows: of.iter().map(|row| row.id.0).collect(),
                user,
                answer: of.iter().rev().find_map(|row| row.answer_text.clone()).unwrap_or_default(),
                tools,
                reaction: next.as_deref().map(reaction).unwrap_or_default(),
                next,
                retries,
                regenerations,
                judge: scores.iter().find(|(of, _)| *of == turn_no).map(|(_, score)| *score),
                skills: self.shown_in(&of).await?,
            });
        }
        if turns.is_empty() {
            return Ok(None);
        }
        let skills = self.existing(&turns, &due.agent);
        let (session, agent) = (due.session.clone(), due.agent.clone());
        Ok(Some(Lesson { session, agent, turns, skills, most: self.rules.most_new }))
    }

    async fn shown_in(&self, rows: &[store::TurnRow]) -> Result<Vec<String>> {
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        let turn = self.store.turn(first.id).await?;
        let additions = turn.map(|turn| turn.summary.additions).unwrap_or_default();
        Ok(additions.into_iter().filter(|addition| addition.kind == "skill").map(|addition| addition.id).collect())
    }

    /// The skills that an agent can get, the nearest to what was said first; the nearest few with their bodies.
    fn existing(&self, turns: &[LessonTurn], agent: &str) -> Vec<Existing> {
        let bank = self.library.snapshot();
        let shown: Vec<&str> = turns.iter().flat_map(|turn| turn.skills.iter().map(String::as_str)).collect();
        let words: Vec<&str> = turns.iter().rev().map(|turn| turn.user.as_str()).collect();
        let text = words.join("\n");
        let limits = Limits { top_k: 12, task_specific_top_k: 24, floor: 0.1 };
        let near = bank.search(&Query { text: &text, agent: Some(agent), disabled: None }, &limits);
        let mut names: Vec<&str> = Vec::new();
        let all = shown.into_iter().chain(near.iter().map(|hit| hit.skill.name.as_str()));
        let rest = bank.skills().iter().filter(|s| bank.is_enabled(&s.name)).map(|s| s.name.as_str());
        for name in all.chain(rest) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let usable = names.iter().filter_map(|name| bank.get(name)).filter(|skill| skill.is_for(Some(agent)));
        let existing = |(at, skill): (usize, &std::sync::Arc<Skill>)| Existing {
            name: skill.name.clone(),
            description: skill.description.clone(),
            body: (at < WITH_BODY).then(|| skill.body.clone()),
        };
        usable.enumerate().map(existing).collect()
    }

    /// Reads an answer and checks what it proposes. `Err` says what the model is to put right; nothing is written.
    pub async fn candidates(&self, lesson: &Lesson, answer: &str) -> Result<Result<(Vec<Candidate>, String), String>> {
        let (learned, reason) = match read(answer, lesson.most) {
            Ok(read) => read,
            Err(misread) => return Ok(Err(misread.0)),
        };
        let mut candidates: Vec<Candidate> = Vec::new();
        for one in learned {
            match self.candidate(lesson, one).await? {
                Ok(candidate) if candidates.iter().any(|other| other.skill.name == candidate.skill.name) => {
                    return Ok(Err(format!("there are two proposals for {}", candidate.skill.name)));
                }
                Ok(candidate) => candidates.push(candidate),
                Err(problem) => return Ok(Err(problem)),
            }
        }
        Ok(Ok((candidates, reason)))
    }

    async fn candidate(&self, lesson: &Lesson, learned: Learned) -> Result<Result<Candidate, String>> {
        let bank = self.library.snapshot();
        match learned {
            Learned::Create { name, description, category, keywords, body, turns, reason } => {
                if bank.get(&name).is_some_and(|known| !known.is_for(Some(&lesson.agent))) {
                    return Ok(Err(format!("the name {name} is taken: choose another name")));
                }
                if bank.get(&name).is_some() {
                    return Ok(Err(format!("there is a skill {name} already: revise it, or choose another name")));
                }
                let agents = Some(lesson.agent.clone()).filter(|agent| !agent.is_empty()).into_iter().collect();
                let draft = Draft { name, description, category, keywords, agents, body, origin: "evolved".into() };
                let text = draft.text();
                let skill = match checked(&draft.name, &text) {
                    Ok(skill) if skill.description == draft.description.trim() && same(&skill.body, &draft.body) => {
                        skill
                    }
                    Ok(_) => return Ok(Err("the description or the body does not read back as it was written".into())),
                    Err(problem) => return Ok(Err(problem)),
                };
                self.judged(lesson, &bank, "create", skill, text, None, &draft.body, turns, reason).await
            }
            Learned::Revise { name, edits, turns, reason } => {
                let Some(old) = bank.get(&name).filter(|old| old.is_for(Some(&lesson.agent))) else {
                    return Ok(Err(format!("there is no skill {name}; create it, or revise one that there is")));
                };
                let body = match revised(&old.body, &edits) {
                    Ok(body) => body,
                    Err(problem) => return Ok(Err(format!("{name}: {problem}"))),
                };
                let path = old.path.clone();
                let whole = tokio::task::spawn_blocking(move || crate::disk::read_capped(&path)).await;
                let whole = whole.map_err(|_| super::Error::CutOff)?;
                let whole = String::from_utf8(whole.unwrap_or_default()).unwrap_or_default();
                let Ok(parts) = crate::front_matter::split(&whole) else {
                    return Ok(Err(format!("{name} cannot be read at the moment")));
                };
                let text = format!("{}\n{body}\n", &whole[..parts.body.start]);
                let skill = match checked(&name, &text) {
                    Ok(skill) => skill,
                    Err(problem) => return Ok(Err(problem)),
                };
                let hash = hex(old.content_hash);
                let base = self.store.skill_versions(&name).await?.into_iter().find(|version| version.hash == hash);
                let new: Vec<&str> = body.lines().filter(|line| !old.body.contains(line.trim())).collect();
                let new = new.join("\n");
                self.judged(lesson, &bank, "revise", skill, text, base, &new, turns, reason).await
            }
        }
    }

    /// Lints a skill, finds out where its content comes from, and whether it has to wait for a person. `new` is the part
    /// of it that was not there before.
    #[expect(clippy::too_many_arguments, reason = "one call, one place that knows all of it")]
    async fn judged(
        &self,
        lesson: &Lesson,
        bank: &Bank,
        kind: &'static str,
        skill: Skill,
        text: String,
        base: Option<SkillVersion>,
        new: &str,
        turns: Vec<u32>,
        reason: String,
    ) -> Result<Result<Candidate, String>> {
        let said = lesson.said();
        let spoken = said.spoken();
        // What stood in the skill before counts as said.
        let known = base.as_ref().map(|base| format!("{spoken}\n{}", base.text));
        let conversation = Some(known.as_deref().unwrap_or(&spoken));
        let (user, tools) = (known_to_user(&said, base.as_ref()), said.tool.join("\n"));
        let against =
            Against { bank: Some(bank), agent: Some(&lesson.agent), conversation, tools: Some((&user, &tools)) };
        let lints = lint(&skill, &against);
        if let Some(put_right) = lints.iter().find(|lint| !lint.flaw.is_dangerous()) {
            return Ok(Err(match put_right.flaw {
                Flaw::Duplicate => format!("{}: revise that one, or answer `nothing`", put_right.message),
                _ => format!("{}: {}", skill.name, put_right.message),
            }));
        }
        let source = source(&format!("{}\n{new}", if kind == "create" { &skill.description } else { "" }), &said);
        let states = self.store.skill_states().await?;
        let learned = states.iter().find(|state| state.name == skill.name && is_used(state));
        // Without a state it is a person's: written, changed or taken over by one.
        let theirs =
            kind == "revise" && base.as_ref().is_none_or(|base| learned.is_none_or(|state| state.hash != base.hash));
        // What one agent was taught is not said to others before a person has seen it.
        let others = kind == "revise" && learned.is_some_and(|state| state.agent != lesson.agent);
        if kind == "create"
            && let Some(name) = self.unwanted(&skill, &lesson.agent, &states).await?
        {
            return Ok(Err(format!("`{name}` said the same and was not wanted, or waits already: answer `nothing`")));
        }
        let hold = if !lints.is_empty() || source.is_foreign() {
            Some(Hold::Quarantine)
        } else if theirs {
            Some(Hold::Suggestion)
        } else if self.rules.review || others {
            Some(Hold::Review)
        } else if kind == "create" && self.is_full(&lesson.agent, &states) {
            Some(Hold::Full)
        } else {
            None
        };
        let rows = lesson.rows(&turns);
        Ok(Ok(Candidate { kind, skill, text, base, source, lints, hold, reason, rows }))
    }

    fn is_full(&self, agent: &str, states: &[SkillState]) -> bool {
        let trials = states.iter().filter(|state| state.agent == agent && state.state == "trial").count();
        trials >= self.rules.most_active
    }

    /// The name of a skill of this agent that says the same and that was rejected, taken back or dropped before.
    async fn unwanted(&self, skill: &Skill, agent: &str, states: &[SkillState]) -> Result<Option<String>> {
        let mut rejected = self.store.skill_proposals(Some("rejected"), UNWANTED).await?;
        rejected.extend(self.store.skill_proposals(Some("waiting"), UNWANTED).await?);
        let rejected = rejected.into_iter().filter(|one| one.agent == agent).map(|one| one.version);
        let retired = states.iter().filter(|state| state.state == "retired" && state.agent == agent);
        let versions: Vec<i64> = rejected.chain(retired.map(|state| state.version)).collect();
        let mut unwanted = Vec::new();
        for version in versions {
            if let Some(version) = self.store.skill_version(version).await?
                && let Ok(skill) = checked(&version.name, &version.text)
            {
                unwanted.push(skill);
            }
        }
        let skill = skill.clone();
        let like = tokio::task::spawn_blocking(move || crate::lint::most_like(&skill, unwanted.iter())).await;
        let like = like.map_err(|_| super::Error::CutOff)?;
        Ok(like.filter(|(_, likeness)| *likeness >= crate::lint::ALIKE).map(|(name, _)| name))
    }

    /// Writes down what was asked and answered, and puts on trial what need not wait. `answer` is as it came.
    pub async fn consider(
        &self,
        lesson: &Lesson,
        trigger: Trigger,
        model: &str,
        answer: &str,
        found: Result<(Vec<Candidate>, String), String>,
        now_ms: i64,
    ) -> Result<Considered> {
        let (outcome, note, candidates) = match found {
            Ok((candidates, reason)) if candidates.is_empty() => ("nothing", reason, candidates),
            Ok((candidates, _)) => {
                let names: Vec<_> = candidates.iter().map(|c| format!("{} {}", c.kind, c.skill.name)).collect();
                ("proposed", names.join(", "), candidates)
            }
            Err(problem) => {
                (if read(answer, lesson.most).is_ok() { "refused" } else { "malformed" }, problem, Vec::new())
            }
        };
        let mut versions = Vec::new();
        for candidate in &candidates {
            versions.push(NewSkillVersion {
                name: candidate.skill.name.clone(),
                hash: hex(candidate.skill.content_hash),
                text: candidate.text.clone(),
                origin: "evolved".into(),
                source: candidate.source.as_str().into(),
                parent: candidate.base.as_ref().map(|base| base.id),
                session: Some(lesson.session.clone()),
                turns: candidate.rows.clone(),
                model: Some(model.to_owned()),
                at_ms: now_ms,
            });
        }
        let ids = self.store.skill_versions_add(versions).await?;
        let proposals = candidates.iter().zip(&ids).map(|(candidate, version)| SkillProposal {
            at_ms: now_ms,
            kind: candidate.kind.into(),
            name: candidate.skill.name.clone(),
            version: *version,
            base: candidate.base.as_ref().map(|base| base.id),
            agent: lesson.agent.clone(),
            state: "waiting".into(),
            hold: candidate.hold.map(|hold| hold.as_str().into()),
            findings: serde_json::to_string(&candidate.lints).unwrap_or_else(|_| "[]".into()),
            reason: candidate.reason.clone(),
            ..SkillProposal::default()
        });
        let (first, last) =
            (lesson.turns.first().map_or(0, |t| t.turn_no), lesson.turns.last().map_or(0, |t| t.turn_no));
        let asked = SkillEvolution {
            at_ms: now_ms,
            session: lesson.session.clone(),
            agent: lesson.agent.clone(),
            trigger: trigger.as_str().into(),
            first_turn: first,
            last_turn: last,
            model: model.to_owned(),
            reply: answer.to_owned(),
            outcome: outcome.into(),
            note: note.clone(),
            ..SkillEvolution::default()
        };
        let proposals = self.store.skill_evolved(asked, proposals.collect()).await?;
        if let Err(error) = self.note_in_history(lesson, &candidates, now_ms).await {
            tracing::warn!(%error, "what was learned is not in the history file");
        }
        let mut done =
            Considered { outcome: outcome.into(), note, proposals: proposals.clone(), ..Considered::default() };
        for (candidate, id) in candidates.iter().zip(proposals) {
            match candidate.hold {
                Some(_) => done.waiting.push(id),
                None => match self.take(id, None, now_ms).await {
                    Ok(moved) => done.moved.push(moved),
                    // It waits for a person now, who sees what it says.
                    Err(error @ (super::Error::Outdated { .. } | super::Error::Library(_))) => {
                        tracing::info!(proposal = id, %error, "a proposal is not taken by itself");
                        done.waiting.push(id);
                    }
                    // Somebody was quicker.
                    Err(super::Error::Decided { .. }) => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(done)
    }

    /// A line in the file that the Python MetaClaw keeps, in its form.
    async fn note_in_history(&self, lesson: &Lesson, candidates: &[Candidate], now_ms: i64) -> Result<()> {
        let at = jiff::Timestamp::from_millisecond(now_ms).unwrap_or_default().to_zoned(self.rules.zone.clone());
        let skill = |candidate: &Candidate| {
            json!({"name": candidate.skill.name, "category": candidate.skill.category,
                   "description": candidate.skill.description, "content": candidate.skill.body})
        };
        let line = json!({
            "timestamp": at.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
            "num_failures_analyzed": lesson.turns.len(),
            "num_skills_generated": candidates.len(),
            "skill_names": candidates.iter().map(|candidate| candidate.skill.name.as_str()).collect::<Vec<_>>(),
            "skills": candidates.iter().map(skill).collect::<Vec<_>>(),
            // The user's words stay where they can be forgotten: in the journal.
            "failure_prompts": [],
        });
        let path = self.library.dir().join(HISTORY);
        let file = path.clone();
        let written = tokio::task::spawn_blocking(move || {
            let mut options = std::fs::OpenOptions::new();
            options.append(true).create(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options.open(&file)?.write_all(format!("{line}\n").as_bytes())
        });
        let written = written.await.map_err(|_| super::Error::CutOff)?;
        written.map_err(|source| super::Error::File { path, source })
    }
}

/// The records of a history file, oldest first. Lines that are no JSON are passed over.
pub fn history(path: &Path) -> std::io::Result<Vec<serde_json::Value>> {
    use std::io::{BufRead as _, Seek as _};
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    if length > HISTORY_BYTES {
        file.seek(std::io::SeekFrom::Start(length - HISTORY_BYTES))?;
    }
    let lines = std::io::BufReader::new(file).split(b'\n');
    Ok(lines.map_while(Result::ok).filter_map(|line| serde_json::from_slice(&line).ok()).collect())
}

/// The text as a skill of this name, or why it is none.
pub(super) fn checked(name: &str, text: &str) -> Result<Skill, String> {
    let parsed = parse(Path::new("SKILL.md"), text.as_bytes());
    match parsed.skill {
        Some(skill) if skill.name == name => Ok(skill),
        Some(skill) => Err(format!("the text's name is {}, not {name}", skill.name)),
        None => {
            let errors: Vec<_> = parsed.problems.iter().filter(|p| p.is_error()).map(|p| p.message.clone()).collect();
            Err(errors.join("; "))
        }
    }
}

/// What addresses and commands may come from without doubt: the user's words, and the text that is revised.
fn known_to_user(said: &Said, base: Option<&SkillVersion>) -> String {
    let mut user = said.user.join("\n");
    if let Some(base) = base {
        user.push('\n');
        user.push_str(&base.text);
    }
    user
}

fn same(read: &str, written: &str) -> bool {
    read == written.replace("\r\n", "\n").trim()
}
