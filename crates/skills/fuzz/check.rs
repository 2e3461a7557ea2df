//! What must hold for any bytes that someone calls a SKILL.md. Run by the fuzz target and, over its corpus, by
//! `cargo test`.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use metaclaw_skills::{Bank, Limits, Query, TAG, check_slug, modernise, parse, render};

/// Reads, indexes, finds, renders.
pub(crate) fn skill_md(bytes: &[u8]) {
    let parsed = parse(Path::new("skills/any/SKILL.md"), bytes);
    assert_eq!(parsed.skill.is_none(), parsed.problems.iter().any(|p| p.is_error()), "no skill means an error");
    let Some(skill) = parsed.skill else { return };
    assert!(check_slug(&skill.name).is_ok(), "a name is a safe folder name");
    assert!(!skill.description.is_empty() && skill.description.chars().count() <= 1024);
    if let Ok(text) = str::from_utf8(bytes)
        && let Some(new) = modernise(text)
    {
        assert_eq!(modernise(&new), None, "modernising is done once");
    }
    let query = format!("{} {}", skill.description, skill.keywords.join(" "));
    let bank = Bank::new(vec![Arc::new(skill)], HashSet::new());
    let query = Query { text: &query, ..Query::default() };
    let hits = bank.search(&query, &Limits { floor: 0.0, ..Limits::default() });
    let block = render(&hits, u32::MAX, |text| u32::try_from(text.len()).unwrap_or(u32::MAX));
    assert!(!block.text.to_lowercase().contains(&format!("</{TAG}")), "the block cannot be closed from inside");
}
