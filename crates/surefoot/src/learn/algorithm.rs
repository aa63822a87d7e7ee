//! The algorithms and their parts: the criterion, the rounds that are learned from, and the anchor of the divergence.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::estimator::Regularizer;
use crate::objective::Criterion;

use super::portfolio::Portfolio;

/// The algorithm that learns the next policy from the logs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Algorithm {
    /// Logarithmic smoothing on the logs of the first policy (Sakhi et al. 2024). The first policy is never replaced.
    BatchLs,
    /// Algorithm 1: logarithmic smoothing on all rounds.
    SeqLs,
    /// Algorithm 2: adjusted logarithmic smoothing on all rounds.
    SeqAdjLs,
    /// Algorithm 3: logarithmic smoothing on the newest round; the anchor is the policy that collected it.
    ShiftLs,
    /// Algorithm 3 with the adjusted estimator.
    ShiftAdjLs,
    /// Counterfactual risk minimisation on the logs of the first policy (Swaminathan and Joachims 2015).
    Crm(Crm),
    /// The sequential form of CRM (Zenati et al. 2023), meant for rounds of doubling size.
    Scrm(Crm),
    /// Several learners, reward models among them, of which the best one leads.
    Portfolio(Portfolio),
}

impl FromStr for Algorithm {
    type Err = Error;

    /// Parses the name of an algorithm, which gets its default settings. `thompson` is Thompson sampling: a portfolio of
    /// one reward model, on the features of the first policy.
    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "batch-ls" => Algorithm::BatchLs,
            "seq-ls" => Algorithm::SeqLs,
            "seq-adj-ls" => Algorithm::SeqAdjLs,
            "shift-ls" => Algorithm::ShiftLs,
            "shift-adj-ls" => Algorithm::ShiftAdjLs,
            "crm" => Algorithm::Crm(Crm::default()),
            "scrm" => Algorithm::Scrm(Crm::default()),
            "thompson" => Algorithm::Portfolio(Portfolio::thompson()),
            "portfolio" => Algorithm::Portfolio(Portfolio::default()),
            _ => {
                let allowed = "portfolio, batch-ls, seq-ls, seq-adj-ls, shift-ls, shift-adj-ls, crm, scrm or thompson";
                return Err(Error::setting("algorithm", allowed, text));
            }
        })
    }
}

/// The settings of CRM and SCRM that their published descriptions leave open. The default is that of the SeqLS paper:
/// implicit exploration, the newest round only, no divergence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Crm {
    /// `gamma` of the implicit-exploration weights `p/(q + gamma)`; `None` for self-normalised weights `p/q`.
    pub gamma: Option<f64>,
    /// The weight of the standard error: at least 0.
    pub penalty: f64,
    /// Whether to add `KL/(lambda N)` with the first policy as prior.
    pub divergence: bool,
    /// Whether to learn the scale. Without a divergence, nothing keeps it from collapsing.
    pub learn_scale: bool,
    /// The rounds that SCRM learns from.
    pub window: Window,
}

impl Default for Crm {
    fn default() -> Self {
        Crm { gamma: Some(0.01), penalty: 1.0, divergence: false, learn_scale: true, window: Window::Newest }
    }
}

/// The rounds that an algorithm learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Window {
    /// All rounds.
    All,
    /// Only the newest round.
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

/// The policy from which the divergence is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// The first policy.
    First,
    /// The policy that collected the newest round.
    Incumbent,
}

/// The parts of an algorithm.
#[derive(Clone, Copy)]
pub(super) struct Recipe {
    pub(super) criterion: Criterion,
    pub(super) window: Window,
    pub(super) anchor: Anchor,
    pub(super) divergence: bool,
    pub(super) learn_scale: bool,
}

impl Algorithm {
    /// Whether the learned policy is deployed for the next round. If not, the first policy collects all rounds.
    pub fn redeploys(&self) -> bool {
        !matches!(self, Algorithm::BatchLs | Algorithm::Crm(_))
    }

    /// Whether the smoothing is the adjusted one, which needs `lambda < 1`.
    fn adjusted(&self) -> bool {
        matches!(self, Algorithm::SeqAdjLs | Algorithm::ShiftAdjLs)
    }

    /// The portfolio, if it is one.
    pub(crate) fn portfolio(&self) -> Option<Portfolio> {
        match *self {
            Algorithm::Portfolio(portfolio) => Some(portfolio),
            _ => None,
        }
    }

    /// Whether the next policy is found by one search.
    pub(crate) fn searches(&self) -> bool {
        self.portfolio().is_none()
    }

    /// Whether it is meant for shifting contexts.
    pub(crate) fn shifts(&self) -> bool {
        matches!(self, Algorithm::ShiftLs | Algorithm::ShiftAdjLs)
    }

    /// Whether it learns from all rounds, not only from the newest.
    pub fn learns_from_all(&self) -> bool {
        self.recipe(1.0).window == Window::All
    }

    /// Whether `lambda` is the parameter of the smoothing too, not only the weight of the divergence.
    pub fn smooths(&self) -> bool {
        self.searches() && !matches!(self, Algorithm::Crm(_) | Algorithm::Scrm(_))
    }

    /// Whether records of cost 0 count only in the number of records.
    pub(super) fn ignores_zero_costs(&self) -> bool {
        // A reward model learns from missing rewards too.
        self.searches() && self.recipe(1.0).criterion.skips_zero_costs()
    }

    /// The parts of the search. A portfolio has none: only its window counts.
    pub(super) fn recipe(&self, lambda: f64) -> Recipe {
        use Algorithm::*;
        let (window, anchor) = match self {
            BatchLs | SeqLs | SeqAdjLs | Crm(_) | Portfolio(_) => (Window::All, Anchor::First),
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
