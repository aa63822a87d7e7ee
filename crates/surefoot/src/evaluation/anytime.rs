//! The interval that holds at all times at once.
//!
//! Its upper end is the bound of a certificate for a policy that was fixed before the records (`certificate/bound.rs`),
//! at half of delta. Its lower end is the same inequality for the costs `c' = -1 - c`, whose risk is `R' = -1 - R`.
//! Neither end needs full support: an action of the target policy that is never logged counts as the worst cost in the
//! upper end, and as the best cost in the lower end.

use super::Interval;
use crate::certificate::{Bound, Evidence, LogSum, Protocol, Share, Smoothing, Subject, bound};
use crate::error::{Error, Result};
use crate::math::kernels::{largest, total, wide};
use crate::math::sum::Sum;

/// The number of lanes, and the number of factors that each lane multiplies in a row.
const LANES: usize = 16;
const CHAIN: usize = 16;
/// The number of factors per logarithm.
const FACTORS: usize = LANES * CHAIN / LOGS;
/// The number of logarithms per piece.
const LOGS: usize = 4;
/// The number of records per piece.
const PIECE: usize = LANES * CHAIN;
/// The largest allowed factor in a piece. A larger one could overflow the product: `LARGEST^FACTORS < 1e300`.
const LARGEST: f64 = 4e4;
/// The relative error of a sum of logarithms: three rounding errors at each of the 18 steps to a product, and an
/// allowance for the weights, the logarithm and the sum.
const ROUNDING: f64 = 40.0 * f64::EPSILON;

const _: () = assert!(FACTORS == 64);

/// The sums behind both ends, at every lambda.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Anytime {
    upper: Vec<LogSum>,
    lower: Vec<LogSum>,
}

impl Anytime {
    pub(super) fn new(lambdas: usize) -> Self {
        Anytime { upper: vec![LogSum::default(); lambdas], lower: vec![LogSum::default(); lambdas] }
    }

    /// Adds records with weights `w` and costs `c`; `room` is working memory.
    pub(super) fn add(&mut self, w: &[f64], c: &[f64], lambdas: &[f64], room: &mut Vec<f64>) {
        // Padding: the factor of a missing record is 1.
        room.clear();
        room.resize(w.len().next_multiple_of(PIECE), 0.0);
        room.iter_mut().zip(w).zip(c).for_each(|((x, w), c)| *x = -(w * c));
        add_logs(room, lambdas, &mut self.upper);
        room.iter_mut().zip(w).zip(c).for_each(|((x, w), c)| *x = w * (1.0 + c));
        add_logs(room, lambdas, &mut self.lower);
    }

    /// The sums of `ln(1 - l w c)`, at every lambda.
    pub(super) fn upper(&self) -> &[LogSum] {
        &self.upper
    }

    /// Adds the sums of other records.
    pub(super) fn join(&mut self, other: &Anytime) {
        let own = self.upper.iter_mut().chain(&mut self.lower);
        for (own, new) in own.zip(other.upper.iter().chain(&other.lower)) {
            own.merge(new);
        }
    }

    /// The interval for the risk, cut to the range `[-1, 0]` of risks.
    pub(super) fn interval(&self, records: usize, protocol: &Protocol) -> Result<Interval> {
        let delta = Share { round: None, part: 0.5 }.delta(protocol)?;
        let highest = upper(records, &self.upper, protocol, delta)?;
        let lowest = upper(records, &self.lower, protocol, delta).map_err(|error| match error {
            Error::Refuted { .. } => Error::Refuted { what: "the risk is proven to be above 0, the worst cost".into() },
            error => error,
        })?;
        let (upper, lower) = (highest.upper, -1.0 - lowest.upper);
        // Both ends hold with probability `1 - delta`, and then no number is below one and above the other.
        if lower > upper + highest.numerical + lowest.numerical {
            let what = format!(
                "the risk is proven to be at least {lower:.4} and at most {upper:.4}, which exclude each other"
            );
            return Err(Error::Refuted { what });
        }
        Ok(Interval { lower: lower.max(-1.0), upper: upper.min(0.0) })
    }
}

/// The bound from sums at every lambda, for a policy that was fixed before the records.
pub(super) fn upper(records: usize, sums: &[LogSum], protocol: &Protocol, delta: f64) -> Result<Bound> {
    let evidence = Evidence::of_sums(records, sums.to_vec());
    bound(&evidence, Smoothing::Ls, Subject::Fixed { size: 1 }, protocol, delta)
}

/// Adds `sum_i ln(1 + l x_i)` and `sum_i l x_i/(1 + l x_i)` at every lambda, for `x_i >= 0`.
fn add_logs(x: &[f64], lambdas: &[f64], sums: &mut [LogSum]) {
    for piece in x.as_chunks::<LANES>().0.as_chunks::<CHAIN>().0 {
        let top = largest(piece.as_flattened());
        for (&lambda, sums) in lambdas.iter().zip(&mut *sums) {
            let (logs, slopes) =
                if lambda * top < LARGEST { piece_logs(piece, lambda) } else { plain_logs(piece, lambda) };
            logs.iter().for_each(|&log| sums.logs.add(log));
            sums.slopes.add(slopes);
            // All logarithms are non-negative.
            sums.rounding += ROUNDING * logs.iter().sum::<f64>();
        }
    }
}

/// Products of factors, minus 1: `(1 + z)(1 + x) - 1 = z + (x + z x)`. All terms are non-negative, so the relative
/// error is small even if all factors are near 1.
fn piece_logs(piece: &[[f64; LANES]; CHAIN], lambda: f64) -> ([f64; LOGS], f64) {
    let (z, slopes) = wide(
        #[inline(always)]
        || {
            let (mut z, mut slopes) = ([0.0; LANES], [0.0; LANES]);
            for row in piece {
                for i in 0..LANES {
                    let x = lambda * row[i];
                    z[i] += x + z[i] * x;
                    slopes[i] += x / (1.0 + x);
                }
            }
            let mut n = LANES / 2;
            while n >= LOGS {
                for i in 0..n {
                    z[i] += z[i + n] + z[i] * z[i + n];
                }
                n /= 2;
            }
            (z, total(slopes))
        },
    );
    (std::array::from_fn(|i| z[i].ln_1p()), slopes)
}

/// One logarithm per record.
fn plain_logs(piece: &[[f64; LANES]; CHAIN], lambda: f64) -> ([f64; LOGS], f64) {
    let (mut logs, mut slopes) = (Sum::default(), 0.0);
    for &x in piece.as_flattened() {
        logs.add((lambda * x).ln_1p());
        slopes += lambda * x / (1.0 + lambda * x);
    }
    ([logs.value(), 0.0, 0.0, 0.0], slopes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn products_give_the_logarithms_within_the_error_that_is_allowed_for(
            powers in prop::collection::vec(-12.0..6.0, 1..600), lambda in -6.0..1.0,
        ) {
            let lambda = 10f64.powf(lambda);
            let mut x: Vec<f64> = powers.iter().map(|&power| 10f64.powf(power)).collect();
            let expected: f64 = x.iter().map(|x| (lambda * x).ln_1p()).sum();
            let slopes: f64 = x.iter().map(|x| lambda * x / (1.0 + lambda * x)).sum();
            x.resize(x.len().next_multiple_of(PIECE), 0.0);
            let mut sums = [LogSum::default()];
            add_logs(&x, &[lambda], &mut sums);
            // The expected value has rounding errors too.
            prop_assert!((sums[0].logs.value() - expected).abs() <= (ROUNDING + 1e-14) * expected);
            prop_assert!((sums[0].slopes.value() - slopes).abs() <= 1e-12 * slopes);
        }
    }
}
