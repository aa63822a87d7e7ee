//! The loop closed: deploy, collect, learn, deploy again.

use std::time::Instant;

use crate::environment::{Environment, Turn};
use crate::error::Result;
use crate::learner::{Learner, Round, State};
use crate::logs::Logs;
use crate::policy::LinearGaussian;

/// A round of the simulated loop.
#[derive(Debug, Clone)]
pub struct SimulatedRound {
    /// Its number, counted from 1.
    pub round: usize,
    /// What the learner reports.
    pub learned: Round,
    /// The mean cost of the records that were collected in it.
    pub mean_cost: f64,
    /// The true risk of the new policy, in the world of the round in which it would be deployed.
    pub true_risk: f64,
    /// `E pi(a*(x)|x)` of the new policy there.
    pub accuracy: f64,
    /// Seconds for collecting and learning, without the evaluation.
    pub seconds: f64,
}

/// Runs the loop for rounds of the given sizes and calls `on_round` after each.
///
/// Returns the last state and all rounds.
pub fn simulate(
    environment: &dyn Environment,
    first: LinearGaussian,
    learner: &Learner,
    sizes: &[usize],
    mut on_round: impl FnMut(&SimulatedRound),
) -> Result<(State, Vec<SimulatedRound>)> {
    let mut state = State::new(first);
    let mut rounds = Vec::with_capacity(sizes.len());
    let mut start = 0;
    for (round, &n) in sizes.iter().enumerate() {
        let clock = Instant::now();
        let deployed = if learner.algorithm.redeploys() { state.current() } else { state.first() };
        let logs: Logs = environment.collect(deployed, Turn { round, start, n })?;
        let (next, learned) = learner.step(&state, &logs)?;
        let seconds = clock.elapsed().as_secs_f64();
        state = next;
        start += n;
        let (true_risk, accuracy) = environment.truth(round + 1)?.evaluate(state.current())?;
        let report = SimulatedRound {
            round: round + 1,
            learned,
            mean_cost: logs.cost().iter().sum::<f64>() / n as f64,
            true_risk,
            accuracy,
            seconds,
        };
        on_round(&report);
        rounds.push(report);
    }
    Ok((state, rounds))
}
