//! Loops over numbers, compiled twice: for processors with AVX2 and FMA, chosen at run time, and for all others.

/// A loop that is worth the wide registers. `FMA` says whether multiply-and-add is one instruction.
pub(crate) trait Loop {
    /// What it leaves.
    type Output;
    /// Runs it.
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

/// `a * b + c`
#[inline(always)]
pub(crate) fn add_product<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// e to the power of `x`, within two units of the last place; 0 below -87.
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0;
    let x = x.clamp(-104.0, 88.0);
    let power = add_product::<FMA>(x, std::f32::consts::LOG2_E, MAGIC);
    let whole = power - MAGIC;
    let rest = add_product::<FMA>(whole, -0.693_359_4, x);
    let rest = add_product::<FMA>(whole, 2.121_944_4e-4, rest);
    let mut sum = 1.987_569_1e-4;
    for factor in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        sum = add_product::<FMA>(sum, rest, factor);
    }
    let sum = add_product::<FMA>(sum, rest * rest, rest) + 1.0;
    // The exponent goes straight to its place; what would be below the normal numbers is nothing.
    let exponent = (power.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32);
    let scale = f32::from_bits(((exponent.max(-127) + 127) << 23) as u32);
    sum * scale
}

/// Scales each row of `columns` numbers to length one and weighs it.
pub(crate) struct Norm<'a> {
    pub(crate) rows: &'a mut [f32],
    pub(crate) weights: &'a [f32],
    pub(crate) eps: f32,
}

impl Loop for Norm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for row in self.rows.chunks_exact_mut(self.weights.len()) {
            let mut sums = [0.0_f64; 8];
            let mut eights = row.chunks_exact(8);
            for eight in eights.by_ref() {
                for (sum, x) in sums.iter_mut().zip(eight) {
                    *sum += f64::from(x * x);
                }
            }
            let rest: f64 = eights.remainder().iter().map(|x| f64::from(x * x)).sum();
            let mean = (sums.iter().sum::<f64>() + rest) / row.len() as f64;
            let scale = 1.0 / (mean as f32 + self.eps).sqrt();
            for (x, weight) in row.iter_mut().zip(self.weights) {
                *x = *x * scale * weight;
            }
        }
    }
}

/// `gate` becomes `silu(gate) * up`.
pub(crate) struct Silu<'a> {
    pub(crate) gate: &'a mut [f32],
    pub(crate) up: &'a [f32],
}

impl Loop for Silu<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (gate, up) in self.gate.iter_mut().zip(self.up) {
            *gate = *gate / (1.0 + exp::<FMA>(-*gate)) * up;
        }
    }
}

/// Makes shares of scores; their sum is one.
pub(crate) struct Softmax<'a> {
    pub(crate) scores: &'a mut [f32],
    pub(crate) scale: f32,
}

impl Loop for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let scale = self.scale;
        let mut most = [f32::NEG_INFINITY; 8];
        let mut eights = self.scores.chunks_exact(8);
        for eight in eights.by_ref() {
            for (most, x) in most.iter_mut().zip(eight) {
                *most = most.max(*x);
            }
        }
        let most = eights.remainder().iter().chain(&most).fold(f32::NEG_INFINITY, |most, x| most.max(*x));
        let mut sums = [0.0_f32; 8];
        let mut eights = self.scores.chunks_exact_mut(8);
        for eight in eights.by_ref() {
            for (sum, x) in sums.iter_mut().zip(eight) {
                *x = exp::<FMA>((*x - most) * scale);
                *sum += *x;
            }
        }
        let mut all: f32 = sums.iter().sum();
        for x in eights.into_remainder() {
            *x = exp::<FMA>((*x - most) * scale);
            all += *x;
        }
        let share = 1.0 / all;
        for x in self.scores {
            *x *= share;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_power_of_e_is_right_to_the_last_places() {
        for step in -8_600..=8_700 {
            let x = step as f32 / 100.0;
            let (is, should) = (exp::<false>(x), x.exp());
            assert!((is - should).abs() <= should * 3e-7, "{x}: {is} {should}");
        }
        assert_eq!(exp::<false>(-200.0), 0.0);
        assert_eq!(exp::<false>(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp::<false>(0.0), 1.0);
    }

    #[test]
    fn shares_add_up_to_one_and_keep_their_order() {
        let mut scores: Vec<f32> = (0..21).map(|x| x as f32 / 3.0).collect();
        wide(Softmax { scores: &mut scores, scale: 1.0 });
        assert!((scores.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert!(scores.is_sorted());
        assert!((scores[20] / scores[17] - std::f32::consts::E).abs() < 1e-4);
    }
}
