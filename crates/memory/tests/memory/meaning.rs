//! Memory by meaning, with a model that knows a few things only: what is found, what is remade, what is gone.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use embed::{Embedder, Error, Side, Vector};
use metaclaw_memory::{Ask, Known, Meant, Memory, NewMemory, Recalled, Utterance};
use store::Forget;

use crate::common::{Home, NOW};

/// A model to which boats are one thing, bread another, and every other text a thing of its own.
#[derive(Default)]
struct Tiny {
    name: &'static str,
    asked: AtomicUsize,
    /// It takes no text with this in it.
    refuses: Option<&'static str>,
    broken: bool,
}

const WIDTH: usize = 1024;

fn vector(text: &str) -> Vector {
    let mut numbers = vec![0.0; WIDTH];
    let thing = |words: &[&str]| words.iter().any(|word| text.to_lowercase().contains(word));
    if thing(&["boat", "vessel", "船", "舟"]) {
        numbers[0] = 1.0;
    }
    if thing(&["bread", "loaf", "パン"]) {
        numbers[1] = 1.0;
    }
    // Two numbers of its own: one of them it may share with another text.
    for (seed, times) in [(7usize, 31), (11, 37)] {
        let own = text.bytes().fold(seed, |sum, b| sum * times % 10_007 + usize::from(b)) % (WIDTH - 2);
        numbers[2 + own] = 0.3;
    }
    Vector::of(numbers)
}

#[async_trait]
impl Embedder for Tiny {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    async fn embed(&self, _: Side, texts: &[String]) -> Result<Vec<Vector>, Error> {
        self.asked.fetch_add(texts.len(), Ordering::SeqCst);
        let refused = self.refuses.is_some_and(|word| texts.iter().any(|text| text.contains(word)));
        if self.broken || refused {
            return Err(Error::Closed);
        }
        Ok(texts.iter().map(|text| vector(text)).collect())
    }
}

fn tiny(name: &'static str) -> Tiny {
    Tiny { name, ..Tiny::default() }
}

async fn say(home: &Home, session: &str, texts: &[&str]) {
    let said = (1..).zip(texts).map(|(turn_no, text)| Utterance {
        speaker: "user".to_owned(),
        text: (*text).to_owned(),
        at_ms: NOW - 1000 + i64::from(turn_no),
        turn_no,
    });
    home.memory.hear("", session, &said.collect::<Vec<_>>()).await.expect("hears");
}

async fn make(memory: &Memory, model: &Tiny) {
    while memory.mean(model, 16).await.expect("makes vectors").more {}
}

fn meant(model: &Tiny, text: &str) -> Meant {
    Meant { model: model.name(), vector: vector(text) }
}

async fn ask(memory: &Memory, model: &Tiny, text: &str) -> Vec<Recalled> {
    let meant = meant(model, text);
    memory.recall(&Ask { text, now_ms: NOW, meant: Some(&meant), ..Ask::default() }).await.expect("recalls")
}

fn contents(found: &[Recalled]) -> Vec<&str> {
    found.iter().map(|memory| memory.content.as_str()).collect()
}

const BOAT: &str = "Our boat lies at pier nine.";

#[tokio::test]
async fn what_shares_no_word_is_found_and_says_why() {
    let home = Home::new().await;
    say(&home, "s", &[BOAT, "The loaf needs forty minutes.", "Nothing else is of interest here."]).await;
    let model = tiny("m");
    make(&home.memory, &model).await;
    let found = ask(&home.memory, &model, "船はどこ？").await;
    assert_eq!(contents(&found), [BOAT]);
    assert!(found[0].why.contains("by meaning"), "{}", found[0].why);
    // By words alone there is nothing, and small talk finds nothing either way.
    assert!(home.ask("船はどこ？").await.is_empty());
    assert!(ask(&home.memory, &model, "I slept badly").await.is_empty());
    assert!(ask(&home.memory, &model, "hello").await.is_empty());
    // At once, and from the database.
    let meant = meant(&model, "船はどこ？");
    let nothing = |_: &Recalled| false;
    let now = home.memory.recall_now(&Ask {
        text: "船はどこ？",
        now_ms: NOW,
        known: Some(Known(&nothing)),
        meant: Some(&meant),
        ..Ask::default()
    });
    assert_eq!(now.map(|found| found.len()), Some(1));
}

#[tokio::test]
async fn facts_have_a_meaning_too_and_a_new_one_when_they_are_edited() {
    let home = Home::new().await;
    let add = NewMemory { content: "The loaf is in the oven.".to_owned(), at_ms: NOW, ..NewMemory::default() };
    let id = home.memory.add(add).await.expect("adds").expect("is new");
    let model = tiny("m");
    make(&home.memory, &model).await;
    assert_eq!(ask(&home.memory, &model, "パン").await.len(), 1);
    home.memory.edit(&id, "The vessel is in the dock.", NOW).await.expect("edits");
    home.memory.refresh().await.expect("follows");
    make(&home.memory, &model).await;
    assert!(ask(&home.memory, &model, "パン").await.is_empty());
    assert_eq!(contents(&ask(&home.memory, &model, "船").await), ["The vessel is in the dock."]);
}

#[tokio::test]
async fn vectors_are_made_once_and_the_next_start_goes_on() {
    let home = Home::new().await;
    let texts: Vec<String> = (0..40).map(|n| format!("Note number {n} says something.")).collect();
    say(&home, "s", &texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let model = tiny("m");
    // Commonplaces, and two batches of eight.
    let before = loop {
        let progress = home.memory.mean(&model, 8).await.expect("makes vectors");
        if progress.ready >= 16 {
            break model.asked.load(Ordering::SeqCst);
        }
    };
    let home = home.again().await;
    home.memory.refresh().await.expect("reads");
    let again = tiny("m");
    let mut last = home.memory.mean(&again, 8).await.expect("goes on");
    while last.more {
        last = home.memory.mean(&again, 8).await.expect("goes on");
    }
    assert_eq!((last.ready, last.missing), (40, 0));
    assert_eq!(before + again.asked.load(Ordering::SeqCst), 40 + before - 16, "something was made twice");
}

#[tokio::test]
async fn another_model_makes_all_of_them_anew() {
    let home = Home::new().await;
    say(&home, "s", &[BOAT, "The loaf needs forty minutes."]).await;
    make(&home.memory, &tiny("one")).await;
    let two = tiny("two");
    // A question of the new model is not compared with vectors of the old one.
    assert!(ask(&home.memory, &two, "vessels: 船").await.is_empty());
    make(&home.memory, &two).await;
    assert_eq!(contents(&ask(&home.memory, &two, "船").await), [BOAT]);
    let meaning = home.store.memory_meaning().await.expect("reads").expect("is there");
    assert_eq!((meaning.model.as_str(), meaning.stale), ("two", false));
    let left = home.store.memory_vectors(meaning.made - 1, 0, i64::MAX, 10).await.expect("reads");
    assert!(left.is_empty(), "vectors of the old model are left");
}

#[tokio::test]
async fn what_is_forgotten_has_no_vector_left_anywhere() {
    let home = Home::new().await;
    say(&home, "s", &[BOAT, "The loaf needs forty minutes."]).await;
    let model = tiny("m");
    make(&home.memory, &model).await;
    let made = home.store.memory_meaning().await.expect("reads").expect("is there").made;
    let packed = home.store.memory_vectors(made, 0, i64::MAX, 1).await.expect("reads").remove(0).data;
    let files = || {
        let dir = std::fs::read_dir(home.dir.path()).expect("lists").flatten();
        dir.filter_map(|entry| std::fs::read(entry.path()).ok()).collect::<Vec<_>>()
    };
    let holds = |files: &[Vec<u8>]| files.iter().any(|bytes| memchr::memmem::find(bytes, &packed).is_some());
    assert!(holds(&files()), "it never was there");
    let found = ask(&home.memory, &model, "船").await;
    let gone = home.memory.forget_id(&found[0].id, NOW).await.expect("forgets");
    assert!(gone.windows == 1 && !gone.pending);
    assert!(!holds(&files()), "its vector is left in a file");
    // Before and after what is at hand was read anew.
    home.memory.refresh().await.expect("reads");
    assert!(ask(&home.memory, &model, "船").await.is_empty());
    make(&home.memory, &model).await;
    assert!(ask(&home.memory, &model, "船").await.is_empty());
    assert_eq!(ask(&home.memory, &model, "パン").await.len(), 1);
}

#[tokio::test]
async fn an_erased_scope_takes_its_vectors_along() {
    let home = Home::new().await;
    say(&home, "s", &[BOAT]).await;
    let said = Utterance { speaker: "user".to_owned(), text: "Her boat is red.".to_owned(), at_ms: NOW, turn_no: 1 };
    home.memory.hear("user:ann", "t", &[said]).await.expect("hears");
    let model = tiny("m");
    make(&home.memory, &model).await;
    let meant = meant(&model, "船");
    let hers = Ask { text: "船", scope: "user:ann", now_ms: NOW, meant: Some(&meant), ..Ask::default() };
    assert_eq!(contents(&home.memory.recall(&hers).await.expect("recalls")), ["Her boat is red."]);
    assert_eq!(contents(&ask(&home.memory, &model, "船").await), [BOAT]);
    home.memory.forget(Forget::Scope("user:ann".to_owned()), NOW).await.expect("erases");
    make(&home.memory, &model).await;
    let meaning = home.store.memory_meaning().await.expect("reads").expect("is there");
    let left = home.store.memory_vectors(meaning.made, 0, i64::MAX, 10).await.expect("reads");
    assert_eq!(left.len(), 1);
    assert!(home.memory.recall(&hers).await.expect("recalls").is_empty());
}

#[tokio::test]
async fn a_text_that_the_model_cannot_take_does_not_stop_the_others() {
    let home = Home::new().await;
    say(&home, "s", &["Something unspeakable.", BOAT]).await;
    let model = Tiny { name: "m", refuses: Some("unspeakable"), ..Tiny::default() };
    make(&home.memory, &model).await;
    assert_eq!(contents(&ask(&home.memory, &model, "船").await), [BOAT]);
}

#[tokio::test]
async fn a_model_that_fails_is_told_and_words_go_on() {
    let home = Home::new().await;
    say(&home, "s", &[BOAT]).await;
    let model = Tiny { name: "m", broken: true, ..Tiny::default() };
    assert!(home.memory.mean(&model, 8).await.is_err());
    assert_eq!(contents(&ask(&home.memory, &model, "Where is the boat?").await), [BOAT]);
}

#[tokio::test]
async fn in_a_large_store_the_nearest_are_those_of_a_whole_search() {
    let home = Home::new().await;
    let texts: Vec<String> = (0..9000)
        .map(|n| match n % 3000 {
            1000 => format!("A boat, entry {n}."),
            _ => format!("Entry {n} of the ledger, nothing special."),
        })
        .collect();
    for (session, part) in texts.chunks(1500).enumerate() {
        say(&home, &format!("s{session}"), &part.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    let model = tiny("m");
    while home.memory.mean(&model, 512).await.expect("makes vectors").more {}
    let found = ask(&home.memory, &model, "船").await;
    let mut named = contents(&found[..3]);
    named.sort_unstable();
    assert_eq!(named, ["A boat, entry 1000.", "A boat, entry 4000.", "A boat, entry 7000."]);
}
