//! The sums over records from which a reward model is fitted.

use rayon::prelude::*;

use crate::contexts::Contexts;
use crate::error::{Error, Result};
use crate::features::FeatureMap;
use crate::logs::Logs;
use crate::math::moments::Moments;

/// The number of records whose features are held at once.
const CHUNK: usize = 8192;

/// The sums of a reward model: for each action, the second moments of `z = (phi, 1, r)` over its records, with features
/// `phi` and rewards `r` in `[0, 1]`.
///
/// They contain the Gram matrix of the features, their products with the rewards, the sum of squared rewards and the
/// number of records. Sums are in the order of the records, so the bits depend on the division into calls and shards
/// and not on the number of threads. Each action takes `4 (p + 2)(p + 3)` bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    features: usize,
    /// One per action.
    pub(super) moments: Vec<Moments>,
}

impl Statistics {
    /// The largest memory of the sums, in bytes.
    pub const MEMORY: usize = 4 << 30;

    /// Starts with no records, for this many actions and features.
    pub fn new(actions: usize, features: usize) -> Result<Self> {
        if actions < 2 {
            return Err(Error::setting("the number of actions", "at least 2", actions));
        }
        Self::of(actions, features)
    }

    /// Starts with no records, for joint features: the features of a record are those of its chosen candidate, and its
    /// action is 0.
    pub(super) fn joint(features: usize) -> Result<Self> {
        Self::of(1, features)
    }

    fn of(actions: usize, features: usize) -> Result<Self> {
        if features == 0 {
            return Err(Error::setting("the number of features", "at least 1", 0));
        }
        let size = features.saturating_add(2);
        let bytes = size.checked_add(1).and_then(|next| size.checked_mul(next)?.checked_mul(4)?.checked_mul(actions));
        if bytes.is_none_or(|bytes| bytes > Self::MEMORY) {
            let allowed = format!(
                "at most 4 GiB for {actions} actions x {features} features (map the contexts to fewer features, for \
                 example kernel features)"
            );
            let value =
                bytes.map_or("beyond counting".into(), |b| format!("{:.1} GiB", b as f64 / (1u64 << 30) as f64));
            return Err(Error::setting("the memory of a reward model", allowed, value));
        }
        Ok(Statistics { features, moments: vec![Moments::new(size); actions] })
    }

    /// Adds records: mapped features, actions and rewards in `[0, 1]`. An error names the row and leaves the sums
    /// unchanged.
    pub fn add(&mut self, features: &Contexts, action: &[u32], reward: &[f64]) -> Result<()> {
        if features.features() != self.features {
            let expected = format!("{} features, as the reward model", self.features);
            return Err(Error::size("contexts", expected, features.features()));
        }
        for (column, found) in [("action", action.len()), ("reward", reward.len())] {
            if found != features.len() {
                return Err(Error::size(column, format!("{} entries, one for each context", features.len()), found));
            }
        }
        let mut rows = vec![Vec::new(); self.actions()];
        for (i, (&a, &r)) in action.iter().zip(reward).enumerate() {
            if a as usize >= self.actions() {
                return Err(Error::value(i, "action", format!("below {}", self.actions()), a));
            }
            if !(0.0..=1.0).contains(&r) {
                return Err(Error::value(i, "reward", "in [0, 1]", r));
            }
            rows[a as usize].push(i);
        }
        let p = self.features;
        self.moments.par_iter_mut().zip(&rows).for_each(|(moments, rows)| {
            moments.add(rows.len(), |i, z| {
                features.row(rows[i]).for_each(|f, v| z[f] = v);
                z[p..].copy_from_slice(&[1.0, reward[rows[i]]]);
            });
        });
        Ok(())
    }

    /// Adds logged records, whose rewards are minus their costs. Features are computed in chunks and not kept.
    pub fn add_logs(&mut self, map: &FeatureMap, logs: &Logs) -> Result<()> {
        if map.output() != self.features {
            let expected = format!("{} features, as the reward model", self.features);
            return Err(Error::size("the feature map", expected, map.output()));
        }
        Self::check_logs(map, self.actions(), logs)?;
        for start in (0..logs.len()).step_by(CHUNK) {
            let range = start..(start + CHUNK).min(logs.len());
            let features = map.apply(&logs.contexts().slice(range.clone()))?;
            let reward: Vec<f64> = logs.cost()[range.clone()].iter().map(|c| -c).collect();
            self.add(&features, &logs.action()[range], &reward)?;
        }
        Ok(())
    }

    /// Checks that a reward model can be fitted to the logs.
    pub(super) fn check_logs(map: &FeatureMap, actions: usize, logs: &Logs) -> Result<()> {
        if logs.actions() != actions {
            let expected = format!("{actions} actions, as the reward model");
            return Err(Error::size("the logs", expected, logs.actions()));
        }
        if map.input() != logs.contexts().features() {
            let expected = format!("{} features, as the feature map", map.input());
            return Err(Error::size("the contexts of the logs", expected, logs.contexts().features()));
        }
        if !logs.is_complete() {
            return Err(Error::setting("the logs", "with the contexts of all records", "without some of them"));
        }
        Ok(())
    }

    /// Adds the sums of another shard.
    pub fn merge(&mut self, other: &Statistics) -> Result<()> {
        if (self.actions(), self.features) != (other.actions(), other.features) {
            let expected = format!("{} actions x {} features", self.actions(), self.features);
            return Err(Error::size("the other statistics", expected, other.actions() * other.features));
        }
        self.moments.par_iter_mut().zip(&other.moments).for_each(|(own, new)| own.merge(new));
        Ok(())
    }

    /// The number of actions, `K`.
    pub fn actions(&self) -> usize {
        self.moments.len()
    }

    /// The number of features, `p`.
    pub fn features(&self) -> usize {
        self.features
    }

    /// The number of records of an action.
    ///
    /// # Panics
    /// If there is no such action.
    pub fn records_of(&self, action: usize) -> f64 {
        self.moments[action].at(self.features, self.features)
    }

    /// The number of records.
    pub fn records(&self) -> f64 {
        (0..self.actions()).map(|a| self.records_of(a)).sum()
    }

    /// The mean reward of all records; 0 without records.
    pub fn mean_reward(&self) -> f64 {
        let p = self.features;
        let sum: f64 = self.moments.iter().map(|moments| moments.at(p + 1, p)).sum();
        if self.records() > 0.0 { sum / self.records() } else { 0.0 }
    }

    /// The sum of the moments of all actions.
    pub(super) fn pooled(&self) -> Moments {
        let mut sum = Moments::new(self.features + 2);
        self.moments.iter().for_each(|moments| sum.merge(moments));
        sum
    }
}
