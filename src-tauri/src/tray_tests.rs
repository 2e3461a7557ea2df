//! What the tray shows in each state.

use super::*;
use crate::words::words;
use rstest::rstest;

fn status() -> Status {
    serde_json::from_value(serde_json::json!({
        "state": "running", "pid": 7, "version": "0.1.0", "since_ms": 0, "mode": "auto", "mode_overruled": false,
        "base_url": "http://127.0.0.1:30000/v1", "port": 30000, "listen_note": null, "key_required": true, "ui_url": null,
        "configured": true, "missing": null,
        "provider": { "id": "moonshot", "base_url": null, "model": null, "dialect": null, "passthrough": false },
        "skills": { "enabled": true, "count": 3, "disabled": 0, "unusable": 0 }, "home": "/h", "config": "/h/config.yaml",
        "log": null, "config_problem": null, "warnings": [], "later": [], "restart_for": []
    }))
    .unwrap()
}

fn shown(view: &View, status: Option<&Status>, down_since_ms: Option<i64>) -> Model {
    let recent = [Line { text: "12:00  Skills changed: git".into(), page: "skills".into() }];
    let facts = Facts { view, status, down_since_ms, recent: &recent, at_login: None, colour: Colour::Paper };
    model(&facts, words(|_| None))
}

/// The menu as lines: depth, mark, text.
fn lines(items: &[Item], depth: usize) -> Vec<String> {
    let indent = "  ".repeat(depth);
    items
        .iter()
        .flat_map(|item| match item {
            Item::Text(text) => vec![format!("{indent}({text})")],
            Item::Do(_, text) => vec![format!("{indent}{text}")],
            Item::Choice(id, text, on) => {
                let mark = if *on { "x" } else { " " };
                vec![format!("{indent}[{mark}] {text}{}", if id.is_none() { " (fixed)" } else { "" })]
            }
            Item::Sub(text, inner) => [vec![format!("{indent}{text} >")], lines(inner, depth + 1)].concat(),
            Item::Rule => vec![format!("{indent}-")],
        })
        .collect()
}

#[test]
fn a_healthy_service_is_two_lines_of_grey_and_what_can_be_done() {
    let model = shown(&View::Own, Some(&status()), None);
    assert_eq!(model.claw, Claw::Running);
    assert_eq!(
        lines(&model.items, 0),
        [
            "(Running, auto mode)",
            "-",
            "Open MetaClaw",
            "Copy address",
            "-",
            "Mode: Auto >",
            "  [ ] Skills only",
            "  [ ] RL",
            "  [x] Auto",
            "Recent >",
            "  12:00  Skills changed: git",
            "-",
            "Stop",
            "Quit"
        ]
    );
}

#[test]
fn a_stopped_service_can_be_started_and_nothing_else() {
    let model = shown(&View::Stopped { problem: None }, Some(&status()), None);
    assert_eq!(model.claw, Claw::Stopped);
    let lines = lines(&model.items, 0);
    assert!(lines.contains(&"Start".to_owned()) && lines[0] == "(Stopped)");
    assert!(!lines.iter().any(|line| line.starts_with("Copy") || line.starts_with("Mode") || line == "Stop"));
}

#[rstest]
#[case::on_the_way(View::Starting)]
#[case::out(View::Stopping)]
fn between_two_states_nothing_is_offered_but_the_end(#[case] view: View) {
    let lines = lines(&shown(&view, None, None).items, 0);
    assert!(!lines.iter().any(|line| line == "Start" || line == "Stop"));
    assert!(lines.contains(&"Quit".to_owned()));
}

#[test]
fn what_needs_the_person_is_the_second_line_and_leads_to_its_page() {
    let first_run = Status { state: ServiceState::FirstRun, ..status() };
    let broken = Status { config_problem: Some("line 3".into()), ..status() };
    let warned = Status { warnings: vec!["The journal is full.".into()], ..status() };
    let stopped = View::Stopped { problem: Some("Port 30000 is taken by nginx (process 4).".into()) };
    let cases = [
        (View::Own, first_run, None, "Not set up yet", "setup"),
        (View::Own, broken, None, "config.yaml is not in use as it stands", "settings/diagnostics"),
        (View::Own, warned, None, "The journal is full.", "home"),
        (stopped, status(), None, "Port 30000 is taken by nginx (process 4).", "home"),
    ];
    for (view, status, down, text, page) in cases {
        let model = shown(&view, Some(&status), down);
        assert_eq!(model.claw, Claw::Attention, "{text}");
        let Item::Do(id, said) = &model.items[1] else { panic!("{:?}", model.items[1]) };
        assert_eq!((said.as_str(), Act::of(id)), (text, Some(Act::Open(Some(page)))));
    }
    let down = shown(&View::Own, Some(&status()), Some(0));
    assert!(matches!(&down.items[1], Item::Do(_, text) if text.starts_with("No answer from moonshot since ")));
}

#[test]
fn a_mode_that_the_command_line_set_cannot_be_changed_here() {
    let status = Status { mode_overruled: true, mode: "rl".into(), ..status() };
    let lines = lines(&shown(&View::Attached { pid: Some(7) }, Some(&status), None).items, 0);
    assert_eq!(lines[1], "(Served by process 7)");
    assert!(lines.contains(&"  [x] RL (fixed)".to_owned()), "{lines:?}");
}

#[rstest]
#[case("open", Some(Act::Open(None)))]
#[case("open:conversations/a%2Fb:3", Some(Act::Open(Some("conversations/a%2Fb"))))]
#[case("mode:skills_only", Some(Act::Mode("skills_only")))]
#[case("quit", Some(Act::Quit))]
#[case("17", None)]
fn ids_lead_back_to_acts(#[case] id: &str, #[case] expected: Option<Act<'_>>) {
    assert_eq!(Act::of(id), expected);
}

#[rstest]
#[case("auto", "GNOME", Some(false), Colour::Paper)]
#[case("auto", "ubuntu:GNOME", None, Colour::Paper)]
#[case("auto", "KDE", Some(false), Colour::Ink)]
#[case("auto", "KDE", Some(true), Colour::Paper)]
#[case("auto", "KDE", None, Colour::Ink)]
#[case("ink", "GNOME", Some(true), Colour::Ink)]
#[case("paper", "KDE", None, Colour::Paper)]
fn the_icon_can_be_seen_on_the_panel(
    #[case] asked: &str,
    #[case] desktop: &str,
    #[case] dark: Option<bool>,
    #[case] expected: Colour,
) {
    assert_eq!(Colour::suiting(asked, desktop, dark), expected);
}
