//! The objective in the number type of a search, computed by kernels, block by block.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::Objective;
use super::sums::Sums;
use crate::contexts::Row;
use crate::error::Result;
use crate::logs::Logs;
use crate::math::kernels::{PIECE, add, add_squares, lane_sum, pull, sum_of_squares};
use crate::math::linear::{BLOCK, Block};
use crate::math::quadrature::Integrate;
use crate::policy::{Scale, floored};

/// An [`Objective`] in `f32` or `f64`.
#[derive(Debug)]
pub(crate) struct Search<'o, 'a, R: Integrate> {
    pub(super) objective: &'o Objective<'a>,
    /// The anchor's mean, and the inverse variance of each of its entries.
    anchor: Vec<R>,
    precision: Vec<R>,
    /// The sum over the features of the logarithms of the inverse variances.
    ln_precision: f64,
    /// Whether each record contributes more than its count.
    weighs: Vec<bool>,
    /// Workspaces that are not in use.
    rooms: Mutex<Vec<Room<R>>>,
}

/// The posterior at which the objective is evaluated.
#[derive(Debug)]
pub(crate) struct Point<'x, R> {
    mean: &'x [R],
    spread: Spread<R>,
    /// `sum_f ln sigma_f`.
    ln_sigmas: f64,
}

/// The scale in the form that the kernels use.
#[derive(Debug)]
pub(crate) enum Spread<R> {
    Shared(R),
    /// The variances.
    PerFeature(Vec<R>),
}

/// A record: its logs, and its row there.
pub(super) type Record<'a> = (&'a Logs, usize);

/// The gradient is summed in parts of about `PART` records, and in at most `PARTS` parts, for any number of threads.
const PART: usize = 2 * BLOCK;
const PARTS: usize = 16;

/// The workspace for a part of a batch, and the sums over it.
#[derive(Debug)]
pub(super) struct Room<R: Integrate> {
    /// The features of the current block.
    x: Vec<R>,
    work: Work<R>,
    pub(super) sums: Sums<R>,
}

/// Intermediate values of the current block; `scores` and `d` have rows of `K`.
#[derive(Debug)]
struct Work<R: Integrate> {
    quadrature: R::Quadrature,
    /// The columns of the logs.
    actions: Vec<u32>,
    columns: Vec<Logged>,
    p: Vec<f64>,
    /// The standardised scores.
    scores: Vec<R>,
    /// `dp/ds`.
    d: Vec<R>,
    /// `1/sqrt(x'Sx)`.
    inverse: Vec<R>,
    /// The scores of a record's eligible actions, and `dp/ds` for them.
    subset: (Vec<R>, Vec<R>),
}

/// The logged values of a record, and the norm of its context.
#[derive(Debug, Clone, Copy)]
struct Logged {
    q: f64,
    c: f64,
    norm: f64,
}

impl<'o, 'a, R: Integrate> Search<'o, 'a, R> {
    pub(crate) fn new(objective: &'o Objective<'a>) -> Self {
        let anchor = objective.anchor;
        let skip = objective.skips_zero_costs();
        let sigmas = || (0..anchor.features()).map(|f| anchor.scale().get(f));
        Search {
            objective,
            anchor: anchor.mean().iter().map(|&m| R::of(m)).collect(),
            precision: sigmas().flat_map(|s| std::iter::repeat_n(R::of(s.powi(-2)), anchor.actions())).collect(),
            ln_precision: sigmas().map(|s| -2.0 * s.ln()).sum(),
            weighs: objective.rounds.iter().flat_map(|logs| logs.cost()).map(|&c| !skip || c != 0.0).collect(),
            rooms: Mutex::new(Vec::new()),
        }
    }

    /// See [`Objective::evaluate`].
    pub(crate) fn evaluate(&self, x: &[R], batch: &[usize], gradient: &mut [R]) -> Result<f64> {
        let o = self.objective;
        let point = self.point(x);
        // Without a branch, which would be unpredictable: every position is written, and inactive ones are overwritten.
        let (mut places, mut count) = (vec![0; batch.len() + 1], 0);
        for &i in batch {
            places[count] = i;
            count += usize::from(self.weighs[i]);
        }
        let active: Vec<Record<'a>> = places[..count].iter().map(|&i| o.locate(i)).collect();
        // A mean is a sum over records; any other criterion needs all propensities before the first slope.
        let joint = o.mean_of().is_none().then(|| self.joint(&point, &active, batch.len())).transpose()?;
        let parts = active.len().div_ceil(PART).clamp(1, PARTS);
        let size = active.len().div_ceil(parts).max(1);
        let work = |(part, records): (usize, &[Record<'a>])| {
            let slopes = joint.as_ref().map(|(_, slopes)| &slopes[part * size..part * size + records.len()]);
            self.added(&point, records, slopes, batch.len())
        };
        let rooms: Vec<Room<R>> = if active.len() <= size {
            active.chunks(size).enumerate().map(work).collect()
        } else {
            active.par_chunks(size).enumerate().map(work).collect()
        };
        let mean = rooms.iter().map(|room| room.sums.value).sum::<f64>();
        let sums: Vec<&Sums<R>> = rooms.iter().map(|room| &room.sums).collect();
        let divergence = self.finish(x, &point, &sums, gradient);
        self.leave(rooms);
        Ok(joint.map_or(mean, |(value, _)| value) + divergence)
    }

    /// The contribution of some records to the value over `n` records and to its gradient.
    pub(super) fn added(
        &self,
        point: &Point<'_, R>,
        records: &[Record<'_>],
        slopes: Option<&[f64]>,
        n: usize,
    ) -> Room<R> {
        let mut room = self.room();
        for (b, block) in records.chunks(BLOCK).enumerate() {
            let slopes = slopes.map(|slopes| &slopes[b * BLOCK..b * BLOCK + block.len()]);
            self.block(point, block, slopes, n as f64, &mut room);
        }
        room
    }

    /// Returns workspaces for reuse.
    pub(super) fn leave(&self, rooms: Vec<Room<R>>) {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner).extend(rooms);
    }

    pub(super) fn point<'x>(&self, x: &'x [R]) -> Point<'x, R> {
        let o = self.objective;
        let (mean, logs) = x.split_at(self.anchor.len());
        // Clamped, because a search without a divergence may diverge.
        let limit = -R::SMALLEST_SCALE.ln();
        let log = |log: &R| R::of(log.to_f64().clamp(-limit, limit));
        let logs: Vec<R> = match (o.shape.scale(), o.learn_scale) {
            (_, true) => logs.iter().map(log).collect(),
            (Scale::Shared(sigma), false) => vec![R::of(sigma.ln())],
            (Scale::PerFeature(sigmas), false) => sigmas.iter().map(|s| R::of(s.ln())).collect(),
        };
        let sum = logs.iter().map(|log| log.to_f64()).sum::<f64>();
        let (spread, ln_sigmas) = match o.shape.scale() {
            Scale::Shared(_) => (Spread::Shared(logs[0].exp()), sum * o.shape.features() as f64),
            Scale::PerFeature(_) => (Spread::PerFeature(logs.iter().map(|&log| (log + log).exp()).collect()), sum),
        };
        Point { mean, spread, ln_sigmas }
    }

    /// Sums over no records.
    pub(super) fn sums(&self) -> Sums<R> {
        let shape = self.objective.shape;
        let scales = match shape.scale() {
            Scale::PerFeature(_) if self.objective.learn_scale => shape.features(),
            _ => 0,
        };
        Sums::new(shape.mean().len(), scales)
    }

    /// A workspace with empty sums.
    fn room(&self) -> Room<R> {
        let o = self.objective;
        let k = o.shape.actions();
        let old = self.rooms.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut room = old.unwrap_or_else(|| Room {
            x: Vec::new(),
            work: Work {
                quadrature: R::quadrature(k, o.tolerance),
                actions: Vec::new(),
                columns: Vec::new(),
                p: Vec::new(),
                scores: Vec::new(),
                d: Vec::new(),
                inverse: Vec::new(),
                subset: (Vec::new(), Vec::new()),
            },
            sums: self.sums(),
        });
        room.sums.clear();
        room
    }

    /// The value of a criterion that is not a mean, and its slope in each propensity.
    fn joint(&self, point: &Point<'_, R>, active: &[Record<'_>], n: usize) -> Result<(f64, Vec<f64>)> {
        let p: Vec<Vec<f64>> = active.par_chunks(BLOCK).map(|records| self.propensities(point, records)).collect();
        let column = |of: fn(&Record<'_>) -> f64| -> Vec<f64> { active.iter().map(of).collect() };
        let q = column(|(logs, row)| logs.propensity()[*row]);
        let c = column(|(logs, row)| logs.cost()[*row]);
        self.objective.joint(n, &p.concat(), &q, &c)
    }

    /// The probabilities of the actions of a block.
    pub(super) fn propensities(&self, point: &Point<'_, R>, records: &[Record<'_>]) -> Vec<f64> {
        let mut room = self.room();
        let Room { x, work, .. } = &mut room;
        let rows = rows(records);
        let block = Block::new(&rows, self.objective.shape.features(), x);
        self.scores(point, records, &rows, &block, work);
        let p = (0..records.len()).map(|i| self.propensity(records[i], i, work, false)).collect();
        self.leave(vec![room]);
        p
    }

    /// Adds a block's contribution to the value over `n` records and to the gradient. `slopes` are the criterion's
    /// slopes in the propensities, if they do not depend on each record alone.
    fn block(&self, point: &Point<'_, R>, records: &[Record<'_>], slopes: Option<&[f64]>, n: f64, room: &mut Room<R>) {
        let o = self.objective;
        let (k, share) = (o.shape.actions(), 1.0 - o.exploration);
        let Room { x, work, sums } = room;
        let rows = rows(records);
        let block = Block::new(&rows, o.shape.features(), x);
        self.scores(point, records, &rows, &block, work);
        self.gradients(records, work);
        for i in 0..records.len() {
            let p = work.p[i];
            let slope = match (slopes, o.mean_of()) {
                (None, Some(h)) => {
                    let Logged { q, c, .. } = work.columns[i];
                    let (h, slope) = h.h_and_slope(p, q, c);
                    sums.value += h / n;
                    slope / n
                }
                (slopes, _) => slopes.map_or(0.0, |slopes| slopes[i]),
            };
            // Some `h` have an infinite slope at `p = 0`. There the propensity has underflowed, and so has its
            // gradient.
            let slope = R::of(if p == 0.0 { 0.0 } else { slope * share });
            let d = &mut work.d[i * k..][..k];
            if o.learn_scale {
                let scores = &work.scores[i * k..][..k];
                let pull = -slope * lane_sum(d, scores, |d, s| d * s);
                match point.spread {
                    Spread::Shared(_) => sums.shrink += pull.to_f64(),
                    // d(ln sqrt(x'Sx))/d(ln sigma_f) = sigma_f^2 x_f^2/(x'Sx).
                    Spread::PerFeature(_) => {
                        add_squares(rows[i], pull * work.inverse[i] * work.inverse[i], &mut sums.squares);
                    }
                }
            }
            let factor = slope * work.inverse[i];
            d.iter_mut().for_each(|d| *d *= factor);
        }
        block.accumulate(&work.d, k, sums.begun, &mut sums.mean);
        sums.begun = true;
    }

    /// The standardised scores of a block.
    fn scores(
        &self,
        point: &Point<'_, R>,
        records: &[Record<'_>],
        rows: &[Row<'_>],
        block: &Block<'_, R>,
        work: &mut Work<R>,
    ) {
        let k = self.objective.shape.actions();
        // All values are gathered first, so the processor waits for many cache misses at once, not for one before each
        // row.
        work.actions.clear();
        work.actions.extend(records.iter().map(|&(logs, i)| logs.action()[i]));
        work.columns.clear();
        work.columns.extend(records.iter().map(|&(logs, i)| Logged {
            q: logs.propensity()[i],
            c: logs.cost()[i],
            norm: logs.contexts().norm(logs.row(i)),
        }));
        work.scores.resize(rows.len() * k, R::ZERO);
        block.scores(point.mean, k, &mut work.scores);
        work.inverse.clear();
        for ((columns, &row), s) in work.columns.iter().zip(rows).zip(work.scores.chunks_exact_mut(k)) {
            let deviation = match &point.spread {
                Spread::Shared(sigma) => *sigma * R::of(columns.norm),
                Spread::PerFeature(variances) => sum_of_squares(row, variances).sqrt(),
            };
            // A context of zeros has no scores and no deviation: all actions are equal for any posterior.
            let inverse = if deviation == R::ZERO { R::ZERO } else { R::ONE / deviation };
            s.iter_mut().for_each(|s| *s *= inverse);
            work.inverse.push(inverse);
        }
    }

    /// The probabilities of a block's actions with the exploration floor, and `dp/ds` without it.
    fn gradients(&self, records: &[Record<'_>], work: &mut Work<R>) {
        let k = self.objective.shape.actions();
        work.d.clear();
        work.d.resize(records.len() * k, R::ZERO);
        work.p.clear();
        if records.iter().any(|(logs, _)| logs.eligible().is_some()) {
            for (i, &record) in records.iter().enumerate() {
                let p = self.propensity(record, i, work, true);
                work.p.push(p);
            }
            return;
        }
        let mut p = [R::ZERO; BLOCK];
        R::gradients(&mut work.quadrature, k, &work.scores, &work.actions, &mut p, &mut work.d);
        work.p.extend(p[..records.len()].iter().map(|p| floored(p.to_f64(), self.objective.exploration, k)));
    }

    /// The probability of a record's action with the exploration floor and, if `gradient`, `dp/ds` without it.
    fn propensity(&self, (logs, row): Record<'_>, i: usize, work: &mut Work<R>, gradient: bool) -> f64 {
        let o = self.objective;
        let (k, action) = (o.shape.actions(), work.actions[i]);
        let scores = &work.scores[i * k..][..k];
        let quadrature = &mut work.quadrature;
        let Some(set) = logs.eligible().map(|e| e.get(row)) else {
            let p = match gradient {
                true => R::gradient(quadrature, scores, action as usize, &mut work.d[i * k..][..k]),
                false => R::propensity(quadrature, scores, action as usize),
            };
            return floored(p.to_f64(), o.exploration, k);
        };
        let (subset, d) = &mut work.subset;
        subset.clear();
        subset.extend(set.iter().map(|&a| scores[a as usize]));
        let place = set.binary_search(&action).expect("the logged action is eligible");
        let p = if gradient {
            d.resize(set.len(), R::ZERO);
            let p = R::gradient(quadrature, subset, place, d);
            for (&a, d) in set.iter().zip(d) {
                work.d[i * k + a as usize] = *d;
            }
            p
        } else {
            R::propensity(quadrature, subset, place)
        };
        floored(p.to_f64(), o.exploration, set.len())
    }

    /// Adds up the gradients of the parts and of `KL/(lambda N)`, and returns the value of the latter.
    pub(super) fn finish(&self, x: &[R], point: &Point<'_, R>, parts: &[&Sums<R>], gradient: &mut [R]) -> f64 {
        let o = self.objective;
        let (p, k) = (o.shape.features(), o.shape.actions());
        let weight = R::of(o.kl_weight);
        let (means, logs) = gradient.split_at_mut(self.anchor.len());
        let work = |(piece, gradient): (usize, &mut [R])| -> f64 {
            let range = piece * PIECE..piece * PIECE + gradient.len();
            let (x, anchor, precision) =
                (&x[range.clone()], &self.anchor[range.clone()], &self.precision[range.clone()]);
            // The means of a part without an active record are not set.
            let mut parts = parts.iter().filter(|sums| sums.begun);
            match parts.next() {
                None => gradient.fill(R::ZERO),
                Some(first) => gradient.copy_from_slice(&first.mean[range.clone()]),
            }
            for sums in parts {
                add(&sums.mean[range.clone()], gradient);
            }
            pull(weight, x, anchor, precision, gradient)
        };
        let distance: f64 = if means.len() <= 2 * PIECE {
            means.chunks_mut(PIECE).enumerate().map(work).sum()
        } else {
            means.par_chunks_mut(PIECE).enumerate().map(work).collect::<Vec<f64>>().into_iter().sum()
        };
        // The variance divided by the anchor's.
        let ratio = |f: usize| match &point.spread {
            Spread::Shared(sigma) => *sigma * *sigma * self.precision[f * k],
            Spread::PerFeature(variances) => variances[f] * self.precision[f * k],
        };
        let excess: f64 = k as f64 * (0..p).map(|f| ratio(f).to_f64() - 1.0).sum::<f64>();
        let actions = R::of(k as f64);
        if o.learn_scale {
            match &point.spread {
                Spread::Shared(_) => {
                    logs[0] = R::of(parts.iter().map(|sums| sums.shrink).sum::<f64>() + o.kl_weight * excess);
                }
                Spread::PerFeature(variances) => {
                    for (f, log) in logs.iter_mut().enumerate() {
                        let squares = parts.iter().map(|sums| sums.squares[f]).sum::<R>();
                        *log = variances[f] * squares + weight * actions * (ratio(f) - R::ONE);
                    }
                }
            }
        }
        if o.kl_weight == 0.0 {
            return 0.0;
        }
        let logarithms = 2.0 * point.ln_sigmas + self.ln_precision;
        o.kl_weight * 0.5 * (excess - k as f64 * logarithms + distance)
    }
}

fn rows<'a>(records: &[Record<'a>]) -> Vec<Row<'a>> {
    records.iter().map(|(logs, i)| logs.contexts().row(logs.row(*i))).collect()
}
