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
//! | `candidates` | list of structs | the candidates of the record, with their features |
//! | any other | `Float64`, `Boolean` or text | one feature, or ignored |
//!
//! A candidate is a struct of such columns: numbers, truths, texts and lists of numbers, and an identity (`id`). In
//! formats whose features have names, it is a struct of `id`, `names` and `values`, as `context_names` and
//! `context_values` are for the context. If a record has candidates, its action is a place among them or an identity, and
//! `eligible` names those that were eligible, if not all were. If no record of a batch has candidates, there is no such
//! column.
//!
//! A reader takes no more memory than a batch, a line or a row group needs. It never panics, and its errors name the
//! line or row and the field. In formats without a header (JSON lines), the batches of one file may have different
//! columns: a field that no row of a batch has is not in it.

pub(crate) mod candidates;
mod cells;
pub(crate) mod csv;
mod decisions;
pub(crate) mod dsjson;
mod json;
pub(crate) mod json_lines;
mod kinds;
mod lines;
pub(crate) mod memory;
pub(crate) mod obp;
pub(crate) mod parquet;
mod plain;
pub(crate) mod vw;

use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Cursor, Read, Seek, Write};
use std::path::Path;
use std::str::FromStr;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
// `self::parquet` is the module of the format.
use ::parquet::file::reader::ChunkReader;

use crate::error::{Error, Result};
use crate::files::{Spool, replace_with};
use crate::packed::{Expanded, Packing, pack, unpack, unpacked_name};
use crate::stores::{self, Blocks, Object, is_url};

/// The key in the metadata of a schema under which a writer finds the number of actions, if it is known.
pub(crate) const ACTIONS: &str = "actions";

/// The largest number of rows of a batch.
pub const ROWS: usize = 8192;

/// The batches of a file, in order.
pub type Tables = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// Defines [`Format`] with one variant per line, and the list of all variants, which so cannot miss one.
macro_rules! formats {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// The formats of log files.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Format {
            $($(#[$about])* $name,)*
        }

        impl Format {
            /// All formats.
            pub const ALL: [Format; [$(Format::$name),*].len()] = [$(Format::$name),*];
        }
    };
}

formats! {
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

/// All that the other modules need to know of a format.
struct About {
    /// The name, as [`FromStr`] parses it.
    name: &'static str,
    /// The extensions of its files, the usual one first.
    extensions: &'static [&'static str],
    /// Whether it has a fixed set of columns, so that other columns cannot be written.
    fixed_columns: bool,
    /// Whether it has no header, so that the batches of a file may have different columns.
    ragged: bool,
    /// Whether it is read from the start to the end, so that a stream is enough.
    streamed: bool,
}

impl Format {
    fn about(self) -> About {
        let about = |name, extensions| About { name, extensions, fixed_columns: false, ragged: false, streamed: true };
        match self {
            Format::Parquet => About { streamed: false, ..about("parquet", &["parquet", "pq"]) },
            Format::Csv => about("csv", &["csv"]),
            Format::JsonLines => About { ragged: true, ..about("jsonl", &["jsonl", "ndjson"]) },
            Format::Dsjson => About { fixed_columns: true, ..about("dsjson", &["dsjson"]) },
            Format::Vw => About { fixed_columns: true, ..about("vw", &["vw", "dat"]) },
            Format::Obp => About { fixed_columns: true, streamed: false, ..about("obp", &["npz"]) },
        }
    }

    /// The format implied by the extension of a file name. A last extension `.gz` or `.zst` is left out.
    pub fn of(path: &Path) -> Result<Self> {
        let end = unpacked_name(path);
        let end = end.extension().and_then(|end| end.to_str()).map(str::to_ascii_lowercase).unwrap_or_default();
        let found = Format::ALL.into_iter().find(|format| format.about().extensions.contains(&end.as_str()));
        found.ok_or_else(|| Error::UnknownFormat { path: path.to_owned() })
    }

    /// Its name, as [`FromStr`] parses it.
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// The usual extension of its files, without the dot.
    pub fn extension(self) -> &'static str {
        self.about().extensions[0]
    }

    /// Whether it has a fixed set of columns, so that other columns, such as those of decisions, cannot be written.
    pub fn has_fixed_columns(self) -> bool {
        self.about().fixed_columns
    }

    /// Whether the batches of a file may have different columns.
    pub(crate) fn is_ragged(self) -> bool {
        self.about().ragged
    }

    /// Whether it is read from the start to the end, so that a stream is enough.
    pub(crate) fn is_streamed(self) -> bool {
        self.about().streamed
    }

    /// The names of all formats as a text: `parquet, csv or ...`.
    pub fn names() -> String {
        listed(&Format::ALL.map(|format| format.name().to_owned()))
    }

    /// The usual extensions of all formats as a text: `.parquet, .csv or ...`.
    pub fn extensions() -> String {
        Format::extensions_of(|_| true)
    }

    /// The usual extensions of the selected formats as a text: `.parquet, .csv or ...`.
    pub fn extensions_of(selected: impl Fn(Format) -> bool) -> String {
        let formats = Format::ALL.into_iter().filter(|format| selected(*format));
        listed(&formats.map(|format| format!(".{}", format.extension())).collect::<Vec<_>>())
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

/// The bytes of a file, in the ways in which the formats read them.
trait Input: Sized {
    type Seekable: Read + Seek + Send + 'static;

    /// From the start to the end.
    fn text(self) -> io::Result<impl BufRead + Send + 'static>;

    /// At any place, from several threads.
    fn chunks(self) -> impl ChunkReader + 'static;

    /// From the start again.
    fn again(&self) -> io::Result<Self::Seekable>;
}

struct OnDisk<'a> {
    path: &'a Path,
    file: File,
    /// For formats that are streamed; a file of another format has been unpacked.
    packing: Option<(Packing, Expanded)>,
}

impl Input for OnDisk<'_> {
    type Seekable = BufReader<File>;

    fn text(self) -> io::Result<impl BufRead + Send + 'static> {
        Ok(match self.packing {
            None => Box::new(BufReader::new(self.file)) as Box<dyn BufRead + Send>,
            Some((packing, expanded)) => Box::new(unpack(self.file, packing, expanded)?),
        })
    }

    fn chunks(self) -> impl ChunkReader + 'static {
        self.file
    }

    fn again(&self) -> io::Result<Self::Seekable> {
        File::open(self.path).map(BufReader::new)
    }
}

/// An object of a store.
struct InStore {
    blocks: Blocks,
    /// For formats that are streamed; an object of another format has been unpacked.
    packing: Option<(Packing, Expanded)>,
}

impl Input for InStore {
    type Seekable = BufReader<stores::Reader>;

    fn text(self) -> io::Result<impl BufRead + Send + 'static> {
        let reader = self.blocks.reader(0);
        Ok(match self.packing {
            None => Box::new(BufReader::with_capacity(1 << 16, reader)) as Box<dyn BufRead + Send>,
            Some((packing, expanded)) => Box::new(unpack(reader, packing, expanded)?),
        })
    }

    fn chunks(self) -> impl ChunkReader + 'static {
        self.blocks
    }

    fn again(&self) -> io::Result<Self::Seekable> {
        Ok(BufReader::new(self.blocks.reader(0)))
    }
}

impl Input for Bytes {
    type Seekable = Cursor<Bytes>;

    fn text(self) -> io::Result<impl BufRead + Send + 'static> {
        Ok(Cursor::new(self))
    }

    fn chunks(self) -> impl ChunkReader + 'static {
        self
    }

    fn again(&self) -> io::Result<Self::Seekable> {
        Ok(Cursor::new(self.clone()))
    }
}

/// Reads a file, or an object of a store, as batches. It may be compressed with gzip or zstd.
pub fn read_table(path: &Path, format: Format) -> Result<Tables> {
    match is_url(path) {
        true => read_object_as(path, &Object::open(path)?, format, Labels::Required, Expanded::default()),
        false => read_table_as(&path.display().to_string(), path, format, Labels::Required, Expanded::default()),
    }
}

/// Whether every decision must have an action, a propensity and a reward, in formats that are made of labelled
/// decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Labels {
    Required,
    Optional,
    /// Required, and only these rows of a Parquet file are read.
    RequiredWithin {
        start: usize,
        end: usize,
    },
}

/// Like [`read_table`], with another name of the file in errors. Tells how far a compressed file expands.
pub(crate) fn read_table_as(
    place: &str,
    path: &Path,
    format: Format,
    labels: Labels,
    expanded: Expanded,
) -> Result<Tables> {
    let packing = Packing::of_file(place, path)?;
    let spool = match packing {
        Some(packing) if !format.is_streamed() => Some(unpack_file(place, path, packing)?),
        _ => None,
    };
    // The reader opens the copy before it is removed.
    let path = spool.as_ref().map_or(path, |(spool, _)| spool.path());
    let file = File::open(path).map_err(|reason| Error::Io { place: place.into(), reason })?;
    let packing = packing.filter(|_| spool.is_none()).map(|packing| (packing, expanded));
    read(place, OnDisk { path, file, packing }, format, labels)
}

/// Like [`read_table_as`], for an object that was opened.
pub(crate) fn read_object_as(
    path: &Path,
    object: &Object,
    format: Format,
    labels: Labels,
    expanded: Expanded,
) -> Result<Tables> {
    let place = path.display().to_string();
    let blocks = Blocks::new(object.clone());
    let packing = Packing::of_object(&place, path, &blocks)?;
    match packing {
        Some(_) if !format.is_streamed() => {
            let spool = unpack_object(&place, path, object)?.map(|(spool, _)| spool);
            // The reader opens the copy before it is removed.
            read_table_as(&place, spool.as_ref().map_or(path, Spool::path), format, labels, expanded)
        }
        _ => read(&place, InStore { blocks, packing: packing.map(|packing| (packing, expanded)) }, format, labels),
    }
}

/// Unpacks an object of a format that is read at any place, if it is compressed. Returns the number of its bytes too.
pub(crate) fn unpack_object(place: &str, path: &Path, object: &Object) -> Result<Option<(Spool, u64)>> {
    let blocks = Blocks::new(object.clone());
    let Some(packing) = Packing::of_object(place, path, &blocks)? else { return Ok(None) };
    let stream = unpack(blocks.reader(0), packing, Expanded::default());
    let stream = stream.map_err(|reason| Error::Io { place: place.to_owned(), reason })?;
    Spool::fill(place, "the number of bytes that it expands to", stream).map(Some)
}

/// Unpacks a file of a format that is read at any place. Returns the number of its bytes too.
pub(crate) fn unpack_file(place: &str, path: &Path, packing: Packing) -> Result<(Spool, u64)> {
    let failed = |reason| Error::Io { place: place.to_owned(), reason };
    let file = File::open(path).map_err(failed)?;
    let stream = unpack(file, packing, Expanded::default()).map_err(failed)?;
    Spool::fill(place, "the number of bytes that it expands to", stream)
}

/// Reads a file in memory as batches; `place` is its name in errors.
pub fn read_table_bytes(place: &str, bytes: Vec<u8>, format: Format) -> Result<Tables> {
    read(place, Bytes::from(bytes), format, Labels::Required)
}

fn read(place: &str, input: impl Input, format: Format, labels: Labels) -> Result<Tables> {
    let unread = |reason| Error::Io { place: place.to_owned(), reason };
    match format {
        Format::Parquet => match labels {
            Labels::RequiredWithin { start, end } => {
                parquet::read_rows(place, input.chunks(), start as u64..end as u64)
            }
            Labels::Required | Labels::Optional => parquet::read(place, input.chunks()),
        },
        Format::Csv => csv::read(place, input.text().map_err(unread)?),
        Format::JsonLines => json_lines::read(place, input.text().map_err(unread)?),
        Format::Dsjson => dsjson::read(place, input.text().map_err(unread)?, labels == Labels::Required),
        Format::Vw => vw::read(place, input.text().map_err(unread)?, labels == Labels::Required),
        Format::Obp => obp::read(place, || input.again()),
    }
}

/// Writes batches, which must all have this schema, and returns the number of rows. The file is written completely or
/// not at all. It is compressed if its name ends in `.gz` or `.zst`.
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
        pack(BufWriter::with_capacity(1 << 16, file), Packing::of_name(path), |out| {
            write_table_to(&place, out, format, schema, &mut counted).map_err(|error| {
                let text = error.to_string();
                failed = Some(error);
                io::Error::other(text)
            })
        })
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
