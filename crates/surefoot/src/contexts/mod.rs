//! CONTEXTS: feature rows, dense or sparse, behind one type.

mod builder;
mod column;
mod labelled;
mod mapped;
mod storage;

pub use builder::ContextsBuilder;
pub use column::{Column, Memory};
pub use labelled::Labelled;
pub use mapped::ContextColumns;
pub use storage::{IndexColumn, Indices, Row};

use std::ops::Range;
use std::sync::Arc;

use self::storage::Storage;
use crate::error::{Error, Result};
use crate::wire::{Reader, Writer};

/// The feature rows of a batch: dense (row-major) or sparse (CSR), always `f32`.
///
/// A value is a view. Clones, [slices](Contexts::slice) and [selections](Contexts::select) share the rows, which stay
/// in memory as long as any view of them exists. The Euclidean norm of each row is computed once.
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
    /// The selected rows of the storage; `None` for all rows in order.
    list: Option<Arc<[u32]>>,
    /// The range of the list, or of the storage if there is no list.
    range: Range<usize>,
}

impl Contexts {
    /// Dense rows from their values in row-major order, `features` values per row.
    pub fn dense(values: Vec<f32>, features: usize) -> Result<Self> {
        Self::of_values(values.into(), features)
    }

    /// Dense rows in memory that another owner holds: nothing is copied.
    ///
    /// ```
    /// let rows: &'static [f32] = &[3.0, 4.0, 0.0, 1.0];
    /// assert_eq!(surefoot::Contexts::foreign(Box::new(rows), 2)?.norm(0), 5.0);
    /// # Ok::<(), surefoot::Error>(())
    /// ```
    pub fn foreign(values: Memory, features: usize) -> Result<Self> {
        Self::of_values(Column::Foreign(values), features)
    }

    fn of_values(values: Column<f32>, features: usize) -> Result<Self> {
        check_features(features)?;
        if !values.len().is_multiple_of(features) {
            return Err(Error::size("dense contexts", format!("a multiple of {features} values"), values.len()));
        }
        if let Some(i) = values.iter().position(|v| !v.is_finite()) {
            return Err(not_finite(i / features, i % features, values[i]));
        }
        Ok(Storage::dense(features, values).into())
    }

    /// Sparse rows in CSR form: row `i` has the features `indices[offsets[i]..offsets[i + 1]]`, strictly increasing.
    pub fn sparse(offsets: Vec<usize>, indices: Vec<u32>, values: Vec<f32>, features: usize) -> Result<Self> {
        check_sparse(&offsets, &indices, &values, features)?;
        Ok(Storage::sparse(features, offsets, indices, values).into())
    }

    /// Sparse rows from borrowed indices and values: the part that is kept is copied once.
    pub fn copied(offsets: Vec<usize>, indices: &[u32], values: &[f32], features: usize) -> Result<Self> {
        check_sparse(&offsets, indices, values, features)?;
        Ok(Storage::copied(features, offsets, indices, values).into())
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The number of features, `p`.
    pub fn features(&self) -> usize {
        self.storage.features
    }

    /// Whether the rows are stored in sparse form.
    pub fn is_sparse(&self) -> bool {
        self.storage.is_sparse()
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> Row<'_> {
        self.storage.row(self.locate(i))
    }

    /// The Euclidean norm of row `i`.
    pub fn norm(&self, i: usize) -> f64 {
        self.storage.norms[self.locate(i)]
    }

    /// The index of row `i` in the storage.
    fn locate(&self, i: usize) -> usize {
        assert!(i < self.len(), "row {i} of {}", self.len());
        let place = self.range.start + i;
        self.list.as_ref().map_or(place, |list| list[place] as usize)
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        (0..self.len()).map(|i| self.row(i))
    }

    /// The rows of a range; the storage is shared.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len());
        Contexts { range: self.range.start + range.start..self.range.start + range.end, ..self.clone() }
    }

    /// Selects rows in the given order. The storage is shared; the selection takes four bytes per row.
    ///
    /// # Panics
    /// If a row does not exist, or if the storage has 4,294,967,296 rows or more, whose numbers do not fit in four
    /// bytes.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        let number = |&i: &usize| u32::try_from(self.locate(i)).expect("a row below 4294967296");
        let list = rows.iter().map(number).collect();
        Contexts { storage: Arc::clone(&self.storage), list: Some(list), range: 0..rows.len() }
    }

    /// Divides each row by its Euclidean norm; rows of zeros stay as they are. Works in place, unless the rows are
    /// shared.
    ///
    /// If all rows already have norm 1, up to the rounding of `f32`, they are not changed and stay shared.
    #[must_use]
    pub fn unit_rows(mut self) -> Self {
        let is_unit = |norm: f64| norm == 0.0 || (norm - 1.0).abs() < 1e-6;
        if (0..self.len()).all(|i| is_unit(self.norm(i))) {
            return self;
        }
        let whole = self.list.is_none() && self.len() == self.storage.norms.len();
        if !whole || Arc::get_mut(&mut self.storage).is_none() {
            self = self.rebuild(self.is_sparse(), self.features(), self.stored(), copy);
        }
        Arc::get_mut(&mut self.storage).expect("shared with nobody").normalise();
        self
    }

    /// The same rows with one more feature, which is always 1.
    pub(crate) fn with_ones(&self) -> Result<Self> {
        let features = self.features() + 1;
        check_features(features)?;
        if !self.is_sparse() {
            return Ok(self.dense_rows(features, |row, _, out| {
                out.extend_from_slice(row);
                out.push(1.0);
            }));
        }
        Ok(self.rebuild(self.is_sparse(), features, self.stored() + self.len(), |row, out| {
            copy(row, out);
            out.push(features - 1, 1.0);
        }))
    }

    /// These rows, each followed by the same row of other features, in the form of these rows.
    pub(crate) fn beside(&self, other: &Contexts) -> Result<Self> {
        debug_assert_eq!(self.len(), other.len());
        let (own, features) = (self.features(), self.features().saturating_add(other.features()));
        check_features(features)?;
        if !self.is_sparse() && !other.is_sparse() {
            return Ok(self.dense_rows(features, |row, i, out| {
                out.extend_from_slice(row);
                out.extend_from_slice(other.row(i).values());
            }));
        }
        let mut storage = Storage::with_room(self.is_sparse(), features, self.len(), self.stored() + other.stored());
        for (row, next) in self.iter().zip(other.iter()) {
            copy(row, &mut storage);
            next.for_each(|f, v| storage.push(own + f, v as f32));
            storage.end_row();
        }
        Ok(storage.into())
    }

    /// The rows of all parts, one below the other, in a copy of the form of the first; of a single part, a view.
    pub(crate) fn stacked(parts: &[Contexts]) -> Result<Self> {
        if let [one] = parts {
            return Ok(one.clone());
        }
        let features = parts.first().map_or(0, Contexts::features);
        check_features(features)?;
        let (rows, stored) = (parts.iter().map(Contexts::len).sum(), parts.iter().map(Contexts::stored).sum());
        let mut storage = Storage::with_room(parts[0].is_sparse(), features, rows, stored);
        for part in parts {
            if part.features() != features {
                return Err(Error::size("contexts", format!("{features} features, as those before"), part.features()));
            }
            for row in part.iter() {
                copy(row, &mut storage);
                storage.end_row();
            }
        }
        Ok(storage.into())
    }

    /// The rows of all parts, one below the other, `rows` in all, in the form of the first. Each part is dropped before the
    /// next is made.
    pub(crate) fn joined(mut parts: impl Iterator<Item = Result<Contexts>>, rows: usize) -> Result<Self> {
        let first = parts.next().unwrap_or_else(|| Err(Error::size("the contexts", "at least 1 part", 0)))?;
        let mut storage = Storage::with_room(first.is_sparse(), first.features(), rows, first.stored());
        for part in [Ok(first)].into_iter().chain(parts) {
            for row in part?.iter() {
                copy(row, &mut storage);
                storage.end_row();
            }
        }
        Ok(storage.into())
    }

    /// This many rows that are held elsewhere: their number and that of their features is all that is known.
    pub(crate) fn absent(features: usize, rows: usize) -> Result<Self> {
        check_features(features)?;
        let storage = Storage::with_room(true, features, 0, 0);
        Ok(Contexts { storage: Arc::new(storage), list: None, range: 0..rows })
    }

    /// Whether the rows are held elsewhere.
    pub(crate) fn is_absent(&self) -> bool {
        self.storage.norms.is_empty() && !self.is_empty()
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.count(self.features());
        out.flag(self.is_sparse());
        let values: Vec<f32> = self.iter().flat_map(|row| row.values().iter().copied()).collect();
        out.singles(&values);
        if self.is_sparse() {
            let ends = self.iter().scan(0, |end, row| {
                *end += row.values().len();
                Some(*end)
            });
            out.counts(&[0].into_iter().chain(ends).collect::<Vec<usize>>());
            let mut indices = Vec::with_capacity(values.len());
            self.iter().for_each(|row| row.for_each(|f, _| indices.push(f as u32)));
            out.integers(&indices);
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self> {
        let (features, sparse, values) = (from.count()?, from.flag()?, from.singles()?);
        match sparse {
            true => Contexts::sparse(from.counts()?, from.integers()?, values, features),
            false => Contexts::dense(values, features),
        }
    }

    /// Chooses the form of the rows: sparse if at most a quarter of the values are non-zero, dense otherwise. There,
    /// sparse rows take at most half the memory, and products with them take about as long.
    #[must_use]
    pub fn compact(self) -> Self {
        match is_sparse_smaller(self.len(), self.features(), self.filled()) {
            sparse if sparse == self.is_sparse() => self,
            true => self.to_sparse(),
            false => self.to_dense(),
        }
    }

    /// The same rows in sparse form, without zeros.
    #[must_use]
    pub fn to_sparse(&self) -> Self {
        self.rebuild(true, self.features(), self.filled(), |row, out| {
            row.for_each(|f, v| {
                if v != 0.0 {
                    out.push(f, v as f32);
                }
            });
        })
    }

    /// The same rows in dense form.
    #[must_use]
    pub fn to_dense(&self) -> Self {
        self.rebuild(false, self.features(), 0, copy)
    }

    /// The number of stored values.
    fn stored(&self) -> usize {
        self.iter().map(|row| row.values().len()).sum()
    }

    /// The number of non-zero values.
    fn filled(&self) -> usize {
        self.iter().map(|row| row.values().iter().filter(|&&v| v != 0.0).count()).sum()
    }

    /// New dense rows. `write` gets each of these rows, which are dense, and its index, and appends the new one.
    fn dense_rows(&self, features: usize, write: impl Fn(&[f32], usize, &mut Vec<f32>)) -> Self {
        let mut values = Vec::with_capacity(self.len() * features);
        self.iter().enumerate().for_each(|(i, row)| write(row.values(), i, &mut values));
        Storage::dense(features, values.into()).into()
    }

    /// Makes new storage, into which `write` puts each row. Sparse storage has room for `stored` values.
    fn rebuild(&self, sparse: bool, features: usize, stored: usize, write: impl Fn(Row<'_>, &mut Storage)) -> Self {
        let mut storage = Storage::with_room(sparse, features, self.len(), stored);
        for row in self.iter() {
            write(row, &mut storage);
            storage.end_row();
        }
        storage.into()
    }
}

impl From<Storage> for Contexts {
    fn from(storage: Storage) -> Self {
        let range = 0..storage.norms.len();
        Contexts { storage: Arc::new(storage), list: None, range }
    }
}

fn copy(row: Row<'_>, out: &mut Storage) {
    match row {
        Row::Dense(values) if !out.is_sparse() => out.begin_row(values),
        _ => row.for_each(|f, v| out.push(f, v as f32)),
    }
}

/// Whether this number of non-zero values takes less memory in sparse form.
fn is_sparse_smaller(rows: usize, features: usize, filled: usize) -> bool {
    filled <= rows.saturating_mul(features) / 4
}

fn check_features(features: usize) -> Result<()> {
    if features == 0 || features > u32::MAX as usize {
        return Err(Error::setting("the number of features", "from 1 to 4294967295", features));
    }
    Ok(())
}

/// Fails unless the parts of sparse rows fit together and every entry is allowed.
fn check_sparse(offsets: &[usize], indices: &[u32], values: &[f32], features: usize) -> Result<()> {
    check_features(features)?;
    if indices.len() != values.len() {
        let expected = format!("{} entries, one for each index", indices.len());
        return Err(Error::size("sparse values", expected, values.len()));
    }
    if offsets.first() != Some(&0) {
        return Err(Error::value(0, "offset", "0", format!("{:?}", offsets.first())));
    }
    if offsets.last() != Some(&indices.len()) {
        let (row, allowed) = (offsets.len() - 1, format!("{}, the number of indices", indices.len()));
        return Err(Error::value(row, "offset", allowed, offsets[row]));
    }
    if let Some(row) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        let allowed = format!("at most the next one, {}", offsets[row + 1]);
        return Err(Error::value(row, "offset", allowed, offsets[row]));
    }
    // Checks all at once, which is fast; goes one by one only to find the error.
    let in_order = |pair: &[usize]| {
        let row = &indices[pair[0]..pair[1]];
        row.is_sorted_by(|a, b| a < b) && row.last().is_none_or(|&last| (last as usize) < features)
    };
    if values.iter().all(|v| v.is_finite()) && offsets.windows(2).all(in_order) {
        return Ok(());
    }
    check_entries(offsets, indices, values, features)
}

/// Fails at the first entry of sparse rows that is not allowed.
fn check_entries(offsets: &[usize], indices: &[u32], values: &[f32], features: usize) -> Result<()> {
    for (row, pair) in offsets.windows(2).enumerate() {
        let mut next = 0;
        for i in pair[0]..pair[1] {
            let index = indices[i] as usize;
            if index >= features {
                return Err(Error::value(row, "feature index", format!("below {features}"), index));
            }
            if index < next {
                let allowed = format!("strictly increasing (at least {next} here)");
                return Err(Error::value(row, "feature index", allowed, index));
            }
            next = index + 1;
            if !values[i].is_finite() {
                return Err(not_finite(row, index, values[i]));
            }
        }
    }
    Ok(())
}

fn not_finite(row: usize, feature: usize, value: f32) -> Error {
    Error::value(row, format!("feature {feature}"), "finite", value)
}

#[cfg(test)]
mod tests;
