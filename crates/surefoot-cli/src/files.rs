//! Writing files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io, process};

/// Writes a file whole or not at all: to a sibling, which is then put in its place.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let sibling = with_suffix(path, &format!(".{}.tmp", process::id()));
    let written = fs::write(&sibling, bytes).and_then(|()| fs::rename(&sibling, path));
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&sibling);
    }
    written
}

/// Appends to the last component of a path; unlike `with_extension`, keeps a dot that is already there.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
