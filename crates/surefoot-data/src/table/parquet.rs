//! Apache Parquet.
//!
//! Numbers, booleans and lists of them are read as they are in the file, without a copy. Text is read as `Utf8`,
//! however it is stored ([`columns`]). The types are Parquet's own. Arrow's writers also note Arrow types in the file
//! (dictionaries, views, large and fixed-size lists); these are ignored, so the same data reads the same whoever wrote
//! it.
//!
//! The Parquet reader trusts much of what a file says about itself, so that is checked first ([`limits`]): a file of a
//! kilobyte can neither take gigabytes nor nest without end. Each guard names the function of the `parquet` crate that
//! needs it and what that function did in version 59.3.2, so that the guard can go once the function is fixed.
//!
//! If the reader panics nevertheless, the panic is caught and becomes an error. The panic's own line on standard error
//! stays, since a library does not replace the hook of its program. Of 100,000 files with a few bytes changed, 79
//! caused a panic, 40 of them by checks that only a debug build has.
//!
//! Files are written with snappy compression and in row groups of [`GROUP`] rows, fewer if they are wide. For 1.6
//! million records, zstd makes identifiers and categories a third smaller, and distributions 8 % smaller, but then
//! takes 36 % longer to read the latter.

mod columns;
mod delta;
mod limits;
mod thrift;

use std::any::Any;
use std::fmt::Display;
use std::io::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection, RowSelector};
use ::parquet::arrow::{ArrowWriter, parquet_to_arrow_field_levels};
use ::parquet::basic::Compression;
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::reader::ChunkReader;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use self::columns::Selected;
use self::limits::{Budget, Groups, most_rows};
use self::thrift::{FOOTER, Tag, walk};
use super::{ROWS, Tables};
use crate::error::{Error, Result};

/// The number of rows per row group in written files.
const GROUP: usize = 1 << 17;

/// The number of bytes after which a row group is written early.
const GROUP_BYTES: usize = 1 << 26;

const MAGIC: &[u8; 4] = b"PAR1";

/// The largest nesting depth of columns. `schema_from_array_helper` recurses into them: 3,000 levels, in a footer of 24
/// kB, overflow a thread's stack of 2 MB, which ends the process.
const DEEPEST: usize = 32;

pub(crate) fn read(place: &str, input: impl ChunkReader + 'static) -> Result<Tables> {
    read_columns(place, input, &|_| false)
}

/// Reads a file without the columns that `ignore` selects; these may be of an unsupported type.
pub(crate) fn read_columns(
    place: &str,
    input: impl ChunkReader + 'static,
    ignore: &dyn Fn(&str) -> bool,
) -> Result<Tables> {
    read_part(place, input, ignore, 0..u64::MAX)
}

/// Reads some rows of a file, as far as there are so many. Row groups without them are not read. They are in the same batches
/// as in the whole file, if the first is at a multiple of [`ROWS`].
pub(crate) fn read_rows(place: &str, input: impl ChunkReader + 'static, rows: Range<u64>) -> Result<Tables> {
    read_part(place, input, &|_| false, rows)
}

fn read_part(
    place: &str,
    input: impl ChunkReader + 'static,
    ignore: &dyn Fn(&str) -> bool,
    wanted: Range<u64>,
) -> Result<Tables> {
    let wrong = |reason| unreadable(place, reason);
    let size = input.len();
    let mut metadata = guarded(|| metadata(&input, size)).map_err(wrong)?;
    let all = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
    let rows = wanted.start.min(all)..wanted.end.min(all);
    let mut selection = None;
    if rows != (0..all) {
        let (groups, selected) = groups_of(&metadata, &rows);
        (metadata, selection) = (groups, Some(selected));
    }
    let metadata = Arc::new(metadata);
    let schema = metadata.file_metadata().schema_descr();
    let (columns, mask, hint) = Selected::new(place, schema, ignore)?;
    let budget = Budget::new(size);
    let groups = Groups { input: Arc::new(input), metadata: metadata.clone(), budget: budget.clone() };
    let reader = guarded(|| {
        let levels = parquet_to_arrow_field_levels(schema, mask, Some(&hint))?;
        ParquetRecordBatchReader::try_new_with_row_groups(&levels, &groups, ROWS, selection)
    });
    let place = place.to_owned();
    let reader = Some(reader.map_err(wrong)?);
    Ok(Box::new(Batches { reader, place, columns, budget, rows: rows.end, row: rows.start }))
}

/// The metadata of the row groups with some of these rows, and which of their rows are wanted.
fn groups_of(metadata: &ParquetMetaData, wanted: &Range<u64>) -> (ParquetMetaData, RowSelection) {
    let (mut before, mut kept, mut next) = (0, Vec::new(), 0);
    for group in metadata.row_groups() {
        let start = next;
        next += u64::try_from(group.num_rows()).unwrap_or(0);
        if start < wanted.end && wanted.start < next {
            if kept.is_empty() {
                before = wanted.start - start;
            }
            kept.push(group.clone());
        }
    }
    let selectors = vec![RowSelector::skip(before as usize), RowSelector::select((wanted.end - wanted.start) as usize)];
    (ParquetMetaData::new(metadata.file_metadata().clone(), kept), selectors.into())
}

/// The batches of a file.
struct Batches {
    place: String,
    /// `None` after the end or an error.
    reader: Option<ParquetRecordBatchReader>,
    columns: Selected,
    budget: Arc<Budget>,
    /// The row after the last according to the footer, and the row after the last that was read.
    rows: u64,
    row: u64,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batch();
        if !matches!(batch, Ok(Some(_))) {
            self.reader = None;
        }
        batch.transpose()
    }

    /// At most as many batches as the footer says; another one is an error.
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = if self.reader.is_some() { (self.rows - self.row).div_ceil(ROWS as u64) } else { 0 };
        (0, usize::try_from(left).ok())
    }
}

impl Batches {
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        self.budget.reset();
        let batch = guarded(|| reader.next().transpose()).map_err(|reason| unreadable(&self.place, reason))?;
        let first = self.row;
        self.row += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
        // The reader returns the rows that the pages have, whatever the footer says.
        if self.row > self.rows || batch.is_none() && self.row < self.rows {
            let or_more = if batch.is_some() { " or more" } else { "" };
            let reason = format!("the rows should be {}, as the footer says, but are {}{or_more}", self.rows, self.row);
            return Err(unreadable(&self.place, reason));
        }
        batch.map(|batch| self.columns.normal(&self.place, first, &batch)).transpose()
    }
}

/// The footer, after checking that it fits the file.
fn metadata(input: &impl ChunkReader, size: u64) -> Outcome<ParquetMetaData> {
    // Four bytes, the footer, its length in four bytes, and four bytes again.
    if size < 12 {
        return Err(format!("should have at least 12 bytes, but has {size}").into());
    }
    let (start, end) = (input.get_bytes(0, 4)?, input.get_bytes(size - 8, 8)?);
    let (length, magic) = end.split_at(4);
    if &start[..] != MAGIC || magic != MAGIC {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        return Err(
            format!("should begin and end with PAR1, but does with {} and {}", text(&start), text(magic)).into()
        );
    }
    let length = length.iter().rev().fold(0, |length, &byte| length << 8 | u64::from(byte));
    if length > size - 12 {
        return Err(format!("the footer should fit a file of {size} bytes, but has {length}").into());
    }
    let footer = input.get_bytes(size - 8 - length, length as usize)?;
    check_footer(&footer)?;
    let none = ParquetStatisticsPolicy::SkipAll;
    let options = ParquetMetaDataOptions::new()
        .with_encoding_stats_policy(none.clone())
        .with_column_stats_policy(none.clone())
        .with_size_stats_policy(none);
    let metadata = ParquetMetaDataReader::decode_metadata_with_options(&footer, Some(&options))?;
    let rows = metadata.file_metadata().num_rows();
    if u64::try_from(rows).ok().is_none_or(|rows| rows > most_rows(size)) {
        return Err(format!("a file of {size} bytes should have {rows} rows, which is implausible").into());
    }
    check_chunks(&metadata, size - 8 - length)?;
    Ok(metadata)
}

/// Checks that the footer is valid, with nothing after it. Its schema is a list of elements, each with the number of
/// the following elements that are its children.
///
/// The Parquet reader allocates a list before it reads it: `schema_from_array_helper` for the children, whose number
/// must only not be negative (apache/arrow-rs#9884 proposed more), `parquet_metadata_from_bytes` for the row groups.
/// `bad-children` and `bad-groups`, of 108 and 81 bytes, asked for 16 and 192 GiB, which ends the process.
fn check_footer(footer: &[u8]) -> Outcome<()> {
    // How many children of the last element and of each of its parents are to come.
    let mut open: Vec<i64> = Vec::new();
    let taken = walk(footer, &FOOTER, &mut |tag, value| {
        match tag {
            Tag::Element => {
                while open.pop_if(|left| *left <= 0).is_some() {}
                if let Some(left) = open.last_mut() {
                    *left -= 1;
                }
                open.push(0);
            }
            Tag::Children => *open.last_mut()? = value,
            _ => {}
        }
        // Each child takes a byte or more.
        let fits = usize::try_from(value).is_ok_and(|children| children <= footer.len());
        (fits && open.len() <= DEEPEST).then_some(())
    });
    match taken {
        Some(taken) if taken == footer.len() as u64 => Ok(()),
        _ => Err(format!("the footer cannot be understood, or its columns nest more than {DEEPEST} deep").into()),
    }
}

/// Checks that the chunk of every column is in this file, before the footer, which begins at `end`.
///
/// `ColumnChunkMetaData::byte_range` panics at a negative number. The `get_bytes` of a `File` allocates a page before
/// it reads it: a file of 120 bytes that claimed a far larger chunk and page took 2 GiB. The reader ignores the name of
/// another file in a chunk, and would read this file instead.
fn check_chunks(metadata: &ParquetMetaData, end: u64) -> Outcome<()> {
    for (index, group) in metadata.row_groups().iter().enumerate() {
        for chunk in group.columns() {
            let name = chunk.column_path().string();
            if chunk.file_path().is_some() {
                return Err(format!("row group {index}: {name} is in another file, which is not read").into());
            }
            let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            let place = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
            let last = place.and_then(|(start, length)| start.checked_add(length));
            if start < 4 || last.is_none_or(|last| last > end) {
                let length = chunk.compressed_size();
                let allowed = format!("lie between byte 4 and the footer at {end}");
                return Err(format!("row group {index}: {name} should {allowed}, but has {length} at {start}").into());
            }
        }
    }
    Ok(())
}

pub(crate) fn write(
    place: &str,
    out: &mut (dyn Write + Send),
    schema: &SchemaRef,
    tables: &mut dyn Iterator<Item = Result<RecordBatch>>,
) -> Result<()> {
    columns::check_written(place, schema)?;
    let wrong = |error: ParquetError| match error {
        ParquetError::External(reason) => match reason.downcast::<std::io::Error>() {
            Ok(reason) => Error::Write { place: place.to_owned(), reason: *reason },
            Err(reason) => Error::Malformed { place: place.to_owned(), reason: reason.to_string() },
        },
        error => Error::Malformed { place: place.to_owned(), reason: error.to_string() },
    };
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(GROUP))
        .set_created_by(concat!("surefoot ", env!("CARGO_PKG_VERSION")).into())
        .build();
    let mut writer = ArrowWriter::try_new(out, schema.clone(), Some(properties)).map_err(wrong)?;
    for table in tables {
        writer.write(&table?).map_err(wrong)?;
        if writer.in_progress_size() > GROUP_BYTES {
            writer.flush().map_err(wrong)?;
        }
    }
    writer.close().map(drop).map_err(wrong)
}

/// A result, or what is wrong in words.
type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Does what may panic, and says why it did not work.
fn guarded<T, E: Display>(work: impl FnOnce() -> std::result::Result<T, E>) -> std::result::Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|error| {
            let text = error.to_string();
            let text = text.strip_prefix("Parquet argument error: ").unwrap_or(&text);
            text.strip_prefix("Parquet error: ").unwrap_or(text).to_owned()
        }),
        Err(panic) => Err(format!("the Parquet reader panicked: {}", message(&*panic))),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

fn unreadable(place: &str, reason: impl Display) -> Error {
    let reason = reason.to_string();
    // What the file is read from has failed, and not the reader.
    if let Some(reason) = reason.strip_prefix("External: ") {
        return Error::Io { place: place.to_owned(), reason: std::io::Error::other(reason.to_owned()) };
    }
    Error::Malformed { place: place.to_owned(), reason: format!("not a readable Parquet file: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_are_left_out_may_be_of_any_type() {
        let names = |file: &str, ignore: &[&str]| -> std::result::Result<Vec<String>, String> {
            let path = format!("{}/tests/files/parquet/{file}.parquet", env!("CARGO_MANIFEST_DIR"));
            let input = std::fs::File::open(path).map_err(|error| error.to_string())?;
            let mut tables =
                read_columns("f", input, &|name| ignore.contains(&name)).map_err(|error| error.to_string())?;
            let table = tables.next().ok_or("no batch")?.map_err(|error| error.to_string())?;
            Ok(table.schema().fields().iter().map(|field| field.name().clone()).collect())
        };
        let all = ["action", "user.age", "user.home.zip"];
        assert_eq!(names("pyarrow-nested", &[]).unwrap(), all);
        assert_eq!(names("pyarrow-nested", &["user"]).unwrap(), all[..1]);
        assert_eq!(names("pyarrow-nested", &["user.age"]).unwrap(), [all[0], all[2]]);
        assert_eq!(names("pyarrow-nested", &["action", "user.home"]).unwrap(), all[1..2]);
        assert_eq!(names("bad-twice", &["a"]).unwrap(), ["a.b"]);
        assert_eq!(names("bad-map", &["m"]).unwrap_err(), "f: not a readable Parquet file: it has no columns");
    }

    #[test]
    fn a_panic_becomes_an_error() {
        let done: std::result::Result<(), String> =
            guarded(|| -> std::result::Result<(), String> { std::panic::resume_unwind(Box::new("nothing to read")) });
        assert_eq!(done.unwrap_err(), "the Parquet reader panicked: nothing to read");
    }
}
