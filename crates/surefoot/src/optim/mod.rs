//! OPTIMISER: minimises a closure, and returns the minimiser and the trace of the search.

mod adam;
mod lbfgs;

pub use adam::{Adam, Decay};
pub use lbfgs::Lbfgs;

use serde::{Deserialize, Serialize};

/// The optimiser of an objective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "method")]
#[non_exhaustive]
pub enum Optimiser {
    /// Adam on minibatches, as in the paper.
    Adam(Adam),
    /// L-BFGS on the whole batch, without randomness.
    Lbfgs(Lbfgs),
}

impl Default for Optimiser {
    fn default() -> Self {
        Optimiser::Adam(Adam::default())
    }
}

/// The trace of a minimisation.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Trace {
    /// The objective: the mean over the minibatches of each epoch (Adam), or after each iteration (L-BFGS).
    pub objective: Vec<f64>,
    /// The number of evaluations of the closure.
    pub evaluations: usize,
    /// Whether the tolerance was met before the budget was spent.
    pub converged: bool,
}
