//! What is wrong with a skill file, where, and how to put it right. Made by the parser and the library;
//! shown by the CLI, the control API and the app.

use std::fmt;
use std::path::{Path, PathBuf};

/// How much a problem matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The skill works; another Agent Skills program may refuse it.
    Note,
    /// The skill works, but something in the file was read in a way its author may not expect.
    Warning,
    /// The file cannot be used.
    Error,
}

/// One finding about one skill file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// The file or folder it is about.
    pub file: PathBuf,
    /// Line in `file`, counted from 1, where one can be named.
    pub line: Option<u32>,
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl Problem {
    pub(crate) fn error(file: &Path, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, severity: Severity::Error, message: message.into(), fix: fix.into() }
    }

    /// Whether the skill cannot be used because of this.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)?;
        if !self.fix.is_empty() {
            write!(f, " ({})", self.fix)?;
        }
        Ok(())
    }
}

/// A [`Problem`] before the parser's caller has put the file name to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub line: Option<u32>,
    pub severity: Severity,
    pub message: String,
    pub fix: String,
}

impl Finding {
    pub(crate) fn new(
        severity: Severity,
        line: impl Into<Option<u32>>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { line: line.into(), severity, message: message.into(), fix: fix.into() }
    }

    pub(crate) fn at(self, file: &Path) -> Problem {
        Problem { file: file.into(), line: self.line, severity: self.severity, message: self.message, fix: self.fix }
    }
}
