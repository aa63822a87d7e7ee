//! The order of records: policy versions, timestamps, and records that were dropped.

use std::borrow::Cow;
use std::collections::HashMap;

use super::cells::{Bad, Numbers};
use super::findings::{Finding, Occurrences, Severity, grouped, of};
use crate::column::parse;
use crate::error::Result;
use crate::logs::{LogBatch, Role};

/// The largest number of versions that are tracked. With more, the column does not hold versions.
pub(super) const MOST_VERSIONS: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Versions {
    places: HashMap<String, usize>,
    /// Name and number of records of each version, in the order of appearance. The name is empty where the version is
    /// missing.
    pub(super) groups: Vec<(String, usize)>,
    last: usize,
    interleaved: Occurrences,
    missing: Occurrences,
    logged: bool,
    full: bool,
}

impl Versions {
    /// The index of each record's version.
    pub(super) fn add(&mut self, batch: &LogBatch, versions: Option<&[Option<Cow<'_, str>>]>) -> Vec<usize> {
        self.logged |= versions.is_some();
        let one = |i: usize| {
            let name = versions.and_then(|versions| versions[i].as_deref()).unwrap_or("");
            if name.is_empty() {
                self.missing.add(batch, i, || "missing".into());
            }
            let place = match self.places.get(name) {
                Some(&place) => place,
                None if self.groups.len() == MOST_VERSIONS => {
                    self.full = true;
                    MOST_VERSIONS - 1
                }
                None => {
                    self.places.insert(name.to_owned(), self.groups.len());
                    self.groups.push((name.to_owned(), 0));
                    self.groups.len() - 1
                }
            };
            if place < self.last {
                self.interleaved.add(batch, i, || name.to_owned());
            }
            self.last = place;
            self.groups[place].1 += 1;
            place
        };
        (0..batch.len()).map(one).collect()
    }

    /// The number of versions, if they are logged.
    pub(super) fn count(&self) -> Option<usize> {
        (self.logged && self.groups.iter().any(|(name, _)| !name.is_empty())).then_some(self.groups.len())
    }

    pub(super) fn findings(&self, findings: &mut Vec<Finding>) {
        const CHECK: &str = "policy-version";
        if self.count().is_none() {
            let message = "no policy versions: learn treats all records as one round of one policy";
            findings.push(Finding::new(Severity::Note, CHECK, message));
            return;
        }
        if self.full {
            let message =
                format!("{} policy versions or more: does this column contain versions?", grouped(MOST_VERSIONS));
            findings.push(Finding::new(Severity::Warning, CHECK, message).counted(MOST_VERSIONS));
            return;
        }
        findings.extend(self.missing.finding(Severity::Warning, CHECK, |n| format!("{n} without a policy version")));
        let back = self.interleaved.finding(Severity::Warning, CHECK, |n| {
            format!("versions interleave: {n} of a version that began before the version of the preceding record")
        });
        findings.extend(back.map(|finding| {
            finding.hint(
                "learn treats all records of a version as one round; nothing in the logs shows that the policy of a \
                 version was fixed before its later records",
            )
        }));
        const SHOWN: usize = 6;
        let mut rounds: Vec<String> = self.groups.iter().take(SHOWN).map(|(_, n)| grouped(*n)).collect();
        if self.groups.len() > SHOWN {
            rounds.push("...".into());
        }
        let records = if matches!(self.groups[..], [(_, 1)]) { "record" } else { "records" };
        let message = format!("learn would see {} of {} {records}", of(self.groups.len(), "round"), rounds.join(", "));
        findings.push(Finding::new(Severity::Note, CHECK, message).counted(self.groups.len()));
    }
}

/// Whether records are in the order of their timestamps.
#[derive(Debug, Default)]
pub(super) struct Times {
    last: Option<Time>,
    back: Occurrences,
}

/// A timestamp that can be compared with others of its kind.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Time {
    Number(f64),
    /// RFC 3339: date and time up to the second, and the offset, which must agree.
    Text(String, String),
}

impl Time {
    pub(super) fn of(text: &str) -> Option<Self> {
        if let Some(x) = parse(text) {
            return x.is_finite().then_some(Time::Number(x));
        }
        let (second, rest) = (text.get(..19)?, text.get(19..)?);
        let shape = |(i, c): (usize, char)| match i {
            4 | 7 => c == '-',
            10 => matches!(c, 'T' | 't' | ' '),
            13 | 16 => c == ':',
            _ => c.is_ascii_digit(),
        };
        let offset = rest.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
        second.chars().enumerate().all(shape).then(|| Time::Text(second.to_owned(), offset.to_owned()))
    }

    /// Whether it is before another; `false` if the two cannot be compared.
    pub(super) fn is_before(&self, other: &Time) -> bool {
        match (self, other) {
            (Time::Number(a), Time::Number(b)) => a < b,
            (Time::Text(a, x), Time::Text(b, y)) => x == y && a < b,
            _ => false,
        }
    }
}

impl Times {
    pub(super) fn add(&mut self, batch: &LogBatch) -> Result<()> {
        // Types without a text form, such as Parquet's timestamps, are not checked.
        let Some(Ok(texts)) = batch.role(Role::Timestamp).map(|column| column.texts()) else { return Ok(()) };
        for (i, text) in texts.iter().enumerate() {
            let Some((text, time)) = text.as_deref().and_then(|text| Some((text, Time::of(text)?))) else { continue };
            if self.last.as_ref().is_some_and(|last| time.is_before(last)) {
                self.back.add(batch, i, || text.to_owned());
            }
            self.last = Some(time);
        }
        Ok(())
    }

    pub(super) fn findings(&self, findings: &mut Vec<Finding>) {
        let back = self.back.finding(Severity::Note, "timestamp", |n| format!("{n} earlier than the record before it"));
        findings.extend(back);
    }
}

/// Records that were dropped from the log.
#[derive(Debug, Default)]
pub(super) struct Thinning {
    first: Option<f64>,
    bad: Occurrences,
    varies: Occurrences,
}

impl Thinning {
    pub(super) fn add(&mut self, batch: &LogBatch) -> Result<()> {
        let Some(column) = batch.role(Role::DropProbability) else { return Ok(()) };
        let numbers = Numbers::of(batch, Some(column))?;
        for i in 0..batch.len() {
            // A record without a drop probability was always kept.
            let p = numbers.get(i).or_else(|bad| if bad == Bad::Missing { Ok(0.0) } else { Err(bad) });
            match p {
                Ok(p) if (0.0..1.0).contains(&p) => {
                    if *self.first.get_or_insert(p) != p {
                        self.varies.add(batch, i, || p.to_string());
                    }
                }
                _ => self.bad.add(batch, i, || numbers.shown(i)),
            }
        }
        Ok(())
    }

    /// The drop probability, if it is the same for all records.
    pub(super) fn constant(&self) -> Option<f64> {
        self.first.filter(|_| self.varies.count == 0)
    }

    pub(super) fn findings(&self, findings: &mut Vec<Finding>) {
        findings
            .extend(self.bad.finding(Severity::Error, "pdrop", |n| format!("{n} with a pdrop that is not in [0, 1)")));
        let varies = self.varies.finding(Severity::Error, "pdrop", |n| {
            format!(
                "{n} with another pdrop than the first: records dropped with different probabilities are not a \
                 sample, and are refused"
            )
        });
        findings.extend(
            varies.map(|finding| finding.hint("keep all records, or drop all of them with the same probability")),
        );
        if let Some(p) = self.constant().filter(|&p| p > 0.0) {
            let message = format!("records were dropped with probability {p}: the log is smaller, but unbiased");
            findings.push(Finding::new(Severity::Note, "pdrop", message));
        }
    }
}
