//! What the front ends show of a learned policy, in rewards.

use serde::Serialize;
use surefoot::learn::{Coverage, MemberKind};
use surefoot::{FeatureMap, LinearGaussian, Policy};

use crate::encoding::{Field, Identity};
use crate::logs::Actions;
use crate::rounds::Rounds;

/// A summary of a learned policy, in rewards, for the front ends to show.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct LearnSummary {
    /// The rounds: their names and numbers of records.
    pub rounds: Vec<RoundSummary>,
    /// The number of records that were set aside.
    pub set_aside: usize,
    /// The number of held-out records, which are the newest.
    pub held_back: usize,
    /// The number of records that were skipped because the logger asked for it.
    pub skipped: usize,
    /// The number of features.
    pub features: usize,
    /// The columns that became features.
    pub columns: Vec<String>,
    /// The number of actions, or the largest number of candidates of a record.
    pub actions: usize,
    /// The features of candidates, if records have candidates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<CandidateSummary>,
    /// The number of decisions without a label, which were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub unlabelled: usize,
    /// The lambda that was used; 0 for a portfolio, which has none.
    pub lambda: f64,
    /// The KL divergence of the policy from its prior; 0 for a portfolio.
    pub kl: f64,
    /// The members of a portfolio.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberSummary>,
    /// The coverage of the new policy on the newest round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    /// The candidates of the user's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contenders: Vec<ContenderSummary>,
    /// Whether the certificate is valid: nothing it depends on was fitted to the records it is computed from.
    pub certified: bool,
    /// The mean reward of the newest round, and its standard error.
    pub logged: [f64; 2],
    /// The self-normalised importance sampling estimate of the new policy's reward, and its standard error. It uses the
    /// held-out records, or all records if none were held out.
    pub estimate: [f64; 2],
    /// The certified lower bound of its reward, unless it is vacuous or not certified.
    pub at_least: Option<f64>,
    /// The certified lower bound of its improvement over the newest round, unless it is not certified. Negative if no
    /// improvement is proven.
    pub better_by: Option<f64>,
    /// The confidence of each of the two bounds.
    pub confidence: f64,
    /// The raw values of the logs that the files of the policy contain.
    pub reveals: Reveals,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The features of candidates, and the joint features of contexts and candidates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CandidateSummary {
    /// The number of features of a candidate.
    pub features: usize,
    /// The fields of candidates that became features.
    pub columns: Vec<String>,
    /// The number of joint features: those of candidates, and products of context features and candidate features.
    pub joint: usize,
    /// Whether the joint features are hashed, so that some of them share a weight.
    pub hashed: bool,
}

impl CandidateSummary {
    pub(super) fn of(rounds: &Rounds, policy: &LinearGaussian) -> Option<Self> {
        let (inputs, joint) = (rounds.candidates.as_ref()?, policy.joint()?);
        Some(CandidateSummary {
            features: inputs.encoding.width(),
            columns: inputs.encoding.columns().into_iter().map(str::to_owned).collect(),
            joint: joint.output(),
            hashed: joint.is_hashed(),
        })
    }
}

/// A member of a portfolio, in rewards.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MemberSummary {
    /// Its name.
    pub member: MemberKind,
    /// Whether its policy is the result.
    pub leads: bool,
    /// The estimated reward of its policy: doubly robust, with the best of the reward models, on the newer part of the records
    /// that are not held out. The policy was learned from the older part. A search is chosen by it; of the reward models, the one
    /// that predicts best stands against the search, whatever the estimates of the others are.
    pub estimate: Option<f64>,
    /// A lower bound of that reward by the same records, for this member alone.
    pub at_least: Option<f64>,
    /// Seconds for learning.
    pub seconds: f64,
}

/// A candidate of the user's own, in rewards.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ContenderSummary {
    /// Its name.
    pub name: String,
    /// Whether it is the result.
    pub leads: bool,
    /// Its estimated reward, as that of a member.
    pub estimate: f64,
}

/// The raw values of the logs that everybody who has the files of a policy can read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reveals {
    /// The columns whose values are listed.
    pub vocabularies: Vec<Vocabulary>,
    /// The number of actions whose names are listed.
    pub action_names: usize,
    /// The number of contexts that are stored as landmarks of kernel features.
    pub landmarks: usize,
    /// The number of thresholds of tree features. Each is the middle between two contexts' values of a feature.
    pub thresholds: usize,
}

/// A column whose values a policy file lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Vocabulary {
    /// The column.
    pub column: String,
    /// The number of its values.
    pub values: usize,
}

impl Reveals {
    pub(super) fn of(rounds: &Rounds, policy: &dyn Policy) -> Self {
        let map = policy.class().features();
        let listed = fields(rounds).flat_map(Field::vocabularies);
        let vocabulary = |(column, values): (&str, usize)| Vocabulary { column: column.into(), values };
        Reveals {
            vocabularies: listed.map(vocabulary).collect(),
            action_names: match &rounds.actions {
                Actions::Names(names) => names.len(),
                Actions::Count(_) => 0,
            },
            landmarks: map.and_then(FeatureMap::kernel_parts).map_or(0, |kernel| kernel.landmarks().len()),
            thresholds: map.and_then(FeatureMap::tree_parts).map_or(0, |trees| trees.splits()),
        }
    }
}

/// The fields of contexts and candidates.
fn fields(rounds: &Rounds) -> impl Iterator<Item = &Field> {
    let candidates = rounds.candidates.iter().flat_map(|candidates| candidates.encoding.fields());
    rounds.encoding.fields().iter().chain(candidates)
}

/// A warning for each column that looks like an identity.
pub(super) fn identity_warnings(rounds: &Rounds) -> Vec<String> {
    let warning = |(column, identity): &(String, Identity)| {
        let mut listed = fields(rounds).flat_map(Field::vocabularies);
        let what = match listed.any(|(other, _)| other == column) {
            true => "the policy file lists its values",
            false => "it is hashed, and the policy file does not list its values",
        };
        format!(
            "column {column} looks like an identity ({}): {what}; leave the column out unless it should be a feature",
            identity.describe()
        )
    };
    rounds.identities.iter().map(warning).collect()
}

/// A round that was learned from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoundSummary {
    /// Its name.
    pub name: String,
    /// Its number of records.
    pub records: usize,
}
