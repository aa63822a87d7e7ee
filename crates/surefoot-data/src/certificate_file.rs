//! Certificates as files.

use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use surefoot::RewardRange;
use surefoot::audit::Statement;

use crate::error::{Error, Result};
use crate::files::{Together, read};
use crate::tensors::json;

const FORMAT: &str = "surefoot-certificates";
/// Version 3: the reward range. Version 2: a round's fingerprint is a tree over chunks of its records.
const VERSION: u64 = 3;

/// The certificates of a file, and how to read their numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Certificates {
    /// The lowest and the highest possible reward. A certificate bounds costs: a cost `c` in `[-1, 0]` is the reward
    /// `lowest - c (highest - lowest)`, and a difference `d` of costs is the improvement `-d (highest - lowest)`.
    pub reward_range: [f64; 2],
    /// The certificates and their roles.
    pub statements: Vec<Statement>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    version: u64,
    reward_range: [f64; 2],
    certificates: Vec<Statement>,
}

/// Writes certificates as JSON.
pub fn write_certificates(path: &Path, certificates: Certificates) -> Result<()> {
    let mut together = Together::default();
    stage_certificates(&mut together, path, certificates)?;
    together.commit()
}

/// Adds certificates to the files that are written together.
pub(crate) fn stage_certificates(together: &mut Together, path: &Path, certificates: Certificates) -> Result<()> {
    let Certificates { reward_range, statements: certificates } = certificates;
    let document = Document { format: FORMAT.into(), version: VERSION, reward_range, certificates };
    let text = serde_json::to_string_pretty(&document)
        .map_err(|reason| Error::Json { place: path.display().to_string(), reason })?;
    together.file(path, |file| writeln!(file, "{text}"))
}

/// Reads certificates. It does not check whether they hold.
pub fn read_certificates(path: &Path) -> Result<Certificates> {
    let text = read(path)?;
    let place = path.display().to_string();
    let Document { reward_range, certificates: statements, .. } = json(&place, &text, FORMAT, VERSION)?;
    let [lowest, highest] = reward_range;
    RewardRange::new(lowest, highest).map_err(|reason| Error::Content { place, reason })?;
    Ok(Certificates { reward_range, statements })
}
