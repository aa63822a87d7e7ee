//! Retention: records that are older than the loop keeps them are erased.
//!
//! A round that has ended is erased whole as soon as its first record is too old. Its row and the ledger say so in one
//! transaction, and from then on its records are read as erased ones; a few of them are overwritten with every step after
//! that. Records of a round that is still open are erased one by one. Age does not depend on rewards, so this is lawful.

use std::collections::BTreeMap;

use super::{Engine, EraseAsk};
use crate::clock::Time;
use crate::error::Result;
use crate::request::ERASED;
use crate::store::{Act, DecisionRow};

/// Who erases, in the list of acts.
const BY: &str = "retention";
/// The largest number of records that one step overwrites.
const TOGETHER: u64 = 500;
/// The time between two such steps: decisions come in between.
const PAUSE: Time = 50;
/// The time until a step is tried again that the store has refused.
const AGAIN: Time = 1000;

impl Engine {
    /// Erases some records that are too old at this time, if there are any, in a transaction of its own. If it fails,
    /// everything is as before.
    pub fn retain(&mut self, now: Time) -> Result<()> {
        let time = self.position.time.max(now);
        let Some(retention) = self.rules.retention.filter(|_| time >= self.position.sweep_at) else { return Ok(()) };
        let before = self.position.clone();
        self.position.time = time;
        let done = self.store.begin().and_then(|()| {
            self.look()?;
            self.sweep(retention.0)?;
            self.store.commit()
        });
        if done.is_err() {
            self.store.rollback();
            self.position = before;
            self.position.sweep_at = time.saturating_add(AGAIN);
        }
        done
    }

    fn sweep(&mut self, retention: Time) -> Result<()> {
        let (time, first) = (self.position.time, self.position.swept);
        let mut rows = self.store.decisions(first, TOGETHER)?;
        let too_old_at = |row: &DecisionRow| row.decided_at.saturating_add(retention).saturating_add(1);
        // A decision that comes after this one is too old later. Without any, the next one comes now at the earliest.
        self.position.sweep_at = rows.first().map_or(time.saturating_add(retention), too_old_at);
        let Some(round) = rows.first().filter(|row| too_old_at(row) <= time).map(|row| row.round) else {
            return Ok(());
        };
        let open = self.position.open.as_ref().is_some_and(|open| open.round == round);
        let wanted = rows.iter().take_while(|row| row.round == round && (!open || too_old_at(row) <= time)).count();
        rows.truncate(wanted);
        let events = rows.into_iter().map(|row| row.event_id).filter(|id| !id.starts_with(ERASED));
        if open {
            let ask = EraseAsk { by: BY.into(), events: events.collect() };
            // It refuses nothing.
            let _ = self.erase(&ask)?;
        } else {
            self.empty(round)?;
            for event_id in events {
                self.overwrite(&event_id)?;
            }
        }
        self.position.swept = first + wanted as u64;
        self.position.sweep_at = time.saturating_add(PAUSE);
        self.store.set_swept(self.position.swept)
    }

    /// Says that all records of a round that has ended are erased, unless that was said before.
    fn empty(&mut self, round: u64) -> Result<()> {
        let known = self.store.rounds()?.into_iter().find(|row| row.round == round);
        let Some(mut row) = known.filter(|row| !row.erased) else { return Ok(()) };
        row.erased = true;
        self.store.put_round(&row)?;
        let records = row.closed.as_ref().map_or(0, |closed| closed.records);
        let before = self.ledger()?.erased(usize::try_from(round).unwrap_or(usize::MAX));
        let records = usize::try_from(records).unwrap_or(usize::MAX).saturating_sub(before);
        self.tell_ledger(&BTreeMap::from([(round, records)]))?;
        let act = format!("erase the {records} records of round {round}");
        self.store.add_act(&Act { at: self.position.time, by: BY.into(), act })?;
        if let Some(waiting) = self.position.waiting.iter_mut().find(|waiting| waiting.round == round) {
            waiting.erased = true;
        }
        Ok(())
    }
}
