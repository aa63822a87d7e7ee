//! The records that a certificate is made from, and its terms.

use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, Factor, Weighed};
use super::protocol::{Protocol, Share};
use crate::error::{Error, Result};
use crate::logs::Logs;
use crate::policy::Policy;

/// From where on records count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Since {
    /// The first round, counted from 0.
    pub round: usize,
    /// Its first record.
    pub record: usize,
}

impl Since {
    /// All records from a round on.
    pub fn round(round: usize) -> Self {
        Since { round, record: 0 }
    }
}

/// Records, and how they are used: what every certificate is made under.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// All rounds of the loop so far.
    pub rounds: &'a [Logs],
    /// From where on their records count.
    pub since: Since,
    /// The terms.
    pub protocol: &'a Protocol,
    /// The share of delta.
    pub share: Share,
}

impl<'a> Case<'a> {
    /// All records, with all of delta.
    pub fn whole(rounds: &'a [Logs], protocol: &'a Protocol) -> Self {
        Case { rounds, since: Since::round(0), protocol, share: Share::WHOLE }
    }

    /// The rounds whose records count.
    pub(super) fn counted(&self) -> Result<&'a [Logs]> {
        let Since { round, record } = self.since;
        let rounds = self.rounds.get(round..).unwrap_or_default();
        match rounds.first() {
            None => Err(Error::setting("the first round", format!("below {}", self.rounds.len()), round)),
            Some(first) if record > first.len() => {
                Err(Error::setting("the first record", format!("at most {}", first.len()), record))
            }
            Some(_) => Ok(rounds),
        }
    }

    /// What the counted records say by one factor, asked round by round.
    pub(super) fn evidence(&self, factor: Factor, weighed: impl Fn(&Logs) -> Result<Weighed>) -> Result<Evidence> {
        let (factors, lambdas) = ([factor], &self.protocol.lambdas);
        let mut all = Evidence::none(&factors, lambdas);
        let mut first = self.since.record;
        for logs in self.counted()? {
            let [_, counted] = weighed(logs)?.split(std::mem::take(&mut first), &factors, lambdas);
            all.merge(&counted);
        }
        Ok(all)
    }
}

/// What each round says about a policy, by all the factors that certificates of it may need, from one pass over the
/// records. Rounds are cut where the policy stops having seen the records.
#[derive(Debug, Clone)]
pub(crate) struct RoundEvidence {
    /// The records that count for a policy fixed since the cut, and those before.
    parts: Vec<[Evidence; 2]>,
}

impl RoundEvidence {
    /// Asks the policy about the records of all rounds; `cut` is the first record that it has not seen.
    pub(crate) fn new(
        policy: &dyn Policy,
        rounds: &[Logs],
        cut: Option<Since>,
        factors: &[Factor],
        lambdas: &[f64],
    ) -> Result<Self> {
        let part = |(round, logs): (usize, &Logs)| {
            let seen = match cut {
                Some(cut) if round == cut.round => cut.record,
                Some(cut) if round > cut.round => 0,
                _ => logs.len(),
            };
            Ok(Weighed::new(policy, logs)?.split(seen, factors, lambdas))
        };
        Ok(RoundEvidence { parts: rounds.iter().enumerate().map(part).collect::<Result<_>>()? })
    }

    /// What all records of a round and of those after it say.
    pub(crate) fn since_round(&self, round: usize) -> Evidence {
        self.merged(round, |all, [seen, unseen]| {
            all.merge(seen);
            all.merge(unseen);
        })
    }

    /// What the unseen records of a round and of those after it say.
    pub(crate) fn unseen(&self, round: usize) -> Evidence {
        self.merged(round, |all, [_, unseen]| all.merge(unseen))
    }

    fn merged(&self, round: usize, add: impl Fn(&mut Evidence, &[Evidence; 2])) -> Evidence {
        let mut all = self.parts[round][0].emptied();
        self.parts[round..].iter().for_each(|parts| add(&mut all, parts));
        all
    }
}
