//! How sure the prior of a search is.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How much sharper than the first policy the prior is from which the divergence is measured: its means are multiplied by
/// this number.
///
/// A first policy has often been flattened on purpose, so that it explores: the model behind it is a better guess of what
/// is good, and larger means in the same scale undo a temperature. (Smaller scales would give the same policy, but steps
/// of a search that are larger in units of them.) The sharp prior is only where the search is held; the certificates with
/// the first policy as prior stay with that policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Sharpness {
    /// The one of [`CANDIDATES`](Sharpness::CANDIDATES) whose policy has the best certificate, chosen in rounds 1, 2, 4, 8
    /// and so on, and kept in between.
    Auto,
    /// This number, above 0; 1 is the first policy itself.
    Fixed(f64),
}

impl Sharpness {
    /// What [`Sharpness::Auto`] chooses from.
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
