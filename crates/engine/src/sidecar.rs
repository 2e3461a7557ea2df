//! The memory sidecar that the OpenClaw plugin of the Python MetaClaw starts: its routes, on loopback, over the same database as
//! everything else. Runs on request only (`metaclaw memory sidecar`).

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use config::Home;
use http::{Method, StatusCode};
use memory::{Ask, Memory, NewMemory, section};
use proxy::{Knowledge, MemoryKnowledge, MemorySettings, OwnCall};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::api::{Problem, memory_problem};
use crate::core::Core;
use crate::serve::{self, Lifeline};

/// Where the plugin looks for it.
pub const SIDECAR_PORT: u16 = 19_823;

/// What the sidecar works with.
#[derive(Clone)]
struct Side {
    core: Core,
    memory: Memory,
    routes: Arc<MemoryKnowledge>,
}

/// A running sidecar.
#[derive(Debug)]
pub struct Sidecar {
    life: Lifeline,
    /// Where it listens.
    pub addr: SocketAddr,
}

impl Sidecar {
    /// Starts it on a loopback port; 0 = any free one.
    ///
    /// # Errors
    /// The port is taken, the database cannot be opened, or each agent has a memory of its own.
    pub async fn start(home: Home, config: Option<PathBuf>, port: u16) -> Result<Self, Problem> {
        crate::install_tls();
        let core = Core::cold(home, config, Arc::new(proxy::SystemClock));
        if !core.config().memory.shared_by_agents {
            return Err(Problem::invalid(
                "The sidecar asks for no key, so it cannot tell agents with memories of their own apart.",
            )
            .hint("Let them share one: metaclaw config set memory.shared_by_agents true"));
        }
        let memory = core.memory_to_change().await?;
        memory.notice().await.map_err(memory_problem)?;
        while memory.work().await.map_err(memory_problem)? {}
        let settings = MemorySettings::from_config(&core.config(), &memory, jiff::tz::TimeZone::system());
        // Whoever starts it wants it.
        let settings = MemorySettings { enabled: true, ..settings };
        let memory = settings.memory.clone();
        let routes =
            MemoryKnowledge::new(Arc::new(ArcSwap::from_pointee(settings)), Arc::default(), Arc::new(Notify::new()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(|error| crate::api::problem::io(&format!("Port {port} cannot be used"), &error))?;
        let addr = listener.local_addr().map_err(Problem::internal)?;
        let life = Lifeline::new();
        serve::tcp(listener, router(Side { core, memory, routes: Arc::new(routes) }, addr.port()), &life);
        Ok(Self { life, addr })
    }

    /// Ends it: what runs is finished.
    pub async fn stop(self) {
        self.life.quit.cancel();
        self.life.tasks.close();
        let patience = std::time::Duration::from_secs(5);
        if tokio::time::timeout(patience, self.life.tasks.wait()).await.is_err() {
            self.life.kill.cancel();
        }
    }
}

fn router(side: Side, port: u16) -> Router {
    let checks = middleware::from_fn(move |request: Request, next: Next| async move {
        match crate::doors::check_source(request.headers(), port) {
            Ok(()) => next.run(request).await,
            Err(problem) => problem.into_response(),
        }
    });
    Router::new()
        .route("/health", get(health))
        .route("/stats", get(stats))
        .route("/retrieve", post(retrieve))
        .route("/search", post(search))
        .route("/ingest", post(ingest))
        .route("/buffer_turn", post(buffer_turn))
        .route("/flush_session", post(flush_session))
        .route("/store", post(store))
        .route("/forget", post(forget))
        .route("/consolidate", post(consolidate))
        .route("/upgrade/status", get(upgrade_status))
        .route("/upgrade/trigger", post(upgrade_trigger))
        .layer(checks)
        .layer(axum::extract::DefaultBodyLimit::max(16 << 20))
        .with_state(side)
}

type Answer = Result<Json<Value>, Refused>;

/// An error in the sidecar's shape.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "detail": self.1 }))).into_response()
    }
}

impl From<memory::Error> for Refused {
    fn from(error: memory::Error) -> Self {
        let problem = memory_problem(error);
        Self(problem.status(), problem.message)
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem.status(), problem.message)
    }
}

/// Every field of every request; each route reads its own.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    session_id: String,
    scope_id: Option<String>,
    task_description: String,
    query: String,
    limit: Option<usize>,
    turns: Vec<Value>,
    content: String,
    memory_type: String,
    tags: Vec<String>,
    importance: Option<f64>,
    memory_id: String,
}

fn asked(body: &Bytes) -> Result<Asked, Refused> {
    serde_json::from_slice(body)
        .map_err(|error| Refused(StatusCode::UNPROCESSABLE_ENTITY, format!("the body does not fit: {error}")))
}

impl Side {
    /// Memory, with what others have changed meanwhile.
    async fn memory(&self) -> Result<Memory, Refused> {
        self.memory.notice().await?;
        Ok(self.memory.clone())
    }

    /// What the same route on the agent port would answer.
    async fn own(&self, method: Method, path: &str, query: &[(&str, String)], body: Bytes) -> Answer {
        self.memory.notice().await?;
        let query: HashMap<String, String> =
            query.iter().filter(|(_, value)| !value.is_empty()).map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        let now_ms = self.core.clock().now_ms();
        let call = OwnCall { method, path: format!("/memory{path}"), query, body, now_ms, agent: None };
        let answer = self.routes.serve(&call).await;
        let answer = answer.ok_or_else(|| Refused(StatusCode::NOT_FOUND, "Not Found".to_owned()))?;
        let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_success() {
            return Ok(Json(answer.body));
        }
        Err(Refused(status, answer.body["detail"].as_str().unwrap_or_default().to_owned()))
    }
}

async fn health(State(side): State<Side>) -> Answer {
    let room = side.memory().await?;
    let scope = room.settings().scope.clone();
    let figures = room.figures(Some(&scope)).await?;
    let memories = figures.by_status.get("active").copied().unwrap_or_default() + figures.windows;
    Ok(Json(json!({ "status": "ok", "memories": memories, "scope": scope })))
}

async fn stats(State(side): State<Side>) -> Answer {
    side.own(Method::GET, "/stats", &[], Bytes::new()).await
}

async fn retrieve(State(side): State<Side>, body: Bytes) -> Answer {
    let asked = asked(&body)?;
    let room = side.memory().await?;
    let words = dialect::user_words(&asked.task_description);
    let scope = asked.scope_id.unwrap_or_default();
    let now_ms = side.core.clock().now_ms();
    let found = room.recall(&Ask { text: &words, scope: &scope, now_ms, ..Ask::default() }).await?;
    Ok(Json(json!({ "rendered_prompt": section(&found), "unit_count": found.len() })))
}

async fn search(State(side): State<Side>, body: Bytes) -> Answer {
    let asked = asked(&body)?;
    let limit = asked.limit.unwrap_or(10).to_string();
    let query = [("q", asked.query), ("scope", asked.scope_id.unwrap_or_default()), ("limit", limit)];
    let Json(found) = side.own(Method::GET, "/search", &query, Bytes::new()).await?;
    // Flat, and as the plugin reads it.
    let both = |hit: &Value| {
        let mut hit = hit.clone();
        let mut unit = hit.clone();
        unit["memory_type"] = hit["type"].clone();
        hit["unit"] = unit;
        hit
    };
    let results: Vec<Value> = found.as_array().into_iter().flatten().map(both).collect();
    Ok(Json(json!({ "results": results })))
}

async fn ingest(State(side): State<Side>, body: Bytes) -> Answer {
    let asked = asked(&body)?;
    let mut added = 0;
    for turn in asked.turns {
        let one = json!({ "session_id": asked.session_id, "turn": turn, "scope_id": asked.scope_id });
        let Json(done) = side.own(Method::POST, "/buffer_turn", &[], one.to_string().into()).await?;
        added += done["added"].as_u64().unwrap_or_default();
    }
    let rest = json!({ "session_id": asked.session_id }).to_string();
    let Json(done) = side.own(Method::POST, "/flush_session", &[], rest.into()).await?;
    Ok(Json(json!({ "added": added + done["added"].as_u64().unwrap_or_default() })))
}

async fn buffer_turn(State(side): State<Side>, body: Bytes) -> Answer {
    side.own(Method::POST, "/buffer_turn", &[], body).await
}

async fn flush_session(State(side): State<Side>, body: Bytes) -> Answer {
    side.own(Method::POST, "/flush_session", &[], body).await
}

async fn store(State(side): State<Side>, body: Bytes) -> Answer {
    let asked = asked(&body)?;
    let room = side.memory().await?;
    let known = memory::facts::KINDS.contains(&asked.memory_type.as_str());
    let new = NewMemory {
        content: asked.content,
        kind: if known { asked.memory_type } else { "semantic".to_owned() },
        scope: asked.scope_id.unwrap_or_default(),
        tags: asked.tags,
        importance: asked.importance,
        at_ms: side.core.clock().now_ms(),
        ..NewMemory::default()
    };
    let id = room.add(new).await?;
    room.refresh().await?;
    Ok(Json(json!({ "memory_id": id })))
}

async fn forget(State(side): State<Side>, body: Bytes) -> Answer {
    let asked = asked(&body)?;
    let room = side.memory().await?;
    match room.forget_id(&asked.memory_id, side.core.clock().now_ms()).await {
        Ok(_) | Err(memory::Error::NoSuchMemory(_)) => {}
        Err(error) => return Err(error.into()),
    }
    room.refresh().await?;
    Ok(Json(json!({ "ok": true })))
}

async fn consolidate(State(side): State<Side>) -> Answer {
    let Json(done) = side.own(Method::POST, "/maintenance", &[], Bytes::new()).await?;
    Ok(Json(done["consolidation"].clone()))
}

async fn upgrade_status() -> Json<Value> {
    Json(json!({ "state": "not_configured", "detail": "the policy does not improve itself in this release" }))
}

async fn upgrade_trigger() -> Json<Value> {
    Json(json!({ "triggered": true, "ran": false }))
}
