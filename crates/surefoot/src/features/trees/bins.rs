//! Bins: the values of a feature, replaced by the numbers of at most 64 intervals.

use std::ops::Range;

use rayon::prelude::*;

use crate::contexts::Contexts;

/// The largest number of bins of a feature.
pub(super) const MOST_BINS: usize = 64;

/// The number of parts of the features that are gathered at once.
const PARTS: usize = 16;

/// One feature of all records.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) feature: u32,
    /// The ends of all bins but the last: bin `b` has the values in `(cuts[b - 1], cuts[b]]`.
    pub(super) cuts: Vec<f32>,
    pub(super) cells: Cells,
}

/// The bins of the records.
#[derive(Debug)]
pub(super) enum Cells {
    /// One bin per record.
    Dense(Vec<u8>),
    /// The records that are not in the usual bin, in order.
    Sparse { usual: u8, rows: Vec<u32>, bins: Vec<u8> },
}

impl Column {
    /// The number of bins.
    pub(super) fn bins(&self) -> usize {
        self.cuts.len() + 1
    }

    /// The column of a feature, from its values that are not 0, by record; `None` if all values are equal.
    fn new(feature: usize, filled: &[(u32, f32)], records: usize) -> Option<Self> {
        let cuts = cuts(&distinct(filled.iter().map(|&(_, v)| v).collect(), records));
        if cuts.is_empty() {
            return None;
        }
        let bin = |v: f32| cuts.partition_point(|&cut| cut < v) as u8;
        let mut counts = [0; MOST_BINS];
        let bins: Vec<u8> = filled.iter().map(|&(_, v)| bin(v)).collect();
        bins.iter().for_each(|&b| counts[usize::from(b)] += 1);
        let zero = bin(0.0);
        counts[usize::from(zero)] += records - filled.len();
        let usual = (0..MOST_BINS).rev().max_by_key(|&b| counts[b]).unwrap_or(0) as u8;
        // Sparse cells take five bytes each, and skip the usual bin.
        let cells = if usual == zero && records - counts[usize::from(usual)] <= records / 4 {
            let kept = filled.iter().zip(bins).filter(|(_, b)| *b != usual);
            let (rows, bins) = kept.map(|(&(row, _), b)| (row, b)).unzip();
            Cells::Sparse { usual, rows, bins }
        } else {
            let mut cells = vec![zero; records];
            filled.iter().zip(bins).for_each(|(&(row, _), b)| cells[row as usize] = b);
            Cells::Dense(cells)
        };
        Some(Column { feature: feature as u32, cuts, cells })
    }
}

/// The columns of all features that have more than one value.
pub(super) fn columns(contexts: &Contexts) -> Vec<Column> {
    let p = contexts.features();
    let width = p.div_ceil(PARTS).max(1);
    let parts: Vec<Range<usize>> = (0..p).step_by(width).map(|from| from..(from + width).min(p)).collect();
    let gathered: Vec<Vec<Column>> = parts
        .into_par_iter()
        .map(|part| {
            let mut filled = vec![Vec::new(); part.len()];
            for (i, row) in contexts.iter().enumerate() {
                row.for_each_in(part.clone(), |f, v| {
                    if v != 0.0 {
                        filled[f - part.start].push((i as u32, v));
                    }
                });
            }
            let columns = part.zip(&filled).filter_map(|(f, filled)| Column::new(f, filled, contexts.len()));
            columns.collect()
        })
        .collect();
    gathered.into_iter().flatten().collect()
}

/// The values in increasing order, each with the number of its records, from those that are not 0.
fn distinct(mut filled: Vec<f32>, records: usize) -> Vec<(f32, usize)> {
    let zeros = records - filled.len();
    filled.sort_unstable_by(f32::total_cmp);
    let mut all: Vec<(f32, usize)> = filled.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
    if zeros > 0 {
        all.insert(all.partition_point(|&(v, _)| v < 0.0), (0.0, zeros));
    }
    all
}

/// The cuts between bins. With at most 64 values, each has a bin of its own. Otherwise the most frequent value has one,
/// and the values below and above it share the others by quantiles.
fn cuts(values: &[(f32, usize)]) -> Vec<f32> {
    let group: Vec<usize> = if values.len() <= MOST_BINS {
        (0..values.len()).collect()
    } else {
        let usual = (0..values.len()).rev().max_by_key(|&i| values[i].1).unwrap_or(0);
        let (below, above) = (&values[..usual], &values[usual + 1..]);
        let count = |part: &[(f32, usize)]| part.iter().map(|&(_, n)| n).sum::<usize>();
        let (low, high) = (count(below), count(above));
        let rest = MOST_BINS - 1;
        // Rounded to the nearest number of bins, but at least one for each side that has values.
        let most = if high > 0 { rest - 1 } else { rest };
        let split = if low > 0 { ((2 * rest * low + low + high) / (2 * (low + high))).clamp(1, most) } else { 0 };
        let quantiles = |part: &[(f32, usize)], bins: usize, first: usize| -> Vec<usize> {
            let total = count(part);
            let smaller = part.iter().scan(0, |sum, &(_, n)| Some(std::mem::replace(sum, *sum + n)));
            smaller.map(|smaller| first + smaller * bins / total).collect()
        };
        [quantiles(below, split, 0), vec![rest], quantiles(above, rest - split, rest + 1)].concat()
    };
    let pairs = values.windows(2).zip(group.windows(2)).filter(|(_, group)| group[0] != group[1]);
    pairs.map(|(pair, _)| between(pair[0].0, pair[1].0)).collect()
}

/// A number in `[low, high)`: the middle, if rounding allows.
fn between(low: f32, high: f32) -> f32 {
    let middle = f32::midpoint(low, high);
    // Positive and negative zero are one threshold.
    if middle < high { middle + 0.0 } else { low + 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_is_in_the_interval_of_its_bin(
            x in prop::collection::vec(prop_oneof![
                2 => Just(0.0f32), 2 => -2.0f32..2.0, 1 => prop::num::f32::NORMAL, 1 => (0u8..40).prop_map(f32::from)
            ], 1..400)
        ) {
            let contexts = Contexts::dense(x.clone(), 1).unwrap();
            for contexts in [contexts.clone(), contexts.to_sparse()] {
                let all = columns(&contexts);
                prop_assert_eq!(all.is_empty(), x.iter().all(|v| *v == x[0]));
                for column in all {
                    prop_assert!(column.bins() <= MOST_BINS && column.cuts.is_sorted_by(|a, b| a < b));
                    let mut cells = match &column.cells {
                        Cells::Dense(cells) => cells.clone(),
                        Cells::Sparse { usual, .. } => vec![*usual; x.len()],
                    };
                    if let Cells::Sparse { rows, bins, usual } = &column.cells {
                        prop_assert!(rows.is_sorted_by(|a, b| a < b) && bins.iter().all(|b| b != usual));
                        rows.iter().zip(bins).for_each(|(&row, &b)| cells[row as usize] = b);
                    }
                    for (v, b) in x.iter().zip(cells) {
                        let b = usize::from(b);
                        prop_assert!(b == column.cuts.len() || *v <= column.cuts[b]);
                        prop_assert!(b == 0 || *v > column.cuts[b - 1]);
                    }
                }
            }
        }

        #[test]
        fn a_cut_is_between_its_neighbours(a in prop::num::f32::NORMAL, b in prop::num::f32::ANY) {
            prop_assume!(b.is_finite() && a != b);
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!((low..high).contains(&between(low, high)));
            prop_assert!((low..low.next_up()).contains(&between(low, low.next_up())));
        }
    }

    #[test]
    fn bins_are_quantiles_beside_the_most_frequent_value() {
        // 400 zeros, 100 values below and 200 above.
        let mut x = vec![0.0; 400];
        x.extend((1..=100).map(|i| -(i as f32)));
        x.extend((1..=200).map(|i| i as f32));
        let column = columns(&Contexts::dense(x, 1).unwrap()).remove(0);
        assert_eq!(column.bins(), 64);
        let below = column.cuts.iter().filter(|&&cut| cut < 0.0).count();
        // 21 bins below and 42 above.
        assert_eq!((below, column.cuts[below - 1], column.cuts[below]), (21, -0.5, 0.5));
        assert!(column.cuts[below..].windows(2).all(|pair| (4.0..=5.0).contains(&(pair[1] - pair[0]))));
        assert!(matches!(&column.cells, Cells::Dense(_)));
    }
}
