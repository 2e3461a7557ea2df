//! Skills by meaning: a turn's question becomes a vector in the time it may wait, or is searched by its words alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use embed::{Embedder, Side, Vector};

/// What makes vectors, and those of the library.
pub struct Meaning {
    /// The model.
    pub embedder: Arc<dyn Embedder>,
    /// The library's vectors, as far as they are made.
    pub skills: ArcSwap<skills::Meanings>,
    /// Words count too.
    pub words: bool,
    /// Longest wait of a turn.
    pub patience: Duration,
    missed: AtomicU64,
}

impl Meaning {
    /// Without vectors of skills.
    pub fn new(embedder: Arc<dyn Embedder>, words: bool, patience: Duration) -> Self {
        Self { embedder, skills: ArcSwap::default(), words, patience, missed: AtomicU64::new(0) }
    }

    /// Turns that were searched by their words alone, since the model was late or failed.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// The vector of a question, or why there is none.
    pub(crate) async fn question(&self, text: &str) -> Result<Vector, String> {
        let texts = [text.to_owned()];
        let why = match tokio::time::timeout(self.patience, self.embedder.embed(Side::Query, &texts)).await {
            Ok(Ok(vectors)) => match vectors.into_iter().next() {
                Some(vector) => return Ok(vector),
                None => "the embedding model gave nothing".to_owned(),
            },
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the embedding model took longer than {} ms", self.patience.as_millis()),
        };
        self.missed.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%why, "skills are searched by words alone");
        Err(why)
    }
}
