//! The leaves of contexts.

use super::TreeFeatures;
use crate::contexts::{Contexts, Row};
use crate::error::Result;
use crate::math::linear::in_blocks;

/// The number of rows that one thread maps together.
const ROWS: usize = 256;

impl TreeFeatures {
    /// The features of contexts, in sparse form: one value per tree.
    pub(crate) fn apply(&self, contexts: &Contexts) -> Result<Contexts> {
        let (n, trees) = (contexts.len(), self.trees());
        let leaves = self.leaves_of(contexts)?;
        let value = (1.0 / (trees as f64).sqrt()) as f32;
        let offsets = (0..=n).map(|i| i * trees).collect();
        Contexts::sparse(offsets, leaves, vec![value; n * trees], self.count())
    }

    /// The leaf of each context in each tree: one row per context.
    pub(super) fn leaves_of(&self, contexts: &Contexts) -> Result<Vec<u32>> {
        in_blocks(contexts.len(), ROWS, (self.trees(), 0), |range, out| {
            for (i, out) in range.zip(out.chunks_exact_mut(self.trees())) {
                let row = contexts.row(i);
                self.roots.iter().zip(out).for_each(|(&root, leaf)| *leaf = self.leaf(root, row));
            }
            Ok(())
        })
    }

    /// The number of the leaf of a context in the tree of a root.
    fn leaf(&self, root: u32, row: Row<'_>) -> u32 {
        let mut node = root as usize;
        loop {
            let (feature, next) = (self.features[node], self.next[node]);
            if feature == Self::LEAF {
                return next;
            }
            node = if row.value(feature as usize) <= self.thresholds[node] { node + 1 } else { next as usize };
        }
    }
}
