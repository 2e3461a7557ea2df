//! The part of the configuration that the agent port needs, ready to use. Made from `config::Config` by the engine at
//! start and at every change, and swapped whole: a request sees one consistent set from its first to its last byte.

use std::sync::Arc;
use std::time::Duration;

use config::{AuthMethod, Config, Placement};
use memory::Within;
use store::Scope;

use crate::gate::Pass;

/// Live settings of the agent port.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The key agents must show; `None` = any credential is fine.
    pub api_key: Option<String>,
    /// Keys of single agents, by their names; good where `api_key` is asked for, and for telling who it is anywhere.
    pub agent_keys: Vec<(Arc<str>, String)>,
    /// Host names served beside the loopback ones, with or without port.
    pub allowed_hosts: Vec<String>,
    /// Web origins served beside loopback ones, as the browser sends them.
    pub allowed_origins: Vec<String>,
    /// The port listens beyond loopback.
    pub open_to_network: bool,
    /// The agents' own provider credentials go upstream.
    pub passthrough: bool,
    /// Most bytes of a request body.
    pub max_body_bytes: usize,
    /// A session ends after this long without a request; `None` = only explicitly.
    pub session_idle: Option<Duration>,
    /// How long an upstream may be silent before the agent gets a keep-alive; `None` = for ever.
    pub keepalive: Option<Duration>,
    /// How long an upstream may be silent in the middle of an answer before it counts as broken.
    pub stream_idle: Duration,
    /// How long the journal may take for one row before the agent gets its last event without it.
    pub journal_patience: Duration,
    /// Where the injected block goes.
    pub placement: Placement,
    /// Most tokens of one injected block, estimated; 0 = nothing is injected.
    pub max_injected_tokens: u32,
    /// Whose memory it is where nobody is named.
    pub memory_scope: Arc<str>,
    /// All agents have one memory.
    pub memory_is_shared: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            api_key: None,
            agent_keys: Vec::new(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            open_to_network: false,
            passthrough: false,
            max_body_bytes: 64 << 20,
            session_idle: Some(Duration::from_secs(30 * 60)),
            keepalive: Some(Duration::from_secs(15)),
            stream_idle: Duration::from_secs(600),
            journal_patience: Duration::from_secs(10),
            placement: Placement::Turn,
            max_injected_tokens: 3000,
            memory_scope: memory::DEFAULT_SCOPE.into(),
            memory_is_shared: true,
        }
    }
}

impl Settings {
    /// From the user's configuration.
    pub fn from_config(config: &Config) -> Self {
        let proxy = &config.proxy;
        let seconds = |n: u32| (n > 0).then(|| Duration::from_secs(n.into()));
        Self {
            api_key: Some(proxy.api_key.expose().to_owned()).filter(|key| !key.is_empty()),
            agent_keys: (proxy.agent_keys.iter())
                .filter(|(_, key)| key.is_configured())
                .map(|(agent, key)| (crate::identify::short_name(agent).into(), key.expose().to_owned()))
                .collect(),
            allowed_hosts: proxy.allowed_hosts.clone(),
            allowed_origins: proxy.allowed_origins.clone(),
            open_to_network: !config.listen().addr.ip().is_loopback(),
            passthrough: config.llm.auth_method == AuthMethod::Passthrough,
            max_body_bytes: usize::try_from(proxy.max_body_mb).unwrap_or(usize::MAX).saturating_mul(1 << 20),
            session_idle: seconds(proxy.session_idle_minutes.saturating_mul(60)),
            keepalive: seconds(proxy.keepalive_seconds),
            stream_idle: Duration::from_secs(proxy.idle_timeout_seconds.max(1).into()),
            placement: config.skills.placement,
            max_injected_tokens: if config.skills.enabled { config.skills.max_injected_tokens } else { 0 },
            memory_scope: config.memory.scope.as_str().into(),
            memory_is_shared: config.memory.shared_by_agents,
            ..Self::default()
        }
    }
}

impl Settings {
    /// Which agent a request is of: the one whose key it showed, else the one that it says. Where each has a memory of its
    /// own, who only says to be one that has a key is somebody else, under a name that nobody can give himself.
    pub(crate) fn agent_of(&self, said: Arc<str>, pass: &Pass) -> Arc<str> {
        if let Some(agent) = pass.agent(self) {
            return agent.clone();
        }
        let is_keyed = || self.agent_keys.iter().any(|(agent, _)| *agent == said);
        if !self.memory_is_shared && is_keyed() { format!("~{said}").into() } else { said }
    }

    /// Whose memory a request gets: what it names, within what is its agent's, and within its session if that is a group's.
    pub(crate) fn memory_of(&self, named: &Scope, agent: &str, group: Option<&str>) -> Scope {
        let within = Within { agent: (!self.memory_is_shared).then_some(agent), group };
        memory::narrow(named, &self.memory_scope, within)
    }
}

#[cfg(test)]
impl Settings {
    pub(crate) fn for_test() -> Self {
        Self::default()
    }
}
