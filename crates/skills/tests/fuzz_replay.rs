//! The fuzz target's property over its corpus, over the built-in bank, and over the bank with bytes cut and changed.

#[path = "../fuzz/check.rs"]
mod check;

#[test]
fn the_fuzz_corpus_holds() {
    let corpus = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/skill_md")).unwrap();
    let mut seen = 0;
    for entry in corpus {
        check::skill_md(&std::fs::read(entry.unwrap().path()).unwrap());
        seen += 1;
    }
    assert!(seen >= 8, "{seen} corpus files");
}

#[test]
fn damaged_built_in_skills_are_read_or_refused_without_a_panic() {
    // A fixed sequence (xorshift), so that a failure can be repeated.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let signs = b"-:#\"'[]{}&*|>%@`\n\r\t \\\xff\xef\0a";
    for skill in metaclaw_skills::builtin().iter().take(12) {
        for _ in 0..40 {
            let mut bytes = skill.text.as_bytes().to_vec();
            bytes.truncate(bytes.len() - next(bytes.len() / 2));
            for _ in 0..next(6) {
                let at = next(600.min(bytes.len()));
                bytes[at] = signs[next(signs.len())];
            }
            check::skill_md(&bytes);
        }
    }
}
