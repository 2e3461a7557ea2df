//! The part of the configuration that the agent port needs, ready to use. Made from `config::Config` by the engine at
//! start and at every change, and swapped whole: a request sees one consistent set from its first to its last byte.

use std::sync::Arc;
use std::time::Duration;

use config::{AuthMethod, Config, Placement};

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
            ..Self::default()
        }
    }
}

#[cfg(test)]
impl Settings {
    pub(crate) fn for_test() -> Self {
        Self::default()
    }
}
