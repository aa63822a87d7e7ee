//! The evidence of records about a policy, as sums that can be merged over rounds, shards and machines.

use std::ops::Range;

use super::bound::Smoothing;
use crate::error::{Error, Result};
use crate::logs::Logs;
use crate::math::sum::Sum;
use crate::policy::{Policy, Propensities, probability};

/// The relative error of a term and of the compensated sum of terms: about 20 rounding errors.
pub(super) const ROUNDING: f64 = 20.0 * f64::EPSILON;

/// Which factor a record contributes to the martingale. `bound.rs` lists the four factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Factor {
    pub(crate) smoothing: Smoothing,
    /// Whether the policy was fixed before the records. If so, its own probability is in the factor; for a posterior,
    /// the factor is averaged over its predictors.
    pub(crate) fixed: bool,
}

impl Factor {
    pub(crate) const LS: Factor = Factor { smoothing: Smoothing::Ls, fixed: false };
    pub(crate) const ADJUSTED: Factor = Factor { smoothing: Smoothing::Adjusted, fixed: false };
    pub(crate) const FIXED: Factor = Factor { smoothing: Smoothing::Ls, fixed: true };

    /// The logarithm of the factor (or its mean over the predictors) and `|p d/dp|` of it. Uses `ln_1p`, as most
    /// factors are near 1.
    fn log_and_slope(self, l: f64, p: f64, q: f64, c: f64) -> (f64, f64) {
        match (self.smoothing, self.fixed) {
            (Smoothing::Ls, false) => {
                let value = p * (-l * c / q).ln_1p();
                (value, value.abs())
            }
            (Smoothing::Ls, true) => {
                let x = -l * p * c / q;
                (x.ln_1p(), (x / (1.0 + x)).abs())
            }
            (Smoothing::Adjusted, false) => {
                let (with, without) = ((-l * (1.0 / q - 1.0) * c).ln_1p(), (l * c).ln_1p());
                (p * with + (1.0 - p) * without, (p * (with - without)).abs())
            }
            (Smoothing::Adjusted, true) => {
                let x = -l * (p / q - 1.0) * c;
                (x.ln_1p(), (l * p * c / (q * (1.0 + x))).abs())
            }
        }
    }
}

/// A factor, and the lambdas at which its sums are wanted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) factor: Factor,
    pub(crate) lambdas: Vec<f64>,
}

impl Wanted {
    pub(crate) fn new(factor: Factor, lambdas: &[f64]) -> Self {
        Wanted { factor, lambdas: lambdas.to_vec() }
    }
}

/// The sums over records at one lambda.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct LogSum {
    /// `sum_i E ln(factor_i)`.
    pub(crate) logs: Sum,
    /// The sensitivity of that sum to relative errors of the propensities.
    pub(crate) slopes: Sum,
    /// A bound on its rounding error.
    pub(crate) rounding: f64,
}

impl LogSum {
    /// Adds the sums of other records.
    pub(crate) fn merge(&mut self, other: &LogSum) {
        self.logs.join(other.logs);
        self.slopes.join(other.slopes);
        self.rounding += other.rounding;
    }
}

/// The evidence of records about a policy: for each wanted factor, the sums at its lambdas. Two values over the same
/// lambdas can be merged. The size does not grow with the number of records.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Evidence {
    records: usize,
    sums: Vec<(Factor, Vec<LogSum>)>,
}

impl Evidence {
    /// The evidence of no records.
    pub(crate) fn none(wanted: &[Wanted]) -> Self {
        let sums = wanted.iter().map(|wanted| (wanted.factor, vec![LogSum::default(); wanted.lambdas.len()]));
        Evidence { records: 0, sums: sums.collect() }
    }

    /// The evidence of no records, for the same factors and lambdas.
    pub(super) fn emptied(&self) -> Self {
        let sums = self.sums.iter().map(|(factor, sums)| (*factor, vec![LogSum::default(); sums.len()]));
        Evidence { records: 0, sums: sums.collect() }
    }

    /// The evidence of records whose sums are known at each lambda, about a policy that was fixed before them.
    pub(crate) fn of_sums(records: usize, sums: Vec<LogSum>) -> Self {
        Evidence { records, sums: vec![(Factor::FIXED, sums)] }
    }

    /// Adds the evidence of other records.
    ///
    /// # Panics
    /// If the other evidence has different factors or a different number of lambdas.
    pub(crate) fn merge(&mut self, other: &Evidence) {
        self.records += other.records;
        assert_eq!(self.sums.len(), other.sums.len(), "evidence of the same factors");
        for ((factor, sums), (other_factor, others)) in self.sums.iter_mut().zip(&other.sums) {
            assert_eq!((*factor, sums.len()), (*other_factor, others.len()), "evidence over the same grid");
            sums.iter_mut().zip(others).for_each(|(sum, other)| sum.merge(other));
        }
    }

    /// The number of records.
    pub(crate) fn records(&self) -> usize {
        self.records
    }

    /// The sums of a factor at every lambda.
    ///
    /// # Panics
    /// If the factor was not wanted.
    pub(crate) fn at(&self, factor: Factor) -> &[LogSum] {
        let found = self.sums.iter().find(|(known, _)| *known == factor);
        &found.expect("evidence of this factor was gathered").1
    }
}

/// The probability of each logged action under the target policy, for the records of a round with a non-zero cost. A
/// record of cost 0 has the factor 1 for every policy and only counts in `N`. This value is dropped as soon as its sums
/// are known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Weighed {
    records: usize,
    /// The indices of the records with a non-zero cost.
    places: Vec<usize>,
    p: Vec<f64>,
    q: Vec<f64>,
    c: Vec<f64>,
}

impl Weighed {
    /// The smoothed reward `ln(1 - l p c/q)/l` of each record whose cost is not 0.
    pub(crate) fn smoothed(&self, lambda: f64) -> Vec<f64> {
        let records = self.p.iter().zip(&self.q).zip(&self.c);
        records.map(|((p, q), c)| (-lambda * p * c / q).ln_1p() / lambda).collect()
    }

    /// Computes the probabilities of a policy on the records of a round.
    pub(crate) fn new(policy: &dyn Policy, logs: &Logs) -> Result<Self> {
        if logs.actions() != policy.actions() {
            let expected = format!("{} actions, as the policy", policy.actions());
            return Err(Error::size("the logs", expected, logs.actions()));
        }
        let running = Self::running(logs);
        let mut p = logs.over(&Propensities { policy, weighing: true })?.unwrap_or_default();
        if p.len() != running.places.len() {
            let expected = format!("{} entries, one per record with a cost", running.places.len());
            return Err(Error::size("the probabilities of a policy", expected, p.len()));
        }
        p.iter_mut().for_each(|p| *p = probability(*p));
        if let Some(i) = p.iter().position(|p| !(0.0..=1.0).contains(p)) {
            return Err(Error::value(running.places[i], "the probability of the logged action", "in [0, 1]", p[i]));
        }
        Ok(Weighed { p, ..running })
    }

    /// The probabilities of the policy that collected the records: `p = q`.
    pub(crate) fn running(logs: &Logs) -> Self {
        Self::of(logs.propensity(), logs.propensity(), logs.cost())
    }

    /// From `p`, `q` and `c` of all records.
    pub(crate) fn of(p: &[f64], q: &[f64], c: &[f64]) -> Self {
        let places: Vec<usize> = (0..c.len()).filter(|&i| c[i] != 0.0).collect();
        let at = |column: &[f64]| -> Vec<f64> { places.iter().map(|&i| column[i]).collect() };
        Weighed { records: c.len(), p: at(p), q: at(q), c: at(c), places }
    }

    /// The evidence of the records before an index, and of those from it on.
    pub(crate) fn split(&self, record: usize, wanted: &[Wanted]) -> [Evidence; 2] {
        let record = record.min(self.records);
        let cut = self.cut(record);
        let part = |records, range: Range<usize>| {
            let sums = |wanted: &Wanted| {
                let at = |&l| self.sum(range.clone(), |p, q, c| wanted.factor.log_and_slope(l, p, q, c));
                (wanted.factor, wanted.lambdas.iter().map(at).collect())
            };
            Evidence { records, sums: wanted.iter().map(sums).collect() }
        };
        [part(record, 0..cut), part(self.records - record, cut..self.p.len())]
    }

    /// The evidence of all records.
    pub(crate) fn evidence(&self, wanted: &[Wanted]) -> Evidence {
        let [_, all] = self.split(0, wanted);
        all
    }

    /// The sums of the factors of a chain (`chain.rs`) over the records from an index on.
    pub(super) fn chained(&self, record: usize, lambda: f64, ratio: f64) -> LogSum {
        self.sum(self.cut(record)..self.p.len(), |p, q, c| {
            let w = p / q;
            let x = -lambda * c * (1.0 + ratio * (w - 1.0));
            (x.ln_1p(), (lambda * ratio * w * c / (1.0 + x)).abs())
        })
    }

    /// The place of the first record with a cost from an index on.
    fn cut(&self, record: usize) -> usize {
        self.places.partition_point(|&i| i < record)
    }

    fn sum(&self, range: Range<usize>, log_and_slope: impl Fn(f64, f64, f64) -> (f64, f64)) -> LogSum {
        let (mut logs, mut sizes, mut slopes) = (Sum::default(), 0.0, Sum::default());
        let (p, q, c) = (&self.p[range.clone()], &self.q[range.clone()], &self.c[range]);
        for ((&p, &q), &c) in p.iter().zip(q).zip(c) {
            let (value, slope) = log_and_slope(p, q, c);
            logs.add(value);
            sizes += value.abs();
            slopes.add(slope);
        }
        LogSum { logs, slopes, rounding: ROUNDING * sizes }
    }
}
