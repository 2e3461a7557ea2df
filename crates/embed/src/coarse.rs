//! Many vectors at a glance: of each only the signs of its numbers, turned so that every sign tells as much as another. An
//! eighth of the packed room, a few nanoseconds a vector; whoever is among the best here is looked at whole.
//!
//! The estimate is RaBitQ's (Gao and Long 2024, <https://arxiv.org/abs/2405.12497>): beside the signs stands the number that
//! makes their product with a question right on average. Vectors that have much in common are told apart better without it.

use crate::Vector;
use crate::wide::{Loop, wide};

/// Signs kept of longer vectors.
const MOST: usize = 512;
/// Bits of a question's number.
const PLANES: usize = 4;
/// Step of the number beside the signs, which lies between 0 and 4.
const STEP: f32 = 4.0 / 65535.0;
/// Seed of the turn.
const SEED: u64 = 0x5eed_0f5e_ed0f_5eed;

/// How vectors of one width are turned.
#[derive(Debug, Clone)]
pub struct Frame {
    width: usize,
    signs: usize,
    flips: Vec<Vec<f32>>,
}

impl Frame {
    /// For vectors of so many numbers.
    pub fn new(width: usize) -> Self {
        let mut random = SEED;
        let mut flip = || {
            // SplitMix64.
            random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = random;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            if (z ^ (z >> 31)) & 1 == 0 { 1.0 } else { -1.0 }
        };
        let flips = (0..4).map(|_| (0..width).map(|_| flip()).collect()).collect();
        Self { width, signs: width.min(MOST), flips }
    }

    /// Numbers of its vectors.
    pub fn width(&self) -> usize {
        self.width
    }

    fn words(&self) -> usize {
        self.signs.div_ceil(64)
    }

    /// A vector, turned.
    fn turned(&self, vector: &[f32]) -> Vec<f32> {
        let mut numbers = vector.to_vec();
        let width = numbers.len();
        let Some(power) = width.checked_ilog2() else { return numbers };
        let part = 1 << power;
        for (round, flips) in self.flips.iter().enumerate() {
            numbers.iter_mut().zip(flips).for_each(|(x, flip)| *x *= flip);
            // The beginning and the end by turns: together they reach every number.
            let start = if round % 2 == 0 { 0 } else { width - part };
            hadamard(&mut numbers[start..start + part]);
        }
        numbers
    }
}

/// The Walsh–Hadamard transform, as a rotation; the length is a power of two.
fn hadamard(numbers: &mut [f32]) {
    let mut half = 1;
    while half < numbers.len() {
        for pair in numbers.chunks_exact_mut(2 * half) {
            let (a, b) = pair.split_at_mut(half);
            for (a, b) in a.iter_mut().zip(b) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    let scale = (numbers.len() as f32).sqrt().recip();
    numbers.iter_mut().for_each(|x| *x *= scale);
}

/// Vectors by their signs, in the order in which they came.
#[derive(Debug, Clone, Default)]
pub struct Coarse {
    bits: Vec<u64>,
    /// What the product with the signs is multiplied by.
    beside: Vec<u16>,
}

impl Coarse {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.beside.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.beside.is_empty()
    }

    /// Adds one; nothing is added of another width.
    pub fn push(&mut self, frame: &Frame, vector: &Vector) {
        if vector.numbers().len() != frame.width() {
            return;
        }
        let turned = frame.turned(vector.numbers());
        let kept = &turned[..frame.signs];
        let at = self.bits.len();
        self.bits.resize(at + frame.words(), 0);
        for (place, x) in kept.iter().enumerate() {
            if *x >= 0.0 {
                self.bits[at + place / 64] |= 1 << (place % 64);
            }
        }
        let (square, sum) = kept.iter().fold((0.0, 0.0), |(square, sum), x| (square + x * x, sum + x.abs()));
        let whole = frame.width() as f32 / frame.signs.max(1) as f32;
        // In units that do not depend on how many numbers there are.
        let factor = if sum > 0.0 { whole * square / sum * (frame.signs as f32).sqrt() } else { 0.0 };
        self.beside.push((factor / STEP).round().clamp(0.0, 65535.0) as u16);
    }

    /// About the cosine of each with the question, told in their order.
    pub fn look(&self, question: &Glance, found: impl FnMut(usize, f32)) {
        if question.words > 0 {
            wide(Look { all: self, question, found });
        }
    }
}

/// A question, made ready to be compared with many.
#[derive(Debug, Clone)]
pub struct Glance {
    words: usize,
    /// For each word, one mask per bit of the numbers.
    planes: Vec<[u64; PLANES]>,
    least: f32,
    step: f32,
    sum: f32,
    unit: f32,
}

impl Glance {
    /// Of a question; `None` if it is of another width.
    pub fn new(frame: &Frame, question: &Vector) -> Option<Self> {
        let width = question.numbers().len();
        if width != frame.width() || width == 0 {
            return None;
        }
        let turned = frame.turned(question.numbers());
        let kept = &turned[..frame.signs];
        let (least, most) = kept.iter().fold((f32::MAX, f32::MIN), |(least, most), x| (least.min(*x), most.max(*x)));
        let levels = ((1 << PLANES) - 1) as f32;
        let step = ((most - least) / levels).max(f32::MIN_POSITIVE);
        let mut planes = vec![[0; PLANES]; frame.words()];
        for (place, x) in kept.iter().enumerate() {
            let level = ((x - least) / step).round().clamp(0.0, levels) as u64;
            for (bit, plane) in planes[place / 64].iter_mut().enumerate() {
                *plane |= (level >> bit & 1) << (place % 64);
            }
        }
        Some(Self {
            words: frame.words(),
            planes,
            least,
            step,
            sum: kept.iter().sum(),
            unit: STEP / (kept.len() as f32).sqrt(),
        })
    }
}

struct Look<'a, F> {
    all: &'a Coarse,
    question: &'a Glance,
    found: F,
}

impl<F: FnMut(usize, f32)> Loop for Look<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { all, question, mut found } = self;
        let rows = all.bits.chunks_exact(question.words).zip(&all.beside);
        for (at, (bits, factor)) in rows.enumerate() {
            let (mut set, mut level) = (0, 0);
            for (bits, planes) in bits.iter().zip(&question.planes) {
                set += bits.count_ones();
                for (bit, plane) in planes.iter().enumerate() {
                    level += (bits & plane).count_ones() << bit;
                }
            }
            // The sum over the numbers whose sign is set, and from it that over all of them with their signs.
            let with = question.step * level as f32 + question.least * set as f32;
            let product = 2.0 * with - question.sum;
            found(at, product * f32::from(*factor) * question.unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dot;
    use proptest::prelude::*;

    fn numbers(seed: u64, width: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        // Twelve of them are nearly normal.
        (0..width).map(|_| (0..12).map(|_| next()).sum()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_glance_is_near_the_cosine(width in 1..700_usize, seed in any::<u32>()) {
            let frame = Frame::new(width);
            let one = |n: u64| Vector::of(numbers(u64::from(seed) + n, width));
            let question = one(1);
            let glance = Glance::new(&frame, &question).unwrap();
            let mut coarse = Coarse::default();
            let all: Vec<Vector> = (2..40).map(one).collect();
            all.iter().for_each(|vector| coarse.push(&frame, vector));
            prop_assert_eq!(coarse.len(), all.len());
            let mut seen = 0;
            let mut wrong = 0.0;
            coarse.look(&glance, |at, about| {
                wrong += (about - dot(&question, &all[at])).abs();
                seen += 1;
            });
            prop_assert_eq!(seen, all.len());
            // A sign says less of fewer numbers.
            prop_assert!(wrong / (seen as f32) < 1.0 / (width.min(MOST) as f32).sqrt(), "{} of {}", wrong / seen as f32, width);
        }
    }

    #[test]
    fn the_best_is_among_the_best_at_a_glance() {
        let width = 384;
        let frame = Frame::new(width);
        let all: Vec<Vector> = (0..5000).map(|n| Vector::of(numbers(1000 + n, width))).collect();
        let mut coarse = Coarse::default();
        all.iter().for_each(|vector| coarse.push(&frame, vector));
        for asked in 0..40 {
            // Near one of them.
            let (near, noise) = (all[asked * 100].numbers(), Vector::of(numbers(50 + asked as u64, width)));
            let question = Vector::of(near.iter().zip(noise.numbers()).map(|(x, n)| x + 2.0 * n).collect());
            let glance = Glance::new(&frame, &question).unwrap();
            let mut about = Vec::new();
            coarse.look(&glance, |at, cosine| about.push((at, cosine)));
            about.sort_by(|a, b| b.1.total_cmp(&a.1));
            assert!(about[..20].iter().any(|(at, _)| *at == asked * 100), "{asked}");
        }
    }

    #[test]
    fn another_width_is_left_alone() {
        let frame = Frame::new(8);
        let mut coarse = Coarse::default();
        coarse.push(&frame, &Vector::of(vec![1.0; 9]));
        assert!(coarse.is_empty() && Glance::new(&frame, &Vector::of(vec![1.0; 7])).is_none());
    }
}
