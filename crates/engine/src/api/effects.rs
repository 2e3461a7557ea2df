//! What skills do: turns with one against turns that had to do without it, and a judge's word.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use skills::workshop::Measured;
use utoipa::{IntoParams, ToSchema};

use super::{Asked, Problem, store_problem};
use crate::core::Core;
use crate::skills_learn::workshop_problem;

/// What a skill does: turns with it against turns that fitted it and had to do without it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SkillEffect {
    /// Its name.
    pub name: String,
    /// The agent; empty = all.
    pub agent: String,
    /// Turns that had it, those included that were given it without a lot being drawn.
    pub uses: u32,
    /// Of them, the good ones.
    pub wins: u32,
    /// Of all uses, those for which a lot was drawn: only these are compared with turns without it.
    pub drawn: u32,
    /// Of them, the good ones.
    pub drawn_wins: u32,
    /// Turns that had to do without it.
    pub control: u32,
    /// Of them, the good ones.
    pub control_wins: u32,
    /// Estimated tokens it has cost.
    pub tokens: u64,
    /// The difference it makes to the share of good turns, −1 to 1; absent until there are turns on both sides.
    pub effect: Option<f64>,
    /// Lower end of its 95 % credible interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Probability that it helps.
    pub helps: Option<f64>,
    /// `open`, `helps`, `harms` or `no_use`.
    pub verdict: String,
    /// How far the proof that it helps is; 20 proves it.
    pub for_help: f64,
    /// The same for harm.
    pub for_harm: f64,
    /// What a judge said of answers with it and without it, newest first. Only where one skill is asked for.
    #[serde(default)]
    pub replays: Vec<SkillReplay>,
}

/// Past turns that had to do without a skill, answered again with it and without it, and a judge's word on the answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkillReplay {
    /// When, ms since 1970.
    pub at_ms: i64,
    /// The judge.
    pub model: String,
    /// Turns whose answer with it was liked better, whichever was shown first.
    pub better: u32,
    /// Turns whose answer without it was.
    pub worse: u32,
    /// Turns in which neither was.
    pub same: u32,
    /// Estimated tokens, of questions and answers.
    pub tokens: u64,
    /// The turns.
    pub turns: Vec<ReplayedTurn>,
}

/// One turn that was answered again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplayedTurn {
    /// Its first row in the journal.
    pub turn: i64,
    /// `better`, `worse` or `same`.
    pub verdict: String,
}

impl From<store::SkillReplay> for SkillReplay {
    fn from(of: store::SkillReplay) -> Self {
        let turns = of.turns.into_iter().map(|one| ReplayedTurn { turn: one.turn.0, verdict: one.verdict });
        Self {
            at_ms: of.at_ms,
            model: of.model,
            better: of.better,
            worse: of.worse,
            same: of.same,
            tokens: of.tokens,
            turns: turns.collect(),
        }
    }
}

impl From<Measured> for SkillEffect {
    fn from(of: Measured) -> Self {
        let verdict = match of.verdict {
            skills::proof::Verdict::Open => "open",
            skills::proof::Verdict::Helps => "helps",
            skills::proof::Verdict::Harms => "harms",
            skills::proof::Verdict::NoUse => "no_use",
        };
        Self {
            name: of.name,
            agent: of.agent,
            uses: of.evidence.with.turns + of.evidence.undrawn.turns,
            wins: of.evidence.with.good + of.evidence.undrawn.good,
            drawn: of.evidence.with.turns,
            drawn_wins: of.evidence.with.good,
            control: of.evidence.without.turns,
            control_wins: of.evidence.without.good,
            tokens: of.evidence.tokens,
            effect: of.effect.map(|effect| effect.mean),
            low: of.effect.map(|effect| effect.low),
            high: of.effect.map(|effect| effect.high),
            helps: of.effect.map(|effect| effect.helps),
            verdict: verdict.to_owned(),
            for_help: of.for_help,
            for_harm: of.for_harm,
            replays: Vec::new(),
        }
    }
}

/// Of which turns.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EffectQuery {
    /// Only this agent's; absent = all.
    pub agent: Option<String>,
    /// All texts the skill ever had together; else only the present one.
    #[serde(default)]
    pub all: bool,
}

/// What a skill does.
#[utoipa::path(get, path = "/api/v1/skills/{name}/effect", operation_id = "skillEffect", tag = "learning",
    params(("name" = String, Path, description = "Name of the skill"), EffectQuery),
    responses((status = 200, body = SkillEffect), (status = "default", body = Problem)))]
pub(super) async fn effect(
    State(core): State<Core>,
    Path(name): Path<String>,
    Asked(query): Asked<EffectQuery>,
) -> Result<Json<SkillEffect>, Problem> {
    let Some(workshop) = core.workshop().await? else {
        return Ok(Json(SkillEffect { name, verdict: "open".to_owned(), ..SkillEffect::default() }));
    };
    let hash = workshop.library().snapshot().get(&name).map(|skill| skills::hex(skill.content_hash));
    let hash = hash.filter(|_| !query.all);
    let measured = workshop.measured(&name, hash.as_deref(), query.agent.as_deref()).await;
    let effect = SkillEffect::from(measured.map_err(|error| workshop_problem(&error))?);
    let replays = workshop.store().skill_replays(&name, hash.as_deref()).await.map_err(store_problem)?;
    Ok(Json(SkillEffect { replays: replays.into_iter().map(SkillReplay::from).collect(), ..effect }))
}

/// What every skill does that fitted a turn, each in the text it has now, the most used first.
#[utoipa::path(get, path = "/api/v1/skills-effects", operation_id = "skillEffects", tag = "learning",
    params(EffectQuery), responses((status = 200, body = Vec<SkillEffect>), (status = "default", body = Problem)))]
pub(super) async fn effects(
    State(core): State<Core>,
    Asked(query): Asked<EffectQuery>,
) -> Result<Json<Vec<SkillEffect>>, Problem> {
    let Some(workshop) = core.workshop().await? else { return Ok(Json(Vec::new())) };
    let bank = workshop.library().snapshot();
    let mut all: Vec<SkillEffect> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for (name, version) in workshop.store().skill_observed().await.map_err(store_problem)? {
        let current = bank.get(&name).is_some_and(|skill| skills::hex(skill.content_hash) == version);
        if !(current || query.all) || seen.contains(&name) {
            continue;
        }
        seen.push(name.clone());
        let hash = Some(version.as_str()).filter(|_| !query.all);
        let measured = workshop.measured(&name, hash, query.agent.as_deref()).await;
        all.push(measured.map_err(|error| workshop_problem(&error))?.into());
    }
    all.sort_by(|a, b| b.uses.cmp(&a.uses).then_with(|| a.name.cmp(&b.name)));
    Ok(Json(all))
}
