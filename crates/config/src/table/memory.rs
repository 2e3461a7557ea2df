//! The keys of long-term memory.

use super::Effect::{Accepted, Later, Live};
use super::{int, num, section};
use crate::Kind::{Bool, Choice, Path, Text, Url};
use crate::{EmbeddingMode, MemoryRetrieval};

const ONE_MODEL: &str = "there is one embedding model, see embedding; how memories are found is memory.retrieval_mode";
const APART: &str = "skills and memories have a budget each: skills.max_injected_tokens, memory.max_injected_tokens";
const POLICY: &str = "the policy does not improve itself in this release";

section! {
    /// Long-term memory.
    Memory [.memory] "memory." memory_rows {
        /// Whether conversations are remembered.
        enabled: bool = false, Bool, Live;
        /// Where an old install kept its memory.
        dir: String = "~/.metaclaw/memory".to_owned(), Path, Live;
        /// The old database, for `metaclaw memory import`. Empty: memory.db in memory.dir.
        store_path: String = String::new(), Path, Live;
        /// The old policy file, for `metaclaw memory import`. Empty: policy.json in memory.dir.
        policy_path: String = String::new(), Path, Live;
        /// The old telemetry file.
        telemetry_path: String = String::new(), Path, Accepted("memory keeps no telemetry file");
        /// Whose memories these are, unless the agent says otherwise.
        scope: String = "default".to_owned(), Text, Live;
        /// How memories are found: keyword by their words, embedding by meaning, hybrid by both, auto by both where the model
        /// named by embedding.model is on this machine, else by their words. With embedding.api_base, hybrid and embedding send
        /// what is remembered there, and auto does not.
        retrieval_mode: MemoryRetrieval = MemoryRetrieval::Auto, Choice { of: MemoryRetrieval::WORDS }, Live;
        /// At most so many memories per turn.
        max_injected_units: u32 = 6, int(0, 1_000), Live, also "memory.top_k";
        /// At most so many tokens of memories per turn.
        max_injected_tokens: u32 = 800, int(0, 1_000_000), Live, also "memory.max_tokens";
        /// Whether memories are also found by meaning.
        use_embeddings: bool = false, Bool, Accepted(ONE_MODEL);
        /// How memories are turned into vectors.
        embedding_mode: EmbeddingMode = EmbeddingMode::Hashing, Choice { of: EmbeddingMode::WORDS }, Accepted(ONE_MODEL);
        /// The embedding model.
        embedding_model: String = "all-MiniLM-L6-v2".to_owned(), Text, Accepted(ONE_MODEL);
        /// Where the embedding model is, or its name on the hub.
        embedding_model_path: String = "Qwen/Qwen3-Embedding-0.6B".to_owned(), Text, Accepted(ONE_MODEL);
        /// Whether facts are taken from conversations; what was said is remembered either way.
        auto_extract: bool = true, Bool, Live;
        /// Whether the model in llm is asked for facts as well: one call each time facts are taken from a session. The rules work
        /// either way.
        extract_with_model: bool = false, Bool, Live;
        /// Whether memories are merged after each time.
        auto_consolidate: bool = true, Bool, Accepted("equal and contradicting facts are settled as they are learned");
        /// Whether side calls are remembered too.
        ignore_turn_type: bool = false, Bool, Later("side calls are not remembered in this release");
        /// Facts are taken only by `metaclaw memory maintain` or POST /v1/memory/ingest.
        manual_trigger: bool = false, Bool, Live;
        /// After how many turns of a session facts are taken; also at its end.
        flush_every: u32 = 5, int(1, 10_000), Live, also "memory.memory_flush_every";
        /// Whether the memory policy improves itself.
        auto_upgrade_enabled: bool = false, Bool, Later(POLICY);
        /// How often.
        auto_upgrade_interval_seconds: u32 = 900, int(1, 10_000_000), Later(POLICY);
        /// Whether a person approves it.
        auto_upgrade_require_review: bool = true, Bool, Later(POLICY);
        /// When an open review is forgotten.
        review_stale_after_hours: u32 = 72, int(1, 100_000), Later(POLICY);
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
        enabled: bool = true, Bool, Accepted(APART);
        /// How alike a skill and a memory may be before one is left out.
        dedup_threshold: f64 = 0.5, num(0.0, 1.0), Accepted(APART);
        /// The shared budget in tokens.
        token_budget: u32 = 1_200, int(0, 1_000_000), Accepted(APART);
        /// The share of skills in it.
        skill_ratio: f64 = 0.35, num(0.0, 1.0), Accepted(APART);
    }
}
