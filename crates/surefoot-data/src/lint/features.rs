//! The features of candidates, and those that know too much.
//!
//! A feature must be known before the choice. If it is, the candidate with the largest value of the feature is chosen
//! with its propensity, so that `1{it was chosen}/q - 1` has the mean 0, whatever the logging policy. A mark of the
//! chosen candidate fails this by far.

use std::collections::HashMap;
use std::ops::Range;

use super::findings::{Finding, Severity, grouped, of, short};
use super::{LEVEL, normal};
use crate::column::Lists;
use crate::encoding::{NAMES, VALUES};
use crate::error::Result;
use crate::logs::{ID, LogBatch};

/// The largest number of features that are tracked.
const FEATURES: usize = 10_000;
/// The smallest number of records for a finding about a feature.
pub(super) const FEW: usize = 50;

/// What is known of a feature.
#[derive(Debug, Clone, Default)]
struct Feature {
    /// The number of records of two or more candidates in which it is not the same for all.
    records: usize,
    /// In how many of them it is the place, counted from 0 or from 1.
    places: [usize; 2],
    /// In how many of them it grows, or falls, from each candidate to the next.
    sorted: [usize; 2],
    /// The candidates with the largest and with the smallest value.
    extremes: [Extreme; 2],
    /// The number of identities for which it is not always the same.
    moved: usize,
}

/// How often the only candidate with an extreme value was chosen.
#[derive(Debug, Clone, Copy, Default)]
struct Extreme {
    /// The number of records with such a candidate, and of those in which it was chosen.
    there: usize,
    chosen: usize,
    /// The sums of `d = 1{chosen}/q - 1`, and of `d^2`.
    sum: f64,
    squares: f64,
}

impl Extreme {
    fn add(&mut self, chosen: bool, q: f64) {
        let d = if chosen { 1.0 / q } else { 0.0 } - 1.0;
        self.there += 1;
        self.chosen += usize::from(chosen);
        self.sum += d;
        self.squares += d * d;
    }

    /// The number of standard errors by which it was chosen too often.
    fn z(&self) -> f64 {
        if self.squares > 0.0 { self.sum / self.squares.sqrt() } else { 0.0 }
    }
}

/// All features of candidates.
#[derive(Debug, Default)]
pub(super) struct Features {
    names: HashMap<String, u32>,
    all: Vec<Feature>,
}

impl Features {
    /// The features of every candidate: the index of each, and its value.
    pub(super) fn rows(&mut self, rows: &LogBatch) -> Result<Lists<(u32, f64)>> {
        let n = rows.len();
        let mut found: Vec<Vec<(u32, f64)>> = vec![Vec::new(); n];
        for column in rows.others() {
            if matches!(column.name, ID | VALUES) {
                continue;
            }
            if column.name == NAMES {
                let (names, values) =
                    (column.text_lists()?, rows.column(VALUES).map(|values| values.lists()).transpose()?);
                for (i, found) in found.iter_mut().enumerate() {
                    let values = values.as_ref().map_or(&[][..], |values| values.get(i));
                    for (name, value) in names.get(i).iter().zip(values) {
                        found.extend(self.index(name).map(|index| (index, *value)));
                    }
                }
            } else if column.is_list() {
                let Ok(lists) = column.lists() else { continue };
                for (i, found) in found.iter_mut().enumerate() {
                    for (k, value) in lists.get(i).iter().enumerate() {
                        found.extend(self.index(&format!("{}[{k}]", column.name)).map(|index| (index, *value)));
                    }
                }
            } else if column.is_text() {
                for (text, found) in column.texts()?.iter().zip(&mut found) {
                    if let Some(text) = text {
                        found.extend(self.index(&format!("{}={text}", column.name)).map(|index| (index, 1.0)));
                    }
                }
            } else if let Some(index) = self.index(column.name) {
                for (value, found) in column.numbers()?.iter().zip(&mut found) {
                    found.push((index, *value));
                }
            }
        }
        let mut rows = Lists { offsets: vec![0], values: Vec::new() };
        for mut row in found {
            row.retain(|(_, value)| *value != 0.0 && value.is_finite());
            row.sort_unstable_by_key(|(index, _)| *index);
            rows.values.extend(row);
            rows.offsets.push(rows.values.len());
        }
        Ok(rows)
    }

    fn index(&mut self, name: &str) -> Option<u32> {
        if let Some(&index) = self.names.get(name) {
            return Some(index);
        }
        if self.all.len() == FEATURES {
            return None;
        }
        self.all.push(Feature::default());
        self.names.insert(name.to_owned(), self.all.len() as u32 - 1);
        Some(self.all.len() as u32 - 1)
    }

    /// Adds a record of two or more candidates, and its choice.
    pub(super) fn record(&mut self, rows: &Lists<(u32, f64)>, range: Range<usize>, chosen: Option<(u32, f64)>) {
        let m = range.len();
        let mut values: HashMap<u32, Vec<f64>> = HashMap::new();
        for (place, j) in range.enumerate() {
            for &(index, value) in rows.get(j) {
                values.entry(index).or_insert_with(|| vec![0.0; m])[place] = value;
            }
        }
        for (index, values) in values {
            let feature = &mut self.all[index as usize];
            if values.iter().all(|value| *value == values[0]) {
                continue;
            }
            feature.records += 1;
            for from in [0, 1] {
                let is = values.iter().zip(from..).all(|(value, place)| *value == f64::from(place));
                feature.places[from as usize] += usize::from(is);
            }
            for (sign, count) in [1.0, -1.0].into_iter().zip(&mut feature.sorted) {
                *count += usize::from(values.windows(2).all(|pair| sign * pair[0] < sign * pair[1]));
            }
            let Some((place, q)) = chosen else { continue };
            for (sign, extreme) in [1.0, -1.0].into_iter().zip(&mut feature.extremes) {
                let most = values.iter().map(|value| sign * value).fold(f64::NEG_INFINITY, f64::max);
                let mut at = (0u32..).zip(&values).filter(|(_, value)| sign * **value == most).map(|(place, _)| place);
                if let (Some(only), None) = (at.next(), at.next()) {
                    extreme.add(only == place, q);
                }
            }
        }
    }

    /// Counts an identity for which a feature is not always the same.
    pub(super) fn move_one(&mut self, index: u32) {
        self.all[index as usize].moved += 1;
    }

    /// The features that moved, and for how many identities, most first.
    pub(super) fn moved(&self) -> Vec<(&str, usize)> {
        let mut names: Vec<(&str, usize)> =
            self.names.iter().map(|(name, index)| (name.as_str(), self.all[*index as usize].moved)).collect();
        names.retain(|(_, moved)| *moved > 0);
        names.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        names
    }

    /// Features that know the place or the choice.
    pub(super) fn findings(&self, findings: &mut Vec<Finding>) {
        let limit = normal::limit(LEVEL / (2 * self.all.len()).max(1) as f64).max(6.0);
        let mut names: Vec<(&String, &u32)> = self.names.iter().collect();
        names.sort_unstable();
        for (name, index) in names {
            let feature = &self.all[*index as usize];
            let leak = feature.extremes.iter().zip(["largest", "smallest"]).find(|(extreme, _)| {
                extreme.there >= FEW && extreme.z() > limit && extreme.sum > 0.25 * extreme.there as f64
            });
            if let Some((extreme, which)) = leak {
                let rate = 1.0 + extreme.sum / extreme.there as f64;
                let message = format!(
                    "the candidate with the {which} {name} was chosen in {} of {} records, {} times as often as its \
                     propensities allow",
                    grouped(extreme.chosen),
                    grouped(extreme.there),
                    short(rate)
                );
                let hint = "a feature must be known before the choice: this one seems to be made from it; leave it out. If \
                            many features do this, the propensities are wrong";
                findings
                    .push(Finding::new(Severity::Error, "candidate-leak", message).counted(extreme.chosen).hint(hint));
                continue;
            }
            let all = |count: &usize| feature.records >= FEW && *count == feature.records;
            if feature.places.iter().any(all) {
                let message = format!(
                    "{name} is the place of the candidate in its record, in all of {}",
                    of(feature.records, "record")
                );
                let hint = "the place is not known before the list is sorted: leave it out, unless it is where the candidate \
                            would be shown";
                findings.push(
                    Finding::new(Severity::Warning, "candidate-place", message).counted(feature.records).hint(hint),
                );
            } else if feature.sorted.iter().any(all) {
                let message = format!(
                    "the candidates of all of {} are listed in the order of {name}",
                    of(feature.records, "record")
                );
                findings.push(Finding::new(Severity::Note, "candidate-place", message).counted(feature.records));
            }
        }
    }
}
