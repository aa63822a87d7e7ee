//! AUDIT: what may be called certified, and what a verifier checks.
//!
//! Front ends print what this module finds, and decide nothing themselves: [`Provenance`] tells whether a policy that was
//! learned from logs may be called certified, [`warnings`] what its user should not overlook, and [`audit`] checks the
//! statements of a whole run against its logs and policies.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::certificate::{Certificate, Theorem, verify};
use crate::fingerprint::Fingerprint;
use crate::logs::Logs;
use crate::policy::Policy;

/// A certificate of a loop, and what it is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// After how many rounds it was made.
    pub round: usize,
    /// What it is.
    pub kind: StatementKind,
    /// The certificate.
    pub certificate: Certificate,
}

/// What a certificate is in a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatementKind {
    /// Of the policy that a round ends with, on all records.
    Certificate,
    /// Of the same, by the best rung of the ladder.
    Ladder,
    /// What the gate decided by.
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

/// Where the prior and the features of a policy come from that was learned from somebody's logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provenance {
    /// Whether the prior was itself learned from logs.
    pub prior_learned: bool,
    /// Whether its user says that those logs are older than these, so that it does not know these.
    pub prior_is_older: bool,
    /// What fixed the features.
    pub features: FeaturesFrom,
}

/// What fixed how raw records become features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeaturesFrom {
    /// Records that were set aside, and are neither learned from nor certified on.
    SetAside,
    /// All records, those that are certified on among them.
    AllRecords,
    /// The file of a policy.
    Policy {
        /// Whether that was learned from logs.
        learned: bool,
    },
}

impl Provenance {
    /// Whether numbers about the policy may be called certified: neither the prior nor the features may know the
    /// records that the numbers are from.
    pub fn certified(&self) -> bool {
        let older = |learned: bool| !learned || self.prior_is_older;
        let features = match self.features {
            FeaturesFrom::SetAside => true,
            FeaturesFrom::AllRecords => false,
            FeaturesFrom::Policy { learned } => older(learned),
        };
        features && older(self.prior_learned)
    }
}

/// What the user of a policy that was learned from logs should not overlook: `proven` bounds its risk, `better` its risk
/// minus that of what collected the newest round.
pub fn warnings(certified: bool, proven: &Certificate, better: &Certificate) -> Vec<String> {
    let mut warnings: Vec<String> = Vec::new();
    if !certified {
        warnings.push(
            "NOT certified: features or prior may have been fitted to the records that the numbers are from; set some \
             records aside, or declare that the prior was learned from earlier logs (prior-is-older)"
                .into(),
        );
    }
    if proven.vacuous {
        warnings.push("these logs cannot certify any reward of the new policy above the lowest".into());
    } else if better.upper >= 0.0 {
        warnings.push(
            "these logs do not show that the new policy is better than what collected the newest round: deploy it to \
             part of the traffic, or collect more"
                .into(),
        );
    }
    warnings
}

/// A round of a run.
#[derive(Debug, Clone)]
pub struct AuditedRound {
    /// What it is called in messages.
    pub name: String,
    /// Its logs.
    pub logs: Logs,
    /// The policy that collected them, if that is known.
    pub collected_by: Option<Fingerprint>,
}

/// A policy of a run.
#[derive(Debug, Clone)]
pub struct AuditedPolicy {
    /// What it is called in messages.
    pub name: String,
    /// The policy.
    pub policy: Arc<dyn Policy>,
}

/// All that a verifier has.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// All rounds, in their order.
    pub rounds: Vec<AuditedRound>,
    /// The policies that collected them, and those that statements speak of, in any order.
    pub policies: Vec<AuditedPolicy>,
    /// What is claimed.
    pub statements: Vec<Statement>,
}

/// What a verifier found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Whether everything comes out again.
    pub verified: bool,
    /// The number of rounds.
    pub rounds: usize,
    /// The number of policies.
    pub policies: usize,
    /// How many logged propensities were computed again.
    pub propensities: usize,
    /// What came of each statement.
    pub certificates: Vec<Checked>,
    /// What is wrong with the logs.
    pub differences: Vec<String>,
}

/// What came of a statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Checked {
    /// After how many rounds it was made.
    pub round: usize,
    /// What it is.
    pub kind: StatementKind,
    /// The theorem.
    pub theorem: Theorem,
    /// The claimed bound.
    pub upper: f64,
    /// Whether it says nothing.
    pub vacuous: bool,
    /// Whether it rests on a policy or a prior of which no file shows that it was fixed before the records, or on
    /// propensities that no file shows to be right.
    pub on_trust: bool,
    /// What does not come out again.
    pub differences: Vec<String>,
}

impl Report {
    /// What is wrong with the logs, and with each statement.
    pub fn all_differences(&self) -> Vec<String> {
        let of = |checked: &Checked| -> Vec<String> {
            let name = format!("round {}, {}", checked.round, checked.kind);
            checked.differences.iter().map(|difference| format!("{name}: {difference}")).collect()
        };
        self.differences.iter().cloned().chain(self.certificates.iter().flat_map(of)).collect()
    }
}

/// Checks all logs and all statements of a run. `on_check` is called after each of them.
///
/// Nothing that the learner said is believed: fingerprints, logged propensities, divergences and bounds are computed
/// again. Priors must have been deployed before the records that they are used on. What no file can show is marked as
/// taken on trust.
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

/// How far a logged propensity may be from the policy's, relative to it.
const TOLERANCE: f64 = 1e-8;

/// Computes the logged propensities again with the policy that collected them, and returns how many there are; none
/// where nobody claims to know who did.
fn propensities(
    round: &AuditedRound,
    policies: &[AuditedPolicy],
    prints: &[Option<Fingerprint>],
) -> Result<usize, String> {
    let Some(print) = round.collected_by else { return Ok(0) };
    let Some(place) = prints.iter().position(|other| *other == Some(print)) else {
        return Err(format!("collected by the policy {print}, which is not among those given"));
    };
    let (AuditedPolicy { name, policy }, logs) = (&policies[place], &round.logs);
    if policy.actions() != logs.actions() {
        return Err(format!("has {} actions, but {name}, which collected it, {}", logs.actions(), policy.actions()));
    }
    let found = policy.propensity(logs.contexts(), logs.action(), logs.eligible());
    let found = found.map_err(|e| format!("cannot be asked about by {name}: {e}"))?;
    let differs = |&i: &usize| {
        let (p, q) = (found[i], logs.propensity()[i]);
        // A propensity that is no number differs too.
        let near = (p - q).abs() <= TOLERANCE * p;
        !near
    };
    let wrong: Vec<usize> = (0..logs.len()).filter(differs).collect();
    match wrong[..] {
        [] => Ok(logs.len()),
        [first, ..] => Err(format!(
            "{} of {} logged propensities are not those of {name}, which collected it; the first is record {first}: \
             logged {}, but the policy gives {}",
            wrong.len(),
            logs.len(),
            logs.propensity()[first],
            found[first]
        )),
    }
}

/// Computes a certificate again.
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
        Err(reason) => differences.push(format!("cannot be computed again: {reason}")),
    }
    let Certificate { theorem, upper, vacuous, .. } = *certificate;
    Checked { round: *round, kind: *kind, theorem, upper, vacuous, on_trust, differences }
}

/// What is wrong with a statement beside the others: all are made under the same protocol, and share delta by the same
/// rule. What holds at all rounds at once has one share, what is said anew has one of a round.
fn outside_family(statement: &Statement, first: &Statement) -> Option<String> {
    let protocol = |c: &Certificate| (c.delta, c.lambdas.clone(), c.form, c.spending);
    let Statement { kind, certificate, .. } = statement;
    if protocol(certificate) != protocol(&first.certificate) {
        return Some("delta, lambdas, form or spending: not those of the first certificate".into());
    }
    let anew = *kind != StatementKind::Certificate;
    (certificate.share.round.is_some() != anew).then(|| {
        let allowed = if anew { "a share of a round" } else { "all of delta" };
        format!("share: a {kind} should have {allowed}")
    })
}

/// Whether what must have been fixed before the records is only said to have been; it is shown where it was deployed by
/// then. A prior that was not may know the records, and is named. A policy that is called fixed need not have been
/// deployed, and is taken on trust; as is everything where the rounds do not say what collected them.
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
    // Propensities of rounds that do not say what collected them were not computed again.
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
            Provenance { prior_learned, prior_is_older, features }.certified()
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
