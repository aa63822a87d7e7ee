//! The algorithms, each taken apart: what is minimised, over which rounds, and from where the divergence is measured.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::estimator::Regularizer;
use crate::objective::Criterion;

/// Which algorithm turns the logs into the next policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Algorithm {
    /// Logarithmic smoothing on what the first policy collected (Sakhi et al. 2024): it is never replaced.
    BatchLs,
    /// Algorithm 1: logarithmic smoothing on all rounds.
    SeqLs,
    /// Algorithm 2: adjusted logarithmic smoothing on all rounds.
    SeqAdjLs,
    /// Algorithm 3: logarithmic smoothing on the newest round, from the policy that collected it.
    ShiftLs,
    /// Algorithm 3 with the adjusted estimator.
    ShiftAdjLs,
    /// Counterfactual risk minimisation on what the first policy collected (Swaminathan and Joachims 2015).
    Crm(Crm),
    /// Its sequential form (Zenati et al. 2023), meant for rounds of doubling size.
    Scrm(Crm),
}

impl FromStr for Algorithm {
    type Err = Error;

    /// By its name; CRM and SCRM in their default reading.
    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "batch-ls" => Algorithm::BatchLs,
            "seq-ls" => Algorithm::SeqLs,
            "seq-adj-ls" => Algorithm::SeqAdjLs,
            "shift-ls" => Algorithm::ShiftLs,
            "shift-adj-ls" => Algorithm::ShiftAdjLs,
            "crm" => Algorithm::Crm(Crm::default()),
            "scrm" => Algorithm::Scrm(Crm::default()),
            _ => {
                let allowed = "batch-ls, seq-ls, seq-adj-ls, shift-ls, shift-adj-ls, crm or scrm";
                return Err(Error::setting("algorithm", allowed, text));
            }
        })
    }
}

/// What published descriptions of (S)CRM leave open. The default is the reading of the SeqLS paper: implicit
/// exploration, the newest round only, no divergence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Crm {
    /// `gamma` of the implicit-exploration weights `p/(q + gamma)`; `None` for self-normalised weights `p/q`.
    pub gamma: Option<f64>,
    /// The weight of the standard error: at least 0.
    pub penalty: f64,
    /// Whether `KL/(lambda N)` from the first policy is added.
    pub divergence: bool,
    /// Whether the scale is learned; without a divergence nothing keeps it from collapsing.
    pub learn_scale: bool,
    /// Which rounds SCRM learns from.
    pub window: Window,
}

impl Default for Crm {
    fn default() -> Self {
        Crm { gamma: Some(0.01), penalty: 1.0, divergence: false, learn_scale: true, window: Window::Newest }
    }
}

/// Which rounds are learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Window {
    /// All of them.
    All,
    /// Only the last.
    Newest,
}

impl FromStr for Window {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "newest" => Ok(Window::Newest),
            "all" => Ok(Window::All),
            _ => Err(Error::setting("crm-window", "newest or all", text)),
        }
    }
}

/// From which policy the divergence is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// The first one deployed.
    First,
    /// The one that collected the newest round.
    Incumbent,
}

/// An algorithm, taken apart.
#[derive(Clone, Copy)]
pub(super) struct Recipe {
    pub(super) criterion: Criterion,
    pub(super) window: Window,
    pub(super) anchor: Anchor,
    pub(super) divergence: bool,
    pub(super) learn_scale: bool,
}

impl Algorithm {
    /// Whether the learned policy is deployed for the next round, or the first one goes on collecting.
    pub fn redeploys(&self) -> bool {
        !matches!(self, Algorithm::BatchLs | Algorithm::Crm(_))
    }

    /// Whether the smoothing is the adjusted one, which needs `lambda < 1`.
    fn adjusted(&self) -> bool {
        matches!(self, Algorithm::SeqAdjLs | Algorithm::ShiftAdjLs)
    }

    /// Whether it is meant for contexts that shift.
    pub(crate) fn shifts(&self) -> bool {
        matches!(self, Algorithm::ShiftLs | Algorithm::ShiftAdjLs)
    }

    /// Whether it learns from all rounds, and not from the newest only.
    pub fn learns_from_all(&self) -> bool {
        self.recipe(1.0).window == Window::All
    }

    /// Whether `lambda` smooths, and does not merely weigh the divergence.
    pub fn smooths(&self) -> bool {
        !matches!(self, Algorithm::Crm(_) | Algorithm::Scrm(_))
    }

    /// Whether records of cost 0 only count in the number of records.
    pub(super) fn ignores_zero_costs(&self) -> bool {
        self.recipe(1.0).criterion.skips_zero_costs()
    }

    pub(super) fn recipe(&self, lambda: f64) -> Recipe {
        use Algorithm::*;
        let (window, anchor) = match self {
            BatchLs | SeqLs | SeqAdjLs | Crm(_) => (Window::All, Anchor::First),
            ShiftLs | ShiftAdjLs => (Window::Newest, Anchor::Incumbent),
            Scrm(crm) => (crm.window, Anchor::First),
        };
        let (criterion, divergence, learn_scale) = match *self {
            Crm(crm) | Scrm(crm) => {
                let penalty = crm.penalty;
                let criterion = match crm.gamma {
                    Some(gamma) => {
                        Criterion::Penalised { regularizer: Regularizer::ImplicitExploration { gamma }, penalty }
                    }
                    None => Criterion::SelfNormalised { penalty },
                };
                (criterion, crm.divergence, crm.learn_scale)
            }
            _ => {
                let regularizer =
                    if self.adjusted() { Regularizer::LsAdjusted { lambda } } else { Regularizer::LsLinear { lambda } };
                (Criterion::Mean { regularizer }, true, true)
            }
        };
        Recipe { criterion, window, anchor, divergence, learn_scale }
    }
}
