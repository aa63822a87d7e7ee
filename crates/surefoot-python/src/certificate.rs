//! Certificates.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use surefoot::audit::{AuditedPolicy, AuditedRound, Run, Statement, audit};
use surefoot::certificate::{Case, Combine, Smoothing, ladder};
use surefoot::{Certificate, Logs, Policy, Protocol, RewardRange};
use surefoot_data::{Certificates, RunFiles, read_certificates, write_certificates};

use crate::failure::{Result, run, setting, size};
use crate::json;
use crate::logs::PyLogs;
use crate::policy::PyPolicy;

/// A certificate: a bound on the risk of a policy, with every number that is needed to verify it.
///
/// Every certificate is one inequality. With :math:`\psi_\lambda(x) = (1 - e^{-\lambda x})/\lambda`, a grid of
/// :math:`G` lambdas and the price of the statement, such as :math:`\mathrm{KL}(Q, P)`,
///
/// .. math:: R \le \psi_\lambda\left(\hat R_\lambda + \frac{\mathrm{price} + \ln(G/\delta)}{\lambda N}\right),
///
/// with probability :math:`1 - \delta`, for all rounds simultaneously. It is stated in costs, which are negated rewards
/// scaled to :math:`[-1, 0]`; ``at_least`` converts the bound to a reward. :func:`surefoot.certify` and the learners
/// make certificates. Two certificates are equal if all their numbers are.
///
///     >>> import surefoot
///     >>> world = surefoot.Environment.synthetic(seed=1)
///     >>> logs = world.collect(surefoot.Policy.uniform(5), 2000)
///     >>> certificate = surefoot.certify(world.first_policy(alpha=1.0), [logs])
///     >>> certificate
///     <surefoot.Certificate fixed: reward at least 0.4291 (95 %, 2000 records)>
///     >>> certificate.at_least <= world.evaluate(world.first_policy(alpha=1.0))[0]
///     True
#[pyclass(frozen, name = "Certificate", module = "surefoot", eq)]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PyCertificate {
    pub(crate) certificate: Certificate,
    /// The reward range used to convert bounds to rewards.
    range: (f64, f64),
}

impl PyCertificate {
    pub(crate) fn new(certificate: Certificate, range: (f64, f64)) -> Self {
        PyCertificate { certificate, range }
    }
}

#[pymethods]
impl PyCertificate {
    /// The upper bound, in costs, including the numerical error.
    #[getter]
    fn upper(&self) -> f64 {
        self.certificate.upper
    }

    /// Whether the bound is vacuous: a cost is never above 0, and a difference of 0 is no improvement.
    #[getter]
    fn vacuous(&self) -> bool {
        self.certificate.vacuous
    }

    /// The lower bound of the reward in the units of ``reward_range``, or of the gain if a difference is bounded.
    #[getter]
    fn at_least(&self) -> Result<f64> {
        let range = RewardRange::new(self.range.0, self.range.1)?;
        let width = self.range.1 - self.range.0;
        Ok(if self.is_difference() { -self.certificate.upper * width } else { range.reward(self.certificate.upper) })
    }

    /// Whether it bounds the difference to the logging policies, not a risk.
    #[getter]
    fn is_difference(&self) -> bool {
        matches!(
            self.certificate.bounds,
            surefoot::certificate::Quantity::Difference | surefoot::certificate::Quantity::MeanDifference
        )
    }

    /// The lowest and the highest possible reward.
    #[getter]
    fn reward_range(&self) -> (f64, f64) {
        self.range
    }

    /// The theorem: ``"3.2"``, ``"4.1"``, ``"C.1"``, ``"C.1-adjusted"``, ``"fixed"``, ``"fixed-adjusted"``,
    /// ``"chain"``, ``"running"`` or ``"combined"``.
    #[getter]
    fn theorem(&self) -> Result<String> {
        Ok(json::text(&self.certificate.theorem)?.trim_matches('"').to_owned())
    }

    /// The bounded quantity: ``"risk"``, ``"difference"``, ``"mean-risk"``, ``"mean-difference"`` or
    /// ``"running-risk"``.
    #[getter]
    fn bounds(&self) -> Result<String> {
        Ok(json::text(&self.certificate.bounds)?.trim_matches('"').to_owned())
    }

    /// The failure probability :math:`\delta`: the probability that any statement of its family is ever wrong.
    #[getter]
    fn delta(&self) -> f64 {
        self.certificate.delta
    }

    /// The :math:`\lambda` of the bound, the best one of the grid.
    #[getter]
    fn lam(&self) -> f64 {
        self.certificate.lambda
    }

    /// The number :math:`N` of records.
    #[getter]
    fn records(&self) -> usize {
        self.certificate.records
    }

    /// The smoothed estimate :math:`\hat R_\lambda` of the bounded quantity, in costs, before any penalty is added.
    #[getter]
    fn estimate(&self) -> f64 {
        self.certificate.estimate
    }

    /// The KL divergence in the bound; 0 for a policy that was fixed before the records.
    #[getter]
    fn kl(&self) -> f64 {
        self.certificate.kl
    }

    /// The assumptions about the logs that cannot be checked from them, one sentence each.
    #[getter]
    fn assumptions(&self) -> Vec<String> {
        self.certificate.assumptions.clone()
    }

    /// The certificate as JSON, exact to the last bit. The reward range is not included.
    ///
    ///     >>> import surefoot
    ///     >>> logs = surefoot.Environment.synthetic(seed=1).collect(surefoot.Policy.uniform(5), 100)
    ///     >>> surefoot.certify(surefoot.Policy.uniform(5), [logs]).to_json()[:18]
    ///     '{"theorem":"fixed"'
    fn to_json(&self) -> Result<String> {
        json::text(&self.certificate)
    }

    /// Parses the JSON of :meth:`to_json`. Only its form is checked; :func:`surefoot.verify` checks the rest.
    ///
    ///     >>> import surefoot
    ///     >>> logs = surefoot.Environment.synthetic(seed=1).collect(surefoot.Policy.uniform(5), 100)
    ///     >>> certificate = surefoot.certify(surefoot.Policy.uniform(5), [logs])
    ///     >>> surefoot.Certificate.from_json(certificate.to_json()) == certificate
    ///     True
    #[staticmethod]
    #[pyo3(signature = (text, *, reward_range = (0.0, 1.0)), text_signature = "(text, *, reward_range=(0.0, 1.0))")]
    fn from_json(text: &str, reward_range: (f64, f64)) -> Result<Self> {
        RewardRange::new(reward_range.0, reward_range.1)?;
        let certificate = serde_json::from_str(text).map_err(|e| setting("a certificate", "its JSON", e))?;
        Ok(PyCertificate::new(certificate, reward_range))
    }

    /// All numbers as a dictionary: the content of :meth:`to_json` as plain Python objects.
    ///
    ///     >>> import surefoot
    ///     >>> logs = surefoot.Environment.synthetic(seed=1).collect(surefoot.Policy.uniform(5), 100)
    ///     >>> surefoot.certify(surefoot.Policy.uniform(5), [logs]).to_dict()["records"]
    ///     100
    fn to_dict<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        json::to_python(py, &self.certificate)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let rebuild = py.import("surefoot._rebuild")?.getattr("certificate")?;
        Ok((rebuild, (self.to_json()?, self.range).into_pyobject(py)?))
    }

    fn __repr__(&self) -> Result<String> {
        let (theorem, records) = (self.theorem()?, self.certificate.records);
        let what = if self.is_difference() { "gain" } else { "reward" };
        let percent = (1e8 * (1.0 - self.certificate.delta)).round() / 1e6;
        let nothing = if self.certificate.vacuous { ", which says nothing" } else { "" };
        Ok(format!(
            "<surefoot.Certificate {theorem}: {what} at least {:.4}{nothing} ({percent} %, {records} records)>",
            self.at_least()?
        ))
    }
}

fn rounds_of(rounds: &[PyRef<'_, PyLogs>]) -> Vec<Logs> {
    rounds.iter().map(|logs| logs.logs.clone()).collect()
}

fn range_of(rounds: &[PyRef<'_, PyLogs>]) -> Result<(f64, f64)> {
    let Some(first) = rounds.first() else { return Ok((0.0, 1.0)) };
    match rounds.iter().find(|logs| logs.reward_range() != first.reward_range()) {
        Some(other) => {
            let allowed = format!("{:?}, as of the first", first.reward_range());
            Err(setting("the reward range of every round", &allowed, format!("{:?}", other.reward_range())))
        }
        None => Ok(first.reward_range()),
    }
}

/// Certifies a policy on logs.
///
/// Without ``prior`` and ``deployed``, the policy must have been fixed before all records; the bound then has no
/// divergence term. A policy that was learned from these records needs one of the two.
///
/// Parameters
/// ----------
/// policy : Policy
///     The target policy. With ``prior`` or ``deployed`` it must be linear Gaussian.
/// rounds : list of Logs
///     The rounds, the oldest first.
/// prior : Policy, optional
///     A policy that was fixed before all records. Theorem 3.2 then holds for any policy learned from them, at the
///     price of :math:`\mathrm{KL}(Q, P)`.
/// deployed : list of Policy, optional
///     The policies that collected the rounds. Each is a prior for all records from its round on. The best bound of
///     this ladder of priors is taken.
/// baseline : bool
///     Whether to bound the difference to the logging policies (Theorem 4.1) instead of the risk. Not used with
///     ``deployed``.
/// delta : float
///     The failure probability of the certificate.
/// lambdas : list of float, optional
///     A grid of lambdas. The smallest bound over it counts, at the price of the logarithm of its size. By default the
///     bounds of several lambdas are mixed, which is tighter.
///
/// Examples
/// --------
///
///     >>> import surefoot
///     >>> world = surefoot.Environment.synthetic(seed=1)
///     >>> first, better = world.first_policy(alpha=0.0), world.first_policy(alpha=1.0)
///     >>> logs = world.collect(first, 2000)
///     >>> surefoot.certify(better, [logs], prior=first).theorem
///     '3.2'
///     >>> surefoot.certify(better, [logs], baseline=True).at_least > 0.0
///     True
#[pyfunction]
#[pyo3(signature = (policy, rounds, *, prior = None, deployed = None, baseline = false, delta = 0.05, lambdas = None))]
#[expect(clippy::too_many_arguments, reason = "all but two have defaults")]
pub(crate) fn certify(
    py: Python<'_>,
    policy: &PyPolicy,
    rounds: Vec<PyRef<'_, PyLogs>>,
    prior: Option<&PyPolicy>,
    deployed: Option<Vec<PyRef<'_, PyPolicy>>>,
    baseline: bool,
    delta: f64,
    lambdas: Option<Vec<f64>>,
) -> Result<PyCertificate> {
    let usual = Protocol::default();
    let protocol = match lambdas {
        Some(lambdas) => Protocol { delta, lambdas, combine: Combine::Union, ..usual },
        None => Protocol { delta, ..usual },
    };
    protocol.check()?;
    let (logs, range) = (rounds_of(&rounds), range_of(&rounds)?);
    let deployed: Option<Vec<Arc<dyn Policy>>> =
        deployed.map(|all| all.iter().map(|policy| Arc::clone(policy.policy())).collect());
    if logs.is_empty() {
        return Err(size("the rounds", "at least one", 0));
    }
    if baseline && deployed.is_some() {
        return Err(setting("baseline", "false where a ladder is asked for, which bounds a risk", "true"));
    }
    let gaussian = || policy.gaussian("a policy that is compared with a prior");
    let case = Case::whole(&logs, &protocol);
    let made = match (prior, &deployed) {
        (Some(_), Some(_)) => {
            return Err(setting("a certificate", "with a prior or with what was deployed", "with both"));
        }
        (Some(prior), None) => {
            let (policy, prior) = (gaussian()?, prior.gaussian("the prior")?);
            run(py, || match baseline {
                true => Certificate::difference(policy, prior, &case),
                false => Certificate::risk(policy, prior, &case),
            })?
        }
        (None, Some(deployed)) => {
            let policy = policy.policy().as_ref();
            run(py, || ladder(policy, None, deployed, &logs, &protocol))?
        }
        (None, None) => {
            let smoothing = if baseline { Smoothing::Adjusted } else { Smoothing::Ls };
            run(py, || Certificate::fixed(smoothing, policy.policy().as_ref(), 1, &case))?
        }
    };
    Ok(PyCertificate::new(made, range))
}

/// Checks certificates against policies and logs alone, as `surefoot verify` does. Use :func:`surefoot.verify` instead.
///
/// Each of the ``statements`` has the number of rounds it was made after, its kind, and the certificate.
/// ``collected_by`` has the fingerprint of the policy that collected each round, or ``None``.
#[pyfunction]
#[pyo3(name = "_verify", signature = (statements, policies, rounds, collected_by, heads))]
pub(crate) fn verify_statements<'py>(
    py: Python<'py>,
    statements: Vec<(usize, String, PyRef<'py, PyCertificate>)>,
    policies: Vec<PyRef<'py, PyPolicy>>,
    rounds: Vec<PyRef<'py, PyLogs>>,
    collected_by: Vec<Option<String>>,
    heads: Vec<String>,
) -> Result<Bound<'py, PyAny>> {
    let policies = policies
        .iter()
        .enumerate()
        .map(|(place, policy)| AuditedPolicy { name: format!("policy {place}"), policy: Arc::clone(policy.policy()) });
    let rounds = rounds.iter().zip(collected_by).enumerate().map(|(place, (logs, print))| {
        let collected_by = print.map(|print| print.parse()).transpose()?;
        Ok(AuditedRound { name: format!("round {place}"), logs: logs.logs.clone(), collected_by })
    });
    let heads = heads_of(&heads)?;
    let run_of = Run {
        ledger: None,
        rounds: rounds.collect::<Result<_>>()?,
        policies: policies.collect(),
        statements: statements_of(statements)?,
        reward_range: None,
    };
    json::to_python(py, &run(py, || -> surefoot::Result<_> { Ok(audit(&run_of, &heads, || ())) })?)
}

/// Checks a saved run folder, as `surefoot verify` does. Use :func:`surefoot.verify` instead.
#[pyfunction]
#[pyo3(name = "_verify_run", signature = (folder, heads))]
pub(crate) fn verify_run(py: Python<'_>, folder: PathBuf, heads: Vec<String>) -> Result<Bound<'_, PyAny>> {
    let heads = heads_of(&heads)?;
    let report = run(py, || -> surefoot_data::Result<_> { Ok(audit(&RunFiles::of(&folder)?.read()?, &heads, || ())) })?;
    json::to_python(py, &report)
}

fn heads_of(texts: &[String]) -> Result<Vec<surefoot::Fingerprint>> {
    texts.iter().map(|text| Ok(text.parse()?)).collect()
}

/// Converts the statements from Python.
pub(crate) fn statements_of(statements: Vec<(usize, String, PyRef<'_, PyCertificate>)>) -> Result<Vec<Statement>> {
    let statement = |(round, kind, certificate): (usize, String, PyRef<'_, PyCertificate>)| {
        Ok(Statement { round, kind: kind.parse()?, certificate: certificate.certificate.clone() })
    };
    statements.into_iter().map(statement).collect()
}

/// Reads a file of certificates. Each entry is the round, counted from 1, the kind and the certificate.
///
/// The kind is ``"certificate"``, ``"ladder"`` or ``"gate"``; see :func:`write_certificates`.
///
///     >>> import pathlib, surefoot, tempfile
///     >>> logs = surefoot.Environment.synthetic(seed=1).collect(surefoot.Policy.uniform(5), 100)
///     >>> proven = surefoot.certify(surefoot.Policy.uniform(5), [logs])
///     >>> with tempfile.TemporaryDirectory() as folder:
///     ...     path = pathlib.Path(folder) / "proven.json"
///     ...     surefoot.write_certificates(path, [(1, "certificate", proven)])
///     ...     surefoot.read_certificates(path) == [(1, "certificate", proven)]
///     True
#[pyfunction]
#[pyo3(
    name = "read_certificates",
    signature = (path),
    text_signature = "(path)"
)]
pub(crate) fn read_file(path: PathBuf) -> Result<Vec<(usize, String, PyCertificate)>> {
    let Certificates { reward_range, statements } = read_certificates(&path)?;
    let read = |statement: Statement| {
        let kind = statement.kind.to_string();
        Ok((statement.round, kind, PyCertificate::new(statement.certificate, reward_range.into())))
    };
    statements.into_iter().map(read).collect()
}

/// Writes certificates to a file, as ``surefoot simulate --save`` does.
///
/// Each entry has the number of rounds it was made after, and a kind: ``"certificate"`` for the bound on all records
/// with the first policy as prior, ``"ladder"`` for the best bound of the ladder of priors, ``"gate"`` for the bound by
/// which a gate decided.
///
///     >>> import pathlib, surefoot, tempfile
///     >>> logs = surefoot.Environment.synthetic(seed=1).collect(surefoot.Policy.uniform(5), 100)
///     >>> proven = surefoot.certify(surefoot.Policy.uniform(5), [logs])
///     >>> with tempfile.TemporaryDirectory() as folder:
///     ...     path = pathlib.Path(folder) / "proven.json"
///     ...     surefoot.write_certificates(path, [(1, "certificate", proven), (1, "ladder", proven)])
///     ...     len(surefoot.read_certificates(path))
///     2
#[pyfunction]
#[pyo3(name = "write_certificates")]
pub(crate) fn write_file(path: PathBuf, certificates: Vec<(usize, String, PyRef<'_, PyCertificate>)>) -> Result<()> {
    Ok(write_certificates(&path, file_of(certificates, [0.0, 1.0])?)?)
}

/// The content of a file of certificates, which must be about rewards in one range; `empty` is the range if there are
/// none.
pub(crate) fn file_of(
    certificates: Vec<(usize, String, PyRef<'_, PyCertificate>)>,
    empty: [f64; 2],
) -> Result<Certificates> {
    let ranges: Vec<[f64; 2]> = certificates.iter().map(|(_, _, certificate)| certificate.range.into()).collect();
    let reward_range = ranges.first().copied().unwrap_or(empty);
    match ranges.iter().find(|other| **other != reward_range) {
        Some(other) => {
            let allowed = format!("the same for all certificates of a file, {reward_range:?}");
            Err(setting("reward_range", &allowed, format!("{other:?}")))
        }
        None => Ok(Certificates { reward_range, statements: statements_of(certificates)? }),
    }
}
