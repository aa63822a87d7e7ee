//! Importance weights: their sums, and a test whether their mean is 1.
//!
//! For any policy `pi` within the support of the logging policy, `E[pi(a|x)/q] = 1`. This tests the propensities `q`
//! without using rewards. Weights are skewed, and the usual `z = sqrt(n) (mean - 1)/deviation` then falls below its
//! limit too often: if few large weights were drawn, the mean and the deviation are both too small. Hall's
//! transformation of it (1992, *On the removal of skewness by transformation*) has the normal tail up to order `1/n`:
//!
//! ```text
//! z = sqrt(n) (((1 + g W/3)^3 - 1)/g + g/(6 n)),    W = (mean - 1)/deviation,  g = the skewness of the weights.
//! ```
//!
//! Still, it is a limit theorem, and it says nothing if a few records dominate the mean. In that case the answer is
//! [`WeightVerdict::CannotTell`].

use serde::{Deserialize, Serialize};

/// Sums of importance weights `w = p/q`; they can be merged.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WeightSums {
    /// The number of weights, including zeros.
    pub count: f64,
    sum: f64,
    squares: f64,
    cubes: f64,
    /// The largest weight.
    pub largest: f64,
}

/// The result of the test whether the mean weight is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightVerdict {
    /// Consistent with 1.
    Fits,
    /// A few records dominate the mean.
    CannotTell,
    /// Too large: right propensities do not allow that.
    Above,
    /// Too small, and rare actions that were not drawn do not explain it.
    Below,
    /// Too small. But some weights are so large that the missing mass may lie on actions of even smaller probability,
    /// none of which was drawn.
    BelowOrRare,
}

/// The effective sample size from which on the limit theorem is trusted. For weights that are 0 or `c`, the skewness of
/// the mean is `1/sqrt(n)`, with `n` the number of non-zero weights: 0.1 here, which Hall's transformation corrects.
/// The tests of `lint` count its false alarms.
pub const ENOUGH: f64 = 100.0;

/// A smaller deviation from 1 is not reported: a propensity of 1/3 with three decimals is off by one in a thousand.
pub const NEGLIGIBLE: f64 = 2e-3;

/// A mean below 1 counts against the propensities only if every record has less than this share of the sum. Suppose
/// that the missing mass lies on probabilities too small to be drawn in `n` records (below `1/n`). Then probabilities
/// up to a thousand times as large carry some mass too, unless the logging policy has none in between, and such a
/// record has more than this share.
const SHARE: f64 = 1e-3;

impl WeightSums {
    /// Adds a weight.
    pub fn add(&mut self, w: f64) {
        self.count += 1.0;
        self.sum += w;
        self.squares += w * w;
        self.cubes += w * w * w;
        self.largest = self.largest.max(w);
    }

    /// Adds the sums of other records.
    #[must_use]
    pub fn and(&self, other: &WeightSums) -> Self {
        WeightSums {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
            cubes: self.cubes + other.cubes,
            largest: self.largest.max(other.largest),
        }
    }

    /// Multiplies all weights by a factor.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        WeightSums {
            count: self.count,
            sum: self.sum * factor,
            squares: self.squares * factor * factor,
            cubes: self.cubes * factor * factor * factor,
            largest: self.largest * factor,
        }
    }

    /// The same weights among `count` records, the others being 0.
    #[must_use]
    pub fn among(&self, count: f64) -> Self {
        WeightSums { count, ..*self }
    }

    /// The mean weight.
    pub fn mean(&self) -> f64 {
        self.sum / self.count
    }

    /// The second and third moment about the mean; both are 0 if the second is only rounding error.
    fn moments(&self) -> (f64, f64) {
        let (m, s, c) = (self.mean(), self.squares / self.count, self.cubes / self.count);
        let variance = s - m * m;
        // For equal weights, rounding leaves a few units in the last place.
        if variance <= 1e-12 * s {
            return (0.0, 0.0);
        }
        (variance, c - 3.0 * m * s + 2.0 * m * m * m)
    }

    /// The standard error of the mean.
    pub fn standard_error(&self) -> f64 {
        (self.moments().0 / self.count).sqrt()
    }

    /// The effective sample size, `(sum w)^2/sum w^2`.
    pub fn effective(&self) -> f64 {
        if self.squares > 0.0 { self.sum * self.sum / self.squares } else { 0.0 }
    }

    /// The distance of the mean from 1 in standard errors, corrected for skewness.
    pub fn z(&self) -> f64 {
        let off = self.mean() - 1.0;
        let (variance, third) = self.moments();
        if variance == 0.0 {
            return if off.abs() <= NEGLIGIBLE { 0.0 } else { off * f64::INFINITY };
        }
        let (w, g) = (off / variance.sqrt(), third / variance.powf(1.5));
        let root = self.count.sqrt();
        if g.abs() < 1e-9 {
            return root * w;
        }
        root * (((1.0 + g * w / 3.0).powi(3) - 1.0) / g + g / (6.0 * self.count))
    }

    /// Whether no record has a noticeable share of the sum, so that the limit theorem describes the mean.
    pub fn light(&self) -> bool {
        self.largest < SHARE * self.sum
    }

    /// Tests whether the mean is 1. `limit` is in standard errors and sets the rate of false alarms.
    pub fn verdict(&self, limit: f64) -> WeightVerdict {
        let (z, off) = (self.z(), self.mean() - 1.0);
        if !z.is_finite() && self.moments().0 != 0.0 || !self.squares.is_finite() || self.effective() < ENOUGH {
            return WeightVerdict::CannotTell;
        }
        if z.abs() <= limit || off.abs() <= NEGLIGIBLE {
            return WeightVerdict::Fits;
        }
        match off > 0.0 {
            true => WeightVerdict::Above,
            false if self.light() || self.moments().0 == 0.0 => WeightVerdict::Below,
            false => WeightVerdict::BelowOrRare,
        }
    }
}
