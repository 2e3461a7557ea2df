//! What can be wrong with a model, each with the file, the place in it and what to do.

use std::path::PathBuf;

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be used: {fault}", file.display())]
pub struct ModelFault {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a model file.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is something else.
    #[error("it is no GGUF file (it begins with {found}); fetch it again or name another file")]
    NotGguf {
        /// The first four bytes, readable.
        found: String,
    },
    /// A version of the format that is not known.
    #[error("it is GGUF version {0}, and versions 2 and 3 are known")]
    Version(u32),
    /// It ends too early.
    #[error(
        "it ends too early: {what} needs {need} bytes and the file has {have}; the download broke off, fetch it again"
    )]
    Truncated {
        /// What does not fit.
        what: String,
        /// Length the file would need.
        need: u64,
        /// Length it has.
        have: u64,
    },
    /// Its header contradicts itself.
    #[error("its header is damaged: {0}; fetch it again")]
    Damaged(String),
    /// Another family of models.
    #[error("it holds a model of the family \"{0}\", and the built-in engine runs llama, qwen2 and qwen3")]
    Architecture(String),
    /// A variant of a known family that is not built.
    #[error("it needs {0}, which the built-in engine does not have; take another file of this model, or another model")]
    Unsupported(String),
    /// Weights in a format that is not known.
    #[error(
        "the weights {tensor} are stored as {format}, which the built-in engine does not read; take a Q4_0, Q4_1, Q4_K_M, Q5_K_M, Q6_K, Q8_0 or F16 file of this model"
    )]
    Format {
        /// Name of the weights.
        tensor: String,
        /// Name or number of the format.
        format: String,
    },
    /// Weights or a setting that are not there.
    #[error("{0} is missing in it; it is incomplete or of another kind than it says")]
    Missing(String),
    /// Weights of another shape than the settings say.
    #[error(
        "the weights {tensor} have the shape {found:?} where {wanted:?} belongs; the file is damaged or of another kind than it says"
    )]
    Shape {
        /// Name of the weights.
        tensor: String,
        /// What is there.
        found: Vec<u64>,
        /// What belongs there.
        wanted: Vec<u64>,
    },
    /// A tokenizer that is not known.
    #[error("its tokenizer is of the kind {0}, which is not known here; take another model")]
    Tokenizer(String),
    /// Its chat template cannot be used.
    #[error("its chat template cannot be used: {0}")]
    Template(String),
}
