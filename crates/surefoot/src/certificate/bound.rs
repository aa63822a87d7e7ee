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
//!
//! Several lambdas, or several sets of records, give several martingales. Their weighted average is a martingale of mean
//! 1 too. So the risk is below the root in `R` of `sum_g v_g exp(S_g - price - N_g ln(1 - l_g R)) = 1/delta`, where
//! `S_g = sum_i E ln(factor_i)` and the weights `v_g` sum to 1 (for a posterior: take the average over the lambdas before
//! the change of measure).

use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, Factor, LogSum, ROUNDING};
use super::protocol::Protocol;
use super::stakes::Stake;
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
pub(super) const PROPENSITY: f64 = 2e-9;
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

/// The inequality itself, with the same weight for every lambda of the protocol.
pub(super) fn inequality(
    evidence: &Evidence,
    smoothing: Smoothing,
    subject: Subject,
    protocol: &Protocol,
    delta: f64,
) -> Result<Bound> {
    let weight = 1.0 / protocol.lambdas.len() as f64;
    let stakes: Vec<Stake> = protocol.lambdas.iter().map(|&lambda| Stake { lambda, weight }).collect();
    staked(evidence, smoothing, subject, &stakes, protocol, delta)
}

/// The inequality with a weight for each lambda; the evidence has these lambdas first.
pub(super) fn staked(
    evidence: &Evidence,
    smoothing: Smoothing,
    subject: Subject,
    stakes: &[Stake],
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
    let usable = |lambda: f64| smoothing == Smoothing::Ls || lambda < 1.0;
    let terms: Vec<Term> = stakes
        .iter()
        .zip(evidence.at(Factor { smoothing, fixed }))
        .filter(|(stake, _)| usable(stake.lambda))
        .map(|(&Stake { lambda, weight }, &sum)| Term {
            lambda,
            price: price - delta.ln() - weight.ln(),
            price_error,
            records,
            sum,
        })
        .collect();
    solve(&terms, propensity, protocol)
}

/// One martingale of a bound: the product of the factors of some records at one lambda, with its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Term {
    pub(super) lambda: f64,
    /// `-ln` of its weight, with delta and all prices: alone, the martingale must stay below `exp(price)`.
    pub(super) price: f64,
    /// A bound on the numerical error of the price.
    pub(super) price_error: f64,
    pub(super) records: usize,
    pub(super) sum: LogSum,
}

impl Term {
    fn error(&self, propensity: f64) -> f64 {
        self.price_error + ROUNDING * self.price.abs() + propensity * self.sum.slopes.value() + self.sum.rounding
    }

    /// `ln` of the weighted martingale at the risk `r`, with the numerical error against it.
    fn log_at(&self, r: f64, propensity: f64) -> f64 {
        let product = self.sum.logs.value() - self.error(propensity);
        product - self.price - self.records as f64 * (-self.lambda * r).ln_1p()
    }
}

/// The bound that follows from several martingales `M_g`. At the true risk `R`, with the failure probability in the
/// prices, `sum_g exp(-price_g) M_g(R) < 1`. Every `M_g` grows with `R`, so the true risk is below the root of the sum. The
/// union takes the least root of a single term instead, which is never smaller.
pub(super) fn solve(terms: &[Term], propensity: f64, protocol: &Protocol) -> Result<Bound> {
    let mut best: Option<Bound> = None;
    for term in terms {
        let scale = term.lambda * term.records as f64;
        let (estimate, numerical) = (-term.sum.logs.value() / scale, term.error(propensity) / scale);
        let upper = protocol.form.apply(term.lambda, estimate + term.price / scale + numerical);
        // The last operations add rounding errors too.
        let upper = upper + ROUNDING * upper.abs();
        if upper.is_finite() && best.is_none_or(|best| upper < best.upper) {
            best = Some(Bound { upper, lambda: term.lambda, estimate, numerical, records: term.records });
        }
    }
    let mut bound = best.ok_or_else(|| Error::setting("the grid of lambdas", "one with a finite bound", "not"))?;
    if protocol.mixes() && terms.len() > 1 {
        let total = |r: f64| terms.iter().map(|term| term.log_at(r, propensity).exp()).sum::<f64>();
        // At the union's bound a single term reaches 1, so the sum does. Far below it, the sum goes to 0.
        let (mut low, mut high) = (bound.upper, bound.upper);
        let mut width = 1e-3;
        while total(low) >= 1.0 {
            high = low;
            low -= width;
            width *= 2.0;
        }
        // Bisection to the last bit. The upper end is returned, which is on the safe side.
        loop {
            let middle = 0.5 * (low + high);
            if middle <= low || middle >= high {
                break;
            }
            if total(middle) >= 1.0 { high = middle } else { low = middle }
        }
        bound.upper = bound.upper.min(high + ROUNDING * (1.0 + high.abs()));
    }
    Ok(bound)
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
