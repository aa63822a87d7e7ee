//! The storage of contexts: consecutive rows, dense or sparse, with their norms.

use std::ops::Range;

use super::column::Column;

/// One feature row.
#[derive(Debug, Clone, Copy)]
pub enum Row<'a> {
    /// All features.
    Dense(&'a [f32]),
    /// The non-zero features only.
    Sparse {
        /// The indices of the features, strictly increasing.
        indices: Indices<'a>,
        /// Their values.
        values: &'a [f32],
    },
}

/// The feature indices of a sparse row, in the smallest type that can index every feature of the contexts.
#[derive(Debug, Clone, Copy)]
pub enum Indices<'a> {
    /// For at most 65,536 features.
    Narrow(&'a [u16]),
    /// For more features.
    Wide(&'a [u32]),
}

impl Indices<'_> {
    /// The index at a place.
    fn at(self, place: usize) -> usize {
        match self {
            Indices::Narrow(indices) => usize::from(indices[place]),
            Indices::Wide(indices) => indices[place] as usize,
        }
    }

    /// The number of indices below `feature`.
    fn below(self, feature: usize) -> usize {
        match self {
            Indices::Narrow(indices) => indices.partition_point(|&f| usize::from(f) < feature),
            Indices::Wide(indices) => indices.partition_point(|&f| (f as usize) < feature),
        }
    }
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
            Row::Sparse { indices: Indices::Narrow(indices), values } => {
                for (&f, &v) in indices.iter().zip(values) {
                    visit(usize::from(f), f64::from(v));
                }
            }
            Row::Sparse { indices: Indices::Wide(indices), values } => {
                for (&f, &v) in indices.iter().zip(values) {
                    visit(f as usize, f64::from(v));
                }
            }
        }
    }

    /// Calls `visit(feature, value)` for every stored feature of a range, in order.
    pub(crate) fn for_each_in(self, range: Range<usize>, mut visit: impl FnMut(usize, f32)) {
        let (values, from) = match self {
            Row::Dense(x) => (&x[range.clone()], 0),
            Row::Sparse { indices, values } => {
                let from = indices.below(range.start);
                (&values[from..indices.below(range.end)], from)
            }
        };
        for (i, &v) in values.iter().enumerate() {
            let feature = match self {
                Row::Dense(_) => range.start + i,
                Row::Sparse { indices, .. } => indices.at(from + i),
            };
            visit(feature, v);
        }
    }

    /// The value of one feature.
    pub(crate) fn value(self, feature: usize) -> f32 {
        match self {
            Row::Dense(x) => x[feature],
            Row::Sparse { indices, values } => {
                let place = indices.below(feature);
                if place < values.len() && indices.at(place) == feature { values[place] } else { 0.0 }
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

/// Rows, to which more values can be added one by one.
#[derive(Debug)]
pub(super) struct Storage {
    pub(super) features: usize,
    values: Column<f32>,
    /// For sparse rows only; dense rows hold every feature.
    places: Option<Places>,
    pub(super) norms: Column<f64>,
}

/// Row `i` is `offsets[i]..offsets[i + 1]` of the indices and values; indices strictly increase within a row.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) offsets: Column<usize>,
    pub(super) indices: IndexColumn,
}

/// The feature indices of sparse rows, in the smallest type that can index every feature.
#[derive(Debug)]
pub enum IndexColumn {
    /// For at most [`IndexColumn::NARROW`] features.
    Narrow(Column<u16>),
    /// For more features.
    Wide(Column<u32>),
}

impl IndexColumn {
    /// The largest number of features whose indices fit in 16 bits.
    pub const NARROW: usize = 1 << 16;

    /// The number of indices.
    pub(super) fn len(&self) -> usize {
        match self {
            IndexColumn::Narrow(indices) => indices.len(),
            IndexColumn::Wide(indices) => indices.len(),
        }
    }

    fn slice(&self, range: Range<usize>) -> Indices<'_> {
        match self {
            IndexColumn::Narrow(indices) => Indices::Narrow(&indices[range]),
            IndexColumn::Wide(indices) => Indices::Wide(&indices[range]),
        }
    }
}

impl Storage {
    /// Dense rows.
    pub(super) fn dense(features: usize, values: Column<f32>) -> Self {
        let norms = norms(&values, features).into();
        Storage { features, values, places: None, norms }
    }

    /// Sparse rows from parts that were already checked.
    pub(super) fn sparse(features: usize, offsets: Vec<usize>, indices: Vec<u32>, values: Vec<f32>) -> Self {
        let norms = offsets.windows(2).map(|pair| norm(&values[pair[0]..pair[1]])).collect::<Vec<f64>>().into();
        let indices = if features <= IndexColumn::NARROW {
            IndexColumn::Narrow(narrowed(indices).into())
        } else {
            IndexColumn::Wide(indices.into())
        };
        Storage { features, values: values.into(), places: Some(Places { offsets: offsets.into(), indices }), norms }
    }

    /// Sparse rows from borrowed parts; the part that is kept is copied.
    pub(super) fn copied(features: usize, offsets: Vec<usize>, indices: &[u32], values: &[f32]) -> Self {
        let norms = offsets.windows(2).map(|pair| norm(&values[pair[0]..pair[1]])).collect::<Vec<f64>>().into();
        let indices = if features <= IndexColumn::NARROW {
            IndexColumn::Narrow(indices.iter().map(|&f| f as u16).collect::<Vec<u16>>().into())
        } else {
            IndexColumn::Wide(indices.to_vec().into())
        };
        let places = Some(Places { offsets: offsets.into(), indices });
        Storage { features, values: values.to_vec().into(), places, norms }
    }

    /// Rows in columns that were already checked.
    pub(super) fn of(features: usize, values: Column<f32>, norms: Column<f64>, places: Option<Places>) -> Self {
        Storage { features, values, places, norms }
    }

    /// Empty storage with room for this many rows and stored values, and no more: growing would hold the values twice.
    pub(super) fn with_room(sparse: bool, features: usize, rows: usize, stored: usize) -> Self {
        let places = sparse.then(|| {
            let mut offsets = Vec::with_capacity(rows + 1);
            offsets.push(0);
            let indices = if features <= IndexColumn::NARROW {
                IndexColumn::Narrow(Vec::with_capacity(stored).into())
            } else {
                IndexColumn::Wide(Vec::with_capacity(stored).into())
            };
            Places { offsets: offsets.into(), indices }
        });
        let values = Vec::with_capacity(if sparse { stored } else { rows * features }).into();
        Storage { features, values, places, norms: Vec::with_capacity(rows).into() }
    }

    /// Adds a value to the current row; features must come in increasing order.
    #[inline]
    pub(super) fn push(&mut self, feature: usize, value: f32) {
        match &mut self.places {
            None => self.values.own().resize(self.norms.len() * self.features + feature, 0.0),
            Some(Places { indices: IndexColumn::Narrow(indices), .. }) => indices.own().push(feature as u16),
            Some(Places { indices: IndexColumn::Wide(indices), .. }) => indices.own().push(feature as u32),
        }
        self.values.own().push(value);
    }

    /// The first features of the current row, of dense storage, in one piece.
    pub(super) fn begin_row(&mut self, values: &[f32]) {
        self.values.own().extend_from_slice(values);
    }

    /// Finishes the current row.
    pub(super) fn end_row(&mut self) {
        let start = match &mut self.places {
            None => {
                let start = self.norms.len() * self.features;
                self.values.own().resize(start + self.features, 0.0);
                start
            }
            Some(places) => {
                places.offsets.own().push(self.values.len());
                places.offsets[self.norms.len()]
            }
        };
        let size = norm(&self.values[start..]);
        self.norms.own().push(size);
    }

    pub(super) fn is_sparse(&self) -> bool {
        self.places.is_some()
    }

    pub(super) fn row(&self, i: usize) -> Row<'_> {
        match &self.places {
            None => Row::Dense(&self.values[i * self.features..(i + 1) * self.features]),
            Some(Places { offsets, indices }) => {
                let range = offsets[i]..offsets[i + 1];
                let values = &self.values[range.clone()];
                Row::Sparse { indices: indices.slice(range), values }
            }
        }
    }

    /// Divides each row by its norm; rows of zeros stay as they are.
    pub(super) fn normalise(&mut self) {
        let mut rest = &mut self.values.own()[..];
        for (i, size) in self.norms.own().iter_mut().enumerate() {
            let length = self.places.as_ref().map_or(self.features, |p| p.offsets[i + 1] - p.offsets[i]);
            let row = rest.split_off_mut(..length).expect("the rows are one after the other");
            if *size > 0.0 {
                let factor = 1.0 / *size;
                row.iter_mut().for_each(|v| *v = (f64::from(*v) * factor) as f32);
                *size = norm(row);
            }
        }
    }
}

/// The Euclidean norm of a row.
pub(super) fn norm(row: &[f32]) -> f64 {
    row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
}

/// The norms of dense rows, with the bits of [`norm`]. It adds up several rows at once: each addition of a sum waits for the one
/// before.
fn norms(values: &[f32], features: usize) -> Vec<f64> {
    const ROWS: usize = 8;
    let mut norms = Vec::with_capacity(values.len() / features);
    let mut groups = values.chunks_exact(ROWS * features);
    for group in &mut groups {
        let rows: [&[f32]; ROWS] = std::array::from_fn(|row| &group[row * features..(row + 1) * features]);
        let mut sums = [0.0; ROWS];
        for f in 0..features {
            for (sum, row) in sums.iter_mut().zip(rows) {
                *sum += f64::from(row[f]) * f64::from(row[f]);
            }
        }
        norms.extend(sums.map(f64::sqrt));
    }
    norms.extend(groups.remainder().chunks_exact(features).map(norm));
    norms
}

/// The same numbers, all below 65,536, in half the memory. Converts from the end and frees what was read on the way.
/// Holding both lists at once would be the memory peak of a run.
fn narrowed(mut wide: Vec<u32>) -> Vec<u16> {
    let mut narrow = vec![0; wide.len()];
    let step = wide.len().div_ceil(16).max(1);
    while !wide.is_empty() {
        let rest = wide.len().saturating_sub(step);
        for (narrow, &wide) in narrow[rest..].iter_mut().zip(&wide[rest..]) {
            *narrow = wide as u16;
        }
        wide.truncate(rest);
        wide.shrink_to_fit();
    }
    narrow
}
