//! The estimators, and the terms that they are computed from.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Observed;
use crate::error::{Error, Result, check_setting};
use crate::estimator::Regularizer;

/// An estimator of the risk. Here `w = p/q`, `chat` is a cost model, `chat(x, pi) = sum_a pi(a|x) chat(x, a)`, and a
/// mean is over all records.
///
/// If every weight is 0, the ratio in a self-normalised estimator counts as 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "estimator")]
#[non_exhaustive]
pub enum Estimator {
    /// `mean h(p, q, c)`; with [`Regularizer::Ips`] this is importance weighting.
    Weighted(Regularizer),
    /// `sum w c / sum w`.
    SelfNormalised,
    /// `mean chat(x, pi)`.
    DirectMethod,
    /// `mean [ chat(x, pi) + w (c - chat(x, a)) ]`.
    DoublyRobust,
    /// `mean chat(x, pi) + sum w (c - chat(x, a)) / sum w`.
    SelfNormalisedDoublyRobust,
    /// Doubly robust if the weight is at most `tau`, the direct method otherwise:
    /// `mean [ chat(x, pi) + w 1[w <= tau] (c - chat(x, a)) ]`.
    Switch {
        /// The largest weight for which the correction is used.
        tau: f64,
    },
    /// The mean of terms that the user computes ([`Observed::custom`]).
    Custom {
        /// The column of the terms, counted from 0; one per custom estimator.
        column: usize,
    },
}

/// How far the expectation of an estimator may be from the risk, if the propensities are right and every action of the
/// target policy could be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Bias {
    /// The expectation is the risk.
    None,
    /// The bias vanishes with the number of records.
    Vanishes,
    /// The bias stays, however many records there are.
    Stays,
    /// Not known: the user computes the terms.
    Unknown,
}

impl fmt::Display for Bias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Bias::None => "none",
            Bias::Vanishes => "vanishes",
            Bias::Stays => "stays",
            Bias::Unknown => "unknown",
        })
    }
}

impl Estimator {
    /// Its bias. For a doubly robust estimator, no record may be predicted by a model that was fitted to it.
    pub fn bias(&self) -> Bias {
        match self {
            Estimator::Weighted(Regularizer::Ips) | Estimator::DoublyRobust => Bias::None,
            Estimator::SelfNormalised | Estimator::SelfNormalisedDoublyRobust => Bias::Vanishes,
            Estimator::Weighted(_) | Estimator::DirectMethod | Estimator::Switch { .. } => Bias::Stays,
            Estimator::Custom { .. } => Bias::Unknown,
        }
    }

    /// Fails and names the allowed range if a parameter is outside it.
    pub fn check(&self) -> Result<()> {
        match self {
            Estimator::Weighted(regularizer) => regularizer.check(),
            &Estimator::Switch { tau } => check_setting("tau", tau, tau >= 0.0, "at least 0"),
            _ => Ok(()),
        }
    }

    /// Whether it needs a cost model.
    pub fn needs_model(&self) -> bool {
        !matches!(self, Estimator::Weighted(_) | Estimator::SelfNormalised | Estimator::Custom { .. })
    }

    /// The columns whose means it uses.
    pub(super) fn columns(&self) -> Formula<Column> {
        let corrected = |largest| Formula::mean(Column::Corrected { largest });
        match *self {
            Estimator::Weighted(regularizer) => Formula::mean(Column::Weighted(regularizer)),
            Estimator::SelfNormalised => {
                Formula { base: None, ratio: Some((Column::Weighted(Regularizer::Ips), Column::Weight)) }
            }
            Estimator::DirectMethod => Formula::mean(Column::Mean),
            Estimator::DoublyRobust => corrected(f64::INFINITY),
            Estimator::SelfNormalisedDoublyRobust => {
                Formula { base: Some(Column::Mean), ratio: Some((Column::Correction, Column::Weight)) }
            }
            Estimator::Switch { tau } => corrected(tau),
            Estimator::Custom { column } => Formula::mean(Column::Custom { column }),
        }
    }

    /// The length of the interval that contains its terms, if it is known before the data.
    pub(super) fn range(&self, largest_weight: Option<f64>) -> Option<f64> {
        let corrected = |w: f64| 1.0 + 2.0 * w;
        match *self {
            Estimator::Weighted(regularizer) => regularizer.reach(largest_weight),
            Estimator::DirectMethod => Some(1.0),
            Estimator::DoublyRobust => largest_weight.map(corrected),
            Estimator::Switch { tau } => Some(corrected(largest_weight.map_or(tau, |w| w.min(tau)))),
            Estimator::SelfNormalised | Estimator::SelfNormalisedDoublyRobust | Estimator::Custom { .. } => None,
        }
    }
}

impl fmt::Display for Estimator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Regularizer::*;
        match self {
            Estimator::Weighted(Ips) => write!(f, "IPS"),
            Estimator::Weighted(ClippedPropensity { tau }) => write!(f, "IPS, propensity at least {tau}"),
            Estimator::Weighted(ClippedWeight { max }) => write!(f, "IPS, weight at most {max}"),
            Estimator::Weighted(ExponentialSmoothing { beta }) => write!(f, "exponential smoothing, beta {beta}"),
            Estimator::Weighted(ImplicitExploration { gamma }) => write!(f, "implicit exploration, gamma {gamma}"),
            Estimator::Weighted(PowerMean { lambda, s }) => write!(f, "power mean, lambda {lambda}, s {s}"),
            Estimator::Weighted(Shrinkage { lambda }) => write!(f, "shrinkage, lambda {lambda}"),
            Estimator::Weighted(Ls { lambda }) => write!(f, "LS, lambda {lambda}"),
            Estimator::Weighted(LsLinear { lambda }) => write!(f, "LS-LIN, lambda {lambda}"),
            Estimator::Weighted(LsAdjusted { lambda }) => write!(f, "adjusted LS, lambda {lambda}"),
            Estimator::SelfNormalised => write!(f, "SNIPS"),
            Estimator::DirectMethod => write!(f, "DM"),
            Estimator::DoublyRobust => write!(f, "DR"),
            Estimator::SelfNormalisedDoublyRobust => write!(f, "SNDR"),
            Estimator::Switch { tau } => write!(f, "switch DR, weight at most {tau}"),
            Estimator::Custom { column } => write!(f, "custom {column}"),
        }
    }
}

/// A short name, with the parameter after a colon if it is not the default: `snips`, `clipped:10`.
impl FromStr for Estimator {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        use Regularizer::*;
        const ALLOWED: &str = "ips, snips, clipped:MAX, es:BETA, ix:GAMMA, power-mean:LAMBDA, shrinkage:LAMBDA, \
             ls:LAMBDA, dm, dr, sndr or switch:TAU";
        let (name, parameter) = text.split_once(':').unwrap_or((text, ""));
        let bad = || Error::setting("an estimator", ALLOWED, text);
        let or =
            |default: f64| if parameter.is_empty() { Ok(default) } else { parameter.parse::<f64>().map_err(|_| bad()) };
        let found = match name {
            "ips" => Estimator::Weighted(Ips),
            "snips" => Estimator::SelfNormalised,
            "clipped" => Estimator::Weighted(ClippedWeight { max: or(10.0)? }),
            "es" => Estimator::Weighted(ExponentialSmoothing { beta: or(0.5)? }),
            "ix" => Estimator::Weighted(ImplicitExploration { gamma: or(0.01)? }),
            "power-mean" => Estimator::Weighted(PowerMean { lambda: or(0.1)?, s: -1.0 }),
            "shrinkage" => Estimator::Weighted(Shrinkage { lambda: or(100.0)? }),
            "ls" => Estimator::Weighted(Ls { lambda: or(0.1)? }),
            "dm" => Estimator::DirectMethod,
            "dr" => Estimator::DoublyRobust,
            "sndr" => Estimator::SelfNormalisedDoublyRobust,
            "switch" => Estimator::Switch { tau: or(10.0)? },
            _ => return Err(bad()),
        };
        found.check()?;
        Ok(found)
    }
}

/// How means combine to an estimate: `base + numerator/denominator`, where each part is optional.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Formula<C> {
    pub(super) base: Option<C>,
    pub(super) ratio: Option<(C, C)>,
}

impl<C: Copy> Formula<C> {
    fn mean(column: C) -> Self {
        Formula { base: Some(column), ratio: None }
    }

    /// Its columns.
    pub(super) fn iter(&self) -> impl Iterator<Item = C> {
        self.base.into_iter().chain(self.ratio.into_iter().flat_map(|(a, b)| [a, b]))
    }

    pub(super) fn map<D: Copy>(&self, mut f: impl FnMut(C) -> D) -> Formula<D> {
        Formula { base: self.base.map(&mut f), ratio: self.ratio.map(|(a, b)| (f(a), f(b))) }
    }
}

impl Formula<usize> {
    /// The estimate, from the means of all columns.
    pub(super) fn value(&self, means: &[f64]) -> f64 {
        let ratio = self.ratio.filter(|&(_, b)| means[b] != 0.0);
        self.base.map_or(0.0, |u| means[u]) + ratio.map_or(0.0, |(a, b)| means[a] / means[b])
    }

    /// The derivatives of the estimate in the means of its columns.
    pub(super) fn slopes(&self, means: &[f64]) -> Vec<(usize, f64)> {
        let mut slopes: Vec<(usize, f64)> = self.base.iter().map(|&u| (u, 1.0)).collect();
        if let Some((a, b)) = self.ratio.filter(|&(_, b)| means[b] != 0.0) {
            slopes.extend([(a, 1.0 / means[b]), (b, -means[a] / (means[b] * means[b]))]);
        }
        slopes
    }
}

/// One term per record; estimates are computed from the means of such terms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Column {
    /// `w`.
    Weight,
    /// `h(p, q, c)`.
    Weighted(Regularizer),
    /// `chat(x, pi)`.
    Mean,
    /// `w (c - chat(x, a))`.
    Correction,
    /// `chat(x, pi) + w 1[w <= largest] (c - chat(x, a))`.
    Corrected { largest: f64 },
    /// A user-defined term.
    Custom { column: usize },
}

impl Column {
    /// Computes the terms of some records with their weights.
    pub(super) fn fill(self, records: &Observed<'_>, w: &[f64], out: &mut [f64]) {
        let Observed { p, q, c, model, custom } = *records;
        let model = || model.expect("a model, since the estimators were checked against the records");
        match self {
            Column::Weight => out.copy_from_slice(w),
            Column::Weighted(Regularizer::Ips) => out.iter_mut().zip(w).zip(c).for_each(|((out, w), c)| *out = w * c),
            // The two default parameters that need neither a power nor a logarithm.
            Column::Weighted(Regularizer::ExponentialSmoothing { beta: 0.5 }) => {
                out.iter_mut().zip(p).zip(q).zip(c).for_each(|(((out, p), q), c)| *out = p * c / q.sqrt());
            }
            Column::Weighted(Regularizer::PowerMean { lambda: l, s: -1.0 }) => {
                out.iter_mut().zip(w).zip(c).for_each(|((out, w), c)| *out = w * c / (1.0 - l + l * w));
            }
            Column::Weighted(r) => {
                out.iter_mut().zip(p).zip(q).zip(c).for_each(|(((out, &p), &q), &c)| *out = r.h(p, q, c));
            }
            Column::Mean => out.copy_from_slice(model().mean),
            Column::Custom { column } => {
                let width = custom.len() / p.len();
                out.iter_mut().zip(custom.chunks_exact(width)).for_each(|(out, row)| *out = row[column]);
            }
            Column::Correction => {
                let protocol = out.iter_mut().zip(w).zip(c).zip(model().logged);
                protocol.for_each(|(((out, w), c), logged)| *out = w * (c - logged));
            }
            Column::Corrected { largest } => {
                let protocol = out.iter_mut().zip(w).zip(c).zip(model().logged).zip(model().mean);
                protocol.for_each(|((((out, &w), c), logged), mean)| {
                    *out = mean + if w <= largest { w * (c - logged) } else { 0.0 };
                });
            }
        }
    }
}
