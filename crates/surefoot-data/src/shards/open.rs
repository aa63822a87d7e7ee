//! The worker's part: the columns of a shard, made from the log if they are not there, and work on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use surefoot::{Fingerprint, Logs, RewardRange, work};

use super::{ENCODE, Encoded, FORGET, Shard};
use crate::cache::{Resident, RoundWriter, Written, mapped_logs};
use crate::error::{Error, Result};
use crate::evaluate::{EVALUATE, propensities};
use crate::files::Together;
use crate::logs::{Check, LogReader};

/// The largest number of shards that a process holds open. Their columns are mapped, so that each takes little.
const OPEN: usize = 256;

/// The number of records that are held until they are stored.
const HELD: usize = 1 << 14;

const DESCRIPTION: &str = "shard.json";

/// Does a task for one shard, as an [`Engine`](super::Engine) is asked to. It may be done again at any time, in any process.
pub fn run(task: &str, shard: &[u8], payload: &[u8]) -> Result<Vec<u8>> {
    match task {
        FORGET => {
            forget(shard)?;
            Ok(Vec::new())
        }
        ENCODE => {
            let opened = opened(shard)?;
            let logs = opened.work.logs();
            let filled = logs.contexts().iter().map(|row| row.values().iter().filter(|&&v| v != 0.0).count()).sum();
            let encoded = Encoded { filled, leaves: logs.leaves() };
            Ok(serde_json::to_vec(&encoded).expect("plain data"))
        }
        EVALUATE => propensities(&LogReader::of_shard(shard)?, payload),
        task => Ok(work::perform(task, payload, &opened(shard)?.work)?),
    }
}

/// A shard whose columns are mapped.
#[derive(Debug)]
struct Opened {
    work: work::Shard,
    #[expect(dead_code, reason = "it is held as long as the columns")]
    resident: Arc<Resident>,
}

/// The shards that this process has opened, the newest last.
static SHARDS: Mutex<Vec<(Fingerprint, Arc<Opened>)>> = Mutex::new(Vec::new());

fn opened(text: &[u8]) -> Result<Arc<Opened>> {
    let name = Fingerprint::of_bytes(text);
    let known = || SHARDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, opened)) = known().iter().find(|(known, _)| *known == name) {
        return Ok(Arc::clone(opened));
    }
    let opened = Arc::new(read(text)?.open()?);
    let mut known = known();
    if known.len() >= OPEN {
        known.remove(0);
    }
    known.push((name, Arc::clone(&opened)));
    Ok(opened)
}

fn forget(text: &[u8]) -> Result<()> {
    let shard = read(text)?;
    let name = Fingerprint::of_bytes(text);
    SHARDS.lock().unwrap_or_else(PoisonError::into_inner).retain(|(known, _)| *known != name);
    for dense in [None, Some(false), Some(true)] {
        let folder = Shard { dense, ..shard.clone() }.folder();
        match fs::remove_dir_all(&folder) {
            // Another worker of this machine was faster.
            Err(reason) if reason.kind() == std::io::ErrorKind::NotFound => {}
            done => done.map_err(|reason| Error::Write { place: folder.display().to_string(), reason })?,
        }
    }
    Ok(())
}

fn read(text: &[u8]) -> Result<Shard> {
    let shard: Shard =
        serde_json::from_slice(text).map_err(|reason| Error::Json { place: "a shard".into(), reason })?;
    let here = made_by();
    if shard.plan.made_by != here {
        let allowed = format!("{here}, as this worker");
        return Err(Error::setting("the version of the driver", &allowed, &shard.plan.made_by));
    }
    Ok(shard)
}

pub(crate) fn made_by() -> String {
    let endian = if cfg!(target_endian = "little") { "little" } else { "big" };
    format!("surefoot {}, {} bits, {endian} endian", env!("CARGO_PKG_VERSION"), usize::BITS)
}

/// The file that describes the columns of a shard.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    records: usize,
    features: usize,
    stored: Option<usize>,
    fingerprint: Fingerprint,
}

impl Shard {
    /// The folder of the columns, named by everything that decides about them.
    fn folder(&self) -> PathBuf {
        let above = match &self.plan.cache {
            Some(cache) => cache.clone(),
            None => std::env::temp_dir().join("surefoot-shards"),
        };
        let mut plan = (*self.plan).clone();
        plan.cache = None;
        let named = Shard { plan: Arc::new(plan), ..self.clone() };
        above.join(Fingerprint::of_bytes(&named.text()).to_string())
    }

    /// Maps the columns. They are made if they are not there, or not what was written.
    fn open(&self) -> Result<Opened> {
        let (folder, resident) = (self.folder(), Resident::new(None));
        let logs = match self.mapped(&folder, &resident) {
            Ok(logs) => logs,
            Err(_) => {
                if folder.is_dir() {
                    // It was not whole, or somebody has changed it. Another worker may do the same.
                    let _ = fs::remove_dir_all(&folder);
                }
                self.make(&folder)?;
                self.mapped(&folder, &resident)?
            }
        };
        Ok(Opened { work: work::Shard::new(logs, self.records.start), resident })
    }

    /// The columns of a folder. Every number is checked, and the fingerprint is compared.
    fn mapped(&self, folder: &Path, resident: &Resident) -> Result<Logs> {
        let broken = |reason: String| Error::Malformed { place: folder.display().to_string(), reason };
        let text = fs::read(folder.join(DESCRIPTION)).map_err(|reason| Error::io(folder, reason))?;
        let found: Described = serde_json::from_slice(&text).map_err(|reason| broken(reason.to_string()))?;
        let written = Written { records: found.records, features: found.features, stored: found.stored };
        let name = self.round.as_deref().unwrap_or_default();
        let logs = mapped_logs(&folder.join("columns"), &written, self.plan.actions.len(), name, resident)?;
        match logs.len() == self.records.len() && logs.fingerprint() == found.fingerprint {
            true => Ok(logs),
            false => Err(broken("it is not what was written".into())),
        }
    }

    /// Makes the columns from the log, in a folder beside, which gets its name when it is complete.
    fn make(&self, folder: &Path) -> Result<()> {
        let mut together = Together::default();
        let beside = together.folder(folder)?;
        let columns = beside.join("columns");
        let written = self.write(&columns)?;
        let logs = mapped_logs(&columns, &written, self.plan.actions.len(), "", &Resident::new(None))?;
        let Written { records, features, stored } = written;
        let described = Described { records, features, stored, fingerprint: logs.fingerprint() };
        drop(logs);
        let text = serde_json::to_vec(&described).expect("plain data");
        let path = beside.join(DESCRIPTION);
        fs::write(&path, text).map_err(|reason| Error::Write { place: path.display().to_string(), reason })?;
        match together.commit() {
            // Somebody else was faster, and made the same.
            Err(_) if folder.join(DESCRIPTION).is_file() => Ok(()),
            done => done,
        }
    }

    fn write(&self, columns: &Path) -> Result<Written> {
        // In the form of the encoding there may be a copy already, which is faster to read than the log.
        if let Some(dense) = self.dense {
            let first = Shard { dense: None, ..self.clone() };
            let resident = Resident::new(None);
            if let Ok(logs) = first.mapped(&first.folder(), &resident) {
                return RoundWriter::copy(columns.to_owned(), &logs, dense);
            }
        }
        let reader = self.reader()?;
        let plan = &self.plan;
        let range = RewardRange::new(plan.reward_range[0], plan.reward_range[1])?;
        let mut check = Check::new(plan.actions.clone(), range);
        let mut rows = plan.encoding.rows();
        let mut writer = RoundWriter::new(columns.to_owned(), &rows)?;
        let (mut action, mut propensity, mut cost) = (Vec::new(), Vec::new(), Vec::new());
        let mut count = 0;
        for batch in reader.batches() {
            let batch = batch?;
            let records = check.records(&batch)?;
            let own: Vec<bool> = match &self.round {
                None => vec![true; batch.len()],
                Some(name) => {
                    let runs = plan.grouping.of(&batch)?;
                    runs.iter().flat_map(|run| std::iter::repeat_n(run.group == *name, run.records.len())).collect()
                }
            };
            let kept = if own.iter().all(|own| *own) { batch } else { batch.keep(&own)? };
            plan.encoding.encode_into(&kept, &mut rows)?;
            for i in (0..own.len()).filter(|&i| own[i]) {
                action.push(records.action[i]);
                propensity.push(records.propensity[i]);
                cost.push(records.cost[i]);
            }
            count += kept.len();
            if action.len() >= HELD {
                writer.add(std::mem::replace(&mut rows, plan.encoding.rows()), &action, &propensity, &cost)?;
                action.clear();
                propensity.clear();
                cost.clear();
            }
        }
        if !action.is_empty() {
            writer.add(rows, &action, &propensity, &cost)?;
        }
        if count != self.records.len() {
            let how = format!("a shard of it had {} records and now has {count}", self.records.len());
            return Err(Error::Changed { place: reader.place(), how });
        }
        writer.finish_as(self.dense.unwrap_or(false))
    }

    /// Reads the rows of the shard, from files that are what they were.
    fn reader(&self) -> Result<LogReader> {
        let files: Vec<_> = self.rows.iter().map(|rows| self.plan.files.get(rows.file)).collect();
        let unknown = || Error::setting("the files of a shard", "among those of its plan", "others");
        let files = files.into_iter().collect::<Option<Vec<_>>>().ok_or_else(unknown)?;
        let paths: Vec<PathBuf> = files.iter().map(|file| PathBuf::from(&file.path)).collect();
        let rows = self.rows.iter().map(|rows| (rows.file, rows.rows.clone())).collect();
        let reader = LogReader::rows_of(paths, rows, self.plan.columns.clone());
        let found = reader.entries()?.ok_or_else(unknown)?;
        for (found, known) in found.iter().zip(files) {
            let same = (found.size, &found.changed, &found.digest) == (known.size, &known.changed, &known.digest);
            if !same {
                let how = "it is not what the driver read".into();
                return Err(Error::Changed { place: known.path.clone(), how });
            }
        }
        Ok(reader)
    }
}
