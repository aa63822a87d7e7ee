//! Learners, and a loop under way.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::de::DeserializeOwned;
use surefoot::{Adam, Algorithm, Course, Crm, Gate, Lbfgs, Learner, Optimiser, Own, Proven, Round, Window};

use crate::certificate::{PyCertificate, terms};
use crate::failure::{Failure, Result, setting};
use crate::json;
use crate::logs::PyLogs;
use crate::own::PyTerms;
use crate::policy::PyPolicy;
use crate::watch::Onlooker;

/// A learner: all its settings, and no state.
#[pyclass(frozen, name = "Learner", module = "surefoot")]
#[derive(Debug, Clone)]
pub(crate) struct PyLearner {
    pub(crate) learner: Learner,
    pub(crate) gate: Gate,
}

/// A value of an enum of the core, by its name.
pub(crate) fn named<T: DeserializeOwned>(name: &str, value: &str, allowed: &str) -> Result<T> {
    serde_json::from_value(serde_json::Value::String(value.to_owned())).map_err(|_| setting(name, allowed, value))
}

#[pymethods]
impl PyLearner {
    #[new]
    #[pyo3(signature = (
        algorithm, *, lam, posterior, sharpness, start, optimiser, epochs, batch_size, learning_rate, decay, precision,
        iterations, held_back, trade, delta, spending, rounds, gate, seed, gamma, penalty, divergence, learn_scale,
        window, estimator, slope
    ))]
    #[expect(clippy::too_many_arguments, reason = "every setting of a learner, by its name")]
    fn new(
        py: Python<'_>,
        algorithm: &str,
        lam: &str,
        posterior: &str,
        sharpness: &str,
        start: &str,
        optimiser: &str,
        epochs: usize,
        batch_size: usize,
        learning_rate: f64,
        decay: &str,
        precision: &str,
        iterations: usize,
        held_back: &str,
        trade: f64,
        delta: f64,
        spending: &str,
        rounds: Option<usize>,
        gate: &str,
        seed: u64,
        gamma: Option<f64>,
        penalty: f64,
        divergence: bool,
        learn_scale: bool,
        window: &str,
        estimator: Option<Py<PyAny>>,
        slope: Option<Py<PyAny>>,
    ) -> Result<Self> {
        let window = named::<Window>("window", window, "newest or all")?;
        let crm = Crm { gamma, penalty, divergence, learn_scale, window };
        let algorithm = match algorithm {
            "crm" => Algorithm::Crm(crm),
            "scrm" => Algorithm::Scrm(crm),
            name => named("algorithm", name, "batch-ls, seq-ls, seq-adj-ls, shift-ls, shift-adj-ls, crm or scrm")?,
        };
        let optimiser = match optimiser {
            "adam" => {
                let decay = named("decay", decay, "none, linear or cosine")?;
                Optimiser::Adam(Adam { learning_rate, decay, epochs, batch_size, ..Adam::default() })
            }
            "lbfgs" => Optimiser::Lbfgs(Lbfgs { iterations, ..Lbfgs::default() }),
            name => return Err(setting("optimiser", "adam or lbfgs", name)),
        };
        let gate: Gate = gate.parse()?;
        let learner = Learner {
            algorithm,
            lambda: lam.parse()?,
            sharpness: sharpness.parse()?,
            shape: posterior.parse()?,
            start: named("start", start, "warm or anchor")?,
            precision: named("precision", precision, "single or double")?,
            optimiser,
            trade,
            own: estimator.map(|h| PyTerms::new(py, &h, slope.as_ref()).map(Own::new)).transpose()?,
            terms: terms(delta, spending, rounds, None)?,
            seed,
            ..Learner::default()
        };
        let held_back = match held_back {
            "auto" => learner.usually_held_back(gate),
            rounds => rounds.parse().map_err(|_| setting("held_back", "auto or a number of rounds", rounds))?,
        };
        Ok(PyLearner { learner: Learner { held_back, ..learner }, gate })
    }

    fn to_dict<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        json::to_python(py, &self.learner)
    }
}

/// What a step reports of itself.
pub(crate) fn round_report<'py>(py: Python<'py>, round: &Round) -> Result<Bound<'py, PyDict>> {
    let report = PyDict::new(py);
    report.set_item("n", round.n)?;
    report.set_item("records", round.records)?;
    report.set_item("lambda", round.lambda)?;
    report.set_item("sharpness", round.sharpness)?;
    report.set_item("kl", round.kl)?;
    report.set_item("objective", round.trace.objective.clone())?;
    report.set_item("evaluations", round.trace.evaluations)?;
    report.set_item("candidates", json::to_python(py, &round.candidates)?)?;
    Ok(report)
}

/// Adds what is proven to a report.
pub(crate) fn put_proven(report: &Bound<'_, PyDict>, proven: Option<Proven>, range: (f64, f64)) -> PyResult<()> {
    let (certificate, ladder) = match proven {
        Some(Proven { certificate, ladder }) => (Some(certificate), ladder),
        None => (None, None),
    };
    report.set_item("certificate", certificate.map(|c| PyCertificate::new(c, range)))?;
    report.set_item("ladder", ladder.map(|c| PyCertificate::new(c, range)))
}

/// A loop under way: logs in, what runs next out.
#[pyclass(name = "Course", module = "surefoot")]
#[derive(Debug)]
pub(crate) struct PyCourse {
    course: Course,
    range: (f64, f64),
}

#[pymethods]
impl PyCourse {
    #[new]
    #[pyo3(signature = (learner, first, *, reward_range = (0.0, 1.0)))]
    fn new(learner: &PyLearner, first: &PyPolicy, reward_range: (f64, f64)) -> Result<Self> {
        let first = first.gaussian("the first policy")?.clone();
        Ok(PyCourse { course: Course::new(learner.learner.clone(), learner.gate, first)?, range: reward_range })
    }

    /// Learns from what was logged; if it fails, or is interrupted, all is as before.
    #[pyo3(signature = (logs, *, certify = true, watch = None))]
    fn take<'py>(
        &mut self,
        py: Python<'py>,
        logs: &PyLogs,
        certify: bool,
        watch: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyDict>> {
        self.check(logs)?;
        let mut watch = Onlooker::new(watch);
        let (course, round) = (&mut self.course, logs.logs.clone());
        let clock = std::time::Instant::now();
        let taken = py.detach(|| course.take(round, certify, &mut watch))?;
        let report = round_report(py, &taken.learned)?;
        report.set_item("seconds", clock.elapsed().as_secs_f64())?;
        report.set_item("promoted", taken.promoted)?;
        report.set_item("decided_by", taken.decided_by.map(|c| PyCertificate::new(c, self.range)))?;
        put_proven(&report, taken.proven, self.range)?;
        Ok(report)
    }

    /// Takes in a round that nothing is learned from by itself.
    fn remember(&mut self, py: Python<'_>, logs: &PyLogs) -> Result<()> {
        self.check(logs)?;
        let (course, round) = (&mut self.course, logs.logs.clone());
        Ok(py.detach(|| course.remember(round))?)
    }

    #[getter]
    fn rounds(&self) -> usize {
        self.course.logs().len()
    }

    #[getter]
    fn running(&self) -> PyPolicy {
        self.course.running().clone().into()
    }

    #[getter]
    fn current(&self) -> PyPolicy {
        self.course.current().clone().into()
    }

    #[getter]
    fn newest(&self) -> PyPolicy {
        self.course.newest().clone().into()
    }

    #[getter]
    fn first(&self) -> PyPolicy {
        self.course.first().clone().into()
    }

    #[getter]
    fn deployed(&self) -> Vec<PyPolicy> {
        self.course.deployed().iter().cloned().map(PyPolicy::from).collect()
    }

    #[getter]
    fn logs(&self) -> Result<Vec<PyLogs>> {
        self.course.logs().iter().map(|logs| PyLogs::new(logs.clone(), self.range)).collect()
    }

    /// What is proven about the policy that the loop has come to.
    fn prove<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let proven = py.detach(|| self.course.prove())?;
        let report = PyDict::new(py);
        put_proven(&report, Some(proven), self.range).map_err(Failure::from)?;
        Ok(report)
    }
}

impl PyCourse {
    fn check(&self, logs: &PyLogs) -> Result<()> {
        if logs.reward_range() == self.range {
            return Ok(());
        }
        let allowed = format!("{:?}, as in the rounds before", self.range);
        Err(setting("the reward range", &allowed, format!("{:?}", logs.reward_range())))
    }
}
