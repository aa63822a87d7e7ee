//! L-BFGS (Liu and Nocedal 1989) on the whole batch, by `argmin` with the line search of Moré and Thuente.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argmin::core::observers::{Observe, ObserverMode};
use argmin::core::{CostFunction, Executor, Gradient, IterState, KV, State, TerminationReason, TerminationStatus};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use serde::{Deserialize, Serialize};

use super::Trace;
use crate::error::{Error, Result, check_setting};

/// The settings of L-BFGS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lbfgs {
    /// The largest number of iterations: at least 1.
    pub iterations: usize,
    /// The number of pairs of steps and gradients that are stored: at least 1.
    pub memory: usize,
    /// Stops when the norm of the gradient is below this: at least 0.
    pub tolerance: f64,
}

impl Default for Lbfgs {
    fn default() -> Self {
        Lbfgs { iterations: 200, memory: 10, tolerance: 1e-8 }
    }
}

impl Lbfgs {
    /// Checks the settings. The error names the allowed range.
    pub fn check(&self) -> Result<()> {
        for (name, count) in [("iterations", self.iterations), ("the memory", self.memory)] {
            if count == 0 {
                return Err(Error::setting(name, "at least 1", count));
            }
        }
        check_setting("the tolerance", self.tolerance, self.tolerance >= 0.0, "at least 0")
    }

    /// Minimises `f(x, gradient) -> value`; `f` overwrites the gradient.
    ///
    /// Near the rounding error of the objective, a line search may find no further descent. That is not an error: the
    /// result is the best point found.
    pub fn minimise(
        &self,
        start: Vec<f64>,
        f: impl FnMut(&[f64], &mut [f64]) -> f64 + Send,
    ) -> Result<(Vec<f64>, Trace)> {
        self.check()?;
        let mut problem = Evaluations { f, last: None, best: None, count: 0, idle: 0 };
        let first = problem.at(&start).value;
        if !first.is_finite() {
            return Err(Error::Optimiser(format!("the objective is {first} at the start")));
        }
        let problem = Shared(Arc::new(Mutex::new(problem)));
        let objective = Iterations(Arc::new(Mutex::new(Vec::new())));
        let solver = LBFGS::new(MoreThuenteLineSearch::new(), self.memory)
            .with_tolerance_grad(self.tolerance)
            .map_err(|e| Error::Optimiser(e.to_string()))?;
        let run = Executor::new(problem.clone(), solver)
            .configure(|state| state.param(start).max_iters(self.iterations as u64))
            .add_observer(objective.clone(), ObserverMode::Always)
            .run();
        let converged = run.as_ref().is_ok_and(|done| {
            let status = done.state().get_termination_status();
            matches!(
                status,
                TerminationStatus::Terminated(
                    TerminationReason::SolverConverged | TerminationReason::TargetCostReached
                )
            )
        });
        let evaluations = lock(&problem.0).count;
        let objective = lock(&objective.0).clone();
        let best = lock(&problem.0).best.take().expect("the start was evaluated");
        Ok((best.x, Trace { objective, evaluations, converged }))
    }
}

/// One evaluation of the objective.
#[derive(Clone)]
struct Point {
    x: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

/// `argmin` asks for value and gradient one after the other, but the closure returns both at once, so the last point is
/// stored.
struct Evaluations<F> {
    f: F,
    last: Option<Point>,
    best: Option<Point>,
    count: usize,
    /// The number of evaluations since the last improvement.
    idle: usize,
}

/// A line search that has found no better point after this many trials will not find one: each trial shrinks or grows
/// the step by a factor, and forty halvings are beyond the precision of the objective. (The line search of `argmin` has
/// no limit.)
const PATIENCE: usize = 40;

impl<F: FnMut(&[f64], &mut [f64]) -> f64> Evaluations<F> {
    fn at(&mut self, x: &[f64]) -> &Point {
        if self.last.as_ref().is_none_or(|last| last.x != x) {
            let mut gradient = vec![0.0; x.len()];
            let value = (self.f)(x, &mut gradient);
            self.count += 1;
            self.idle += 1;
            let point = Point { x: x.to_vec(), value, gradient };
            if self.best.as_ref().is_none_or(|best| value < best.value) {
                self.best = Some(point.clone());
                self.idle = 0;
            }
            self.last = Some(point);
        }
        self.last.as_ref().expect("just evaluated")
    }
}

struct Shared<F>(Arc<Mutex<Evaluations<F>>>);

impl<F> Clone for Shared<F> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type ArgminResult<T> = std::result::Result<T, argmin::core::Error>;

impl<F: FnMut(&[f64], &mut [f64]) -> f64> CostFunction for Shared<F> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, x: &Vec<f64>) -> ArgminResult<f64> {
        let mut problem = lock(&self.0);
        let value = problem.at(x).value;
        if problem.idle > PATIENCE {
            return Err(argmin::core::Error::msg("no descent"));
        }
        Ok(value)
    }
}

impl<F: FnMut(&[f64], &mut [f64]) -> f64> Gradient for Shared<F> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, x: &Vec<f64>) -> ArgminResult<Vec<f64>> {
        Ok(lock(&self.0).at(x).gradient.clone())
    }
}

#[derive(Clone)]
struct Iterations(Arc<Mutex<Vec<f64>>>);

impl Observe<IterState<Vec<f64>, Vec<f64>, (), (), (), f64>> for Iterations {
    fn observe_iter(&mut self, state: &IterState<Vec<f64>, Vec<f64>, (), (), (), f64>, _: &KV) -> ArgminResult<()> {
        lock(&self.0).push(state.get_cost());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_the_bottom_of_rosenbrock_s_valley() {
        let (x, trace) = Lbfgs::default()
            .minimise(vec![-1.2, 1.0], |x, g| {
                let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
                g[0] = -2.0 * a - 400.0 * x[0] * b;
                g[1] = 200.0 * b;
                a * a + 100.0 * b * b
            })
            .unwrap();
        assert!((x[0] - 1.0).abs() < 1e-7 && (x[1] - 1.0).abs() < 1e-7, "{x:?}");
        assert!(trace.converged && trace.objective.is_sorted_by(|a, b| a >= b));
        assert!(trace.evaluations >= trace.objective.len());
    }

    #[test]
    fn a_flat_objective_and_a_lying_gradient_end_without_an_error() {
        let (x, _) = Lbfgs::default()
            .minimise(vec![3.0], |_, g| {
                g[0] = 0.0;
                1.0
            })
            .unwrap();
        assert_eq!(x, vec![3.0]);
        let (_, trace) = Lbfgs::default()
            .minimise(vec![3.0], |x, g| {
                g[0] = -1.0;
                x[0] * x[0]
            })
            .unwrap();
        assert!(!trace.converged);
    }

    #[test]
    fn settings_outside_their_range_are_refused() {
        let text = |l: Lbfgs| l.check().unwrap_err().to_string();
        assert_eq!(text(Lbfgs { memory: 0, ..Lbfgs::default() }), "the memory should be at least 1, but is 0");
        assert_eq!(text(Lbfgs { iterations: 0, ..Lbfgs::default() }), "iterations should be at least 1, but is 0");
        assert_eq!(
            text(Lbfgs { tolerance: -1.0, ..Lbfgs::default() }),
            "the tolerance should be at least 0, but is -1"
        );
        let nan = Lbfgs::default().minimise(vec![0.0], |_, _| f64::NAN);
        assert_eq!(nan.unwrap_err().to_string(), "the optimiser stopped: the objective is NaN at the start");
    }
}
