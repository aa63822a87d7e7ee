//! SCAN: one pass over the logs that collects what is known only after all records were seen.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::convert::Infallible;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::logs::{Actions, LogBatch, LogReader, Role};

/// The largest number of named actions.
const MOST_NAMES: usize = 1_000_000;

/// What a pass over all records finds.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// The number of records, without the skipped ones.
    pub records: usize,
    /// The number of skipped records.
    pub skipped: usize,
    /// The actions that occur, chosen or eligible.
    pub actions: Actions,
    /// The groups of records, such as policy versions, in order of appearance, with the number of records of each.
    pub groups: Vec<(String, usize)>,
    /// Whether every record lists its eligible actions. If not, records do not show which actions there are.
    pub eligible: bool,
    /// Whether the records of some group continue after another group has begun.
    pub interleaved: bool,
    /// The number of candidates of all records, if records have candidates. The actions are then places among them.
    pub candidates: Option<usize>,
    /// The number of decisions without a label, which are left out.
    pub unlabelled: usize,
}

/// How records are grouped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    /// By policy version, if it is logged; otherwise all records form one group.
    PolicyVersion,
    /// By the values of a column.
    Column(String),
    /// By file.
    File,
}

impl FromStr for Grouping {
    type Err = Infallible;

    /// Parses `policy-version`, `file`, or the name of a column.
    fn from_str(text: &str) -> std::result::Result<Self, Infallible> {
        Ok(match text {
            "policy-version" => Grouping::PolicyVersion,
            "file" => Grouping::File,
            column => Grouping::Column(column.into()),
        })
    }
}

impl Grouping {
    /// The groups of the records of a batch, in order: neighbouring records mostly belong to the same one.
    pub fn of(&self, batch: &LogBatch) -> Result<Vec<Run>> {
        let texts = match self {
            Grouping::PolicyVersion => batch.policy_version()?,
            Grouping::Column(name) => Some(batch.texts_of(name)?),
            Grouping::File => return Ok(vec![Run { group: batch.file().to_string(), records: 0..batch.len() }]),
        };
        let Some(texts) = texts else {
            return Ok(vec![Run { group: String::new(), records: 0..batch.len() }]);
        };
        let mut runs: Vec<Run> = Vec::new();
        for (i, text) in texts.into_iter().enumerate() {
            let group = text.unwrap_or_default();
            match runs.last_mut() {
                Some(run) if run.group == group => run.records.end = i + 1,
                _ => runs.push(Run { group: group.into_owned(), records: i..i + 1 }),
            }
        }
        Ok(runs)
    }
}

/// Neighbouring records of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The name of the group.
    pub group: String,
    /// The places of the records in their batch.
    pub records: Range<usize>,
}

impl Scan {
    /// Reads all records.
    pub fn of(reader: &LogReader, grouping: &Grouping) -> Result<Self> {
        let mut seen = Seen::default();
        let (mut groups, mut places, mut interleaved) = (Vec::<(String, usize)>::new(), HashMap::new(), false);
        let (mut records, mut last) = (0, 0);
        let mut batches = reader.batches();
        for batch in batches.by_ref() {
            let batch = batch?;
            records += batch.len();
            seen.add(&batch)?;
            for Run { group, records } in grouping.of(&batch)? {
                let place = *places.entry(group).or_insert_with_key(|name| {
                    groups.push((name.clone(), 0));
                    groups.len() - 1
                });
                interleaved |= place < last;
                last = place;
                groups[place].1 += records.len();
            }
        }
        let (skipped, unlabelled) = (batches.skipped(), batches.unlabelled());
        if records == 0 {
            let reason = match unlabelled {
                0 => "should have records, but has none".into(),
                n => format!("should have records with action, propensity and reward, but has {n} without"),
            };
            return Err(Error::Malformed { place: reader.place(), reason });
        }
        let (eligible, candidates) = (!seen.unrestricted, seen.candidates);
        let actions = seen.actions(&reader.place())?;
        Ok(Scan { records, skipped, actions, groups, eligible, interleaved, candidates, unlabelled })
    }

    /// The actions that occur in the first `records` records.
    pub(crate) fn actions_of_first(reader: &LogReader, records: usize) -> Result<Actions> {
        let mut seen = Seen::default();
        for batch in reader.batches() {
            let batch = batch?;
            if batch.row() >= records {
                break;
            }
            seen.add(&batch.slice(0..batch.len().min(records - batch.row())))?;
        }
        seen.actions(&reader.place())
    }
}

/// The actions seen so far.
#[derive(Debug, Default)]
struct Seen {
    /// One more than the largest number, counted from 0.
    count: usize,
    names: BTreeSet<String>,
    /// The names that were written as numbers.
    numbers: HashSet<u32>,
    text: bool,
    /// Whether some record does not list its eligible actions.
    unrestricted: bool,
    /// The number of candidates, if records have candidates.
    candidates: Option<usize>,
}

impl Seen {
    fn add(&mut self, batch: &LogBatch) -> Result<()> {
        if let Some((most, all)) = batch.candidate_counts()? {
            self.count = self.count.max(most);
            *self.candidates.get_or_insert(0) += all;
            return Ok(());
        }
        let first = usize::from(batch.counts_from_one());
        let column = batch.required_role(Role::Action)?;
        let eligible = batch.role(Role::Eligible);
        self.unrestricted |= eligible.is_none();
        if eligible.is_none()
            && let Some(lists) = batch.probabilities()?
        {
            self.count = (0..lists.len()).map(|i| lists.get(i).len()).fold(self.count, usize::max);
        }
        if !column.is_text() {
            for (i, &x) in column.all_numbers()?.iter().enumerate() {
                let number = column.whole(i, x)?;
                self.count = self.count.max((number as usize + 1).saturating_sub(first));
                // If another batch has names, this number is a name too.
                if self.names.len() < MOST_NAMES && self.numbers.insert(number) {
                    self.names.insert(number.to_string());
                }
            }
            if let Some(column) = eligible {
                let lists = column.lists()?;
                self.unrestricted |= (0..lists.len()).any(|i| lists.get(i).is_empty());
                for i in 0..lists.len() {
                    for &x in lists.get(i) {
                        self.count = self.count.max((column.whole(i, x)? as usize + 1).saturating_sub(first));
                    }
                }
            }
            return Ok(());
        }
        let mut names: Vec<String> = batch.action_texts()?.into_iter().map(|text| text.into_owned()).collect();
        if let Some(column) = eligible {
            let lists = column.text_lists()?;
            self.unrestricted |= (0..lists.len()).any(|i| lists.get(i).is_empty());
            names.extend(lists.values);
        }
        for name in names {
            // A number with leading zeros is a name.
            match name.trim().parse::<u32>() {
                Ok(number) if number.to_string() == name.trim() => {
                    self.count = self.count.max((number as usize + 1).saturating_sub(first));
                }
                _ => self.text = true,
            }
            if self.names.len() < MOST_NAMES && !self.names.contains(&name) {
                self.names.insert(name);
            }
        }
        Ok(())
    }

    /// The actions: numbers if all are numbers, otherwise sorted names.
    fn actions(self, place: &str) -> Result<Actions> {
        let too_many = |found: String| {
            let (allowed, column) = (format!("at most {MOST_NAMES}"), "the number of actions".into());
            Err(Error::Field { place: place.into(), column, allowed, found })
        };
        if self.text {
            if self.names.len() == MOST_NAMES {
                return too_many("more".into());
            }
            return Ok(Actions::Names(self.names.into_iter().collect()));
        }
        if self.count > MOST_NAMES {
            return too_many(self.count.to_string());
        }
        Ok(Actions::Count(self.count.max(2)))
    }
}
