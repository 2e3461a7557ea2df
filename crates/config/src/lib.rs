//! config.yaml: typed, validated, comment-preserving edits; provider presets as data; secrets by reference.
//!
//! The file is the user's. [`load`] reads it into a [`Config`] and says what is odd ([`Warning`]) or wrong
//! ([`ConfigError`]) with line and key; [`set`] and [`unset`] change one value and leave everything else as it was
//! written. Every key stands once in the table ([`keys`]), with its kind, default, text and what it does.

mod answers;
mod base_url;
mod choices;
mod edit;
mod error;
mod file;
mod first;
mod home;
mod listen;
mod load;
mod preset;
mod secret;
mod splice;
mod suggest;
mod table;
mod upstream;
mod value;
mod yaml;

pub use answers::answers;
pub use base_url::BaseUrl;
pub use choices::{
    AuthMethod, Backend, ClawType, EmbeddingMode, LlmDialect, LogLevel, LossFn, MemoryRetrieval, Mode, Placement,
    RetrievalMode, Review,
};
pub use edit::{Change, Edit, edit_text};
pub use error::{ConfigError, EditError, Problem, Warning};
pub use file::{apply, create, get, set, unset};
pub use first::{Answers, first_config};
pub use home::Home;
pub use listen::Listen;
pub use load::{Loaded, Shown, Source, load, load_with, parse, read_text};
pub use preset::{Door, Preset, preset, presets};
pub use secret::{LocalSecrets, Reference, Secret, SecretMap, Secrets, generate_key};
pub use table::{
    App, BuiltIn, Calendar, Config, Control, Effect, Embedding, Fallback, Journal, Key, Llm, Log, Memory, Opd,
    OpenRouter, Proxy, Record, Rl, Scheduler, Skills, Synergy, WeChat, keys,
};
pub use upstream::{Credentials, NotConfigured, ONLY_FOR_TRYING, Upstream};
pub use value::{Kind, TimeOfDay};
