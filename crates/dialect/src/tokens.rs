//! Estimates of token counts without any model's tokenizer, good for budgets and for `count_tokens` where the upstream
//! has none. Latin script runs at about four characters a token, Chinese and Japanese at about one.

use crate::json::{Kind, Value};
use crate::request::Request;

/// Tokens of a text, estimated.
pub fn estimate_tokens(text: &str) -> u32 {
    let quarters: u64 = text.chars().map(quarter_tokens).sum();
    u32::try_from(quarters.div_ceil(4)).unwrap_or(u32::MAX)
}

fn quarter_tokens(character: char) -> u64 {
    match u32::from(character) {
        0..0x80 => 1,
        0x80..0x1100 => 2,
        _ => 4,
    }
}

/// Input tokens of a whole request, estimated: everything the model reads, tools and system prompt included.
pub fn count_tokens_estimate(request: &Request) -> u64 {
    let mut total = 0;
    for (key, value) in request.json().root().members() {
        let read = ["messages", "input", "system", "instructions", "tools", "functions"];
        if read.iter().any(|name| key.is_text(name)) {
            total += value_tokens(value);
        }
    }
    total
}

fn value_tokens(value: Value<'_>) -> u64 {
    match value.kind() {
        Kind::String => u64::from(estimate_tokens(&value.as_str().unwrap_or_default())),
        Kind::Array => value.elements().map(value_tokens).sum::<u64>() + 1,
        Kind::Object => value.members().map(|(key, value)| value_tokens(key) + value_tokens(value)).sum::<u64>() + 1,
        Kind::Null | Kind::Bool | Kind::Number => 1,
    }
}
