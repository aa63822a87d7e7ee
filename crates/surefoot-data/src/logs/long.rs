//! Long tables: one row per candidate. The rows of an event are next to each other, and one of them is marked as chosen.
//!
//! A column whose values differ between the rows of some event is one of candidates, and all others are of the context.
//! The first batch decides; a later batch that contradicts it is an error.

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::Hasher as _;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StringArray, StructArray, UInt32Array, UInt64Array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Fields, Schema};
use arrow_select::concat::concat_batches;
use arrow_select::take::take;
use twox_hash::XxHash64;

use super::candidates::{ID, IDENTITIES};
use super::roles::{ColumnNames, Role, missing};
use crate::column::Column;
use crate::encoding::among;
use crate::error::{Error, Result};
use crate::table::Tables;

/// The usual name of the column that marks the chosen candidate.
const CHOSEN: &str = "chosen";
/// The column with the row of the first candidate of each record. It is not part of the log.
pub(super) const ROW: &str = "\u{0}row";
/// The largest number of events that are remembered, to find those whose rows are not next to each other.
const EVENTS: usize = 1 << 24;

/// Whether the rows of a table are candidates.
pub(super) fn is_long(table: &RecordBatch, columns: &ColumnNames) -> bool {
    let schema = table.schema_ref();
    let has = |name: &str| schema.index_of(name).is_ok();
    let event = columns.event_id.as_deref().map_or_else(|| Role::EventId.names().iter().any(|name| has(name)), has);
    columns.rows_are_candidates || columns.chosen.is_some() || has(CHOSEN) && event && !has(Role::Candidates.name())
}

/// The records of long tables.
pub(super) struct Grouped {
    place: String,
    tables: Tables,
    columns: Arc<ColumnNames>,
    /// The rows of the last event so far, which may continue, and the row of the file that is the first of them.
    rest: Option<RecordBatch>,
    row: usize,
    /// The columns of candidates, once known.
    own: Option<Vec<String>>,
    /// The hashes of the ids of all events so far.
    seen: HashSet<u64>,
    over: bool,
}

impl Grouped {
    pub(super) fn new(place: &str, tables: Tables, columns: &Arc<ColumnNames>) -> Self {
        let (columns, place) = (Arc::clone(columns), place.to_owned());
        Grouped { place, tables, columns, rest: None, row: 0, own: None, seen: HashSet::new(), over: false }
    }

    fn malformed(&self, reason: &dyn Display) -> Error {
        Error::Malformed { place: self.place.clone(), reason: reason.to_string() }
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let (table, end) = match self.tables.next().transpose()? {
                None => match self.rest.take() {
                    None => return Ok(None),
                    Some(rest) => (rest, true),
                },
                Some(table) => match self.rest.take() {
                    None => (table, false),
                    Some(rest) if rest.schema() == table.schema() => {
                        (concat_batches(&rest.schema(), [&rest, &table]).map_err(|e| self.malformed(&e))?, false)
                    }
                    Some(_) => {
                        let reason = "all rows should have the same columns of the same types, as each is a candidate";
                        return Err(self.malformed(&reason));
                    }
                },
            };
            let starts = self.starts(&table)?;
            // The last event may continue in the next batch.
            let events = if end { starts.len() - 1 } else { starts.len().saturating_sub(2) };
            let taken = starts.get(events).copied().unwrap_or(0);
            if taken < table.num_rows() {
                self.rest = Some(table.slice(taken, table.num_rows() - taken));
            }
            if events > 0 {
                let records = self.records(&table.slice(0, taken), &starts[..=events])?;
                self.row += taken;
                return Ok(Some(records));
            }
            if end {
                return Ok(None);
            }
        }
    }

    fn column<'t>(&'t self, table: &'t RecordBatch, i: usize) -> Column<'t> {
        let name = table.schema_ref().field(i).name();
        Column { place: &self.place, start: self.row, rows: None, places: None, name, array: table.column(i) }
    }

    /// The column of a role.
    fn role(&self, table: &RecordBatch, role: Role) -> Result<Option<usize>> {
        Ok(self.columns.find(&self.place, table, false)?.get(role.name()).copied())
    }

    /// The rows with which events begin, and the number of rows.
    fn starts(&self, table: &RecordBatch) -> Result<Vec<usize>> {
        let id = self.role(table, Role::EventId)?;
        let id = id.ok_or_else(|| missing(&self.place, &Role::EventId.names().join(" or "), table))?;
        let column = self.column(table, id);
        let ids = column.texts()?;
        if let Some(i) = ids.iter().position(Option::is_none) {
            return Err(column.error(i, "the id of the event of this candidate", "missing"));
        }
        let mut starts: Vec<usize> = (0..ids.len()).filter(|&i| i == 0 || ids[i] != ids[i - 1]).collect();
        starts.push(ids.len());
        Ok(starts)
    }

    /// Fails if the rows of an event are not next to each other.
    fn together(&mut self, table: &RecordBatch, starts: &[usize]) -> Result<()> {
        let id = self.role(table, Role::EventId)?.unwrap_or_default();
        let texts: Vec<String> = {
            let texts = self.column(table, id).texts()?;
            starts[..starts.len() - 1].iter().map(|&i| texts[i].as_deref().unwrap_or_default().to_owned()).collect()
        };
        for (&start, text) in starts.iter().zip(texts) {
            let mut hasher = XxHash64::with_seed(0);
            hasher.write(text.as_bytes());
            let hash = hasher.finish();
            let again = if self.seen.len() < EVENTS { !self.seen.insert(hash) } else { self.seen.contains(&hash) };
            if again {
                let allowed = "that of an event whose rows are all next to each other";
                return Err(self.column(table, id).error(start, allowed, format!("{text:?}, which came before")));
            }
        }
        Ok(())
    }

    /// How the records are read: their columns have the usual names, and the action is a place.
    pub(super) fn columns(given: &ColumnNames) -> ColumnNames {
        let ColumnNames { event_id, propensity, reward, policy_version, positions, .. } = given.clone();
        ColumnNames { event_id, propensity, reward, policy_version, positions, ..ColumnNames::default() }
    }

    /// The row of the chosen candidate of each event, if one is marked.
    fn chosen(&self, table: &RecordBatch, starts: &[usize]) -> Result<Vec<Option<usize>>> {
        let name = self.columns.chosen.as_deref().unwrap_or(CHOSEN);
        let events = starts.len() - 1;
        let Ok(at) = table.schema_ref().index_of(name) else {
            return match self.columns.chosen {
                Some(_) => Err(missing(&self.place, name, table)),
                None => Ok(vec![None; events]),
            };
        };
        let column = self.column(table, at);
        // A reward or a propensity marks the chosen candidate if only that one has it.
        let by_value = [Role::Reward, Role::Propensity].into_iter().map(|role| self.role(table, role));
        let by_value = by_value.collect::<Result<Vec<_>>>()?.contains(&Some(at));
        let numbers = column.numbers()?;
        let marked = |i: usize| match by_value {
            true => Ok(!column.array.is_null(i)),
            false if numbers[i].is_nan() => Ok(false),
            false if numbers[i] == 0.0 || numbers[i] == 1.0 => Ok(numbers[i] == 1.0),
            false => Err(column.error(i, "1 (true) for the chosen candidate and 0 (false) for the others", numbers[i])),
        };
        let mut chosen = Vec::with_capacity(events);
        for event in starts.windows(2) {
            let mut found = None;
            for i in event[0]..event[1] {
                if marked(i)? && found.replace(i).is_some() {
                    return Err(column.error(i, "true for one candidate of an event", "true for a second one"));
                }
            }
            chosen.push(found);
        }
        Ok(chosen)
    }

    /// Whether a column has different values in the rows of some event; the first such row.
    fn differs(&self, table: &RecordBatch, i: usize, starts: &[usize]) -> Option<usize> {
        let data = table.column(i);
        let numbers = self.column(table, i).numbers().ok().filter(|_| !matches!(data.data_type(), DataType::Utf8));
        let texts = data.as_string_opt::<i32>();
        let same = |a: usize, b: usize| match (&numbers, texts) {
            (_, Some(texts)) => texts.is_null(a) == texts.is_null(b) && texts.value(a) == texts.value(b),
            (Some(x), None) => x[a] == x[b] || x[a].is_nan() && x[b].is_nan(),
            (None, None) => data.slice(a, 1).to_data() == data.slice(b, 1).to_data(),
        };
        let mut events = starts.windows(2).flat_map(|event| (event[0] + 1..event[1]).map(move |row| (event[0], row)));
        events.find(|&(first, row)| !same(first, row)).map(|(_, row)| row)
    }

    fn records(&mut self, table: &RecordBatch, starts: &[usize]) -> Result<RecordBatch> {
        self.together(table, starts)?;
        let roles = self.columns.find(&self.place, table, false)?;
        let chosen = self.chosen(table, starts)?;
        let schema = table.schema();
        let named = |name: &str| schema.index_of(name).ok();
        let identity = match &self.columns.identity {
            Some(name) => Some(named(name).ok_or_else(|| missing(&self.place, name, table))?),
            None => IDENTITIES.iter().find_map(|name| named(name)).or(roles.get(Role::Action.name()).copied()),
        };
        let mark = named(self.columns.chosen.as_deref().unwrap_or(CHOSEN));
        let of_chosen = [Role::Propensity, Role::Reward].map(|role| roles.get(role.name()).copied());
        let has_role = |i: usize| roles.values().any(|&at| at == i);
        let features: Vec<usize> =
            (0..table.num_columns()).filter(|&i| !has_role(i) && Some(i) != identity && Some(i) != mark).collect();
        let first = self.own.is_none();
        let own = match (&self.own, &self.columns.candidate_features) {
            (Some(own), _) => own.clone(),
            (None, Some(given)) => given.clone(),
            (None, None) => {
                let differing = features.iter().filter(|&&i| self.differs(table, i, starts).is_some());
                differing.map(|&i| schema.field(i).name().clone()).collect()
            }
        };
        let is_own = |i: usize| among(&own, schema.field(i).name());
        // Those of the first batch were just compared, unless the user gave the columns.
        let unsure = features.iter().filter(|_| !first || self.columns.candidate_features.is_some());
        for &i in unsure.filter(|&&i| !is_own(i)) {
            if let Some(row) = self.differs(table, i, starts) {
                let allowed =
                    "the same for all candidates of an event, as before (or name it as a feature of candidates)";
                return Err(self.column(table, i).error(row, allowed, "another than in the row before"));
            }
        }
        // As texts, since the action is a place, and not one of identities that are numbers.
        let ids = identity.map(|i| self.column(table, i).texts()).transpose()?;
        let ids = ids.map(|ids| ids.iter().map(Option::as_deref).collect::<StringArray>());
        let made = Made { table, starts, chosen: &chosen, row: self.row };
        let malformed = |e: arrow_schema::ArrowError| self.malformed(&e);
        let own_features: Vec<usize> = features.iter().copied().filter(|&i| is_own(i)).collect();
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for i in 0..table.num_columns() {
            let at_chosen = of_chosen.contains(&Some(i));
            let skipped = Some(i) == identity || own_features.contains(&i) || Some(i) == mark && !at_chosen;
            if skipped || Some(&i) == roles.get(Role::Action.name()) || Some(&i) == roles.get(Role::Eligible.name()) {
                continue;
            }
            let array = made.rows(i, at_chosen).map_err(malformed)?;
            fields.push(Field::new(schema.field(i).name(), array.data_type().clone(), true));
            arrays.push(array);
        }
        for (name, array) in [
            (Role::Action.name(), made.places()),
            (Role::Candidates.name(), made.candidates(ids, &own_features)),
            (ROW, made.first_rows()),
        ] {
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        self.own = Some(own);
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|e| self.malformed(&e))
    }
}

impl Iterator for Grouped {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let batch = self.next_batch();
        self.over = !matches!(batch, Ok(Some(_)));
        batch.transpose()
    }
}

/// The columns of records, made of the rows of their candidates.
struct Made<'a> {
    table: &'a RecordBatch,
    starts: &'a [usize],
    /// The row of the chosen candidate of each event.
    chosen: &'a [Option<usize>],
    /// The row of the file with which the table begins.
    row: usize,
}

impl Made<'_> {
    /// The values of a column in the first row of each event, or in the row of the chosen candidate.
    fn rows(&self, i: usize, at_chosen: bool) -> std::result::Result<ArrayRef, arrow_schema::ArrowError> {
        let rows: UInt64Array = match at_chosen {
            true => self.chosen.iter().map(|row| row.map(|row| row as u64)).collect(),
            false => self.starts[..self.starts.len() - 1].iter().map(|&row| Some(row as u64)).collect(),
        };
        take(self.table.column(i), &rows, None)
    }

    /// The place of the chosen candidate of each event.
    fn places(&self) -> ArrayRef {
        let place = |(row, start): (&Option<usize>, &usize)| row.map(|row| (row - start) as u32);
        Arc::new(self.chosen.iter().zip(self.starts).map(place).collect::<UInt32Array>())
    }

    fn first_rows(&self) -> ArrayRef {
        let starts = &self.starts[..self.starts.len() - 1];
        Arc::new(starts.iter().map(|&start| Some((self.row + start) as u64)).collect::<UInt64Array>())
    }

    fn candidates(&self, identity: Option<StringArray>, features: &[usize]) -> ArrayRef {
        let schema = self.table.schema();
        let own = features.iter().map(|&i| (schema.field(i).name().as_str(), Arc::clone(self.table.column(i))));
        let identity = identity.map(|ids| (ID, Arc::new(ids) as ArrayRef));
        let all: Vec<(&str, ArrayRef)> = own.filter(|(name, _)| *name != ID).chain(identity).collect();
        let rows = self.starts[self.starts.len() - 1];
        let items = match all.is_empty() {
            true => StructArray::new_empty_fields(rows, None),
            false => {
                let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
                let fields: Fields = all.iter().map(field).collect();
                StructArray::new(fields, all.into_iter().map(|(_, array)| array).collect(), None)
            }
        };
        let item = Arc::new(Field::new("item", items.data_type().clone(), true));
        let lengths = self.starts.windows(2).map(|event| event[1] - event[0]);
        Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths), Arc::new(items), None))
    }
}
