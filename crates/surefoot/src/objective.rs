//! OBJECTIVE: `mean h + KL/(lambda N)` and its relatives, value and gradient in `(mu, ln sigma)`.

use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::contexts::Row;
use crate::error::{Error, Result, check_setting};
use crate::logs::Logs;
use crate::math::linear::{accumulate, scores};
use crate::math::perturbed::Quadrature;
use crate::policy::{Posterior, Scale, floored, same_basis, standardise};
use crate::regularizer::Regularizer;

/// What is minimised over the records, before the divergence is added.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
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
    /// The same with self-normalised weights: `m = sum w c / sum w`, plus `penalty sqrt(sum w^2 (c - m)^2) / sum w`.
    SelfNormalised {
        /// The weight of the standard error: at least 0.
        penalty: f64,
    },
}

impl Criterion {
    /// Fails, and names the range, if a parameter is outside it.
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

    /// Whether a record of cost 0 can be left out: it is 0 whatever the policy does, and only counts in `n`.
    fn skips_zero_costs(&self) -> bool {
        !matches!(self, Criterion::SelfNormalised { .. })
    }

    /// The value over `n` records and its derivative in each `p`; records that are not listed are zeros.
    fn evaluate(&self, n: usize, p: &[f64], q: &[f64], c: &[f64]) -> (f64, Vec<f64>) {
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

/// An objective over the records of some rounds, for posteriors of the shape of a given one.
#[derive(Debug)]
pub struct Objective<'a> {
    rounds: &'a [Arc<Logs>],
    /// The number of records before each round, and of all of them at the end.
    offsets: Vec<usize>,
    criterion: Criterion,
    anchor: &'a Posterior,
    /// What the parameters leave open: actions, basis, the kind of scale, and the scale itself if it is not learned.
    shape: &'a Posterior,
    learn_scale: bool,
    kl_weight: f64,
    exploration: f64,
    tolerance: f64,
}

/// The parts of an [`Objective`].
#[derive(Debug, Clone, Copy)]
pub struct ObjectiveParts<'a> {
    /// The rounds to learn from, over the features of the posterior, in its basis.
    pub rounds: &'a [Arc<Logs>],
    /// What is minimised over their records.
    pub criterion: Criterion,
    /// The posterior from which the divergence is measured, in the same basis.
    pub anchor: &'a Posterior,
    /// A posterior of the kind that is sought.
    pub shape: &'a Posterior,
    /// Whether the scale is sought too, or stays as it is in `shape`.
    pub learn_scale: bool,
    /// `lambda` of the term `KL/(lambda N)`; without one there is no such term.
    pub lambda: Option<f64>,
    /// The exploration floor of policy and anchor.
    pub exploration: f64,
    /// The absolute error of the propensities.
    pub tolerance: f64,
}

/// Rows that are worked on together.
const BLOCK: usize = 64;
/// The gradient is summed in at most so many parts, whatever the number of threads.
const PARTS: usize = 8;

/// A block's share of the forward pass.
struct Forward<'a> {
    rows: Vec<Row<'a>>,
    p: Vec<f64>,
    q: Vec<f64>,
    c: Vec<f64>,
    /// `dp/ds`, a row of `K` a record, divided by the record's deviation.
    d: Vec<f64>,
    /// `-sum_a (dp/ds_a) s_a`, the derivative in the logarithm of a scale that all features share.
    shrink: Vec<f64>,
    /// `1/(x'Sx)`.
    precision: Vec<f64>,
}

impl<'a> Objective<'a> {
    /// Checks that the parts fit each other.
    pub fn new(parts: ObjectiveParts<'a>) -> Result<Self> {
        let ObjectiveParts { rounds, criterion, anchor, shape, learn_scale, lambda, exploration, tolerance } = parts;
        criterion.check()?;
        if let Some(lambda) = lambda {
            check_setting("lambda", lambda, lambda > 0.0, "in (0, inf)")?;
        }
        check_setting("exploration", exploration, (0.0..1.0).contains(&exploration), "in [0, 1)")?;
        check_setting("the tolerance", tolerance, tolerance > 0.0 && tolerance <= 0.01, "in (0, 0.01]")?;
        let (p, k) = (shape.features(), shape.actions());
        if (anchor.features(), anchor.actions()) != (p, k) || !same_basis(anchor.basis(), shape.basis()) {
            let expected = format!("{p} features x {k} actions, in the posterior's basis");
            return Err(Error::size("the anchor", expected, anchor.mean().len()));
        }
        let mut offsets = vec![0];
        for logs in rounds {
            if logs.contexts().features() != p {
                let expected = format!("{p} features, as the policy");
                return Err(Error::size("contexts", expected, logs.contexts().features()));
            }
            if logs.actions() != k {
                return Err(Error::size("the logs", format!("{k} actions, as the policy"), logs.actions()));
            }
            offsets.push(offsets[offsets.len() - 1] + logs.len());
        }
        let records = offsets[rounds.len()];
        if records == 0 || records > u32::MAX as usize {
            return Err(Error::size("the rounds", "from 1 to 4294967295 records", records));
        }
        let kl_weight = lambda.map_or(0.0, |lambda| (1.0 - exploration) / (lambda * records as f64));
        Ok(Objective { rounds, offsets, criterion, anchor, shape, learn_scale, kl_weight, exploration, tolerance })
    }

    /// The number of records, `N`.
    pub fn records(&self) -> usize {
        self.offsets[self.rounds.len()]
    }

    /// The parameters `(mu, ln sigma)` of a posterior: the mean, then the logarithms of the scales if they are sought.
    pub fn parameters(&self, posterior: &Posterior) -> Vec<f64> {
        let mut x = posterior.mean().to_vec();
        if self.learn_scale {
            match posterior.scale() {
                Scale::Shared(sigma) => x.push(sigma.ln()),
                Scale::PerFeature(sigmas) => x.extend(sigmas.iter().map(|s| s.ln())),
            }
        }
        x
    }

    /// The posterior of parameters.
    pub fn posterior(&self, x: &[f64]) -> Result<Posterior> {
        self.shape.with(x[..self.means()].to_vec(), self.scale(x))
    }

    fn means(&self) -> usize {
        self.shape.mean().len()
    }

    /// The scales of parameters, kept in the range of a posterior: a search without a divergence may run away.
    fn scale(&self, x: &[f64]) -> Scale {
        let sigma = |log: &f64| log.exp().clamp(*Posterior::SCALES.start(), *Posterior::SCALES.end());
        let logs = &x[self.means()..];
        match self.shape.scale() {
            fixed if !self.learn_scale => fixed.clone(),
            Scale::Shared(_) => Scale::Shared(sigma(&logs[0])),
            Scale::PerFeature(_) => Scale::PerFeature(logs.iter().map(sigma).collect()),
        }
    }

    /// The objective over a batch of records, by their place in the rounds, and its gradient.
    ///
    /// Records whose cost is 0 only count in the batch's size: neither their contexts nor their propensities are
    /// touched. Sums are cut at places that depend on the batch alone, so that the result is the same for every
    /// number of threads.
    ///
    /// # Panics
    /// If `x` and `gradient` are not as long as [`parameters`](Objective::parameters) makes them, or a place is not
    /// below [`records`](Objective::records).
    pub fn evaluate(&self, x: &[f64], batch: &[u32], gradient: &mut [f64]) -> f64 {
        let scale = self.scale(x);
        let skip = self.criterion.skips_zero_costs();
        let active: Vec<(&Logs, usize)> = batch
            .iter()
            .map(|&i| self.locate(i as usize))
            .filter(|(logs, row)| !skip || logs.cost()[*row] != 0.0)
            .collect();
        let forward: Vec<Forward<'_>> = {
            let work = |records: &[(&'a Logs, usize)]| self.forward(&x[..self.means()], &scale, records);
            if active.len() <= BLOCK {
                active.chunks(BLOCK).map(work).collect()
            } else {
                active.par_chunks(BLOCK).map(work).collect()
            }
        };
        let join = |column: for<'b> fn(&'b Forward<'a>) -> &'b Vec<f64>| -> Vec<f64> {
            forward.iter().flat_map(|block| column(block).iter().copied()).collect()
        };
        let p = join(|b| &b.p);
        let (value, mut slopes) = self.criterion.evaluate(batch.len(), &p, &join(|b| &b.q), &join(|b| &b.c));
        for (slope, &p) in slopes.iter_mut().zip(&p) {
            // Some h have an infinite slope at p = 0. There the propensity has underflowed, and so has its gradient.
            if p == 0.0 {
                *slope = 0.0;
            }
        }
        gradient.fill(0.0);
        self.backward(forward, &slopes, &scale, gradient);
        value + self.divergence(x, &scale, gradient)
    }

    fn locate(&self, i: usize) -> (&'a Logs, usize) {
        let round = self.offsets.partition_point(|&o| o <= i) - 1;
        (self.rounds[round].as_ref(), i - self.offsets[round])
    }

    /// Scores, then propensities and their gradients in the scores.
    fn forward<'l>(&self, mean: &[f64], scale: &Scale, records: &[(&'l Logs, usize)]) -> Forward<'l> {
        let k = self.shape.actions();
        let n = records.len();
        let rows: Vec<Row<'l>> = records.iter().map(|&(logs, i)| logs.contexts().row(i)).collect();
        let mut s = vec![0.0; n * k];
        scores(&rows, mean, k, &mut s);
        let mut out = Forward {
            rows,
            p: Vec::with_capacity(n),
            q: Vec::with_capacity(n),
            c: Vec::with_capacity(n),
            d: vec![0.0; n * k],
            shrink: Vec::with_capacity(n),
            precision: Vec::with_capacity(n),
        };
        let mut quadrature = Quadrature::new(self.tolerance);
        let (mut subset, mut slope) = (Vec::new(), Vec::new());
        for (i, &(logs, row)) in records.iter().enumerate() {
            let s = &mut s[i * k..(i + 1) * k];
            let deviation = scale.deviation(out.rows[i], logs.contexts().norm(row));
            standardise(s, deviation);
            let action = logs.action()[row];
            let d = &mut out.d[i * k..(i + 1) * k];
            let share = 1.0 - self.exploration;
            let p = match logs.eligible().map(|e| e.get(row)) {
                None => {
                    let p = quadrature.gradient(s, action as usize, d);
                    floored(p, self.exploration, k)
                }
                Some(set) => {
                    subset.clear();
                    subset.extend(set.iter().map(|&a| s[a as usize]));
                    slope.resize(set.len(), 0.0);
                    let place = set.binary_search(&action).expect("the logged action is eligible");
                    let p = quadrature.gradient(&subset, place, &mut slope);
                    for (&a, slope) in set.iter().zip(&slope) {
                        d[a as usize] = *slope;
                    }
                    floored(p, self.exploration, set.len())
                }
            };
            out.p.push(p);
            out.q.push(logs.propensity()[row]);
            out.c.push(logs.cost()[row]);
            out.shrink.push(-share * d.iter().zip(s.iter()).map(|(d, s)| d * s).sum::<f64>());
            let inverse = if deviation > 0.0 { 1.0 / deviation } else { 0.0 };
            out.precision.push(inverse * inverse);
            d.iter_mut().for_each(|d| *d *= share * inverse);
        }
        out
    }

    /// Adds `sum_i slope_i dp_i/d(mu, ln sigma)` to the gradient, in a fixed number of parts.
    fn backward(&self, mut forward: Vec<Forward<'_>>, slopes: &[f64], scale: &Scale, gradient: &mut [f64]) {
        let size = forward.len().div_ceil(PARTS).max(4);
        let work = |(blocks, slopes): (&mut [Forward<'_>], &[f64]), gradient: &mut [f64]| {
            let mut slopes = slopes;
            for block in blocks {
                let (own, rest) = slopes.split_at(block.p.len());
                self.backward_block(block, own, scale, gradient);
                slopes = rest;
            }
        };
        if forward.len() <= size {
            work((&mut forward, slopes), gradient);
            return;
        }
        let parts: Vec<Vec<f64>> = forward
            .par_chunks_mut(size)
            .zip(slopes.par_chunks(size * BLOCK))
            .map(|part| {
                let mut own = vec![0.0; gradient.len()];
                work(part, &mut own);
                own
            })
            .collect();
        for part in parts {
            gradient.iter_mut().zip(part).for_each(|(g, v)| *g += v);
        }
    }

    fn backward_block(&self, block: &mut Forward<'_>, slopes: &[f64], scale: &Scale, gradient: &mut [f64]) {
        let k = self.shape.actions();
        let (mean, logs) = gradient.split_at_mut(self.means());
        for (d, slope) in block.d.chunks_exact_mut(k).zip(slopes) {
            d.iter_mut().for_each(|d| *d *= slope);
        }
        accumulate(&block.rows, &block.d, k, mean);
        if !self.learn_scale {
            return;
        }
        for (i, slope) in slopes.iter().enumerate() {
            let pull = slope * block.shrink[i];
            match scale {
                Scale::Shared(_) => logs[0] += pull,
                // d(ln sqrt(x'Sx))/d(ln sigma_f) = sigma_f^2 x_f^2/(x'Sx).
                Scale::PerFeature(sigmas) => {
                    let pull = pull * block.precision[i];
                    block.rows[i].for_each(|f, v| logs[f] += pull * (sigmas[f] * v) * (sigmas[f] * v));
                }
            }
        }
    }

    /// `KL/(lambda N)`, and adds its gradient.
    fn divergence(&self, x: &[f64], scale: &Scale, gradient: &mut [f64]) -> f64 {
        if self.kl_weight == 0.0 {
            return 0.0;
        }
        let k = self.shape.actions();
        let (means, logs) = gradient.split_at_mut(self.means());
        let mut kl = 0.0;
        for (f, g) in means.chunks_exact_mut(k).enumerate() {
            let t = self.anchor.scale().get(f).powi(2);
            let v = scale.get(f).powi(2) / t;
            kl += k as f64 * (v - 1.0 - v.ln());
            for (a, g) in g.iter_mut().enumerate() {
                let d = x[f * k + a] - self.anchor.mean()[f * k + a];
                kl += d * d / t;
                *g += self.kl_weight * d / t;
            }
            if self.learn_scale {
                let place = if logs.len() == 1 { 0 } else { f };
                logs[place] += self.kl_weight * k as f64 * (v - 1.0);
            }
        }
        self.kl_weight * 0.5 * kl
    }
}
