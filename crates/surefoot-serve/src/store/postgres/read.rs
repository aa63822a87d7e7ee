//! Reading. Within a transaction, what was added in it is seen too.

use std::collections::HashMap;
use std::path::Path;

use surefoot::Fingerprint;
use surefoot::audit::Statement;

use super::{PostgresStore, files, rows};
use crate::clock::Time;
use crate::error::Result;
use crate::store::{Act, DecisionRow, Ends, Reader, RecordRow, RewardRow, RoundRow, SessionRow};

/// Records that are fetched together.
const TOGETHER: u64 = 5000;

impl PostgresStore {
    pub(super) fn about(&self, name: &str) -> Result<Option<String>> {
        let found = self.link.query(rows::ABOUT, &[&name])?;
        Ok(found.first().and_then(|row| row.get(0)))
    }

    fn about_policy(&self, name: &str) -> Result<Option<Fingerprint>> {
        rows::policy(&self.link.place, self.about(name)?)
    }
}

impl Reader for PostgresStore {
    fn rules(&self) -> Result<Option<String>> {
        self.about("rules")
    }

    fn secret(&self) -> Result<[u8; 32]> {
        let text = self.about("secret")?.ok_or_else(|| self.link.place.error("read", "it has no secret"))?;
        let byte = |i: usize| text.get(2 * i..2 * i + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| self.link.place.error("read", "its secret is damaged"))
    }

    fn ends(&self) -> Result<Ends> {
        let state = match &self.step {
            Some(step) => step.state,
            None => rows::state(&self.link.query(rows::LOOK, &[])?[0]),
        };
        let count = |n: i64| u64::try_from(n).unwrap_or_default();
        Ok(Ends {
            decisions: count(state.decisions),
            rewards: count(state.rewards),
            parked: count(state.parked),
            time: state.time,
        })
    }

    fn decision(&self, event_id: &str) -> Result<Option<DecisionRow>> {
        if let Some(known) = self.step.as_ref().and_then(|step| step.decisions.get(event_id)) {
            return Ok(known.as_deref().cloned());
        }
        let found = self.link.query(rows::DECISIONS_OF, &[&vec![event_id]])?;
        found.first().map(|row| rows::decision(&self.link.place, row)).transpose()
    }

    fn decided_at(&self, event_id: &str) -> Result<Option<(Time, bool)>> {
        if let Some(step) = &self.step {
            // What the step has decided or erased itself comes first.
            if let Some(known) = step.decisions.get(event_id) {
                return Ok(known.as_ref().map(|row| (row.decided_at, row.activated_at.is_some())));
            }
            if let Some(known) = step.decided_at.get(event_id) {
                return Ok(*known);
            }
        }
        let found = self.link.query(rows::DECIDED_AT_OF, &[&vec![event_id]])?;
        Ok(found.first().map(|row| (row.get(1), row.get(2))))
    }

    fn decisions(&self, from: u64, most: u64) -> Result<Vec<DecisionRow>> {
        let found = self.link.query(rows::DECISIONS_FROM, &[&rows::signed(from), &rows::signed(most)])?;
        found.iter().map(|row| rows::decision(&self.link.place, row)).collect()
    }

    fn rewards(&self, event_id: &str) -> Result<Vec<RewardRow>> {
        if let Some(known) = self.step.as_ref().and_then(|step| step.rewards.get(event_id)) {
            return Ok(known.clone());
        }
        Ok(self.link.query(rows::REWARDS_OF, &[&vec![event_id]])?.iter().map(rows::reward).collect())
    }

    fn records(&self, first: u64, count: u64, each: &mut dyn FnMut(RecordRow) -> Result<()>) -> Result<()> {
        let (mut next, end) = (first, first + count);
        while next < end {
            let decisions = self.decisions(next, TOGETHER.min(end - next))?;
            let events: Vec<&str> = decisions.iter().map(|row| row.event_id.as_str()).collect();
            let mut rewards: HashMap<String, Vec<f64>> = HashMap::new();
            for row in self.link.query(rows::COUNTED_OF, &[&events])? {
                rewards.entry(row.get(0)).or_default().push(row.get(1));
            }
            let before = next;
            for decision in decisions {
                if decision.number != next {
                    break;
                }
                let rewards = rewards.remove(&decision.event_id).unwrap_or_default();
                each(RecordRow { decision, rewards })?;
                next += 1;
            }
            if next == before {
                return Err(self.link.place.error("read", format!("decision {next} is missing")));
            }
        }
        Ok(())
    }

    fn rounds(&self) -> Result<Vec<RoundRow>> {
        self.link.query(rows::ROUNDS, &[])?.iter().map(|row| rows::round(&self.link.place, row)).collect()
    }

    fn session(&self) -> Result<SessionRow> {
        let ledger = self.about("ledger")?.ok_or_else(|| self.link.place.error("read", "it has no ledger"))?;
        Ok(SessionRow { running: self.about_policy("running")?, session: self.about("session")?, ledger })
    }

    fn statements(&self) -> Result<Vec<Statement>> {
        let found = self.link.query(rows::STATEMENTS, &[])?;
        let parse = |text: &str| {
            serde_json::from_str(text).map_err(|e| self.link.place.error("read", format!("a certificate: {e}")))
        };
        found.iter().map(|row| parse(row.get(0))).collect()
    }

    fn pinned(&self) -> Result<Option<Fingerprint>> {
        self.about_policy("pinned")
    }

    fn swept(&self) -> Result<u64> {
        Ok(self.about("swept")?.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    fn acts(&self) -> Result<Vec<Act>> {
        let found = self.link.query(rows::ACTS, &[])?;
        Ok(found.iter().map(|row| Act { at: row.get(0), by: row.get(1), act: row.get(2) }).collect())
    }

    fn share(&self, folder: &Path) -> Result<()> {
        files::share(&self.link, folder)
    }

    fn fetch(&self, folder: &Path) -> Result<()> {
        files::fetch(&self.link, folder)
    }
}
