//! An event as one line of the tray's menu, with the page it belongs to.

use engine::api::Event;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::words::{Words, fill};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub text: String,
    pub page: String,
}

/// The line for an event; none for what is no news: a turn that went well, a session that ended.
pub(crate) fn line(event: &Event, words: &Words) -> Option<Line> {
    let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or_default();
    let list = |name: &str| -> Vec<String> {
        let all = event.data.get(name).and_then(Value::as_array).into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let joined = |words: &[String]| match words {
        [] => String::new(),
        [one] => one.clone(),
        [one, rest @ ..] => format!("{one} +{}", rest.len()),
    };
    let (said, page) = match event.kind.as_str() {
        "service_started" => (words.ev_started.to_owned(), "home".to_owned()),
        "service_stopping" => (words.ev_stopping.to_owned(), "home".to_owned()),
        "config_changed" => match &list("keys")[..] {
            [] => (words.ev_config_read.to_owned(), "settings".to_owned()),
            keys => (fill(words.ev_config, &[("keys", &joined(keys))]), "settings".to_owned()),
        },
        "config_invalid" => (words.ev_config_invalid.to_owned(), "settings/diagnostics".to_owned()),
        "skills_changed" => {
            let names: Vec<String> = ["names", "added", "changed", "removed"].into_iter().flat_map(list).collect();
            (fill(words.ev_skills, &[("names", &joined(&names))]), "skills".to_owned())
        }
        "fallback_used" => {
            (fill(words.ev_fallback, &[("from", text("from")), ("to", text("to"))]), "settings/provider".to_owned())
        }
        "journal_failed" => (words.ev_not_recorded.to_owned(), "home".to_owned()),
        "journal_recovered" => (words.ev_recorded.to_owned(), "home".to_owned()),
        "turn_finished" => {
            let outcome = text("outcome").to_lowercase();
            if outcome != "error" && outcome != "cut" {
                return None;
            }
            let status = event.data.get("status").map(Value::to_string).unwrap_or_default();
            (fill(words.ev_turn_failed, &[("status", &status)]), conversation(text("session")))
        }
        "session_ended" | "memory_learned" | "missed" => return None,
        other => (other.replace('_', " "), "home".to_owned()),
    };
    Some(Line { text: format!("{}  {said}", clock(event.at_ms)), page })
}

fn conversation(session: &str) -> String {
    if session.is_empty() {
        "conversations".to_owned()
    } else {
        format!("conversations/{}", engine::client::segment(session))
    }
}

/// A moment of today as people write it, in the machine's own time zone.
pub(crate) fn clock(at_ms: i64) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or_default();
    at.to_zoned(TimeZone::system()).strftime("%H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::words;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case("config_changed", json!({ "keys": ["mode", "log.level"] }), Some(("Settings changed: mode +1", "settings")))]
    #[case("skills_changed", json!({ "added": ["git"], "changed": [], "removed": [] }), Some(("Skills changed: git", "skills")))]
    #[case("fallback_used", json!({ "from": "moonshot", "to": "openai", "reason": "503" }), Some(("openai answered for moonshot", "settings/provider")))]
    #[case("turn_finished", json!({ "outcome": "error", "status": 503, "session": "a/b" }), Some(("A turn failed: HTTP 503", "conversations/a%2Fb")))]
    #[case("turn_finished", json!({ "outcome": "ok", "status": 200, "session": "a" }), None)]
    #[case("weights_swapped", json!({}), Some(("weights swapped", "home")))]
    #[case("session_ended", json!({}), None)]
    fn news_become_a_line_with_a_page(#[case] kind: &str, #[case] data: Value, #[case] expected: Option<(&str, &str)>) {
        let event = Event { id: None, at_ms: 0, kind: kind.to_owned(), data };
        let found = line(&event, words(|_| None));
        let found = found.as_ref().map(|line| (line.text.split_once("  ").unwrap().1, line.page.as_str()));
        assert_eq!(found, expected);
    }
}
