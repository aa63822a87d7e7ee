//! Log files as rounds to learn from.

use std::sync::Arc;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use surefoot::Logs;
use surefoot::audit::ActionsFrom;
use surefoot::learn::Contender;
use surefoot_data::{Actions, LearnRequest, Prior, ReadRequest, Rounds, learn_from};

use crate::arrays::to_python;
use crate::certificate::PyCertificate;
use crate::custom::PyContender;
use crate::failure::{Result, run, setting};
use crate::json;
use crate::learning::{PyLearner, round_report};
use crate::logs::PyLogs;
use crate::observer::Onlooker;
use crate::policy::PyPolicy;

/// The names of the actions.
pub(crate) fn action_names(actions: &Actions) -> Vec<String> {
    (0..actions.len()).map(|a| actions.name(a).into_owned()).collect()
}

/// Encoded records in memory, as rounds to learn from: the result of :meth:`LogSource.rounds`. Each item is a
/// :class:`Logs`.
///
///     >>> import pandas, surefoot
///     >>> frame = pandas.DataFrame({"action": ["a", "b"] * 50, "pscore": 0.5, "reward": [1.0, 0.0] * 50, "age": range(100)})
///     >>> rounds = surefoot.open_logs(frame).rounds(
///     ...     by="file", set_aside=0.1, reward_range=(0.0, 1.0), features=None, ignore=[], categorical=[], vocabulary=64,
///     ...     hash_bits=8, standardise=True, prior=None,
///     ... )
///     >>> rounds.actions, rounds.feature_names
///     (['a', 'b'], ['age'])
///     >>> rounds[0]
///     <surefoot.Logs: 90 records, 1 features, 2 actions>
#[pyclass(frozen, name = "Rounds", module = "surefoot")]
#[derive(Debug)]
pub(crate) struct PyRounds {
    pub(crate) rounds: Rounds,
}

#[pymethods]
impl PyRounds {
    fn __len__(&self) -> usize {
        self.rounds.rounds.len()
    }

    fn __getitem__(&self, place: isize) -> Result<PyLogs> {
        let n = self.rounds.rounds.len();
        let at = if place < 0 { place.checked_add_unsigned(n) } else { Some(place) };
        let logs = at.and_then(|at| usize::try_from(at).ok()).and_then(|at| self.rounds.rounds.get(at));
        match logs {
            Some(logs) => {
                let logs = PyLogs::new(logs.clone(), self.reward_range())?;
                Ok(logs.with_counted(self.rounds.actions_from == ActionsFrom::AllRecords))
            }
            None => Err(pyo3::exceptions::PyIndexError::new_err(format!("round {place} of {n}")).into()),
        }
    }

    /// The names of the rounds.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.rounds.rounds.iter().map(|logs| logs.policy_version().to_owned()).collect()
    }

    /// The names of the actions.
    #[getter]
    fn actions(&self) -> Vec<String> {
        action_names(&self.rounds.actions)
    }

    /// The names of the features.
    #[getter]
    fn feature_names(&self) -> Vec<String> {
        self.rounds.encoding.names()
    }

    /// The number of skipped records.
    #[getter]
    fn skipped(&self) -> usize {
        self.rounds.skipped
    }

    /// Whether the records of some round continue after another round has begun.
    #[getter]
    fn interleaved(&self) -> bool {
        self.rounds.interleaved
    }

    /// The lowest and the highest possible reward.
    #[getter]
    fn reward_range(&self) -> (f64, f64) {
        self.rounds.reward_range.into()
    }

    /// The contexts and actions that were set aside, to which the features were fitted; ``None`` if there are none.
    #[getter]
    #[expect(clippy::type_complexity, reason = "two arrays, or none")]
    fn set_aside<'py>(&self, py: Python<'py>) -> Result<Option<(Bound<'py, PyAny>, Bound<'py, PyArray1<u32>>)>> {
        let Some(set_aside) = &self.rounds.set_aside else { return Ok(None) };
        let (contexts, actions) = (run(py, || set_aside.gathered())?, set_aside.action());
        Ok(Some((to_python(py, &contexts)?, PyArray1::from_slice(py, actions))))
    }

    /// Learns the next policy from all rounds, and certifies it, as ``surefoot learn`` does. Use :func:`surefoot.learn`
    /// instead.
    ///
    /// Parameters
    /// ----------
    /// learner : Learner
    ///     The settings; its ``held_back`` is ignored.
    /// prior : {"uniform", "estimated"} or Policy
    ///     The first policy that was deployed, or a substitute for it.
    /// held_back : float
    ///     The share of all records that only certify, in :math:`[0, 0.5]`. The newest records are held back.
    /// exploration : float
    ///     The share of decisions that are drawn uniformly. Used only if the prior is not a given policy.
    /// intercept : bool
    ///     Whether to add a constant feature. Used only if the prior is not a given policy.
    /// prior_is_older : bool
    ///     If the prior was learned: whether only from logs older than these.
    /// candidates : list of (str, callable)
    ///     Learners of your own: ``fit(parts, action, pscore, reward)`` returns a function of contexts that gives the
    ///     probabilities of all actions. The contexts come as one matrix per round.
    /// watch : object, optional
    ///     An object with a method ``searching(share)``.
    ///
    /// Examples
    /// --------
    ///
    ///     >>> import pandas, surefoot
    ///     >>> frame = pandas.DataFrame({"action": [0, 1] * 50, "pscore": 0.5, "reward": [1.0, 0.0] * 50, "age": range(100)})
    ///     >>> rounds = surefoot.open_logs(frame).rounds(
    ///     ...     by="file", set_aside=0.1, reward_range=(0.0, 1.0), features=None, ignore=[], categorical=[], vocabulary=64,
    ///     ...     hash_bits=8, standardise=True, prior=None,
    ///     ... )
    ///     >>> settings = surefoot.SeqLS(lam=0.4)._learner()
    ///     >>> found = rounds.retrain(settings, prior="uniform", held_back=0.2, exploration=0.05, intercept=True)
    ///     >>> found["held_back"], found["certified"], found["policy"].kind
    ///     (18, True, 'gaussian')
    #[pyo3(signature = (
        learner, *, prior, held_back, exploration, intercept, prior_is_older = false, candidates = Vec::new(), watch = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "settings, by their names")]
    fn retrain<'py>(
        &self,
        py: Python<'py>,
        learner: &PyLearner,
        prior: &Bound<'py, PyAny>,
        held_back: f64,
        exploration: f64,
        intercept: bool,
        prior_is_older: bool,
        candidates: Vec<(String, Py<PyAny>)>,
        watch: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyDict>> {
        let prior = match prior.extract::<PyRef<'_, PyPolicy>>() {
            Ok(policy) => Prior::Policy { policy: Arc::clone(policy.policy()), inputs: policy.inputs.clone() },
            Err(_) => match prior.str()?.extract::<String>()?.as_str() {
                "uniform" => Prior::Uniform,
                "estimated" => Prior::Estimated,
                other => return Err(setting("the prior", "uniform, estimated, or a policy", other)),
            },
        };
        let request = LearnRequest {
            read: ReadRequest::default(),
            prior,
            prior_is_older,
            learner: learner.learner.clone(),
            held_back,
            exploration,
            intercept,
            contenders: candidates
                .into_iter()
                .map(|(name, fit)| {
                    let range = self.rounds.reward_range;
                    Arc::new(PyContender { name, fit, range, actions: self.rounds.actions.len() }) as Arc<dyn Contender>
                })
                .collect(),
        };
        let mut observer = Onlooker::new(watch);
        let learned = run(py, || learn_from(&self.rounds, &request, &mut observer))?;
        let (range, summary) = (self.reward_range(), &learned.summary);
        let report = round_report(py, &learned.step)?;
        report.set_item("rounds", summary.rounds.len())?;
        report.set_item("total", summary.rounds.iter().map(|round| round.records).sum::<usize>())?;
        report.set_item("held_back", summary.held_back)?;
        report.set_item("certified", summary.certified)?;
        report.set_item("columns", summary.columns.clone())?;
        report.set_item("logged", <(f64, f64)>::from(summary.logged))?;
        report.set_item("estimate", <(f64, f64)>::from(summary.estimate))?;
        report.set_item("warnings", summary.warnings.clone())?;
        report.set_item("proven", PyCertificate::new(learned.proven, range))?;
        report.set_item("better", PyCertificate::new(learned.better, range))?;
        report.set_item("learners", json::to_python(py, &summary.members)?)?;
        report.set_item("contenders", json::to_python(py, &summary.contenders)?)?;
        report.set_item("prior", PyPolicy::from(learned.prior).with_inputs(learned.inputs.clone()))?;
        report.set_item("policy", PyPolicy::shared(&learned.policy).with_inputs(learned.inputs))?;
        Ok(report)
    }

    /// Has an engine remove the files of its shards. Without an engine, nothing is done.
    ///
    ///     >>> import pandas, surefoot
    ///     >>> frame = pandas.DataFrame({"action": [0, 1] * 50, "pscore": 0.5, "reward": [1.0, 0.0] * 50, "age": range(100)})
    ///     >>> surefoot.open_logs(frame).rounds().forget()
    fn forget(&self, py: Python<'_>) -> Result<()> {
        run(py, || self.rounds.forget())
    }

    fn __repr__(&self) -> String {
        let records: usize = self.rounds.rounds.iter().map(Logs::len).sum();
        let (rounds, p, k) = (self.rounds.rounds.len(), self.rounds.encoding.width(), self.rounds.actions.len());
        format!("<surefoot.Rounds: {records} records in {rounds} rounds, {p} features, {k} actions>")
    }
}
