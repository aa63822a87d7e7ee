//! CACHE: encoded records in files that are mapped, for logs that are larger than the memory.
//!
//! A log that is learned from is encoded once. The columns of each round are files: actions, propensities, costs, and the
//! features with their norms, as raw numbers of this machine. A round of the core borrows the files ([`mapped`]), so every
//! learner and every certificate works on them as on memory, with the same bits. The operating system reads pages when they
//! are used, and [`resident`] limits how many are held.
//!
//! ```text
//! CACHE/KEY/cache.json            the manifest, and all of `Rounds` that is no column
//! CACHE/KEY/round-0/cost          one file per column; the records set aside are a round too
//! ```
//!
//! `KEY` is the hash of the [manifest](manifest): the files with their sizes, times and digests, and everything that decides
//! how they are read. So another log, or another encoding, has another folder. A folder appears under its name when it is
//! complete. When it is used again, every number is checked, and so are the fingerprints of its rounds; a folder that does
//! not pass is made again.

mod journal;
mod manifest;
mod mapped;
mod resident;
mod writer;

pub(crate) use journal::PassFiles;
pub(crate) use manifest::{FileEntry, Manifest};
pub(crate) use mapped::logs as mapped_logs;
pub(crate) use resident::Resident;
pub(crate) use writer::{RoundWriter, Written};

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use surefoot::audit::{ActionsFrom, FeaturesFrom};
use surefoot::{Fingerprint, Logs};

use crate::encoding::{Encoding, Identity};
use crate::error::{Error, Result};
use crate::files::Together;
use crate::logs::Actions;
use crate::rounds::Rounds;

/// How much memory a run may take, and where encoded records are stored if they would take more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Storage {
    /// The memory in bytes; `None` for no limit.
    pub memory: Option<u64>,
    /// The folder in which encoded records are kept, to be used again. Without it, a folder of the system's temporary
    /// files is used and removed, and only if the memory is too small.
    pub cache: Option<PathBuf>,
}

impl Storage {
    /// The share of the memory that encoded records may take, if they are not stored: learning needs memory too.
    const SHARE: u64 = 3;

    /// Whether records of this size are stored in files.
    pub(crate) fn stores(&self, bytes: u64) -> bool {
        self.cache.is_some() || self.memory.is_some_and(|memory| bytes > memory / Self::SHARE)
    }

    /// The memory with which records of this size are not stored.
    pub(crate) fn needed(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(Self::SHARE)
    }

    /// The number of bytes of mapped files that are held at once.
    fn window(&self) -> Option<u64> {
        self.memory.map(|memory| (memory / 8).max(64 << 20))
    }
}

/// What a cache says of a round: how its columns are to be read, and what they contain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredRound {
    /// The name of the round.
    pub(crate) name: String,
    pub(crate) records: usize,
    pub(crate) features: usize,
    /// The number of stored values, for sparse rows.
    pub(crate) stored: Option<usize>,
    /// The fingerprint of the logs; of the records set aside, too.
    pub(crate) fingerprint: Fingerprint,
}

/// The file that describes a cache.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    manifest: Manifest,
    encoding: Encoding,
    features_from: FeaturesFrom,
    actions: Actions,
    actions_from: ActionsFrom,
    reward_range: [f64; 2],
    rounds: Vec<StoredRound>,
    /// The last folder has the records set aside.
    set_aside: Option<StoredRound>,
    skipped: usize,
    unlabelled: usize,
    interleaved: bool,
    identities: Vec<(String, Identity)>,
    flaws: Vec<String>,
    warnings: Vec<String>,
}

const DESCRIPTION: &str = "cache.json";

/// A folder for the encoded records of a run, which is being written.
#[derive(Debug)]
pub(crate) struct Cache {
    manifest: Option<Manifest>,
    /// The final name, if the folder is kept.
    target: Option<PathBuf>,
    /// The folder while it is written; it is removed with this value, unless it got its final name.
    folder: PathBuf,
    together: Together,
    resident: Arc<Resident>,
}

impl Cache {
    /// The rounds that were stored for this manifest before, if they are whole and unchanged.
    pub(crate) fn find(storage: &Storage, manifest: &Manifest) -> Option<Rounds> {
        let folder = storage.cache.as_ref()?.join(manifest.key());
        read(&folder, manifest, Resident::new(storage.window())).ok()
    }

    /// Starts a new folder. Without a manifest, the records cannot be recognised later, and the folder is not kept.
    pub(crate) fn begin(storage: &Storage, manifest: Option<Manifest>) -> Result<Self> {
        let mut together = Together::default();
        let target = storage.cache.as_ref().zip(manifest.as_ref()).map(|(cache, manifest)| cache.join(manifest.key()));
        let above = storage.cache.clone().unwrap_or_else(std::env::temp_dir);
        let named = target.clone().unwrap_or_else(|| above.join("surefoot-records"));
        if named.is_dir() && target.is_some() {
            // It was not whole, or somebody has changed it.
            fs::remove_dir_all(&named).map_err(|reason| Error::Write { place: named.display().to_string(), reason })?;
        }
        let folder = together.folder(&named)?;
        Ok(Cache { manifest, target, folder, together, resident: Resident::new(storage.window()) })
    }

    /// The folder of a round.
    pub(crate) fn round(&self, place: usize) -> PathBuf {
        self.folder.join(format!("round-{place}"))
    }

    /// Maps the columns of a round that was written.
    pub(crate) fn logs(&self, place: usize, round: &writer::Written, actions: usize, name: &str) -> Result<Logs> {
        mapped::logs(&self.round(place), round, actions, name, &self.resident)
    }

    /// Describes the rounds, and gives the folder its name. The rounds hold the mapped files from now on, and a folder that
    /// is not kept.
    pub(crate) fn finish(self, rounds: Rounds) -> Result<Rounds> {
        let Cache { manifest, target, folder, together, resident } = self;
        let Some((manifest, target)) = manifest.zip(target) else {
            return Ok(Rounds { held: Some(Arc::new(Held { resident, folder: Some(together) })), ..rounds });
        };
        let stored = |logs: &Logs| StoredRound {
            name: logs.policy_version().to_owned(),
            records: logs.len(),
            features: logs.contexts().features(),
            stored: logs.contexts().is_sparse().then(|| mapped::stored(logs.contexts())),
            fingerprint: logs.fingerprint(),
        };
        let described = Described {
            manifest,
            encoding: rounds.encoding.clone(),
            features_from: rounds.features_from,
            actions: rounds.actions.clone(),
            actions_from: rounds.actions_from,
            reward_range: rounds.reward_range,
            rounds: rounds.rounds.iter().map(stored).collect(),
            set_aside: rounds.set_aside.as_ref().map(stored),
            skipped: rounds.skipped,
            unlabelled: rounds.unlabelled,
            interleaved: rounds.interleaved,
            identities: rounds.identities.clone(),
            flaws: rounds.flaws.clone(),
            warnings: rounds.warnings.clone(),
        };
        let failed = |place: &Path, reason| Error::Write { place: place.display().to_string(), reason };
        let text = serde_json::to_vec_pretty(&described).map_err(|reason| failed(&target, reason.into()))?;
        fs::write(folder.join(DESCRIPTION), text).map_err(|reason| failed(&target, reason))?;
        match together.commit() {
            // Somebody else was faster, and made the same.
            Err(_) if target.join(DESCRIPTION).is_file() => {}
            done => done?,
        }
        Ok(Rounds { held: Some(Arc::new(Held { resident, folder: None })), ..rounds })
    }
}

/// What must exist as long as mapped rounds are used.
#[derive(Debug)]
#[expect(dead_code, reason = "it is held, and dropped at the end")]
pub(crate) struct Held {
    resident: Arc<Resident>,
    /// A folder that is removed with the rounds.
    folder: Option<Together>,
}

/// Reads a cache. Everything is checked.
fn read(folder: &Path, manifest: &Manifest, resident: Arc<Resident>) -> Result<Rounds> {
    let broken = |reason: String| Error::Malformed { place: folder.display().to_string(), reason };
    let text = fs::read(folder.join(DESCRIPTION)).map_err(|reason| Error::io(folder, reason))?;
    let found: Described = serde_json::from_slice(&text).map_err(|reason| broken(reason.to_string()))?;
    if found.manifest != *manifest {
        return Err(broken("it was made from other files".into()));
    }
    let open = |(place, stored): (usize, &StoredRound)| -> Result<Logs> {
        let written = writer::Written { records: stored.records, features: stored.features, stored: stored.stored };
        let path = folder.join(format!("round-{place}"));
        let logs = mapped::logs(&path, &written, found.actions.len(), &stored.name, &resident)?;
        match logs.fingerprint() == stored.fingerprint {
            true => Ok(logs),
            false => Err(broken(format!("round {place} is not what was written"))),
        }
    };
    let rounds: Vec<Logs> = found.rounds.iter().enumerate().map(open).collect::<Result<_>>()?;
    let set_aside = found.set_aside.as_ref().map(|stored| open((found.rounds.len(), stored))).transpose()?;
    Ok(Rounds {
        encoding: found.encoding,
        candidates: None,
        joint: None,
        features_from: found.features_from,
        actions: found.actions,
        actions_from: found.actions_from,
        reward_range: found.reward_range,
        rounds,
        set_aside,
        skipped: found.skipped,
        unlabelled: found.unlabelled,
        interleaved: found.interleaved,
        identities: found.identities,
        flaws: found.flaws,
        warnings: found.warnings,
        held: Some(Arc::new(Held { resident, folder: None })),
        shards: None,
        journal: None,
    })
}
