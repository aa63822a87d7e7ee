//! The probabilities of a softmax as features: what is known before, for a reward model to build on.

use std::sync::OnceLock;

use crate::contexts::{Contexts, Row};
use crate::error::{Error, Result};
use crate::fingerprint::{Fingerprint, Hasher};
use crate::math::linear::{in_blocks, scores};

/// The number of rows that are mapped together.
const ROWS: usize = 256;

/// The parts of the softmax features of a [`FeatureMap`](super::FeatureMap), one per score:
/// `exp(s_j) / sum_i exp(s_i)` with the scores `s = W'x + b`.
#[derive(Debug)]
pub struct SoftmaxFeatures {
    input: usize,
    weights: Vec<f64>,
    constants: Vec<f64>,
    /// Computed on first use.
    fingerprint: OnceLock<Fingerprint>,
}

/// Compares the content.
impl PartialEq for SoftmaxFeatures {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint() == other.fingerprint()
    }
}

impl SoftmaxFeatures {
    /// The features of contexts with `input` features, from `weights`, which is `W`, input-major, and `constants`, which is
    /// `b`.
    pub fn new(input: usize, weights: Vec<f64>, constants: Vec<f64>) -> Result<Self> {
        let count = constants.len();
        if count == 0 || input == 0 {
            return Err(Error::size("the scores of a softmax", "at least 1 feature x 1 score", count.min(input)));
        }
        if Some(weights.len()) != input.checked_mul(count) {
            let expected = format!("{input} x {count} entries");
            return Err(Error::size("the weights of a softmax", expected, weights.len()));
        }
        for (name, values) in [("the weights of a softmax", &weights), ("the constants of a softmax", &constants)] {
            if let Some(i) = values.iter().position(|v| !v.is_finite()) {
                return Err(Error::value(i, name, "finite", values[i]));
            }
        }
        Ok(SoftmaxFeatures { input, weights, constants, fingerprint: OnceLock::new() })
    }

    /// The same scores times a number: a larger one makes the probabilities more extreme.
    pub(crate) fn sharpened(&self, factor: f64) -> Result<Self> {
        let [weights, constants] =
            [&self.weights, &self.constants].map(|values| values.iter().map(|v| factor * v).collect());
        SoftmaxFeatures::new(self.input, weights, constants)
    }

    /// The number of features of a context.
    pub fn input(&self) -> usize {
        self.input
    }

    /// The number of scores.
    pub fn count(&self) -> usize {
        self.constants.len()
    }

    /// `W`, input-major: feature `f` and score `j` are at `f * count + j`.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// `b`, one per score.
    pub fn constants(&self) -> &[f64] {
        &self.constants
    }

    /// The fingerprint of the features.
    pub fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.get_or_init(|| {
            let mut hasher = Hasher::new("softmax features");
            hasher.count(self.input);
            hasher.count(self.count());
            hasher.doubles(&self.weights);
            hasher.doubles(&self.constants);
            hasher.finish()
        })
    }

    pub(crate) fn apply(&self, contexts: &Contexts) -> Result<Contexts> {
        let count = self.count();
        let values = in_blocks(contexts.len(), ROWS, (count, 0.0), |range, out| {
            let rows: Vec<Row<'_>> = range.map(|i| contexts.row(i)).collect();
            let mut s = vec![0.0; rows.len() * count];
            scores(&rows, &self.weights, count, &mut s);
            for (s, out) in s.chunks_exact_mut(count).zip(out.chunks_exact_mut(count)) {
                s.iter_mut().zip(&self.constants).for_each(|(s, b)| *s += b);
                // The largest exponent is 0, so that nothing overflows.
                let largest = s.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                s.iter_mut().for_each(|s| *s = (*s - largest).exp());
                let sum: f64 = s.iter().sum();
                out.iter_mut().zip(s).for_each(|(out, s)| *out = (*s / sum) as f32);
            }
            Ok(())
        })?;
        Contexts::dense(values, count)
    }
}
