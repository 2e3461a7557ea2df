//! How good search is on the built-in bank: labelled queries in three languages, small talk included.

#![expect(clippy::unwrap_used, reason = "a test helper may fail the test")]

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use metaclaw_skills::{Bank, Limits, Query, builtin, parse};

struct Labelled {
    language: &'static str,
    wanted: Option<&'static str>,
    text: &'static str,
}

fn queries() -> Vec<Labelled> {
    include_str!("queries.tsv")
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
        .map(|line| {
            let mut fields = line.splitn(3, '\t');
            let mut next = || fields.next().unwrap();
            let language = next();
            Labelled { language, wanted: Some(next()).filter(|w| *w != "-"), text: next() }
        })
        .collect()
}

fn bank() -> Bank {
    let skill = |b: &metaclaw_skills::Builtin| {
        let path = Path::new("bank").join(b.name).join("SKILL.md");
        Arc::new(parse(&path, b.text.as_bytes()).skill.unwrap())
    };
    Bank::new(builtin().iter().map(skill).collect(), HashSet::new())
}

#[derive(Default)]
struct Tally {
    with: usize,
    found: usize,
    first: usize,
    hits: usize,
    without: usize,
    quiet: usize,
}

#[test]
fn the_right_skill_is_found_in_three_languages_and_small_talk_gets_none() {
    let bank = bank();
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    for query in queries() {
        let hits = bank.search(&Query { text: query.text, ..Query::default() }, &Limits::default());
        let shown: Vec<String> = hits.iter().map(|h| format!("{} {:.2} [{}]", h.skill.name, h.score, h.why)).collect();
        for key in [query.language, "all"] {
            let tally = tallies.entry(key).or_default();
            match query.wanted {
                Some(wanted) => {
                    tally.with += 1;
                    tally.hits += hits.len();
                    tally.found += usize::from(hits.iter().any(|h| h.skill.name == wanted));
                    tally.first += usize::from(hits.first().is_some_and(|h| h.skill.name == wanted));
                }
                None => {
                    tally.without += 1;
                    tally.quiet += usize::from(hits.is_empty());
                }
            }
        }
        match query.wanted {
            Some(wanted) if hits.first().is_none_or(|h| h.skill.name != wanted) => {
                println!("not first: {} | {wanted} | {shown:?}", query.text);
            }
            Some(_) if hits.len() > 2 => println!("many: {} | {shown:?}", query.text),
            None if !hits.is_empty() => println!("unasked: {} | {shown:?}", query.text),
            _ => {}
        }
    }
    println!("language  queries  recall  first  skills/query  small talk  quiet");
    for (language, t) in &tallies {
        println!(
            "{language:8}  {:7}  {:6.3}  {:5.3}  {:12.2}  {:10}  {:5.3}",
            t.with,
            t.found as f64 / t.with as f64,
            t.first as f64 / t.with as f64,
            t.hits as f64 / t.with as f64,
            t.without,
            t.quiet as f64 / t.without as f64,
        );
    }
    let all = &tallies["all"];
    assert!(all.with >= 120 && all.without >= 40, "the set is large enough to mean something");
    for (language, t) in &tallies {
        if *language == "all" || language.ends_with('*') {
            continue;
        }
        assert!(t.found * 100 >= t.with * 95, "recall in {language}: {} of {}", t.found, t.with);
        assert!(t.first * 100 >= t.with * 85, "right skill first in {language}: {} of {}", t.first, t.with);
        assert!(t.hits * 10 <= t.with * 20, "{language}: {} skills for {} queries", t.hits, t.with);
        assert_eq!(t.quiet, t.without, "small talk in {language} was given skills");
    }
}
