use std::path::PathBuf;

/// Why there is no vector.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A file of the model cannot be read.
    #[error("{}: {what}; give a folder with config.json, tokenizer.json and model.safetensors of a BERT model", file.display())]
    Model {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The endpoint did not answer with vectors.
    #[error("{address} gives no vectors: {what}")]
    Endpoint {
        /// Its address.
        address: String,
        /// What it said.
        what: String,
    },
    /// The model was closed before it came to this text.
    #[error("the embedding model was closed")]
    Closed,
}
