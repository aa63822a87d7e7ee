//! The manifest of a log: the files, and everything that decides how they are read.

use serde::{Deserialize, Serialize};
use surefoot::Fingerprint;

use crate::error::Result;
use crate::inputs::Inputs;
use crate::logs::LogReader;
use crate::rounds::ReadRequest;

/// The version of the files of a cache.
const VERSION: u32 = 1;

/// What a cache was made from. Two equal manifests give the same columns, bit for bit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    version: u32,
    /// Another version of the software may encode in another way.
    made_by: String,
    /// The columns are numbers of the machine.
    machine: String,
    files: Vec<FileEntry>,
    /// The roles of the columns, the actions, and how records become rounds and features.
    reading: String,
    /// The fingerprint of the encoding of a given policy.
    encoding: Option<Fingerprint>,
}

/// A file of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileEntry {
    pub(crate) path: String,
    pub(crate) size: u64,
    /// The time of the last change, or the tag of an object of a store.
    pub(crate) changed: String,
    /// A digest of the beginning and the end.
    pub(crate) digest: String,
}

impl Manifest {
    /// The manifest of a log; `None` if it comes from a pipe or from memory, and cannot be recognised later.
    pub(crate) fn of(reader: &LogReader, request: &ReadRequest, known: Option<&Inputs>) -> Result<Option<Self>> {
        let Some(files) = reader.entries()? else { return Ok(None) };
        let ReadRequest { grouping, reward_range, encoding, set_aside, storage: _, engine: _ } = request;
        let endian = if cfg!(target_endian = "little") { "little" } else { "big" };
        Ok(Some(Manifest {
            version: VERSION,
            made_by: format!("surefoot {}", env!("CARGO_PKG_VERSION")),
            machine: format!("{} bits, {endian} endian", usize::BITS),
            files,
            reading: format!("{} {grouping:?} {reward_range:?} {encoding:?} {set_aside:?}", reader.described()),
            encoding: known.map(Inputs::fingerprint),
        }))
    }

    /// The name of the folder.
    pub(crate) fn key(&self) -> String {
        let text = serde_json::to_vec(self).expect("a manifest is plain data");
        Fingerprint::of_bytes(&text).to_string()
    }
}
