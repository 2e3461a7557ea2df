//! Any file, any key, any value: what is not the value stays as it was written, and the value is read back.

#![expect(clippy::panic, reason = "the helpers of a test")]

use std::path::Path;

use metaclaw_config::{Edit, Key, Kind, Loaded, Mode, edit_text, keys, parse};
use proptest::prelude::*;
use serde_json::Value;

fn read(text: &str) -> Loaded {
    parse(text, Path::new("config.yaml")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A value that the key takes, as on a command line.
fn value_for(key: &'static Key) -> BoxedStrategy<String> {
    match key.kind {
        Kind::Bool => prop_oneof!["true", "false", "on", "off"].prop_map(String::from).boxed(),
        Kind::Integer { min, max } => (min..=max.min(100_000)).prop_map(|n| n.to_string()).boxed(),
        Kind::Number { min, max } => (min..=max.min(100.0)).prop_map(|n| n.to_string()).boxed(),
        Kind::Choice { of } => proptest::sample::select(of).prop_map(String::from).boxed(),
        Kind::Provider => prop_oneof!["kimi", "custom", "anthropic"].prop_map(String::from).boxed(),
        Kind::Url => prop_oneof!["https://a\\.example(/v1)?", ""].boxed(),
        Kind::Address => prop_oneof!["127\\.0\\.0\\.1", "::1", "0\\.0\\.0\\.0"].boxed(),
        Kind::Time => (0..24u16, 0..60u16).prop_map(|(h, m)| format!("{h:02}:{m:02}")).boxed(),
        Kind::List => "[a-z]{1,5}(, [a-z]{1,5}){0,3}".boxed(),
        Kind::Map | Kind::SecretMap => "\\{[a-z]{1,5}: [a-z]{1,5}\\}".boxed(),
        Kind::Secret => prop_oneof!["[!-~]{0,30}", "0[0-9]{1,9}", "[0-9]e[0-9]"].boxed(),
        Kind::Text | Kind::Path => {
            prop_oneof!["[ -~]{0,30}", "\\PC{0,20}", "0[0-9]{1,9}", "[0-9]e[0-9]", "yes|no|on|null|~|\\.5"].boxed()
        }
    }
}

/// How a value of the file is written.
fn written(key: &'static Key) -> BoxedStrategy<String> {
    match key.kind {
        Kind::List => prop_oneof!["\\[\\]", "\\[a, b\\]", "a,b"].boxed(),
        Kind::Map | Kind::SecretMap => prop_oneof!["\\{\\}", "\\{a: b\\}", "~"].boxed(),
        Kind::Text | Kind::Secret | Kind::Path => {
            prop_oneof!["[a-z]{1,8}", "'[a-z #:]{0,8}'", "\"[a-z #:]{0,8}\"", "0123456", "1e5", "", "~"].boxed()
        }
        _ => value_for(key)
            .prop_map(|value| if value.is_empty() || value.contains(':') { format!("'{value}'") } else { value })
            .boxed(),
    }
}

#[derive(Debug, Clone)]
struct Line {
    key: &'static Key,
    value: String,
    comment: Option<String>,
    above: Vec<String>,
}

fn line() -> impl Strategy<Value = Line> {
    let any = (0..keys().len()).prop_map(|at| &keys()[at]);
    (
        any.prop_flat_map(|key| (Just(key), written(key))),
        proptest::option::of("# [a-z:{}'\"#-]{0,10}"),
        prop::collection::vec(prop_oneof!["", " *# [a-z:{}'\"-]{0,10}"], 0..3),
    )
        .prop_map(|((key, value), comment, above)| Line { key, value, comment, above })
}

/// A file: known keys in sections (in the order drawn), unknown ones, comments, blank lines.
fn document() -> impl Strategy<Value = String> {
    let lines = prop::collection::vec(line(), 0..14);
    (lines, 1..5_usize, any::<bool>(), any::<bool>(), any::<bool>(), any::<u8>()).prop_map(
        |(lines, step, crlf, end, unknown, empty)| {
            let mut sections: Vec<(Vec<&str>, Vec<Line>)> = Vec::new();
            for line in lines {
                let mut path: Vec<&str> = line.key.path.split('.').collect();
                path.pop();
                match sections.iter_mut().find(|(known, _)| *known == path) {
                    Some((_, lines)) if lines.iter().any(|known| known.key.path == line.key.path) => {}
                    Some((_, lines)) => lines.push(line),
                    None => sections.push((path, vec![line])),
                }
            }
            // A subsection follows its section.
            sections.sort_by_key(|(path, _)| path.first().map(|first| (*first).to_owned()));
            let mut text = String::new();
            let mut open: Vec<&str> = Vec::new();
            for (path, lines) in sections {
                let shared = open.iter().zip(&path).take_while(|(a, b)| a == b).count();
                for (depth, name) in path.iter().enumerate().skip(shared) {
                    text.push_str(&format!("{}{name}:\n", " ".repeat(depth * step)));
                }
                let indent = " ".repeat(path.len() * step);
                if unknown {
                    text.push_str(&format!("{indent}unknown_{}: [1,   2] # kept\n", text.len()));
                }
                for line in lines {
                    for above in &line.above {
                        text.push_str(above);
                        text.push('\n');
                    }
                    let name = line.key.path.rsplit('.').next().unwrap_or_default();
                    text.push_str(format!("{indent}{name}: {}", line.value).trim_end());
                    if let Some(comment) = &line.comment {
                        text.push_str(&format!("   {comment}"));
                    }
                    text.push('\n');
                }
                open = path;
            }
            if empty % 3 == 0 && !text.contains("\nwechat:") && !text.starts_with("wechat:") {
                text.push_str("wechat:\n");
            }
            if !end {
                text.pop();
            }
            if crlf { text.replace('\n', "\r\n") } else { text }
        },
    )
}

fn edit() -> impl Strategy<Value = (&'static Key, String)> {
    (0..keys().len()).prop_flat_map(|at| {
        let key = &keys()[at];
        (Just(key), value_for(key))
    })
}

/// What follows a `#` that begins a comment: one outside quotes.
fn comment(line: &str) -> Option<&str> {
    let mut quote = None;
    let (mut escaped, mut before) = (false, ' ');
    for (at, c) in line.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') if matches!(before, ' ' | '[' | ',') => quote = Some(c),
            (None, '#') if before == ' ' => return Some(line[at..].trim_end()),
            _ => {}
        }
        before = c;
    }
    None
}

fn comments(text: &str) -> Vec<&str> {
    text.lines().filter_map(comment).filter(|comment| comment.starts_with("# ")).collect()
}

/// The value at a path, by another YAML reader.
fn independently<'v>(root: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(root, |value, name| value.get(name))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, max_shrink_iters: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn one_value_changes_and_nothing_else(text in document(), (key, value) in edit()) {
        let before = read(&text);
        let set = Edit::Set { key: key.path.to_owned(), value: value.clone() };
        let (out, changes) = edit_text(&text, Path::new("c"), &[set]).unwrap_or_else(|error| panic!("{error}\n{text}"));

        // Byte for byte: what stands before and behind one place.
        let start = text.bytes().zip(out.bytes()).take_while(|(a, b)| a == b).count();
        let rest = text.len().min(out.len()) - start;
        let tail = text.bytes().rev().zip(out.bytes().rev()).take_while(|(a, b)| a == b).count().min(rest);
        let gone = String::from_utf8_lossy(&text.as_bytes()[start..text.len() - tail]).into_owned();
        prop_assert!(!gone.contains('\n'), "{gone:?} is gone\n{text}\n{out}");
        prop_assert_eq!(comments(&text), comments(&out));
        prop_assert_eq!(changes[0].written, text != out);

        // The value is read back, and only this key changed.
        let after = read(&out);
        let mut wanted = before.config.clone();
        wanted.set(key.path, &value).unwrap();
        if matches!(key.kind, Kind::Choice { .. } | Kind::Path | Kind::Address | Kind::Provider) && value.trim().is_empty() {
            // An empty text is the default there.
        } else {
            prop_assert_eq!(&after.config.get(key.path), &wanted.get(key.path), "{}", out);
            for changed in after.config.changed(&before.config) {
                prop_assert!(changed == key.path || (changed == "claw_type" && key.path == "configure_openclaw"), "{changed}");
            }
        }

        // Any reader sees a text where a text was meant.
        if matches!(key.kind, Kind::Text | Kind::Secret | Kind::Url | Kind::Path | Kind::Time) {
            let root: Value = serde_saphyr::from_str(out.trim_start_matches('\u{feff}')).unwrap();
            let seen = independently(&root, key.path);
            if changes[0].written {
                prop_assert!(matches!(seen, Some(Value::String(_))), "{seen:?}\n{out}");
            }
        }
    }

    #[test]
    fn a_key_goes_and_nothing_else(text in document(), (key, _) in edit()) {
        let before = read(&text);
        let unset = Edit::Unset { key: key.path.to_owned() };
        let (out, _) = edit_text(&text, Path::new("c"), &[unset]).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let after = read(&out);
        prop_assert!(after.source(key.path).is_none());
        for changed in after.config.changed(&before.config) {
            prop_assert!(changed == key.path || (changed == "claw_type" && key.path == "configure_openclaw"), "{changed}");
        }
        // Every line that stays was there before, in the same order; at most one line is gone.
        let mut old = text.lines();
        for line in out.lines() {
            prop_assert!(old.any(|known| known == line), "{line:?}\n{text}\n{out}");
        }
        prop_assert!(text.lines().count() - out.lines().count() <= 1);
    }

    #[test]
    fn set_and_unset_of_a_new_key_is_the_same_file(text in document(), (key, value) in edit()) {
        let before = read(&text);
        let section = key.path.rsplit_once('.').map_or("", |(section, _)| section);
        // A section that is begun for the key stays behind, and so does the end of a last line that had none.
        let alive = section.is_empty()
            || before.sources.keys().any(|known| known.rsplit_once('.').is_some_and(|(known, _)| known == section));
        let name = key.path.rsplit('.').next();
        let there = text.lines().any(|line| line.trim_start().split(':').next() == name);
        if alive && !there && text.ends_with('\n') {
            let set = Edit::Set { key: key.path.to_owned(), value };
            let unset = Edit::Unset { key: key.path.to_owned() };
            let (out, _) = edit_text(&text, Path::new("c"), &[set, unset]).unwrap();
            prop_assert_eq!(out, text);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}|[a-z:\\-\\[\\]{}#&*!|>'\"% \n\t]{0,120}") {
        let _ = parse(&text, Path::new("c"));
    }

    #[test]
    fn values_in_memory_are_those_of_the_file((key, value) in edit()) {
        let mut config = metaclaw_config::Config::default();
        config.set(key.path, &value).unwrap();
        prop_assert!(matches!(config.mode, Mode::Auto | Mode::Rl | Mode::SkillsOnly));
        let set = Edit::Set { key: key.path.to_owned(), value };
        let (out, _) = edit_text("", Path::new("c"), &[set]).unwrap();
        let read = read(&out).config;
        if key.path != "configure_openclaw" {
            prop_assert_eq!(read.get(key.path), config.get(key.path), "{}", out);
        }
    }
}
