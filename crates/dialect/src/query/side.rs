//! Requests an agent makes for itself: titles, heartbeats, summaries. They are passed on as they are, without skills.

use std::borrow::Cow;

use crate::json::Value;
use crate::request::{Request, Role};

/// What a request of an agent to itself is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideKind {
    /// A title or file name for the conversation.
    Title,
    /// A timer asks whether anything is to be done.
    Heartbeat,
    /// A summary that takes the place of the conversation so far.
    Compaction,
    /// Saving what matters before a compaction.
    MemoryFlush,
    /// A topic, tags or follow-up questions.
    Topic,
    /// A test whether the model answers at all.
    Probe,
}

impl SideKind {
    /// The name used in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Heartbeat => "heartbeat",
            Self::Compaction => "compaction",
            Self::MemoryFlush => "memory_flush",
            Self::Topic => "topic",
            Self::Probe => "probe",
        }
    }
}

/// How such requests begin, taken from the clients themselves: OpenClaw, Claude Code, Codex, opencode, Open WebUI,
/// LibreChat. Only texts that no person would type are listed; a person who asks for a title gets a main turn.
const USER_OPENINGS: [(&str, SideKind); 27] = [
    ("Based on this conversation, generate a short 1-2 word filename slug", SideKind::Title),
    ("Generate a concise session title (", SideKind::Title),
    ("Generate a title for this conversation:", SideKind::Title),
    ("### Task:\nGenerate a concise, 3-5 word title", SideKind::Title),
    ("Create a concise, 3-5 word phrase as a header for the following query", SideKind::Title),
    ("Provide a concise, 5-word-or-less title for the conversation", SideKind::Title),
    ("Please write a 5-10 word title for the following conversation", SideKind::Title),
    ("Summarize this coding conversation in under", SideKind::Title),
    ("Generate a very short topic label (", SideKind::Topic),
    ("### Task:\nGenerate 1-3 broad tags", SideKind::Topic),
    ("### Task:\nSuggest 3-5 relevant follow-up", SideKind::Topic),
    ("### Task:\nAnalyze the chat history to determine the necessity of generating search queries", SideKind::Topic),
    ("Follow the heartbeat monitor scratch context when provided.", SideKind::Heartbeat),
    ("Read HEARTBEAT.md if it exists", SideKind::Heartbeat),
    ("[OpenClaw heartbeat poll]", SideKind::Heartbeat),
    ("[OpenClaw cron wake]", SideKind::Heartbeat),
    ("Pre-compaction memory flush.", SideKind::MemoryFlush),
    ("Save important context from this session to the daily memory file.", SideKind::MemoryFlush),
    ("<conversation>\n", SideKind::Compaction),
    ("The messages above are a conversation to summarize.", SideKind::Compaction),
    ("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.", SideKind::Compaction),
    ("Your task is to create a detailed summary of the conversation so far", SideKind::Compaction),
    ("Your task is to create a detailed summary of this conversation", SideKind::Compaction),
    ("You are performing a CONTEXT CHECKPOINT COMPACTION", SideKind::Compaction),
    ("Provide a detailed prompt for continuing our conversation above", SideKind::Compaction),
    ("Provide a detailed but concise summary of our conversation above", SideKind::Compaction),
    ("This is the prompt-caching warmup request", SideKind::Probe),
];

const SYSTEM_OPENINGS: [(&str, SideKind); 10] = [
    ("Generate a concise session title (", SideKind::Title),
    ("Generate a concise, sentence-case title", SideKind::Title),
    ("You are coming up with a succinct title", SideKind::Title),
    ("You are a title generator.", SideKind::Title),
    ("Summarize this coding conversation in under", SideKind::Title),
    ("Generate a very short topic label (", SideKind::Topic),
    ("Analyze if this message indicates a new conversation topic.", SideKind::Topic),
    ("You are a context summarization assistant.", SideKind::Compaction),
    ("You are a helpful AI assistant tasked with summarizing conversations", SideKind::Compaction),
    ("You are an anchored context summarization assistant", SideKind::Compaction),
];

/// No opening is longer than this many bytes, escapes included.
const OPENING: usize = 256;

/// What this request is for where it is not a turn of the user's. Told by the client's own fixed texts, by Codex's
/// turn metadata and by an output limit of one token; when in doubt it is the user's.
pub fn side_kind(request: &Request) -> Option<SideKind> {
    if let Some(kind) = from_codex(request) {
        return Some(kind);
    }
    let mut found = None;
    request.each_system_text(&mut |text| found = found.or_else(|| opening(text, &SYSTEM_OPENINGS)));
    if found.is_some() {
        return found;
    }
    // Only what stands behind the model's last answer speaks for this request.
    for message in request.messages().iter().rev() {
        match message.role {
            Role::Assistant => break,
            Role::User => {
                request.each_text(message, &mut |text| found = found.or_else(|| opening(text, &USER_OPENINGS)));
                if found.is_some() {
                    return found;
                }
            }
            Role::System | Role::Tool => {}
        }
    }
    let asks = request.messages().iter().filter(|message| message.role != Role::System).count();
    (asks <= 1 && request.hints().max_tokens == Some(1)).then_some(SideKind::Probe)
}

fn opening(text: Value<'_>, openings: &[(&str, SideKind)]) -> Option<SideKind> {
    let start = text.text_start(OPENING);
    let start = without_stamp(start.trim_start());
    openings.iter().find(|(opening, _)| start.starts_with(opening)).map(|(_, kind)| *kind)
}

/// OpenClaw stamps its own messages like the user's.
fn without_stamp(text: &str) -> &str {
    &text[super::time_prefix(text)..]
}

/// Codex tells in `client_metadata` what a request is for.
fn from_codex(request: &Request) -> Option<SideKind> {
    let data: Cow<'_, str> =
        request.json().root().get("client_metadata")?.get("x-codex-turn-metadata").and_then(Value::as_str)?;
    let kind = data.split_once("\"request_kind\":\"")?.1;
    kind.starts_with("compact").then_some(SideKind::Compaction)
}
