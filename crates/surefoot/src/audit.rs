//! AUDIT: which numbers may be called certified, and what a verifier checks.
//!
//! Front ends print what this module finds and decide nothing themselves. [`Provenance`] tells whether a policy that
//! was learned from logs may be called certified. [`warnings`] lists what its user should not overlook. [`audit`]
//! checks the statements of a whole run against its logs and policies.

mod law;
mod ledger;
mod standing;

pub use ledger::{Entry, Ledger, Opening, Terms, hash_of};
pub use standing::{OwnChallenger, Standing};

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub(crate) use law::Law;

use crate::certificate::{Certificate, Quantity, Share, Theorem, verify};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatementKind {
    /// Bounds the policy that a round ends with, on all records.
    Certificate,
    /// Bounds the same policy, by the best rung of the ladder.
    Ladder,
    /// The certificate by which the gate decided.
    Gate,
    /// Bounds the policy that would be handed over after the round.
    HandOver,
}

impl StatementKind {
    const ALL: [StatementKind; 4] =
        [StatementKind::Certificate, StatementKind::Ladder, StatementKind::Gate, StatementKind::HandOver];
}

impl Display for StatementKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StatementKind::Certificate => "certificate",
            StatementKind::Ladder => "ladder",
            StatementKind::Gate => "gate",
            StatementKind::HandOver => "hand-over",
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
            "hand-over" => Ok(StatementKind::HandOver),
            _ => Err(Error::setting("the kind of a certificate", "certificate, ladder, gate or hand-over", text)),
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
    /// The source of the set of actions.
    pub actions: ActionsFrom,
    /// Flaws of the logs that no certificate allows for, such as records that occur twice.
    pub flaws: Vec<String>,
}

/// What determined the set of actions. A policy over the actions that happen to occur in some records depends on these
/// records: it gives them more probability than a policy over all actions, and so larger weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ActionsFrom {
    /// A list or a number that the user gave, or the file of the prior.
    Given,
    /// Records that were set aside. No other record has another action.
    SetAside,
    /// All records, including those that the certificates use.
    AllRecords,
}

/// What determined how raw records become features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Whether numbers about the policy may be called certified. Neither the prior nor the features nor the set of
    /// actions may depend on the records that the numbers come from, and the logs may have no flaw.
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
        features && older(self.prior_learned) && self.actions != ActionsFrom::AllRecords
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
    if provenance.actions == ActionsFrom::AllRecords {
        warnings.push(
            "NOT certified: some actions do not occur in the records set aside, so the set of actions comes from the \
             records that these numbers come from; give all actions (option actions)"
                .into(),
        );
    }
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

/// Everything that a verifier has: logs, policies, claims, and the ledger that says what was fixed when.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// The ledger. Without it, the order of the rounds, the protocol and the spending of delta are on trust.
    pub ledger: Option<Ledger>,
    /// All rounds, in order.
    pub rounds: Vec<AuditedRound>,
    /// The policies that collected the rounds and the policies that the statements name, in any order.
    pub policies: Vec<AuditedPolicy>,
    /// The claimed statements.
    pub statements: Vec<Statement>,
    /// The lowest and the highest reward, as the file of the statements says. The ledger's range counts, if there is one.
    pub reward_range: Option<[f64; 2]>,
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
    /// The number of statements that nobody can recompute, because records of them were erased.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: usize,
    /// The failure probability of each kind of statement, over all rounds; `None` if there are no statements.
    pub delta: Option<f64>,
    /// How many statements of each kind there are, and how much of delta they have spent.
    pub budget: Vec<Budget>,
    /// The head of the ledger, if there is one.
    pub head: Option<Fingerprint>,
    /// Under a non-inferiority gate: how much reward all promotions together may have cost. Their margins add up.
    pub margins: Option<f64>,
    /// The result for each statement.
    pub certificates: Vec<Checked>,
    /// The errors found in the ledger and the logs.
    pub differences: Vec<String>,
    /// What no file can show about the run as a whole.
    pub trust: Vec<String>,
}

/// What the statements of one kind have spent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Budget {
    /// Their kind.
    pub kind: StatementKind,
    /// Their number.
    pub statements: usize,
    /// The part of delta that they have spent together: at most delta.
    pub spent: f64,
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
    /// The quantity that it bounds.
    pub bounds: Quantity,
    /// The claimed bound, in costs.
    pub upper: f64,
    /// The same in rewards, if a ledger or the file of the statements tells the reward range: the policy earns at least
    /// this, or is better by it.
    pub at_least: Option<f64>,
    /// Whether the bound is vacuous.
    pub vacuous: bool,
    /// Whether the statement needs trust in something that no file shows.
    pub on_trust: bool,
    /// What that is.
    pub trust: Vec<String>,
    /// The number of erased records because of which it cannot be recomputed; 0 if it was.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: usize,
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

/// Checks the ledger, all logs and all statements of a run. `heads` are hashes of the ledger that somebody was given
/// before some of the rounds were collected. `on_check` is called after each check.
///
/// The verifier does not rely on the learner: it recomputes fingerprints, logged propensities, divergences and bounds.
/// With a ledger, it checks the order of the rounds, the policy of each statement, its share of delta and every
/// deployment. Whatever no file can show is listed as taken on trust.
pub fn audit(run: &Run, heads: &[Fingerprint], on_check: impl Fn() + Sync) -> Report {
    let prints: Vec<Option<Fingerprint>> = run.policies.iter().map(|known| known.policy.identity()).collect();
    let checked = run.rounds.par_iter().map(|round| {
        let result = propensities(round, &run.policies, &prints);
        on_check();
        result.map_err(|difference| format!("{}: {difference}", round.name))
    });
    let checked: Vec<Result<usize, String>> = checked.collect();
    let propensities = checked.iter().flatten().sum();
    let mut differences: Vec<String> = checked.into_iter().filter_map(Result::err).collect();
    let logs: Vec<Logs> = run.rounds.iter().map(|round| round.logs.clone()).collect();
    let collected_by: Vec<Option<Fingerprint>> = run.rounds.iter().map(|round| round.collected_by).collect();
    let policies: Vec<Arc<dyn Policy>> = run.policies.iter().map(|known| Arc::clone(&known.policy)).collect();
    if run.statements.is_empty() {
        differences.push("there are no certificates: nothing is claimed, and nothing is verified".into());
    }
    let mut trust = Vec::new();
    let law = run.ledger.as_ref().map(|ledger| {
        let (law, wrong) = Law::of(ledger);
        differences.extend(wrong);
        differences.extend(law.promotions(&run.statements));
        differences.extend(same_rounds(&law, run));
        differences.extend(heads.iter().filter(|head| ledger.place(**head).is_none()).map(|head| {
            format!("ledger: the head {head} is not in it: it was changed since, or the head is of another run")
        }));
        trust.extend(unwitnessed(&law, ledger, heads));
        if law.erased() > 0 {
            trust.push(format!("{} records were erased: that there was a reason to", law.erased()));
        }
        law
    });
    if law.is_none() {
        trust.push("the order of the rounds, the protocol and how delta is spent: there is no ledger".into());
        differences.extend(heads.iter().map(|head| format!("there is no ledger that could have the head {head}")));
    }
    let range = run.ledger.as_ref().map(|ledger| ledger.opening().terms.reward_range).or(run.reward_range);
    let certificates = run.statements.par_iter().map(|statement| {
        let lost = law.as_ref().map_or(0, |law| law.lost(&statement.certificate));
        let mut checked = check(statement, &policies, &logs, &collected_by, lost);
        checked.at_least = range.map(|range| reward(&statement.certificate, range));
        checked.differences.extend(outside_family(statement, &run.statements[0]));
        if let Some(law) = &law {
            checked.differences.extend(law.check(statement));
            checked.trust = law.trust(&statement.certificate);
            if lost > 0 {
                checked.trust.push(format!("all of it: {lost} records of it were erased, and nobody can recompute it"));
            }
            checked.on_trust = !checked.trust.is_empty();
        }
        on_check();
        checked
    });
    let certificates: Vec<Checked> = certificates.collect();
    Report {
        verified: differences.is_empty() && certificates.iter().all(|checked| checked.differences.is_empty()),
        rounds: logs.len(),
        policies: policies.len(),
        propensities,
        lost: certificates.iter().filter(|checked| checked.lost > 0).count(),
        delta: run.statements.first().map(|statement| statement.certificate.delta),
        budget: budget(&run.statements),
        head: run.ledger.as_ref().map(Ledger::head),
        margins: law.as_ref().and_then(Law::margins),
        certificates,
        differences,
        trust,
    }
}

/// A bound in rewards: the least reward, or the least improvement.
fn reward(certificate: &Certificate, [lowest, highest]: [f64; 2]) -> f64 {
    let gain = -certificate.upper * (highest - lowest);
    match certificate.bounds {
        Quantity::Difference | Quantity::MeanDifference => gain,
        Quantity::Risk | Quantity::MeanRisk | Quantity::RunningRisk => lowest + gain,
    }
}

/// Checks that the rounds are those of the ledger, in its order.
fn same_rounds(law: &Law<'_>, run: &Run) -> Vec<String> {
    let mut differences = Vec::new();
    if law.rounds.len() != run.rounds.len() {
        differences.push(format!("ledger: has {} rounds, but {} are given", law.rounds.len(), run.rounds.len()));
    }
    for (number, (said, round)) in law.rounds.iter().zip(&run.rounds).enumerate() {
        let (found, records) = (round.logs.fingerprint(), round.logs.len());
        if (said.logs, said.records) != (found, records) {
            differences.push(format!(
                "{}: round {number} of the ledger has {} records with the fingerprint {}, but these are {records} with {found}",
                round.name, said.records, said.logs
            ));
        }
        if said.by != round.collected_by {
            differences.push(format!("{}: round {number} was collected by another policy in the ledger", round.name));
        }
    }
    differences
}

/// What the heads do not witness. A head that was given out before a round was collected shows that the protocol and
/// the policies in it are older than the records.
fn unwitnessed(law: &Law<'_>, ledger: &Ledger, heads: &[Fingerprint]) -> Vec<String> {
    let mut trust =
        vec![format!("rounds end by a rule that does not look at their costs: {}", ledger.opening().terms.rounds_end)];
    let places: Vec<usize> = heads.iter().filter_map(|head| ledger.place(*head)).collect();
    // A round is witnessed by a head from after the round before it, and from before its own entry.
    let mut before = 0;
    let mut open = Vec::new();
    for (number, round) in law.rounds.iter().enumerate() {
        if !places.iter().any(|place| (before..round.place).contains(place)) {
            open.push(number);
        }
        before = round.place;
    }
    if !law.began_before_the_data() && open.contains(&0) {
        trust.push("prior and protocol are older than the records: the ledger was opened after them".into());
    } else if places.is_empty() && !open.is_empty() {
        trust.push("the ledger was written while the rounds were collected: no head is given".into());
    } else if !open.is_empty() {
        let list: Vec<String> = open.iter().map(|number| (number + 1).to_string()).collect();
        trust.push(format!("no head is from just before these rounds were collected: {}", list.join(", ")));
    }
    trust
}

/// What each kind of statement has spent of delta. A rung that holds at all later rounds is paid for once.
fn budget(statements: &[Statement]) -> Vec<Budget> {
    let mut all: Vec<Budget> = Vec::new();
    for kind in StatementKind::ALL {
        let of_kind = statements.iter().filter(|statement| statement.kind == kind);
        let mut spent: BTreeMap<(Option<usize>, u64), f64> = BTreeMap::new();
        for Statement { certificate, .. } in of_kind.clone() {
            let protocol = certificate.protocol();
            for (place, share) in shares(certificate).into_iter().enumerate() {
                // The two parts of a combined certificate may be equal.
                let place = if certificate.parts.is_empty() { 0 } else { place as u64 };
                let slot = (share.round, share.part.to_bits().wrapping_add(place));
                spent.insert(slot, share.delta(&protocol).unwrap_or(f64::INFINITY));
            }
        }
        let statements = of_kind.count();
        if statements > 0 {
            all.push(Budget { kind, statements, spent: spent.into_values().sum() });
        }
    }
    all
}

/// The shares of delta that a certificate spends. A chain may begin with any of its rounds, and each beginning has the
/// share of its round.
fn shares(certificate: &Certificate) -> Vec<Share> {
    let Certificate { share, parts, .. } = certificate;
    match certificate.theorem {
        Theorem::Chain => {
            let first = certificate.since.round;
            (0..certificate.links.len()).map(|i| Share::of_round(first.saturating_add(i), share.part)).collect()
        }
        _ if parts.is_empty() => vec![*share],
        _ => parts.iter().map(|part| part.share).collect(),
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
    let wrong = differing(policy.as_ref(), logs);
    let wrong = wrong.map_err(|e| format!("its propensities cannot be computed with {name}: {e}"))?;
    match wrong[..] {
        [] => Ok(logs.len()),
        [(first, found), ..] => Err(format!(
            "{} of {} logged propensities differ from those of its logging policy {name}; the first is record {first}: \
             logged {}, but the policy gives {}",
            wrong.len(),
            logs.len(),
            logs.propensity()[first],
            found
        )),
    }
}

/// What is on trust where there is no ledger.
const ON_TRUST: &str = "a policy was fixed before the records and chosen from a set of at most the stated size, or which \
                        policy collected the records";
/// The records whose logged propensity is not the policy's: their rows, and the propensity that the policy gives.
pub(crate) fn differing(policy: &dyn Policy, logs: &Logs) -> Result<Vec<(usize, f64)>, Error> {
    let found = policy.propensity(logs.contexts(), logs.action(), logs.eligible())?;
    let differs = |&(i, p): &(usize, f64)| {
        // A NaN counts as a difference too.
        let near = (p - logs.propensity()[i]).abs() <= TOLERANCE * p;
        !near
    };
    Ok(found.into_iter().enumerate().filter(differs).collect())
}

/// Recomputes one certificate.
fn check(
    statement: &Statement,
    policies: &[Arc<dyn Policy>],
    logs: &[Logs],
    collected_by: &[Option<Fingerprint>],
    lost: usize,
) -> Checked {
    let Statement { round, kind, certificate } = statement;
    let mut differences = Vec::new();
    let end = certificate.since.round.saturating_add(certificate.logs.len());
    if *round != end {
        differences.push(format!("round: says {round}, but its records end with round {end}"));
    }
    let on_trust = timing(certificate, collected_by, &mut differences);
    match if lost > 0 { Ok(Vec::new()) } else { verify(certificate, policies, logs) } {
        Ok(found) => differences.extend(found.iter().map(ToString::to_string)),
        Err(reason) => differences.push(format!("cannot be recomputed: {reason}")),
    }
    let Certificate { theorem, bounds, upper, vacuous, .. } = *certificate;
    let trust = if on_trust { vec![ON_TRUST.to_owned()] } else { Vec::new() };
    Checked {
        round: *round,
        kind: *kind,
        theorem,
        bounds,
        upper,
        at_least: None,
        vacuous,
        on_trust,
        trust,
        lost,
        differences,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// Whether a certificate can be recomputed: no record of it was erased since it was made, as the ledger tells.
pub fn recomputable(ledger: &Ledger, certificate: &Certificate) -> bool {
    Law::of(ledger).0.lost(certificate) == 0
}

/// Checks a statement against the first one. All statements must have the same protocol, and so share delta by the same
/// rule. A statement that holds at all rounds at once has all of delta; one that is made anew in each round has a share
/// of a round.
fn outside_family(statement: &Statement, first: &Statement) -> Option<String> {
    let Statement { kind, certificate, .. } = statement;
    if certificate.protocol() != first.certificate.protocol() {
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
            differences.push(format!("the prior {prior} was not deployed in round {} or before", round + 1));
        }
    }
    if matches!(certificate.theorem, Theorem::Fixed | Theorem::FixedAdjusted) {
        on_trust |= certificate.policies.iter().any(|policy| policy.is_none() || !known(0).1.contains(policy));
    }
    if matches!(certificate.theorem, Theorem::Chain | Theorem::HandOver) {
        // Each policy but the last must have collected the round after its own, or the differences do not add up.
        for (i, policy) in certificate.policies.iter().enumerate() {
            let (round, known) = known(i);
            on_trust |= policy.is_none() || !known.contains(policy);
            let follows = collected_by.get(round.saturating_add(1)).filter(|_| i + 1 < certificate.policies.len());
            if follows.is_some_and(|by| by != policy) {
                differences
                    .push(format!("policies: the link of round {} does not lead to the policy of the next", round + 1));
            }
        }
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
            let sound =
                Provenance { prior_learned, prior_is_older, features, actions: ActionsFrom::Given, flaws: Vec::new() };
            let with = |actions| Provenance { actions, ..sound.clone() }.certified();
            assert!(!with(ActionsFrom::AllRecords));
            assert_eq!(with(ActionsFrom::SetAside), sound.certified());
            let flawed = Provenance { flaws: vec!["records occur twice".into()], ..sound.clone() };
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
