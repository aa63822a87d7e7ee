//! ENCODING: how the columns of a record become the features of a context.
//!
//! An encoding is fitted once, to records that are then set aside ([`EncodingFit`]), and is saved with the policy. The
//! same raw record always gives the same features. Values that did not occur when the encoding was fitted (a new
//! category, a missing number) are encoded too; they are not errors.

mod fit;
mod identity;
mod listed;

pub(crate) use fit::LIST;
pub(crate) use fit::among;
pub use fit::{EncodingFit, EncodingSettings};
use fit::{NAMES, VALUES};
pub use identity::Identity;
pub use listed::NamedPart;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use surefoot::Contexts;
use twox_hash::XxHash64;

use crate::column::{Column, Lists};
use crate::error::Result;
use crate::logs::LogBatch;

/// The features made from one column of the records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Field {
    /// `(x - mean)/scale`, 0 where the value is missing. With `indicator` there is a second feature, which is 1 where
    /// the value is missing.
    Number {
        /// The column.
        column: String,
        /// The value to subtract.
        mean: f64,
        /// The value to divide by.
        scale: f64,
        /// Whether there is a second feature that marks missing values.
        indicator: bool,
    },
    /// One feature per category: 1 for the record's category, 0 for all others. All are 0 if the category is missing or
    /// unknown.
    OneHot {
        /// The column.
        column: String,
        /// The categories.
        categories: Vec<String>,
    },
    /// `2^bits` features: 1 at `XXH64("column=category") mod 2^bits`, 0 elsewhere.
    Hashed {
        /// The column.
        column: String,
        /// The base-2 logarithm of the number of features.
        bits: u32,
    },
    /// The entries of a list of numbers.
    Vector {
        /// The column.
        column: String,
        /// The length of the list.
        width: usize,
    },
    /// Numbers at given indices, 0 elsewhere.
    Sparse {
        /// The column with the indices.
        indices: String,
        /// The column with the numbers.
        values: String,
        /// The number of features: one more than the largest index.
        width: usize,
    },
    /// Numbers with names. Each is added to the feature at `XXH64("name") mod 2^bits`.
    Named {
        /// The column with the names.
        names: String,
        /// The column with the numbers.
        values: String,
        /// The base-2 logarithm of the number of features.
        bits: u32,
    },
    /// Numbers with names, of which there are few enough for features of their own. Names that did not occur when the
    /// encoding was fitted give no feature.
    Listed {
        /// The column with the names.
        names: String,
        /// The column with the numbers.
        values: String,
        /// The features made from each name.
        parts: Vec<NamedPart>,
    },
}

impl Field {
    fn width(&self) -> usize {
        match self {
            Field::Number { indicator, .. } => 1 + usize::from(*indicator),
            Field::OneHot { categories, .. } => categories.len(),
            Field::Hashed { bits, .. } | Field::Named { bits, .. } => 1 << bits,
            Field::Vector { width, .. } | Field::Sparse { width, .. } => *width,
            Field::Listed { parts, .. } => parts.iter().map(NamedPart::width).sum(),
        }
    }

    /// Whether most of its features are 0.
    fn is_sparse(&self) -> bool {
        match self {
            Field::Number { .. } | Field::Vector { .. } => false,
            Field::Listed { parts, .. } => !parts.iter().all(|part| matches!(part, NamedPart::Number { .. })),
            _ => true,
        }
    }

    /// The columns of the records that it uses; for named features, the names.
    fn columns(&self) -> Vec<&str> {
        match self {
            Field::Number { column, .. }
            | Field::OneHot { column, .. }
            | Field::Hashed { column, .. }
            | Field::Vector { column, .. } => vec![column],
            Field::Sparse { indices, values, .. } => vec![indices, values],
            Field::Named { names, values, .. } => vec![names, values],
            Field::Listed { parts, .. } => parts.iter().map(NamedPart::column).collect(),
        }
    }

    /// The columns whose values it lists, and how many.
    pub(crate) fn vocabularies(&self) -> Vec<(&str, usize)> {
        match self {
            Field::OneHot { column, categories } => vec![(column, categories.len())],
            Field::Listed { parts, .. } => parts.iter().filter_map(NamedPart::vocabulary).collect(),
            _ => Vec::new(),
        }
    }

    fn check(&self) -> std::result::Result<(), String> {
        match self {
            Field::Number { column, mean, scale, .. } if !(mean.is_finite() && *scale > 0.0 && scale.is_finite()) => {
                Err(format!("{column} should have a finite mean and a scale above 0, but has {mean} and {scale}"))
            }
            Field::OneHot { column, categories } if !categories.is_sorted_by(|a, b| a < b) => {
                Err(format!("the categories of {column} should be in order and different, but are not"))
            }
            Field::Hashed { column: name, bits } | Field::Named { names: name, bits, .. } if *bits > MOST_BITS => {
                Err(format!("the bits of {name} should be at most {MOST_BITS}, but are {bits}"))
            }
            Field::Listed { parts, .. } => parts.iter().try_for_each(NamedPart::check),
            _ => Ok(()),
        }
    }
}

/// The largest number of hash bits: a million features.
pub(crate) const MOST_BITS: u32 = 20;

/// The feature index of a hashed name.
fn place(name: &[&[u8]], bits: u32) -> u32 {
    use std::hash::Hasher as _;
    let mut hasher = XxHash64::with_seed(0);
    name.iter().for_each(|part| hasher.write(part));
    (hasher.finish() & ((1 << bits) - 1)) as u32
}

/// How records become contexts: the features of all fields, concatenated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Encoding {
    fields: Vec<Field>,
}

impl Encoding {
    /// An encoding with these fields, in this order.
    pub fn new(fields: Vec<Field>) -> std::result::Result<Self, String> {
        fields.iter().try_for_each(Field::check)?;
        let encoding = Encoding { fields };
        let width = encoding.fields.iter().try_fold(0usize, |sum, field| sum.checked_add(field.width()));
        match width {
            Some(1..=MOST_FEATURES) => Ok(encoding),
            found => Err(format!(
                "there should be from 1 to {MOST_FEATURES} features, but there are {}",
                found.map_or("more".into(), |n| n.to_string())
            )),
        }
    }

    /// The fields.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The number of features.
    pub fn width(&self) -> usize {
        self.fields.iter().map(Field::width).sum()
    }

    /// The largest number of values of a record, apart from values that its own lists name.
    pub(crate) fn entries(&self) -> usize {
        if !self.fields.iter().any(Field::is_sparse) {
            return self.width();
        }
        let entries = |field: &Field| match field {
            Field::Number { .. } | Field::OneHot { .. } | Field::Hashed { .. } => 1,
            Field::Vector { width, .. } => *width,
            Field::Listed { parts, .. } => parts.iter().map(NamedPart::width).sum(),
            Field::Sparse { .. } | Field::Named { .. } => 0,
        };
        self.fields.iter().map(entries).sum()
    }

    /// The columns that become features, in order. Named features count as columns, unless they are hashed.
    pub fn columns(&self) -> Vec<&str> {
        self.fields.iter().flat_map(Field::columns).collect()
    }

    /// The name of each feature.
    pub fn names(&self) -> Vec<String> {
        let numbered = |column: &str, n: usize| -> Vec<String> { (0..n).map(|i| format!("{column}[{i}]")).collect() };
        let names = |field: &Field| match field {
            Field::Number { column, indicator, .. } => {
                let missing = indicator.then(|| format!("{column} is missing"));
                [column.clone()].into_iter().chain(missing).collect()
            }
            Field::OneHot { column, categories } => categories.iter().map(|c| format!("{column}={c}")).collect(),
            Field::Hashed { column, bits } => numbered(&format!("{column}#"), 1 << bits),
            Field::Named { names, bits, .. } => numbered(&format!("{names}#"), 1 << bits),
            Field::Vector { column, width } => numbered(column, *width),
            Field::Sparse { values, width, .. } => numbered(values, *width),
            Field::Listed { parts, .. } => parts.iter().flat_map(NamedPart::names).collect(),
        };
        self.fields.iter().flat_map(names).collect()
    }

    /// An empty buffer for encoded records.
    pub fn rows(&self) -> Rows {
        Rows {
            width: self.width(),
            sparse: self.fields.iter().any(Field::is_sparse),
            offsets: vec![0],
            indices: Vec::new(),
            values: Vec::new(),
        }
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

/// The largest number of features of an encoding.
const MOST_FEATURES: usize = 1 << 24;

/// Encoded records.
#[derive(Debug, Clone)]
pub struct Rows {
    width: usize,
    sparse: bool,
    offsets: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

impl Rows {
    /// The number of records.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a record. Entries with the same index are summed.
    fn push(&mut self, entries: &mut [(u32, f32)]) {
        if !self.sparse {
            let from = self.values.len();
            self.values.resize(from + self.width, 0.0);
            entries.iter().for_each(|&(place, value)| self.values[from + place as usize] += value);
            self.offsets.push(0);
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
        if self.sparse {
            return Contexts::sparse(self.offsets, self.indices, self.values, self.width).map(Contexts::compact);
        }
        Contexts::dense(self.values, self.width)
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
            Field::Named { names, values, bits } => {
                let (Some(names), Some(values)) = (batch.feature(names)?, batch.feature(values)?) else {
                    return missing();
                };
                let (found, lists) = (names.text_lists()?, values.lists()?);
                let places = found.values.iter().map(|name| place(&[name.as_bytes()], *bits)).collect();
                Self::entries(values, places, &found.offsets, lists)
            }
            Field::Listed { names, values, parts } => {
                let (Some(names), Some(values)) = (batch.feature(names)?, batch.feature(values)?) else {
                    return missing();
                };
                let (found, lists) = (names.text_lists()?, values.lists()?);
                matching(&values, &found.offsets, &lists)?;
                Ok(Encoded::Listed(Box::new(listed::Cells::new(parts, values, found, lists))))
            }
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
        }
        Ok(())
    }
}

/// Checks that each list of numbers is as long as the list of their indices or names.
fn matching(column: &Column<'_>, offsets: &[usize], lists: &Lists<f64>) -> Result<()> {
    match (0..lists.len()).find(|&i| lists.offsets[i + 1] != offsets[i + 1]) {
        None => Ok(()),
        Some(i) => {
            let (allowed, found) = (offsets[i + 1] - offsets[i], lists.get(i).len());
            Err(column.error(i, format!("{allowed} numbers, one per index"), found))
        }
    }
}
