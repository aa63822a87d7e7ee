//! RETRAIN: learns the next policy from all rounds of some logs at once, and certifies it.

use std::sync::Arc;

use crate::certificate::{Certificate, Challenger, Gate, ladder};
use crate::error::{Error, Result};
use crate::evaluation::{Estimate, Estimator, EvaluationSettings, Evaluator, Observed};
use crate::learn::{Choice, Goal, Learner, State, StepReport};
use crate::logs::Logs;
use crate::observer::Observer;
use crate::policy::{LinearGaussian, Policy};

/// A policy that was learned from all rounds, with its certificates and estimates. Costs are in `[-1, 0]`, lower is
/// better.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Retrained {
    /// The new policy.
    pub policy: LinearGaussian,
    /// The report of the step.
    pub round: StepReport,
    /// The certificate of its risk: the best rung of the ladder.
    pub proven: Certificate,
    /// The certificate of its risk minus that of the newest round's logging policy.
    pub better: Certificate,
    /// The mean cost of the newest round, and its standard error.
    pub logged: (f64, f64),
    /// The self-normalised importance weighting estimate of its risk, on the records that were held back; on all, if
    /// none were.
    pub estimate: Estimate,
    /// How many of the newest records were held back.
    pub held_back: usize,
    /// The state of the loop.
    pub state: State,
}

/// Learns the next policy from all rounds, the oldest first.
///
/// The prior must have been fixed before all of them. The logging policies may be any policies, because only their
/// propensities are used. Algorithms that learn from the newest round only are rejected, because they would ignore the
/// other rounds.
pub fn retrain(
    learner: &Learner,
    prior: &LinearGaussian,
    rounds: &[Logs],
    observer: &mut dyn Observer,
) -> Result<Retrained> {
    let Some((newest, earlier)) = rounds.split_last() else {
        return Err(Error::size("the list of rounds", "at least 1 round", 0));
    };
    if !learner.algorithm.learns_from_all() {
        let (allowed, value) = ("one that learns from all rounds", "one that learns from the newest");
        return Err(Error::setting("the algorithm", allowed, value));
    }
    rounds.iter().try_for_each(Logs::check_propensities)?;
    // There is no round before whose verdict could choose.
    let learner = &Learner { choice: Choice::Newest, ..learner.clone() };
    let mut state = State::new(prior.clone());
    for logs in earlier {
        state = learner.remember_in(state, logs)?;
    }
    let (state, round) = learner.step_observed(&state, newest, observer)?;
    let goal = learner.algorithm.portfolio().map_or(Goal::Reward, |portfolio| portfolio.goal);
    let policy = state.hand_over().filter(|_| goal == Goal::Policy).unwrap_or(state.current()).clone();
    let first: Arc<dyn Policy> = Arc::new(prior.clone());
    let deployed = vec![Arc::clone(&first); rounds.len()];
    let proven = ladder(&policy, round.fixed_since, &deployed, rounds, &learner.protocol)?;
    let challenger = Challenger { policy: Arc::new(policy.clone()), fixed_since: round.fixed_since };
    let incumbent = Challenger { policy: first, fixed_since: None };
    let started = Some(rounds.len() - 1);
    let verdict = Gate::Improvement.judge(&[challenger], &incumbent, started, &deployed, rounds, &learner.protocol)?;
    let better = verdict.certificate.expect("there is a challenger");
    let records: usize = rounds.iter().map(Logs::len).sum();
    let held_back = records - round.records;
    let estimate = self_normalised(&policy, &newest_of(rounds, held_back))?;
    Ok(Retrained { policy, round, proven, better, logged: mean(newest.cost()), estimate, held_back, state })
}

/// The mean, and its standard error (0 for one value).
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let deviation = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
    (mean, deviation / n.sqrt())
}

/// The self-normalised importance weighting estimate of a policy's risk.
fn self_normalised(policy: &LinearGaussian, rounds: &[Logs]) -> Result<Estimate> {
    let estimators = vec![Estimator::SelfNormalised];
    let mut evaluator =
        Evaluator::new(&EvaluationSettings { estimators, replicates: 0, ..EvaluationSettings::default() })?;
    for logs in rounds {
        let p = policy.propensity(logs.contexts(), logs.action(), logs.eligible())?;
        evaluator.add(&Observed { p: &p, q: logs.propensity(), c: logs.cost(), model: None, custom: &[] })?;
    }
    Ok(evaluator.finish()?.estimates.swap_remove(0))
}

/// The newest `records` records; all records for 0.
fn newest_of(rounds: &[Logs], records: usize) -> Vec<Logs> {
    let mut left = if records == 0 { usize::MAX } else { records };
    let mut newest = Vec::new();
    for logs in rounds.iter().rev().take_while(|logs| !logs.is_empty()) {
        if left == 0 {
            break;
        }
        let taken = logs.len().min(left);
        newest.push(logs.slice(logs.len() - taken..logs.len()));
        left -= taken;
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::FeatureMap;
    use crate::learn::Lambda;
    use crate::observer::Silent;
    use crate::worlds::{Environment, Synthetic, SyntheticSettings, Turn};

    fn world() -> (LinearGaussian, Vec<Logs>) {
        let world = Synthetic::new(SyntheticSettings::default()).unwrap();
        let first = world.first_policy(FeatureMap::identity(10), 0.0).unwrap();
        let round = |round: usize| world.collect(&first, Turn { round, start: 300 * round, n: 300 }).unwrap();
        let rounds = vec![round(0), round(1)];
        (first, rounds)
    }

    #[test]
    fn all_rounds_are_learned_from_and_the_newest_records_judge() {
        let (first, rounds) = world();
        for (share, held_back) in [(0.0, 0), (0.5, 150), (2.0, 300)] {
            let learner = Learner { lambda: Lambda::Fixed(0.4), held_back: share, ..Learner::default() };
            let found = retrain(&learner, &first, &rounds, &mut Silent).unwrap();
            assert_eq!(found.held_back, held_back);
            let state = learner.remember(&State::new(first.clone()), &rounds[0]).unwrap();
            let (state, round) = learner.step(&state, &rounds[1]).unwrap();
            assert_eq!((&found.policy, &found.round), (state.current(), &round));
            assert_eq!((found.state.rounds(), found.state.current()), (2, &found.policy));

            let deployed = [first.clone(), first.clone()];
            let proven = ladder(&found.policy, round.fixed_since, &deployed, &rounds, &learner.protocol).unwrap();
            assert_eq!(found.proven, proven);
            assert!(found.better.upper > found.proven.upper, "a difference to what costs less than 0");

            let (mut weights, mut costs) = (0.0, 0.0);
            let unseen = vec![rounds[1].slice(300 - held_back..300)];
            for logs in if held_back == 0 { &rounds } else { &unseen } {
                let p = found.policy.propensity(logs.contexts(), logs.action(), logs.eligible()).unwrap();
                for ((p, q), c) in p.iter().zip(logs.propensity()).zip(logs.cost()) {
                    weights += p / q;
                    costs += p / q * c;
                }
            }
            assert!((found.estimate.value - costs / weights).abs() < 1e-12);
            assert!(found.estimate.standard_error > 0.0);

            let cost = rounds[1].cost();
            assert!((found.logged.0 - cost.iter().sum::<f64>() / 300.0).abs() < 1e-12);
            assert!(found.logged.1 > 0.0 && found.logged.1 < 0.5 / 299.0f64.sqrt() + 1e-12);
        }
    }

    #[test]
    fn records_held_back_may_reach_into_earlier_rounds() {
        let (_, rounds) = world();
        let sizes = |records| newest_of(&rounds, records).iter().map(Logs::len).collect::<Vec<_>>();
        assert_eq!((sizes(0), sizes(150), sizes(300), sizes(301)), (vec![300; 2], vec![150], vec![300], vec![300, 1]));
    }

    #[test]
    fn one_record_has_no_standard_error() {
        assert_eq!(mean(&[-0.5]), (-0.5, 0.0));
        assert_eq!(mean(&[-1.0, 0.0]), (-0.5, 0.5));
    }

    #[test]
    fn without_a_round_nothing_is_learned() {
        let (first, _) = world();
        let said = retrain(&Learner::default(), &first, &[], &mut Silent).unwrap_err().to_string();
        assert_eq!(said, "the list of rounds should have at least 1 round, but has 0");
    }

    #[test]
    fn what_learns_from_the_newest_round_only_is_refused() {
        let world = crate::worlds::Synthetic::new(crate::worlds::SyntheticSettings::default()).unwrap();
        let first = world.first_policy(crate::FeatureMap::identity(10), 0.0).unwrap();
        let turn = crate::worlds::Turn { round: 0, start: 0, n: 20 };
        let logs = crate::worlds::Environment::collect(&world, &first, turn).unwrap();
        for algorithm in [crate::Algorithm::ShiftLs, crate::Algorithm::Scrm(crate::learn::Crm::default())] {
            let learner = Learner { algorithm, ..Learner::default() };
            let refused = retrain(&learner, &first, std::slice::from_ref(&logs), &mut Silent).unwrap_err();
            assert_eq!(
                refused.to_string(),
                "the algorithm should be one that learns from all rounds, but is one that learns from the newest"
            );
        }
    }
}
