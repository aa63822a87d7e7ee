//! DEPLOYMENT, simulated: labels turned into a bandit, synthetic worlds, some of whose contexts drift.

mod dataset;
mod finite;
mod labels;
mod profile;
mod synthetic;
mod truth;

pub use dataset::Dataset;
pub use finite::Finite;
pub use labels::LabelBandit;
pub use profile::Profile;
pub use synthetic::{Synthetic, SyntheticSettings};
pub use truth::Truth;

use std::fmt::Debug;

use rand::{Rng, RngExt};

use crate::contexts::Contexts;
use crate::error::Result;
use crate::logs::Logs;
use crate::math::random::{Purpose, record_stream, stream};
use crate::policy::Policy;

/// Which interactions are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The round, counted from 0.
    pub round: usize,
    /// How many interactions there were before.
    pub start: usize,
    /// How many there are to be.
    pub n: usize,
}

/// A world in which a policy can be deployed and in which everything is known.
///
/// It has no state: the same policy at the same turn meets the same contexts and luck.
pub trait Environment: Debug + Sync {
    /// The number of actions, `K`.
    fn actions(&self) -> usize;

    /// Deploys a policy and returns what it logged.
    fn collect(&self, policy: &dyn Policy, turn: Turn) -> Result<Logs>;

    /// What is known about the world at a round.
    fn truth(&self, round: usize) -> Result<Truth>;
}

/// Lets the policy decide on the contexts, and draws a reward of 0 or 1 for each decision: cost -1 with probability
/// `-expected(i, action)`.
fn interact(
    policy: &dyn Policy,
    contexts: Contexts,
    turn: Turn,
    seed: u64,
    expected: impl Fn(usize, usize) -> f64,
) -> Result<Logs> {
    let decisions = policy.decide(&contexts, None, stream(seed, Purpose::Decide, turn.round as u64).next_u64())?;
    let luck = stream(seed, Purpose::Reward, 0);
    let cost = decisions.iter().enumerate().map(|(i, d)| {
        let draw: f64 = record_stream(&luck, (turn.start + i) as u64).random();
        if draw < -expected(i, d.action as usize) { -1.0 } else { 0.0 }
    });
    let cost = cost.collect();
    let action = decisions.iter().map(|d| d.action).collect();
    let propensity = decisions.iter().map(|d| d.propensity).collect();
    Ok(Logs::new(policy.actions(), contexts, action, propensity, cost)?.with_policy_version(turn.round.to_string()))
}

#[cfg(test)]
mod tests;
