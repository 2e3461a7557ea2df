//! How much of the evidence is recalled for the questions of a LoCoMo file, beside plain BM25 windows:
//! `cargo run -p metaclaw-memory --example locomo -- FILE [WORDS] [MODEL]`, by words, and by meaning as well with the folder of
//! an embedding model. The file is research data and stays where it is.
#![expect(clippy::print_stdout, clippy::indexing_slicing, reason = "a measurement prints its figures")]

use std::collections::{BTreeMap, HashMap, HashSet};

use embed::{Embedder as _, Local, LocalOptions, Side};
use memory::{Ask, Meant, Memory, Settings, Utterance};
use metaclaw_memory as memory;
use serde::Deserialize;

type Problem = Box<dyn std::error::Error>;

#[derive(Deserialize)]
struct Conversation {
    id: String,
    turns: Vec<Turn>,
    questions: Vec<Question>,
}

#[derive(Deserialize)]
struct Turn {
    id: String,
    session: u32,
    date: String,
    speaker: String,
    text: String,
}

#[derive(Deserialize)]
struct Question {
    category: u8,
    question: String,
    evidence: Vec<String>,
}

#[derive(Default)]
struct Score {
    questions: usize,
    hits: usize,
    recall: f64,
    words: usize,
}

impl Score {
    fn add(&mut self, evidence: &HashSet<&str>, found: &HashSet<&str>, words: usize) {
        let hit = evidence.intersection(found).count();
        self.questions += 1;
        self.hits += usize::from(hit > 0);
        self.recall += hit as f64 / evidence.len() as f64;
        self.words += words;
    }

    fn print(&self, name: &str) {
        let n = self.questions.max(1) as f64;
        let (hit, recall) = (self.hits as f64 / n, self.recall / n);
        let margin = 1.96 * (hit * (1.0 - hit) / n).sqrt();
        println!(
            "{name:<28} hit {:5.1} ± {:.1} %   recall {:5.1} %   {:3.0} words   {} questions",
            hit * 100.0,
            margin * 100.0,
            recall * 100.0,
            self.words as f64 / n,
            self.questions
        );
    }
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Problem> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: locomo FILE [WORDS] [MODEL]")?;
    let (mut budget, mut model) = (380, None);
    for argument in arguments {
        match argument.parse() {
            Ok(words) => budget = words,
            Err(_) => model = Some(Local::new(options(argument.into()))),
        }
    }
    let conversations: Vec<Conversation> = serde_json::from_slice(&std::fs::read(file)?)?;
    let dir = tempfile::tempdir()?;
    let tracker = tokio_util::task::TaskTracker::new();
    let store = store::Store::open(
        &dir.path().join("metaclaw.db"),
        store::Options::default(),
        &tracker,
        tokio_util::sync::CancellationToken::new(),
    )
    .await?;
    let memory = Memory::open(store.clone(), Settings::default());
    let mut ours: BTreeMap<u8, Score> = BTreeMap::new();
    let mut plain: BTreeMap<u8, Score> = BTreeMap::new();
    let (mut took, mut made) = (Vec::new(), std::time::Duration::ZERO);
    for conversation in &conversations {
        let now_ms = tell(&memory, conversation).await?;
        while memory.work().await? {}
        memory.flush_all().await?;
        if let Some(model) = &model {
            let begun = tokio::time::Instant::now();
            while memory.mean(model, 64).await?.more {}
            made += begun.elapsed();
        }
        let baseline = Plain::new(conversation);
        for question in conversation.questions.iter().filter(|q| (1..=4).contains(&q.category)) {
            let known: HashSet<&str> = conversation.turns.iter().map(|t| t.id.as_str()).collect();
            let evidence: HashSet<&str> =
                question.evidence.iter().map(String::as_str).filter(|e| known.contains(e)).collect();
            if evidence.is_empty() {
                continue;
            }
            let meant = match &model {
                Some(model) => Some(meant(model, &question.question).await?),
                None => None,
            };
            let ask = Ask {
                meant: meant.as_ref(),
                text: &question.question,
                scope: &conversation.id,
                now_ms,
                budget_tokens: 100_000,
                limit: 96,
                ..Ask::default()
            };
            let begun = tokio::time::Instant::now();
            let recalled = memory.recall(&ask).await?;
            took.push(begun.elapsed());
            let lines = recalled.iter().map(|r| (format!("{} {}", r.source.session_id, r.source.turn), r.line.clone()));
            let names: HashMap<String, &str> = conversation
                .turns
                .iter()
                .enumerate()
                .map(|(n, t)| (format!("{} {n}", session(conversation, t)), t.id.as_str()))
                .collect();
            let mut used = words(memory::HEADING) + 12;
            let mut found = HashSet::new();
            for (place, line) in lines {
                if used + words(&line) <= budget {
                    used += words(&line);
                    found.extend(names.get(&place).copied());
                }
            }
            ours.entry(question.category).or_default().add(&evidence, &found, used);
            ours.entry(0).or_default().add(&evidence, &found, used);
            let mut used = words(memory::HEADING) + 12;
            let mut found = HashSet::new();
            for at in baseline.search(&question.question) {
                let turn = &conversation.turns[at];
                let cost = words(&turn.text) + 3;
                if used + cost <= budget {
                    used += cost;
                    found.insert(turn.id.as_str());
                }
            }
            plain.entry(question.category).or_default().add(&evidence, &found, used);
            plain.entry(0).or_default().add(&evidence, &found, used);
        }
    }
    took.sort();
    for (name, scores) in [("ours", &ours), ("plain BM25 windows", &plain)] {
        for (category, score) in scores {
            let of = if *category == 0 { "all".to_owned() } else { format!("category {category}") };
            score.print(&format!("{name}, {of}"));
        }
    }
    if model.is_some() {
        println!("vectors made in {made:?}");
    }
    println!("recall p50 {:?}, p95 {:?}", took[took.len() / 2], took[took.len() * 95 / 100]);
    store.close().await?;
    Ok(())
}

fn options(folder: std::path::PathBuf) -> LocalOptions {
    LocalOptions { folder, threads: 0, idle: std::time::Duration::from_secs(60) }
}

async fn meant(model: &Local, question: &str) -> Result<Meant, Problem> {
    let vector = model.embed(Side::Query, &[question.to_owned()]).await?.remove(0);
    Ok(Meant { model: model.name(), vector })
}

fn session(conversation: &Conversation, turn: &Turn) -> String {
    format!("{}/{}", conversation.id, turn.session)
}

/// Tells memory a conversation; a moment after its end.
async fn tell(memory: &Memory, conversation: &Conversation) -> Result<i64, Problem> {
    let mut now_ms = 0;
    for (number, turn) in (0u32..).zip(&conversation.turns) {
        let time =
            jiff::civil::DateTime::strptime("%I:%M %p on %d %B, %Y", turn.date.to_uppercase().replace(" ON ", " on "))?;
        now_ms = time.to_zoned(jiff::tz::TimeZone::UTC)?.timestamp().as_millisecond();
        let utterance =
            Utterance { speaker: turn.speaker.clone(), text: turn.text.clone(), at_ms: now_ms, turn_no: number };
        memory.hear(&conversation.id, &session(conversation, turn), &[utterance]).await?;
    }
    Ok(now_ms + 1)
}

/// BM25 over utterance and previous utterance, as the reference numbers' baseline.
struct Plain {
    documents: Vec<HashMap<String, f64>>,
    holders: HashMap<String, f64>,
    mean: f64,
}

impl Plain {
    fn new(conversation: &Conversation) -> Self {
        let mut documents = Vec::new();
        let mut holders: HashMap<String, f64> = HashMap::new();
        for (at, turn) in conversation.turns.iter().enumerate() {
            let mut tf = HashMap::new();
            let before = at.checked_sub(1).map(|b| &conversation.turns[b]).filter(|b| b.session == turn.session);
            for text in before.into_iter().chain([turn]).map(|t| &t.text) {
                for word in Self::words(text) {
                    *tf.entry(word).or_insert(0.0) += 1.0;
                }
            }
            tf.keys().for_each(|word| *holders.entry(word.clone()).or_default() += 1.0);
            documents.push(tf);
        }
        let mean = documents.iter().map(|d| d.values().sum::<f64>()).sum::<f64>() / documents.len().max(1) as f64;
        Self { documents, holders, mean }
    }

    fn words(text: &str) -> impl Iterator<Item = String> {
        text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_lowercase)
    }

    fn search(&self, question: &str) -> Vec<usize> {
        let asked: HashSet<String> = Self::words(question).collect();
        let n = self.documents.len() as f64;
        let mut scores: Vec<(usize, f64)> = self
            .documents
            .iter()
            .enumerate()
            .map(|(at, tf)| {
                let length = tf.values().sum::<f64>();
                let score = |word: &String| {
                    let tf = tf.get(word).copied().unwrap_or(0.0);
                    let df = self.holders.get(word).copied().unwrap_or(0.0);
                    let idf = ((n - df + 0.5) / (df + 0.5) + 1.0).ln();
                    idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / self.mean))
                };
                (at, asked.iter().map(score).sum())
            })
            .collect();
        scores.retain(|(_, score)| *score > 0.0);
        scores.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        scores.into_iter().map(|(at, _)| at).collect()
    }
}
