//! EVALUATION: estimates the risk of a target policy from the logs of another policy, by every estimator, in one pass.
//!
//! Records are read once, in batches of any size. An [`Evaluator`] keeps only sums: about 130 kB per distinct term of
//! its estimators, for any number of records. They give
//!
//! | | covers | guarantee |
//! | --- | --- | --- |
//! | [`Evaluation::anytime`] | the risk; at any number of records, and at all numbers at once | proven |
//! | [`Estimate::bernstein`] | the estimator's expectation; at a number of records that was fixed before them | proven, if a range is known |
//! | [`Estimate::bootstrap`] | the estimator's expectation; with many records | asymptotic |
//!
//! The expectation of an estimator equals the risk for IPS, and for the doubly robust estimator with a model that was
//! fixed before the records. Self-normalisation adds a bias that vanishes with the number of records. Clipping,
//! smoothing and switching add a bias that stays, mostly upwards, and the direct method is as biased as its model. The
//! intervals around these estimates do not account for their bias. The last two kinds of interval assume independent
//! records, so the logging policy must not have learned from the records on the way. The first kind does not assume
//! that.
//!
//! The same records give the same bits, for any batches and any number of threads.

mod anytime;
mod bernstein;
mod bootstrap;
mod estimator;
mod evaluator;
mod model;
mod moments;
mod selection;
mod settings;
mod stripe;
mod weights;

pub use estimator::{Bias, Estimator};
pub use evaluator::Evaluator;
pub use model::{CostModel, ModelFit};
pub use selection::{Selection, Standing};
pub use settings::EvaluationSettings;
pub use weights::{ENOUGH, NEGLIGIBLE, WeightSums, WeightVerdict};

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::estimator::Regularizer;
use crate::logs::RewardRange;

/// The columns that one pass needs, all of the same length.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// The probabilities of the logged actions under the target policy.
    pub p: &'a [f64],
    /// Their logged propensities.
    pub q: &'a [f64],
    /// The costs, in `[-1, 0]`.
    pub c: &'a [f64],
    /// The predictions of a cost model; only some estimators need them.
    pub model: Option<Modelled<'a>>,
    /// The terms of user-defined estimators: one row per record, one column per [`Estimator::Custom`]; empty if there
    /// are none.
    pub custom: &'a [f64],
}

/// The predictions of a cost model `chat(x, a)` for some records.
#[derive(Debug, Clone, Copy)]
pub struct Modelled<'a> {
    /// `chat(x_i, a_i)`: for the logged action.
    pub logged: &'a [f64],
    /// `sum_a pi(a|x_i) chat(x_i, a)`: for the target policy.
    pub mean: &'a [f64],
}

impl<'a> Observed<'a> {
    fn len(&self) -> usize {
        self.p.len()
    }

    fn slice(&self, range: Range<usize>) -> Observed<'a> {
        let Observed { p, q, c, model, custom } = *self;
        let width = custom.len() / p.len().max(1);
        Observed {
            p: &p[range.clone()],
            custom: &custom[range.start * width..range.end * width],
            q: &q[range.clone()],
            c: &c[range.clone()],
            model: model.map(|m| Modelled { logged: &m.logged[range.clone()], mean: &m.mean[range] }),
        }
    }
}

/// The estimates of a policy's risk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Evaluation {
    /// The number of records.
    pub records: usize,
    /// The failure probability of each interval.
    pub delta: f64,
    /// One estimate per estimator of the settings, in the same order.
    pub estimates: Vec<Estimate>,
    /// The interval for the risk that holds at all times at once, by logarithmic smoothing, within `[-1, 0]`.
    pub anytime: Interval,
    /// Diagnostics of the importance weights: whether the estimates can be trusted.
    pub weights: Weights,
}

/// The estimate to use, and why; or why none of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Recommendation {
    /// The index of the estimate; `None` if only the proven interval should be used.
    pub estimate: Option<usize>,
    /// The reason.
    pub reason: String,
}

impl Evaluation {
    /// Recommends one of the estimates. The rule looks at the weights and at the kinds of the estimators, never at their
    /// values: an estimate that is chosen for its value is too good.
    pub fn recommended(&self) -> Recommendation {
        let none = |reason: String| Recommendation { estimate: None, reason };
        let w = &self.weights;
        if matches!(w.verdict, WeightVerdict::Above | WeightVerdict::Below) {
            return none(format!("the mean weight is {:.4} and not 1, so every estimate is wrong", w.mean));
        }
        if w.says_little(self.records) {
            return none(format!(
                "the effective sample size is {:.0} of {} records, so every estimate depends on few of them",
                w.effective, self.records
            ));
        }
        let preferred = [
            (
                Estimator::DoublyRobust,
                "unbiased if no record is predicted by a model that was fitted to it, and a good model makes it precise",
            ),
            (
                Estimator::SelfNormalised,
                "its bias vanishes with the number of records, and it varies less than the unbiased IPS",
            ),
            (Estimator::SelfNormalisedDoublyRobust, "its bias vanishes with the number of records"),
            (Estimator::Weighted(Regularizer::Ips), "unbiased"),
        ];
        for (estimator, reason) in preferred {
            if let Some(place) = self.estimates.iter().position(|estimate| estimate.estimator == estimator) {
                return Recommendation { estimate: Some(place), reason: reason.into() };
            }
        }
        none("no estimator without a lasting bias was asked for".into())
    }

    /// Converts costs to rewards of this range.
    #[must_use]
    pub fn in_rewards(mut self, range: RewardRange) -> Self {
        let width = range.reward(-1.0) - range.reward(0.0);
        let turned = |i: Interval| Interval { lower: range.reward(i.upper), upper: range.reward(i.lower) };
        let anytime = self.anytime;
        self.anytime = turned(anytime);
        for estimate in &mut self.estimates {
            estimate.value = range.reward(estimate.value);
            estimate.standard_error *= width;
            estimate.bootstrap = estimate.bootstrap.map(turned);
            estimate.bernstein = estimate.bernstein.map(turned);
        }
        self
    }
}

/// The result of one estimator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Estimate {
    /// The estimator.
    pub estimator: Estimator,
    /// The estimated risk.
    pub value: f64,
    /// Its standard error; for a ratio, to first order.
    pub standard_error: f64,
    /// The percentile bootstrap interval; `None` without replicates.
    pub bootstrap: Option<Interval>,
    /// The empirical Bernstein interval; `None` if no range of the terms is known before the data. With a cost model it
    /// holds if the model was fitted to other records; with a cross-fitted model it is an approximation.
    pub bernstein: Option<Interval>,
}

/// The difference between two policies, by one estimator over the same records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Contrast {
    /// The estimator.
    pub estimator: Estimator,
    /// The estimated risk of the first policy minus that of the second.
    pub value: f64,
    /// The paired percentile bootstrap interval; `None` without replicates.
    pub bootstrap: Option<Interval>,
}

/// An interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub lower: f64,
    /// Its upper end.
    pub upper: f64,
}

impl Interval {
    /// Whether it contains a number.
    pub fn contains(&self, x: f64) -> bool {
        self.lower <= x && x <= self.upper
    }
}

/// The limit in standard errors for one false alarm in ten thousand.
const LIMIT: f64 = 3.9;

/// Diagnostics of the importance weights `w = p/q`.
///
/// Their expectation is 1 if the logged propensities are right and every action of the target policy could be logged. A
/// mean that is many standard errors from 1 indicates wrong propensities.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Weights {
    /// Their mean.
    pub mean: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// The distance of the mean from 1 in standard errors, corrected for the skewness of the weights; `None` if the
    /// standard error is 0.
    pub z: Option<f64>,
    /// Whether the mean is consistent with 1, at one false alarm in ten thousand.
    pub verdict: WeightVerdict,
    /// The largest weight.
    pub largest: f64,
    /// The effective sample size `(sum w)^2/sum w^2`: the number of equally weighted records with the same precision.
    pub effective: f64,
    /// The share of records whose weight is 0.
    pub zero: f64,
}

impl Weights {
    /// Whether so few of the records carry the weight that no estimate can be trusted.
    fn says_little(&self, records: usize) -> bool {
        self.effective < 0.01 * records as f64 || self.effective < 30.0
    }

    /// Reasons not to trust the estimates from this many records.
    pub fn warnings(&self, records: usize) -> Vec<String> {
        let mut warnings = Vec::new();
        let off = format!("the mean weight is {:.4} ± {:.4} and should be 1", self.mean, self.standard_error);
        match self.verdict {
            WeightVerdict::Fits | WeightVerdict::CannotTell => {}
            WeightVerdict::Above => warnings.push(format!("{off}: propensities are too small")),
            WeightVerdict::Below => warnings.push(format!(
                "{off}: propensities are too large, or an action that the policy takes was never logged"
            )),
            WeightVerdict::BelowOrRare => warnings.push(format!(
                "{off}: propensities are too large, or actions that the policy takes were too rare to be logged"
            )),
        }
        if self.says_little(records) {
            warnings.push(format!(
                "the effective sample size is {:.0} of {records} records: the logs say little about this policy",
                self.effective
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests;
