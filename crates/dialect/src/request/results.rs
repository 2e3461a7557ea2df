//! What tools gave back in the turn that a request continues, in whichever form its dialect has for it.

use serde_json::Value;

use super::Request;

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// Its words; media is left out.
    pub text: String,
    /// The agent marked it as an error (Anthropic's `is_error`).
    pub is_error: bool,
}

impl Request {
    /// The results of tools since the user's message that started the turn, in order.
    pub fn tool_results(&self) -> Vec<ToolResult> {
        let start = self.turn_start().map_or(0, |start| start + 1);
        let mut found = Vec::new();
        for message in self.messages[start..].iter().filter(|message| message.results) {
            if let Some(Ok(value)) = self.bytes().get(message.span.clone()).map(serde_json::from_slice::<Value>) {
                read(&value, &mut found);
            }
        }
        found
    }
}

fn read(message: &Value, found: &mut Vec<ToolResult>) {
    let name = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut push = |content: &Value, is_error: bool| {
        let mut text = String::new();
        words(content, &mut text);
        found.push(ToolResult { text, is_error });
    };
    if name("type").ends_with("_output") {
        push(message.get("output").unwrap_or(&Value::Null), false);
        return;
    }
    let content = message.get("content").unwrap_or(&Value::Null);
    if matches!(name("role"), "tool" | "function" | "toolResult") {
        push(content, message.get("isError") == Some(&Value::Bool(true)));
        return;
    }
    for part in content.as_array().into_iter().flatten() {
        if part.get("type").and_then(Value::as_str) == Some("tool_result") {
            push(part.get("content").unwrap_or(&Value::Null), part.get("is_error") == Some(&Value::Bool(true)));
        }
    }
}

fn words(content: &Value, text: &mut String) {
    match content {
        Value::String(words) => {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(words);
        }
        Value::Array(parts) => parts.iter().for_each(|part| words_of(part, text)),
        Value::Object(_) => words_of(content, text),
        _ => {}
    }
}

fn words_of(part: &Value, text: &mut String) {
    match part.get("text") {
        Some(inner) => words(inner, text),
        None if part.is_string() => words(part, text),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::Dialect;

    #[rstest]
    #[case(Dialect::Chat, json!({"messages": [
        {"role": "user", "content": "before"},
        {"role": "assistant", "tool_calls": [{"id": "0", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "0", "content": "old"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "now"},
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}]}), false)]
    #[case(Dialect::Messages, json!({"max_tokens": 9, "messages": [
        {"role": "user", "content": "now"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "is_error": true,
                                      "content": [{"type": "text", "text": "one\ntwo"}]}]}]}), true)]
    #[case(Dialect::Responses, json!({"input": [
        {"role": "user", "content": "now"},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "one\ntwo"}]}), false)]
    fn results_of_this_turn_are_read_in_every_dialect(
        #[case] dialect: Dialect,
        #[case] mut body: Value,
        #[case] is_error: bool,
    ) {
        body["model"] = json!("m");
        let request = Request::parse(dialect, Bytes::from(body.to_string())).unwrap();
        assert_eq!(request.tool_results(), [ToolResult { text: "one\ntwo".into(), is_error }]);
    }
}
