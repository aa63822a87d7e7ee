//! The objective of a policy over candidates: `mean h + |mu - mu_0|^2/(2 lambda N)`, in units of the scales.
//!
//! The noise of the scores is part of each predictor, with the same law in prior and posterior. So the divergence is that of
//! the mean alone, and the scales stay as they are.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::Criterion;
use crate::error::{Error, Result};
use crate::estimator::Regularizer;
use crate::logs::Logs;
use crate::math::unequal::Unequal;
use crate::policy::{CandidateScores, LinearGaussian, floored};

/// The number of parts that are summed up separately, and then in order: the bits do not depend on the threads.
const PARTS: usize = 16;

/// An objective over the records of some rounds.
#[derive(Debug)]
pub(crate) struct JointObjective<'a> {
    /// The records with a cost, round by round; their contexts are mapped.
    rounds: Vec<Logs>,
    records: usize,
    regularizer: Regularizer,
    anchor: &'a LinearGaussian,
    /// `1/(lambda N)`, times `1 - e`.
    kl_weight: f64,
}

impl<'a> JointObjective<'a> {
    /// For the shape of the anchor, from whose mean the divergence is measured.
    pub(crate) fn new(
        rounds: &[Arc<Logs>],
        criterion: Criterion,
        anchor: &'a LinearGaussian,
        lambda: Option<f64>,
    ) -> Result<Self> {
        criterion.check()?;
        let Some(&regularizer) = criterion.mean_of() else {
            let allowed = "a mean of h, for candidates with features";
            return Err(Error::setting("the criterion", allowed, "one with a penalty"));
        };
        let records: usize = rounds.iter().map(|logs| logs.len()).sum();
        if records == 0 {
            return Err(Error::size("the rounds", "at least 1 record", records));
        }
        let map = anchor.features();
        let weighing = |logs: &Arc<Logs>| logs.weighing().map_contexts(false, |contexts| map.apply(contexts));
        let rounds = rounds.iter().map(weighing).collect::<Result<_>>()?;
        let kl_weight = lambda.map_or(0.0, |lambda| (1.0 - anchor.exploration()) / (lambda * records as f64));
        Ok(JointObjective { rounds, records, regularizer, anchor, kl_weight })
    }

    /// The number of records, with and without a cost.
    pub(crate) fn records(&self) -> usize {
        self.records
    }

    /// The value at a mean, in the coordinates of the joint features, and its gradient.
    pub(crate) fn evaluate(&self, mean: &[f64], gradient: &mut [f64]) -> f64 {
        let all: usize = self.rounds.iter().map(Logs::len).sum();
        let size = all.div_ceil(PARTS).max(1);
        let starts: Vec<usize> = (0..all).step_by(size).collect();
        let part = |start: usize| {
            let mut gradient = vec![0.0; mean.len()];
            let value = self.part(mean, start..(start + size).min(all), &mut gradient);
            (value, gradient)
        };
        let parts: Vec<(f64, Vec<f64>)> = starts.into_par_iter().map(part).collect();
        gradient.fill(0.0);
        let mut value = 0.0;
        for (part, slopes) in &parts {
            value += part;
            gradient.iter_mut().zip(slopes).for_each(|(sum, slope)| *sum += slope);
        }
        let (prior, scale) = (self.anchor.posterior().mean(), self.anchor.posterior().scale());
        for (f, ((slope, m), m0)) in gradient.iter_mut().zip(mean).zip(prior).enumerate() {
            let pull = self.kl_weight * (m - m0) / (scale.get(f) * scale.get(f));
            *slope += pull;
            value += 0.5 * pull * (m - m0);
        }
        value
    }

    /// The sum over a range of the records, divided by the number of all records.
    fn part(&self, mean: &[f64], range: Range<usize>, gradient: &mut [f64]) -> f64 {
        let joint = self.anchor.joint().expect("a policy over candidates");
        let (posterior, e, n) = (self.anchor.posterior(), self.anchor.exploration(), self.records as f64);
        let (mut scores, mut unequal) = (CandidateScores::default(), Unequal::default());
        let mut slopes = Vec::new();
        let (mut value, mut before) = (0.0, 0);
        for logs in &self.rounds {
            let own = range.start.max(before)..range.end.min(before + logs.len());
            for i in own.map(|i| i - before) {
                let eligible = logs.eligible().expect("candidates have features");
                let (x, a) = (logs.contexts().row(i), logs.action()[i] as usize);
                scores.fill(joint, mean, posterior, x, eligible, i);
                let k = scores.means.len();
                slopes.resize(k, 0.0);
                let p = unequal.gradient(&scores.means, &scores.deviations, a, &mut slopes);
                let (p, q, c) = (floored(p, e, k), logs.propensity()[i], logs.cost()[i]);
                value += self.regularizer.h(p, q, c) / n;
                let weight = (1.0 - e) * self.regularizer.dh_dp(p, q, c) / n;
                for (b, slope) in slopes.iter().enumerate().filter(|(_, slope)| **slope != 0.0) {
                    let factor = weight * slope;
                    scores.features(b).iter().for_each(|&(f, v)| gradient[f as usize] += factor * v);
                }
            }
            before += logs.len();
        }
        value
    }
}

/// `|mu - mu_0|^2/2` in units of the scales, times `1 - e`: the divergence of the mean from its prior, which is the
/// regulariser of the search.
pub(crate) fn divergence_of_means(policy: &LinearGaussian, anchor: &LinearGaussian) -> f64 {
    let (own, prior) = (policy.posterior(), anchor.posterior());
    let terms = own.mean().iter().zip(prior.mean()).enumerate();
    let sum: f64 = terms.map(|(f, (m, m0))| ((m - m0) / prior.scale().get(f)).powi(2)).sum();
    0.5 * (1.0 - anchor.exploration()) * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::Contexts;
    use crate::features::{FeatureMap, Joint};
    use crate::logs::Eligible;
    use crate::policy::{Posterior, Scale};

    #[test]
    fn the_gradient_is_the_finite_difference() {
        let value = |i: usize| (((i * 7919 + 13) % 101) as f32 / 50.0) - 1.0;
        let contexts = Contexts::dense((0..60).map(value).collect(), 2).unwrap();
        let offsets: Vec<usize> = (0..=30).map(|i| 3 * i + usize::from(i > 7)).collect();
        let candidates = Contexts::dense((0..offsets[30] * 3).map(|i| value(i + 5)).collect(), 3).unwrap();
        let action = (0..30).map(|i| i % 3).collect();
        let (q, c) =
            ((0..30).map(|i| 0.1 + 0.02 * i as f64).collect(), (0..30).map(|i| -((i % 4) as f64) / 3.0).collect());
        let logs = Logs::new(4, contexts, action, q, c).unwrap();
        let logs = Arc::new(logs.with_eligible(Eligible::candidates(offsets, candidates).unwrap()).unwrap());
        let joint = Joint::full(2, 3, 10).unwrap();
        let prior: Vec<f64> = (0..joint.output()).map(|f| 0.1 * f as f64 - 0.3).collect();
        let posterior = Posterior::over_candidates(prior.clone(), Scale::Shared(0.7)).unwrap();
        let anchor = LinearGaussian::over_candidates(FeatureMap::identity(2), joint, 4, posterior).unwrap();
        let anchor = anchor.with_exploration(0.1).unwrap();
        let criterion = Criterion::Mean { regularizer: Regularizer::LsLinear { lambda: 0.5 } };
        let objective = JointObjective::new(&[logs], criterion, &anchor, Some(0.5)).unwrap();
        let at: Vec<f64> = prior.iter().enumerate().map(|(f, m)| m + 0.05 * (f as f64).sin()).collect();
        let mut gradient = vec![0.0; at.len()];
        objective.evaluate(&at, &mut gradient);
        let mut room = vec![0.0; at.len()];
        for f in 0..at.len() {
            let h = 1e-4;
            let mut moved = |by: f64| {
                let mut x = at.clone();
                x[f] += by;
                objective.evaluate(&x, &mut room)
            };
            let difference = (moved(h) - moved(-h)) / (2.0 * h);
            assert!((difference - gradient[f]).abs() < 1e-6, "{f}: {difference} {}", gradient[f]);
        }
    }
}
