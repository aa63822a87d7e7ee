//! TABLES: files of records, read and written batch by batch.
//!
//! Every format becomes the same thing: Arrow record batches of at most [`ROWS`] rows, one column a field. What a column
//! *means* is decided one room further (`logs.rs`); formats that carry no names of their own (dsjson,
//! Vowpal Wabbit's text, Open Bandit Pipeline's arrays) use the names below.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `event_id`, `timestamp`, `policy_version` | text | |
//! | `action` | `UInt32`, or text | counted from 0, or the action's name |
//! | `pscore` | `Float64` | the probability that the action had when it was chosen |
//! | `reward` | `Float64` | |
//! | `eligible` | list of `UInt32` | the actions that could be chosen, in any order |
//! | `probabilities` | list of `Float64` | the logged distribution: of the eligible actions in their order, or of all |
//! | `pdrop` | `Float64` | the probability with which a record like this one was left out of the log |
//! | `skip` | `Boolean` | whether the logger asks not to learn from it |
//! | `context` | list of `Float32` | features by place |
//! | `context_indices`, `context_values` | lists of `UInt32` and `Float32` | features that are not 0, by place |
//! | `context_names`, `context_values` | lists of text and `Float32` | features that are not 0, by name |
//! | any other | `Float64`, `Boolean` or text | one feature, or of no interest |
//!
//! A reader takes no more memory than a batch, a line or a row group needs; it never panics, and names the line or row and
//! the field of what it cannot read. Batches of one file may differ in their columns where the format has no header
//! (JSON lines): a field that no row of a batch has is not in it.

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

/// The most rows of a batch.
pub const ROWS: usize = 8192;

/// Batches of a file, in its order.
pub type Tables = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The formats of log files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values with a header, such as the Open Bandit Dataset's; every field comes as text, an empty one as
    /// null, a list as JSON.
    Csv,
    /// One JSON object a line.
    JsonLines,
    /// Vowpal Wabbit's decision service JSON, one decision a line.
    Dsjson,
    /// Vowpal Wabbit's text for contextual bandits: `action:cost:probability | features`.
    Vw,
    /// Open Bandit Pipeline's feedback dict as the arrays of an `.npz` file.
    Obp,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 6] =
        [Format::Parquet, Format::Csv, Format::JsonLines, Format::Dsjson, Format::Vw, Format::Obp];

    /// The format that the end of a file's name tells.
    pub fn of(path: &Path) -> Result<Self> {
        let end = path.extension().and_then(|end| end.to_str()).map(str::to_ascii_lowercase);
        let found = match end.as_deref() {
            Some("parquet" | "pq") => Format::Parquet,
            Some("csv") => Format::Csv,
            Some("jsonl" | "ndjson") => Format::JsonLines,
            Some("dsjson") => Format::Dsjson,
            Some("vw" | "dat") => Format::Vw,
            Some("npz") => Format::Obp,
            _ => return Err(Error::UnknownFormat { path: path.to_owned() }),
        };
        Ok(found)
    }

    /// Its name, as [`FromStr`] takes it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::JsonLines => "jsonl",
            Format::Dsjson => "dsjson",
            Format::Vw => "vw",
            Format::Obp => "obp",
        }
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

/// The batches of a file.
pub fn read_table(path: &Path, format: Format) -> Result<Tables> {
    let file = File::open(path).map_err(|reason| Error::io(path, reason))?;
    let place = path.display().to_string();
    match format {
        Format::Parquet => parquet::read(&place, file),
        Format::Csv => csv::read(&place, BufReader::new(file)),
        Format::JsonLines => json_lines::read(&place, BufReader::new(file)),
        Format::Dsjson => dsjson::read(&place, BufReader::new(file)),
        Format::Vw => vw::read(&place, BufReader::new(file)),
        Format::Obp => obp::read(&place, || File::open(path).map(BufReader::new)),
    }
}

/// The batches of a file that is in memory; `place` is what errors call it.
pub fn read_table_bytes(place: &str, bytes: Vec<u8>, format: Format) -> Result<Tables> {
    let text = Cursor::new;
    match format {
        Format::Parquet => parquet::read(place, bytes::Bytes::from(bytes)),
        Format::Csv => csv::read(place, text(bytes)),
        Format::JsonLines => json_lines::read(place, text(bytes)),
        Format::Dsjson => dsjson::read(place, text(bytes)),
        Format::Vw => vw::read(place, text(bytes)),
        Format::Obp => {
            let bytes = bytes::Bytes::from(bytes);
            obp::read(place, move || Ok(Cursor::new(bytes.clone())))
        }
    }
}

/// Writes batches that all have this schema, whole or not at all, and returns how many rows there were.
///
/// dsjson, Vowpal Wabbit's text and Open Bandit Pipeline's arrays can hold only what they have a place for: batches for
/// them have the columns and types of the table above, with actions as numbers, and anything else is taken as a feature.
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
    // What the formats say is more than what becomes of it on the way through the operating system's kind of error.
    match (written, failed) {
        (_, Some(error)) => Err(error),
        (written, None) => written.map(|()| rows),
    }
}

/// The same, to whatever can be written to; `place` is what errors call it.
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
