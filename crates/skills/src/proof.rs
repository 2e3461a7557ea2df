//! Whether a skill helps: turns with it against turns that fitted it and had to do without it, chosen by chance.
//!
//! The lot is drawn once for each conversation, since what a conversation was given stands in it from then on. Decisions are
//! made with e-values. Each conversation multiplies a bet by `Π q(arm)(y) / Σ_a π_a Π q(a)(y)` over its turns `y`, where `q` is an
//! alternative in which the skill helps (or harms) and `π_a` the chance of the arm. If the skill does nothing, what comes of
//! the turns does not hang on the arm, so the expected factor is 1, however the turns of a conversation hang together and
//! whether tasks get easier or harder meanwhile; the bet then reaches 20 with probability at most 1/20 (Ville's inequality),
//! though it is looked at after every conversation. The bet is spread evenly over a grid of alternatives. What is shown to people
//! (effect, interval) is the Beta-Binomial posterior.

use std::collections::HashMap;
use std::sync::LazyLock;

use statrs::distribution::{Beta, Continuous, ContinuousCDF};

/// Bet at which a skill counts as proven: at most one skill in twenty that does not help ever gets there.
pub const PROVEN: f64 = 20.0;
/// Bet at which harm counts as beyond doubt.
pub const BEYOND_DOUBT: f64 = 1000.0;
/// Turns before a skill can be promoted.
pub const LEAST_FOR_PROMOTION: u32 = 20;
/// Turns before a skill is retired, unless it harms beyond doubt.
pub const LEAST_FOR_RETIREMENT: u32 = 100;
/// Turns after which a skill on trial that shows no use goes.
pub const LEAST_FOR_NO_USE: u32 = 400;
/// An effect below this is no use.
pub const LEAST_EFFECT: f64 = 0.02;

/// Rates of good turns that the alternatives are made of.
const GRID: [f64; 10] = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95];

/// Turns that had a skill, and turns that had to do without it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Evidence {
    /// Turns with the skill, and how many of them were good.
    pub with: Arm,
    /// Turns without it, and how many of them were good.
    pub without: Arm,
    /// Turns that had it without a lot being drawn, as it stood in their conversation already or is not measured. They prove
    /// nothing.
    pub undrawn: Arm,
    /// Estimated tokens it has cost.
    pub tokens: u64,
    /// The bets on help and on harm, one per alternative, as logarithms.
    #[serde(skip)]
    bets: [Vec<f64>; 2],
    /// Conversations so far, by their numbers.
    #[serde(skip)]
    blocks: HashMap<i64, Block>,
}

/// The turns of one conversation.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Block {
    held_out: bool,
    share: f64,
    good: f64,
    bad: f64,
}

impl Block {
    /// What it does to the bet on one alternative, as a logarithm: rates of good turns with the skill and without it.
    fn factor(&self, with: &Rate, without: &Rate) -> f64 {
        let of = |rate: &Rate| self.good.mul_add(rate.good, self.bad * rate.bad);
        let (with, without) = (of(with), of(without));
        let all = sum_of_logs(with + (1.0 - self.share).ln(), without + self.share.ln());
        (if self.held_out { without } else { with }) - all
    }
}

/// Logarithms of a rate of good turns, and of what is left.
#[derive(Debug, Clone, Copy)]
struct Rate {
    good: f64,
    bad: f64,
}

static RATES: LazyLock<[Rate; GRID.len()]> =
    LazyLock::new(|| GRID.map(|rate| Rate { good: rate.ln(), bad: (1.0 - rate).ln() }));

/// The logarithm of a sum of two numbers that are given as logarithms.
fn sum_of_logs(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    high + (low - high).exp().ln_1p()
}

/// One side of the comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Arm {
    /// Turns.
    pub turns: u32,
    /// Of them, the good ones.
    pub good: u32,
}

/// The difference that a skill makes to the rate of good turns.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Effect {
    /// Posterior mean, −1 to 1.
    pub mean: f64,
    /// Lower end of the 95 % credible interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Probability that it is above 0.
    pub helps: f64,
}

/// What the evidence says about a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Not enough is known.
    Open,
    /// It helps.
    Helps,
    /// It harms.
    Harms,
    /// Many turns, and no use to be seen.
    NoUse,
}

impl Default for Evidence {
    fn default() -> Self {
        let alternatives = GRID.len() * (GRID.len() - 1) / 2;
        Self {
            with: Arm::default(),
            without: Arm::default(),
            undrawn: Arm::default(),
            tokens: 0,
            bets: [vec![0.0; alternatives], vec![0.0; alternatives]],
            blocks: HashMap::new(),
        }
    }
}

impl Evidence {
    /// Counts a turn of the conversation with this number. `share` is the chance with which the skill was held out; 0 = no lot
    /// was drawn.
    pub fn see(&mut self, conversation: i64, held_out: bool, share: f64, good: bool, tokens: u32) {
        let drawn = share > 0.0 && share < 1.0;
        let arm = match (drawn, held_out) {
            (false, _) => &mut self.undrawn,
            (true, true) => &mut self.without,
            (true, false) => &mut self.with,
        };
        arm.turns += 1;
        arm.good += u32::from(good);
        if !held_out {
            self.tokens += u64::from(tokens);
        }
        if !drawn {
            return;
        }
        let new = Block { held_out, share, good: 0.0, bad: 0.0 };
        let block = self.blocks.entry(conversation).or_insert(new);
        // The lot of a conversation stands; turns that a changed setting has put on the other side are not counted on it.
        if block.held_out != held_out || block.share != share {
            return;
        }
        let before = *block;
        if good {
            block.good += 1.0;
        } else {
            block.bad += 1.0;
        }
        let [help, harm] = &mut self.bets;
        for ((low, high), (help, harm)) in alternatives().zip(help.iter_mut().zip(harm)) {
            *help += block.factor(high, low) - before.factor(high, low);
            *harm += block.factor(low, high) - before.factor(low, high);
        }
    }

    /// Turns on both sides for which a lot was drawn.
    pub fn turns(&self) -> u32 {
        self.with.turns + self.without.turns
    }

    /// The bet that the skill helps, as it stands.
    pub fn for_help(&self) -> f64 {
        bet(&self.bets[0])
    }

    /// The bet that the skill harms, as it stands.
    pub fn for_harm(&self) -> f64 {
        bet(&self.bets[1])
    }

    /// The difference it makes; `None` until there are turns on both sides.
    pub fn effect(&self) -> Option<Effect> {
        (self.with.turns > 0 && self.without.turns > 0).then(|| effect(self.with, self.without)).flatten()
    }

    /// What the bets say.
    pub fn proven(&self) -> Verdict {
        let turns = self.turns();
        let (help, harm) = (self.for_help(), self.for_harm());
        if harm >= BEYOND_DOUBT && turns >= LEAST_FOR_PROMOTION || harm >= PROVEN && turns >= LEAST_FOR_RETIREMENT {
            return Verdict::Harms;
        }
        if help >= PROVEN && turns >= LEAST_FOR_PROMOTION { Verdict::Helps } else { Verdict::Open }
    }

    /// What can be said now.
    pub fn verdict(&self) -> Verdict {
        let (proven, turns) = (self.proven(), self.turns());
        if proven != Verdict::Open {
            return proven;
        }
        let compared = self.with.turns > 0 && self.without.turns > 0;
        if turns >= LEAST_FOR_NO_USE && compared && posterior_above(self.with, self.without, LEAST_EFFECT) < 0.05 {
            return Verdict::NoUse;
        }
        Verdict::Open
    }
}

fn alternatives() -> impl Iterator<Item = (&'static Rate, &'static Rate)> {
    RATES.iter().enumerate().flat_map(|(at, low)| RATES[at + 1..].iter().map(move |high| (low, high)))
}

/// The mean of the bets, at a size that fits.
fn bet(logs: &[f64]) -> f64 {
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logs.iter().map(|log| (log - largest).exp()).sum();
    (largest + (sum / logs.len() as f64).ln()).min(700.0).exp()
}

fn posterior(arm: Arm) -> Option<Beta> {
    let (good, bad) = (f64::from(arm.good), f64::from(arm.turns.saturating_sub(arm.good)));
    Beta::new(good + 1.0, bad + 1.0).ok()
}

/// Points at which the posterior of the smaller arm is looked at.
const POINTS: u32 = 256;

/// Probability that the difference is above `least`, by quadrature over the posterior without the skill.
fn posterior_above(with: Arm, without: Arm, least: f64) -> f64 {
    let (Some(with), Some(without)) = (posterior(with), posterior(without)) else { return 0.5 };
    let (mut sum, mut weights) = (0.0, 0.0);
    for point in 0..POINTS {
        let rate = (f64::from(point) + 0.5) / f64::from(POINTS);
        let weight = without.pdf(rate);
        weights += weight;
        sum += weight * (1.0 - with.cdf((rate + least).clamp(0.0, 1.0)));
    }
    if weights > 0.0 { sum / weights } else { 0.5 }
}

fn effect(with: Arm, without: Arm) -> Option<Effect> {
    let mean = |arm: Arm| (f64::from(arm.good) + 1.0) / (f64::from(arm.turns) + 2.0);
    let end = |above: f64| {
        let (mut low, mut high) = (-1.0, 1.0);
        for _ in 0..20 {
            let middle = f64::midpoint(low, high);
            if posterior_above(with, without, middle) > above { low = middle } else { high = middle }
        }
        f64::midpoint(low, high)
    };
    posterior(with).zip(posterior(without))?;
    Some(Effect {
        mean: mean(with) - mean(without),
        low: end(0.975),
        high: end(0.025),
        helps: posterior_above(with, without, 0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(with: (u32, u32), without: (u32, u32)) -> Evidence {
        let mut all = Evidence::default();
        for (held_out, (turns, good)) in [(false, with), (true, without)] {
            for turn in 0..turns {
                let conversation = i64::from(turn) * 2 + i64::from(held_out);
                all.see(conversation, held_out, 0.2, turn < good, 100);
            }
        }
        all
    }

    #[test]
    fn the_interval_holds_the_effect_and_narrows() {
        let few = evidence((8, 6), (8, 4)).effect().unwrap();
        let many = evidence((800, 600), (800, 400)).effect().unwrap();
        for effect in [few, many] {
            assert!(effect.low < 0.25 && effect.high > 0.2, "{effect:?}");
        }
        assert!(many.high - many.low < 0.1 && few.high - few.low > 0.5, "{few:?} {many:?}");
        assert!((many.mean - 0.25).abs() < 0.01 && many.helps > 0.999);
    }

    #[test]
    fn a_known_case_has_the_known_interval() {
        // Beta(61, 41) and Beta(41, 61): mean difference 20/102, standard deviation 0.0681.
        let effect = evidence((100, 60), (100, 40)).effect().unwrap();
        assert!((effect.mean - 20.0 / 102.0).abs() < 1e-9);
        assert!((effect.low - 0.062).abs() < 0.006 && (effect.high - 0.328).abs() < 0.006, "{effect:?}");
    }

    #[test]
    fn small_samples_decide_nothing() {
        assert_eq!(evidence((4, 4), (4, 0)).verdict(), Verdict::Open);
        assert_eq!(evidence((50, 20), (15, 9)).verdict(), Verdict::Open);
        assert_eq!(Evidence::default().verdict(), Verdict::Open);
        assert_eq!(Evidence::default().effect(), None);
    }

    #[test]
    fn harm_needs_many_turns_or_no_doubt() {
        let doubtful = evidence((60, 29), (35, 25));
        assert!(doubtful.for_harm() >= PROVEN, "{}", doubtful.for_harm());
        assert_eq!(doubtful.verdict(), Verdict::Open, "fewer than a hundred turns");
        assert_eq!(evidence((70, 28), (40, 31)).verdict(), Verdict::Harms);
        assert_eq!(evidence((40, 2), (20, 19)).verdict(), Verdict::Harms, "beyond doubt");
    }

    #[test]
    fn help_is_seen_and_no_use_is_seen_late() {
        assert_eq!(evidence((160, 144), (40, 22)).verdict(), Verdict::Helps);
        assert_eq!(evidence((240, 120), (60, 30)).verdict(), Verdict::Open);
        assert_eq!(evidence((4000, 2000), (1000, 540)).verdict(), Verdict::NoUse);
    }

    #[test]
    fn turns_that_were_not_drawn_prove_nothing() {
        let mut all = Evidence::default();
        (0..500).for_each(|n| all.see(n, false, 0.0, true, 1));
        assert!((all.for_help() - 1.0).abs() < 1e-9 && all.verdict() == Verdict::Open);
    }

    /// Conversations of three turns that hang together: each is as good or bad as the first is, with some chance.
    #[test]
    fn a_bet_on_nothing_is_not_expected_to_grow() {
        for rate in [0.02, 0.3, 0.5, 0.77, 0.98] {
            for share in [0.05, 0.2, 0.5] {
                for same in [0.0, 0.6, 1.0] {
                    let mut expected = 0.0;
                    for (held_out, chance) in [(false, 1.0 - share), (true, share)] {
                        for outcomes in 0..8u32 {
                            let turns = [0, 1, 2].map(|turn| outcomes >> turn & 1 == 1);
                            let of = |good: bool| if good { rate } else { 1.0 - rate };
                            let like =
                                |good: bool| same * f64::from(u8::from(good == turns[0])) + (1.0 - same) * of(good);
                            let likely = of(turns[0]) * like(turns[1]) * like(turns[2]);
                            let mut one = Evidence::default();
                            turns.iter().for_each(|good| one.see(7, held_out, share, *good, 0));
                            expected += chance * likely * one.for_help();
                        }
                    }
                    assert!((expected - 1.0).abs() < 1e-9, "rate {rate}, share {share}, same {same}: {expected}");
                }
            }
        }
    }

    #[test]
    fn one_long_conversation_proves_little() {
        let mut all = Evidence::default();
        (0..200).for_each(|_| all.see(1, false, 0.2, true, 0));
        assert!(all.for_help() <= 1.25 + 1e-9 && all.verdict() == Verdict::Open, "{}", all.for_help());
    }
}
