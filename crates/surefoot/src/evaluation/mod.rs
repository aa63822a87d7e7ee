//! EVALUATION: what the logs say of a policy that did not collect them, by every estimator, in one pass.
//!
//! Records go by once, in batches of any size; a [`Evaluator`] keeps sums and nothing else, some 130 kB for each different
//! term of its estimators, however many records there are. From them come
//!
//! | | holds for | says |
//! | --- | --- | --- |
//! | [`Evaluation::anytime`] | the risk; any number of records, and all numbers at once | with a proof |
//! | [`Estimate::bernstein`] | the estimator's expectation; a number of records that was fixed before them | with a proof, if a range is known |
//! | [`Estimate::bootstrap`] | the estimator's expectation; many records | in the limit |
//!
//! The expectation of an estimator is the risk for IPS, and for the doubly robust one with a model that was fixed before
//! the records; dividing by the weights moves it by a part that vanishes with their number. Clipping, smoothing and
//! switching move it for good, mostly upwards, and the direct method is as good as its model: intervals around these do
//! not know of their bias. The last two take records as independent, so what collected them must not have learned from
//! them on the way; the first does not.
//!
//! The same records give the same bits, whatever the batches and the number of threads.

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

pub use estimator::Estimator;
pub use evaluator::Evaluator;
pub use model::{CostModel, ModelFit};
pub use selection::{Selection, Standing};
pub use settings::EvaluationSettings;
pub use weights::{ENOUGH, NEGLIGIBLE, WeightSums, WeightVerdict};

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::logs::RewardRange;

/// What one pass needs of some records, as columns of equal length.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// The probabilities of the logged actions under the policy that is judged.
    pub p: &'a [f64],
    /// Their logged propensities.
    pub q: &'a [f64],
    /// The costs, in `[-1, 0]`.
    pub c: &'a [f64],
    /// What a cost model says of the records; only some estimators need it.
    pub model: Option<Modelled<'a>>,
    /// The terms of estimators of the user's own, one row a record, one column for each [`Estimator::Custom`]; empty if there
    /// is none.
    pub custom: &'a [f64],
}

/// What a cost model `chat(x, a)` says of some records.
#[derive(Debug, Clone, Copy)]
pub struct Modelled<'a> {
    /// `chat(x_i, a_i)`: of the logged action.
    pub logged: &'a [f64],
    /// `sum_a pi(a|x_i) chat(x_i, a)`: of the policy that is judged.
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

/// What is known of a policy's risk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The number of records.
    pub records: usize,
    /// The probability with which each interval may be wrong.
    pub delta: f64,
    /// One for each estimator of the settings, in their order.
    pub estimates: Vec<Estimate>,
    /// The interval for the risk that holds at all times at once, by logarithmic smoothing, within `[-1, 0]`.
    pub anytime: Interval,
    /// The importance weights: whether the estimates can be trusted.
    pub weights: Weights,
}

impl Evaluation {
    /// The same in rewards of this range: a cost is a reward turned around.
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

/// What one estimator says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimator.
    pub estimator: Estimator,
    /// The estimated risk.
    pub value: f64,
    /// Its standard error; of a ratio, to first order.
    pub standard_error: f64,
    /// The interval of the percentile bootstrap; none without replicates.
    pub bootstrap: Option<Interval>,
    /// The empirical Bernstein interval; none where no range of the terms is known before the data. With a cost model it
    /// holds if that was fitted to other records; with a cross-fitted one it is an approximation.
    pub bernstein: Option<Interval>,
}

/// By how much two policies differ, by one estimator over the same records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// The estimator.
    pub estimator: Estimator,
    /// The estimated risk of the one minus that of the other.
    pub value: f64,
    /// The interval of the paired percentile bootstrap; none without replicates.
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
    /// Whether a number is in it.
    pub fn contains(&self, x: f64) -> bool {
        self.lower <= x && x <= self.upper
    }
}

/// The limit of one false alarm in ten thousand.
const LIMIT: f64 = 3.9;

/// The importance weights `w = p/q` of the records.
///
/// Their expectation is 1 if the logged propensities are right and every action that the judged policy takes could be
/// logged; a mean that is many standard errors from it tells of wrong propensities.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// Their mean.
    pub mean: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// By how many standard errors the mean is off, with the skewness of the weights taken out; none if there is no
    /// standard error to divide by.
    pub z: Option<f64>,
    /// Whether it is 1, at a level of one false alarm in ten thousand.
    pub verdict: WeightVerdict,
    /// The largest of them.
    pub largest: f64,
    /// `(sum w)^2/sum w^2`: of how many equally weighted records the estimates are worth.
    pub effective: f64,
    /// The share of records whose weight is 0.
    pub zero: f64,
}

impl Weights {
    /// What they say against trusting the estimates of so many records.
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
        if self.effective < 0.01 * records as f64 || self.effective < 30.0 {
            warnings.push(format!(
                "{records} records are worth {:.0} of its own: the logs know little of it",
                self.effective
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests;
