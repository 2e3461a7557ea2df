//! What can be added to a conversation: skills here, memories in `memories`. `inject` asks with the user's own words and
//! renders what comes back; nothing here knows about messages.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use async_trait::async_trait;

use crate::meaning::{Asked, Meaning, SkillsBy};
use crate::memory_routes::{OwnAnswer, OwnCall};

/// What is known about the user turn that could use some help.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// The user's own words.
    pub text: String,
    /// Which agent asks, where known.
    pub agent: Arc<str>,
    /// Session id.
    pub session: Arc<str>,
    /// Whose memory it is.
    pub scope: store::Scope,
    /// Most tokens of skills that will be added, estimated.
    pub budget_tokens: u32,
    /// Most tokens of memories, estimated.
    pub memory_tokens: u32,
    /// When the request arrived, ms since 1970.
    pub now_ms: i64,
    /// The request as it came.
    pub body: bytes::Bytes,
    /// What was added to earlier messages of this conversation.
    pub added: Vec<Arc<str>>,
    /// Somebody else has put memories into the prompt already.
    pub remembered: bool,
    /// 64 unpredictable bits, for drawing lots.
    pub random: u64,
    /// What the question means, once somebody has asked.
    pub asked: Asked,
}

/// One thing worth adding.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// `skill` or `memory`.
    pub kind: &'static str,
    /// Skill name or memory id.
    pub id: String,
    /// What stands once before all neighbouring pieces with the same; empty = each is a section of its own.
    pub group: &'static str,
    /// Its part of the block; nothing in it can close the block (see `text::escape`).
    pub section: String,
    /// How well it fits; higher is better.
    pub score: f32,
    /// Why it was picked, in words.
    pub why: String,
    /// A skill's text and whether it is measured.
    pub trial: Option<Trial>,
}

/// What is to be written down about a skill that fits a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Hash of its text.
    pub version: String,
    /// How likely it was to be left out; `None` = it is not measured.
    pub share: Option<f32>,
    /// It was: nothing is added, and its room stays empty, so that the turn differs in nothing else.
    pub held_out: bool,
}

/// Where pieces come from.
#[async_trait]
pub trait Knowledge: Send + Sync + 'static {
    /// What fits, best first. Never fails a request: a source in trouble gives nothing.
    async fn recall(&self, ask: &Ask) -> Vec<Piece>;
    /// The number of the last change of what an agent can get.
    fn generation(&self, _agent: &str) -> Option<i64> {
        None
    }
    /// Most tokens of memories that may be added to a turn now; 0 = none are.
    fn budget(&self) -> u32 {
        0
    }
    /// Finished turns are of interest.
    fn listens(&self) -> bool {
        false
    }
    /// A turn of a main conversation is safe. Its number is above every row's until [`Knowledge::numbered`]. Returns at once.
    fn heard(&self, _turn: store::MemoryTurn) {}
    /// The turn that was told under this number is in the journal; `None` = it did not get there.
    fn numbered(&self, _told: store::TurnId, _row: Option<store::TurnId>) {}
    /// Answers one of the routes that old MetaClaw clients know; `None` = it is not this source's.
    async fn serve(&self, _call: &OwnCall) -> Option<OwnAnswer> {
        None
    }
}

/// Several sources, asked one after the other.
pub struct Sources(pub Vec<Arc<dyn Knowledge>>);

#[async_trait]
impl Knowledge for Sources {
    async fn recall(&self, ask: &Ask) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for source in &self.0 {
            pieces.append(&mut source.recall(ask).await);
        }
        pieces
    }

    fn generation(&self, agent: &str) -> Option<i64> {
        self.0.iter().find_map(|source| source.generation(agent))
    }

    fn budget(&self) -> u32 {
        self.0.iter().map(|source| source.budget()).sum()
    }

    fn listens(&self) -> bool {
        self.0.iter().any(|source| source.listens())
    }

    fn heard(&self, turn: store::MemoryTurn) {
        for source in self.0.iter().filter(|source| source.listens()) {
            source.heard(turn.clone());
        }
    }

    fn numbered(&self, told: store::TurnId, row: Option<store::TurnId>) {
        for source in &self.0 {
            source.numbered(told, row);
        }
    }

    async fn serve(&self, call: &OwnCall) -> Option<OwnAnswer> {
        for source in &self.0 {
            if let Some(answer) = source.serve(call).await {
                return Some(answer);
            }
        }
        None
    }
}

/// Nothing to add.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoKnowledge;

#[async_trait]
impl Knowledge for NoKnowledge {
    async fn recall(&self, _: &Ask) -> Vec<Piece> {
        Vec::new()
    }
}

/// Limits of skill retrieval, from the configuration.
#[derive(Debug, Clone, Default)]
pub struct SkillSettings {
    /// Skills are added at all.
    pub enabled: bool,
    /// Caps and floor.
    pub limits: skills::Limits,
    /// Skills that are never added.
    pub disabled: HashSet<String>,
}

impl SkillSettings {
    /// From the user's configuration.
    pub fn from_config(config: &config::Config) -> Self {
        let count = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        Self {
            enabled: config.skills.enabled,
            limits: skills::Limits {
                top_k: count(config.skills.top_k),
                task_specific_top_k: count(config.skills.task_specific_top_k),
                ..skills::Limits::default()
            },
            disabled: config.skills.disabled.iter().cloned().collect(),
        }
    }
}

/// Characters of a message that skills are looked for by: its head and its tail, where people say what they want of
/// what they paste between.
const HEAD: usize = 1200;
const TAIL: usize = 800;

/// A long text without its middle, so that a pasted log costs no more than a question.
pub(crate) fn head_and_tail(text: &str) -> Cow<'_, str> {
    let after_head = text.char_indices().nth(HEAD).map(|(at, _)| at);
    let tail = text.char_indices().rev().nth(TAIL - 1).map(|(at, _)| at);
    match (after_head, tail) {
        (Some(head), Some(tail)) if tail > head => Cow::Owned(format!("{}\n{}", &text[..head], &text[tail..])),
        _ => Cow::Borrowed(text),
    }
}

/// The skill library as knowledge.
pub struct SkillKnowledge {
    library: Arc<skills::Library>,
    settings: Arc<ArcSwap<SkillSettings>>,
    meaning: Arc<ArcSwapOption<Meaning>>,
}

impl SkillKnowledge {
    /// Knowledge from this library, under live settings; by meaning while there is one.
    pub fn new(
        library: Arc<skills::Library>,
        settings: Arc<ArcSwap<SkillSettings>>,
        meaning: Arc<ArcSwapOption<Meaning>>,
    ) -> Self {
        Self { library, settings, meaning }
    }

    /// What fits a question, and why it was not looked for by meaning though it should have been.
    async fn search(
        &self,
        bank: &skills::Bank,
        ask: &Ask,
        query: &skills::Query<'_>,
        limits: &skills::Limits,
    ) -> (Vec<skills::Hit>, Option<String>) {
        let meaning = self.meaning.load_full().filter(|_| !query.text.trim().is_empty() && !bank.is_empty());
        let Some((by, meaning)) = meaning.and_then(|meaning| Some((meaning.skills_by?, meaning))) else {
            return (bank.search(query, limits), None);
        };
        match meaning.question(ask).await {
            Ok(question) => {
                let meanings = meaning.skills.load();
                let by = skills::ByMeaning {
                    question: &question.vector,
                    meanings: &meanings,
                    words: by == SkillsBy::Both,
                    floor: limits.floor,
                };
                (bank.search_by(&by, query, limits), None)
            }
            Err(why) => (bank.search(query, limits), Some(why)),
        }
    }
}

#[async_trait]
impl Knowledge for SkillKnowledge {
    async fn recall(&self, ask: &Ask) -> Vec<Piece> {
        let settings = self.settings.load();
        if !settings.enabled {
            return Vec::new();
        }
        let bank = self.library.snapshot();
        let text = head_and_tail(&ask.text);
        let query = skills::Query { text: &text, agent: Some(&ask.agent), disabled: Some(&settings.disabled) };
        let measured = self.library.measured();
        let (hits, alone) = self.search(&bank, ask, &query, &settings.limits).await;
        let piece = |hit: skills::Hit| {
            let share = measured.get(&hit.skill.name).copied().filter(|share| *share > 0.0);
            let version = skills::hex(hit.skill.content_hash);
            let held_out = share.is_some_and(|share| lot(&ask.session, &version) < share);
            let trial = Trial { version, share, held_out };
            Piece {
                kind: "skill",
                group: "",
                section: skills::section(&hit),
                id: hit.skill.name.clone(),
                score: hit.score,
                why: told(hit.why, alone.as_deref()),
                trial: Some(trial),
            }
        };
        // One that is about to go is given to nobody.
        let stays = |hit: &skills::Hit| measured.get(&hit.skill.name).is_none_or(|share| *share < 1.0);
        hits.into_iter().filter(stays).map(piece).collect()
    }

    fn generation(&self, agent: &str) -> Option<i64> {
        self.library.generations().map(|generations| generations.of(agent))
    }
}

/// Why something was picked, and why not by meaning though that was wanted.
pub(crate) fn told(why: String, alone: Option<&str>) -> String {
    match alone {
        Some(alone) => format!("{why} (by words alone: {alone})"),
        None => why,
    }
}

/// A number from 0 to 1 that a conversation gives the text of a skill, each for itself. It stays the same as long as the
/// conversation goes on: what it was given once stands in it.
fn lot(session: &str, version: &str) -> f32 {
    let seed = xxhash_rust::xxh3::xxh3_64(session.as_bytes());
    let bits = xxhash_rust::xxh3::xxh3_64_with_seed(version.as_bytes(), seed) >> 40;
    bits as f32 / (1u32 << 24) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lots_fall_as_often_as_they_should_and_each_for_itself() {
        let turns = 20_000u64;
        let mut both = [0u32; 4];
        for turn in 0..turns {
            let held = ["iso-dates", "short-answers"].map(|name| lot(&format!("s-{turn}"), name) < 0.2);
            both[usize::from(held[0]) + 2 * usize::from(held[1])] += 1;
        }
        let share = |n: u32| f64::from(n) / turns as f64;
        for (found, expected) in both.iter().map(|n| share(*n)).zip([0.64, 0.16, 0.16, 0.04]) {
            assert!((found - expected).abs() < 0.015, "{both:?}");
        }
    }

    #[test]
    fn a_long_paste_is_asked_about_by_its_head_and_its_tail() {
        for text in ["", "short", &"字".repeat(2000)] {
            assert_eq!(head_and_tail(text), text);
        }
        let long = format!("{}{}{}", "a".repeat(1200), "字".repeat(100_000), "é".repeat(800));
        assert_eq!(head_and_tail(&long), format!("{}\n{}", "a".repeat(1200), "é".repeat(800)));
    }
}
