//! The file that a new install begins with: short, with comments, and with a key for the proxy.

use serde_json::Value;

use crate::preset::preset;
use crate::secret::generate_key;
use crate::splice::render;
use crate::{AuthMethod, ClawType, Mode};

/// What the setup knows when it writes the first file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// What MetaClaw does.
    pub mode: Mode,
    /// The agent.
    pub claw_type: ClawType,
    /// Id of a preset; empty = not chosen yet.
    pub provider: String,
    /// How to identify.
    pub auth_method: AuthMethod,
    /// The model; empty = the agent's choice.
    pub model_id: String,
    /// The address; empty = the provider's own.
    pub api_base: String,
    /// The key, or a reference to it.
    pub api_key: String,
    /// The port.
    pub port: u16,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            claw_type: ClawType::OpenClaw,
            provider: String::new(),
            auth_method: AuthMethod::ApiKey,
            model_id: String::new(),
            api_base: String::new(),
            api_key: String::new(),
            port: 30_000,
        }
    }
}

/// The first file. `random` becomes the key of the proxy.
#[must_use]
pub fn first_config(answers: &Answers, random: &[u8; 24]) -> String {
    let text = |value: &str| render(&Value::from(value));
    let known = preset(&answers.provider);
    let provider = known.map_or("custom", |preset| preset.id.as_str());
    let base = match known {
        Some(preset) if answers.api_base.is_empty() => &preset.api_base,
        _ => &answers.api_base,
    };
    format!(
        "\
# Settings of MetaClaw. Every key, with what it does: metaclaw config show
# Edit by hand, with `metaclaw config set KEY VALUE`, or in the app; comments stay.

mode: {mode:<18} # auto | rl | skills_only
claw_type: {claw:<13} # the agent that MetaClaw stands in front of

llm:
  provider: {provider}
  auth_method: {auth:<9} # api_key | passthrough (use the key that the agent sends)
  model_id: {model}
  api_base: {base}
  api_key: {key}

proxy:
  host: 127.0.0.1          # other machines can reach it only with 0.0.0.0 and the key below
  port: {port}
  api_key: {proxy_key}  # agents send this key

skills:
  enabled: true
  dir: ~/.metaclaw/skills
  retrieval_mode: template
  top_k: 6
  task_specific_top_k: 10
",
        mode = answers.mode,
        claw = answers.claw_type,
        auth = answers.auth_method,
        model = text(&answers.model_id),
        base = text(base),
        key = text(answers.api_key.trim()),
        port = answers.port,
        proxy_key = generate_key(random),
    )
}
