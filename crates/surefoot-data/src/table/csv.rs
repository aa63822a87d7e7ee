//! Comma-separated values with a header: every column is text, an empty field is null.
//!
//! The reader follows RFC 4180 and repairs nothing. A lenient reader would read an unclosed quote as a field that
//! extends to the end of the file, and silently lose all records in it. Here it is an error. Other errors are a quote
//! within a field that does not start with one, text after a closing quote, a `\r` that does not end a line, and a
//! record with more or fewer fields than the header. Blank lines are skipped. Names are trimmed, fields are not.
//!
//! The first column of the Open Bandit Dataset's files has no name (it is the index of a data frame). Such a first
//! column is left out. A file with a header and no records gives one batch without rows, so that its columns are known.

use std::collections::HashSet;
use std::io::{BufRead, Write};
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::cells::{Cell, cell, check, push_json, same_columns, twice, unfit, unwritten};
use super::lines::{BATCH, COLUMNS, LONGEST, Lines, malformed, shown, tables, too_long};
use super::{ROWS, Tables};
use crate::error::{Error, Result};

pub(crate) fn read(place: &str, input: impl BufRead + Send + 'static) -> Result<Tables> {
    let mut lines = Lines::new(place, input);
    let place = place.to_owned();
    let mut record = Record::default();
    if !record.read(&place, &mut lines)? {
        return Err(Error::Malformed { place, reason: "should start with a header, but is empty".into() });
    }
    let width = record.ends.len();
    let (skipped, schema) = header(&place, &record)?;
    // A name may have such a character, so that it says nothing until a record does not fit.
    let separator = record.text.chars().find(|c| matches!(c, ';' | '\t' | '|')).filter(|_| width == 1);
    let mut first = true;
    Ok(tables(move || {
        // Without capacity at first: with many columns, room for a thousand rows in each would exceed the file.
        let mut builders: Vec<StringBuilder> =
            schema.fields().iter().map(|_| StringBuilder::with_capacity(0, 0)).collect();
        let (mut rows, mut bytes) = (0, 0);
        while rows < ROWS && bytes < BATCH && record.read(&place, &mut lines)? {
            if record.ends.len() != width {
                let reason = match (separator, record.ends.len()) {
                    // Numbers with decimal commas.
                    (Some(other), found) => format!(
                        "should have 1 field, as the header has, but has {found}: fields should be separated by \
                         commas, not by {other:?}"
                    ),
                    (None, found) => format!("should have {width} fields, as the header has, but has {found}"),
                };
                return Err(malformed(&place, record.line, reason));
            }
            for (builder, field) in builders.iter_mut().zip(record.fields().skip(skipped)) {
                builder.append_option((!field.is_empty()).then_some(field));
            }
            rows += 1;
            bytes += record.text.len() + width;
        }
        if rows == 0 && !first {
            return Ok(None);
        }
        first = false;
        let columns = builders.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef).collect();
        let table = RecordBatch::try_new(schema.clone(), columns);
        table.map(Some).map_err(|error| Error::Malformed { place: place.clone(), reason: error.to_string() })
    }))
}

/// The number of columns to leave out at the start (0 or 1), and the schema of the rest.
fn header(place: &str, record: &Record) -> Result<(usize, SchemaRef)> {
    let skipped = usize::from(record.fields().next().is_some_and(|name| name.trim().is_empty()));
    let mut names = HashSet::new();
    let mut fields = Vec::new();
    for (i, name) in record.fields().enumerate().skip(skipped) {
        let name = name.trim();
        if name.is_empty() {
            let reason = format!("every column but the first should have a name, but column {} has none", i + 1);
            return Err(malformed(place, record.line, reason));
        }
        if !names.insert(name) {
            if name.parse::<f64>().is_ok() {
                let reason = format!(
                    "should be a header with the names of the columns, but looks like data: {name} is in it twice"
                );
                return Err(malformed(place, record.line, reason));
            }
            return Err(twice(&super::lines::at(place, record.line), name));
        }
        fields.push(Field::new(name, DataType::Utf8, true));
    }
    if fields.is_empty() || fields.len() > COLUMNS {
        let reason = format!("should have from 1 to {COLUMNS} columns with names, but has {}", fields.len());
        return Err(malformed(place, record.line, reason));
    }
    Ok((skipped, Arc::new(Schema::new(fields))))
}

/// One record: its fields concatenated, and where each ends.
#[derive(Default)]
struct Record {
    text: String,
    ends: Vec<usize>,
    /// The line in which it starts.
    line: u64,
}

/// The position of the reader within a field.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Start,
    Plain,
    Quoted,
    Closed,
}

impl Record {
    fn fields(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.text[start..end])
    }

    /// Reads the next record, over several lines if a quoted field contains line ends. Returns false at the end of the
    /// file.
    fn read<R: BufRead>(&mut self, place: &str, lines: &mut Lines<R>) -> Result<bool> {
        self.text.clear();
        self.ends.clear();
        loop {
            let Some(line) = lines.next()? else { return Ok(false) };
            self.line = line.number;
            if matches!(line.text, "" | "\r") {
                continue;
            }
            let mut state =
                self.line(State::Start, line.text, true).map_err(|reason| malformed(place, line.number, reason))?;
            while state == State::Quoted {
                if self.text.len() > LONGEST {
                    return Err(too_long(place, self.line));
                }
                let Some(line) = lines.next()? else {
                    return Err(malformed(
                        place,
                        self.line,
                        "should close every quote, but one is still open at the end of the file",
                    ));
                };
                self.text.push('\n');
                state = self.line(state, line.text, false).map_err(|reason| malformed(place, line.number, reason))?;
            }
            return Ok(true);
        }
    }

    /// Parses a line. Returns `Quoted` if the record continues in the next line.
    fn line(&mut self, mut state: State, line: &str, whole: bool) -> std::result::Result<State, String> {
        let plain = line.strip_suffix('\r').unwrap_or(line);
        if whole && !plain.bytes().any(|byte| matches!(byte, b'"' | b'\r')) {
            for field in plain.split(',') {
                self.text.push_str(field);
                self.ends.push(self.text.len());
            }
            return Ok(State::Plain);
        }
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            state = match (state, character) {
                (State::Quoted, '"') if characters.peek() == Some(&'"') => {
                    characters.next();
                    self.text.push('"');
                    State::Quoted
                }
                (State::Quoted, '"') => State::Closed,
                (State::Quoted, other) => {
                    self.text.push(other);
                    State::Quoted
                }
                (State::Start, '"') => State::Quoted,
                (_, ',') => {
                    self.ends.push(self.text.len());
                    State::Start
                }
                // A `\r` at the end of a line belongs to the line end.
                (state, '\r') if characters.peek().is_none() => state,
                (_, '\r') => return Err(self.inside("no carriage return but at the end of a line", '\r')),
                (State::Closed, other) => {
                    return Err(self.inside("a comma after a closing quote", other));
                }
                (_, '"') => return Err(self.inside("no quote, as it does not start with one", '"')),
                (_, other) => {
                    self.text.push(other);
                    State::Plain
                }
            };
        }
        if state != State::Quoted {
            self.ends.push(self.text.len());
        }
        Ok(state)
    }

    fn inside(&self, allowed: &str, found: char) -> String {
        let start = self.ends.last().copied().unwrap_or_default();
        let before = shown(&self.text[start..]);
        format!("field {} should have {allowed}, but has {found:?} after {before}", self.ends.len() + 1)
    }
}

/// Writes a header and one line per row. Nulls are empty fields, so an empty text is read back as null. Lists are JSON.
/// Numbers have the fewest digits that read back as the same number.
pub(crate) fn write(
    place: &str,
    out: &mut dyn Write,
    schema: &SchemaRef,
    tables: &mut dyn Iterator<Item = Result<RecordBatch>>,
) -> Result<()> {
    check(place, schema)?;
    for field in schema.fields() {
        let name = field.name();
        if name.is_empty() || name.trim() != name || name.starts_with('\u{feff}') {
            let reason = format!("names of columns should not be empty or have space around them, but one is {name:?}");
            return Err(Error::Malformed { place: place.to_owned(), reason });
        }
    }
    if schema.fields().is_empty() {
        return Err(Error::Malformed { place: place.to_owned(), reason: "should have a column, but has none".into() });
    }
    // Keeps the error of the operating system: a closed pipe, for example, is not a failure for every caller.
    let unwritten = |error: ::csv::Error| {
        let text = error.to_string();
        unwritten(
            place,
            match error.into_kind() {
                ::csv::ErrorKind::Io(reason) => reason,
                _ => std::io::Error::other(text),
            },
        )
    };
    let mut out = ::csv::Writer::from_writer(out);
    out.write_record(schema.fields().iter().map(|field| field.name())).map_err(unwritten)?;
    let mut text = String::new();
    let mut row = 0;
    for table in tables {
        let table = table?;
        same_columns(place, schema, &table)?;
        for i in 0..table.num_rows() {
            for (field, column) in schema.fields().iter().zip(table.columns()) {
                text.clear();
                let found = cell(column, i);
                let done = match found {
                    Some(Cell::Null) => Some(()),
                    Some(Cell::Text(field)) => {
                        text.push_str(field);
                        Some(())
                    }
                    Some(Cell::Single(value)) => {
                        text = value.to_string();
                        Some(())
                    }
                    Some(Cell::Double(value)) => {
                        text = value.to_string();
                        Some(())
                    }
                    Some(other) => push_json(&mut text, &other),
                    None => None,
                };
                done.ok_or_else(|| unfit(place, row, field.name(), "a list of finite numbers", "one that is not"))?;
                out.write_field(&text).map_err(unwritten)?;
            }
            out.write_record(None::<&[u8]>).map_err(unwritten)?;
            row += 1;
        }
    }
    out.flush().map_err(|reason| super::cells::unwritten(place, reason))
}
