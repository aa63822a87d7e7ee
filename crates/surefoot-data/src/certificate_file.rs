//! Certificates as files.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use surefoot::audit::Statement;

use crate::error::{Error, Result};
use crate::files::Together;
use crate::tensors::json;

const FORMAT: &str = "surefoot-certificates";
/// Version 2: a round's fingerprint is a tree over chunks of its records.
const VERSION: u64 = 2;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    version: u64,
    certificates: Vec<Statement>,
}

/// Writes certificates as JSON.
pub fn write_certificates(path: &Path, certificates: Vec<Statement>) -> Result<()> {
    let mut together = Together::default();
    stage_certificates(&mut together, path, certificates)?;
    together.commit()
}

/// Adds certificates to the files that are written together.
pub(crate) fn stage_certificates(together: &mut Together, path: &Path, certificates: Vec<Statement>) -> Result<()> {
    let document = Document { format: FORMAT.into(), version: VERSION, certificates };
    let text = serde_json::to_string_pretty(&document)
        .map_err(|reason| Error::Json { place: path.display().to_string(), reason })?;
    together.file(path, |file| writeln!(file, "{text}"))
}

/// Reads certificates. It does not check whether they hold.
pub fn read_certificates(path: &Path) -> Result<Vec<Statement>> {
    let text = fs::read(path).map_err(|reason| Error::io(path, reason))?;
    let document: Document = json(&path.display().to_string(), &text, FORMAT, VERSION)?;
    Ok(document.certificates)
}
