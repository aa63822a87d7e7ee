//! Some records of a log, column by column.

mod candidates;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use surefoot::logs::Eligible;

use super::actions::{Actions, some};
use super::candidates::Candidates;
use super::roles::{COST, ColumnNames, Role, missing};
use crate::column::{Column, Lists};
use crate::error::{Error, Result};

/// Some consecutive records of a file.
#[derive(Debug, Clone)]
pub struct LogBatch {
    place: String,
    file: usize,
    start: usize,
    row: usize,
    /// The rows of the records, counted from `start`, if some records were left out.
    rows: Option<Vec<usize>>,
    /// The place of each row among the candidates of its record, if the rows are candidates.
    places: Option<Vec<usize>>,
    columns: Arc<ColumnNames>,
    /// Whether the identities of its candidates have been found, and are in the field `id`.
    identified: bool,
    /// The candidates, once they were asked for.
    candidates: OnceLock<Arc<Candidates>>,
    /// Whether the format omits a column from a batch if no record of the batch has it.
    ragged: bool,
    roles: HashMap<&'static str, usize>,
    /// The index of each column. All slices of a batch share it.
    names: Arc<HashMap<String, usize>>,
    table: RecordBatch,
}

/// Where a batch begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    /// The index of the file.
    pub(super) file: usize,
    /// The row in the file.
    pub(super) start: usize,
    /// The index among the records of all files.
    pub(super) row: usize,
}

impl LogBatch {
    /// The rows of a table that begins at this position.
    pub(super) fn new(
        place: String,
        Position { file, start, row }: Position,
        table: RecordBatch,
        columns: &Arc<ColumnNames>,
        ragged: bool,
    ) -> Result<Self> {
        let roles = columns.find(&place, &table, ragged)?;
        let (names, columns) = (named(&table), Arc::clone(columns));
        let (rows, places, candidates, identified) = (None, None, OnceLock::new(), false);
        Ok(LogBatch {
            place,
            file,
            start,
            row,
            rows,
            places,
            columns,
            identified,
            candidates,
            ragged,
            roles,
            names,
            table,
        })
    }

    /// The names of columns that the user gave.
    pub(super) fn column_names(&self) -> &ColumnNames {
        &self.columns
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.table.num_rows()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the format omits a column from a batch if no record of the batch has it.
    pub(crate) fn is_ragged(&self) -> bool {
        self.ragged
    }

    /// The index of the file among those that are read.
    pub fn file(&self) -> usize {
        self.file
    }

    /// The index of the first record among all records of all files.
    pub fn row(&self) -> usize {
        self.row
    }

    /// A range of its records.
    ///
    /// # Panics
    /// If the range is not within the records.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        let (start, rows) = match &self.rows {
            None => (self.start + range.start, None),
            Some(rows) => (self.start, Some(rows[range.clone()].to_vec())),
        };
        LogBatch {
            start,
            rows,
            row: self.row + range.start,
            table: self.table.slice(range.start, range.len()),
            places: self.places.as_ref().map(|places| places[range].to_vec()),
            place: self.place.clone(),
            columns: Arc::clone(&self.columns),
            candidates: OnceLock::new(),
            roles: self.roles.clone(),
            names: Arc::clone(&self.names),
            ..*self
        }
    }

    /// The columns as they are in the file.
    pub fn table(&self) -> &RecordBatch {
        &self.table
    }

    /// The name of its file.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// All columns in the order of the file, with their roles.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (Column<'_>, Option<Role>)> {
        (0..self.table.num_columns()).map(|i| {
            let role = Role::ALL.into_iter().find(|role| self.roles.get(role.name()) == Some(&i));
            (self.at(i), role)
        })
    }

    /// The columns that have no role, in the order of the file.
    pub(crate) fn others(&self) -> impl Iterator<Item = Column<'_>> {
        (0..self.table.num_columns()).filter(|i| !self.roles.values().any(|role| role == i)).map(|i| self.at(i))
    }

    /// A column by its name.
    pub(crate) fn column(&self, name: &str) -> Option<Column<'_>> {
        self.names.get(name).map(|&i| self.at(i))
    }

    /// A feature column. `None` if no record of the batch has it and the format allows that.
    pub(crate) fn feature(&self, name: &str) -> Result<Option<Column<'_>>> {
        match self.column(name) {
            None if !self.ragged => Err(missing(&self.place, name, &self.table)),
            column => Ok(column),
        }
    }

    /// A column that must exist.
    pub(crate) fn required(&self, name: &str) -> Result<Column<'_>> {
        self.column(name).ok_or_else(|| missing(&self.place, name, &self.table))
    }

    /// The column of a role.
    pub(crate) fn role(&self, role: Role) -> Option<Column<'_>> {
        self.roles.get(role.name()).map(|&i| self.at(i))
    }

    pub(crate) fn required_role(&self, role: Role) -> Result<Column<'_>> {
        self.role(role).ok_or_else(|| missing(&self.place, &role.names().join(" or "), &self.table))
    }

    /// The column of a role that every record should have. `None` if no record of the batch has it and the format
    /// allows that.
    pub(crate) fn expected(&self, role: Role) -> Result<Option<Column<'_>>> {
        if self.ragged { Ok(self.role(role)) } else { self.required_role(role).map(Some) }
    }

    /// The file of a record, and its row there.
    pub(crate) fn place_of(&self, i: usize) -> (&str, usize) {
        (&self.place, self.start + self.rows.as_ref().map_or(i, |rows| rows[i]))
    }

    /// Some of the records.
    pub(crate) fn keep(&self, kept: &[bool]) -> Result<LogBatch> {
        let filter: BooleanArray = kept.iter().copied().map(Some).collect();
        let table = filter_record_batch(&self.table, &filter)
            .map_err(|e| Error::Malformed { place: self.place.clone(), reason: e.to_string() })?;
        let row = |i: usize| self.rows.as_ref().map_or(i, |rows| rows[i]);
        let rows = (0..self.len()).filter(|&i| kept[i]).map(row).collect();
        let places = self.places.as_ref().map(|all| (0..self.len()).filter(|&i| kept[i]).map(|i| all[i]).collect());
        let (place, roles, names) = (self.place.clone(), self.roles.clone(), Arc::clone(&self.names));
        let (columns, candidates) = (Arc::clone(&self.columns), OnceLock::new());
        Ok(LogBatch { place, rows: Some(rows), places, columns, candidates, roles, names, table, ..*self })
    }

    /// A batch that is not from a file.
    #[cfg(test)]
    pub(crate) fn of(place: &str, start: usize, table: RecordBatch, columns: &ColumnNames) -> Result<LogBatch> {
        let (columns, position) = (Arc::new(columns.clone()), Position { file: 0, start, row: start });
        let mut batch = LogBatch::new(place.into(), position, table, &columns, false)?;
        batch.leave_out_skipped()?;
        Ok(batch)
    }

    fn at(&self, i: usize) -> Column<'_> {
        let (rows, places) = (self.rows.as_deref(), self.places.as_deref());
        // The name is owned by the schema, which the table keeps.
        let name = self.table.schema_ref().field(i).name();
        Column { place: &self.place, start: self.start, rows, places, name, array: self.table.column(i) }
    }

    pub(super) fn leave_out_skipped(&mut self) -> Result<()> {
        let Some(column) = self.role(Role::Skip) else {
            return Ok(());
        };
        let skip = column.numbers()?;
        let kept: Vec<bool> = skip.iter().map(|&skip| skip != 1.0).collect();
        if kept.contains(&false) {
            *self = self.keep(&kept)?;
        }
        Ok(())
    }

    /// Leaves out the decisions without a label: those without action, propensity and reward.
    pub(super) fn leave_out_unlabelled(&mut self) -> Result<()> {
        let labels: Vec<Column<'_>> =
            [Role::Action, Role::Propensity, Role::Reward].into_iter().filter_map(|role| self.role(role)).collect();
        // A log without such a column has no labels to leave out, and is refused elsewhere.
        if labels.len() < 3 || labels.iter().any(|column| column.array.null_count() == 0) {
            return Ok(());
        }
        let kept: Vec<bool> = (0..self.len()).map(|i| labels.iter().any(|column| !column.array.is_null(i))).collect();
        if kept.contains(&false) {
            *self = self.keep(&kept)?;
        }
        Ok(())
    }

    /// The text of every action: a number as written, or a name.
    pub(crate) fn action_texts(&self) -> Result<Vec<Cow<'_, str>>> {
        let column = self.required_role(Role::Action)?;
        let texts = column.texts()?.into_iter().enumerate();
        texts.map(|(i, text)| text.ok_or_else(|| column.error(i, "an action", "missing"))).collect()
    }

    /// The number of every action.
    pub fn action(&self, actions: &Actions) -> Result<Vec<u32>> {
        if let Some(candidates) = self.candidates()? {
            return candidates.action(self);
        }
        let column = self.required_role(Role::Action)?;
        match actions {
            Actions::Count(k) => {
                let first = u32::from(self.columns.from_one);
                let number = |(i, &x): (usize, &f64)| {
                    let a = column.whole(i, x)?;
                    match a.checked_sub(first).filter(|&a| (a as usize) < *k) {
                        Some(a) => Ok(a),
                        None => Err(column.error(i, format!("from {first} to {}", k - 1 + first as usize), a)),
                    }
                };
                column.all_numbers()?.iter().enumerate().map(number).collect()
            }
            Actions::Names(names) => {
                let numbers: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
                let number = |(i, text): (usize, Option<Cow<'_, str>>)| match text {
                    None => Err(column.error(i, "an action", "missing")),
                    Some(text) => numbers
                        .get(&*text)
                        .copied()
                        .ok_or_else(|| column.error(i, format!("one of {}", some(names)), format!("{text:?}"))),
                };
                column.texts()?.into_iter().enumerate().map(number).collect()
            }
        }
    }

    /// The logged propensities, unchanged, NaN where missing.
    pub fn propensity(&self) -> Result<Cow<'_, [f64]>> {
        self.required_role(Role::Propensity)?.numbers()
    }

    /// The rewards, unchanged, NaN where missing.
    pub fn reward(&self) -> Result<Cow<'_, [f64]>> {
        let column = self.required_role(Role::Reward)?;
        let rewards = column.numbers()?;
        Ok(if column.name == COST { rewards.iter().map(|c| -c).collect() } else { rewards })
    }

    /// For each record, the probability with which such a record was dropped from the log.
    pub fn drop_probability(&self) -> Result<Option<Cow<'_, [f64]>>> {
        self.role(Role::DropProbability).map(|column| column.numbers()).transpose()
    }

    /// The event ids.
    pub fn event_id(&self) -> Result<Option<Vec<Option<Cow<'_, str>>>>> {
        self.role(Role::EventId).map(|column| column.texts()).transpose()
    }

    /// The policy version that made each decision.
    pub fn policy_version(&self) -> Result<Option<Vec<Option<Cow<'_, str>>>>> {
        self.role(Role::PolicyVersion).map(|column| column.texts()).transpose()
    }

    /// The texts of a column by which records are grouped.
    pub fn texts_of(&self, name: &str) -> Result<Vec<Option<Cow<'_, str>>>> {
        self.feature(name)?.map_or_else(|| Ok(vec![None; self.len()]), |column| column.texts())
    }

    /// The eligible actions, in the order of the file.
    pub(crate) fn eligible_lists(&self, actions: &Actions) -> Result<Option<Lists<u32>>> {
        let Some(column) = self.role(Role::Eligible) else {
            return Ok(None);
        };
        let (offsets, values) = match actions {
            Actions::Count(k) => {
                let lists = column.lists()?;
                let first = u32::from(self.columns.from_one);
                let mut values = Vec::with_capacity(lists.values.len());
                for i in 0..lists.len() {
                    for &x in lists.get(i) {
                        let a = column.whole(i, x)?;
                        let a = a.checked_sub(first).filter(|&a| (a as usize) < *k);
                        let allowed = || format!("actions from {first} to {}", k - 1 + first as usize);
                        values.push(a.ok_or_else(|| column.error(i, allowed(), x))?);
                    }
                }
                (lists.offsets, values)
            }
            Actions::Names(names) => {
                let numbers: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
                let lists = column.text_lists()?;
                let mut values = Vec::with_capacity(lists.values.len());
                for i in 0..lists.len() {
                    for text in lists.get(i) {
                        let allowed = || format!("actions that are one of {}", some(names));
                        let a = numbers.get(text.as_str()).copied();
                        values.push(a.ok_or_else(|| column.error(i, allowed(), format!("{text:?}")))?);
                    }
                }
                (lists.offsets, values)
            }
        };
        Ok(Some(Lists { offsets, values }))
    }

    /// The eligible actions, if they are logged.
    pub fn eligible(&self, actions: &Actions) -> Result<Option<Eligible>> {
        if let Some(candidates) = self.candidates()? {
            let sets = (0..candidates.len()).map(|i| (0..candidates.range(i).len() as u32).collect::<Vec<u32>>());
            return Eligible::new(sets).map(Some).map_err(|reason| self.refused(reason));
        }
        let Some(lists) = self.eligible_lists(actions)? else {
            return Ok(None);
        };
        let all: Vec<u32> = (0..actions.len() as u32).collect();
        let set = |i: usize| match lists.get(i) {
            [] => all.clone(),
            set => {
                let mut set = set.to_vec();
                set.sort_unstable();
                set
            }
        };
        let sets = Eligible::new((0..lists.len()).map(set));
        sets.map(Some).map_err(|reason| self.refused(reason))
    }

    /// The logged distribution: over the eligible actions in their order, or over all actions.
    pub(crate) fn probabilities(&self) -> Result<Option<Lists<f64>>> {
        self.role(Role::Probabilities).map(|column| column.lists()).transpose()
    }

    /// The column of the logged distribution, which must exist.
    pub(crate) fn probabilities_column(&self) -> Column<'_> {
        self.role(Role::Probabilities).expect("it has been read")
    }

    /// Whether actions that are numbers are counted from 1 on.
    pub(crate) fn counts_from_one(&self) -> bool {
        self.columns.from_one
    }

    /// An error about a missing column.
    pub(crate) fn missing(&self, column: &str) -> Error {
        missing(&self.place, column, &self.table)
    }

    /// An error of the core, with the place of the records.
    pub(crate) fn refused(&self, reason: surefoot::Error) -> Error {
        match reason {
            surefoot::Error::Value { row, column, allowed, value } => {
                let row = self.start + self.rows.as_ref().map_or(row, |rows| rows[row]);
                Error::Field { place: format!("{}, row {row}", self.place), column, allowed, found: value }
            }
            reason => Error::Content { place: self.place.clone(), reason },
        }
    }
}

/// The index of each column.
fn named(table: &RecordBatch) -> Arc<HashMap<String, usize>> {
    let mut names = HashMap::with_capacity(table.num_columns());
    for (i, field) in table.schema_ref().fields().iter().enumerate() {
        names.entry(field.name().clone()).or_insert(i);
    }
    Arc::new(names)
}
