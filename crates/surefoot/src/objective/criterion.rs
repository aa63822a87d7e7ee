//! The criterion: the part of the objective that depends on the propensities of the records.

use serde::{Deserialize, Serialize};

use crate::error::{Result, check_setting};
use crate::estimator::Regularizer;

/// The function of the records that is minimised, before the divergence is added.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum Criterion {
    /// `mean of h`.
    Mean {
        /// The estimator `h`.
        regularizer: Regularizer,
    },
    /// Counterfactual risk minimisation: `mean of h + penalty sqrt(var h / n)` (Swaminathan and Joachims 2015).
    Penalised {
        /// The estimator `h`.
        regularizer: Regularizer,
        /// The weight of the standard error: at least 0.
        penalty: f64,
    },
    /// Like [`Penalised`](Criterion::Penalised), with self-normalised weights: `m = sum w c / sum w`, plus
    /// `penalty sqrt(sum w^2 (c - m)^2) / sum w`.
    SelfNormalised {
        /// The weight of the standard error: at least 0.
        penalty: f64,
    },
}

impl Criterion {
    /// Checks the parameters. The error names the allowed range.
    pub fn check(&self) -> Result<()> {
        let (Criterion::Penalised { penalty, .. } | Criterion::SelfNormalised { penalty }) = *self else {
            return self.regularizer().map_or(Ok(()), |r| r.check());
        };
        check_setting("the penalty", penalty, penalty >= 0.0, "at least 0")?;
        self.regularizer().map_or(Ok(()), |r| r.check())
    }

    fn regularizer(&self) -> Option<&Regularizer> {
        match self {
            Criterion::Mean { regularizer } | Criterion::Penalised { regularizer, .. } => Some(regularizer),
            Criterion::SelfNormalised { .. } => None,
        }
    }

    /// Whether a record of cost 0 can be left out: its term is 0 for every policy, so it counts only in `n`.
    pub(crate) fn skips_zero_costs(&self) -> bool {
        !matches!(self, Criterion::SelfNormalised { .. })
    }

    /// The estimator `h`, if the criterion is its mean. Then each record's slope depends on its own propensity only.
    pub(super) fn mean_of(&self) -> Option<&Regularizer> {
        match self {
            Criterion::Mean { regularizer } => Some(regularizer),
            _ => None,
        }
    }

    /// The value over `n` records and its derivative in each `p`. The terms of records that are not listed are 0.
    pub(super) fn evaluate(&self, n: usize, p: &[f64], q: &[f64], c: &[f64]) -> (f64, Vec<f64>) {
        if p.is_empty() {
            return (0.0, Vec::new());
        }
        let n_f = n as f64;
        let each = |f: &dyn Fn(usize) -> f64| (0..p.len()).map(f).collect::<Vec<f64>>();
        match *self {
            Criterion::Mean { regularizer: r } => {
                let value = (0..p.len()).map(|i| r.h(p[i], q[i], c[i])).sum::<f64>() / n_f;
                (value, each(&|i| r.dh_dp(p[i], q[i], c[i]) / n_f))
            }
            Criterion::Penalised { regularizer: r, penalty } => {
                let h = each(&|i| r.h(p[i], q[i], c[i]));
                let mean = h.iter().sum::<f64>() / n_f;
                let zeros = (n - p.len()) as f64 * mean * mean;
                let squares = h.iter().map(|h| (h - mean) * (h - mean)).sum::<f64>() + zeros;
                // sqrt(var/n), and 1/(2 sqrt(var/n)) times the derivative of var/n in h_i.
                let error = if n > 1 { (squares / (n_f * (n_f - 1.0))).sqrt() } else { 0.0 };
                let pull = if error > 0.0 { penalty / (error * n_f * (n_f - 1.0)) } else { 0.0 };
                let slope = |i: usize| r.dh_dp(p[i], q[i], c[i]) * (1.0 / n_f + pull * (h[i] - mean));
                (mean + penalty * error, each(&slope))
            }
            Criterion::SelfNormalised { penalty } => {
                let w = each(&|i| p[i] / q[i]);
                let total: f64 = w.iter().sum();
                if total == 0.0 {
                    return (0.0, vec![0.0; p.len()]);
                }
                let mean = (0..w.len()).map(|i| w[i] * c[i]).sum::<f64>() / total;
                let moment =
                    |power: i32| -> f64 { (0..w.len()).map(|i| w[i] * w[i] * (c[i] - mean).powi(power)).sum() };
                let root = moment(2).sqrt();
                let first = moment(1);
                let slope = |i: usize| {
                    let d = c[i] - mean;
                    let d_mean = d / total;
                    let d_root = if root > 0.0 { (w[i] * d * d - first * d_mean) / root } else { 0.0 };
                    (d_mean + penalty * (d_root / total - root / (total * total))) / q[i]
                };
                (mean + penalty * root / total, each(&slope))
            }
        }
    }
}
