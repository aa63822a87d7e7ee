//! The Gibbs posterior over a finite set of candidate policies, for selection and mixtures.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::estimate::estimate;
use crate::logs::Logs;
use crate::policy::{Mixture, Policy};
use crate::regularizer::Regularizer;

/// The exact minimiser of `sum_j w_j Rhat(pi_j) + KL(w, w0)/(lambda N)` over all weights `w`:
/// `w_j ~ w0_j exp(-lambda N Rhat(pi_j))` (Catoni 2007).
#[derive(Debug, Clone, PartialEq)]
pub struct Gibbs {
    /// The weights of the candidates; they sum to 1.
    pub weights: Vec<f64>,
    /// `Rhat` of each candidate.
    pub estimates: Vec<f64>,
    /// `KL(w, w0)`.
    pub kl: f64,
}

impl Gibbs {
    /// One pass over the logs with LS: for candidates that are themselves stochastic the martingale behind the bound
    /// has `1 - lambda p c / q` with the candidate's probability in it, so LS-linear will not do. `prior` are the
    /// weights `w0`, above 0; `None` for equal ones.
    pub fn new(candidates: &[Arc<dyn Policy>], rounds: &[Logs], lambda: f64, prior: Option<&[f64]>) -> Result<Self> {
        if candidates.is_empty() {
            return Err(Error::size("the candidates", "at least one policy", 0));
        }
        let equal = vec![1.0 / candidates.len() as f64; candidates.len()];
        let prior = prior.unwrap_or(&equal);
        if prior.len() != candidates.len() {
            let expected = format!("{} weights, one for each candidate", candidates.len());
            return Err(Error::size("the prior", expected, prior.len()));
        }
        if let Some(row) = prior.iter().position(|w| !(*w > 0.0 && w.is_finite())) {
            return Err(Error::value(row, "prior weight", "above 0", prior[row]));
        }
        // In units of the largest, whose sum cannot overflow.
        let unit = prior.iter().copied().fold(0.0, f64::max);
        let prior: Vec<f64> = prior.iter().map(|w| w / unit).collect();
        let total: f64 = prior.iter().sum();
        let estimates = candidates
            .iter()
            .map(|policy| estimate(policy.as_ref(), rounds, Regularizer::Ls { lambda }))
            .collect::<Result<Vec<f64>>>()?;
        let n = rounds.iter().map(Logs::len).sum::<usize>() as f64;
        // In logs, with the largest taken out: lambda N is in the thousands.
        let log: Vec<f64> = prior.iter().zip(&estimates).map(|(w0, r)| (w0 / total).ln() - lambda * n * r).collect();
        let top = log.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mass: f64 = log.iter().map(|l| (l - top).exp()).sum();
        let weights: Vec<f64> = log.iter().map(|l| (l - top).exp() / mass).collect();
        let divergence = |(w, w0): (&f64, &f64)| if *w > 0.0 { w * (w * total / w0).ln() } else { 0.0 };
        let kl = weights.iter().zip(&prior).map(divergence).sum::<f64>().max(0.0);
        Ok(Gibbs { weights, estimates, kl })
    }

    /// The candidate with the largest weight; the first of them where they tie.
    pub fn best(&self) -> usize {
        let larger = |best, i| if self.weights[i] > self.weights[best] { i } else { best };
        (1..self.weights.len()).fold(0, larger)
    }

    /// The mixture of the candidates with these weights.
    pub fn mixture(&self, candidates: Vec<Arc<dyn Policy>>) -> Result<Mixture> {
        Mixture::new(candidates, self.weights.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::Contexts;
    use crate::features::FeatureMap;
    use crate::policy::{Softmax, Uniform};

    fn setting() -> (Vec<Arc<dyn Policy>>, Vec<Logs>) {
        let soft = |w: f64| Softmax::new(FeatureMap::identity(1), 2, vec![w, -w], 1.0).unwrap();
        let candidates: Vec<Arc<dyn Policy>> =
            vec![Arc::new(Uniform::new(2).unwrap()), Arc::new(soft(1.0)), Arc::new(soft(-1.0))];
        let contexts = Contexts::dense(vec![1.0; 6], 1).unwrap();
        let cost = vec![-1.0, 0.0, -1.0, -0.5, 0.0, -1.0];
        let logs = Logs::new(2, contexts, vec![0, 1, 0, 0, 1, 1], vec![0.5; 6], cost).unwrap();
        (candidates, vec![logs])
    }

    /// `sum_j w_j Rhat_j + KL(w, w0)/(lambda N)`.
    fn objective(weights: &[f64], prior: &[f64], estimates: &[f64], lambda: f64, n: f64) -> f64 {
        let kl: f64 = weights.iter().zip(prior).map(|(w, p)| if *w > 0.0 { w * (w / p).ln() } else { 0.0 }).sum();
        weights.iter().zip(estimates).map(|(w, r)| w * r).sum::<f64>() + kl / (lambda * n)
    }

    #[test]
    fn no_other_weights_do_better() {
        let (candidates, logs) = setting();
        let (lambda, prior) = (0.7, [0.2, 0.5, 0.3]);
        let gibbs = Gibbs::new(&candidates, &logs, lambda, Some(&prior)).unwrap();
        let best = objective(&gibbs.weights, &prior, &gibbs.estimates, lambda, 6.0);
        for i in 0..=20 {
            for j in 0..=20 - i {
                let w = [f64::from(i) / 20.0, f64::from(j) / 20.0, f64::from(20 - i - j) / 20.0];
                assert!(objective(&w, &prior, &gibbs.estimates, lambda, 6.0) >= best - 1e-12);
            }
        }
        let kl = objective(&gibbs.weights, &prior, &[0.0; 3], 1.0, 1.0);
        assert!((gibbs.kl - kl).abs() < 1e-12);
    }

    #[test]
    fn only_the_ratios_of_the_prior_weights_matter() {
        let (candidates, logs) = setting();
        let at = |prior: &[f64]| Gibbs::new(&candidates, &logs, 0.7, Some(prior)).unwrap();
        assert_eq!(at(&[1e308, 1e308, 1e308]), Gibbs::new(&candidates, &logs, 0.7, None).unwrap());
    }

    #[test]
    fn the_mixture_leans_to_the_better_candidate() {
        let (candidates, logs) = setting();
        let gibbs = Gibbs::new(&candidates, &logs, 0.7, None).unwrap();
        assert_eq!(gibbs.best(), 1);
        let mixture = gibbs.mixture(candidates).unwrap();
        let p = mixture.distribution(logs[0].contexts(), None).unwrap();
        assert!(p[0] > 0.5);
    }

    #[test]
    fn bad_settings_are_refused() {
        let (candidates, logs) = setting();
        let text = |r: Result<Gibbs>| r.unwrap_err().to_string();
        assert_eq!(text(Gibbs::new(&candidates, &logs, 0.0, None)), "lambda should be in (0, inf), but is 0");
        assert_eq!(
            text(Gibbs::new(&candidates, &logs, 1.0, Some(&[0.5, 0.5]))),
            "the prior should have 3 weights, one for each candidate, but has 2"
        );
        assert_eq!(
            text(Gibbs::new(&candidates, &logs, 1.0, Some(&[0.5, 0.5, 0.0]))),
            "row 2: prior weight should be above 0, but is 0"
        );
        assert_eq!(
            text(Gibbs::new(&[], &logs, 1.0, None)),
            "the candidates should have at least one policy, but has 0"
        );
        assert_eq!(text(Gibbs::new(&candidates, &[], 1.0, None)), "the logs should have at least 1 record, but has 0");
    }
}
