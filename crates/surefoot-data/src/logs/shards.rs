//! Shards of a log: rows of one of its Parquet files, described so that another process can read them.

use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Actions, ColumnNames, LogReader, is_long};
use crate::cache::FileEntry;
use crate::error::{Error, Result};
use crate::table::{Labels, ROWS};

/// The largest number of rows of a shard. A shard begins where a batch does, so that its batches are those of the whole file.
pub(crate) const SHARD: usize = 16 * ROWS;

/// A shard. The file must be what it was when the shard was cut.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shard {
    file: FileEntry,
    /// The number of the file among those of the log.
    number: usize,
    rows: Range<usize>,
    columns: ColumnNames,
    actions: Option<Actions>,
}

impl LogReader {
    /// The shards of the log, in the order of its records.
    pub(crate) fn shards(&self) -> Result<Vec<Vec<u8>>> {
        self.check_parts()?;
        let pipe = || Error::setting("the logs", "files, with an engine", "a pipe");
        let files = self.entries()?.ok_or_else(pipe)?;
        let mut shards = Vec::new();
        for (number, (source, file)) in self.sources.iter().zip(files).enumerate() {
            let mut tables = self.open(source, Labels::Required)?.0;
            // The footer tells the number of batches.
            let batches = tables.size_hint().1.unwrap_or(0);
            if tables.next().transpose()?.is_some_and(|first| is_long(&first, &self.columns)) {
                let reason = "should have a row per record, with an engine, but has a row per candidate";
                return Err(Error::Malformed { place: source.place(), reason: reason.into() });
            }
            for start in (0..batches * ROWS).step_by(SHARD) {
                let (file, columns) = (file.clone(), (*self.columns).clone());
                let rows = start..start + SHARD;
                let shard = Shard { file, number, rows, columns, actions: self.given.clone() };
                shards.push(serde_json::to_vec(&shard).expect("a shard is plain data"));
            }
        }
        Ok(shards)
    }

    /// Reads the records of a shard.
    pub(crate) fn of_shard(bytes: &[u8]) -> Result<Self> {
        let shard: Shard =
            serde_json::from_slice(bytes).map_err(|reason| Error::Json { place: "a shard".into(), reason })?;
        let paths = vec![PathBuf::from(&shard.file.path)];
        let mut reader = LogReader::rows_of(paths, vec![(shard.number, shard.rows)], shard.columns);
        reader.given = shard.actions;
        let found = reader.entries()?.and_then(|mut files| files.pop());
        // Another machine may have a copy with another time; what has no digest has a version instead.
        let same = |found: &FileEntry| {
            let FileEntry { size, digest, changed, .. } = &shard.file;
            found.size == *size && found.digest == *digest && (!digest.is_empty() || found.changed == *changed)
        };
        match found.filter(same) {
            Some(_) => Ok(reader),
            None => {
                let how = "it is not what it was when the work began".into();
                Err(Error::Changed { place: shard.file.path, how })
            }
        }
    }
}
