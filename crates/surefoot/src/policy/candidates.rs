//! The linear Gaussian policy over candidates with features: scores linear in joint features.

use std::sync::{Arc, OnceLock};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::gaussian::{TOLERANCE, floored};
use super::{BLOCK, Decision, Posterior, check_action};
use crate::contexts::{Contexts, Row};
use crate::error::{Error, Result};
use crate::features::{FeatureMap, Joint};
use crate::logs::Eligible;
use crate::math::linear::{in_blocks, rotate};
use crate::math::perturbed::{self, Propensity};
use crate::math::quadrature::Double;
use crate::math::random::record_stream;
use crate::math::unequal::{self, LEAST, Unequal};

/// What a policy over candidates has beside its posterior: the joint features, and the largest number of candidates of a
/// record.
#[derive(Debug, Clone)]
pub(super) struct Over {
    pub(super) joint: Arc<Joint>,
    pub(super) actions: usize,
    /// The mean in the coordinates of the joint features. Computed on first use.
    weights: OnceLock<Arc<[f64]>>,
}

impl PartialEq for Over {
    fn eq(&self, other: &Self) -> bool {
        (&self.joint, self.actions) == (&other.joint, other.actions)
    }
}

impl Over {
    pub(super) fn new(joint: Joint, actions: usize) -> Self {
        Over { joint: Arc::new(joint), actions, weights: OnceLock::new() }
    }

    /// The same for another posterior or another number of candidates.
    pub(super) fn again(&self, actions: usize) -> Self {
        Over { joint: Arc::clone(&self.joint), actions, weights: OnceLock::new() }
    }

    fn weights(&self, posterior: &Posterior) -> &[f64] {
        self.weights.get_or_init(|| match posterior.basis() {
            None => posterior.mean().into(),
            Some(basis) => rotate(basis.axes(), false, posterior.mean(), posterior.features(), 1).into(),
        })
    }
}

/// The scores of a record's candidates: `m_b + v_b e_b`.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    pub(crate) means: Vec<f64>,
    pub(crate) deviations: Vec<f64>,
    context: Vec<(usize, f64)>,
    /// The joint features that are not 0 of one candidate after the other, and where those of each begin and end.
    entries: Vec<(u32, f64)>,
    ends: Vec<usize>,
    /// All joint features of all candidates, feature-major, if the posterior has a basis.
    phi: Vec<f64>,
}

impl Scores {
    /// The joint features that are not 0 of candidate `b` of the last record.
    pub(crate) fn features(&self, b: usize) -> &[(u32, f64)] {
        &self.entries[self.ends[b]..self.ends[b + 1]]
    }

    /// Computes the scores of record `i`, whose mapped context is `x`.
    ///
    /// A deviation is at least [`LEAST`] times the largest one of the record. If all are 0, so are all joint features, and
    /// every candidate is as good as any other.
    pub(crate) fn fill(
        &mut self,
        joint: &Joint,
        weights: &[f64],
        posterior: &Posterior,
        x: Row<'_>,
        eligible: &Eligible,
        i: usize,
    ) {
        let k = eligible.get(i).len();
        self.means.clear();
        self.deviations.clear();
        self.entries.clear();
        self.ends.clear();
        self.ends.push(0);
        let crossing = joint.at(x, &mut self.context);
        let scale = posterior.scale();
        let p = if posterior.basis().is_some() { joint.output() } else { 0 };
        self.phi.clear();
        self.phi.resize(p * k, 0.0);
        for a in 0..k {
            let candidate = eligible.candidate(i, a).expect("candidates have features");
            let (mut mean, mut variance) = (0.0, 0.0);
            let start = self.entries.len();
            crossing.visit(candidate, |f, v| self.entries.push((f as u32, v)));
            self.ends.push(self.entries.len());
            for &(f, v) in &self.entries[start..] {
                let f = f as usize;
                mean += weights[f] * v;
                if p > 0 {
                    self.phi[f * k + a] += v;
                } else {
                    // Hashed features that collide within one candidate add their squares: a deviation only explores.
                    let spread = scale.get(f) * v;
                    variance += spread * spread;
                }
            }
            self.means.push(mean);
            self.deviations.push(variance);
        }
        if let Some(basis) = posterior.basis() {
            for (f, row) in rotate(basis.axes(), true, &self.phi, p, k).chunks_exact(k).enumerate() {
                let sigma = scale.get(f);
                self.deviations.iter_mut().zip(row).for_each(|(variance, v)| *variance += (sigma * v) * (sigma * v));
            }
        }
        self.deviations.iter_mut().for_each(|v| *v = v.sqrt());
        let largest = self.deviations.iter().copied().fold(0.0, f64::max);
        let least = if largest > 0.0 { LEAST * largest } else { 1.0 };
        self.deviations.iter_mut().for_each(|v| *v = v.max(least));
    }

    /// Whether all deviations are equal, up to rounding; then the means become standardised scores.
    fn standardise(&mut self) -> bool {
        let first = self.deviations[0];
        let equal = self.deviations.iter().all(|v| (v - first).abs() <= 1e-12 * first);
        if equal {
            self.means.iter_mut().for_each(|m| *m /= first);
        }
        equal
    }
}

/// A policy over candidates, in parts.
pub(super) struct OverCandidates<'a> {
    pub(super) features: &'a FeatureMap,
    pub(super) over: &'a Over,
    pub(super) posterior: &'a Posterior,
    pub(super) exploration: f64,
}

/// Working memory of one thread.
struct Room {
    scores: Scores,
    equal: (Double, Propensity),
    unequal: Unequal,
}

impl OverCandidates<'_> {
    /// Works on the scores of each record: `work(room, row, equal, out)`, where `equal` says whether the means are
    /// standardised scores. In parallel over fixed blocks.
    fn each<T: Send + Sync + Clone>(
        &self,
        contexts: &Contexts,
        eligible: Option<&Eligible>,
        (width, empty): (usize, T),
        work: impl Fn(&mut Room, usize, bool, &mut [T]) + Sync,
    ) -> Result<Vec<T>> {
        let joint = &*self.over.joint;
        let Some(eligible) = eligible.filter(|sets| sets.features().is_some()) else {
            return Err(Error::setting(
                "the records",
                "with candidates that have features, as the policy needs",
                "without",
            ));
        };
        if eligible.features() != Some(joint.candidates()) {
            let expected = format!("{} features, as the policy", joint.candidates());
            return Err(Error::size("candidates", expected, eligible.features().unwrap_or(0)));
        }
        let weights = self.over.weights(self.posterior);
        in_blocks(contexts.len(), BLOCK, (width, empty), |range, out| {
            let x = self.features.apply(&contexts.slice(range.clone()))?;
            let mut room = Room {
                scores: Scores::default(),
                equal: (Double::new(self.over.actions, TOLERANCE), Propensity::new(self.over.actions)),
                unequal: Unequal::default(),
            };
            for (i, out) in range.clone().zip(out.chunks_exact_mut(width)) {
                room.scores.fill(joint, weights, self.posterior, x.row(i - range.start), eligible, i);
                let both = room.scores.means.iter().chain(&room.scores.deviations);
                if let Some(bad) = both.copied().find(|s| !s.is_finite()) {
                    return Err(Error::value(i, "the score of a candidate", "finite", bad));
                }
                let equal = room.scores.standardise();
                work(&mut room, i, equal, out);
            }
            Ok(())
        })
    }

    /// The probability of a candidate, with the floor.
    fn of(&self, room: &mut Room, equal: bool, action: usize) -> f64 {
        let Room { scores, equal: (_, propensity), unequal } = room;
        let found = match equal {
            true => propensity.of(&scores.means, action),
            false => unequal.propensity(&scores.means, &scores.deviations, action),
        };
        floored(found, self.exploration, scores.means.len())
    }

    pub(super) fn distribution(&self, contexts: &Contexts, eligible: Option<&Eligible>) -> Result<Vec<f64>> {
        self.each(contexts, eligible, (self.over.actions, 0.0), |room, _, equal, out| {
            let Room { scores, equal: (quadrature, _), unequal, .. } = room;
            let k = scores.means.len();
            match equal {
                true => quadrature.distribution(&scores.means, &mut out[..k]),
                false => unequal.distribution(&scores.means, &scores.deviations, &mut out[..k]),
            }
            out[..k].iter_mut().for_each(|p| *p = floored(*p, self.exploration, k));
        })
    }

    pub(super) fn propensity(
        &self,
        contexts: &Contexts,
        action: &[u32],
        eligible: Option<&Eligible>,
    ) -> Result<Vec<f64>> {
        check_action(self.over.actions, contexts.len(), action)?;
        self.each(contexts, eligible, (1, 0.0), |room, row, equal, out| {
            let a = action[row] as usize;
            out[0] = if a < room.scores.means.len() { self.of(room, equal, a) } else { 0.0 };
        })
    }

    pub(super) fn decide(
        &self,
        contexts: &Contexts,
        eligible: Option<&Eligible>,
        base: &ChaCha8Rng,
        keys: &[u64],
    ) -> Result<Vec<Decision>> {
        let empty = Decision { action: 0, propensity: 0.0 };
        self.each(contexts, eligible, (1, empty), |room, row, equal, out| {
            let mut rng = record_stream(base, keys[row]);
            let k = room.scores.means.len();
            let explore = self.exploration > 0.0 && rng.random::<f64>() < self.exploration;
            let a = match (explore, equal) {
                (true, _) => rng.random_range(0..k),
                (false, true) => perturbed::sample(&room.scores.means, &mut rng),
                (false, false) => unequal::sample(&room.scores.means, &room.scores.deviations, &mut rng),
            };
            out[0] = Decision { action: a as u32, propensity: self.of(room, equal, a) };
        })
    }
}
