//! What is found, and where.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::Summary;
use crate::logs::LogBatch;

/// How bad a finding is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// What is learned or estimated from these logs would be wrong, or is refused.
    Error,
    /// It may be weaker, or about something else, than its reader thinks.
    Warning,
    /// It is good to know.
    Note,
}

impl Display for Severity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

/// A record of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The file.
    pub file: String,
    /// The row in it, counted from 0, without a header.
    pub row: usize,
    /// What stands there.
    pub found: String,
}

/// Something that is worth saying about logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The name of the check.
    pub check: &'static str,
    /// What was found.
    pub message: String,
    /// What may be the cause, or what can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// How many records, actions or columns it is about.
    pub count: usize,
    /// The first records that it is about.
    pub rows: Vec<Row>,
}

impl Finding {
    pub(super) fn new(severity: Severity, check: &'static str, message: impl Into<String>) -> Self {
        Finding { severity, check, message: message.into(), hint: None, count: 0, rows: Vec::new() }
    }

    pub(super) fn counted(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// All that was found, the worst first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Numbers about the logs as a whole.
    pub summary: Summary,
    /// The findings.
    pub findings: Vec<Finding>,
}

impl Report {
    /// How many findings are as bad as this.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

/// The first records of a finding that are kept: enough to look at, few enough to read.
const SHOWN: usize = 5;

/// Records that have something in common.
#[derive(Debug, Default)]
pub(super) struct Occurrences {
    pub(super) count: usize,
    rows: Vec<Row>,
}

impl Occurrences {
    /// One more; `found` is what stands there.
    pub(super) fn add(&mut self, batch: &LogBatch, i: usize, found: impl FnOnce() -> String) {
        self.count += 1;
        if self.rows.len() < SHOWN {
            let (file, row) = batch.place_of(i);
            self.rows.push(Row { file: file.to_owned(), row, found: found() });
        }
    }

    /// The finding, if there is one: the message is about so many records.
    pub(super) fn finding(
        &self,
        severity: Severity,
        check: &'static str,
        message: impl FnOnce(&str) -> String,
    ) -> Option<Finding> {
        let count = self.count;
        (count > 0).then(|| Finding {
            rows: self.rows.clone(),
            ..Finding::new(severity, check, message(&of(count, "record"))).counted(count)
        })
    }
}

/// A number with commas, and what there are so many of.
pub(super) fn of(n: usize, noun: &str) -> String {
    format!("{} {noun}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// A number with commas.
pub(super) fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Some digits of a number: enough to tell what it is.
pub(super) fn short(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        size if (1e-3..1e6).contains(&size) => {
            let decimals = (3.0 - size.log10().floor()).clamp(0.0, 6.0) as usize;
            let text = format!("{x:.decimals$}");
            if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
        }
        size if size.is_finite() => format!("{x:.2e}"),
        _ => x.to_string(),
    }
}
