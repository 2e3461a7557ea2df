//! What can go wrong when the library is changed.

use std::path::{Path, PathBuf};

use crate::problem::Problem;

/// A change that was not made. The library is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error("{doing} {} failed: {source}; check free space and permissions", path.display())]
    Io {
        /// What was tried, such as `writing`.
        doing: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The skill's text cannot be used.
    #[error("the skill was not accepted: {}", list(problems))]
    Invalid {
        /// Every finding; at least one is an error.
        problems: Vec<Problem>,
    },
    /// The name is taken.
    #[error("there is already a skill `{name}` at {}; remove it first or choose to replace it", path.display())]
    Exists {
        /// The taken name.
        name: String,
        /// Who has it.
        path: PathBuf,
    },
    /// Its file has another text by now.
    #[error("{} was changed meanwhile; nothing was written over it", path.display())]
    Changed {
        /// The skill.
        name: String,
        /// Its file.
        path: PathBuf,
    },
    /// There is no such skill.
    #[error("there is no skill `{name}`{}", hint.as_ref().map(|h| format!("; did you mean `{h}`?")).unwrap_or_default())]
    NotFound {
        /// The name asked for.
        name: String,
        /// The nearest existing name.
        hint: Option<String>,
    },
    /// There is nothing in the trash under this id.
    #[error("the trash has no entry `{id}`; `metaclaw skills log` lists what can be undone")]
    NotInTrash {
        /// The id asked for.
        id: String,
    },
    /// An import that is not a skill folder, too big, or reaches outside itself.
    #[error("{} cannot be imported: {why}", path.display())]
    Import {
        /// The file or folder at fault.
        path: PathBuf,
        /// What is wrong with it and what to do.
        why: String,
    },
}

fn list(problems: &[Problem]) -> String {
    problems.iter().filter(|p| p.is_error()).map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { doing, path, source }
}
