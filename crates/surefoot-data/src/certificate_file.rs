//! Certificates as files.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use surefoot::Certificate;

use crate::error::{Error, Result};
use crate::tensors::{json, replace};

const FORMAT: &str = "surefoot-certificates";
const VERSION: u64 = 1;

/// A certificate of a loop, and what it is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// After how many rounds it was made.
    pub round: usize,
    /// What it is.
    pub kind: Kind,
    /// The certificate.
    pub certificate: Certificate,
}

/// What a certificate is in a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Of the policy that a round ends with, on all records.
    Certificate,
    /// Of the same, by the best rung of the ladder.
    Ladder,
    /// What the gate decided by.
    Gate,
}

impl Display for Kind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Certificate => "certificate",
            Kind::Ladder => "ladder",
            Kind::Gate => "gate",
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    version: u64,
    certificates: Vec<Statement>,
}

/// Writes certificates as JSON.
pub fn write_certificates(path: &Path, certificates: Vec<Statement>) -> Result<()> {
    let document = Document { format: FORMAT.into(), version: VERSION, certificates };
    let text = serde_json::to_string_pretty(&document)
        .map_err(|reason| Error::Json { place: path.display().to_string(), reason })?;
    replace(path, format!("{text}\n").as_bytes())
}

/// Reads certificates. Whether they are true is another question.
pub fn read_certificates(path: &Path) -> Result<Vec<Statement>> {
    let text = fs::read(path).map_err(|reason| Error::io(path, reason))?;
    let document: Document = json(&path.display().to_string(), &text, FORMAT, VERSION)?;
    Ok(document.certificates)
}
