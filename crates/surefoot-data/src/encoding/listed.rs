//! Named features, as in dsjson and in Vowpal Wabbit's text: each record lists the names and values of those that are
//! not 0.
//!
//! Such a record holds the same data as a record with a column per name. A column of numbers is listed by its name, and
//! a text as `column=text` with the value 1. So both are encoded alike, and give the same policy.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::encode::place;
use super::identity::Values;
use super::{EncodingSettings, Field, Identity, MOST_BITS, NAMES, VALUES, among};
use crate::column::{Column, Lists};
use crate::error::Result;
use crate::moments::Moments;

/// The features made from one name, or from all names `name=category`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum NamedPart {
    /// `(x - mean)/scale`, where `x` is 0 for a record that does not list the name.
    Number {
        /// The name.
        name: String,
        /// The value to subtract.
        mean: f64,
        /// The value to divide by.
        scale: f64,
    },
    /// One feature per category: the value of `name=category`.
    OneHot {
        /// The part of the names before `=`.
        name: String,
        /// The categories.
        categories: Vec<String>,
    },
    /// `2^bits` features: the value of each `name=category` is added at `XXH64("name=category") mod 2^bits`.
    Hashed {
        /// The part of the names before `=`.
        name: String,
        /// The base-2 logarithm of the number of features.
        bits: u32,
    },
}

impl NamedPart {
    pub(super) fn width(&self) -> usize {
        match self {
            NamedPart::Number { .. } => 1,
            NamedPart::OneHot { categories, .. } => categories.len(),
            NamedPart::Hashed { bits, .. } => 1 << bits,
        }
    }

    pub(super) fn check(&self) -> std::result::Result<(), String> {
        match self {
            NamedPart::Number { name, mean, scale } if !(mean.is_finite() && *scale > 0.0 && scale.is_finite()) => {
                Err(format!("{name} should have a finite mean and a scale above 0, but has {mean} and {scale}"))
            }
            NamedPart::OneHot { name, categories } if !categories.is_sorted_by(|a, b| a < b) => {
                Err(format!("the categories of {name} should be in order and different, but are not"))
            }
            NamedPart::Hashed { name, bits } if *bits > MOST_BITS => {
                Err(format!("the bits of {name} should be at most {MOST_BITS}, but are {bits}"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn names(&self) -> Vec<String> {
        match self {
            NamedPart::Number { name, .. } => vec![name.clone()],
            NamedPart::OneHot { name, categories } => categories.iter().map(|c| format!("{name}={c}")).collect(),
            NamedPart::Hashed { name, bits } => (0..1 << bits).map(|i| format!("{name}#[{i}]")).collect(),
        }
    }

    /// The name and number of the values that it lists, if any.
    pub(super) fn vocabulary(&self) -> Option<(&str, usize)> {
        match self {
            NamedPart::OneHot { name, categories } => Some((name, categories.len())),
            NamedPart::Number { .. } | NamedPart::Hashed { .. } => None,
        }
    }

    /// The name as a column would have it.
    pub(super) fn column(&self) -> &str {
        match self {
            NamedPart::Number { name, .. } | NamedPart::OneHot { name, .. } | NamedPart::Hashed { name, .. } => name,
        }
    }
}

/// Where the value of a name goes.
#[derive(Debug, Clone, Copy)]
enum Target {
    /// To this number.
    Number(usize),
    /// To this feature.
    Feature(u32),
}

/// The cells of the names and values of a batch.
pub(super) struct Cells<'a> {
    values: Column<'a>,
    names: Lists<String>,
    lists: Lists<f64>,
    /// The feature, mean and scale of each number.
    numbers: Vec<(u32, f64, f64)>,
    targets: HashMap<String, Target>,
    /// The first feature and the bits of the names that are hashed, by what is before `=`.
    hashed: HashMap<String, (u32, u32)>,
}

impl<'a> Cells<'a> {
    pub(super) fn new(parts: &[NamedPart], values: Column<'a>, names: Lists<String>, lists: Lists<f64>) -> Self {
        let (mut numbers, mut targets, mut hashed) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut first = 0u32;
        for part in parts {
            match part {
                NamedPart::Number { name, mean, scale } => {
                    targets.insert(name.clone(), Target::Number(numbers.len()));
                    numbers.push((first, *mean, *scale));
                }
                NamedPart::OneHot { name, categories } => targets.extend(
                    (first..).zip(categories).map(|(i, category)| (format!("{name}={category}"), Target::Feature(i))),
                ),
                NamedPart::Hashed { name, bits } => {
                    hashed.insert(name.clone(), (first, *bits));
                }
            }
            first += part.width() as u32;
        }
        Cells { values, names, lists, numbers, targets, hashed }
    }

    /// Appends the entries of a record; the features of this field begin at `start`.
    pub(super) fn put(&self, i: usize, start: u32, entries: &mut Vec<(u32, f32)>) -> Result<()> {
        let finite = |x: f64| match (x as f32).is_finite() {
            true => Ok(x as f32),
            false => Err(self.values.error(i, "finite, within the range of f32", x)),
        };
        let mut sums = vec![0.0; self.numbers.len()];
        for (name, &x) in self.names.get(i).iter().zip(self.lists.get(i)) {
            match self.targets.get(name) {
                Some(&Target::Number(number)) => sums[number] += x,
                Some(&Target::Feature(feature)) => entries.push((start + feature, finite(x)?)),
                None => {
                    let known = name.split_once('=').and_then(|(before, _)| self.hashed.get(before));
                    if let Some(&(first, bits)) = known {
                        entries.push((start + first + place(&[name.as_bytes()], bits), finite(x)?));
                    }
                }
            }
        }
        for (&(feature, mean, scale), sum) in self.numbers.iter().zip(sums) {
            let x = finite((sum - mean) / scale)?;
            if x != 0.0 {
                entries.push((start + feature, x));
            }
        }
        Ok(())
    }
}

/// Appends the entries of one record, which lists these names and values; the features begin at `start`. It looks at all
/// parts for every name, and needs no index of them.
pub(super) fn put_parts(
    parts: &[NamedPart],
    pairs: &[(&str, f64)],
    start: u32,
    entries: &mut Vec<(u32, f32)>,
    finite: &dyn Fn(f64) -> Result<f32>,
) -> Result<()> {
    let mut first = start;
    for part in parts {
        match part {
            NamedPart::Number { name, mean, scale } => {
                let sum: f64 = pairs.iter().filter(|(found, _)| found == name).map(|(_, x)| x).sum();
                let x = finite((sum - mean) / scale)?;
                if x != 0.0 {
                    entries.push((first, x));
                }
            }
            NamedPart::OneHot { name, categories } => {
                for (text, x) in pairs {
                    let category = text.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('='));
                    let known = category.and_then(|c| categories.binary_search_by(|known| known.as_str().cmp(c)).ok());
                    if let Some(place) = known {
                        entries.push((first + place as u32, finite(*x)?));
                    }
                }
            }
            NamedPart::Hashed { name, bits } => {
                for (text, x) in pairs.iter().filter(|(text, _)| text.split_once('=').is_some_and(|(b, _)| b == name)) {
                    entries.push((first + place(&[text.as_bytes()], *bits), finite(*x)?));
                }
            }
        }
        first += part.width() as u32;
    }
    Ok(())
}

/// The largest number of names with features of their own, where all `name=category` are one. With more, every name is
/// hashed.
const MOST_NAMED: usize = 1024;

/// The bits of the hash of a namespace with more names, if the namespaces are apart.
const NAMESPACE_BITS: u32 = 16;

/// What has been seen of a name so far.
#[derive(Debug, Default)]
struct Seen {
    numbers: Moments,
}

impl Seen {
    /// Adds the value of a record; the records before it that did not list the name had 0.
    fn add(&mut self, record: usize, x: f64) {
        self.zeros(record);
        self.numbers.add(x);
    }

    /// Counts 0 for all records before `record` that were not added.
    fn zeros(&mut self, record: usize) {
        let left = record as f64 - self.numbers.count;
        if left > 0.0 {
            self.numbers.merge(&Moments::zeros(left));
        }
    }
}

/// All names `name=category`.
#[derive(Debug, Default)]
struct Group {
    /// The categories, at most one more than the vocabulary allows.
    categories: BTreeSet<String>,
    /// Whether some value was not 1. Then these are not categories.
    weighted: bool,
    /// Whether the categories look like identities.
    values: Values,
}

/// Fits the parts to records.
#[derive(Debug, Default)]
pub(super) struct ListedFit {
    /// The names and the groups, in the order in which they first appeared.
    order: Vec<(String, bool)>,
    seen: HashMap<String, Seen>,
    groups: HashMap<String, Group>,
    records: usize,
    /// Whether there are too many names.
    full: bool,
}

impl ListedFit {
    /// Adds the records of a batch.
    pub(super) fn add(&mut self, names: &Lists<String>, values: &Lists<f64>, settings: &EncodingSettings) {
        for i in 0..names.len() {
            let mut sums: Vec<(&str, f64)> = Vec::new();
            let mut places: HashMap<&str, usize> = HashMap::new();
            for (name, &x) in names.get(i).iter().zip(values.get(i)) {
                match places.get(name.as_str()) {
                    Some(&place) => sums[place].1 += x,
                    None => {
                        places.insert(name, sums.len());
                        sums.push((name, x));
                    }
                }
            }
            sums.into_iter().for_each(|(name, x)| self.value(name, x, settings));
            self.records += 1;
        }
    }

    fn value(&mut self, name: &str, x: f64, settings: &EncodingSettings) {
        if self.full {
            return;
        }
        if let Some((before, category)) = name.split_once('=') {
            if !self.groups.contains_key(before) {
                self.order.push((before.to_owned(), true));
            }
            let group = self.groups.entry(before.to_owned()).or_default();
            group.weighted |= x != 1.0;
            group.values.add(category);
            if group.categories.len() > settings.vocabulary {
                // A group with so many names must be hashed, which weights do not change.
                return;
            }
            group.categories.insert(category.to_owned());
        } else if !self.seen.contains_key(name) {
            self.order.push((name.to_owned(), false));
        }
        self.seen.entry(name.to_owned()).or_default().add(self.records, x);
        self.full = self.order.len() > MOST_NAMED;
    }

    /// Whether there are too many names for features of their own.
    pub(super) fn is_hashed(&self) -> bool {
        self.full
    }

    /// Whether no record has a name.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The groups that look like identities, and why. They are hashed.
    pub(super) fn identities(&self) -> Vec<(String, Identity)> {
        let found = |(name, _): &(String, bool)| Some((name.clone(), self.groups.get(name)?.values.identity()?));
        self.order.iter().filter_map(found).collect()
    }

    /// A fit that begins after some records, none of which has its names.
    pub(super) fn after(records: usize) -> Self {
        ListedFit { records, ..ListedFit::default() }
    }

    /// The field, with every name hashed if there are too many. It is for all names, or for those of a namespace.
    pub(super) fn finish(mut self, settings: &EncodingSettings, namespace: Option<String>) -> Field {
        let (names, values) = (NAMES.to_owned(), VALUES.to_owned());
        if self.full || self.order.is_empty() {
            let least = if namespace.is_some() { NAMESPACE_BITS } else { 10 };
            return Field::Named { names, values, bits: settings.hash_bits.max(least), namespace };
        }
        let records = self.records;
        let number = |seen: &mut HashMap<String, Seen>, name: String| {
            let mut found = seen.remove(&name).unwrap_or_default();
            found.zeros(records);
            let numbers = found.numbers;
            let (mean, scale) = match settings.standardise {
                true => (numbers.mean().unwrap_or(0.0), numbers.scale()),
                false => (0.0, 1.0),
            };
            NamedPart::Number { name, mean, scale }
        };
        let mut parts = Vec::new();
        for (name, grouped) in self.order {
            let Group { categories, weighted, values } = match grouped {
                true => self.groups.remove(&name).unwrap_or_default(),
                false => {
                    parts.push(number(&mut self.seen, name));
                    continue;
                }
            };
            let hidden = values.identity().is_some() && !among(&settings.categorical, &name);
            if categories.len() > settings.vocabulary || hidden {
                parts.push(NamedPart::Hashed { name, bits: settings.hash_bits });
            } else if weighted {
                parts.extend(categories.into_iter().map(|c| number(&mut self.seen, format!("{name}={c}"))));
            } else {
                parts.push(NamedPart::OneHot { name, categories: categories.into_iter().collect() });
            }
        }
        Field::Listed { names, values, parts }
    }
}
