//! The records that a certificate is made from, and its terms.

use serde::{Deserialize, Serialize};

use super::bound::Evidence;
use super::protocol::{Protocol, Share};
use crate::error::{Error, Result};
use crate::logs::Logs;

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

    /// What the counted rounds say, from what they say as a whole.
    pub(super) fn evidence(&self, of: impl Fn(&Logs) -> Result<Evidence>) -> Result<Vec<Evidence>> {
        let mut evidence: Vec<Evidence> = self.counted()?.iter().map(of).collect::<Result<_>>()?;
        if self.since.record > 0 {
            evidence[0] = evidence[0].since(self.since.record);
        }
        Ok(evidence)
    }
}
