//! What can be wrong with the settings, said with file, line, key and what is allowed.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::Serialize;

/// One wrong value in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Line in the file, from 1; 0 where the value comes from outside the file.
    pub line: usize,
    /// Column in the line, from 1.
    pub column: usize,
    /// Dotted path of the key, e.g. `proxy.port`.
    pub key: String,
    /// What was found. Never the text of a secret.
    pub found: String,
    /// What may stand there.
    pub allowed: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "{}: found {}; allowed: {}", self.key, self.found, self.allowed)
    }
}

/// Something in the file that is not wrong enough to stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Line in the file, from 1; 0 where the warning is about a default.
    pub line: usize,
    /// Dotted path of the key.
    pub key: String,
    /// What is the matter.
    pub message: String,
    /// What was probably meant, or what to do.
    pub suggestion: Option<String>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "{}: {}", self.key, self.message)?;
        if let Some(suggestion) = &self.suggestion {
            write!(f, " ({suggestion})")?;
        }
        Ok(())
    }
}

/// Why the settings could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is no file.
    #[error("{} does not exist; `metaclaw setup` writes one", file.display())]
    Missing {
        /// The file that was looked for.
        file: PathBuf,
    },
    /// The file is there but cannot be read.
    #[error("{} cannot be read: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no YAML.
    #[error("{}, line {line}, column {column}: this is no YAML: {message}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the parser stumbled over.
        message: String,
    },
    /// The file is YAML, but values in it are not allowed. All of them are listed.
    #[error("{}: {}", file.display(), lines(problems))]
    Invalid {
        /// The file.
        file: PathBuf,
        /// Every wrong value, in the order of the file.
        problems: Vec<Problem>,
    },
    /// Neither `METACLAW_HOME` nor the user's home folder is known.
    #[error("no home folder: set METACLAW_HOME (or HOME) to an absolute path")]
    NoHome,
}

impl ConfigError {
    /// The wrong values, where there are any.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Invalid { problems, .. } => problems,
            _ => &[],
        }
    }
}

/// Why an edit was not made. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// No such key.
    #[error("there is no key {key}{}", hint(suggestion.as_deref()))]
    UnknownKey {
        /// What was asked for.
        key: String,
        /// The nearest key there is.
        suggestion: Option<String>,
    },
    /// The value is not allowed for this key.
    #[error("{0}")]
    NotAllowed(Problem),
    /// The file as it stands cannot be read, so it is not written over.
    #[error("not written, because the file must first be mended: {0}")]
    Broken(#[from] ConfigError),
    /// The place in the file is written in a way that is not edited by program.
    #[error("{}, line {line}: {key} is written in a way that only a person should change ({why})", file.display())]
    ByHand {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// What stands in the way.
        why: &'static str,
    },
    /// Somebody else changed the file in the meantime.
    #[error("{} was changed by another program in this moment; nothing was written, try again", file.display())]
    Changed {
        /// The file.
        file: PathBuf,
    },
    /// Reading or writing failed.
    #[error("{} cannot be written: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn lines(problems: &[Problem]) -> String {
    let all: Vec<String> = problems.iter().map(Problem::to_string).collect();
    all.join("\n  ")
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |key| format!("; did you mean {key}?"))
}
