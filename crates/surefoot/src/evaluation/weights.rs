//! Importance weights: sums of them, and whether their mean is 1.
//!
//! For any policy `pi` that does nothing the logger could not do, `E[pi(a|x)/q] = 1`: a test of the propensities `q` that
//! needs no reward. WeightSums are skewed, and the usual `z = sqrt(n) (mean - 1)/deviation` then falls below its limit too often:
//! where few large weights were drawn, mean and deviation are both too small. Hall's transformation of it (1992, *On the
//! removal of skewness by transformation*) has the normal tail up to order `1/n`:
//!
//! ```text
//! z = sqrt(n) (((1 + g W/3)^3 - 1)/g + g/(6 n)),    W = (mean - 1)/deviation,  g = the skewness of the weights.
//! ```
//!
//! Even so it is a limit theorem, and says nothing where a few records make up the mean: there the answer is
//! [`WeightVerdict::CannotTell`].

use serde::{Deserialize, Serialize};

/// Sums of importance weights `w = p/q`, which add up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WeightSums {
    /// Their number, those that are 0 included.
    pub count: f64,
    sum: f64,
    squares: f64,
    cubes: f64,
    /// The largest.
    pub largest: f64,
}

/// Whether a mean weight is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightVerdict {
    /// It is, as far as one can tell.
    Fits,
    /// Too few records make up the mean.
    CannotTell,
    /// Too large, which right propensities do not allow.
    Above,
    /// Too small, and rare actions that were not drawn are no explanation.
    Below,
    /// Too small; but there are weights so large that actions of yet smaller probability, none of which was drawn, may be
    /// what is missing.
    BelowOrRare,
}

/// The effective number of records from which on the limit theorem is trusted. The skewness of a mean of `n` weights that are
/// 0 or `c` is `1/sqrt(n)` of those that are not 0: 0.1 here, which Hall's transformation takes care of; the tests of `lint`
/// count its false alarms.
pub const ENOUGH: f64 = 100.0;

/// A mean that is closer to 1 is not worth a word: three decimals of a propensity of 1/3 are one in a thousand off.
pub const NEGLIGIBLE: f64 = 2e-3;

/// The share of the sum that one record must stay below so that a mean below 1 is held against the propensities. If
/// probabilities that are too small to be drawn in `n` records (below `1/n`) made up what is missing, those up to a thousand
/// times as large would make up something too, unless the logger knows no probabilities in between; and such a record has
/// more than this share.
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

    /// Those of other records too.
    pub fn and(&self, other: &WeightSums) -> Self {
        WeightSums {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
            cubes: self.cubes + other.cubes,
            largest: self.largest.max(other.largest),
        }
    }

    /// All of them times a factor.
    pub fn times(&self, factor: f64) -> Self {
        WeightSums {
            count: self.count,
            sum: self.sum * factor,
            squares: self.squares * factor * factor,
            cubes: self.cubes * factor * factor * factor,
            largest: self.largest * factor,
        }
    }

    /// Among so many, the others being 0.
    pub fn among(&self, count: f64) -> Self {
        WeightSums { count, ..*self }
    }

    /// Their mean.
    pub fn mean(&self) -> f64 {
        self.sum / self.count
    }

    /// The second and the third moment about the mean, the second not below what rounding leaves of it.
    fn moments(&self) -> (f64, f64) {
        let (m, s, c) = (self.mean(), self.squares / self.count, self.cubes / self.count);
        let variance = s - m * m;
        // Equal weights leave a few units of the last place.
        if variance <= 1e-12 * s {
            return (0.0, 0.0);
        }
        (variance, c - 3.0 * m * s + 2.0 * m * m * m)
    }

    /// The standard error of the mean.
    pub fn standard_error(&self) -> f64 {
        (self.moments().0 / self.count).sqrt()
    }

    /// `(sum w)^2/sum w^2`.
    pub fn effective(&self) -> f64 {
        if self.squares > 0.0 { self.sum * self.sum / self.squares } else { 0.0 }
    }

    /// By how many standard errors the mean is off, with the skewness taken out.
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

    /// Whether the mean is 1, where a right one is beyond `limit` standard errors as seldom as one likes.
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
            false if self.largest < SHARE * self.sum || self.moments().0 == 0.0 => WeightVerdict::Below,
            false => WeightVerdict::BelowOrRare,
        }
    }
}
