//! RESULTS: summaries of the cells, as tables for the terminal and for Markdown, as CSV and as pictures.

mod picture;
mod table;

use std::path::{Path, PathBuf};

use serde::Serialize;
use surefoot_terminal::{Failure, Result};

use super::cells::{Cell, Record, RoundRecord, Store};
use super::methods::Method;
use super::sets::{Set, Source, how_to_get};
use super::{Size, What, published};
use crate::statistics::mean_and_deviation;
use table::Table;

/// All finished cells.
pub(super) struct Results<'a> {
    pub(super) size: &'a Size,
    pub(super) sources: &'a [Source],
    pub(super) store: &'a Store,
}

/// A method on a set, over its seeds.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Summary {
    set: Set,
    /// The name of the data.
    data: &'static str,
    alpha: f64,
    rounds: usize,
    method: Method,
    seeds: usize,
    /// The paper's result, if it prints one.
    paper: Option<f64>,
    /// The results before the first round and after each round.
    curve: Vec<Point>,
    /// The mean reward of all interactions.
    mean_reward: f64,
    /// The mean time of a run.
    seconds: f64,
}

/// Means over seeds after a round.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Point {
    round: usize,
    /// `-E pi(y|x)`, which the paper calls the risk, and its standard deviation over seeds.
    risk: f64,
    deviation: f64,
    /// The certified bound on `risk`.
    certified: Option<f64>,
    /// The expected cost, with the noise of the rewards, its standard deviation, and the certified bound on it.
    true_risk: f64,
    true_deviation: f64,
    certified_true_risk: Option<f64>,
}

impl Summary {
    fn last(&self) -> &Point {
        self.curve.last().expect("there is a point before the first round")
    }
}

/// The noise of the rewards in all experiments.
const NOISE: f64 = 0.2;

/// Converts a bound on the expected cost `-(e + (1 - 2e) E pi(y|x))` to one on `-E pi(y|x)`.
fn without_noise(true_risk: f64) -> f64 {
    (true_risk + NOISE) / (1.0 - 2.0 * NOISE)
}

/// A result for printing.
#[derive(Debug, Serialize)]
pub(super) struct Written {
    result: What,
    #[serde(skip)]
    pub(super) text: String,
    files: Vec<PathBuf>,
    rows: Vec<Summary>,
}

impl Results<'_> {
    /// The summary of a method on a set; `None` if the set is missing.
    fn summary(&self, set: Set, alpha: f64, rounds: usize, method: Method) -> Option<Summary> {
        let source = self.source(set)?;
        let record = |seed| {
            let cell = Cell { set, alpha, rounds, method, seed };
            self.store.get(&source.fingerprint, &self.size.config(source, &cell))
        };
        let records: Vec<&Record> = (1..=self.size.seeds_of(rounds)).filter_map(record).collect();
        let first = *records.first()?;
        let mean = |of: &dyn Fn(&Record) -> f64| mean_and_deviation(records.iter().map(|record| of(record)));
        let after = |k: usize| -> Point {
            let at = |record: &Record, of: fn(&RoundRecord) -> f64, before: f64| match k {
                0 => before,
                _ => of(&record.rounds[k - 1]),
            };
            let (accuracy, deviation) = mean(&|r| at(r, |round| round.accuracy, r.initial.accuracy));
            let (true_risk, true_deviation) = mean(&|r| at(r, |round| round.true_risk, r.initial.true_risk));
            let certified = (k > 0 && records.iter().all(|r| r.rounds[k - 1].certified.is_some()))
                .then(|| mean(&|r| r.rounds[k - 1].certified.unwrap_or(f64::NAN)).0);
            Point {
                round: k,
                risk: -accuracy,
                deviation,
                // A risk is at most 0 by definition.
                certified: certified.map(|certified| without_noise(certified).min(0.0)),
                true_risk,
                true_deviation,
                certified_true_risk: certified,
            }
        };
        let column = match method {
            Method::SeqLs | Method::PrintedSeqLs => Some(0),
            Method::SeqAdjLs | Method::PrintedSeqAdjLs => Some(1),
            _ => None,
        };
        let published = self.published(set, alpha, rounds);
        Some(Summary {
            set,
            data: source.name,
            alpha,
            rounds,
            method,
            seeds: records.len(),
            paper: column.and_then(|column| published.map(|risks| risks[column])),
            curve: (0..=first.rounds.len()).map(after).collect(),
            mean_reward: mean(&|r| r.mean_reward).0,
            seconds: mean(&|r| r.seconds).0,
        })
    }

    /// The paper's results for SeqLS and SeqAdjLS; `None` for the digits, which are not in the paper.
    fn published(&self, set: Set, alpha: f64, rounds: usize) -> Option<[f64; 2]> {
        published::risks(set.key(), alpha, rounds)
            .filter(|_| self.source(set).is_some_and(|source| source.name != "digits"))
    }

    /// The data source of a set.
    fn source(&self, set: Set) -> Option<&Source> {
        self.sources.iter().find(|source| source.set == set)
    }

    /// The title of a row's data.
    fn title(&self, row: &Summary) -> String {
        self.source(row.set).map_or(String::new(), Source::title)
    }

    /// The number of seeds over which means are taken, as text.
    fn over(&self, what: What) -> String {
        let seeds = self.size.seeds;
        let longest = self.size.columns.iter().copied().max().unwrap_or(0);
        match self.size.seeds_of(longest) {
            fewer if fewer < seeds && matches!(what, What::Table1 | What::Table2) => {
                format!("{seeds} seeds ({fewer} for k = {longest})")
            }
            _ => format!("{seeds} seeds"),
        }
    }

    /// Writes the files of a result.
    pub(super) fn write(&self, what: What, folder: &Path) -> Result<Written> {
        let runs = what.runs(self.size);
        let rows: Vec<Summary> = runs.iter().filter_map(|&(s, a, k, m)| self.summary(s, a, k, m)).collect();
        let tables = self.tables(what, &rows);
        let stem = folder.join(what.name());
        let file = |end: &str| folder.join(format!("{}.{end}", what.name()));
        let (csv_file, markdown_file) = (file("csv"), file("md"));
        let write = |path: &Path, text: &str| surefoot_data::replace(path, text.as_bytes()).map_err(Failure::new);
        write(&csv_file, &csv(what, &rows))?;
        let markdown: Vec<String> = tables.iter().map(Table::markdown).collect();
        write(&markdown_file, &(markdown.join("\n") + &self.sources_used(&rows)))?;
        let mut files = vec![csv_file, markdown_file];
        if let Some(picture) = self.picture(what, &rows) {
            files.extend(picture.write(&stem)?);
        }
        let text: Vec<String> = tables.iter().map(Table::text).collect();
        Ok(Written { result: what, text: text.join("\n\n"), files, rows })
    }

    /// The data sources of the rows, as Markdown.
    fn sources_used(&self, rows: &[Summary]) -> String {
        let used = self.sources.iter().filter(|source| rows.iter().any(|row| row.set == source.set));
        let lines = used.filter_map(|source| Some(format!("{}: {}", source.title(), source.stand_in?)));
        let lines: Vec<String> = lines.collect();
        if lines.is_empty() { String::new() } else { format!("\n{}.\n", lines.join(".\n\n")) }
    }

    /// The notes for the reader besides the tables.
    pub(super) fn notes(&self, missing: &[Set]) -> String {
        let mut notes = String::from(
            "Risk is -E pi(y|x), as in the paper: from -1 (always right) to 0. Proven is what it is certified to be below, \
             with probability 95 % in all rounds at once.\n",
        );
        for source in self.sources {
            if let Some(stand_in) = source.stand_in {
                notes += &format!("{} is run on {}: {stand_in}.\n", source.set.title(), source.name);
            }
        }
        for &set in missing {
            notes += &format!("{} is missing. To get it: {}.\n", set.title(), how_to_get(set));
        }
        notes
    }
}

/// The rows as CSV: one line per method, set and round for figures; after the last round only for tables.
fn csv(what: What, rows: &[Summary]) -> String {
    let curves = !matches!(what, What::Table1 | What::Table2 | What::Scrm | What::Best);
    let mut text = String::from(
        "set,data,alpha,rounds,method,seeds,round,risk,deviation,certified,true_risk,true_deviation,\
         certified_true_risk,paper,mean_reward,seconds\n",
    );
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.6}"));
    for row in rows {
        let points = if curves { &row.curve[..] } else { &row.curve[row.curve.len() - 1..] };
        for point in points {
            let last = point.round == row.rounds;
            let cells = [
                row.set.key().into(),
                row.data.into(),
                row.alpha.to_string(),
                row.rounds.to_string(),
                row.method.key(),
                row.seeds.to_string(),
                point.round.to_string(),
                number(Some(point.risk)),
                number(Some(point.deviation)),
                number(point.certified),
                number(Some(point.true_risk)),
                number(Some(point.true_deviation)),
                number(point.certified_true_risk),
                number(row.paper.filter(|_| last)),
                number(Some(row.mean_reward).filter(|_| last)),
                number(Some(row.seconds).filter(|_| last)),
            ];
            text += &(cells.join(",") + "\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noise_is_taken_off_a_bound() {
        // Always right, and always wrong.
        assert!((without_noise(-0.8) + 1.0).abs() < 1e-12);
        assert!(without_noise(-0.2).abs() < 1e-12);
    }
}
