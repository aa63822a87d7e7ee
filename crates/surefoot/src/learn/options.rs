//! The settings of a learner that are one of a few words.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The family of posteriors that is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Family {
    /// One scale, as in the paper.
    #[default]
    Isotropic,
    /// One scale per feature.
    PerFeature,
    /// One scale per principal axis of the first round's contexts. A prior with one scale is the same in every
    /// orthonormal basis, so this choice costs nothing in any bound.
    Shaped,
}

impl Family {
    /// The largest number of features with principal axes. Their matrix has the square of it: 32 MiB, which each policy
    /// of a loop needs beside it.
    pub const MOST_AXES: usize = 2048;

    /// [`Shaped`](Family::Shaped), or one scale per feature if there are too many features for principal axes.
    pub fn for_features(features: usize) -> Self {
        if features > Family::MOST_AXES { Family::PerFeature } else { Family::Shaped }
    }
}

impl FromStr for Family {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "isotropic" => Ok(Family::Isotropic),
            "per-feature" => Ok(Family::PerFeature),
            "shaped" => Ok(Family::Shaped),
            _ => Err(Error::setting("posterior", "isotropic, per-feature or shaped", text)),
        }
    }
}

/// Which records choose lambda and sharpness among the candidates of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// The records that the candidates of the previous round had not seen. The candidates of the newest round are judged
    /// too, for the next round. The policy does not depend on the newest records, so no certificate pays for the choice.
    /// The first round takes the largest candidate of lambda and the smallest of the sharpness.
    #[default]
    Previous,
    /// The records that the candidates of the newest round have not seen. The certificate pays for the number of
    /// candidates in every round.
    Newest,
}

impl Choice {
    pub(super) fn newest() -> Self {
        Choice::Newest
    }
}

impl FromStr for Choice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "previous" => Ok(Choice::Previous),
            "newest" => Ok(Choice::Newest),
            _ => Err(Error::setting("choice", "previous or newest", text)),
        }
    }
}

/// The starting point of a round's search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// The current policy. If more than the newest round is held back, the anchor instead, because some of the records
    /// that are held back were used to choose the current policy.
    #[default]
    Warm,
    /// The anchor of the divergence.
    Anchor,
}

impl FromStr for Start {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "warm" => Ok(Start::Warm),
            "anchor" => Ok(Start::Anchor),
            _ => Err(Error::setting("start", "warm or anchor", text)),
        }
    }
}

/// The number type of a search. Everything that is logged or reported is in double precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// `f32`. Its rounding errors are far below the noise of minibatches, and a register holds twice as many numbers.
    #[default]
    Single,
    /// `f64`.
    Double,
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "single" => Ok(Precision::Single),
            "double" => Ok(Precision::Double),
            _ => Err(Error::setting("precision", "single or double", text)),
        }
    }
}
