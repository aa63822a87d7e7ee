//! Files whose numbers are borrowed as columns, so that a round of any size is read without being held.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytemuck::Pod;
use memmap2::Mmap;
use surefoot::contexts::Column;

use crate::cache::Resident;
use crate::error::{Error, Result};
use crate::stores::{Blocks, Object, is_url};

/// The number of bytes of mapped files that are held at once.
const HELD: u64 = 1 << 29;

/// What limits how much is held, for as long as a file is mapped.
static RESIDENT: Mutex<Weak<Resident>> = Mutex::new(Weak::new());

fn resident() -> Arc<Resident> {
    let mut known = RESIDENT.lock().unwrap_or_else(PoisonError::into_inner);
    known.upgrade().unwrap_or_else(|| {
        let new = Resident::new(Some(HELD));
        *known = Arc::downgrade(&new);
        new
    })
}

/// A file that is borrowed as memory.
#[derive(Debug, Clone)]
pub(crate) struct MappedFile {
    /// `None` for a file without bytes, which cannot be mapped.
    map: Option<Arc<Mmap>>,
    #[expect(dead_code, reason = "it is held, and dropped at the end")]
    resident: Arc<Resident>,
}

impl MappedFile {
    /// Maps a file, or the copy of an object of a store.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |reason| Error::io(path, reason);
        let file = match is_url(path) {
            false => File::open(path).map_err(failed)?,
            true => {
                let mut copy = tempfile::tempfile().map_err(failed)?;
                io::copy(&mut Blocks::new(Object::open(path)?).reader(0), &mut copy).map_err(failed)?;
                copy
            }
        };
        MappedFile::of(&file).map_err(failed)
    }

    #[expect(unsafe_code, reason = "a file is borrowed as memory")]
    fn of(file: &File) -> io::Result<Self> {
        let map = match file.metadata()?.len() {
            0 => None,
            // SAFETY: the memory must not change while it is borrowed. Nothing of ours writes to a file that was written: it is
            // replaced as a whole, and the mapped file stays until it is unmapped. Every number is checked before it is used,
            // and used as a number only.
            _ => Some(Arc::new(unsafe { Mmap::map(file) }?)),
        };
        let resident = resident();
        map.iter().for_each(|map| resident.watch(map));
        Ok(MappedFile { map, resident })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.map.as_deref().map_or(&[], |map| map)
    }

    /// The numbers in a range of the bytes; `None` if they are not where numbers of their size can be.
    pub(crate) fn column<T: Pod + Send + Sync>(&self, range: Range<usize>) -> Option<Column<T>> {
        let part = self.bytes().get(range.clone())?;
        if part.is_empty() {
            return Some(Vec::new().into());
        }
        bytemuck::try_cast_slice::<u8, T>(part).ok()?;
        Some(Column::Foreign(Box::new(Part { file: self.clone(), range, kind: PhantomData })))
    }
}

/// Numbers in a part of a mapped file.
struct Part<T> {
    file: MappedFile,
    range: Range<usize>,
    kind: PhantomData<T>,
}

impl<T: Pod> AsRef<[T]> for Part<T> {
    fn as_ref(&self) -> &[T] {
        bytemuck::cast_slice(&self.file.bytes()[self.range.clone()])
    }
}

/// Numbers that are written to a temporary file, piece by piece, and then mapped.
pub(crate) fn spooled<T: Pod + Send + Sync>(pieces: impl Iterator<Item = Result<Vec<T>>>) -> Result<Column<T>> {
    let failed = |reason| Error::Write { place: std::env::temp_dir().display().to_string(), reason };
    let mut out = BufWriter::with_capacity(1 << 16, tempfile::tempfile().map_err(failed)?);
    for piece in pieces {
        out.write_all(bytemuck::cast_slice(&piece?)).map_err(failed)?;
    }
    let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
    let mapped = MappedFile::of(&file).map_err(failed)?;
    let size = mapped.bytes().len();
    Ok(mapped.column(0..size).expect("a mapped file begins at a page"))
}
