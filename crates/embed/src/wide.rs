//! Loops over numbers, compiled twice: for processors with AVX2 and FMA, found out at run time, and for all others.

/// A loop that is worth the wide registers. `FMA` says whether multiply-and-add is one instruction.
pub(crate) trait Loop {
    type Output;
    fn run<const FMA: bool>(self) -> Self::Output;
}

/// Runs a loop in the widest form the processor has.
#[inline]
pub(crate) fn wide<L: Loop>(work: L) -> L::Output {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return simd.vectorize(Fused(work));
    }
    work.run::<false>()
}

#[cfg(target_arch = "x86_64")]
struct Fused<L>(L);

#[cfg(target_arch = "x86_64")]
impl<L: Loop> pulp::NullaryFnOnce for Fused<L> {
    type Output = L::Output;

    #[inline(always)]
    fn call(self) -> L::Output {
        self.0.run::<true>()
    }
}

const LANES: usize = 8;
type Lanes = [f32; LANES];

#[inline(always)]
fn add_products<const FMA: bool>(sum: &mut Lanes, a: &Lanes, b: &Lanes) {
    for lane in 0..LANES {
        sum[lane] = if FMA { a[lane].mul_add(b[lane], sum[lane]) } else { a[lane] * b[lane] + sum[lane] };
    }
}

#[inline(always)]
fn lanes(numbers: &[f32]) -> (&[Lanes], &[f32]) {
    numbers.as_chunks::<LANES>()
}

/// The products of `R` rows with `T` tokens, all of one length.
#[inline(always)]
fn tile<const R: usize, const T: usize, const FMA: bool>(rows: [&[f32]; R], tokens: [&[f32]; T]) -> [[f32; T]; R] {
    let mut sums = [[[0.0; LANES]; T]; R];
    let (whole_rows, whole_tokens) = (rows.map(|row| lanes(row).0), tokens.map(|token| lanes(token).0));
    let steps = whole_rows.iter().chain(&whole_tokens).map(|lanes| lanes.len()).min().unwrap_or(0);
    let whole_rows = whole_rows.map(|row| &row[..steps]);
    let whole_tokens = whole_tokens.map(|token| &token[..steps]);
    for step in 0..steps {
        for r in 0..R {
            for t in 0..T {
                add_products::<FMA>(&mut sums[r][t], &whole_rows[r][step], &whole_tokens[t][step]);
            }
        }
    }
    let mut out = [[0.0; T]; R];
    for r in 0..R {
        for t in 0..T {
            let rest = lanes(rows[r]).1.iter().zip(lanes(tokens[t]).1).map(|(a, b)| a * b).sum::<f32>();
            out[r][t] = sums[r][t].iter().sum::<f32>() + rest;
        }
    }
    out
}

/// The scalar product of two rows of one length.
pub(crate) struct Dot<'a> {
    pub(crate) a: &'a [f32],
    pub(crate) b: &'a [f32],
}

impl Loop for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> f32 {
        tile::<1, 1, FMA>([self.a], [self.b])[0][0]
    }
}

/// The scalar product of a row with one of signed bytes.
pub(crate) struct Near<'a> {
    pub(crate) a: &'a [f32],
    pub(crate) b: &'a [u8],
}

impl Loop for Near<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> f32 {
        let (whole, rest) = lanes(self.a);
        let (bytes, last) = self.b.as_chunks::<LANES>();
        let mut sums = [0.0; LANES];
        for (a, b) in whole.iter().zip(bytes) {
            add_products::<FMA>(&mut sums, a, &b.map(|b| f32::from(b.cast_signed())));
        }
        let rest: f32 = rest.iter().zip(last).map(|(a, b)| a * f32::from(b.cast_signed())).sum();
        sums.iter().sum::<f32>() + rest
    }
}

/// The product of every row with every token; `out` has, for each row, a number per token.
pub(crate) struct Products<'a> {
    pub(crate) width: usize,
    pub(crate) rows: &'a [f32],
    pub(crate) tokens: &'a [f32],
    pub(crate) out: &'a mut [f32],
}

impl Loop for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let width = self.width;
        let count = self.tokens.len() / width;
        for (rows, out) in self.rows.chunks(2 * width).zip(self.out.chunks_mut(2 * count)) {
            let (first, second) = rows.split_at(width);
            let (out_first, out_second) = out.split_at_mut(count);
            let mut at = 0;
            if second.is_empty() {
                for (token, out) in self.tokens.chunks_exact(width).zip(out_first) {
                    *out = tile::<1, 1, FMA>([first], [token])[0][0];
                }
                continue;
            }
            let mut fours = self.tokens.chunks_exact(4 * width);
            for four in fours.by_ref() {
                let (a, b) = four.split_at(2 * width);
                let ((a, b), (c, d)) = (a.split_at(width), b.split_at(width));
                let [one, two] = tile::<2, 4, FMA>([first, second], [a, b, c, d]);
                out_first[at..at + 4].copy_from_slice(&one);
                out_second[at..at + 4].copy_from_slice(&two);
                at += 4;
            }
            for token in fours.remainder().chunks_exact(width) {
                let [[one], [two]] = tile::<2, 1, FMA>([first, second], [token]);
                (out_first[at], out_second[at]) = (one, two);
                at += 1;
            }
        }
    }
}

/// e to the power of `x`, within a few units of the last place; 0 far below.
#[inline(always)]
fn exp<const FMA: bool>(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0;
    let fused = |a: f32, b: f32, c: f32| if FMA { a.mul_add(b, c) } else { a * b + c };
    let x = x.clamp(-87.0, 88.0);
    let power = fused(x, std::f32::consts::LOG2_E, ROUND);
    let whole = power - ROUND;
    // ln 2 in two parts, so that what is left is exact.
    let rest = fused(whole, -0.693_359_4, x);
    let rest = fused(whole, 2.121_944_4e-4, rest);
    let mut sum = 1.0 / 720.0;
    for factor in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = fused(sum, rest, factor);
    }
    let exponent = (power.to_bits().cast_signed()).wrapping_sub(ROUND.to_bits().cast_signed());
    sum * f32::from_bits(((exponent + 127) << 23).cast_unsigned())
}

/// `x` becomes `x Φ(x)`, the exact form of GELU: Φ by the error function of Abramowitz and Stegun, formula 7.1.26, whose
/// error is below 1.5e-7.
pub(crate) struct Gelu<'a>(pub(crate) &'a mut [f32]);

impl Loop for Gelu<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for x in self.0 {
            let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
            let t = 1.0 / (1.0 + 0.327_591_1 * z);
            let mut sum = 1.061_405_4;
            for factor in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
                sum = sum * t + factor;
            }
            let erf = 1.0 - sum * t * exp::<FMA>(-z * z);
            *x *= 0.5 * (1.0 + erf.copysign(*x));
        }
    }
}

/// Makes shares of scores; their sum is one.
pub(crate) struct Softmax<'a>(pub(crate) &'a mut [f32]);

impl Loop for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let most = self.0.iter().fold(f32::NEG_INFINITY, |most, x| most.max(*x));
        for x in self.0.iter_mut() {
            *x = exp::<FMA>(*x - most);
        }
        let sum: f32 = self.0.iter().sum();
        for x in self.0 {
            *x /= sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn products_are_those_of_plain_arithmetic(width in 1..40_usize, rows in 1..5_usize, tokens in 1..11_usize, seed in any::<u32>()) {
            let number = |i: usize| ((i as f32 + (seed % 997) as f32) * 0.37).sin();
            let a: Vec<f32> = (0..rows * width).map(number).collect();
            let b: Vec<f32> = (0..tokens * width).map(|i| number(i + 1000)).collect();
            let mut out = vec![0.0; rows * tokens];
            wide(Products { width, rows: &a, tokens: &b, out: &mut out });
            for r in 0..rows {
                for t in 0..tokens {
                    let plain: f32 = (0..width).map(|i| a[r * width + i] * b[t * width + i]).sum();
                    prop_assert!((out[r * tokens + t] - plain).abs() < 1e-4);
                }
            }
        }
    }

    #[test]
    fn gelu_is_near_its_definition() {
        // From tables of the normal distribution.
        for (x, wanted) in [(0.0, 0.0), (1.0, 0.841_344_7), (-1.0, -0.158_655_25), (3.0, 2.995_950_3), (-6.0, -5.9e-9)]
        {
            let mut values = [x; 9];
            wide(Gelu(&mut values));
            assert!(values.iter().all(|y| (y - wanted).abs() < 2e-6), "{x}: {values:?}");
        }
    }

    #[test]
    fn shares_add_up() {
        let mut values: Vec<f32> = (0..19).map(|i| i as f32 * 7.0 - 60.0).collect();
        wide(Softmax(&mut values));
        assert!((values.iter().sum::<f32>() - 1.0).abs() < 1e-5 && values[18] > 0.99);
    }
}
