//! Atomic file writes: a file is written completely or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// Writes a file completely or not at all. The bytes go to a sibling file, which is flushed to disk and then renamed.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    replace_with(path, |file| file.write_all(bytes))
}

/// Like [`replace`], for content that is written piece by piece.
pub(crate) fn replace_with(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let mut sibling = OsString::from(path);
    sibling.push(format!(".{}.tmp", std::process::id()));
    let write = || {
        let mut file = File::create(&sibling)?;
        content(&mut file)?;
        file.sync_all()?;
        fs::rename(&sibling, path)
    };
    write().map_err(|reason| {
        // The first error is the one to report.
        let _ = fs::remove_file(&sibling);
        Error::Write { place: path.display().to_string(), reason }
    })
}
