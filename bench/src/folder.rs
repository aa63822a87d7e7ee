//! Arrays shared with the rivals: a folder with one raw little-endian file per array, and their sizes in `sizes.json`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::work::Result;

/// The sizes of the arrays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sizes {
    pub(crate) records: usize,
    pub(crate) tests: usize,
    pub(crate) features: usize,
    pub(crate) actions: usize,
}

/// A folder of arrays.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    pub(crate) sizes: Sizes,
}

impl Folder {
    pub(crate) fn create(path: &Path, sizes: Sizes) -> Result<Self> {
        fs::create_dir_all(path)?;
        fs::write(path.join("sizes.json"), serde_json::to_string(&sizes)?)?;
        Ok(Folder { path: path.to_owned(), sizes })
    }

    pub(crate) fn open(path: &Path) -> Result<Self> {
        let sizes = fs::read_to_string(path.join("sizes.json")).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Folder { path: path.to_owned(), sizes: serde_json::from_str(&sizes)? })
    }

    /// Reads an array from a file; `value` is `from_le_bytes` of the type.
    pub(crate) fn read<T, const WIDTH: usize>(&self, file: &str, value: fn([u8; WIDTH]) -> T) -> Result<Vec<T>> {
        read(&self.path.join(file), value)
    }

    /// Writes an array to a file; `bytes` is `to_le_bytes` of the type.
    pub(crate) fn write<T: Copy, const WIDTH: usize>(
        &self,
        file: &str,
        values: &[T],
        bytes: fn(T) -> [u8; WIDTH],
    ) -> Result<()> {
        write(&self.path.join(file), values, bytes)
    }
}

pub(crate) fn read<T, const WIDTH: usize>(path: &Path, value: fn([u8; WIDTH]) -> T) -> Result<Vec<T>> {
    let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(bytes.as_chunks().0.iter().map(|&chunk| value(chunk)).collect())
}

pub(crate) fn write<T: Copy, const WIDTH: usize>(path: &Path, values: &[T], bytes: fn(T) -> [u8; WIDTH]) -> Result<()> {
    let content: Vec<u8> = values.iter().flat_map(|&value| bytes(value)).collect();
    fs::write(path, content).map_err(|e| format!("{}: {e}", path.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let place = tempfile::tempdir().unwrap();
        let sizes = Sizes { records: 3, tests: 1, features: 1, actions: 2 };
        let folder = Folder::create(place.path(), sizes).unwrap();
        folder.write("x.f32", &[1.5f32, -2.0, 0.0], f32::to_le_bytes).unwrap();
        let folder = Folder::open(place.path()).unwrap();
        assert_eq!(folder.sizes, sizes);
        assert_eq!(folder.read("x.f32", f32::from_le_bytes).unwrap(), [1.5, -2.0, 0.0]);
        assert!(folder.read("y.u32", u32::from_le_bytes).unwrap_err().to_string().contains("y.u32"));
    }
}
