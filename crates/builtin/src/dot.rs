//! Products of weights and activations: eight rows of weights against a few tokens at once. One form for processors with
//! AVX2, found out at run time, and one in plain arithmetic for all others; both give the same sums.

#![expect(clippy::needless_range_loop, reason = "rows and tokens index several arrays side by side")]

use crate::act::{Act, Act32, Act256};
use crate::blocks::{Block, Brain, Eight, Five, FiveK, Four, FourK, Half, ROWS, Single, SixK};
use crate::half::{f32_of, f32_of_bf16};

/// Sums of eight rows.
pub(crate) type Sums = [f32; ROWS];

/// A block that can be multiplied.
pub(crate) trait Dot: Block {
    /// What it is multiplied with.
    type Act: Act;

    /// Adds the products with `T` tokens to their sums.
    fn add_plain<const T: usize>(&self, acts: [&Self::Act; T], sums: &mut [Sums; T]);

    /// As [`Dot::add_plain`].
    #[cfg(target_arch = "x86_64")]
    fn add_avx2<const T: usize>(&self, simd: pulp::x86::V3, acts: [&Self::Act; T], sums: &mut [avx2::Eights; T]);
}

/// Multiplies groups of eight rows, `per_row` blocks each, with tokens of `per_row` activations each; the sums of one
/// group for all tokens lie together.
pub(crate) fn products<B: Dot>(blocks: &[B], acts: &[B::Act], per_row: usize, sums: &mut [Sums]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        simd.vectorize(avx2::Products { simd, blocks, acts, per_row, sums });
        return;
    }
    plain_products(blocks, acts, per_row, sums);
}

fn plain_products<B: Dot>(blocks: &[B], acts: &[B::Act], per_row: usize, sums: &mut [Sums]) {
    let tokens = acts.len() / per_row;
    for (blocks, sums) in blocks.chunks_exact(per_row).zip(sums.chunks_exact_mut(tokens)) {
        for (acts, sums) in acts.chunks_exact(per_row).zip(sums) {
            let mut all = [[0.0; ROWS]];
            for (block, act) in blocks.iter().zip(acts) {
                block.add_plain([act], &mut all);
            }
            *sums = all[0];
        }
    }
}

/// Four signed bytes.
fn signed(quad: i32) -> [i32; 4] {
    quad.to_le_bytes().map(|byte| i32::from(byte as i8))
}

/// Sums of a quad's four columns, row by row. `weight` reads one byte of it.
#[inline]
fn quad_sums(sums: &mut [i32; ROWS], quad: &[u8; 32], act: i32, weight: impl Fn(u8) -> i32) {
    let act = signed(act);
    for (sum, row) in sums.iter_mut().zip(quad.chunks_exact(4)) {
        for (byte, act) in row.iter().zip(act) {
            *sum += weight(*byte) * act;
        }
    }
}

fn low(byte: u8) -> i32 {
    i32::from(byte & 15)
}

fn high(byte: u8) -> i32 {
    i32::from(byte >> 4)
}

fn unsigned_byte(byte: u8) -> i32 {
    i32::from(byte)
}

fn signed_byte(byte: u8) -> i32 {
    i32::from(byte as i8)
}

fn nibble_sums(weights: &[[u8; 32]; 4], quads: &[i32; 8]) -> [i32; ROWS] {
    let mut sums = [0; ROWS];
    for (at, quad) in weights.iter().enumerate() {
        quad_sums(&mut sums, quad, quads[at], low);
        quad_sums(&mut sums, quad, quads[at + 4], high);
    }
    sums
}

fn byte_sums(weights: &[[u8; 32]], quads: &[i32], weight: fn(u8) -> i32) -> [i32; ROWS] {
    let mut sums = [0; ROWS];
    for (quad, act) in weights.iter().zip(quads) {
        quad_sums(&mut sums, quad, *act, weight);
    }
    sums
}

fn unsigned_sums(weights: &[[u8; 32]; 8], quads: &[i32; 8]) -> [i32; ROWS] {
    byte_sums(weights, quads, unsigned_byte)
}

impl<const CENTRED: bool> Dot for Four<CENTRED> {
    type Act = Act32;

    fn add_plain<const T: usize>(&self, acts: [&Act32; T], sums: &mut [Sums; T]) {
        for (act, sums) in acts.into_iter().zip(sums) {
            let products = nibble_sums(&self.weights, &act.quads);
            for row in 0..ROWS {
                let scale = f32_of(self.scale[row]) * act.step;
                if CENTRED {
                    sums[row] += scale * (products[row] - 8 * act.steps) as f32;
                } else {
                    sums[row] += scale * products[row] as f32 + f32_of(self.min[row]) * act.sum;
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn add_avx2<const T: usize>(&self, simd: pulp::x86::V3, acts: [&Act32; T], sums: &mut [avx2::Eights; T]) {
        let weights = avx2::nibbles(simd, &self.weights);
        let scale = avx2::halves(simd, self.scale);
        for token in 0..T {
            let act = acts[token];
            let products = avx2::small_sums(simd, &weights, &act.quads);
            if CENTRED {
                let centre = simd.avx._mm256_set1_epi32(8 * act.steps);
                let products = avx2::real(simd, simd.avx2._mm256_sub_epi32(products, centre));
                let scale = simd.avx._mm256_mul_ps(scale, simd.avx._mm256_set1_ps(act.step));
                sums[token] = simd.fma._mm256_fmadd_ps(scale, products, sums[token]);
            } else {
                let scale = simd.avx._mm256_mul_ps(scale, simd.avx._mm256_set1_ps(act.step));
                let min = avx2::halves(simd, self.min);
                sums[token] = simd.fma._mm256_fmadd_ps(min, simd.avx._mm256_set1_ps(act.sum), sums[token]);
                sums[token] = simd.fma._mm256_fmadd_ps(scale, avx2::real(simd, products), sums[token]);
            }
        }
    }
}

impl Dot for Five {
    type Act = Act32;

    fn add_plain<const T: usize>(&self, acts: [&Act32; T], sums: &mut [Sums; T]) {
        for (act, sums) in acts.into_iter().zip(sums) {
            let products = byte_sums(&self.weights, &act.quads, unsigned_byte);
            for row in 0..ROWS {
                let scale = f32_of(self.scale[row]) * act.step;
                sums[row] += scale * products[row] as f32 + f32_of(self.min[row]) * act.sum;
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn add_avx2<const T: usize>(&self, simd: pulp::x86::V3, acts: [&Act32; T], sums: &mut [avx2::Eights; T]) {
        let scale = avx2::halves(simd, self.scale);
        let min = avx2::halves(simd, self.min);
        for token in 0..T {
            let act = acts[token];
            let products = avx2::five_bit_sums(simd, &self.weights, &act.quads);
            let scale = simd.avx._mm256_mul_ps(scale, simd.avx._mm256_set1_ps(act.step));
            sums[token] = simd.fma._mm256_fmadd_ps(min, simd.avx._mm256_set1_ps(act.sum), sums[token]);
            sums[token] = simd.fma._mm256_fmadd_ps(scale, avx2::real(simd, products), sums[token]);
        }
    }
}

impl Dot for Eight {
    type Act = Act32;

    fn add_plain<const T: usize>(&self, acts: [&Act32; T], sums: &mut [Sums; T]) {
        for (act, sums) in acts.into_iter().zip(sums) {
            let products = byte_sums(&self.weights, &act.quads, signed_byte);
            for row in 0..ROWS {
                sums[row] += f32_of(self.scale[row]) * act.step * products[row] as f32;
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn add_avx2<const T: usize>(&self, simd: pulp::x86::V3, acts: [&Act32; T], sums: &mut [avx2::Eights; T]) {
        let scale = avx2::halves(simd, self.scale);
        for token in 0..T {
            let act = acts[token];
            let products = avx2::signed_sums(simd, &self.weights, &act.quads);
            let scale = simd.avx._mm256_mul_ps(scale, simd.avx._mm256_set1_ps(act.step));
            sums[token] = simd.fma._mm256_fmadd_ps(scale, avx2::real(simd, products), sums[token]);
        }
    }
}

/// The two formats with a minimum for each of their eight parts differ only in how a part's products are summed.
macro_rules! with_mins {
    ($name:ident, $plain:expr, $load:expr, $avx2:expr) => {
        impl Dot for $name {
            type Act = Act256;

            fn add_plain<const T: usize>(&self, acts: [&Act256; T], sums: &mut [Sums; T]) {
                for (act, sums) in acts.into_iter().zip(sums) {
                    for part in 0..8 {
                        let products: [i32; ROWS] = $plain(&self.weights[part], &act.quads[part]);
                        for row in 0..ROWS {
                            let scale = f32_of(self.scale[row]) * act.step * f32::from(self.scales[part][row]);
                            let min = f32_of(self.min[row]) * act.step * f32::from(self.mins[part][row]);
                            sums[row] += scale * products[row] as f32 - min * act.sums[part];
                        }
                    }
                }
            }

            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn add_avx2<const T: usize>(&self, simd: pulp::x86::V3, acts: [&Act256; T], sums: &mut [avx2::Eights; T]) {
                let zero = simd.avx._mm256_set1_ps(0.0);
                let (mut scaled, mut below) = ([zero; T], [zero; T]);
                for part in 0..8 {
                    let weights = $load(simd, &self.weights[part]);
                    let scale = avx2::bytes(simd, self.scales[part]);
                    let min = avx2::bytes(simd, self.mins[part]);
                    for token in 0..T {
                        let act = acts[token];
                        let products = avx2::real(simd, $avx2(simd, &weights, &act.quads[part]));
                        scaled[token] = simd.fma._mm256_fmadd_ps(scale, products, scaled[token]);
                        let sum = simd.avx._mm256_set1_ps(act.sums[part]);
                        below[token] = simd.fma._mm256_fmadd_ps(min, sum, below[token]);
                    }
                }
                let scale = avx2::halves(simd, self.scale);
                let min = avx2::halves(simd, self.min);
                for token in 0..T {
                    let step = simd.avx._mm256_set1_ps(acts[token].step);
                    let scale = simd.avx._mm256_mul_ps(scale, step);
                    let min = simd.avx._mm256_mul_ps(min, step);
                    sums[token] = simd.fma._mm256_fmadd_ps(scale, scaled[token], sums[token]);
                    sums[token] = simd.fma._mm256_fnmadd_ps(min, below[token], sums[token]);
                }
            }
        }
    };
}

with_mins!(FourK, nibble_sums, avx2::nibbles, avx2::small_sums);
with_mins!(FiveK, unsigned_sums, avx2::whole, avx2::five_bit_sums);

impl Dot for SixK {
    type Act = Act256;

    fn add_plain<const T: usize>(&self, acts: [&Act256; T], sums: &mut [Sums; T]) {
        for (act, sums) in acts.into_iter().zip(sums) {
            for part in 0..16 {
                let (whole, from) = (part / 2, part % 2 * 4);
                let products =
                    byte_sums(&self.weights[whole][from..from + 4], &act.quads[whole][from..from + 4], signed_byte);
                for row in 0..ROWS {
                    let scale = f32_of(self.scale[row]) * act.step * f32::from(self.scales[part][row] as i8);
                    sums[row] += scale * products[row] as f32;
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn add_avx2<const T: usize>(&self, simd: pulp::x86::V3, acts: [&Act256; T], sums: &mut [avx2::Eights; T]) {
        let mut scaled = [simd.avx._mm256_set1_ps(0.0); T];
        for part in 0..16 {
            let (whole, from) = (part / 2, part % 2 * 4);
            let scale = avx2::signed_bytes(simd, self.scales[part]);
            let weights = &self.weights[whole][from..from + 4];
            for token in 0..T {
                let quads = &acts[token].quads[whole][from..from + 4];
                let products = avx2::real(simd, avx2::signed_sums(simd, weights, quads));
                scaled[token] = simd.fma._mm256_fmadd_ps(scale, products, scaled[token]);
            }
        }
        let scale = avx2::halves(simd, self.scale);
        for token in 0..T {
            let scale = simd.avx._mm256_mul_ps(scale, simd.avx._mm256_set1_ps(acts[token].step));
            sums[token] = simd.fma._mm256_fmadd_ps(scale, scaled[token], sums[token]);
        }
    }
}

macro_rules! numbers {
    ($name:ident, $value:expr, $load:expr) => {
        impl Dot for $name {
            type Act = f32;

            fn add_plain<const T: usize>(&self, acts: [&f32; T], sums: &mut [Sums; T]) {
                for (act, sums) in acts.into_iter().zip(sums) {
                    for (sum, weight) in sums.iter_mut().zip(self.0) {
                        *sum += $value(weight) * act;
                    }
                }
            }

            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn add_avx2<const T: usize>(&self, simd: pulp::x86::V3, acts: [&f32; T], sums: &mut [avx2::Eights; T]) {
                let weights = $load(simd, self.0);
                for token in 0..T {
                    let act = simd.avx._mm256_set1_ps(*acts[token]);
                    sums[token] = simd.fma._mm256_fmadd_ps(weights, act, sums[token]);
                }
            }
        }
    };
}

numbers!(Half, f32_of, avx2::halves);
numbers!(Brain, f32_of_bf16, avx2::brains);
numbers!(Single, |weight: f32| weight, avx2::singles);

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2 {
    //! Eight rows in one vector.

    use std::arch::x86_64::{__m128i, __m256, __m256i};

    use pulp::x86::V3;
    use pulp::{NullaryFnOnce, cast};

    use super::{Dot, ROWS, Sums};

    /// The sums of eight rows.
    pub(crate) type Eights = __m256;

    /// Tokens that share one reading of the weights.
    const TILE: usize = 4;

    pub(super) struct Products<'a, B: Dot> {
        pub(super) simd: V3,
        pub(super) blocks: &'a [B],
        pub(super) acts: &'a [B::Act],
        pub(super) per_row: usize,
        pub(super) sums: &'a mut [Sums],
    }

    impl<B: Dot> NullaryFnOnce for Products<'_, B> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Self { simd, blocks, acts, per_row, sums } = self;
            let tokens = acts.len() / per_row;
            for (blocks, sums) in blocks.chunks_exact(per_row).zip(sums.chunks_exact_mut(tokens)) {
                let mut acts = acts.chunks_exact(per_row * TILE);
                let mut all = sums.chunks_exact_mut(TILE);
                for (acts, sums) in acts.by_ref().zip(all.by_ref()) {
                    let of = |at: usize| &acts[at * per_row..(at + 1) * per_row];
                    let tile = [of(0), of(1), of(2), of(3)];
                    let tile = row::<B, TILE>(simd, blocks, tile);
                    for token in 0..TILE {
                        sums[token] = cast(tile[token]);
                    }
                }
                for (acts, sums) in acts.remainder().chunks_exact(per_row).zip(all.into_remainder()) {
                    *sums = cast(row::<B, 1>(simd, blocks, [acts])[0]);
                }
            }
        }
    }

    #[inline(always)]
    fn row<B: Dot, const T: usize>(simd: V3, blocks: &[B], acts: [&[B::Act]; T]) -> [Eights; T] {
        let mut sums = [simd.avx._mm256_set1_ps(0.0); T];
        for at in 0..blocks.len() {
            let mut here = [&acts[0][at]; T];
            for token in 1..T {
                here[token] = &acts[token][at];
            }
            blocks[at].add_avx2(simd, here, &mut sums);
        }
        sums
    }

    /// Half-precision numbers as single-precision ones.
    #[inline(always)]
    pub(super) fn halves(simd: V3, halves: [u16; ROWS]) -> __m256 {
        let wide = simd.avx2._mm256_cvtepu16_epi32(cast::<_, __m128i>(halves));
        let moved = simd.avx2._mm256_srai_epi32::<3>(simd.avx2._mm256_slli_epi32::<16>(wide));
        let moved = simd.avx2._mm256_and_si256(moved, simd.avx._mm256_set1_epi32(0x8fff_e000_u32 as i32));
        simd.avx._mm256_mul_ps(cast(moved), simd.avx._mm256_set1_ps(f32::from_bits(0x7780_0000)))
    }

    #[inline(always)]
    pub(super) fn brains(simd: V3, halves: [u16; ROWS]) -> __m256 {
        let wide = simd.avx2._mm256_cvtepu16_epi32(cast::<_, __m128i>(halves));
        cast(simd.avx2._mm256_slli_epi32::<16>(wide))
    }

    #[inline(always)]
    pub(super) fn singles(_simd: V3, singles: [f32; ROWS]) -> __m256 {
        cast(singles)
    }

    #[inline(always)]
    pub(super) fn bytes(simd: V3, bytes: [u8; ROWS]) -> __m256 {
        let wide: __m128i = cast([u64::from_le_bytes(bytes), 0]);
        real(simd, simd.avx2._mm256_cvtepu8_epi32(wide))
    }

    #[inline(always)]
    pub(super) fn signed_bytes(simd: V3, bytes: [u8; ROWS]) -> __m256 {
        let wide: __m128i = cast([u64::from_le_bytes(bytes), 0]);
        real(simd, simd.avx2._mm256_cvtepi8_epi32(wide))
    }

    #[inline(always)]
    pub(super) fn real(simd: V3, whole: __m256i) -> __m256 {
        simd.avx._mm256_cvtepi32_ps(whole)
    }

    /// The eight quads of packed four-bit weights.
    #[inline(always)]
    pub(super) fn nibbles(simd: V3, packed: &[[u8; 32]; 4]) -> [__m256i; 8] {
        let mask = simd.avx._mm256_set1_epi8(15);
        let mut quads = [mask; 8];
        for at in 0..4 {
            let quad: __m256i = cast(packed[at]);
            quads[at] = simd.avx2._mm256_and_si256(quad, mask);
            quads[at + 4] = simd.avx2._mm256_and_si256(simd.avx2._mm256_srli_epi16::<4>(quad), mask);
        }
        quads
    }

    /// Weights that are bytes already.
    #[inline(always)]
    pub(super) fn whole(_simd: V3, weights: &[[u8; 32]; 8]) -> [[u8; 32]; 8] {
        *weights
    }

    /// The products of four columns, two and two added.
    #[inline(always)]
    fn product(simd: V3, weights: __m256i, quad: i32) -> __m256i {
        simd.avx2._mm256_maddubs_epi16(weights, simd.avx._mm256_set1_epi32(quad))
    }

    #[inline(always)]
    fn add(simd: V3, a: __m256i, b: __m256i) -> __m256i {
        simd.avx2._mm256_add_epi16(a, b)
    }

    /// Sums of four-bit weights: all 32 columns fit sixteen bits (8 · 2 · 15 · 127).
    #[inline(always)]
    pub(super) fn small_sums(simd: V3, weights: &[__m256i; 8], quads: &[i32; 8]) -> __m256i {
        let mut first = product(simd, weights[0], quads[0]);
        let mut second = product(simd, weights[1], quads[1]);
        for pair in 1..4 {
            first = add(simd, first, product(simd, weights[pair * 2], quads[pair * 2]));
            second = add(simd, second, product(simd, weights[pair * 2 + 1], quads[pair * 2 + 1]));
        }
        simd.avx2._mm256_madd_epi16(add(simd, first, second), simd.avx._mm256_set1_epi16(1))
    }

    /// Sums of five-bit weights: 16 columns fit sixteen bits (4 · 2 · 31 · 127).
    #[inline(always)]
    pub(super) fn five_bit_sums(simd: V3, weights: &[[u8; 32]; 8], quads: &[i32; 8]) -> __m256i {
        let mut halves = [simd.avx._mm256_set1_epi16(0); 2];
        for half in 0..2 {
            for at in half * 4..half * 4 + 4 {
                halves[half] = add(simd, halves[half], product(simd, cast(weights[at]), quads[at]));
            }
            halves[half] = simd.avx2._mm256_madd_epi16(halves[half], simd.avx._mm256_set1_epi16(1));
        }
        simd.avx2._mm256_add_epi32(halves[0], halves[1])
    }

    /// Sums of signed weights. Two columns fit sixteen bits (2 · 128 · 127); the sign moves to the activations.
    #[inline(always)]
    pub(super) fn signed_sums(simd: V3, weights: &[[u8; 32]], quads: &[i32]) -> __m256i {
        let one = simd.avx._mm256_set1_epi16(1);
        let mut sums = simd.avx._mm256_set1_epi32(0);
        let quads = &quads[..weights.len()];
        for at in 0..weights.len() {
            let quad: __m256i = cast(weights[at]);
            let act = simd.avx2._mm256_sign_epi8(simd.avx._mm256_set1_epi32(quads[at]), quad);
            let products = simd.avx2._mm256_maddubs_epi16(simd.avx2._mm256_abs_epi8(quad), act);
            sums = simd.avx2._mm256_add_epi32(sums, simd.avx2._mm256_madd_epi16(products, one));
        }
        sums
    }
}
