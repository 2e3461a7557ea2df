//! How a command ends: the exit codes, and errors that say what happened, where, and what to do.

use engine::api::{Code, Problem};

/// The exit codes, as documented in the long help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Failed = 1,
    Usage = 2,
    NotRunning = 3,
    NotConfigured = 4,
    NotFound = 5,
    NotPermitted = 6,
}

/// An error as the person sees it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Fail {
    pub exit: Exit,
    pub message: String,
    pub hint: Option<String>,
}

impl Fail {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn not_running() -> Self {
        Self::new(Exit::NotRunning, "MetaClaw is not running.").hint("Start it with: metaclaw start --daemon")
    }
}

impl From<Problem> for Fail {
    fn from(problem: Problem) -> Self {
        let exit = match problem.code {
            Code::NotFound => Exit::NotFound,
            Code::NotConfigured => Exit::NotConfigured,
            Code::NotRunning => Exit::NotRunning,
            Code::Unauthorized | Code::Forbidden => Exit::NotPermitted,
            Code::Invalid | Code::Conflict | Code::Upstream | Code::Unavailable | Code::Internal => Exit::Failed,
        };
        Self { exit, message: problem.message, hint: problem.hint }
    }
}

/// A file system error, with the permission case told apart.
pub(crate) fn io(what: &str, error: &std::io::Error) -> Fail {
    let exit = if error.kind() == std::io::ErrorKind::PermissionDenied { Exit::NotPermitted } else { Exit::Failed };
    Fail::new(exit, format!("{what}: {error}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(Code::NotFound, 5)]
    #[case(Code::NotConfigured, 4)]
    #[case(Code::NotRunning, 3)]
    #[case(Code::Unauthorized, 6)]
    #[case(Code::Forbidden, 6)]
    #[case(Code::Upstream, 1)]
    #[case(Code::Internal, 1)]
    fn every_problem_has_its_documented_exit_code(#[case] code: Code, #[case] exit: u8) {
        assert_eq!(Fail::from(Problem::new(code, "x")).exit as u8, exit);
    }

    #[test]
    fn a_file_that_may_not_be_touched_is_told_apart() {
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert_eq!(io("x cannot be read", &denied).exit, Exit::NotPermitted);
    }
}
