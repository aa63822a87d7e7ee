//! A cost model: ridge regression per action, cross-fitted, in one pass.

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use rayon::prelude::*;

use crate::contexts::{Contexts, Row};
use crate::error::{Error, Result, check_setting};
use crate::math::linear::{in_blocks, scores};

/// The memory limit for the sums of a fit, in bytes.
const MEMORY: usize = 1 << 30;
/// The number of rows that one thread predicts together.
const BLOCK: usize = 1024;

/// The sums from which a [`CostModel`] is fitted. Records are added batch by batch.
///
/// Each record belongs to one fold, by its index in the stream. For each fold and action this keeps the second moments
/// of `(x, 1)` and its products with the costs. Each such cell takes `4 (p + 1)(p + 2)` bytes, and all cells together
/// at most 1 GiB.
#[derive(Debug, Clone)]
pub struct ModelFit {
    actions: usize,
    features: usize,
    folds: usize,
    penalty: f64,
    records: usize,
    /// One cell per fold and action, action by action within a fold.
    cells: Vec<Cell>,
}

/// The sums over the records of one fold and action, with `z = (x, 1)`.
#[derive(Debug, Clone, PartialEq)]
struct Cell {
    /// The lower triangle of `sum z z'`, row by row.
    moments: Vec<f64>,
    /// `sum c z`.
    products: Vec<f64>,
}

impl Cell {
    fn new(features: usize) -> Self {
        Cell { moments: vec![0.0; (features + 1) * (features + 2) / 2], products: vec![0.0; features + 1] }
    }

    fn add(&mut self, row: Row<'_>, cost: f64, room: &mut Vec<(usize, f64)>) {
        room.clear();
        row.for_each(|f, v| room.push((f, v)));
        room.push((self.products.len() - 1, 1.0));
        for (at, &(i, x)) in room.iter().enumerate() {
            let start = i * (i + 1) / 2;
            room[..=at].iter().for_each(|&(j, y)| self.moments[start + j] += x * y);
            self.products[i] += cost * x;
        }
    }

    fn join(&mut self, other: &Cell) {
        self.moments.iter_mut().zip(&other.moments).for_each(|(own, new)| *own += new);
        self.products.iter_mut().zip(&other.products).for_each(|(own, new)| *own += new);
    }

    /// The number of records.
    fn records(&self) -> f64 {
        self.moments[self.moments.len() - 1]
    }

    /// The sum of their costs.
    fn cost(&self) -> f64 {
        self.products[self.products.len() - 1]
    }

    /// `(beta, b)` that minimise `sum (c - x'beta - b)^2 + penalty |beta|^2`.
    fn solve(&self, penalty: f64) -> Option<Vec<f64>> {
        let size = self.products.len();
        let matrix = Mat::from_fn(size, size, |i, j| {
            let (i, j) = (i.max(j), i.min(j));
            self.moments[i * (i + 1) / 2 + j] + if i == j && i + 1 < size { penalty } else { 0.0 }
        });
        let right = Mat::from_fn(size, 1, |i, _| self.products[i]);
        let solution = matrix.llt(Side::Lower).ok()?.solve(&right);
        Some((0..size).map(|i| solution[(i, 0)]).collect())
    }
}

impl ModelFit {
    /// Starts with no records, for this many actions and features. `penalty > 0` multiplies the squared coefficients;
    /// intercepts are not penalised. With `folds >= 2`, the prediction for a record comes from a fit to the other
    /// folds.
    pub fn new(actions: usize, features: usize, folds: usize, penalty: f64) -> Result<Self> {
        if actions == 0 {
            return Err(Error::setting("the number of actions", "at least 1", 0));
        }
        if features == 0 {
            return Err(Error::setting("the number of features", "at least 1", 0));
        }
        if folds < 2 {
            return Err(Error::setting("the number of folds", "at least 2", folds));
        }
        check_setting("the penalty", penalty, penalty > 0.0, "in (0, inf)")?;
        let cell = features.checked_add(2).and_then(|p| p.checked_mul(p)?.checked_mul(4));
        let bytes = cell.and_then(|cell| cell.checked_mul(actions)?.checked_mul(folds));
        if bytes.is_none_or(|bytes| bytes > MEMORY) {
            let allowed = format!(
                "at most 1 GiB for {folds} folds x {actions} actions x {features} features (map the contexts to fewer \
                 features, or take fewer folds)"
            );
            let value =
                bytes.map_or("beyond counting".into(), |bytes| format!("{:.1} GiB", bytes as f64 / MEMORY as f64));
            return Err(Error::setting("the memory of a cost model", allowed, value));
        }
        let cells = vec![Cell::new(features); folds * actions];
        Ok(ModelFit { actions, features, folds, penalty, records: 0, cells })
    }

    /// Adds the next records. An error names the row in the whole stream and leaves the fit unchanged.
    pub fn add(&mut self, contexts: &Contexts, action: &[u32], cost: &[f64]) -> Result<()> {
        check_features(self.features, contexts)?;
        for (column, found) in [("action", action.len()), ("cost", cost.len())] {
            if found != contexts.len() {
                return Err(Error::size(column, format!("{} entries, one for each context", contexts.len()), found));
            }
        }
        let mut rows = vec![Vec::new(); self.cells.len()];
        for (i, (&a, &c)) in action.iter().zip(cost).enumerate() {
            if a as usize >= self.actions {
                return Err(Error::value(self.records + i, "action", format!("below {}", self.actions), a));
            }
            if !(-1.0..=0.0).contains(&c) {
                return Err(Error::value(self.records + i, "cost", "in [-1, 0]", c));
            }
            rows[fold(self.records + i, self.folds) * self.actions + a as usize].push(i);
        }
        // The order within each cell does not depend on the threads.
        self.cells.par_iter_mut().zip(&rows).for_each(|(cell, rows)| {
            let mut room = Vec::new();
            rows.iter().for_each(|&i| cell.add(contexts.row(i), cost[i], &mut room));
        });
        self.records += contexts.len();
        Ok(())
    }

    /// Fits the model. If an action has no records in the other folds, its prediction is their mean cost over all
    /// actions.
    pub fn finish(&self) -> Result<CostModel> {
        if self.records == 0 {
            return Err(Error::size("the logs", "at least 1 record", 0));
        }
        let (k, p) = (self.actions, self.features);
        let fit = |fold: usize| -> Result<Linear> {
            let others = || (0..self.folds).filter(|&other| other != fold);
            let all = || others().flat_map(|other| &self.cells[other * k..(other + 1) * k]);
            let (records, cost) = all().fold((0.0, 0.0), |(n, c), cell| (n + cell.records(), c + cell.cost()));
            let average = if records > 0.0 { cost / records } else { 0.0 };
            let mut linear = Linear { slopes: vec![0.0; p * k], intercepts: vec![average; k] };
            for a in 0..k {
                let mut cell = Cell::new(p);
                others().for_each(|other| cell.join(&self.cells[other * k + a]));
                if cell.records() > 0.0 {
                    let solution = cell.solve(self.penalty).filter(|s| s.iter().all(|x| x.is_finite()));
                    let solution = solution.ok_or_else(|| {
                        let (name, allowed) = (format!("the penalty for action {a}"), "large enough to solve for it");
                        Error::setting(name, allowed, self.penalty)
                    })?;
                    (0..p).for_each(|f| linear.slopes[f * k + a] = solution[f]);
                    linear.intercepts[a] = solution[p];
                }
            }
            Ok(linear)
        };
        let folds: Vec<Result<Linear>> = (0..self.folds).into_par_iter().map(fit).collect();
        Ok(CostModel { actions: k, features: p, folds: folds.into_iter().collect::<Result<_>>()? })
    }
}

/// The predicted cost of each action in a context, `chat(x, a) = x'beta_a + b_a` within `[-1, 0]`, from [`ModelFit`].
///
/// There is one model per fold, fitted to the records of the other folds. The index of a record in the stream tells its
/// fold, so that each record is predicted by a model that was not fitted to it.
#[derive(Debug, Clone)]
pub struct CostModel {
    actions: usize,
    features: usize,
    folds: Vec<Linear>,
}

/// The coefficients of all actions, feature-major.
#[derive(Debug, Clone)]
struct Linear {
    slopes: Vec<f64>,
    intercepts: Vec<f64>,
}

impl CostModel {
    /// The number of actions, `K`.
    pub fn actions(&self) -> usize {
        self.actions
    }

    /// `chat(x, a)` of all actions, one row of `K` per context. The first context belongs to record `start` of the
    /// stream.
    pub fn predict(&self, start: usize, contexts: &Contexts) -> Result<Vec<f64>> {
        check_features(self.features, contexts)?;
        let k = self.actions;
        in_blocks(contexts.len(), BLOCK, (k, 0.0), |range, out| {
            for (f, linear) in self.folds.iter().enumerate() {
                let places: Vec<usize> = range.clone().filter(|i| fold(start + i, self.folds.len()) == f).collect();
                let rows: Vec<Row<'_>> = places.iter().map(|&i| contexts.row(i)).collect();
                let mut values = vec![0.0; rows.len() * k];
                scores(&rows, &linear.slopes, k, &mut values);
                for (&i, values) in places.iter().zip(values.chunks_exact(k)) {
                    let out = &mut out[(i - range.start) * k..][..k];
                    for ((out, value), b) in out.iter_mut().zip(values).zip(&linear.intercepts) {
                        *out = (value + b).clamp(-1.0, 0.0);
                    }
                }
            }
            Ok(())
        })
    }

    /// The columns of [`Modelled`](super::Modelled): `chat(x_i, a_i)`, and `sum_a pi(a|x_i) chat(x_i, a)` for the
    /// probabilities of all actions, given as one row of `K` per context.
    pub fn judge(
        &self,
        start: usize,
        contexts: &Contexts,
        action: &[u32],
        distribution: &[f64],
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let (n, k) = (contexts.len(), self.actions);
        if action.len() != n {
            return Err(Error::size("action", format!("{n} entries, one for each context"), action.len()));
        }
        if distribution.len() != n * k {
            let expected = format!("{n} contexts x {k} actions");
            return Err(Error::size("the distribution of a policy", expected, distribution.len()));
        }
        if let Some(i) = action.iter().position(|&a| a as usize >= k) {
            return Err(Error::value(start + i, "action", format!("below {k}"), action[i]));
        }
        let predicted = self.predict(start, contexts)?;
        let rows = predicted.chunks_exact(k);
        let logged = rows.clone().zip(action).map(|(row, &a)| row[a as usize]).collect();
        let mean = rows.zip(distribution.chunks_exact(k)).map(|(row, p)| row.iter().zip(p).map(|(c, p)| c * p).sum());
        Ok((logged, mean.collect()))
    }
}

/// The fold of a record: a hash of its index (the finaliser of SplitMix64), so that records that alternate in the
/// stream do not all fall into one fold.
fn fold(record: usize, folds: usize) -> usize {
    let mut x = (record as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) % folds as u64) as usize
}

fn check_features(features: usize, contexts: &Contexts) -> Result<()> {
    if contexts.features() == features {
        return Ok(());
    }
    Err(Error::size("contexts", format!("{features} features, as the cost model"), contexts.features()))
}
