//! The SKILL.md library: read, check, find, render.
//!
//! `~/.metaclaw/skills/<name>/SKILL.md` → [`Library`] (living folder) → [`Bank`] (snapshot with index) →
//! [`Bank::search`] for the user's words → [`render`] → text for the agent's context.

mod bank;
mod builtin;
mod change;
mod disk;
mod error;
mod front_matter;
mod index;
mod library;
mod parse;
mod problem;
mod render;
mod skill;
mod watch;

pub use bank::{Bank, DEFAULT_FLOOR, Hit, Lexical, Limits, Query, Retriever};
pub use builtin::{Builtin, InstallReport, builtin, install_builtin};
pub use change::{Draft, Imported, MAX_IMPORT_BYTES, MAX_IMPORT_FILES, Trashed, modernise, validate};
pub use error::Error;
pub use index::Scored;
pub use library::{Library, Reloaded};
pub use parse::{
    AGENTS_KEY, CATEGORY_KEY, KEYWORDS_KEY, LONG_BODY_LINES, MAX_COMPATIBILITY_CHARS, MAX_DESCRIPTION_CHARS,
    MAX_FILE_BYTES, MAX_FRONT_MATTER_BYTES, MAX_NAME_CHARS, Parsed, check_slug, parse,
};
pub use problem::{Problem, Severity};
pub use render::{Block, Dropped, Used, render, section};
pub use skill::{CATEGORIES, GENERAL, Origin, Skill};
pub use text::{TAG, escape};
