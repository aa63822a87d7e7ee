//! Mixture files: the weights of a mixture, and the names of its policy files, which are in the same folder.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use surefoot::Fingerprint;

use crate::error::{Error, Result};
use crate::files::{check_output, read, replace};
use crate::policy_file::PolicyReader;
use crate::record_policy::RecordPolicy;
use crate::tensors::{check_fingerprint, json};

const FORMAT: &str = "surefoot-mixture";
const VERSION: u64 = 1;

/// A policy of a mixture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its file, relative to the folder of the mixture.
    pub file: String,
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// Its weight.
    pub weight: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    version: u64,
    policies: Vec<Part>,
}

/// Whether the name of a file is that of a mixture; others are read as policies.
pub(crate) fn is_mixture(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "json")
}

/// Checks that a mixture can be written, and then be found by its name. Call it before the work.
pub fn check_mixture_to(path: &Path) -> Result<()> {
    if !is_mixture(path) {
        let reason = "the name of a mixture should end in .json, but does not".into();
        return Err(Error::Malformed { place: path.display().to_string(), reason });
    }
    check_output(path)
}

/// Writes a mixture.
pub fn write_mixture(path: &Path, policies: Vec<Part>) -> Result<()> {
    check_mixture_to(path)?;
    let document = Document { format: FORMAT.into(), version: VERSION, policies };
    let text = serde_json::to_string_pretty(&document)
        .map_err(|reason| Error::Json { place: path.display().to_string(), reason })?;
    replace(path, format!("{text}\n").as_bytes())
}

/// Reads a mixture and its policies. Each policy must say how records become its features.
pub fn read_mixture(path: &Path, reader: &mut PolicyReader) -> Result<RecordPolicy> {
    let place = path.display().to_string();
    let text = read(path)?;
    let document: Document = json(&place, &text, FORMAT, VERSION)?;
    let malformed = |reason: String| Error::Malformed { place: place.clone(), reason };
    let sum: f64 = document.policies.iter().map(|part| part.weight).sum();
    if document.policies.iter().any(|part| !(0.0..=1.0).contains(&part.weight)) || (sum - 1.0).abs() > 1e-9 {
        return Err(malformed(format!("the weights should be in [0, 1] and sum to 1, but sum to {sum}")));
    }
    let mut parts: Vec<(f64, RecordPolicy)> = Vec::new();
    for Part { file, fingerprint, weight } in document.policies {
        let file = path.with_file_name(&file);
        let (policy, inputs) = reader.read_with(&file)?;
        let found = policy.identity().expect("policies that have files have an identity");
        check_fingerprint(&file.display().to_string(), fingerprint, found)?;
        let inputs =
            inputs.ok_or_else(|| malformed(format!("{} does not say how records become features", file.display())))?;
        if let Some((_, RecordPolicy::Encoded { inputs: first, .. })) = parts.first()
            && first.actions != inputs.actions
        {
            return Err(malformed(format!(
                "{} should have the actions of the first policy, but has others",
                file.display()
            )));
        }
        parts.push((weight, RecordPolicy::Encoded { policy, inputs: Arc::new(inputs) }));
    }
    Ok(RecordPolicy::Mixture(parts))
}
