//! The softmax policy, used as a first policy and as a logging policy.

use super::{Class, Policy, check_contexts, each_row};
use crate::contexts::{Contexts, Labelled, Row};
use crate::error::{Error, Result, check_setting};
use crate::features::FeatureMap;
use crate::fingerprint::{Fingerprint, Hasher};
use crate::logs::Eligible;
use crate::math::linear::{accumulate, scores};
use crate::math::random::{Purpose, stream};
use crate::optim::Adam;

/// `pi(a|x) = exp(alpha <x, w_a>) / sum_b exp(alpha <x, w_b>)`; `alpha = 0` is the uniform policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Softmax {
    features: FeatureMap,
    actions: usize,
    weights: Vec<f64>,
    alpha: f64,
}

/// How a softmax is fitted to labels. The default is what the paper's authors use for their logging policy.
#[derive(Debug, Clone, PartialEq)]
pub struct SoftmaxTraining {
    /// The optimiser: learning rate 0.1, 10 epochs, batches of 32.
    pub adam: Adam,
    /// The weight of `|w|^2/2`, at least 0. It keeps the policy from becoming nearly deterministic.
    pub weight_decay: f64,
    /// The seed for the order of the records.
    pub seed: u64,
}

impl Default for SoftmaxTraining {
    fn default() -> Self {
        SoftmaxTraining {
            adam: Adam { learning_rate: 0.1, batch_size: 32, ..Adam::default() },
            weight_decay: 1e-4,
            seed: 0,
        }
    }
}

impl Softmax {
    /// Weights are feature-major, like the mean of a [`Posterior`](super::Posterior). `alpha` is the inverse
    /// temperature, at least 0.
    pub fn new(features: FeatureMap, actions: usize, weights: Vec<f64>, alpha: f64) -> Result<Self> {
        if actions < 2 {
            return Err(Error::setting("the number of actions", "at least 2", actions));
        }
        if weights.len() != features.output() * actions {
            let expected = format!("{} features x {actions} actions", features.output());
            return Err(Error::size("the weights", expected, weights.len()));
        }
        if let Some(i) = weights.iter().position(|w| !w.is_finite()) {
            let column = format!("the weight of action {}", i % actions);
            return Err(Error::value(i / actions, column, "finite", weights[i]));
        }
        check_setting("alpha", alpha, alpha >= 0.0, "at least 0")?;
        Ok(Softmax { features, actions, weights, alpha })
    }

    /// Fits the labels by multinomial logistic regression, and returns the policy with `alpha = 1`.
    pub fn train(features: FeatureMap, data: &Labelled, actions: usize, training: &SoftmaxTraining) -> Result<Self> {
        let (k, decay) = (actions, training.weight_decay);
        check_setting("the weight decay", decay, decay >= 0.0, "at least 0")?;
        if let Some(row) = data.labels().iter().position(|&y| y as usize >= k) {
            return Err(Error::value(row, "label", format!("below {k}"), data.labels()[row]));
        }
        if data.is_empty() {
            return Err(Error::size("the labelled data", "at least 1 row", 0));
        }
        let x = features.apply(data.contexts())?;
        let mut rng = stream(training.seed, Purpose::Logger, 0);
        let start = vec![0.0; features.output() * k];
        let (weights, _) = training.adam.minimise(start, data.len(), &mut rng, |w, batch, gradient| {
            let rows: Vec<Row<'_>> = batch.iter().map(|&i| x.row(i)).collect();
            let n = rows.len() as f64;
            let mut p = vec![0.0; rows.len() * k];
            scores(&rows, w, k, &mut p);
            let mut value = 0.5 * decay * w.iter().map(|w| w * w).sum::<f64>();
            for (p, &i) in p.chunks_exact_mut(k).zip(batch) {
                let label = data.labels()[i] as usize;
                softmax(p, 1.0);
                value -= p[label].max(f64::MIN_POSITIVE).ln() / n;
                p[label] -= 1.0;
                p.iter_mut().for_each(|d| *d /= n);
            }
            for (g, w) in gradient.iter_mut().zip(w) {
                *g = decay * w;
            }
            accumulate(&rows, &p, k, gradient);
            value
        })?;
        Self::new(features, actions, weights, 1.0)
    }

    /// The same scores with another inverse temperature.
    pub fn with_alpha(self, alpha: f64) -> Result<Self> {
        Self::new(self.features, self.actions, self.weights, alpha)
    }

    /// The map from contexts to features.
    pub fn features(&self) -> &FeatureMap {
        &self.features
    }

    /// The inverse temperature.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The fingerprint of the policy.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hasher = Hasher::new("softmax policy");
        self.features.hash(&mut hasher);
        hasher.count(self.actions);
        hasher.doubles(&self.weights);
        hasher.double(self.alpha);
        self.features.hash_made(&mut hasher);
        hasher.finish()
    }

    /// The weights, feature-major.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }
}

/// Converts scores to probabilities. The largest score is subtracted first, so that nothing overflows.
fn softmax(scores: &mut [f64], alpha: f64) {
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    scores.iter_mut().for_each(|s| *s = (alpha * (*s - top)).exp());
    let sum: f64 = scores.iter().sum();
    scores.iter_mut().for_each(|s| *s /= sum);
}

impl Policy for Softmax {
    fn actions(&self) -> usize {
        self.actions
    }

    fn identity(&self) -> Option<Fingerprint> {
        Some(self.fingerprint())
    }

    fn class(&self) -> Class<'_> {
        Class::Softmax(self)
    }

    fn distribution(&self, contexts: &Contexts, eligible: Option<&Eligible>) -> Result<Vec<f64>> {
        check_contexts(Some(self.features.input()), self.actions, contexts, eligible)?;
        let k = self.actions;
        let all = |block: &Contexts| {
            let x = self.features.apply(block)?;
            let rows: Vec<Row<'_>> = x.iter().collect();
            let mut out = vec![0.0; rows.len() * k];
            scores(&rows, &self.weights, k, &mut out);
            Ok(out)
        };
        each_row(contexts, eligible, k, (k, 0.0), all, Vec::new, |p, _, set, scores, out| {
            p.clear();
            p.extend_from_slice(scores);
            softmax(p, self.alpha);
            match set {
                None => out.copy_from_slice(p),
                Some(set) => set.iter().zip(p).for_each(|(&a, p)| out[a as usize] = *p),
            }
        })
    }
}
