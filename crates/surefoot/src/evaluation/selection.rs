//! Certified selection among several policies, and their best mixture.

use serde::{Deserialize, Serialize};

use super::Evaluator;
use super::anytime::{Anytime, upper};
use crate::certificate::{LogSum, Share};
use crate::error::{Error, Result};
use crate::math::sum::Sum;

/// Simultaneous bounds for several policies that were fixed before the records: with probability `1 - delta`, at all
/// times, every bound here holds, including that of the mixture.
///
/// With `S_j(l) = sum_i ln(1 - l p_ij c_i/q_i)` for policy `j` and prior weights `w0`, for all weights `w` at once
/// (Catoni 2007; `certificate/bound.rs` has the martingale)
///
/// `sum_j w_j R(pi_j) <= psi_l( (-sum_j w_j S_j(l) + KL(w, w0) + ln(1/delta))/(l N) )`.
///
/// All weight on one policy gives that policy's own bound, at the price of `ln(1/w0_j)`. At one lambda, the Gibbs weights
/// `w_j ~ w0_j exp(S_j(l))` minimise the right-hand side. The bounds at all lambdas are combined as the protocol says. The
/// mixture's bound is never above that of a single policy, because all weight on the best one is tried too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Selection {
    /// The number of records.
    pub records: usize,
    /// The probability that any of the bounds ever fails.
    pub delta: f64,
    /// One entry per policy, in the given order.
    pub candidates: Vec<Standing>,
    /// The index of the policy with the lowest bound; the first one in case of a tie.
    pub best: usize,
    /// The mixture with the lowest bound.
    pub mixture: Standing,
    /// The weights of the mixture.
    pub weights: Vec<f64>,
}

/// The bound for one policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Standing {
    /// The smoothed estimate behind the bound, `psi_l` of `-S/(l N)`: the bound without any price.
    pub estimate: f64,
    /// The upper bound, numerical error included; at most 0.
    pub upper: f64,
    /// The lambda of the bound.
    pub lambda: f64,
}

impl Selection {
    /// Computes the bounds from the evaluators of the policies, over the same records and with the same settings.
    /// `prior` are weights above 0 that were fixed before the records; only their ratios matter. `None` stands for
    /// equal weights.
    pub fn of(evaluators: &[&Evaluator], prior: Option<&[f64]>) -> Result<Self> {
        let Some(first) = evaluators.first() else {
            return Err(Error::size("the candidates", "at least one policy", 0));
        };
        let equal = vec![1.0; evaluators.len()];
        let prior = prior.unwrap_or(&equal);
        if prior.len() != evaluators.len() {
            let expected = format!("{} weights, one for each candidate", evaluators.len());
            return Err(Error::size("the prior", expected, prior.len()));
        }
        if let Some(row) = prior.iter().position(|w| !(*w > 0.0 && w.is_finite())) {
            return Err(Error::setting(format!("weight {} of the prior", row + 1), "above 0", prior[row]));
        }
        // In units of the largest weight, so that the sum cannot overflow.
        let unit = prior.iter().copied().fold(0.0, f64::max);
        let total: f64 = prior.iter().map(|w| w / unit).sum();
        let prior: Vec<f64> = prior.iter().map(|w| w / unit / total).collect();
        evaluators.iter().try_for_each(|evaluator| evaluator.comparable(first))?;
        let sums: Vec<Anytime> = evaluators.iter().map(|evaluator| evaluator.anytime()).collect::<Result<_>>()?;
        let (records, protocol) = (first.records(), first.protocol());
        let delta = Share::WHOLE.delta(protocol)?;

        let standing = |sums: &[LogSum], delta: f64, estimate: &dyn Fn(usize) -> f64| -> Result<Standing> {
            let bound = upper(records, sums, protocol, delta)?;
            let at = protocol.lambdas.iter().position(|&lambda| lambda == bound.lambda).unwrap_or(0);
            Ok(Standing { estimate: estimate(at), upper: bound.upper.min(0.0), lambda: bound.lambda })
        };
        let estimate = |logs: f64, at: usize| {
            let lambda = protocol.lambdas[at];
            protocol.form.apply(lambda, -logs / (lambda * records as f64))
        };
        let candidates: Vec<Standing> = sums
            .iter()
            .zip(&prior)
            .map(|(sums, w0)| standing(sums.upper(), delta * w0, &|at| estimate(sums.upper()[at].logs.value(), at)))
            .collect::<Result<_>>()?;
        let lower = |best: usize, j: usize| if candidates[j].upper < candidates[best].upper { j } else { best };
        let best = (1..candidates.len()).fold(0, lower);

        // The bound holds for all weights at once, at all lambdas together. So any weights may be tried: the Gibbs weights
        // at each lambda, and all weight on the best policy.
        let single = (0..sums.len()).map(|j| f64::from(u8::from(j == best))).collect();
        let tried = (0..protocol.lambdas.len()).map(|at| gibbs(&sums, &prior, at)).chain([single]);
        let mut lowest: Option<(Standing, Vec<f64>)> = None;
        for weights in tried {
            let mean = |at: usize| {
                let logs = sums.iter().zip(&weights).map(|(sums, w)| w * sums.upper()[at].logs.value());
                estimate(logs.sum(), at)
            };
            let joined: Vec<LogSum> =
                (0..protocol.lambdas.len()).map(|at| mixed(&sums, &prior, &weights, at)).collect();
            let found = standing(&joined, delta, &mean)?;
            if lowest.as_ref().is_none_or(|(lowest, _)| found.upper < lowest.upper) {
                lowest = Some((found, weights));
            }
        }
        let (mixture, weights) = lowest.expect("at least one lambda was tried");
        Ok(Selection { records, delta: protocol.delta, candidates, best, mixture, weights })
    }
}

/// The weights `w_j ~ w0_j exp(S_j)` at the lambda with this index.
fn gibbs(sums: &[Anytime], prior: &[f64], at: usize) -> Vec<f64> {
    // In the log domain, with the maximum factored out: `S` is in the thousands.
    let logs: Vec<f64> = sums.iter().zip(prior).map(|(sums, w0)| w0.ln() + sums.upper()[at].logs.value()).collect();
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mass: f64 = logs.iter().map(|log| (log - top).exp()).sum();
    logs.iter().map(|log| (log - top).exp() / mass).collect()
}

/// `sum_j w_j S_j - KL(w, w0)` at the lambda with this index.
fn mixed(sums: &[Anytime], prior: &[f64], weights: &[f64], at: usize) -> LogSum {
    let (mut logs, mut slopes, mut rounding) = (Sum::default(), Sum::default(), 0.0);
    for ((sums, w), w0) in sums.iter().zip(weights).zip(prior).filter(|((_, w), _)| **w > 0.0) {
        let LogSum { logs: own, slopes: steep, rounding: rounded } = sums.upper()[at];
        let price = (w / w0).ln();
        logs.add(w * own.value());
        logs.add(-w * price);
        slopes.add(w * steep.value());
        // The products, and the logarithm of a quotient, add a few rounding errors.
        rounding += w * rounded + 8.0 * f64::EPSILON * w * (own.value().abs() + price.abs() + 1.0);
    }
    LogSum { logs, slopes, rounding }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::{Combine, Protocol};
    use crate::evaluation::{EvaluationSettings, Observed};
    use crate::math::random::{Purpose, stream};
    use rand::RngExt;

    /// Records of a uniform logging policy over two actions. The first action has a reward with probability `good`, the
    /// other with probability 0.4. The policies take the first action with the probabilities `takes`.
    fn evaluators(n: usize, good: f64, takes: &[f64], seed: u64) -> Vec<Evaluator> {
        evaluators_by(n, good, takes, seed, Combine::Mixture)
    }

    fn evaluators_by(n: usize, good: f64, takes: &[f64], seed: u64, combine: Combine) -> Vec<Evaluator> {
        let mut rng = stream(seed, Purpose::Decide, 77);
        let first: Vec<bool> = (0..n).map(|_| rng.random::<f64>() < 0.5).collect();
        let reward = |&first: &bool| if first { good } else { 0.4 };
        let c: Vec<f64> = first.iter().map(|f| if rng.random::<f64>() < reward(f) { -1.0 } else { 0.0 }).collect();
        let q = vec![0.5; n];
        let evaluator = |&take: &f64| {
            let p: Vec<f64> = first.iter().map(|&f| if f { take } else { 1.0 - take }).collect();
            let protocol = Protocol { combine, ..Protocol::default() };
            let settings = EvaluationSettings { replicates: 0, protocol, ..Default::default() };
            let mut evaluator = Evaluator::new(&settings).unwrap();
            evaluator.add(&Observed { p: &p, q: &q, c: &c, model: None, custom: &[] }).unwrap();
            evaluator
        };
        takes.iter().map(evaluator).collect()
    }

    fn select(evaluators: &[Evaluator], prior: Option<&[f64]>) -> Result<Selection> {
        Selection::of(&evaluators.iter().collect::<Vec<_>>(), prior)
    }

    #[test]
    fn the_better_policy_is_found_and_the_mixture_leans_to_it() {
        let all = evaluators(3000, 0.6, &[0.1, 0.9, 0.5], 1);
        let selection = select(&all, None).unwrap();
        assert_eq!(selection.best, 1);
        assert!(selection.weights[1] > 0.99, "{:?}", selection.weights);
        assert!((selection.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // A single policy pays nothing for the choice: this is the upper end of a one-sided interval.
        let alone = select(&all[1..2], None).unwrap();
        assert!(alone.candidates[0].upper < selection.candidates[1].upper);
        assert!((alone.mixture.upper - alone.candidates[0].upper).abs() < 1e-12);
    }

    #[test]
    fn no_single_policy_has_a_lower_bound_than_the_mixture() {
        for seed in 0..20 {
            let prior = [0.2, 3.0, 1.0];
            let selection = select(&evaluators(200, 0.5, &[0.1, 0.6, 0.5], seed), Some(&prior)).unwrap();
            let best = selection.candidates[selection.best].upper;
            assert!(selection.mixture.upper <= best + 1e-9, "{selection:?}");
        }
    }

    #[test]
    fn the_weights_are_those_of_the_gibbs_posterior_and_its_bound_is_the_sum() {
        let all = evaluators_by(300, 0.55, &[0.2, 0.8], 5, Combine::Union);
        let selection = select(&all, Some(&[1.0, 2.0])).unwrap();
        // The mixture over lambdas is tighter, for every policy and for the mixture of policies.
        let tighter = select(&evaluators(300, 0.55, &[0.2, 0.8], 5), Some(&[1.0, 2.0])).unwrap();
        assert!(tighter.mixture.upper < selection.mixture.upper);
        assert!(tighter.candidates.iter().zip(&selection.candidates).all(|(a, b)| a.upper < b.upper));
        let at = |j: usize| {
            let lambda = selection.mixture.lambda;
            let place = all[0].protocol().lambdas.iter().position(|&l| l == lambda).unwrap();
            all[j].anytime().unwrap().upper()[place].logs.value()
        };
        let odds = 2.0 * (at(1) - at(0)).exp();
        assert!((selection.weights[1] / selection.weights[0] / odds - 1.0).abs() < 1e-9);
        let (w, w0) = (&selection.weights, [1.0 / 3.0, 2.0 / 3.0]);
        let kl: f64 = (0..2).map(|j| w[j] * (w[j] / w0[j]).ln()).sum();
        let lambda = selection.mixture.lambda;
        let price = kl + 13f64.ln() + 20f64.ln();
        let x = (-(w[0] * at(0) + w[1] * at(1)) + price) / (lambda * 300.0);
        let upper = (1.0 - (-lambda * x).exp()) / lambda;
        assert!((selection.mixture.upper - upper).abs() < 1e-7, "{} {upper}", selection.mixture.upper);
    }

    #[test]
    fn all_bounds_hold_together_in_simulations() {
        let takes = [0.0, 0.3, 0.7, 1.0];
        let risk = |take: f64| -(take * 0.6 + (1.0 - take) * 0.4);
        let wrong = (0..400)
            .filter(|&seed| {
                let s = select(&evaluators(100, 0.6, &takes, 1000 + seed), None).unwrap();
                let mixture: f64 = s.weights.iter().zip(takes).map(|(w, take)| w * risk(take)).sum();
                mixture > s.mixture.upper || takes.iter().zip(&s.candidates).any(|(&take, c)| risk(take) > c.upper)
            })
            .count();
        // At most 5 % on average; 33 is three standard deviations above.
        assert!(wrong <= 33, "{wrong} of 400");
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let text = |r: Result<Selection>| r.unwrap_err().to_string();
        let all = evaluators(50, 0.6, &[0.1, 0.9], 1);
        assert_eq!(text(select(&[], None)), "the candidates should have at least one policy, but has 0");
        assert_eq!(
            text(select(&all, Some(&[1.0]))),
            "the prior should have 2 weights, one for each candidate, but has 1"
        );
        assert_eq!(text(select(&all, Some(&[1.0, 0.0]))), "weight 2 of the prior should be above 0, but is 0");
        let other = evaluators(60, 0.6, &[0.5], 1);
        assert_eq!(
            text(Selection::of(&[&all[0], &other[0]], None)),
            "the other evaluator should have 60 records, as the one, but has 50"
        );
    }
}
