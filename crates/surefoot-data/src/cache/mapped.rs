//! Columns in files that are mapped.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;
use surefoot::contexts::{Column, ContextColumns, IndexColumn};
use surefoot::{Contexts, Logs};

use super::resident::Resident;
use super::writer::Written;
use crate::error::{Error, Result};

/// Numbers in a mapped file.
struct Mapped<T> {
    map: Arc<Mmap>,
    kind: PhantomData<T>,
}

impl<T: Pod> AsRef<[T]> for Mapped<T> {
    fn as_ref(&self) -> &[T] {
        bytemuck::cast_slice(&self.map)
    }
}

/// Maps a column of `count` numbers.
fn column<T: Pod + Send + Sync>(folder: &Path, name: &str, count: usize, resident: &Resident) -> Result<Column<T>> {
    let path = folder.join(name);
    let failed = |reason| Error::io(&path, reason);
    let file = File::open(&path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    if Some(size) != count.checked_mul(size_of::<T>()).map(|bytes| bytes as u64) {
        let reason = format!("should have {count} numbers of {} bytes, but has {size} bytes", size_of::<T>());
        return Err(Error::Malformed { place: path.display().to_string(), reason });
    }
    // A file without bytes cannot be mapped.
    if count == 0 {
        return Ok(Vec::new().into());
    }
    let map = Arc::new(map(&file).map_err(failed)?);
    resident.watch(&map);
    Ok(Column::Foreign(Box::new(Mapped { map, kind: PhantomData })))
}

#[expect(unsafe_code, reason = "a file is borrowed as memory")]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the memory must not change while it is borrowed. The file is one of ours, under a name that is a hash, and
    // nothing writes to it once it is complete. Removing it does no harm: the mapped file stays until it is unmapped.
    unsafe { Mmap::map(file) }
}

/// The contexts of a round.
pub(super) fn contexts(folder: &Path, round: &Written, resident: &Resident) -> Result<Contexts> {
    let Written { records, features, stored } = *round;
    let values = stored.or(records.checked_mul(features)).unwrap_or(usize::MAX);
    let places = match stored {
        None => None,
        Some(stored) => {
            let offsets = column(folder, "offsets", records + 1, resident)?;
            let indices = match features <= IndexColumn::NARROW {
                true => IndexColumn::Narrow(column(folder, "indices", stored, resident)?),
                false => IndexColumn::Wide(column(folder, "indices", stored, resident)?),
            };
            Some((offsets, indices))
        }
    };
    let columns = ContextColumns {
        features,
        values: column(folder, "values", values, resident)?,
        norms: column(folder, "norms", records, resident)?,
        places,
    };
    Contexts::of_columns(columns).map_err(|reason| refused(folder, reason))
}

/// A round.
pub(crate) fn logs(folder: &Path, round: &Written, actions: usize, name: &str, resident: &Resident) -> Result<Logs> {
    let contexts = contexts(folder, round, resident)?;
    let action = column(folder, "action", round.records, resident)?;
    let propensity = column(folder, "propensity", round.records, resident)?;
    let cost = column(folder, "cost", round.records, resident)?;
    let logs = Logs::of_columns(actions, contexts, action, propensity, cost);
    Ok(logs.map_err(|reason| refused(folder, reason))?.with_policy_version(name))
}

/// The number of stored values of sparse contexts.
pub(super) fn stored(contexts: &Contexts) -> usize {
    contexts.iter().map(|row| row.values().len()).sum()
}

fn refused(folder: &Path, reason: surefoot::Error) -> Error {
    Error::Content { place: folder.display().to_string(), reason }
}
