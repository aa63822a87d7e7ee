//! Catalogues: the features of candidates by identity, in a file or table of their own.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StringArray, StructArray, UInt64Array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{Field, Fields, Schema};
use arrow_select::concat::concat_batches;
use arrow_select::take::take;

use super::candidates::{ID, IDENTITIES, Identities, Items};
use super::{LogBatch, LogReader, Role};
use crate::column::Column;
use crate::error::{Error, Result};

/// The largest number of candidates of a batch that are not logged.
const MOST_CANDIDATES: usize = 1 << 24;

/// The features of all candidates, by identity.
#[derive(Debug)]
pub struct Catalogue {
    place: String,
    /// The row of each identity.
    rows: HashMap<String, usize>,
    /// The identities and features, in the order of the file.
    ids: Vec<String>,
    columns: Vec<(String, ArrayRef)>,
}

impl Catalogue {
    /// Reads a catalogue. The identity is the column `key`, or else the one that has the usual name of identities or of
    /// actions; all other columns are features.
    pub fn read(reader: &LogReader, key: Option<&str>) -> Result<Self> {
        let place = reader.place();
        let malformed = |reason: String| Error::Malformed { place: place.clone(), reason };
        let tables: Vec<RecordBatch> = reader.tables()?.collect::<Result<_>>()?;
        let Some(schema) = tables.first().map(RecordBatch::schema) else {
            return Err(malformed("a catalogue should have records, but has none".into()));
        };
        let table = concat_batches(&schema, &tables).map_err(|e| malformed(e.to_string()))?;
        let usual = || IDENTITIES.iter().chain(Role::Action.names()).copied();
        let found = match key {
            Some(key) => schema.index_of(key).ok(),
            None => usual().find_map(|name| schema.index_of(name).ok()),
        };
        let Some(at) = found else {
            let column = key.map_or_else(|| usual().collect::<Vec<_>>().join(" or "), str::to_owned);
            return Err(super::roles::missing(&place, &column, &table));
        };
        let column = Column {
            place: &place,
            start: 0,
            rows: None,
            places: None,
            name: schema.field(at).name(),
            array: table.column(at),
        };
        let (mut rows, mut ids) = (HashMap::new(), Vec::with_capacity(table.num_rows()));
        for (i, text) in column.texts()?.into_iter().enumerate() {
            let text = text.ok_or_else(|| column.error(i, "an identity", "missing"))?.into_owned();
            if let Some(other) = rows.insert(text.clone(), i) {
                return Err(column.error(
                    i,
                    "an identity that no other row has",
                    format!("{text:?}, as in row {other}"),
                ));
            }
            ids.push(text);
        }
        let all = schema.fields().iter().zip(table.columns()).enumerate();
        let columns =
            all.filter(|(i, _)| *i != at).map(|(_, (field, array))| (field.name().clone(), Arc::clone(array)));
        Ok(Catalogue { rows, ids, columns: columns.filter(|(name, _)| name != ID).collect(), place })
    }

    /// Adds the features to the candidates of a batch. Without candidates, these are the eligible actions, or all
    /// identities of the catalogue.
    pub(super) fn join(&self, batch: &LogBatch) -> Result<RecordBatch> {
        let listed = batch.role(Role::Eligible).filter(|_| !batch.has_candidates());
        let (offsets, ids, own) = if batch.has_candidates() {
            let Items { offsets, mut columns } = Items::of(batch)?;
            let Some(ids) = Identities::of(batch, &mut columns)? else {
                return Err(Error::Malformed {
                    place: batch.place().to_owned(),
                    reason: format!("the candidates have no identities by which {} could be joined", self.place),
                });
            };
            (offsets, ids.of, columns)
        } else if let Some(column) = listed {
            let lists = column.text_lists()?;
            if let Some(i) = (0..lists.len()).find(|&i| lists.get(i).is_empty()) {
                return Err(column.error(i, "a list with at least one action", "empty or missing"));
            }
            (lists.offsets, lists.values.into_iter().map(Some).collect(), Vec::new())
        } else {
            let (n, k) = (batch.len(), self.ids.len());
            if n.saturating_mul(k) > MOST_CANDIDATES {
                return Err(Error::TooLarge {
                    place: self.place.clone(),
                    what: "the number of candidates of a batch that does not log the eligible actions".into(),
                    limit: MOST_CANDIDATES as u64,
                    found: format!("{n} records x {k} rows of the catalogue"),
                });
            }
            let ids = (0..n).flat_map(|_| self.ids.iter().cloned().map(Some)).collect();
            ((0..=n).map(|i| i * k).collect(), ids, Vec::new())
        };
        let known: Vec<Option<u64>> =
            ids.iter().map(|id: &Option<String>| Some(*self.rows.get(id.as_ref()?)? as u64)).collect();
        if !known.is_empty() && known.iter().all(Option::is_none) {
            let some = ids.iter().flatten().next().map_or("none".into(), |id| format!("{id:?}"));
            return Err(Error::Field {
                place: batch.place().to_owned(),
                column: "the identities of the candidates".into(),
                allowed: format!("those of {}, such as {:?}", self.place, self.ids.first().map_or("", |id| id)),
                found: format!("{some}, and no other of the first {} records is there either", batch.len()),
            });
        }
        let known = UInt64Array::from(known);
        let mut columns = own;
        for (name, array) in &self.columns {
            if columns.iter().any(|(other, _)| other == name) {
                let (place, column) = (self.place.clone(), format!("the column {name}"));
                let (allowed, found) = ("only in the catalogue".into(), "also a field of the candidates".into());
                return Err(Error::Field { place, column, allowed, found });
            }
            let taken = take(array, &known, None).map_err(|e| self.malformed(e.to_string()))?;
            columns.push((name.clone(), taken));
        }
        columns.retain(|(name, _)| name != ID);
        columns.push((ID.to_owned(), Arc::new(ids.into_iter().collect::<StringArray>())));
        self.table(batch, &offsets, columns)
    }

    fn malformed(&self, reason: String) -> Error {
        Error::Malformed { place: self.place.clone(), reason }
    }

    /// The table of a batch with these candidates.
    fn table(&self, batch: &LogBatch, offsets: &[usize], columns: Vec<(String, ArrayRef)>) -> Result<RecordBatch> {
        let field = |(name, array): &(String, ArrayRef)| Field::new(name, array.data_type().clone(), true);
        let fields: Fields = columns.iter().map(field).collect();
        let items = StructArray::new(fields, columns.into_iter().map(|(_, array)| array).collect(), None);
        let item = Arc::new(Field::new("item", items.data_type().clone(), true));
        let lengths = offsets.windows(2).map(|pair| pair[1] - pair[0]);
        let lists: ArrayRef =
            Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths), Arc::new(items), None));
        let name = batch.role(Role::Candidates).map_or(Role::Candidates.name(), |column| column.name).to_owned();
        let by_identity = !batch.has_candidates();
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (column, role) in batch.columns() {
            let array: ArrayRef = match role {
                Some(Role::Candidates) => continue,
                // The candidates are the eligible actions.
                Some(Role::Eligible) if by_identity => continue,
                Some(Role::Action) if by_identity => {
                    Arc::new(column.texts()?.iter().map(|text| text.as_ref().map(Cow::as_ref)).collect::<StringArray>())
                }
                _ => Arc::clone(column.array),
            };
            fields.push(Field::new(column.name, array.data_type().clone(), true));
            arrays.push(array);
        }
        fields.push(Field::new(name, lists.data_type().clone(), true));
        arrays.push(lists);
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|e| self.malformed(e.to_string()))
    }
}
