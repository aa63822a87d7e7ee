//! Boosting: each tree is grown on what the trees before it leave of the rewards.

use rand::seq::SliceRandom;

use super::TreeFeatures;
use super::bins::{Column, columns};
use super::grow::{Grown, Limits, Node, Records, UNIT, grow, leaf_sums};
use crate::contexts::Contexts;
use crate::error::{Error, Result, check_setting};
use crate::math::random::{Purpose, stream};

/// The largest number of records: then sums of residuals fit in 64 bits.
const MOST_RECORDS: usize = (1 << 31) - 1;

/// The largest number of leaves of a tree, and of trees.
const MOST: usize = 1 << 16;

/// How the trees of [`FeatureMap::trees`](crate::FeatureMap::trees) are grown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Boosting {
    /// The number of trees, at least 1.
    pub trees: usize,
    /// The largest number of leaves of a tree, at least 2.
    pub leaves: usize,
    /// The share of a leaf's mean residual that the tree predicts, in `(0, 1]`.
    pub shrinkage: f64,
    /// The smallest number of records of a leaf, at least 1.
    pub least_records: usize,
    /// The ridge `lambda > 0`: the leaf's mean residual of an action is `G_a/(n_a + lambda)`.
    pub ridge: f64,
    /// The share of the features on which a tree may split, in `(0, 1]`. They are drawn anew for each tree.
    pub share: f64,
    /// The seed of these draws.
    pub seed: u64,
}

impl Default for Boosting {
    fn default() -> Self {
        Boosting { trees: 40, leaves: 16, shrinkage: 0.2, least_records: 20, ridge: 3.0, share: 0.5, seed: 1 }
    }
}

impl Boosting {
    fn check(&self) -> Result<()> {
        let most = |name: &str, value: usize, least: usize| {
            let holds = (least..=MOST).contains(&value);
            if holds { Ok(()) } else { Err(Error::setting(name, format!("from {least} to {MOST}"), value)) }
        };
        most("the number of trees", self.trees, 1)?;
        most("the number of leaves of a tree", self.leaves, 2)?;
        if self.least_records == 0 {
            return Err(Error::setting("the smallest number of records of a leaf", "at least 1", 0));
        }
        let share = |name: &str, value: f64| check_setting(name, value, value > 0.0 && value <= 1.0, "in (0, 1]");
        share("the shrinkage", self.shrinkage)?;
        share("the share of features", self.share)?;
        check_setting("the ridge", self.ridge, self.ridge > 0.0, "above 0")
    }

    /// Grows the trees. `watch` gets the residuals after each of them.
    pub(in crate::features) fn grow(
        &self,
        actions: usize,
        contexts: &Contexts,
        action: &[u32],
        reward: &[f64],
        mut watch: impl FnMut(&[i64]),
    ) -> Result<TreeFeatures> {
        self.check()?;
        let order = check_records(actions, contexts, action, reward)?;
        let columns = columns(&contexts.select(&order));
        let mut records = first_residuals(actions, &order, action, reward);
        let limits = Limits { leaves: self.leaves, least_records: self.least_records, ridge: self.ridge };
        let (mut features, mut thresholds) = (Vec::new(), Vec::new());
        for tree in 0..self.trees {
            let grown = grow(&self.draw(&columns, tree), &records, &limits);
            if grown.nodes.len() == 1 {
                // Nothing to split: a tree of one leaf is the same feature for all contexts.
                continue;
            }
            self.subtract(&mut records, &grown);
            watch(&records.residual);
            in_order(&grown.nodes, &mut features, &mut thresholds);
        }
        if features.is_empty() {
            in_order(&[Node::Leaf], &mut features, &mut thresholds);
        }
        TreeFeatures::from_parts(contexts.features(), features, thresholds)
    }

    /// The columns on which a tree may split, in order.
    fn draw<'a>(&self, columns: &'a [Column], tree: usize) -> Vec<&'a Column> {
        let number = (self.share * columns.len() as f64).ceil() as usize;
        let mut drawn: Vec<usize> = (0..columns.len()).collect();
        if number < columns.len() {
            drawn.shuffle(&mut stream(self.seed, Purpose::Features, 3 + tree as u64));
            drawn.truncate(number);
            drawn.sort_unstable();
        }
        drawn.into_iter().map(|c| &columns[c]).collect()
    }

    /// Subtracts the predictions of a tree from the residuals.
    fn subtract(&self, records: &mut Records, grown: &Grown) {
        let k = records.ranges.len();
        let sums = leaf_sums(records, grown);
        let values: Vec<i64> = sums.iter().map(|sum| (self.shrinkage * sum.mean(self.ridge)).round() as i64).collect();
        for (a, range) in records.ranges.iter().enumerate() {
            for i in range.clone() {
                records.residual[i] -= values[grown.leaf_of[i] as usize * k + a];
            }
        }
    }
}

/// Checks the records and returns their order by action.
pub(super) fn check_records(actions: usize, contexts: &Contexts, action: &[u32], reward: &[f64]) -> Result<Vec<usize>> {
    if actions == 0 {
        return Err(Error::setting("the number of actions", "at least 1", 0));
    }
    let n = contexts.len();
    if n == 0 || n > MOST_RECORDS {
        return Err(Error::size("the records that trees are grown on", format!("from 1 to {MOST_RECORDS} rows"), n));
    }
    for (column, found) in [("action", action.len()), ("reward", reward.len())] {
        if found != n {
            return Err(Error::size(column, format!("{n} entries, one for each context"), found));
        }
    }
    for (i, (&a, &r)) in action.iter().zip(reward).enumerate() {
        if a as usize >= actions {
            return Err(Error::value(i, "action", format!("below {actions}"), a));
        }
        if !(0.0..=1.0).contains(&r) {
            return Err(Error::value(i, "reward", "in [0, 1]", r));
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&i| action[i]);
    Ok(order)
}

/// The rewards without the mean reward of their action.
pub(super) fn first_residuals(actions: usize, order: &[usize], action: &[u32], reward: &[f64]) -> Records {
    let mut residual: Vec<i64> = order.iter().map(|&i| (reward[i] * UNIT).round() as i64).collect();
    let mut ranges = Vec::with_capacity(actions);
    let mut start = 0;
    for a in 0..actions {
        let end = start + order[start..].partition_point(|&i| action[i] as usize <= a);
        let own = &mut residual[start..end];
        let mean = (own.iter().sum::<i64>() as f64 / own.len().max(1) as f64).round() as i64;
        own.iter_mut().for_each(|r| *r -= mean);
        ranges.push(start..end);
        start = end;
    }
    Records { ranges, residual }
}

/// Appends the nodes of a tree, each before its left and then its right part.
pub(super) fn in_order(nodes: &[Node], features: &mut Vec<u32>, thresholds: &mut Vec<f32>) {
    let mut open = vec![0];
    while let Some(node) = open.pop() {
        let (feature, threshold) = match nodes[node] {
            Node::Leaf => (TreeFeatures::LEAF, 0.0),
            Node::Split { feature, threshold, left } => {
                open.extend([left + 1, left]);
                (feature, threshold)
            }
        };
        features.push(feature);
        thresholds.push(threshold);
    }
}
