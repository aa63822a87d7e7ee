//! Duplicate records, by their event ids.

use std::collections::{HashMap, HashSet};

use twox_hash::XxHash64;

use super::findings::{Finding, Occurrences, Severity, grouped, of};
use crate::error::Result;
use crate::logs::LogBatch;

/// The largest number of ids to remember: seven eighths of 2^22, which a hash set of 38 MB holds before it would
/// double.
pub(super) const CAPACITY: usize = 7 << 19;

/// The hashes of event ids. When there are too many, only hashes that end in one more 0 bit are kept. This samples ids,
/// not records: all records of a kept id are still counted, and `2^level` times their number estimates the number for
/// all ids.
///
/// Among a billion distinct ids, two have the same 64-bit hash with a probability of 3%.
#[derive(Debug)]
pub(super) struct Ids {
    capacity: usize,
    level: u32,
    seen: HashSet<u64>,
    /// How many further records have an id that occurred before.
    again: HashMap<u64, usize>,
    first: Occurrences,
    missing: Occurrences,
    any: bool,
}

impl Ids {
    pub(super) fn new(capacity: usize) -> Self {
        Ids {
            capacity: capacity.max(1),
            level: 0,
            seen: HashSet::new(),
            again: HashMap::new(),
            first: Occurrences::default(),
            missing: Occurrences::default(),
            any: false,
        }
    }

    pub(super) fn add(&mut self, batch: &LogBatch) -> Result<()> {
        let Some(ids) = batch.event_id()? else { return Ok(()) };
        for (i, id) in ids.iter().enumerate() {
            let Some(id) = id else {
                self.missing.add(batch, i, || "missing".into());
                continue;
            };
            self.any = true;
            let hash = XxHash64::oneshot(0, id.as_bytes());
            if !self.kept(hash) {
                continue;
            }
            if !self.seen.insert(hash) {
                *self.again.entry(hash).or_default() += 1;
                self.first.add(batch, i, || id.to_string());
            }
            while self.seen.len() > self.capacity && self.level < 63 {
                self.level += 1;
                let mask = (1 << self.level) - 1;
                self.seen.retain(|hash| hash & mask == 0);
                self.again.retain(|hash, _| hash & mask == 0);
            }
        }
        Ok(())
    }

    fn kept(&self, hash: u64) -> bool {
        hash & ((1 << self.level) - 1) == 0
    }

    pub(super) fn findings(&self, records: usize, findings: &mut Vec<Finding>) {
        let Some(share) = 1usize.checked_shl(self.level) else { return };
        let again = self.again.values().sum::<usize>().saturating_mul(share).max(self.first.count.min(1)).min(records);
        let finding = self.first.finding(Severity::Error, "event-id", |_| match share {
            1 => format!("{} with an id that an earlier record has", of(again, "record")),
            _ => {
                format!(
                    "about {} with an id that an earlier record has (one in {share} ids was checked)",
                    of(again, "record")
                )
            }
        });
        findings.extend(finding.map(|finding| {
            finding
                .counted(again)
                .hint("duplicates make every estimate look more precise than it is: keep the first record of each id")
        }));
        // If no record has an id, the column is probably just unused.
        if self.any {
            let missing = self
                .missing
                .finding(Severity::Warning, "event-id", |n| format!("{n} of {} without an id", grouped(records)));
            findings.extend(missing);
        }
    }
}
