//! The sums over records from which a reward model is fitted.

use rayon::prelude::*;

use crate::contexts::Contexts;
use crate::error::{Error, Result};
use crate::features::FeatureMap;
use crate::logs::{Logs, Task};
use crate::math::moments::{Moments, Room};
use crate::wire::{Reader, Writer};

/// The sums of a reward model: for each action, the second moments of `z = (phi, 1, r)` over its records, with features
/// `phi` and rewards `r` in `[0, 1]`.
///
/// They contain the Gram matrix of the features, their products with the rewards, the sum of squared rewards and the
/// number of records. Logged records are added by one fixed tree, so the bits depend on the division into calls and
/// neither on the number of threads nor on shards. Each action takes `4 (p + 2)(p + 3)` bytes.
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
        // One by one, not as clones: zeros that are never added to take no memory.
        Ok(Statistics { features, moments: (0..actions).map(|_| Moments::new(size)).collect() })
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
        self.moments.par_iter_mut().zip(&rows).for_each_init(Room::default, |room, (moments, rows)| {
            moments.add(room, rows.len(), |i, z| {
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
        match logs.over(&StatisticsTask { map, actions: self.actions() })? {
            None => Ok(()),
            // Nothing is added to the first sums.
            Some(sums) if self.is_empty() => {
                *self = sums;
                Ok(())
            }
            Some(sums) => self.merge(&sums),
        }
    }

    /// Adds the records of a chunk.
    fn add_chunk(&mut self, map: &FeatureMap, logs: &Logs) -> Result<()> {
        let reward: Vec<f64> = logs.cost().iter().map(|c| -c).collect();
        self.add(&map.apply(logs.contexts())?, logs.action(), &reward)
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

    /// Whether no records have been added.
    fn is_empty(&self) -> bool {
        self.records() == 0.0
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

/// The statistics of logged records.
#[derive(Debug)]
pub(crate) struct StatisticsTask<'a> {
    pub(crate) map: &'a FeatureMap,
    pub(crate) actions: usize,
}

impl Task for StatisticsTask<'_> {
    const NAME: &'static str = "statistics";

    type Output = Statistics;

    fn write(&self, out: &mut Writer) -> Result<()> {
        out.count(self.actions);
        self.map.write(out);
        Ok(())
    }

    fn chunk(&self, logs: &Logs) -> Result<Statistics> {
        let mut sums = Statistics::of(self.actions, self.map.output())?;
        sums.add_chunk(self.map, logs)?;
        Ok(sums)
    }

    fn merge(&self, sum: &mut Statistics, next: Statistics) {
        sum.moments.par_iter_mut().zip(&next.moments).for_each(|(own, new)| own.merge(new));
    }

    fn write_output(&self, output: &Statistics, out: &mut Writer) {
        output.moments.iter().for_each(|moments| out.doubles(moments.triangle()));
    }

    fn read_output(&self, from: &mut Reader<'_>) -> Result<Statistics> {
        let size = self.map.output() + 2;
        let moments = (0..self.actions).map(|_| Moments::of_triangle(size, from.doubles()?)).collect::<Result<_>>()?;
        Ok(Statistics { features: self.map.output(), moments })
    }

    /// The actions are worked on at once, so that there are few sums in memory.
    fn parallel(&self) -> bool {
        false
    }

    fn add(&self, sum: &mut Statistics, logs: &Logs) -> Result<()> {
        sum.add_chunk(self.map, logs)
    }
}
