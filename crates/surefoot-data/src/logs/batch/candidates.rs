//! Records with candidates.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow_array::builder::{ListBuilder, UInt32Builder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, UInt64Array};
use arrow_schema::{Field, FieldRef, Schema};

use super::super::candidates::{Candidates, LISTS};
use super::super::long::ROW;
use super::super::roles::{ColumnNames, Role};
use super::{LogBatch, named};
use crate::error::Result;

impl LogBatch {
    /// The candidates of its records as rows of a table of their own: `rows` are their records, and `places` their places
    /// among the candidates of these. Their columns have no roles.
    pub(in crate::logs) fn of_candidates(&self, table: RecordBatch, rows: Vec<usize>, places: Vec<usize>) -> Self {
        let rows = rows.into_iter().map(|i| self.rows.as_ref().map_or(i, |rows| rows[i])).collect();
        LogBatch {
            rows: Some(rows),
            places: Some(places),
            place: self.place.clone(),
            columns: Arc::clone(&self.columns),
            candidates: OnceLock::new(),
            roles: HashMap::new(),
            names: named(&table),
            table,
            ..*self
        }
    }

    /// The candidates of its records, if they have some.
    pub(crate) fn candidates(&self) -> Result<Option<&Candidates>> {
        if self.role(Role::Candidates).is_none() {
            return Ok(None);
        }
        if let Some(known) = self.candidates.get() {
            return Ok(Some(known));
        }
        let found = Arc::new(Candidates::of(self)?);
        Ok(Some(self.candidates.get_or_init(|| found)))
    }

    /// The largest number of candidates of a record, and that of all records, if they have some.
    pub(crate) fn candidate_counts(&self) -> Result<Option<(usize, usize)>> {
        let Some(column) = self.role(Role::Candidates) else { return Ok(None) };
        let lists = column.array.as_list_opt::<i32>().ok_or_else(|| column.mistyped(LISTS))?;
        let counts = || (0..lists.len()).map(|i| lists.value_length(i) as usize);
        Ok(Some((counts().max().unwrap_or(0), counts().sum())))
    }

    /// The same records, with this field as the identity of candidates, unless the user named one.
    pub(crate) fn identified_by(&self, identity: Option<&str>) -> Cow<'_, LogBatch> {
        match identity {
            Some(name) if self.columns.identity.is_none() => {
                let columns = ColumnNames { identity: Some(name.to_owned()), ..(*self.columns).clone() };
                Cow::Owned(LogBatch { columns: Arc::new(columns), candidates: OnceLock::new(), ..self.clone() })
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// Whether its records have candidates.
    pub(crate) fn has_candidates(&self) -> bool {
        self.role(Role::Candidates).is_some()
    }

    /// Leaves out the column of candidates if it says nothing, or if the user wants to ignore it.
    pub(in crate::logs) fn leave_out_candidates(&mut self) {
        let Some(&i) = self.roles.get(Role::Candidates.name()) else { return };
        let array = self.table.column(i);
        if !self.columns.positions && (array.null_count() < array.len() || array.is_empty()) {
            return;
        }
        let removed = self.table.remove_column(i);
        self.roles.remove(Role::Candidates.name());
        self.roles.values_mut().filter(|column| **column > i).for_each(|column| *column -= 1);
        if let Some(lists) = removed.as_list_opt::<i32>().filter(|_| self.role(Role::Eligible).is_none())
            && self.columns.positions
        {
            self.add_places(lists);
        }
        self.names = named(&self.table);
    }

    /// Adds the places of these candidates as eligible actions.
    fn add_places(&mut self, candidates: &ListArray) {
        let first = u32::from(self.columns.from_one);
        let mut places = ListBuilder::new(UInt32Builder::new());
        for i in 0..candidates.len() {
            (0..candidates.value_length(i) as u32).for_each(|place| places.values().append_value(place + first));
            places.append(candidates.is_valid(i));
        }
        let places: ArrayRef = Arc::new(places.finish());
        let name = Role::Eligible.name();
        let mut fields: Vec<FieldRef> = self.table.schema_ref().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(name, places.data_type().clone(), true)));
        let columns = self.table.columns().iter().cloned().chain([places]).collect();
        if let Ok(table) = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns) {
            self.roles.insert(name, table.num_columns() - 1);
            self.table = table;
        }
    }

    /// Takes out the column with the rows of the records, if their candidates were rows of the file.
    pub(in crate::logs) fn take_rows(&mut self) {
        let Some(&i) = self.names.get(ROW) else { return };
        let rows = self.table.remove_column(i);
        let rows: &UInt64Array = rows.as_primitive();
        self.identified = true;
        (self.start, self.rows) = (0, Some(rows.values().iter().map(|&row| row as usize).collect()));
        self.names = named(&self.table);
    }

    /// Whether the identities of its candidates have been found, and are in the field `id`.
    pub(in crate::logs) fn is_identified(&self) -> bool {
        self.identified
    }

    /// The same records in another table, with candidates whose identities are in the field `id`.
    pub(in crate::logs) fn with_table(self, table: RecordBatch) -> Result<Self> {
        let roles = self.columns.find(&self.place, &table, self.ragged)?;
        let (names, candidates) = (named(&table), OnceLock::new());
        Ok(LogBatch { table, roles, names, candidates, identified: true, ..self })
    }
}
