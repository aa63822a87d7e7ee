//! How a policy applies to raw records, and where it comes from. Policy files contain it.

use serde::{Deserialize, Serialize};
use surefoot::logs::Eligible;
use surefoot::{Contexts, Fingerprint, Learner, LinearGaussian, Policy, RewardRange};

use crate::encoding::{CandidateInputs, Encoding};
use crate::error::{Error, Result};
use crate::logs::{Actions, LogBatch};

/// How a policy turns records into features, and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// The actions.
    pub actions: Actions,
    /// How records become features.
    pub encoding: Encoding,
    /// How candidates become features, if the policy chooses among candidates with features. The actions are then the
    /// places of candidates, as many as the record with the most candidates had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<CandidateInputs>,
    /// The lowest and the highest possible reward.
    pub reward: [f64; 2],
    /// Where the policy comes from.
    pub lineage: Lineage,
    /// The SHA-256 of the JSON of actions, encoding, reward range and, if there are some, candidates.
    hash: Fingerprint,
}

/// Where a policy comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lineage {
    /// The fingerprint of the prior that it was learned with.
    pub prior: Option<Fingerprint>,
    /// The fingerprints of the rounds that it was learned from.
    pub logs: Vec<Fingerprint>,
    /// The settings of the learner.
    pub learner: Option<Learner>,
    /// The program that wrote it.
    pub made_by: String,
}

impl Inputs {
    /// Combines the parts and computes their hash.
    pub fn new(actions: Actions, encoding: Encoding, reward: [f64; 2], lineage: Lineage) -> Self {
        let hash = hash(&actions, &encoding, reward, None);
        Inputs { actions, encoding, candidates: None, reward, lineage, hash }
    }

    /// For a policy that chooses among candidates with features.
    #[must_use]
    pub fn with_candidates(mut self, candidates: Option<CandidateInputs>) -> Self {
        self.hash = hash(&self.actions, &self.encoding, self.reward, candidates.as_ref());
        Inputs { candidates, ..self }
    }

    /// The contexts of a batch, and its eligible actions with their features, if the policy chooses among candidates with
    /// features; otherwise `None`.
    pub(crate) fn encode(&self, batch: &LogBatch) -> Result<(Contexts, Option<Eligible>)> {
        let candidates = match &self.candidates {
            Some(candidates) => Some(candidates.encode(batch)?),
            None if batch.has_candidates() => {
                return Err(Error::Malformed {
                    place: batch.place().to_owned(),
                    reason: "the records have candidates with features, but the policy chooses among fixed actions; \
                        option positions ignores the features"
                        .into(),
                });
            }
            None => None,
        };
        Ok((self.encoding.encode(batch)?, candidates))
    }

    /// The fingerprint of actions, encodings and reward range.
    pub fn fingerprint(&self) -> Fingerprint {
        self.hash
    }

    /// The version that a policy with these inputs signs its decisions with. It changes if an action is renamed, which
    /// the policy's own fingerprint does not.
    pub fn version(&self, policy: Fingerprint) -> Fingerprint {
        Fingerprint::of_bytes(format!("{policy} {}", self.hash).as_bytes())
    }

    /// Checks that the inputs fit this policy.
    pub(crate) fn check(&self, policy: &dyn Policy, input: Option<usize>) -> std::result::Result<(), String> {
        Encoding::new(self.encoding.fields().to_vec())?;
        let found = hash(&self.actions, &self.encoding, self.reward, self.candidates.as_ref());
        if found != self.hash {
            return Err(format!("the inputs should have the hash {}, as the file says, but have {found}", self.hash));
        }
        if self.actions.len() != policy.actions() {
            let (k, found) = (policy.actions(), self.actions.len());
            return Err(format!("the inputs should have {k} actions, as the policy, but have {found}"));
        }
        if let Some(p) = input.filter(|&p| p != self.encoding.width()) {
            let found = self.encoding.width();
            return Err(format!("the encoding should have {p} features, as the policy, but has {found}"));
        }
        let joint = policy.as_gaussian().and_then(LinearGaussian::joint);
        match (&self.candidates, joint) {
            (None, None) => {}
            (Some(candidates), Some(joint)) => {
                Encoding::new(candidates.encoding.fields().to_vec())?;
                let (p, found) = (joint.candidates(), candidates.encoding.width());
                if p != found {
                    return Err(format!("candidates should have {p} features, as in the policy, but have {found}"));
                }
            }
            (inputs, _) => {
                let (expected, found) = if inputs.is_some() { ("absent", "given") } else { ("given", "absent") };
                return Err(format!(
                    "the inputs of candidates should be {expected}, as in the policy, but are {found}"
                ));
            }
        }
        RewardRange::new(self.reward[0], self.reward[1]).map(|_| ()).map_err(|reason| reason.to_string())
    }
}

fn hash(actions: &Actions, encoding: &Encoding, reward: [f64; 2], candidates: Option<&CandidateInputs>) -> Fingerprint {
    let text = match candidates {
        None => serde_json::to_string(&(actions, encoding, reward)),
        Some(candidates) => serde_json::to_string(&(actions, encoding, reward, candidates)),
    };
    Fingerprint::of_bytes(text.expect("no map has keys that are no texts").as_bytes())
}
