//! What comes from outside: challengers of the caller's own, and erased records.
//!
//! A policy that the session did not learn may have been chosen by any records that its author has seen. So it is named in
//! the ledger first, and only rounds that begin after that judge it, as a fixed policy. It shares the share of delta of the
//! first of these rounds with the policy that is learned from that round: they form one set. Like every challenger, it
//! stays until another one is promoted.

use std::sync::Arc;

use super::{Session, name};
use crate::audit::Entry;
use crate::certificate::{Challenger, FixedSince, Gate, Since};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::policy::{Class, Policy};

impl Session {
    /// Adds a challenger of the caller's own, which the gate judges like any other. The ledger names it from now on.
    ///
    /// `round` is the first round whose records judge it. None of them may have been drawn yet: a session that learns
    /// while the next rounds are being collected must name a round that has not begun. Without such a delay it is the
    /// number of rounds so far.
    pub fn challenge(&mut self, policy: Arc<dyn Policy>, round: usize) -> Result<()> {
        self.may_challenge(policy.as_ref())?;
        let (print, rounds) = (name(policy.as_ref())?, self.logs.len());
        if round < rounds {
            let allowed = format!("at least {rounds}: earlier records may have chosen the challenger");
            return Err(Error::setting("the first round that judges a challenger", allowed, round));
        }
        if self.ledger.challenges().any(|known| known == (round, print)) {
            let allowed = format!("one that round {round} does not judge yet");
            return Err(Error::setting("a challenger", allowed, print));
        }
        self.ledger.append(Entry::Challenge { policy: print, round });
        self.own.push(policy);
        self.version = Arc::default();
        Ok(())
    }

    /// Fails if this policy cannot be a challenger in this session.
    pub fn may_challenge(&self, policy: &dyn Policy) -> Result<()> {
        let wrong = |allowed: String, value: String| Err(Error::setting("a challenger", allowed, value));
        if self.gate == Gate::Always {
            let allowed = "other than always, because that one deploys what is learned and judges nothing";
            return Err(Error::setting("the gate of a session with own challengers", allowed, self.gate));
        }
        let first = self.first();
        if policy.actions() != first.actions() {
            return wrong(format!("one with {} actions", first.actions()), format!("one with {}", policy.actions()));
        }
        if policy.identity().is_some() && policy.identity() == self.runs() {
            return wrong("another policy than the running one".into(), "that one".into());
        }
        let class = policy.class();
        if !matches!(class, Class::LinearGaussian(_) | Class::Softmax(_) | Class::Uniform(_)) {
            return wrong("linear Gaussian, softmax or uniform".into(), class.name().into());
        }
        let joint = |policy: &dyn Policy| policy.as_gaussian().is_some_and(|policy| policy.joint().is_some());
        if !matches!(class, Class::Uniform(_)) && joint(policy) != joint(first) {
            return wrong("over fixed actions or over candidates, as the first policy".into(), "the other".into());
        }
        match class.features().map(|features| features.input()) {
            Some(n) if n != first.features().input() => {
                wrong(format!("one of contexts with {} features", first.features().input()), format!("one with {n}"))
            }
            _ => Ok(()),
        }
    }

    /// Notes in the ledger that so many records of a round were erased before the session took it. If records of a round are
    /// erased that it has taken, it must be [resumed](Session::resume) with the logs and the ledger after that.
    pub fn note_erased(&mut self, round: usize, records: usize) -> Result<()> {
        if round < self.logs.len() {
            let allowed = format!("at least {}, because the session has the records of earlier ones", self.logs.len());
            return Err(Error::setting("the round of erased records", allowed, round));
        }
        self.ledger.append(Entry::Erase { round, records, logs: None });
        self.version = Arc::default();
        Ok(())
    }

    /// All challengers of the caller's own, in the order of the ledger: each with the first round that judges it.
    pub fn own_challengers(&self) -> impl Iterator<Item = (usize, &Arc<dyn Policy>)> {
        self.ledger.challenges().map(|(round, _)| round).zip(&self.own)
    }

    /// Checks that these policies are the caller's own challengers of a ledger.
    pub(super) fn with_own(mut self, own: Vec<Arc<dyn Policy>>) -> Result<Self> {
        let named: Vec<Option<Fingerprint>> = self.ledger.challenges().map(|(_, policy)| Some(policy)).collect();
        if own.iter().map(|policy| policy.identity()).ne(named) {
            return Err(Error::setting("the caller's own challengers", "those of the ledger", "others"));
        }
        self.own = own;
        Ok(self)
    }

    /// The caller's own challengers that this round judges first.
    pub(super) fn entering(&self, round: usize) -> Vec<Arc<dyn Policy>> {
        self.own_challengers().filter(|(first, _)| *first == round).map(|(_, policy)| Arc::clone(policy)).collect()
    }

    /// Lets the caller's own challengers of this round compete, in a set of this size.
    pub(super) fn enter(&mut self, round: usize, entering: Vec<Arc<dyn Policy>>, size: usize) {
        let fixed_since = Some(FixedSince { round, since: Since::round(round), size });
        self.challengers.extend(entering.into_iter().map(|policy| Challenger { policy, fixed_since }));
    }
}
