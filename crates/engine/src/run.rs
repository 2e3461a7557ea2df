//! The running service as its doors see it: where it listens, how it is told to end, and how changed settings reach the
//! proxy.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use config::{Config, Loaded};
use serde_json::json;
use tokio::sync::watch;

use crate::bus::Bus;
use crate::core::{Core, End, Reading};
use crate::local::Local;
use crate::logs::LogControl;
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
    pub(crate) settings: Arc<ArcSwap<proxy::Settings>>,
    pub(crate) skills: Arc<ArcSwap<proxy::SkillSettings>>,
    pub(crate) upstream: Arc<ArcSwap<proxy::Upstream>>,
    pub(crate) http: reqwest::Client,
    pub(crate) local: Arc<Local>,
    pub(crate) hop: Arc<str>,
    pub(crate) log: LogControl,
    pub(crate) end: watch::Sender<Option<End>>,
    pub(crate) stopping: AtomicBool,
}

impl Run {
    /// Asks the host of this service to end it. The first wish counts.
    pub(crate) fn ask_end(&self, how: End) {
        self.end.send_if_modified(|asked| {
            let first = asked.is_none();
            asked.get_or_insert(how);
            first
        });
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed) || self.end.borrow().is_some()
    }

    /// Why the service listens elsewhere than the config says.
    pub(crate) fn listen_note(&self) -> Option<String> {
        self.refused.clone()
    }

    /// Settings that changed since the start and count from the next one.
    pub(crate) fn restart_for(&self, now: &Loaded) -> Vec<String> {
        now.config
            .changed(&self.boot.config)
            .into_iter()
            .filter(|key| crate::api::AT_START.contains(key))
            .map(str::to_owned)
            .collect()
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
        if changed.is_empty() && before.problem.is_none() {
            return;
        }
        self.put_in_force(&now.loaded.config);
        tracing::info!(keys = changed.join(", "), "settings changed");
        self.bus.keep("config_changed", json!({ "keys": changed, "restart_for": self.restart_for(&now.loaded) }));
    }

    /// Hands the settings to everybody who works by them.
    pub(crate) fn put_in_force(&self, config: &Config) {
        self.log.mask(secrets(config));
        self.log.level(config.log.level.as_str());
        self.settings.store(Arc::new(proxy::Settings::from_config(config)));
        self.skills.store(Arc::new(proxy::SkillSettings::from_config(config)));
        self.local.configure(config);
        self.upstream.store(Arc::new(proxy::route(config, &self.http, &self.hop, &self.local.built_in)));
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
    ];
    keys.into_iter()
        .chain(config.llm.headers.values())
        .map(|secret| secret.expose().to_owned())
        .filter(|value| !value.is_empty())
        .collect()
}

impl Core {
    /// The state of the service and of its home.
    pub(crate) fn status(&self) -> crate::api::Status {
        use crate::api::{ProviderState, ServiceState, SkillFigures, Status};
        let reading = self.reading();
        let config = &reading.loaded.config;
        let run = self.running().ok();
        let upstream = config.upstream();
        let state = match run {
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
        Status {
            state,
            pid: run.map(|_| std::process::id()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since_ms: run.map(|run| run.started_ms),
            mode: config.mode.to_string(),
            mode_overruled: self.0.overrides.mode.is_some(),
            base_url: addr.map(|addr| format!("http://{}/v1", crate::health::reachable(addr))),
            port: addr.map_or(config.proxy.port, |addr| addr.port()),
            listen_note: match run {
                Some(run) => run.listen_note(),
                None => config.listen().refused,
            },
            key_required: !config.proxy.api_key.is_empty(),
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
            home: self.home().dir().display().to_string(),
            config: self.config_path().display().to_string(),
            log: Some(self.log_path().display().to_string()),
            config_problem: reading.problem.clone(),
            warnings: warnings(&reading),
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
    reading.findings.iter().filter(|finding| finding.severity == "warning" && finding.line > 0).map(warning).collect()
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
    let switches = ["memory.enabled", "wechat.enabled", "opd.enabled", "rl.enabled", "scheduler.enabled"];
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
