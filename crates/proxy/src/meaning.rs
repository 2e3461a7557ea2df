//! Skills and memories by meaning: a turn's question becomes one vector for both in the time it may wait, or is searched by its
//! words alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use embed::{Embedder, Side};
use memory::Meant;
use tokio::sync::OnceCell;

use crate::knowledge::{Ask, head_and_tail};

/// Longest wait for the vector of a search by hand.
const BY_HAND: Duration = Duration::from_secs(30);

/// What a turn's question means, or why that is not known; found out once for all who ask.
#[derive(Debug, Clone, Default)]
pub struct Asked(Arc<OnceCell<Result<Meant, String>>>);

/// What makes vectors, and those of the library.
pub struct Meaning {
    /// The model.
    pub embedder: Arc<dyn Embedder>,
    /// The library's vectors, as far as they are made.
    pub skills: ArcSwap<skills::Meanings>,
    /// How skills are found; `None` = by their words alone.
    pub skills_by: Option<SkillsBy>,
    /// Memories are found by it as well.
    pub memories: bool,
    /// Longest wait of a turn.
    pub patience: Duration,
    missed: AtomicU64,
}

/// What counts where skills are found by meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkillsBy {
    /// Meaning alone.
    Meaning,
    /// Words too.
    Both,
}

impl Meaning {
    /// Without vectors of skills.
    pub fn new(embedder: Arc<dyn Embedder>, skills_by: Option<SkillsBy>, memories: bool, patience: Duration) -> Self {
        Self { embedder, skills: ArcSwap::default(), skills_by, memories, patience, missed: AtomicU64::new(0) }
    }

    /// Turns that were searched by their words alone, since the model was late or failed.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// What a turn's question means, or why that is not known.
    pub(crate) async fn question(&self, ask: &Ask) -> Result<Meant, String> {
        let asked = ask.asked.0.get_or_init(|| async {
            let meant = self.meant(&head_and_tail(&ask.text), self.patience).await;
            if let Err(why) = &meant {
                self.missed.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(%why, "a turn is searched for by words alone");
            }
            meant
        });
        let meant = asked.await.clone()?;
        if meant.model != self.embedder.name() {
            return Err("the embedding model has just been changed".to_owned());
        }
        Ok(meant)
    }

    /// What somebody searches by hand means; it may take its time.
    pub async fn by_hand(&self, text: &str) -> Result<Meant, String> {
        self.meant(&head_and_tail(text), BY_HAND).await
    }

    async fn meant(&self, text: &str, patience: Duration) -> Result<Meant, String> {
        let texts = [text.to_owned()];
        match tokio::time::timeout(patience, self.embedder.embed(Side::Query, &texts)).await {
            Ok(Ok(vectors)) => match vectors.into_iter().next() {
                Some(vector) => Ok(Meant { model: self.embedder.name(), vector }),
                None => Err("the embedding model gave nothing".to_owned()),
            },
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the embedding model took longer than {} ms", patience.as_millis())),
        }
    }
}
