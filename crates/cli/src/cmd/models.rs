//! `metaclaw models`: models that run on this machine. Nothing is downloaded before a yes to its name, size, source
//! and licence.

use std::future::Future;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use engine::api::{FetchOrder, FetchStage, FetchState, ModelChange, ModelOffer, ModelPurpose, Models};
use engine::client::{Client, segment};
use http::Method;

use crate::args::{Models as Args, ModelsVerb};
use crate::ctx::Ctx;
use crate::exit::Fail;

/// How often the progress of a fetch is looked at.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) async fn run(ctx: &Ctx, args: Args) -> Result<ExitCode, Fail> {
    let api = ctx.api().await?;
    match args.verb {
        ModelsVerb::List => list(ctx, &api).await,
        ModelsVerb::Fetch { id, yes } => fetch(ctx, &api, id, yes).await,
        ModelsVerb::Cancel => changed(ctx, api.call::<(), _>(Method::DELETE, "/api/v1/models/fetch", None).await?),
        ModelsVerb::Remove { id } => {
            let path = format!("/api/v1/models/{}", segment(&id));
            changed(ctx, api.call::<(), _>(Method::DELETE, &path, None).await?)
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the end of a call")]
fn changed(ctx: &Ctx, change: ModelChange) -> Result<ExitCode, Fail> {
    match ctx.out.json {
        true => ctx.out.value(&change),
        false => ctx.out.line(&change.message),
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(ctx: &Ctx, api: &Client) -> Result<ExitCode, Fail> {
    let models: Models = api.get("/api/v1/models").await?;
    if ctx.out.json {
        ctx.out.value(&models);
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    for kept in &models.kept {
        let state = if kept.in_use { "in use" } else { "here" };
        let purpose = purpose(kept.purpose).to_owned();
        rows.push(vec![kept.id.clone(), purpose, megabytes(kept.size), state.to_owned(), kept.file.clone()]);
    }
    for offer in models.offers.iter().filter(|offer| !offer.kept) {
        let about = format!("{}; {}; from {}", offer.about, offer.licence, offer.sources.join(" or "));
        let purpose = purpose(offer.purpose).to_owned();
        rows.push(vec![offer.id.clone(), purpose, megabytes(offer.size), "can be fetched".to_owned(), about]);
    }
    ctx.out.table(&["MODEL", "FOR", "SIZE", "STATE", "ABOUT"], &rows);
    if let Some(running) = &models.running {
        let speed = running.speed.map(|speed| format!(", {speed:.0} tokens/s last")).unwrap_or_default();
        let waiting = if running.waiting > 0 { format!(", {} waiting", running.waiting) } else { String::new() };
        ctx.out.note(&format!("The built-in model is {}{waiting}{speed}.", running.phase));
    }
    if let Some(fetching) = models.fetching.filter(|fetching| fetching.running) {
        ctx.out.note(&progress(&fetching));
    }
    Ok(ExitCode::SUCCESS)
}

async fn fetch(ctx: &Ctx, api: &Client, id: Option<String>, yes: bool) -> Result<ExitCode, Fail> {
    let models: Models = api.get(&format!("/api/v1/models?look={}", id.is_none())).await?;
    let id = id.or(models.suggested.clone()).unwrap_or_default();
    let offer = models.offers.iter().find(|offer| offer.id == id);
    if let Some(offer) = offer
        && !yes
    {
        let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if !asks {
            return Err(Fail::usage(format!("{} Nothing is fetched without a yes.", terms(offer)))
                .hint(format!("Say yes: metaclaw models fetch {id} --yes")));
        }
        if !agreed(offer).map_err(|error| Fail::failed(format!("The question could not be asked: {error}.")))? {
            return Err(Fail::failed("Nothing was fetched."));
        }
    }
    fetch_agreed(ctx, api, &id).await?;
    let models: Models = api.get("/api/v1/models").await?;
    let kept = models.kept.into_iter().find(|kept| kept.id == id);
    match (ctx.out.json, kept) {
        (true, kept) => ctx.out.value(&kept),
        (false, Some(kept)) => {
            ctx.out.line(&format!("{} is in {}", kept.id, kept.file));
            if !kept.in_use {
                ctx.out.note(&match kept.purpose {
                    ModelPurpose::Chat => format!(
                        "Use it: metaclaw config set llm.provider builtin; metaclaw config set llm.model_id {id}"
                    ),
                    ModelPurpose::Search => format!(
                        "Use it: metaclaw config set embedding.model {id}; \
                         metaclaw config set skills.retrieval_mode hybrid"
                    ),
                });
            }
        }
        (false, None) => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Fetches an offer that somebody agreed to, and shows how far it is.
pub(super) async fn fetch_agreed(ctx: &Ctx, api: &Client, id: &str) -> Result<(), Fail> {
    let order = FetchOrder { id: id.to_owned(), agreed: true };
    let _: FetchState = api.call(Method::POST, "/api/v1/models/fetch", Some(&order)).await?;
    let state = watch(ctx, api).await?;
    match state.and_then(|state| state.problem) {
        Some(problem) => {
            Err(Fail::failed(problem).hint("What has come so far is kept; run the same command again to go on."))
        }
        None => Ok(()),
    }
}

fn purpose(purpose: ModelPurpose) -> &'static str {
    match purpose {
        ModelPurpose::Chat => "answers",
        ModelPurpose::Search => "search",
    }
}

/// Asks for the yes.
pub(super) fn agreed(offer: &ModelOffer) -> Result<bool, inquire::InquireError> {
    inquire::Confirm::new(&format!("{} Fetch it?", terms(offer)))
        .with_default(true)
        .with_help_message("It is kept in MetaClaw's own folder; metaclaw models remove takes it away again.")
        .prompt()
}

/// What somebody has to know before a yes.
pub(super) fn terms(offer: &ModelOffer) -> String {
    let sources = offer.sources.join(" or ");
    format!(
        "{} ({}) is a download of {} from {sources}, licence {}.",
        offer.label,
        offer.about,
        megabytes(offer.size),
        offer.licence
    )
}

pub(super) fn megabytes(bytes: u64) -> String {
    format!("{} MB", (bytes + 500_000) / 1_000_000)
}

fn progress(state: &FetchState) -> String {
    let percent = state.done.saturating_mul(100) / state.total.max(1);
    let doing = match state.stage {
        FetchStage::Download => "Fetching",
        FetchStage::Unpack => "Unpacking",
    };
    format!(
        "{doing} {} from {}: {} of {} ({percent} %)",
        state.id,
        state.source,
        megabytes(state.done),
        megabytes(state.total)
    )
}

/// Shows the progress of a fetch until it is over.
async fn watch(ctx: &Ctx, api: &Client) -> Result<Option<FetchState>, Fail> {
    loop {
        let models: Models = api.get("/api/v1/models").await?;
        match models.fetching {
            Some(state) if state.running => ctx.out.progress(Some(&progress(&state))),
            over => {
                ctx.out.progress(None);
                return Ok(over);
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Does `work` and shows the progress of a fetch that it may begin.
pub(super) async fn while_fetching<T>(ctx: &Ctx, api: &Client, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                ctx.out.progress(None);
                return done;
            }
            () = tokio::time::sleep(PAUSE) => {
                let models: Result<Models, _> = api.get("/api/v1/models").await;
                if let Some(state) = models.ok().and_then(|models| models.fetching).filter(|state| state.running) {
                    ctx.out.progress(Some(&progress(&state)));
                }
            }
        }
    }
}
