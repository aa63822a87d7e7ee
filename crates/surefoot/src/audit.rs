//! AUDIT: which numbers may be called certified, and what a verifier checks.
//!
//! Front ends print what this module finds and decide nothing themselves. [`Provenance`] tells whether a policy that
//! was learned from logs may be called certified. [`warnings`] lists what its user should not overlook. [`audit`]
//! checks the statements of a whole run against its logs and policies.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::certificate::{Certificate, Theorem, verify};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::logs::Logs;
use crate::policy::Policy;

/// A certificate and its role in a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The number of rounds after which it was made.
    pub round: usize,
    /// Its role.
    pub kind: StatementKind,
    /// The certificate.
    pub certificate: Certificate,
}

/// The role of a certificate in a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatementKind {
    /// Bounds the policy that a round ends with, on all records.
    Certificate,
    /// Bounds the same policy, by the best rung of the ladder.
    Ladder,
    /// The certificate by which the gate decided.
    Gate,
}

impl Display for StatementKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StatementKind::Certificate => "certificate",
            StatementKind::Ladder => "ladder",
            StatementKind::Gate => "gate",
        })
    }
}

impl FromStr for StatementKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "certificate" => Ok(StatementKind::Certificate),
            "ladder" => Ok(StatementKind::Ladder),
            "gate" => Ok(StatementKind::Gate),
            _ => Err(Error::setting("the kind of a certificate", "certificate, ladder or gate", text)),
        }
    }
}

/// Where the prior and the features of a policy come from, for a policy that was learned from existing logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Whether the prior was itself learned from logs.
    pub prior_learned: bool,
    /// Whether the user declares that those logs are older than these. Such a prior cannot depend on these records.
    pub prior_is_older: bool,
    /// The source of the features.
    pub features: FeaturesFrom,
    /// Flaws of the logs that no certificate allows for, such as records that occur twice.
    pub flaws: Vec<String>,
}

/// What determined how raw records become features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeaturesFrom {
    /// Records that were set aside. They are used neither for learning nor for certificates.
    SetAside,
    /// All records, including those that the certificates use.
    AllRecords,
    /// The file of an existing policy.
    Policy {
        /// Whether that policy was learned from logs.
        learned: bool,
    },
}

impl Provenance {
    /// Whether numbers about the policy may be called certified. Neither the prior nor the features may depend on the
    /// records that the numbers come from, and the logs may have no flaw.
    pub fn certified(&self) -> bool {
        self.flaws.is_empty() && self.fixed_before()
    }

    /// Whether the prior and the features do not depend on the records that the numbers come from.
    fn fixed_before(&self) -> bool {
        let older = |learned: bool| !learned || self.prior_is_older;
        let features = match self.features {
            FeaturesFrom::SetAside => true,
            FeaturesFrom::AllRecords => false,
            FeaturesFrom::Policy { learned } => older(learned),
        };
        features && older(self.prior_learned)
    }
}

/// Why numbers from logs with these flaws may not be called certified, one warning for each flaw.
pub fn not_certified(flaws: &[String]) -> Vec<String> {
    flaws.iter().map(|flaw| format!("NOT certified: {flaw}")).collect()
}

/// Warnings for the user of a policy that was learned from logs. `proven` bounds the policy's risk. `better` bounds its
/// risk minus the risk of the logging policy of the newest round.
pub fn warnings(provenance: &Provenance, proven: &Certificate, better: &Certificate) -> Vec<String> {
    let mut warnings = not_certified(&provenance.flaws);
    if !provenance.fixed_before() {
        warnings.push(
            "NOT certified: the features or the prior may have been fitted to the records that these numbers come \
             from; set some records aside, or declare that the prior was learned from earlier logs (prior-is-older)"
                .into(),
        );
    }
    if proven.vacuous {
        warnings.push("these logs cannot certify any reward of the new policy above the lowest".into());
    } else if better.upper >= 0.0 {
        warnings.push(
            "these logs do not show that the new policy is better than the logging policy of the newest round: \
             deploy it to part of the traffic, or collect more records"
                .into(),
        );
    }
    warnings
}

/// One round of a run.
#[derive(Debug, Clone)]
pub struct AuditedRound {
    /// Its name in messages.
    pub name: String,
    /// Its logs.
    pub logs: Logs,
    /// The policy that collected them, if it is known.
    pub collected_by: Option<Fingerprint>,
}

/// One policy of a run.
#[derive(Debug, Clone)]
pub struct AuditedPolicy {
    /// Its name in messages.
    pub name: String,
    /// The policy.
    pub policy: Arc<dyn Policy>,
}

/// Everything that a verifier has: logs, policies and claims.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// All rounds, in order.
    pub rounds: Vec<AuditedRound>,
    /// The policies that collected the rounds and the policies that the statements name, in any order.
    pub policies: Vec<AuditedPolicy>,
    /// The claimed statements.
    pub statements: Vec<Statement>,
}

/// The findings of a verifier.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Whether every check succeeded.
    pub verified: bool,
    /// The number of rounds.
    pub rounds: usize,
    /// The number of policies.
    pub policies: usize,
    /// The number of logged propensities that were recomputed.
    pub propensities: usize,
    /// The result for each statement.
    pub certificates: Vec<Checked>,
    /// The errors found in the logs.
    pub differences: Vec<String>,
}

/// The result of checking one statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Checked {
    /// The number of rounds after which it was made.
    pub round: usize,
    /// Its role.
    pub kind: StatementKind,
    /// The theorem that it uses.
    pub theorem: Theorem,
    /// The claimed bound.
    pub upper: f64,
    /// Whether the bound is vacuous.
    pub vacuous: bool,
    /// Whether the statement needs trust: no file shows that its policy or prior was fixed before the records, or that
    /// the propensities are right.
    pub on_trust: bool,
    /// The values that could not be reproduced.
    pub differences: Vec<String>,
}

impl Report {
    /// The errors in the logs, and those in each statement.
    pub fn all_differences(&self) -> Vec<String> {
        let of = |checked: &Checked| -> Vec<String> {
            let name = format!("round {}, {}", checked.round, checked.kind);
            checked.differences.iter().map(|difference| format!("{name}: {difference}")).collect()
        };
        self.differences.iter().cloned().chain(self.certificates.iter().flat_map(of)).collect()
    }
}

/// Checks all logs and all statements of a run. `on_check` is called after each check.
///
/// The verifier does not rely on the learner: it recomputes fingerprints, logged propensities, divergences and bounds.
/// A prior must have been deployed before the records that it is used on. Whatever no file can show is marked as taken
/// on trust.
pub fn audit(run: &Run, on_check: impl Fn() + Sync) -> Report {
    let prints: Vec<Option<Fingerprint>> = run.policies.iter().map(|known| known.policy.identity()).collect();
    let checked = run.rounds.par_iter().map(|round| {
        let result = propensities(round, &run.policies, &prints);
        on_check();
        result.map_err(|difference| format!("{}: {difference}", round.name))
    });
    let checked: Vec<Result<usize, String>> = checked.collect();
    let propensities = checked.iter().flatten().sum();
    let differences: Vec<String> = checked.into_iter().filter_map(Result::err).collect();

    let logs: Vec<Logs> = run.rounds.iter().map(|round| round.logs.clone()).collect();
    let collected_by: Vec<Option<Fingerprint>> = run.rounds.iter().map(|round| round.collected_by).collect();
    let policies: Vec<Arc<dyn Policy>> = run.policies.iter().map(|known| Arc::clone(&known.policy)).collect();
    let certificates = run.statements.par_iter().map(|statement| {
        let mut checked = check(statement, &policies, &logs, &collected_by);
        checked.differences.extend(outside_family(statement, &run.statements[0]));
        on_check();
        checked
    });
    let certificates: Vec<Checked> = certificates.collect();
    Report {
        verified: differences.is_empty() && certificates.iter().all(|checked| checked.differences.is_empty()),
        rounds: logs.len(),
        policies: policies.len(),
        propensities,
        certificates,
        differences,
    }
}

/// The largest allowed relative difference between a logged propensity and the policy's own.
const TOLERANCE: f64 = 1e-8;

/// Recomputes the logged propensities with the policy that collected them, and returns their number. It returns 0 if
/// the round does not name that policy.
fn propensities(
    round: &AuditedRound,
    policies: &[AuditedPolicy],
    prints: &[Option<Fingerprint>],
) -> Result<usize, String> {
    round.logs.check_propensities().map_err(|refuted| refuted.to_string())?;
    let Some(print) = round.collected_by else { return Ok(0) };
    let Some(place) = prints.iter().position(|other| *other == Some(print)) else {
        return Err(format!("its logging policy {print} is not among the given policies"));
    };
    let (AuditedPolicy { name, policy }, logs) = (&policies[place], &round.logs);
    if policy.actions() != logs.actions() {
        return Err(format!("has {} actions, but its logging policy {name} has {}", logs.actions(), policy.actions()));
    }
    let found = policy.propensity(logs.contexts(), logs.action(), logs.eligible());
    let found = found.map_err(|e| format!("its propensities cannot be computed with {name}: {e}"))?;
    let differs = |&i: &usize| {
        let (p, q) = (found[i], logs.propensity()[i]);
        // A NaN counts as a difference too.
        let near = (p - q).abs() <= TOLERANCE * p;
        !near
    };
    let wrong: Vec<usize> = (0..logs.len()).filter(differs).collect();
    match wrong[..] {
        [] => Ok(logs.len()),
        [first, ..] => Err(format!(
            "{} of {} logged propensities differ from those of its logging policy {name}; the first is record {first}: \
             logged {}, but the policy gives {}",
            wrong.len(),
            logs.len(),
            logs.propensity()[first],
            found[first]
        )),
    }
}

/// Recomputes one certificate.
fn check(
    statement: &Statement,
    policies: &[Arc<dyn Policy>],
    logs: &[Logs],
    collected_by: &[Option<Fingerprint>],
) -> Checked {
    let Statement { round, kind, certificate } = statement;
    let mut differences = Vec::new();
    let end = certificate.since.round.saturating_add(certificate.logs.len());
    if *round != end {
        differences.push(format!("round: says {round}, but its records end with round {end}"));
    }
    let on_trust = timing(certificate, collected_by, &mut differences);
    match verify(certificate, policies, logs) {
        Ok(found) => differences.extend(found.iter().map(ToString::to_string)),
        Err(reason) => differences.push(format!("cannot be recomputed: {reason}")),
    }
    let Certificate { theorem, upper, vacuous, .. } = *certificate;
    Checked { round: *round, kind: *kind, theorem, upper, vacuous, on_trust, differences }
}

/// Checks a statement against the first one. All statements must have the same protocol, and so share delta by the same
/// rule. A statement that holds at all rounds at once has all of delta; one that is made anew in each round has a share
/// of a round.
fn outside_family(statement: &Statement, first: &Statement) -> Option<String> {
    let protocol = |c: &Certificate| (c.delta, c.lambdas.clone(), c.form, c.spending);
    let Statement { kind, certificate, .. } = statement;
    if protocol(certificate) != protocol(&first.certificate) {
        return Some("delta, lambdas, form or spending: should be those of the first certificate, but are not".into());
    }
    let anew = *kind != StatementKind::Certificate;
    (certificate.share.round.is_some() != anew).then(|| {
        let allowed = if anew { "a share of a round" } else { "all of delta" };
        format!("share: a {kind} should have {allowed}")
    })
}

/// Checks that priors and fixed policies are older than the records, and returns whether some of it must be taken on
/// trust. Deployment by that time is proof. A prior that was not deployed by then may depend on the records, and is
/// reported as a difference. A policy that is called fixed need not have been deployed, so it is taken on trust. So is
/// everything if a round does not name its logging policy.
fn timing(certificate: &Certificate, collected_by: &[Option<Fingerprint>], differences: &mut Vec<String>) -> bool {
    let known = |offset: usize| {
        let round = certificate.since.round.saturating_add(offset);
        (round, &collected_by[..round.saturating_add(1).min(collected_by.len())])
    };
    let mut on_trust = false;
    let each = matches!(certificate.theorem, Theorem::Shift | Theorem::ShiftAdjusted);
    for (i, prior) in certificate.priors.iter().enumerate() {
        let (round, known) = known(if each { i } else { 0 });
        if known.contains(&None) {
            on_trust = true;
        } else if !known.contains(&Some(*prior)) {
            differences.push(format!("the prior {prior} was not deployed in round {round} or before"));
        }
    }
    if matches!(certificate.theorem, Theorem::Fixed | Theorem::FixedAdjusted) {
        on_trust |= certificate.policies.iter().any(|policy| policy.is_none() || !known(0).1.contains(policy));
    }
    // If a round does not name its logging policy, its propensities were not recomputed.
    let end = certificate.since.round.saturating_add(certificate.logs.len()).min(collected_by.len());
    on_trust |= collected_by.get(certificate.since.round..end).is_some_and(|rounds| rounds.contains(&None));
    certificate.parts.iter().fold(on_trust, |on_trust, part| timing(part, collected_by, differences) || on_trust)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_know_the_records_is_not_certified() {
        let learned = FeaturesFrom::Policy { learned: true };
        let given = FeaturesFrom::Policy { learned: false };
        let certified = |prior_learned, prior_is_older, features| {
            let sound = Provenance { prior_learned, prior_is_older, features, flaws: Vec::new() };
            let flawed = Provenance { flaws: vec!["records occur twice".into()], ..sound };
            assert!(!flawed.certified());
            sound.certified()
        };
        for older in [false, true] {
            assert!(certified(false, older, FeaturesFrom::SetAside));
            assert!(certified(false, older, given));
            assert!(!certified(false, older, FeaturesFrom::AllRecords));
            assert!(!certified(true, older, FeaturesFrom::AllRecords));
            assert_eq!(certified(true, older, FeaturesFrom::SetAside), older);
            assert_eq!(certified(true, older, learned), older);
            assert_eq!(certified(false, older, learned), older);
        }
    }
}
