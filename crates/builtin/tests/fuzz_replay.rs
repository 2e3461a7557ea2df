//! The fuzz target over its corpus, cut short and with bytes changed, so that every test run repeats what fuzzing looks
//! for. The corpus is two tiny models with random weights, written by `UPDATE_CORPUS=1`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the helpers of a test, and what it shares with the fuzz target"
)]

use std::path::PathBuf;

#[path = "../fuzz/check.rs"]
mod check;
#[expect(dead_code, reason = "shared with another test")]
mod tiny;

/// A fixed sequence (xorshift), so that a failure is the same for everyone.
struct Fixed(u64);

impl Fixed {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let made = [("llama.gguf", tiny::llama()), ("qwen3.gguf", tiny::qwen3())];
    made.into_iter()
        .map(|(name, bytes)| {
            let file = dir.join(name);
            if std::env::var_os("UPDATE_CORPUS").is_some() {
                std::fs::write(&file, &bytes).unwrap();
            }
            assert!(std::fs::read(&file).unwrap() == bytes, "{name} is not the one in the code: UPDATE_CORPUS=1");
            bytes
        })
        .collect()
}

#[test]
fn the_corpus_answers() {
    for model in corpus() {
        let answer = check::check(&model).unwrap();
        assert_eq!(answer["usage"]["completion_tokens"], 3, "{answer}");
        let tokens = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
        assert!(tokens.iter().all(|token| token["logprob"].as_f64().is_some_and(|p| (-20.0..=0.0).contains(&p))));
    }
}

#[test]
fn a_beginning_of_the_corpus_is_refused_with_a_reason() {
    for model in corpus() {
        for end in (0..model.len()).step_by(611) {
            let reason = check::check(&model[..end]).unwrap_err();
            assert!(reason.contains("ends too early"), "{end}: {reason}");
        }
    }
}

#[test]
fn mutations_of_the_corpus_answer_or_are_refused() {
    let mut fixed = Fixed(0x9e37_79b9_7f4a_7c15);
    let corpus = corpus();
    let rounds = std::env::var("METACLAW_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(200);
    for _ in 0..rounds {
        let mut model = corpus[fixed.next(corpus.len())].clone();
        // The header is what is read with care; weights are numbers whatever stands there.
        let header = model.len() / 2;
        for _ in 0..=fixed.next(3) {
            let at = fixed.next(header);
            match fixed.next(4) {
                0 => model[at] = fixed.next(256) as u8,
                1 => model[at] = 0xff,
                2 => model[at] = 0,
                _ => {
                    let (from, count) = (fixed.next(header), fixed.next(24));
                    let piece = model[from..from + count].to_vec();
                    model.splice(at..at + fixed.next(24), piece);
                }
            }
        }
        let _ = check::check(&model);
    }
}
