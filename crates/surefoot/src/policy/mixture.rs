//! A mixture of policies.

use std::sync::Arc;

use super::{Class, Policy};
use crate::contexts::Contexts;
use crate::error::{Error, Result};
use crate::fingerprint::{Fingerprint, Hasher};
use crate::logs::Eligible;

/// `pi(a|x) = sum_j w_j pi_j(a|x)`.
#[derive(Debug, Clone)]
pub struct Mixture {
    parts: Vec<Arc<dyn Policy>>,
    weights: Vec<f64>,
}

impl Mixture {
    /// Policies over the same actions with one weight each. Weights are at least 0 and sum to 1 (to 1e-9).
    pub fn new(parts: Vec<Arc<dyn Policy>>, weights: Vec<f64>) -> Result<Self> {
        if parts.is_empty() {
            return Err(Error::size("a mixture", "at least one policy", 0));
        }
        if weights.len() != parts.len() {
            let expected = format!("{} entries, one for each policy", parts.len());
            return Err(Error::size("weights", expected, weights.len()));
        }
        if let Some(row) = weights.iter().position(|w| !(0.0..=1.0 + 1e-9).contains(w)) {
            return Err(Error::value(row, "weight", "in [0, 1]", weights[row]));
        }
        let sum: f64 = weights.iter().sum();
        if (sum - 1.0).abs() > 1e-9 {
            return Err(Error::setting("the sum of the weights", "1", sum));
        }
        let k = parts[0].actions();
        if let Some(other) = parts.iter().find(|part| part.actions() != k) {
            let expected = format!("{k} actions, as the first one");
            return Err(Error::size("every policy of a mixture", expected, other.actions()));
        }
        Ok(Mixture { parts, weights })
    }

    /// The policies.
    pub fn parts(&self) -> &[Arc<dyn Policy>] {
        &self.parts
    }

    /// The weights.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The weighted sum of one vector per part; parts of weight 0 are skipped.
    fn sum(&self, of: impl Fn(&dyn Policy) -> Result<Vec<f64>>) -> Result<Vec<f64>> {
        let mut total = Vec::new();
        for (part, &w) in self.parts.iter().zip(&self.weights).filter(|(_, w)| **w > 0.0) {
            let values = of(part.as_ref())?;
            total.resize(values.len(), 0.0);
            for (t, v) in total.iter_mut().zip(values) {
                *t += w * v;
            }
        }
        Ok(total)
    }
}

impl Policy for Mixture {
    fn actions(&self) -> usize {
        self.parts[0].actions()
    }

    /// Depends on the parts and their weights; `None` if a part has no identity.
    fn identity(&self) -> Option<Fingerprint> {
        let mut hasher = Hasher::new("mixture");
        for (part, &weight) in self.parts.iter().zip(&self.weights) {
            hasher.text(&part.identity()?.to_string());
            hasher.double(weight);
        }
        Some(hasher.finish())
    }

    fn class(&self) -> Class<'_> {
        Class::Mixture(self)
    }

    fn distribution(&self, contexts: &Contexts, eligible: Option<&Eligible>) -> Result<Vec<f64>> {
        self.sum(|part| part.distribution(contexts, eligible))
    }

    fn propensity(&self, contexts: &Contexts, action: &[u32], eligible: Option<&Eligible>) -> Result<Vec<f64>> {
        self.sum(|part| part.propensity(contexts, action, eligible))
    }
}
