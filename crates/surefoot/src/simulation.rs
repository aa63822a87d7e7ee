//! The loop closed: deploy, collect, learn, judge, deploy again.

use std::time::Instant;

use serde::Serialize;

use crate::certificate::{Birth, Case, Certificate, Challenger, Evidence, Gate, Share, Since, Smoothing, ladder_of};
use crate::environment::{Environment, Turn};
use crate::error::{Error, Result};
use crate::learner::{Learner, Round, State};
use crate::logs::Logs;
use crate::policy::LinearGaussian;

/// How a loop is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What turns logs into candidates; its terms are those of all certificates.
    pub learner: Learner,
    /// The rule by which candidates are deployed.
    pub gate: Gate,
    /// Which rounds' policies are certified.
    pub certify: Certify,
}

/// Which rounds' policies are certified. With many rounds it costs more than learning to certify each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Certify {
    /// None.
    #[default]
    Never,
    /// The last one's.
    Last,
    /// Every one's.
    Each,
}

impl From<Learner> for Plan {
    /// Whatever is learned is deployed, and nothing is certified.
    fn from(learner: Learner) -> Self {
        Plan { learner, gate: Gate::Always, certify: Certify::Never }
    }
}

/// A round of the simulated loop.
#[derive(Debug, Clone)]
pub struct SimulatedRound {
    /// Its number, counted from 1.
    pub round: usize,
    /// What the learner reports.
    pub learned: Round,
    /// The mean cost of the records that were collected in it.
    pub mean_cost: f64,
    /// The true risk of the policy that the round ends with, in the world of the round in which it would be deployed:
    /// the candidate if it was promoted (or is only reported, where the algorithm never redeploys), the incumbent if
    /// not.
    pub true_risk: f64,
    /// `E pi(a*(x)|x)` of that policy there.
    pub accuracy: f64,
    /// What is proven about that policy, if it was asked for.
    pub proven: Option<Proven>,
    /// What the gate decided; `None` if it is always open.
    pub decision: Option<GateDecision>,
    /// Seconds for collecting, learning and judging, without the evaluation.
    pub seconds: f64,
}

/// What is proven about a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Proven {
    /// Theorem 3.2 with the first policy as prior, on all records. Where contexts may shift, Theorem C.1: a bound on
    /// the mean over rounds of the risks of the policies learned from them, each in the world of its round.
    pub certificate: Certificate,
    /// The best rung of the [ladder](crate::ladder()). Where contexts may shift, only the policy on records of the
    /// newest round that it has not seen is left of it, if there are any: a bound in the world of that round.
    pub ladder: Option<Certificate>,
}

/// What the gate decided.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GateDecision {
    /// Whether a challenger was promoted.
    pub promoted: bool,
    /// The true risk of the newest candidate.
    pub candidate_risk: f64,
    /// The certificate that decided: of the challenger that has the best one, not always the newest.
    pub certificate: Option<Certificate>,
}

/// What a loop leaves behind.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The last state.
    pub state: State,
    /// All rounds.
    pub rounds: Vec<SimulatedRound>,
    /// What was logged in each round.
    pub logs: Vec<Logs>,
    /// What was deployed in each round, and at the end what the last one left.
    pub policies: Vec<LinearGaussian>,
    /// What was learned from each round, deployed or not.
    pub learned: Vec<LinearGaussian>,
}

impl Outcome {
    /// The mean reward of all interactions: minus their mean cost.
    pub fn mean_reward(&self) -> f64 {
        let costs = self.logs.iter().flat_map(Logs::cost);
        let records: usize = self.logs.iter().map(Logs::len).sum();
        -costs.sum::<f64>() / records as f64
    }
}

/// Runs the loop for rounds of the given sizes and calls `on_round` after each.
pub fn simulate(
    environment: &dyn Environment,
    first: LinearGaussian,
    plan: &Plan,
    sizes: &[usize],
    mut on_round: impl FnMut(&SimulatedRound),
) -> Result<Outcome> {
    let learner = &plan.learner;
    learner.terms.check()?;
    plan.gate.check()?;
    if plan.gate != Gate::Always && !learner.algorithm.redeploys() {
        return Err(Error::setting("the gate", "always, where nothing is ever redeployed", plan.gate));
    }
    if plan.gate != Gate::Always && learner.algorithm.shifts() {
        let allowed = "always, where contexts may shift: a comparison in past worlds says nothing about the next";
        return Err(Error::setting("the gate", allowed, plan.gate));
    }
    let mut state = State::new(first.clone());
    // What runs, and since which round.
    let mut incumbent = Challenger { policy: first, birth: Some(Birth { round: 0, since: Since::round(0), size: 1 }) };
    let mut started = 0;
    let mut challengers: Vec<Challenger> = Vec::new();
    let (mut rounds, mut logs, mut deployed): (Vec<SimulatedRound>, Vec<Logs>, Vec<LinearGaussian>) =
        Default::default();
    // The policy learned from each round.
    let mut learned_from: Vec<LinearGaussian> = Vec::new();
    let mut start = 0;
    for (round, &n) in sizes.iter().enumerate() {
        let clock = Instant::now();
        deployed.push(incumbent.policy.clone());
        logs.push(environment.collect(&incumbent.policy, Turn { round, start, n })?);
        let newest = &logs[round];
        let (next, learned) = learner.step(&state, newest)?;
        state = next;
        start += n;
        if round == 0
            && let Some(birth) = learned.birth
        {
            // The first policy and what was learned in round 0 are one set.
            incumbent.birth = Some(Birth { size: birth.size, round: 0, since: Since::round(0) });
        }
        let candidate = Challenger { policy: state.current().clone(), birth: learned.birth };
        learned_from.push(candidate.policy.clone());
        challengers.push(candidate.clone());
        let verdict = plan.gate.judge(&challengers, &incumbent, started, &deployed, &logs, &learner.terms)?;
        if !learner.algorithm.redeploys() {
            challengers.clear();
        } else if let Some(place) = verdict.promoted {
            incumbent = challengers.swap_remove(place);
            challengers.clear();
            started = round + 1;
        }
        state = if learner.algorithm.redeploys() { state.keep(&incumbent.policy)? } else { state };
        // What is judged: where nothing is ever redeployed, what would be.
        let ends_with = if learner.algorithm.redeploys() { &incumbent } else { &candidate };
        let proven = match plan.certify {
            Certify::Last if round + 1 < sizes.len() => None,
            Certify::Never => None,
            _ => Some(certify(learner, ends_with, &learned_from, &deployed, &logs)?),
        };
        let seconds = clock.elapsed().as_secs_f64();
        let truth = environment.truth(round + 1)?;
        let (true_risk, accuracy) = truth.evaluate(&ends_with.policy)?;
        let decision = match plan.gate {
            Gate::Always => None,
            _ => Some(GateDecision {
                promoted: verdict.promoted.is_some(),
                candidate_risk: truth.risk(&candidate.policy)?,
                certificate: verdict.certificate,
            }),
        };
        let report = SimulatedRound {
            round: round + 1,
            learned,
            mean_cost: newest.cost().iter().sum::<f64>() / n as f64,
            true_risk,
            accuracy,
            proven,
            decision,
            seconds,
        };
        on_round(&report);
        rounds.push(report);
    }
    deployed.push(incumbent.policy);
    Ok(Outcome { state, rounds, logs, policies: deployed, learned: learned_from })
}

/// What is proven about a policy by all rounds so far.
fn certify(
    learner: &Learner,
    policy: &Challenger,
    learned_from: &[LinearGaussian],
    deployed: &[LinearGaussian],
    logs: &[Logs],
) -> Result<Proven> {
    let terms = &learner.terms;
    let case = Case::whole(logs, terms);
    if learner.algorithm.shifts() {
        let pairs: Vec<_> = learned_from.iter().zip(deployed).collect();
        let unseen = policy.birth.filter(|birth| birth.since.round + 1 == logs.len());
        let unseen = unseen.map(|Birth { round, since, size }| {
            let share = Share::of_round(round, 1.0);
            Certificate::fixed(Smoothing::Ls, &policy.policy, size, &Case { since, share, ..case })
        });
        return Ok(Proven {
            certificate: Certificate::shift(Smoothing::Ls, &pairs, &case)?,
            ladder: unseen.transpose()?,
        });
    }
    let evidence = logs.iter().map(|logs| Evidence::new(&policy.policy, logs)).collect::<Result<Vec<_>>>()?;
    Ok(Proven {
        certificate: Certificate::of_posterior(&policy.policy, &deployed[0], &case, &evidence)?,
        ladder: Some(ladder_of(&policy.policy, policy.birth, deployed, logs, terms, &evidence)?),
    })
}
