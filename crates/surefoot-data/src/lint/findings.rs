//! The findings of a lint, and the records that they are about.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::Summary;
use crate::logs::LogBatch;

/// The severity of a finding, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Estimates or policies from these logs would be wrong, or are refused.
    Error,
    /// Results may be weaker than their reader thinks, or about something else.
    Warning,
    /// Good to know.
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
    /// The row in the file, counted from 0, without a header.
    pub row: usize,
    /// The value that was found.
    pub found: String,
}

/// A finding about the logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// How severe it is.
    pub severity: Severity,
    /// The name of the check.
    pub check: &'static str,
    /// A description.
    pub message: String,
    /// A possible cause, or a remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The number of affected records, actions or columns.
    pub count: usize,
    /// The first affected records.
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

/// The result of a lint, the worst findings first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Numbers about the logs as a whole.
    pub summary: Summary,
    /// The findings.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The number of findings with this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

/// How many of the affected records a finding keeps.
const SHOWN: usize = 5;

/// Records with the same problem.
#[derive(Debug, Default)]
pub(super) struct Occurrences {
    pub(super) count: usize,
    rows: Vec<Row>,
}

impl Occurrences {
    /// Adds a record; `found` is the offending value.
    pub(super) fn add(&mut self, batch: &LogBatch, i: usize, found: impl FnOnce() -> String) {
        self.count += 1;
        if self.rows.len() < SHOWN {
            let (file, row) = batch.place_of(i);
            self.rows.push(Row { file: file.to_owned(), row, found: found() });
        }
    }

    /// The finding, if there are such records; the message is given their number.
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

/// A number with thousands separators, and a noun in the right form.
pub(super) fn of(n: usize, noun: &str) -> String {
    format!("{} {noun}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// A number with thousands separators.
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

/// A number with a few significant digits.
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
