//! Skills that are learned: what was proposed and why, decisions, every text of a skill, what it does, and in and out.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use skills::workshop::Moved;
use store::{SkillEvolution, SkillProposal, SkillVersion};
use utoipa::{IntoParams, ToSchema};

use super::{Asked, Body, Problem, SkillFinding, store_problem};
use crate::core::Core;
use crate::skills_learn::workshop_problem;

/// A skill that was proposed, or a change of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Proposal {
    /// Its number.
    pub id: i64,
    /// When, ms since 1970.
    pub at_ms: i64,
    /// `create`, `revise` or `import`.
    pub kind: String,
    /// The skill's name.
    pub name: String,
    /// The agent it is for; empty = all.
    pub agent: String,
    /// `waiting`, `taken` or `rejected`.
    pub state: String,
    /// Why it waits: `quarantine` (its content comes from outside, or is dangerous), `suggestion` (the file is yours),
    /// `review` (the settings want it), `full`.
    pub hold: Option<String>,
    /// Why, in the model's words.
    pub reason: String,
    /// When it was decided, ms since 1970.
    pub decided_ms: Option<i64>,
}

impl From<SkillProposal> for Proposal {
    fn from(of: SkillProposal) -> Self {
        Self {
            id: of.id,
            at_ms: of.at_ms,
            kind: of.kind,
            name: of.name,
            agent: of.agent,
            state: of.state,
            hold: of.hold,
            reason: of.reason,
            decided_ms: of.decided_ms,
        }
    }
}

/// A proposal with everything that is known about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProposalDetail {
    /// What lists show.
    #[serde(flatten)]
    pub proposal: Proposal,
    /// The SKILL.md as it would be.
    pub text: String,
    /// What changes, as a unified diff.
    pub diff: String,
    /// What the linter says.
    pub findings: Vec<SkillFinding>,
    /// Whose words it is made of: `user`, `assistant`, `tool` or `import`.
    pub source: String,
    /// The session it comes from.
    pub session: Option<String>,
    /// The rows of the journal that taught it.
    pub turns: Vec<i64>,
    /// The model that wrote it.
    pub model: Option<String>,
    /// What the model said, as it came.
    pub reply: Option<String>,
}

/// Which proposals.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ProposalsQuery {
    /// `waiting`, `taken` or `rejected`; absent = all.
    pub state: Option<String>,
    /// At most so many; 50 if absent.
    pub limit: Option<u32>,
}

/// A learned skill that went from one state to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillMoved {
    /// Its name.
    pub name: String,
    /// `trial`, `active`, `retired`, or `user`: it is yours.
    pub state: String,
    /// Why.
    pub reason: String,
}

impl From<Moved> for SkillMoved {
    fn from(of: Moved) -> Self {
        Self { name: of.name, state: of.state, reason: of.reason }
    }
}

/// Proposals, newest first.
#[utoipa::path(get, path = "/api/v1/skills-proposals", operation_id = "skillProposals", tag = "learning",
    params(ProposalsQuery), responses((status = 200, body = Vec<Proposal>), (status = "default", body = Problem)))]
pub(super) async fn proposals(
    State(core): State<Core>,
    Asked(query): Asked<ProposalsQuery>,
) -> Result<Json<Vec<Proposal>>, Problem> {
    let Some(workshop) = core.workshop().await? else { return Ok(Json(Vec::new())) };
    let limit = query.limit.unwrap_or(50).clamp(1, 1000);
    let found = workshop.store().skill_proposals(query.state.as_deref(), limit).await.map_err(store_problem)?;
    Ok(Json(found.into_iter().map(Proposal::from).collect()))
}

/// One proposal, whole.
#[utoipa::path(get, path = "/api/v1/skills-proposals/{id}", operation_id = "skillProposal", tag = "learning",
    params(("id" = i64, Path, description = "Number of the proposal")),
    responses((status = 200, body = ProposalDetail), (status = "default", body = Problem)))]
pub(super) async fn proposal(State(core): State<Core>, Path(id): Path<i64>) -> Result<Json<ProposalDetail>, Problem> {
    let missing = || workshop_problem(&skills::workshop::Error::NoProposal(id));
    let workshop = core.workshop().await?.ok_or_else(missing)?;
    let store = workshop.store();
    let found = store.skill_proposal(id).await.map_err(store_problem)?.ok_or_else(missing)?;
    let version = workshop.version(&found.name, found.version).await.map_err(|error| workshop_problem(&error))?;
    let before = match found.base {
        Some(base) => store.skill_version(base).await.map_err(store_problem)?.map(|base| base.text),
        None => None,
    };
    let evolution = match found.evolution {
        Some(evolution) => store.skill_evolution(evolution).await.map_err(store_problem)?,
        None => None,
    };
    let lints: Vec<skills::Lint> = serde_json::from_str(&found.findings).unwrap_or_default();
    let file = std::path::PathBuf::from(&found.name).join("SKILL.md");
    Ok(Json(ProposalDetail {
        diff: unified(before.as_deref().unwrap_or_default(), &version.text),
        findings: lints.iter().map(|lint| lint.problem(&file).into()).collect(),
        source: version.source,
        session: version.session,
        turns: version.turns,
        model: version.model,
        reply: evolution.map(|evolution| evolution.reply),
        text: version.text,
        proposal: found.into(),
    }))
}

/// What changes from one text to another; empty if nothing does.
fn unified(before: &str, after: &str) -> String {
    similar::TextDiff::from_lines(before, after).unified_diff().context_radius(3).to_string()
}

/// A text by a person's hand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProposalText {
    /// The whole SKILL.md; its name must stay.
    pub text: String,
}

/// Gives a waiting proposal another text.
#[utoipa::path(put, path = "/api/v1/skills-proposals/{id}", operation_id = "skillProposalEdit", tag = "learning",
    params(("id" = i64, Path, description = "Number of the proposal")), request_body = ProposalText,
    responses((status = 200, body = Proposal), (status = "default", body = Problem)))]
pub(super) async fn edit(
    State(core): State<Core>,
    Path(id): Path<i64>,
    Body(text): Body<ProposalText>,
) -> Result<Json<Proposal>, Problem> {
    let workshop = core.workshop_to_change().await?;
    let edited =
        workshop.edit(id, &text.text, core.clock().now_ms()).await.map_err(|error| workshop_problem(&error))?;
    core.proposals_changed("edited", &[id], std::slice::from_ref(&edited.name));
    Ok(Json(edited.into()))
}

/// For whom a skill is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProposalApproval {
    /// The agents; empty = all, absent = as it says.
    #[serde(default)]
    pub agents: Option<Vec<String>>,
}

/// Says yes to a proposal: a new skill goes on trial, a suggestion is made in your file.
#[utoipa::path(post, path = "/api/v1/skills-proposals/{id}/approve", operation_id = "skillProposalApprove",
    tag = "learning", params(("id" = i64, Path, description = "Number of the proposal")),
    request_body = ProposalApproval,
    responses((status = 200, body = SkillMoved), (status = "default", body = Problem)))]
pub(super) async fn approve(
    State(core): State<Core>,
    Path(id): Path<i64>,
    Body(approval): Body<ProposalApproval>,
) -> Result<Json<SkillMoved>, Problem> {
    let workshop = core.workshop_to_change().await?;
    let moved = workshop.take(id, approval.agents.as_deref(), core.clock().now_ms()).await;
    let moved = moved.map_err(|error| workshop_problem(&error))?;
    core.skills_moved(std::slice::from_ref(&moved));
    let back = format!("metaclaw skills revert {}", moved.name);
    decided(&core, format!("Approved {}: {}.", moved.name, moved.reason), moved.name.clone(), Some(back)).await;
    Ok(Json(moved.into()))
}

/// Writes a decision into the log of changes. It counts, written down or not.
async fn decided(core: &Core, message: String, name: String, back: Option<String>) {
    let core = core.clone();
    let written = tokio::task::spawn_blocking(move || core.note_decision(message, &name, back)).await;
    if let Ok(Err(problem)) = written {
        tracing::warn!(problem = problem.message, "a decision is not in the log of changes");
    }
}

/// Says no to a proposal.
#[utoipa::path(post, path = "/api/v1/skills-proposals/{id}/reject", operation_id = "skillProposalReject",
    tag = "learning", params(("id" = i64, Path, description = "Number of the proposal")),
    responses((status = 200, body = Proposal), (status = "default", body = Problem)))]
pub(super) async fn reject(State(core): State<Core>, Path(id): Path<i64>) -> Result<Json<Proposal>, Problem> {
    let workshop = core.workshop_to_change().await?;
    let rejected = workshop.reject(id, core.clock().now_ms()).await.map_err(|error| workshop_problem(&error))?;
    core.skills_moved(&[]);
    core.proposals_changed("rejected", &[id], std::slice::from_ref(&rejected.name));
    decided(&core, format!("Rejected proposal {id} for {}.", rejected.name), rejected.name.clone(), None).await;
    Ok(Json(Proposal { state: "rejected".to_owned(), ..Proposal::from(rejected) }))
}

/// What to look through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EvolveAsk {
    /// The session; absent = the last one.
    #[serde(default)]
    pub session: Option<String>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Evolved {
    /// The session.
    pub session: String,
    /// `nothing`, `proposed`, `refused` (what was proposed cannot be used) or `malformed`.
    pub outcome: String,
    /// In words.
    pub note: String,
    /// Numbers of the proposals.
    pub proposals: Vec<i64>,
    /// Those that wait for you.
    pub waiting: Vec<i64>,
    /// Skills that are on trial now.
    pub moved: Vec<SkillMoved>,
}

/// Looks through a session for something to learn. Asks the model, so it takes its time.
#[utoipa::path(post, path = "/api/v1/skills-evolve", operation_id = "skillsEvolve", tag = "learning",
    request_body = EvolveAsk, responses((status = 200, body = Evolved), (status = "default", body = Problem)))]
pub(super) async fn evolve(State(core): State<Core>, Body(ask): Body<EvolveAsk>) -> Result<Json<Evolved>, Problem> {
    let (session, done) = core.evolve_by_hand(ask.session.as_deref()).await?;
    let done = done.unwrap_or_default();
    Ok(Json(Evolved {
        session,
        outcome: if done.outcome.is_empty() { "nothing".to_owned() } else { done.outcome },
        note: done.note,
        proposals: done.proposals,
        waiting: done.waiting,
        moved: done.moved.into_iter().map(SkillMoved::from).collect(),
    }))
}

/// One time the model was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Evolution {
    /// Its number.
    pub id: i64,
    /// When, ms since 1970.
    pub at_ms: i64,
    /// About which session.
    pub session: String,
    /// Whose.
    pub agent: String,
    /// `turns`, `end` or `hand`.
    pub trigger: String,
    /// The first user turn it saw.
    pub first_turn: u32,
    /// The last one.
    pub last_turn: u32,
    /// The model.
    pub model: String,
    /// What it said, as it came.
    pub reply: String,
    /// `nothing`, `proposed`, `refused` or `malformed`.
    pub outcome: String,
    /// Why, in words.
    pub note: String,
}

impl From<SkillEvolution> for Evolution {
    fn from(of: SkillEvolution) -> Self {
        Self {
            id: of.id,
            at_ms: of.at_ms,
            session: of.session,
            agent: of.agent,
            trigger: of.trigger,
            first_turn: of.first_turn,
            last_turn: of.last_turn,
            model: of.model,
            reply: of.reply,
            outcome: of.outcome,
            note: of.note,
        }
    }
}

/// Which askings.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EvolutionsQuery {
    /// Of this session.
    pub session: Option<String>,
    /// At most so many; 50 if absent.
    pub limit: Option<u32>,
}

/// Times the model was asked, newest first, with its answers.
#[utoipa::path(get, path = "/api/v1/skills-evolutions", operation_id = "skillEvolutions", tag = "learning",
    params(EvolutionsQuery), responses((status = 200, body = Vec<Evolution>), (status = "default", body = Problem)))]
pub(super) async fn evolutions(
    State(core): State<Core>,
    Asked(query): Asked<EvolutionsQuery>,
) -> Result<Json<Vec<Evolution>>, Problem> {
    let Some(workshop) = core.workshop().await? else { return Ok(Json(Vec::new())) };
    let limit = query.limit.unwrap_or(50).clamp(1, 1000);
    let found = workshop.store().skill_evolutions(query.session.as_deref(), limit).await.map_err(store_problem)?;
    Ok(Json(found.into_iter().map(Evolution::from).collect()))
}

/// A learned skill and where it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LearnedSkill {
    /// Its name.
    pub name: String,
    /// `trial`, `active` or `retired`.
    pub state: String,
    /// The agent it is for; empty = all.
    pub agent: String,
    /// Since when, ms since 1970.
    pub since_ms: i64,
    /// Why.
    pub reason: String,
    /// Number of its text.
    pub version: i64,
    /// Whose words it is made of.
    pub source: String,
    /// The session it comes from.
    pub session: Option<String>,
}

/// What is learned, in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Learning {
    /// Whether anything is.
    pub state: super::LearningState,
    /// The number of the last change of what agents can get; absent without a service.
    pub generation: Option<i64>,
    /// Proposals that wait for you.
    pub waiting: u32,
    /// Learned skills.
    pub skills: Vec<LearnedSkill>,
}

/// Whether skills are learned, and those that were.
#[utoipa::path(get, path = "/api/v1/skills-learning", operation_id = "skillsLearning", tag = "learning",
    responses((status = 200, body = Learning), (status = "default", body = Problem)))]
pub(super) async fn learning(State(core): State<Core>) -> Result<Json<Learning>, Problem> {
    let state = core.learning_state();
    let Some(workshop) = core.workshop().await? else { return Ok(Json(Learning { state, ..Learning::default() })) };
    let waiting = workshop.store().skill_proposals(Some("waiting"), 1000).await.map_err(store_problem)?;
    let standing = workshop.standing().await.map_err(|error| workshop_problem(&error))?;
    let skills = standing.into_iter().map(|one| LearnedSkill {
        name: one.state.name,
        state: one.state.state,
        agent: one.state.agent,
        since_ms: one.state.since_ms,
        reason: one.state.reason,
        version: one.version.id,
        source: one.version.source,
        session: one.version.session,
    });
    Ok(Json(Learning {
        state,
        generation: workshop.library().generations().map(|generations| generations.number()),
        waiting: u32::try_from(waiting.len()).unwrap_or(u32::MAX),
        skills: skills.collect(),
    }))
}

/// One text of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// Its number.
    pub id: i64,
    /// When it was first seen, ms since 1970.
    pub at_ms: i64,
    /// `builtin`, `user`, `evolved` or `import`.
    pub origin: String,
    /// Whose words it is made of; empty = not known.
    pub source: String,
    /// The text it was made from.
    pub parent: Option<i64>,
    /// The session it comes from.
    pub session: Option<String>,
    /// The rows of the journal that taught it.
    pub turns: Vec<i64>,
    /// The model that wrote it.
    pub model: Option<String>,
    /// The text that is in use.
    pub current: bool,
    /// The whole SKILL.md.
    pub text: String,
}

/// Every text of a skill, newest first.
#[utoipa::path(get, path = "/api/v1/skills/{name}/history", operation_id = "skillHistory", tag = "learning",
    params(("name" = String, Path, description = "Name of the skill")),
    responses((status = 200, body = Vec<Version>), (status = "default", body = Problem)))]
pub(super) async fn history(State(core): State<Core>, Path(name): Path<String>) -> Result<Json<Vec<Version>>, Problem> {
    let versions = versions(&core, &name).await?;
    let now = core.library().snapshot().get(&name).map(|skill| skills::hex(skill.content_hash));
    let version = |of: SkillVersion| Version {
        id: of.id,
        at_ms: of.at_ms,
        current: now.as_ref() == Some(&of.hash),
        origin: of.origin,
        source: of.source,
        parent: of.parent,
        session: of.session,
        turns: of.turns,
        model: of.model,
        text: of.text,
    };
    Ok(Json(versions.into_iter().rev().map(version).collect()))
}

async fn versions(core: &Core, name: &str) -> Result<Vec<SkillVersion>, Problem> {
    let found = match core.workshop().await? {
        Some(workshop) => workshop.store().skill_versions(name).await.map_err(store_problem)?,
        None => Vec::new(),
    };
    if found.is_empty() {
        return Err(Problem::not_found(format!("No text of a skill {name} was written down yet."))
            .hint("A running service writes them down: metaclaw start"));
    }
    Ok(found)
}

/// Between which texts.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DiffQuery {
    /// The older text; absent = the one before `to`.
    pub from: Option<i64>,
    /// The newer text; absent = the newest.
    pub to: Option<i64>,
}

/// What changed between two texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VersionDiff {
    /// The older text; absent = there was none.
    pub from: Option<i64>,
    /// The newer text.
    pub to: i64,
    /// As a unified diff; empty = nothing.
    pub diff: String,
}

/// What changed between two texts of a skill.
#[utoipa::path(get, path = "/api/v1/skills/{name}/diff", operation_id = "skillDiff", tag = "learning",
    params(("name" = String, Path, description = "Name of the skill"), DiffQuery),
    responses((status = 200, body = VersionDiff), (status = "default", body = Problem)))]
pub(super) async fn diff(
    State(core): State<Core>,
    Path(name): Path<String>,
    Asked(query): Asked<DiffQuery>,
) -> Result<Json<VersionDiff>, Problem> {
    let versions = versions(&core, &name).await?;
    let find = |id: i64| {
        let missing = || workshop_problem(&skills::workshop::Error::NoVersion { name: name.clone(), version: id });
        versions.iter().find(|version| version.id == id).ok_or_else(missing)
    };
    let to = match query.to {
        Some(id) => find(id)?,
        None => versions.last().ok_or_else(|| Problem::not_found(format!("There is no skill {name}.")))?,
    };
    let from = match query.from {
        Some(id) => Some(find(id)?),
        None => {
            let parent = to.parent.and_then(|parent| versions.iter().find(|version| version.id == parent));
            parent.or_else(|| versions.iter().rev().find(|version| version.id < to.id))
        }
    };
    Ok(Json(VersionDiff {
        from: from.map(|from| from.id),
        to: to.id,
        diff: unified(from.map_or("", |from| from.text.as_str()), &to.text),
    }))
}

/// What to bring back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillRevert {
    /// The text; absent = the one before, and a learned skill without one goes.
    #[serde(default)]
    pub version: Option<i64>,
    /// Also take back what was learned from it.
    #[serde(default)]
    pub descendants: bool,
}

/// What a revert did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillReverted {
    /// What was brought back or taken out of use.
    pub moved: Vec<SkillMoved>,
    /// Learned skills that were made from it, or in turns that it was shown in, and are in use.
    pub descendants: Vec<String>,
}

/// Brings an older text of a skill back.
#[utoipa::path(post, path = "/api/v1/skills/{name}/revert", operation_id = "skillRevert", tag = "learning",
    params(("name" = String, Path, description = "Name of the skill")), request_body = SkillRevert,
    responses((status = 200, body = SkillReverted), (status = "default", body = Problem)))]
pub(super) async fn revert(
    State(core): State<Core>,
    Path(name): Path<String>,
    Body(revert): Body<SkillRevert>,
) -> Result<Json<SkillReverted>, Problem> {
    let workshop = core.workshop_to_change().await?;
    let done = workshop.revert(&name, revert.version, revert.descendants, core.clock().now_ms()).await;
    let done = done.map_err(|error| workshop_problem(&error))?;
    core.skills_moved(&done.moved);
    for moved in &done.moved {
        let back = format!("metaclaw skills history {0}; metaclaw skills revert {0} --version NUMBER", moved.name);
        decided(&core, format!("Took back {}: {}.", moved.name, moved.reason), moved.name.clone(), Some(back)).await;
    }
    let moved = done.moved.into_iter().map(SkillMoved::from).collect();
    Ok(Json(SkillReverted { moved, descendants: done.descendants }))
}

/// Which part of the old history.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LearnedLogQuery {
    /// At most so many, the newest; 10 if absent.
    pub limit: Option<usize>,
    /// Another file of the same form; absolute.
    pub file: Option<String>,
}

/// One record of `evolution_history.jsonl`, which old versions of MetaClaw write, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct LearnedRecord {
    /// When, in local time.
    pub timestamp: String,
    /// User turns that were looked at.
    pub num_failures_analyzed: u64,
    /// Skills that came of it.
    pub num_skills_generated: u64,
    /// Their names.
    pub skill_names: Vec<String>,
    /// The skills.
    pub skills: Vec<LearnedText>,
    /// The ends of what the user said.
    pub failure_prompts: Vec<String>,
}

/// A skill as the old history has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct LearnedText {
    /// Its name.
    pub name: String,
    /// `general`, `coding`, …
    pub category: String,
    /// What it is for.
    pub description: String,
    /// Markdown.
    pub content: String,
}

/// The old history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LearnedLog {
    /// The file.
    pub path: String,
    /// There is one.
    pub exists: bool,
    /// Records in it.
    pub total: usize,
    /// The newest of them, oldest first.
    pub records: Vec<LearnedRecord>,
}

/// What was learned, as `evolution_history.jsonl` has it. Lines that cannot be read are passed over.
#[utoipa::path(get, path = "/api/v1/skills-learned-log", operation_id = "skillsLearnedLog", tag = "learning",
    params(LearnedLogQuery), responses((status = 200, body = LearnedLog), (status = "default", body = Problem)))]
pub(super) async fn learned_log(
    State(core): State<Core>,
    Asked(query): Asked<LearnedLogQuery>,
) -> Result<Json<LearnedLog>, Problem> {
    let path = query.file.map_or_else(|| core.skills_dir().join(skills::workshop::HISTORY), std::path::PathBuf::from);
    let read = path.clone();
    let lines = tokio::task::spawn_blocking(move || skills::workshop::history(&read)).await;
    let records = match lines.map_err(Problem::internal)? {
        Ok(lines) => lines,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Json(LearnedLog { path: path.display().to_string(), ..LearnedLog::default() }));
        }
        Err(error) => return Err(super::problem::io(&format!("{} cannot be read", path.display()), &error)),
    };
    let records: Vec<LearnedRecord> =
        records.into_iter().filter_map(|record| serde_json::from_value(record).ok()).collect();
    let (total, limit) = (records.len(), query.limit.unwrap_or(10));
    Ok(Json(LearnedLog {
        path: path.display().to_string(),
        exists: true,
        total,
        records: records.into_iter().skip(total.saturating_sub(limit)).collect(),
    }))
}

/// Where skills go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillExport {
    /// A path that does not exist yet, absolute: a zip if it ends in `.zip`, else a folder.
    pub path: String,
    /// The skills; empty = all but the built-in ones as they came.
    #[serde(default)]
    pub names: Vec<String>,
}

/// Copies skills out.
#[utoipa::path(post, path = "/api/v1/skills-export", operation_id = "skillsExport", tag = "learning",
    request_body = SkillExport,
    responses((status = 200, body = super::SkillChange), (status = "default", body = Problem)))]
pub(super) async fn export(
    State(core): State<Core>,
    Body(export): Body<SkillExport>,
) -> Result<Json<super::SkillChange>, Problem> {
    let path = whole_path(&export.path)?;
    let (library, to) = (core.library(), path.clone());
    let names = tokio::task::spawn_blocking(move || library.export(&export.names, &to)).await;
    let names = names.map_err(Problem::internal)?.map_err(|error| crate::skills_edit::problem(&error))?;
    let message =
        format!("Wrote {} to {}.", if names.is_empty() { "no skill".into() } else { names.join(", ") }, path.display());
    Ok(Json(super::SkillChange { names, message, undo: false }))
}

fn whole_path(path: &str) -> Result<std::path::PathBuf, Problem> {
    let path = std::path::PathBuf::from(path);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(Problem::invalid(format!("{} is no absolute path.", path.display())))
    }
}

/// Where skills come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillImport {
    /// A skill's folder, a folder of such folders, or a zip of either; absolute.
    pub path: String,
}

/// What an import brought.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillImported {
    /// Numbers of the proposals, one for each skill.
    pub proposals: Vec<i64>,
    /// Names of the skills.
    pub names: Vec<String>,
    /// What was not taken, and what to look at before you say yes.
    pub findings: Vec<SkillFinding>,
}

/// Offers skills from elsewhere. Each waits for your yes.
#[utoipa::path(post, path = "/api/v1/skills-import", operation_id = "skillsImport", tag = "learning",
    request_body = SkillImport,
    responses((status = 200, body = SkillImported), (status = "default", body = Problem)))]
pub(super) async fn import(
    State(core): State<Core>,
    Body(import): Body<SkillImport>,
) -> Result<Json<SkillImported>, Problem> {
    let path = whole_path(&import.path)?;
    if !path.exists() {
        return Err(Problem::not_found(format!("{} does not exist.", path.display())));
    }
    let workshop = core.workshop_to_change().await?;
    let offered = workshop.offer(&path, core.clock().now_ms()).await.map_err(|error| workshop_problem(&error))?;
    core.skills_moved(&[]);
    if !offered.proposals.is_empty() {
        core.proposals_changed("imported", &offered.proposals, &offered.names);
    }
    Ok(Json(SkillImported {
        proposals: offered.proposals,
        names: offered.names,
        findings: offered.problems.into_iter().map(SkillFinding::from).collect(),
    }))
}
