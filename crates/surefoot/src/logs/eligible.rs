//! The sets of eligible actions.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};

/// The set of actions that could be chosen in each record. Clones share the storage.
#[derive(Debug, Clone)]
pub struct Eligible {
    sets: Arc<Sets>,
    rows: Range<usize>,
}

#[derive(Debug)]
struct Sets {
    /// Set `i` is `actions[offsets[i]..offsets[i + 1]]`, strictly increasing and not empty.
    offsets: Vec<usize>,
    actions: Vec<u32>,
}

impl Eligible {
    /// One set per record: not empty, strictly increasing.
    pub fn new<S: AsRef<[u32]>>(sets: impl IntoIterator<Item = S>) -> Result<Self> {
        let (mut offsets, mut actions) = (vec![0], Vec::new());
        for (row, set) in sets.into_iter().enumerate() {
            let set = set.as_ref();
            if set.is_empty() {
                return Err(Error::value(row, "eligible", "at least one action", "empty"));
            }
            if !set.is_sorted_by(|a, b| a < b) {
                let value = format!("{set:?}");
                return Err(Error::value(row, "eligible", "strictly increasing", value));
            }
            actions.extend_from_slice(set);
            offsets.push(actions.len());
        }
        let rows = 0..offsets.len() - 1;
        let sets = Arc::new(Sets { offsets, actions });
        Ok(Eligible { sets, rows })
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The actions of record `i`, strictly increasing.
    pub fn get(&self, i: usize) -> &[u32] {
        assert!(i < self.len(), "record {i} of {}", self.len());
        let i = self.rows.start + i;
        &self.sets.actions[self.sets.offsets[i]..self.sets.offsets[i + 1]]
    }

    /// The sets of a range of records; the storage is shared.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len());
        Eligible { sets: Arc::clone(&self.sets), rows: self.rows.start + range.start..self.rows.start + range.end }
    }

    /// The sets of some records, in the given order.
    pub(super) fn select(&self, records: &[usize]) -> Self {
        Eligible::new(records.iter().map(|&i| self.get(i))).expect("they have been checked")
    }

    /// Fails unless there are `rows` sets, all of actions below `actions`.
    pub(crate) fn check(&self, actions: usize, rows: usize) -> Result<()> {
        if self.len() != rows {
            let expected = format!("{rows} sets, one for each context");
            return Err(Error::size("eligible", expected, self.len()));
        }
        for row in 0..rows {
            // The sets are sorted and not empty, so the last action is the largest.
            if let Some(&a) = self.get(row).last().filter(|&&a| a as usize >= actions) {
                return Err(Error::value(row, "eligible", format!("below {actions}"), a));
            }
        }
        Ok(())
    }
}
