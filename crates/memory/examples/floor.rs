//! Where the floor of memory by meaning lies (`Weights::stands`, 1 is the bar): how many questions find their memory, and how many messages
//! that nothing answers find nothing, for one floor after another. `cargo run -p metaclaw-memory --example floor -- MODEL`,
//! with the folder of an embedding model. The questions are those of `tests/memory/languages.tsv`, where the three languages
//! tell of the same things line by line; the messages are those of `nothing.tsv` that are marked `tune`.
#![expect(clippy::print_stdout, reason = "a measurement prints its figures")]

use embed::{Embedder as _, Local, LocalOptions, Side};
use memory::{Ask, Meant, Memory, Settings, Utterance, Weights};
use metaclaw_memory as memory;

type Problem = Box<dyn std::error::Error>;

/// Now, and the lines of a language.
const NOW: i64 = 1_796_040_000_000;
const LINES: usize = 22;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Problem> {
    let folder = std::env::args().nth(1).ok_or("usage: floor MODEL")?;
    let model =
        Local::new(LocalOptions { folder: folder.into(), threads: 0, idle: std::time::Duration::from_secs(60) });
    let languages: Vec<[&str; 2]> = include_str!("../tests/memory/languages.tsv")
        .lines()
        .filter_map(|line| line.split('\t').skip(1).collect::<Vec<_>>().try_into().ok())
        .collect();
    let dir = tempfile::tempdir()?;
    let tracker = tokio_util::task::TaskTracker::new();
    let path = dir.path().join("metaclaw.db");
    let store =
        store::Store::open(&path, store::Options::default(), &tracker, tokio_util::sync::CancellationToken::new())
            .await?;
    let memory = Memory::open(store.clone(), Settings::default());
    for (number, [said, _]) in (0u32..).zip(&languages) {
        let said = Utterance { speaker: "user".to_owned(), text: (*said).to_owned(), at_ms: NOW - 1000, turn_no: 1 };
        // Each language in a scope of its own, and all in one.
        let language = usize::try_from(number)? / LINES;
        for scope in [format!("user:{language}"), "user:all".to_owned()] {
            memory.hear(&scope, &format!("{scope}/{number}"), std::slice::from_ref(&said)).await?;
        }
    }
    while memory.mean(&model, 32).await?.more {}
    let mut questions: Vec<(String, Meant, &str)> = Vec::new();
    for (number, [said, _]) in languages.iter().enumerate() {
        for (asked, [_, question]) in languages.iter().enumerate().filter(|(asked, _)| asked % LINES == number % LINES)
        {
            // One line of the Chinese ones tells of something else.
            if number == asked || number % LINES != 15 {
                questions.push((format!("user:{}", number / LINES), meant(&model, question).await?, said));
            }
        }
    }
    let mut nothing = Vec::new();
    let lines = include_str!("../tests/memory/nothing.tsv").lines().filter(|line| line.starts_with("tune"));
    for text in lines.filter_map(|line| line.rsplit('\t').next()) {
        nothing.push(meant(&model, text).await?);
    }
    println!("floor   found of {}   quiet of {}", questions.len(), nothing.len());
    for step in 10..40 {
        let floor = step as f32 / 20.0;
        let weights = Weights { stands: [floor; 2], ..Weights::default() };
        let memory = memory.with_settings(Settings { weights, words: false, ..Settings::default() });
        let ask = |scope, meant| {
            let ask = Ask { text: "?", scope, now_ms: NOW, limit: 3, meant: Some(meant), ..Ask::default() };
            let memory = memory.clone();
            async move { memory.recall(&ask).await }
        };
        let (mut found, mut quiet) = (0, 0);
        for (scope, meant, said) in &questions {
            found += usize::from(ask(scope, meant).await?.iter().any(|memory| memory.content == *said));
        }
        for meant in &nothing {
            quiet += usize::from(ask("user:all", meant).await?.is_empty());
        }
        println!("{floor:5.2}   {found:12}   {quiet:12}");
    }
    store.close().await?;
    Ok(())
}

async fn meant(model: &Local, text: &str) -> Result<Meant, Problem> {
    let vector = model.embed(Side::Query, &[text.to_owned()]).await?.remove(0);
    Ok(Meant { model: model.name(), vector })
}
