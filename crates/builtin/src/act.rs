//! What goes into a product: rows of numbers, rounded to eight bits where the weights are quantised too, in the way that
//! llama.cpp rounds them, so that answers agree.

use crate::half::rounded;

/// 32 numbers in eight bits; four columns to a whole number, the first in its lowest byte.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Act32 {
    pub(crate) quads: [i32; 8],
    /// What one step is worth.
    pub(crate) step: f32,
    /// The sum of the numbers, with the precision it has in the file format.
    pub(crate) sum: f32,
    /// The sum in steps.
    pub(crate) steps: i32,
}

/// 256 numbers in eight bits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Act256 {
    pub(crate) quads: [[i32; 8]; 8],
    pub(crate) step: f32,
    /// The sums of the 32s, in steps.
    pub(crate) sums: [f32; 8],
}

/// A form of the numbers that go into a product.
pub(crate) trait Act: Copy + Default + Send + Sync + 'static {
    /// How many numbers one holds.
    const COLUMNS: usize;
    /// From as many numbers.
    fn of(numbers: &[f32]) -> Self;
}

/// Rounds as the processor does, to even.
#[inline(always)]
fn nearest(x: f32) -> i32 {
    // Adding 1.5 · 2^23 leaves no room for a fraction.
    const MAGIC: f32 = 12_582_912.0;
    (x + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()) as i32
}

#[inline(always)]
fn quad(four: &[f32], factor: f32, sum: &mut i32) -> i32 {
    let mut packed = 0;
    for (at, x) in four.iter().enumerate() {
        // Within the limits by itself, unless damaged weights led to what is no number.
        let step = nearest(x * factor).clamp(-127, 127);
        *sum += step;
        packed |= (step & 0xff) << (8 * at);
    }
    packed
}

impl Act for Act32 {
    const COLUMNS: usize = 32;

    #[inline(always)]
    fn of(numbers: &[f32]) -> Self {
        let most = numbers.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let step = most / 127.0;
        let factor = if most > 0.0 { 127.0 / most } else { 0.0 };
        let mut made = Self { step: rounded(step), ..Self::default() };
        for (to, four) in made.quads.iter_mut().zip(numbers.chunks_exact(4)) {
            *to = quad(four, factor, &mut made.steps);
        }
        made.sum = rounded(step * made.steps as f32);
        made
    }
}

impl Act for Act256 {
    const COLUMNS: usize = 256;

    #[inline(always)]
    fn of(numbers: &[f32]) -> Self {
        let (mut most, mut signed) = (0.0_f32, 0.0_f32);
        for x in numbers {
            if x.abs() > most {
                (most, signed) = (x.abs(), *x);
            }
        }
        let mut made = Self::default();
        if most == 0.0 {
            return made;
        }
        // The largest number becomes -127 or 127 exactly.
        let factor = -127.0 / signed;
        made.step = 1.0 / factor;
        for (part, numbers) in numbers.chunks_exact(32).enumerate() {
            let mut steps = 0;
            for (to, four) in made.quads[part].iter_mut().zip(numbers.chunks_exact(4)) {
                *to = quad(four, factor, &mut steps);
            }
            made.sums[part] = steps as f32;
        }
        made
    }
}

impl Act for f32 {
    const COLUMNS: usize = 1;

    #[inline(always)]
    fn of(numbers: &[f32]) -> Self {
        numbers[0]
    }
}
