//! The keys of serving: mode, provider, proxy, skills.

use std::collections::BTreeMap;

use super::Effect::{Accepted, Later, Live};
use super::{
    App, BuiltIn, Control, Embedding, Journal, Log, Memory, Opd, OpenRouter, Record, Rl, Scheduler, Synergy, WeChat,
    int, num, section,
};
use crate::Kind::{
    Address, Bool, Choice, List, Map, Path, Provider, Secret as SecretKind, SecretMap as Headers, Text, Url,
};
use crate::{AuthMethod, ClawType, LlmDialect, Mode, Placement, RetrievalMode, Secret, SecretMap};

const TRAINING: &str = "training is not in this release; auto and rl serve as skills_only does";
const ROLLOUT: &str = "task files are run when training is here";

section! {
    /// Everything that `config.yaml` says.
    Config [] "" top_rows {
        /// What MetaClaw does: skills_only adds skills; rl also trains as soon as a batch is ready; auto trains only
        /// while nobody is at work.
        mode: Mode = Mode::Auto, Choice { of: Mode::WORDS }, Later(TRAINING);
        /// The personal agent that `metaclaw start` connects; none leaves every agent alone.
        claw_type: ClawType = ClawType::OpenClaw, Choice { of: ClawType::WORDS },
            Later("agents are connected by hand in this release");
        /// Old form of `claw_type: none`.
        configure_openclaw: bool = true, Bool, Accepted("use claw_type: none");
        /// Longest prompt in tokens for a model under training; 0 or less = no limit. What goes to a provider is never cut.
        max_context_tokens: i64 = 20_000, int(-1, 100_000_000), Later(TRAINING);
        /// The context window told to agents; 0 = the model's own, else 200000 (32768 for a model under training).
        context_window: u32 = 0, int(0, 100_000_000), Later("told to agents when MetaClaw connects them");
        /// Folder with JSONL task files for rollouts without an agent.
        openclaw_env_data_dir: String = String::new(), Path, Later(ROLLOUT);
        /// Which split of the tasks is run.
        openclaw_env_split: String = "train".to_owned(), Text, Later(ROLLOUT);
        /// How many tasks run at the same time.
        openclaw_env_concurrency: u32 = 4, int(1, 1024), Later(ROLLOUT);
        /// Longest task in steps.
        openclaw_env_max_steps: u32 = 15, int(1, 10_000), Later(ROLLOUT);
    }
    with {
        /// The provider that answers.
        llm: Llm;
        /// The address that agents talk to.
        proxy: Proxy;
        /// The skill library.
        skills: Skills;
        /// Long-term memory.
        memory: Memory;
        /// Skills and memory together.
        synergy: Synergy;
        /// Training.
        rl: Rl;
        /// Distillation from a teacher.
        opd: Opd;
        /// When training may run.
        scheduler: Scheduler;
        /// WeChat through OpenClaw.
        wechat: WeChat;
        /// Options of OpenRouter.
        openrouter: OpenRouter;
        /// The old record files.
        record: Record;
        /// The journal of turns.
        journal: Journal;
        /// The built-in model.
        builtin: BuiltIn;
        /// The model that turns texts into vectors.
        embedding: Embedding;
        /// The control API.
        control: Control;
        /// The desktop app.
        app: App;
        /// The log.
        log: Log;
    }
}

section! {
    /// The provider that answers.
    Llm [.llm] "llm." llm_rows {
        /// Whose API it is. The preset brings address, dialect and what the provider cannot take.
        provider: String = "custom".to_owned(), Provider, Live;
        /// api_key uses llm.api_key; passthrough forwards what the agent sends; oauth_token uses a subscription.
        auth_method: AuthMethod = AuthMethod::ApiKey, Choice { of: AuthMethod::WORDS }, Live;
        /// The model that answers, whatever model the agent asks for. Empty: the model that the agent asks for.
        model_id: String = String::new(), Text, Live;
        /// Other models for some of the names that agents ask for: {asked: sent}. A name may end in *. An entry here
        /// comes before llm.model_id.
        model_map: BTreeMap<String, String> = BTreeMap::new(), Map, Live;
        /// Address of the API, with or without its version path. Empty: the provider's own.
        api_base: String = String::new(), Url, Live;
        /// The key for the provider.
        api_key: Secret = Secret::default(), SecretKind, Live;
        /// The API dialect of the address; auto takes the provider's.
        dialect: LlmDialect = LlmDialect::Auto, Choice { of: LlmDialect::WORDS }, Live;
        /// Headers added to every request to the provider.
        headers: SecretMap = SecretMap::new(), Headers, Live;
        /// The AWS region for the provider bedrock.
        bedrock_region: String = "us-east-1".to_owned(), Text, Later("Bedrock is not in this release"),
            also "bedrock_region";
    }
    with {
        /// The provider that is asked when the first one cannot answer.
        fallback: Fallback;
    }
}

section! {
    /// The provider that is asked when the first one cannot answer. Empty provider = none.
    Fallback [.llm.fallback] "llm.fallback." fallback_rows {
        /// Whose API is asked when the first provider fails before its first byte. Empty: nobody's.
        provider: String = String::new(), Provider, Live;
        /// The model that is asked there.
        model_id: String = String::new(), Text, Live;
        /// Address of the API; empty: the provider's own.
        api_base: String = String::new(), Url, Live;
        /// The key for it.
        api_key: Secret = Secret::default(), SecretKind, Live;
        /// Its API dialect; auto takes the provider's.
        dialect: LlmDialect = LlmDialect::Auto, Choice { of: LlmDialect::WORDS }, Live;
    }
}

section! {
    /// The address that agents talk to.
    Proxy [.proxy] "proxy." proxy_rows {
        /// The address to listen on. Anything but this machine needs proxy.api_key.
        host: String = "127.0.0.1".to_owned(), Address, Live;
        /// The port to listen on; 0 = any free one.
        port: u16 = 30_000, int(0, 65_535), Live;
        /// The key that agents must send. Empty: no key, and then only this machine can reach the port.
        api_key: Secret = Secret::default(), SecretKind, Live;
        /// Keys of single agents, beside proxy.api_key: {agent: key}. Who shows one is that agent, whatever else it says of itself.
        agent_keys: SecretMap = SecretMap::new(), Headers, Live;
        /// Names under which this machine is reached, besides its own addresses, e.g. box.local.
        allowed_hosts: Vec<String> = Vec::new(), List, Live;
        /// Web pages that may call the port, e.g. `https://chat.example`. Other pages may not, but for those this machine itself serves; the key is asked of all.
        allowed_origins: Vec<String> = Vec::new(), List, Live;
        /// A session without a request for so many minutes has ended; 0 = only when the agent says so.
        session_idle_minutes: u32 = 30, int(0, 100_000), Live;
        /// How long a connection to the provider may take.
        connect_timeout_seconds: u32 = 10, int(1, 600), Live;
        /// How long the provider may be silent, before its answer or within it.
        idle_timeout_seconds: u32 = 600, int(1, 86_400), Live;
        /// How often a request is tried again that failed before its first byte (429, 5xx, no connection).
        max_retries: u32 = 2, int(0, 10), Live;
        /// After so many silent seconds a stream gets a sign of life, so that nothing in between closes it; 0 = never.
        keepalive_seconds: u32 = 15, int(0, 3_600), Live;
        /// Largest request in megabytes.
        max_body_mb: u32 = 64, int(1, 1_024), Live;
    }
}

section! {
    /// The skill library.
    Skills [.skills] "skills." skills_rows {
        /// Whether skills are added to conversations.
        enabled: bool = true, Bool, Live;
        /// Where the skills are: one folder each, with a SKILL.md.
        dir: String = "~/.metaclaw/skills".to_owned(), Path, Live;
        /// How skills are found: template by their words, embedding by meaning, hybrid by both. For the last two see embedding.
        retrieval_mode: RetrievalMode = RetrievalMode::Template, Choice { of: RetrievalMode::WORDS }, Live;
        /// At most so many general skills per turn.
        top_k: u32 = 6, int(0, 100), Live;
        /// At most so many skills for the task per turn.
        task_specific_top_k: u32 = 10, int(0, 100), Live;
        /// At most so many tokens of skills per turn.
        max_injected_tokens: u32 = 3_000, int(0, 1_000_000), Live;
        /// turn puts skills into the message they belong to, so that prompt caches keep working; system puts them into
        /// the system prompt.
        placement: Placement = Placement::Turn, Choice { of: Placement::WORDS }, Live;
        /// Skills that are never added.
        disabled: Vec<String> = Vec::new(), List, Live;
        /// Whether conversations become new skills, which are tried and measured. The model that answers is asked.
        auto_evolve: bool = true, Bool, Live;
        /// After how many turns of a session; 0 or less = only at its end.
        evolution_every_n_turns: i64 = 10, int(-1, 10_000), Live;
        /// Whether every learned skill waits for your yes. What is seen to come from tools, and what is imported, always does.
        review: bool = false, Bool, Live;
        /// The share of conversations in which a learned skill is left out to see what it does; 0 = it is never measured and
        /// stays on trial.
        control_share: f64 = 0.2, num(0.0, 0.5), Live;
        /// Learned skills that one agent may have; of more, the least useful goes.
        max_learned: u32 = 50, int(1, 10_000), Live;
        /// Past turns in which a judge compares answers with and without a learned skill before it counts as proven;
        /// 0 = none. Needs a judge: rl.prm_url, rl.prm_api_key, rl.prm_model.
        replay_turns: u32 = 4, int(0, 50), Live;
        /// At most about so many tokens a day for that; skills that need more wait for the next day.
        replay_daily_tokens: u32 = 200_000, int(1, 1_000_000_000), Live;
        /// At most about so many tokens a day for having the judge score answers while a learned skill is measured by them and
        /// the user says neither thanks nor that it is wrong; 0 = none are scored.
        score_daily_tokens: u32 = 200_000, int(0, 1_000_000_000), Live;
    }
}
