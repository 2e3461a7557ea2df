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

/// The line for an event; none for what is no news: a turn that went well, a session that ended or that taught nothing.
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
        "config_held" => (words.ev_config_held.to_owned(), "settings/diagnostics".to_owned()),
        "config_invalid" => (words.ev_config_invalid.to_owned(), "settings/diagnostics".to_owned()),
        "skills_changed" => {
            let names: Vec<String> = ["names", "added", "changed", "removed"].into_iter().flat_map(list).collect();
            (fill(words.ev_skills, &[("names", &joined(&names))]), "skills".to_owned())
        }
        "skill_moved" => {
            let sentence = match text("state") {
                "trial" => words.ev_skill_trial,
                "active" => words.ev_skill_active,
                "retired" => words.ev_skill_retired,
                _ => words.ev_skill_changed,
            };
            let name = text("name");
            (fill(sentence, &[("name", name)]), format!("skills/{}", engine::client::segment(name)))
        }
        "skill_evolved" => match proposals(event)[..] {
            [] => return None,
            [one] => (fill(words.ev_skill_waits, &[("n", "1")]), proposal(one)),
            ref many => (fill(words.ev_skill_waits, &[("n", &many.len().to_string())]), "skills".to_owned()),
        },
        "learning_on" => (words.ev_learning_on.to_owned(), "skills".to_owned()),
        "learning_off" => (words.ev_learning_off.to_owned(), "skills".to_owned()),
        "skill_replayed" => {
            let name = text("skill");
            let page = format!("skills/{}", engine::client::segment(name));
            (fill(words.ev_skill_replayed, &[("name", name)]), page)
        }
        "meaning_off" if text("of") == "memory" => (words.ev_memory_meaning_off.to_owned(), "memory".to_owned()),
        "meaning_off" => (words.ev_meaning_off.to_owned(), "skills".to_owned()),
        "model_fetched" => (fill(words.ev_model, &[("id", text("id"))]), "settings/provider".to_owned()),
        "model_not_fetched" => (fill(words.ev_model_failed, &[("id", text("id"))]), "settings/provider".to_owned()),
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
        "session_ended" | "memory_learned" | "skill_generation" | "missed" => return None,
        other => (other.replace('_', " "), "home".to_owned()),
    };
    Some(Line { text: format!("{}  {said}", clock(event.at_ms)), page })
}

/// The numbers of the proposals that an event says wait for the person.
pub(crate) fn proposals(event: &Event) -> Vec<i64> {
    let all = event.data.get("waiting").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(Value::as_i64).collect()
}

/// The page of a proposal.
pub(crate) fn proposal(id: i64) -> String {
    format!("skills/proposal/{id}")
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
    #[case("skill_moved", json!({ "name": "pull-before-push", "state": "trial", "reason": "" }), Some(("pull-before-push is on trial", "skills/pull-before-push")))]
    #[case("skill_evolved", json!({ "outcome": "proposed", "proposals": [3], "waiting": [3] }), Some(("Skills need your yes: 1", "skills/proposal/3")))]
    #[case("skill_evolved", json!({ "outcome": "proposed", "proposals": [3, 4], "waiting": [3, 4] }), Some(("Skills need your yes: 2", "skills")))]
    #[case("skill_evolved", json!({ "outcome": "nothing", "proposals": [], "waiting": [] }), None)]
    #[case("learning_off", json!({ "reason": "no model" }), Some(("No skills are learned", "skills")))]
    #[case("skill_replayed", json!({ "skill": "git" }), Some(("A judge compared answers with git and without it", "skills/git")))]
    #[case("meaning_off", json!({ "reason": "no model", "of": "memory" }), Some(("Memories are found by words only", "memory")))]
    #[case("meaning_off", json!({ "reason": "no model" }), Some(("Skills are found by words only", "skills")))]
    #[case("model_fetched", json!({ "id": "smollm2" }), Some(("smollm2 is here", "settings/provider")))]
    #[case("weights_swapped", json!({}), Some(("weights swapped", "home")))]
    #[case("session_ended", json!({}), None)]
    fn news_become_a_line_with_a_page(#[case] kind: &str, #[case] data: Value, #[case] expected: Option<(&str, &str)>) {
        let event = Event { id: None, at_ms: 0, kind: kind.to_owned(), data };
        let found = line(&event, words(|_| None));
        let found = found.as_ref().map(|line| (line.text.split_once("  ").unwrap().1, line.page.as_str()));
        assert_eq!(found, expected);
    }
}
