//! Every key there is: the one source from which reading, checking, `config show`, the starter file and the settings
//! page are fed. A section lists its keys once, with type, default, kind, effect and text; the struct and the rows
//! of the table come from that list.

mod learning;
mod main;
mod memory;
mod rest;

use std::sync::LazyLock;

use serde::Serialize;
use serde_json::Value;

pub(crate) use learning::DEFAULT_JUDGE;
pub use learning::{Calendar, Opd, Rl, Scheduler};
pub use main::{Config, Fallback, Llm, Proxy, Skills};
pub use memory::{Memory, Synergy};
pub use rest::{App, BuiltIn, Control, Embedding, Journal, Log, OpenRouter, Record, WeChat};

use crate::value::Wrong;
use crate::yaml::Node;
use crate::{Kind, Secret};

/// What a key does in this release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "note")]
pub enum Effect {
    /// It works.
    Live,
    /// It is read and checked, and does nothing before the feature that the note names is here.
    Later(&'static str),
    /// It is accepted so that old files load, and never does anything; the note says what to use.
    Accepted(&'static str),
}

/// One key of the settings.
#[derive(Debug, Clone, Serialize)]
pub struct Key {
    /// Dotted path, e.g. `proxy.port`.
    pub path: &'static str,
    /// What may stand there.
    pub kind: Kind,
    /// What holds when the key is absent or null. Secrets have none.
    pub default: Value,
    /// One or two sentences.
    pub doc: &'static str,
    /// Its value is never shown.
    pub secret: bool,
    /// What it does today.
    pub effect: Effect,
    /// Old names of the same key.
    pub aliases: &'static [&'static str],
}

impl Key {
    /// The default as it would stand in the file.
    #[must_use]
    pub fn default_text(&self) -> String {
        crate::edit::render_value(&self.default)
    }
}

/// A key and the ways into the struct.
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) read: fn(&mut Config, &Node, &Kind) -> Result<(), Wrong>,
    pub(crate) show: fn(&Config) -> Value,
    pub(crate) same: fn(&Config, &Config) -> bool,
    pub(crate) reset: fn(&mut Config),
    pub(crate) secrets: fn(&mut Config) -> Vec<&mut Secret>,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let mut rows = Vec::new();
    main::top_rows(&mut rows);
    main::llm_rows(&mut rows);
    main::fallback_rows(&mut rows);
    main::proxy_rows(&mut rows);
    main::skills_rows(&mut rows);
    memory::memory_rows(&mut rows);
    memory::synergy_rows(&mut rows);
    learning::rl_rows(&mut rows);
    learning::opd_rows(&mut rows);
    learning::scheduler_rows(&mut rows);
    learning::calendar_rows(&mut rows);
    rest::wechat_rows(&mut rows);
    rest::openrouter_rows(&mut rows);
    rest::record_rows(&mut rows);
    rest::journal_rows(&mut rows);
    rest::builtin_rows(&mut rows);
    rest::embedding_rows(&mut rows);
    rest::control_rows(&mut rows);
    rest::app_rows(&mut rows);
    rest::log_rows(&mut rows);
    let defaults = Config::default();
    for row in &mut rows {
        row.key.default = (row.show)(&defaults);
    }
    rows
});

static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| ROWS.iter().map(|row| row.key.clone()).collect());

/// Every key, in the order of the starter file.
#[must_use]
pub fn keys() -> &'static [Key] {
    &KEYS
}

pub(crate) fn rows() -> &'static [Row] {
    &ROWS
}

/// The row of a key, by its path or an old name of it.
pub(crate) fn row(path: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.key.path == path || row.key.aliases.contains(&path))
}

/// Whether keys stand below this path.
pub(crate) fn is_section(path: &str) -> bool {
    ROWS.iter().any(|row| {
        std::iter::once(&row.key.path)
            .chain(row.key.aliases)
            .any(|known| known.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
    })
}

/// The secrets inside a value; none in most types.
pub(crate) trait Inside {
    fn secrets(&mut self) -> Vec<&mut Secret> {
        Vec::new()
    }
}

macro_rules! without_secrets {
    ($($ty:ty),* $(,)?) => { $(impl Inside for $ty {})* };
}
without_secrets!(
    bool,
    u16,
    u32,
    u64,
    i64,
    f64,
    String,
    Vec<String>,
    std::collections::BTreeMap<String, String>,
    crate::TimeOfDay,
    crate::Mode,
    crate::ClawType,
    crate::AuthMethod,
    crate::LlmDialect,
    crate::RetrievalMode,
    crate::Placement,
    crate::Backend,
    crate::LossFn,
    crate::Review,
    crate::MemoryRetrieval,
    crate::EmbeddingMode,
    crate::LogLevel,
);

impl Inside for Secret {
    fn secrets(&mut self) -> Vec<&mut Secret> {
        vec![self]
    }
}

impl Inside for crate::SecretMap {
    fn secrets(&mut self) -> Vec<&mut Secret> {
        self.values_mut().collect()
    }
}

/// Declares a section: its struct with defaults, and the rows of its keys.
///
/// `field: Type = default, kind, effect` and, where there are, `, also "old.path"`.
macro_rules! section {
    (
        $(#[$meta:meta])*
        $name:ident $at:tt $prefix:literal $rows:ident {
            $( $(#[doc = $doc:literal])+ $field:ident : $ty:ty = $default:expr, $kind:expr, $effect:expr $(, also $alias:literal)*; )*
        }
        $( with { $( $(#[doc = $sub_doc:literal])+ $sub:ident : $sub_ty:ty; )* } )?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $ty, )*
            $( $( $(#[doc = $sub_doc])+ pub $sub: $sub_ty, )* )?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $( $field: $default, )*
                    $( $( $sub: <$sub_ty>::default(), )* )?
                }
            }
        }

        pub(super) fn $rows(rows: &mut Vec<$crate::table::Row>) {
            use $crate::table::Inside as _;
            use $crate::value::Setting as _;
            $(
                rows.push($crate::table::Row {
                    key: $crate::table::Key {
                        path: concat!($prefix, stringify!($field)),
                        kind: $kind,
                        default: serde_json::Value::Null,
                        doc: concat!($($doc),+).trim_ascii_start(),
                        secret: matches!($kind, $crate::Kind::Secret | $crate::Kind::SecretMap),
                        effect: $effect,
                        aliases: &[$($alias),*],
                    },
                    read: |config, node, kind| {
                        $crate::table::at!(config $at $field) = <$ty>::read(node, kind)?;
                        Ok(())
                    },
                    show: |config| $crate::table::at!(config $at $field).show(),
                    same: |one, other| $crate::table::at!(one $at $field) == $crate::table::at!(other $at $field),
                    reset: |config| $crate::table::at!(config $at $field) = $default,
                    secrets: |config| $crate::table::at!(config $at $field).secrets(),
                });
            )*
        }
    };
}
pub(crate) use section;

/// The place of a field: `at!(config [.llm] model_id)` is `config.llm.model_id`.
macro_rules! at {
    ($config:ident [$($at:tt)*] $field:ident) => { $config $($at)* .$field };
}
pub(crate) use at;

/// Shorthand for kinds.
pub(crate) const fn int(min: i64, max: i64) -> Kind {
    Kind::Integer { min, max }
}

pub(crate) const fn num(min: f64, max: f64) -> Kind {
    Kind::Number { min, max }
}
