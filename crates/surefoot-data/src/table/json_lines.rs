//! One JSON object per line. A batch has every column that any of its lines has.
//!
//! | in the file | column |
//! | --- | --- |
//! | numbers | `Float64` |
//! | integers beyond 2^53, which an `f64` would round (ids, mostly) | text, with the digits as written |
//! | `true`, `false` | `Boolean` |
//! | texts, or texts and numbers | text |
//! | arrays of numbers | list of `Float64` |
//! | arrays of texts, or of texts and numbers | list of text |
//! | objects | one column per field, with `.` between the names |
//! | arrays of objects | list of structs, with one field per name in any of the objects |
//!
//! `null` means the same as an absent field, except that its column exists. Types are determined batch by batch. Other
//! mixtures of types, arrays of anything else, and arrays of objects in arrays of objects are errors. Blank lines are skipped. Repeated names are an error,
//! even if one of them is `a.b` and the other is `b` in `a`.

mod objects;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::mem;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, ListBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};

use super::cells::{cell, push_json, push_json_text, same_columns, unfit, unwritten};
use super::json::Json;
use super::kinds;
use super::lines::{BATCH, COLUMNS, LONGEST, Lines, field, long_names, malformed, shown, tables};
use super::{ROWS, Tables};
use crate::error::{Error, Result};
use objects::Objects;

/// The largest number of cells of a batch, including empty ones. Lines with different fields thus make a batch with few
/// rows.
const CELLS: usize = 1 << 22;
/// Every integer up to this one is exact as an `f64`.
const EXACT: u64 = 1 << 53;

pub(crate) fn read(place: &str, input: impl BufRead + Send + 'static) -> Result<Tables> {
    let mut lines = Lines::new(place, input);
    let place = place.to_owned();
    let mut batch = Batch::default();
    Ok(tables(move || {
        while batch.lines.len() < ROWS && batch.bytes < BATCH {
            let Some(line) = lines.next()? else { break };
            if line.is_blank() {
                continue;
            }
            let object = Json::parse(line.text).map_err(|reason| malformed(&place, line.number, reason))?;
            if let Some(reason) = kinds::of_object(&object) {
                return Err(malformed(&place, line.number, reason));
            }
            let Json::Object(fields) = object else {
                let reason = format!("should be a JSON object, but is {}", object.describe());
                return Err(malformed(&place, line.number, reason));
            };
            let mut row = Vec::new();
            let mut room = LONGEST;
            flatten(None, fields, &mut row, &mut room).ok_or_else(|| long_names(&place, line.number))?;
            let full = (!batch.has_place_for(&row)).then(|| mem::take(&mut batch));
            batch.push(&place, line.number, line.text.len(), row)?;
            if let Some(full) = full {
                return full.finish(&place).map(Some);
            }
        }
        if batch.lines.is_empty() { Ok(None) } else { mem::take(&mut batch).finish(&place).map(Some) }
    }))
}

/// The fields that are not objects, with their full names. `None` if the names take more than `room` bytes: a long name
/// of an object is repeated for each of its fields.
fn flatten<'a>(
    outer: Option<&str>,
    fields: Vec<(Cow<'a, str>, Json<'a>)>,
    row: &mut Vec<(Cow<'a, str>, Json<'a>)>,
    room: &mut usize,
) -> Option<()> {
    for (name, value) in fields {
        let name = match outer {
            Some(outer) => Cow::Owned(format!("{outer}.{name}")),
            None => name,
        };
        *room = room.checked_sub(name.len())?;
        match value {
            Json::Object(fields) => flatten(Some(&name), fields, row, room)?,
            value => row.push((name, value)),
        }
    }
    Some(())
}

/// The common type of the cells of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// All are null.
    Unknown,
    Number,
    Bool,
    Text,
    /// Arrays without items.
    Empty,
    Numbers,
    Texts,
    /// Arrays of objects.
    Objects,
}

impl Kind {
    /// The type that holds both; `None` if there is none.
    fn with(self, other: Kind) -> Option<Kind> {
        match (self, other) {
            (one, other) if one == other => Some(one),
            (Kind::Unknown, kind) | (kind, Kind::Unknown) => Some(kind),
            (Kind::Number | Kind::Text, Kind::Number | Kind::Text) => Some(Kind::Text),
            (Kind::Empty, list @ (Kind::Numbers | Kind::Texts | Kind::Objects)) => Some(list),
            (list @ (Kind::Numbers | Kind::Texts | Kind::Objects), Kind::Empty) => Some(list),
            (Kind::Numbers | Kind::Texts, Kind::Numbers | Kind::Texts) => Some(Kind::Texts),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Unknown => "null",
            Kind::Number => "a number",
            Kind::Bool => "true or false",
            Kind::Text => "text",
            Kind::Empty | Kind::Numbers | Kind::Texts => "an array",
            Kind::Objects => "an array of objects",
        }
    }
}

struct Column {
    name: String,
    /// Its name in errors.
    shown: String,
    kind: Kind,
    /// The line in which the type was first seen.
    since: u64,
    /// Whether there is an integer that an `f64` would round.
    large: bool,
    /// All items concatenated, numbers as written.
    text: String,
    /// Where each item ends.
    ends: Vec<usize>,
    /// The rows that are not null, with the index after their last item.
    cells: Vec<(usize, usize)>,
    /// The items, if they are objects.
    objects: Option<Objects>,
    /// Whether it is a field of objects in an array.
    inner: bool,
}

#[derive(Default)]
struct Batch {
    /// The column whose objects these are, if they are not whole lines.
    within: Option<String>,
    names: HashMap<String, usize>,
    columns: Vec<Column>,
    /// The line of each row.
    lines: Vec<u64>,
    bytes: usize,
}

impl Batch {
    fn has_place_for(&self, row: &[(Cow<'_, str>, Json<'_>)]) -> bool {
        let new = row.iter().filter(|(name, _)| !self.names.contains_key(name.as_ref())).count();
        let inner = |(name, value): &(Cow<'_, str>, Json<'_>)| match (value, self.names.get(name.as_ref())) {
            (Json::Array(items), Some(&i)) => self.columns[i].objects.as_ref().is_none_or(|o| o.has_place_for(items)),
            _ => true,
        };
        self.lines.is_empty() || (self.lines.len() + 1) * (self.columns.len() + new) <= CELLS && row.iter().all(inner)
    }

    fn push(&mut self, place: &str, line: u64, bytes: usize, row: Vec<(Cow<'_, str>, Json<'_>)>) -> Result<()> {
        if row.len() > COLUMNS {
            return Err(malformed(place, line, format!("should have at most {COLUMNS} fields, but has {}", row.len())));
        }
        let at = self.lines.len();
        self.lines.push(line);
        self.bytes += bytes;
        for (name, value) in row {
            let index = match self.names.get(name.as_ref()) {
                Some(&index) => index,
                None => {
                    let name = name.into_owned();
                    self.names.insert(name.clone(), self.columns.len());
                    self.columns.push(Column::new(name, line, self.within.as_deref()));
                    self.columns.len() - 1
                }
            };
            self.columns[index].push(place, line, at, &value)?;
        }
        Ok(())
    }

    fn finish(self, place: &str) -> Result<RecordBatch> {
        let rows = self.lines.len();
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for column in self.columns {
            let (name, array) = (column.name.clone(), column.finish(rows, place)?);
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new(fields));
        // Lines without fields are rows too.
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, arrays, &options)
            .map_err(|error| Error::Malformed { place: place.to_owned(), reason: error.to_string() })
    }
}

impl Column {
    fn new(name: String, line: u64, within: Option<&str>) -> Self {
        Column {
            shown: within.map_or_else(|| name.clone(), |outer| format!("{outer}.{name}")),
            name,
            kind: Kind::Unknown,
            since: line,
            large: false,
            text: String::new(),
            ends: Vec::new(),
            cells: Vec::new(),
            objects: None,
            inner: within.is_some(),
        }
    }

    fn push(&mut self, place: &str, line: u64, row: usize, value: &Json<'_>) -> Result<()> {
        if self.cells.last().is_some_and(|&(last, _)| last == row) {
            let reason = format!("should have every field once, but has {} twice", shown(&self.shown));
            return Err(malformed(place, line, reason));
        }
        let kind = match value {
            Json::Null | Json::Object(_) => return Ok(()),
            Json::Array(items) if matches!(items[..], [Json::Object(_), ..]) && !self.inner => Kind::Objects,
            Json::Array(items) => {
                let mut kind = Kind::Empty;
                for item in items {
                    let item = self.item(place, line, item)?;
                    let list = match item {
                        Kind::Number => Some(Kind::Numbers),
                        Kind::Text => Some(Kind::Texts),
                        _ => None,
                    };
                    let allowed = "an array of numbers and texts";
                    kind = list
                        .and_then(|list| kind.with(list))
                        .ok_or_else(|| field(place, line, &self.shown, allowed, format!("one with {}", item.name())))?;
                }
                kind
            }
            value => self.item(place, line, value)?,
        };
        let Some(common) = self.kind.with(kind) else {
            let allowed = format!("{}, as in line {}", self.kind.name(), self.since);
            return Err(field(place, line, &self.shown, allowed, kind.name()));
        };
        if common != self.kind {
            (self.kind, self.since) = (common, line);
        }
        if let (Kind::Objects, Json::Array(items)) = (kind, value) {
            self.objects.get_or_insert_with(|| Objects::new(&self.shown)).push(place, line, items)?;
        }
        self.cells.push((row, self.objects.as_ref().map_or(self.ends.len(), Objects::len)));
        Ok(())
    }

    /// Adds the text of one item.
    fn item(&mut self, place: &str, line: u64, value: &Json<'_>) -> Result<Kind> {
        let (kind, text) = match value {
            Json::Number(digits) => {
                if digits.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) {
                    self.large |= !digits.parse::<i64>().is_ok_and(|value| value.unsigned_abs() <= EXACT);
                } else if !digits.parse::<f64>().is_ok_and(f64::is_finite) {
                    let found = value.describe();
                    return Err(field(place, line, &self.shown, "a number within the range of 64 bits", found));
                }
                (Kind::Number, *digits)
            }
            Json::Text(text) => (Kind::Text, text.as_ref()),
            Json::Bool(true) => (Kind::Bool, "true"),
            Json::Bool(false) => (Kind::Bool, "false"),
            other => {
                let found = format!("one with {}", other.describe());
                return Err(field(place, line, &self.shown, "an array of numbers and texts", found));
            }
        };
        self.text.push_str(text);
        self.ends.push(self.text.len());
        Ok(kind)
    }

    /// The text of an item.
    fn text(&self, item: usize) -> &str {
        let start = if item == 0 { 0 } else { self.ends[item - 1] };
        &self.text[start..self.ends[item]]
    }

    /// The items of each row, `None` for null rows.
    fn rows(&self, rows: usize) -> impl Iterator<Item = Option<std::ops::Range<usize>>> {
        let (mut cells, mut start) = (self.cells.iter().peekable(), 0);
        (0..rows).map(move |row| {
            let &(_, end) = cells.next_if(|&&(at, _)| at == row)?;
            Some(mem::replace(&mut start, end)..end)
        })
    }

    fn finish(mut self, rows: usize, place: &str) -> Result<ArrayRef> {
        if let Some(objects) = self.objects.take() {
            let items: Vec<_> = self.rows(rows).collect();
            let lengths = items.iter().map(|items| items.as_ref().map_or(0, ExactSizeIterator::len)).collect();
            return objects.finish(place, lengths, items.iter().map(Option::is_some).collect());
        }
        Ok(self.plain(rows))
    }

    fn plain(&self, rows: usize) -> ArrayRef {
        let number = |item| self.text(item).parse::<f64>().unwrap_or(f64::NAN);
        match self.kind {
            Kind::Unknown | Kind::Number if !self.large => {
                let mut out = Float64Builder::with_capacity(rows);
                self.rows(rows).for_each(|items| out.append_option(items.map(|items| number(items.start))));
                Arc::new(out.finish())
            }
            Kind::Unknown | Kind::Number | Kind::Text => {
                let mut out = StringBuilder::with_capacity(rows, self.text.len());
                self.rows(rows).for_each(|items| out.append_option(items.map(|items| self.text(items.start))));
                Arc::new(out.finish())
            }
            Kind::Bool => {
                let mut out = BooleanBuilder::with_capacity(rows);
                self.rows(rows)
                    .for_each(|items| out.append_option(items.map(|items| self.text(items.start) == "true")));
                Arc::new(out.finish())
            }
            Kind::Empty | Kind::Numbers if !self.large => {
                let mut out = ListBuilder::with_capacity(Float64Builder::with_capacity(self.ends.len()), rows);
                for items in self.rows(rows) {
                    let valid = items.is_some();
                    items.into_iter().flatten().for_each(|item| out.values().append_value(number(item)));
                    out.append(valid);
                }
                Arc::new(out.finish())
            }
            Kind::Empty | Kind::Numbers | Kind::Texts | Kind::Objects => {
                let mut out =
                    ListBuilder::with_capacity(StringBuilder::with_capacity(self.ends.len(), self.text.len()), rows);
                for items in self.rows(rows) {
                    let valid = items.is_some();
                    items.into_iter().flatten().for_each(|item| out.values().append_value(self.text(item)));
                    out.append(valid);
                }
                Arc::new(out.finish())
            }
        }
    }
}

/// Writes one object per row, with a field for every column that is not null there. Floats have a point or an exponent,
/// so that no reader takes a large one for an integer.
pub(crate) fn write(
    place: &str,
    out: &mut dyn Write,
    schema: &SchemaRef,
    tables: &mut dyn Iterator<Item = Result<RecordBatch>>,
) -> Result<()> {
    objects::check_written(place, schema)?;
    let mut text = String::new();
    let mut row = 0;
    for table in tables {
        let table = table?;
        same_columns(place, schema, &table)?;
        for i in 0..table.num_rows() {
            text.clear();
            text.push('{');
            for (field, column) in schema.fields().iter().zip(table.columns()) {
                if column.is_null(i) {
                    continue;
                }
                if text.len() > 1 {
                    text.push(',');
                }
                push_json_text(&mut text, field.name());
                text.push(':');
                let done = match objects::items(column, i) {
                    Some(items) => objects::push(&mut text, &items),
                    None => cell(column, i).and_then(|found| push_json(&mut text, &found)),
                };
                done.ok_or_else(|| unfit(place, row, field.name(), "finite, as JSON has no other number", "not"))?;
            }
            text.push_str("}\n");
            out.write_all(text.as_bytes()).map_err(|reason| unwritten(place, reason))?;
            row += 1;
        }
    }
    Ok(())
}
