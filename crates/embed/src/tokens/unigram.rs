//! The unigram model: of all ways to cut a word into known pieces, the one whose scores add up to most.

use super::normalise::CharsMap;
use super::vocab::Vocab;

/// What an unknown character costs below the least likely piece.
const UNKNOWN: f32 = 10.0;
/// Stands for a blank before a word.
const BLANK: char = '\u{2581}';

/// See the module.
pub(crate) struct Unigram {
    vocab: Vocab,
    scores: Vec<f32>,
    unknown: u32,
    unknown_score: f32,
    map: Option<CharsMap>,
}

#[derive(Clone, Copy)]
struct Step {
    score: f32,
    /// The position the last piece began at.
    from: usize,
    id: u32,
}

impl Unigram {
    pub(crate) fn new(vocab: Vocab, scores: Vec<f32>, unknown: u32, map: Option<CharsMap>) -> Self {
        let least = scores.iter().copied().fold(f32::INFINITY, f32::min);
        Self { vocab, scores, unknown, unknown_score: least - UNKNOWN, map }
    }

    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let text = self.map.as_ref().map_or_else(|| text.to_owned(), |map| map.apply(text));
        let mut word = String::new();
        for part in text.split_whitespace() {
            word.clear();
            word.push(BLANK);
            word.push_str(part);
            self.cut(&word, ids);
        }
    }

    /// Viterbi's algorithm over the places between characters.
    fn cut(&self, word: &str, ids: &mut Vec<u32>) {
        let places: Vec<usize> = word.char_indices().map(|(at, _)| at).chain([word.len()]).collect();
        let mut best: Vec<Option<Step>> = vec![None; places.len()];
        best[0] = Some(Step { score: 0.0, from: 0, id: 0 });
        for at in 0..places.len() - 1 {
            let Some(here) = best[at] else { continue };
            let mut offer = |to: usize, id: u32, score: f32| {
                let score = here.score + score;
                if best[to].is_none_or(|known| score > known.score) {
                    best[to] = Some(Step { score, from: at, id });
                }
            };
            let mut single = false;
            for to in at + 1..places.len().min(at + 1 + self.vocab.longest) {
                if let Some(id) = self.vocab.find(&word[places[at]..places[to]]) {
                    single |= to == at + 1;
                    offer(to, id, self.scores.get(id as usize).copied().unwrap_or(self.unknown_score));
                }
            }
            if !single {
                offer(at + 1, self.unknown, self.unknown_score);
            }
        }
        let begin = ids.len();
        let mut at = places.len() - 1;
        while at > 0 {
            let Some(step) = best[at] else { break };
            // Unknown characters beside each other are one token.
            if step.id != self.unknown || ids.len() == begin || ids.last() != Some(&self.unknown) {
                ids.push(step.id);
            }
            at = step.from;
        }
        ids[begin..].reverse();
    }
}
