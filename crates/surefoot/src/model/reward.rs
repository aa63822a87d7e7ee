//! A fitted reward model: its predictions and its policy.

use std::sync::{Arc, OnceLock};

use super::Statistics;
use super::logistic::logistic;
use super::sparse::{Explains, Sparse};
use crate::contexts::{Contexts, Row};
use crate::error::{Error, Result, check_setting};
use crate::features::FeatureMap;
use crate::logs::Logs;
use crate::math::linear::{eigenvectors, in_blocks, rotate, scores};
use crate::math::moments::Moments;
use crate::policy::{Basis, LinearGaussian, Posterior, Scale};
use crate::wire::{Reader, Writer};

/// The number of rows that one thread predicts together.
const BLOCK: usize = 1024;

/// How a model predicts rewards from its scores `offset + <phi(x), m_a>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// The score is the reward.
    Identity,
    /// The reward is the logistic function of the score, `1/(1 + e^-s)`.
    Logistic,
}

/// The rewards of all actions, `rhat_a(x) = g(offset + <phi(x), m_a>)` with a link `g`, and the uncertainty of the
/// coefficients `m_a`.
///
/// It is fitted by [`Regression::fit`](super::Regression::fit) or [`Logistic::fit`](super::Logistic::fit).
#[derive(Debug, Clone)]
pub struct RewardModel {
    pub(super) actions: usize,
    pub(super) link: Link,
    /// `m_a`, feature-major.
    pub(super) mean: Vec<f64>,
    pub(super) offset: f64,
    /// The precision of the prior, per feature, in units of the noise's precision.
    pub(super) precision: Vec<f64>,
    pub(super) noise: f64,
    pub(super) evidence: f64,
    pub(super) records: f64,
    pub(super) gram: Gram,
    /// Computed on first use.
    pub(super) axes: OnceLock<Option<(Arc<Basis>, Vec<f64>)>>,
}

/// The Gram matrix of the features over the records of all actions. For a logistic model, each record is weighted by the
/// curvature.
#[derive(Debug, Clone)]
pub(super) enum Gram {
    /// It is the leading part.
    Full(Moments),
    /// Of very many features, only the diagonal.
    Diagonal(Vec<f64>),
}

/// The errors of a model's predictions for records that it was not fitted to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Prediction {
    /// The number of records.
    pub records: usize,
    /// The sum of squared errors.
    pub squared: f64,
}

impl Prediction {
    /// Adds the errors for other records.
    pub fn merge(&mut self, other: &Prediction) {
        self.records += other.records;
        self.squared += other.squared;
    }

    /// The mean squared error; 0 without records.
    pub fn mean(&self) -> f64 {
        if self.records > 0 { self.squared / self.records as f64 } else { 0.0 }
    }
}

impl RewardModel {
    /// Fits a linear model of very many features, without their second moments: ridge regression by conjugate gradients, whose
    /// passes cost what is not 0. The newest tenth of the records chooses the precision of the prior. What a first policy knows is
    /// not used, and there is no evidence (`NaN`).
    pub fn of_many_features(map: &FeatureMap, actions: usize, records: &[Arc<Logs>]) -> Result<Self> {
        for logs in records {
            Statistics::check_logs(map, actions, logs)?;
        }
        let (p, k) = (map.output(), actions);
        let found = Sparse::fit(map, Explains::PerAction { actions, features: p }, records)?;
        let mut mean = vec![0.0; p * k];
        let mut squares = vec![0.0; p];
        for (at, (weight, square)) in found.weights.iter().zip(&found.squares).enumerate() {
            mean[at % p * k + at / p] = *weight;
            squares[at % p] += square;
        }
        Ok(RewardModel {
            actions,
            link: Link::Identity,
            mean,
            offset: found.offset,
            precision: vec![found.precision; p],
            noise: found.noise,
            evidence: f64::NAN,
            records: records.iter().map(|logs| logs.len()).sum::<usize>() as f64,
            gram: Gram::Diagonal(squares),
            axes: OnceLock::new(),
        })
    }

    /// Writes what predictions need.
    pub(crate) fn write(&self, out: &mut Writer) {
        out.count(self.actions);
        out.flag(self.link == Link::Logistic);
        out.doubles(&self.mean);
        out.double(self.offset);
    }

    /// Reads a model that can predict, and nothing else.
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self> {
        let (actions, logistic, mean, offset) = (from.count()?, from.flag()?, from.doubles()?, from.double()?);
        if actions < 2 || !mean.len().is_multiple_of(actions) {
            return Err(Error::size("the coefficients", format!("{actions} entries for each feature"), mean.len()));
        }
        let p = mean.len() / actions;
        Ok(RewardModel {
            actions,
            link: if logistic { Link::Logistic } else { Link::Identity },
            mean,
            offset,
            precision: vec![f64::NAN; p],
            noise: f64::NAN,
            evidence: f64::NAN,
            records: 0.0,
            gram: Gram::Diagonal(vec![f64::NAN; p]),
            axes: OnceLock::new(),
        })
    }

    /// The number of actions, `K`.
    pub fn actions(&self) -> usize {
        self.actions
    }

    /// The number of features, `p`.
    pub fn features(&self) -> usize {
        self.precision.len()
    }

    /// The coefficients `m_a`, feature-major: feature `f` and action `a` are at `f * actions + a`.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// How it predicts rewards from scores.
    pub fn link(&self) -> Link {
        self.link
    }

    /// The score of all actions, from which the coefficients predict differences.
    pub fn offset(&self) -> f64 {
        self.offset
    }

    /// The precision of the prior, per feature, in units of the precision of the noise, which is 1 for a logistic model:
    /// `alpha/beta`.
    pub fn precision(&self) -> &[f64] {
        &self.precision
    }

    /// The variance of the noise, `1/beta`; 1 for a logistic model.
    pub fn noise(&self) -> f64 {
        self.noise
    }

    /// The logarithm of the evidence: the density of the rewards, given features and actions. For a logistic model, it is
    /// Laplace's approximation with the mean curvature of each action.
    pub fn evidence(&self) -> f64 {
        self.evidence
    }

    /// The number of records.
    pub fn records(&self) -> f64 {
        self.records
    }

    /// The predicted rewards of all actions, one row of `K` per row of mapped features. Those of a linear model are not limited
    /// to `[0, 1]`.
    pub fn predict(&self, features: &Contexts) -> Result<Vec<f64>> {
        self.check(features)?;
        let k = self.actions;
        in_blocks(features.len(), BLOCK, (k, 0.0), |range, out| {
            let rows: Vec<Row<'_>> = range.map(|i| features.row(i)).collect();
            scores(&rows, &self.mean, k, out);
            out.iter_mut().for_each(|r| *r += self.offset);
            if self.link == Link::Logistic {
                out.iter_mut().for_each(|r| *r = logistic(*r));
            }
            Ok(())
        })
    }

    /// The errors of the predictions, within `[0, 1]`, for records given as in
    /// [`Statistics::add`](super::Statistics::add). If every round judges the models of the rounds before it, the sums
    /// choose between kinds of features.
    pub fn judge(&self, features: &Contexts, action: &[u32], reward: &[f64]) -> Result<Prediction> {
        let n = features.len();
        for (column, found) in [("action", action.len()), ("reward", reward.len())] {
            if found != n {
                return Err(Error::size(column, format!("{n} entries, one for each context"), found));
            }
        }
        if let Some(i) = action.iter().position(|&a| a as usize >= self.actions) {
            return Err(Error::value(i, "action", format!("below {}", self.actions), action[i]));
        }
        if let Some(i) = reward.iter().position(|r| !(0.0..=1.0).contains(r)) {
            return Err(Error::value(i, "reward", "in [0, 1]", reward[i]));
        }
        let predicted = self.predict(features)?;
        let error = |(row, (&a, &r)): (&[f64], (&u32, &f64))| (row[a as usize].clamp(0.0, 1.0) - r).powi(2);
        let squared = predicted.chunks_exact(self.actions).zip(action.iter().zip(reward)).map(error).sum();
        Ok(Prediction { records: n, squared })
    }

    /// Thompson sampling with one covariance for all actions: the policy `N(m, S x I_K)` with
    /// `S = v^2 s^2 (diag(d) + (1/K) sum_a G_a)^-1`, where `s^2` is the noise, `d` the precision of the prior and `G_a`
    /// the Gram matrix of the records of action `a`.
    ///
    /// `v > 0` is the sharpness: 1 samples from the posterior, a smaller one explores less. All scores of a context have
    /// the same deviation, so this is a linear Gaussian policy whose basis diagonalises `S`. With very many features, `S` is
    /// taken as diagonal.
    pub fn policy(&self, map: &FeatureMap, v: f64) -> Result<LinearGaussian> {
        check_setting("the sharpness v", v, v > 0.0, "above 0")?;
        if map.output() != self.features() {
            let expected = format!("{} features, as the reward model", self.features());
            return Err(Error::size("the feature map", expected, map.output()));
        }
        let (p, k) = (self.features(), self.actions);
        let scale = |values: &[f64]| Scale::PerFeature(values.iter().map(|d| v * (self.noise / d).sqrt()).collect());
        let posterior = match &self.gram {
            Gram::Full(moments) => {
                let axes = self.axes.get_or_init(|| self.axes(moments)).as_ref();
                let (basis, values) = axes.ok_or_else(|| {
                    Error::setting("the second moments of the features", "finite and diagonalisable", "not")
                })?;
                let mean = rotate(basis.axes(), true, &self.mean, p, k);
                Posterior::new(k, mean, scale(values))?.with_basis(Arc::clone(basis))?
            }
            Gram::Diagonal(squares) => {
                let values: Vec<f64> = squares.iter().zip(&self.precision).map(|(g, d)| d + g / k as f64).collect();
                Posterior::new(k, self.mean.clone(), scale(&values))?
            }
        };
        LinearGaussian::new(map.clone(), posterior)
    }

    /// The eigenvectors and eigenvalues of `diag(d) + (1/K) sum_a G_a`.
    fn axes(&self, moments: &Moments) -> Option<(Arc<Basis>, Vec<f64>)> {
        let (p, k) = (self.features(), self.actions as f64);
        let entry = |i: usize, j: usize| moments.at(i, j) / k + if i == j { self.precision[i] } else { 0.0 };
        let matrix: Vec<f64> = (0..p * p).map(|at| entry(at / p, at % p)).collect();
        let (values, vectors) = eigenvectors(&matrix, p)?;
        // No eigenvalue is below the smallest precision of the prior, except by rounding.
        let least = self.precision.iter().copied().fold(f64::INFINITY, f64::min);
        let basis = Basis::new(vectors, p).ok()?;
        Some((Arc::new(basis), values.into_iter().map(|value| value.max(least)).collect()))
    }

    fn check(&self, features: &Contexts) -> Result<()> {
        if features.features() == self.features() {
            return Ok(());
        }
        let expected = format!("{} features, as the reward model", self.features());
        Err(Error::size("contexts", expected, features.features()))
    }
}
