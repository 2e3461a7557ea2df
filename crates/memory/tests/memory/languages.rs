//! English, Chinese and Japanese in one memory: each question finds its own sentence among the first three, by words alone.
//! One case a line: language, what was said, what is asked.

use std::collections::BTreeMap;

use metaclaw_memory::{Ask, Utterance};

use crate::common::{DAY, Home, NOW};

const CASES: &str = include_str!("languages.tsv");

#[tokio::test]
async fn questions_find_their_sentence_in_their_language() {
    let cases: Vec<Vec<&str>> = CASES.lines().map(|line| line.split('\t').collect()).collect();
    assert!(cases.len() >= 60);
    let home = Home::new().await;
    for (number, case) in (0u32..).zip(&cases) {
        let said = Utterance {
            speaker: "user".to_owned(),
            text: case[1].to_owned(),
            at_ms: NOW - DAY + i64::from(number),
            turn_no: 1,
        };
        // Each in its own session: what is said before and after does not help.
        home.memory.hear("", &format!("s{number}"), &[said]).await.expect("hears");
        home.memory.flush(&format!("s{number}")).await.expect("listens");
    }
    let mut found: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut missed = Vec::new();
    for case in &cases {
        let ask = Ask { text: case[2], now_ms: NOW, limit: 3, ..Ask::default() };
        let recalled = home.memory.recall(&ask).await.expect("recalls");
        let hit = recalled.iter().any(|m| m.content == case[1]);
        let (hits, all) = found.entry(case[0]).or_default();
        *hits += usize::from(hit);
        *all += 1;
        if !hit {
            missed.push(case[2]);
        }
    }
    for (language, (hits, all)) in found {
        // 92 of a hundred, in each language by itself.
        assert!(hits * 100 >= all * 92, "{language}: {hits} of {all}; missed {missed:?}");
    }
}
