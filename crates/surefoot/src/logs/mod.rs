//! LOGS: the records that a deployed policy collected, checked once, one batch per round.

mod eligible;
mod inverse;
mod kept;
mod reward;
mod spans;
mod task;

pub use eligible::Eligible;
pub use inverse::{PropensityTest, REFUTED};
pub use reward::RewardRange;
pub use spans::SPAN;
pub(crate) use task::{Asked, AskedView, RowsTask, Task, answered, numbers};
pub use task::{Holder, Journal, Part};

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use self::kept::Kept;
use self::task::Elsewhere;
use crate::contexts::{Column, Contexts};
use crate::error::{Error, Result};
use crate::fingerprint::{Fingerprint, Hasher, tree};

/// The number of records per chunk in the fingerprint of a round.
pub const CHUNK: usize = 8192;

/// The logged interactions of one policy: context, action, propensity and cost of each decision.
///
/// The constructor checks everything, so no other code has to. Costs are in `[-1, 0]`, lower is better ([`RewardRange`]
/// converts rewards). The propensity is the probability that the action had *when it was chosen*.
///
/// ```
/// use surefoot::{Contexts, Logs};
///
/// let contexts = Contexts::dense(vec![1.0, 0.0, 0.5, 2.0], 2)?;
/// let logs = Logs::new(3, contexts.clone(), vec![0, 2], vec![0.5, 0.25], vec![-1.0, 0.0])?;
/// assert_eq!(logs.len(), 2);
///
/// let wrong = Logs::new(3, contexts, vec![0, 2], vec![0.5, 0.0], vec![-1.0, 0.0]);
/// assert_eq!(wrong.unwrap_err().to_string(), "row 1: propensity should be in (0, 1], but is 0");
/// # Ok::<(), surefoot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Logs {
    actions: usize,
    contexts: Contexts,
    columns: Arc<Columns>,
    /// The range of the columns that these logs cover.
    range: Range<usize>,
    /// If some contexts were left out: the others, counted from an entry of the columns on.
    kept: Option<(usize, Arc<Kept>)>,
    eligible: Option<Eligible>,
    policy_version: String,
    /// Where the contexts are, if not here.
    elsewhere: Elsewhere,
    /// Computed on first use.
    fingerprint: OnceLock<Fingerprint>,
}

/// One entry per record in each column. Slices and clones of logs share the columns.
#[derive(Debug)]
struct Columns {
    action: Column<u32>,
    propensity: Column<f64>,
    cost: Column<f64>,
}

impl Logs {
    /// The records of one round over `actions` actions; every column has one entry per record.
    pub fn new(
        actions: usize,
        contexts: Contexts,
        action: Vec<u32>,
        propensity: Vec<f64>,
        cost: Vec<f64>,
    ) -> Result<Self> {
        Self::of_columns(actions, contexts, action.into(), propensity.into(), cost.into())
    }

    /// Like [`new`](Logs::new), with columns in memory that another owner may hold: nothing is copied.
    pub fn of_columns(
        actions: usize,
        contexts: Contexts,
        action: Column<u32>,
        propensity: Column<f64>,
        cost: Column<f64>,
    ) -> Result<Self> {
        check_actions(actions)?;
        let n = contexts.len();
        for (column, found) in [("action", action.len()), ("propensity", propensity.len()), ("cost", cost.len())] {
            if found != n {
                return Err(Error::size(column, format!("{n} entries, one for each context"), found));
            }
        }
        for row in 0..n {
            let (a, q, c) = (action[row], propensity[row], cost[row]);
            if a as usize >= actions {
                return Err(Error::value(row, "action", format!("below {actions}"), a));
            }
            if !(q > 0.0 && q <= 1.0) {
                return Err(Error::value(row, "propensity", "in (0, 1]", q));
            }
            if !(-1.0..=0.0).contains(&c) {
                return Err(Error::value(row, "cost", "in [-1, 0]", c));
            }
        }
        Ok(Self::of(actions, contexts, Columns { action, propensity, cost }))
    }

    fn of(actions: usize, contexts: Contexts, columns: Columns) -> Self {
        let range = 0..columns.action.len();
        let (kept, eligible, elsewhere) = (None, None, Elsewhere::default());
        let (columns, policy_version, fingerprint) = (Arc::new(columns), String::new(), OnceLock::new());
        Logs { actions, contexts, columns, range, kept, eligible, policy_version, elsewhere, fingerprint }
    }

    /// Adds the set of eligible actions of each record. It must contain the logged action.
    pub fn with_eligible(mut self, eligible: Eligible) -> Result<Self> {
        eligible.check(self.actions, self.len())?;
        for (row, a) in self.action().iter().enumerate() {
            if !eligible.get(row).contains(a) {
                let allowed = format!("one of the eligible {:?}", eligible.get(row));
                return Err(Error::value(row, "action", allowed, a));
            }
        }
        self.eligible = Some(eligible);
        self.fingerprint = OnceLock::new();
        Ok(self)
    }

    /// Names the version of the policy that collected these records.
    #[must_use]
    pub fn with_policy_version(mut self, version: impl Into<String>) -> Self {
        self.policy_version = version.into();
        self
    }

    /// Replaces the contexts by other features of them; the contexts of records of cost 0 may be left out.
    pub(crate) fn map_contexts(mut self, leave_out: bool, map: impl Fn(&Contexts) -> Result<Contexts>) -> Result<Self> {
        debug_assert!(self.is_complete(), "rows are counted once");
        self.fingerprint = OnceLock::new();
        let keeps = |i: usize| !leave_out || self.cost()[i] != 0.0;
        // Chunk by chunk, so that a shard of the records has the same features, bit for bit.
        let parts = spans::chunks(self.range.clone()).map(|chunk| {
            let start = self.range.start;
            let rows: Vec<usize> = (chunk.start - start..chunk.end - start).filter(|&i| keeps(i)).collect();
            map(&self.contexts.select(&rows))
        });
        let contexts = Contexts::joined(parts, (0..self.len()).filter(|&i| keeps(i)).count())?;
        if contexts.len() < self.len() {
            self.kept = Some((self.range.start, Arc::new(Kept::new(self.len(), keeps))));
        }
        self.contexts = contexts;
        Ok(self)
    }

    /// The records of a range; the storage is shared.
    ///
    /// # Panics
    /// If the range does not lie within the records.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len());
        Logs {
            // If some contexts were left out, `kept` locates the others.
            contexts: if self.kept.is_none() { self.contexts.slice(range.clone()) } else { self.contexts.clone() },
            eligible: self.eligible.as_ref().map(|eligible| eligible.slice(range.clone())),
            range: self.range.start + range.start..self.range.start + range.end,
            fingerprint: OnceLock::new(),
            ..self.clone()
        }
    }

    /// The records with a non-zero cost.
    pub(crate) fn weighing(&self) -> Self {
        let kept: Vec<usize> = (0..self.len()).filter(|&i| self.cost()[i] != 0.0).collect();
        let rows: Vec<usize> = kept.iter().map(|&i| self.row(i)).collect();
        let columns = Columns {
            action: kept.iter().map(|&i| self.action()[i]).collect::<Vec<_>>().into(),
            propensity: kept.iter().map(|&i| self.propensity()[i]).collect::<Vec<_>>().into(),
            cost: kept.iter().map(|&i| self.cost()[i]).collect::<Vec<_>>().into(),
        };
        let eligible = self.eligible.as_ref().map(|eligible| eligible.select(&kept));
        let policy_version = self.policy_version.clone();
        Logs { eligible, policy_version, ..Self::of(self.actions, self.contexts.select(&rows), columns) }
    }

    /// The fingerprint of the records. It does not include the policy version.
    ///
    /// It is the root of a tree over chunks of [`CHUNK`] records, so that chunks can be hashed separately, on other
    /// threads or machines.
    ///
    /// # Panics
    /// If these are some of the records of a round whose contexts are held elsewhere.
    pub fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.get_or_init(|| {
            assert!(!self.is_elsewhere(), "the fingerprint of a part of a round that is held elsewhere");
            self.root(&self.leaves())
        })
    }

    /// The fingerprints of the chunks. Those of a round are those of its shards, one after the other.
    pub fn leaves(&self) -> Vec<Fingerprint> {
        let chunks: Vec<usize> = (0..self.len()).step_by(CHUNK).collect();
        chunks.into_par_iter().map(|start| self.chunk(start..(start + CHUNK).min(self.len()))).collect()
    }

    /// The fingerprint of the records whose chunks have these fingerprints.
    fn root(&self, leaves: &[Fingerprint]) -> Fingerprint {
        let mut hasher = Hasher::new("logs");
        hasher.count(self.actions);
        hasher.count(self.contexts.features());
        hasher.count(self.len());
        hasher.count(usize::from(self.eligible.is_some()));
        if let Some(features) = self.eligible.as_ref().and_then(Eligible::features) {
            hasher.text("candidates");
            hasher.count(features);
        }
        hasher.text(&tree(leaves).map_or(String::new(), |root| root.to_string()));
        hasher.finish()
    }

    /// The fingerprint of a chunk of records.
    fn chunk(&self, records: Range<usize>) -> Fingerprint {
        let mut hasher = Hasher::new("logs chunk");
        for i in records {
            hasher.integer(self.action()[i]);
            hasher.double(self.propensity()[i]);
            hasher.double(self.cost()[i]);
            if self.is_complete() || self.cost()[i] != 0.0 {
                hasher.row(self.contexts.row(self.row(i)));
            }
            if let Some(eligible) = &self.eligible {
                hasher.count(eligible.get(i).len());
                match eligible.features() {
                    None => eligible.get(i).iter().for_each(|&a| hasher.integer(a)),
                    Some(_) => (0..eligible.get(i).len())
                        .filter_map(|a| eligible.candidate(i, a))
                        .for_each(|row| hasher.row(row)),
                }
            }
        }
        hasher.finish()
    }

    /// The number of the first record, counted from the first of the round.
    pub(crate) fn first(&self) -> usize {
        self.range.start
    }

    /// The row of a record in the contexts; its context must not have been left out.
    pub(crate) fn row(&self, i: usize) -> usize {
        self.kept.as_ref().map_or(i, |(first, kept)| kept.place(self.range.start + i - first))
    }

    /// Whether no context was left out.
    pub(crate) fn is_complete(&self) -> bool {
        self.kept.is_none() && !self.leaves_out()
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The number of actions, `K`.
    pub fn actions(&self) -> usize {
        self.actions
    }

    /// The contexts.
    pub fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// The chosen actions.
    pub fn action(&self) -> &[u32] {
        &self.columns.action[self.range.clone()]
    }

    /// The logged propensities `q`: the probabilities with which the actions were chosen.
    pub fn propensity(&self) -> &[f64] {
        &self.columns.propensity[self.range.clone()]
    }

    /// The costs, `c`.
    pub fn cost(&self) -> &[f64] {
        &self.columns.cost[self.range.clone()]
    }

    /// The eligible actions, if they were logged; otherwise every action was eligible.
    pub fn eligible(&self) -> Option<&Eligible> {
        self.eligible.as_ref()
    }

    /// The version of the policy that collected these records; empty if it was not named.
    pub fn policy_version(&self) -> &str {
        &self.policy_version
    }
}

fn check_actions(actions: usize) -> Result<()> {
    if !(2..=u32::MAX as usize).contains(&actions) {
        return Err(Error::setting("the number of actions", "from 2 to 4294967295", actions));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(action: Vec<u32>, propensity: Vec<f64>, cost: Vec<f64>) -> Result<Logs> {
        let contexts = Contexts::dense(vec![1.0, 2.0], 1)?;
        Logs::new(3, contexts, action, propensity, cost)
    }

    #[test]
    fn every_bad_column_is_refused_with_its_row_and_range() {
        let text = |r: Result<Logs>| r.unwrap_err().to_string();
        let ok = || (vec![0, 1], vec![0.5, 1.0], vec![-1.0, 0.0]);
        let (a, q, c) = ok();
        assert!(logs(a, q, c).is_ok());
        let (_, q, c) = ok();
        assert_eq!(text(logs(vec![0, 3], q, c)), "row 1: action should be below 3, but is 3");
        let (a, _, c) = ok();
        assert_eq!(text(logs(a, vec![1.5, 0.5], c)), "row 0: propensity should be in (0, 1], but is 1.5");
        let (a, _, c) = ok();
        assert_eq!(text(logs(a, vec![0.5, f64::NAN], c)), "row 1: propensity should be in (0, 1], but is NaN");
        let (a, q, _) = ok();
        assert_eq!(text(logs(a, q, vec![0.0, 0.5])), "row 1: cost should be in [-1, 0], but is 0.5");
        let (a, q, _) = ok();
        assert_eq!(text(logs(a, q, vec![f64::NAN, 0.5])), "row 0: cost should be in [-1, 0], but is NaN");
        let (a, q, _) = ok();
        assert_eq!(text(logs(a, q, vec![0.0])), "cost should have 2 entries, one for each context, but has 1");
        let one = Contexts::dense(vec![1.0], 1).unwrap();
        assert_eq!(
            text(Logs::new(1, one, vec![0], vec![1.0], vec![0.0])),
            "the number of actions should be from 2 to 4294967295, but is 1"
        );
    }

    #[test]
    fn eligible_sets_must_fit_the_records() {
        let text = |sets: &[Vec<u32>]| {
            let logs = logs(vec![0, 1], vec![0.5, 1.0], vec![-1.0, 0.0]).unwrap();
            let made = Eligible::new(sets).and_then(|eligible| logs.with_eligible(eligible));
            made.map(|_| ()).map_err(|e| e.to_string())
        };
        assert_eq!(text(&[vec![0, 2], vec![1]]), Ok(()));
        let err = |s: &str| Err(s.to_string());
        assert_eq!(
            text(&[vec![0, 2], vec![0, 2]]),
            err("row 1: action should be one of the eligible [0, 2], but is 1")
        );
        assert_eq!(text(&[vec![0, 3], vec![1]]), err("row 0: eligible should be below 3, but is 3"));
        assert_eq!(text(&[vec![0], vec![]]), err("row 1: eligible should be at least one action, but is empty"));
        assert_eq!(text(&[vec![0, 0], vec![1]]), err("row 0: eligible should be strictly increasing, but is [0, 0]"));
        assert_eq!(text(&[vec![0]]), err("eligible should have 2 sets, one for each context, but has 1"));
    }
}
