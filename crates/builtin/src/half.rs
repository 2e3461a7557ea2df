//! 16-bit floats as GGUF and the key-value cache hold them. Plain arithmetic that compilers turn into vector code, since
//! neither the language nor the vector library has the type.

/// 2^112: what the exponents of the two formats differ by.
const SHIFT: f32 = f32::from_bits(0x7780_0000);

/// The value of a half-precision number. Infinities come out as 65536 and more: no weight is one.
#[inline(always)]
pub(crate) fn f32_of(half: u16) -> f32 {
    let wide = (u32::from(half) << 16) as i32 >> 3;
    f32::from_bits(wide as u32 & 0x8fff_e000) * SHIFT
}

/// The nearest half-precision number, ties to even.
#[inline(always)]
pub(crate) fn f16_of(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let size = bits & 0x7fff_ffff;
    let rest = if size >= 0x4780_0000 {
        if size > 0x7f80_0000 { 0x7e00 } else { 0x7c00 }
    } else if size < 0x3880_0000 {
        // Adding 0.5 moves the bits to their place and rounds them there.
        (f32::from_bits(size) + 0.5).to_bits() - 0.5_f32.to_bits()
    } else {
        let odd = (size >> 13) & 1;
        (size.wrapping_add(0xc800_0fff).wrapping_add(odd)) >> 13
    };
    (sign | rest) as u16
}

/// The value of a bfloat16 number.
#[inline(always)]
pub(crate) fn f32_of_bf16(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// `x` as it would come back from half precision.
#[inline(always)]
pub(crate) fn rounded(x: f32) -> f32 {
    f32_of(f16_of(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_half_survives_the_way_there_and_back() {
        for half in 0..=u16::MAX {
            if half & 0x7c00 != 0x7c00 {
                assert_eq!(f16_of(f32_of(half)), half, "{half:#x}");
            }
        }
    }

    #[test]
    fn rounding_is_to_the_nearest_and_ties_go_to_even() {
        assert_eq!(f16_of(1.0), 0x3c00);
        assert_eq!(f16_of(-2.0), 0xc000);
        assert_eq!(f16_of(1.0 + 1.0 / 2048.0), 0x3c00);
        assert_eq!(f16_of(1.0 + 3.0 / 2048.0), 0x3c02);
        assert_eq!(f16_of(65519.0), 0x7bff);
        assert_eq!(f16_of(65520.0), 0x7c00);
        assert_eq!(f16_of(5.960_464_5e-8), 1);
        assert_eq!(f16_of(2.980_232_2e-8), 0);
        assert_eq!(f16_of(0.0), 0);
    }
}
