//! What became of the challengers that callers brought, as the ledger tells it.

use serde::Serialize;

use super::ledger::{Entry, Ledger};
use crate::fingerprint::Fingerprint;

/// A challenger of the caller's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnChallenger {
    /// The policy.
    pub policy: Fingerprint,
    /// The first round whose records judge it.
    pub round: usize,
    /// What became of it.
    pub standing: Standing,
}

/// What became of a challenger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The first round that judges it was not learned from yet.
    Waiting,
    /// The gate judges it after every round.
    Competing,
    /// It was promoted.
    Promoted,
    /// Another policy was promoted, or the running policy did not collect every round: its comparison has ended, and
    /// its share of delta is spent. It may be brought again.
    Dismissed,
}

impl Ledger {
    /// The challengers that callers brought, the oldest first.
    pub fn own_challengers(&self) -> Vec<OwnChallenger> {
        let mut all: Vec<OwnChallenger> = Vec::new();
        let dismiss = |all: &mut Vec<OwnChallenger>| {
            let competing = all.iter_mut().filter(|own| own.standing == Standing::Competing);
            competing.for_each(|own| own.standing = Standing::Dismissed);
        };
        // The running policy, and whether it has collected the newest round.
        let (mut running, mut started) = (None, false);
        for entry in self.entries() {
            match *entry {
                Entry::Challenge { policy, round } => {
                    all.push(OwnChallenger { policy, round, standing: Standing::Waiting });
                }
                Entry::Collect { round, by, .. } => {
                    let collects = by.is_some() && by == running;
                    if running.is_none() || !collects && started {
                        dismiss(&mut all);
                    }
                    started = collects;
                    let entering = all.iter_mut().filter(|own| own.round == round);
                    entering.for_each(|own| own.standing = Standing::Competing);
                }
                Entry::Deploy { policy } if running != Some(policy) => {
                    let competing = |own: &&mut OwnChallenger| own.standing == Standing::Competing;
                    if let Some(own) = all.iter_mut().filter(competing).find(|own| own.policy == policy) {
                        own.standing = Standing::Promoted;
                    }
                    dismiss(&mut all);
                    (running, started) = (Some(policy), false);
                }
                _ => {}
            }
        }
        all
    }
}
