//! The lines of a text file with their numbers, so that errors can say where.

use std::io::BufRead;

use arrow_array::RecordBatch;

use super::Tables;
use crate::error::{Error, Result};

/// The largest number of bytes of a line, or of a record of several lines. A file without line ends is not text, and
/// must not fill the memory before that is noticed.
pub(super) const LONGEST: usize = 64 << 20;
/// A batch ends after this many bytes of text, even if it has fewer rows than allowed.
pub(super) const BATCH: usize = 16 << 20;
/// The largest number of columns. Each takes about a hundred bytes, however few its cells.
pub(super) const COLUMNS: usize = 1 << 20;

/// A line without its `\n`. A `\r` before it is kept, since it is content within a quoted field of CSV.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) text: &'a str,
    /// Counted from 1.
    pub(super) number: u64,
}

impl Line<'_> {
    /// Whether it has only white space.
    pub(super) fn is_blank(&self) -> bool {
        self.text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
    }
}

/// The lines of UTF-8 text; a byte order mark at its start is skipped.
pub(super) struct Lines<R> {
    place: String,
    input: R,
    number: u64,
    bytes: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(place: &str, input: R) -> Self {
        Lines { place: place.to_owned(), input, number: 0, bytes: Vec::new() }
    }

    /// The next line, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>> {
        self.bytes.clear();
        let mut limited = std::io::Read::take(&mut self.input, LONGEST as u64 + 1);
        limited.read_until(b'\n', &mut self.bytes).map_err(|reason| Error::Io { place: self.place.clone(), reason })?;
        if self.bytes.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if self.bytes.last() == Some(&b'\n') {
            self.bytes.pop();
        } else if self.bytes.len() > LONGEST {
            return Err(too_long(&self.place, self.number));
        }
        let mark = if self.number == 1 { "\u{feff}".as_bytes() } else { &[] };
        let bytes = self.bytes.strip_prefix(mark).unwrap_or(&self.bytes);
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(Line { text, number: self.number })),
            Err(error) => {
                let byte = error.valid_up_to();
                let reason = format!("should be UTF-8 text, but byte {} is 0x{:02x}", byte + 1, bytes[byte]);
                Err(malformed(&self.place, self.number, reason))
            }
        }
    }
}

/// The name of a line in errors.
pub(super) fn at(place: &str, line: u64) -> String {
    format!("{place}, line {line}")
}

/// An error about a line that cannot be parsed.
pub(super) fn malformed(place: &str, line: u64, reason: impl Into<String>) -> Error {
    Error::Malformed { place: at(place, line), reason: reason.into() }
}

/// An error about a field that is not allowed.
pub(super) fn field(
    place: &str,
    line: u64,
    column: impl Into<String>,
    allowed: impl Into<String>,
    found: impl Into<String>,
) -> Error {
    Error::Field { place: at(place, line), column: column.into(), allowed: allowed.into(), found: found.into() }
}

pub(super) fn too_long(place: &str, line: u64) -> Error {
    malformed(place, line, format!("should have at most {LONGEST} bytes, but has more"))
}

/// An error about nested fields whose full names take too much memory.
pub(super) fn long_names(place: &str, line: u64) -> Error {
    malformed(place, line, format!("the whole names of all fields should take at most {LONGEST} bytes, but take more"))
}

/// A user's text, shortened for an error.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// The batches up to the end or the first error; nothing after an error can be trusted.
pub(super) fn tables(mut next: impl FnMut() -> Result<Option<RecordBatch>> + Send + 'static) -> Tables {
    let mut over = false;
    Box::new(std::iter::from_fn(move || {
        if over {
            return None;
        }
        let table = next().transpose();
        over = !matches!(table, Some(Ok(_)));
        table
    }))
}
