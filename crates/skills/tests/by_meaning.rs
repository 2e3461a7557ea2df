//! How good search by meaning is, on queries written before it was, with multilingual-e5-small where it is at hand
//! (`METACLAW_PEERS/e5`, default `~/.cache/metaclaw-peers/e5`).

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and shows its figures")]

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use embed::{Embedder as _, Local, LocalOptions, Side, Vector};
use metaclaw_skills::{Bank, ByMeaning, Hit, Limits, Meaning, Meanings, Query, Texts, builtin, parse, small_talk};

struct Labelled {
    language: &'static str,
    named: &'static str,
    wanted: Option<&'static str>,
    text: &'static str,
}

fn queries() -> Vec<Labelled> {
    let lines = include_str!("held_out.tsv").lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let [language, named, wanted, text] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
            Labelled { language, named, wanted: Some(wanted).filter(|wanted| *wanted != "-"), text }
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

fn model() -> Option<Local> {
    let peers = std::env::var_os("METACLAW_PEERS")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/metaclaw-peers")))?;
    let folder = peers.join("e5/multilingual-e5-small");
    if !folder.join("model.safetensors").exists() {
        println!("skipped: no multilingual-e5-small at {}", folder.display());
        return None;
    }
    Some(Local::new(LocalOptions { folder, threads: 0, idle: Duration::from_secs(60) }))
}

async fn vectors(model: &Local, side: Side, texts: impl Iterator<Item = String>) -> Vec<Vector> {
    model.embed(side, &texts.collect::<Vec<_>>()).await.unwrap()
}

async fn meanings(model: &Local, bank: &Bank) -> Meanings {
    let small_talk = vectors(model, Side::Query, small_talk().map(str::to_owned)).await;
    let mut meanings = Meanings { small_talk, ..Meanings::default() };
    for skill in bank.skills() {
        let texts = Texts::of(skill);
        let whole = vectors(model, Side::Passage, std::iter::once(texts.whole)).await.remove(0);
        let phrases = vectors(model, Side::Query, texts.phrases.into_iter()).await;
        meanings.skills.insert(skill.content_hash, Meaning { whole, phrases });
    }
    meanings
}

#[derive(Default)]
struct Tally {
    with: usize,
    found: usize,
    hits: usize,
    without: usize,
    disturbed: usize,
}

fn measure<'q>(found: impl Iterator<Item = (&'q Labelled, Vec<Hit>)>) -> BTreeMap<String, Tally> {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for (query, hits) in found {
        for key in [format!("{} {}", query.language, query.named), "all".to_owned()] {
            let tally = tallies.entry(key).or_default();
            match query.wanted {
                Some(wanted) => {
                    tally.with += 1;
                    tally.hits += hits.len();
                    tally.found += usize::from(hits.iter().take(6).any(|hit| hit.skill.name == wanted));
                }
                None => {
                    tally.without += 1;
                    tally.disturbed += usize::from(!hits.is_empty());
                }
            }
        }
    }
    for (key, t) in &tallies {
        let share = |a: usize, b: usize| if b == 0 { f64::NAN } else { a as f64 / b as f64 };
        println!(
            "{key:10} {:3} recall@6 {:.3}, {:.2} skills each; {:2} without, of which {:.3} got one",
            t.with,
            share(t.found, t.with),
            share(t.hits, t.with),
            t.without,
            share(t.disturbed, t.without),
        );
    }
    tallies
}

#[test]
fn the_set_is_what_it_says_it_is() {
    let queries = queries();
    assert!(queries.len() >= 120);
    assert_eq!(queries.iter().filter(|q| q.wanted.is_none()).count() * 3, queries.len());
    let with = queries.iter().filter(|q| q.wanted.is_some()).count();
    assert_eq!(queries.iter().filter(|q| q.named == "other").count() * 2, with);
    let bank = bank();
    for query in &queries {
        assert!(query.wanted.is_none_or(|name| bank.get(name).is_some()), "{}", query.text);
        assert!(small_talk().all(|known| known != query.text), "{} is known small talk", query.text);
    }
}

#[tokio::test]
async fn by_words_and_meaning_nine_in_ten_are_found_and_nine_in_ten_left_in_peace() {
    let Some(model) = model() else { return };
    let (bank, queries) = (bank(), queries());
    let meanings = meanings(&model, &bank).await;
    let texts = queries.iter().map(|query| query.text.to_owned());
    let questions = vectors(&model, Side::Query, texts).await;
    let limits = Limits::default();
    let by = |words: bool| {
        let (bank, meanings, limits) = (&bank, &meanings, &limits);
        queries.iter().zip(&questions).map(move |(query, question)| {
            let by = ByMeaning { question, meanings, words, floor: limits.floor };
            (query, bank.search_by(&by, &Query { text: query.text, ..Query::default() }, limits))
        })
    };
    println!("words alone:");
    let words = queries.iter().map(|q| (q, bank.search(&Query { text: q.text, ..Query::default() }, &limits)));
    let words = measure(words);
    println!("meaning alone:");
    measure(by(false));
    println!("both:");
    let both = measure(by(true));
    let (words, both) = (&words["all"], &both["all"]);
    assert!(both.found * 100 >= both.with * 90, "{} of {}", both.found, both.with);
    assert!(both.disturbed * 10 <= both.without, "{} of {}", both.disturbed, both.without);
    assert!(both.found > words.found, "meaning adds nothing");
}
