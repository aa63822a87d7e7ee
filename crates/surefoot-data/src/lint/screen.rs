//! The checks of a lint that decide whether numbers from some logs may be called certified. Every command that
//! certifies something makes them in its own pass over the logs.

use std::collections::HashMap;

use surefoot::logs::{PropensityTest, REFUTED};

use super::findings::{Finding, Row, Severity};
use super::ids::{self, Ids};
use super::order::Time;
use crate::error::{Error, Result};
use crate::logs::{Actions, LogBatch, Records, Role};

/// The state of the checks after some records.
#[derive(Debug)]
pub(crate) struct Screen {
    records: usize,
    propensities: PropensityTest,
    ids: Ids,
    /// The earliest timestamp of each round, and its record.
    begun: Vec<Option<(Time, Row)>>,
    candidates: Numbers,
}

/// Numbers of candidates. Their places are none: a logger may put the chosen candidate first.
#[derive(Debug, Default)]
struct Numbers {
    identities: HashMap<String, u32>,
    next: u32,
}

/// The largest number of identities that are told apart.
const IDENTITIES: usize = 100_000;

impl Numbers {
    /// The numbers of the candidates of a record: one per identity. Candidates without one are not told apart, and get
    /// a new number in every record.
    fn of(&mut self, ids: Option<&[Option<String>]>, count: usize) -> Vec<u32> {
        let new = self.next;
        self.next = self.next.wrapping_add(1);
        let Some(ids) = ids else { return vec![new; count] };
        let number = |id: &Option<String>| {
            let id = id.as_ref()?;
            if let Some(&number) = self.identities.get(id) {
                return Some(number);
            }
            (self.identities.len() < IDENTITIES).then(|| {
                self.next = self.next.wrapping_add(1);
                self.identities.insert(id.clone(), self.next - 1);
                self.next - 1
            })
        };
        let numbers: Vec<Option<u32>> = ids.iter().map(number).collect();
        numbers.into_iter().map(|number| number.unwrap_or(new)).collect()
    }

    fn name(&self, number: u32) -> String {
        let known = self.identities.iter().find(|(_, other)| **other == number);
        known.map_or_else(|| number.to_string(), |(name, _)| name.clone())
    }
}

impl Default for Screen {
    fn default() -> Self {
        let ids = Ids::new(ids::CAPACITY);
        Screen {
            records: 0,
            propensities: PropensityTest::default(),
            ids,
            begun: Vec::new(),
            candidates: Numbers::default(),
        }
    }
}

impl Screen {
    /// Adds the records of a batch, which follow those added before.
    pub(crate) fn add(&mut self, batch: &LogBatch, records: &Records) -> Result<()> {
        self.records += batch.len();
        if let Some(candidates) = batch.candidates()? {
            for (i, (&action, &q)) in records.action.iter().zip(&records.propensity).enumerate() {
                let range = candidates.range(i);
                let ids = candidates.identities.as_ref().map(|ids| &ids.of[range.clone()]);
                let numbers = self.candidates.of(ids, range.len());
                self.propensities.add(numbers[action as usize], q, Some(&numbers));
            }
            return self.ids.add(batch);
        }
        for (i, (&action, &q)) in records.action.iter().zip(&records.propensity).enumerate() {
            self.propensities.add(action, q, records.eligible.as_ref().map(|sets| sets.get(i)));
        }
        self.ids.add(batch)
    }

    /// Adds the timestamps of a batch; `round` gives the round of each record.
    pub(crate) fn order(&mut self, batch: &LogBatch, round: impl Fn(usize) -> usize) {
        // Types without a text form, such as Parquet's timestamps, are not checked.
        let Some(Ok(texts)) = batch.role(Role::Timestamp).map(|column| column.texts()) else { return };
        for (i, text) in texts.iter().enumerate() {
            let Some((text, time)) = text.as_deref().and_then(|text| Some((text, Time::of(text)?))) else { continue };
            let round = round(i);
            if self.begun.len() <= round {
                self.begun.resize(round + 1, None);
            }
            if self.begun[round].as_ref().is_none_or(|(first, _)| time.is_before(first)) {
                let (file, row) = batch.place_of(i);
                self.begun[round] = Some((time, Row { file: file.to_owned(), row, found: text.to_owned() }));
            }
        }
    }

    /// Flaws for which nothing may be called certified. Fails if the propensities are refuted. `name` gives the name of a
    /// round.
    pub(crate) fn flaws<'a>(
        &self,
        place: &str,
        actions: &Actions,
        name: impl Fn(usize) -> &'a str,
    ) -> Result<Vec<String>> {
        let named = |action: u32| match self.candidates.next {
            0 => actions.name(action as usize).into_owned(),
            _ => self.candidates.name(action),
        };
        if let Some(what) = self.propensities.contradiction(REFUTED, named) {
            let reason = surefoot::Error::Refuted { what };
            return Err(Error::Content { place: place.into(), reason });
        }
        let mut findings = Vec::new();
        self.ids.findings(self.records, &mut findings);
        let twice = findings.iter().filter(|finding| finding.severity == Severity::Error).map(|finding| {
            let Finding { message, rows, .. } = finding;
            let first = rows.first().map_or(String::new(), |row| {
                format!(" (the first is {}, row {}, with the id {})", row.file, row.row, row.found)
            });
            format!("{message}{first}, so records are not independent: keep the first record of each id")
        });
        let mut flaws: Vec<String> = twice.collect();
        let begun = || (0..).zip(&self.begun).filter_map(|(round, begun)| Some((round, begun.as_ref()?)));
        let back = begun().zip(begun().skip(1)).find(|((_, (a, _)), (_, (b, _)))| b.is_before(a));
        flaws.extend(back.map(|((earlier, (_, a)), (later, (_, b)))| {
            format!(
                "round {} began at {} ({}, row {}), after round {}, which follows it in the logs and began at {} ({}, \
                 row {}): a round must not know the records of rounds after it; give the rounds in the order in which \
                 they were logged",
                name(earlier),
                a.found,
                a.file,
                a.row,
                name(later),
                b.found,
                b.file,
                b.row
            )
        }));
        Ok(flaws)
    }
}
