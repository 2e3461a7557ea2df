//! A population of users and of learned skills with known effects: each conversation is drawn for or against a skill, its
//! turns end well or badly as the skill's effect, the user's day and the conversation itself say, and the gate is looked at after
//! every single turn.

use metaclaw_skills::proof::{Evidence, Verdict};

/// How a skill really is: what it adds to the rate of good turns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) effect: f64,
}

pub(crate) const KINDS: [Kind; 5] = [
    Kind { name: "very good (+25)", effect: 0.25 },
    Kind { name: "good (+15)", effect: 0.15 },
    Kind { name: "neutral (0)", effect: 0.0 },
    Kind { name: "harmful (−15)", effect: -0.15 },
    Kind { name: "very harmful (−25)", effect: -0.25 },
];

/// Chance of a turn to be held out, as the product has it.
pub(crate) const SHARE: f64 = 0.2;

/// What became of a skill, and after how many turns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fate {
    pub(crate) verdict: Verdict,
    pub(crate) turns: u32,
}

/// A small generator with a long period (xorshift64*): the same population on every machine.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn roll(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// One skill of a user whose tasks get easier and harder, in at most `most` turns that it fits; conversations have `long` such
/// turns on average.
pub(crate) fn live(kind: Kind, long: u32, seed: u64, most: u32) -> Fate {
    let mut dice = Dice::new(seed);
    // The first rolls of neighbouring seeds are alike.
    for _ in 0..8 {
        dice.roll();
    }
    let mut evidence = Evidence::default();
    // Users differ in how often a turn of theirs ends well without help, and so do their weeks.
    let home = 0.35 + 0.35 * dice.roll();
    let mut mood = 0.0f64;
    let (mut conversation, mut held_out, mut luck) = (0, false, 0.0);
    for turn in 1..=most {
        mood = (mood + 0.04 * (dice.roll() - 0.5)).clamp(-0.15, 0.15);
        if turn == 1 || dice.roll() < 1.0 / f64::from(long) {
            conversation += 1;
            held_out = dice.roll() < SHARE;
            // Turns of one conversation hang together.
            luck = if long > 1 { 0.2 * (dice.roll() - 0.5) } else { 0.0 };
        }
        let rate = home + mood + luck + if held_out { 0.0 } else { kind.effect };
        evidence.see(conversation, held_out, SHARE, dice.roll() < rate.clamp(0.01, 0.99), 300);
        // The bets after each turn; the slow look for skills without any use now and then, as it costs more.
        let verdict = if turn % 50 == 0 { evidence.verdict() } else { evidence.proven() };
        if verdict != Verdict::Open {
            return Fate { verdict, turns: turn };
        }
    }
    Fate { verdict: Verdict::Open, turns: most }
}

/// The share of fates with this verdict by a number of turns.
pub(crate) fn share(fates: &[Fate], verdict: Verdict, by: u32) -> f64 {
    fates.iter().filter(|fate| fate.verdict == verdict && fate.turns <= by).count() as f64 / fates.len() as f64
}
