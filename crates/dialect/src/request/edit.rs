//! The documented edits of a request on its way upstream. Everything they do not name stays byte for byte.

use bytes::Bytes;

use super::hints::ALIASES;
use super::{Request, Role};
use crate::Dialect;
use crate::carry;
use crate::edit::Edits;
use crate::json::{Kind, Value, push_quoted};
use crate::query::{SESSION_START, time_prefix};
use crate::quirks::{MaxTokensField, Quirks};

/// What goes upstream instead of OpenClaw's first message of a new session where that is refused.
const NEUTRAL_START: &str =
    "This is the start of a new chat. Say hello in one to three sentences and ask what I would like to do.";

/// Edits gathered on one request; [`RequestEdit::finish`] gives the body to send.
#[derive(Debug, Clone)]
pub struct RequestEdit<'a> {
    request: &'a Request,
    edits: Edits<'a>,
}

impl<'a> RequestEdit<'a> {
    pub(super) fn new(request: &'a Request) -> Self {
        Self { request, edits: Edits::new(&request.json) }
    }

    fn root(&self) -> Value<'a> {
        self.request.json.root()
    }

    /// Asks for another model.
    pub fn set_model(&mut self, model: &str) {
        if self.request.model().as_deref() != Some(model) {
            self.edits.set_member(self.root(), "model", &quoted(model));
        }
    }

    /// Takes out the fields only MetaClaw knows (`session_id`, `session_done`, `turn_type`, `memory_scope`, `user_id`,
    /// `workspace_id`).
    pub fn strip_aliases(&mut self) {
        for alias in ALIASES {
            self.remove(alias);
        }
    }

    /// Adds `block` at the end of a message, behind an empty line: inside its string, or inside its last part where that
    /// is a text, else as a further text part. Claude Code sends the same message once as a list and later as a
    /// string; this way the model reads the same either way, and prompt caches hold. Returns whether there was a
    /// user's message to add it to; other messages are never touched.
    pub fn inject_turn(&mut self, message_index: usize, block: &str) -> bool {
        let request = self.request;
        let Some(message) = request.messages.get(message_index).filter(|message| message.role == Role::User) else {
            return false;
        };
        let item = request.json.value(message.first);
        if item.kind() == Kind::String {
            self.append_text(item, block);
            return true;
        }
        match item.get("content") {
            Some(content) if self.append_text(content, block) => {}
            _ => self.edits.set_member(item, "content", &quoted(block)),
        }
        true
    }

    /// Adds `block` at the end of the system prompt, or makes one of it.
    pub fn inject_system(&mut self, block: &str) {
        let field = match self.request.dialect {
            Dialect::Chat => return self.inject_system_message(block),
            Dialect::Messages => "system",
            Dialect::Responses => "instructions",
        };
        match self.root().get(field) {
            Some(content) if self.append_text(content, block) => {}
            _ => self.edits.set_member(self.root(), field, &quoted(block)),
        }
    }

    fn inject_system_message(&mut self, block: &str) {
        let request = self.request;
        let Some(list) = self.root().get("messages") else { return };
        let system = request.messages.iter().find(|message| {
            message.role == Role::System
                && request.json.value(message.first).get("role").is_some_and(is_instruction_role)
        });
        let Some(system) = system else {
            let message = format!("{{\"role\":\"system\",\"content\":{}}}", quoted(block));
            return self.edits.prepend_element(list, &message);
        };
        let item = request.json.value(system.first);
        match item.get("content") {
            Some(content) if self.append_text(content, block) => {}
            _ => self.edits.set_member(item, "content", &quoted(block)),
        }
    }

    /// Adds text to a content of either form; `false` where it is neither a string nor a list.
    fn append_text(&mut self, content: Value<'a>, block: &str) -> bool {
        match content.kind() {
            Kind::String => {
                let gap = if content.inner() == Some("") { "" } else { "\n\n" };
                self.edits.append_to_string(content, &format!("{gap}{block}"));
                true
            }
            Kind::Array => {
                if let Some(text) = content.elements().last().and_then(text_of_part) {
                    return self.append_text(text, block);
                }
                let kind = if self.request.dialect == Dialect::Responses { "input_text" } else { "text" };
                self.edits.append_element(content, &format!("{{\"type\":\"{kind}\",\"text\":{}}}", quoted(block)));
                true
            }
            Kind::Null | Kind::Bool | Kind::Number | Kind::Object => false,
        }
    }

    /// Takes out the thinking that this proxy packed while the provider spoke another dialect: the client sends it back
    /// untouched, and no provider takes it. What the provider itself had signed is restored.
    pub fn unpack_reasoning(&mut self) {
        let packed = || memchr::memmem::find(self.request.bytes(), carry::MARK.as_bytes()).is_some();
        match self.request.dialect {
            Dialect::Messages if packed() => self.unpack_messages(),
            Dialect::Responses if packed() => self.unpack_items(),
            _ => {}
        }
    }

    fn unpack_messages(&mut self) {
        let request = self.request;
        // The last answer's calls come without thinking by now.
        let mut bare = false;
        for message in request.messages.iter().filter(|message| message.role == Role::Assistant) {
            bare = false;
            let Some(content) = request.json.value(message.first).get("content").filter(|c| c.is_array()) else {
                continue;
            };
            let (mut gone, mut left, mut thinks) = (Vec::new(), 0, false);
            for block in content.elements() {
                let kind = block.get("type");
                let is = |name: &str| kind.is_some_and(|kind| kind.is_text(name));
                let field = match (is("thinking"), is("redacted_thinking")) {
                    (true, _) => block.get("signature"),
                    (_, true) => block.get("data"),
                    _ => {
                        left += 1;
                        continue;
                    }
                };
                let own = match field.and_then(|field| Some((field, carry::unpack(&field.as_str()?)?))) {
                    None => true,
                    Some((field, carried)) => {
                        let redacted = carried.encrypted.filter(|_| carried.id.is_none() && carried.extra.is_none());
                        let own = if is("thinking") { carried.signature } else { redacted };
                        own.map(|own| self.edits.replace(field.span(), quoted(&own))).is_some()
                    }
                };
                if own {
                    (left, thinks) = (left + 1, true);
                } else {
                    gone.push(block);
                }
            }
            bare = !gone.is_empty() && !thinks && message.calls;
            if left == 0 && !gone.is_empty() {
                // A message must hold something.
                self.edits.replace(content.span(), r#"[{"type":"text","text":"[thinking left out]"}]"#);
                continue;
            }
            for block in gone {
                self.edits.remove_element(content, block);
            }
        }
        if bare && request.is_tool_step() {
            // The provider refuses to think on behind calls that came without thinking.
            self.remove("thinking");
        }
    }

    fn unpack_items(&mut self) {
        let Some(input) = self.root().get("input") else { return };
        for item in input.elements().filter(|item| item.get("type").is_some_and(|kind| kind.is_text("reasoning"))) {
            let Some(field) = item.get("encrypted_content") else { continue };
            let Some(carried) = field.as_str().and_then(|text| carry::unpack(&text)) else { continue };
            match (carried.encrypted, carried.id) {
                (Some(own), Some(id)) => {
                    self.edits.replace(field.span(), quoted(&own));
                    self.edits.set_member(item, "id", &quoted(&id));
                }
                _ => self.edits.remove_element(input, item),
            }
        }
    }

    /// Asks the upstream to report usage in its stream. Only Chat Completions has to be asked, and only for a stream.
    pub fn request_usage(&mut self) {
        if self.request.dialect != Dialect::Chat || !self.request.stream || self.request.wants_usage() {
            return;
        }
        match self.root().get("stream_options") {
            Some(options) if options.is_object() => self.edits.set_member(options, "include_usage", "true"),
            _ => self.edits.set_member(self.root(), "stream_options", "{\"include_usage\":true}"),
        }
    }

    /// Leaves out or renames what this upstream cannot take.
    pub fn apply_quirks(&mut self, quirks: &Quirks) {
        if !quirks.developer_role {
            self.rename_role("developer", "system");
        }
        if !quirks.system_role && self.request.dialect == Dialect::Responses {
            self.rename_role("system", "developer");
        }
        if !quirks.store {
            self.remove("store");
        }
        if !quirks.stream_usage {
            self.remove("stream_options");
        }
        if !quirks.parallel_tool_calls {
            self.remove("parallel_tool_calls");
        }
        if !quirks.session_start_prompt {
            self.neutralise_session_start();
        }
        for field in &quirks.drop_fields {
            self.remove(field);
        }
        self.limit_output(quirks);
    }

    /// Puts a plain greeting request in the place of OpenClaw's message after `/new` or `/reset`, wherever a text of the
    /// user's begins with it; the message's other parts and members stay.
    fn neutralise_session_start(&mut self) {
        let request = self.request;
        for message in request.messages.iter().filter(|message| message.role == Role::User) {
            request.each_text(message, &mut |text| {
                let start = text.text_start(SESSION_START.len() + 240);
                if start[time_prefix(&start)..].starts_with(SESSION_START) {
                    self.edits.replace(text.span(), quoted(NEUTRAL_START));
                }
            });
        }
    }

    fn remove(&mut self, key: &str) {
        if self.root().get(key).is_some() {
            self.edits.remove_member(self.root(), key);
        }
    }

    fn rename_role(&mut self, from: &str, to: &str) {
        let request = self.request;
        for message in request.messages.iter().filter(|message| message.role == Role::System) {
            let role = request.json.value(message.first).get("role");
            if let Some(role) = role.filter(|role| role.is_text(from)) {
                self.edits.replace(role.span(), quoted(to));
            }
        }
    }

    fn limit_output(&mut self, quirks: &Quirks) {
        let root = self.root();
        let names: &[&str] = match self.request.dialect {
            Dialect::Chat => &["max_completion_tokens", "max_tokens"],
            Dialect::Responses => &["max_output_tokens"],
            Dialect::Messages => &["max_tokens"],
        };
        let wanted = match quirks.max_tokens_field {
            MaxTokensField::MaxTokens => Some("max_tokens"),
            MaxTokensField::MaxCompletionTokens => Some("max_completion_tokens"),
            MaxTokensField::AsSent => None,
        };
        let wanted = wanted.filter(|_| self.request.dialect == Dialect::Chat);
        let mut moved = false;
        for name in names {
            let Some(limit) = root.get(name) else { continue };
            let raw = match quirks.max_output_tokens {
                Some(most) if limit.as_f64().is_some_and(|limit| limit > most as f64) => most.to_string(),
                _ => limit.raw().to_owned(),
            };
            match wanted {
                Some(wanted) if wanted != *name => {
                    self.edits.remove_member(root, name);
                    if !moved && root.get(wanted).is_none() {
                        self.edits.set_member(root, wanted, &raw);
                        moved = true;
                    }
                }
                _ if raw != limit.raw() => self.edits.set_member(root, name, &raw),
                _ => {}
            }
        }
    }

    /// The body to send. Without edits these are the bytes that came.
    pub fn finish(&self) -> Bytes {
        self.edits.apply()
    }
}

/// The text of a text part.
fn text_of_part(part: Value<'_>) -> Option<Value<'_>> {
    if part.kind() == Kind::String {
        return Some(part);
    }
    let is_text = part.get("type").is_none_or(|kind| kind.is_text("text") || kind.is_text("input_text"));
    part.get("text").filter(|text| is_text && text.kind() == Kind::String)
}

fn is_instruction_role(role: Value<'_>) -> bool {
    role.is_text("system") || role.is_text("developer")
}

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + text.len() / 16 + 2);
    push_quoted(&mut quoted, text);
    quoted
}
