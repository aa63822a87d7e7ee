//! The protocol of a certificate: all settings that are fixed before the data.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, check_setting};

/// The settings that are fixed before the data: confidence, grid of lambdas, form of the bound, spending of delta.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Protocol {
    /// The failure probability of a family of certificates over all rounds: in `(0, 1)`.
    pub delta: f64,
    /// The grid of lambdas.
    pub lambdas: Vec<f64>,
    /// How the bounds at several lambdas become one.
    #[serde(default, skip_serializing_if = "Combine::is_union")]
    pub combine: Combine,
    /// The form of the bound.
    pub form: Form,
    /// How delta is spent over rounds.
    pub spending: Spending,
}

impl Default for Protocol {
    /// Confidence 95 %; lambdas from 1.5 down to 0.003 by factors of 0.6, mixed. The best of them is within 3 % of the
    /// best possible.
    fn default() -> Self {
        Protocol {
            delta: 0.05,
            lambdas: (0..13).map(|i| 1.5 * 0.6f64.powi(i)).collect(),
            combine: Combine::Mixture,
            form: Form::Psi,
            spending: Spending::Forever,
        }
    }
}

impl Protocol {
    /// Fails and names the allowed range if a setting is outside it.
    pub fn check(&self) -> Result<()> {
        check_setting("delta", self.delta, self.delta > 0.0 && self.delta < 1.0, "in (0, 1)")?;
        if self.lambdas.is_empty() {
            return Err(Error::size("the grid of lambdas", "at least one entry", 0));
        }
        for &lambda in &self.lambdas {
            check_setting("lambda", lambda, lambda > 0.0, "in (0, inf)")?;
        }
        match self.spending {
            Spending::Even { rounds: 0 } => Err(Error::setting("the number of rounds", "at least 1", 0)),
            _ => Ok(()),
        }
    }

    /// Whether martingales are mixed. The plain form of a bound is a bound at one lambda, so it has only the union.
    pub(crate) fn mixes(&self) -> bool {
        self.combine == Combine::Mixture && self.form == Form::Psi
    }
}

/// How the bounds at several lambdas become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// The smallest bound counts, at the price of `ln` of the grid's size (a union bound).
    #[default]
    Union,
    /// The martingales are averaged, which is again a martingale. The bound is never above that of the union. Policies
    /// that were fixed before their records use lambdas that fit the number of records, and chains of rounds.
    Mixture,
}

impl Combine {
    pub(super) fn is_union(&self) -> bool {
        *self == Combine::Union
    }
}

/// The two forms of every bound: with or without `psi_l(x) = (1 - exp(-l x))/l`. Without it the bound is never smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// `psi_l(x)`: the bound that the proofs give.
    Psi,
    /// `x`: the bound that the theorems state.
    Plain,
}

impl Form {
    pub(crate) fn apply(self, lambda: f64, x: f64) -> f64 {
        match self {
            // `exp_m1`, because `lambda x` is often small.
            Form::Psi => -(-lambda * x).exp_m1() / lambda,
            Form::Plain => x,
        }
    }
}

/// How delta is spent over rounds, so that all statements hold together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Spending {
    /// Round `j` gets `6/(pi^2 (j + 1)^2)` of delta: the loop may run forever.
    Forever,
    /// Each round gets the same share; after that many rounds nothing is left.
    Even {
        /// The number of rounds.
        rounds: usize,
    },
}

impl Spending {
    /// The spending rule of this name: `forever`, or `even` over `rounds` rounds.
    pub fn named(name: &str, rounds: Option<usize>) -> Result<Self> {
        match (name, rounds) {
            ("forever", _) => Ok(Spending::Forever),
            ("even", Some(rounds)) => Ok(Spending::Even { rounds }),
            ("even", None) => Err(Error::setting("spending", "forever where the number of rounds is not known", name)),
            _ => Err(Error::setting("spending", "forever or even", name)),
        }
    }
}

/// The share of delta that one statement uses.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The round whose share it uses, under the protocol's spending rule. `None` for a statement that holds at all
    /// rounds at once and so needs only one share.
    pub round: Option<usize>,
    /// The part of that round's share, or of all of delta.
    pub part: f64,
}

impl Share {
    /// All of delta.
    pub const WHOLE: Share = Share { round: None, part: 1.0 };

    /// A part of a round's share.
    pub fn of_round(round: usize, part: f64) -> Self {
        Share { round: Some(round), part }
    }

    /// The failure probability of the statement.
    pub fn delta(&self, protocol: &Protocol) -> Result<f64> {
        check_setting("the part of delta", self.part, self.part > 0.0 && self.part <= 1.0, "in (0, 1]")?;
        let share = match (self.round, protocol.spending) {
            (None, _) => 1.0,
            (Some(j), Spending::Forever) => {
                let j = j as f64 + 1.0;
                6.0 / (std::f64::consts::PI * j).powi(2)
            }
            (Some(j), Spending::Even { rounds }) if j < rounds => 1.0 / rounds as f64,
            (Some(j), Spending::Even { rounds }) => {
                return Err(Error::setting("the round", format!("below {rounds}, over which delta is spent"), j));
            }
        };
        Ok(protocol.delta * share * self.part)
    }
}

/// How the share of one round is divided among the statements that may use it. The verifier knows these parts too.
pub(crate) struct Parts;

/// The ladder. The rungs without a divergence get most, because only their bounds depend noticeably on their share: the
/// other rungs pay a divergence, next to which a few nats are negligible.
impl Parts {
    /// The policy on the records that it has not seen, where nothing is a chain: contexts shift, or the union is used.
    pub(crate) const FIXED: f64 = 0.8;
    /// The chain, where every learned policy is deployed. It contains the rung above: a chain of one round.
    pub(crate) const CHAIN: f64 = 0.8;
    /// Under a gate both are used: a policy that runs for many rounds is fixed since long, and a chain pays for every
    /// decision of the gate.
    pub(crate) const FIXED_GATED: f64 = 0.5;
    /// See there.
    pub(crate) const CHAIN_GATED: f64 = 0.3;
    /// Theorem 3.2.
    pub(crate) const LS: f64 = 0.1;
    /// Theorem 4.1.
    pub(crate) const DIFFERENCE: f64 = 0.05;
    /// The bound on the logging policies that is added to it.
    pub(crate) const RUNNING: f64 = 0.05;
}

/// The gate.
impl Parts {
    /// A challenger on the records that it has not seen.
    pub(crate) const UNSEEN: f64 = 0.8;
    /// A challenger as a posterior.
    pub(crate) const POSTERIOR: f64 = 0.2;
}
