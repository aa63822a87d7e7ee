//! Several passes over the same files. Every pass must read the same records, so a file that changes is an error, and
//! a pipe or the standard input, which can be read only once, is copied to a temporary file first. So is the content of
//! a compressed file in a format that is not read from the start to the end.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::Hasher as _;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use twox_hash::XxHash64;

use super::sources::{is_standard_input, place};
use crate::cache::FileEntry;
use crate::error::{Error, Result};
use crate::files::Spool;
use crate::packed::{Expanded, Packing};
use crate::stores::{Object, is_url};
use crate::table::{Format, unpack_file, unpack_object};

/// The number of bytes at the beginning and at the end of a file that are compared.
const COMPARED: u64 = 1 << 16;

/// What is known about the files that have been opened.
#[derive(Debug, Default)]
pub(super) struct Passes(Mutex<HashMap<PathBuf, Known>>);

#[derive(Debug)]
struct Known {
    /// What the file was; `None` for a pipe and for an object.
    stamp: Option<Stamp>,
    /// The object of a store, as it was.
    object: Option<Object>,
    /// The copy to read instead, if there is one.
    copy: Option<Spool>,
    /// The number of bytes of the file, or of the copy.
    size: u64,
    expanded: Expanded,
}

/// A file to read.
#[derive(Debug)]
pub(super) struct Opened {
    /// The file, or the copy; the URL of an object.
    pub(super) path: PathBuf,
    /// The object, if one is read.
    pub(super) object: Option<Object>,
    /// How far it expands, if it is compressed.
    pub(super) expanded: Expanded,
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
    /// The file to read; the copy of a pipe, or of a compressed file that must be read at any place.
    pub(super) fn open(&self, path: &Path, format: Format) -> Result<Opened> {
        if let Some(opened) = self.known(path, |known| known.map(|known| known.opened(path))) {
            self.unchanged(path)?;
            return Ok(opened);
        }
        let known = Known::of(path, format)?;
        let opened = known.opened(path);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), known);
        Ok(opened)
    }

    /// Fails if the file is not what it was when it was first opened.
    pub(super) fn unchanged(&self, path: &Path) -> Result<()> {
        if let Some(object) = self.known(path, |known| known?.object.clone()) {
            return object.unchanged();
        }
        let Some(before) = self.known(path, |known| known?.stamp.clone()) else { return Ok(()) };
        let now = Stamp::of(path).map_err(|reason| Error::io(path, reason))?;
        let how = match now == before {
            true => return Ok(()),
            false if now.size != before.size => format!("it had {} bytes and now has {}", before.size, now.size),
            false => "it was written to".into(),
        };
        Err(Error::Changed { place: path.display().to_string(), how })
    }

    /// What a cache says of a file; `None` for a pipe.
    pub(super) fn entry(&self, path: &Path, format: Format) -> Result<Option<FileEntry>> {
        self.open(path, format)?;
        if let Some(object) = self.known(path, |known| known?.object.clone()) {
            let path = path.display().to_string();
            let (size, changed) = (object.size(), object.version());
            return Ok(Some(FileEntry { path, size, changed, digest: String::new() }));
        }
        let Some(stamp) = self.known(path, |known| known?.stamp.clone()) else { return Ok(None) };
        let whole = path.canonicalize().map_err(|reason| Error::io(path, reason))?;
        let changed = stamp.modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        Ok(Some(FileEntry {
            path: whole.display().to_string(),
            size: stamp.size,
            changed: changed.map_or("unknown".into(), |since| since.as_nanos().to_string()),
            digest: format!("{:016x}", stamp.digest),
        }))
    }

    /// The number of bytes of a file that has been opened, expanded as far as it was read.
    pub(super) fn size(&self, path: &Path) -> Option<u64> {
        self.known(path, |known| known.map(|known| known.size.max(known.expanded.bytes())))
    }

    fn known<T>(&self, path: &Path, read: impl FnOnce(Option<&Known>) -> T) -> T {
        read(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path))
    }
}

impl Known {
    fn of(path: &Path, format: Format) -> Result<Self> {
        let place = place(path);
        let failed = |reason| Error::Io { place: place.clone(), reason };
        if is_url(path) {
            let object = Object::open(path)?;
            let unpacked = if format.is_streamed() { None } else { unpack_object(&place, path, &object)? };
            let (copy, size) = unpacked.map_or((None, object.size()), |(copy, size)| (Some(copy), size));
            return Ok(Known { stamp: None, object: Some(object), copy, size, expanded: Expanded::default() });
        }
        let copied =
            |(copy, size)| Known { stamp: None, object: None, copy: Some(copy), size, expanded: Expanded::default() };
        let mut known = if is_standard_input(path) {
            copied(Spool::fill(&place, "the size of the standard input in bytes", io::stdin().lock())?)
        } else if fs::metadata(path).map_err(failed)?.is_file() {
            let stamp = Stamp::of(path).map_err(failed)?;
            Known { size: stamp.size, stamp: Some(stamp), object: None, copy: None, expanded: Expanded::default() }
        } else {
            copied(Spool::copy(path)?)
        };
        if !format.is_streamed() {
            let from = known.copy.as_ref().map_or(path, Spool::path);
            if let Some(packing) = Packing::of_file(&place, from)? {
                let (copy, size) = unpack_file(&place, from, packing)?;
                (known.copy, known.size) = (Some(copy), size);
            }
        }
        Ok(known)
    }

    fn opened(&self, path: &Path) -> Opened {
        let object = self.object.clone().filter(|_| self.copy.is_none());
        let path = self.copy.as_ref().map_or(path, Spool::path);
        Opened { path: path.to_owned(), object, expanded: self.expanded.clone() }
    }
}
