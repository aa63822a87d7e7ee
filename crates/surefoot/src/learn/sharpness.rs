//! The sharpness of the prior of a search.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The factor by which the means of the first policy are multiplied to get the prior of the search, from which the
/// divergence is measured.
///
/// A first policy has often been flattened on purpose, so that it explores. The model behind it is a better guess of
/// the best actions, and larger means with the same scale undo a temperature. (Smaller scales would give the same
/// policy, but in units of the scale the steps of the search would be larger.) The sharp prior is used in the search
/// only. The certificates with the first policy as prior keep that policy as prior.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Sharpness {
    /// The member of [`CANDIDATES`](Sharpness::CANDIDATES) whose policy has the best certificate, chosen in rounds 1,
    /// 2, 4, 8 and so on, and kept in between.
    Auto,
    /// A given number, above 0; 1 is the first policy itself.
    Fixed(f64),
}

impl Sharpness {
    /// The candidates of [`Sharpness::Auto`].
    pub const CANDIDATES: [f64; 3] = [1.0, 3.0, 7.0];
}

impl FromStr for Sharpness {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Sharpness::Auto),
            (_, Ok(number)) => Ok(Sharpness::Fixed(number)),
            _ => Err(Error::setting("sharpness", "auto or a number above 0", text)),
        }
    }
}
