//! POLICY: the policies that can be deployed, and the distributions over predictors behind them.

mod candidates;
mod gaussian;
mod mixture;
mod posterior;
mod softmax;
mod uniform;
mod wire;

pub(crate) use candidates::Scores as CandidateScores;
pub use gaussian::LinearGaussian;
pub(crate) use gaussian::floored;
pub use mixture::Mixture;
pub(crate) use posterior::same_basis;
pub use posterior::{Basis, Posterior, Scale};
pub use softmax::{Softmax, SoftmaxTraining};
pub use uniform::Uniform;
pub(crate) use wire::{Propensities, SecondMoments, in_view, read_view, view, write_policy};

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::contexts::Contexts;
use crate::error::{Error, Result};
use crate::features::FeatureMap;
use crate::fingerprint::Fingerprint;
use crate::logs::Eligible;
use crate::math::linear::in_blocks;
use crate::math::random::{Purpose, record_stream, stream};

/// A decision and its probability: the two numbers that must be logged together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// The chosen action.
    pub action: u32,
    /// Its probability at the time of the decision.
    pub propensity: f64,
}

impl Decision {
    /// Draws an action from the probabilities of all actions. The draw depends only on the seed and the key.
    pub fn draw(p: &[f64], seed: u64, key: u64) -> Self {
        Self::from(p, &decision_stream(seed), key)
    }

    fn from(p: &[f64], base: &ChaCha8Rng, key: u64) -> Self {
        let action = draw(p, record_stream(base, key).random());
        Decision { action: action as u32, propensity: probability(p[action]) }
    }
}

/// A policy that can be deployed: a distribution over actions for each context.
///
/// Two methods are required. Contexts come in batches. If `eligible` is given, actions outside a record's set have
/// probability 0. Every policy of this crate passes one common contract test.
pub trait Policy: Debug + Send + Sync {
    /// The number of actions, `K`.
    fn actions(&self) -> usize;

    /// The probabilities of all actions, one row of `K` per context.
    fn distribution(&self, contexts: &Contexts, eligible: Option<&Eligible>) -> Result<Vec<f64>>;

    /// The fingerprint of the policy, if it has one; certificates name the policy by it.
    fn identity(&self) -> Option<Fingerprint> {
        None
    }

    /// The class of the policy, among those of this crate. It decides whether the policy can be saved and has a
    /// divergence.
    fn class(&self) -> Class<'_> {
        Class::Custom
    }

    /// The probability of one given action per context.
    fn propensity(&self, contexts: &Contexts, action: &[u32], eligible: Option<&Eligible>) -> Result<Vec<f64>> {
        check_action(self.actions(), contexts.len(), action)?;
        let k = self.actions();
        let mut out = Vec::with_capacity(action.len());
        for range in blocks(contexts.len()) {
            let block = distribution_of(self, contexts, eligible, &range)?;
            out.extend(action[range].iter().enumerate().map(|(i, &a)| block[i * k + a as usize]));
        }
        Ok(out)
    }

    /// Draws one action per context. The draw for record `i` depends only on the seed and `i`.
    fn decide(&self, contexts: &Contexts, eligible: Option<&Eligible>, seed: u64) -> Result<Vec<Decision>> {
        let keys: Vec<u64> = (0..contexts.len() as u64).collect();
        self.decide_keyed(contexts, eligible, seed, &keys)
    }

    /// Draws one action per context. The draw depends only on the seed and the record's key, not on its position.
    fn decide_keyed(
        &self,
        contexts: &Contexts,
        eligible: Option<&Eligible>,
        seed: u64,
        keys: &[u64],
    ) -> Result<Vec<Decision>> {
        check_keys(contexts.len(), keys)?;
        let k = self.actions();
        let base = decision_stream(seed);
        let mut out = Vec::with_capacity(contexts.len());
        for range in blocks(contexts.len()) {
            let block = distribution_of(self, contexts, eligible, &range)?;
            out.extend(range.zip(block.chunks_exact(k)).map(|(i, p)| Decision::from(p, &base, keys[i])));
        }
        Ok(out)
    }
}

/// A shared policy acts as the policy itself.
impl<P: Policy + ?Sized> Policy for Arc<P> {
    fn actions(&self) -> usize {
        (**self).actions()
    }

    fn distribution(&self, contexts: &Contexts, eligible: Option<&Eligible>) -> Result<Vec<f64>> {
        (**self).distribution(contexts, eligible)
    }

    fn identity(&self) -> Option<Fingerprint> {
        (**self).identity()
    }

    fn class(&self) -> Class<'_> {
        (**self).class()
    }

    fn propensity(&self, contexts: &Contexts, action: &[u32], eligible: Option<&Eligible>) -> Result<Vec<f64>> {
        (**self).propensity(contexts, action, eligible)
    }

    fn decide_keyed(
        &self,
        contexts: &Contexts,
        eligible: Option<&Eligible>,
        seed: u64,
        keys: &[u64],
    ) -> Result<Vec<Decision>> {
        (**self).decide_keyed(contexts, eligible, seed, keys)
    }
}

impl dyn Policy + '_ {
    /// The policy as a linear Gaussian policy, if it is one: a posterior with a known divergence from others.
    pub fn as_gaussian(&self) -> Option<&LinearGaussian> {
        match self.class() {
            Class::LinearGaussian(policy) => Some(policy),
            _ => None,
        }
    }
}

/// The classes of policies of this crate.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Class<'a> {
    /// A posterior over linear predictors.
    LinearGaussian(&'a LinearGaussian),
    /// A softmax of linear scores.
    Softmax(&'a Softmax),
    /// The same probability for every action.
    Uniform(&'a Uniform),
    /// A weighted mixture of policies.
    Mixture(&'a Mixture),
    /// A user-defined policy.
    Custom,
}

impl<'a> Class<'a> {
    /// The name of the class.
    pub fn name(self) -> &'static str {
        match self {
            Class::LinearGaussian(_) => "gaussian",
            Class::Softmax(_) => "softmax",
            Class::Uniform(_) => "uniform",
            Class::Mixture(_) => "mixture",
            Class::Custom => "custom",
        }
    }

    /// The map from contexts to features, if policies of this class have one.
    pub fn features(self) -> Option<&'a FeatureMap> {
        match self {
            Class::LinearGaussian(policy) => Some(policy.features()),
            Class::Softmax(policy) => Some(policy.features()),
            Class::Uniform(_) | Class::Mixture(_) | Class::Custom => None,
        }
    }
}

/// The index at which the cumulative sum of `p` passes `u` times its total; never an index of probability 0.
fn draw(p: &[f64], u: f64) -> usize {
    let mut left = u * p.iter().sum::<f64>();
    let mut last = 0;
    for (i, &p) in p.iter().enumerate() {
        if p > 0.0 {
            if left < p {
                return i;
            }
            left -= p;
            last = i;
        }
    }
    last
}

/// The random stream for decisions with a seed.
fn decision_stream(seed: u64) -> ChaCha8Rng {
    stream(seed, Purpose::Decide, 0)
}

/// The number of rows that one thread works on together.
const BLOCK: usize = 128;
/// The number of rows whose distributions are held at once.
const HELD: usize = 8 * BLOCK;

fn blocks(n: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n.div_ceil(HELD)).map(move |b| b * HELD..((b + 1) * HELD).min(n))
}

/// How far the sum of a policy's probabilities may be from 1: a decision would be logged with a wrong propensity.
const SUM: f64 = 1e-6;

/// The distributions of a range of contexts. A user-defined policy may return too few or too many numbers, or numbers
/// that are no distribution: both are errors.
pub(crate) fn distribution_of<P: Policy + ?Sized>(
    policy: &P,
    contexts: &Contexts,
    eligible: Option<&Eligible>,
    range: &Range<usize>,
) -> Result<Vec<f64>> {
    let eligible = eligible.map(|e| e.slice(range.clone()));
    let p = policy.distribution(&contexts.slice(range.clone()), eligible.as_ref())?;
    if p.len() != range.len() * policy.actions() {
        let expected = format!("{} contexts x {} actions", range.len(), policy.actions());
        return Err(Error::size("the distribution of a policy", expected, p.len()));
    }
    for (row, p) in range.clone().zip(p.chunks_exact(policy.actions())) {
        if let Some(bad) = p.iter().find(|p| !(0.0..=1.0 + SUM).contains(*p)) {
            return Err(Error::value(row, "a probability of the policy", "in [0, 1]", bad));
        }
        let sum: f64 = p.iter().sum();
        if (sum - 1.0).abs() > SUM {
            return Err(Error::value(row, "the sum of the policy's probabilities", "1", sum));
        }
    }
    Ok(p)
}

/// Rounds down to 1 a value that exceeds 1 by rounding error only. A larger value is not a probability and is returned
/// unchanged, so that the logs reject it.
pub(crate) fn probability(p: f64) -> f64 {
    if p > 1.0 && p < 1.0 + 1e-8 { 1.0 } else { p }
}

/// Fails unless the contexts, and the sets of eligible actions, fit the policy.
fn check_contexts(
    features: Option<usize>,
    actions: usize,
    contexts: &Contexts,
    eligible: Option<&Eligible>,
) -> Result<()> {
    if let Some(p) = features.filter(|&p| p != contexts.features()) {
        let expected = format!("{p} features, as the policy");
        return Err(Error::size("contexts", expected, contexts.features()));
    }
    eligible.map_or(Ok(()), |e| e.check(actions, contexts.len()))
}

/// Fails unless there is one key per context.
fn check_keys(rows: usize, keys: &[u64]) -> Result<()> {
    if keys.len() != rows {
        return Err(Error::size("the keys", format!("{rows} entries, one for each context"), keys.len()));
    }
    Ok(())
}

/// Fails unless there is one action per context, each below `actions`.
fn check_action(actions: usize, rows: usize, action: &[u32]) -> Result<()> {
    if action.len() != rows {
        let expected = format!("{rows} entries, one for each context");
        return Err(Error::size("action", expected, action.len()));
    }
    match action.iter().position(|&a| a as usize >= actions) {
        Some(row) => Err(Error::value(row, "action", format!("below {actions}"), action[row])),
        None => Ok(()),
    }
}

/// Works on each row's scores over its eligible actions: `work(room, row, eligible, scores, out)` fills the row's
/// `width` outputs. `scores` computes all `k` scores of each row of a block; `room` makes the working memory. Runs in
/// parallel over fixed blocks of rows.
fn each_row<T: Send + Sync + Clone, W>(
    contexts: &Contexts,
    eligible: Option<&Eligible>,
    k: usize,
    (width, empty): (usize, T),
    scores: impl Fn(&Contexts) -> Result<Vec<f64>> + Sync,
    room: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, usize, Option<&[u32]>, &[f64], &mut [T]) + Sync,
) -> Result<Vec<T>> {
    in_blocks(contexts.len(), BLOCK, (width, empty), |range, out| {
        let scores = scores(&contexts.slice(range.clone()))?;
        if let Some(i) = scores.iter().position(|s| !s.is_finite()) {
            let column = format!("the score of action {}", i % k);
            return Err(Error::value(range.start + i / k, column, "finite", scores[i]));
        }
        let (mut room, mut subset) = (room(), Vec::new());
        for ((row, all), out) in range.zip(scores.chunks_exact(k)).zip(out.chunks_exact_mut(width)) {
            match eligible.map(|e| e.get(row)) {
                None => work(&mut room, row, None, all, out),
                Some(set) => {
                    subset.clear();
                    subset.extend(set.iter().map(|&a| all[a as usize]));
                    work(&mut room, row, Some(set), &subset, out);
                }
            }
        }
        Ok(())
    })
}

/// The index of `action` among the eligible ones.
fn place(set: Option<&[u32]>, action: u32) -> Option<usize> {
    set.map_or(Some(action as usize), |set| set.binary_search(&action).ok())
}

#[cfg(test)]
mod tests;
