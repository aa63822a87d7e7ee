//! From records to contexts.

use std::borrow::Cow;

use surefoot::Contexts;
use twox_hash::XxHash64;

use super::namespaces::prefix;
use super::{Encoding, Field, listed};
use crate::column::{Column, Lists};
use crate::error::Result;
use crate::logs::LogBatch;

/// The number of records of numbers that are encoded together.
const TOGETHER: usize = 512;

/// The feature index of a hashed name.
pub(super) fn place(name: &[&[u8]], bits: u32) -> u32 {
    use std::hash::Hasher as _;
    let mut hasher = XxHash64::with_seed(0);
    name.iter().for_each(|part| hasher.write(part));
    (hasher.finish() & ((1 << bits) - 1)) as u32
}

impl Encoding {
    /// An empty buffer for encoded records.
    pub fn rows(&self) -> Rows {
        Rows {
            width: self.width(),
            sparse: self.is_sparse(),
            records: 0,
            offsets: vec![0],
            indices: Vec::new(),
            values: Vec::new(),
        }
    }

    /// The number of bytes of an encoded record, at most.
    pub(crate) fn bytes(&self) -> u64 {
        let (sparse, entries) = (self.is_sparse(), self.entries() as u64);
        // A value, and for sparse rows its index and the end of the row; the norm, the action, the propensity, the cost.
        entries * if sparse { 8 } else { 4 } + if sparse { 8 } else { 0 } + 28
    }

    /// The contexts of a batch.
    pub fn encode(&self, batch: &LogBatch) -> Result<Contexts> {
        let mut rows = self.rows();
        self.encode_into(batch, &mut rows)?;
        rows.finish(batch)
    }

    /// Encodes a batch and appends the contexts to `rows`.
    pub fn encode_into(&self, batch: &LogBatch, rows: &mut Rows) -> Result<()> {
        let columns: Vec<Encoded<'_>> =
            self.fields.iter().map(|field| Encoded::new(field, batch)).collect::<Result<_>>()?;
        let numbers = !rows.sparse && columns.iter().all(|column| matches!(column, Encoded::Number { .. }));
        if numbers && rows.put_numbers(&columns, batch.len()) {
            return Ok(());
        }
        let mut entries = Vec::new();
        for i in 0..batch.len() {
            entries.clear();
            let mut first = 0;
            for (column, field) in columns.iter().zip(&self.fields) {
                column.put(i, first, &mut entries)?;
                first += field.width() as u32;
            }
            rows.push(&mut entries);
        }
        Ok(())
    }
}

/// Encoded records.
#[derive(Debug, Clone)]
pub struct Rows {
    width: usize,
    sparse: bool,
    records: usize,
    /// Where each record begins, with the end of the last one; for sparse rows only, as are `indices`.
    offsets: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

impl Rows {
    /// The number of records.
    pub fn len(&self) -> usize {
        self.records
    }

    /// Makes room for this many more records, if each has the same number of values: a buffer that grows by itself would hold
    /// all values twice for a moment.
    pub(crate) fn reserve(&mut self, records: usize) {
        if !self.sparse {
            self.values.reserve_exact(records * self.width);
        }
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds records of numbers alone, as [`push`](Self::push) would, but column by column. If some number does not fit, nothing
    /// is added.
    fn put_numbers(&mut self, columns: &[Encoded<'_>], records: usize) -> bool {
        let from = self.values.len();
        self.values.resize(from + records * self.width, 0.0);
        // Some rows at a time, so that they stay in the cache of the processor.
        for start in (0..records).step_by(TOGETHER) {
            let mut first = 0;
            for column in columns {
                let Encoded::Number { x, mean, scale, indicator, .. } = column else { continue };
                let rows = self.values[from + start * self.width..].chunks_exact_mut(self.width).take(TOGETHER);
                for (&x, row) in x[start..].iter().zip(rows) {
                    let value = ((x - mean) / scale) as f32;
                    if value.is_finite() {
                        // There is no negative zero, as in a sum from 0.
                        row[first] = value + 0.0;
                    } else if !x.is_nan() {
                        self.values.truncate(from);
                        return false;
                    } else if *indicator {
                        row[first + 1] = 1.0;
                    }
                }
                first += 1 + usize::from(*indicator);
            }
        }
        self.records += records;
        true
    }

    /// Adds a record. Entries with the same index are summed.
    pub(super) fn push(&mut self, entries: &mut [(u32, f32)]) {
        self.records += 1;
        if !self.sparse {
            let from = self.values.len();
            self.values.resize(from + self.width, 0.0);
            entries.iter().for_each(|&(place, value)| self.values[from + place as usize] += value);
            return;
        }
        entries.sort_by_key(|&(place, _)| place);
        let from = self.indices.len();
        for &(place, value) in entries.iter() {
            match self.indices[from..].last() {
                Some(&last) if last == place => *self.values.last_mut().expect("as many as indices") += value,
                _ => {
                    self.indices.push(place);
                    self.values.push(value);
                }
            }
        }
        self.offsets.push(self.indices.len());
    }

    /// Turns the rows into contexts. An error of the core names `batch`, the last batch, as its place.
    pub fn finish(self, batch: &LogBatch) -> Result<Contexts> {
        self.contexts().map_err(|reason| batch.refused(reason))
    }

    /// Turns the rows into contexts.
    pub fn contexts(self) -> surefoot::Result<Contexts> {
        let sparse = self.sparse;
        let contexts = self.uncompacted()?;
        Ok(if sparse { contexts.compact() } else { contexts })
    }

    /// Turns the rows into contexts of the form that the encoding has.
    pub(crate) fn uncompacted(self) -> surefoot::Result<Contexts> {
        match self.sparse {
            true => Contexts::sparse(self.offsets, self.indices, self.values, self.width),
            false => Contexts::dense(self.values, self.width),
        }
    }

    /// The number of features.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Whether only some features of a row are stored.
    pub(crate) fn is_sparse(&self) -> bool {
        self.sparse
    }
}

/// The cells of a field.
enum Encoded<'a> {
    Number {
        column: Column<'a>,
        x: Cow<'a, [f64]>,
        mean: f64,
        scale: f64,
        indicator: bool,
    },
    /// The index of the 1 of each record, relative to the first feature of the field.
    Category(Vec<Option<u32>>),
    Vector {
        column: Column<'a>,
        lists: Lists<f64>,
    },
    Entries {
        column: Column<'a>,
        places: Vec<u32>,
        lists: Lists<f64>,
    },
    /// No record of the batch has the column of numbers: each gets the indicator.
    Missing,
    Listed(Box<listed::Cells<'a>>),
    /// No record of the batch has the column.
    Nothing,
    /// 1 for each record.
    One,
}

impl<'a> Encoded<'a> {
    fn new(field: &Field, batch: &'a LogBatch) -> Result<Self> {
        let missing = || Ok(Encoded::Nothing);
        match field {
            Field::Number { column, mean, scale, indicator } => {
                let Some(column) = batch.feature(column)? else {
                    return Ok(if *indicator { Encoded::Missing } else { Encoded::Nothing });
                };
                let x = column.numbers()?;
                Ok(Encoded::Number { column, x, mean: *mean, scale: *scale, indicator: *indicator })
            }
            Field::OneHot { column, categories } => {
                let Some(column) = batch.feature(column)? else { return missing() };
                let find = |text: &str| categories.binary_search_by(|c| c.as_str().cmp(text)).ok().map(|i| i as u32);
                Ok(Encoded::Category(column.texts()?.into_iter().map(|text| find(&text?)).collect()))
            }
            Field::Hashed { column: name, bits } => {
                let Some(column) = batch.feature(name)? else { return missing() };
                let place = |text: &str| place(&[name.as_bytes(), b"=", text.as_bytes()], *bits);
                let texts = column.texts()?;
                Ok(Encoded::Category(texts.into_iter().map(|text| text.map(|text| place(&text))).collect()))
            }
            Field::Vector { column, width } => {
                let Some(column) = batch.feature(column)? else { return missing() };
                let lists = column.lists()?;
                match (0..lists.len()).find(|&i| lists.get(i).len() != *width) {
                    Some(i) => Err(column.error(i, format!("{width} numbers"), lists.get(i).len())),
                    None => Ok(Encoded::Vector { column, lists }),
                }
            }
            Field::Sparse { indices, values, width } => {
                let (Some(indices), Some(values)) = (batch.feature(indices)?, batch.feature(values)?) else {
                    return missing();
                };
                let (found, lists) = (indices.lists()?, values.lists()?);
                let mut places = Vec::with_capacity(found.values.len());
                for i in 0..found.len() {
                    for &x in found.get(i) {
                        let place = indices.whole(i, x)?;
                        if place as usize >= *width {
                            return Err(indices.error(i, format!("below {width}"), place));
                        }
                        places.push(place);
                    }
                }
                Self::entries(values, places, &found.offsets, lists)
            }
            Field::Named { names, values, bits, namespace } => {
                let (Some(names), Some(values)) = (batch.feature(names)?, batch.feature(values)?) else {
                    return missing();
                };
                let (found, lists) = (names.borrowed_text_lists()?, values.lists()?);
                let at = |name: &str| place(&[name.as_bytes()], *bits);
                let Some(namespace) = namespace else {
                    let places = found.values.iter().map(|name| at(name)).collect();
                    return Self::entries(values, places, &found.offsets, lists);
                };
                matching(&values, &found.offsets, &lists)?;
                let (mut places, mut kept) = (Vec::new(), Lists::new());
                for i in 0..found.len() {
                    for (name, &x) in found.get(i).iter().zip(lists.get(i)) {
                        if prefix(name) == namespace {
                            places.push(at(name));
                            kept.values.push(x);
                        }
                    }
                    kept.end();
                }
                Ok(Encoded::Entries { column: values, places, lists: kept })
            }
            Field::Listed { names, values, parts } => {
                let (Some(names), Some(values)) = (batch.feature(names)?, batch.feature(values)?) else {
                    return missing();
                };
                let (found, lists) = (names.text_lists()?, values.lists()?);
                matching(&values, &found.offsets, &lists)?;
                Ok(Encoded::Listed(Box::new(listed::Cells::new(parts, values, found, lists))))
            }
            Field::Constant {} => Ok(Encoded::One),
        }
    }

    /// Values with an index for each of them.
    fn entries(column: Column<'a>, places: Vec<u32>, offsets: &[usize], lists: Lists<f64>) -> Result<Self> {
        matching(&column, offsets, &lists)?;
        Ok(Encoded::Entries { column, places, lists })
    }

    /// Appends the entries of a record; the features of this field begin at `first`.
    fn put(&self, i: usize, first: u32, entries: &mut Vec<(u32, f32)>) -> Result<()> {
        let finite = |column: &Column<'_>, x: f64| match (x as f32).is_finite() {
            true => Ok(x as f32),
            false => Err(column.error(i, "finite, within the range of f32", x)),
        };
        match self {
            Encoded::Number { column, x, mean, scale, indicator } => {
                if !x[i].is_nan() {
                    entries.push((first, finite(column, (x[i] - mean) / scale)?));
                } else if *indicator {
                    entries.push((first + 1, 1.0));
                }
            }
            Encoded::Category(places) => entries.extend(places[i].map(|place| (first + place, 1.0))),
            Encoded::Vector { column, lists } => {
                for (f, &x) in lists.get(i).iter().enumerate() {
                    entries.push((first + f as u32, finite(column, x)?));
                }
            }
            Encoded::Entries { column, places, lists } => {
                let range = lists.offsets[i]..lists.offsets[i + 1];
                for (&place, &x) in places[range.clone()].iter().zip(&lists.values[range]) {
                    entries.push((first + place, finite(column, x)?));
                }
            }
            Encoded::Missing => entries.push((first + 1, 1.0)),
            Encoded::Listed(cells) => cells.put(i, first, entries)?,
            Encoded::Nothing => {}
            Encoded::One => entries.push((first, 1.0)),
        }
        Ok(())
    }
}

/// Checks that each list of numbers is as long as the list of their indices or names.
pub(super) fn matching(column: &Column<'_>, offsets: &[usize], lists: &Lists<f64>) -> Result<()> {
    match (0..lists.len()).find(|&i| lists.offsets[i + 1] != offsets[i + 1]) {
        None => Ok(()),
        Some(i) => {
            let (allowed, found) = (offsets[i + 1] - offsets[i], lists.get(i).len());
            Err(column.error(i, format!("{allowed} numbers, one per index"), found))
        }
    }
}
