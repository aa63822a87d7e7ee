//! What is proven.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use surefoot::{Case, Certificate, LinearGaussian, Logs, RewardRange, Smoothing, Spending, Terms, ladder, verify};
use surefoot_data::{Kind, Statement, read_certificates, write_certificates};

use crate::failure::{Result, setting};
use crate::json;
use crate::logs::PyLogs;
use crate::policy::PyPolicy;

/// What is proven about a policy.
#[pyclass(frozen, name = "Certificate", module = "surefoot", eq)]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PyCertificate {
    pub(crate) certificate: Certificate,
    /// The range of the rewards in which it is told.
    range: (f64, f64),
}

impl PyCertificate {
    pub(crate) fn new(certificate: Certificate, range: (f64, f64)) -> Self {
        PyCertificate { certificate, range }
    }
}

#[pymethods]
impl PyCertificate {
    /// The upper bound, in costs.
    #[getter]
    fn upper(&self) -> f64 {
        self.certificate.upper
    }

    #[getter]
    fn vacuous(&self) -> bool {
        self.certificate.vacuous
    }

    /// What the reward is at least, or the gain for a certificate of a difference.
    #[getter]
    fn at_least(&self) -> Result<f64> {
        let range = RewardRange::new(self.range.0, self.range.1)?;
        let width = self.range.1 - self.range.0;
        Ok(if self.is_difference() { -self.certificate.upper * width } else { range.reward(self.certificate.upper) })
    }

    #[getter]
    fn is_difference(&self) -> bool {
        matches!(self.certificate.bounds, surefoot::Quantity::Difference | surefoot::Quantity::MeanDifference)
    }

    #[getter]
    fn reward_range(&self) -> (f64, f64) {
        self.range
    }

    #[getter]
    fn theorem(&self) -> Result<String> {
        Ok(json::text(&self.certificate.theorem)?.trim_matches('"').to_owned())
    }

    #[getter]
    fn bounds(&self) -> Result<String> {
        Ok(json::text(&self.certificate.bounds)?.trim_matches('"').to_owned())
    }

    #[getter]
    fn delta(&self) -> f64 {
        self.certificate.delta
    }

    #[getter]
    fn lam(&self) -> f64 {
        self.certificate.lambda
    }

    #[getter]
    fn records(&self) -> usize {
        self.certificate.records
    }

    #[getter]
    fn estimate(&self) -> f64 {
        self.certificate.estimate
    }

    #[getter]
    fn kl(&self) -> f64 {
        self.certificate.kl
    }

    #[getter]
    fn assumptions(&self) -> Vec<String> {
        self.certificate.assumptions.clone()
    }

    fn to_json(&self) -> Result<String> {
        json::text(&self.certificate)
    }

    #[staticmethod]
    #[pyo3(signature = (text, *, reward_range = (0.0, 1.0)))]
    fn from_json(text: &str, reward_range: (f64, f64)) -> Result<Self> {
        let certificate = serde_json::from_str(text).map_err(|e| setting("a certificate", "its JSON", e))?;
        Ok(PyCertificate::new(certificate, reward_range))
    }

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

/// Terms of certificates, from what Python says of them.
pub(crate) fn terms(delta: f64, spending: &str, rounds: Option<usize>, lambdas: Option<Vec<f64>>) -> Result<Terms> {
    let spending = match (spending, rounds) {
        ("forever", _) => Spending::Forever,
        ("even", Some(rounds)) => Spending::Even { rounds },
        ("even", None) => return Err(setting("spending", "forever where the number of rounds is not known", "even")),
        _ => return Err(setting("spending", "forever or even", spending)),
    };
    let terms = Terms { delta, spending, ..Terms::default() };
    let terms = Terms { lambdas: lambdas.unwrap_or_else(|| terms.lambdas.clone()), ..terms };
    terms.check()?;
    Ok(terms)
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

/// The best certificate for a policy. Without a prior the policy was fixed before the records; with one, it is a posterior.
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
    let terms = terms(delta, "forever", None, lambdas)?;
    let (logs, range) = (rounds_of(&rounds), range_of(&rounds)?);
    let deployed: Option<Vec<LinearGaussian>> = deployed
        .map(|all| all.iter().map(|p| p.gaussian("what was deployed").cloned()).collect::<Result<_>>())
        .transpose()?;
    let gaussian = || policy.gaussian("a policy that is compared with a prior");
    let case = Case::whole(&logs, &terms);
    let made = match (prior, &deployed) {
        (Some(_), Some(_)) => {
            return Err(setting("a certificate", "with a prior or with what was deployed", "with both"));
        }
        (Some(prior), None) => {
            let (policy, prior) = (gaussian()?, prior.gaussian("the prior")?);
            py.detach(|| match baseline {
                true => Certificate::difference(policy, prior, &case),
                false => Certificate::risk(policy, prior, &case),
            })?
        }
        (None, Some(deployed)) => {
            let policy = gaussian()?;
            py.detach(|| ladder(policy, None, deployed, &logs, &terms))?
        }
        (None, None) => {
            let smoothing = if baseline { Smoothing::Adjusted } else { Smoothing::Ls };
            py.detach(|| Certificate::fixed(smoothing, policy.policy(), 1, &case))?
        }
    };
    Ok(PyCertificate::new(made, range))
}

/// Where a certificate differs from what policies and logs give: nowhere, if it holds.
#[pyfunction]
#[pyo3(name = "verify", signature = (certificate, policies, rounds))]
pub(crate) fn verify_certificate(
    py: Python<'_>,
    certificate: &PyCertificate,
    policies: Vec<PyRef<'_, PyPolicy>>,
    rounds: Vec<PyRef<'_, PyLogs>>,
) -> Result<Vec<(String, String, String)>> {
    let policies = policies.iter().map(|p| p.gaussian("a policy").cloned()).collect::<Result<Vec<_>>>()?;
    let logs = rounds_of(&rounds);
    let found = py.detach(|| verify(&certificate.certificate, &policies, &logs))?;
    Ok(found.into_iter().map(|d| (d.what, d.claimed, d.found)).collect())
}

/// The certificates of a file, each with its round and its kind.
#[pyfunction]
#[pyo3(name = "read_certificates", signature = (path, *, reward_range = (0.0, 1.0)))]
pub(crate) fn read_file(path: PathBuf, reward_range: (f64, f64)) -> Result<Vec<(usize, String, PyCertificate)>> {
    let read = |statement: Statement| {
        let kind = json::text(&statement.kind)?.trim_matches('"').to_owned();
        Ok((statement.round, kind, PyCertificate::new(statement.certificate, reward_range)))
    };
    read_certificates(&path)?.into_iter().map(read).collect()
}

/// Writes certificates, each with its round and its kind.
#[pyfunction]
#[pyo3(name = "write_certificates")]
pub(crate) fn write_file(path: PathBuf, certificates: Vec<(usize, String, PyRef<'_, PyCertificate>)>) -> Result<()> {
    let statement = |(round, kind, certificate): (usize, String, PyRef<'_, PyCertificate>)| {
        let kind: Kind = serde_json::from_value(serde_json::Value::String(kind.clone()))
            .map_err(|_| setting("the kind of a certificate", "certificate, ladder or gate", kind))?;
        Ok(Statement { round, kind, certificate: certificate.certificate.clone() })
    };
    Ok(write_certificates(&path, certificates.into_iter().map(statement).collect::<Result<_>>()?)?)
}
