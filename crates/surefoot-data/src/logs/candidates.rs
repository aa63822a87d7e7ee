//! The candidates of a batch: one row each, with features and perhaps an identity.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, ListArray, RecordBatch, RecordBatchOptions, StringArray, StructArray, UInt64Array, new_null_array,
};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::take::take;

use super::roles::{ActionIs, ColumnNames};
use super::{LogBatch, Role};
use crate::column::{Column, Lists};
use crate::encoding::{NAMES, VALUES};
use crate::error::{Error, Result};

/// The column of the identities of candidates, in whatever field the file has them.
pub(crate) const ID: &str = "id";

/// The usual names of the field that is the identity of a candidate.
pub(crate) const IDENTITIES: [&str; 5] = [ID, "_id", "_tag", "item_id", "action_id"];

/// What the column of candidates should have.
pub(super) const LISTS: &str = "lists of objects (lists of structs)";

/// The candidates of the records of a batch. Those of record `i` are the rows `offsets[i]..offsets[i + 1]`. Candidates
/// that were not eligible are left out.
#[derive(Debug)]
pub(crate) struct Candidates {
    offsets: Vec<usize>,
    /// One row per candidate.
    pub(crate) rows: LogBatch,
    /// The identities, if the candidates have some.
    pub(crate) identities: Option<Identities>,
    /// The places that the candidates of each record have in the file, in ascending order.
    listed: Lists<usize>,
    /// The places of the candidates of each record, in the order of its logged distribution.
    pub(crate) order: Lists<u32>,
    /// The largest number of candidates of a record in the file.
    pub(crate) most: usize,
}

/// The identities of candidates.
#[derive(Debug)]
pub(crate) struct Identities {
    /// The identity of each candidate.
    pub(crate) of: Vec<Option<String>>,
    /// Whether the file has them as numbers.
    numbers: bool,
}

impl Candidates {
    pub(super) fn of(batch: &LogBatch) -> Result<Self> {
        let Items { offsets: all, mut columns } = Items::of(batch)?;
        let mut identities = Identities::of(batch, &mut columns)?;
        let n = all.len() - 1;
        if identities.is_none() {
            // A policy that knows identities is not surprised by candidates without one.
            columns.push((ID.to_owned(), new_null_array(&DataType::Utf8, all[n])));
        }
        let (mut listed, mut order) = (Lists::new(), Lists::new());
        // Some formats list all places in every record. Numbers that are identities are another matter.
        let column = batch
            .role(Role::Eligible)
            .filter(|column| identities.as_ref().is_some_and(|ids| ids.numbers) || !column.lists_all_places(&all));
        let eligible = column.map(|column| column.text_lists().map(|lists| (column, lists))).transpose()?;
        for i in 0..n {
            let count = all[i + 1] - all[i];
            match eligible.as_ref().filter(|(_, sets)| !sets.get(i).is_empty()) {
                None => {
                    listed.values.extend(0..count);
                    order.values.extend(0..count as u32);
                }
                Some((column, sets)) => {
                    let ids = identities.as_ref().map(|ids| (ids.numbers, &ids.of[all[i]..all[i + 1]]));
                    let places = places(column, i, sets.get(i), count, ids)?;
                    let mut sorted = places.clone();
                    sorted.sort_unstable();
                    let place = |place| sorted.binary_search(place).unwrap_or_default() as u32;
                    order.values.extend(places.iter().map(place));
                    listed.values.extend(sorted);
                }
            }
            listed.end();
            order.end();
        }
        let offsets = listed.offsets.clone();
        if offsets[n] < all[n] {
            let kept = |i: usize| listed.get(i).iter().map(move |place| (i, *place));
            let kept: Vec<usize> = (0..n).flat_map(kept).map(|(i, place)| all[i] + place).collect();
            columns = taken(batch, &columns, &kept)?;
            if let Some(ids) = &mut identities {
                ids.of = kept.iter().map(|&j| ids.of[j].clone()).collect();
            }
        }
        let rows = (0..n).flat_map(|i| std::iter::repeat_n(i, offsets[i + 1] - offsets[i])).collect();
        let places = (0..n).flat_map(|i| 0..offsets[i + 1] - offsets[i]).collect();
        let rows = batch.of_candidates(table(batch, columns, offsets[n])?, rows, places);
        let most = (0..n).map(|i| all[i + 1] - all[i]).max().unwrap_or(0);
        Ok(Candidates { offsets, rows, identities, listed, order, most })
    }

    /// The number of records.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The rows of the candidates of a record.
    pub(crate) fn range(&self, i: usize) -> Range<usize> {
        self.offsets[i]..self.offsets[i + 1]
    }

    /// Where the candidates of each record begin and end.
    pub(crate) fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// The place that a candidate of a record has in the file, among all its candidates.
    pub(crate) fn in_file(&self, i: usize, place: u32) -> u32 {
        self.listed.get(i)[place as usize] as u32
    }

    /// Whether the actions of the batch are identities, and not places.
    pub(crate) fn are_named(&self, batch: &LogBatch) -> bool {
        let action = batch.role(Role::Action);
        action
            .is_some_and(|action| self.identities.as_ref().is_some_and(|ids| ids.names(&action, batch.column_names())))
    }

    /// The place of the chosen candidate of every record.
    pub(super) fn action(&self, batch: &LogBatch) -> Result<Vec<u32>> {
        let (column, columns) = (batch.required_role(Role::Action)?, batch.column_names());
        match self.identities.as_ref().filter(|ids| ids.names(&column, columns)) {
            Some(ids) => {
                let place = |(i, text): (usize, Option<Cow<'_, str>>)| match text {
                    None => Err(column.error(i, "the identity of a candidate", "missing")),
                    Some(text) => self.place(&column, ids, i, &text),
                };
                column.texts()?.into_iter().enumerate().map(place).collect()
            }
            None => {
                let first = usize::from(columns.from_one);
                let place = |(i, &x): (usize, &f64)| {
                    let place = (column.whole(i, x)? as usize).checked_sub(first);
                    let found = place.and_then(|place| self.listed.get(i).binary_search(&place).ok());
                    found.map(|place| place as u32).ok_or_else(|| {
                        let listed: Vec<String> = self.listed.get(i).iter().map(|a| (a + first).to_string()).collect();
                        let allowed = match listed.len() {
                            n if listed.first() == Some(&first.to_string())
                                && listed.last() == Some(&(n - 1 + first).to_string()) =>
                            {
                                format!("the place of a candidate, from {first} to {}", n - 1 + first)
                            }
                            _ => format!("the place of a candidate, one of the eligible {}", listed.join(", ")),
                        };
                        column.error(i, allowed, x)
                    })
                };
                column.all_numbers()?.iter().enumerate().map(place).collect()
            }
        }
    }

    fn place(&self, column: &Column<'_>, ids: &Identities, i: usize, text: &str) -> Result<u32> {
        let ids = &ids.of[self.range(i)];
        let mut places = (0..).zip(ids).filter(|(_, id)| id.as_deref() == Some(text)).map(|(place, _)| place);
        match (places.next(), places.next()) {
            (Some(place), None) => Ok(place),
            (Some(_), Some(_)) => Err(column.error(
                i,
                "the identity of one candidate",
                format!("{text:?}, which several candidates have"),
            )),
            (None, _) => {
                let names: Vec<String> = ids.iter().flatten().cloned().collect();
                let allowed = format!("the identity of a candidate, one of {}", super::actions::some(&names));
                Err(column.error(i, allowed, format!("{text:?}")))
            }
        }
    }
}

/// The field that is the identity of the candidates of a batch, among these: the one that the user named, or the first
/// of the usual ones.
pub(crate) fn identity_field<'f>(batch: &LogBatch, fields: &[&'f str]) -> Option<&'f str> {
    let mut names = batch.column_names().identity.as_deref().map_or(IDENTITIES.to_vec(), |name| vec![name]).into_iter();
    names.find_map(|name| fields.iter().copied().find(|field| *field == name))
}

/// Whether the user asked to take the places of candidates for identities.
pub(crate) fn takes_places(batch: &LogBatch) -> bool {
    batch.column_names().positions
}

/// The objects in the lists of the column of candidates.
pub(super) struct Items {
    pub(super) offsets: Vec<usize>,
    pub(super) columns: Vec<(String, ArrayRef)>,
}

impl Items {
    pub(super) fn of(batch: &LogBatch) -> Result<Self> {
        let column = batch.required_role(Role::Candidates)?;
        let wrong = || column.mistyped(LISTS);
        let lists: &ListArray = column.array.as_list_opt().ok_or_else(wrong)?;
        let items: &StructArray = lists.values().as_struct_opt().ok_or_else(wrong)?;
        // A slice of a list column still holds the entries of the whole column.
        let first = lists.value_offsets()[0] as usize;
        let offsets: Vec<usize> = lists.value_offsets().iter().map(|&offset| offset as usize - first).collect();
        let items = items.slice(first, offsets[lists.len()]);
        for i in 0..lists.len() {
            if lists.is_null(i) || offsets[i] == offsets[i + 1] {
                let found = if lists.is_null(i) { "missing" } else { "empty" };
                return Err(column.error(i, "a list with at least one candidate", found));
            }
            if let Some(j) = (offsets[i]..offsets[i + 1]).find(|&j| items.is_null(j)) {
                return Err(column.error(
                    i,
                    "a list of objects",
                    format!("one whose entry {} is null", j - offsets[i]),
                ));
            }
        }
        let named = ["names", "values"].iter().all(|name| items.column_by_name(name).is_some());
        let name = |name: &str| match name {
            "names" if named => NAMES.to_owned(),
            "values" if named => VALUES.to_owned(),
            name => name.to_owned(),
        };
        let columns = items.fields().iter().zip(items.columns());
        let columns = columns.map(|(field, array)| (name(field.name()), Arc::clone(array))).collect();
        Ok(Items { offsets, columns })
    }
}

impl Identities {
    /// Finds the identities. Their column becomes one of texts.
    pub(super) fn of(batch: &LogBatch, columns: &mut Vec<(String, ArrayRef)>) -> Result<Option<Self>> {
        // Rows that were candidates, or that a catalogue was joined to, have their identities in the usual field.
        let named = batch.column_names().identity.as_ref().filter(|_| !batch.is_identified());
        if let Some(name) = named
            && columns.iter().all(|(column, _)| column != name)
        {
            return Self::among_names(batch, name, columns);
        }
        let there =
            |name: &str| columns.iter().position(|(column, array)| column == name && array.null_count() < array.len());
        let at = match named {
            Some(name) => columns.iter().position(|(column, _)| column == name),
            None if batch.is_identified() => there(ID),
            None => {
                let found: Vec<(&str, usize)> =
                    IDENTITIES.iter().filter_map(|name| Some((*name, there(name)?))).collect();
                if let [(one, _), (other, _), ..] = found[..] {
                    return Err(Error::Field {
                        place: batch.place().to_owned(),
                        column: "the field with the identity of a candidate".into(),
                        allowed: "unique, or named by an option".into(),
                        found: format!("{one} or {other}"),
                    });
                }
                found.first().map(|(_, at)| *at)
            }
        };
        let Some(at) = at else {
            columns.retain(|(name, _)| name != ID);
            return Ok(None);
        };
        let (field, array) = columns.remove(at);
        let column = Column { place: batch.place(), start: 0, rows: None, places: None, name: &field, array: &array };
        let (numbers, texts) = (!column.is_text(), column.texts()?);
        let of = texts.into_iter().map(|text| text.map(Cow::into_owned)).collect();
        Ok(Some(Identities { of, numbers }.put(columns)))
    }

    /// Adds the column of identities.
    fn put(self, columns: &mut Vec<(String, ArrayRef)>) -> Self {
        columns.retain(|(name, _)| name != ID);
        columns.push((ID.to_owned(), Arc::new(self.of.iter().cloned().collect::<StringArray>())));
        self
    }

    /// Takes the identities out of named features: the text of `name=text`, or the number of `name`.
    fn among_names(batch: &LogBatch, name: &str, columns: &mut Vec<(String, ArrayRef)>) -> Result<Option<Self>> {
        let find = |wanted: &str| columns.iter().position(|(column, _)| column == wanted);
        let (Some(names), Some(values)) = (find(NAMES), find(VALUES)) else {
            if batch.is_ragged() {
                return Ok(None);
            }
            let found: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
            let (place, column) = (batch.place().to_owned(), format!("{name} in the candidates"));
            return Err(Error::MissingColumn { place, column, found: found.join(", ") });
        };
        let lists = |at: usize| {
            let (name, array) = &columns[at];
            Column { place: batch.place(), start: 0, rows: None, places: None, name, array }
        };
        let (found, numbers) = (lists(names).text_lists()?, lists(values).lists()?);
        let mut of = vec![None; found.len()];
        let (mut left, mut kept) = (Lists::new(), Lists::new());
        for (i, id) in of.iter_mut().enumerate() {
            for (text, &x) in found.get(i).iter().zip(numbers.get(i)) {
                match text.strip_prefix(name) {
                    Some("") => *id = Some(x.to_string()),
                    Some(rest) if rest.starts_with('=') => *id = Some(rest[1..].to_owned()),
                    _ => {
                        left.values.push(text.clone());
                        kept.values.push(x as f32);
                    }
                }
            }
            left.end();
            kept.end();
        }
        columns[names].1 = text_lists(&left);
        columns[values].1 = number_lists(&kept);
        Ok(Some(Identities { of, numbers: false }.put(columns)))
    }

    /// Whether the action is an identity, and not a place.
    fn names(&self, action: &Column<'_>, columns: &ColumnNames) -> bool {
        match columns.action_is {
            Some(is) => is == ActionIs::Identity,
            None => action.is_text() || self.numbers,
        }
    }
}

/// The places that a list of eligible candidates names: identities, or places counted from 0.
fn places(
    column: &Column<'_>,
    i: usize,
    set: &[String],
    count: usize,
    ids: Option<(bool, &[Option<String>])>,
) -> Result<Vec<usize>> {
    let mut seen = vec![false; count];
    let mut places = Vec::with_capacity(set.len());
    for text in set {
        let number = text.parse::<usize>().ok().filter(|&place| place < count);
        let named = || ids.and_then(|(_, ids)| ids.iter().position(|id| id.as_ref() == Some(text)));
        let place = match ids {
            Some((true, _)) => named(),
            _ => number.or_else(named),
        };
        let Some(place) = place else {
            let allowed = format!("places (from 0 to {}) or identities of candidates", count - 1);
            return Err(column.error(i, allowed, format!("{text:?}")));
        };
        if std::mem::replace(&mut seen[place], true) {
            return Err(column.error(i, "every candidate once", format!("{text:?} twice")));
        }
        places.push(place);
    }
    Ok(places)
}

/// Some rows of columns.
fn taken(batch: &LogBatch, columns: &[(String, ArrayRef)], rows: &[usize]) -> Result<Vec<(String, ArrayRef)>> {
    let rows = UInt64Array::from_iter_values(rows.iter().map(|&row| row as u64));
    let one = |(name, array): &(String, ArrayRef)| Ok((name.clone(), take(array, &rows, None)?));
    let taken: std::result::Result<_, arrow_schema::ArrowError> = columns.iter().map(one).collect();
    taken.map_err(|e| Error::Malformed { place: batch.place().to_owned(), reason: e.to_string() })
}

fn table(batch: &LogBatch, columns: Vec<(String, ArrayRef)>, rows: usize) -> Result<RecordBatch> {
    let field = |(name, array): &(String, ArrayRef)| Field::new(name, array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns.into_iter().map(|(_, array)| array).collect(), &options)
        .map_err(|e| Error::Malformed { place: batch.place().to_owned(), reason: e.to_string() })
}

fn text_lists(lists: &Lists<String>) -> ArrayRef {
    let mut builder = arrow_array::builder::ListBuilder::new(arrow_array::builder::StringBuilder::new());
    for i in 0..lists.len() {
        lists.get(i).iter().for_each(|text| builder.values().append_value(text));
        builder.append(true);
    }
    Arc::new(builder.finish())
}

fn number_lists(lists: &Lists<f32>) -> ArrayRef {
    let mut builder = arrow_array::builder::ListBuilder::new(arrow_array::builder::Float32Builder::new());
    for i in 0..lists.len() {
        builder.values().append_slice(lists.get(i));
        builder.append(true);
    }
    Arc::new(builder.finish())
}
