//! Several passes over the same files. Every pass must read the same records, so a file that changes is an error, and
//! a pipe, which can be read only once, is copied to a temporary file first.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::Hasher as _;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use twox_hash::XxHash64;

use crate::error::{Error, Result};
use crate::files::Spool;

/// The number of bytes at the beginning and at the end of a file that are compared.
const COMPARED: u64 = 1 << 16;

/// What is known about the files that have been opened.
#[derive(Debug, Default)]
pub(super) struct Passes(Mutex<HashMap<PathBuf, Known>>);

#[derive(Debug)]
enum Known {
    File(Stamp),
    /// The copy of a pipe, and its size.
    Pipe(Spool, u64),
}

/// The size of a file, the time of its last change, and a digest of its beginning and end.
#[derive(Debug, Clone, PartialEq)]
struct Stamp {
    size: u64,
    modified: Option<SystemTime>,
    digest: u64,
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let data = file.metadata()?;
        let (size, modified) = (data.len(), data.modified().ok());
        let mut hasher = XxHash64::with_seed(0);
        let mut bytes = Vec::new();
        for start in [0, size.saturating_sub(COMPARED)] {
            bytes.clear();
            file.seek(SeekFrom::Start(start))?;
            file.by_ref().take(COMPARED.min(size - start)).read_to_end(&mut bytes)?;
            hasher.write(&bytes);
        }
        Ok(Stamp { size, modified, digest: hasher.finish() })
    }
}

impl Passes {
    /// The path to read from: the file, or the copy of a pipe.
    pub(super) fn open(&self, path: &Path) -> Result<PathBuf> {
        if self.known(path, |known| known.is_some()) {
            self.unchanged(path)?;
            return Ok(self.known(path, |known| match known {
                Some(Known::Pipe(spool, _)) => spool.path().to_owned(),
                _ => path.to_owned(),
            }));
        }
        let failed = |reason| Error::io(path, reason);
        let data = fs::metadata(path).map_err(failed)?;
        if data.is_dir() {
            return Ok(path.to_owned());
        }
        let known = match data.is_file() {
            true => Known::File(Stamp::of(path).map_err(failed)?),
            false => {
                let (spool, size) = Spool::copy(path)?;
                Known::Pipe(spool, size)
            }
        };
        let from = match &known {
            Known::Pipe(spool, _) => spool.path().to_owned(),
            Known::File(_) => path.to_owned(),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), known);
        Ok(from)
    }

    /// Fails if the file is not what it was when it was first opened.
    pub(super) fn unchanged(&self, path: &Path) -> Result<()> {
        let before = self.known(path, |known| match known {
            Some(Known::File(stamp)) => Some(stamp.clone()),
            _ => None,
        });
        let Some(before) = before else { return Ok(()) };
        let now = Stamp::of(path).map_err(|reason| Error::io(path, reason))?;
        let how = match now == before {
            true => return Ok(()),
            false if now.size != before.size => format!("it had {} bytes and now has {}", before.size, now.size),
            false => "it was written to".into(),
        };
        Err(Error::Changed { place: path.display().to_string(), how })
    }

    /// The number of bytes of a file that has been opened.
    pub(super) fn size(&self, path: &Path) -> Option<u64> {
        self.known(path, |known| match known? {
            Known::File(stamp) => Some(stamp.size),
            Known::Pipe(_, size) => Some(*size),
        })
    }

    fn known<T>(&self, path: &Path, read: impl FnOnce(Option<&Known>) -> T) -> T {
        read(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path))
    }
}
