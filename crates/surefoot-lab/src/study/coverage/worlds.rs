//! The worlds of the study. They have finitely many contexts, so that every risk is known exactly.

use std::sync::Arc;

use surefoot::policy::Softmax;
use surefoot::simulate::{Plan, SimulatedRound};
use surefoot::worlds::{Environment, Finite, Synthetic, SyntheticSettings, Truth};
use surefoot::{FeatureMap, LinearGaussian, Logs, Policy, Result, simulate};

/// A kind of world.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// Its name in the table.
    pub(super) name: &'static str,
    pub(super) actions: usize,
    pub(super) features: usize,
    pub(super) contexts: usize,
    /// The gap in expected cost between the best action and the others.
    pub(super) margin: f64,
    /// The exploration floor of its policies.
    pub(super) exploration: f64,
}

/// Many predictors, of which hardly any is better than the others: learning fits noise.
pub(super) const WIDE: Kind =
    Kind { name: "wide", actions: 3, features: 4, contexts: 24, margin: 0.05, exploration: 0.05 };

/// Hardly any choice, so that the divergence costs almost nothing and bounds are nearly tight.
pub(super) const NARROW: Kind =
    Kind { name: "narrow", actions: 2, features: 2, contexts: 1, margin: 0.02, exploration: 0.0 };

/// A world with a clear best action.
pub(super) const CLEAR: Kind =
    Kind { name: "clear", actions: 3, features: 4, contexts: 24, margin: 0.5, exploration: 0.1 };

/// A world, and the policies that were fixed before any record.
#[derive(Debug)]
pub(super) struct World {
    pub(super) name: &'static str,
    /// The truth with contexts that do not drift.
    pub(super) still: Vec<Truth>,
    /// The truths with drifting contexts, one per round.
    pub(super) drifting: Vec<Truth>,
    pub(super) first: LinearGaussian,
    /// The fixed policies.
    pub(super) set: Vec<Softmax>,
}

/// The number of fixed policies.
pub(super) const SET: usize = 20;
/// The number of rounds after which drifting contexts repeat.
const CYCLE: usize = 5;

impl World {
    pub(super) fn new(kind: Kind, seed: u64) -> Result<Self> {
        let Kind { name, actions, features, contexts, margin, exploration } = kind;
        let settings = SyntheticSettings { actions, features, margin, seed, ..SyntheticSettings::default() };
        let still = Synthetic::new(settings.clone())?;
        let drifting = Synthetic::new(SyntheticSettings { drift: 1.0, concentration: 2.0, ..settings })?;
        // Unit vectors are used as weights.
        let known = still.known_contexts()?;
        let policy = |i: usize| {
            let mut weights = vec![0.0; features * actions];
            for a in 0..actions {
                known.row(i * actions + a).for_each(|f, w| weights[f * actions + a] = w);
            }
            Softmax::new(FeatureMap::identity(features), actions, weights, 2.0)
        };
        Ok(World {
            name,
            still: vec![still.truth(0)?.slice(0..contexts)?],
            drifting: (0..CYCLE).map(|k| drifting.truth(k)?.slice(0..contexts)).collect::<Result<_>>()?,
            first: still.first_policy(FeatureMap::identity(features), 0.0)?.with_exploration(exploration)?,
            set: (0..SET).map(policy).collect::<Result<_>>()?,
        })
    }

    /// Runs the loop from the first policy on. Contexts and rewards use the learner's seed.
    pub(super) fn play(&self, phases: &[Truth], plan: &Plan, sizes: &[usize]) -> Result<Played> {
        let world = Finite::new(phases.to_vec(), plan.learner.seed)?;
        let outcome = simulate(&world, self.first.clone(), plan, sizes, |_| ())?;
        let gaussian =
            |policy: &Arc<dyn Policy>| policy.as_gaussian().cloned().expect("a learned policy is a posterior");
        Ok(Played {
            policies: outcome.policies().iter().map(gaussian).collect(),
            logs: outcome.session.logs().to_vec(),
            newest: outcome.session.newest().clone(),
            rounds: outcome.rounds,
        })
    }
}

/// The result of a loop.
pub(super) struct Played {
    pub(super) rounds: Vec<SimulatedRound>,
    pub(super) logs: Vec<Logs>,
    /// The policy deployed in each round, and at the end the policy deployed after the last round.
    pub(super) policies: Vec<LinearGaussian>,
    /// The last policy learned.
    pub(super) newest: LinearGaussian,
}
