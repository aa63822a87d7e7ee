//! Logistic reward models: the probability of a reward by a logistic regression per action.

use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use super::reward::Gram;
use super::{Link, RewardModel, Statistics};
use crate::contexts::Row;
use crate::error::{Error, Result};
use crate::features::FeatureMap;
use crate::logs::{Logs, Task};
use crate::math::moments::{Factor, Moments};
use crate::optim::Lbfgs;
use crate::wire::{Reader, Writer};

/// The settings of a logistic fit. The default needs no change.
///
/// Rewards are clicks: `P(r = 1 | x, a)` is the logistic function of `o + c <phi, m_a> + <phi, theta_a>`, with
/// `theta_a ~ N(0, diag(1/d))` and numbers `o` and `c >= 0` that are fitted too. The direction `m` is as in
/// [`Regression`](super::Regression); without one, `c = 0`. Rewards between 0 and 1 count as shares of clicks.
///
/// The coefficients are those of the largest posterior density, and the uncertainty is that of Laplace's approximation, with
/// the mean curvature of each action's records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Logistic<'a> {
    /// What is known of the coefficients before, up to a factor.
    pub direction: Option<&'a [f64]>,
    /// The search ends when the coefficients are about this many standard deviations of the posterior from the best ones.
    pub tolerance: f64,
}

impl Default for Logistic<'_> {
    fn default() -> Self {
        Logistic { direction: None, tolerance: 1e-3 }
    }
}

impl Logistic<'_> {
    /// Fits the model to records. `linear` is a model of the same `statistics`, which are sums over the same records: near
    /// the mean reward, both have the same prior and nearly the same noise, so its prior serves here too.
    pub fn fit(
        &self,
        linear: &RewardModel,
        statistics: &Statistics,
        map: &FeatureMap,
        records: &[Arc<Logs>],
    ) -> Result<RewardModel> {
        let n: usize = records.iter().map(|logs| logs.len()).sum();
        if n as f64 != statistics.records() {
            let expected = format!("{} records, as its statistics", statistics.records());
            return Err(Error::size("the records of a logistic model", expected, n));
        }
        // The records as their statistics have them, or an error of theirs.
        let (p, k) = (statistics.features(), statistics.actions());
        let rate = statistics.mean_reward().clamp(LEAST_RATE, 1.0 - LEAST_RATE);
        let curvature = rate * (1.0 - rate);
        let precision: Vec<f64> = linear.precision().iter().map(|d| curvature * d).collect();
        let direction = self.direction.map(|direction| by_action(direction, k));
        let problem = Problem::new(map, records, &precision, direction, statistics, rate).ok_or_else(|| {
            Error::setting("the second moments of the features", "finite and of moderate size", "not")
        })?;
        let mut start = vec![0.0; problem.size()];
        start[0] = problem.usual;
        let lbfgs = Lbfgs { iterations: 100, tolerance: self.tolerance, ..Lbfgs::default() };
        let mut failed = None;
        let found = lbfgs.minimise(start, |at, gradient| {
            problem.evaluate(at, gradient).unwrap_or_else(|error| {
                failed.get_or_insert(error);
                f64::NAN
            })
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let (found, _) = found?;
        if found[1] < 0.0 {
            // A direction that points the wrong way is not used.
            return Logistic { direction: None, ..*self }.fit(linear, statistics, map, records);
        }
        let coefficients = problem.coefficients(&found);
        let Sums { loss, curvatures, .. } = problem.sums(&coefficients)?;
        let mut mean = vec![0.0; p * k];
        for (a, own) in coefficients.by_action.chunks_exact(p).enumerate() {
            (0..p).for_each(|f| mean[f * k + a] = own[f]);
        }
        let mut pooled = Moments::new(p + 2);
        let mut evidence = -(loss + problem.penalty(&found));
        let prior: f64 = precision.iter().map(|d| d.ln()).sum();
        for (a, moments) in statistics.moments.iter().enumerate().filter(|(a, _)| statistics.records_of(*a) > 0.0) {
            let share = curvatures[a] / statistics.records_of(a);
            pooled.merge_scaled(moments, share);
            let factor = moments.factor(share, &precision);
            evidence -= 0.5 * (factor.map_or(f64::INFINITY, |factor| factor.ln_determinant()) - prior);
        }
        let (noise, offset, records) = (1.0, coefficients.offset, n as f64);
        let axes = OnceLock::new();
        let (link, gram) = (Link::Logistic, Gram::Full(pooled));
        Ok(RewardModel { actions: k, link, mean, offset, precision, noise, evidence, records, gram, axes })
    }
}

/// The mean reward is never nearer to 0 or 1: with no click at all, the prior would have no scale.
const LEAST_RATE: f64 = 1e-4;

fn by_action(feature_major: &[f64], k: usize) -> Vec<f64> {
    let p = feature_major.len() / k;
    (0..k * p).map(|at| feature_major[at % p * k + at / p]).collect()
}

/// The negative logarithm of the posterior density, in coordinates in which its curvature is nearly that of the unit matrix:
/// `o` and `c` in units of their deviations, and `theta_a = L_a'^-1 u_a` with `L_a L_a' = diag(d) + w G_a`, where `w` is the
/// curvature at the mean reward.
struct Problem<'a> {
    map: &'a FeatureMap,
    records: &'a [Arc<Logs>],
    precision: &'a [f64],
    /// `m_a`, action by action.
    direction: Option<Vec<f64>>,
    /// Of `o` and `c`.
    units: [f64; 2],
    /// The `o` of the mean reward, in its unit.
    usual: f64,
    /// The weight of the prior of `o` and `c`, which is that of one record: where a few records can be told apart by them, they
    /// would go to infinity.
    weak: f64,
    /// One per action.
    factors: Vec<Factor>,
}

/// A model of all actions.
#[derive(Debug)]
pub(crate) struct Coefficients {
    offset: f64,
    /// `c m_a + theta_a`, action by action.
    by_action: Vec<f64>,
}

impl Coefficients {
    /// Reads what a [`LogisticTask`] wrote after its map and its number of actions.
    pub(crate) fn read(from: &mut Reader<'_>, weights: usize) -> Result<Self> {
        let (offset, by_action) = (from.double()?, from.doubles()?);
        match by_action.len() == weights {
            true => Ok(Coefficients { offset, by_action }),
            false => Err(Error::size("the coefficients", format!("{weights} entries"), by_action.len())),
        }
    }
}

/// Sums over records at some coefficients.
#[derive(Debug, Clone)]
pub(crate) struct Sums {
    /// `-sum ln P(r)`.
    loss: f64,
    /// Its gradient in the coefficients of each action, action by action.
    slopes: Vec<f64>,
    /// Its derivative in the offset.
    offset: f64,
    /// `sum P (1 - P)`, per action.
    curvatures: Vec<f64>,
}

impl<'a> Problem<'a> {
    fn new(
        map: &'a FeatureMap,
        records: &'a [Arc<Logs>],
        precision: &'a [f64],
        direction: Option<Vec<f64>>,
        statistics: &Statistics,
        rate: f64,
    ) -> Option<Self> {
        let (p, curvature) = (precision.len(), rate * (1.0 - rate));
        let factors: Option<Vec<Factor>> =
            statistics.moments.par_iter().map(|moments| moments.factor(curvature, precision)).collect();
        let square = |m: &Vec<f64>| -> f64 {
            let each = m.chunks_exact(p).zip(&statistics.moments);
            each.map(|(m, moments)| moments.times(m).iter().zip(m).map(|(product, m)| product * m).sum::<f64>()).sum()
        };
        let unit = |square: f64| if square > 0.0 { 1.0 / (curvature * square).sqrt() } else { 1.0 };
        let units = [unit(statistics.records()), direction.as_ref().map_or(1.0, |m| unit(square(m)))];
        let (usual, weak) = ((rate / (1.0 - rate)).ln() / units[0], 1.0 / statistics.records());
        Some(Problem { map, records, precision, direction, units, usual, weak, factors: factors? })
    }

    fn size(&self) -> usize {
        2 + self.factors.len() * self.precision.len()
    }

    fn thetas(&self, at: &[f64]) -> Vec<f64> {
        let parts = at[2..].chunks_exact(self.precision.len()).zip(&self.factors);
        parts.flat_map(|(u, factor)| factor.solve_transposed(u)).collect()
    }

    fn coefficients(&self, at: &[f64]) -> Coefficients {
        let mut by_action = self.thetas(at);
        if let Some(direction) = &self.direction {
            let c = self.units[1] * at[1];
            by_action.iter_mut().zip(direction).for_each(|(theta, m)| *theta += c * m);
        }
        Coefficients { offset: self.units[0] * at[0], by_action }
    }

    /// `sum_a <theta_a, diag(d) theta_a>/2`, and the same for `o` and `c`.
    fn penalty(&self, at: &[f64]) -> f64 {
        let thetas = self.thetas(at);
        let own = thetas.iter().zip(self.precision.iter().cycle()).map(|(theta, d)| d * theta * theta).sum::<f64>();
        0.5 * (own + self.weak * ((at[0] - self.usual).powi(2) + at[1].powi(2)))
    }

    fn evaluate(&self, at: &[f64], gradient: &mut [f64]) -> Result<f64> {
        let sums = self.sums(&self.coefficients(at))?;
        let p = self.precision.len();
        gradient[0] = self.units[0] * sums.offset + self.weak * (at[0] - self.usual);
        gradient[1] = self.weak * at[1];
        if let Some(direction) = &self.direction {
            gradient[1] += self.units[1] * direction.iter().zip(&sums.slopes).map(|(m, slope)| m * slope).sum::<f64>();
        }
        let thetas = self.thetas(at);
        for (a, factor) in self.factors.iter().enumerate() {
            let own = a * p..(a + 1) * p;
            let terms = sums.slopes[own.clone()].iter().zip(&thetas[own.clone()]).zip(self.precision);
            let slopes: Vec<f64> = terms.map(|((slope, theta), d)| slope + d * theta).collect();
            gradient[2 + own.start..2 + own.end].copy_from_slice(&factor.solve(&slopes));
        }
        Ok(sums.loss + self.penalty(at))
    }

    /// The sums over all records, round by round.
    fn sums(&self, coefficients: &Coefficients) -> Result<Sums> {
        let task = LogisticTask { map: self.map, actions: self.factors.len(), coefficients };
        let mut total: Option<Sums> = None;
        for logs in self.records {
            match (&mut total, logs.over(&task)?) {
                (_, None) => {}
                (None, first) => total = first,
                (Some(total), Some(next)) => task.merge(total, next),
            }
        }
        Ok(total.unwrap_or_else(|| task.no_sums()))
    }
}

/// The sums of a logistic model over records, at some coefficients.
#[derive(Debug)]
pub(crate) struct LogisticTask<'a> {
    pub(crate) map: &'a FeatureMap,
    pub(crate) actions: usize,
    pub(crate) coefficients: &'a Coefficients,
}

impl LogisticTask<'_> {
    fn no_sums(&self) -> Sums {
        let k = self.actions;
        Sums { loss: 0.0, slopes: vec![0.0; k * self.map.output()], offset: 0.0, curvatures: vec![0.0; k] }
    }
}

impl Task for LogisticTask<'_> {
    const NAME: &'static str = "logistic";
    const KEPT: bool = true;

    type Output = Sums;

    fn write(&self, out: &mut Writer) -> Result<()> {
        self.map.write(out);
        out.count(self.actions);
        out.double(self.coefficients.offset);
        out.doubles(&self.coefficients.by_action);
        Ok(())
    }

    fn chunk(&self, logs: &Logs) -> Result<Sums> {
        let (p, Coefficients { offset, by_action }) = (self.map.output(), self.coefficients);
        let features = self.map.apply(logs.contexts())?;
        let mut sums = self.no_sums();
        for (i, (&a, &c)) in logs.action().iter().zip(logs.cost()).enumerate() {
            let own = a as usize * p..(a as usize + 1) * p;
            let (theta, slopes, row) = (&by_action[own.clone()], &mut sums.slopes[own], features.row(i));
            let mut score = *offset;
            match row {
                Row::Dense(x) => score += x.iter().zip(theta).map(|(x, theta)| f64::from(*x) * theta).sum::<f64>(),
                row => row.for_each(|f, x| score += x * theta[f]),
            }
            let chance = logistic(score);
            // ln(1 + e^s) - r s, without overflow.
            sums.loss += score.max(0.0) + (-score.abs()).exp().ln_1p() + c * score;
            let slope = chance + c;
            sums.offset += slope;
            sums.curvatures[a as usize] += chance * (1.0 - chance);
            match row {
                Row::Dense(x) => slopes.iter_mut().zip(x).for_each(|(sum, x)| *sum += slope * f64::from(*x)),
                row => row.for_each(|f, x| slopes[f] += slope * x),
            }
        }
        Ok(sums)
    }

    fn merge(&self, sum: &mut Sums, next: Sums) {
        sum.loss += next.loss;
        sum.offset += next.offset;
        sum.slopes.iter_mut().zip(&next.slopes).for_each(|(sum, new)| *sum += new);
        sum.curvatures.iter_mut().zip(&next.curvatures).for_each(|(sum, new)| *sum += new);
    }

    fn write_output(&self, output: &Sums, out: &mut Writer) {
        out.double(output.loss);
        out.double(output.offset);
        out.doubles(&output.slopes);
        out.doubles(&output.curvatures);
    }

    fn read_output(&self, from: &mut Reader<'_>) -> Result<Sums> {
        let (loss, offset, slopes, curvatures) = (from.double()?, from.double()?, from.doubles()?, from.doubles()?);
        let expected = self.actions * self.map.output();
        if (slopes.len(), curvatures.len()) != (expected, self.actions) {
            return Err(Error::size("the slopes of a logistic model", format!("{expected} entries"), slopes.len()));
        }
        Ok(Sums { loss, slopes, offset, curvatures })
    }
}

/// The logistic function.
pub(super) fn logistic(score: f64) -> f64 {
    let e = (-score.abs()).exp();
    if score >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::Contexts;
    use crate::model::Regression;

    /// Records of three actions with four features.
    fn records(n: usize) -> Arc<Logs> {
        let noise = |i: usize| (f64::sin(i as f64 * 12.9898) * 43758.5453).fract();
        let x: Vec<f32> = (0..4 * n).map(|i| if i % 4 == 3 { 1.0 } else { noise(i) as f32 }).collect();
        let action: Vec<u32> = (0..n).map(|i| (i * i / 3 % 3) as u32).collect();
        let click =
            |i: usize| -f64::from(u8::from(noise(7 * i + 1).abs() < f64::from(x[4 * i + action[i] as usize]) - 0.6));
        let cost: Vec<f64> = (0..n).map(click).collect();
        Arc::new(Logs::new(3, Contexts::dense(x, 4).unwrap(), action, vec![0.5; n], cost).unwrap())
    }

    fn fitted(records: &[Arc<Logs>], direction: Option<&[f64]>) -> (RewardModel, Statistics) {
        let map = FeatureMap::identity(4);
        let mut statistics = Statistics::new(3, 4).unwrap();
        records.iter().for_each(|logs| statistics.add_logs(&map, logs).unwrap());
        let linear = Regression { direction, ..Regression::default() }.fit(&statistics, &map.kinds()).unwrap();
        let logistic = Logistic { direction, ..Logistic::default() };
        (logistic.fit(&linear, &statistics, &map, records).unwrap(), statistics)
    }

    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        let logs = [records(200)];
        let (_, statistics) = fitted(&logs, None);
        let map = FeatureMap::identity(4);
        let precision = [0.5, 1.0, 2.0, 0.3];
        let direction: Vec<f64> = (0..12).map(|i| f64::sin(i as f64)).collect();
        let problem = Problem::new(&map, &logs, &precision, Some(direction), &statistics, 0.1).unwrap();
        let at: Vec<f64> = (0..problem.size()).map(|i| f64::cos(1.7 * i as f64)).collect();
        let mut gradient = vec![0.0; at.len()];
        problem.evaluate(&at, &mut gradient).unwrap();
        for i in 0..at.len() {
            let moved = |by: f64| {
                let mut at = at.clone();
                at[i] += by;
                problem.evaluate(&at, &mut vec![0.0; at.len()]).unwrap()
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((slope - gradient[i]).abs() < 1e-6 * (1.0 + slope.abs()), "{i}: {slope}, {}", gradient[i]);
        }
    }

    #[test]
    fn the_bits_do_not_depend_on_the_number_of_threads() {
        let logs = [records(20_000)];
        let work = || {
            let model = fitted(&logs, None).0;
            let policy = model.policy(&FeatureMap::identity(4), 0.5).unwrap();
            (model.mean().to_vec(), model.offset(), policy.fingerprint())
        };
        let on = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work);
        assert_eq!(on(1), on(3));
    }

    #[test]
    fn predictions_are_probabilities_and_rare_clicks_are_found() {
        let logs = records(3000);
        let (model, statistics) = fitted(std::slice::from_ref(&logs), None);
        assert!(statistics.mean_reward() < 0.2);
        let predicted = model.predict(logs.contexts()).unwrap();
        assert!(predicted.iter().all(|p| (0.0..=1.0).contains(p)));
        // The predicted and the observed number of clicks agree, as with any logistic regression with an intercept.
        let chosen: f64 = logs.action().iter().zip(predicted.chunks_exact(3)).map(|(&a, p)| p[a as usize]).sum();
        let clicks: f64 = -logs.cost().iter().sum::<f64>();
        assert!((chosen / clicks - 1.0).abs() < 0.01, "{chosen} {clicks}");
        let dense = model.predict(&logs.contexts().to_sparse()).unwrap();
        assert!(dense.iter().zip(&predicted).all(|(a, b)| (a - b).abs() < 1e-12));
    }

    #[test]
    fn rewards_that_are_all_equal_have_a_finite_model() {
        let logs = records(100);
        for reward in [0.0, 1.0] {
            let same =
                Logs::new(3, logs.contexts().clone(), logs.action().to_vec(), vec![0.5; 100], vec![-reward; 100]);
            let (model, _) = fitted(&[Arc::new(same.unwrap())], None);
            assert!(model.predict(logs.contexts()).unwrap().iter().all(|p| (p - reward).abs() < 0.1));
            assert!(model.policy(&FeatureMap::identity(4), 0.5).is_ok());
        }
    }

    #[test]
    fn statistics_of_other_records_are_refused() {
        let logs = records(100);
        let (linear, statistics) = fitted(std::slice::from_ref(&logs), None);
        let other = [Arc::new(logs.slice(0..60))];
        let refused = Logistic::default().fit(&linear, &statistics, &FeatureMap::identity(4), &other).unwrap_err();
        let said = "the records of a logistic model should have 100 records, as its statistics, but has 60";
        assert_eq!(refused.to_string(), said);
    }
}
