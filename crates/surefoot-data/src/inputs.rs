//! How a policy applies to raw records, and where it comes from. Policy files contain it.

use serde::{Deserialize, Serialize};
use surefoot::{Fingerprint, Learner, Policy, RewardRange};

use crate::encoding::Encoding;
use crate::logs::Actions;

/// How a policy turns records into features, and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// The actions.
    pub actions: Actions,
    /// How records become features.
    pub encoding: Encoding,
    /// The lowest and the highest possible reward.
    pub reward: [f64; 2],
    /// Where the policy comes from.
    pub lineage: Lineage,
    /// The SHA-256 of the JSON of the first three fields.
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
        let hash = hash(&actions, &encoding, reward);
        Inputs { actions, encoding, reward, lineage, hash }
    }

    /// The fingerprint of actions, encoding and reward range.
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
        let found = hash(&self.actions, &self.encoding, self.reward);
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
        RewardRange::new(self.reward[0], self.reward[1]).map(|_| ()).map_err(|reason| reason.to_string())
    }
}

fn hash(actions: &Actions, encoding: &Encoding, reward: [f64; 2]) -> Fingerprint {
    let text = serde_json::to_string(&(actions, encoding, reward)).expect("no map has keys that are no texts");
    Fingerprint::of_bytes(text.as_bytes())
}
