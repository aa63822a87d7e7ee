//! Candidates with features: which of them repeat, and whose features move. Places are no identities: the first candidate of a record has nothing to do with
//! the first one of another.

use std::collections::HashMap;
use std::hash::Hasher as _;
use std::ops::Range;

use twox_hash::XxHash64;

use super::cells::{Label, OTHER, Vocabulary};
use super::features::{FEW, Features};
use super::findings::{Finding, Occurrences, Severity, grouped, of};
use crate::column::Lists;
use crate::error::Result;
use crate::logs::{self, Actions, LogBatch};

/// The largest number of identities whose features are compared.
const IDENTITIES: usize = 20_000;
/// The number of records whose features are examined. What they are wrong in, all are.
const RECORDS: usize = 100_000;

/// The candidates of a batch in terms of the vocabulary.
pub(super) struct Labelled {
    /// The chosen candidate of each record; `None` where none can be told.
    pub(super) action: Vec<Option<u32>>,
    /// The eligible candidates, in the order of the logged distribution.
    pub(super) eligible: Lists<u32>,
    /// The place of the chosen candidate.
    place: Vec<Option<u32>>,
}

/// The features of an identity when it was first seen, by the index of the feature; `None` once they moved.
type Known = HashMap<u32, Option<u64>>;

#[derive(Debug, Default)]
pub(super) struct Candidates {
    records: usize,
    /// The fewest and the most candidates of a record.
    numbers: Option<[usize; 2]>,
    /// Records whose action is none of their candidates.
    strange: Occurrences,
    repeated: Occurrences,
    alike: Occurrences,
    /// Records of two or more candidates with identities, and those in which each is the place.
    identified: usize,
    placed: usize,
    features: Features,
    identities: HashMap<String, Known>,
    moved: usize,
    /// Whether the user asked to take places for identities.
    asked: bool,
    /// Records with a list of eligible actions and no candidates; whether all lists are `0..m`, and the sizes `m`.
    lists: usize,
    unlike: bool,
    sizes: Option<[usize; 2]>,
}

impl Candidates {
    /// The fewest and the most candidates of a record; `None` without candidates.
    pub(super) fn numbers(&self) -> Option<[usize; 2]> {
        self.numbers
    }

    /// The candidates of a batch. Those without an identity are not told apart.
    pub(super) fn labels(&mut self, batch: &LogBatch, vocabulary: &mut Vocabulary) -> Result<Option<Labelled>> {
        self.asked |= logs::takes_places(batch);
        let Some(candidates) = batch.candidates()? else { return Ok(None) };
        let place = match batch.action(&Actions::Count(0)) {
            Ok(places) => places.into_iter().map(Some).collect(),
            // Some action is strange: each record is asked alone.
            Err(_) => (0..batch.len())
                .map(|i| match batch.slice(i..i + 1).action(&Actions::Count(0)) {
                    Ok(place) => place.first().copied(),
                    Err(reason) => {
                        self.strange.add(batch, i, || reason.to_string());
                        None
                    }
                })
                .collect::<Vec<_>>(),
        };
        let mut labels = Vec::with_capacity(candidates.rows.len());
        for i in 0..candidates.len() {
            let start = labels.len();
            for j in candidates.range(i) {
                let id = candidates.identities.as_ref().and_then(|ids| ids.of[j].as_deref());
                let label = id.map_or(OTHER, |id| vocabulary.place(Label::Name(id.into())));
                // An identity that repeats is found below, and is one action here.
                labels.push(if labels[start..].contains(&label) { OTHER } else { label });
            }
        }
        let chosen = |(i, place): (usize, &Option<u32>)| Some(labels[candidates.range(i).start + (*place)? as usize]);
        let action = place.iter().enumerate().map(chosen).collect();
        let mut eligible = Lists { offsets: vec![0], values: Vec::with_capacity(labels.len()) };
        for i in 0..candidates.len() {
            let first = candidates.range(i).start;
            eligible.values.extend(candidates.order.get(i).iter().map(|&a| labels[first + a as usize]));
            eligible.offsets.push(eligible.values.len());
        }
        Ok(Some(Labelled { action, eligible, place }))
    }

    /// Adds the features of the candidates of a batch.
    pub(super) fn add(&mut self, batch: &LogBatch, labelled: &Labelled, propensity: &[Option<f64>]) -> Result<()> {
        let Some(candidates) = batch.candidates()? else { return Ok(()) };
        let rows = self.features.rows(&candidates.rows)?;
        for (i, (&place, &q)) in labelled.place.iter().zip(propensity).enumerate() {
            self.records += 1;
            let range = candidates.range(i);
            let [fewest, most] = self.numbers.get_or_insert([range.len(); 2]);
            (*fewest, *most) = (range.len().min(*fewest), range.len().max(*most));
            let ids = candidates.identities.as_ref().map(|ids| &ids.of[range.clone()]);
            self.repeats(batch, i, ids, &rows, range.clone());
            if self.records > RECORDS {
                continue;
            }
            for (id, j) in ids.into_iter().flatten().zip(range.clone()) {
                self.compare(id.as_deref(), rows.get(j));
            }
            if range.len() > 1 {
                self.features.record(&rows, range, place.zip(q));
            }
        }
        Ok(())
    }

    /// Adds the eligible actions of records without candidates.
    pub(super) fn without(&mut self, eligible: Option<&Lists<u32>>, vocabulary: &Vocabulary) {
        let Some(sets) = eligible else { return };
        for set in (0..sets.len()).map(|i| sets.get(i)).filter(|set| !set.is_empty()) {
            self.lists += 1;
            let mut seen = vec![false; set.len()];
            for &a in set {
                match vocabulary.number(a).map(|number| number as usize) {
                    Some(number) if number < set.len() => seen[number] = true,
                    _ => self.unlike = true,
                }
            }
            self.unlike |= seen.contains(&false);
            let [least, most] = self.sizes.get_or_insert([set.len(); 2]);
            (*least, *most) = ((*least).min(set.len()), (*most).max(set.len()));
        }
    }

    /// Finds candidates that are there twice, and identities that are places.
    fn repeats(
        &mut self,
        batch: &LogBatch,
        i: usize,
        ids: Option<&[Option<String>]>,
        rows: &Lists<(u32, f64)>,
        range: Range<usize>,
    ) {
        let count = |ids: &[Option<String>]| ids.iter().flatten().count();
        match ids.filter(|ids| count(ids) > 0) {
            Some(ids) => {
                let mut sorted: Vec<&String> = ids.iter().flatten().collect();
                sorted.sort_unstable();
                if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                    self.repeated.add(batch, i, || pair[0].clone());
                }
                if ids.len() > 1 {
                    self.identified += 1;
                    let is =
                        |from: usize| (from..).zip(ids).all(|(place, id)| id.as_deref() == Some(&place.to_string()));
                    self.placed += usize::from(is(0) || is(1));
                }
            }
            None => {
                let row = |j: usize| rows.get(j).iter().map(|(f, v)| (*f, v.to_bits())).collect::<Vec<_>>();
                let mut sorted: Vec<Vec<(u32, u64)>> = range.map(row).collect();
                sorted.sort_unstable();
                if sorted.windows(2).any(|pair| pair[0] == pair[1] && !pair[0].is_empty()) {
                    self.alike.add(batch, i, || "two candidates with the same features".into());
                }
            }
        }
    }

    /// Compares the features of an identity with those that it had when it was first seen.
    fn compare(&mut self, id: Option<&str>, row: &[(u32, f64)]) {
        let Some(id) = id else { return };
        let hash = |value: f64| {
            let mut hasher = XxHash64::with_seed(0);
            hasher.write_u64(value.to_bits());
            hasher.finish()
        };
        let Some(known) = self.identities.get_mut(id) else {
            if self.identities.len() < IDENTITIES {
                let row = row.iter().map(|(index, value)| (*index, Some(hash(*value)))).collect();
                self.identities.insert(id.to_owned(), row);
            }
            return;
        };
        let whole = known.values().all(Option::is_some);
        let moved = |features: &mut Features, known: &mut Known, index: u32| {
            known.insert(index, None);
            features.move_one(index);
        };
        for (index, value) in row {
            if known.get(index).is_none_or(|was| was.is_some_and(|was| was != hash(*value))) {
                moved(&mut self.features, known, *index);
            }
        }
        let gone: Vec<u32> = known
            .iter()
            .filter(|(index, was)| was.is_some() && row.binary_search_by_key(*index, |(index, _)| *index).is_err())
            .map(|(index, _)| *index)
            .collect();
        gone.into_iter().for_each(|index| moved(&mut self.features, known, index));
        self.moved += usize::from(whole && known.values().any(Option::is_none));
    }

    pub(super) fn findings(&self, findings: &mut Vec<Finding>) {
        let twice = self.repeated.finding(Severity::Error, "candidates", |records| {
            format!("{records} list a candidate twice, by its identity")
        });
        findings.extend(twice.map(|finding| finding.hint("a choice between the two has no meaning: keep one of them")));
        let alike = self.alike.finding(Severity::Warning, "candidates", |records| {
            format!("{records} list two candidates with the same features and no identity")
        });
        findings
            .extend(alike.map(|finding| finding.hint("no policy can tell them apart: keep one, or log identities")));
        findings.extend(self.strange.finding(Severity::Error, "candidates", |records| {
            format!("the action of {records} is none of their candidates")
        }));
        self.places(findings);
        if self.moved > 0 {
            let names = self.features.moved();
            let shown = names.iter().take(3).map(|(name, moved)| format!("{name} ({})", grouped(*moved)));
            let shown = shown.collect::<Vec<String>>().join(", ");
            let more = if names.len() > 3 { ", ..." } else { "" };
            let all = grouped(self.identities.len());
            let message = format!(
                "{} of {all} identities have features that differ between records: {shown}{more}",
                grouped(self.moved)
            );
            let hint = "fine for what changes over time, such as a price";
            findings.push(Finding::new(Severity::Note, "candidate-moves", message).counted(self.moved).hint(hint));
        }
        let other = |known: &&Known| known.len() > 1 && known.values().all(Option::is_none);
        let others = self.identities.values().filter(other).count();
        if others > 0 {
            let message = format!(
                "{} of {} identities have other features in other records, in every feature",
                grouped(others),
                grouped(self.identities.len())
            );
            let hint = "an identity should be one thing: is it a place, or a number within the record? Features that are made \
                        of context and candidate differ too, and belong to neither";
            findings.push(Finding::new(Severity::Warning, "candidate-moves", message).counted(others).hint(hint));
        }
        self.features.findings(findings);
    }

    /// Places that are taken for identities.
    fn places(&self, findings: &mut Vec<Finding>) {
        let hint = "the same candidate at another place would be another action: log identities, or features alone";
        let mut warn = |message: String, count: usize| {
            findings.push(Finding::new(Severity::Warning, "places", message).counted(count).hint(hint));
        };
        if self.asked {
            warn("the places of candidates are taken for their identities, as asked".into(), 0);
        }
        if self.identified >= FEW && self.placed == self.identified {
            let message = "the identities of candidates are their places in the list of each record";
            warn(format!("{message}, in all of {}", of(self.placed, "record")), self.placed);
        }
        if let Some([least, most]) = self.sizes.filter(|[least, most]| least < most)
            && self.lists >= FEW
            && !self.unlike
        {
            let message = format!(
                "the eligible actions of every record are 0 to m - 1, with m from {least} to {most}: they look like places in \
                 a list, and not like identities"
            );
            warn(message, self.lists);
        }
    }
}
