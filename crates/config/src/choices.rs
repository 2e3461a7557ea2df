//! The words that settings can have.

use crate::value::choice;

choice! {
    /// What MetaClaw does with the conversations.
    Mode {
        /// Skills, and training only while nobody is at work.
        Auto = "auto" | "madmax",
        /// Skills, and training as soon as a batch is ready.
        Rl = "rl",
        /// Skills only; no training.
        SkillsOnly = "skills_only" | "skills-only" | "skills",
    }
}

choice! {
    /// The personal agent that MetaClaw stands in front of.
    ClawType {
        /// OpenClaw
        OpenClaw = "openclaw",
        /// CoPaw, now QwenPaw
        CoPaw = "copaw" | "qwenpaw",
        /// IronClaw
        IronClaw = "ironclaw",
        /// PicoClaw
        PicoClaw = "picoclaw",
        /// ZeroClaw
        ZeroClaw = "zeroclaw",
        /// NanoClaw
        NanoClaw = "nanoclaw",
        /// NemoClaw
        NemoClaw = "nemoclaw",
        /// Hermes Agent
        Hermes = "hermes",
        /// No agent is connected by MetaClaw.
        None = "none",
    }
}

choice! {
    /// How MetaClaw identifies itself to the provider.
    AuthMethod {
        /// With `llm.api_key`.
        ApiKey = "api_key" | "api-key" | "apikey",
        /// With the token of a subscription.
        OauthToken = "oauth_token" | "oauth-token" | "oauth",
        /// With the credentials that the agent sends.
        Passthrough = "passthrough",
    }
}

choice! {
    /// The API dialect of the provider.
    LlmDialect {
        /// What the provider preset says.
        Auto = "auto",
        /// OpenAI Chat Completions
        Chat = "openai-chat" | "chat" | "openai" | "openai-completions",
        /// OpenAI Responses
        Responses = "openai-responses" | "responses",
        /// Anthropic Messages
        Messages = "anthropic-messages" | "messages" | "anthropic",
    }
}

choice! {
    /// How skills are found.
    RetrievalMode {
        /// By their words.
        Template = "template" | "lexical" | "keyword",
        /// By meaning.
        Embedding = "embedding",
        /// By both.
        Hybrid = "hybrid",
    }
}

choice! {
    /// Where skills are put.
    Placement {
        /// Into the user's message that triggered the turn; provider prompt caches keep working.
        Turn = "turn",
        /// Into the system prompt.
        System = "system",
    }
}

choice! {
    /// The training service.
    Backend {
        /// Told from the credentials and the address.
        Auto = "auto",
        /// Tinker
        Tinker = "tinker",
        /// MinT
        Mint = "mint",
        /// Weaver
        Weaver = "weaver",
        /// SkyRL, or any other service that speaks Tinker's protocol
        SkyRl = "skyrl",
    }
}

choice! {
    /// The loss of a training step.
    LossFn {
        /// Importance sampling
        ImportanceSampling = "importance_sampling",
        /// PPO
        Ppo = "ppo",
        /// CISPO
        Cispo = "cispo",
        /// DRO
        Dro = "dro",
    }
}

choice! {
    /// Whether a person looks at samples before they are trained.
    Review {
        /// No.
        Off = "off" | "false" | "no",
        /// Samples wait for approval.
        Required = "required" | "on" | "true" | "yes",
    }
}

choice! {
    /// How memories are found.
    MemoryRetrieval {
        /// By words and meaning where a model for it is on this machine, else by their words.
        Auto = "auto",
        /// By their words.
        Keyword = "keyword",
        /// By words and meaning.
        Hybrid = "hybrid",
        /// By meaning.
        Embedding = "embedding" | "semantic",
    }
}

choice! {
    /// How memories are turned into vectors.
    EmbeddingMode {
        /// By hashing words; needs no model.
        Hashing = "hashing",
        /// By a model.
        Semantic = "semantic",
    }
}

choice! {
    /// How much is written to the log.
    LogLevel {
        /// Errors only.
        Error = "error",
        /// And warnings.
        Warn = "warn" | "warning",
        /// And what happens.
        Info = "info",
        /// And why.
        Debug = "debug",
        /// And everything else.
        Trace = "trace",
    }
}
