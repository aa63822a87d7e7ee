//! Verification: recomputes a certificate from logs and policies alone.

use std::fmt::{self, Display, Formatter};

use super::{Case, Certificate, Smoothing, Theorem, chain};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::logs::Logs;
use crate::policy::{LinearGaussian, Policy};

/// A value of a certificate that could not be reproduced.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The name of the value.
    pub what: String,
    /// The value in the certificate.
    pub claimed: String,
    /// The recomputed value.
    pub found: String,
}

impl Display for Mismatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: the certificate says {}, but logs and policies give {}", self.what, self.claimed, self.found)
    }
}

/// Recomputes a certificate from all rounds of its loop and from policies in any order, and returns the differences.
/// Fails if a policy or a round that the certificate names is missing.
///
/// Numbers agree if they differ by at most the numerical error that the certificate allows for: another machine may sum
/// dense products in another order.
pub fn verify<P: AsRef<dyn Policy>>(claimed: &Certificate, policies: &[P], rounds: &[Logs]) -> Result<Vec<Mismatch>> {
    let prints: Vec<Option<Fingerprint>> = policies.iter().map(|policy| policy.as_ref().identity()).collect();
    let mut differences = Vec::new();
    let found = recompute(claimed, policies, &prints, rounds, &mut differences)?;
    compare(claimed, &found, "", &mut differences);
    Ok(differences)
}

fn recompute<'a, P: AsRef<dyn Policy>>(
    claimed: &Certificate,
    policies: &'a [P],
    prints: &[Option<Fingerprint>],
    rounds: &[Logs],
    differences: &mut Vec<Mismatch>,
) -> Result<Certificate> {
    let end = claimed.since.round.saturating_add(claimed.logs.len());
    if end > rounds.len() {
        return Err(Error::size("the logs", format!("at least {end} rounds, as the certificate"), rounds.len()));
    }
    let protocol = claimed.protocol();
    let case = Case { rounds: &rounds[..end], since: claimed.since, protocol: &protocol, share: claimed.share };
    let find = |print: &Fingerprint| {
        let place = prints.iter().position(|other| *other == Some(*print));
        place.map(|i| policies[i].as_ref()).ok_or_else(|| Error::setting("a policy", "among those given", print))
    };
    let judged = |i: usize| {
        let print = claimed.policies.get(i).copied().flatten();
        find(&print.ok_or_else(|| Error::setting("the judged policy", "named by its fingerprint", "not"))?)
    };
    let prior = |i: usize| {
        find(claimed.priors.get(i).ok_or_else(|| Error::setting("the prior", "named by its fingerprint", "not"))?)
    };
    let posterior = |policy: &'a dyn Policy| {
        policy
            .as_gaussian()
            .ok_or_else(|| Error::setting("the policy", "a linear Gaussian one, as the theorem needs", "not"))
    };
    let pairs = || -> Result<Vec<(&LinearGaussian, &LinearGaussian)>> {
        (0..claimed.policies.len()).map(|i| Ok((posterior(judged(i)?)?, posterior(prior(i)?)?))).collect()
    };
    match claimed.theorem {
        Theorem::Ls => Certificate::risk(posterior(judged(0)?)?, posterior(prior(0)?)?, &case),
        Theorem::Adjusted => Certificate::difference(posterior(judged(0)?)?, posterior(prior(0)?)?, &case),
        Theorem::Shift => Certificate::shift(Smoothing::Ls, &pairs()?, &case),
        Theorem::ShiftAdjusted => Certificate::shift(Smoothing::Adjusted, &pairs()?, &case),
        Theorem::Fixed => Certificate::fixed(Smoothing::Ls, judged(0)?, claimed.size, &case),
        Theorem::FixedAdjusted => Certificate::fixed(Smoothing::Adjusted, judged(0)?, claimed.size, &case),
        Theorem::Chain | Theorem::HandOver => chain::recompute(claimed, &rounds[..end], &protocol, find),
        Theorem::Running => Certificate::running(&case),
        Theorem::Combined => {
            let [difference, running] = &claimed.parts[..] else {
                return Err(Error::size("a combined certificate", "2 parts", claimed.parts.len()));
            };
            let mut part = |claimed: &Certificate, name: &str| -> Result<Certificate> {
                if claimed.theorem == Theorem::Combined {
                    return Err(Error::setting("a part of a combined certificate", "not combined itself", "combined"));
                }
                let found = recompute(claimed, policies, prints, rounds, &mut Vec::new())?;
                compare(claimed, &found, name, differences);
                Ok(found)
            };
            Certificate::combined(part(difference, "difference: ")?, part(running, "running: ")?)
        }
    }
}

fn compare(claimed: &Certificate, found: &Certificate, name: &str, differences: &mut Vec<Mismatch>) {
    let mut differ = |what: &str, same: bool, a: &dyn Display, b: &dyn Display| {
        if !same {
            let what = format!("{name}{what}");
            differences.push(Mismatch { what, claimed: a.to_string(), found: b.to_string() });
        }
    };
    let error = found.numerical;
    let near = |a: f64, b: f64, tolerance: f64| (a - b).abs() <= tolerance + 1e-12 * (1.0 + b.abs());
    differ("upper", near(claimed.upper, found.upper, error), &claimed.upper, &found.upper);
    differ("estimate", near(claimed.estimate, found.estimate, error), &claimed.estimate, &found.estimate);
    differ("numerical", near(claimed.numerical, found.numerical, 0.01 * error), &claimed.numerical, &found.numerical);
    differ("kl", near(claimed.kl, found.kl, 1e-9 * (1.0 + found.kl)), &claimed.kl, &found.kl);
    differ("lambda", claimed.lambda == found.lambda, &claimed.lambda, &found.lambda);
    differ("records", claimed.records == found.records, &claimed.records, &found.records);
    differ("vacuous", claimed.vacuous == found.vacuous, &claimed.vacuous, &found.vacuous);
    let mut shown = |what: &str, a: &dyn fmt::Debug, b: &dyn fmt::Debug| {
        let (a, b) = (format!("{a:?}"), format!("{b:?}"));
        differ(what, a == b, &a, &b);
    };
    shown("bounds", &claimed.bounds, &found.bounds);
    // For a combined certificate these values come from its parts.
    shown("delta", &claimed.delta, &found.delta);
    shown("spending", &claimed.spending, &found.spending);
    shown("form", &claimed.form, &found.form);
    shown("lambdas", &claimed.lambdas, &found.lambdas);
    shown("combine", &claimed.combine, &found.combine);
    shown("links", &claimed.links, &found.links);
    shown("since", &claimed.since, &found.since);
    shown("the number of parts", &claimed.parts.len(), &found.parts.len());
    shown("size", &claimed.size, &found.size);
    shown("share", &claimed.share, &found.share);
    shown("the number of rounds", &claimed.logs.len(), &found.logs.len());
    for (round, (a, b)) in (found.since.round + 1..).zip(claimed.logs.iter().zip(&found.logs)) {
        shown(&format!("the logs of round {round}"), a, b);
    }
    shown("policies", &claimed.policies, &found.policies);
    shown("priors", &claimed.priors, &found.priors);
    shown("assumptions", &claimed.assumptions, &found.assumptions);
}
