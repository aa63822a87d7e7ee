//! SIMULATION: the closed loop of deploying, collecting, learning, judging and deploying again.

mod schedule;

pub use schedule::Schedule;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use crate::audit::{Statement, StatementKind, Terms};
use crate::certificate::{Certificate, Gate};
use crate::error::{Error, Result};
use crate::learn::{Learner, StepReport};
use crate::logs::Logs;
use crate::observer::{Observer, Silent};
use crate::policy::{LinearGaussian, Policy};
use crate::session::{Proven, RoundReport, Session};
use crate::worlds::{Environment, Turn};

/// The settings of a simulated loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The learner, which turns logs into candidates. Its protocol is used for all certificates.
    pub learner: Learner,
    /// The rule by which candidates are deployed.
    pub gate: Gate,
    /// The rounds whose policies are certified.
    pub certify: Certify,
}

/// Which rounds' policies are certified. With many rounds, certifying each one takes longer than learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Certify {
    /// None.
    #[default]
    Never,
    /// The policy of the last round.
    Last,
    /// The policy of every round.
    Each,
}

impl From<Learner> for Plan {
    /// Deploys every learned policy and certifies nothing.
    fn from(learner: Learner) -> Self {
        Plan { learner, gate: Gate::Always, certify: Certify::Never }
    }
}

/// One round of the simulated loop.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SimulatedRound {
    /// Its number, counted from 1.
    pub round: usize,
    /// The learner's report.
    pub learned: StepReport,
    /// The mean cost of the records collected in it.
    pub mean_cost: f64,
    /// The true risk of the policy that the round ends with, in the world of the next round, where it would be
    /// deployed. That is the candidate if it was promoted (or if it is only reported, because the algorithm never
    /// redeploys), and the incumbent otherwise.
    pub true_risk: f64,
    /// `E pi(a*(x)|x)` of that policy in that world.
    pub accuracy: f64,
    /// The share of contexts in which its most probable action is the best one.
    pub greedy_accuracy: f64,
    /// Its coverage of the best actions, `C* = min_x pi(a*(x)|x)`.
    pub best_coverage: f64,
    /// The mean reward of all records collected so far.
    pub reward: f64,
    /// The policy that would be handed over now, if it is another one.
    pub hand_over: Option<HandedOver>,
    /// The certificates of that policy, if they were requested.
    pub proven: Option<Proven>,
    /// The decision of the gate; `None` if it is always open.
    pub decision: Option<GateDecision>,
    /// Seconds for collecting, learning and judging, without the evaluation of the true risk.
    pub seconds: f64,
}

/// A policy that would be handed over if learning ended now.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HandedOver {
    /// Its true risk.
    pub true_risk: f64,
    /// Its probability of the best action.
    pub accuracy: f64,
    /// The share of contexts in which its most probable action is the best one.
    pub greedy_accuracy: f64,
    /// The certificate of its risk, if it was requested.
    pub certificate: Option<Certificate>,
}

/// The decision of the gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GateDecision {
    /// Whether a challenger was promoted.
    pub promoted: bool,
    /// The true risk of the newest candidate.
    pub candidate_risk: f64,
    /// The certificate that decided: that of the challenger with the best one, which is not always the newest.
    pub certificate: Option<Certificate>,
}

/// The result of a simulated loop.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outcome {
    /// The session after the last round, with its logs and all deployed and learned policies.
    pub session: Session,
    /// All rounds.
    pub rounds: Vec<SimulatedRound>,
}

impl Outcome {
    /// The policy deployed in each round, followed by the policy after the last round.
    pub fn policies(&self) -> Vec<Arc<dyn Policy>> {
        self.session.deployed().iter().chain([self.session.running()]).cloned().collect()
    }

    /// All certificates, round by round.
    pub fn statements(&self) -> Vec<Statement> {
        let mut all = Vec::new();
        for round in &self.rounds {
            let mut add = |kind, certificate: Option<&Certificate>| {
                all.extend(certificate.cloned().map(|certificate| Statement { round: round.round, kind, certificate }));
            };
            add(StatementKind::Gate, round.decision.as_ref().and_then(|decision| decision.certificate.as_ref()));
            add(StatementKind::Certificate, round.proven.as_ref().and_then(|proven| proven.certificate.as_ref()));
            add(StatementKind::Ladder, round.proven.as_ref().and_then(|proven| proven.ladder.as_ref()));
            add(StatementKind::HandOver, round.hand_over.as_ref().and_then(|policy| policy.certificate.as_ref()));
        }
        all
    }

    /// The mean reward of all interactions: minus their mean cost.
    pub fn mean_reward(&self) -> f64 {
        let costs = self.session.logs().iter().flat_map(Logs::cost);
        let records: usize = self.session.logs().iter().map(Logs::len).sum();
        -costs.sum::<f64>() / records as f64
    }
}

/// Runs the loop for rounds of the given sizes, and calls `on_round` after each.
pub fn simulate(
    environment: &dyn Environment,
    first: LinearGaussian,
    plan: &Plan,
    sizes: &[usize],
    mut on_round: impl FnMut(&SimulatedRound),
) -> Result<Outcome> {
    simulate_observed(environment, first, plan, sizes, &mut Silent, |round| {
        on_round(round);
        ControlFlow::Continue(())
    })
}

/// The same with an observer, which receives the progress of each search; the observer and `on_round` may stop the
/// loop.
pub fn simulate_observed(
    environment: &dyn Environment,
    first: LinearGaussian,
    plan: &Plan,
    sizes: &[usize],
    observer: &mut dyn Observer,
    mut on_round: impl FnMut(&SimulatedRound) -> ControlFlow<()>,
) -> Result<Outcome> {
    let sizes_said: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    let rounds_end = format!("after numbers of records that were fixed in advance: {}", sizes_said.join(", "));
    let terms = Terms { rounds_end, ..Terms::default() };
    let mut session = Session::new(plan.learner.clone(), plan.gate, first)?.with_terms(terms)?;
    let mut rounds: Vec<SimulatedRound> = Vec::new();
    let (mut start, mut paid) = (0, 0.0);
    for (round, &n) in sizes.iter().enumerate() {
        let clock = Instant::now();
        let newest = environment.collect(session.running().as_ref(), Turn { round, start, n })?;
        let mean_cost = newest.cost().iter().sum::<f64>() / n as f64;
        start += n;
        let certify = match plan.certify {
            Certify::Each => true,
            Certify::Last => round + 1 == sizes.len(),
            Certify::Never => false,
        };
        let RoundReport { learned, promoted, decided_by, proven, handed_over } =
            session.take(newest, certify, observer)?;
        let seconds = clock.elapsed().as_secs_f64();
        let truth = environment.truth(round + 1)?;
        let judged = |policy: &dyn Policy| -> Result<(f64, f64, (f64, f64))> {
            let (risk, accuracy) = truth.evaluate(policy)?;
            Ok((risk, accuracy, truth.greedy_and_coverage(policy)?))
        };
        let (true_risk, accuracy, (greedy_accuracy, best_coverage)) = judged(session.current())?;
        let hand_over = match session.hand_over() {
            None => None,
            Some(policy) => {
                let (true_risk, accuracy, (greedy_accuracy, _)) = judged(policy)?;
                Some(HandedOver { true_risk, accuracy, greedy_accuracy, certificate: handed_over })
            }
        };
        paid -= mean_cost * n as f64;
        let decision = match plan.gate {
            Gate::Always => None,
            _ => {
                let candidate_risk = truth.risk(session.newest())?;
                Some(GateDecision { promoted, candidate_risk, certificate: decided_by })
            }
        };
        let report = SimulatedRound {
            round: round + 1,
            learned,
            mean_cost,
            true_risk,
            accuracy,
            greedy_accuracy,
            best_coverage,
            reward: paid / start as f64,
            hand_over,
            proven,
            decision,
            seconds,
        };
        let stop = on_round(&report).is_break();
        rounds.push(report);
        if stop {
            return Err(Error::Stopped);
        }
    }
    Ok(Outcome { session, rounds })
}
