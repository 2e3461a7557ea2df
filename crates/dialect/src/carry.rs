//! What one provider needs back on the next request, packed into a field that another dialect's clients return untouched.
//! Written by the answer encoders, read by request translation; where client and provider speak the same dialect by now,
//! `RequestEdit::unpack_reasoning` takes it out, so that nothing of it reaches a provider.

use serde_json::{Map, Value};

use crate::ir::{Reasoning, ToolCall};

/// Marks our text in `signature`, `data` and `encrypted_content` fields. No provider's own begins like this.
pub(crate) const MARK: &str = "metaclaw:";

/// What a packed field held.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Carried {
    /// Anthropic's signature.
    pub(crate) signature: Option<String>,
    /// Anthropic's redacted thinking or OpenAI's encrypted reasoning.
    pub(crate) encrypted: Option<String>,
    /// OpenAI's reasoning item id.
    pub(crate) id: Option<String>,
    /// Provider extras of a tool call: call id and value.
    pub(crate) extra: Option<(String, Value)>,
}

/// Packs a reasoning block's return data; a block without any still gets a non-empty mark,
/// because strict clients drop thinking that has no signature.
pub(crate) fn pack(reasoning: &Reasoning) -> String {
    let mut members = Map::new();
    for (key, value) in [("sig", &reasoning.signature), ("enc", &reasoning.encrypted), ("id", &reasoning.id)] {
        if let Some(value) = value {
            members.insert(key.to_owned(), Value::String(value.clone()));
        }
    }
    format!("{MARK}{}", Value::Object(members))
}

/// Packs a tool call's provider extras.
pub(crate) fn pack_extra(call: &ToolCall) -> Option<String> {
    let extra = call.extra.as_ref()?;
    Some(format!("{MARK}{}", serde_json::json!({"call": call.id, "extra": extra})))
}

/// Reads a field packed by this module; `None` if it is a provider's own.
pub(crate) fn unpack(field: &str) -> Option<Carried> {
    let text = field.strip_prefix(MARK)?;
    let Ok(Value::Object(mut members)) = serde_json::from_str(text) else { return Some(Carried::default()) };
    let mut string = |key: &str| match members.remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let (signature, encrypted, id, call) = (string("sig"), string("enc"), string("id"), string("call"));
    let extra = call.zip(members.remove("extra"));
    Some(Carried { signature, encrypted, id, extra })
}
