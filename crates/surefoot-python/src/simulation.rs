//! The simulated loop.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use surefoot::simulate::{Certify, Plan, Schedule, SimulatedRound, simulate_observed};

use crate::certificate::PyCertificate;
use crate::environment::PyEnvironment;
use crate::failure::{Failure, Result, run};
use crate::json;
use crate::learning::{PyLearner, put_proven, round_report};
use crate::logs::PyLogs;
use crate::observer::Onlooker;
use crate::policy::PyPolicy;

/// The reward range of simulated environments.
const RANGE: (f64, f64) = (0.0, 1.0);

/// The report of a round, with the numbers of the command line's `--json`.
pub(crate) fn report<'py>(py: Python<'py>, round: &SimulatedRound) -> PyResult<Bound<'py, PyDict>> {
    let report = round_report(py, &round.learned).map_err(PyErr::from)?;
    report.set_item("round", round.round)?;
    report.set_item("true_risk", round.true_risk)?;
    report.set_item("accuracy", round.accuracy)?;
    report.set_item("greedy_accuracy", round.greedy_accuracy)?;
    report.set_item("best_coverage", round.best_coverage)?;
    report.set_item("reward", round.reward)?;
    report.set_item("mean_cost", round.mean_cost)?;
    report.set_item("hand_over", json::to_python(py, &round.hand_over).map_err(PyErr::from)?)?;
    let handed_over = round.hand_over.as_ref().and_then(|policy| policy.certificate.clone());
    report.set_item("handed_over", handed_over.map(|c| PyCertificate::new(c, RANGE)))?;
    report.set_item("seconds", round.seconds)?;
    put_proven(&report, round.proven.clone(), RANGE)?;
    let decision = round.decision.as_ref();
    report.set_item("promoted", decision.map(|decision| decision.promoted))?;
    report.set_item("candidate_risk", decision.map(|decision| decision.candidate_risk))?;
    let decided_by = decision.and_then(|decision| decision.certificate.clone());
    report.set_item("decided_by", decided_by.map(|c| PyCertificate::new(c, RANGE)))?;
    Ok(report)
}

/// Runs the loop with rounds of these sizes. Use :func:`surefoot.simulate` instead.
///
/// Parameters
/// ----------
/// environment : Environment
///     The environment.
/// first : Policy
///     The linear Gaussian policy that collects the first round.
/// learner : Learner
///     The settings.
/// sizes : list of int
///     The number of interactions of each round.
/// certify : {"never", "last", "each"}
///     The rounds after which certificates are computed.
/// watch : object, optional
///     An object with the methods ``searching(share)`` and ``round(report)``.
///
/// Returns
/// -------
/// dict
///     ``rounds``, one report per round; ``policies``, the policy that collected each round, and the final one;
///     ``learned``, the policy learned in each round; ``hand_over``, the policy to hand over, if it is another one;
///     ``logs``.
///
/// Examples
/// --------
///
///     >>> import surefoot
///     >>> from surefoot import _surefoot
///     >>> world = surefoot.Environment.synthetic(seed=1)
///     >>> settings = surefoot.SeqLS(lam=0.4)._learner()
///     >>> found = _surefoot.simulate(world, world.first_policy(alpha=0.0), settings, [500, 500])
///     >>> len(found["rounds"]), len(found["policies"])
///     (2, 3)
#[pyfunction]
#[pyo3(signature = (environment, first, learner, sizes, *, certify = "never", watch = None))]
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    environment: &PyEnvironment,
    first: &PyPolicy,
    learner: &PyLearner,
    sizes: Vec<usize>,
    certify: &str,
    watch: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyDict>> {
    let certify = match certify {
        "never" => Certify::Never,
        "last" => Certify::Last,
        "each" => Certify::Each,
        other => return Err(crate::failure::setting("certify", "never, last or each", other)),
    };
    let plan = Plan { learner: learner.learner.clone(), gate: learner.gate, certify };
    let first = first.gaussian("the first policy")?.clone();
    let mut rounds = Onlooker::new(watch.as_ref().map(|shown| shown.clone_ref(py)));
    let mut searches = Onlooker::new(watch);
    let world = environment.environment();
    let outcome = run(py, || {
        simulate_observed(world, first, &plan, &sizes, &mut searches, |round| {
            rounds.ask(|shown| shown.call_method1("round", (report(shown.py(), round)?,)).map(|_| ()))
        })
    })?;
    let found = PyDict::new(py);
    let rounds = outcome.rounds.iter().map(|round| report(py, round)).collect::<PyResult<Vec<_>>>()?;
    found.set_item("rounds", PyList::new(py, rounds)?)?;
    found.set_item("policies", outcome.policies().iter().map(PyPolicy::shared).collect::<Vec<_>>())?;
    found.set_item("hand_over", outcome.session.hand_over().cloned().map(PyPolicy::from))?;
    found.set_item("learned", outcome.session.learned().map(PyPolicy::shared).collect::<Vec<_>>())?;
    let logs =
        outcome.session.logs().iter().map(|logs| PyLogs::new(logs.clone(), RANGE)).collect::<Result<Vec<_>>>()?;
    found.set_item("logs", logs).map_err(Failure::from)?;
    Ok(found)
}

/// The sizes of ``rounds`` rounds with ``total`` interactions: ``"equal"``, ``"growing"``, ``"doubling"`` (the last round
/// takes what is left), ``"auto"`` (the usual one for the algorithm), or a list of sizes, which is checked. For ``None``, the
/// number of rounds is the usual one for the algorithm.
///
///     >>> from surefoot import _surefoot
///     >>> _surefoot.sizes(10, 3)
///     [4, 3, 3]
///     >>> _surefoot.sizes(100, 4, "doubling")
///     [7, 14, 28, 51]
#[pyfunction]
#[pyo3(
    signature = (total, rounds, schedule = Sizes::Named("auto".into()), *, algorithm = "seq-adj-ls"),
    text_signature = "(total, rounds, schedule='auto', *, algorithm='seq-adj-ls')"
)]
pub(crate) fn sizes(total: usize, rounds: Option<usize>, schedule: Sizes, algorithm: &str) -> Result<Vec<usize>> {
    let rounds = rounds.unwrap_or_else(|| Schedule::usual_rounds(algorithm));
    let schedule = match schedule {
        Sizes::Listed(sizes) => Schedule::Sizes(sizes),
        Sizes::Named(name) => Schedule::named(&name, rounds, algorithm)?,
    };
    Ok(schedule.sizes(total)?)
}

/// The sizes of rounds, as given in Python.
#[derive(Debug, FromPyObject)]
pub(crate) enum Sizes {
    Named(String),
    Listed(Vec<usize>),
}
