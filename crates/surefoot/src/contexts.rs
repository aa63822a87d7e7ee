//! CONTEXTS: feature rows, dense or sparse, behind one type.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};

/// The feature rows of a batch: dense (row-major) or sparse (CSR), always `f32`.
///
/// Cloning and [slicing](Contexts::slice) share the storage. The Euclidean norm of each row is computed once.
///
/// ```
/// use surefoot::Contexts;
///
/// let dense = Contexts::dense(vec![3.0, 4.0, 0.0, 1.0], 2)?;
/// assert_eq!((dense.len(), dense.features(), dense.norm(0)), (2, 2, 5.0));
/// let sparse = Contexts::sparse(vec![0, 1, 1], vec![7], vec![2.0], 1_000_000)?;
/// assert_eq!((sparse.len(), sparse.norm(1)), (2, 0.0));
/// # Ok::<(), surefoot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Contexts {
    storage: Arc<Storage>,
    rows: Range<usize>,
}

#[derive(Debug)]
struct Storage {
    features: usize,
    values: Values,
    norms: Vec<f64>,
}

#[derive(Debug)]
enum Values {
    Dense(Vec<f32>),
    /// Row `i` is `offsets[i]..offsets[i + 1]` of `indices` and `values`, indices strictly increasing.
    Sparse {
        offsets: Vec<usize>,
        indices: Vec<u32>,
        values: Vec<f32>,
    },
}

/// One feature row.
#[derive(Debug, Clone, Copy)]
pub enum Row<'a> {
    /// All features.
    Dense(&'a [f32]),
    /// The non-zero features.
    Sparse {
        /// Which, strictly increasing.
        indices: &'a [u32],
        /// Their values.
        values: &'a [f32],
    },
}

impl<'a> Row<'a> {
    /// Calls `visit(feature, value)` for every stored feature, in order.
    #[inline(always)]
    pub fn for_each(self, mut visit: impl FnMut(usize, f64)) {
        match self {
            Row::Dense(x) => {
                for (f, &v) in x.iter().enumerate() {
                    visit(f, f64::from(v));
                }
            }
            Row::Sparse { indices, values } => {
                for (&f, &v) in indices.iter().zip(values) {
                    visit(f as usize, f64::from(v));
                }
            }
        }
    }

    /// The stored values.
    pub fn values(self) -> &'a [f32] {
        match self {
            Row::Dense(x) => x,
            Row::Sparse { values, .. } => values,
        }
    }
}

impl Contexts {
    /// Rows of `features` values each, one after the other.
    pub fn dense(values: Vec<f32>, features: usize) -> Result<Self> {
        check_features(features)?;
        if !values.len().is_multiple_of(features) {
            return Err(Error::size("dense contexts", format!("a multiple of {features} values"), values.len()));
        }
        if let Some(i) = values.iter().position(|v| !v.is_finite()) {
            return Err(not_finite(i / features, i % features, values[i]));
        }
        let rows = values.len() / features;
        Ok(Self::from_values(features, rows, Values::Dense(values)))
    }

    /// Rows in CSR form: row `i` has the features `indices[offsets[i]..offsets[i + 1]]`, strictly increasing.
    pub fn sparse(offsets: Vec<usize>, indices: Vec<u32>, values: Vec<f32>, features: usize) -> Result<Self> {
        check_features(features)?;
        if indices.len() != values.len() {
            return Err(Error::size(
                "sparse values",
                format!("{} entries, one for each index", indices.len()),
                values.len(),
            ));
        }
        if offsets.first() != Some(&0) {
            return Err(Error::value(0, "offset", "0", format!("{:?}", offsets.first())));
        }
        if offsets.last() != Some(&indices.len()) {
            return Err(Error::value(
                offsets.len() - 1,
                "offset",
                format!("{}, the number of indices", indices.len()),
                offsets[offsets.len() - 1],
            ));
        }
        if let Some(row) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(Error::value(
                row,
                "offset",
                format!("at most the next one, {}", offsets[row + 1]),
                offsets[row],
            ));
        }
        for (row, pair) in offsets.windows(2).enumerate() {
            let mut next = 0;
            for i in pair[0]..pair[1] {
                let index = indices[i] as usize;
                if index >= features {
                    return Err(Error::value(row, "feature index", format!("below {features}"), index));
                }
                if index < next {
                    return Err(Error::value(
                        row,
                        "feature index",
                        format!("strictly increasing (at least {next} here)"),
                        index,
                    ));
                }
                next = index + 1;
                if !values[i].is_finite() {
                    return Err(not_finite(row, index, values[i]));
                }
            }
        }
        Ok(Self::from_parts(true, features, offsets, indices, values))
    }

    fn from_values(features: usize, rows: usize, values: Values) -> Self {
        let mut storage = Storage { features, values, norms: Vec::new() };
        storage.norms = (0..rows)
            .map(|i| {
                let squares = |x: &f32| f64::from(*x) * f64::from(*x);
                storage.row(i).values().iter().map(squares).sum::<f64>().sqrt()
            })
            .collect();
        Contexts { storage: Arc::new(storage), rows: 0..rows }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of features, `p`.
    pub fn features(&self) -> usize {
        self.storage.features
    }

    /// Whether the rows are held in sparse form.
    pub fn is_sparse(&self) -> bool {
        matches!(self.storage.values, Values::Sparse { .. })
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> Row<'_> {
        self.storage.row(self.locate(i))
    }

    /// The Euclidean norm of row `i`.
    pub fn norm(&self, i: usize) -> f64 {
        self.storage.norms[self.locate(i)]
    }

    fn locate(&self, i: usize) -> usize {
        assert!(i < self.len(), "row {i} of {}", self.len());
        self.rows.start + i
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        self.rows.clone().map(|i| self.storage.row(i))
    }

    /// The rows of a range, sharing the storage.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len());
        Contexts {
            storage: Arc::clone(&self.storage),
            rows: self.rows.start + range.start..self.rows.start + range.end,
        }
    }

    /// A copy of the given rows, in the given order.
    pub fn select(&self, rows: &[usize]) -> Self {
        self.rebuild(rows.iter().map(|&i| (self.row(i), 1.0)))
    }

    /// Each row divided by its Euclidean norm; rows of zeros stay.
    pub fn unit_rows(&self) -> Self {
        let scale = |norm: f64| if norm > 0.0 { 1.0 / norm } else { 1.0 };
        self.rebuild((0..self.len()).map(|i| (self.row(i), scale(self.norm(i)))))
    }

    /// The same rows with one more feature, which is always 1.
    pub(crate) fn with_ones(&self) -> Result<Self> {
        let features = self.features() + 1;
        check_features(features)?;
        let (mut offsets, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in self.iter() {
            if let Row::Sparse { indices: i, .. } = row {
                indices.extend_from_slice(i);
                indices.push(features as u32 - 1);
            }
            values.extend_from_slice(row.values());
            values.push(1.0);
            offsets.push(values.len());
        }
        Ok(Self::from_parts(self.is_sparse(), features, offsets, indices, values))
    }

    /// The same rows, in sparse form if at most a quarter of their values are non-zero and in dense form otherwise:
    /// sparse rows take half the memory there, and products with them about as long.
    pub fn compact(&self) -> Self {
        let filled: usize = self.iter().map(|row| row.values().iter().filter(|&&v| v != 0.0).count()).sum();
        let sparse = 4 * filled <= self.len() * self.features();
        if sparse == self.is_sparse() {
            self.clone()
        } else if sparse {
            self.to_sparse()
        } else {
            self.to_dense()
        }
    }

    /// The same rows in sparse form, zeros left out.
    pub fn to_sparse(&self) -> Self {
        let (mut offsets, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in self.iter() {
            row.for_each(|f, v| {
                if v != 0.0 {
                    indices.push(f as u32);
                    values.push(v as f32);
                }
            });
            offsets.push(indices.len());
        }
        Self::from_parts(true, self.features(), offsets, indices, values)
    }

    /// The same rows in dense form.
    pub fn to_dense(&self) -> Self {
        let p = self.features();
        let mut values = vec![0.0; self.len() * p];
        for (row, out) in self.iter().zip(values.chunks_exact_mut(p)) {
            row.for_each(|f, v| out[f] = v as f32);
        }
        Self::from_values(p, self.len(), Values::Dense(values))
    }

    /// New storage of the same form from rows of this one, each times a factor.
    fn rebuild<'a>(&self, rows: impl Iterator<Item = (Row<'a>, f64)>) -> Self {
        let scaled = |v: f32, factor: f64| (f64::from(v) * factor) as f32;
        let (mut offsets, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for (row, factor) in rows {
            if let Row::Sparse { indices: i, .. } = row {
                indices.extend_from_slice(i);
            }
            values.extend(row.values().iter().map(|&v| scaled(v, factor)));
            offsets.push(values.len());
        }
        Self::from_parts(self.is_sparse(), self.features(), offsets, indices, values)
    }

    /// From parts that are known to be valid; dense rows need only the values.
    fn from_parts(sparse: bool, features: usize, offsets: Vec<usize>, indices: Vec<u32>, values: Vec<f32>) -> Self {
        let rows = offsets.len() - 1;
        let values = if sparse { Values::Sparse { offsets, indices, values } } else { Values::Dense(values) };
        Self::from_values(features, rows, values)
    }
}

impl Storage {
    fn row(&self, i: usize) -> Row<'_> {
        match &self.values {
            Values::Dense(x) => Row::Dense(&x[i * self.features..(i + 1) * self.features]),
            Values::Sparse { offsets, indices, values } => {
                let range = offsets[i]..offsets[i + 1];
                Row::Sparse { indices: &indices[range.clone()], values: &values[range] }
            }
        }
    }
}

fn check_features(features: usize) -> Result<()> {
    if features == 0 || features > u32::MAX as usize {
        return Err(Error::setting("the number of features", "from 1 to 4294967295", features));
    }
    Ok(())
}

fn not_finite(row: usize, feature: usize, value: f32) -> Error {
    Error::value(row, format!("feature {feature}"), "finite", value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_storages_hold_the_same_rows_and_norms() {
        let dense = Contexts::dense(vec![0.0, 3.0, 4.0, 0.0, 0.0, 0.0], 3).unwrap();
        let sparse = dense.to_sparse();
        assert!(sparse.is_sparse());
        for i in 0..2 {
            assert_eq!(dense.norm(i), sparse.norm(i));
        }
        let back = sparse.to_dense();
        assert_eq!(back.row(0).values(), dense.row(0).values());
        assert_eq!(back.row(1).values(), dense.row(1).values());
    }

    #[test]
    fn slices_share_and_selections_copy() {
        let all = Contexts::dense((0..8).map(|v| v as f32).collect(), 2).unwrap();
        for contexts in [all.clone(), all.to_sparse()] {
            assert_eq!(contexts.slice(1..3).row(1).values(), contexts.row(2).values());
            assert_eq!(contexts.select(&[3, 0]).row(0).values(), contexts.row(3).values());
            assert_eq!(contexts.slice(1..4).select(&[2]).norm(0), contexts.norm(3));
        }
    }

    #[test]
    fn unit_rows_have_norm_one_and_zero_rows_stay() {
        let x = Contexts::dense(vec![3.0, 4.0, 0.0, 0.0], 2).unwrap().unit_rows();
        assert!((x.norm(0) - 1.0).abs() < 1e-7);
        assert_eq!(x.norm(1), 0.0);
    }

    #[test]
    fn compact_picks_the_smaller_form() {
        let mut values = vec![0.0; 40];
        values[7] = 1.0;
        assert!(Contexts::dense(values, 10).unwrap().compact().is_sparse());
        assert!(!Contexts::dense(vec![1.0; 40], 10).unwrap().to_sparse().compact().is_sparse());
    }

    #[test]
    fn errors_name_row_and_feature() {
        let text = |r: Result<Contexts>| r.unwrap_err().to_string();
        assert_eq!(
            text(Contexts::dense(vec![0.0, 1.0, f32::NAN, 2.0], 2)),
            "row 1: feature 0 should be finite, but is NaN"
        );
        assert_eq!(
            text(Contexts::dense(vec![0.0; 5], 2)),
            "dense contexts should have a multiple of 2 values, but has 5"
        );
        assert_eq!(text(Contexts::dense(vec![], 0)), "the number of features should be from 1 to 4294967295, but is 0");
        assert_eq!(
            text(Contexts::sparse(vec![0, 1, 2], vec![0, 9], vec![1.0, 1.0], 9)),
            "row 1: feature index should be below 9, but is 9"
        );
        assert_eq!(
            text(Contexts::sparse(vec![0, 2], vec![4, 4], vec![1.0, 1.0], 9)),
            "row 0: feature index should be strictly increasing (at least 5 here), but is 4"
        );
        assert_eq!(
            text(Contexts::sparse(vec![0, 7, 1, 2], vec![0, 1], vec![1.0, 1.0], 9)),
            "row 1: offset should be at most the next one, 1, but is 7"
        );
        assert_eq!(
            text(Contexts::sparse(vec![0, 2], vec![0, 1], vec![1.0], 9)),
            "sparse values should have 2 entries, one for each index, but has 1"
        );
        assert_eq!(text(Contexts::sparse(vec![], vec![], vec![], 9)), "row 0: offset should be 0, but is None");
        assert_eq!(
            text(Contexts::sparse(vec![0, 3], vec![0], vec![1.0], 9)),
            "row 1: offset should be 1, the number of indices, but is 3"
        );
    }
}
