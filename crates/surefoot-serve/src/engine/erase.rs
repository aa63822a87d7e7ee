//! Records that are erased, as whoever they are about may ask.
//!
//! The place of an erased decision stays, so that a round keeps its length: it becomes a decision on an empty context with
//! one eligible action, which earned the lowest reward. Its propensity is 1 and its cost is 0. `docs/service.md` tells what
//! becomes of the certificates.

use std::collections::BTreeMap;

use surefoot::audit::Entry;

use super::{Engine, EraseAsk, Erased, Ready, Refusal};
use crate::error::Result;
use crate::logs::round_logs;
use crate::request::{ERASED, erased};
use crate::store::{Act, DecisionRow, RewardRow, RewardStatus};

impl Engine {
    pub(super) fn erase(&mut self, ask: &EraseAsk) -> Result<Result<Erased, Refusal>> {
        let mut found = Erased::default();
        let mut rounds: BTreeMap<u64, usize> = BTreeMap::new();
        // What is erased already has nothing left.
        for event_id in ask.events.iter().filter(|id| !id.starts_with(ERASED)) {
            let (row, rewards) = self.overwrite(event_id)?;
            found.rewards += rewards;
            if let Some(row) = row {
                found.decisions += 1;
                *rounds.entry(row.round).or_default() += 1;
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

    /// Erases everything about an event. Returns what comes in the place of its decision, and how many rewards it had.
    pub(super) fn overwrite(&mut self, event_id: &str) -> Result<(Option<DecisionRow>, u64)> {
        let rewards = self.store.rewards(event_id)?;
        let parked = rewards.iter().filter(|reward| reward.status == RewardStatus::Parked).count() as u64;
        let instead = self.store.decision(event_id)?.map(|row| erased(&self.rules, &row));
        if instead.is_some() || !rewards.is_empty() {
            self.store.erase(event_id, instead.as_ref())?;
        }
        self.position.parked -= parked;
        if let Some(row) = &instead {
            self.store.add_reward(&RewardRow {
                event_id: row.event_id.clone(),
                reward_id: String::new(),
                value: self.rules.reward_range[0],
                received_at: row.decided_at,
                status: RewardStatus::Joined,
            })?;
        }
        Ok((instead, rewards.len() as u64))
    }

    /// Writes into the ledger how many records of which rounds were erased.
    pub(super) fn tell_ledger(&mut self, rounds: &BTreeMap<u64, usize>) -> Result<()> {
        let (mut ledger, known) = (self.ledger()?, self.store.rounds()?);
        for (&round, &records) in rounds {
            let learned = known.iter().find(|row| row.round == round && row.learned.is_some());
            let logs = match learned.and_then(Ready::of) {
                None => None,
                Some(ready) => Some(round_logs(self.store.as_ref(), &self.rules, &ready)?.fingerprint()),
            };
            let round = usize::try_from(round).unwrap_or(usize::MAX);
            ledger.append(Entry::Erase { round, records, logs });
        }
        self.store.put_ledger(&ledger.to_string())?;
        self.position.head = ledger.head();
        Ok(())
    }
}
