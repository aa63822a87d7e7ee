//! The terms of a certificate: all that is fixed before the data.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, check_setting};

/// What is fixed before the data: the confidence, the grid of lambdas, the form of the bound, how delta is spent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Protocol {
    /// The probability with which a family of certificates may be wrong, ever: in `(0, 1)`.
    pub delta: f64,
    /// The lambdas; the best bound of them is taken, and `ln` of their number is paid.
    pub lambdas: Vec<f64>,
    /// The form of the bounds.
    pub form: Form,
    /// How delta is spent over rounds.
    pub spending: Spending,
}

impl Default for Protocol {
    /// Confidence 95 %; lambdas from 1.5 down to 0.003 in steps of 0.6: the best of them is within 3 % of the best of
    /// all, for a price of `ln 13`.
    fn default() -> Self {
        Protocol {
            delta: 0.05,
            lambdas: (0..13).map(|i| 1.5 * 0.6f64.powi(i)).collect(),
            form: Form::Psi,
            spending: Spending::Forever,
        }
    }
}

impl Protocol {
    /// Fails, and names the range, if a setting is outside it.
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

    /// The price of a grid: the logarithm of its size.
    pub(super) fn grid(&self) -> f64 {
        (self.lambdas.len() as f64).ln()
    }
}

/// The two forms of every bound: with `psi_l(x) = (1 - exp(-l x))/l` around it, or without, which is never smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// `psi_l(x)`: what the proofs give.
    Psi,
    /// `x`: what the theorems state.
    Plain,
}

impl Form {
    pub(crate) fn apply(self, lambda: f64, x: f64) -> f64 {
        match self {
            // `exp_m1`: lambda x is often small.
            Form::Psi => -(-lambda * x).exp_m1() / lambda,
            Form::Plain => x,
        }
    }
}

/// How delta is spent over rounds, so that all that is ever said holds together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spending {
    /// `6/(pi^2 (j + 1)^2)` at round `j`: the loop may go on for ever.
    Forever,
    /// The same share at each of so many rounds, after which nothing is left.
    Even {
        /// The number of rounds.
        rounds: usize,
    },
}

impl Spending {
    /// The rule of a name: `forever`, or `even` over so many rounds.
    pub fn named(name: &str, rounds: Option<usize>) -> Result<Self> {
        match (name, rounds) {
            ("forever", _) => Ok(Spending::Forever),
            ("even", Some(rounds)) => Ok(Spending::Even { rounds }),
            ("even", None) => Err(Error::setting("spending", "forever where the number of rounds is not known", name)),
            _ => Err(Error::setting("spending", "forever or even", name)),
        }
    }
}

/// The share of delta that one statement has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The round that it is spent on, by the rule of the terms; `None` for a statement that needs only one share, as it
    /// holds at all rounds at once.
    pub round: Option<usize>,
    /// The part of that round's share.
    pub part: f64,
}

impl Share {
    /// All of delta.
    pub const WHOLE: Share = Share { round: None, part: 1.0 };

    /// A part of a round's share.
    pub fn of_round(round: usize, part: f64) -> Self {
        Share { round: Some(round), part }
    }

    /// The delta of the statement.
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
