//! multilingual-e5-small, where it is at hand: `METACLAW_PEERS/e5/multilingual-e5-small` (default `~/.cache/metaclaw-peers`).
//! The numbers are those of a plain implementation of the same formulas, with the tokenizer its makers use.

#![expect(clippy::print_stdout, reason = "it shows its figures")]

use std::path::PathBuf;
use std::time::Duration;

use metaclaw_embed::{Embedder as _, Local, LocalOptions, Side, dot};

fn model() -> Option<Local> {
    let peers = std::env::var_os("METACLAW_PEERS")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/metaclaw-peers")))?;
    let folder = peers.join("e5/multilingual-e5-small");
    if !folder.join("model.safetensors").exists() {
        println!("skipped: no multilingual-e5-small at {}", folder.display());
        return None;
    }
    Some(Local::new(LocalOptions { folder, threads: 1, idle: Duration::from_secs(60) }))
}

#[tokio::test]
async fn vectors_are_those_of_the_model() {
    let Some(model) = model() else { return };
    let cases = [
        (Side::Query, "how do I write dates?", [0.01613, -0.01333, -0.06632, -0.04465, 0.02908, -0.07292]),
        (
            Side::Passage,
            "Write dates as YYYY-MM-DD, whatever the table says.",
            [0.04339, 0.00927, -0.04257, -0.03075, 0.06514, -0.01641],
        ),
        (Side::Query, "日期怎么写？", [0.03357, -0.00888, -0.05535, -0.01405, 0.0784, -0.04202]),
        (
            Side::Query,
            "Ça coûte 12 €, n’est-ce pas?\t\tOui.",
            [0.01261, -0.02367, -0.06764, -0.04464, 0.04603, -0.05852],
        ),
        (Side::Passage, "зъ 🦞 naïve", [0.05521, 0.00448, -0.055, -0.11407, 0.05078, -0.04349]),
    ];
    for (side, text, wanted) in cases {
        let found = model.embed(side, &[text.to_owned()]).await.unwrap().remove(0);
        assert_eq!(found.numbers().len(), 384);
        for (x, wanted) in found.numbers().iter().zip(wanted) {
            assert!((x - wanted).abs() < 2e-4, "{text}: {:?}", &found.numbers()[..6]);
        }
    }
}

#[tokio::test]
async fn what_means_the_same_is_nearer_whatever_the_language() {
    let Some(model) = model() else { return };
    let passages = ["Write dates as YYYY-MM-DD.", "A letter to the landlord.", "Bake the bread for forty minutes."];
    let passages = model.embed(Side::Passage, &passages.map(str::to_owned)).await.unwrap();
    for (question, nearest) in [("日付の書き方は？", 0), ("パンは何分焼けばいいですか", 2), ("面包要烤多久", 2)]
    {
        let question = model.embed(Side::Query, &[question.to_owned()]).await.unwrap().remove(0);
        let best = (0..3).max_by(|a, b| dot(&question, &passages[*a]).total_cmp(&dot(&question, &passages[*b])));
        assert_eq!(best, Some(nearest));
    }
}
