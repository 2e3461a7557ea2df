//! The keys of long-term memory.

use super::Effect::{Accepted, Later};
use super::{int, num, section};
use crate::Kind::{Bool, Choice, Path, Text, Url};
use crate::{EmbeddingMode, MemoryRetrieval};

const MEMORY: &str = "memory is not in this release";

section! {
    /// Long-term memory.
    Memory [.memory] "memory." memory_rows {
        /// Whether conversations are remembered.
        enabled: bool = false, Bool, Later(MEMORY);
        /// Where an old install kept its memory.
        dir: String = "~/.metaclaw/memory".to_owned(), Path, Later(MEMORY);
        /// The old database. Empty: memory.db in memory.dir.
        store_path: String = String::new(), Path, Later(MEMORY);
        /// The old policy file. Empty: policy.json in memory.dir.
        policy_path: String = String::new(), Path, Later(MEMORY);
        /// The old telemetry file. Empty: telemetry.jsonl in memory.dir.
        telemetry_path: String = String::new(), Path, Later(MEMORY);
        /// Whose memories these are, unless the agent says otherwise.
        scope: String = "default".to_owned(), Text, Later(MEMORY);
        /// How memories are found.
        retrieval_mode: MemoryRetrieval = MemoryRetrieval::Keyword, Choice { of: MemoryRetrieval::WORDS }, Later(MEMORY);
        /// At most so many memories per turn.
        max_injected_units: u32 = 6, int(0, 1_000), Later(MEMORY), also "memory.top_k";
        /// At most so many tokens of memories per turn.
        max_injected_tokens: u32 = 800, int(0, 1_000_000), Later(MEMORY), also "memory.max_tokens";
        /// Whether memories are also found by meaning.
        use_embeddings: bool = false, Bool, Later(MEMORY);
        /// How memories are turned into vectors.
        embedding_mode: EmbeddingMode = EmbeddingMode::Hashing, Choice { of: EmbeddingMode::WORDS }, Later(MEMORY);
        /// The embedding model.
        embedding_model: String = "all-MiniLM-L6-v2".to_owned(), Text, Later(MEMORY);
        /// Where the embedding model is, or its name on the hub.
        embedding_model_path: String = "Qwen/Qwen3-Embedding-0.6B".to_owned(), Text, Later(MEMORY);
        /// Whether memories are taken from conversations.
        auto_extract: bool = true, Bool, Later(MEMORY);
        /// Whether memories are merged after each time.
        auto_consolidate: bool = true, Bool, Later(MEMORY);
        /// Whether side calls are remembered too.
        ignore_turn_type: bool = false, Bool, Later(MEMORY);
        /// Memories are taken only when asked for.
        manual_trigger: bool = false, Bool, Later(MEMORY);
        /// After how many turns memories are taken.
        flush_every: u32 = 5, int(1, 10_000), Later(MEMORY), also "memory.memory_flush_every";
        /// Whether the memory policy improves itself.
        auto_upgrade_enabled: bool = false, Bool, Later(MEMORY);
        /// How often.
        auto_upgrade_interval_seconds: u32 = 900, int(1, 10_000_000), Later(MEMORY);
        /// Whether a person approves it.
        auto_upgrade_require_review: bool = true, Bool, Later(MEMORY);
        /// When an open review is forgotten.
        review_stale_after_hours: u32 = 72, int(1, 100_000), Later(MEMORY);
        /// Memories are merged after each time.
        consolidation_interval: u32 = 0, int(0, i64::MAX), Accepted("memories are merged after each time");
        /// There is no sidecar.
        sidecar_url: String = String::new(), Url, Accepted("memory needs no sidecar");
    }
}

section! {
    /// Skills and memory together.
    Synergy [.synergy] "synergy." synergy_rows {
        /// Whether skills and memories share one budget.
        enabled: bool = true, Bool, Later(MEMORY);
        /// How alike a skill and a memory may be before one is left out.
        dedup_threshold: f64 = 0.5, num(0.0, 1.0), Later(MEMORY);
        /// The shared budget in tokens.
        token_budget: u32 = 1_200, int(0, 1_000_000), Later(MEMORY);
        /// The share of skills in it.
        skill_ratio: f64 = 0.35, num(0.0, 1.0), Later(MEMORY);
    }
}
