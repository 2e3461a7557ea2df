//! The user's own words in what an agent sends as the user's message. For finding skills and memories, and for naming
//! messages; what goes upstream is never changed by this.

use std::borrow::Cow;

/// Blocks that agents put into user messages: everything from the first text to the second is not the user's.
const BLOCKS: [(&str, &str); 6] = [
    ("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"),
    ("<system-reminder>", "</system-reminder>"),
    ("<metaclaw-context>", "</metaclaw-context>"),
    ("<environment_context>", "</environment_context>"),
    ("<user_instructions>", "</user_instructions>"),
    ("<turn_aborted>", "</turn_aborted>"),
];

/// What the user wrote, without the wrappings of OpenClaw, Claude Code, Codex and MetaClaw itself.
pub fn user_words(text: &str) -> Cow<'_, str> {
    let mut words = Cow::Borrowed(text);
    for (open, close) in BLOCKS {
        while let Some(start) = words.find(open) {
            let end = words[start..].find(close).map_or(words.len(), |end| start + end + close.len());
            words = Cow::Owned(format!("{}{}", &words[..start], &words[end..]));
        }
    }
    trimmed(words)
}

fn trimmed(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
        Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
    }
}
