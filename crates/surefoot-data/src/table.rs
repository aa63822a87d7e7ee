//! TABLES: files of records, read and written batch by batch.
//!
//! Every format is read as Arrow record batches of at most [`ROWS`] rows, with one column per field. What a column
//! *means* is decided in `logs.rs`. Formats without column names of their own (dsjson, Vowpal Wabbit's text, Open
//! Bandit Pipeline's arrays) use the names below.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `event_id`, `timestamp`, `policy_version` | text | |
//! | `action` | `UInt32`, or text | counted from 0, or the action's name |
//! | `pscore` | `Float64` | the propensity: the probability that the action had when it was chosen |
//! | `reward` | `Float64` | |
//! | `eligible` | list of `UInt32` | the eligible actions, in any order |
//! | `probabilities` | list of `Float64` | the logged distribution: over the eligible actions in order, or over all |
//! | `pdrop` | `Float64` | the probability with which such a record was dropped from the log |
//! | `skip` | `Boolean` | whether the logger asks not to learn from the record |
//! | `context` | list of `Float32` | features by index |
//! | `context_indices`, `context_values` | lists of `UInt32` and `Float32` | non-zero features, by index |
//! | `context_names`, `context_values` | lists of text and `Float32` | non-zero features, by name |
//! | any other | `Float64`, `Boolean` or text | one feature, or ignored |
//!
//! A reader takes no more memory than a batch, a line or a row group needs. It never panics, and its errors name the
//! line or row and the field. In formats without a header (JSON lines), the batches of one file may have different
//! columns: a field that no row of a batch has is not in it.

mod cells;
pub(crate) mod csv;
mod decisions;
pub(crate) mod dsjson;
mod json;
pub(crate) mod json_lines;
mod lines;
pub(crate) mod memory;
pub(crate) mod obp;
pub(crate) mod parquet;
mod plain;
pub(crate) mod vw;

use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::{BufReader, BufWriter, Cursor, Write};
use std::path::Path;
use std::str::FromStr;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::error::{Error, Result};
use crate::files::replace_with;

/// The largest number of rows of a batch.
pub const ROWS: usize = 8192;

/// The batches of a file, in order.
pub type Tables = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The formats of log files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values with a header, such as the Open Bandit Dataset's. Every field is read as text, an empty
    /// field as null, and lists are JSON.
    Csv,
    /// One JSON object per line.
    JsonLines,
    /// Vowpal Wabbit's decision service JSON, one decision per line.
    Dsjson,
    /// Vowpal Wabbit's text for contextual bandits: `action:cost:probability | features`.
    Vw,
    /// Open Bandit Pipeline's feedback dict as the arrays of an `.npz` file.
    Obp,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 6] =
        [Format::Parquet, Format::Csv, Format::JsonLines, Format::Dsjson, Format::Vw, Format::Obp];

    /// All that the rest of the crate asks about a format: its name, the extensions of its files, the usual one first,
    /// and whether it has a fixed set of columns, so that other columns cannot be written.
    fn about(self) -> (&'static str, &'static [&'static str], bool) {
        match self {
            Format::Parquet => ("parquet", &["parquet", "pq"], false),
            Format::Csv => ("csv", &["csv"], false),
            Format::JsonLines => ("jsonl", &["jsonl", "ndjson"], false),
            Format::Dsjson => ("dsjson", &["dsjson"], true),
            Format::Vw => ("vw", &["vw", "dat"], true),
            Format::Obp => ("obp", &["npz"], true),
        }
    }

    /// The format implied by the extension of a file name.
    pub fn of(path: &Path) -> Result<Self> {
        let end = path.extension().and_then(|end| end.to_str()).map(str::to_ascii_lowercase).unwrap_or_default();
        let found = Format::ALL.into_iter().find(|format| format.about().1.contains(&end.as_str()));
        found.ok_or_else(|| Error::UnknownFormat { path: path.to_owned() })
    }

    /// Its name, as [`FromStr`] parses it.
    pub fn name(self) -> &'static str {
        self.about().0
    }

    /// Whether it has a fixed set of columns.
    pub(crate) fn has_fixed_columns(self) -> bool {
        self.about().2
    }

    /// The names of all formats as a text: `parquet, csv or ...`.
    pub fn names() -> String {
        listed(&Format::ALL.map(|format| format.name().to_owned()))
    }

    /// The usual extensions of all formats as a text: `.parquet, .csv or ...`.
    pub fn extensions() -> String {
        listed(&Format::ALL.map(|format| format!(".{}", format.about().1[0])))
    }
}

/// `a, b or c`.
fn listed(words: &[String]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        words => words.concat(),
    }
}

impl Display for Format {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let names = || Format::ALL.map(Format::name).join(", ");
        Format::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| format!("should be one of {}, but is {name}", names()))
    }
}

/// Reads a file as batches.
pub fn read_table(path: &Path, format: Format) -> Result<Tables> {
    read(path, format, true)
}

/// Like [`read_table`], for records that may have no action, propensity or reward yet.
pub(crate) fn read_contexts(path: &Path, format: Format) -> Result<Tables> {
    read(path, format, false)
}

/// Reads a file. Where a format is made of labelled decisions, `labels` tells whether every decision must have a label.
fn read(path: &Path, format: Format, labels: bool) -> Result<Tables> {
    let file = File::open(path).map_err(|reason| Error::io(path, reason))?;
    let place = path.display().to_string();
    match format {
        Format::Parquet => parquet::read(&place, file),
        Format::Csv => csv::read(&place, BufReader::new(file)),
        Format::JsonLines => json_lines::read(&place, BufReader::new(file)),
        Format::Dsjson => dsjson::read(&place, BufReader::new(file), labels),
        Format::Vw => vw::read(&place, BufReader::new(file), labels),
        Format::Obp => obp::read(&place, || File::open(path).map(BufReader::new)),
    }
}

/// Reads a file in memory as batches; `place` is its name in errors.
pub fn read_table_bytes(place: &str, bytes: Vec<u8>, format: Format) -> Result<Tables> {
    let text = Cursor::new;
    match format {
        Format::Parquet => parquet::read(place, bytes::Bytes::from(bytes)),
        Format::Csv => csv::read(place, text(bytes)),
        Format::JsonLines => json_lines::read(place, text(bytes)),
        Format::Dsjson => dsjson::read(place, text(bytes), true),
        Format::Vw => vw::read(place, text(bytes), true),
        Format::Obp => {
            let bytes = bytes::Bytes::from(bytes);
            obp::read(place, move || Ok(Cursor::new(bytes.clone())))
        }
    }
}

/// Writes batches, which must all have this schema, and returns the number of rows. The file is written completely or
/// not at all.
///
/// dsjson, Vowpal Wabbit's text and Open Bandit Pipeline's arrays can hold only certain columns. Batches for them have
/// the columns and types of the table at the top of this module, with actions as numbers; any other column is taken as
/// a feature.
pub fn write_table(
    path: &Path,
    format: Format,
    schema: &SchemaRef,
    tables: &mut dyn Iterator<Item = Result<RecordBatch>>,
) -> Result<u64> {
    let place = path.display().to_string();
    let (mut rows, mut failed) = (0, None);
    let mut counted = tables.inspect(|table| rows += table.as_ref().map_or(0, |table| table.num_rows() as u64));
    let written = replace_with(path, |file| {
        let mut out = BufWriter::with_capacity(1 << 16, file);
        write_table_to(&place, &mut out, format, schema, &mut counted).map_err(|error| {
            let text = error.to_string();
            failed = Some(error);
            std::io::Error::other(text)
        })?;
        out.flush()
    });
    // The error of the format is more precise than what remains of it after it passed through an `io::Error`.
    match (written, failed) {
        (_, Some(error)) => Err(error),
        (written, None) => written.map(|()| rows),
    }
}

/// Like [`write_table`], to any writer; `place` is its name in errors.
pub fn write_table_to(
    place: &str,
    out: &mut (dyn Write + Send),
    format: Format,
    schema: &SchemaRef,
    tables: &mut dyn Iterator<Item = Result<RecordBatch>>,
) -> Result<()> {
    match format {
        Format::Parquet => parquet::write(place, out, schema, tables),
        Format::Csv => csv::write(place, out, schema, tables),
        Format::JsonLines => json_lines::write(place, out, schema, tables),
        Format::Dsjson => dsjson::write(place, out, schema, tables),
        Format::Vw => vw::write(place, out, schema, tables),
        Format::Obp => obp::write(place, out, schema, tables),
    }
}
