//! Learners and sessions.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use surefoot::audit::Terms;
use surefoot::certificate::{Challenger, FixedSince, Since};
use surefoot::estimator::Custom;
use surefoot::learn::{LearnerSettings, PortfolioCheckpoint, StepReport};
use surefoot::session::{Checkpoint, Proven};
use surefoot::{Gate, Learner, LinearGaussian, Policy, Session};

use surefoot_data::{read_session, write_session};

use crate::certificate::{PyCertificate, statements_of};
use crate::custom::PyEstimator;
use crate::failure::{Failure, Result, run, setting};
use crate::json;
use crate::logs::PyLogs;
use crate::observer::Onlooker;
use crate::policy::PyPolicy;

/// The settings of a learner: no state, and no defaults.
///
/// Each setting is described at :class:`surefoot.SeqAdjLS`, whose ``partial_fit`` is the usual way to learn and which
/// creates this object. ``lam``, ``sharpness`` and ``held_back`` may be numbers or rules, so they are given as text.
///
/// Parameters
/// ----------
/// algorithm : {"portfolio", "thompson", "batch-ls", "seq-ls", "seq-adj-ls", "shift-ls", "shift-adj-ls", "crm", "scrm"}
///     The algorithm: its objective, and the rounds it learns from.
/// rounds : int, optional
///     The total number of rounds, for ``spending="even"``.
/// gamma, penalty, divergence, learn_scale, window
///     The settings of CRM and SCRM; other algorithms ignore them.
/// members, goal, thompson_v, hand_over_v
///     The settings of a portfolio; other algorithms ignore them.
///
/// Examples
/// --------
///
///     >>> import surefoot
///     >>> learner = surefoot._surefoot.Learner(
///     ...     "seq-ls", lam="0.4", posterior="isotropic", sharpness="1", choice="previous", start="warm", optimiser="adam", epochs=10,
///     ...     batch_size=128, learning_rate=0.01, decay="linear", precision="single", iterations=200, held_back="0",
///     ...     trade=0.0, delta=0.05, spending="forever", rounds=None, gate="always", seed=1, gamma=None, penalty=1.0,
///     ...     divergence=False, learn_scale=True, window="newest", members="usual", goal="policy",
///     ...     thompson_v="auto", hand_over_v=0.1, estimator=None, slope=None,
///     ... )
///     >>> learner.to_dict()["lambda"]
///     {'fixed': 0.4}
#[pyclass(frozen, name = "Learner", module = "surefoot")]
#[derive(Debug, Clone)]
pub(crate) struct PyLearner {
    pub(crate) learner: Learner,
    pub(crate) gate: Gate,
}

/// Converts the names of settings in errors. The core uses the names of flags; Python uses underscores, and no prefix
/// for a setting that only one learner has.
fn in_python(error: surefoot::Error) -> Failure {
    match error {
        surefoot::Error::Setting { name, allowed, value } => {
            setting(&name.trim_start_matches("crm-").replace('-', "_"), &allowed, value)
        }
        error => error.into(),
    }
}

#[pymethods]
impl PyLearner {
    #[new]
    #[pyo3(signature = (
        algorithm, *, lam, posterior, sharpness, choice, start, optimiser, epochs, batch_size, learning_rate, decay, precision,
        iterations, held_back, trade, delta, spending, rounds, gate, seed, gamma, penalty, divergence, learn_scale,
        window, members, goal, thompson_v, hand_over_v, estimator, slope
    ))]
    #[expect(clippy::too_many_arguments, reason = "every setting of a learner, by its name")]
    fn new(
        py: Python<'_>,
        algorithm: String,
        lam: String,
        posterior: String,
        sharpness: String,
        choice: String,
        start: String,
        optimiser: String,
        epochs: usize,
        batch_size: usize,
        learning_rate: f64,
        decay: String,
        precision: String,
        iterations: usize,
        held_back: String,
        trade: f64,
        delta: f64,
        spending: String,
        rounds: Option<usize>,
        gate: String,
        seed: u64,
        gamma: Option<f64>,
        penalty: f64,
        divergence: bool,
        learn_scale: bool,
        window: String,
        members: String,
        goal: String,
        thompson_v: String,
        hand_over_v: f64,
        estimator: Option<Py<PyAny>>,
        slope: Option<Py<PyAny>>,
    ) -> Result<Self> {
        let settings = LearnerSettings {
            algorithm,
            lambda: lam,
            posterior,
            sharpness,
            choice,
            start,
            optimiser,
            epochs,
            batch_size,
            learning_rate,
            decay,
            precision,
            iterations,
            held_back,
            trade,
            delta,
            spending,
            rounds,
            gate,
            seed,
            crm_weights: gamma.map_or_else(|| "self-normalised".into(), |gamma| gamma.to_string()),
            crm_penalty: penalty,
            crm_divergence: divergence,
            crm_fixed_scale: !learn_scale,
            crm_window: window,
            members,
            goal,
            thompson_v,
            hand_over_v,
        };
        let (learner, gate) = settings.learner().map_err(in_python)?;
        let custom = estimator.map(|h| PyEstimator::new(py, &h, slope.as_ref()).map(Custom::new)).transpose()?;
        Ok(PyLearner { learner: Learner { custom, ..learner }, gate })
    }

    /// The rule that decides whether a candidate is deployed.
    #[getter]
    fn gate(&self) -> String {
        self.gate.to_string()
    }

    /// The settings as a dictionary of plain Python objects, without the gate.
    ///
    ///     >>> import surefoot
    ///     >>> surefoot.SeqLS(lam=0.4)._learner().to_dict()["algorithm"]
    ///     'seq-ls'
    fn to_dict<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        json::to_python(py, &self.learner)
    }
}

/// The report of a step.
pub(crate) fn round_report<'py>(py: Python<'py>, round: &StepReport) -> Result<Bound<'py, PyDict>> {
    let report = PyDict::new(py);
    report.set_item("n", round.n)?;
    report.set_item("records", round.records)?;
    report.set_item("lambda", round.lambda)?;
    report.set_item("sharpness", round.sharpness)?;
    report.set_item("kl", round.kl)?;
    report.set_item("objective", round.trace.objective.clone())?;
    report.set_item("evaluations", round.trace.evaluations)?;
    report.set_item("candidates", json::to_python(py, &round.candidates)?)?;
    report.set_item("members", json::to_python(py, &round.members)?)?;
    report.set_item("coverage", json::to_python(py, &round.coverage)?)?;
    report.set_item("warning", round.coverage.and_then(|coverage| coverage.warning()))?;
    Ok(report)
}

/// Adds the certificates to a report.
pub(crate) fn put_proven(report: &Bound<'_, PyDict>, proven: Option<Proven>, range: (f64, f64)) -> PyResult<()> {
    let (certificate, ladder) = match proven {
        Some(Proven { certificate, ladder, .. }) => (certificate, ladder),
        None => (None, None),
    };
    report.set_item("certificate", certificate.map(|c| PyCertificate::new(c, range)))?;
    report.set_item("ladder", ladder.map(|c| PyCertificate::new(c, range)))
}

/// A session: a sequential learning loop. It takes the logs of each round, and says which policy to deploy next.
///
/// Parameters
/// ----------
/// learner : Learner
///     The settings.
/// first : Policy
///     The linear Gaussian policy that collects the first round. It must be fixed before it, and is the prior of every
///     bound.
/// reward_range : (float, float)
///     The lowest and the highest possible reward, in all rounds.
/// unknown : bool
///     Whether the running policy is unknown. Then its logged propensities are what learned policies are compared with,
///     it runs until one of them passes the gate, and ``first`` is only the prior.
///
/// Examples
/// --------
///
///     >>> import surefoot
///     >>> world = surefoot.Environment.synthetic(seed=1)
///     >>> session = surefoot._surefoot.Session(surefoot.SeqLS(lam=0.4)._learner(), world.first_policy(alpha=0.0))
///     >>> for round in range(2):
///     ...     report = session.take(world.collect(session.running, 1000, round=round, start=1000 * round))
///     >>> session.rounds
///     2
///     >>> world.evaluate(session.running)[0] > world.evaluate(session.first)[0]
///     True
#[pyclass(name = "Session", module = "surefoot")]
#[derive(Debug)]
pub(crate) struct PySession {
    session: Session,
    range: (f64, f64),
}

#[pymethods]
impl PySession {
    #[new]
    #[pyo3(
        signature = (learner, first, *, reward_range = (0.0, 1.0), unknown = false),
        text_signature = "(learner, first, *, reward_range=(0.0, 1.0), unknown=False)"
    )]
    fn new(learner: &PyLearner, first: &PyPolicy, reward_range: (f64, f64), unknown: bool) -> Result<Self> {
        surefoot::RewardRange::new(reward_range.0, reward_range.1)?;
        let first = first.gaussian("the first policy")?.clone();
        let terms = Terms { reward_range: [reward_range.0, reward_range.1], ..Terms::default() };
        let open = if unknown { Session::replacing_unknown } else { Session::new };
        let session = open(learner.learner.clone(), learner.gate, first)?.with_terms(terms)?;
        Ok(PySession { session, range: reward_range })
    }

    /// Learns from the logs that :attr:`running` collected, lets the gate decide, and returns a report. If it fails or
    /// is interrupted, the session is unchanged.
    ///
    /// With ``certify``, the report includes the certificates ``certificate`` and ``ladder``. ``watch`` is an object
    /// with a method ``searching(share)``, which is called a few times per second with the share of the search that is
    /// done.
    ///
    ///     >>> import surefoot
    ///     >>> world = surefoot.Environment.synthetic(seed=1)
    ///     >>> session = surefoot._surefoot.Session(surefoot.SeqLS(lam=0.4)._learner(), world.first_policy(alpha=0.0))
    ///     >>> report = session.take(world.collect(session.running, 500))
    ///     >>> report["records"], report["lambda"], report["promoted"]
    ///     (500, 0.4, True)
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
        let (session, round) = (&mut self.session, logs.logs.clone());
        let clock = std::time::Instant::now();
        let taken = run(py, || session.take(round, certify, &mut watch))?;
        let report = round_report(py, &taken.learned)?;
        report.set_item("seconds", clock.elapsed().as_secs_f64())?;
        report.set_item("promoted", taken.promoted)?;
        report.set_item("decided_by", taken.decided_by.map(|c| PyCertificate::new(c, self.range)))?;
        report.set_item("handed_over", taken.handed_over.map(|c| PyCertificate::new(c, self.range)))?;
        put_proven(&report, taken.proven, self.range)?;
        Ok(report)
    }

    /// Adds a round without learning from it yet; the next :meth:`take` learns from all rounds.
    ///
    ///     >>> import surefoot
    ///     >>> world = surefoot.Environment.synthetic(seed=1)
    ///     >>> session = surefoot._surefoot.Session(surefoot.SeqLS(lam=0.4)._learner(), world.first_policy(alpha=0.0))
    ///     >>> session.remember(world.collect(session.running, 500))
    ///     >>> session.take(world.collect(session.running, 500, round=1, start=500))["records"]
    ///     1000
    fn remember(&mut self, py: Python<'_>, logs: &PyLogs) -> Result<()> {
        self.check(logs)?;
        let (session, round) = (&mut self.session, logs.logs.clone());
        run(py, || session.remember(round))
    }

    /// The number of rounds so far.
    #[getter]
    fn rounds(&self) -> usize {
        self.session.logs().len()
    }

    /// The policy that collects the next round. If :attr:`runs_unknown`, its probabilities are an error.
    #[getter]
    fn running(&self) -> PyPolicy {
        PyPolicy::shared(self.session.running())
    }

    /// Whether the running policy is unknown, because no learned policy has passed the gate yet.
    #[getter]
    fn runs_unknown(&self) -> bool {
        self.session.runs_unknown()
    }

    /// The current result of the loop: the running policy or, for algorithms that never redeploy, the last policy
    /// learned.
    #[getter]
    fn current(&self) -> PyPolicy {
        match self.session.learner().algorithm.redeploys() {
            true => PyPolicy::shared(self.session.running()),
            false => self.session.newest().clone().into(),
        }
    }

    /// The last policy learned, promoted or not. Before any round, the first policy.
    #[getter]
    fn newest(&self) -> PyPolicy {
        self.session.newest().clone().into()
    }

    /// The policy to hand over if learning ended now, which explores less than :attr:`newest`. ``None`` if the algorithm
    /// makes no difference between the two.
    #[getter]
    fn hand_over(&self) -> Option<PyPolicy> {
        self.session.hand_over().cloned().map(PyPolicy::from)
    }

    /// The first policy, which is the prior of every search.
    #[getter]
    fn first(&self) -> PyPolicy {
        self.session.first().clone().into()
    }

    /// The policies that collected each round; ``None`` where that policy is unknown.
    #[getter]
    fn deployed(&self) -> Vec<Option<PyPolicy>> {
        let known = |policy: &Arc<dyn Policy>| policy.identity().map(|_| PyPolicy::shared(policy));
        self.session.deployed().iter().map(known).collect()
    }

    /// The logs of each round.
    #[getter]
    fn logs(&self) -> Result<Vec<PyLogs>> {
        self.session.logs().iter().map(|logs| PyLogs::new(logs.clone(), self.range)).collect()
    }

    /// The ledger: one line per entry, each with the SHA-256 of the line before. It tells what was fixed when.
    #[getter]
    fn ledger(&self) -> String {
        self.session.ledger().to_string()
    }

    /// The head of the ledger. Give it to somebody before the next round is collected, and they can check later that
    /// nothing before it was changed: ``surefoot verify FOLDER --head HEAD``.
    #[getter]
    fn head(&self) -> String {
        self.session.ledger().head().to_string()
    }

    // The record whose logged propensity differs most from that of the running policy, among some records: its row, and
    // both propensities.
    fn _most_off(&self, py: Python<'_>, logs: &PyLogs, records: usize) -> Result<(usize, f64, f64)> {
        // Ten stretches, spread from the first record to the last, since errors may begin anywhere.
        let (n, stretch) = (logs.logs.len(), records.div_ceil(10).min(logs.logs.len()));
        let policy = self.session.running();
        let mut most: (usize, f64, f64) = (0, 0.0, 0.0);
        for start in (0..10).map(|i| i * (n - stretch) / 9) {
            let some = logs.logs.slice(start..start + stretch);
            let p = run(py, || policy.propensity(some.contexts(), some.action(), some.eligible()))?;
            for (row, (&logged, p)) in some.propensity().iter().zip(p).enumerate() {
                if (logged - p).abs() > (most.1 - most.2).abs() {
                    most = (start + row, logged, p);
                }
            }
        }
        Ok(most)
    }

    // The complete state, for pickling.
    fn _checkpoint<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let past = self.session.checkpoint();
        let all = |challengers: &[Challenger]| challengers.iter().map(to_parts).collect::<Vec<Parts>>();
        let found = PyDict::new(py);
        found.set_item("first", PyPolicy::from(past.first))?;
        found.set_item("logs", self.logs()?)?;
        found.set_item("deployed", self.deployed())?;
        found.set_item("learned", all(&past.learned))?;
        found.set_item("incumbent", past.incumbent.as_ref().map(to_parts))?;
        found.set_item("started", past.started)?;
        found.set_item("challengers", all(&past.challengers))?;
        found.set_item("own", past.own.iter().map(PyPolicy::shared).collect::<Vec<_>>())?;
        found.set_item("kept", past.kept)?;
        let shared = |policy: &Arc<LinearGaussian>| PyPolicy::from(LinearGaussian::clone(policy));
        let hand_overs = past.hand_overs.iter().map(|policy| policy.as_ref().map(shared));
        found.set_item("hand_overs", hand_overs.collect::<Vec<_>>())?;
        // The policies of a portfolio, and the rest of it with their places.
        let mut policies = Vec::new();
        let portfolio = past.portfolio.map(|portfolio| {
            portfolio.map(|policy| {
                policies.push(PyPolicy::from(policy));
                policies.len() - 1
            })
        });
        let portfolio = portfolio.map(|portfolio| json::text(&portfolio)).transpose()?;
        found.set_item("portfolio", portfolio.map(|text| (text, policies)))?;
        found.set_item("reward_range", self.range)?;
        found.set_item("ledger", past.ledger.to_string())?;
        Ok(found)
    }

    // Continues a session from its state, with the same settings.
    #[staticmethod]
    #[pyo3(signature = (learner, *, first, logs, deployed, learned, incumbent, started, challengers, own, kept, hand_overs, portfolio, reward_range, ledger))]
    #[expect(clippy::too_many_arguments, reason = "the parts of a pickle")]
    fn _resume(
        py: Python<'_>,
        learner: &PyLearner,
        first: &PyPolicy,
        logs: Vec<PyRef<'_, PyLogs>>,
        deployed: Vec<Option<PyRef<'_, PyPolicy>>>,
        learned: Vec<Parts>,
        incumbent: Option<Parts>,
        started: Option<usize>,
        challengers: Vec<Parts>,
        own: Vec<PyRef<'_, PyPolicy>>,
        kept: Option<(f64, f64)>,
        hand_overs: Vec<Option<PyRef<'_, PyPolicy>>>,
        portfolio: Option<(String, Vec<PyRef<'_, PyPolicy>>)>,
        reward_range: (f64, f64),
        ledger: &str,
    ) -> Result<Self> {
        let known = |policy: &PyRef<'_, PyPolicy>| -> Result<LinearGaussian> {
            Ok(policy.gaussian("a policy of the loop")?.clone())
        };
        let handed_over = |policy: &Option<PyRef<'_, PyPolicy>>| -> Result<_> {
            Ok(policy.as_ref().map(known).transpose()?.map(Arc::new))
        };
        let portfolio = portfolio.map(|(text, policies)| {
            let stored: PortfolioCheckpoint<usize> =
                serde_json::from_str(&text).map_err(|e| setting("the portfolio of a pickle", "readable", e))?;
            let missing = || setting("the portfolio of a pickle", "with all its policies", "without some");
            stored.map(|place| known(policies.get(place).ok_or_else(missing)?)).transpose()
        });
        let past = Checkpoint {
            hand_overs: hand_overs.iter().map(handed_over).collect::<Result<_>>()?,
            portfolio: portfolio.transpose()?,
            ledger: ledger.parse()?,
            first: first.gaussian("the first policy")?.clone(),
            logs: logs.iter().map(|logs| logs.logs.clone()).collect(),
            deployed: deployed.iter().map(|policy| policy.as_ref().map(|policy| Arc::clone(policy.policy()))).collect(),
            learned: learned.iter().map(of_parts).collect::<Result<_>>()?,
            incumbent: incumbent.as_ref().map(of_parts).transpose()?,
            started,
            challengers: challengers.iter().map(of_parts).collect::<Result<_>>()?,
            own: own.iter().map(|policy| Arc::clone(policy.policy())).collect(),
            kept,
        };
        let session = run(py, || Session::resume(learner.learner.clone(), learner.gate, past))?;
        Ok(PySession { session, range: reward_range })
    }

    /// Saves the session as a folder: its rounds, policies and state, and the ``statements`` made so far (see
    /// :func:`write_certificates`). ``surefoot verify`` checks the folder.
    ///
    ///     >>> import pathlib, surefoot, tempfile
    ///     >>> world = surefoot.Environment.synthetic(seed=1)
    ///     >>> settings = surefoot.SeqLS(lam=0.4)._learner()
    ///     >>> session = surefoot._surefoot.Session(settings, world.first_policy(alpha=0.0))
    ///     >>> report = session.take(world.collect(session.running, 500))
    ///     >>> with tempfile.TemporaryDirectory() as folder:
    ///     ...     session.save(pathlib.Path(folder) / "run", [])
    ///     ...     again = surefoot._surefoot.Session.load(pathlib.Path(folder) / "run")
    ///     >>> again.running == session.running
    ///     True
    fn save(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        statements: Vec<(usize, String, PyRef<'_, PyCertificate>)>,
    ) -> Result<()> {
        let statements = statements_of(statements)?;
        run(py, || write_session(&folder, &self.session, statements))
    }

    /// Loads a session from a folder. It continues bit for bit as the saved one would.
    ///
    ///     >>> import pathlib, surefoot, tempfile
    ///     >>> world = surefoot.Environment.synthetic(seed=1)
    ///     >>> settings = surefoot.SeqLS(lam=0.4)._learner()
    ///     >>> session = surefoot._surefoot.Session(settings, world.first_policy(alpha=0.0))
    ///     >>> report = session.take(world.collect(session.running, 500))
    ///     >>> with tempfile.TemporaryDirectory() as folder:
    ///     ...     session.save(pathlib.Path(folder) / "run", [])
    ///     ...     surefoot._surefoot.Session.load(pathlib.Path(folder) / "run").rounds
    ///     1
    #[staticmethod]
    #[pyo3(signature = (folder, *, reward_range = (0.0, 1.0)), text_signature = "(folder, *, reward_range=(0.0, 1.0))")]
    fn load(py: Python<'_>, folder: PathBuf, reward_range: (f64, f64)) -> Result<Self> {
        surefoot::RewardRange::new(reward_range.0, reward_range.1)?;
        let session = run(py, || read_session(&folder))?;
        let said = session.ledger().opening().terms.reward_range;
        if said != [reward_range.0, reward_range.1] {
            let allowed = format!("[{}, {}], as in the ledger", said[0], said[1]);
            return Err(setting("the reward range", &allowed, format!("[{}, {}]", reward_range.0, reward_range.1)));
        }
        Ok(PySession { session, range: reward_range })
    }

    /// The settings of its learner, as a dictionary, and its gate.
    ///
    ///     >>> import surefoot
    ///     >>> world = surefoot.Environment.synthetic(seed=1)
    ///     >>> session = surefoot._surefoot.Session(surefoot.SeqLS(lam=0.4)._learner(), world.first_policy(alpha=0.0))
    ///     >>> session.settings()[1]
    ///     'always'
    fn settings<'py>(&self, py: Python<'py>) -> Result<(Bound<'py, PyAny>, String)> {
        Ok((json::to_python(py, self.session.learner())?, self.session.gate().to_string()))
    }

    /// Certifies :attr:`current` on all rounds so far.
    ///
    /// ``certificate`` is Theorem 3.2 with the first policy as prior (Theorem C.1 if contexts may shift). ``ladder`` is
    /// the best bound of the ladder of priors, or ``None``.
    ///
    ///     >>> import surefoot
    ///     >>> world = surefoot.Environment.synthetic(seed=1)
    ///     >>> session = surefoot._surefoot.Session(surefoot.SeqLS(lam=0.4)._learner(), world.first_policy(alpha=0.0))
    ///     >>> report = session.take(world.collect(session.running, 500), certify=False)
    ///     >>> session.prove()["certificate"].theorem
    ///     '3.2'
    fn prove<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let proven = run(py, || self.session.prove())?;
        let report = PyDict::new(py);
        put_proven(&report, Some(proven), self.range).map_err(Failure::from)?;
        Ok(report)
    }
}

/// A policy, and the round, first unseen record and set size of its `fixed_since`.
type Parts = (PyPolicy, Option<(usize, usize, usize, usize)>);

fn to_parts(challenger: &Challenger) -> Parts {
    let fixed_since = challenger.fixed_since.map(|b| (b.round, b.since.round, b.since.record, b.size));
    (PyPolicy::shared(&challenger.policy), fixed_since)
}

fn of_parts((policy, fixed_since): &Parts) -> Result<Challenger> {
    let born = |&(round, first, record, size): &(usize, usize, usize, usize)| FixedSince {
        round,
        since: Since { round: first, record },
        size,
    };
    Ok(Challenger { policy: Arc::clone(policy.policy()), fixed_since: fixed_since.as_ref().map(born) })
}

impl PySession {
    fn check(&self, logs: &PyLogs) -> Result<()> {
        if logs.reward_range() == self.range {
            return Ok(());
        }
        let allowed = format!("{:?}, as in the rounds before", self.range);
        Err(setting("the reward range", &allowed, format!("{:?}", logs.reward_range())))
    }
}
