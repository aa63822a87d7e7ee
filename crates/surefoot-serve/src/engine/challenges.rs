//! Challengers of the caller's own. One is named in the ledger at once, and only rounds that begin after that judge it.

use surefoot::audit::{Entry, Ledger};
use surefoot::{Fingerprint, Gate};

use super::{ChallengeAsk, Engine, Refusal};
use crate::config::Mode;
use crate::error::{Error, Result};
use crate::store::{Act, Learned};

/// The largest number of challengers that one round judges first. Each makes the certificates of the others weaker.
const MOST: usize = 100;

impl Engine {
    /// Names a challenger in the ledger. Returns the first round that judges it: one that has not begun.
    pub(super) fn challenge(&mut self, ask: &ChallengeAsk) -> Result<Result<u64, Refusal>> {
        let refused = |kind, detail: String| Ok(Err(Refusal::conflict(kind, detail)));
        if self.rules.mode == Mode::Shadow {
            return refused("nothing-is-judged", "a loop in shadow mode learns nothing and judges nothing".into());
        }
        if self.rules.gate == Gate::Always {
            let detail = "the gate should be other than always, which deploys what is learned and judges nothing";
            return refused("nothing-is-judged", detail.into());
        }
        if Some(ask.policy) == self.position.running {
            return refused("it-runs", format!("{} is the running policy, and no challenger of it", ask.policy));
        }
        let round = self.position.next_round;
        let mut ledger = self.ledger()?;
        let first = usize::try_from(round).unwrap_or(usize::MAX);
        let same: Vec<Fingerprint> =
            ledger.challenges().filter(|(from, _)| *from == first).map(|(_, policy)| policy).collect();
        if same.contains(&ask.policy) {
            // Sent again: it is named already.
            return Ok(Ok(round));
        }
        if same.len() >= MOST {
            return refused(
                "too-many",
                format!("a round judges at most {MOST} new challengers, and has {}", same.len()),
            );
        }
        ledger.append(Entry::Challenge { policy: ask.policy, round: first });
        self.store.put_ledger(&ledger.to_string())?;
        let act = format!("challenge by {}, judged from round {round} on", ask.policy);
        self.store.add_act(&Act { at: self.position.time, by: ask.by.clone(), act })?;
        self.position.head = ledger.head();
        Ok(Ok(round))
    }

    /// The stored ledger with what learning from a round has added. Challengers that were named since that began come
    /// before it: what was given away as a head must stay in the ledger. `None` if records were erased since: the round must
    /// be learned from again.
    pub(super) fn continued(&self, learned: &Learned) -> Result<Option<Ledger>> {
        let (mut ledger, other): (Ledger, Ledger) =
            (self.ledger()?, learned.ledger.parse().map_err(Error::core("the ledger"))?);
        let same = ledger.entries().iter().zip(other.entries()).take_while(|(ours, theirs)| ours == theirs).count();
        if ledger.entries()[same..].iter().any(|entry| matches!(entry, Entry::Erase { .. })) {
            return Ok(None);
        }
        if ledger.entries()[same..].iter().any(|entry| !matches!(entry, Entry::Challenge { .. })) {
            let reason = "what was learned does not continue the stored ledger".into();
            return Err(Error::Malformed { place: format!("loop {}", self.name), reason });
        }
        other.entries()[same..].iter().for_each(|entry| ledger.append(entry.clone()));
        Ok(Some(ledger))
    }

    pub(super) fn ledger(&self) -> Result<Ledger> {
        self.store.session()?.ledger.parse().map_err(Error::core("the ledger"))
    }
}
