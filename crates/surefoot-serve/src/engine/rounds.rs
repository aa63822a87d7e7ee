//! Rounds. A round is a stretch of decisions in their order, with every decision in it, and one policy collects it. So a
//! policy changes only between rounds.

use std::sync::Arc;

use surefoot::{Fingerprint, Policy};

use super::{AdminAsk, Command, Engine, Refusal};
use crate::config::{Mode, RoundRule};
use crate::error::{Error, Result};
use crate::store::{Act, Closed, Learned, RoundRow};

/// A round whose rewards are final.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    /// The round.
    pub round: u64,
    /// The number of its first decision.
    pub first: u64,
    /// The number of its decisions.
    pub records: u64,
    /// The policy that collected it.
    pub policy: Option<Fingerprint>,
    /// Whether all its records are erased.
    pub erased: bool,
}

impl Ready {
    /// A round that has ended.
    pub(crate) fn of(row: &RoundRow) -> Option<Self> {
        let records = row.closed.as_ref()?.records;
        Some(Ready { round: row.round, first: row.first, records, policy: row.policy, erased: row.erased })
    }
}

impl Engine {
    /// The oldest round that can be learned from now: no reward can change it any more. It is then being learned from,
    /// until [`Ask::Learned`](super::Ask::Learned) or [`Ask::LearningFailed`](super::Ask::LearningFailed) comes.
    pub fn take_ready(&mut self) -> Option<Ready> {
        let position = &mut self.position;
        if position.failed.is_some() || self.rules.mode == Mode::Shadow {
            return None;
        }
        let round = position.waiting.front()?;
        let closed = round.closed.as_ref()?;
        // A reward that comes at this moment or later is late for every record of the round.
        if position.time <= closed.last_at.saturating_add(self.rules.window.0) {
            return None;
        }
        // Another server may learn from it. If the store does not answer, it is asked again after the next step.
        let ours = self.store.claim(round.round).unwrap_or(false);
        if position.learning || !ours {
            return None;
        }
        position.learning = true;
        Ready::of(round)
    }

    /// The policy that would collect a round that began now.
    pub(super) fn deployable(&self) -> Option<Fingerprint> {
        self.position.pinned.or(self.position.running)
    }

    /// The policy of the open round, which begins here if there is none.
    pub(super) fn open_round(&mut self) -> Result<Option<Fingerprint>> {
        if let Some(open) = &self.position.open {
            return Ok(open.policy);
        }
        let policy = if self.rules.mode == Mode::Apprentice { None } else { self.deployable() };
        let position = &mut self.position;
        let open = RoundRow {
            round: position.next_round,
            policy,
            first: position.decisions,
            opened_at: position.time,
            closed: None,
            learned: None,
            erased: false,
        };
        self.store.put_round(&open)?;
        position.next_round += 1;
        position.open = Some(open);
        Ok(policy)
    }

    /// Whether the open round is over by its rule.
    pub(super) fn is_over(&self) -> bool {
        let Some(open) = &self.position.open else { return false };
        let records = self.position.decisions - open.first;
        match self.rules.round {
            RoundRule::Count { records: enough } => records >= enough,
            RoundRule::Clock { every, at_least } => {
                records >= at_least && self.position.time >= open.opened_at.saturating_add(every.0)
            }
        }
    }

    pub(super) fn close_if_over(&mut self) -> Result<()> {
        if self.is_over() { self.close(false) } else { Ok(()) }
    }

    fn close(&mut self, by_hand: bool) -> Result<()> {
        let position = &mut self.position;
        let Some(mut round) = position.open.take() else { return Ok(()) };
        let records = position.decisions - round.first;
        round.closed = Some(Closed { records, last_at: position.last_at, by_hand });
        self.store.put_round(&round)?;
        position.waiting.push_back(round);
        Ok(())
    }

    /// Stores what was learned. The policy is deployed with the next round.
    pub(super) fn learned(&mut self, learned: &Learned) -> Result<()> {
        let expected = self.position.waiting.front().map(|round| round.round);
        if learned.round < expected.unwrap_or(self.position.next_round) {
            // Another server has learned from it, since this one took too long, and what it learned is the same.
            self.position.learning = false;
            return Ok(());
        }
        if expected != Some(learned.round) {
            let place = format!("loop {}", self.name);
            let expected = expected.map_or("none".into(), |round| round.to_string());
            return Err(Error::setting(&place, "the round learned from", expected, learned.round));
        }
        let Some(ledger) = self.continued(learned)? else {
            self.position.learning = false;
            return Ok(());
        };
        if let Some(policy) = learned.running {
            // Found now, so that the decision after it need not wait or fail.
            self.policy(policy)?;
        }
        let learned = &Learned { ledger: ledger.to_string(), ..learned.clone() };
        self.store.put_learned(self.position.time, learned)?;
        let position = &mut self.position;
        position.waiting.pop_front();
        position.learning = false;
        position.running = learned.running;
        position.head = ledger.head();
        Ok(())
    }

    pub(super) fn learning_failed(&mut self, round: u64, reason: &str) {
        let learning = std::mem::take(&mut self.position.learning);
        if learning && self.position.waiting.front().is_none_or(|oldest| oldest.round != round) {
            // Another server has learned from it since.
            return;
        }
        self.position.failed = Some(format!("round {round}: {reason}"));
    }

    pub(super) fn admin(&mut self, ask: &AdminAsk) -> Result<Result<(), Refusal>> {
        let act = match &ask.command {
            Command::Close | Command::Rollback(_) if self.short() => {
                let detail = "a round needs at least 2 decisions before it can be closed";
                return Ok(Err(Refusal::conflict("round-too-short", detail)));
            }
            Command::Close => {
                self.close(true)?;
                "close the round".to_owned()
            }
            Command::Pause => {
                let policy = self.position.open.as_ref().map_or(self.deployable(), |open| open.policy);
                self.pin(policy)?;
                "pause".to_owned()
            }
            Command::Resume => {
                self.pin(None)?;
                "resume".to_owned()
            }
            Command::Rollback(policy) => {
                let ran = self.store.rounds()?.iter().any(|round| round.policy == Some(*policy));
                if !ran || self.rules.mode == Mode::Apprentice {
                    let detail = format!("policy should be one that has collected a round, but is {policy}");
                    return Ok(Err(Refusal::unprocessable("unknown-policy", detail)));
                }
                self.policy(*policy)?;
                self.close(true)?;
                self.pin(Some(*policy))?;
                format!("roll back to {policy}")
            }
            Command::Retrain => {
                if self.position.failed.take().is_none() {
                    let detail = "no learning has failed; a round is learned from when the windows of all its decisions have passed";
                    return Ok(Err(Refusal::conflict("nothing-failed", detail)));
                }
                "retrain".to_owned()
            }
        };
        self.store.add_act(&Act { at: self.position.time, by: ask.by.clone(), act })?;
        Ok(Ok(()))
    }

    /// Whether the open round has a decision, but too few for learning.
    fn short(&self) -> bool {
        self.position.open.as_ref().is_some_and(|open| self.position.decisions - open.first < 2)
    }

    fn pin(&mut self, policy: Option<Fingerprint>) -> Result<()> {
        self.store.pin(policy)?;
        self.position.pinned = policy;
        Ok(())
    }

    /// A policy of the loop.
    pub(super) fn policy(&mut self, fingerprint: Fingerprint) -> Result<Arc<dyn Policy>> {
        if let Some(policy) = self.policies.get(&fingerprint) {
            return Ok(Arc::clone(policy));
        }
        let policy = (self.find)(fingerprint)?;
        self.policies.insert(fingerprint, Arc::clone(&policy));
        Ok(policy)
    }
}
