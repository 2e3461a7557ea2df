//! What can go wrong in memory, in the caller's words.

/// Result of a memory operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A memory error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// No such memory.
    #[error("there is no memory {0}; `metaclaw memory search` lists their ids")]
    NoSuchMemory(String),
    /// A type that does not exist.
    #[error(
        "`{0}` is no type of memory; one of episodic, semantic, preference, project_state, working_summary, procedural_observation"
    )]
    UnknownKind(String),
    /// Nothing to remember.
    #[error("there is nothing to remember in an empty text")]
    Empty,
    /// The embedding model.
    #[error("what memory means cannot be told: {0}")]
    Embedding(String),
    /// Two processes have different models.
    #[error("another process has an embedding model other than {0} on this database; only one of them can be used")]
    AnotherModel(String),
    /// A line of an export that cannot be read.
    #[error("line {line} of the export cannot be read: {reason}")]
    BadLine {
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

impl From<embed::Error> for Error {
    fn from(error: embed::Error) -> Self {
        Self::Embedding(error.to_string())
    }
}
