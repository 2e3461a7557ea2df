//! Notifications: which event is worth one, in what words, and where a click on it leads. Each kind has a switch in the
//! config; what is shown is shown best effort, and stands in the window's own list in any case.

use engine::api::{Event, Setting};
use serde_json::Value;
use tauri::{AppHandle, Manager};

use crate::app::Shell;
use crate::events::{self, clock};
use crate::words::{Words, fill};

/// So many turns in a row must have failed before the provider counts as down.
const FAILURES: u32 = 3;

/// The switches, as the config has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Switches {
    /// The provider is down for long.
    pub provider_down: bool,
    /// So long, ms.
    pub down_after_ms: i64,
    /// A turn could not be recorded.
    pub not_recorded: bool,
    /// A learned skill waits for the person.
    pub skill_waiting: bool,
}

impl Switches {
    /// Reads them out of the settings in force.
    pub(crate) fn of(settings: &[Setting]) -> Self {
        let value = |key: &str| settings.iter().find(|one| one.key == key).map(|one| &one.value);
        let on = |key: &str| value(key).and_then(Value::as_bool).unwrap_or(true);
        let all = on("app.notifications");
        Self {
            provider_down: all && on("app.notify_provider_down"),
            down_after_ms: value("app.provider_down_minutes").and_then(Value::as_i64).unwrap_or(5) * 60_000,
            not_recorded: all && on("app.notify_not_recorded"),
            skill_waiting: all && on("app.notify_skill_waiting"),
        }
    }
}

/// A notification: one fact, one reason, one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub title: String,
    pub body: String,
    /// Where a click leads.
    pub page: String,
}

/// What was seen so far of troubles that become worth a word only with time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// When the first turn of the present row of failures failed.
    pub failing_since_ms: Option<i64>,
    failures: u32,
    told: bool,
    not_recorded: bool,
}

impl Trouble {
    /// The provider counts as down.
    pub(crate) fn down_since_ms(&self) -> Option<i64> {
        self.failing_since_ms.filter(|_| self.failures >= FAILURES)
    }

    /// Takes an event in; the notification for it, if it is worth one and its kind is on.
    pub(crate) fn hear(&mut self, event: &Event, on: &Switches, provider: &str, words: &Words) -> Option<Note> {
        match event.kind.as_str() {
            "turn_finished" => self.turn(event, on, provider, words),
            "journal_failed" => {
                // One word for a row of them: a full disk fails every turn.
                let first = !std::mem::replace(&mut self.not_recorded, true);
                let error = event.data.get("error").and_then(Value::as_str).unwrap_or_default();
                (first && on.not_recorded).then(|| Note {
                    title: words.not_recorded_title.to_owned(),
                    body: fill(words.not_recorded_body, &[("error", error.trim_end_matches('.'))]),
                    page: "home".to_owned(),
                })
            }
            "journal_recovered" => {
                self.not_recorded = false;
                None
            }
            // Another provider, or another key: what failed before says nothing about it.
            "config_changed" | "service_started" => {
                (self.failing_since_ms, self.failures, self.told) = (None, 0, false);
                None
            }
            _ => None,
        }
    }

    fn turn(&mut self, event: &Event, on: &Switches, provider: &str, words: &Words) -> Option<Note> {
        let status = event.data.get("status").and_then(Value::as_u64).unwrap_or_default();
        match event.data.get("outcome").and_then(Value::as_str).unwrap_or_default().to_lowercase().as_str() {
            "ok" => {
                (self.failing_since_ms, self.failures, self.told) = (None, 0, false);
                return None;
            }
            "cut" => {}
            // The provider's fault, or a key it does not take; not the agent's own mistakes.
            "error" if status >= 500 || matches!(status, 401..=403 | 429) => {}
            _ => return None,
        }
        let since = *self.failing_since_ms.get_or_insert(event.at_ms);
        self.failures += 1;
        let down = self.failures >= FAILURES && event.at_ms - since >= on.down_after_ms;
        if !down || !on.provider_down || std::mem::replace(&mut self.told, true) {
            return None;
        }
        let (n, status, time) = (self.failures.to_string(), status.to_string(), clock(since));
        Some(Note {
            title: fill(words.down_title, &[("provider", provider)]),
            body: fill(words.down_body, &[("n", &n), ("time", &time), ("status", &status)]),
            page: "settings/provider".to_owned(),
        })
    }
}

/// The notification for proposals that wait, by number and name.
pub(crate) fn proposals(waiting: &[(i64, String)], words: &Words) -> Option<Note> {
    let (title, page) = match waiting {
        [] => return None,
        [(id, _)] => (words.skill_title.to_owned(), events::proposal(*id)),
        many => (fill(words.skills_title, &[("n", &many.len().to_string())]), "skills".to_owned()),
    };
    let names: Vec<&str> = waiting.iter().map(|(_, name)| name.as_str()).collect();
    Some(Note { title, body: fill(words.skill_body, &[("names", &names.join(", "))]), page })
}

/// Shows it and follows a click, in a task of its own.
#[cfg(target_os = "linux")]
pub(crate) fn show(app: &AppHandle, note: Note) {
    let shell = app.state::<Shell>();
    let (look, app) = (shell.words.look, app.clone());
    let ending = shell.ending.clone();
    shell.tasks.spawn(async move {
        let can = tokio::task::spawn_blocking(notify_rust::get_capabilities).await;
        let markup = matches!(can, Ok(Ok(can)) if can.iter().any(|one| one == "body-markup"));
        let body = if markup { escape(&note.body) } else { note.body };
        let shown = notify_rust::Notification::new()
            .appname("MetaClaw")
            .summary(&note.title)
            .body(&body)
            .icon("metaclaw")
            .hint(notify_rust::Hint::DesktopEntry("metaclaw".to_owned()))
            .action("default", look)
            .action("look", look)
            .show_async()
            .await;
        let handle = match shown {
            Ok(handle) => handle,
            Err(error) => return tracing::info!(%error, title = note.title, "the notification was not shown"),
        };
        let mut clicked = false;
        tokio::select! {
            () = handle.wait_for_action_async(|answer| {
                clicked = !matches!(answer, notify_rust::NotificationResponse::Closed(_));
            }) => {}
            () = ending.cancelled() => return,
        }
        if clicked {
            crate::window::open(&app, Some(&note.page));
        }
    });
}

/// Elsewhere the window's own list is what there is.
#[cfg(not(target_os = "linux"))]
pub(crate) fn show(_: &AppHandle, note: Note) {
    tracing::info!(title = note.title, body = note.body, page = note.page, "worth a notification");
}

/// Text as it must stand where markup is read.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::words;
    use rstest::rstest;
    use serde_json::json;

    const ON: Switches =
        Switches { provider_down: true, down_after_ms: 300_000, not_recorded: true, skill_waiting: true };

    fn event(kind: &str, at_s: i64, data: Value) -> Event {
        Event { id: None, at_ms: at_s * 1000, kind: kind.to_owned(), data }
    }

    fn turn(at_s: i64, outcome: &str, status: u16) -> Event {
        event("turn_finished", at_s, json!({ "outcome": outcome, "status": status }))
    }

    fn told(events: &[Event], on: &Switches) -> Vec<String> {
        let mut trouble = Trouble::default();
        let words = words(|_| None);
        events.iter().filter_map(|event| trouble.hear(event, on, "moonshot", words)).map(|note| note.title).collect()
    }

    const DOWN: &str = "moonshot does not answer";

    #[rstest]
    #[case::long(&[(0, "error", 503), (10, "error", 502), (300, "cut", 200)], 1)]
    #[case::key_refused(&[(0, "error", 401), (10, "error", 401), (300, "error", 401)], 1)]
    #[case::told_once(&[(0, "error", 503), (10, "error", 503), (300, "error", 503), (600, "error", 503)], 1)]
    #[case::short(&[(0, "error", 503), (10, "error", 503), (299, "error", 503)], 0)]
    #[case::few(&[(0, "error", 503), (900, "error", 503)], 0)]
    #[case::an_answer_between(&[(0, "error", 503), (10, "ok", 200), (200, "error", 503), (310, "error", 503)], 0)]
    #[case::the_agents_own_mistakes(&[(0, "error", 400), (10, "error", 404), (300, "error", 422)], 0)]
    #[case::gone_agents(&[(0, "cancelled", 499), (10, "cancelled", 499), (300, "cancelled", 499)], 0)]
    fn a_provider_is_down_when_nothing_was_answered_for_long(#[case] turns: &[(i64, &str, u16)], #[case] times: usize) {
        let events: Vec<Event> = turns.iter().map(|(at, outcome, status)| turn(*at, outcome, *status)).collect();
        assert_eq!(told(&events, &ON), vec![DOWN; times]);
    }

    #[test]
    fn after_an_answer_or_another_setting_it_is_told_anew() {
        let bad = |at| turn(at, "error", 503);
        let row = |from: i64| [bad(from), bad(from + 1), bad(from + 400)];
        let mut events = row(0).to_vec();
        events.push(turn(500, "ok", 200));
        events.extend(row(600));
        events.push(event("config_changed", 1100, json!({ "keys": ["llm.api_key"] })));
        events.extend(row(1200));
        assert_eq!(told(&events, &ON), vec![DOWN; 3]);
    }

    #[test]
    fn an_unrecorded_turn_is_told_once_until_turns_are_recorded_again() {
        let failed = || event("journal_failed", 0, json!({ "error": "disk full." }));
        let again = event("journal_recovered", 1, json!({}));
        assert_eq!(told(&[failed(), failed(), again, failed()], &ON), vec!["A turn was not recorded"; 2]);
    }

    #[test]
    fn every_kind_can_be_switched_off() {
        let events = [turn(0, "error", 503), turn(1, "error", 503), turn(400, "error", 503)];
        assert!(told(&events, &Switches { provider_down: false, ..ON }).is_empty());
        let events = [event("journal_failed", 0, json!({ "error": "disk full" }))];
        assert!(told(&events, &Switches { not_recorded: false, ..ON }).is_empty());
    }

    #[test]
    fn a_proposal_is_named_and_leads_to_its_page_and_several_to_the_list() {
        let words = words(|_| None);
        let one = proposals(&[(3, "pull-before-push".into())], words).unwrap();
        assert_eq!(
            (one.title.as_str(), one.body.as_str(), one.page.as_str()),
            (
                "A skill needs your yes",
                "Made from a conversation: pull-before-push. Not used before you allow it.",
                "skills/proposal/3"
            )
        );
        let two = proposals(&[(3, "a".into()), (4, "b".into())], words).unwrap();
        assert_eq!((two.title.as_str(), two.page.as_str()), ("2 skills need your yes", "skills"));
        assert!(two.body.contains("a, b"));
        assert_eq!(proposals(&[], words), None);
    }

    #[test]
    fn the_switch_for_all_overrules_those_of_each_kind() {
        let setting = |key: &str, value: Value| -> Setting {
            serde_json::from_value(json!({
                "key": key, "value": value, "default": true, "line": 1, "doc": "", "allowed": "", "kind": {},
                "secret": false, "state": "live", "note": null, "needs_restart": false
            }))
            .unwrap()
        };
        let off = Switches::of(&[setting("app.notifications", json!(false))]);
        assert!(!off.provider_down && !off.not_recorded && !off.skill_waiting);
        let one = Switches::of(&[setting("app.notify_skill_waiting", json!(false))]);
        assert!(one.provider_down && one.not_recorded && !one.skill_waiting);
        assert_eq!(Switches::of(&[]), ON);
    }

    #[test]
    fn markup_in_a_reason_is_shown_as_it_is() {
        assert_eq!(escape("a <b> & c"), "a &lt;b&gt; &amp; c");
    }
}
