//! What the model answered → proposals. Models put JSON in fences, between words, in lists, under other keys; all of that is
//! read. What cannot be read comes back with the reason, for one more try.

use serde_json::{Map, Value, json};

use super::Edit;
use crate::parse::{MAX_NAME_CHARS, check_slug};

/// Something to be learned.
#[derive(Debug, Clone, PartialEq)]
pub enum Learned {
    /// A new skill.
    Create {
        /// Its name, checked.
        name: String,
        /// What it does and when to use it.
        description: String,
        /// `general`, `coding`, …
        category: String,
        /// Words that call for it.
        keywords: Vec<String>,
        /// Markdown.
        body: String,
        /// The user turns that taught it.
        turns: Vec<u32>,
        /// Why, in the model's words.
        reason: String,
    },
    /// A change of a skill.
    Revise {
        /// Its name.
        name: String,
        /// What changes.
        edits: Vec<Edit>,
        /// The user turns that taught it.
        turns: Vec<u32>,
        /// Why, in the model's words.
        reason: String,
    },
}

/// Why an answer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misread(pub String);

/// The form of an answer as a JSON schema, for providers that take one. [`read`] takes more than this.
pub fn schema() -> Value {
    let text = || json!({"type": "string"});
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let one = json!({
        "action": {"type": "string", "enum": ["nothing", "create", "revise"]},
        "name": text(), "description": text(), "category": text(), "keywords": texts(), "body": text(),
        "edits": {"type": "array", "items": {"type": "object", "properties": {
            "op": {"type": "string", "enum": ["replace", "add", "remove"]},
            "find": text(), "with": text(), "after": text(), "text": text()}, "required": ["op"]}},
        "turns": {"type": "array", "items": {"type": "integer"}},
        "reason": text(),
    });
    let mut properties = one.clone();
    properties["proposals"] = json!({"type": "array", "items": {"type": "object", "properties": one}});
    json!({"type": "object", "properties": properties})
}

/// Longest answer that is looked at.
const LONGEST: usize = 100_000;

/// Reads an answer: what is to be learned, and the model's reason where that is nothing.
pub fn read(answer: &str, most: usize) -> Result<(Vec<Learned>, String), Misread> {
    if answer.len() > LONGEST {
        return Err(Misread(format!("the answer has {} bytes; a proposal takes a few thousand", answer.len())));
    }
    let text = without_thinking(answer);
    if text.trim().is_empty() {
        return Err(Misread("the answer is empty".into()));
    }
    let value = json_in(text).ok_or_else(|| Misread("there is no JSON object in it".into()))?;
    let items = match value {
        Value::Array(items) => items,
        Value::Object(mut object) => {
            match ["proposals", "skills", "actions"].iter().find_map(|key| object.remove(*key)) {
                Some(Value::Array(items)) => items,
                _ => vec![Value::Object(object)],
            }
        }
        _ => return Err(Misread("there is no JSON object in it".into())),
    };
    let mut learned = Vec::new();
    let mut reason = String::new();
    for item in items {
        let Value::Object(item) = item else { return Err(Misread("a proposal is no JSON object".into())) };
        match one(&item)? {
            Some(one) => learned.push(one),
            None => reason = text_of(&item, &["reason", "why"]),
        }
    }
    learned.truncate(most.max(1));
    Ok((learned, reason))
}

fn one(item: &Map<String, Value>) -> Result<Option<Learned>, Misread> {
    let action = text_of(item, &["action", "type", "decision"]).to_lowercase();
    // The old evolver's form has no action.
    let action = match action.as_str() {
        "" if item.contains_key("edits") => "revise",
        "" if item.contains_key("body") || item.contains_key("content") => "create",
        "" if item.is_empty() => "nothing",
        other => other,
    };
    let reason = text_of(item, &["reason", "why"]);
    match action {
        "nothing" | "none" | "skip" => Ok(None),
        "create" | "new" | "add" => Ok(Some(Learned::Create {
            name: slug(&needed(item, &["name"])?)?,
            description: needed(item, &["description"])?,
            category: category(&text_of(item, &["category"])),
            keywords: words(item.get("keywords")),
            body: needed(item, &["body", "content"])?,
            turns: numbers(item.get("turns")),
            reason,
        })),
        "revise" | "update" | "edit" => {
            let name = slug(&needed(item, &["name"])?)?;
            let edits = item.get("edits").cloned().unwrap_or(Value::Null);
            let edits: Vec<Edit> = serde_json::from_value(edits)
                .map_err(|error| Misread(format!("the edits of {name} cannot be read: {error}")))?;
            Ok(Some(Learned::Revise { name, edits, turns: numbers(item.get("turns")), reason }))
        }
        other => Err(Misread(format!("`{}` is no action", other.chars().take(40).collect::<String>()))),
    }
}

fn text_of(item: &Map<String, Value>, keys: &[&str]) -> String {
    let found = keys.iter().find_map(|key| item.get(*key).and_then(Value::as_str));
    found.unwrap_or_default().trim().to_owned()
}

fn needed(item: &Map<String, Value>, keys: &[&str]) -> Result<String, Misread> {
    Some(text_of(item, keys))
        .filter(|text| !text.is_empty())
        .ok_or_else(|| Misread(format!("`{}` is missing", keys.first().copied().unwrap_or_default())))
}

/// A name in the form that names have. Blanks, underscores and capitals are put right; anything else that a name cannot
/// hold, a path above all, is refused and not guessed at.
fn slug(name: &str) -> Result<String, Misread> {
    let mut slug = String::new();
    for c in name.trim().chars() {
        match c {
            ' ' | '_' | '-' if slug.ends_with('-') || slug.is_empty() => {}
            ' ' | '_' | '-' => slug.push('-'),
            c => slug.extend(c.to_lowercase()),
        }
    }
    let slug = slug.trim_end_matches('-');
    let shown: String = name.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect();
    check_slug(slug).map_err(|why| Misread(format!("the name `{shown}` {why}")))?;
    Ok(slug.to_owned())
}

fn category(name: &str) -> String {
    let name: String = name.to_lowercase().chars().map(|c| if c == ' ' || c == '-' { '_' } else { c }).collect();
    if crate::CATEGORIES.contains(&name.as_str()) { name } else { crate::GENERAL.to_owned() }
}

fn words(value: Option<&Value>) -> Vec<String> {
    let items = match value {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(text)) => text.split([',', '，', '、']).map(str::to_owned).collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    let clean = |word: String| word.replace([',', '，', '、', ';', '\n'], " ").trim().to_owned();
    let mut words: Vec<String> =
        items.into_iter().map(clean).filter(|w| !w.is_empty() && w.chars().count() <= 60).collect();
    words.dedup();
    words.truncate(24);
    words
}

fn numbers(value: Option<&Value>) -> Vec<u32> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_u64).filter_map(|n| u32::try_from(n).ok()).collect()
}

/// Thinking that a local model writes into its answer.
pub(crate) fn without_thinking(answer: &str) -> &str {
    match answer.rfind("</think>") {
        Some(end) => &answer[end + "</think>".len()..],
        None => answer,
    }
}

/// The first JSON object or list in a text.
fn json_in(text: &str) -> Option<Value> {
    for (at, _) in text.match_indices(['{', '[']) {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        if let Some(Ok(value)) = values.next()
            && (value.is_object() || value.as_array().is_some_and(|items| items.iter().all(Value::is_object)))
        {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const CREATE: &str = r##"{"action": "create", "name": "ISO dates", "description": "Use when a table has dates.", "category": "Data Analysis", "keywords": ["date, time", "日期"], "body": "1. Write YYYY-MM-DD.", "turns": [2, 3], "reason": "corrected twice"}"##;

    #[rstest]
    #[case::bare(CREATE.to_owned())]
    #[case::fenced(format!("Here it is:\n```json\n{CREATE}\n```\nDone."))]
    #[case::thinking(format!("<think>maybe {{\"action\": \"nothing\"}}</think>\n{CREATE}"))]
    #[case::list(format!("[{CREATE}]"))]
    #[case::named_list(format!("{{\"proposals\": [{CREATE}]}}"))]
    #[case::braces_before(format!("I use {{braces}} and [lists] first. {CREATE}"))]
    fn a_proposal_is_found_wherever_it_stands(#[case] answer: String) {
        let (learned, _) = read(&answer, 1).unwrap();
        let [Learned::Create { name, category, keywords, turns, .. }] = learned.as_slice() else {
            panic!("{learned:?}")
        };
        assert_eq!((name.as_str(), category.as_str(), turns.as_slice()), ("iso-dates", "data_analysis", &[2, 3][..]));
        assert_eq!(keywords, &["date  time", "日期"]);
    }

    #[test]
    fn the_old_form_is_read_and_cut_to_what_is_allowed() {
        let one = |n: u32| format!(r#"{{"name": "s-{n}", "description": "d", "content": "c", "category": "x"}}"#);
        let answer = format!("[{},{},{}]", one(1), one(2), one(3));
        assert_eq!(read(&answer, 2).unwrap().0.len(), 2);
    }

    #[test]
    fn nothing_is_an_answer() {
        let (learned, reason) = read(r#"{"action": "nothing", "reason": "a single task"}"#, 3).unwrap();
        assert_eq!((learned.len(), reason.as_str()), (0, "a single task"));
        assert_eq!(read("[]", 3).unwrap().0, []);
    }

    #[test]
    fn edits_are_read() {
        let answer = r#"{"action": "revise", "name": "iso-dates", "edits": [{"op": "add", "text": "3. Check."}, {"op": "replace", "find": "a", "with": "b"}]}"#;
        let (learned, _) = read(answer, 1).unwrap();
        assert!(matches!(&learned[..], [Learned::Revise { edits, .. }] if edits.len() == 2));
    }

    #[rstest]
    #[case::empty("")]
    #[case::prose("There is nothing to learn here.")]
    #[case::cut(&CREATE[..120])]
    #[case::path(r#"{"action": "create", "name": "../../x", "description": "d", "body": "b"}"#)]
    #[case::absolute(r#"{"action": "create", "name": "/etc/x", "description": "d", "body": "b"}"#)]
    #[case::windows(r#"{"action": "create", "name": "..\\x", "description": "d", "body": "b"}"#)]
    #[case::hidden(r#"{"action": "create", "name": ".metaclaw", "description": "d", "body": "b"}"#)]
    #[case::long(r#"{"action": "create", "name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "description": "d", "body": "b"}"#)]
    #[case::no_body(r#"{"action": "create", "name": "x", "description": "d"}"#)]
    #[case::other_action(r#"{"action": "delete", "name": "x"}"#)]
    #[case::broken_edit(r#"{"action": "revise", "name": "x", "edits": [{"op": "burn"}]}"#)]
    fn what_cannot_be_used_is_refused_with_a_reason(#[case] answer: &str) {
        let refused = read(answer, 3).unwrap_err();
        assert!(!refused.0.is_empty());
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(answer in ".{0,400}") {
            let _ = read(&answer, 3);
        }

        #[test]
        fn a_name_that_is_accepted_is_a_folder_of_its_own(name in ".{0,80}") {
            if let Ok(name) = slug(&name) {
                prop_assert!(check_slug(&name).is_ok());
                prop_assert_eq!(std::path::Path::new(&name).components().count(), 1);
            }
        }
    }
}
