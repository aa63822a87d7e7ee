//! Writing the columns of a round, piece by piece.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use bytemuck::Pod;
use surefoot::contexts::{Indices, Row};
use surefoot::{Contexts, Logs};

use super::mapped;
use super::resident::Resident;
use crate::encoding::Rows;
use crate::error::{Error, Result};

/// The number of records that are copied at once.
const COPIED: usize = 1 << 14;

/// The columns of a round that is being written.
#[derive(Debug)]
pub(crate) struct RoundWriter {
    folder: PathBuf,
    features: usize,
    sparse: bool,
    records: usize,
    /// The number of values, and of those that are not 0.
    stored: usize,
    filled: usize,
}

/// The size of columns that were written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) records: usize,
    pub(crate) features: usize,
    /// The number of stored values, for sparse rows.
    pub(crate) stored: Option<usize>,
}

impl RoundWriter {
    /// Creates the folder of a round.
    pub(crate) fn new(folder: PathBuf, rows: &Rows) -> Result<Self> {
        Self::create(folder, rows.width(), rows.is_sparse())
    }

    fn create(folder: PathBuf, features: usize, sparse: bool) -> Result<Self> {
        fs::create_dir(&folder).map_err(|reason| failed(&folder, reason))?;
        let writer = RoundWriter { features, sparse, folder, records: 0, stored: 0, filled: 0 };
        for name in ["action", "propensity", "cost", "norms", "values"] {
            writer.append(name, &[0u8; 0])?;
        }
        if writer.sparse {
            writer.append("offsets", &[0usize])?;
            writer.append("indices", &[0u8; 0])?;
        }
        Ok(writer)
    }

    /// Adds records.
    pub(crate) fn add(&mut self, rows: Rows, action: &[u32], propensity: &[f64], cost: &[f64]) -> Result<()> {
        let contexts = rows.uncompacted().map_err(|reason| {
            let place = self.folder.display().to_string();
            Error::Content { place, reason }
        })?;
        self.add_contexts(&contexts, action, propensity, cost)
    }

    fn add_contexts(&mut self, contexts: &Contexts, action: &[u32], propensity: &[f64], cost: &[f64]) -> Result<()> {
        self.append("action", action)?;
        self.append("propensity", propensity)?;
        self.append("cost", cost)?;
        let norms: Vec<f64> = (0..contexts.len()).map(|i| contexts.norm(i)).collect();
        self.append("norms", &norms)?;
        let values: Vec<f32> = contexts.iter().flat_map(|row| row.values().iter().copied()).collect();
        self.append("values", &values)?;
        if self.sparse {
            self.append_places(contexts)?;
        }
        self.records += contexts.len();
        self.stored += values.len();
        self.filled += values.iter().filter(|&&v| v != 0.0).count();
        Ok(())
    }

    fn append_places(&self, contexts: &Contexts) -> Result<()> {
        let (mut narrow, mut wide) = (Vec::new(), Vec::new());
        let (mut offsets, mut end) = (Vec::with_capacity(contexts.len()), self.stored);
        for row in contexts.iter() {
            if let Row::Sparse { indices, values } = row {
                end += values.len();
                match indices {
                    Indices::Narrow(indices) => narrow.extend_from_slice(indices),
                    Indices::Wide(indices) => wide.extend_from_slice(indices),
                }
            }
            offsets.push(end);
        }
        self.append("offsets", &offsets)?;
        // Only one of them has entries.
        self.append("indices", &narrow)?;
        self.append("indices", &wide)
    }

    /// A copy of a round, in dense form or as it is.
    pub(crate) fn copy(folder: PathBuf, logs: &Logs, dense: bool) -> Result<Written> {
        let (features, sparse) = (logs.contexts().features(), logs.contexts().is_sparse() && !dense);
        let mut writer = Self::create(folder, features, sparse)?;
        for start in (0..logs.len()).step_by(COPIED) {
            let some = logs.slice(start..(start + COPIED).min(logs.len()));
            let contexts = if dense { some.contexts().to_dense() } else { some.contexts().clone() };
            writer.add_contexts(&contexts, some.action(), some.propensity(), some.cost())?;
        }
        writer.finish_as(dense)
    }

    /// Ends the round. Rows have the form that they would have in memory.
    pub(crate) fn finish(self) -> Result<Written> {
        // As `Contexts::compact` decides.
        let dense = self.filled > self.records.saturating_mul(self.features) / 4;
        self.finish_as(dense)
    }

    /// Ends the round. Sparse rows become dense ones if that is wanted.
    pub(crate) fn finish_as(self, dense: bool) -> Result<Written> {
        let written = Written { records: self.records, features: self.features, stored: None };
        if !self.sparse {
            return Ok(written);
        }
        let sparse = Written { stored: Some(self.stored), ..written };
        if !dense {
            return Ok(sparse);
        }
        let contexts = mapped::contexts(&self.folder, &sparse, &Resident::new(None))?;
        let path = self.folder.join("dense");
        let mut out = BufWriter::new(File::create(&path).map_err(|reason| failed(&path, reason))?);
        let mut dense = vec![0f32; self.features];
        for row in contexts.iter() {
            dense.fill(0.0);
            row.for_each(|f, v| dense[f] = v as f32);
            out.write_all(bytemuck::cast_slice(&dense)).map_err(|reason| failed(&path, reason))?;
        }
        out.flush().map_err(|reason| failed(&path, reason))?;
        drop((out, contexts));
        fs::rename(&path, self.folder.join("values")).map_err(|reason| failed(&path, reason))?;
        for name in ["offsets", "indices"] {
            let path = self.folder.join(name);
            fs::remove_file(&path).map_err(|reason| failed(&path, reason))?;
        }
        Ok(written)
    }

    /// Appends numbers to a column. Files are not kept open: a log may have more rounds than a process may open files.
    fn append<T: Pod>(&self, name: &str, numbers: &[T]) -> Result<()> {
        let path = self.folder.join(name);
        let open = OpenOptions::new().create(true).append(true).open(&path);
        open.and_then(|mut file| file.write_all(bytemuck::cast_slice(numbers))).map_err(|reason| failed(&path, reason))
    }
}

fn failed(path: &Path, reason: std::io::Error) -> Error {
    Error::Write { place: path.display().to_string(), reason }
}
