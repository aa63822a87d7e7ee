//! Simulated logs, right ones and wrong ones.

mod candidates;
mod chance;
mod deployed;
mod rounds;
mod values;

use std::sync::Arc;

use arrow_array::types::{Float64Type, UInt32Type};
use arrow_array::{ArrayRef, Float64Array, ListArray, RecordBatch, StringArray, UInt32Array};

use super::{Lint, LintSettings, Report, Severity};
use crate::logs::{ColumnNames, LogBatch};

/// A stream of numbers in [0, 1) (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A standard normal number (Box and Muller).
    fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.next(), self.next());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// An action of this distribution.
    fn draw(&mut self, p: &[f64]) -> usize {
        let mut u = self.next();
        for (a, p) in p.iter().enumerate() {
            u -= p;
            if u < 0.0 {
                return a;
            }
        }
        p.iter().rposition(|p| *p > 0.0).unwrap()
    }
}

/// Records of a logger.
struct Log {
    x: Vec<f64>,
    action: Vec<u32>,
    p: Vec<Vec<f64>>,
    propensity: Vec<f64>,
    reward: Vec<f64>,
}

/// Records with one number as context, of a logger that has these probabilities for it.
fn log(seed: u64, n: usize, policy: impl Fn(f64) -> Vec<f64>) -> Log {
    let mut random = Random(seed);
    let mut log = Log { x: vec![], action: vec![], p: vec![], propensity: vec![], reward: vec![] };
    for _ in 0..n {
        let x = random.normal();
        let p = policy(x);
        let a = random.draw(&p);
        log.x.push(x);
        log.action.push(a as u32);
        log.propensity.push(p[a]);
        log.reward.push(f64::from(random.next() < 0.3));
        log.p.push(p);
    }
    log
}

fn uniform(k: usize) -> impl Fn(f64) -> Vec<f64> {
    move |_| vec![1.0 / k as f64; k]
}

/// A softmax of linear scores.
fn softmax(k: usize, scale: f64) -> impl Fn(f64) -> Vec<f64> {
    move |x| {
        let score = |a: usize| (scale * (x * (a as f64).cos() + (a as f64).sin())).exp();
        let all: f64 = (0..k).map(score).sum();
        (0..k).map(|a| score(a) / all).collect()
    }
}

/// The best action for the sign of the context, and any other one now and then.
fn greedy(k: usize, exploration: f64) -> impl Fn(f64) -> Vec<f64> {
    move |x| {
        let mut p = vec![exploration / k as f64; k];
        p[usize::from(x > 0.0)] += 1.0 - exploration;
        p
    }
}

impl Log {
    /// The usual columns, and these.
    fn table(&self, others: Vec<(&str, ArrayRef)>) -> RecordBatch {
        let usual: Vec<(&str, ArrayRef)> = vec![
            ("x", Arc::new(Float64Array::from(self.x.clone()))),
            ("action", Arc::new(UInt32Array::from(self.action.clone()))),
            ("pscore", Arc::new(Float64Array::from(self.propensity.clone()))),
            ("reward", Arc::new(Float64Array::from(self.reward.clone()))),
        ];
        let mut columns = usual;
        columns.retain(|(name, _)| others.iter().all(|(other, _)| other != name));
        columns.extend(others);
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn report(&self) -> Report {
        report(&self.table(vec![]))
    }
}

fn texts<S: Into<String>>(texts: impl IntoIterator<Item = S>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(texts.into_iter().map(Into::into)))
}

fn numbers(numbers: impl IntoIterator<Item = f64>) -> ArrayRef {
    Arc::new(numbers.into_iter().collect::<Float64Array>())
}

fn lists(lists: impl IntoIterator<Item = Vec<f64>>) -> ArrayRef {
    let lists = lists.into_iter().map(|list| Some(list.into_iter().map(Some)));
    Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists))
}

fn sets(sets: impl IntoIterator<Item = Vec<u32>>) -> ArrayRef {
    let sets = sets.into_iter().map(|set| Some(set.into_iter().map(Some)));
    Arc::new(ListArray::from_iter_primitive::<UInt32Type, _, _>(sets))
}

fn report(table: &RecordBatch) -> Report {
    report_with(table, LintSettings::default(), &ColumnNames::default(), 8192)
}

/// What is found in a table that comes in batches of so many rows.
fn report_with(table: &RecordBatch, settings: LintSettings, columns: &ColumnNames, rows: usize) -> Report {
    let mut lint = Lint::new(settings);
    let (mut start, mut skipped) = (0, 0);
    while start < table.num_rows() {
        let part = table.slice(start, rows.min(table.num_rows() - start));
        let batch = LogBatch::of("logs", start, part.clone(), columns).unwrap();
        skipped += part.num_rows() - batch.len();
        lint.add(&batch).unwrap();
        start += part.num_rows();
    }
    lint.finish(skipped)
}

impl Report {
    /// The findings of a check, as they are read.
    fn of(&self, check: &str) -> Vec<String> {
        let of = self.findings.iter().filter(|finding| finding.check == check);
        of.map(|finding| format!("{}: {}", finding.severity, finding.message)).collect()
    }

    /// The checks that found something as bad as this, or worse.
    fn checks(&self, severity: Severity) -> Vec<&'static str> {
        self.findings.iter().filter(|finding| finding.severity <= severity).map(|finding| finding.check).collect()
    }

    fn hint(&self, check: &str) -> &str {
        let with = self.findings.iter().find(|finding| finding.check == check && finding.hint.is_some());
        with.and_then(|finding| finding.hint.as_deref()).unwrap_or("")
    }
}
