//! The inequality behind every certificate.
//!
//! For each record the proofs multiply a *factor*. Its expectation, given everything before the record, is `1 - l R`:
//!
//! | | LS: bounds `R` | adjusted: bounds `R - R(logging policy)` |
//! | --- | --- | --- |
//! | a predictor `d` in `{0, 1}` | `1 - l d c/q` | `1 - l (d/q - 1) c` |
//! | a fixed policy | `1 - l p c/q` | `1 - l (p/q - 1) c` |
//!
//! The product of the factors over `(1 - l R)^N` is a martingale with mean 1. By Ville's inequality it never exceeds
//! `1/delta`, at any time, with probability `1 - delta`.
//!
//! For a posterior `Q` over predictors, take the mean of the martingale under the prior and change the measure (Donsker
//! and Varadhan), at the price of `KL(Q, P)`. Since `d` is 0 or 1, the mean of the logarithm of a factor under `Q` is
//! linear in `p`. Since `x -> -ln(1 - l x)` is convex, the mean of `-ln(1 - l R(d))` under `Q`, or over rounds, is at
//! least its value at the mean risk. Solving for that risk gives:
//!
//! `R <= psi_l( -(1/(l N)) sum_i E ln(factor_i) + (price + ln(1/delta))/(l N) )`.

use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, Factor, ROUNDING};
use super::protocol::Protocol;
use crate::error::{Error, Result, check_setting};

/// Which quantity is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Smoothing {
    /// Logarithmic smoothing: bounds the risk itself.
    Ls,
    /// Adjusted logarithmic smoothing: bounds the risk minus the mean risk of the logging policies; needs `lambda < 1`.
    Adjusted,
}

/// Whose risk is bounded, and the price of the bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Subject {
    /// The risk of any posterior over predictors. The price is its divergence from a prior that was fixed before the
    /// records. `error` bounds the numerical error of the divergence. `turned` tells that policy and prior have
    /// different bases.
    Posterior { kl: f64, error: f64, turned: bool },
    /// The risk of a policy chosen from a set of `size` policies that were all fixed before the records.
    Fixed { size: usize },
}

/// The relative error of a propensity, whether computed or logged (`math/perturbed.rs`), with an allowance for the
/// error of the scores.
const PROPENSITY: f64 = 2e-9;
/// The same for a policy whose basis differs from its prior's. A basis may come from the records at no price as long as
/// it only changes coordinates. But coordinates are rounded to `f32`, and different rounding gives slightly different
/// predictors. Measured propensities differ by about 1e-7; this constant allows a hundred times as much.
const TURNED: f64 = 1e-5;

/// The best bound over the grid of lambdas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    /// The upper bound, numerical error included.
    pub(crate) upper: f64,
    pub(crate) lambda: f64,
    /// `-(1/(l N)) sum_i E ln(factor_i)` at that lambda.
    pub(crate) estimate: f64,
    /// The allowance for numerical error, added to the argument of `psi`.
    pub(crate) numerical: f64,
    pub(crate) records: usize,
}

/// Evaluates the inequality on the evidence of some records at the lambdas of the protocol. The evidence may hold more
/// lambdas after these; they are ignored. `delta` is the failure probability of this statement; the price of the grid
/// is added on top. Fails if the bound is below everything that it can bound.
pub(crate) fn bound(
    evidence: &Evidence,
    smoothing: Smoothing,
    subject: Subject,
    protocol: &Protocol,
    delta: f64,
) -> Result<Bound> {
    let best = inequality(evidence, smoothing, subject, protocol, delta)?;
    possible(best.upper, best.numerical, smoothing)?;
    Ok(best)
}

/// The inequality itself.
pub(super) fn inequality(
    evidence: &Evidence,
    smoothing: Smoothing,
    subject: Subject,
    protocol: &Protocol,
    delta: f64,
) -> Result<Bound> {
    protocol.check()?;
    check_setting("delta", delta, delta > 0.0 && delta < 1.0, "in (0, 1)")?;
    let records = evidence.records();
    if records == 0 {
        return Err(Error::size("the logs", "at least 1 record", 0));
    }
    let (price, price_error, fixed, propensity) = match subject {
        Subject::Posterior { kl, error, turned } => (kl, error, false, if turned { TURNED } else { PROPENSITY }),
        Subject::Fixed { size } => ((size as f64).ln(), 0.0, true, PROPENSITY),
    };
    let price = price + protocol.grid() - delta.ln();
    let usable = |lambda: f64| smoothing == Smoothing::Ls || lambda < 1.0;
    let mut best: Option<Bound> = None;
    for (&lambda, sum) in protocol.lambdas.iter().zip(evidence.at(Factor { smoothing, fixed })) {
        if !usable(lambda) {
            continue;
        }
        let error = price_error + ROUNDING * price.abs() + propensity * sum.slopes.value() + sum.rounding;
        let scale = lambda * records as f64;
        let (estimate, numerical) = (-sum.logs.value() / scale, error / scale);
        let upper = protocol.form.apply(lambda, estimate + price / scale + numerical);
        // The last operations add rounding errors too.
        let upper = upper + ROUNDING * upper.abs();
        if upper.is_finite() && best.is_none_or(|best| upper < best.upper) {
            best = Some(Bound { upper, lambda, estimate, numerical, records });
        }
    }
    best.ok_or_else(|| Error::setting("the grid of lambdas", "one with a finite bound", "not"))
}

/// Fails if an upper bound is below everything that it can bound. Costs are in `[-1, 0]`, so no risk is below -1, and no
/// difference of two risks is. With right assumptions such a bound has a probability of at most delta, and it is false.
pub(super) fn possible(upper: f64, numerical: f64, smoothing: Smoothing) -> Result<()> {
    if upper >= -1.0 - numerical {
        return Ok(());
    }
    let what = match smoothing {
        Smoothing::Ls => format!("the risk is proven to be at most {upper:.4}, but no risk is below -1, the best cost"),
        Smoothing::Adjusted => format!(
            "the risk minus that of the logging policies is proven to be at most {upper:.4}, but it cannot be below \
             -1, the width of the range of costs"
        ),
    };
    Err(Error::Refuted { what })
}
