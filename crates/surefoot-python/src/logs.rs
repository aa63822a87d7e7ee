//! Rounds of logs.

use std::path::PathBuf;

use numpy::PyArray1;
use pyo3::prelude::*;
use surefoot::{Logs, RewardRange};
use surefoot_data::{read_round, write_round};

use crate::arrays::{Hold, actions, contexts, eligible, numbers, slice_of, to_python};
use crate::failure::Result;
use crate::policy::PyPolicy;

/// The logged interactions of one policy.
#[pyclass(frozen, name = "Logs", module = "surefoot")]
#[derive(Debug, Clone)]
pub(crate) struct PyLogs {
    pub(crate) logs: Logs,
    pub(crate) rewards: RewardRange,
    range: (f64, f64),
}

impl PyLogs {
    pub(crate) fn new(logs: Logs, range: (f64, f64)) -> Result<Self> {
        Ok(PyLogs { logs, rewards: RewardRange::new(range.0, range.1)?, range })
    }
}

#[pymethods]
#[expect(non_snake_case, reason = "X, as scikit-learn calls it")]
impl PyLogs {
    #[new]
    #[pyo3(signature = (X, action, pscore, reward, *, n_actions = None, reward_range = (0.0, 1.0), eligible = None, version = ""))]
    #[expect(clippy::too_many_arguments, reason = "each is a column")]
    fn from_arrays(
        X: &Bound<'_, PyAny>,
        action: &Bound<'_, PyAny>,
        pscore: &Bound<'_, PyAny>,
        reward: &Bound<'_, PyAny>,
        n_actions: Option<usize>,
        reward_range: (f64, f64),
        eligible: Option<&Bound<'_, PyAny>>,
        version: &str,
    ) -> Result<Self> {
        let rewards = RewardRange::new(reward_range.0, reward_range.1)?;
        let (x, action) = (contexts(X, Hold::On)?, actions(action)?);
        let k = n_actions.unwrap_or_else(|| action.iter().max().map_or(2, |&a| (a as usize + 1).max(2)));
        let pscore = slice_of(&numbers(pscore, "pscore")?)?.to_vec();
        let cost = rewards.costs(slice_of(&numbers(reward, "reward")?)?)?;
        let mut logs = Logs::new(k, x, action, pscore, cost)?;
        if let Some(sets) = self::eligible(eligible)? {
            logs = logs.with_eligible(sets)?;
        }
        Ok(PyLogs { logs: logs.with_policy_version(version), rewards, range: reward_range })
    }

    fn __len__(&self) -> usize {
        self.logs.len()
    }

    #[getter]
    fn n_actions(&self) -> usize {
        self.logs.actions()
    }

    #[getter]
    fn n_features(&self) -> usize {
        self.logs.contexts().features()
    }

    #[getter]
    fn version(&self) -> &str {
        self.logs.policy_version()
    }

    #[getter]
    pub(crate) fn reward_range(&self) -> (f64, f64) {
        self.range
    }

    #[getter]
    fn X<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        to_python(py, self.logs.contexts())
    }

    #[getter]
    fn action<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        PyArray1::from_slice(py, self.logs.action())
    }

    #[getter]
    fn pscore<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.logs.propensity())
    }

    #[getter]
    fn cost<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.logs.cost())
    }

    #[getter]
    fn reward<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_iter(py, self.logs.cost().iter().map(|&c| self.rewards.reward(c)))
    }

    #[getter]
    fn eligible(&self) -> Option<Vec<Vec<u32>>> {
        let sets = self.logs.eligible()?;
        Some((0..sets.len()).map(|row| sets.get(row).to_vec()).collect())
    }

    #[getter]
    fn fingerprint(&self) -> String {
        self.logs.fingerprint().to_string()
    }

    #[pyo3(signature = (path, *, policy = None))]
    fn save(&self, path: PathBuf, policy: Option<&PyPolicy>) -> Result<()> {
        let policy = policy.map(|policy| policy.gaussian("what collected the logs")).transpose()?;
        Ok(write_round(&path, &self.logs, policy.map(surefoot::LinearGaussian::fingerprint))?)
    }

    #[staticmethod]
    #[pyo3(signature = (path, *, reward_range = (0.0, 1.0)))]
    fn load(path: PathBuf, reward_range: (f64, f64)) -> Result<Self> {
        PyLogs::new(read_round(&path)?.logs, reward_range)
    }

    fn __getitem__(&self, rows: &Bound<'_, pyo3::types::PySlice>) -> Result<Self> {
        let at = rows.indices(isize::try_from(self.logs.len()).unwrap_or(isize::MAX))?;
        if at.step != 1 {
            return Err(crate::failure::setting("the step of a slice of logs", "1", at.step));
        }
        let (start, stop) = (at.start.unsigned_abs(), at.stop.unsigned_abs());
        Ok(PyLogs { logs: self.logs.slice(start..stop.max(start)), ..self.clone() })
    }

    fn __repr__(&self) -> String {
        let (n, p, k) = (self.logs.len(), self.n_features(), self.n_actions());
        let kind = if self.logs.contexts().is_sparse() { "sparse " } else { "" };
        format!("<surefoot.Logs: {n} records, {p} {kind}features, {k} actions>")
    }
}
