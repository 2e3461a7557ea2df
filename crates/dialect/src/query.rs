//! The user's own words in what an agent sends as the user's message, and what a request is for. For finding skills and
//! memories and for naming messages; what goes upstream is never changed by this.

use std::borrow::Cow;

mod group;
mod side;

pub use group::is_group;
pub use side::{SideKind, side_kind};

/// Blocks that agents put into user messages: from the first text to the second, nothing is the user's. Where the end
/// is missing, only OpenClaw's own context runs to the end of the text; the others may be the user talking about tags.
const BLOCKS: [(&str, &str); 14] = [
    (OPENCLAW_BEGIN, OPENCLAW_END),
    ("<metaclaw-context>", "</metaclaw-context>"),
    ("<system-reminder>", "</system-reminder>"),
    ("<environment_context>", "</environment_context>"),
    ("<user_instructions>", "</user_instructions>"),
    ("<turn_aborted>", "</turn_aborted>"),
    ("# AGENTS.md instructions for ", "</INSTRUCTIONS>"),
    ("<local-command-caveat>", "</local-command-caveat>"),
    ("<local-command-stdout>", "</local-command-stdout>"),
    ("<local-command-stderr>", "</local-command-stderr>"),
    ("<command-name>", "</command-name>"),
    ("<command-message>", "</command-message>"),
    ("<bash-stdout>", "</bash-stdout>"),
    ("<bash-stderr>", "</bash-stderr>"),
];
const OPENCLAW_BEGIN: &str = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>";
const OPENCLAW_END: &str = "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>";

/// Tags around words that are the user's, and marks beside them: only these themselves go.
const TAGS: [&str; 6] = [
    "<command-args>",
    "</command-args>",
    "<bash-input>",
    "</bash-input>",
    "[Request interrupted by user]",
    "[Request interrupted by user for tool use]",
];

/// Whole messages an agent speaks in the user's place.
const AGENT_MESSAGES: [&str; 8] = [
    SESSION_START,
    "[OpenClaw heartbeat poll]",
    "[OpenClaw exec completion]",
    "[OpenClaw cron wake]",
    "[OpenClaw session event]",
    "Continue the OpenClaw runtime event.",
    "This session is being continued from a previous conversation that ran out of context",
    "The conversation history before this point was compacted into the following summary",
];

/// How OpenClaw's first message after `/new` and `/reset` begins. Nobody typed it.
pub(crate) const SESSION_START: &str = "A new session was started via /new or /reset";

/// OpenClaw's mark on lines that head a block of facts about sender, channel or earlier messages.
const OPENCLAW_MARK: &str = "⟦openclaw:ctx⟧";

/// What the user wrote, without the wrappings of OpenClaw, Claude Code, Codex and MetaClaw itself. Empty where the
/// message is an agent's alone.
pub fn user_words(text: &str) -> Cow<'_, str> {
    let mut words = Cow::Borrowed(text);
    if text.contains('<') || text.contains("# AGENTS.md") || text.contains("[Request interrupted") {
        for (open, close) in BLOCKS {
            without_block(&mut words, open, close);
        }
        for tag in TAGS {
            if words.contains(tag) {
                words = Cow::Owned(words.replace(tag, ""));
            }
        }
    }
    if words.contains(OPENCLAW_MARK) || words.contains("(untrusted") {
        words = Cow::Owned(without_labelled_blocks(&words));
    }
    if words.contains("[message_id:") || words.contains("System: [") {
        words =
            Cow::Owned(without_lines(&words, |line| line.starts_with("[message_id:") || line.starts_with("System: [")));
    }
    let (mut from, mut to) = bounds(&words, 0, words.len());
    // Time prefix and trailers may come one inside the other; each is taken off once.
    from += time_prefix(&words[from..to]);
    to = from + before_trailer(&words[from..to], "Runtime: ", |line| line.contains("agent=")).len();
    to = from + before_trailer(&words[from..to], "Current time: ", |_| true).len();
    (from, to) = bounds(&words, from, to);
    if AGENT_MESSAGES.iter().any(|message| words[from..to].starts_with(message)) {
        return Cow::Borrowed("");
    }
    match words {
        Cow::Borrowed(words) => Cow::Borrowed(&words[from..to]),
        Cow::Owned(words) if from == 0 && to == words.len() => Cow::Owned(words),
        Cow::Owned(words) => Cow::Owned(words[from..to].to_owned()),
    }
}

/// The part of `text[from..to]` without white space at its ends.
fn bounds(text: &str, from: usize, to: usize) -> (usize, usize) {
    let part = &text[from..to];
    let start = from + (part.len() - part.trim_start().len());
    (start, start + part.trim().len())
}

fn without_block(text: &mut Cow<'_, str>, open: &str, close: &str) {
    let Some(first) = text.find(open) else { return };
    let mut kept = String::with_capacity(text.len());
    let (mut from, mut next) = (0, Some(first));
    while let Some(start) = next {
        let end = block_end(text, start, open, close);
        if end.is_none() && open != OPENCLAW_BEGIN {
            break;
        }
        kept.push_str(&text[from..start]);
        from = end.unwrap_or(text.len());
        next = text[from..].find(open).map(|start| from + start);
    }
    kept.push_str(&text[from..]);
    *text = Cow::Owned(kept);
}

/// Where the block that starts at `start` ends; blocks of the same kind may lie inside it.
fn block_end(text: &str, start: usize, open: &str, close: &str) -> Option<usize> {
    let mut at = start + open.len();
    let mut depth = 1_usize;
    while depth > 0 {
        let end = at + text[at..].find(close)?;
        depth = depth - 1 + text[at..end].matches(open).count();
        at = end + close.len();
    }
    Some(at)
}

/// Leaves out OpenClaw's blocks of facts: a heading line with its mark (older versions: "… (untrusted …):"), then a
/// fenced block or the lines up to the next empty one.
fn without_labelled_blocks(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        if !is_label(line.trim_end()) {
            kept.push_str(line);
            continue;
        }
        if lines.next_if(|next| next.starts_with("```")).is_some() {
            for inner in lines.by_ref() {
                if inner.trim_end() == "```" {
                    break;
                }
            }
        } else {
            while lines.next_if(|next| !next.trim().is_empty()).is_some() {}
        }
    }
    kept
}

fn is_label(line: &str) -> bool {
    line.ends_with(OPENCLAW_MARK) || (line.ends_with("):") && line.contains(" (untrusted"))
}

fn without_lines(text: &str, unwanted: impl Fn(&str) -> bool) -> String {
    text.split_inclusive('\n').filter(|line| !unwanted(line.trim_start())).collect()
}

/// Length of a leading `[Mon 2026-11-30 08:54 UTC] `, with or without channel and sender before the date.
pub(crate) fn time_prefix(text: &str) -> usize {
    const LONGEST: usize = 240;
    if !text.starts_with('[') {
        return 0;
    }
    let Some(end) = text.bytes().take(LONGEST).position(|byte| byte == b']' || byte == b'\n') else { return 0 };
    if text.as_bytes()[end] != b']' || !has_date_and_time(&text.as_bytes()[..end]) {
        return 0;
    }
    text.len() - text[end + 1..].trim_start().len()
}

/// Looks for `2026-11-30 08:54` (or with a `T`).
fn has_date_and_time(text: &[u8]) -> bool {
    const SHAPE: &[u8; 16] = b"dddd-dd-dd dd:dd";
    text.windows(SHAPE.len()).any(|window| {
        window.iter().zip(SHAPE).all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            b' ' => matches!(byte, b' ' | b'T'),
            _ => byte == shape,
        })
    })
}

/// The text before its last line, where that line begins with `start` and fits.
fn before_trailer<'a>(text: &'a str, start: &str, fits: impl Fn(&str) -> bool) -> &'a str {
    let text = text.trim_end();
    let line_start = text.rfind('\n').map_or(0, |newline| newline + 1);
    let line = &text[line_start..];
    if line.starts_with(start) && fits(line) { text[..line_start].trim_end() } else { text }
}
