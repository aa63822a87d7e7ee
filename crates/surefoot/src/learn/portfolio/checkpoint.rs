//! What must be stored of a portfolio, so that it continues bit for bit. Everything else follows from the rounds.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::comparison::Comparison;
use super::member::Member;
use super::{MemberKind, Memory, Portfolio};
use crate::error::{Error, Result};
use crate::learn::{Learner, State};
use crate::logs::Logs;
use crate::policy::LinearGaussian;

/// A portfolio between two rounds. Policies are stored as `P`: the policy itself, or its fingerprint in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortfolioCheckpoint<P = LinearGaussian> {
    explorer: usize,
    leader: usize,
    seen: usize,
    predictions: Comparison,
    rewards: Comparison,
    members: Vec<MemberCheckpoint<P>>,
}

/// A member of a portfolio between two rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemberCheckpoint<P> {
    pub(super) member: MemberKind,
    /// The number of records that it learned from.
    pub(super) records: usize,
    /// For features that are learned: the number of records they were learned from.
    pub(super) features_from: Option<usize>,
    /// For a reward model: the number of records that its prior was chosen by.
    pub(super) prior_from: usize,
    pub(super) chosen_from: usize,
    /// For a search: lambda and sharpness that it chose.
    pub(super) kept: Option<(f64, f64)>,
    /// For a search: its newest policy.
    pub(super) policy: Option<P>,
}

impl<P> PortfolioCheckpoint<P> {
    /// The same checkpoint with other representations of its policies.
    pub fn map<Q>(self, mut f: impl FnMut(P) -> Q) -> PortfolioCheckpoint<Q> {
        let PortfolioCheckpoint { explorer, leader, seen, predictions, rewards, members } = self;
        let members = members.into_iter().map(|member| {
            let MemberCheckpoint { member, records, features_from, prior_from, chosen_from, kept, policy } = member;
            let policy = policy.map(&mut f);
            MemberCheckpoint { member, records, features_from, prior_from, chosen_from, kept, policy }
        });
        PortfolioCheckpoint { explorer, leader, seen, predictions, rewards, members: members.collect() }
    }

    /// Its policies.
    pub fn policies(&self) -> impl Iterator<Item = &P> {
        self.members.iter().filter_map(|member| member.policy.as_ref())
    }
}

impl<P, E> PortfolioCheckpoint<std::result::Result<P, E>> {
    /// The checkpoint, or the first error in it.
    pub fn transpose(self) -> std::result::Result<PortfolioCheckpoint<P>, E> {
        let mut failed = None;
        let checked = self.map(|policy| policy.map_err(|error| failed = Some(error)).ok());
        match failed {
            Some(error) => Err(error),
            None => Ok(checked.map(|policy| policy.expect("there was no error"))),
        }
    }
}

impl Memory {
    pub(in crate::learn) fn checkpoint(&self) -> PortfolioCheckpoint {
        PortfolioCheckpoint {
            explorer: self.explorer,
            leader: self.leader,
            seen: self.seen,
            predictions: self.predictions.clone(),
            rewards: self.rewards.clone(),
            members: self.members.iter().map(Member::checkpoint).collect(),
        }
    }

    /// The portfolio of a checkpoint, for a state whose rounds have been remembered.
    pub(in crate::learn) fn restore(
        checkpoint: PortfolioCheckpoint,
        portfolio: &Portfolio,
        learner: &Learner,
        state: &State,
    ) -> Result<Self> {
        let fresh = Memory::new(portfolio, &state.first, learner)?;
        let records = state.records();
        let fits = checkpoint.members.len() == fresh.members.len()
            && checkpoint.leader.max(checkpoint.explorer) < fresh.members.len()
            && checkpoint.seen <= records
            && checkpoint.predictions.fits(fresh.members.len())
            && checkpoint.rewards.fits(fresh.members.len());
        let wrong = || Error::setting("the checkpoint of a portfolio", "of the same members and rounds", "of others");
        if !fits {
            return Err(wrong());
        }
        let PortfolioCheckpoint { explorer, leader, seen, predictions, rewards, members: stored } = checkpoint;
        let mut members = fresh.members;
        for (member, stored) in members.iter_mut().zip(stored) {
            let known = stored.records <= records
                && stored.prior_from <= stored.records
                && stored.features_from.is_none_or(|from| from <= stored.records);
            if member.kind() != stored.member || !known || stored.chosen_from == 0 {
                return Err(wrong());
            }
            member.restore(stored, &state.rounds, portfolio.widths(&state.first))?;
        }
        Ok(Memory { members, predictions, rewards, explorer, leader, seen })
    }
}

/// The oldest records of the rounds: whole rounds, and a part of the next one.
pub(super) fn oldest(rounds: &[Arc<Logs>], records: usize) -> Vec<Arc<Logs>> {
    let mut left = records;
    let mut parts = Vec::new();
    for logs in rounds {
        if left >= logs.len() {
            parts.push(Arc::clone(logs));
        } else if left > 0 {
            parts.push(Arc::new(logs.slice(0..left)));
        }
        left = left.saturating_sub(logs.len());
    }
    parts
}
