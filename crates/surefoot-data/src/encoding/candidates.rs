//! How candidates become features.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use surefoot::logs::Eligible;
use surefoot::policy::{Posterior, Scale};
use surefoot::{FeatureMap, LinearGaussian};

use super::{Encoding, EncodingSettings, NAMES, Rows, VALUES, joint};
use crate::error::{Error, Result};
use crate::logs::{Candidates, ID, IDENTITIES, LogBatch};

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

/// For a service, which gets one record at a time.
impl CandidateInputs {
    /// The identity of a candidate, a JSON object of its fields.
    pub fn identity_of<'v>(&self, candidate: &'v Map<String, Value>) -> Option<&'v Value> {
        candidate.get(self.identity_field(candidate)?)
    }

    fn identity_field(&self, candidate: &Map<String, Value>) -> Option<&str> {
        let there = |name: &&str| candidate.get(*name).is_some_and(|value| !value.is_null());
        match &self.identity {
            Some(name) => Some(name.as_str()),
            None => IDENTITIES.into_iter().find(there),
        }
    }

    /// Encodes a candidate and appends it to `rows`. The features are those of the same candidate in a table.
    pub fn encode_object(&self, event: &str, candidate: &Map<String, Value>, rows: &mut Rows) -> Result<()> {
        self.encoding.encode_object(event, &self.as_in_tables(candidate), rows)
    }

    /// The fields of a candidate that its encoding uses, by name, and its identity.
    pub fn raw(&self, candidate: &Map<String, Value>) -> Map<String, Value> {
        let candidate = self.as_in_tables(candidate);
        let mut raw = self.encoding.raw(&candidate);
        if let Some(id) = candidate.get(ID) {
            raw.insert(ID.to_owned(), id.clone());
        }
        raw
    }

    /// The fields with the names that they have in tables of candidates.
    fn as_in_tables<'v>(&self, candidate: &'v Map<String, Value>) -> Cow<'v, Map<String, Value>> {
        let mut fields = Cow::Borrowed(candidate);
        let mut rename = |from: &str, to: &str| {
            if from != to
                && let Some(value) = fields.to_mut().remove(from)
            {
                fields.to_mut().insert(to.to_owned(), value);
            }
        };
        if candidate.contains_key("names") && candidate.contains_key("values") {
            rename("names", NAMES);
            rename("values", VALUES);
        }
        if let Some(field) = self.identity_field(candidate) {
            rename(field, ID);
        }
        fields
    }

    /// The policy that prefers no candidate, for decisions among at most `most`. `crosses` are the products of features, as
    /// [`EncodingSettings::crosses`] has them.
    pub fn first_policy(
        &self,
        contexts: &Encoding,
        crosses: Option<Vec<String>>,
        most: usize,
    ) -> Result<LinearGaussian> {
        let settings = EncodingSettings { crosses, ..EncodingSettings::default() };
        let joint = joint(contexts, &self.encoding, &settings)?;
        let posterior = Posterior::over_candidates(vec![0.0; joint.output()], Scale::Shared(1.0))?;
        Ok(LinearGaussian::over_candidates(FeatureMap::identity(contexts.width()), joint, most, posterior)?)
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
