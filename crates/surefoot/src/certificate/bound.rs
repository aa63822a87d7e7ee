//! The one inequality behind every certificate.
//!
//! For each record the proofs multiply a *factor* whose expectation, given all that came before, is `1 - l R`:
//!
//! | | LS: bounds `R` | adjusted: bounds `R - R(logging policy)` |
//! | --- | --- | --- |
//! | a predictor `d` in `{0, 1}` | `1 - l d c/q` | `1 - l (d/q - 1) c` |
//! | a fixed policy | `1 - l p c/q` | `1 - l (p/q - 1) c` |
//!
//! Their product over `(1 - l R)^N` is a martingale of mean 1. By Ville's inequality it never exceeds `1/delta`, at any
//! time, with probability `1 - delta`. For a posterior `Q` over predictors take the mean of the martingale under the
//! prior, and change the measure (Donsker and Varadhan), at the price of `KL(Q, P)`; since `d` is 0 or 1, the mean of
//! the logarithm of a factor under `Q` is linear in `p`. Since `x -> -ln(1 - l x)` is convex, the mean of `-ln(1 - l
//! R(d))` under `Q`, or over rounds, is at least that of the mean. Solved for it:
//!
//! `R <= psi_l( -(1/(l N)) sum_i E ln(factor_i) + (price + ln(1/delta))/(l N) )`.

use serde::{Deserialize, Serialize};

use super::protocol::Protocol;
use crate::error::{Error, Result, check_setting};
use crate::logs::Logs;
use crate::math::sum::Sum;
use crate::policy::{Policy, probability};

/// Which risk is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Smoothing {
    /// Logarithmic smoothing: the risk itself.
    Ls,
    /// Adjusted: the risk minus the mean risk of what collected the records; `lambda < 1`.
    Adjusted,
}

/// Whose risk is bounded, and its price.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Subject {
    /// That of any posterior over predictors, at the price of its divergence from a prior that was fixed before the
    /// records. `error` bounds the divergence's numerical error; `turned` tells that the policy is in another basis
    /// than the prior.
    Posterior { kl: f64, error: f64, turned: bool },
    /// That of one of a set of so many policies that were fixed before the records.
    Fixed { size: usize },
}

/// The relative error of a propensity, of the judged policy or logged (`math/perturbed.rs`), and some for the scores in
/// it.
const PROPENSITY: f64 = 2e-9;
/// The same for a policy in another basis than its prior. A basis that may come from the records is free as long as it
/// changes nothing but coordinates; but coordinates are rounded to `f32`, and other roundings make slightly other
/// predictors. Propensities differ by some 1e-7, as was measured; this allows a hundred times as much.
const TURNED: f64 = 1e-5;
/// The relative error of a term and of their sum, which is compensated: some 20 roundings.
const ROUNDING: f64 = 20.0 * f64::EPSILON;

/// What the records of a round say about a policy: its probability of each logged action. A record of cost 0 has the
/// factor 1 whatever the policy does, and only counts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Evidence {
    records: usize,
    /// The places of the records whose cost is not 0.
    places: Vec<u32>,
    p: Vec<f64>,
    q: Vec<f64>,
    c: Vec<f64>,
}

impl Evidence {
    /// Asks the policy about the records of a round.
    pub(crate) fn new(policy: &dyn Policy, logs: &Logs) -> Result<Self> {
        if logs.actions() != policy.actions() {
            let expected = format!("{} actions, as the policy", policy.actions());
            return Err(Error::size("the logs", expected, logs.actions()));
        }
        let weighing = logs.weighing();
        let mut p = policy.propensity(weighing.contexts(), weighing.action(), weighing.eligible())?;
        p.iter_mut().for_each(|p| *p = probability(*p));
        let running = Self::running(logs);
        if let Some(i) = p.iter().position(|p| !(0.0..=1.0).contains(p)) {
            let row = running.places[i] as usize;
            return Err(Error::value(row, "the probability of the logged action", "in [0, 1]", p[i]));
        }
        Ok(Evidence { p, ..running })
    }

    /// About the policy that collected them: `p = q`.
    pub(crate) fn running(logs: &Logs) -> Self {
        let places: Vec<u32> = (0..logs.len() as u32).filter(|&i| logs.cost()[i as usize] != 0.0).collect();
        let at = |column: &[f64]| -> Vec<f64> { places.iter().map(|&i| column[i as usize]).collect() };
        let (q, c) = (at(logs.propensity()), at(logs.cost()));
        Evidence { records: logs.len(), p: q.clone(), q, c, places }
    }

    /// What p, q and c of records say.
    #[cfg(test)]
    pub(super) fn of(p: &[f64], q: &[f64], c: &[f64]) -> Self {
        let places: Vec<u32> = (0..c.len() as u32).filter(|&i| c[i as usize] != 0.0).collect();
        let at = |column: &[f64]| -> Vec<f64> { places.iter().map(|&i| column[i as usize]).collect() };
        Evidence { records: c.len(), p: at(p), q: at(q), c: at(c), places }
    }

    /// The number of records.
    pub(crate) fn records(&self) -> usize {
        self.records
    }

    /// The estimate of the risk that is all but unbiased: smoothed by a lambda of 1e-3.
    pub(crate) fn estimate(rounds: &[Evidence]) -> f64 {
        const LAMBDA: f64 = 1e-3;
        let records: usize = rounds.iter().map(|e| e.records).sum();
        let sum: f64 = rounds.iter().map(|e| e.logs(Smoothing::Ls, true, LAMBDA, PROPENSITY).0.value()).sum();
        -sum / (LAMBDA * records as f64)
    }

    /// What the records from a place on say.
    pub(crate) fn since(&self, record: usize) -> Self {
        let from = self.places.partition_point(|&i| (i as usize) < record);
        Evidence {
            records: self.records.saturating_sub(record),
            places: self.places[from..].iter().map(|&i| i - record as u32).collect(),
            p: self.p[from..].to_vec(),
            q: self.q[from..].to_vec(),
            c: self.c[from..].to_vec(),
        }
    }

    /// The sum over the records of `E ln(factor)`, and a bound on its numerical error where propensities have this
    /// relative one.
    fn logs(&self, smoothing: Smoothing, fixed: bool, lambda: f64, propensity: f64) -> (Sum, f64) {
        let l = lambda;
        let (mut sum, mut sizes, mut slopes) = (Sum::default(), 0.0, 0.0);
        for ((&p, &q), &c) in self.p.iter().zip(&self.q).zip(&self.c) {
            // The logarithm of the factor, or its mean over d, and |p d/dp| of it; `ln_1p` since most are near 1.
            let (value, slope) = match (smoothing, fixed) {
                (Smoothing::Ls, false) => {
                    let value = p * (-l * c / q).ln_1p();
                    (value, value)
                }
                (Smoothing::Ls, true) => {
                    let x = -l * p * c / q;
                    (x.ln_1p(), x / (1.0 + x))
                }
                (Smoothing::Adjusted, false) => {
                    let (with, without) = ((-l * (1.0 / q - 1.0) * c).ln_1p(), (l * c).ln_1p());
                    (p * with + (1.0 - p) * without, p * (with - without))
                }
                (Smoothing::Adjusted, true) => {
                    let x = -l * (p / q - 1.0) * c;
                    (x.ln_1p(), -l * p * c / (q * (1.0 + x)))
                }
            };
            sum.add(value);
            sizes += value.abs();
            slopes += slope.abs();
        }
        (sum, propensity * slopes + ROUNDING * sizes)
    }
}

/// The best bound over the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    /// The upper bound; numerical error is in it.
    pub(crate) upper: f64,
    pub(crate) lambda: f64,
    /// `-(1/(l N)) sum_i E ln(factor_i)` at that lambda.
    pub(crate) estimate: f64,
    /// What was added to the argument of `psi` for numerical error.
    pub(crate) numerical: f64,
    pub(crate) records: usize,
}

/// The inequality, for the records of some rounds. `delta` is that of this statement; the grid is paid on top.
pub(crate) fn bound(
    evidence: &[Evidence],
    smoothing: Smoothing,
    judged: Subject,
    protocol: &Protocol,
    delta: f64,
) -> Result<Bound> {
    let records = evidence.iter().map(|e| e.records).sum();
    let fixed = matches!(judged, Subject::Fixed { .. });
    let propensity = if matches!(judged, Subject::Posterior { turned: true, .. }) { TURNED } else { PROPENSITY };
    best(records, smoothing, judged, protocol, delta, |at, sum, error| {
        for round in evidence {
            let (value, round_error) = round.logs(smoothing, fixed, protocol.lambdas[at], propensity);
            sum.join(value);
            *error += round_error;
        }
    })
}

/// What a stream of records says at one lambda about a policy that was fixed before them, with `x = -l p c/q`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Streamed {
    /// `sum_i ln(1 + x_i)`.
    pub(crate) logs: Sum,
    /// `sum_i x_i/(1 + x_i)`: by how much the first moves, relative to the propensities.
    pub(crate) slopes: Sum,
}

/// The inequality for a policy that was fixed before the records, from sums at each lambda of the grid whose terms have
/// this relative error.
pub(crate) fn bound_of_sums(
    records: usize,
    sums: &[Streamed],
    rounding: f64,
    protocol: &Protocol,
    delta: f64,
) -> Result<Bound> {
    best(records, Smoothing::Ls, Subject::Fixed { size: 1 }, protocol, delta, |at, sum, error| {
        sum.join(sums[at].logs);
        *error += PROPENSITY * sums[at].slopes.value() + rounding * sums[at].logs.value();
    })
}

/// The best bound over the grid, where `add(i, sum, error)` adds the sum of `E ln(factor)` at the lambda of place `i`,
/// and a bound on its numerical error.
fn best(
    records: usize,
    smoothing: Smoothing,
    judged: Subject,
    protocol: &Protocol,
    delta: f64,
    add: impl Fn(usize, &mut Sum, &mut f64),
) -> Result<Bound> {
    protocol.check()?;
    check_setting("delta", delta, delta > 0.0 && delta < 1.0, "in (0, 1)")?;
    if records == 0 {
        return Err(Error::size("the logs", "at least 1 record", 0));
    }
    let (price, price_error) = match judged {
        Subject::Posterior { kl, error, .. } => (kl, error),
        Subject::Fixed { size } => ((size as f64).ln(), 0.0),
    };
    let price = price + protocol.grid() - delta.ln();
    let usable = |lambda: f64| smoothing == Smoothing::Ls || lambda < 1.0;
    let mut best: Option<Bound> = None;
    for (at, &lambda) in protocol.lambdas.iter().enumerate().filter(|&(_, &lambda)| usable(lambda)) {
        let (mut sum, mut error) = (Sum::default(), price_error + ROUNDING * price.abs());
        add(at, &mut sum, &mut error);
        let scale = lambda * records as f64;
        let (estimate, numerical) = (-sum.value() / scale, error / scale);
        let upper = protocol.form.apply(lambda, estimate + price / scale + numerical);
        // The last operations round too.
        let upper = upper + ROUNDING * upper.abs();
        if upper.is_finite() && best.is_none_or(|best| upper < best.upper) {
            best = Some(Bound { upper, lambda, estimate, numerical, records });
        }
    }
    best.ok_or_else(|| Error::setting("the grid of lambdas", "one with a finite bound", "not"))
}
