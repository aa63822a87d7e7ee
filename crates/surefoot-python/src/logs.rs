//! Rounds of logs.

use std::path::PathBuf;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use surefoot::logs::Eligible;
use surefoot::{Logs, RewardRange};
use surefoot_data::{read_round, write_round};

use crate::arrays::{Hold, actions, contexts_and_sets, numbers, slice_of, to_python};
use crate::failure::{Failure, Result, setting};
use crate::policy::PyPolicy;

/// The logged interactions of one policy: one round.
///
/// A slice, such as ``logs[100:200]``, shares its contexts.
///
/// Parameters
/// ----------
/// X : array, SciPy sparse matrix or table
///     The contexts, one per row. Any object with Arrow's C stream is a table.
/// action : array of int
///     The action taken in each context, from 0 on.
/// pscore : array of float
///     The propensity: the probability with which the action was taken, in :math:`(0, 1]`.
/// reward : array of float
///     The rewards, within ``reward_range``.
/// n_actions : int, optional
///     The number of actions. By default one more than the largest action that occurs, and at least 2. Nothing that
///     depends on such a number can be proven from these records, so give it.
/// reward_range : (float, float)
///     The lowest and the highest possible reward.
/// eligible : array of bool or list of list of int, optional
///     The eligible actions: a mask `[n, K]`, or a list for each record.
/// candidates : array, list of arrays, (array, counts) or table, optional
///     Candidates with features, if they differ from record to record: an array `[n, k, d]`; a list with a matrix for each
///     record; the rows of all candidates, and their number in each record; or a table with a row for each candidate, whose
///     column ``event_id`` says which rows are one record. An action is then a place among the candidates of its record, and
///     ``n_actions`` is the largest number of candidates that a record may have.
/// version : str
///     The version of the policy that collected them.
///
/// Examples
/// --------
///
///     >>> import surefoot
///     >>> logs = surefoot.Logs([[1.0], [2.0], [3.0]], action=[0, 1, 1], pscore=[0.5, 0.5, 0.25], reward=[1.0, 0.0, 1.0])
///     >>> logs
///     <surefoot.Logs: 3 records, 1 features, 2 actions>
///     >>> logs.cost.tolist()
///     [-1.0, 0.0, -1.0]
///     >>> len(logs[1:])
///     2
///     >>> offers = [[[0.1, 1.0], [0.7, 0.0]], [[0.4, 1.0], [0.2, 1.0]]]
///     >>> surefoot.Logs([[1.0], [2.0]], action=[0, 1], pscore=[0.5, 0.5], reward=[1.0, 0.0], candidates=offers)
///     <surefoot.Logs: 2 records, 1 features, 2 candidates at most, each with 2 features>
#[pyclass(frozen, name = "Logs", module = "surefoot")]
#[derive(Debug, Clone)]
pub(crate) struct PyLogs {
    pub(crate) logs: Logs,
    pub(crate) rewards: RewardRange,
    range: (f64, f64),
    /// Whether the number of actions was inferred from the actions that occur.
    counted: bool,
}

impl PyLogs {
    pub(crate) fn new(logs: Logs, range: (f64, f64)) -> Result<Self> {
        Ok(PyLogs { logs, rewards: RewardRange::new(range.0, range.1)?, range, counted: false })
    }

    /// The same logs; `counted` says whether the number of actions was inferred from the actions that occur.
    pub(crate) fn with_counted(self, counted: bool) -> Self {
        PyLogs { counted, ..self }
    }
}

#[pymethods]
#[expect(non_snake_case, reason = "X, as scikit-learn calls it")]
impl PyLogs {
    #[new]
    #[pyo3(
        signature = (X, action, pscore, reward, *, n_actions = None, reward_range = (0.0, 1.0), eligible = None, candidates = None, version = ""),
        text_signature = "(X, action, pscore, reward, *, n_actions=None, reward_range=(0.0, 1.0), eligible=None, candidates=None, version='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "each is a column")]
    fn from_arrays(
        X: &Bound<'_, PyAny>,
        action: &Bound<'_, PyAny>,
        pscore: &Bound<'_, PyAny>,
        reward: &Bound<'_, PyAny>,
        n_actions: Option<usize>,
        reward_range: (f64, f64),
        eligible: Option<&Bound<'_, PyAny>>,
        candidates: Option<&Bound<'_, PyAny>>,
        version: &str,
    ) -> Result<Self> {
        let rewards = RewardRange::new(reward_range.0, reward_range.1)?;
        let ((x, sets), action) = (contexts_and_sets(X, Hold::On, eligible, candidates)?, actions(action)?);
        let most = sets.as_ref().filter(|sets| sets.features().is_some()).map(Eligible::most);
        let last = || action.iter().max().map_or(2, |&a| a as usize + 1);
        let k = n_actions.unwrap_or_else(|| most.unwrap_or_else(last).max(2));
        let pscore = slice_of(&numbers(pscore, "pscore")?)?.to_vec();
        let cost = rewards.costs(slice_of(&numbers(reward, "reward")?)?)?;
        let mut logs = Logs::new(k, x, action, pscore, cost)?;
        if let Some(sets) = sets {
            logs = logs.with_eligible(sets)?;
        }
        // Where the eligible actions are known, the number of actions does not matter.
        let counted = n_actions.is_none() && logs.eligible().is_none();
        Ok(PyLogs { logs: logs.with_policy_version(version), rewards, range: reward_range, counted })
    }

    fn __len__(&self) -> usize {
        self.logs.len()
    }

    /// The number of actions.
    #[getter]
    fn n_actions(&self) -> usize {
        self.logs.actions()
    }

    // Whether the number of actions was inferred from the actions that occur.
    #[getter]
    fn _counted(&self) -> bool {
        self.counted
    }

    /// The number of features of a context.
    #[getter]
    fn n_features(&self) -> usize {
        self.logs.contexts().features()
    }

    /// The version of the policy that collected them; empty if unknown.
    #[getter]
    fn version(&self) -> &str {
        self.logs.policy_version()
    }

    /// The lowest and the highest possible reward.
    #[getter]
    pub(crate) fn reward_range(&self) -> (f64, f64) {
        self.range
    }

    /// The contexts, one per row: a copy, as a NumPy array of ``float32``, or as a SciPy CSR matrix if they are sparse.
    #[getter]
    fn X<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        to_python(py, self.logs.contexts())
    }

    /// The actions taken.
    #[getter]
    fn action<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        PyArray1::from_slice(py, self.logs.action())
    }

    /// The propensities: the probabilities with which the actions were taken.
    #[getter]
    fn pscore<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.logs.propensity())
    }

    /// The costs, in :math:`[-1, 0]`: negated and scaled rewards.
    #[getter]
    fn cost<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.logs.cost())
    }

    /// The rewards, within :attr:`reward_range`.
    #[getter]
    fn reward<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_iter(py, self.logs.cost().iter().map(|&c| self.rewards.reward(c)))
    }

    /// The eligible actions, a list for each record; ``None`` if all actions were eligible.
    #[getter]
    fn eligible(&self) -> Option<Vec<Vec<u32>>> {
        let sets = self.logs.eligible().filter(|sets| sets.features().is_none())?;
        Some((0..sets.len()).map(|row| sets.get(row).to_vec()).collect())
    }

    /// The candidates: the features of all of them, a row for each, and their number in each record. ``None`` if the actions
    /// are the same in all records.
    #[getter]
    #[expect(clippy::type_complexity, reason = "two arrays, or none")]
    fn candidates<'py>(&self, py: Python<'py>) -> Result<Option<(Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>)>> {
        let Some(sets) = self.logs.eligible() else { return Ok(None) };
        let Some(rows) = sets.candidate_rows() else { return Ok(None) };
        let counts = (0..sets.len()).map(|row| i64::try_from(sets.get(row).len()).unwrap_or(i64::MAX));
        Ok(Some((to_python(py, &rows)?, PyArray1::from_iter(py, counts))))
    }

    /// The number of features of a candidate; ``None`` if the actions are the same in all records.
    #[getter]
    fn n_candidate_features(&self) -> Option<usize> {
        self.logs.eligible().and_then(Eligible::features)
    }

    /// A hash of the whole content, by which certificates refer to these logs.
    #[getter]
    fn fingerprint(&self) -> String {
        self.logs.fingerprint().to_string()
    }

    /// Writes the round to a safetensors file (``surefoot-round``). With ``policy``, the policy that collected the
    /// round, its fingerprint is saved too.
    ///
    ///     >>> import pathlib, surefoot, tempfile
    ///     >>> logs = surefoot.Logs([[1.0], [2.0]], action=[0, 1], pscore=[0.5, 0.5], reward=[1.0, 0.0])
    ///     >>> with tempfile.TemporaryDirectory() as folder:
    ///     ...     logs.save(pathlib.Path(folder) / "round.parquet")
    #[pyo3(signature = (path, *, policy = None))]
    fn save(&self, path: PathBuf, policy: Option<&PyPolicy>) -> Result<()> {
        let collected_by = policy.map(|policy| {
            let print = policy.policy().identity();
            print.ok_or_else(|| setting("the policy that collected the logs", "one with a fingerprint", policy.kind()))
        });
        Ok(write_round(&path, &self.logs, collected_by.transpose()?)?)
    }

    /// Reads a round written by :meth:`save` or ``surefoot simulate``. The file stores costs; ``reward_range`` converts
    /// them to rewards.
    ///
    ///     >>> import pathlib, surefoot, tempfile
    ///     >>> logs = surefoot.Logs([[1.0], [2.0]], action=[0, 1], pscore=[0.5, 0.5], reward=[1.0, 0.0])
    ///     >>> with tempfile.TemporaryDirectory() as folder:
    ///     ...     path = pathlib.Path(folder) / "round.parquet"
    ///     ...     logs.save(path)
    ///     ...     surefoot.Logs.load(path).fingerprint == logs.fingerprint
    ///     True
    #[staticmethod]
    #[pyo3(signature = (path, *, reward_range = (0.0, 1.0)), text_signature = "(path, *, reward_range=(0.0, 1.0))")]
    fn load(path: PathBuf, reward_range: (f64, f64)) -> Result<Self> {
        PyLogs::new(read_round(&path)?.logs, reward_range)
    }

    /// Creates logs from costs, which a pickle stores exactly.
    #[staticmethod]
    #[pyo3(signature = (X, action, pscore, cost, n_actions, reward_range, eligible, version, counted = false, candidates = None))]
    #[expect(clippy::too_many_arguments, reason = "each is a column")]
    fn _of_costs(
        X: &Bound<'_, PyAny>,
        action: &Bound<'_, PyAny>,
        pscore: &Bound<'_, PyAny>,
        cost: &Bound<'_, PyAny>,
        n_actions: usize,
        reward_range: (f64, f64),
        eligible: Option<&Bound<'_, PyAny>>,
        version: &str,
        counted: bool,
        candidates: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self> {
        let ((x, sets), action) = (contexts_and_sets(X, Hold::On, eligible, candidates)?, actions(action)?);
        let column =
            |values: &Bound<'_, PyAny>, name: &str| Ok::<_, Failure>(slice_of(&numbers(values, name)?)?.to_vec());
        let mut logs = Logs::new(n_actions, x, action, column(pscore, "pscore")?, column(cost, "cost")?)?;
        if let Some(sets) = sets {
            logs = logs.with_eligible(sets)?;
        }
        Ok(PyLogs { counted, ..PyLogs::new(logs.with_policy_version(version), reward_range)? })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (class, logs) = (py.get_type::<PyLogs>(), &self.logs);
        let columns = (self.X(py)?, self.action(py), self.pscore(py), self.cost(py));
        let (x, action, pscore, cost) = columns;
        let rest = (logs.actions(), self.range, self.eligible(), logs.policy_version());
        let candidates = self.candidates(py)?;
        let parts = (x, action, pscore, cost, rest.0, rest.1, rest.2, rest.3, self.counted, candidates);
        let parts = parts.into_pyobject(py)?;
        Ok((class.getattr("_of_costs")?, parts))
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
        let actions = match self.n_candidate_features() {
            None => format!("{k} actions"),
            Some(features) => format!("{k} candidates at most, each with {features} features"),
        };
        format!("<surefoot.Logs: {n} records, {p} {kind}features, {actions}>")
    }
}
