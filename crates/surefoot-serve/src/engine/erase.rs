//! Records that are erased, as whoever they are about may ask.
//!
//! The place of an erased decision stays, so that a round keeps its length: it becomes a decision on an empty context, with
//! the propensity that its policy has there, which earned the lowest reward. That is a cost of 0. `docs/service.md` tells
//! what becomes of the certificates.

use std::collections::BTreeMap;

use surefoot::audit::Entry;
use surefoot::{Fingerprint, Policy as _};

use super::{Engine, EraseAsk, Erased, Ready, Refusal};
use crate::error::{Error, Result};
use crate::logs::round_logs;
use crate::request::{DecisionRequest, ERASED};
use crate::store::{Act, DecisionRow, RewardRow, RewardStatus};

impl Engine {
    pub(super) fn erase(&mut self, ask: &EraseAsk) -> Result<Result<Erased, Refusal>> {
        let mut found = Erased::default();
        let mut rounds: BTreeMap<u64, usize> = BTreeMap::new();
        // What is erased already has nothing left.
        for event_id in ask.events.iter().filter(|id| !id.starts_with(ERASED)) {
            let rewards = self.store.rewards(event_id)?;
            found.rewards += rewards.len() as u64;
            let parked = rewards.iter().filter(|reward| reward.status == RewardStatus::Parked).count() as u64;
            let instead = self.store.decision(event_id)?.map(|row| self.emptied(&row)).transpose()?;
            if instead.is_some() || !rewards.is_empty() {
                self.store.erase(event_id, instead.as_ref())?;
            }
            self.position.parked -= parked;
            if let Some(row) = instead {
                found.decisions += 1;
                *rounds.entry(row.round).or_default() += 1;
                self.store.add_reward(&RewardRow {
                    event_id: row.event_id,
                    reward_id: String::new(),
                    value: self.rules.reward_range[0],
                    received_at: row.decided_at,
                    status: RewardStatus::Joined,
                })?;
            }
        }
        found.rounds = rounds.keys().copied().collect();
        if found.decisions > 0 {
            self.tell_ledger(&rounds)?;
        }
        if found.decisions + found.rewards > 0 {
            let act = format!("erase {} decisions and {} rewards", found.decisions, found.rewards);
            self.store.add_act(&Act { at: self.position.time, by: ask.by.clone(), act })?;
        }
        Ok(Ok(found))
    }

    /// The decision that comes in the place of an erased one.
    fn emptied(&mut self, row: &DecisionRow) -> Result<DecisionRow> {
        let empty = DecisionRequest::default();
        let (action, propensity) = match row.policy {
            // Nobody knows the propensities of the caller's own policy.
            None => (0, 1.0),
            Some(policy) => {
                let mut rows = self.rules.encoding.rows();
                self.rules.encoding.encode_object("an empty context", &empty.context, &mut rows)?;
                let core = Error::core("an empty context");
                let contexts = rows.contexts().map_err(&core)?;
                let all = self.policy(policy)?.distribution(&contexts, None).map_err(&core)?;
                let (action, propensity) =
                    all.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or((0, 1.0), |(a, p)| (a, *p));
                (action as u32, propensity)
            }
        };
        let request = serde_json::to_string(&empty)
            .map_err(|e| Error::Malformed { place: "an empty request".into(), reason: e.to_string() })?;
        Ok(DecisionRow { event_id: format!("{ERASED}{}", row.number), request, action, propensity, ..row.clone() })
    }

    /// Writes into the ledger how many records of which rounds were erased.
    fn tell_ledger(&mut self, rounds: &BTreeMap<u64, usize>) -> Result<()> {
        let (mut ledger, known) = (self.ledger()?, self.store.rounds()?);
        for (&round, &records) in rounds {
            let learned = known.iter().find(|row| row.round == round && row.learned.is_some());
            let logs: Option<Fingerprint> =
                match learned.and_then(|row| row.closed.as_ref().map(|closed| (row, closed))) {
                    None => None,
                    Some((row, closed)) => {
                        let ready = Ready { round, first: row.first, records: closed.records, policy: row.policy };
                        Some(round_logs(self.store.as_ref(), &self.rules, &ready)?.fingerprint())
                    }
                };
            let round = usize::try_from(round).unwrap_or(usize::MAX);
            ledger.append(Entry::Erase { round, records, logs });
        }
        self.store.put_ledger(&ledger.to_string())?;
        self.position.head = ledger.head();
        Ok(())
    }
}
