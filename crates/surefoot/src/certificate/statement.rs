//! The theorems: which quantity each bounds, and its assumptions.

use serde::{Deserialize, Serialize};

use super::bound::Smoothing;

/// The theorem behind a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Theorem {
    /// Theorem 3.2, logarithmic smoothing.
    #[serde(rename = "3.2")]
    Ls,
    /// Theorem 4.1, adjusted logarithmic smoothing.
    #[serde(rename = "4.1")]
    Adjusted,
    /// Theorem C.1, contexts that shift.
    #[serde(rename = "C.1")]
    Shift,
    /// Theorem C.1 with the adjusted estimator.
    #[serde(rename = "C.1-adjusted")]
    ShiftAdjusted,
    /// Logarithmic smoothing for a policy that was fixed before the records.
    #[serde(rename = "fixed")]
    Fixed,
    /// Adjusted logarithmic smoothing for a policy that was fixed before the records.
    #[serde(rename = "fixed-adjusted")]
    FixedAdjusted,
    /// A chain of policies, each fixed before records of the round that the one before it collected.
    #[serde(rename = "chain")]
    Chain,
    /// A chain whose last policy is handed over and collects no round. It is paid for in every round anew.
    #[serde(rename = "hand-over")]
    HandOver,
    /// The mean risk of the logging policies.
    #[serde(rename = "running")]
    Running,
    /// A difference plus the mean risk of the logging policies.
    #[serde(rename = "combined")]
    Combined,
}

const SIZES: &str = "the sizes of rounds do not depend on their costs";

impl Theorem {
    pub(super) fn smoothing(self) -> Smoothing {
        match self {
            Theorem::Adjusted | Theorem::ShiftAdjusted | Theorem::FixedAdjusted => Smoothing::Adjusted,
            _ => Smoothing::Ls,
        }
    }

    pub(super) fn bounds(self) -> Quantity {
        match self {
            Theorem::Ls | Theorem::Fixed | Theorem::Chain | Theorem::HandOver | Theorem::Combined => Quantity::Risk,
            Theorem::Adjusted | Theorem::FixedAdjusted => Quantity::Difference,
            Theorem::Shift => Quantity::MeanRisk,
            Theorem::ShiftAdjusted => Quantity::MeanDifference,
            Theorem::Running => Quantity::RunningRisk,
        }
    }

    /// The assumptions about the logs, for lambdas that follow from the size of a round.
    pub(super) fn assumptions_at_stakes(self, staked: bool) -> Vec<String> {
        let mut all = self.assumptions();
        all.extend(staked.then(|| SIZES.to_owned()));
        all
    }

    /// The assumptions about the logs.
    pub(super) fn assumptions(self) -> Vec<String> {
        let mut all = vec![
            "each logged propensity is the probability that the action had when it was chosen",
            "costs are in [-1, 0], and no record was dropped for its cost",
        ];
        match self {
            Theorem::Shift | Theorem::ShiftAdjusted => {
                all.push(
                    "within a round contexts are independent, and each round's prior was fixed before its records",
                );
            }
            Theorem::Running => all.push("contexts are independent, from one distribution"),
            Theorem::Ls | Theorem::Adjusted | Theorem::Combined => {
                all.push("contexts are independent, from one distribution");
                all.push("the prior was fixed before the records");
            }
            Theorem::Fixed | Theorem::FixedAdjusted => {
                all.push("contexts are independent, from one distribution");
                all.push("the policy, and all others of its set, were fixed before the records");
            }
            Theorem::Chain | Theorem::HandOver => {
                all.push("contexts are independent, from one distribution");
                all.push("each policy, and all others of its set, were fixed before the records of their link");
                all.push(SIZES);
            }
        }
        all.into_iter().map(String::from).collect()
    }
}

/// The quantity that a certificate bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Quantity {
    /// The risk of the policy.
    Risk,
    /// Its risk minus the mean risk of the logging policies.
    Difference,
    /// The mean over rounds of each policy's risk in the round that it was learned from, weighted by the number of
    /// records.
    MeanRisk,
    /// The same, minus the mean risk of the logging policies.
    MeanDifference,
    /// The mean risk of the logging policies.
    RunningRisk,
}
