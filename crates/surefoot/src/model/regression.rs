//! Fitting a reward model: prior and noise by evidence.

use std::ops::Range;
use std::sync::OnceLock;

use super::evidence::{Known, Regressions, Solved, maximise};
use super::reward::Gram;
use super::{Link, RewardModel, Statistics};
use crate::error::{Error, Result, check_setting};
use crate::math::moments::Moments;

/// The settings of a fit. The default needs no change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Regression<'a> {
    /// The smallest variance of the noise, as a share of the variance of the rewards, in `(0, 1]`. Features that
    /// interpolate the records would otherwise drive it to 0, and the policy would stop exploring.
    pub least_noise: f64,
    /// Whether actions share a part of their coefficients, `theta_a = w + u_a`. The shared part `w` is fitted to all
    /// records first, and `u_a` to what it leaves. Actions with few records then borrow from the others. Only for logs
    /// in which every action is tried everywhere: where one action is nearly always chosen, its reward would be
    /// attributed to all of them.
    pub shared: bool,
    /// What is known of the coefficients before, up to a factor: they are around `c m_a`, with `m` as given, feature-major as
    /// the [mean](RewardModel::mean) of a model, and the number `c >= 0` fitted to all records together with the offset. A
    /// policy that knows something has such a direction. Not together with a shared part.
    pub direction: Option<&'a [f64]>,
    /// The factor, above 0, by which the prior is tighter than the one with the most evidence.
    pub tightness: f64,
}

impl Default for Regression<'_> {
    fn default() -> Self {
        Regression { least_noise: 0.1, shared: false, direction: None, tightness: 1.0 }
    }
}

/// The smallest variance of the noise in any case: rewards are in `[0, 1]`.
const LEAST_NOISE: f64 = 1e-6;

/// The start of a prior precision, in units of the mean square of the features: a prior whose predictions have a
/// quarter of the variance of the noise.
const START: f64 = 4.0;

impl Regression<'_> {
    /// Fits the model. `kinds` are the ranges of features with a common prior precision, from
    /// [`FeatureMap::kinds`](crate::FeatureMap::kinds); together they cover all features in order.
    pub fn fit(&self, statistics: &Statistics, kinds: &[Range<usize>]) -> Result<RewardModel> {
        check_kinds(kinds, statistics.features())?;
        let pooled = statistics.pooled();
        let start: Vec<f64> = kinds
            .iter()
            .map(|kind| {
                let mean_square = pooled.trace(kind.clone()) / statistics.records();
                if mean_square > 0.0 { START * mean_square } else { 1.0 }
            })
            .collect();
        check_setting("the tightness of the prior", self.tightness, self.tightness > 0.0, "above 0")?;
        self.solve(statistics, pooled, |all| {
            let (mut precision, solved) = maximise(kinds, &start, |d| all.at(d))?;
            if self.tightness == 1.0 {
                return Some((precision, solved));
            }
            precision.iter_mut().for_each(|d| *d *= self.tightness);
            let solved = all.at(&precision)?;
            Some((precision, solved))
        })
    }

    /// Fits the model with a given prior precision per feature, in units of the noise's precision.
    pub fn with_prior(&self, statistics: &Statistics, precision: &[f64]) -> Result<RewardModel> {
        let p = statistics.features();
        if precision.len() != p {
            return Err(Error::size("the prior precision", format!("{p} entries, one per feature"), precision.len()));
        }
        if let Some(f) = precision.iter().position(|d| !(d.is_finite() && *d > 0.0)) {
            return Err(Error::value(f, "the prior precision", "finite and above 0", precision[f]));
        }
        self.solve(statistics, statistics.pooled(), |all| Some((precision.to_vec(), all.at(precision)?)))
    }

    fn solve(
        &self,
        statistics: &Statistics,
        pooled: Moments,
        search: impl Fn(&Regressions<'_>) -> Option<(Vec<f64>, Solved)>,
    ) -> Result<RewardModel> {
        let least = self.least_noise;
        check_setting("the smallest noise", least, least > 0.0 && least <= 1.0, "in (0, 1]")?;
        let (p, k, records) = (statistics.features(), statistics.actions(), statistics.records());
        if let Some(direction) = self.direction {
            if self.shared {
                return Err(Error::setting("the direction of the coefficients", "absent if a part is shared", "given"));
            }
            if direction.len() != p * k {
                let expected = format!("{p} x {k} entries, one per feature and action");
                return Err(Error::size("the direction of the coefficients", expected, direction.len()));
            }
            if let Some(at) = direction.iter().position(|m| !m.is_finite()) {
                return Err(Error::value(at / k, "the direction of the coefficients", "finite", direction[at]));
            }
        }
        if records == 0.0 {
            return Err(Error::size("the statistics of a reward model", "at least 1 record", 0));
        }
        let offset = statistics.mean_reward();
        let square = (pooled.at(p + 1, p + 1) - offset * pooled.at(p + 1, p)).max(0.0);
        let least_noise = (least * square / records).max(LEAST_NOISE);
        let products = |moments: &Moments| -> Vec<f64> {
            (0..p).map(|f| moments.at(p + 1, f) - offset * moments.at(p, f)).collect()
        };
        let search = |all: &Regressions<'_>| {
            search(all).ok_or_else(|| {
                let (name, allowed) = ("the second moments of the features", "finite and of moderate size");
                Error::setting(name, allowed, format!("a trace of {:e}", pooled.trace(0..p)))
            })
        };
        let mut all = Regressions {
            moments: statistics.moments.iter().collect(),
            products: statistics.moments.iter().map(products).collect(),
            square,
            records,
            least_noise,
            known: self.direction.map(|direction| Known::new(direction, &statistics.moments)),
        };
        let mut shared = vec![0.0; p];
        if self.shared {
            let b = products(&pooled);
            let (moments, products) = (vec![&pooled], vec![b.clone()]);
            let one = Regressions { moments, products, square, records, least_noise, known: None };
            shared.copy_from_slice(&search(&one)?.1.means[0]);
            let product = pooled.times(&shared);
            let left = |f: usize| shared[f] * (product[f] - 2.0 * b[f]);
            all.square = (square + (0..p).map(left).sum::<f64>()).max(0.0);
            for (moments, b) in all.moments.iter().zip(&mut all.products) {
                b.iter_mut().zip(moments.times(&shared)).for_each(|(b, known)| *b -= known);
            }
        }
        let (precision, Solved { evidence, noise, means, shift }) = search(&all)?;
        let mut mean = vec![0.0; p * k];
        for (a, own) in means.iter().enumerate() {
            (0..p).for_each(|f| mean[f * k + a] = shared[f] + own[f]);
        }
        let offset = offset + shift;
        let (link, gram, axes) = (Link::Identity, Gram::Full(pooled), OnceLock::new());
        Ok(RewardModel { actions: k, link, mean, offset, precision, noise, evidence, records, gram, axes })
    }
}

fn check_kinds(kinds: &[Range<usize>], features: usize) -> Result<()> {
    let mut next = 0;
    for kind in kinds {
        if kind.start != next || kind.end <= kind.start {
            let allowed = format!("ranges that follow each other; the next one starts at {next}");
            return Err(Error::setting("the kinds of features", allowed, format!("{kind:?}")));
        }
        next = kind.end;
    }
    if next != features {
        return Err(Error::size("the kinds of features", format!("{features} features together"), next));
    }
    Ok(())
}
