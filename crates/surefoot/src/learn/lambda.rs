//! The rules for lambda.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::Algorithm;
use crate::error::{Error, Result, check_setting};

/// The rule that fixes `lambda` before the data. `m` is the size of the first round. For [`Algorithm::BatchLs`] and
/// [`Algorithm::Crm`], whose data is one batch, it is the size of all rounds together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Lambda {
    /// The member of [`CANDIDATES`](Lambda::CANDIDATES) whose policy has the best certificate. For [`Algorithm::Crm`]
    /// and [`Algorithm::Scrm`], which do not smooth, it is 0.4.
    Auto,
    /// Like [`Auto`](Lambda::Auto), but chosen in rounds 1, 2, 4, 8 and so on, and kept in between. Rounds in between
    /// need a quarter of the work.
    AutoDoubling,
    /// A given number.
    Fixed(f64),
    /// `1/sqrt(m)`, as in the paper's experiments.
    InverseSqrt,
    /// Theorem 4.4: `(1 - alpha)/(8 gamma sqrt(m))`.
    Rate {
        /// The exponent of the rate `k^-alpha`: in `[0, 1)`.
        alpha: f64,
        /// `3/(Delta_u (1 - u) C*)`: above 0.
        gamma: f64,
    },
    /// Corollary 4.5, for rounds of varying size: `1/(1 + 2^(2 + alpha) gamma beta1 beta2/(1 - alpha))`.
    VaryingRate {
        /// The exponent of the rate `k^-alpha`: in `[0, 1)`.
        alpha: f64,
        /// `3/(Delta_u (1 - u) C*)`: above 0.
        gamma: f64,
        /// `sup_k (k + 1)/N_k`: in `(0, 1]`.
        beta1: f64,
        /// A bound on the size of every round: at least 1.
        beta2: f64,
    },
}

impl Lambda {
    /// The candidates of [`Lambda::Auto`] and [`Lambda::AutoDoubling`].
    pub const CANDIDATES: [f64; 4] = [0.1, 0.2, 0.4, 0.9];

    /// The value of lambda for rounds of `m` records.
    pub fn value(&self, m: usize) -> Result<f64> {
        let root = (m as f64).sqrt();
        let check = |alpha: f64, gamma: f64| {
            check_setting("alpha", alpha, (0.0..1.0).contains(&alpha), "in [0, 1)")?;
            check_setting("gamma", gamma, gamma > 0.0, "above 0")
        };
        match *self {
            Lambda::Auto | Lambda::AutoDoubling => Ok(0.4),
            Lambda::Fixed(lambda) => Ok(lambda),
            Lambda::InverseSqrt => Ok(1.0 / root),
            Lambda::Rate { alpha, gamma } => {
                check(alpha, gamma)?;
                Ok((1.0 - alpha) / (8.0 * gamma * root))
            }
            Lambda::VaryingRate { alpha, gamma, beta1, beta2 } => {
                check(alpha, gamma)?;
                check_setting("beta1", beta1, beta1 > 0.0 && beta1 <= 1.0, "in (0, 1]")?;
                check_setting("beta2", beta2, beta2 >= 1.0, "at least 1")?;
                Ok(1.0 / (1.0 + (2.0 + alpha).exp2() * gamma * beta1 * beta2 / (1.0 - alpha)))
            }
        }
    }
}

impl FromStr for Lambda {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let allowed = "auto, auto-doubling, a number, 1/sqrt(m), theorem-4.4:ALPHA:GAMMA or \
                       corollary-4.5:ALPHA:GAMMA:BETA1:BETA2";
        let number = |part: &str| part.parse::<f64>().map_err(|_| Error::setting("lambda", allowed, text));
        Ok(match text.split(':').collect::<Vec<_>>()[..] {
            ["auto"] => Lambda::Auto,
            ["auto-doubling"] => Lambda::AutoDoubling,
            ["1/sqrt(m)"] => Lambda::InverseSqrt,
            ["theorem-4.4", alpha, gamma] => Lambda::Rate { alpha: number(alpha)?, gamma: number(gamma)? },
            ["corollary-4.5", alpha, gamma, beta1, beta2] => Lambda::VaryingRate {
                alpha: number(alpha)?,
                gamma: number(gamma)?,
                beta1: number(beta1)?,
                beta2: number(beta2)?,
            },
            [value] => Lambda::Fixed(number(value)?),
            _ => return Err(Error::setting("lambda", allowed, text)),
        })
    }
}
