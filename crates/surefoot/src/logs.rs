//! LOGS: what a deployed policy leaves behind, checked once, one batch a round.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::contexts::Contexts;
use crate::error::{Error, Result};
use crate::fingerprint::{Fingerprint, Hasher};

/// The logged interactions of one policy: context, action, propensity and cost of each decision.
///
/// Everything is checked here, once; after that no code asks again. Costs are in `[-1, 0]`, lower is better
/// ([`RewardRange`] converts rewards), and the propensity is the probability that the action had *when it was
/// chosen*.
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
    action: Vec<u32>,
    propensity: Vec<f64>,
    cost: Vec<f64>,
    eligible: Option<Eligible>,
    policy_version: String,
    /// The row of each record in `contexts`, if those of some records have been left out.
    rows: Option<Vec<u32>>,
    /// Made when it is first asked for.
    fingerprint: OnceLock<Fingerprint>,
}

/// In place of the row of a record whose context has been left out.
const LEFT_OUT: u32 = u32::MAX;

impl Logs {
    /// The records of one round over `actions` actions, one entry a record in every column.
    pub fn new(
        actions: usize,
        contexts: Contexts,
        action: Vec<u32>,
        propensity: Vec<f64>,
        cost: Vec<f64>,
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
        let (eligible, policy_version, rows) = (None, String::new(), None);
        let fingerprint = OnceLock::new();
        Ok(Logs { actions, contexts, action, propensity, cost, eligible, policy_version, rows, fingerprint })
    }

    /// Adds the set of actions that could be chosen in each record; the logged action must be one of them.
    pub fn with_eligible(mut self, eligible: Eligible) -> Result<Self> {
        eligible.check(self.actions, self.len())?;
        for (row, a) in self.action.iter().enumerate() {
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
    pub fn with_policy_version(mut self, version: impl Into<String>) -> Self {
        self.policy_version = version.into();
        self
    }

    /// The same records over other features of their contexts; those of records of cost 0 may be left out.
    pub(crate) fn map_contexts(
        mut self,
        leave_out: bool,
        map: impl FnOnce(&Contexts) -> Result<Contexts>,
    ) -> Result<Self> {
        debug_assert!(self.is_complete(), "rows are counted once");
        self.fingerprint = OnceLock::new();
        let kept: Vec<usize> = (0..self.len()).filter(|&i| !leave_out || self.cost[i] != 0.0).collect();
        if kept.len() == self.len() {
            self.contexts = map(&self.contexts)?;
            return Ok(self);
        }
        let mut rows = vec![LEFT_OUT; self.len()];
        kept.iter().enumerate().for_each(|(row, &i)| rows[i] = row as u32);
        self.contexts = map(&self.contexts.select(&kept))?;
        self.rows = Some(rows);
        Ok(self)
    }

    /// The records of a range.
    ///
    /// # Panics
    /// If the range does not lie within the records.
    pub fn slice(&self, range: Range<usize>) -> Self {
        Logs {
            actions: self.actions,
            // Where some were left out, rows say where the others are.
            contexts: if self.is_complete() { self.contexts.slice(range.clone()) } else { self.contexts.clone() },
            action: self.action[range.clone()].to_vec(),
            propensity: self.propensity[range.clone()].to_vec(),
            cost: self.cost[range.clone()].to_vec(),
            eligible: self.eligible.as_ref().map(|eligible| eligible.slice(range.clone())),
            policy_version: self.policy_version.clone(),
            rows: self.rows.as_ref().map(|rows| rows[range].to_vec()),
            fingerprint: OnceLock::new(),
        }
    }

    /// Only the records whose cost is not 0.
    pub(crate) fn weighing(&self) -> Self {
        let kept: Vec<usize> = (0..self.len()).filter(|&i| self.cost[i] != 0.0).collect();
        let rows: Vec<usize> = kept.iter().map(|&i| self.row(i)).collect();
        Logs {
            actions: self.actions,
            contexts: self.contexts.select(&rows),
            action: kept.iter().map(|&i| self.action[i]).collect(),
            propensity: kept.iter().map(|&i| self.propensity[i]).collect(),
            cost: kept.iter().map(|&i| self.cost[i]).collect(),
            eligible: self.eligible.as_ref().map(|eligible| eligible.select(&kept)),
            policy_version: self.policy_version.clone(),
            rows: None,
            fingerprint: OnceLock::new(),
        }
    }

    /// The name that the records have by their content; the version of the policy is no part of it.
    pub fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.get_or_init(|| {
            let mut hasher = Hasher::new("logs");
            hasher.count(self.actions);
            hasher.count(self.contexts.features());
            hasher.count(self.len());
            self.action.iter().for_each(|&a| hasher.integer(a));
            self.propensity.iter().chain(&self.cost).for_each(|&x| hasher.double(x));
            for i in (0..self.len()).filter(|&i| self.is_complete() || self.cost[i] != 0.0) {
                hasher.row(self.contexts.row(self.row(i)));
            }
            hasher.count(usize::from(self.eligible.is_some()));
            if let Some(eligible) = &self.eligible {
                for i in 0..self.len() {
                    hasher.count(eligible.get(i).len());
                    eligible.get(i).iter().for_each(|&a| hasher.integer(a));
                }
            }
            hasher.finish()
        })
    }

    /// The row of a record in the contexts, which must not have been left out.
    pub(crate) fn row(&self, i: usize) -> usize {
        self.rows.as_ref().map_or(i, |rows| rows[i] as usize)
    }

    /// Whether the contexts of all records are there.
    pub(crate) fn is_complete(&self) -> bool {
        self.rows.is_none()
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.action.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.action.is_empty()
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
        &self.action
    }

    /// The probabilities with which they were chosen, `q`.
    pub fn propensity(&self) -> &[f64] {
        &self.propensity
    }

    /// The costs, `c`.
    pub fn cost(&self) -> &[f64] {
        &self.cost
    }

    /// The actions that could be chosen, if they were logged; otherwise all could.
    pub fn eligible(&self) -> Option<&Eligible> {
        self.eligible.as_ref()
    }

    /// The version of the policy that collected these records; empty if not named.
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

/// The set of actions that are available in each record. Cloning shares the storage.
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
    /// One set a record: not empty, strictly increasing.
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

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The actions of record `i`, strictly increasing.
    pub fn get(&self, i: usize) -> &[u32] {
        assert!(i < self.len(), "record {i} of {}", self.len());
        let i = self.rows.start + i;
        &self.sets.actions[self.sets.offsets[i]..self.sets.offsets[i + 1]]
    }

    /// The sets of a range of records, sharing the storage.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len());
        Eligible { sets: Arc::clone(&self.sets), rows: self.rows.start + range.start..self.rows.start + range.end }
    }

    /// The sets of some records, in their order.
    fn select(&self, records: &[usize]) -> Self {
        Eligible::new(records.iter().map(|&i| self.get(i))).expect("they have been checked")
    }

    /// Fails unless there are `rows` sets of actions below `actions`.
    pub(crate) fn check(&self, actions: usize, rows: usize) -> Result<()> {
        if self.len() != rows {
            let expected = format!("{rows} sets, one for each context");
            return Err(Error::size("eligible", expected, self.len()));
        }
        for row in 0..rows {
            // The sets are sorted and not empty: their last action is the largest.
            if let Some(&a) = self.get(row).last().filter(|&&a| a as usize >= actions) {
                return Err(Error::value(row, "eligible", format!("below {actions}"), a));
            }
        }
        Ok(())
    }
}

/// The range `[lo, hi]` of a reward, and its conversion to costs in `[-1, 0]`: `c = -(r - lo)/(hi - lo)`.
///
/// ```
/// let stars = surefoot::RewardRange::new(1.0, 5.0)?;
/// assert_eq!(stars.costs(&[5.0, 1.0, 2.0])?, vec![-1.0, 0.0, -0.25]);
/// assert_eq!(stars.reward(-0.25), 2.0);
/// assert_eq!(
///     stars.costs(&[3.0, 6.0]).unwrap_err().to_string(),
///     "row 1: reward should be in [1, 5], but is 6"
/// );
/// # Ok::<(), surefoot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RewardRange {
    lo: f64,
    hi: f64,
}

impl RewardRange {
    /// The range from `lo` to `hi`, both finite, `lo < hi`.
    pub fn new(lo: f64, hi: f64) -> Result<Self> {
        if !(lo.is_finite() && hi.is_finite() && lo < hi && (hi - lo).is_finite()) {
            let value = format!("[{lo}, {hi}]");
            return Err(Error::setting("the reward range", "finite with lo < hi", value));
        }
        Ok(RewardRange { lo, hi })
    }

    /// The costs of a column of rewards.
    pub fn costs(&self, rewards: &[f64]) -> Result<Vec<f64>> {
        let cost = |(row, &r): (usize, &f64)| {
            if !(self.lo..=self.hi).contains(&r) {
                let allowed = format!("in [{}, {}]", self.lo, self.hi);
                return Err(Error::value(row, "reward", allowed, r));
            }
            Ok((self.lo - r) / (self.hi - self.lo))
        };
        rewards.iter().enumerate().map(cost).collect()
    }

    /// The reward that a cost, or a risk, stands for.
    pub fn reward(&self, cost: f64) -> f64 {
        self.lo - cost * (self.hi - self.lo)
    }
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

    #[test]
    fn a_reward_range_needs_two_finite_ends() {
        for (lo, hi) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (-f64::MAX, f64::MAX)] {
            assert!(RewardRange::new(lo, hi).is_err());
        }
    }
}
