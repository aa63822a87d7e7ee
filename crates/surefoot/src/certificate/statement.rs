//! The statements: what each bounds, and what it takes on trust.

use serde::{Deserialize, Serialize};

use super::bound::Smoothing;

/// A statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    /// What has been running.
    #[serde(rename = "running")]
    Running,
    /// A difference and what has been running, added.
    #[serde(rename = "combined")]
    Combined,
}

impl Theorem {
    pub(super) fn smoothing(self) -> Smoothing {
        match self {
            Theorem::Adjusted | Theorem::ShiftAdjusted | Theorem::FixedAdjusted => Smoothing::Adjusted,
            _ => Smoothing::Ls,
        }
    }

    pub(super) fn bounds(self) -> Quantity {
        match self {
            Theorem::Ls | Theorem::Fixed | Theorem::Combined => Quantity::Risk,
            Theorem::Adjusted | Theorem::FixedAdjusted => Quantity::Difference,
            Theorem::Shift => Quantity::MeanRisk,
            Theorem::ShiftAdjusted => Quantity::MeanDifference,
            Theorem::Running => Quantity::RunningRisk,
        }
    }

    /// What must be true of the logs.
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
        }
        all.into_iter().map(String::from).collect()
    }
}

/// What a certificate bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// The risk of the policy.
    Risk,
    /// Its risk minus the mean risk of what collected the records.
    Difference,
    /// The mean over rounds, weighted by their records, of the risk that each policy has in the round it was learned
    /// from.
    MeanRisk,
    /// The same, minus the mean risk of what collected the records.
    MeanDifference,
    /// The mean risk of what collected the records.
    RunningRisk,
}
