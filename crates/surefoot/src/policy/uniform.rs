//! The uniform policy.

use super::{Class, Policy, check_contexts, each_row};
use crate::contexts::Contexts;
use crate::error::{Error, Result};
use crate::fingerprint::{Fingerprint, Hasher};
use crate::logs::Eligible;

/// Gives every eligible action the same probability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uniform {
    actions: usize,
}

impl Uniform {
    /// The uniform policy over `actions` actions, at least 2.
    pub fn new(actions: usize) -> Result<Self> {
        if actions < 2 {
            return Err(Error::setting("the number of actions", "at least 2", actions));
        }
        Ok(Uniform { actions })
    }
}

impl Policy for Uniform {
    fn actions(&self) -> usize {
        self.actions
    }

    fn identity(&self) -> Option<Fingerprint> {
        let mut hasher = Hasher::new("uniform policy");
        hasher.count(self.actions);
        Some(hasher.finish())
    }

    fn class(&self) -> Class<'_> {
        Class::Uniform(self)
    }

    fn distribution(&self, contexts: &Contexts, eligible: Option<&Eligible>) -> Result<Vec<f64>> {
        check_contexts(None, self.actions, contexts, eligible)?;
        let k = self.actions;
        let scores = |block: &Contexts| Ok(vec![0.0; block.len() * k]);
        each_row(
            contexts,
            eligible,
            k,
            (k, 0.0),
            scores,
            || (),
            |_, _, set, scores, out| {
                let p = 1.0 / scores.len() as f64;
                match set {
                    None => out.fill(p),
                    Some(set) => set.iter().for_each(|&a| out[a as usize] = p),
                }
            },
        )
    }
}
