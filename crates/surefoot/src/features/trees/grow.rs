//! Growing one tree: histograms of residuals, the best split of each leaf, the leaves of the records.

use std::ops::Range;

use rayon::prelude::*;

use super::bins::{Cells, Column, MOST_BINS};

/// The smallest gain of a split, in squared rewards. A smaller one may be rounding.
const LEAST_GAIN: f64 = 1e-9;

/// One unit of reward in residuals. They are whole numbers, so their sums are exact in any order.
pub(super) const UNIT: f64 = (1u64 << 32) as f64;

/// The sum of residuals of some records of one action, and their number.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sum {
    residual: i64,
    count: i64,
}

impl Sum {
    fn add(&mut self, residual: i64) {
        self.residual += residual;
        self.count += 1;
    }

    fn plus(self, other: Sum) -> Sum {
        Sum { residual: self.residual + other.residual, count: self.count + other.count }
    }

    fn minus(self, other: Sum) -> Sum {
        Sum { residual: self.residual - other.residual, count: self.count - other.count }
    }

    /// `G^2/(n + ridge)`, in squared rewards.
    fn score(self, ridge: f64) -> f64 {
        let g = self.residual as f64 / UNIT;
        g * g / (self.count as f64 + ridge)
    }

    /// `G/(n + ridge)`, in parts of [`UNIT`].
    pub(super) fn mean(self, ridge: f64) -> f64 {
        self.residual as f64 / (self.count as f64 + ridge)
    }
}

/// The records, sorted by action.
#[derive(Debug)]
pub(super) struct Records {
    /// The records of each action.
    pub(super) ranges: Vec<Range<usize>>,
    /// What the model so far leaves of each reward, in parts of [`UNIT`].
    pub(super) residual: Vec<i64>,
}

/// Limits of a tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) leaves: usize,
    pub(super) least_records: usize,
    pub(super) ridge: f64,
}

/// A node of a tree that grows. Node 0 is the root.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Node {
    Leaf,
    /// Records with a value of at most the threshold go to node `left`, others to `left + 1`.
    Split {
        feature: u32,
        threshold: f32,
        left: usize,
    },
}

/// A tree, and the leaf of each record.
#[derive(Debug)]
pub(super) struct Grown {
    pub(super) nodes: Vec<Node>,
    pub(super) leaf_of: Vec<u32>,
}

/// Bins up to `bin` of a column go left.
#[derive(Debug, Clone, Copy)]
struct Split {
    gain: f64,
    column: usize,
    bin: usize,
}

impl Split {
    /// The better split; the first one if they are equal.
    fn or(self, other: Split) -> Split {
        if other.gain > self.gain { other } else { self }
    }
}

/// Grows a tree on some of the columns: splits the leaf of largest gain until there are enough leaves.
pub(super) fn grow(columns: &[&Column], records: &Records, limits: &Limits) -> Grown {
    let mut grown = Grown { nodes: vec![Node::Leaf], leaf_of: vec![0; records.residual.len()] };
    let mut fresh = vec![0];
    let mut candidates: Vec<(usize, Split)> = Vec::new();
    for _ in 1..limits.leaves {
        let found = best_splits(columns, records, &grown, &fresh, limits);
        candidates.extend(fresh.into_iter().zip(found).filter_map(|(node, split)| Some((node, split?))));
        // The first one of the largest gain.
        let best = (0..candidates.len()).rev().max_by(|&i, &j| candidates[i].1.gain.total_cmp(&candidates[j].1.gain));
        let Some(best) = best else { break };
        let (node, split) = candidates.remove(best);
        let (column, left) = (columns[split.column], grown.nodes.len());
        divide(&mut grown.leaf_of, column, split.bin, node as u32, left as u32);
        grown.nodes[node] = Node::Split { feature: column.feature, threshold: column.cuts[split.bin], left };
        grown.nodes.extend([Node::Leaf; 2]);
        fresh = vec![left, left + 1];
    }
    grown
}

/// Moves the records of a leaf to node `left`, or to `left + 1` if their bin is above `bin`.
fn divide(leaf_of: &mut [u32], column: &Column, bin: usize, leaf: u32, left: u32) {
    let side = |b: u8| left + u32::from(usize::from(b) > bin);
    match &column.cells {
        Cells::Dense(cells) => {
            leaf_of.iter_mut().zip(cells).filter(|(of, _)| **of == leaf).for_each(|(of, &b)| *of = side(b));
        }
        Cells::Sparse { usual, rows, bins } => {
            for (&row, &b) in rows.iter().zip(bins) {
                let of = &mut leaf_of[row as usize];
                if *of == leaf {
                    *of = side(b);
                }
            }
            leaf_of.iter_mut().filter(|of| **of == leaf).for_each(|of| *of = side(*usual));
        }
    }
}

/// The best split of each leaf, over all columns.
fn best_splits(
    columns: &[&Column],
    records: &Records,
    grown: &Grown,
    leaves: &[usize],
    limits: &Limits,
) -> Vec<Option<Split>> {
    let pass = Pass::new(records, grown, leaves, limits);
    let work = |column: usize| pass.best(columns[column], column);
    let all: Vec<Vec<Option<Split>>> = (0..columns.len()).into_par_iter().map(work).collect();
    let mut best = vec![None; leaves.len()];
    for found in all {
        for (best, found) in best.iter_mut().zip(found) {
            *best = match (*best, found) {
                (Some(a), Some(b)) => Some(Split::or(a, b)),
                (a, b) => a.or(b),
            };
        }
    }
    best
}

/// A record of one of the leaves of a pass.
#[derive(Debug, Clone, Copy)]
struct Member {
    row: u32,
    /// The start of its leaf's histogram.
    place: u32,
    residual: i64,
}

/// One pass over the records of some leaves, which have a slot each.
#[derive(Debug)]
struct Pass<'a> {
    records: &'a Records,
    limits: &'a Limits,
    slots: usize,
    /// The records of these leaves, and which of them have each action.
    members: Vec<Member>,
    ranges: Vec<Range<usize>>,
    /// The start of the histogram of each record. All records of other leaves share one, after those of the slots.
    place: Vec<u32>,
    /// The sums of each action and slot.
    totals: Vec<Sum>,
}

impl<'a> Pass<'a> {
    fn new(records: &'a Records, grown: &Grown, leaves: &[usize], limits: &'a Limits) -> Self {
        let slots = leaves.len();
        let mut place_of = vec![(slots * MOST_BINS) as u32; grown.nodes.len()];
        leaves.iter().enumerate().for_each(|(slot, &node)| place_of[node] = (slot * MOST_BINS) as u32);
        let place: Vec<u32> = grown.leaf_of.iter().map(|&leaf| place_of[leaf as usize]).collect();
        let mut totals = vec![Sum::default(); records.ranges.len() * slots];
        let (mut members, mut ranges) = (Vec::new(), Vec::with_capacity(records.ranges.len()));
        for (range, totals) in records.ranges.iter().zip(totals.chunks_exact_mut(slots)) {
            let start = members.len();
            for i in range.clone() {
                let (place, residual) = (place[i], records.residual[i]);
                if let Some(total) = totals.get_mut(place as usize / MOST_BINS) {
                    total.add(residual);
                    members.push(Member { row: i as u32, place, residual });
                }
            }
            ranges.push(start..members.len());
        }
        Pass { records, limits, slots, members, ranges, place, totals }
    }

    /// The best split of each slot by one column.
    fn best(&self, column: &Column, number: usize) -> Vec<Option<Split>> {
        let bins = column.bins();
        let mut histogram = vec![Sum::default(); (self.slots + 1) * MOST_BINS];
        // Of each slot and bin: the scores of both sides, and the number of records on the left.
        let mut scores = vec![(0.0, 0.0); self.slots * MOST_BINS];
        let mut start = 0;
        for (a, totals) in self.totals.chunks_exact(self.slots).enumerate() {
            if self.ranges[a].is_empty() {
                continue;
            }
            histogram.fill(Sum::default());
            match &column.cells {
                Cells::Dense(cells) => {
                    for member in &self.members[self.ranges[a].clone()] {
                        let bin = usize::from(cells[member.row as usize]);
                        histogram[member.place as usize + bin].add(member.residual);
                    }
                }
                Cells::Sparse { usual, rows, bins: cells } => {
                    let range = &self.records.ranges[a];
                    start += rows[start..].partition_point(|&row| (row as usize) < range.start);
                    let end = start + rows[start..].partition_point(|&row| (row as usize) < range.end);
                    for (&row, &bin) in rows[start..end].iter().zip(&cells[start..end]) {
                        let (row, bin) = (row as usize, usize::from(bin));
                        histogram[self.place[row] as usize + bin].add(self.records.residual[row]);
                    }
                    start = end;
                    for (total, histogram) in totals.iter().zip(histogram.chunks_exact_mut(MOST_BINS)) {
                        let others = histogram[..bins].iter().fold(Sum::default(), |sum, &bin| sum.plus(bin));
                        histogram[usize::from(*usual)] = total.minus(others);
                    }
                }
            }
            let slots = histogram.chunks_exact(MOST_BINS).zip(scores.chunks_exact_mut(MOST_BINS));
            for ((histogram, scores), total) in slots.zip(totals).filter(|(_, total)| total.count > 0) {
                self.add_scores(&histogram[..bins - 1], *total, scores);
            }
        }
        (0..self.slots).map(|slot| self.best_of(slot, number, &scores[slot * MOST_BINS..][..bins - 1])).collect()
    }

    /// Adds the scores of one action for splits after each bin.
    fn add_scores(&self, histogram: &[Sum], total: Sum, scores: &mut [(f64, f64)]) {
        let ridge = self.limits.ridge;
        let (g, n) = (total.residual as f64 / UNIT, total.count as f64);
        let (mut left_g, mut left_n) = (0.0, 0.0);
        for (bin, score) in histogram.iter().zip(scores) {
            left_g += bin.residual as f64 / UNIT;
            left_n += bin.count as f64;
            // Both sides' `G^2/(n + ridge)`, with one division.
            let (right_g, left, right) = (g - left_g, left_n + ridge, n - left_n + ridge);
            score.0 += (left_g * left_g * right + right_g * right_g * left) / (left * right);
            score.1 += left_n;
        }
    }

    /// The best bin of a slot, of those that leave enough records on both sides.
    fn best_of(&self, slot: usize, column: usize, scores: &[(f64, f64)]) -> Option<Split> {
        let totals = self.totals.iter().skip(slot).step_by(self.slots);
        let (mut before, mut count) = (0.0, 0.0);
        for total in totals {
            before += total.score(self.limits.ridge);
            count += total.count as f64;
        }
        let least = self.limits.least_records as f64;
        let allowed = |left: f64| left >= least && count - left >= least;
        let splits = scores.iter().enumerate().filter(|(_, (_, left))| allowed(*left));
        let splits = splits.map(|(bin, (score, _))| Split { gain: score - before, column, bin });
        splits.reduce(Split::or).filter(|split| split.gain > LEAST_GAIN)
    }
}

/// The sums of residuals of each leaf and action, one row per node.
pub(super) fn leaf_sums(records: &Records, grown: &Grown) -> Vec<Sum> {
    let k = records.ranges.len();
    let mut sums = vec![Sum::default(); grown.nodes.len() * k];
    for (a, range) in records.ranges.iter().enumerate() {
        for i in range.clone() {
            sums[grown.leaf_of[i] as usize * k + a].add(records.residual[i]);
        }
    }
    sums
}
