//! The one error of the crate. Its text says which file and which part of it, what is allowed and what came.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// What can be wrong with a file, or with the files of a data set.
///
/// `place` is a file, followed by the array in it where there are several: `digits.npz: x_train`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system cannot open or read a file or folder.
    #[error("{place}: cannot be read: {reason}")]
    Io {
        /// The file or folder.
        place: String,
        /// What the operating system says.
        reason: io::Error,
    },
    /// The operating system cannot write a file.
    #[error("{place}: cannot be written: {reason}")]
    Write {
        /// The file.
        place: String,
        /// What the operating system says.
        reason: io::Error,
    },
    /// Neither an `.npz` file nor a folder.
    #[error(
        "{}: should be a file ending in .npz with the arrays x_train, y_train, x_test and y_test, or a folder with {}, \
         but is neither",
        path.display(), crate::layout::known()
    )]
    NotUnderstood {
        /// What was to be loaded.
        path: PathBuf,
    },
    /// The name of a log file does not tell its format.
    #[error(
        "{}: the name should end in .parquet, .csv, .jsonl, .dsjson, .vw or .npz, or the format be given, but it does not",
        path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// A line of text, or a whole file of records, cannot be understood.
    #[error("{place}: {reason}")]
    Malformed {
        /// The file, and the line or row in it where it got that far: `logs.csv, line 18`.
        place: String,
        /// What should be there, and what is.
        reason: String,
    },
    /// A field of a record is not allowed.
    #[error("{place}: {column} should be {allowed}, but is {found}")]
    Field {
        /// The file, and the line (counted from 1) or row (counted from 0) in it: `logs.csv, line 18`.
        place: String,
        /// The field.
        column: String,
        /// What may stand there.
        allowed: String,
        /// What stands there.
        found: String,
    },
    /// A file of records lacks a column.
    #[error("{place}: no column {column}; it has {found}")]
    MissingColumn {
        /// The file.
        place: String,
        /// The names that it may have.
        column: String,
        /// The columns that there are.
        found: String,
    },
    /// A folder holds no file of any data set that is understood.
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
        /// Which other names they may have.
        also: &'static str,
    },
    /// A set of the catalogue is not in the data folder.
    #[error("{key}: not there: {} should have {missing}; to get it: {how_to_get}", folder.display())]
    NotThere {
        /// The key of the set.
        key: &'static str,
        /// The data folder.
        folder: PathBuf,
        /// What is missing in it.
        missing: String,
        /// Where the set comes from.
        how_to_get: &'static str,
    },
    /// An `.npz` file is not a readable zip archive, or an array in it cannot be unpacked.
    #[error("{place}: not a readable zip archive: {reason}")]
    Zip {
        /// The file, and the array if it got that far.
        place: String,
        /// What the zip reader says.
        reason: String,
    },
    /// A `.gz` file is not a readable gzip stream.
    #[error("{place}: not a readable gzip stream: {reason}")]
    Gzip {
        /// The file.
        place: String,
        /// What the decoder says.
        reason: io::Error,
    },
    /// An `.npz` file lacks an array.
    #[error("{}: no array {array}; it holds {found}", path.display())]
    MissingArray {
        /// The file.
        path: PathBuf,
        /// The array's name.
        array: &'static str,
        /// What the archive holds.
        found: String,
    },
    /// The header of an array or an idx file is malformed.
    #[error("{place}: {part} should be {allowed}, but is {found}")]
    Header {
        /// The file, and the array in it.
        place: String,
        /// The part of the header.
        part: String,
        /// What it may be.
        allowed: String,
        /// What it is.
        found: String,
    },
    /// The elements of an array have a type that has no meaning there.
    #[error("{place}: the type should be {allowed}, but is {found}")]
    Type {
        /// The file, and the array in it.
        place: String,
        /// The types that may stand there.
        allowed: &'static str,
        /// The name of the type that came, as its format writes it.
        found: String,
    },
    /// An array has the wrong number of dimensions or the wrong size.
    #[error("{place}: the shape should be {allowed}, but is {found}")]
    Shape {
        /// The file, and the array in it.
        place: String,
        /// What it may be.
        allowed: String,
        /// What it is.
        found: String,
    },
    /// Bytes are missing at the end, or more follow.
    #[error("{place}: should have {expected} bytes, as its header says, but {found}")]
    Length {
        /// The file, and the array in it.
        place: String,
        /// The bytes that the header asks for, the header included.
        expected: u64,
        /// How that fails.
        found: String,
    },
    /// A file of records ends within one, or has none.
    #[error("{place}: should be records of {width} bytes, at least one, but {found}")]
    Records {
        /// The file.
        place: String,
        /// The bytes of a record.
        width: usize,
        /// How that fails.
        found: String,
    },
    /// A part of a record is not allowed.
    #[error("{place}: record {record}: the {part} should be {allowed}, but is {value}")]
    Record {
        /// The file.
        place: String,
        /// The record, counted from 0.
        record: usize,
        /// Which part of it.
        part: &'static str,
        /// What may stand there.
        allowed: String,
        /// What stands there.
        value: u8,
    },
    /// A value is not allowed.
    #[error("{place}: entry {index} should be {allowed}, but is {value}")]
    Value {
        /// The file, and the array in it.
        place: String,
        /// The entry, counted from 0.
        index: usize,
        /// What may stand there.
        allowed: &'static str,
        /// What stands there.
        value: String,
    },
    /// A file that should hold tensors does not.
    #[error("{place}: not a readable safetensors file: {reason}")]
    Safetensors {
        /// The file.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// JSON that cannot be read, or does not have the fields it should have.
    #[error("{place}: cannot be understood: {reason}")]
    Json {
        /// The file, and the part of it.
        place: String,
        /// What the JSON reader says.
        reason: serde_json::Error,
    },
    /// A file lacks a tensor, or has one that it should not have.
    #[error("{place}: the tensors should be {allowed}, but are {found}")]
    Tensors {
        /// The file.
        place: String,
        /// Those that it should have.
        allowed: String,
        /// Those that it has.
        found: String,
    },
    /// The content of a file is not what it was when the file was written.
    #[error("{place}: the content should have the fingerprint {claimed}, as the file says, but has {found}")]
    Fingerprint {
        /// The file.
        place: String,
        /// What the file says.
        claimed: surefoot::Fingerprint,
        /// What its content gives.
        found: surefoot::Fingerprint,
    },
    /// Several files of a run cannot be used.
    #[error("{files} files cannot be used:\n  {reasons}")]
    Several {
        /// How many.
        files: usize,
        /// What is wrong with each, a line each.
        reasons: String,
    },
    /// The core refuses a setting.
    #[error(transparent)]
    Core(#[from] surefoot::Error),
    /// Who was asked before a batch said so.
    #[error("stopped on request")]
    Stopped,
    /// Everything was read, but the core refuses it.
    #[error("{place}: {reason}")]
    Content {
        /// The file or folder, and the array in it.
        place: String,
        /// What the core says.
        reason: surefoot::Error,
    },
}

/// `Ok` or the crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The core's error about a setting.
    pub(crate) fn setting(name: &str, allowed: &str, value: impl Display) -> Self {
        Error::Core(surefoot::Error::Setting { name: name.into(), allowed: allowed.into(), value: value.to_string() })
    }

    pub(crate) fn io(path: &Path, reason: io::Error) -> Self {
        Error::Io { place: path.display().to_string(), reason }
    }
}

/// Gives an error of the core its place.
pub(crate) fn at<T>(place: &str, result: surefoot::Result<T>) -> Result<T> {
    result.map_err(|reason| Error::Content { place: place.to_owned(), reason })
}
