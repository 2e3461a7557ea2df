//! What must hold for any bytes: reading never panics, and an edit that is made changes one place, is read back, and
//! is made once. Used by the fuzz target and, over the corpus and mutations of it, by `tests/fuzz_replay.rs`.

use std::path::Path;

use metaclaw_config::{ConfigError, Edit, EditError, edit_text, parse};

const EDITS: &[(&str, &str)] = &[
    ("mode", "rl"),
    ("llm.api_key", "0123456"),
    ("llm.fallback.model_id", "a: b # c"),
    ("proxy.port", "1"),
    ("proxy.allowed_hosts", "[a.local, b.local]"),
    ("scheduler.calendar.enabled", "true"),
    ("llm.model_map.x", "1e5"),
];

/// Panics where something does not hold.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let file = Path::new("config.yaml");
    let broken = matches!(parse(text, file), Err(ConfigError::Syntax { .. }));
    for (key, value) in EDITS {
        let set = |text: &str| {
            let edit = Edit::Set { key: (*key).to_owned(), value: (*value).to_owned() };
            edit_text(text, file, &[edit]).map(|(text, _)| text)
        };
        match set(text) {
            Err(EditError::Broken(_)) => assert!(broken, "{key}: refused as broken, but it was read"),
            Err(_) => {}
            Ok(edited) => {
                assert!(!broken, "{key}: edited, but it cannot be read");
                if let Err(error) = parse(&edited, file) {
                    let wrong = error.problems().iter().any(|problem| problem.key == *key);
                    assert!(!wrong && !error.problems().is_empty(), "{key}: {error}\n{edited}");
                }
                assert_eq!(set(&edited).as_deref().ok(), Some(edited.as_str()), "{key}: the second time changed more");
            }
        }
        let edit = Edit::Unset { key: (*key).to_owned() };
        if let Ok((without, _)) = edit_text(text, file, &[edit]) {
            assert!(!matches!(parse(&without, file), Err(ConfigError::Syntax { .. })), "{key}: unset broke the file");
            assert!(without.len() <= text.len(), "{key}: unset added something");
        }
    }
}
