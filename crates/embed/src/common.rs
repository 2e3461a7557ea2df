//! What vectors of all kinds of texts have in common, and what is left of one without it. A model puts everything it reads
//! into a narrow cone, and texts of one language closer together than texts of one meaning; what remains without the mean
//! and without the directions in which languages part compares meanings ("all but the top": Mu and Viswanath, 2018,
//! <https://arxiv.org/abs/1702.01417>).

use crate::{Vector, dot};

/// Rounds in which a direction is found; it is the same to five places long before.
const ROUNDS: usize = 64;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Common {
    mean: Vec<f32>,
    /// Each of length 1, at right angles to the others.
    directions: Vec<Vector>,
}

impl Common {
    /// Of texts about everything, in several languages, and the number of directions in which they vary most that say
    /// nothing of meaning: with `n` languages that is `n - 1`. Of no texts: nothing is in common.
    pub fn of(vectors: &[Vector], directions: usize) -> Self {
        let Some(length) = vectors.iter().map(|v| v.numbers().len()).max() else { return Self::default() };
        let mut mean = vec![0.0f32; length];
        for vector in vectors {
            mean.iter_mut().zip(vector.numbers()).for_each(|(sum, x)| *sum += x);
        }
        mean.iter_mut().for_each(|sum| *sum /= vectors.len() as f32);
        let mut rest: Vec<Vec<f32>> =
            vectors.iter().map(|v| v.numbers().iter().zip(&mean).map(|(x, mean)| x - mean).collect()).collect();
        let mut found = Vec::with_capacity(directions);
        for _ in 0..directions {
            let Some(direction) = principal(&rest, length) else { break };
            rest.iter_mut().for_each(|row| take(row, &direction));
            found.push(direction);
        }
        Self { mean, directions: found }
    }

    /// What is left of a vector.
    #[must_use]
    pub fn without(&self, vector: &Vector) -> Vector {
        if self.mean.len() != vector.numbers().len() {
            return vector.clone();
        }
        let mut rest: Vec<f32> = vector.numbers().iter().zip(&self.mean).map(|(x, mean)| x - mean).collect();
        self.directions.iter().for_each(|direction| take(&mut rest, direction));
        Vector::of(rest)
    }
}

/// Takes away what points into a direction.
fn take(row: &mut [f32], direction: &Vector) {
    let along: f32 = row.iter().zip(direction.numbers()).map(|(x, d)| x * d).sum();
    row.iter_mut().zip(direction.numbers()).for_each(|(x, d)| *x -= along * d);
}

/// The direction in which rows around 0 vary most, by power iteration from the longest of them; `None` if all are 0.
fn principal(rows: &[Vec<f32>], length: usize) -> Option<Vector> {
    let square = |row: &Vec<f32>| row.iter().map(|x| x * x).sum::<f32>();
    let longest = rows.iter().max_by(|a, b| square(a).total_cmp(&square(b)))?;
    let mut direction = Vector::of(longest.clone());
    for _ in 0..ROUNDS {
        let mut next = vec![0.0f32; length];
        for row in rows {
            let along: f32 = row.iter().zip(direction.numbers()).map(|(x, d)| x * d).sum();
            next.iter_mut().zip(row).for_each(|(sum, x)| *sum += along * x);
        }
        direction = Vector::of(next);
    }
    (dot(&direction, &direction) > 0.5).then_some(direction)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A language, and a meaning.
    fn text(language: usize, meaning: usize) -> Vector {
        let mut numbers = vec![0.0; 16];
        numbers[0] = 2.0;
        numbers[1 + language] = 1.0;
        numbers[6 + meaning] = 0.5;
        Vector::of(numbers)
    }

    #[test]
    fn what_is_left_tells_meanings_apart_and_not_languages() {
        let all: Vec<Vector> = (0..3).flat_map(|language| (0..8).map(move |of| text(language, of))).collect();
        let common = Common::of(&all, 2);
        let near = |a: &Vector, b: &Vector| dot(&common.without(a), &common.without(b));
        assert!(dot(&text(0, 1), &text(1, 1)) < dot(&text(0, 1), &text(0, 2)), "the language counts for more");
        assert!(near(&text(0, 1), &text(1, 1)) > 0.99 && near(&text(0, 1), &text(0, 2)) < 0.1);
    }

    #[test]
    fn of_nothing_nothing_is_taken() {
        let vector = text(0, 0);
        assert_eq!(Common::of(&[], 2).without(&vector), vector);
        let same = Common::of(&[vector.clone(), vector.clone()], 2);
        assert_eq!(same.without(&Vector::of(vec![1.0, 0.0])), Vector::of(vec![1.0, 0.0]), "of another model");
        assert!(same.without(&vector).numbers().iter().all(|x| x.is_finite()));
    }

    proptest! {
        #[test]
        fn directions_are_of_length_1_and_what_is_left_is_at_right_angles_to_them(
            rows in proptest::collection::vec(proptest::collection::vec(-1.0f32..1.0, 8), 8..30)
        ) {
            let vectors: Vec<Vector> = rows.into_iter().map(Vector::of).collect();
            let common = Common::of(&vectors, 2);
            for direction in &common.directions {
                prop_assert!((dot(direction, direction) - 1.0).abs() < 1e-3);
                for vector in &vectors {
                    prop_assert!(dot(&common.without(vector), direction).abs() < 0.02);
                }
            }
        }
    }
}
