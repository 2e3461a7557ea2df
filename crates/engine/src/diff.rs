//! What changed between two JSON bodies, as a list a person can read: text appended to a string, members set, elements
//! added. Pure; feeds "what MetaClaw added" of a turn.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// How a place changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Not there before, or text added to what was there.
    Added,
    /// Another value.
    Changed,
    /// No longer there.
    Removed,
}

/// One changed place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// Where, as a path from the top: `messages[3].content`.
    pub at: String,
    /// How.
    pub kind: ChangeKind,
    /// The role of the message it is in.
    pub role: Option<String>,
    /// Exactly the text that was added, where text was added.
    pub added: Option<String>,
    /// The value before, cut to 2,000 characters; text for strings, JSON for everything else.
    pub before: Option<String>,
    /// The value after, in the same form.
    pub after: Option<String>,
}

/// Longest value shown whole.
const SHOWN: usize = 2000;

/// All changes from `before` to `after`, in document order.
pub(crate) fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    walk(before, after, &mut String::new(), None, &mut found);
    found
}

fn walk(before: &Value, after: &Value, at: &mut String, role: Option<&str>, found: &mut Vec<Change>) {
    if before == after {
        return;
    }
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let role = new.get("role").and_then(Value::as_str).or(role);
            for (key, value) in old {
                step(at, key, |at| match new.get(key) {
                    Some(now) => walk(value, now, at, role, found),
                    None => found.push(change(at, ChangeKind::Removed, role, Some(value), None)),
                });
            }
            for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                step(at, key, |at| found.push(change(at, ChangeKind::Added, role, None, Some(value))));
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            // Elements that were put in or taken out stand between an equal head and an equal tail.
            let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
            let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
            let (old_end, new_end) = (old.len() - tail, new.len() - tail);
            let shared = (old_end - head).min(new_end - head);
            for nth in head..head + shared {
                index(at, nth, |at| walk(&old[nth], &new[nth], at, role, found));
            }
            for (nth, value) in old.iter().enumerate().take(old_end).skip(head + shared) {
                index(at, nth, |at| found.push(change(at, ChangeKind::Removed, role, Some(value), None)));
            }
            for (nth, value) in new.iter().enumerate().take(new_end).skip(head + shared) {
                index(at, nth, |at| found.push(change(at, ChangeKind::Added, role, None, Some(value))));
            }
        }
        (Value::String(old), Value::String(new)) if new.len() > old.len() && new.starts_with(old.as_str()) => {
            let mut added = change(at, ChangeKind::Added, role, Some(before), Some(after));
            added.added = Some(new[old.len()..].to_owned());
            found.push(added);
        }
        _ => found.push(change(at, ChangeKind::Changed, role, Some(before), Some(after))),
    }
}

fn step(at: &mut String, key: &str, then: impl FnOnce(&mut String)) {
    let length = at.len();
    if length > 0 {
        at.push('.');
    }
    at.push_str(key);
    then(at);
    at.truncate(length);
}

fn index(at: &mut String, nth: usize, then: impl FnOnce(&mut String)) {
    let length = at.len();
    at.push_str(&format!("[{nth}]"));
    then(at);
    at.truncate(length);
}

fn change(at: &str, kind: ChangeKind, role: Option<&str>, before: Option<&Value>, after: Option<&Value>) -> Change {
    let role = after.and_then(|value| value.get("role")).and_then(Value::as_str).or(role);
    let added = match (kind, after) {
        (ChangeKind::Added, Some(value)) => text_of(value),
        _ => None,
    };
    Change {
        at: at.to_owned(),
        kind,
        role: role.map(str::to_owned),
        added,
        before: before.map(shown),
        after: after.map(shown),
    }
}

/// The text of a string, a text part or a message of text parts.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(object) => object.get("text").or_else(|| object.get("content")).and_then(text_of),
        _ => None,
    }
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_appended_to_a_message_is_shown_as_exactly_that_text() {
        let before = json!({"model": "a", "messages": [{"role": "user", "content": "hi"}]});
        let after = json!({"model": "b", "messages": [{"role": "user", "content": "hi\n\n<x>"}]});
        let found = changes(&before, &after);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].at.as_str(), found[0].kind), ("model", ChangeKind::Changed));
        assert_eq!(found[1].at, "messages[0].content");
        assert_eq!(found[1].added.as_deref(), Some("\n\n<x>"));
        assert_eq!(found[1].role.as_deref(), Some("user"));
    }

    #[test]
    fn a_text_part_added_and_a_member_removed_are_told() {
        let before =
            json!({"session_id": "s", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]});
        let after = json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "<x>"}]}]});
        let found = changes(&before, &after);
        assert_eq!((found[0].at.as_str(), found[0].kind), ("session_id", ChangeKind::Removed));
        assert_eq!((found[1].at.as_str(), found[1].added.as_deref()), ("messages[0].content[1]", Some("<x>")));
    }

    #[test]
    fn a_message_put_in_front_does_not_change_the_others() {
        let before = json!([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]);
        let after = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, {"role": "user", "content": "b"}]);
        let found = changes(&before, &after);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].at.as_str(), found[0].role.as_deref()), ("[0]", Some("system")));
    }

    #[test]
    fn equal_bodies_have_no_changes() {
        assert_eq!(changes(&json!({"a": [1, {"b": null}]}), &json!({"a": [1, {"b": null}]})), []);
    }
}
