//! LOOP: every algorithm is the same pure step `(state, logs) -> (state, report)`.

mod algorithm;
mod coverage;
mod lambda;
mod model;
mod named;
mod options;
mod portfolio;
mod retrain;
mod search;
mod settings;
mod sharpness;
mod state;
mod step;

pub use algorithm::{Algorithm, Crm, Window};
pub use coverage::Coverage;
pub use lambda::Lambda;
pub use named::LearnerSettings;
pub use options::{Choice, Family, Precision, Start};
pub(crate) use portfolio::{Calibration, Errors, Predictor, Trial};
pub use portfolio::{Goal, MemberKind, MemberReport, Members, Portfolio, PortfolioCheckpoint};
pub use retrain::{Contender, ContenderReport, MOST_COMPARED, Retrained, retrain, retrain_among};
pub use sharpness::Sharpness;
pub(crate) use state::Restored;
pub use state::State;

use serde::{Deserialize, Serialize};

use crate::certificate::{FixedSince, Protocol};
use crate::estimator::Custom;
use crate::optim::{Optimiser, Trace};

/// The settings of learning, without any state.
///
/// The exploration floor is a setting of the first policy
/// ([`with_exploration`](crate::LinearGaussian::with_exploration)). Prior and posterior have the same floor, and every
/// learned policy keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Learner {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The rule for `lambda`.
    pub lambda: Lambda,
    /// The sharpness of the prior of the search, if this prior is made from the first policy.
    pub sharpness: Sharpness,
    /// Which records choose among the candidates of lambda and sharpness, if records are held back. Sessions from before
    /// there was a choice are read as [`Choice::Newest`].
    #[serde(default = "Choice::newest")]
    pub choice: Choice,
    /// The family of posteriors that is searched.
    pub family: Family,
    /// The starting point of each round's search.
    pub start: Start,
    /// The optimiser of the search.
    pub optimiser: Optimiser,
    /// The number type of Adam. L-BFGS always uses double precision, because its line search compares values.
    pub precision: Precision,
    /// The absolute error of the propensities during the search, in `(0, 0.01]`; L-BFGS uses 1e-10 or less. It does not
    /// affect logged or reported propensities.
    pub tolerance: f64,
    /// How many of the newest records are held back until a later round, in units of the newest round's size; at least
    /// 0. On them the new policy is a fixed policy, whose certificate needs no divergence. At most half of the records
    /// of the window are held back. All rounds of a loop should use the same value.
    pub held_back: f64,
    /// The weight of the estimated risk in the choice of lambda and sharpness, in `[0, 1]`: 0 chooses by the certified
    /// risk, 1 by the estimated risk, and a value in between by their weighted mean.
    pub trade: f64,
    /// A custom estimator that replaces the algorithm's own. The window, the anchor and the divergence stay the same.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub custom: Option<Custom>,
    /// The settings of the certificates.
    pub protocol: Protocol,
    /// The seed of the order of the records.
    pub seed: u64,
}

impl Default for Learner {
    fn default() -> Self {
        Learner {
            algorithm: Algorithm::SeqAdjLs,
            lambda: Lambda::InverseSqrt,
            sharpness: Sharpness::Fixed(1.0),
            choice: Choice::default(),
            family: Family::default(),
            start: Start::default(),
            optimiser: Optimiser::default(),
            precision: Precision::default(),
            tolerance: 1e-5,
            held_back: 0.0,
            trade: 0.0,
            custom: None,
            protocol: Protocol::default(),
            seed: 0,
        }
    }
}

/// The report of a step.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StepReport {
    /// The number of records of this round.
    pub n: usize,
    /// The number of records that were learned from.
    pub records: usize,
    /// The `lambda` that was used; 0 for a portfolio, which has none.
    pub lambda: f64,
    /// The sharpness that was used.
    pub sharpness: f64,
    /// `KL` of the new policy from the anchor, including the effect of the exploration floor; 0 for a portfolio.
    pub kl: f64,
    /// The trace of the search.
    pub trace: Trace,
    /// The candidates, if there was a choice; else empty.
    pub candidates: Vec<Candidate>,
    /// The members of a portfolio; else empty.
    pub members: Vec<MemberReport>,
    /// The coverage of the new policy, which collects the next round, on this round.
    pub coverage: Option<Coverage>,
    /// The first record that the new policy has not seen, if records were held back.
    pub fixed_since: Option<FixedSince>,
}

/// A policy that was learned with one lambda and one sharpness, and its scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Candidate {
    /// Its lambda.
    pub lambda: f64,
    /// The sharpness of its anchor.
    pub sharpness: f64,
    /// The certified risk, with all of delta for this choice alone. It is a score and not a lasting statement.
    pub upper: f64,
    /// The estimated risk.
    pub estimate: f64,
    /// The score by which the choice is made, a weighted mean of `upper` and `estimate`; the lowest wins.
    pub score: f64,
}

#[cfg(test)]
mod tests;
