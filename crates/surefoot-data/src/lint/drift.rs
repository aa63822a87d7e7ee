//! Context drift: whether contexts have the same distribution in all rounds. Rounds are the policy versions or, if
//! there is only one version, the first and the second half of the records.
//!
//! Every round is compared with all others together. A difference is reported if it is statistically significant and
//! large. In a long log, every difference is significant.

use std::borrow::Cow;
use std::collections::HashMap;

use arrow_array::Array;

use super::LEVEL;
use super::cells::Numbers;
use super::findings::{Finding, Severity, of, short};
use super::normal;
use super::order::Versions;
use crate::column::{Column, parse};
use crate::encoding::LIST;
use crate::error::Result;
use crate::logs::LogBatch;
use crate::moments::Moments;

/// The largest number of scalar columns, entries of a list, categories of a column, and rounds that are compared: a few
/// megabytes in all.
const MOST: usize = 64;

/// With fewer records, the means of a round are not approximately normal.
const ENOUGH: usize = 100;

/// The smallest difference of two means to report, in standard deviations. A tenth shifts a linear score by a tenth of
/// its usual variation between contexts.
const SHIFT: f64 = 0.1;

/// The smallest total variation distance between two distributions of categories to report: that of a fair coin whose
/// mean is shifted by a tenth of its standard deviation.
const VARIATION: f64 = 0.05;

/// The number of blocks in which records of a single version are kept. The middle of the log is known up to one block.
const BLOCKS: usize = 32;

/// Statistics of a column in a round.
#[derive(Debug, Clone, Default)]
struct Cells {
    numbers: Moments,
    /// Counts by vocabulary index; the last is for all other categories.
    categories: Vec<usize>,
}

/// Statistics of a round.
#[derive(Debug, Clone, Default)]
struct Profile {
    records: usize,
    columns: Vec<Cells>,
}

impl Profile {
    fn merge(&mut self, other: &Profile) {
        self.records += other.records;
        if self.columns.len() < other.columns.len() {
            self.columns.resize(other.columns.len(), Cells::default());
        }
        for (mine, its) in self.columns.iter_mut().zip(&other.columns) {
            mine.numbers.merge(&its.numbers);
            if mine.categories.len() < its.categories.len() {
                mine.categories.resize(its.categories.len(), 0);
            }
            mine.categories.iter_mut().zip(&its.categories).for_each(|(mine, its)| *mine += its);
        }
    }

    fn all<'a>(profiles: impl Iterator<Item = &'a Profile>) -> Profile {
        let mut all = Profile::default();
        profiles.for_each(|profile| all.merge(profile));
        all
    }
}

/// A column that is compared.
#[derive(Debug, Default)]
struct Looked {
    name: String,
    /// Whether some cell was not a number.
    text: bool,
    vocabulary: HashMap<String, usize>,
}

#[derive(Debug)]
pub(super) struct Drift {
    /// Prefixes of columns that are not contexts.
    ignored: Vec<String>,
    columns: Vec<Looked>,
    places: HashMap<String, usize>,
    /// The block size while there is only one version; the last block may not be full.
    size: usize,
    /// The blocks, or the versions.
    rounds: Vec<Profile>,
    by_version: bool,
}

/// The cells of a column of a batch.
enum Batch<'a> {
    Numbers(Cow<'a, [f64]>),
    /// One entry of a list.
    Texts(Vec<Option<Cow<'a, str>>>),
}

impl Drift {
    pub(super) fn new(ignored: Vec<String>) -> Self {
        let rounds = vec![Profile::default()];
        Drift { ignored, columns: Vec::new(), places: HashMap::new(), size: 1, rounds, by_version: false }
    }

    /// Adds a batch; `versions` are the indices of the records' versions.
    pub(super) fn add(&mut self, batch: &LogBatch, versions: &[usize]) -> Result<()> {
        let cells = self.cells(batch)?;
        let mut from = 0;
        while from < batch.len() {
            let version = versions[from];
            if version > 0 && !self.by_version {
                self.rounds = vec![Profile::all(self.rounds.iter())];
                self.by_version = true;
            }
            let same = versions[from..].iter().take_while(|&&other| other == version).count();
            let (round, to) = if self.by_version {
                (version, from + same)
            } else {
                let room = self.size - self.rounds.last().map_or(0, |block| block.records);
                (self.rounds.len() - 1, from + same.min(room))
            };
            // Rounds beyond the limit are not compared.
            if round < MOST {
                if self.rounds.len() <= round {
                    self.rounds.resize(round + 1, Profile::default());
                }
                self.fill(round, &cells, from..to);
            }
            if !self.by_version && self.rounds.last().is_some_and(|block| block.records == self.size) {
                self.rounds.push(Profile::default());
                self.halve();
            }
            from = to;
        }
        Ok(())
    }

    /// Doubles the block size when there are too many blocks.
    fn halve(&mut self) {
        if self.rounds.len() > 2 * BLOCKS {
            let full = &self.rounds[..2 * BLOCKS];
            self.rounds = full.chunks(2).map(|pair| Profile::all(pair.iter())).chain([Profile::default()]).collect();
            self.size *= 2;
        }
    }

    /// The index of a column, if it is compared.
    fn place(&mut self, name: &str) -> Option<usize> {
        if let Some(&place) = self.places.get(name) {
            return Some(place);
        }
        if self.columns.len() == 2 * MOST {
            return None;
        }
        self.places.insert(name.to_owned(), self.columns.len());
        self.columns.push(Looked { name: name.to_owned(), ..Looked::default() });
        Some(self.columns.len() - 1)
    }

    /// The compared columns of a batch, and their indices.
    fn cells<'a>(&mut self, batch: &'a LogBatch) -> Result<Vec<(usize, Batch<'a>)>> {
        let mut cells = Vec::new();
        let scalar = |column: &Column<'_>| column.name != LIST && !column.is_list();
        let ignored = self.ignored.clone();
        for column in
            batch.others().filter(|column| !ignored.iter().any(|prefix| column.name.starts_with(prefix.as_str())))
        {
            if column.name == LIST {
                let lists = column.lists()?;
                let width = (0..lists.len()).map(|i| lists.get(i).len()).max().unwrap_or(0);
                for f in 0..width.min(MOST) {
                    let x = (0..lists.len()).map(|i| lists.get(i).get(f).copied().unwrap_or(f64::NAN)).collect();
                    let place = self.place(&format!("{LIST}[{f}]"));
                    cells.extend(place.map(|place| (place, Batch::Numbers(Cow::Owned(x)))));
                }
                continue;
            }
            // Lists with other names, and types without numbers, are not compared.
            if !scalar(&column) {
                continue;
            }
            let read = match column.is_text() {
                true => Batch::Texts(column.texts()?),
                false => match Numbers::of(batch, Some(column)) {
                    Ok(numbers) => Batch::Numbers(numbers.values),
                    Err(_) => continue,
                },
            };
            if column.array.null_count() < column.array.len() {
                cells.extend(self.place(column.name).map(|place| (place, read)));
            }
        }
        Ok(cells)
    }

    /// Adds some records to a round.
    fn fill(&mut self, round: usize, cells: &[(usize, Batch<'_>)], rows: std::ops::Range<usize>) {
        let profile = &mut self.rounds[round];
        profile.records += rows.len();
        profile.columns.resize(self.columns.len(), Cells::default());
        for (place, cells) in cells {
            let (column, kept) = (&mut self.columns[*place], &mut profile.columns[*place]);
            match cells {
                Batch::Numbers(x) => {
                    x[rows.clone()].iter().filter(|x| x.is_finite()).for_each(|&x| kept.numbers.add(x));
                }
                Batch::Texts(texts) => {
                    for text in texts[rows.clone()].iter().flatten() {
                        column.text(text, kept);
                    }
                }
            }
        }
    }

    pub(super) fn findings(&self, versions: &Versions, findings: &mut Vec<Finding>) {
        let (rounds, names) = self.compared(versions);
        let mut found: Vec<(f64, String)> = Vec::new();
        let tests = (self.columns.len() * rounds.len()).max(1) as f64;
        for (place, column) in self.columns.iter().enumerate() {
            let worst = (0..rounds.len()).filter_map(|round| {
                let rest = Profile::all(rounds.iter().enumerate().filter(|(i, _)| *i != round).map(|(_, other)| other));
                let (one, rest) = (rounds[round].columns.get(place)?, rest.columns.get(place)?);
                let (size, text) = match column.text {
                    true => categories(&one.categories, &rest.categories, LEVEL / tests)?,
                    false => numbers(&one.numbers, &rest.numbers, LEVEL / tests)?,
                };
                Some((size, format!("{} {text} in {} than in {}", column.name, names[round].0, names[round].1)))
            });
            found.extend(worst.max_by(|(a, _), (b, _)| a.total_cmp(b)));
        }
        found.sort_by(|(a, text), (b, other)| b.total_cmp(a).then(text.cmp(other)));
        if found.is_empty() {
            return;
        }
        let shown: Vec<&str> = found.iter().take(3).map(|(_, text)| text.as_str()).collect();
        let more = if found.len() > 3 { "; ..." } else { "" };
        let message = format!("the distribution of {} changes: {}{more}", of(found.len(), "column"), shown.join("; "));
        let hint = "certificates assume that contexts have one distribution in all rounds; leave out columns that are \
            counters or times";
        findings.push(Finding::new(Severity::Warning, "drift", message).counted(found.len()).hint(hint));
    }

    /// The rounds to compare, with a name for each and for the rest.
    fn compared(&self, versions: &Versions) -> (Vec<Profile>, Vec<(String, String)>) {
        if self.by_version {
            let large = self.rounds.iter().zip(&versions.groups).filter(|(round, _)| round.records >= ENOUGH);
            let (rounds, names): (Vec<Profile>, Vec<_>) = large
                .map(|(round, (name, _))| (round.clone(), (format!("version {name}"), "the others".to_owned())))
                .unzip();
            return if rounds.len() > 1 { (rounds, names) } else { Default::default() };
        }
        let all: usize = self.rounds.iter().map(|block| block.records).sum();
        let (mut before, mut cut) = (0, 0);
        while cut < self.rounds.len() && 2 * (before + self.rounds[cut].records) <= all {
            before += self.rounds[cut].records;
            cut += 1;
        }
        if before < ENOUGH {
            return Default::default();
        }
        // Comparing either half with the other gives the same result; the second half comes first.
        let halves = self.rounds.split_at(cut);
        let rounds = vec![Profile::all(halves.1.iter()), Profile::all(halves.0.iter())];
        let names = ["second", "first"].map(|half| format!("the {half} half"));
        let both = vec![(names[0].clone(), names[1].clone()), (names[1].clone(), names[0].clone())];
        (rounds, both)
    }
}

impl Looked {
    /// Adds a cell that is a text, or a number stored as text.
    fn text(&mut self, text: &str, kept: &mut Cells) {
        if !self.text {
            match parse(text).filter(|x| x.is_finite()) {
                Some(x) => kept.numbers.add(x),
                None => self.text = true,
            }
        }
        let next = self.vocabulary.len();
        let place = match self.vocabulary.get(text) {
            Some(&place) => place,
            None if next < MOST => {
                self.vocabulary.insert(text.to_owned(), next);
                next
            }
            None => MOST,
        };
        if kept.categories.len() <= place {
            kept.categories.resize(place + 1, 0);
        }
        kept.categories[place] += 1;
    }
}

/// The difference of two means in standard deviations, if it is significant and large enough to report.
///
/// The test statistic is `z = (m - m')/sqrt(s^2/n + s'^2/n')`. The standard deviation is the pooled one of both
/// samples, each about its own mean.
fn numbers(one: &Moments, rest: &Moments, level: f64) -> Option<(f64, String)> {
    if one.count < ENOUGH as f64 || rest.count < ENOUGH as f64 {
        return None;
    }
    let (v, w) = (one.variance()?, rest.variance()?);
    let apart = one.mean()? - rest.mean()?;
    let z = apart / (v / one.count + w / rest.count).sqrt();
    let deviation = ((v * one.count + w * rest.count) / (one.count + rest.count)).sqrt();
    let size = (apart / deviation).abs();
    let more = if apart > 0.0 { "higher" } else { "lower" };
    (z.abs() > normal::limit(level) && size > SHIFT).then(|| match size.is_finite() {
        true => (size, format!("is {} standard deviations {more}", short(size))),
        false => (size, format!("is {} {more}", short(apart.abs()))),
    })
}

/// The total variation distance `sum |p - p'|/2`, if it is significant and large enough to report.
///
/// One record changes it by at most `1/n` of its round. By McDiarmid's inequality it exceeds its mean by `sqrt(s
/// ln(1/level)/2)`, `s = 1/n + 1/n'`, with probability at most `level`. By Jensen's inequality its mean is at most `sum
/// sqrt(s p (1 - p))/2` if there is no difference, where `p` is the pooled distribution.
fn categories(one: &[usize], rest: &[usize], level: f64) -> Option<(f64, String)> {
    let total = |counts: &[usize]| counts.iter().sum::<usize>() as f64;
    let (n, m) = (total(one), total(rest));
    if n < ENOUGH as f64 || m < ENOUGH as f64 {
        return None;
    }
    let s = 1.0 / n + 1.0 / m;
    let (mut variation, mut mean) = (0.0, 0.0);
    for c in 0..one.len().max(rest.len()) {
        let count = |counts: &[usize]| counts.get(c).copied().unwrap_or(0) as f64;
        let p = (count(one) + count(rest)) / (n + m);
        variation += 0.5 * (count(one) / n - count(rest) / m).abs();
        mean += 0.5 * (s * p * (1.0 - p)).sqrt();
    }
    let limit = mean + (0.5 * s * (1.0 / level).ln()).sqrt();
    (variation > limit && variation > VARIATION).then(|| {
        (
            variation / VARIATION * SHIFT,
            format!("is another category in {}% of the records", short((variation * 1000.0).round() / 10.0)),
        )
    })
}
