//! Negated and corrected statements in three languages: what was said not to be so is never kept as being so, and what was
//! corrected is no longer held. One case a line: language, statements, what is kept, what is not, its sign.

use store::FactFilter;

use crate::common::{DAY, Home, NOW};

const CASES: &str = include_str!("statements.tsv");

#[tokio::test]
async fn negation_and_correction_keep_their_sense() {
    let cases: Vec<Vec<&str>> = CASES.lines().map(|line| line.split('\t').collect()).collect();
    assert!(cases.len() >= 100, "{} cases", cases.len());
    let home = Home::new().await;
    let mut wrong = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let [_, said, kept, gone, sign] = case[..] else { panic!("case {number} has {} columns", case.len()) };
        let scope = format!("case:{number}");
        for (turn, text) in (1u32..).zip(said.split(" / ")) {
            let utterance = metaclaw_memory::Utterance {
                speaker: "user".to_owned(),
                text: text.to_owned(),
                at_ms: NOW - DAY + i64::from(turn),
                turn_no: turn,
            };
            home.memory.hear(&scope, &scope, &[utterance]).await.expect("hears");
            home.memory.flush(&scope).await.expect("listens");
        }
        let filter = FactFilter { scope: Some(scope), status: Some("active".to_owned()), ..FactFilter::default() };
        let facts = home.memory.facts(&filter).await.expect("lists");
        let right = kept == "-" || facts.iter().any(|f| f.content.contains(kept) && f.negative == (sign == "-"));
        let clean = gone == "-" || facts.iter().all(|f| !f.content.contains(gone) || f.content.contains(kept));
        if !right || !clean {
            let facts: Vec<_> = facts.iter().map(|f| (&f.content, &f.slot, f.negative)).collect();
            wrong.push(format!("{said}\n    {facts:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[tokio::test]
async fn questions_tasks_small_talk_and_passing_states_are_no_facts() {
    for text in [
        "Can you fix the login page?",
        "Fix the login page and run the tests.",
        "The build is failing again.",
        "The code is broken.",
        "My head is spinning.",
        "Thanks, that is great!",
        "I want to know what time it is.",
        "I have a question.",
        "Write a poem about the sea.",
        "What if I moved to Rome?",
        "Suppose we use MongoDB.",
        "Don't worry about it.",
        "She said I like opera.",
        "今天天气怎么样？",
        "帮我写一首诗。",
        "明日の天気は？",
        "詩を書いてください。",
        "もし明日雨なら中止です。",
        "```\nI prefer tabs.\n```",
    ] {
        for sentence in text.lines().take(1) {
            assert_eq!(metaclaw_memory::facts::understand(sentence), None, "{sentence}");
        }
    }
}
