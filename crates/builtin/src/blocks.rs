//! Weights as they lie in memory: eight rows side by side, so that one vector holds the same columns of eight rows and
//! sums never have to be added up across it. Made from the bytes of a GGUF tensor; numbers stay exactly what they were.

use crate::half::{f32_of, f32_of_bf16};

/// Rows that lie side by side.
pub(crate) const ROWS: usize = 8;

/// Four columns of eight rows, a byte each.
pub(crate) type Quad = [u8; 32];

/// Eight rows of 32 four-bit weights. Quad `j` has the columns `4j..4j+4` in its low and `16+4j..` in its high halves.
/// A weight is `scale * w + min`; where `CENTRED`, it is `scale * (w - 8)`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Four<const CENTRED: bool> {
    pub(crate) scale: [u16; ROWS],
    pub(crate) min: [u16; ROWS],
    pub(crate) weights: [Quad; 4],
}

/// Eight rows of 32 weights of five bits: `scale * w + min`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Five {
    pub(crate) scale: [u16; ROWS],
    pub(crate) min: [u16; ROWS],
    pub(crate) weights: [Quad; 8],
}

/// Eight rows of 32 signed weights: `scale * w`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Eight {
    pub(crate) scale: [u16; ROWS],
    pub(crate) weights: [Quad; 8],
}

/// Eight rows of 8 × 32 four-bit weights: `scale * scales[s] * w - min * mins[s]`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct FourK {
    pub(crate) scale: [u16; ROWS],
    pub(crate) min: [u16; ROWS],
    pub(crate) scales: [[u8; ROWS]; 8],
    pub(crate) mins: [[u8; ROWS]; 8],
    pub(crate) weights: [[Quad; 4]; 8],
}

/// As [`FourK`], with five bits.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct FiveK {
    pub(crate) scale: [u16; ROWS],
    pub(crate) min: [u16; ROWS],
    pub(crate) scales: [[u8; ROWS]; 8],
    pub(crate) mins: [[u8; ROWS]; 8],
    pub(crate) weights: [[Quad; 8]; 8],
}

/// Eight rows of 16 × 16 signed weights: `scale * scales[s] * w`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct SixK {
    pub(crate) scale: [u16; ROWS],
    pub(crate) scales: [[u8; ROWS]; 16],
    pub(crate) weights: [[Quad; 8]; 8],
}

/// One column of eight rows as half-precision, bfloat16 or single-precision numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Half(pub(crate) [u16; ROWS]);
/// See [`Half`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Brain(pub(crate) [u16; ROWS]);
/// See [`Half`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Single(pub(crate) [f32; ROWS]);

/// A block of eight rows.
pub(crate) trait Block: Copy + Send + Sync + 'static {
    /// Columns it spans.
    const COLUMNS: usize;
    /// Bytes of one row of it in the file.
    const STORED: usize;
    /// All zero.
    fn empty() -> Self;
    /// Puts one row of it in.
    fn put(&mut self, row: usize, stored: &[u8]);
    /// The weights of one row, as many as `COLUMNS`.
    fn row(&self, row: usize, to: &mut [f32]);
}

fn half_at(stored: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([stored[at], stored[at + 1]])
}

/// Column `column` of `row` in whole bytes.
fn byte(weights: &[Quad; 8], row: usize, column: usize) -> u8 {
    weights[column / 4][row * 4 + column % 4]
}

fn nibble(weights: &[Quad; 4], row: usize, column: usize) -> u8 {
    let packed = weights[column / 4 % 4][row * 4 + column % 4];
    if column < 16 { packed & 15 } else { packed >> 4 }
}

fn put_bytes(weights: &mut [Quad; 8], row: usize, values: impl Iterator<Item = u8>) {
    for (column, value) in values.enumerate() {
        weights[column / 4][row * 4 + column % 4] = value;
    }
}

/// Scale and minimum of part `part` of a block of the Q4_K and Q5_K formats, six bits each.
fn six_bits(packed: &[u8], part: usize) -> (u8, u8) {
    if part < 4 {
        (packed[part] & 63, packed[part + 4] & 63)
    } else {
        let low = packed[part + 4];
        (low & 15 | (packed[part - 4] >> 6) << 4, low >> 4 | (packed[part] >> 6) << 4)
    }
}

impl<const CENTRED: bool> Block for Four<CENTRED> {
    const COLUMNS: usize = 32;
    const STORED: usize = if CENTRED { 18 } else { 20 };

    fn empty() -> Self {
        Self { scale: [0; ROWS], min: [0; ROWS], weights: [[0; 32]; 4] }
    }

    fn put(&mut self, row: usize, stored: &[u8]) {
        self.scale[row] = half_at(stored, 0);
        let packed = if CENTRED {
            &stored[2..]
        } else {
            self.min[row] = half_at(stored, 2);
            &stored[4..]
        };
        for (quad, four) in self.weights.iter_mut().zip(packed.chunks_exact(4)) {
            quad[row * 4..row * 4 + 4].copy_from_slice(four);
        }
    }

    fn row(&self, row: usize, to: &mut [f32]) {
        let (scale, min) = (f32_of(self.scale[row]), f32_of(self.min[row]));
        for (column, to) in to.iter_mut().enumerate() {
            let weight = f32::from(nibble(&self.weights, row, column));
            *to = if CENTRED { scale * (weight - 8.0) } else { scale * weight + min };
        }
    }
}

impl Block for Five {
    const COLUMNS: usize = 32;
    const STORED: usize = 24;

    fn empty() -> Self {
        Self { scale: [0; ROWS], min: [0; ROWS], weights: [[0; 32]; 8] }
    }

    fn put(&mut self, row: usize, stored: &[u8]) {
        self.scale[row] = half_at(stored, 0);
        self.min[row] = half_at(stored, 2);
        put_bytes(&mut self.weights, row, (0..32).map(|column| five_bits(&stored[4..], column)));
    }

    fn row(&self, row: usize, to: &mut [f32]) {
        let (scale, min) = (f32_of(self.scale[row]), f32_of(self.min[row]));
        for (column, to) in to.iter_mut().enumerate() {
            *to = scale * f32::from(byte(&self.weights, row, column)) + min;
        }
    }
}

/// Column `column` of a row whose fifth bits stand before the packed rest.
fn five_bits(stored: &[u8], column: usize) -> u8 {
    let high = u32::from_le_bytes([stored[0], stored[1], stored[2], stored[3]]) >> column & 1;
    let packed = stored[4 + column % 16];
    (if column < 16 { packed & 15 } else { packed >> 4 }) | (high as u8) << 4
}

impl Eight {
    /// As [`Block::put`], from the Q5_0 format.
    pub(crate) fn put_five(&mut self, row: usize, stored: &[u8]) {
        self.scale[row] = half_at(stored, 0);
        let weights = (0..32).map(|column| five_bits(&stored[2..], column).wrapping_sub(16));
        put_bytes(&mut self.weights, row, weights);
    }
}

impl Block for Eight {
    const COLUMNS: usize = 32;
    const STORED: usize = 34;

    fn empty() -> Self {
        Self { scale: [0; ROWS], weights: [[0; 32]; 8] }
    }

    fn put(&mut self, row: usize, stored: &[u8]) {
        self.scale[row] = half_at(stored, 0);
        put_bytes(&mut self.weights, row, stored[2..34].iter().copied());
    }

    fn row(&self, row: usize, to: &mut [f32]) {
        let scale = f32_of(self.scale[row]);
        for (column, to) in to.iter_mut().enumerate() {
            *to = scale * f32::from(byte(&self.weights, row, column) as i8);
        }
    }
}

impl Block for FourK {
    const COLUMNS: usize = 256;
    const STORED: usize = 144;

    fn empty() -> Self {
        Self {
            scale: [0; ROWS],
            min: [0; ROWS],
            scales: [[0; ROWS]; 8],
            mins: [[0; ROWS]; 8],
            weights: [[[0; 32]; 4]; 8],
        }
    }

    fn put(&mut self, row: usize, stored: &[u8]) {
        self.scale[row] = half_at(stored, 0);
        self.min[row] = half_at(stored, 2);
        for part in 0..8 {
            (self.scales[part][row], self.mins[part][row]) = six_bits(&stored[4..16], part);
            let packed = &stored[16 + part / 2 * 32..];
            let of = |column: usize| packed[column] >> (part % 2 * 4) & 15;
            for column in 0..16 {
                self.weights[part][column / 4][row * 4 + column % 4] = of(column) | of(column + 16) << 4;
            }
        }
    }

    fn row(&self, row: usize, to: &mut [f32]) {
        let (scale, min) = (f32_of(self.scale[row]), f32_of(self.min[row]));
        for (part, to) in to.chunks_exact_mut(32).enumerate() {
            let (scale, min) = (scale * f32::from(self.scales[part][row]), min * f32::from(self.mins[part][row]));
            for (column, to) in to.iter_mut().enumerate() {
                *to = scale * f32::from(nibble(&self.weights[part], row, column)) - min;
            }
        }
    }
}

impl Block for FiveK {
    const COLUMNS: usize = 256;
    const STORED: usize = 176;

    fn empty() -> Self {
        Self {
            scale: [0; ROWS],
            min: [0; ROWS],
            scales: [[0; ROWS]; 8],
            mins: [[0; ROWS]; 8],
            weights: [[[0; 32]; 8]; 8],
        }
    }

    fn put(&mut self, row: usize, stored: &[u8]) {
        self.scale[row] = half_at(stored, 0);
        self.min[row] = half_at(stored, 2);
        let high = &stored[16..48];
        for part in 0..8 {
            (self.scales[part][row], self.mins[part][row]) = six_bits(&stored[4..16], part);
            let packed = &stored[48 + part / 2 * 32..];
            let of = |column: usize| (packed[column] >> (part % 2 * 4) & 15) | (high[column] >> part & 1) << 4;
            put_bytes(&mut self.weights[part], row, (0..32).map(of));
        }
    }

    fn row(&self, row: usize, to: &mut [f32]) {
        let (scale, min) = (f32_of(self.scale[row]), f32_of(self.min[row]));
        for (part, to) in to.chunks_exact_mut(32).enumerate() {
            let (scale, min) = (scale * f32::from(self.scales[part][row]), min * f32::from(self.mins[part][row]));
            for (column, to) in to.iter_mut().enumerate() {
                *to = scale * f32::from(byte(&self.weights[part], row, column)) - min;
            }
        }
    }
}

impl Block for SixK {
    const COLUMNS: usize = 256;
    const STORED: usize = 210;

    fn empty() -> Self {
        Self { scale: [0; ROWS], scales: [[0; ROWS]; 16], weights: [[[0; 32]; 8]; 8] }
    }

    fn put(&mut self, row: usize, stored: &[u8]) {
        self.scale[row] = half_at(stored, 208);
        for (part, scale) in self.scales.iter_mut().enumerate() {
            scale[row] = stored[192 + part];
        }
        for part in 0..8 {
            // Two halves of 128 columns; in each, four runs of 32 share their bytes.
            let (half, run) = (part / 4, part % 4);
            let low = &stored[half * 64 + run % 2 * 32..];
            let high = &stored[128 + half * 32..];
            let of = |column: usize| {
                let low = low[column] >> (run / 2 * 4) & 15;
                (low | (high[column] >> (run * 2) & 3) << 4).wrapping_sub(32)
            };
            put_bytes(&mut self.weights[part], row, (0..32).map(of));
        }
    }

    fn row(&self, row: usize, to: &mut [f32]) {
        let scale = f32_of(self.scale[row]);
        for (part, to) in to.chunks_exact_mut(32).enumerate() {
            for (column, to) in to.iter_mut().enumerate() {
                let scale = scale * f32::from(self.scales[part * 2 + column / 16][row] as i8);
                *to = scale * f32::from(byte(&self.weights[part], row, column) as i8);
            }
        }
    }
}

macro_rules! numbers {
    ($name:ident, $bytes:literal, $zero:literal, $read:expr, $value:expr) => {
        impl Block for $name {
            const COLUMNS: usize = 1;
            const STORED: usize = $bytes;

            fn empty() -> Self {
                Self([$zero; ROWS])
            }

            fn put(&mut self, row: usize, stored: &[u8]) {
                self.0[row] = $read(stored);
            }

            fn row(&self, row: usize, to: &mut [f32]) {
                to[0] = $value(self.0[row]);
            }
        }
    };
}

numbers!(Half, 2, 0, |stored: &[u8]| half_at(stored, 0), f32_of);
numbers!(Brain, 2, 0, |stored: &[u8]| half_at(stored, 0), f32_of_bf16);
numbers!(Single, 4, 0.0, |s: &[u8]| f32::from_le_bytes([s[0], s[1], s[2], s[3]]), |weight: f32| weight);
