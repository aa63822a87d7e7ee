//! One loop in a world that shifts: true risks, and certified beside true values.

use surefoot::certificate::Quantity;
use surefoot::simulate::Outcome;
use surefoot::worlds::Truth;
use surefoot_terminal::Result;

use crate::experiment::Experiment;

/// The learners: each method that remembers, followed by its variant that forgets.
pub(super) const METHODS: [&str; 4] = ["seq-ls", "shift-ls", "seq-adj-ls", "shift-adj-ls"];

/// One loop. The worlds are those of rounds 0 to K; no records are collected in the last one.
pub(super) struct Run {
    /// The true risk of the running policy in each world.
    pub(super) risk: Vec<f64>,
    /// The true risk of the first policy in each world.
    pub(super) first: Vec<f64>,
    /// The lowest possible risk in each world.
    pub(super) best: Vec<f64>,
    /// The certified and true values after each round.
    pub(super) certified: Vec<Certified>,
    /// The mean of the last policy's risk over the worlds of all rounds, weighted by their records.
    pub(super) past: f64,
}

/// The certified and true values after a round.
pub(super) struct Certified {
    /// Theorem 3.2 with the first policy as prior; for Shift, Theorem C.1.
    pub(super) upper: f64,
    /// The best rung of the ladder.
    pub(super) ladder: Option<f64>,
    /// The quantity that the theorem bounds: the policy's risk in the next world; for Theorem C.1, the mean over rounds
    /// of each policy's risk in the world it was learned from.
    pub(super) bounded: f64,
    /// The policy's risk in the next world.
    pub(super) next: f64,
}

impl Run {
    pub(super) fn new(experiment: &Experiment, outcome: &Outcome) -> Result<Self> {
        let (rounds, policies, logs) = (outcome.rounds.len(), outcome.policies(), outcome.session.logs());
        let worlds = (0..=rounds).map(|k| experiment.truth(k)).collect::<Result<Vec<Truth>>>()?;
        let first = worlds.iter().map(|world| Ok(world.risk(&policies[0])?)).collect::<Result<Vec<f64>>>()?;
        let mut risk = vec![first[0]];
        risk.extend(outcome.rounds.iter().map(|round| round.true_risk));
        let (mut certified, mut records, mut sum) = (Vec::new(), 0.0, 0.0);
        for (round, (world, learned)) in outcome.rounds.iter().zip(worlds.iter().zip(outcome.session.learned())) {
            let proven = round.proven.as_ref().expect("every round is certified");
            let certificate = proven.certificate.as_ref().expect("what is learned has a divergence");
            let shifts = certificate.bounds == Quantity::MeanRisk;
            if shifts {
                records += round.learned.n as f64;
                sum += round.learned.n as f64 * world.risk(learned)?;
            }
            certified.push(Certified {
                upper: certificate.upper,
                ladder: proven.ladder.as_ref().filter(|_| !shifts).map(|ladder| ladder.upper),
                bounded: if shifts { sum / records } else { round.true_risk },
                next: round.true_risk,
            });
        }
        let last = &policies[rounds];
        let weighted = worlds.iter().zip(logs).map(|(world, logs)| Ok(world.risk(last)? * logs.len() as f64));
        let records: usize = logs.iter().map(|logs| logs.len()).sum();
        Ok(Run {
            past: weighted.sum::<Result<f64>>()? / records as f64,
            best: worlds.iter().map(Truth::optimal_risk).collect(),
            risk,
            first,
            certified,
        })
    }

    /// The mean over rounds of the running policy's risk: minus the expected reward while learning.
    pub(super) fn while_learning(risk: &[f64]) -> f64 {
        let rounds = risk.len() - 1;
        risk[..rounds].iter().sum::<f64>() / rounds as f64
    }

    /// The mean difference between the risk of the learned policies and the lowest possible risk, in the worlds they
    /// ran in or would run in next.
    pub(super) fn regret(&self, risk: &[f64]) -> f64 {
        let rounds = risk.len() - 1;
        risk.iter().zip(&self.best).skip(1).map(|(risk, best)| risk - best).sum::<f64>() / rounds as f64
    }

    /// Whether any certificate is a miss.
    pub(super) fn misses(&self, misses: impl Fn(&Certified) -> bool) -> bool {
        self.certified.iter().any(misses)
    }
}
