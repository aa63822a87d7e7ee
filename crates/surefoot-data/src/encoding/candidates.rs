//! How candidates become features.

use serde::{Deserialize, Serialize};
use surefoot::logs::Eligible;

use super::{Encoding, EncodingSettings, Rows};
use crate::error::{Error, Result};
use crate::logs::{Candidates, LogBatch};

/// How the candidates of a record become features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CandidateInputs {
    /// How the fields of a candidate become features. The field `id` is the identity.
    pub encoding: Encoding,
    /// The field of a candidate that is its identity, if it has none of the usual names.
    pub identity: Option<String>,
}

impl CandidateInputs {
    /// The candidates of a batch, with their features.
    pub(crate) fn encode(&self, batch: &LogBatch) -> Result<Eligible> {
        let batch = batch.identified_by(self.identity.as_deref());
        let candidates = required(&batch)?;
        let mut rows = self.encoding.rows();
        self.encoding.encode_into(&candidates.rows, &mut rows)?;
        let features = rows.finish(&candidates.rows)?;
        Eligible::candidates(candidates.offsets().to_vec(), features).map_err(|reason| batch.refused(reason))
    }

    /// Encodes the candidates of a batch and appends them to `rows`, and their numbers to `counts`.
    pub(crate) fn encode_into(&self, batch: &LogBatch, rows: &mut Rows, counts: &mut Vec<usize>) -> Result<()> {
        let batch = batch.identified_by(self.identity.as_deref());
        let candidates = required(&batch)?;
        self.encoding.encode_into(&candidates.rows, rows)?;
        counts.extend((0..candidates.len()).map(|i| candidates.range(i).len()));
        Ok(())
    }
}

/// The candidates, which must exist.
fn required(batch: &LogBatch) -> Result<&Candidates> {
    batch.candidates()?.ok_or_else(|| Error::Malformed {
        place: batch.place().to_owned(),
        reason: "the policy chooses among candidates with features, but the records have none (column candidates)"
            .into(),
    })
}

/// What precedes the names of the fields of candidates in settings.
const PREFIX: &str = "candidates.";

impl EncodingSettings {
    /// The settings for the columns of the context, if the records have candidates.
    pub(crate) fn for_contexts(&self) -> Self {
        let own = |names: &[String]| -> Vec<String> {
            names.iter().filter(|name| !name.starts_with(PREFIX)).cloned().collect()
        };
        EncodingSettings {
            features: self.features.as_deref().map(own).filter(|names| !names.is_empty()),
            ignore: own(&self.ignore),
            categorical: own(&self.categorical),
            ..self.clone()
        }
    }

    /// The settings for the fields of candidates: those of names that begin with `candidates.`. Names to ignore and names
    /// of categories also count without it.
    pub(crate) fn for_candidates(&self) -> Self {
        let own = |names: &[String]| -> Vec<String> {
            names.iter().filter_map(|name| name.strip_prefix(PREFIX)).map(str::to_owned).collect()
        };
        let both = |names: &[String]| -> Vec<String> {
            names.iter().map(|name| name.strip_prefix(PREFIX).unwrap_or(name).to_owned()).collect()
        };
        EncodingSettings {
            features: self.features.as_deref().map(own).filter(|names| !names.is_empty()),
            ignore: both(&self.ignore),
            categorical: both(&self.categorical),
            ..self.clone()
        }
    }
}
