//! The leaves of boosted trees as features.
//!
//! Every tree splits on features of the context and has one value per action in each leaf. A record contributes to the
//! values of its own action only. The sums of a split are over all actions:
//!
//! - `boost`: the loop over trees, on whole-number residuals,
//! - `bins`: values as numbers of bins,
//! - `grow`: one tree,
//! - `apply`: the leaves of contexts.
//!
//! The values are used while trees are grown, and then left out: the features are the leaves.

mod apply;
mod bins;
mod boost;
mod grow;

pub use boost::Boosting;

use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::fingerprint::{Fingerprint, Hasher};

/// The parts of the tree features of a [`FeatureMap`](super::FeatureMap): one feature per leaf, which is
/// `1/sqrt(number of trees)` for the contexts in it and 0 for others.
///
/// The trees follow each other, each node before its left and then its right part. So every list of nodes that ends
/// with a tree has one meaning only, and no node refers to another one.
#[derive(Debug)]
pub struct TreeFeatures {
    input: usize,
    /// The feature of each node, or [`LEAF`](TreeFeatures::LEAF).
    features: Vec<u32>,
    /// The threshold of each node: contexts with a value of at most this go left. 0 for leaves.
    thresholds: Vec<f32>,
    /// For a split the node of its right part, for a leaf its number.
    next: Vec<u32>,
    /// The first node of each tree.
    roots: Vec<u32>,
    /// Computed on first use.
    fingerprint: OnceLock<Fingerprint>,
}

/// Compares the content.
impl PartialEq for TreeFeatures {
    fn eq(&self, other: &Self) -> bool {
        (self.input, &self.features, &self.thresholds) == (other.input, &other.features, &other.thresholds)
    }
}

impl TreeFeatures {
    /// The feature of a node that is a leaf.
    pub const LEAF: u32 = u32::MAX;

    pub(super) fn from_parts(input: usize, features: Vec<u32>, mut thresholds: Vec<f32>) -> Result<Self> {
        let nodes = features.len();
        if input == 0 || input > u32::MAX as usize {
            return Err(Error::setting("the number of features", "from 1 to 4294967295", input));
        }
        if nodes == 0 || nodes >= u32::MAX as usize {
            return Err(Error::size("trees", "from 1 to 4294967294 nodes", nodes));
        }
        if thresholds.len() != nodes {
            return Err(Error::size("thresholds", format!("{nodes} entries, one for each node"), thresholds.len()));
        }
        for (node, (&feature, threshold)) in features.iter().zip(&mut thresholds).enumerate() {
            if feature == Self::LEAF && *threshold != 0.0 {
                return Err(Error::value(node, "the threshold of a leaf", 0, *threshold));
            }
            if feature != Self::LEAF && feature as usize >= input {
                let allowed = format!("below {input}, or {} for a leaf", Self::LEAF);
                return Err(Error::value(node, "the feature of a node", allowed, feature));
            }
            if !threshold.is_finite() {
                return Err(Error::value(node, "the threshold of a node", "finite", *threshold));
            }
            // Positive and negative zero are one threshold.
            *threshold += 0.0;
        }
        let (next, roots) = link(&features)?;
        Ok(TreeFeatures { input, features, thresholds, next, roots, fingerprint: OnceLock::new() })
    }

    /// The number of features of a context.
    pub fn input(&self) -> usize {
        self.input
    }

    /// The number of trees.
    pub fn trees(&self) -> usize {
        self.roots.len()
    }

    /// The number of output features: the leaves of all trees.
    pub fn count(&self) -> usize {
        // A tree has one leaf more than splits.
        (self.features.len() + self.trees()) / 2
    }

    /// The number of splits of all trees.
    pub fn splits(&self) -> usize {
        self.features.len() - self.count()
    }

    /// The feature of each node, or [`LEAF`](TreeFeatures::LEAF).
    pub fn features(&self) -> &[u32] {
        &self.features
    }

    /// The threshold of each node, 0 for leaves. Contexts with a value of at most the threshold go left.
    pub fn thresholds(&self) -> &[f32] {
        &self.thresholds
    }

    /// The fingerprint of the features.
    pub fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.get_or_init(|| {
            let mut hasher = Hasher::new("tree features");
            hasher.count(self.input);
            hasher.count(self.features.len());
            for (&feature, &threshold) in self.features.iter().zip(&self.thresholds) {
                hasher.integer(feature);
                hasher.single(threshold);
            }
            hasher.finish()
        })
    }
}

/// For each split the node of its right part, for each leaf its number; and the first node of each tree.
fn link(features: &[u32]) -> Result<(Vec<u32>, Vec<u32>)> {
    let (mut next, mut roots) = (vec![0; features.len()], Vec::new());
    // The splits whose right part is still to come.
    let mut open: Vec<usize> = Vec::new();
    let (mut leaves, mut starts) = (0, true);
    for (node, &feature) in features.iter().enumerate() {
        if starts {
            roots.push(node as u32);
        }
        if feature == TreeFeatures::LEAF {
            next[node] = leaves;
            leaves += 1;
            let split = open.pop();
            split.into_iter().for_each(|split| next[split] = node as u32 + 1);
            starts = split.is_none();
        } else {
            open.push(node);
            starts = false;
        }
    }
    if starts {
        return Ok((next, roots));
    }
    // `starts` is false only if a part is still to come.
    let found = format!("without {} of its parts", open.len() + 1);
    Err(Error::setting("the last tree", "complete", found))
}

#[cfg(test)]
mod tests;
