//! What could be chosen in each record: actions, or candidates with features of their own.

use std::ops::Range;
use std::sync::Arc;

use crate::contexts::{Contexts, Row};
use crate::error::{Error, Result};

/// The set of actions that could be chosen in each record. Clones share the storage.
///
/// The actions are numbers that mean the same in every record ([`Eligible::new`]), or candidates with features, which
/// differ from record to record ([`Eligible::candidates`]). The action of a candidate is its place in its record.
#[derive(Debug, Clone)]
pub struct Eligible {
    sets: Arc<Sets>,
    /// The selected sets; `None` for all sets in order.
    list: Option<Arc<[usize]>>,
    /// The range of the list, or of the sets if there is no list.
    range: Range<usize>,
}

#[derive(Debug)]
struct Sets {
    /// Set `i` has the places `offsets[i]..offsets[i + 1]`, at least one.
    offsets: Vec<usize>,
    /// For actions: those of all sets, strictly increasing in each. For candidates: 0, 1, 2, .., as many as the largest
    /// set has.
    actions: Vec<u32>,
    /// One row of features per candidate.
    features: Option<Contexts>,
}

impl Eligible {
    /// One set of actions per record: not empty, strictly increasing.
    pub fn new<S: AsRef<[u32]>>(sets: impl IntoIterator<Item = S>) -> Result<Self> {
        let (mut offsets, mut actions) = (vec![0], Vec::new());
        for (row, set) in sets.into_iter().enumerate() {
            let set = set.as_ref();
            if set.is_empty() {
                return Err(Error::value(row, "eligible", "at least one action", "empty"));
            }
            if !set.is_sorted_by(|a, b| a < b) {
                let value = format!("{set:?}");
                return Err(Error::value(row, "eligible", "strictly increasing", value));
            }
            actions.extend_from_slice(set);
            offsets.push(actions.len());
        }
        Ok(Self::of(Sets { offsets, actions, features: None }))
    }

    /// Candidates with features: record `i` may choose one of the rows `offsets[i]..offsets[i + 1]`. Action 0 of a record
    /// is its first row.
    ///
    /// ```
    /// use surefoot::{Contexts, logs::Eligible};
    ///
    /// let articles = Contexts::dense(vec![0.5, 1.0, 0.0, 0.2, 0.9, 0.1], 2)?; // three candidates with two features
    /// let eligible = Eligible::candidates(vec![0, 1, 3], articles)?; // one in the first record, two in the second
    /// assert_eq!((eligible.get(0), eligible.get(1), eligible.most()), (&[0][..], &[0, 1][..], 2));
    /// # Ok::<(), surefoot::Error>(())
    /// ```
    pub fn candidates(offsets: Vec<usize>, features: Contexts) -> Result<Self> {
        if offsets.first() != Some(&0) {
            return Err(Error::value(0, "the offset of the candidates", "0", format!("{:?}", offsets.first())));
        }
        if let Some(row) = offsets.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(Error::value(row, "candidates", "at least one", "none"));
        }
        if offsets.last() != Some(&features.len()) {
            let expected = format!("{} rows, as the offsets say", offsets[offsets.len() - 1]);
            return Err(Error::size("the features of the candidates", expected, features.len()));
        }
        let most = offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let Ok(most) = u32::try_from(most) else {
            return Err(Error::size("the candidates of a record", "at most 4294967295 entries", most));
        };
        Ok(Self::of(Sets { offsets, actions: (0..most).collect(), features: Some(features) }))
    }

    fn of(sets: Sets) -> Self {
        let range = 0..sets.offsets.len() - 1;
        Eligible { sets: Arc::new(sets), list: None, range }
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The actions of record `i`, strictly increasing.
    pub fn get(&self, i: usize) -> &[u32] {
        let places = self.places(i);
        match self.sets.features {
            None => &self.sets.actions[places],
            Some(_) => &self.sets.actions[..places.len()],
        }
    }

    /// The number of features of each candidate; `None` for actions without features.
    pub fn features(&self) -> Option<usize> {
        self.sets.features.as_ref().map(Contexts::features)
    }

    /// The features of candidate `a` of record `i`; `None` for actions without features.
    ///
    /// # Panics
    /// If the record has no such candidate.
    pub fn candidate(&self, i: usize, a: usize) -> Option<Row<'_>> {
        let places = self.places(i);
        assert!(a < places.len(), "candidate {a} of {}", places.len());
        self.sets.features.as_ref().map(|features| features.row(places.start + a))
    }

    /// The features of the candidates of all records, one row per candidate; `None` for actions without features.
    pub fn candidate_rows(&self) -> Option<Contexts> {
        let features = self.sets.features.as_ref()?;
        let places: Vec<usize> = (0..self.len()).flat_map(|i| self.places(i)).collect();
        Some(features.select(&places))
    }

    /// The size of the largest set.
    pub fn most(&self) -> usize {
        (0..self.len()).map(|i| self.places(i).len()).max().unwrap_or(0)
    }

    /// The places of the set of record `i`.
    fn places(&self, i: usize) -> Range<usize> {
        assert!(i < self.len(), "record {i} of {}", self.len());
        let i = self.range.start + i;
        let i = self.list.as_ref().map_or(i, |list| list[i]);
        self.sets.offsets[i]..self.sets.offsets[i + 1]
    }

    /// The sets of a range of records; the storage is shared.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len());
        Eligible { range: self.range.start + range.start..self.range.start + range.end, ..self.clone() }
    }

    /// The sets of some records, in the given order; the storage is shared.
    #[must_use]
    pub fn select(&self, records: &[usize]) -> Self {
        let number = |&i: &usize| {
            assert!(i < self.len(), "record {i} of {}", self.len());
            let place = self.range.start + i;
            self.list.as_ref().map_or(place, |list| list[place])
        };
        let list: Arc<[usize]> = records.iter().map(number).collect();
        Eligible { sets: Arc::clone(&self.sets), range: 0..list.len(), list: Some(list) }
    }

    /// Fails unless there are `rows` sets, all of actions below `actions`.
    pub(crate) fn check(&self, actions: usize, rows: usize) -> Result<()> {
        if self.len() != rows {
            let expected = format!("{rows} sets, one for each context");
            return Err(Error::size("eligible", expected, self.len()));
        }
        for row in 0..rows {
            // The sets are sorted and not empty, so the last action is the largest.
            if let Some(&a) = self.get(row).last().filter(|&&a| a as usize >= actions) {
                let column = if self.features().is_some() { "the last candidate" } else { "eligible" };
                return Err(Error::value(row, column, format!("below {actions}"), a));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_keep_their_features_in_slices_and_selections() {
        let rows = Contexts::dense((0..10).map(|v| v as f32).collect(), 2).unwrap();
        let all = Eligible::candidates(vec![0, 1, 3, 5], rows).unwrap();
        let first = |e: &Eligible, i, a| match e.candidate(i, a) {
            Some(Row::Dense(x)) => x[0],
            other => panic!("{other:?}"),
        };
        assert_eq!((all.len(), all.most(), all.features()), (3, 2, Some(2)));
        let part = all.slice(1..3);
        assert_eq!((part.get(0), first(&part, 0, 1), first(&part, 1, 0)), (&[0, 1][..], 4.0, 6.0));
        let some = part.select(&[1, 0, 1]);
        assert_eq!((some.len(), first(&some, 0, 1), first(&some, 1, 0), first(&some, 2, 0)), (3, 8.0, 2.0, 6.0));
        assert_eq!(first(&some.slice(1..2), 0, 0), 2.0);
        let rows = some.candidate_rows().unwrap();
        assert_eq!(rows.iter().map(|row| row.values()[0]).collect::<Vec<_>>(), [6.0, 8.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(all.slice(0..1).most(), 1);
    }

    #[test]
    fn candidates_that_do_not_fit_are_refused() {
        let rows = || Contexts::dense(vec![0.0; 6], 2).unwrap();
        let text = |offsets: Vec<usize>| Eligible::candidates(offsets, rows()).map(|_| ()).unwrap_err().to_string();
        assert_eq!(text(vec![1, 3]), "row 0: the offset of the candidates should be 0, but is Some(1)");
        assert_eq!(text(vec![0, 2, 2, 3]), "row 1: candidates should be at least one, but is none");
        assert_eq!(
            text(vec![0, 2]),
            "the features of the candidates should have 2 rows, as the offsets say, but has 3"
        );
        let eligible = Eligible::candidates(vec![0, 3], rows()).unwrap();
        assert_eq!(
            eligible.check(2, 1).unwrap_err().to_string(),
            "row 0: the last candidate should be below 2, but is 2"
        );
    }
}
