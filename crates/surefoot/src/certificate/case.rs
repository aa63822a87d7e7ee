//! The records that a certificate uses, and its protocol.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::bound::Smoothing;
use super::evidence::{Evidence, Factor, Wanted, Weighed};
use super::protocol::{Protocol, Share};
use super::stakes::{Stake, stakes};
use crate::error::{Error, Result};
use crate::logs::Logs;
use crate::policy::Policy;

/// The first record that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Since {
    /// Its round, counted from 0.
    pub round: usize,
    /// Its index in that round.
    pub record: usize,
}

impl Display for Since {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // Rounds are counted from 1 where people read them.
        write!(f, "record {} of round {}", self.record, self.round + 1)
    }
}

impl Since {
    /// Starts at the first record of a round.
    pub fn round(round: usize) -> Self {
        Since { round, record: 0 }
    }
}

/// The records of a certificate, its protocol, and its share of delta.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// All rounds of the loop so far.
    pub rounds: &'a [Logs],
    /// The first record that counts.
    pub since: Since,
    /// The protocol.
    pub protocol: &'a Protocol,
    /// The share of delta.
    pub share: Share,
}

impl<'a> Case<'a> {
    /// All records, with the whole delta.
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

    /// The evidence of the counted records for one factor, computed round by round.
    pub(super) fn evidence(&self, wanted: Wanted, weighed: impl Fn(&Logs) -> Result<Weighed>) -> Result<Evidence> {
        let wanted = [wanted];
        let mut all = Evidence::none(&wanted);
        let mut first = self.since.record;
        for logs in self.counted()? {
            let [_, counted] = weighed(logs)?.split(std::mem::take(&mut first), &wanted);
            all.merge(&counted);
        }
        Ok(all)
    }

    /// A factor at the lambdas of the protocol.
    pub(super) fn on_grid(&self, factor: Factor) -> Wanted {
        Wanted::new(factor, &self.protocol.lambdas)
    }

    /// The lambdas of a policy that was fixed before the counted records, and their weights.
    pub(super) fn stakes(&self, smoothing: Smoothing) -> Result<Vec<Stake>> {
        if self.protocol.mixes() {
            self.protocol.check()?;
            return Ok(stakes(self.rounds, self.since, smoothing, self.share.delta(self.protocol)?));
        }
        let weight = 1.0 / self.protocol.lambdas.len() as f64;
        Ok(self.protocol.lambdas.iter().map(|&lambda| Stake { lambda, weight }).collect())
    }

    /// The factor of such a policy at these lambdas.
    pub(super) fn at_stakes(&self, smoothing: Smoothing) -> Result<Wanted> {
        let lambdas = self.stakes(smoothing)?.iter().map(|stake| stake.lambda).collect();
        Ok(Wanted { factor: Factor { smoothing, fixed: true }, lambdas })
    }
}

/// The evidence of each round about a policy, for every factor that its certificates may need, from one pass over the
/// records. The records are split into those that the policy has seen and those that it has not.
#[derive(Debug, Clone)]
pub(crate) struct RoundEvidence {
    /// For each round, the evidence of the seen records and that of the unseen ones.
    pub(super) parts: Vec<[Evidence; 2]>,
}

impl RoundEvidence {
    /// Computes the evidence of all rounds; `cut` is the first record that the policy has not seen.
    pub(crate) fn new(policy: &dyn Policy, rounds: &[Logs], cut: Option<Since>, wanted: &[Wanted]) -> Result<Self> {
        let part = |(round, logs): (usize, &Logs)| {
            let seen = match cut {
                Some(cut) if round == cut.round => cut.record,
                Some(cut) if round > cut.round => 0,
                _ => logs.len(),
            };
            Ok(Weighed::new(policy, logs)?.split(seen, wanted))
        };
        Ok(RoundEvidence { parts: rounds.iter().enumerate().map(part).collect::<Result<_>>()? })
    }

    /// The evidence of all records from a round on.
    pub(crate) fn since_round(&self, round: usize) -> Evidence {
        self.merged(round, |all, [seen, unseen]| {
            all.merge(seen);
            all.merge(unseen);
        })
    }

    /// The evidence of the unseen records from a round on.
    pub(crate) fn unseen(&self, round: usize) -> Evidence {
        self.merged(round, |all, [_, unseen]| all.merge(unseen))
    }

    fn merged(&self, round: usize, add: impl Fn(&mut Evidence, &[Evidence; 2])) -> Evidence {
        let mut all = self.parts[round][0].emptied();
        self.parts[round..].iter().for_each(|parts| add(&mut all, parts));
        all
    }
}
