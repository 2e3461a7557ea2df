//! The service from its start to its end. Start: home, lock, config, port, journal, skills, provider, doors. End: running
//! answers are finished, what is left is cut and recorded, the journal is closed, the lock freed, all within ten seconds.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use config::{ConfigError, Home};
use serde_json::json;
use store::Store;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, OnceCell, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bus::Bus;
use crate::core::{Core, End, Inner, Overrides, Reading};
use crate::evolve::{self, Evolution};
use crate::files::Files;
use crate::local::Local;
use crate::lock::{Asked, Holder, HomeLock, LockError};
use crate::logs::LogControl;
use crate::meanings::{self, MeaningRoom};
use crate::memory_meaning;
use crate::remember::{self, Memories};
use crate::run::Run;
use crate::serve::Lifeline;
use crate::{Clock, api, doors, judge, port, retention, score, serve, watch as changes};

/// How long running answers may take to end by themselves.
const DRAIN: Duration = Duration::from_millis(4500);
/// How long the error events may take that end what runs after that.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long cut answers may take to be recorded.
const RECORD: Duration = Duration::from_secs(2);
/// How long the doors and background tasks may take to end.
const CLOSE: Duration = Duration::from_millis(500);
/// How long the journal may take to be closed.
const JOURNAL: Duration = Duration::from_secs(1);
/// How many proxy events may wait for the bus.
const EVENTS: usize = 4096;

/// What a start needs.
#[derive(Clone)]
pub struct StartOptions {
    /// The folder.
    pub home: Home,
    /// Config file instead of the folder's own.
    pub config: Option<PathBuf>,
    /// What the command line says over it.
    pub overrides: Overrides,
    /// The log of this process, and its file.
    pub log: LogControl,
    /// The file it writes.
    pub log_file: PathBuf,
    /// Open the control API on this loopback port as well; 0 = any free one.
    pub ui_port: Option<u16>,
    /// Where the window's pages are; absent = beside the program.
    pub pages: Option<PathBuf>,
    /// Wall time and randomness.
    pub clock: Clock,
}

impl StartOptions {
    /// The usual start of a home.
    #[must_use]
    pub fn new(home: Home) -> Self {
        let log_file = home.log_path();
        Self {
            home,
            config: None,
            overrides: Overrides::default(),
            log: LogControl::default(),
            log_file,
            ui_port: None,
            pages: None,
            clock: Arc::new(proxy::SystemClock),
        }
    }
}

/// Why the service did not start. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The folder cannot be used.
    #[error("the folder {} cannot be used: {source}", path.display())]
    Home {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Somebody else holds the home, or its lock cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The config file cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The first config file could not be written.
    #[error(transparent)]
    FirstConfig(#[from] config::EditError),
    /// Another program has the port.
    #[error("port {} is taken by {}", addr.port(), holder.as_ref().map_or("another program".to_owned(), |holder| format!("{} (process {})", holder.name, holder.pid)))]
    PortTaken {
        /// The address.
        addr: SocketAddr,
        /// Who has it, where that can be seen.
        holder: Option<port::Listener>,
    },
    /// The address cannot be used.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] store::Error),
    /// The control socket cannot be opened.
    #[error("the control socket {} cannot be opened: {source}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The HTTP client for providers cannot be made.
    #[error("the HTTP client cannot be made: {0}")]
    Http(String),
}

/// The running service.
pub struct Engine {
    core: Core,
    run: Arc<Run>,
    router: axum::Router,
    agent: Lifeline,
    /// Background work of the proxy, and what outlives its requests.
    proxy_tasks: TaskTracker,
    proxy_cancel: CancellationToken,
    /// Watchers and the bus.
    tasks: TaskTracker,
    cancel: CancellationToken,
    store: Store,
    store_tasks: TaskTracker,
    ended: watch::Receiver<Option<End>>,
    lock: HomeLock,
}

impl Engine {
    /// Starts the service. When this returns, agents are served.
    ///
    /// # Errors
    /// Each says what is wrong and where; the home is as it was.
    pub async fn start(options: StartOptions) -> Result<Self, StartError> {
        crate::install_tls();
        let home = options.home.clone();
        home.ensure().map_err(|source| StartError::Home { path: home.dir().to_path_buf(), source })?;
        let mut lock = take(&home).await?;
        let config_path = options.config.clone().unwrap_or_else(|| home.config_path());
        let files = Files::default();
        let reading = first_reading(&files, &config_path, &options).await?;
        let config = reading.loaded.config.clone();
        let warnings = crate::run::warnings(&reading);
        options.log.mask(crate::run::secrets(&config));
        options.log.level(config.log.level.as_str());
        options.log.sizes(config.log.max_mb, config.log.keep_files);
        let listen = config.listen();
        let listener = bind(listen.addr).await?;
        let addr = listener.local_addr().map_err(|source| StartError::Listen { addr: listen.addr, source })?;

        let store_tasks = TaskTracker::new();
        let skills_dir = home.resolve(&config.skills.dir);
        let db = home.db_path();
        let opening = Store::open(&db, store::Options::default(), &store_tasks, CancellationToken::new());
        let reading_skills = tokio::task::spawn_blocking(move || library(skills_dir));
        let http = {
            let config = config.clone();
            tokio::task::spawn_blocking(move || proxy::http_client(&config))
        };
        let (store, library, http) = tokio::join!(Box::pin(opening), reading_skills, http);
        let store = store?;
        let library = library.map_err(|error| StartError::Http(error.to_string()))?;
        let http = http
            .map_err(|error| StartError::Http(error.to_string()))?
            .map_err(|error| StartError::Http(error.to_string()))?;

        let library = Arc::new(library);
        let evolution = Evolution::new(Arc::clone(&library), store.clone(), &config);
        let meanings = Arc::new(MeaningRoom::new(&home, &config));
        let off = config.skills.disabled.iter().cloned().collect();
        if let Err(error) = evolution.workshop().begin_count(off).await {
            tracing::warn!(%error, "the skills' generations cannot be read; turns are not stamped with one");
        }
        let clock = Arc::clone(&options.clock);
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let bus = Bus::start(store.clone(), Arc::clone(&clock), &tasks, cancel.clone());
        let hop = proxy::new_hop(&*clock);
        let (end, ended) = watch::channel(None);
        let local = Arc::new(Local::new(&home, &config, &clock));
        let run = Arc::new(Run {
            bus: bus.clone(),
            control: Lifeline::new(),
            addr,
            started_ms: clock.now_ms(),
            refused: listen.refused.clone(),
            boot: reading.loaded.clone(),
            ui: OnceLock::new(),
            ui_asked: options.ui_port,
            settings: Arc::new(ArcSwap::from_pointee(proxy::Settings {
                open_to_network: !addr.ip().is_loopback(),
                ..proxy::Settings::from_config(&config)
            })),
            skills: Arc::new(ArcSwap::from_pointee(proxy::SkillSettings::from_config(&config))),
            upstream: Arc::new(ArcSwap::from_pointee(proxy::route(&config, &http, &hop, &local.built_in()))),
            memories: Arc::new(Memories::new(store.clone(), &config)),
            evolution: Arc::new(evolution),
            meanings,
            agents: OnceLock::new(),
            http,
            local: Arc::clone(&local),
            hop: Arc::clone(&hop),
            log: options.log.clone(),
            end,
            stopping: AtomicBool::new(false),
            unrecorded: ArcSwapOption::empty(),
        });
        let core = Core(Arc::new(Inner {
            home: home.clone(),
            config_path: config_path.clone(),
            overrides: options.overrides.clone(),
            clock: Arc::clone(&clock),
            log: options.log_file.clone(),
            reading: ArcSwap::from_pointee(reading),
            library: OnceLock::from(library),
            journal: OnceCell::new_with(Some(Some(store.clone()))),
            local,
            writable: OnceCell::new(),
            run: Some(Arc::clone(&run)),
            changing: Mutex::new(()),
            files,
            tell: OnceLock::new(),
        }));
        let router = api::router(core.clone());
        let mut engine = Self {
            router,
            agent: Lifeline::new(),
            proxy_tasks: TaskTracker::new(),
            proxy_cancel: CancellationToken::new(),
            tasks,
            cancel,
            store,
            store_tasks,
            ended,
            core,
            run,
            lock,
        };
        if let Err(error) = engine.open_doors(&options, &config).await {
            engine.close().await;
            return Err(error);
        }
        engine.serve_agents(listener, clock);
        let holder = Holder {
            pid: std::process::id(),
            port: addr.port(),
            since: jiff::Timestamp::from_millisecond(engine.started_ms()).unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: config_path,
            log: Some(options.log_file.clone()),
            asked: Asked {
                mode: options.overrides.mode.map(|mode| mode.to_string()),
                port: options.overrides.port,
                ui_port: options.ui_port,
                log_file: (options.log_file != home.log_path()).then(|| options.log_file.clone()),
            },
        };
        lock = engine.lock;
        lock.publish(&holder, &home.pid_path(addr.port()))?;
        engine.lock = lock;
        tracing::info!(%addr, pid = holder.pid, mode = %config.mode, version = holder.version, "serving agents");
        if let Some(refused) = &listen.refused {
            tracing::warn!("{refused}");
        }
        for odd in warnings {
            tracing::warn!("{odd}");
        }
        bus.keep(
            "service_started",
            json!({ "addr": addr.to_string(), "mode": config.mode.to_string(), "version": holder.version }),
        );
        Ok(engine)
    }

    async fn open_doors(&self, options: &StartOptions, config: &config::Config) -> Result<(), StartError> {
        let run = self.run();
        let socket = options.home.socket_path();
        doors::unix(&socket, self.router.clone(), &run.control)
            .map_err(|source| StartError::Socket { path: socket, source })?;
        let port = options.ui_port.or(config.control.tcp.then_some(config.control.tcp_port));
        if let Some(port) = port {
            let addr = SocketAddr::from(([127, 0, 0, 1], port));
            let token = crate::token::write(&options.home, &*options.clock)
                .map_err(|source| StartError::Home { path: options.home.dir().to_path_buf(), source })?;
            let pages = changes::pages(options.pages.clone());
            let door = doors::tcp(port, self.router.clone(), &token, pages, &run.control)
                .await
                .map_err(|source| listen_error(addr, source))?;
            let _ = run.ui.set(door.addr);
            tracing::info!(addr = %door.addr, "serving the control API on loopback TCP, behind its token");
        }
        Ok(())
    }

    fn serve_agents(&self, listener: TcpListener, clock: Clock) {
        let run = self.run();
        let (events, heard) = broadcast::channel(EVENTS);
        let meaning = Arc::clone(&run.meanings.meaning);
        let skills = proxy::SkillKnowledge::new(self.core.library(), Arc::clone(&run.skills), meaning);
        self.tasks.spawn(meanings::work(
            Arc::clone(&run.meanings),
            self.core.library(),
            run.http.clone(),
            run.bus.clone(),
            self.cancel.clone(),
        ));
        let memory = proxy::MemoryKnowledge::new(
            Arc::clone(&run.memories.settings),
            Arc::clone(&run.meanings.meaning),
            Arc::clone(&run.memories.wake),
        );
        let core = self.core.clone();
        let look = Box::new(move || core.look_for_meaning());
        self.tasks.spawn(memory_meaning::work(
            Arc::clone(&run.memories),
            Arc::clone(&run.meanings),
            run.bus.clone(),
            look,
            self.cancel.clone(),
        ));
        self.tasks.spawn(remember::work(
            Arc::clone(&run.memories),
            events.subscribe(),
            run.bus.clone(),
            Arc::clone(&clock),
            self.model_for_memory(),
            self.cancel.clone(),
        ));
        self.tasks.spawn(retention::work(
            self.core.clone(),
            Arc::clone(&run.memories),
            run.bus.clone(),
            self.cancel.clone(),
        ));
        let tools = evolve::Tools {
            evolution: Arc::clone(&run.evolution),
            bus: run.bus.clone(),
            clock: Arc::clone(&clock),
            ask: self.core.evolver(),
            look: self.core.look_for_evolver(),
            judge: self.core.judge(),
            ending: self.cancel.clone(),
        };
        self.tasks.spawn(evolve::learn(tools.clone()));
        self.tasks.spawn(judge::work(tools.clone()));
        self.tasks.spawn(score::work(tools.clone()));
        self.tasks.spawn(evolve::work(tools, events.subscribe()));
        let deps = proxy::Deps {
            settings: Arc::clone(&run.settings),
            upstream: Arc::clone(&run.upstream),
            knowledge: Arc::new(proxy::Sources(vec![Arc::new(skills), Arc::new(memory)])),
            store: self.store.clone(),
            events,
            tracker: self.proxy_tasks.clone(),
            cancel: self.proxy_cancel.clone(),
            clock,
            hop: Arc::clone(&run.hop),
        };
        let agent_port = proxy::Proxy::new(deps);
        let _ = run.agents.set(Arc::clone(&agent_port));
        self.proxy_tasks.spawn(Arc::clone(&agent_port).end_idle_sessions());
        self.tasks.spawn(forward(heard, Arc::clone(&self.run), self.cancel.clone()));
        self.tasks.spawn(changes::config(self.core.clone(), self.cancel.clone()));
        let socket = self.core.home().socket_path();
        self.tasks.spawn(changes::socket(socket, self.router.clone(), run.control.clone(), self.cancel.clone()));
        let (bus, evolution) = (run.bus.clone(), Arc::clone(&run.evolution));
        self.core.library().watch(&self.tasks, self.cancel.clone(), move |report| {
            evolution.changed();
            let names = [&report.added, &report.changed, &report.removed];
            if names.iter().all(|names| names.is_empty()) {
                tracing::info!("skill files with faults changed; see: metaclaw skills validate");
            } else {
                tracing::info!(added = ?report.added, changed = ?report.changed, removed = ?report.removed, "skills changed");
            }
            bus.keep("skills_changed", json!(report));
        });
        serve::tcp(listener, agent_port.router(), &self.agent);
    }

    /// Asks the model of the settings in force.
    fn model_for_memory(&self) -> remember::AskModel {
        let (core, http) = (self.core.clone(), self.run.http.clone());
        Box::new(move |text| {
            let (core, http) = (core.clone(), http.clone());
            Box::pin(async move { crate::provider::ask_for_json(&core, &http, &text).await })
        })
    }

    fn run(&self) -> &Run {
        &self.run
    }

    fn started_ms(&self) -> i64 {
        self.run().started_ms
    }

    /// The control API of this service, for a window in the same process.
    pub fn router(&self) -> axum::Router {
        self.router.clone()
    }

    /// The state of the service.
    #[must_use]
    pub fn status(&self) -> api::Status {
        self.core.status()
    }

    /// Resolves when somebody asked the service to end through the control API, with what is to follow.
    pub async fn ended(&self) -> End {
        let mut ended = self.ended.clone();
        let asked = ended.wait_for(Option::is_some).await.ok().and_then(|asked| *asked);
        asked.unwrap_or(End::Stop)
    }

    /// Ends the service: at most ten seconds, whatever agents and providers do. Nothing that was answered is lost.
    pub async fn stop(self) {
        let run = self.run();
        run.stopping.store(true, Ordering::Relaxed);
        tracing::info!("stopping");
        run.bus.keep("service_stopping", json!({}));
        self.agent.quit.cancel();
        self.agent.tasks.close();
        let mut drained = tokio::time::timeout(DRAIN, self.agent.tasks.wait()).await;
        if drained.is_err() {
            // Agents whose answers still run are told before the connections go.
            self.proxy_cancel.cancel();
            drained = tokio::time::timeout(LAST_WORDS, self.agent.tasks.wait()).await;
        }
        if drained.is_err() {
            tracing::warn!(open = self.agent.tasks.len(), "cutting answers that did not end in time");
            self.agent.kill.cancel();
            let _ = tokio::time::timeout(CLOSE, self.agent.tasks.wait()).await;
        }
        self.close().await;
    }

    /// Everything but the agent port.
    async fn close(self) {
        self.agent.quit.cancel();
        self.agent.kill.cancel();
        // The built-in model ends its answer first: the turn of it is still recorded.
        if tokio::time::timeout(CLOSE, self.core.local().close()).await.is_err() {
            tracing::warn!("the built-in model did not end in time");
        }
        self.proxy_cancel.cancel();
        self.proxy_tasks.close();
        if tokio::time::timeout(RECORD, self.proxy_tasks.wait()).await.is_err() {
            tracing::error!(open = self.proxy_tasks.len(), "some turns could not be recorded in time");
        }
        self.cancel.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(CLOSE, self.tasks.wait()).await;
        let control = &self.run().control;
        control.quit.cancel();
        control.tasks.close();
        if tokio::time::timeout(CLOSE, control.tasks.wait()).await.is_err() {
            control.kill.cancel();
        }
        match tokio::time::timeout(JOURNAL, self.store.close()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the journal did not close cleanly"),
            Err(_) => tracing::error!("the journal did not close in time; what was committed is safe"),
        }
        self.store_tasks.close();
        let _ = tokio::time::timeout(CLOSE, self.store_tasks.wait()).await;
        let _ = std::fs::remove_file(self.core.home().socket_path());
        crate::token::remove(self.core.home());
        tracing::info!("stopped");
        drop(self.lock);
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("core", &self.core).finish_non_exhaustive()
    }
}

/// The settings to start with. Without a file a first one is written: nothing chosen, but with a key for the proxy.
async fn first_reading(files: &Files, path: &Path, options: &StartOptions) -> Result<Reading, StartError> {
    let overrides = options.overrides.clone();
    match files.config(path, move |path| crate::core::read(path, &overrides)).await {
        Err(ConfigError::Missing { .. }) => {
            config::create(path, &crate::setup::first_text(&*options.clock))?;
            Ok(crate::core::read(path, &options.overrides)?)
        }
        read => Ok(read?),
    }
}

/// Takes the home's lock. Who only looks whether it is held holds it for a moment, so a taken lock is tried again.
async fn take(home: &Home) -> Result<HomeLock, LockError> {
    for _ in 0..4 {
        match HomeLock::take(&home.lock_path()) {
            Err(LockError::Held(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            taken => return taken,
        }
    }
    HomeLock::take(&home.lock_path())
}

async fn bind(addr: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(addr).await.map_err(|source| listen_error(addr, source))
}

pub(crate) fn listen_error(addr: SocketAddr, source: std::io::Error) -> StartError {
    if source.kind() == std::io::ErrorKind::AddrInUse {
        StartError::PortTaken { addr, holder: port::listener(addr.port()) }
    } else {
        StartError::Listen { addr, source }
    }
}

/// The library with the built-in skills in place. A folder that cannot be written is told and read all the same.
fn library(dir: PathBuf) -> skills::Library {
    match skills::install_builtin(&dir) {
        Ok(report) if report.installed.is_empty() && report.updated.is_empty() => {}
        Ok(report) => {
            tracing::info!(
                installed = report.installed.len(),
                updated = report.updated.len(),
                "built-in skills written"
            );
        }
        Err(error) => tracing::warn!(%error, "the built-in skills were not written"),
    }
    skills::Library::open(dir)
}

/// Carries the proxy's events to the bus. Turns are kept as turns; the rare ones are kept as events.
async fn forward(mut heard: broadcast::Receiver<proxy::Event>, run: Arc<Run>, ending: CancellationToken) {
    let bus = &run.bus;
    loop {
        let event = tokio::select! {
            biased;
            event = heard.recv() => event,
            () = ending.cancelled() => return,
        };
        let event = match event {
            Ok(event) => event,
            Err(broadcast::error::RecvError::Lagged(count)) => {
                bus.tell("missed", json!({ "count": count }));
                continue;
            }
            Err(broadcast::error::RecvError::Closed) => return,
        };
        let data = serde_json::to_value(&event).unwrap_or_default();
        match event {
            proxy::Event::TurnFinished(_) => bus.tell("turn_finished", data),
            proxy::Event::SessionEnded { .. } => bus.tell("session_ended", data),
            proxy::Event::JournalFailed { error, .. } => {
                run.unrecorded.store(Some(Arc::new(error)));
                bus.tell("journal_failed", data);
            }
            proxy::Event::JournalRecovered => bus.keep("journal_recovered", data),
            proxy::Event::FallbackUsed { .. } => bus.keep("fallback_used", data),
        }
    }
}

/// The control API without a service: what the command line uses when none runs.
#[derive(Debug)]
pub struct Cold {
    core: Core,
}

impl Cold {
    /// Reads the config; everything else is opened when it is asked for. A broken config is told by the routes.
    #[must_use]
    pub fn open(home: Home, config: Option<PathBuf>) -> Self {
        crate::install_tls();
        Self { core: Core::cold(home, config, Arc::new(proxy::SystemClock)) }
    }

    /// Has `tell` hear what the user should know beside the answers.
    #[must_use]
    pub fn telling(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let _ = self.core.0.tell.set(Box::new(tell));
        self
    }

    /// The routes.
    pub fn router(&self) -> axum::Router {
        api::router(self.core.clone())
    }
}
