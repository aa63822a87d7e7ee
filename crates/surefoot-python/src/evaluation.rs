//! Off-policy evaluation on arrays.

use numpy::{PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use surefoot::evaluation::{
    CostModel, Estimator, EvaluationSettings, Interval, ModelFit, Modelled, Observed, Selection,
};
use surefoot::{Evaluator, Protocol};
use surefoot_data::{EvaluatedPolicy, NamedEstimate, Selected};

use crate::arrays::{numbers, slice_of};
use crate::custom::{PyEstimator, check_distribution};
use crate::failure::{Result, run, setting, size};
use crate::json;
use crate::logs::PyLogs;
use crate::policy::PyPolicy;

/// The settings of an evaluation.
struct Asking {
    settings: EvaluationSettings,
    custom: Vec<PyEstimator>,
}

impl Asking {
    /// Parses estimators, which are names or callables `h(p, q, c)`.
    fn new(
        py: Python<'_>,
        estimators: Option<Vec<Bound<'_, PyAny>>>,
        modelled: bool,
        delta: f64,
        replicates: usize,
        seed: u64,
        largest_weight: Option<f64>,
    ) -> Result<Self> {
        let base = if modelled { EvaluationSettings::with_model() } else { EvaluationSettings::default() };
        let protocol = Protocol { delta, ..Protocol::default() };
        let mut settings = EvaluationSettings { protocol, replicates, seed, largest_weight, ..base };
        let mut custom = Vec::new();
        if let Some(estimators) = estimators {
            let mut found = Vec::with_capacity(estimators.len());
            for estimator in estimators {
                found.push(if let Ok(name) = estimator.extract::<String>() {
                    name.parse::<Estimator>()?
                } else {
                    custom.push(PyEstimator::new(py, &estimator.unbind(), None)?);
                    Estimator::Custom { column: custom.len() - 1 }
                });
            }
            settings.estimators = found;
        }
        if let Some(estimator) = settings.estimators.iter().find(|estimator| estimator.needs_model() && !modelled) {
            return Err(setting("the reward model", &format!("given, as {estimator} needs one"), "none"));
        }
        settings.check()?;
        Ok(Asking { settings, custom })
    }

    /// The terms of the user's own estimators, one row per record.
    fn custom_terms(&self, py: Python<'_>, p: &[f64], q: &[f64], c: &[f64]) -> Result<Vec<f64>> {
        let columns = self.custom.iter().map(|estimator| estimator.h(py, p, q, c)).collect::<Result<Vec<_>>>()?;
        Ok((0..p.len()).flat_map(|row| columns.iter().map(move |column| column[row])).collect())
    }
}

/// A target policy, as a policy or as arrays.
enum Asked<'py> {
    Policy(PyRef<'py, PyPolicy>),
    /// The probabilities of all actions.
    Distribution(Bound<'py, PyArray2<f64>>),
    /// The probabilities of the logged actions.
    Logged(Vec<f64>),
}

impl<'py> Asked<'py> {
    fn new(policy: &Bound<'py, PyAny>, logs: &PyLogs) -> Result<Self> {
        if let Ok(policy) = policy.extract::<PyRef<'py, PyPolicy>>() {
            return Ok(Asked::Policy(policy));
        }
        let py = policy.py();
        let array = py.import(intern!(py, "numpy"))?.call_method1("ascontiguousarray", (policy, "float64"))?;
        let shape: Vec<usize> = array.getattr("shape")?.extract()?;
        let (n, k) = (logs.logs.len(), logs.logs.actions());
        match shape[..] {
            [rows] if rows == n => Ok(Asked::Logged(slice_of(&numbers(&array, "the probabilities")?)?.to_vec())),
            [rows, columns] if rows == n && columns == k => {
                let array = array.cast_into::<PyArray2<f64>>().map_err(PyErr::from)?;
                check_distribution(array.readonly().as_slice().map_err(PyErr::from)?, k, logs.logs.eligible())?;
                Ok(Asked::Distribution(array))
            }
            _ => {
                let allowed = format!("[{n}], of the logged actions, or [{n}, {k}], of all");
                Err(setting("the shape of a policy's probabilities", &allowed, format!("{shape:?}")))
            }
        }
    }

    /// The probabilities of the logged actions and, if needed, of all actions.
    fn probabilities(&self, py: Python<'_>, logs: &PyLogs, all: bool) -> Result<(Vec<f64>, Option<Vec<f64>>)> {
        let (logs, k) = (&logs.logs, logs.logs.actions());
        let of_logged = |all: &[f64]| -> Vec<f64> {
            logs.action().iter().enumerate().map(|(row, &a)| all[row * k + a as usize]).collect()
        };
        Ok(match self {
            Asked::Policy(policy) => {
                let policy = policy.for_most(Some(k))?;
                if policy.actions() != k {
                    let expected = format!("{k} actions, as the logs");
                    return Err(size("the policy", expected, policy.actions()));
                }
                let p = run(py, || policy.propensity(logs.contexts(), logs.action(), logs.eligible()))?;
                let all = all.then(|| run(py, || policy.distribution(logs.contexts(), logs.eligible()))).transpose()?;
                (p, all)
            }
            Asked::Distribution(array) => {
                let values = array.readonly();
                let values = values.as_slice().map_err(PyErr::from)?;
                (of_logged(values), all.then(|| values.to_vec()))
            }
            Asked::Logged(_) if all => {
                let allowed = "all actions, for a reward model";
                return Err(setting("the probabilities of a policy", allowed, "the logged actions only"));
            }
            Asked::Logged(p) => (p.clone(), None),
        })
    }
}

/// A reward model.
enum Model {
    None,
    /// A linear model, cross-fitted to the logs.
    Linear(CostModel),
    /// The predicted costs of all actions.
    Given(Vec<f64>),
}

/// Folds and penalty of the linear model, the same as on the command line.
const FOLDS: usize = 3;
const PENALTY: f64 = 1.0;

impl Model {
    fn new(model: Option<&Bound<'_, PyAny>>, logs: &PyLogs) -> Result<Self> {
        let Some(model) = model.filter(|model| !model.is_none()) else { return Ok(Model::None) };
        let (n, k) = (logs.logs.len(), logs.logs.actions());
        if let Ok(name) = model.extract::<String>() {
            if name != "linear" {
                return Err(setting("the reward model", "linear, or predicted rewards of all actions", name));
            }
            if logs.logs.eligible().is_some_and(|sets| sets.features().is_some()) {
                let allowed = "none or predicted rewards, as the records have candidates with features";
                return Err(setting("the reward model", allowed, "linear, which has one regression per action"));
            }
            let contexts = logs.logs.contexts();
            return run(model.py(), || {
                let mut fit = ModelFit::new(k, contexts.features(), FOLDS, PENALTY)?;
                fit.add(contexts, logs.logs.action(), logs.logs.cost())?;
                Ok::<Model, surefoot::Error>(Model::Linear(fit.finish()?))
            });
        }
        let py = model.py();
        let array = py.import(intern!(py, "numpy"))?.call_method1("ascontiguousarray", (model, "float64"))?;
        let array = array.cast_into::<PyArray2<f64>>().map_err(PyErr::from)?;
        if array.shape() != [n, k] {
            let allowed = format!("[{n}, {k}]");
            return Err(setting("the shape of the predicted rewards", &allowed, format!("{:?}", array.shape())));
        }
        let rewards = array.readonly();
        let costs = logs.rewards.costs(rewards.as_slice().map_err(PyErr::from)?).map_err(|e| match e {
            surefoot::Error::Value { row, allowed, value, .. } => {
                let column = format!("the predicted reward of action {}", row % k);
                surefoot::Error::Value { row: row / k, column, allowed, value }
            }
            e => e,
        })?;
        Ok(Model::Given(costs))
    }

    /// The predicted costs of all actions.
    fn predict(&self, logs: &PyLogs) -> surefoot::Result<Option<Vec<f64>>> {
        Ok(match self {
            Model::None => None,
            Model::Linear(model) => Some(model.predict(0, logs.logs.contexts())?),
            Model::Given(costs) => Some(costs.clone()),
        })
    }
}

/// The evaluator of one policy over all records.
fn evaluator(
    py: Python<'_>,
    asking: &Asking,
    asked: &Asked<'_>,
    logs: &PyLogs,
    predicted: Option<&[f64]>,
) -> Result<Evaluator> {
    let (p, all) = asked.probabilities(py, logs, predicted.is_some())?;
    let (q, c, k) = (logs.logs.propensity(), logs.logs.cost(), logs.logs.actions());
    let modelled = predicted.zip(all).map(|(predicted, all)| {
        let logged = logs.logs.action().iter().enumerate().map(|(row, &a)| predicted[row * k + a as usize]);
        let rows = all.chunks_exact(k).zip(predicted.chunks_exact(k));
        let mean = rows.map(|(p, c)| p.iter().zip(c).map(|(p, c)| p * c).sum());
        (logged.collect::<Vec<f64>>(), mean.collect::<Vec<f64>>())
    });
    let custom = asking.custom_terms(py, &p, q, c)?;
    run(py, || {
        let mut evaluator = Evaluator::new(&asking.settings)?;
        let model = modelled.as_ref().map(|(logged, mean)| Modelled { logged, mean });
        evaluator.add(&Observed { p: &p, q, c, model, custom: &custom })?;
        Ok::<Evaluator, surefoot::Error>(evaluator)
    })
}

/// Converts an evaluation to rewards; `custom` are the names of the user's own estimators.
pub(crate) fn in_rewards<'py>(
    py: Python<'py>,
    records: usize,
    confidence: f64,
    evaluated: &EvaluatedPolicy,
    custom: &[String],
) -> Result<Bound<'py, PyDict>> {
    let ends = |i: &Interval| (i.lower, i.upper);
    let found = PyDict::new(py);
    found.set_item("records", records)?;
    found.set_item("confidence", confidence)?;
    found.set_item("anytime", ends(&evaluated.anytime))?;
    found.set_item("weights", json::to_python(py, &evaluated.weights)?)?;
    found.set_item("warnings", &evaluated.warnings)?;
    found.set_item("certified", evaluated.certified)?;
    found.set_item("recommended", &evaluated.recommended)?;
    found.set_item("reason", &evaluated.reason)?;
    let mut estimates = Vec::new();
    for NamedEstimate { name, bias, estimate, .. } in &evaluated.estimates {
        let row = PyDict::new(py);
        let name = match estimate.estimator {
            Estimator::Custom { column } => &custom[column],
            _ => name,
        };
        row.set_item("estimator", name)?;
        row.set_item("value", estimate.value)?;
        row.set_item("standard_error", estimate.standard_error)?;
        row.set_item("bootstrap", estimate.bootstrap.as_ref().map(ends))?;
        row.set_item("bernstein", estimate.bernstein.as_ref().map(ends))?;
        row.set_item("bias", bias.to_string())?;
        estimates.push(row);
    }
    found.set_item("estimates", estimates)?;
    Ok(found)
}

/// Off-policy evaluation of a policy with several estimators, in rewards. Use :func:`surefoot.evaluate` instead.
///
/// Parameters
/// ----------
/// logs : Logs
///     The records.
/// policy : Policy or array
///     A policy, the probabilities `[n, K]` of all actions, or the probabilities `[n]` of the logged actions.
/// estimators : list of str or callable, optional
///     Names, or callables ``h(p, q, c)``. ``None``: all that can be computed.
/// model : "linear", array or None
///     The reward model, or predicted rewards `[n, K]`.
/// delta : float
///     The failure probability of each interval.
/// replicates : int
///     The number of bootstrap replicates; 0 for no bootstrap.
/// largest_weight : float or None
///     The largest possible importance weight, if known.
///
/// Examples
/// --------
///
///     >>> import numpy as np, surefoot
///     >>> from surefoot import _surefoot
///     >>> logs = surefoot.Logs(np.ones((4, 1)), [0, 1, 1, 0], [0.5, 0.5, 0.25, 0.75], [1.0, 0.0, 1.0, 1.0])
///     >>> settings = dict(model=None, delta=0.05, replicates=0, seed=1, largest_weight=None)
///     >>> found = _surefoot.evaluate(logs, surefoot.Policy.uniform(2), estimators=["snips"], **settings)
///     >>> round(found["estimates"][0]["value"], 6)
///     0.785714
#[pyfunction]
#[pyo3(signature = (logs, policy, *, estimators, model, delta, replicates, seed, largest_weight))]
#[expect(clippy::too_many_arguments, reason = "settings, by their names")]
pub(crate) fn evaluate<'py>(
    py: Python<'py>,
    logs: &PyLogs,
    policy: &Bound<'py, PyAny>,
    estimators: Option<Vec<Bound<'py, PyAny>>>,
    model: Option<&Bound<'py, PyAny>>,
    delta: f64,
    replicates: usize,
    seed: u64,
    largest_weight: Option<f64>,
) -> Result<Bound<'py, PyDict>> {
    run(py, || logs.logs.check_propensities())?;
    let model = Model::new(model, logs)?;
    let modelled = !matches!(model, Model::None);
    let asking = Asking::new(py, estimators, modelled, delta, replicates, seed, largest_weight)?;
    let predicted = run(py, || model.predict(logs))?;
    let evaluator = evaluator(py, &asking, &Asked::new(policy, logs)?, logs, predicted.as_deref())?;
    let names: Vec<String> = asking.custom.iter().map(|custom| custom.name().to_owned()).collect();
    let evaluated = EvaluatedPolicy::new("policy", run(py, || evaluator.finish())?, logs.rewards);
    in_rewards(py, evaluator.records(), 1.0 - delta, &evaluated, &names)
}

/// Bounds for several policies that hold simultaneously, in costs, and the differences of the policies to the first.
/// Use :func:`surefoot.select` instead.
///
/// ``policies`` are as in :func:`evaluate`. All must have been fixed before the records. ``prior`` has their prior
/// weights :math:`w^0` up to a common factor, also fixed before the records; ``None`` means equal weights. The
/// ``estimators`` are used for the ``contrasts``.
///
///     >>> import surefoot
///     >>> from surefoot import _surefoot
///     >>> world = surefoot.Environment.synthetic(seed=1)
///     >>> logs = world.collect(surefoot.Policy.uniform(5), 1000)
///     >>> policies = [surefoot.Policy.uniform(5), world.first_policy(alpha=2.0)]
///     >>> settings = dict(prior=None, estimators=["snips"], model=None, delta=0.05, replicates=0, seed=1)
///     >>> _surefoot.select(logs, policies, **settings)["selection"]["chosen"]
///     '1'
#[pyfunction]
#[pyo3(signature = (logs, policies, *, prior, estimators, model, delta, replicates, seed))]
#[expect(clippy::too_many_arguments, reason = "settings, by their names")]
pub(crate) fn select<'py>(
    py: Python<'py>,
    logs: &PyLogs,
    policies: Vec<Bound<'py, PyAny>>,
    prior: Option<Vec<f64>>,
    estimators: Option<Vec<Bound<'py, PyAny>>>,
    model: Option<&Bound<'py, PyAny>>,
    delta: f64,
    replicates: usize,
    seed: u64,
) -> Result<Bound<'py, PyDict>> {
    run(py, || logs.logs.check_propensities())?;
    let model = Model::new(model, logs)?;
    let asking = Asking::new(py, estimators, !matches!(model, Model::None), delta, replicates, seed, None)?;
    let predicted = run(py, || model.predict(logs))?;
    let evaluators = policies
        .iter()
        .map(|policy| evaluator(py, &asking, &Asked::new(policy, logs)?, logs, predicted.as_deref()))
        .collect::<Result<Vec<Evaluator>>>()?;
    let all: Vec<&Evaluator> = evaluators.iter().collect();
    let selection = run(py, || Selection::of(&all, prior.as_deref()))?;
    let found = PyDict::new(py);
    let names: Vec<String> = (0..policies.len()).map(|place| place.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    found.set_item("selection", json::to_python(py, &Selected::new(&names, &selection, logs.rewards))?)?;
    let contrasts = evaluators.iter().map(|other| Ok(other.contrast(&evaluators[0])?)).collect::<Result<Vec<_>>>()?;
    found.set_item("contrasts", json::to_python(py, &contrasts)?)?;
    Ok(found)
}
