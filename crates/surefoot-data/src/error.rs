//! The crate's error type. The message names the file and the part of it, what is allowed and what was found.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// What can be wrong with a file, or with the files of a data set.
///
/// `place` is a file, followed by the array in it where there are several: `digits.npz: x_train`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be opened or read.
    #[error("{place}: cannot be read: {reason}")]
    Io {
        /// The file or folder.
        place: String,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// A file cannot be written.
    #[error("{place}: cannot be written: {reason}")]
    Write {
        /// The file.
        place: String,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// The path is neither an `.npz` file nor a folder.
    #[error(
        "{}: should be a file ending in .npz with the arrays x_train, y_train, x_test and y_test, or a folder with {}, \
         but is neither",
        path.display(), crate::layout::known()
    )]
    NotUnderstood {
        /// The path that should be loaded.
        path: PathBuf,
    },
    /// The name of a log file does not imply a format.
    #[error(
        "{}: the format is unknown: the name should end in {}, or the format should be given",
        path.display(), crate::table::Format::extensions()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// A line of text, or a whole file of records, cannot be parsed.
    #[error("{place}: {reason}")]
    Malformed {
        /// The file, and the line or row if known: `logs.csv, line 18`.
        place: String,
        /// What was expected, and what was found.
        reason: String,
    },
    /// A field of a record has a value that is not allowed.
    #[error("{place}: {column} should be {allowed}, but is {found}")]
    Field {
        /// The file, and the line (counted from 1) or row (counted from 0) in it: `logs.csv, line 18`.
        place: String,
        /// The field.
        column: String,
        /// What is allowed.
        allowed: String,
        /// What was found.
        found: String,
    },
    /// A file of records lacks a column.
    #[error("{place}: no column {column}; it has {found}")]
    MissingColumn {
        /// The file.
        place: String,
        /// The names that the column may have.
        column: String,
        /// The columns that the file has.
        found: String,
    },
    /// A folder contains no files of a known data set.
    #[error("{}: should be a folder with {}, but has none of these", folder.display(), crate::layout::known())]
    UnknownFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// A folder lacks some of the files of a data set.
    #[error("{}: no {missing} ({also})", folder.display())]
    MissingFiles {
        /// The folder.
        folder: PathBuf,
        /// The names of the missing files, separated by commas.
        missing: String,
        /// Other names that the files may have.
        also: &'static str,
    },
    /// A set of the catalogue is not in the data folder.
    #[error("{key}: not there: {} should have {missing}; to get it: {how_to_get}", folder.display())]
    NotThere {
        /// The key of the set.
        key: &'static str,
        /// The data folder.
        folder: PathBuf,
        /// What is missing in the folder.
        missing: String,
        /// How to get the set.
        how_to_get: &'static str,
    },
    /// An `.npz` file is not a readable zip archive, or an array in it cannot be unpacked.
    #[error("{place}: not a readable zip archive: {reason}")]
    Zip {
        /// The file, and the array if known.
        place: String,
        /// The error of the zip reader.
        reason: String,
    },
    /// A `.gz` file is not a readable gzip stream.
    #[error("{place}: not a readable gzip stream: {reason}")]
    Gzip {
        /// The file.
        place: String,
        /// The error of the decoder.
        reason: io::Error,
    },
    /// An `.npz` file lacks an array.
    #[error("{}: no array {array}; it holds {found}", path.display())]
    MissingArray {
        /// The file.
        path: PathBuf,
        /// The array's name.
        array: &'static str,
        /// The arrays in the archive.
        found: String,
    },
    /// The header of an array or an idx file is malformed.
    #[error("{place}: {part} should be {allowed}, but is {found}")]
    Header {
        /// The file, and the array in it.
        place: String,
        /// The part of the header.
        part: String,
        /// What is allowed.
        allowed: String,
        /// What was found.
        found: String,
    },
    /// The elements of an array have a type that is not allowed.
    #[error("{place}: the type should be {allowed}, but is {found}")]
    Type {
        /// The file, and the array in it.
        place: String,
        /// The allowed types.
        allowed: &'static str,
        /// The type that was found, as the format writes it.
        found: String,
    },
    /// An array has the wrong number of dimensions or the wrong size.
    #[error("{place}: the shape should be {allowed}, but is {found}")]
    Shape {
        /// The file, and the array in it.
        place: String,
        /// What is allowed.
        allowed: String,
        /// What was found.
        found: String,
    },
    /// The file is too short or too long.
    #[error("{place}: should have {expected} bytes, as its header says, but {found}")]
    Length {
        /// The file, and the array in it.
        place: String,
        /// The number of bytes that the header implies, including the header.
        expected: u64,
        /// What was found instead.
        found: String,
    },
    /// A file of fixed-size records ends in the middle of a record, or has no records.
    #[error("{place}: should be records of {width} bytes, at least one, but {found}")]
    Records {
        /// The file.
        place: String,
        /// The number of bytes per record.
        width: usize,
        /// What was found instead.
        found: String,
    },
    /// A part of a fixed-size record is not allowed.
    #[error("{place}: record {record}: the {part} should be {allowed}, but is {value}")]
    Record {
        /// The file.
        place: String,
        /// The index of the record, counted from 0.
        record: usize,
        /// The part of the record.
        part: &'static str,
        /// What is allowed.
        allowed: String,
        /// What was found.
        value: u8,
    },
    /// A value of an array is not allowed.
    #[error("{place}: entry {index} should be {allowed}, but is {value}")]
    Value {
        /// The file, and the array in it.
        place: String,
        /// The index of the entry, counted from 0.
        index: usize,
        /// What is allowed.
        allowed: &'static str,
        /// What was found.
        value: String,
    },
    /// A file is not a valid safetensors file.
    #[error("{place}: not a readable safetensors file: {reason}")]
    Safetensors {
        /// The file.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// JSON is invalid, or its fields are not the expected ones.
    #[error("{place}: cannot be understood: {reason}")]
    Json {
        /// The file, and the part of it.
        place: String,
        /// The error of the JSON reader.
        reason: serde_json::Error,
    },
    /// A file lacks a tensor, or has an unexpected one.
    #[error("{place}: the tensors should be {allowed}, but are {found}")]
    Tensors {
        /// The file.
        place: String,
        /// The tensors that it should have.
        allowed: String,
        /// The tensors that it has.
        found: String,
    },
    /// The content of a file does not match the fingerprint in it.
    #[error("{place}: the content should have the fingerprint {claimed}, as the file says, but has {found}")]
    Fingerprint {
        /// The file.
        place: String,
        /// The fingerprint in the file.
        claimed: surefoot::Fingerprint,
        /// The fingerprint of the content.
        found: surefoot::Fingerprint,
    },
    /// A file changed between or during the passes over its records.
    #[error(
        "{place}: changed while it was read: {how}; all passes must read the same records: copy the file first, or \
         wait until it is complete"
    )]
    Changed {
        /// The file.
        place: String,
        /// How it changed.
        how: String,
    },
    /// A size is beyond what memory is taken for.
    #[error("{place}: {what} should be at most {limit}, but is {found}")]
    TooLarge {
        /// The file.
        place: String,
        /// The size.
        what: String,
        /// The largest size that is allowed.
        limit: u64,
        /// The size, with its factors: `1000000 actions x 16777217 features`.
        found: String,
    },
    /// Several files of a run cannot be used.
    #[error("{files} files cannot be used:\n  {reasons}")]
    Several {
        /// The number of files.
        files: usize,
        /// What is wrong with each, one line per file.
        reasons: String,
    },
    /// The core rejects a setting.
    #[error(transparent)]
    Core(#[from] surefoot::Error),
    /// The callback that is asked before each batch said to stop.
    #[error("stopped on request")]
    Stopped,
    /// Everything could be read, but the core rejects the content.
    #[error("{place}: {reason}")]
    Content {
        /// The file or folder, and the array in it.
        place: String,
        /// The error of the core.
        reason: surefoot::Error,
    },
}

/// A result with the crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of the core about a setting.
    pub(crate) fn setting(name: &str, allowed: &str, value: impl Display) -> Self {
        Error::Core(surefoot::Error::Setting { name: name.into(), allowed: allowed.into(), value: value.to_string() })
    }

    /// An error of writing under a temporary name, with the final one.
    pub(crate) fn renamed(self, from: &Path, to: &Path) -> Self {
        match self {
            Error::Write { place, reason } => Error::Write {
                place: place.replacen(&from.display().to_string(), &to.display().to_string(), 1),
                reason,
            },
            error => error,
        }
    }

    /// The text, without the file.
    pub(crate) fn without_place(&self) -> String {
        match self {
            Error::Io { reason, .. } => format!("cannot be read: {reason}"),
            Error::Malformed { reason, .. } => reason.clone(),
            error => error.to_string(),
        }
    }

    pub(crate) fn io(path: &Path, reason: io::Error) -> Self {
        Error::Io { place: path.display().to_string(), reason }
    }
}

/// Adds a place to an error of the core.
pub(crate) fn at<T>(place: &str, result: surefoot::Result<T>) -> Result<T> {
    result.map_err(|reason| Error::Content { place: place.to_owned(), reason })
}
