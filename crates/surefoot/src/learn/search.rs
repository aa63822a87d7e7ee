//! The search: minimises an objective, unless the observer stops it.

use std::sync::{Mutex, PoisonError};

use rand::Rng;

use super::Learner;
use crate::error::{Error, Result};
use crate::math::quadrature::Integrate;
use crate::objective::{Objective, Search};
use crate::observer::Observer;
use crate::optim::{Optimiser, Trace};

/// The observer, and the share of a round's searches that is done before the current one.
pub(super) struct Progress<'w> {
    pub(super) observer: &'w mut dyn Observer,
    pub(super) done: f64,
    pub(super) searches: f64,
    pub(super) stopped: bool,
}

impl Progress<'_> {
    /// The value at a step of the current search. It is NaN once the observer asked to stop, which ends every search.
    pub(super) fn ask(&mut self, step: usize, total: usize, value: impl FnOnce() -> f64) -> f64 {
        let share = (step as f64 / total as f64).min(1.0);
        self.stopped |= self.observer.searching(self.done + share / self.searches).is_break();
        if self.stopped { f64::NAN } else { value() }
    }
}

impl Learner {
    /// Minimises the objective from `x` on. Adam computes in `R`, L-BFGS always in `f64`.
    pub(super) fn search<R: Integrate>(
        &self,
        objective: &Objective<'_>,
        x: &[f64],
        rng: &mut impl Rng,
        progress: &mut Progress<'_>,
    ) -> Result<(Vec<f64>, Trace)> {
        let records = objective.records();
        // The first error of a custom estimator.
        let failure = Mutex::new(None);
        let value = |value: Result<f64>| {
            value.unwrap_or_else(|e| {
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                f64::NAN
            })
        };
        let mut steps = 0;
        let found = match &self.optimiser {
            Optimiser::Adam(adam) => {
                let total = adam.epochs * records.div_ceil(adam.batch_size.max(1));
                let search = Search::<R>::new(objective);
                let start: Vec<R> = x.iter().map(|&x| R::of(x)).collect();
                let found = adam.search(start.clone(), records, rng, |x, batch, g| {
                    steps += 1;
                    progress.ask(steps, total, || value(search.evaluate(x, batch, g)))
                });
                // The displacement is added to the `f64` start, so that parameters that do not move are not rounded to
                // `R`.
                found.map(|(end, trace)| {
                    let way = end.iter().zip(&start).map(|(end, start)| end.to_f64() - start.to_f64());
                    (x.iter().zip(way).map(|(x, way)| x + way).collect(), trace)
                })
            }
            Optimiser::Lbfgs(lbfgs) => {
                let search = Search::<f64>::new(objective);
                lbfgs.minimise(x.to_vec(), |x, g| {
                    steps += 1;
                    progress.ask(steps, lbfgs.iterations, || value(search.pass(x, g)))
                })
            }
        };
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(failure) => Err(failure),
            None if progress.stopped => Err(Error::Stopped),
            None => found,
        }
    }
}
