//! The running service as its doors see it: where it listens, how it is told to end, and how changed settings reach the
//! proxy.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, ArcSwapOption};
use config::{Config, Loaded};
use serde_json::json;
use tokio::sync::watch;

use crate::bus::Bus;
use crate::core::{Core, End, Reading};
use crate::evolve::Evolution;
use crate::local::Local;
use crate::logs::LogControl;
use crate::meanings::MeaningRoom;
use crate::remember::Memories;
use crate::serve::Lifeline;

/// See the module.
pub(crate) struct Run {
    pub(crate) bus: Bus,
    pub(crate) control: Lifeline,
    /// Where agents are served.
    pub(crate) addr: SocketAddr,
    pub(crate) started_ms: i64,
    /// Why that is not where the config says.
    pub(crate) refused: Option<String>,
    /// Settings at the start: those that count only then stay in force until the next one.
    pub(crate) boot: Loaded,
    /// Where a browser finds the window's pages.
    pub(crate) ui: OnceLock<SocketAddr>,
    /// `--ui-port` of this run.
    pub(crate) ui_asked: Option<u16>,
    pub(crate) settings: Arc<ArcSwap<proxy::Settings>>,
    pub(crate) skills: Arc<ArcSwap<proxy::SkillSettings>>,
    pub(crate) upstream: Arc<ArcSwap<proxy::Upstream>>,
    pub(crate) memories: Arc<Memories>,
    pub(crate) evolution: Arc<Evolution>,
    pub(crate) meanings: Arc<MeaningRoom>,
    /// The agent port, once it is open.
    pub(crate) agents: OnceLock<Arc<proxy::Proxy>>,
    pub(crate) http: reqwest::Client,
    pub(crate) local: Arc<Local>,
    pub(crate) hop: Arc<str>,
    pub(crate) log: LogControl,
    pub(crate) end: watch::Sender<Option<End>>,
    pub(crate) stopping: AtomicBool,
    /// Why the last turn that is not in the journal is not there.
    pub(crate) unrecorded: ArcSwapOption<String>,
}

/// Why turns do not get into the journal.
pub(crate) struct JournalTrouble {
    /// What is the matter.
    pub(crate) what: String,
    /// What to do.
    pub(crate) todo: String,
}

impl Run {
    /// Asks the host of this service to end it. The first wish counts; the answer is the one that does.
    pub(crate) fn ask_end(&self, how: End) -> End {
        let mut counts = how;
        self.end.send_if_modified(|asked| {
            let first = asked.is_none();
            counts = *asked.get_or_insert(how);
            first
        });
        counts
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed) || self.end.borrow().is_some()
    }

    /// Whether others in the network can reach the agent port. The socket decides, not what the file says by now.
    pub(crate) fn is_open_to_network(&self) -> bool {
        !self.addr.ip().is_loopback()
    }

    /// Whether `now` would take the key away from a port that others can reach. Then the key it had stays in force.
    fn keeps_key(&self, now: &Config) -> bool {
        self.is_open_to_network() && now.proxy.api_key.is_empty()
    }

    /// What is to be known about where the service listens: that it is not where the config says, or that its key was
    /// removed while others can reach the port.
    pub(crate) fn listen_note(&self, now: &Config) -> Option<String> {
        if !self.keeps_key(now) {
            return self.refused.clone();
        }
        Some(format!(
            "proxy.api_key was removed while others in the network can reach {}: agents must go on showing the key it \
             had. After a restart there is no key, and only this machine can reach the port. To keep it open, set a key: \
             metaclaw config set proxy.api_key",
            self.addr
        ))
    }

    /// Settings that changed since the start and count from the next one.
    pub(crate) fn restart_for(&self, now: &Loaded) -> Vec<String> {
        let keeps_key = self.keeps_key(&now.config);
        now.config
            .changed(&self.boot.config)
            .into_iter()
            .filter(|key| crate::api::AT_START.contains(key) || (keeps_key && *key == "proxy.api_key"))
            .map(str::to_owned)
            .collect()
    }

    /// What the agent port works by when `config` is in force.
    fn port_settings(&self, config: &Config) -> proxy::Settings {
        let mut settings = proxy::Settings::from_config(config);
        settings.open_to_network = self.is_open_to_network();
        if self.keeps_key(config) {
            settings.api_key.clone_from(&self.settings.load().api_key);
        }
        settings
    }

    /// Puts a reading of the config file in force, and tells of it.
    pub(crate) fn config_read(&self, before: &Reading, now: &Reading, changed: &[&'static str]) {
        if let Some(problem) = &now.problem {
            if before.problem.as_ref() != Some(problem) {
                tracing::warn!(%problem, "the config file cannot be used as it is; the last good settings stay in force");
                self.bus.keep("config_invalid", json!({ "problem": problem }));
            }
            return;
        }
        if let Some(held) = &now.held {
            if before.held.as_ref().is_none_or(|known| known.lost != held.lost) {
                tracing::warn!("{held}");
                self.bus.keep("config_held", json!({ "lost": held.lost }));
            }
            return;
        }
        if changed.is_empty() && before.problem.is_none() {
            return;
        }
        self.put_in_force(&now.loaded.config);
        if changed.is_empty() {
            tracing::info!("the config file can be used again; its settings are the ones in force");
        } else {
            tracing::info!(keys = changed.join(", "), "settings changed");
        }
        self.bus.keep("config_changed", json!({ "keys": changed, "restart_for": self.restart_for(&now.loaded) }));
    }

    /// Hands the settings to everybody who works by them.
    pub(crate) fn put_in_force(&self, config: &Config) {
        let settings = self.port_settings(config);
        let mut masked = secrets(config);
        if self.keeps_key(config) {
            tracing::warn!("{}", self.listen_note(config).unwrap_or_default());
            masked.extend(settings.api_key.clone());
        }
        self.log.mask(masked);
        self.log.level(config.log.level.as_str());
        self.settings.store(Arc::new(settings));
        self.skills.store(Arc::new(proxy::SkillSettings::from_config(config)));
        self.local.configure(config);
        self.upstream.store(Arc::new(proxy::route(config, &self.http, &self.hop, &self.local.built_in())));
        self.memories.config_read(config);
        self.evolution.config_read(config);
        self.meanings.config_read(config);
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("addr", &self.addr).field("stopping", &self.is_stopping()).finish_non_exhaustive()
    }
}

/// Every secret value of the settings, to be masked in the log.
pub(crate) fn secrets(config: &Config) -> Vec<String> {
    let keys = [
        &config.llm.api_key,
        &config.llm.fallback.api_key,
        &config.proxy.api_key,
        &config.rl.api_key,
        &config.rl.prm_api_key,
        &config.rl.evolver_api_key,
        &config.opd.teacher_api_key,
        &config.embedding.api_key,
    ];
    keys.into_iter()
        .chain(config.llm.headers.values())
        .chain(config.proxy.agent_keys.values())
        .map(|secret| secret.expose().to_owned())
        .filter(|value| !value.is_empty())
        .collect()
}

impl Core {
    /// Whether a process holds this home for the config file that this is about, though we got no answer from it.
    fn is_held_by_another(&self) -> bool {
        match crate::lock::holder(&self.home().lock_path()) {
            None => false,
            Some(None) => true,
            Some(Some(holder)) => holder.config == self.config_path(),
        }
    }

    fn other_holder(&self) -> Option<crate::lock::Holder> {
        crate::lock::holder(&self.home().lock_path()).flatten().filter(|holder| holder.config == self.config_path())
    }

    /// Why finished turns do not get into the journal at the moment.
    pub(crate) fn journal_trouble(&self) -> Option<JournalTrouble> {
        let run = self.running().ok()?;
        let store = self.0.journal.get()?.as_ref()?;
        let failing = run.agents.get().is_some_and(|port| port.is_journal_failing());
        let stalled = store.stalled();
        let what = match (failing, &stalled) {
            (false, None) if store.is_without_spool() => {
                return Some(JournalTrouble {
                    what: "Another process has the journal's spool: an answer ends only when its turn is in the database, and waits with it.".to_owned(),
                    todo: "End the other process that uses this folder; the service then takes the spool by itself.".to_owned(),
                });
            }
            (false, None) => return None,
            (false, Some(_)) => "Finished turns wait beside the journal until it can be written",
            (true, _) => "Finished turns do not get into the journal; agents are still served",
        };
        let why = match stalled {
            Some(error) => error.to_string(),
            None => run
                .unrecorded
                .load()
                .as_deref()
                .cloned()
                .unwrap_or_else(|| "the last one could not be written".to_owned()),
        };
        let todo =
            "When it can be written again, the journal goes on by itself. What happened: metaclaw logs".to_owned();
        Some(JournalTrouble { what: format!("{what}: {why}."), todo })
    }

    /// The state of the service and of its home.
    pub(crate) fn status(&self) -> crate::api::Status {
        use crate::api::{ProviderState, ServiceState, SkillFigures, Status};
        let reading = self.reading();
        let config = &reading.loaded.config;
        let run = self.running().ok();
        let upstream = config.upstream();
        let state = match run {
            None if self.is_held_by_another() => ServiceState::Unreachable,
            None => ServiceState::Stopped,
            Some(run) if run.is_stopping() => ServiceState::Stopping,
            Some(_) if upstream.is_err() => ServiceState::FirstRun,
            Some(_) => ServiceState::Running,
        };
        let library = self.library();
        let bank = library.snapshot();
        let off = self.disabled();
        let disabled = bank.skills().iter().filter(|s| !bank.is_enabled(&s.name) || off.contains(&s.name)).count();
        let unusable = library.problems().iter().filter(|problem| problem.is_error()).count();
        let figure = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let provider = match &upstream {
            Ok(upstream) => ProviderState {
                id: upstream.provider.clone(),
                base_url: Some(upstream.base_url.clone()).filter(|url| !url.is_empty()),
                model: Some(upstream.model_id.clone()).filter(|model| !model.is_empty()),
                dialect: Some(upstream.dialect.to_owned()),
                passthrough: upstream.credentials == config::Credentials::Caller,
            },
            Err(_) => ProviderState { id: config.llm.provider.clone(), ..ProviderState::default() },
        };
        let addr = run.map(|run| run.addr);
        let holder = if run.is_none() { self.other_holder() } else { None };
        Status {
            state,
            pid: run.map(|_| std::process::id()).or(holder.as_ref().map(|holder| holder.pid)),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since_ms: run.map(|run| run.started_ms).or(holder.as_ref().map(|holder| holder.since.as_millisecond())),
            mode: config.mode.to_string(),
            mode_overruled: self.0.overrides.mode.is_some(),
            base_url: addr.map(|addr| format!("http://{}/v1", crate::health::reachable(addr))),
            port: addr.map(|addr| addr.port()).or(holder.map(|holder| holder.port)).unwrap_or(config.proxy.port),
            listen_note: match run {
                Some(run) => run.listen_note(config),
                None => config.listen().refused,
            },
            key_required: match run {
                Some(run) => run.settings.load().api_key.is_some(),
                None => !config.proxy.api_key.is_empty(),
            },
            ui_url: run.and_then(|run| run.ui.get()).map(|addr| format!("http://{addr}/")),
            configured: upstream.is_ok(),
            missing: upstream.err().map(|error| error.to_string()),
            provider,
            skills: SkillFigures {
                enabled: config.skills.enabled,
                count: figure(bank.len()),
                disabled: figure(disabled),
                unusable: figure(unusable),
            },
            learning: self.learning_state(),
            by_meaning: self.by_meaning(),
            memory_by_meaning: self.memory_by_meaning(),
            home: self.home().dir().display().to_string(),
            config: self.config_path().display().to_string(),
            log: Some(self.log_path().display().to_string()),
            config_problem: reading.problem.clone(),
            warnings: self
                .journal_trouble()
                .map(|trouble| format!("{} {}", trouble.what, trouble.todo))
                .into_iter()
                .chain(warnings(&reading))
                .collect(),
            later: later(&reading.loaded),
            restart_for: run.map(|run| run.restart_for(&reading.loaded)).unwrap_or_default(),
        }
    }
}

pub(crate) fn warnings(reading: &Reading) -> Vec<String> {
    let warning = |finding: &crate::api::ConfigFinding| {
        let fix = finding.fix.as_deref().map(|fix| format!(" ({fix})")).unwrap_or_default();
        format!("config.yaml line {}: {}: {}{fix}", finding.line, finding.key, finding.message)
    };
    let odd = reading.findings.iter().filter(|finding| finding.severity == "warning" && finding.line > 0).map(warning);
    reading.held.iter().map(|held| crate::core::sentence(held)).chain(odd).collect()
}

/// What was asked for and does nothing yet: the mode, and features that the file switches on.
fn later(loaded: &Loaded) -> Vec<crate::api::Later> {
    let mut found = Vec::new();
    let mode = loaded.config.mode;
    if mode != config::Mode::SkillsOnly {
        found.push(crate::api::Later {
            what: format!("mode {mode}"),
            note: "training comes with a later release; until then this mode serves as skills_only does".to_owned(),
        });
    }
    let switches = ["wechat.enabled", "opd.enabled", "rl.enabled", "scheduler.enabled"];
    for key in config::keys().iter().filter(|key| switches.contains(&key.path)) {
        if let config::Effect::Later(note) = key.effect
            && loaded.config.get(key.path).is_some_and(|value| value == true)
            && loaded.source(key.path).is_some()
        {
            found.push(crate::api::Later { what: key.path.to_owned(), note: note.to_owned() });
        }
    }
    found
}
