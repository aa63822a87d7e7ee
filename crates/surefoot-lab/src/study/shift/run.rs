//! One loop in a world that shifts: risks, and what was certified beside what was true.

use surefoot::certificate::Quantity;
use surefoot::simulate::Outcome;
use surefoot::worlds::Truth;
use surefoot_terminal::Result;

use crate::experiment::Experiment;

/// The learners, each that remembers beside the one that forgets.
pub(super) const METHODS: [&str; 4] = ["seq-ls", "shift-ls", "seq-adj-ls", "shift-adj-ls"];

/// One loop. Worlds are those of rounds 0 to K, the last of which is never collected in.
pub(super) struct Run {
    /// The true risk in each world of the policy that runs there.
    pub(super) risk: Vec<f64>,
    /// The same of the first policy.
    pub(super) first: Vec<f64>,
    /// The best possible risk in each world.
    pub(super) best: Vec<f64>,
    /// What is certified after each round, beside what is true.
    pub(super) certified: Vec<Certified>,
    /// The mean over the worlds of all rounds of the last policy's risk.
    pub(super) past: f64,
}

/// What is certified after a round, beside what is true.
pub(super) struct Certified {
    /// Theorem 3.2 with the first policy as prior; for Shift, Theorem C.1.
    pub(super) upper: f64,
    /// The best rung of the ladder.
    pub(super) ladder: Option<f64>,
    /// The quantity that the theorem speaks of: the policy's risk, in the next world; for Theorem C.1, the mean over
    /// rounds of each policy's risk in the world it was learned from.
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

    /// The mean over the rounds of the risk that ran: minus the expected reward while learning.
    pub(super) fn while_learning(risk: &[f64]) -> f64 {
        let rounds = risk.len() - 1;
        risk[..rounds].iter().sum::<f64>() / rounds as f64
    }

    /// What the learned policies cost above the best possible in the worlds they ran in or would run in next: the mean.
    pub(super) fn regret(&self, risk: &[f64]) -> f64 {
        let rounds = risk.len() - 1;
        risk.iter().zip(&self.best).skip(1).map(|(risk, best)| risk - best).sum::<f64>() / rounds as f64
    }

    /// Whether any certificate is below the quantity that it is held against.
    pub(super) fn misses(&self, misses: impl Fn(&Certified) -> bool) -> bool {
        self.certified.iter().any(misses)
    }
}
