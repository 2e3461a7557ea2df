//! Itemised edits of a skill's body. A model that may rewrite a whole text loses what it does not think of; so every edit
//! names its place, and all of them together leave most of the text as it was.

use serde::{Deserialize, Serialize};

/// Most edits of one revision.
const MOST: usize = 8;
/// Share of the body that a revision may take away.
const MOST_REMOVED: f64 = 0.5;
/// A revision may make the body so many times as long, and [`ALLOWANCE`] more.
const MOST_GROWN: usize = 2;
const ALLOWANCE: usize = 1_200;

/// One change of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Edit {
    /// Another text in the place of one that stands there exactly once.
    Replace {
        /// The text that stands there.
        find: String,
        /// What comes in its place.
        with: String,
    },
    /// A new line.
    Add {
        /// Behind the line with this text; absent or empty = at the end.
        #[serde(default)]
        after: Option<String>,
        /// The line.
        text: String,
    },
    /// A text goes.
    Remove {
        /// The text, which stands there exactly once.
        find: String,
    },
}

/// The body with the edits, or why they cannot be made.
pub fn revised(body: &str, edits: &[Edit]) -> Result<String, String> {
    if edits.is_empty() {
        return Err("the revision has no edits".into());
    }
    if edits.len() > MOST {
        return Err(format!("the revision has {} edits; {MOST} are allowed", edits.len()));
    }
    let mut text = body.to_owned();
    let mut removed = 0;
    for edit in edits {
        match edit {
            Edit::Replace { find, with } => {
                let at = place(&text, find)?;
                removed += find.trim().chars().count();
                text.replace_range(at..at + find.len(), with);
            }
            Edit::Remove { find } => {
                let at = place(&text, find)?;
                removed += find.trim().chars().count();
                text.replace_range(at..at + find.len(), "");
            }
            Edit::Add { after, text: new } => {
                if new.trim().is_empty() {
                    return Err("an edit adds nothing".into());
                }
                let at = match after.as_deref().map(str::trim).filter(|after| !after.is_empty()) {
                    None => text.trim_end().len(),
                    Some(after) => {
                        let end = place(&text, after)? + after.len();
                        text[end..].find('\n').map_or(text.len(), |line| end + line)
                    }
                };
                text.insert_str(at, &format!("\n{}", new.trim_end()));
            }
        }
    }
    let before = body.trim().chars().count();
    let after = text.trim().chars().count();
    if removed as f64 > before as f64 * MOST_REMOVED {
        return Err("the revision takes away more than half of the skill; that is a rewrite".into());
    }
    if after > before * MOST_GROWN + ALLOWANCE {
        return Err("the revision makes the skill much longer; propose a second skill instead".into());
    }
    if text.trim() == body.trim() {
        return Err("the revision changes nothing".into());
    }
    Ok(tidy(&text))
}

fn place(text: &str, find: &str) -> Result<usize, String> {
    let shown: String = find.chars().take(60).collect();
    if find.trim().is_empty() {
        return Err("an edit does not say where".into());
    }
    let mut places = text.match_indices(find);
    match (places.next(), places.next()) {
        (Some((at, _)), None) => Ok(at),
        (None, _) => Err(format!("the skill does not have the text “{shown}”")),
        (Some(_), Some(_)) => Err(format!("the text “{shown}” stands in the skill more than once")),
    }
}

/// No blank lines one after the other.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut blank = false;
    for line in text.trim().lines() {
        let empty = line.trim().is_empty();
        if !(empty && blank) {
            out.push_str(line.trim_end());
            out.push('\n');
        }
        blank = empty;
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "# Dates\n\n1. Read the table.\n2. Write dates as DD.MM.YYYY.\n3. Say what was left out.";

    fn replace(find: &str, with: &str) -> Edit {
        Edit::Replace { find: find.into(), with: with.into() }
    }

    #[test]
    fn edits_change_their_places_and_nothing_else() {
        let edits = [
            replace("DD.MM.YYYY", "YYYY-MM-DD"),
            Edit::Add { after: Some("1. Read the table".into()), text: "   Ask for its time zone.".into() },
            Edit::Remove { find: "3. Say what was left out.".into() },
            Edit::Add { after: None, text: "Never guess a year.".into() },
        ];
        assert_eq!(
            revised(BODY, &edits).unwrap(),
            "# Dates\n\n1. Read the table.\n   Ask for its time zone.\n2. Write dates as YYYY-MM-DD.\nNever guess a year."
        );
    }

    #[test]
    fn a_rewrite_is_refused() {
        let whole = revised(BODY, &[replace(BODY, "Everything is new.")]).unwrap_err();
        assert!(whole.contains("rewrite"), "{whole}");
        let lines: Vec<Edit> =
            BODY.lines().filter(|l| !l.is_empty()).map(|l| Edit::Remove { find: l.to_owned() }).collect();
        assert!(revised(BODY, &lines).unwrap_err().contains("rewrite"));
        assert!(revised(BODY, &[Edit::Add { after: None, text: "x".repeat(9_000) }]).is_err());
    }

    #[test]
    fn an_edit_that_does_not_know_its_place_is_refused() {
        for edit in [replace("not there", "x"), replace("a", "x"), replace(" ", "x"), replace("1.", "1.")] {
            assert!(revised(BODY, std::slice::from_ref(&edit)).is_err(), "{edit:?}");
        }
        assert!(revised(BODY, &[]).is_err());
    }
}
