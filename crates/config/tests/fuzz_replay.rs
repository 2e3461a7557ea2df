//! The fuzz target over its corpus, whole and in pieces, so that every test run repeats what fuzzing found.

#![expect(clippy::unwrap_used, reason = "the helpers of a test")]

use std::fs;
use std::path::Path;

#[path = "../fuzz/check.rs"]
mod check;

fn corpus() -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 9);
    files.into_iter().map(|file| fs::read(file).unwrap()).collect()
}

#[test]
fn the_corpus_holds() {
    for text in corpus() {
        check::check(&text);
    }
}

#[test]
fn beginnings_of_the_corpus_hold() {
    for text in corpus() {
        for end in (0..text.len()).step_by(13) {
            check::check(&text[..end]);
        }
    }
}

#[test]
fn mutations_of_the_corpus_hold() {
    const PIECES: &[&[u8]] = &[
        b"#",
        b" # c",
        b"\n",
        b"\r\n",
        b": ",
        b":",
        b"- ",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"'",
        b"\"",
        b"&a ",
        b"*a",
        b"|",
        b">",
        b"~",
        b"  ",
        b"\t",
        b"mode: x\n",
        b"llm:",
        b"<<: *b",
        b"?",
        b"!!str ",
        b"---\n",
        b"...\n",
        b"\\",
        b"\xe6\xa8",
    ];
    // A fixed sequence (xorshift), so that a failure is the same for everyone.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let corpus = corpus();
    let rounds = std::env::var("METACLAW_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(150);
    for _ in 0..rounds {
        let mut text = corpus[next(corpus.len())].clone();
        for _ in 0..=next(4) {
            let at = next(text.len() + 1);
            let cut = next(6).min(text.len() - at);
            let piece: &[u8] = if next(3) == 0 { b"" } else { PIECES[next(PIECES.len())] };
            text.splice(at..at + cut, piece.iter().copied());
        }
        check::check(&text);
    }
}
