//! Unit vectors, whole and packed to a byte per number.

use std::sync::Arc;

/// A vector of length 1. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Vector(Arc<[f32]>);

impl Vector {
    /// The direction of these numbers; of nothing but zeros, zeros.
    pub fn of(mut numbers: Vec<f32>) -> Self {
        let length = numbers.iter().map(|x| x * x).sum::<f32>().sqrt();
        if length > 0.0 && length.is_finite() {
            numbers.iter_mut().for_each(|x| *x /= length);
        }
        Self(numbers.into())
    }

    /// The numbers.
    pub fn numbers(&self) -> &[f32] {
        &self.0
    }

    /// A signed byte per number, behind the scale as four bytes: a quarter of the room, and a cosine that differs by less
    /// than 0.01.
    pub fn packed(&self) -> Vec<u8> {
        let most = self.0.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let scale = if most > 0.0 { most / 127.0 } else { 1.0 };
        let mut bytes = Vec::with_capacity(4 + self.0.len());
        bytes.extend(scale.to_le_bytes());
        bytes.extend(self.0.iter().map(|x| ((x / scale).round() as i8).cast_unsigned()));
        bytes
    }

    /// The cosine with a packed vector, about as well as with the whole; `None` if it is of another length.
    pub fn near(&self, packed: &[u8]) -> Option<f32> {
        let (scale, numbers) = packed.split_first_chunk::<4>()?;
        let scale = f32::from_le_bytes(*scale);
        if numbers.len() != self.0.len() || !scale.is_finite() {
            return None;
        }
        Some(scale * crate::wide::wide(crate::wide::Near { a: &self.0, b: numbers }))
    }

    /// What [`Vector::packed`] made; `None` if it did not.
    pub fn unpacked(bytes: &[u8]) -> Option<Self> {
        let (scale, numbers) = bytes.split_first_chunk::<4>()?;
        let scale = f32::from_le_bytes(*scale);
        scale.is_finite().then(|| Self::of(numbers.iter().map(|byte| f32::from(byte.cast_signed()) * scale).collect()))
    }
}

/// The cosine of two vectors of one model; 0 if they are of different length.
pub fn dot(a: &Vector, b: &Vector) -> f32 {
    if a.0.len() != b.0.len() {
        return 0.0;
    }
    crate::wide::wide(crate::wide::Dot { a: &a.0, b: &b.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packing_keeps_the_direction(a in prop::collection::vec(-1.0f32..1.0, 384), b in prop::collection::vec(-1.0f32..1.0, 384)) {
            let (a, b) = (Vector::of(a), Vector::of(b));
            let unpacked = |v: &Vector| Vector::unpacked(&v.packed()).unwrap();
            prop_assert!((dot(&unpacked(&a), &unpacked(&b)) - dot(&a, &b)).abs() < 0.01);
            prop_assert!((dot(&a, &a) - 1.0).abs() < 1e-4);
            prop_assert!((a.near(&b.packed()).unwrap() - dot(&a, &b)).abs() < 0.01);
            prop_assert!(a.near(&b.packed()[1..]).is_none() && a.near(&[]).is_none());
        }
    }

    #[test]
    fn nothing_has_no_direction() {
        assert_eq!(dot(&Vector::of(vec![0.0; 8]), &Vector::of(vec![0.0; 8])), 0.0);
        assert_eq!(Vector::unpacked(&Vector::of(vec![0.0; 8]).packed()), Some(Vector::of(vec![0.0; 8])));
        assert_eq!(Vector::unpacked(&[1, 2]), None);
        assert_eq!(dot(&Vector::of(vec![1.0; 8]), &Vector::of(vec![1.0; 4])), 0.0);
    }
}
