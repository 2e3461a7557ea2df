//! Names for messages that stay the same in every form a client may send the message in.

use memchr::memmem;
use xxhash_rust::xxh3::xxh3_128;

use super::Role;
use crate::ir::{Answer, Block};
use crate::json::{Value, escape_at};
use crate::query::user_words;

/// Extends the name of a conversation by one message: equal beginnings have equal names.
pub fn chain(state: u128, message: u128) -> u128 {
    let mut both = [0; 32];
    both[..16].copy_from_slice(&state.to_le_bytes());
    both[16..].copy_from_slice(&message.to_le_bytes());
    xxh3_128(&both)
}

/// What [`Message::hash`](super::Message::hash) of this answer will be when the client sends it back.
pub fn answer_hash(answer: &Answer) -> u128 {
    let mut digest = Digest::default();
    for block in &answer.blocks {
        match block {
            Block::Text { text, .. } | Block::Refusal { text } => digest.plain_text(text),
            Block::ToolCall(call) => digest.plain_id(&call.id),
            Block::Reasoning(_) | Block::Opaque { .. } => {}
        }
    }
    digest.finish(Role::Assistant, None)
}

/// Gathers what counts of a message. White space does not: texts are joined and broken differently by every client.
#[derive(Default)]
pub(crate) struct Digest {
    text: Vec<u8>,
    ids: Vec<u8>,
}

impl Digest {
    /// Text of a JSON string.
    pub(crate) fn json_text(&mut self, text: Value<'_>) {
        let Some(inner) = text.inner() else { return };
        if text.is_escaped() { self.push_escaped(inner) } else { self.push(inner.as_bytes()) }
    }

    /// Text of a JSON string as it is written there, white space included. For instructions: long, and always written
    /// the same way by the same client.
    pub(crate) fn raw_text(&mut self, text: Value<'_>) {
        self.text.extend_from_slice(text.inner().unwrap_or_default().as_bytes());
    }

    /// Text of a user's message: only the user's own words count. Returns whether there are any.
    pub(crate) fn user_text(&mut self, text: Value<'_>) -> bool {
        let Some(text) = text.as_str() else { return false };
        let words = user_words(&text);
        let before = self.text.len();
        self.plain_text(&words);
        self.text.len() > before
    }

    /// Plain text.
    pub(crate) fn plain_text(&mut self, text: &str) {
        self.push(text.as_bytes());
    }

    /// The id of a tool call or result.
    pub(crate) fn id(&mut self, id: Option<Value<'_>>) {
        self.plain_id(&id.and_then(Value::as_str).unwrap_or_default());
    }

    /// The same as plain text. Only letters and digits count: some agents clean ids for strict providers.
    pub(crate) fn plain_id(&mut self, id: &str) {
        self.ids.extend(id.bytes().filter(u8::is_ascii_alphanumeric));
        self.ids.push(b' ');
    }

    /// The name; the digest is empty again afterwards. A message of which nothing counts is named by its raw text.
    pub(crate) fn finish(&mut self, role: Role, fallback: Option<&str>) -> u128 {
        if role == Role::Assistant {
            self.forget_thinking();
        }
        if self.text.is_empty() && self.ids.is_empty() {
            self.text.extend_from_slice(fallback.unwrap_or_default().as_bytes());
        }
        let role = match role {
            Role::System => 1,
            Role::User => 2,
            Role::Assistant => 3,
            Role::Tool => 4,
        };
        let hash = chain(chain(role, xxh3_128(&self.text)), xxh3_128(&self.ids));
        self.text.clear();
        self.ids.clear();
        hash
    }

    /// Takes out `<think>…</think>`: models without a field for it write their thinking so, and many agents cut it off.
    fn forget_thinking(&mut self) {
        const OPEN: &[u8] = b"<think>";
        const CLOSE: &[u8] = b"</think>";
        if memmem::find(&self.text, OPEN).is_none() {
            return;
        }
        let (mut read, mut kept) = (0, 0);
        while read < self.text.len() {
            let open = memmem::find(&self.text[read..], OPEN).map(|at| read + at);
            let thought = open.and_then(|open| {
                let close = memmem::find(&self.text[open..], CLOSE)?;
                Some(open..open + close + CLOSE.len())
            });
            let thought = thought.unwrap_or(self.text.len()..self.text.len());
            self.text.copy_within(read..thought.start, kept);
            kept += thought.start - read;
            read = thought.end;
        }
        self.text.truncate(kept);
    }

    /// Appends everything above the space. Written without branches: words are short.
    fn push(&mut self, bytes: &[u8]) {
        let start = self.text.len();
        self.text.resize(start + bytes.len(), 0);
        let room = &mut self.text[start..];
        let mut kept = 0;
        for byte in bytes {
            room[kept] = *byte;
            kept += usize::from(*byte > b' ');
        }
        self.text.truncate(start + kept);
    }

    /// The same for text with JSON escapes, which is never shorter than what it stands for.
    fn push_escaped(&mut self, escaped: &str) {
        let start = self.text.len();
        self.text.resize(start + escaped.len(), 0);
        let room = &mut self.text[start..];
        let bytes = escaped.as_bytes();
        let (mut kept, mut at) = (0, 0);
        while let Some(&byte) = bytes.get(at) {
            if byte != b'\\' {
                room[kept] = byte;
                kept += usize::from(byte > b' ');
                at += 1;
                continue;
            }
            let (character, used) = escape_at(&escaped[at..]);
            at += used;
            if character > ' ' {
                kept += character.encode_utf8(&mut room[kept..]).len();
            }
        }
        self.text.truncate(start + kept);
    }
}
