//! The SKILL.md library: read, check, find, render; learn new skills, and find out whether they help.
//!
//! `~/.metaclaw/skills/<name>/SKILL.md` → [`Library`] (living folder) → [`Bank`] (snapshot with index) →
//! [`Bank::search`] for the user's words → [`render`] → text for the agent's context.

mod bank;
mod builtin;
mod change;
mod disk;
mod error;
pub mod evolve;
mod front_matter;
pub mod generation;
mod index;
mod library;
mod lint;
mod meaning;
mod pack;
mod parse;
mod problem;
pub mod proof;
mod render;
pub mod replay;
pub mod score;
pub mod signals;
mod skill;
mod watch;
pub mod workshop;

pub use bank::{Bank, DEFAULT_FLOOR, Hit, Lexical, Limits, Query, Retriever};
pub use builtin::{Builtin, InstallReport, builtin, install_builtin};
pub use change::{Draft, Imported, MAX_IMPORT_BYTES, MAX_IMPORT_FILES, Trashed, modernise, validate};
pub use disk::belongings;
pub use error::Error;
pub use index::Scored;
pub use library::{Library, Reloaded};
pub use lint::{ALIKE, Against, Flaw, GOOD_BODY_CHARS, GOOD_DESCRIPTION_CHARS, Lint, lint, nearest};
pub use meaning::{ByMeaning, Meaning, Meanings, Texts, background, built_in_examples};
pub use parse::{
    AGENTS_KEY, CATEGORY_KEY, EXAMPLES_KEY, KEYWORDS_KEY, LONG_BODY_LINES, MAX_COMPATIBILITY_CHARS,
    MAX_DESCRIPTION_CHARS, MAX_FILE_BYTES, MAX_FRONT_MATTER_BYTES, MAX_NAME_CHARS, ORIGIN_KEY, Parsed, check_slug,
    parse,
};
pub use problem::{Problem, Severity};
pub use render::{Block, Dropped, Used, render, section};
pub use skill::{CATEGORIES, GENERAL, Origin, Skill, hex};
pub use text::{TAG, escape};
