//! A reward model with many sparse weights: ridge regression by conjugate gradients, without a matrix.
//!
//! Each iteration is one pass over the records, which costs what is not 0 in them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::error::Result;
use crate::features::{FeatureMap, Joint};
use crate::logs::Logs;

/// The precisions of the prior that are tried, in units of the mean square of the features: from strong to weak, each from
/// the weights of the one before. Records that were not learned from choose.
const PRIORS: [f64; 4] = [300.0, 60.0, 12.0, 2.4];

/// The largest number of iterations at one prior.
const ITERATIONS: usize = 12;

/// A solution is good enough if its residual is below this share of the right-hand side.
const SETTLED: f64 = 1e-3;

/// The share of records, the newest ones, that choose the prior.
const JUDGES: f64 = 0.1;

/// The number of parts that are summed up separately, and then in order: the bits do not depend on the threads.
const PARTS: usize = 4;

/// The number of records whose contexts are mapped at once.
const CHUNK: usize = 8192;

/// What is fitted.
pub(super) struct Sparse {
    pub(super) weights: Vec<f64>,
    pub(super) offset: f64,
    /// `sum phi_f^2`, per weight.
    pub(super) squares: Vec<f64>,
    /// The precision of the prior, in units of the noise's precision.
    pub(super) precision: f64,
    pub(super) noise: f64,
    /// The number of passes over the records.
    pub(super) passes: usize,
}

/// The features that explain the reward of a record, one per weight.
#[derive(Debug, Clone, Copy)]
pub(super) enum Explains<'a> {
    /// The joint features of its chosen candidate.
    Joint(&'a Joint),
    /// The features of its context, with weights of its action: feature `f` of action `a` is at `a p + f`.
    PerAction { actions: usize, features: usize },
}

impl Explains<'_> {
    fn output(self) -> usize {
        match self {
            Explains::Joint(joint) => joint.output(),
            Explains::PerAction { actions, features } => actions * features,
        }
    }
}

impl Sparse {
    pub(super) fn fit(features: &FeatureMap, explains: Explains<'_>, rounds: &[Arc<Logs>]) -> Result<Self> {
        let records = Records { features, explains, rounds, passes: AtomicUsize::new(0) };
        let all = 0..records.len();
        let rewards: f64 = rounds.iter().flat_map(|logs| logs.cost()).map(|c| -c).sum();
        let offset = rewards / all.end.max(1) as f64;
        let split = all.end - (JUDGES * all.end as f64) as usize;
        let older = Sums::of(&records, 0..split, offset)?;
        let (mut weights, mut best) = (vec![0.0; explains.output()], None);
        for prior in PRIORS {
            weights = older.solve(&records, 0..split, prior * older.usual(), weights)?;
            let errors = if split < all.end { records.errors(split..all.end, &weights, offset)? } else { 0.0 };
            if best.as_ref().is_some_and(|(least, _, _)| errors >= *least) {
                break;
            }
            best = Some((errors, prior, weights.clone()));
        }
        let (_, prior, weights) = best.expect("a prior was tried");
        let sums = Sums::of(&records, all.clone(), offset)?;
        let d = prior * sums.usual();
        let weights = sums.solve(&records, all.clone(), d, weights)?;
        // As for exact regressions, the noise is bounded from below.
        let noise = records.errors(all.clone(), &weights, offset)? / all.end.max(1) as f64;
        let noise = noise.max(0.1 * offset * (1.0 - offset)).max(1e-6);
        let passes = records.passes.into_inner();
        Ok(Sparse { weights, offset, squares: sums.squares, precision: d, noise, passes })
    }
}

/// The sums over some records that conjugate gradients start from.
struct Sums {
    /// `sum phi_f^2`.
    squares: Vec<f64>,
    /// `sum phi_f (r - offset)`.
    products: Vec<f64>,
    /// The number of features of all records that are not 0.
    filled: f64,
}

impl Sums {
    fn of(records: &Records<'_>, range: Range<usize>, offset: f64) -> Result<Self> {
        let p = records.explains.output();
        let (mut sums, filled) = records.sum(range, 2 * p, |entries, reward, sums| {
            for &(f, v) in entries {
                sums[f as usize] += v * v;
                sums[p + f as usize] += v * (reward - offset);
            }
            entries.len() as f64
        })?;
        let products = sums.split_off(p);
        Ok(Sums { squares: sums, products, filled })
    }

    /// The mean square of a feature over the records that have it.
    fn usual(&self) -> f64 {
        let sum: f64 = self.squares.iter().sum();
        if sum > 0.0 { sum / self.filled } else { 1.0 }
    }

    /// Solves `(sum phi phi' + d I) w = sum phi (r - offset)` from a start on, with the diagonal as preconditioner.
    fn solve(&self, records: &Records<'_>, range: Range<usize>, d: f64, start: Vec<f64>) -> Result<Vec<f64>> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let times = |x: &[f64]| -> Result<Vec<f64>> {
            let mut out = records.times(range.clone(), x)?;
            out.iter_mut().zip(x).for_each(|(out, x)| *out += d * x);
            Ok(out)
        };
        let mut w = start;
        let product = times(&w)?;
        let mut left: Vec<f64> = self.products.iter().zip(product).map(|(b, p)| b - p).collect();
        let scaled = |left: &[f64]| -> Vec<f64> { left.iter().zip(&self.squares).map(|(r, s)| r / (s + d)).collect() };
        let mut z = scaled(&left);
        let mut direction = z.clone();
        let (mut size, goal) = (dot(&left, &z), SETTLED * SETTLED * dot(&self.products, &scaled(&self.products)));
        for _ in 0..ITERATIONS {
            if size <= goal || size.is_nan() {
                break;
            }
            let product = times(&direction)?;
            let step = size / dot(&direction, &product);
            w.iter_mut().zip(&direction).for_each(|(w, d)| *w += step * d);
            left.iter_mut().zip(&product).for_each(|(left, p)| *left -= step * p);
            z = scaled(&left);
            let next = dot(&left, &z);
            direction.iter_mut().zip(&z).for_each(|(d, z)| *d = z + next / size * *d);
            size = next;
        }
        Ok(w)
    }
}

/// The records of some rounds: the features that explain their rewards, and the rewards.
struct Records<'a> {
    features: &'a FeatureMap,
    explains: Explains<'a>,
    rounds: &'a [Arc<Logs>],
    passes: AtomicUsize,
}

impl Records<'_> {
    fn len(&self) -> usize {
        self.rounds.iter().map(|logs| logs.len()).sum()
    }

    /// `sum phi <phi, x>`.
    fn times(&self, range: Range<usize>, x: &[f64]) -> Result<Vec<f64>> {
        let add = |entries: &[(u32, f64)], _, sums: &mut [f64]| {
            let score: f64 = entries.iter().map(|&(f, v)| x[f as usize] * v).sum();
            entries.iter().for_each(|&(f, v)| sums[f as usize] += score * v);
            0.0
        };
        Ok(self.sum(range, x.len(), add)?.0)
    }

    /// The sum of squared errors of predictions.
    fn errors(&self, range: Range<usize>, weights: &[f64], offset: f64) -> Result<f64> {
        let error = |entries: &[(u32, f64)], reward: f64, _: &mut [f64]| {
            let score: f64 = entries.iter().map(|&(f, v)| weights[f as usize] * v).sum();
            ((offset + score).clamp(0.0, 1.0) - reward).powi(2)
        };
        Ok(self.sum(range, 0, error)?.1)
    }

    /// Sums of `size` numbers over the records of a range, and the sum of what `add` returns.
    fn sum(
        &self,
        range: Range<usize>,
        size: usize,
        add: impl Fn(&[(u32, f64)], f64, &mut [f64]) -> f64 + Sync,
    ) -> Result<(Vec<f64>, f64)> {
        self.passes.fetch_add(1, Ordering::Relaxed);
        let length = range.len().div_ceil(PARTS).max(1);
        let starts: Vec<usize> = range.clone().step_by(length).collect();
        let part = |start: usize| {
            let (mut sums, mut total) = (vec![0.0; size], 0.0);
            self.each(start..(start + length).min(range.end), |entries, reward| {
                total += add(entries, reward, &mut sums);
            })?;
            Ok((sums, total))
        };
        let parts: Vec<Result<(Vec<f64>, f64)>> = starts.into_par_iter().map(part).collect();
        let (mut sums, mut total) = (vec![0.0; size], 0.0);
        for part in parts {
            let (more, rest) = part?;
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            total += rest;
        }
        Ok((sums, total))
    }

    /// Calls `visit(entries, reward)` for the records of a range, in order.
    fn each(&self, range: Range<usize>, mut visit: impl FnMut(&[(u32, f64)], f64)) -> Result<()> {
        let (mut room, mut entries) = (Vec::new(), Vec::new());
        let mut before = 0;
        for logs in self.rounds {
            let from = range.start.clamp(before, before + logs.len()) - before;
            let to = range.end.clamp(before, before + logs.len()) - before;
            before += logs.len();
            for start in (from..to).step_by(CHUNK) {
                let part = logs.slice(start..(start + CHUNK).min(to));
                let x = self.features.apply(part.contexts())?;
                for (i, (&a, &c)) in part.action().iter().zip(part.cost()).enumerate() {
                    entries.clear();
                    let mut add = |f: usize, v: f64| entries.push((f as u32, v));
                    match self.explains {
                        Explains::Joint(joint) => {
                            let candidate = part.eligible().and_then(|eligible| eligible.candidate(i, a as usize));
                            let candidate = candidate.expect("candidates have features");
                            joint.at(x.row(i), &mut room).visit(candidate, add);
                        }
                        Explains::PerAction { features, .. } => x.row(i).for_each(|f, v| {
                            if v != 0.0 {
                                add(a as usize * features + f, v);
                            }
                        }),
                    }
                    visit(&entries, -c);
                }
            }
        }
        Ok(())
    }
}
