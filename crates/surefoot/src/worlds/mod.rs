//! DEPLOYMENT, simulated: bandits from labelled data, and synthetic worlds whose contexts may drift.

mod articles;
mod dataset;
mod finite;
mod labels;
mod profile;
mod synthetic;
mod truth;

pub use articles::{Articles, ArticlesSettings};
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
use crate::logs::{Eligible, Logs};
use crate::math::random::{Purpose, record_stream, stream};
use crate::policy::Policy;

/// The interactions to simulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The round, counted from 0.
    pub round: usize,
    /// The number of earlier interactions.
    pub start: usize,
    /// The number of interactions.
    pub n: usize,
}

/// A world in which a policy can be deployed and the true risk of every policy is known.
///
/// It has no state: the same policy at the same turn meets the same contexts and the same random numbers.
pub trait Environment: Debug + Sync {
    /// The number of actions, `K`.
    fn actions(&self) -> usize;

    /// Deploys a policy and returns its logs.
    fn collect(&self, policy: &dyn Policy, turn: Turn) -> Result<Logs>;

    /// The truth of the world at a round.
    fn truth(&self, round: usize) -> Result<Truth>;
}

/// Lets the policy decide on the contexts, and draws a reward of 0 or 1 per decision: the cost is -1 with probability
/// `-expected(i, action)`.
fn interact(
    policy: &dyn Policy,
    contexts: Contexts,
    eligible: Option<Eligible>,
    turn: Turn,
    seed: u64,
    expected: impl Fn(usize, usize) -> f64,
) -> Result<Logs> {
    let decisions =
        policy.decide(&contexts, eligible.as_ref(), stream(seed, Purpose::Decide, turn.round as u64).next_u64())?;
    let luck = stream(seed, Purpose::Reward, 0);
    let cost = decisions.iter().enumerate().map(|(i, d)| {
        let draw: f64 = record_stream(&luck, (turn.start + i) as u64).random();
        if draw < -expected(i, d.action as usize) { -1.0 } else { 0.0 }
    });
    let cost = cost.collect();
    let action = decisions.iter().map(|d| d.action).collect();
    let propensity = decisions.iter().map(|d| d.propensity).collect();
    let logs = Logs::new(policy.actions(), contexts, action, propensity, cost)?;
    let logs = eligible.map_or(Ok(logs.clone()), |eligible| logs.with_eligible(eligible))?;
    Ok(logs.with_policy_version(turn.round.to_string()))
}

#[cfg(test)]
mod tests;
