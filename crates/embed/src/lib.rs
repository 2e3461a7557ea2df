//! Text to vectors, so that what means the same is found whatever its words: a local model of the BERT family, or an
//! OpenAI-compatible endpoint.
//!
//! ```text
//! text ─► Embedder ─┬─► Local: tokenizer ─► rows of the word table, from disk ─► encoder ─► mean ─► unit vector
//!                   └─► Remote: POST {base}/embeddings ─► unit vector
//! ```
//!
//! Vectors have length 1, so a dot product is the cosine.

mod bert;
mod coarse;
mod common;
mod error;
mod local;
mod remote;
mod tensors;
mod tokens;
mod vector;
mod wide;

use async_trait::async_trait;

pub use coarse::{Coarse, Frame, Glance};
pub use common::Common;
pub use error::Error;
pub use local::{Local, LocalOptions, Look, name_of};
pub use remote::{Remote, RemoteOptions};
pub use vector::{Vector, dot};

/// Whether a folder holds a model that is understood. Reads all of it.
///
/// # Errors
/// The file that is wrong, and what is.
pub fn check(folder: &std::path::Path) -> Result<(), Error> {
    bert::Bert::open(folder, 1).map(|_| ())
}

/// What a text is for. Some models are told, and find better for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Something is looked for by it.
    Query,
    /// It may be found.
    Passage,
}

/// Turns texts into vectors. Never blocks an async thread.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// Names the model and its version: vectors of different names cannot be compared.
    fn name(&self) -> String;

    /// One vector for each text, in their order.
    ///
    /// # Errors
    /// The model cannot be read or reached, or was closed meanwhile.
    async fn embed(&self, side: Side, texts: &[String]) -> Result<Vec<Vector>, Error>;
}
