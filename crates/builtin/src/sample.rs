//! Chooses the next token by its scores. Every random number comes from the seed, so an answer can be had again.

use std::cmp::Ordering;

/// How to choose.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    /// 0 = always the best.
    pub(crate) temperature: f32,
    /// Only the best that together are this likely.
    pub(crate) top_p: f32,
    /// Only this many of the best; 0 = all.
    pub(crate) top_k: usize,
    /// Only those at least this likely, compared with the best.
    pub(crate) min_p: f32,
    /// Taken off the score of what was said before, once.
    pub(crate) presence: f32,
    /// Taken off for every time it was said.
    pub(crate) frequency: f32,
    pub(crate) seed: u64,
}

/// Chooses token after token.
#[derive(Debug)]
pub(crate) struct Sampler {
    choice: Choice,
    random: u64,
    said: hashbrown::HashMap<u32, f32>,
    candidates: Vec<(u32, f32)>,
    /// Scores as they were before penalties.
    before: Vec<(usize, f32)>,
}

impl Sampler {
    pub(crate) fn new(choice: Choice) -> Self {
        Self {
            random: choice.seed,
            choice,
            said: hashbrown::HashMap::new(),
            candidates: Vec::new(),
            before: Vec::new(),
        }
    }

    /// The next token. The scores are afterwards as they were.
    pub(crate) fn next(&mut self, scores: &mut [f32]) -> u32 {
        if self.choice.presence != 0.0 || self.choice.frequency != 0.0 {
            for (token, times) in &self.said {
                if let Some(score) = scores.get_mut(*token as usize) {
                    self.before.push((*token as usize, *score));
                    *score -= self.choice.presence + self.choice.frequency * times;
                }
            }
        }
        let token = self.pick(scores);
        for (token, score) in self.before.drain(..) {
            scores[token] = score;
        }
        *self.said.entry(token).or_default() += 1.0;
        token
    }

    fn pick(&mut self, scores: &[f32]) -> u32 {
        let (best, most) = best_of(scores);
        if self.choice.temperature <= 0.0 || self.choice.top_k == 1 {
            return best;
        }
        // Less likely than one in ten million against the best: out, before anything is sorted.
        let floor = most - 16.0 * self.choice.temperature;
        self.candidates.clear();
        let near = scores.iter().enumerate().filter(|(_, score)| **score >= floor);
        self.candidates.extend(near.map(|(token, score)| (token as u32, *score)));
        self.candidates.sort_unstable_by(|a, b| order(b.1, a.1).then(a.0.cmp(&b.0)));
        if self.choice.top_k > 0 {
            self.candidates.truncate(self.choice.top_k);
        }
        let mut all = 0.0;
        for (_, score) in &mut self.candidates {
            *score = ((*score - most) / self.choice.temperature).exp();
            all += *score;
        }
        let mut kept = 0.0;
        let mut count = 0;
        for (_, share) in &self.candidates {
            if count > 0 && (kept >= self.choice.top_p * all || *share < self.choice.min_p) {
                break;
            }
            kept += share;
            count += 1;
        }
        let mut left = self.uniform() * kept;
        for (token, share) in &self.candidates[..count] {
            left -= share;
            if left < 0.0 {
                return *token;
            }
        }
        best
    }

    /// A number from 0 up to, and without, 1.
    fn uniform(&mut self) -> f32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 40) as f32 / (1_u64 << 24) as f32
    }
}

fn order(a: f32, b: f32) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

fn best_of(scores: &[f32]) -> (u32, f32) {
    let mut best = (0, f32::NEG_INFINITY);
    for (token, score) in scores.iter().enumerate() {
        if *score > best.1 {
            best = (token as u32, *score);
        }
    }
    best
}

/// The natural logarithm of how likely `token` was, and the `most` likeliest tokens with theirs.
pub(crate) fn likelihoods(scores: &[f32], token: u32, most: usize) -> (f32, Vec<(u32, f32)>) {
    let (_, top) = best_of(scores);
    let all: f64 = scores.iter().map(|score| f64::from(score - top).exp()).sum();
    let base = top + all.ln() as f32;
    let mut best: Vec<(u32, f32)> = scores.iter().enumerate().map(|(token, score)| (token as u32, *score)).collect();
    if most > 0 && most < best.len() {
        best.select_nth_unstable_by(most - 1, |a, b| order(b.1, a.1).then(a.0.cmp(&b.0)));
    }
    best.truncate(most);
    best.sort_unstable_by(|a, b| order(b.1, a.1).then(a.0.cmp(&b.0)));
    let own = scores.get(token as usize).map_or(f32::NEG_INFINITY, |score| score - base);
    (own, best.into_iter().map(|(token, score)| (token, score - base)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice() -> Choice {
        Choice { temperature: 1.0, top_p: 1.0, top_k: 0, min_p: 0.0, presence: 0.0, frequency: 0.0, seed: 7 }
    }

    fn counts(choice: &Choice, scores: &[f32], draws: usize) -> Vec<usize> {
        let mut counts = vec![0; scores.len()];
        let mut sampler = Sampler::new(choice.clone());
        for _ in 0..draws {
            counts[sampler.next(&mut scores.to_vec()) as usize] += 1;
        }
        counts
    }

    #[test]
    fn without_temperature_the_first_of_the_best_is_taken() {
        let mut sampler = Sampler::new(Choice { temperature: 0.0, ..choice() });
        assert_eq!(sampler.next(&mut [0.1, 3.0, -1.0, 3.0]), 1);
    }

    #[test]
    fn the_same_seed_says_the_same_again() {
        let scores: Vec<f32> = (0..50).map(|at| (at % 7) as f32 / 3.0).collect();
        let run = |seed| {
            let mut sampler = Sampler::new(Choice { seed, ..choice() });
            (0..40).map(|_| sampler.next(&mut scores.clone())).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn tokens_come_as_often_as_they_are_likely() {
        let scores = [3.0_f32.ln(), 1.0_f32.ln(), 4.0_f32.ln(), f32::NEG_INFINITY];
        let counts = counts(&choice(), &scores, 8000);
        for (count, share) in counts.iter().zip([3000.0, 1000.0, 4000.0, 0.0]) {
            assert!((*count as f64 - share).abs() < 250.0, "{counts:?}");
        }
    }

    #[test]
    fn limits_leave_out_what_is_less_likely() {
        let scores = [3.0_f32.ln(), 1.0_f32.ln(), 4.0_f32.ln(), 0.5_f32.ln()];
        for limited in
            [Choice { top_p: 0.8, ..choice() }, Choice { top_k: 2, ..choice() }, Choice { min_p: 0.5, ..choice() }]
        {
            let counts = counts(&limited, &scores, 500);
            assert!(counts[0] > 0 && counts[2] > 0 && counts[1] + counts[3] == 0, "{limited:?}: {counts:?}");
        }
    }

    #[test]
    fn what_was_said_becomes_less_likely() {
        let mut sampler = Sampler::new(Choice { temperature: 0.0, frequency: 0.6, ..choice() });
        let mut scores = [1.0, 0.5];
        let said: Vec<u32> = (0..4).map(|_| sampler.next(&mut scores)).collect();
        assert_eq!(said, [0, 1, 0, 1]);
        // How likely a token was, is told without them.
        assert_eq!(scores, [1.0, 0.5]);
    }

    #[test]
    fn likelihoods_are_those_of_the_whole_vocabulary() {
        let (own, best) = likelihoods(&[1.0_f32.ln(), 3.0_f32.ln(), 4.0_f32.ln()], 0, 2);
        assert!((own.exp() - 0.125).abs() < 1e-6);
        assert_eq!(best.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [2, 1]);
        assert!((best[0].1.exp() - 0.5).abs() < 1e-6);
    }
}
