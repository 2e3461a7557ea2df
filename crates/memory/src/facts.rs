//! Statements → facts, by rules. A fact keeps the whole sentence it was said in, so nothing that turns its sense round can be
//! lost; the rules only decide what it is about, so that a newer statement finds the older one. Questions, hypotheses
//! and what others are said to have said are no facts.

mod en;
mod ja;
mod zh;

use std::sync::LazyLock;

use jiff::tz::TimeZone;
use regex::Regex;
use store::{NewFact, NewWindow};

use crate::{passage, terms, time};

/// Types of memory.
pub const KINDS: [&str; 6] =
    ["episodic", "semantic", "preference", "project_state", "working_summary", "procedural_observation"];

/// Facts of one passage at most.
const MOST: usize = 12;
/// Longer sentences are prose, logs or data.
const LONGEST: usize = 400;

/// A passage to be listened to.
#[derive(Debug, Clone, Copy)]
pub struct Heard<'a> {
    /// Where and when it was said.
    pub window: &'a NewWindow,
    /// In which dates are told.
    pub zone: &'a TimeZone,
}

/// What a sentence states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statement {
    /// Type of memory.
    pub kind: &'static str,
    /// What it answers.
    pub slot: Option<String>,
    /// Its answer.
    pub value: Option<String>,
    /// Something is not so, or is not to be done.
    pub negative: bool,
    /// It only takes an earlier statement back.
    pub retracts: bool,
    /// Words of what it takes the place of.
    pub replaces: Option<String>,
    /// Other slots that it closes.
    pub closes: Vec<String>,
}

impl Statement {
    fn new(kind: &'static str) -> Self {
        Self { kind, ..Self::default() }
    }

    fn slot(mut self, class: &str, about: &str) -> Self {
        let about = norm(about);
        if !about.is_empty() {
            self.slot = Some(format!("{class}:{about}"));
        }
        self
    }

    fn only(mut self, slot: &str) -> Self {
        self.slot = Some(slot.to_owned());
        self
    }

    fn value(mut self, value: &str) -> Self {
        self.value = Some(text::fold(value.trim_matches(|c: char| !c.is_alphanumeric())).into_owned());
        self
    }

    fn negative(mut self, negative: bool) -> Self {
        self.negative = negative;
        self
    }

    fn replaces(mut self, words: &str) -> Self {
        let words = text::fold(words.trim_matches(|c: char| !c.is_alphanumeric())).into_owned();
        if words.len() > 2 {
            self.replaces = Some(words);
        }
        self
    }
}

/// The telling words of a phrase: folded, without grammar, numbers and plurals, at most four.
fn norm(phrase: &str) -> String {
    static GRAMMAR: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"[\u{3041}-\u{309f}]+|[了的着过地得们吧啊]").ok());
    let folded = text::fold(phrase);
    let folded = GRAMMAR.as_ref().map_or_else(|| folded.clone(), |g| g.replace_all(&folded, " "));
    let mut words = Vec::new();
    text::terms(&folded, text::Side::Query, &mut |term| {
        if term.word && term.weight != text::Weight::Stop {
            let word = &folded[term.span];
            if !word.bytes().all(|b| b.is_ascii_digit()) {
                let bare = word.strip_suffix("'s").unwrap_or(word);
                let bare = bare.strip_suffix("ing").filter(|b| b.len() > 3).unwrap_or(bare);
                words.push(bare.strip_suffix('s').filter(|b| b.len() > 2).unwrap_or(bare).to_owned());
            }
        }
    });
    words.extend(
        folded
            .split(|c: char| c.is_ascii() || !c.is_alphanumeric())
            .filter(|w| !w.is_empty() && text::has_cjk(w))
            .map(str::to_owned),
    );
    words.truncate(4);
    words.join(" ")
}

/// What a sentence states, if anything. `None` for questions, hypotheses, orders of the moment and small talk.
pub fn understand(sentence: &str) -> Option<Statement> {
    let sentence = sentence.trim();
    if sentence.len() > LONGEST || sentence.starts_with(['>', '#', '`', '|', '{', '<', '/']) {
        return None;
    }
    let mut kana = false;
    let mut han = false;
    for c in sentence.chars() {
        kana |= matches!(c, '\u{3041}'..='\u{30ff}');
        han |= matches!(c, '\u{4e00}'..='\u{9fff}');
    }
    match (kana, han) {
        (true, _) => ja::understand(sentence),
        (false, true) => zh::understand(sentence),
        (false, false) => en::understand(sentence),
    }
}

/// The facts of a passage, in the order in which they were said.
pub fn hear(heard: &Heard<'_>) -> Vec<NewFact> {
    let mut all = Vec::new();
    let mut fenced = false;
    for sentence in passage::sentences(&heard.window.text) {
        if sentence.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced || crate::trust::suspicion(sentence) == Some(crate::Suspicion::Frame) {
            continue;
        }
        let Some(statement) = understand(sentence) else { continue };
        all.push(NewFact {
            kind: statement.kind.to_owned(),
            slot: statement.slot,
            value: statement.value,
            negative: statement.negative,
            modality: if statement.retracts { "retracted" } else { "stated" }.to_owned(),
            replaces: statement.replaces,
            closes: statement.closes,
            ..bare(heard, sentence)
        });
        if all.len() >= MOST {
            break;
        }
    }
    all
}

/// A fact with its source and its place in the index, and nothing understood.
pub(crate) fn bare(heard: &Heard<'_>, sentence: &str) -> NewFact {
    let window = heard.window;
    let content = time::absolute(sentence, window.at_ms, heard.zone);
    let document = terms::Document::new(&content).on(&time::words(window.at_ms, heard.zone));
    let hash = terms::hash(sentence);
    let name = format!("{}\n{}\n{:?}\n{}\n{sentence}", window.scope, window.session, window.turn, window.at_ms);
    let id = uuid::Builder::from_custom_bytes(xxhash_rust::xxh3::xxh3_128(name.as_bytes()).to_be_bytes()).into_uuid();
    NewFact {
        id: id.to_string(),
        content,
        quote: sentence.to_owned(),
        subject: window.speaker.clone(),
        modality: "stated".to_owned(),
        origin: "rule".to_owned(),
        turn_end: window.turn_no,
        importance: 0.7,
        confidence: 0.8,
        valid_from_ms: window.at_ms,
        window: NewWindow { text: String::new(), terms: document.finish(), hash, ..window.clone() },
        ..NewFact::default()
    }
}

/// Patterns of one language, compiled once.
macro_rules! patterns {
    ($($name:ident = $pattern:expr;)+) => {
        struct Patterns { $($name: regex::Regex,)+ }
        static PATTERNS: std::sync::LazyLock<Option<Patterns>> = std::sync::LazyLock::new(|| {
            Some(Patterns { $($name: regex::Regex::new($pattern).ok()?,)+ })
        });
    };
}
use patterns;

/// The text of a group; empty where it is not there.
fn group<'t>(found: &regex::Captures<'t>, name: &str) -> &'t str {
    found.name(name).map_or("", |m| m.as_str())
}
