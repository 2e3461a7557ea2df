//! One skill as the rest of the product sees it: parsed, checked, with its place on disk.
//! Comes from [`crate::parse`]; goes into a [`crate::Bank`].

use std::path::PathBuf;

/// The categories the built-in bank uses. Any other name is allowed.
pub const CATEGORIES: [&str; 10] = [
    "general",
    "coding",
    "research",
    "data_analysis",
    "productivity",
    "security",
    "communication",
    "automation",
    "agentic",
    "common_mistakes",
];

/// Category of skills that are for any kind of task; the cap for these is `top_k`.
pub const GENERAL: &str = "general";

/// Where a skill's content comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// Written by `install_builtin` and not edited since.
    Builtin,
    /// A built-in skill that the user has edited: theirs now, never overwritten.
    BuiltinEdited,
    /// The user's own.
    User,
}

/// A usable skill.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Skill {
    /// Unique in its bank. In a spec-clean file it equals the folder's name.
    pub name: String,
    /// What it does and when to use it; at most 1,024 characters.
    pub description: String,
    /// `general`, `coding`, …; `general` when the file names none.
    pub category: String,
    /// Words and phrases, in any language, that call for this skill.
    pub keywords: Vec<String>,
    /// Requests that it is for, as a person makes them; search by meaning compares questions with these.
    pub examples: Vec<String>,
    /// The agents it is for; empty means all of them.
    pub agents: Vec<String>,
    /// `disable-model-invocation: true`: only on the user's own request, so never found by search.
    pub manual: bool,
    /// The Markdown after the front matter, with `\n` line ends, trimmed.
    pub body: String,
    /// The SKILL.md file.
    pub path: PathBuf,
    /// Line of `path` (from 1) where the body begins.
    pub line_of_body: u32,
    /// XXH3-128 of the file's bytes.
    #[serde(serialize_with = "hex128")]
    pub content_hash: u128,
    /// Where the content comes from.
    pub origin: Origin,
    /// The front matter as read, all keys, in file order.
    pub front_matter: serde_json::Map<String, serde_json::Value>,
}

impl Skill {
    /// Whether `agent` may be given this skill. A request without an agent gets only unrestricted skills.
    pub fn is_for(&self, agent: Option<&str>) -> bool {
        self.agents.is_empty() || agent.is_some_and(|agent| self.agents.iter().any(|a| a.eq_ignore_ascii_case(agent)))
    }
}

/// A hash as it is written in files and in the store.
pub fn hex(hash: u128) -> String {
    format!("{hash:032x}")
}

fn hex128<S: serde::Serializer>(hash: &u128, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&hex(*hash))
}
