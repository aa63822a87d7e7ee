//! OPTIMISER: a closure goes in, a minimiser and its trace come out.

mod adam;
mod lbfgs;

pub use adam::{Adam, Decay};
pub use lbfgs::Lbfgs;

use serde::{Deserialize, Serialize};

/// How an objective is minimised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "method")]
#[non_exhaustive]
pub enum Optimiser {
    /// Minibatches: the paper's.
    Adam(Adam),
    /// The whole batch, without randomness.
    Lbfgs(Lbfgs),
}

impl Default for Optimiser {
    fn default() -> Self {
        Optimiser::Adam(Adam::default())
    }
}

/// What happened on the way.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Trace {
    /// The objective: the mean over the minibatches of each epoch (Adam), or after each iteration (L-BFGS).
    pub objective: Vec<f64>,
    /// How often the closure was asked for a value and a gradient.
    pub evaluations: usize,
    /// Whether the tolerance was met before the budget was spent.
    pub converged: bool,
}
