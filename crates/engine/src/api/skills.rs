//! Skills: list, show, search as a turn would, check, add, change, remove, switch, undo.

use std::collections::HashSet;
use std::path::PathBuf;

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Asked, Body, Problem};
use crate::core::Core;

/// A skill as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillRow {
    /// Its name, and its folder's.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// `general`, `coding`, …
    pub category: String,
    /// It can be added to turns.
    pub enabled: bool,
    /// `builtin`, `builtin_edited` or `user`.
    pub origin: String,
    /// The agents it is for; empty = all.
    pub agents: Vec<String>,
    /// Only on the user's own request, never by search.
    pub manual: bool,
    /// Estimated tokens it costs when added.
    pub tokens: u32,
    /// The SKILL.md file.
    pub path: String,
}

/// A finding about a skill file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillFinding {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: Option<u32>,
    /// `error` (cannot be used), `warning` or `note`.
    pub severity: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub fix: String,
}

impl From<skills::Problem> for SkillFinding {
    fn from(problem: skills::Problem) -> Self {
        let severity = match problem.severity {
            skills::Severity::Error => "error",
            skills::Severity::Warning => "warning",
            skills::Severity::Note => "note",
        };
        Self {
            file: problem.file.display().to_string(),
            line: problem.line,
            severity: severity.to_owned(),
            message: problem.message,
            fix: problem.fix,
        }
    }
}

/// The library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillList {
    /// The folder.
    pub dir: String,
    /// Skills are added to turns at all.
    pub enabled: bool,
    /// All skills, by name.
    pub skills: Vec<SkillRow>,
    /// What is wrong in the folder.
    pub findings: Vec<SkillFinding>,
}

/// A whole skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Skill {
    /// What lists show.
    #[serde(flatten)]
    pub row: SkillRow,
    /// The whole SKILL.md.
    pub text: String,
    /// The Markdown after the front matter.
    pub body: String,
    /// Line of the file where the body begins, from 1.
    pub line_of_body: u32,
    /// What is wrong with the file.
    pub findings: Vec<SkillFinding>,
}

/// Words to search with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillSearch {
    /// The user's words.
    pub text: String,
    /// As this agent.
    #[serde(default)]
    pub agent: Option<String>,
}

/// A skill that fits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SkillHit {
    /// Its name.
    pub name: String,
    /// How well it fits; higher is better.
    pub score: f32,
    /// The matched words.
    pub why: String,
    /// Estimated tokens.
    pub tokens: u32,
    /// It would be added; false = it fits, but no longer into the budget.
    pub used: bool,
}

/// What a turn with these words would get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SkillPreview {
    /// Fitting skills, best first.
    pub hits: Vec<SkillHit>,
    /// Exactly the text that would be added; empty if nothing would be.
    pub block: String,
    /// Estimated tokens of the block.
    pub tokens: u32,
    /// The budget.
    pub budget: u32,
}

/// All skills.
#[utoipa::path(get, path = "/api/v1/skills", operation_id = "skills", tag = "skills",
    responses((status = 200, body = SkillList), (status = "default", body = Problem)))]
pub(super) async fn list(State(core): State<Core>) -> Result<Json<SkillList>, Problem> {
    blocking(move || {
        let library = core.library();
        let bank = library.snapshot();
        let off = core.disabled();
        Ok(SkillList {
            dir: library.dir().display().to_string(),
            enabled: core.config().skills.enabled,
            skills: bank.skills().iter().map(|skill| row(skill, &bank, &off)).collect(),
            findings: library.problems().into_iter().map(SkillFinding::from).collect(),
        })
    })
    .await
}

fn row(skill: &skills::Skill, bank: &skills::Bank, off: &HashSet<String>) -> SkillRow {
    let origin = match skill.origin {
        skills::Origin::Builtin => "builtin",
        skills::Origin::BuiltinEdited => "builtin_edited",
        _ => "user",
    };
    SkillRow {
        name: skill.name.clone(),
        description: skill.description.clone(),
        category: skill.category.clone(),
        enabled: bank.is_enabled(&skill.name) && !off.contains(&skill.name),
        origin: origin.to_owned(),
        agents: skill.agents.clone(),
        manual: skill.manual,
        tokens: dialect::estimate_tokens(&skill.description) + dialect::estimate_tokens(&skill.body),
        path: skill.path.display().to_string(),
    }
}

/// One skill, whole.
#[utoipa::path(get, path = "/api/v1/skills/{name}", operation_id = "skill", tag = "skills",
    params(("name" = String, Path, description = "Name of the skill")),
    responses((status = 200, body = Skill), (status = "default", body = Problem)))]
pub(super) async fn show(State(core): State<Core>, Path(name): Path<String>) -> Result<Json<Skill>, Problem> {
    blocking(move || whole(&core, &name)).await
}

fn whole(core: &Core, name: &str) -> Result<Skill, Problem> {
    let library = core.library();
    let bank = library.snapshot();
    let skill = bank.get(name).ok_or_else(|| {
        Problem::not_found(format!("There is no skill {name}.")).hint("List them with: metaclaw skills list")
    })?;
    let text = std::fs::read_to_string(&skill.path)
        .map_err(|error| super::problem::io(&format!("{} cannot be read", skill.path.display()), &error))?;
    let findings = library.problems().into_iter().filter(|problem| problem.file == skill.path);
    Ok(Skill {
        row: row(skill, &bank, &core.disabled()),
        text,
        body: skill.body.clone(),
        line_of_body: skill.line_of_body,
        findings: findings.map(SkillFinding::from).collect(),
    })
}

/// What a turn with these words would get, and why. Works while skills are switched off, too.
#[utoipa::path(post, path = "/api/v1/skills-search", operation_id = "skillSearch", tag = "skills",
    request_body = SkillSearch,
    responses((status = 200, body = SkillPreview), (status = "default", body = Problem)))]
pub(super) async fn search(
    State(core): State<Core>,
    Body(search): Body<SkillSearch>,
) -> Result<Json<SkillPreview>, Problem> {
    let words = dialect::user_words(&search.text).into_owned();
    let question = core.question_vector(&words).await;
    blocking(move || {
        let budget = core.config().skills.max_injected_tokens;
        let hits = core.find_skills(&words, search.agent.as_deref(), question.as_ref());
        let block = skills::render(&hits, budget, dialect::estimate_tokens);
        let mut found: Vec<SkillHit> = block
            .used
            .iter()
            .map(|u| SkillHit {
                name: u.name.clone(),
                score: u.score,
                why: u.why.clone(),
                tokens: u.tokens,
                used: true,
            })
            .collect();
        found.extend(block.dropped.iter().map(|d| {
            let why = hits.iter().find(|hit| hit.skill.name == d.name).map(|hit| hit.why.clone());
            SkillHit {
                name: d.name.clone(),
                score: d.score,
                why: why.unwrap_or_default(),
                tokens: d.tokens,
                used: false,
            }
        }));
        let tokens = dialect::estimate_tokens(&block.text);
        Ok(SkillPreview { hits: found, tokens, block: block.text, budget })
    })
    .await
}

/// What to check: a text as it is being written, or a path; neither = the whole library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillCheck {
    /// The text of a SKILL.md.
    #[serde(default)]
    pub text: Option<String>,
    /// A SKILL.md, its folder, or a folder of such folders; absolute.
    #[serde(default)]
    pub path: Option<String>,
}

/// The findings; no `error` among them = everything can be used.
#[utoipa::path(post, path = "/api/v1/skills-validate", operation_id = "skillValidate", tag = "skills",
    request_body = SkillCheck,
    responses((status = 200, body = Vec<SkillFinding>), (status = "default", body = Problem)))]
pub(super) async fn validate(
    State(core): State<Core>,
    Body(check): Body<SkillCheck>,
) -> Result<Json<Vec<SkillFinding>>, Problem> {
    blocking(move || {
        let findings = match (check.text, check.path) {
            (Some(text), _) => {
                let file = std::path::Path::new("SKILL.md");
                let parsed = skills::parse(file, text.as_bytes());
                let bank = core.library().snapshot();
                let against = skills::Against { bank: Some(&bank), ..skills::Against::default() };
                let lints = parsed.skill.map(|skill| skills::lint(&skill, &against)).unwrap_or_default();
                parsed.problems.into_iter().chain(lints.iter().map(|lint| lint.problem(file))).collect()
            }
            (None, Some(path)) => {
                let path = PathBuf::from(path);
                if !path.exists() {
                    return Err(Problem::not_found(format!("{} does not exist.", path.display())));
                }
                skills::validate(&path)
            }
            (None, None) => {
                let library = core.library();
                library.reload();
                let bank = library.snapshot();
                let own = bank.skills().iter().filter(|skill| skill.origin != skills::Origin::Builtin);
                let lints = own.flat_map(|skill| {
                    let lints = skills::lint(skill, &skills::Against::default());
                    let dangerous = lints.into_iter().filter(|lint| lint.flaw.is_dangerous());
                    dangerous.map(|lint| lint.problem(&skill.path)).collect::<Vec<_>>()
                });
                library.problems().iter().cloned().chain(lints).collect()
            }
        };
        Ok(findings.into_iter().map(SkillFinding::from).collect())
    })
    .await
}

/// A skill to take into the library: from a folder of this machine, or as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillAdd {
    /// A SKILL.md (that file alone), its folder with all files, or a folder of such folders; absolute.
    #[serde(default)]
    pub path: Option<String>,
    /// Instead: the text of a SKILL.md.
    #[serde(default)]
    pub text: Option<String>,
    /// Replace a skill of the same name; the old one goes to the trash.
    #[serde(default)]
    pub replace: bool,
}

/// What a change of the library did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillChange {
    /// Names of the skills it touched.
    pub names: Vec<String>,
    /// What was done, as a sentence.
    pub message: String,
    /// It can be undone.
    pub undo: bool,
}

/// Adds skills.
#[utoipa::path(post, path = "/api/v1/skills", operation_id = "skillAdd", tag = "skills", request_body = SkillAdd,
    responses((status = 200, body = SkillChange), (status = "default", body = Problem)))]
pub(super) async fn add(State(core): State<Core>, Body(add): Body<SkillAdd>) -> Result<Json<SkillChange>, Problem> {
    blocking(move || match (add.path, add.text) {
        (Some(path), None) => core.import_skills(&PathBuf::from(path), add.replace),
        (None, Some(text)) => core.write_skill(None, &text, add.replace),
        _ => Err(Problem::invalid("Give either `path` or `text`.")),
    })
    .await
}

/// The new text of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillText {
    /// The whole SKILL.md; its name must stay.
    pub text: String,
}

/// Writes a skill's text; the old version goes to the trash.
#[utoipa::path(put, path = "/api/v1/skills/{name}", operation_id = "skillUpdate", tag = "skills",
    params(("name" = String, Path, description = "Name of the skill")), request_body = SkillText,
    responses((status = 200, body = SkillChange), (status = "default", body = Problem)))]
pub(super) async fn update(
    State(core): State<Core>,
    Path(name): Path<String>,
    Body(text): Body<SkillText>,
) -> Result<Json<SkillChange>, Problem> {
    blocking(move || core.write_skill(Some(&name), &text.text, true)).await
}

/// Takes a skill out of the library; it can be brought back.
#[utoipa::path(delete, path = "/api/v1/skills/{name}", operation_id = "skillRemove", tag = "skills",
    params(("name" = String, Path, description = "Name of the skill")),
    responses((status = 200, body = SkillChange), (status = "default", body = Problem)))]
pub(super) async fn remove(State(core): State<Core>, Path(name): Path<String>) -> Result<Json<SkillChange>, Problem> {
    blocking(move || core.remove_skill(&name)).await
}

/// Uses a skill again.
#[utoipa::path(post, path = "/api/v1/skills/{name}/enable", operation_id = "skillEnable", tag = "skills",
    params(("name" = String, Path, description = "Name of the skill")),
    responses((status = 200, body = SkillChange), (status = "default", body = Problem)))]
pub(super) async fn enable(State(core): State<Core>, Path(name): Path<String>) -> Result<Json<SkillChange>, Problem> {
    blocking(move || core.switch_skill(&name, true)).await
}

/// Keeps a skill but does not use it.
#[utoipa::path(post, path = "/api/v1/skills/{name}/disable", operation_id = "skillDisable", tag = "skills",
    params(("name" = String, Path, description = "Name of the skill")),
    responses((status = 200, body = SkillChange), (status = "default", body = Problem)))]
pub(super) async fn disable(State(core): State<Core>, Path(name): Path<String>) -> Result<Json<SkillChange>, Problem> {
    blocking(move || core.switch_skill(&name, false)).await
}

/// Takes back the last change of the library.
#[utoipa::path(post, path = "/api/v1/skills-undo", operation_id = "skillUndo", tag = "skills",
    responses((status = 200, body = SkillChange), (status = "default", body = Problem)))]
pub(super) async fn undo(State(core): State<Core>) -> Result<Json<SkillChange>, Problem> {
    blocking(move || core.undo_skill()).await
}

/// A change that was made to the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillLogEntry {
    /// When, ms since 1970.
    pub at_ms: i64,
    /// What was done, as a sentence.
    pub message: String,
    /// Names of the skills it touched.
    pub names: Vec<String>,
    /// It can be brought back.
    pub undo: bool,
}

/// How many changes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SkillLogQuery {
    /// At most so many; 50 if absent.
    pub limit: Option<usize>,
}

/// Changes of the library, newest first.
#[utoipa::path(get, path = "/api/v1/skills-log", operation_id = "skillLog", tag = "skills", params(SkillLogQuery),
    responses((status = 200, body = Vec<SkillLogEntry>), (status = "default", body = Problem)))]
pub(super) async fn log(
    State(core): State<Core>,
    Asked(query): Asked<SkillLogQuery>,
) -> Result<Json<Vec<SkillLogEntry>>, Problem> {
    blocking(move || core.skill_log(query.limit.unwrap_or(50))).await
}

/// Runs file work off the async threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<Json<T>, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(Problem::internal)?.map(Json)
}
