//! The control API, described once and served through three doors: in process, on the Unix socket, and on request on
//! loopback TCP. Handlers read `Core`; their types are the wire's, and the OpenAPI file is made from them.

#[expect(unused_qualifications, reason = "written by the macro that describes the route")]
mod config;
#[expect(unused_qualifications, reason = "written by the macro that describes the route")]
mod effects;
#[expect(unused_qualifications, reason = "written by the macro that describes the route")]
mod events;
#[expect(unused_qualifications, reason = "written by the macro that describes the route")]
mod learning;
#[expect(unused_qualifications, reason = "written by the macro that describes the route")]
mod logs;
#[expect(unused_qualifications, reason = "written by the macro that describes the route")]
mod memory;
#[expect(unused_qualifications, reason = "written by the macro that describes the route")]
pub(crate) mod models;
pub(crate) mod problem;
mod providers;
mod service;
#[expect(unused_qualifications, reason = "written by the macro that describes the route")]
mod sessions;
mod setup;
#[expect(unused_qualifications, reason = "written by the macro that describes the route")]
mod skills;
#[expect(unused_qualifications, reason = "written by the macro that describes the route")]
mod status;
#[expect(unused_qualifications, reason = "written by the macro that describes the route")]
mod turns;

use axum::Router;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use self::config::{ConfigCheck, ConfigFinding, Setting, SettingQuery, SettingState, SettingValue, Settings};
pub use self::effects::{EffectQuery, ReplayedTurn, SkillEffect, SkillReplay};
pub use self::events::EventsQuery;
pub use self::learning::{
    DiffQuery, Evolution, EvolutionsQuery, EvolveAsk, Evolved, LearnedLog, LearnedLogQuery, LearnedRecord,
    LearnedSkill, LearnedText, Learning, Proposal, ProposalApproval, ProposalDetail, ProposalText, ProposalsQuery,
    SkillExport, SkillImport, SkillImported, SkillMoved, SkillRevert, SkillReverted, Version, VersionDiff,
};
pub use self::logs::{LogLines, LogQuery};
pub use self::memory::{
    Memory, MemoryAdd, MemoryBackup, MemoryChange, MemoryEdit, MemoryExportQuery, MemoryHit, MemoryImport,
    MemoryImported, MemoryMaintainQuery, MemoryMaintained, MemoryPage, MemoryPolicy, MemoryPreview, MemoryQuery,
    MemoryRetired, MemoryScopeQuery, MemorySearch, MemoryStats, MemoryWeight,
};
pub use self::models::{
    FetchOrder, FetchStage, FetchState, KeptModel, ModelChange, ModelOffer, ModelPurpose, Models, ModelsQuery,
    RunningModel,
};
pub use self::problem::{Code, Problem};
pub use self::providers::{LocalServer, Provider, ProviderReport, ProviderTest};
pub use self::service::Accepted;
pub use self::sessions::{Session, SessionsQuery};
pub use self::setup::{SettingChange, SetupAnswers, SetupReport, SetupState};
pub use self::skills::{
    Skill, SkillAdd, SkillChange, SkillCheck, SkillFinding, SkillHit, SkillList, SkillLogEntry, SkillLogQuery,
    SkillPreview, SkillRow, SkillSearch, SkillText,
};
pub use self::status::{
    ByMeaning, Check, DoctorQuery, Grade, Later, LearningState, ProviderState, ServiceState, SkillFigures, Status,
};
pub use self::turns::{Addition, Form, Header, RequestQuery, Taken, Tokens, Turn, TurnDiff, TurnRow, TurnsQuery};
pub use crate::bus::Event;
pub use crate::diff::{Change, ChangeKind};

pub(crate) use self::config::{AT_START, findings};
pub(crate) use self::memory::memory_problem;
pub(crate) use self::problem::{Asked, Body};
use crate::core::Core;

/// Longest request body of the control API.
const MAX_BODY: usize = 8 << 20;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "MetaClaw control API",
        description = "Everything the window and the command line do. Served on ~/.metaclaw/control.sock for the owner, \
                       and on request on loopback TCP behind a bearer token.",
        license(name = "MIT")
    ),
    tags(
        (name = "service", description = "The running service"),
        (name = "turns", description = "Sessions and turns"),
        (name = "skills", description = "The skill library"),
        (name = "learning", description = "Skills that are learned from conversations, and what skills do"),
        (name = "memory", description = "Long-term memory"),
        (name = "config", description = "Settings"),
        (name = "providers", description = "Model providers"),
        (name = "models", description = "Models of the built-in provider"),
        (name = "events", description = "What happens"),
        (name = "setup", description = "First run"),
    )
)]
struct Description;

fn routes() -> OpenApiRouter<Core> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(status::status))
        .routes(routes!(status::doctor))
        .routes(routes!(service::stop))
        .routes(routes!(service::restart))
        .routes(routes!(logs::lines))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::show))
        .routes(routes!(turns::list))
        .routes(routes!(turns::show))
        .routes(routes!(turns::request))
        .routes(routes!(turns::diff))
        .routes(routes!(skills::list, skills::add))
        .routes(routes!(skills::search))
        .routes(routes!(skills::validate))
        .routes(routes!(skills::undo))
        .routes(routes!(skills::log))
        .routes(routes!(skills::show, skills::update, skills::remove))
        .routes(routes!(skills::enable))
        .routes(routes!(skills::disable))
        .routes(routes!(learning::learning))
        .routes(routes!(learning::proposals))
        .routes(routes!(learning::proposal, learning::edit))
        .routes(routes!(learning::approve))
        .routes(routes!(learning::reject))
        .routes(routes!(learning::evolve))
        .routes(routes!(learning::evolutions))
        .routes(routes!(learning::history))
        .routes(routes!(learning::diff))
        .routes(routes!(learning::revert))
        .routes(routes!(effects::effect))
        .routes(routes!(effects::effects))
        .routes(routes!(learning::learned_log))
        .routes(routes!(learning::export))
        .routes(routes!(learning::import))
        .routes(routes!(memory::list, memory::add))
        .routes(routes!(memory::search::search))
        .routes(routes!(memory::figures::stats))
        .routes(routes!(memory::figures::scopes))
        .routes(routes!(memory::upkeep::erase))
        .routes(routes!(memory::upkeep::export))
        .routes(routes!(memory::upkeep::import))
        .routes(routes!(memory::upkeep::maintain))
        .routes(routes!(memory::upkeep::backup))
        .routes(routes!(memory::policy))
        .routes(routes!(memory::show, memory::edit, memory::forget))
        .routes(routes!(memory::history))
        .routes(routes!(memory::accept))
        .routes(routes!(memory::undo))
        .routes(routes!(config::list))
        .routes(routes!(config::validate))
        .routes(routes!(config::get, config::put, config::unset))
        .routes(routes!(providers::list))
        .routes(routes!(providers::local))
        .routes(routes!(providers::test))
        .routes(routes!(models::list))
        .routes(routes!(models::fetch, models::cancel))
        .routes(routes!(models::remove))
        .routes(routes!(events::list))
        .routes(routes!(events::live))
        .routes(routes!(setup::state, setup::answer))
}

/// The API over `core`. Unknown routes answer in the API's own error shape.
pub(crate) fn router(core: Core) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .fallback(|uri: http::Uri| async move {
            Problem::not_found(format!("There is no route {}.", uri.path())).hint("`metaclaw openapi` lists them.")
        })
        .method_not_allowed_fallback(|method: http::Method, uri: http::Uri| async move {
            Problem::not_found(format!("{} does not take {method}.", uri.path())).hint("`metaclaw openapi` lists them.")
        })
        .layer(axum::extract::DefaultBodyLimit::max(MAX_BODY))
        .with_state(core)
}

/// The OpenAPI description as indented JSON, without a line end.
#[must_use]
pub fn openapi_json() -> String {
    routes().get_openapi().to_pretty_json().unwrap_or_default()
}

/// Store errors in the API's shape.
#[expect(clippy::needless_pass_by_value, reason = "used as a function in map_err")]
pub(crate) fn store_problem(error: store::Error) -> Problem {
    let code = match &error {
        store::Error::NoSuchTurn(_) => Code::NotFound,
        store::Error::ReadOnly { .. } => Code::Forbidden,
        store::Error::Busy { .. } | store::Error::Closed | store::Error::DiskFull { .. } => Code::Unavailable,
        store::Error::OlderSchema { .. } | store::Error::NewerSchema { .. } => Code::Conflict,
        _ => Code::Internal,
    };
    Problem::new(code, format!("{error}."))
}

#[cfg(test)]
mod tests {
    /// The file is what other languages generate their clients from; `make openapi` or the command below renews it.
    #[test]
    fn the_checked_in_description_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        let now = super::openapi_json() + "\n";
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            std::fs::write(path, &now).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == now, "openapi.json is stale: run `metaclaw openapi > crates/engine/openapi.json`");
    }
}
