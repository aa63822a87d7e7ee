//! What a learner remembers between rounds.

use std::sync::Arc;

use super::Learner;
use super::portfolio::{self, Portfolio, PortfolioCheckpoint};
use super::settings::Setting;
use crate::error::{Error, Result};
use crate::logs::Logs;
use crate::policy::LinearGaussian;

/// The state of a loop: its policies and the rounds so far. Cloning shares the data.
#[derive(Debug, Clone)]
pub struct State {
    pub(super) first: LinearGaussian,
    /// The first policy, in the basis of the learned policies.
    pub(super) prior: LinearGaussian,
    pub(super) current: LinearGaussian,
    pub(super) deployed: LinearGaussian,
    /// The lambda and the sharpness that the last round chose.
    pub(super) kept: Option<Setting>,
    /// The rounds so far, as features of the policies, in the basis of their posteriors; for a portfolio, as they came.
    pub(super) rounds: Vec<Arc<Logs>>,
    /// The policy to hand over, if it is not the current one.
    pub(super) hand_over: Option<LinearGaussian>,
    /// What a portfolio remembers.
    pub(super) portfolio: Option<Arc<portfolio::Memory>>,
}

/// A portfolio to restore.
pub(crate) struct Restored<'a> {
    /// `None` if it has not learned from any round yet.
    pub(crate) checkpoint: Option<PortfolioCheckpoint>,
    pub(crate) portfolio: &'a Portfolio,
    pub(crate) learner: &'a Learner,
    /// The policy that would have been handed over.
    pub(crate) hand_over: Option<LinearGaussian>,
}

impl State {
    /// The state before the first round. `first` will collect it, and is also the prior of every bound.
    pub fn new(first: LinearGaussian) -> Self {
        let (prior, current, deployed) = (first.clone(), first.clone(), first.clone());
        State { first, prior, current, deployed, kept: None, rounds: Vec::new(), hand_over: None, portfolio: None }
    }

    /// The first policy.
    pub fn first(&self) -> &LinearGaussian {
        &self.first
    }

    /// The last policy learned; before any round, the first policy.
    pub fn current(&self) -> &LinearGaussian {
        &self.current
    }

    /// The policy to deploy next: the last policy learned, unless the algorithm never redeploys or the policy [was not
    /// promoted](State::keep).
    pub fn deployed(&self) -> &LinearGaussian {
        &self.deployed
    }

    /// The policy to hand over when learning ends: it explores less than [the one to deploy](State::deployed). `None` if the
    /// algorithm makes no difference between the two.
    pub fn hand_over(&self) -> Option<&LinearGaussian> {
        self.hand_over.as_ref()
    }

    /// The state with `incumbent` deployed in place of the last policy learned.
    pub fn keep(mut self, incumbent: &LinearGaussian) -> Result<Self> {
        // The policies of reward models have a basis each, and no search starts from them.
        if self.portfolio.is_none() {
            self.turned(incumbent)?;
        }
        self.deployed = incumbent.clone();
        Ok(self)
    }

    /// The lambda and the sharpness that the last round chose.
    pub(crate) fn kept(&self) -> Option<(f64, f64)> {
        self.kept.map(|Setting { lambda, sharpness }| (lambda, sharpness))
    }

    /// What must be stored of a portfolio, if the state has one.
    pub(crate) fn portfolio(&self) -> Option<PortfolioCheckpoint> {
        self.portfolio.as_ref().map(|memory| memory.checkpoint())
    }

    /// Restores the policies and the kept settings of a loop whose rounds have been remembered.
    pub(crate) fn resumed(
        mut self,
        current: &LinearGaussian,
        deployed: &LinearGaussian,
        kept: Option<(f64, f64)>,
        portfolio: Option<Restored<'_>>,
    ) -> Result<Self> {
        match portfolio {
            None => self.current = self.turned(current)?,
            Some(Restored { checkpoint, portfolio, learner, hand_over }) => {
                let memory = checkpoint.map(|stored| portfolio::Memory::restore(stored, portfolio, learner, &self));
                self.portfolio = memory.transpose()?.map(Arc::new);
                self.current = current.clone();
                self.hand_over = hand_over;
            }
        }
        self.deployed = deployed.clone();
        self.kept = kept.map(|(lambda, sharpness)| Setting { lambda, sharpness });
        Ok(self)
    }

    /// The policy in the basis of the learned policies.
    pub(super) fn turned(&self, policy: &LinearGaussian) -> Result<LinearGaussian> {
        let posterior = policy.posterior().in_basis(self.prior.posterior().basis()).ok_or_else(|| {
            Error::setting(
                "the running policy",
                "in the basis of the learned policies, or with one shared scale",
                "neither",
            )
        })?;
        Ok(policy.with_posterior(posterior))
    }

    /// The number of rounds so far.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// The number of records so far.
    pub fn records(&self) -> usize {
        self.rounds.iter().map(|logs| logs.len()).sum()
    }
}
