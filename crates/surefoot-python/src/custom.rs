//! Estimators and policies written by users.

use std::sync::Arc;

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::intern;
use pyo3::prelude::*;
use surefoot::estimator::CustomEstimator;
use surefoot::learn::Contender;
use surefoot::logs::Eligible;
use surefoot::{Contexts, Logs, Policy, RewardRange};

use crate::arrays::{matrix, to_python};
use crate::failure::{Failure, Result, raised, setting};

/// A callable `h(p, q, c)`, and optionally its derivative in `p`.
#[derive(Debug)]
pub(crate) struct PyEstimator {
    name: String,
    h: Py<PyAny>,
    slope: Option<Py<PyAny>>,
}

/// The relative step of the finite difference if no derivative is given. It is optimal for a function that is accurate
/// to 16 digits and smooth on the scale of `p`.
const STEP: f64 = 1e-5;

impl PyEstimator {
    /// Checks the estimator at some records, including edge cases.
    pub(crate) fn new(py: Python<'_>, h: &Py<PyAny>, slope: Option<&Py<PyAny>>) -> Result<Self> {
        let bound = h.bind(py);
        if !bound.is_callable() {
            return Err(setting("an estimator", "a callable h(p, q, c)", bound.repr()?));
        }
        let name = bound.getattr("__name__").map_or_else(|_| Ok("h".into()), |name| name.extract())?;
        let estimator = PyEstimator { name, h: h.clone_ref(py), slope: slope.map(|slope| slope.clone_ref(py)) };
        estimator.check(py)?;
        Ok(estimator)
    }

    fn call(&self, py: Python<'_>, h: &Py<PyAny>, columns: [&[f64]; 3]) -> Result<Vec<f64>> {
        let arrays = columns.map(|column| PyArray1::from_slice(py, column));
        let [p, q, c] = arrays;
        let answer = h.bind(py).call1((p, q, c))?;
        let answer = py.import(intern!(py, "numpy"))?.call_method1("asarray", (answer, "float64"))?;
        let shape: Vec<usize> = answer.getattr("shape")?.extract()?;
        if shape != [columns[0].len()] {
            let allowed = format!("[{}], a number for each record", columns[0].len());
            return Err(setting(&format!("the shape of what {} returns", self.name), &allowed, format!("{shape:?}")));
        }
        let answer: PyReadonlyArray1<'_, f64> = answer.extract()?;
        Ok(answer.as_array().iter().copied().collect())
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `h` of each record; fails unless all are finite.
    pub(crate) fn h(&self, py: Python<'_>, p: &[f64], q: &[f64], c: &[f64]) -> Result<Vec<f64>> {
        let h = self.call(py, &self.h, [p, q, c])?;
        match h.iter().position(|h| !h.is_finite()) {
            Some(row) => Err(Failure::Core(surefoot::Error::Value {
                row,
                column: format!("{} at p = {}, q = {}, c = {}", self.name, p[row], q[row], c[row]),
                allowed: "finite".into(),
                value: h[row].to_string(),
            })),
            None => Ok(h),
        }
    }

    fn check(&self, py: Python<'_>) -> Result<()> {
        let (mut p, mut q, mut c) = (Vec::new(), Vec::new(), Vec::new());
        for &probability in &[0.0, 0.03, 0.5, 1.0] {
            for &propensity in &[1e-3, 0.2, 1.0] {
                for &cost in &[-1.0, -0.3, 0.0] {
                    p.push(probability);
                    q.push(propensity);
                    c.push(cost);
                }
            }
        }
        let h = self.h(py, &p, &q, &c)?;
        let at = |i: usize| format!("{} at p = {}, q = {}, c = {}", self.name, p[i], q[i], c[i]);
        if let Some(i) = (0..h.len()).find(|&i| c[i] == 0.0 && h[i] != 0.0) {
            return Err(setting(&at(i), "0, as the cost is", h[i]));
        }
        // Each record must be handled independently: a slice of the input gives the same slice of the output.
        let (from, to) = (7, 19);
        let part = self.h(py, &p[from..to], &q[from..to], &c[from..to])?;
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * (1.0 + a.abs());
        if let Some(i) = (from..to).find(|&i| !close(h[i], part[i - from])) {
            return Err(setting(&at(i), "a function of that record alone", format!("{} among others", part[i - from])));
        }
        if self.slope.is_some() {
            let given = self.slopes(py, &p, &q, &c)?;
            let found = self.differences(py, &p, &q, &c)?;
            let wrong = |i: &usize| p[*i] > 0.0 && (given[*i] - found[*i]).abs() > 1e-3 * (1.0 + found[*i].abs());
            if let Some(i) = (0..h.len()).find(wrong) {
                let name = format!("the derivative of {}", at(i));
                return Err(setting(&name, &format!("{}, as its differences say", found[i]), given[i]));
            }
        }
        Ok(())
    }

    /// Whether it never rates a policy better than importance weighting does: `p c / q <= h <= 0`.
    pub(crate) fn pessimistic(&self, py: Python<'_>, p: &[f64], q: &[f64], c: &[f64]) -> Result<bool> {
        let h = self.h(py, p, q, c)?;
        Ok((0..h.len()).all(|i| h[i] <= 0.0 && h[i] >= p[i] * c[i] / q[i] * (1.0 + 1e-9)))
    }

    fn slopes(&self, py: Python<'_>, p: &[f64], q: &[f64], c: &[f64]) -> Result<Vec<f64>> {
        match &self.slope {
            Some(slope) => self.call(py, slope, [p, q, c]),
            None => self.differences(py, p, q, c),
        }
    }

    fn differences(&self, py: Python<'_>, p: &[f64], q: &[f64], c: &[f64]) -> Result<Vec<f64>> {
        // Within [0, 1], the domain of `p`.
        let moved = |by: f64| p.iter().map(|p| (p * (1.0 + by)).min(1.0)).collect::<Vec<f64>>();
        let (above, below) = (moved(STEP), moved(-STEP));
        let (high, low) = (self.h(py, &above, q, c)?, self.h(py, &below, q, c)?);
        let slope = |i: usize| if p[i] > 0.0 { (high[i] - low[i]) / (above[i] - below[i]) } else { 0.0 };
        Ok((0..p.len()).map(slope).collect())
    }
}

impl CustomEstimator for PyEstimator {
    fn name(&self) -> &str {
        &self.name
    }

    fn h_and_slope(&self, p: &[f64], q: &[f64], c: &[f64]) -> surefoot::Result<(Vec<f64>, Vec<f64>)> {
        let both = Python::attach(|py| Ok((self.h(py, p, q, c)?, self.slopes(py, p, q, c)?)));
        both.map_err(|failure: Failure| match failure {
            Failure::Core(error) => error,
            other => raised(other.into()),
        })
    }
}

/// Checks an estimator ``h(p, q, c)``. Returns whether it is pessimistic, :math:`p c/q \le h \le 0`, on a grid of
/// records.
///
/// ``slope`` is its derivative in ``p``. See :func:`surefoot.check_estimator`.
///
///     >>> from surefoot import _surefoot
///     >>> _surefoot.check_estimator(lambda p, q, c: p * c / q)
///     True
#[pyfunction]
#[pyo3(signature = (h, slope = None))]
pub(crate) fn check_estimator(py: Python<'_>, h: Py<PyAny>, slope: Option<Py<PyAny>>) -> Result<bool> {
    let estimator = PyEstimator::new(py, &h, slope.as_ref())?;
    let grid = |from: i32, to: i32| (from..=to).map(move |i| f64::from(i) / f64::from(to));
    let (mut p, mut q, mut c) = (Vec::new(), Vec::new(), Vec::new());
    for probability in grid(0, 20) {
        for propensity in grid(1, 20).chain([1e-4, 1e-3, 1e-2]) {
            for cost in grid(0, 4) {
                p.push(probability);
                q.push(propensity);
                c.push(-cost);
            }
        }
    }
    estimator.pessimistic(py, &p, &q, &c)
}

/// A policy written by a user.
#[derive(Debug)]
pub(crate) struct CustomPolicy {
    pub(crate) distribution: Py<PyAny>,
    pub(crate) actions: usize,
}

/// The tolerance for the sum of a distribution.
const SUM: f64 = 1e-6;

/// Checks that rows of `k` numbers are probabilities, sum to 1, and are 0 for actions that are not eligible.
pub(crate) fn check_distribution(p: &[f64], k: usize, eligible: Option<&Eligible>) -> Result<()> {
    for (row, p) in p.chunks_exact(k).enumerate() {
        let wrong = |column: String, allowed: &str, value: f64| {
            let (allowed, value) = (allowed.to_owned(), value.to_string());
            Err(Failure::Core(surefoot::Error::Value { row, column, allowed, value }))
        };
        if let Some(a) = p.iter().position(|p| !(0.0..=1.0 + SUM).contains(p)) {
            return wrong(format!("the probability of action {a}"), "in [0, 1]", p[a]);
        }
        let sum: f64 = p.iter().sum();
        if (sum - 1.0).abs() > SUM {
            return wrong("the sum of the probabilities".into(), "1", sum);
        }
        let set = eligible.map(|sets| sets.get(row));
        let outside = |a: &usize| p[*a] > 0.0 && set.is_some_and(|set| set.binary_search(&(*a as u32)).is_err());
        if let Some(a) = (0..k).find(outside) {
            return wrong(format!("the probability of action {a}, which is not eligible,"), "0", p[a]);
        }
    }
    Ok(())
}

impl CustomPolicy {
    fn ask(&self, py: Python<'_>, contexts: &Contexts, eligible: Option<&Eligible>) -> Result<Vec<f64>> {
        let (n, k) = (contexts.len(), self.actions);
        let x = to_python(py, contexts)?;
        let answer = match eligible {
            None => self.distribution.bind(py).call1((x,))?,
            Some(sets) => {
                let mut mask = vec![false; n * k];
                for row in 0..n {
                    sets.get(row).iter().for_each(|&a| mask[row * k + a as usize] = true);
                }
                self.distribution.bind(py).call1((x, matrix(py, mask, k)?))?
            }
        };
        let array = py.import(intern!(py, "numpy"))?.call_method1("ascontiguousarray", (answer, "float64"))?;
        let shape: Vec<usize> = array.getattr("shape")?.extract()?;
        if shape != [n, k] {
            return Err(setting("the shape of what a policy returns", &format!("[{n}, {k}]"), format!("{shape:?}")));
        }
        let array = array.cast_into::<PyArray2<f64>>().map_err(PyErr::from)?;
        let p = array.readonly().as_slice().map_err(PyErr::from)?.to_vec();
        check_distribution(&p, k, eligible)?;
        Ok(p)
    }
}

impl Policy for CustomPolicy {
    fn actions(&self) -> usize {
        self.actions
    }

    fn distribution(&self, contexts: &Contexts, eligible: Option<&Eligible>) -> surefoot::Result<Vec<f64>> {
        Python::attach(|py| match self.ask(py, contexts, eligible) {
            Err(Failure::Core(error)) => Err(error),
            Err(error) => Err(raised(error.into())),
            Ok(p) => Ok(p),
        })
    }
}

/// A learner of the user's own: `fit(parts, action, pscore, reward)` returns a function of contexts. The contexts come as one
/// matrix per round.
#[derive(Debug)]
pub(crate) struct PyContender {
    pub(crate) name: String,
    pub(crate) fit: Py<PyAny>,
    pub(crate) range: [f64; 2],
    pub(crate) actions: usize,
}

impl PyContender {
    fn call(&self, py: Python<'_>, rounds: &[Arc<Logs>]) -> Result<Py<PyAny>> {
        let x = rounds.iter().map(|logs| to_python(py, logs.contexts())).collect::<Result<Vec<_>>>()?;
        let range = RewardRange::new(self.range[0], self.range[1])?;
        let action: Vec<i64> = rounds.iter().flat_map(|logs| logs.action()).map(|&a| i64::from(a)).collect();
        let pscore: Vec<f64> = rounds.iter().flat_map(|logs| logs.propensity()).copied().collect();
        let reward: Vec<f64> = rounds.iter().flat_map(|logs| logs.cost()).map(|&c| range.reward(c)).collect();
        let arrays = (PyArray1::from_vec(py, action), PyArray1::from_vec(py, pscore), PyArray1::from_vec(py, reward));
        Ok(self.fit.bind(py).call1((x, arrays.0, arrays.1, arrays.2))?.unbind())
    }
}

impl Contender for PyContender {
    fn name(&self) -> &str {
        &self.name
    }

    fn fit(&self, rounds: &[Arc<Logs>]) -> surefoot::Result<Arc<dyn Policy>> {
        Python::attach(|py| match self.call(py, rounds) {
            Err(Failure::Core(error)) => Err(error),
            Err(error) => Err(raised(error.into())),
            Ok(distribution) => Ok(Arc::new(CustomPolicy { distribution, actions: self.actions }) as Arc<dyn Policy>),
        })
    }
}
