//! ENCODING: how the columns of a record become the features of a context.
//!
//! An encoding is fitted once, to records that are then set aside ([`EncodingFit`]), and goes with the policy: the same raw
//! record gives the same features ever after. What was not seen when it was fitted (a category, a missing number) has an
//! encoding too, and none is an error.

mod fit;

pub(crate) use fit::LIST;
pub(crate) use fit::among;
pub use fit::{EncodingFit, EncodingSettings};

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use surefoot::Contexts;
use twox_hash::XxHash64;

use crate::column::{Column, Lists};
use crate::error::Result;
use crate::logs::LogBatch;

/// The features that one column of the records becomes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Field {
    /// `(x - mean)/scale`, 0 where it is missing; with `indicator`, a second feature that is 1 where it is missing.
    Number {
        /// The column.
        column: String,
        /// What is subtracted.
        mean: f64,
        /// What it is divided by.
        scale: f64,
        /// Whether there is a feature for missing values.
        indicator: bool,
    },
    /// One feature a category, of which one is 1; all are 0 where it is missing or not among them.
    OneHot {
        /// The column.
        column: String,
        /// The categories.
        categories: Vec<String>,
    },
    /// `2^bits` features, of which the one at `XXH64("column=category") mod 2^bits` is 1.
    Hashed {
        /// The column.
        column: String,
        /// The logarithm of their number.
        bits: u32,
    },
    /// The numbers of a list.
    Vector {
        /// The column.
        column: String,
        /// How many there are.
        width: usize,
    },
    /// Numbers at given places, 0 elsewhere.
    Sparse {
        /// The column with the places.
        indices: String,
        /// The column with the numbers.
        values: String,
        /// One more than the largest place.
        width: usize,
    },
    /// Numbers with names, each added to the feature at `XXH64("name") mod 2^bits`.
    Named {
        /// The column with the names.
        names: String,
        /// The column with the numbers.
        values: String,
        /// The logarithm of the number of features.
        bits: u32,
    },
}

impl Field {
    fn width(&self) -> usize {
        match self {
            Field::Number { indicator, .. } => 1 + usize::from(*indicator),
            Field::OneHot { categories, .. } => categories.len(),
            Field::Hashed { bits, .. } | Field::Named { bits, .. } => 1 << bits,
            Field::Vector { width, .. } | Field::Sparse { width, .. } => *width,
        }
    }

    /// Whether most of its features are 0.
    fn is_sparse(&self) -> bool {
        !matches!(self, Field::Number { .. } | Field::Vector { .. })
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
            _ => Ok(()),
        }
    }
}

/// The most bits of a hash: a million features.
pub(crate) const MOST_BITS: u32 = 20;

/// Where a hashed name is put.
fn place(name: &[&[u8]], bits: u32) -> u32 {
    use std::hash::Hasher as _;
    let mut hasher = XxHash64::with_seed(0);
    name.iter().for_each(|part| hasher.write(part));
    (hasher.finish() & ((1 << bits) - 1)) as u32
}

/// How records become contexts: the features of all fields, one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Encoding {
    fields: Vec<Field>,
}

impl Encoding {
    /// These fields, in their order.
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

    /// What each feature is called.
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
        };
        self.fields.iter().flat_map(names).collect()
    }

    /// Room for encoded records.
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

    /// Adds the contexts of a batch to those before it.
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

/// The most features of an encoding.
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

    /// Adds a record; entries of the same place are added up.
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

    /// The contexts; what the core refuses is said of the batch that came last.
    pub fn finish(self, batch: &LogBatch) -> Result<Contexts> {
        self.contexts().map_err(|reason| batch.refused(reason))
    }

    /// The contexts.
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
    /// The place of each record's 1, after the first feature of the field.
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
    /// No record has any.
    Nothing,
}

impl<'a> Encoded<'a> {
    fn new(field: &Field, batch: &'a LogBatch) -> Result<Self> {
        let missing = || Ok(Encoded::Nothing);
        match field {
            Field::Number { column, mean, scale, indicator } => {
                let Some(column) = batch.feature(column)? else {
                    return Ok(Encoded::Category(vec![indicator.then_some(1); batch.len()]));
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
        }
    }

    /// Numbers, and as many places in each record.
    fn entries(column: Column<'a>, places: Vec<u32>, offsets: &[usize], lists: Lists<f64>) -> Result<Self> {
        match (0..lists.len()).find(|&i| lists.offsets[i + 1] != offsets[i + 1]) {
            Some(i) => {
                let (allowed, found) = (offsets[i + 1] - offsets[i], lists.get(i).len());
                Err(column.error(i, format!("{allowed} numbers, one a place"), found))
            }
            None => Ok(Encoded::Entries { column, places, lists }),
        }
    }

    /// The entries of a record; the features of this field begin at `first`.
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
            Encoded::Nothing => {}
        }
        Ok(())
    }
}
