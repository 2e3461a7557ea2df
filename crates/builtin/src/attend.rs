//! Attention: what every token looks back at, and the cache of keys and values it looks back into. Keys lie with 256
//! positions side by side, so that scores come out a vector at a time; values lie token by token.

use rayon::prelude::*;

use crate::half::{f16_of, f32_of};
use crate::wide::{Loop, Softmax, add_product, wide};

/// Positions in a page of the cache.
const PAGE: usize = 256;
/// Positions that are worked on at once.
const STRIP: usize = 16;
/// Tokens that are worked on at once.
const TOKENS: usize = 4;

/// Shape of the attention of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heads {
    /// Heads that ask.
    pub(crate) asking: usize,
    /// Heads that are asked; each is shared by `asking / asked`.
    pub(crate) asked: usize,
    /// Numbers per head, a multiple of 32.
    pub(crate) size: usize,
}

/// Keys and values of the tokens so far.
#[derive(Debug)]
pub(crate) struct Cache {
    heads: Heads,
    layers: Vec<Vec<Page>>,
    length: usize,
}

/// 256 positions of one layer.
#[derive(Debug)]
struct Page {
    /// Head, number, position.
    keys: Vec<u16>,
    /// Head, position, number.
    values: Vec<u16>,
}

impl Cache {
    pub(crate) fn new(heads: Heads, layers: usize) -> Self {
        Self { heads, layers: (0..layers).map(|_| Vec::new()).collect(), length: 0 }
    }

    /// Tokens it knows.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Forgets everything behind the first `length` tokens. Pages stay, for those that come.
    pub(crate) fn cut(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Gives back pages that hold nothing.
    pub(crate) fn shrink(&mut self) {
        let pages = self.length.div_ceil(PAGE);
        for layer in &mut self.layers {
            layer.truncate(pages);
        }
    }

    /// The tokens that were put in are known in all layers now.
    pub(crate) fn advance(&mut self, tokens: usize) {
        self.length += tokens;
    }

    /// Puts a token's keys and values in, `ahead` tokens behind the last one that is known.
    pub(crate) fn put(&mut self, layer: usize, ahead: usize, keys: &[f32], values: &[f32]) {
        let Heads { asked, size, .. } = self.heads;
        let position = self.length + ahead;
        let pages = &mut self.layers[layer];
        while pages.len() * PAGE <= position {
            let room = asked * size * PAGE;
            pages.push(Page { keys: vec![0; room], values: vec![0; room] });
        }
        let (page, at) = (&mut pages[position / PAGE], position % PAGE);
        for (line, key) in page.keys.chunks_exact_mut(PAGE).zip(keys) {
            line[at] = f16_of(*key);
        }
        for (head, values) in page.values.chunks_exact_mut(size * PAGE).zip(values.chunks_exact(size)) {
            for (to, value) in head[at * size..].iter_mut().zip(values) {
                *to = f16_of(*value);
            }
        }
    }

    /// Answers to `asking` (token, head, number): for each head that is asked, and each token, the answers to the heads
    /// that share it. They lie in that order in `answers`.
    pub(crate) fn attend(&self, layer: usize, asking: &[f32], answers: &mut Vec<f32>) {
        let Heads { asked, size, .. } = self.heads;
        let width = self.heads.asking * size;
        let tokens = asking.len() / width;
        answers.resize(asking.len(), 0.0);
        let pages = &self.layers[layer];
        let share = width / asked;
        if tokens == 1 {
            // One task for each head that asks: there are too few others.
            let group = share / size;
            answers.par_chunks_exact_mut(size).with_max_len(1).enumerate().for_each(|(head, answers)| {
                let asking = &asking[head * size..(head + 1) * size];
                let work =
                    Look { pages, size, group: 1, head: head / group, asking, width, first: self.length, answers };
                wide(work);
            });
            return;
        }
        let pieces = answers.par_chunks_exact_mut(share * tokens).enumerate().flat_map(|(head, answers)| {
            answers
                .par_chunks_mut(share * TOKENS)
                .enumerate()
                .map(move |(piece, answers)| (head, piece * TOKENS, answers))
        });
        pieces.for_each(|(head, token, answers)| {
            let asking = &asking[token * width + head * share..];
            let first = self.length + token;
            wide(Look { pages, size, group: share / size, head, asking, width, first, answers });
        });
    }
}

/// A few tokens' look back at one head.
struct Look<'a> {
    pages: &'a [Page],
    size: usize,
    /// Heads that share it.
    group: usize,
    head: usize,
    /// The tokens' questions to this head; the next token's are `width` behind.
    asking: &'a [f32],
    width: usize,
    /// Position of the first token.
    first: usize,
    /// Token, head, number.
    answers: &'a mut [f32],
}

impl Loop for Look<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { pages, size, group, head, asking, width, first, answers } = self;
        let questions = answers.len() / size;
        let last = first + questions / group;
        let room = last.next_multiple_of(STRIP);
        let mut scores = vec![0.0_f32; questions * room];
        let mut strip = vec![0.0_f32; size * STRIP];
        let question = |at: usize| &asking[at / group * width + at % group * size..][..size];
        for start in (0..last).step_by(STRIP) {
            let keys = &pages[start / PAGE].keys[head * size * PAGE..][..size * PAGE];
            for (to, line) in strip.chunks_exact_mut(STRIP).zip(keys.chunks_exact(PAGE)) {
                for (to, key) in to.iter_mut().zip(&line[start % PAGE..][..STRIP]) {
                    *to = f32_of(*key);
                }
            }
            let mut at = 0;
            while at + 3 <= questions {
                let sums = scores_of::<FMA, 3>(&strip, [question(at), question(at + 1), question(at + 2)]);
                for (sums, row) in sums.iter().zip(scores[at * room..].chunks_mut(room)) {
                    row[start..start + STRIP].copy_from_slice(sums);
                }
                at += 3;
            }
            for at in at..questions {
                let sums = scores_of::<FMA, 1>(&strip, [question(at)]);
                scores[at * room + start..][..STRIP].copy_from_slice(&sums[0]);
            }
        }
        let scale = 1.0 / (size as f32).sqrt();
        for (at, scores) in scores.chunks_exact_mut(room).enumerate() {
            let (seen, ahead) = scores.split_at_mut(first + at / group + 1);
            Softmax { scores: seen, scale }.run::<FMA>();
            ahead.fill(0.0);
        }
        answers.fill(0.0);
        for start in (0..last).step_by(STRIP) {
            let values = &pages[start / PAGE].values[(head * PAGE + start % PAGE) * size..][..STRIP * size];
            for (to, value) in strip.iter_mut().zip(values) {
                *to = f32_of(*value);
            }
            for (scores, answer) in scores.chunks_exact(room).zip(answers.chunks_exact_mut(size)) {
                for (nth, answer) in answer.chunks_exact_mut(32).enumerate() {
                    let mut sums = [0.0_f32; 32];
                    sums.copy_from_slice(answer);
                    for (share, values) in scores[start..start + STRIP].iter().zip(strip.chunks_exact(size)) {
                        for (sum, value) in sums.iter_mut().zip(&values[nth * 32..][..32]) {
                            *sum = add_product::<FMA>(*share, *value, *sum);
                        }
                    }
                    answer.copy_from_slice(&sums);
                }
            }
        }
    }
}

#[inline(always)]
fn scores_of<const FMA: bool, const Q: usize>(strip: &[f32], questions: [&[f32]; Q]) -> [[f32; STRIP]; Q] {
    let mut sums = [[0.0_f32; STRIP]; Q];
    for (nth, keys) in strip.chunks_exact(STRIP).enumerate() {
        for (sums, question) in sums.iter_mut().zip(questions) {
            let x = question[nth];
            for (sum, key) in sums.iter_mut().zip(keys) {
                *sum = add_product::<FMA>(x, *key, *sum);
            }
        }
    }
    sums
}
