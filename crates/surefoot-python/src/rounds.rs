//! Records of others as rounds to learn from.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use surefoot::contexts::Labelled;
use surefoot::learn::{Retrained, retrain};
use surefoot::{FeatureMap, Fingerprint, Learner, LinearGaussian, Logs, RewardRange};
use surefoot_data::{Actions, Inputs, Lineage, Rounds};

use crate::arrays::to_python;
use crate::certificate::PyCertificate;
use crate::failure::{Result, run, setting};
use crate::learning::{PyLearner, round_report};
use crate::logs::PyLogs;
use crate::observer::Onlooker;
use crate::policy::PyPolicy;

/// What actions are called.
pub(crate) fn action_names(actions: &Actions) -> Vec<String> {
    (0..actions.len()).map(|a| actions.name(a).into_owned()).collect()
}

/// Records in memory, encoded, as rounds to learn from: what :meth:`LogSource.rounds` gives. A place in it is a :class:`Logs`.
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
    pub(crate) actions: Actions,
    pub(crate) range: (f64, f64),
    pub(crate) skipped: usize,
    pub(crate) interleaved: bool,
    /// If the encoding came with a prior: whether that was not learned from logs.
    pub(crate) known: Option<bool>,
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
            Some(logs) => PyLogs::new(logs.clone(), self.range),
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
        action_names(&self.actions)
    }

    /// The names of the features.
    #[getter]
    fn feature_names(&self) -> Vec<String> {
        self.rounds.encoding.names()
    }

    /// How many records were skipped.
    #[getter]
    fn skipped(&self) -> usize {
        self.skipped
    }

    /// Whether a round goes on after another has begun.
    #[getter]
    fn interleaved(&self) -> bool {
        self.interleaved
    }

    /// The lowest and the highest reward that there can be.
    #[getter]
    fn reward_range(&self) -> (f64, f64) {
        self.range
    }

    /// The contexts and actions that were set aside, to which features were fitted; ``None`` if there are none.
    #[getter]
    #[expect(clippy::type_complexity, reason = "two arrays, or none")]
    fn set_aside<'py>(&self, py: Python<'py>) -> Result<Option<(Bound<'py, PyAny>, Bound<'py, PyArray1<u32>>)>> {
        let Some((contexts, actions)) = &self.rounds.set_aside else { return Ok(None) };
        Ok(Some((to_python(py, contexts)?, PyArray1::from_slice(py, actions))))
    }

    /// The next policy, from all rounds at once, and what is known of it: what ``surefoot learn`` does.
    /// :func:`surefoot.learn` is the usual way to it.
    ///
    /// Parameters
    /// ----------
    /// learner : Learner
    ///     The settings; its ``held_back`` is not used.
    /// prior : {"uniform", "estimated"} or Policy
    ///     The first policy that was deployed, or what stands for it.
    /// held_back : float
    ///     The share of all records, the newest, that only certify: in :math:`[0, 0.5]`.
    /// exploration : float
    ///     The share of decisions that are drawn uniformly, where the prior is not given.
    /// intercept : bool
    ///     Whether a constant feature is added, where the prior is not given.
    /// prior_is_older : bool
    ///     Whether a prior that was learned itself was learned from earlier logs only.
    /// watch : object, optional
    ///     It has a method ``searching(share)``.
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
    #[pyo3(signature = (learner, *, prior, held_back, exploration, intercept, prior_is_older = false, watch = None))]
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
        watch: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyDict>> {
        if !(0.0..=0.5).contains(&held_back) {
            return Err(setting("the share held back", "in [0, 0.5]", held_back));
        }
        // Whether the prior may know the records: it does not, if it was made here and now, or says so.
        let (prior, fresh) = match prior.extract::<PyRef<'_, PyPolicy>>() {
            Ok(policy) => {
                if policy.inputs.as_deref().is_some_and(|inputs| inputs.encoding != self.rounds.encoding) {
                    let allowed = "one whose features are those of the rounds: read them with rounds(prior=...)";
                    return Err(setting("the prior", allowed, "another"));
                }
                let fresh = policy.inputs.as_deref().is_some_and(|inputs| inputs.lineage.logs.is_empty());
                (policy.gaussian("the prior")?.clone(), fresh)
            }
            Err(_) => (self.prior(&prior.str()?.extract::<String>()?, intercept, exploration)?, true),
        };
        // And whether their encoding may.
        let encoded = self.known.unwrap_or(self.rounds.set_aside.is_some());
        let certified = (fresh && encoded) || (prior_is_older && (encoded || self.known.is_some()));
        let logs = &self.rounds.rounds;
        let records: usize = logs.iter().map(Logs::len).sum();
        let newest = logs.last().map_or(1, Logs::len);
        let learner = Learner { held_back: held_back * records as f64 / newest as f64, ..learner.learner.clone() };
        let mut watch = Onlooker::new(watch);
        let Retrained { policy, round, proven, better, logged, estimate, held_back, .. } =
            run(py, || retrain(&learner, &prior, logs, &mut watch))?;
        let range = RewardRange::new(self.range.0, self.range.1)?;
        let width = self.range.1 - self.range.0;
        let prints: Vec<Fingerprint> = logs.iter().map(Logs::fingerprint).collect();
        let lineage = Lineage {
            prior: Some(prior.fingerprint()),
            logs: prints,
            learner: Some(learner),
            made_by: format!("surefoot {}", env!("CARGO_PKG_VERSION")),
        };
        let encoding = self.rounds.encoding.clone();
        let inputs = Inputs::new(self.actions.clone(), encoding, [self.range.0, self.range.1], lineage);
        let report = round_report(py, &round)?;
        report.set_item("rounds", logs.len())?;
        report.set_item("total", records)?;
        report.set_item("held_back", held_back)?;
        report.set_item("certified", certified)?;
        report.set_item("logged", (range.reward(logged.0), logged.1 * width))?;
        report.set_item("estimate", (range.reward(estimate.value), estimate.standard_error * width))?;
        report.set_item("proven", PyCertificate::new(proven, self.range))?;
        report.set_item("better", PyCertificate::new(better, self.range))?;
        report.set_item("prior", PyPolicy::from(prior).with_inputs(inputs.clone()))?;
        report.set_item("policy", PyPolicy::from(policy).with_inputs(inputs))?;
        Ok(report)
    }

    fn __repr__(&self) -> String {
        let records: usize = self.rounds.rounds.iter().map(Logs::len).sum();
        let (rounds, p, k) = (self.rounds.rounds.len(), self.rounds.encoding.width(), self.actions.len());
        format!("<surefoot.Rounds: {records} records in {rounds} rounds, {p} features, {k} actions>")
    }
}

impl PyRounds {
    /// The prior that no file has: it prefers no action, or those that were logged.
    fn prior(&self, name: &str, intercept: bool, exploration: f64) -> Result<LinearGaussian> {
        let map = FeatureMap::identity(self.rounds.encoding.width());
        let map = if intercept { map.with_intercept() } else { map };
        let prior = match name {
            "uniform" => LinearGaussian::standard(map, self.actions.len())?,
            "estimated" => {
                let first = &self.rounds.rounds[0];
                let (contexts, labels) = match &self.rounds.set_aside {
                    Some((contexts, labels)) => (contexts.clone(), labels.clone()),
                    None => (first.contexts().clone(), first.action().to_vec()),
                };
                LinearGaussian::imitating(map, &Labelled::new(contexts, labels)?, self.actions.len())?
            }
            other => return Err(setting("the prior", "uniform, estimated, or a policy", other)),
        };
        Ok(prior.with_exploration(exploration)?)
    }
}
