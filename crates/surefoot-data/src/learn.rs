//! LEARN: learns the next policy from existing logs, and certifies it. All numbers are rewards.
//!
//! [`learn`] takes one request and returns one result. The command line, the Python package and a service print that
//! result.

mod memory;
mod prior;
mod summary;

use std::path::Path;
use std::sync::Arc;

use surefoot::audit::{
    self, ActionsFrom, Entry, Ledger, Opening, Provenance, Statement, StatementKind, Terms, hash_of,
};
use surefoot::learn::{Contender, ContenderReport, Family, MemberReport, Retrained, StepReport, retrain_among};
use surefoot::observer::Observer;
use surefoot::{Certificate, Gate, Learner, LinearGaussian, Logs, Policy, RewardRange};

use crate::certificate_file::Certificates;
use crate::error::{Error, Result};
use crate::inputs::{Inputs, Lineage};
use crate::logs::LogReader;
use crate::policy_file::PolicyReader;
use crate::rounds::{ReadRequest, Rounds};
use prior::prior;
use summary::identity_warnings;
pub use summary::{CandidateSummary, ContenderSummary, LearnSummary, MemberSummary, Reveals, RoundSummary, Vocabulary};

/// The arguments of [`learn`].
#[derive(Debug, Clone)]
pub struct LearnRequest {
    /// How the logs are read: rounds, features, reward range. If the prior comes from a file, its features are used.
    pub read: ReadRequest,
    /// The prior. It must have been fixed before the records were logged.
    pub prior: Prior,
    /// If the prior was learned: whether only from logs older than these.
    pub prior_is_older: bool,
    /// The settings of the learner. Its own share of held-out records is ignored.
    pub learner: Learner,
    /// The share of all records to hold out, in `[0, 0.5]`. The newest records are held out; they only choose and
    /// certify.
    pub held_back: f64,
    /// The share of decisions that are drawn uniformly. Used only if the prior is not a given policy.
    pub exploration: f64,
    /// Whether to add a constant feature. Used only if the prior is not a given policy.
    pub intercept: bool,
    /// Learners and policies of the user's own, which compete with the members of a portfolio.
    pub contenders: Vec<Arc<dyn Contender>>,
}

/// The PAC-Bayes prior.
#[derive(Debug, Clone)]
pub enum Prior {
    /// A prior that prefers no action.
    Uniform,
    /// A prior that prefers the actions logged in the records set aside.
    Estimated,
    /// A given policy.
    Policy {
        /// The policy, which must be linear Gaussian.
        policy: Arc<dyn Policy>,
        /// How records become its features, if known.
        inputs: Option<Arc<Inputs>>,
    },
}

impl Prior {
    /// Reads a prior from a policy file.
    pub fn read(path: &Path) -> Result<Self> {
        let (policy, inputs) = PolicyReader::default().read_with(path)?;
        let inputs = inputs.ok_or_else(|| Error::Malformed {
            place: path.display().to_string(),
            reason: "the policy does not say how records become its features".into(),
        })?;
        Ok(Prior::Policy { policy, inputs: Some(Arc::new(inputs)) })
    }

    /// How records become the features of a given prior.
    pub fn inputs(&self) -> Option<&Inputs> {
        match self {
            Prior::Policy { inputs, .. } => inputs.as_deref(),
            Prior::Uniform | Prior::Estimated => None,
        }
    }
}

/// A policy learned from logs, with its certificates.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Learned {
    /// The learned policy. It is a linear Gaussian one, unless a candidate of the user's own is the result.
    pub policy: Arc<dyn Policy>,
    /// The prior.
    pub prior: LinearGaussian,
    /// How both policies turn records into features, and where the policy comes from.
    pub inputs: Inputs,
    /// The settings of the learner that were used.
    pub learner: Learner,
    /// The report of the optimiser.
    pub step: StepReport,
    /// A summary, in rewards.
    pub summary: LearnSummary,
    /// The certificate for its risk, in costs.
    pub proven: Certificate,
    /// The certificate for its risk minus the risk of the policy that collected the newest round, in costs.
    pub better: Certificate,
}

/// Reads the logs and learns the next policy from all their rounds.
pub fn learn(reader: &LogReader, request: &LearnRequest, observer: &mut dyn Observer) -> Result<Learned> {
    if request.read.engine.is_some() {
        request.learner.check_engine(&request.contenders)?;
    }
    learn_from(&Rounds::read(reader, &request.read, request.prior.inputs())?, request, observer)
}

/// Like [`learn`], from rounds that were already read; of `request.read`, only the memory is used.
pub fn learn_from(rounds: &Rounds, request: &LearnRequest, observer: &mut dyn Observer) -> Result<Learned> {
    if !(0.0..=0.5).contains(&request.held_back) {
        return Err(Error::setting("the share held back", "in [0, 0.5]", request.held_back));
    }
    let prior = prior(rounds, request)?;
    memory::check(rounds, &request.learner, &prior, request.read.storage.memory)?;
    let provenance = Provenance {
        prior_learned: match &request.prior {
            // A policy that does not say where it comes from is assumed to be learned.
            Prior::Policy { inputs, .. } => inputs.as_ref().is_none_or(|inputs| !inputs.lineage.logs.is_empty()),
            Prior::Uniform | Prior::Estimated => false,
        },
        prior_is_older: request.prior_is_older,
        features: rounds.features_from,
        flaws: rounds.flaws.clone(),
        actions: rounds.actions_from,
    };
    let logs = &rounds.rounds;
    let records: usize = logs.iter().map(Logs::len).sum();
    let newest = logs.last().map_or(1, Logs::len);
    let held_back = request.held_back * records as f64 / newest as f64;
    let family = family(request.learner.family, &prior);
    let learner = Learner { held_back, family, ..request.learner.clone() };
    let Retrained { policy, round: step, contenders, proven, better, logged, estimate, held_back, .. } =
        retrain_among(&learner, &prior, logs, &request.contenders, observer)
            .map_err(|reason| refuted(rounds, reason))?;
    let certified = provenance.certified();
    let mut warnings = audit::warnings(&provenance, &proven, &better);
    if family != request.learner.family && step.members.is_empty() && prior.joint().is_none() {
        warnings.push(format!(
            "the posterior has a scale per feature (per-feature, not shaped): principal axes are for at most {} \
             features, and there are {}",
            Family::MOST_AXES,
            prior.features().output()
        ));
    }
    if rounds.interleaved {
        warnings.push("rounds are interleaved: a policy logs records after the next policy has begun".into());
    }
    if rounds.unlabelled > 0 {
        warnings.push(format!(
            "{} decisions without action, propensity and reward were left out: if a reward is missing because it is 0, \
             write it, since leaving it out changes the log",
            rounds.unlabelled
        ));
    }
    warnings.extend(step.coverage.and_then(|coverage| coverage.warning()));
    warnings.extend(identity_warnings(rounds));
    warnings.extend_from_slice(&rounds.warnings);
    let [lo, hi] = rounds.reward_range;
    let (range, width) = (RewardRange::new(lo, hi)?, hi - lo);
    let round = |logs: &Logs| RoundSummary { name: logs.policy_version().into(), records: logs.len() };
    let member = |report: &MemberReport| MemberSummary {
        member: report.member,
        leads: report.leads,
        estimate: report.modelled.or(report.estimate).map(|risk| range.reward(risk)),
        at_least: report.upper.filter(|upper| *upper < 0.0).map(|upper| range.reward(upper)),
        seconds: report.seconds,
    };
    let contender = |report: &ContenderReport| ContenderSummary {
        name: report.name.clone(),
        leads: report.leads,
        estimate: range.reward(report.modelled),
    };
    let summary = LearnSummary {
        rounds: logs.iter().map(round).collect(),
        set_aside: rounds.set_aside.as_ref().map_or(0, Logs::len),
        held_back,
        skipped: rounds.skipped,
        features: rounds.encoding.width(),
        columns: rounds.encoding.columns().into_iter().map(str::to_owned).collect(),
        actions: policy.actions(),
        candidates: policy.as_gaussian().and_then(|policy| CandidateSummary::of(rounds, policy)),
        unlabelled: rounds.unlabelled,
        members: step.members.iter().map(member).collect(),
        coverage: step.coverage,
        contenders: contenders.iter().map(contender).collect(),
        lambda: step.lambda,
        kl: step.kl,
        certified,
        logged: [range.reward(logged.0), logged.1 * width],
        estimate: [range.reward(estimate.value), estimate.standard_error * width],
        at_least: (certified && !proven.vacuous).then(|| range.reward(proven.upper)),
        // No policy is worse by more than the whole range.
        better_by: (certified && better.upper < 1.0).then_some(-better.upper * width),
        confidence: 1.0 - learner.protocol.delta,
        reveals: Reveals::of(rounds, policy.as_ref()),
        warnings,
    };
    let lineage = Lineage {
        prior: Some(prior.fingerprint()),
        logs: logs.iter().map(Logs::fingerprint).collect(),
        learner: Some(learner.clone()),
        made_by: format!("surefoot {}", env!("CARGO_PKG_VERSION")),
    };
    let inputs = Inputs::new(rounds.actions.clone(), rounds.encoding.clone(), rounds.reward_range, lineage)
        .with_candidates(rounds.candidates.clone());
    rounds.finished();
    Ok(Learned { policy, prior, inputs, learner, step, summary, proven, better })
}

/// The family of the posterior of a new loop: one with a scale per feature if there are too many features for principal
/// axes, and one with fixed scales for candidates.
pub fn family(wanted: Family, prior: &LinearGaussian) -> Family {
    if prior.joint().is_some() {
        return Family::Isotropic;
    }
    let made = wanted == Family::Shaped && prior.posterior().basis().is_none();
    if made { Family::for_features(prior.features().output()) } else { wanted }
}

/// An error of the core, and if the logs contradict a certificate although the set of actions comes from them, that
/// this may be the reason.
fn refuted(rounds: &Rounds, reason: surefoot::Error) -> Error {
    match reason {
        surefoot::Error::Refuted { what } if rounds.actions_from == ActionsFrom::AllRecords => {
            let what = format!(
                "{what} (the set of actions comes from these records, because some actions do not occur in the records \
                 set aside: give all actions, option actions)"
            );
            surefoot::Error::Refuted { what }.into()
        }
        reason => reason.into(),
    }
}

impl Learned {
    /// The claims about the policy, for a saved run. There are none if the policy is not certified.
    pub fn statements(&self) -> Vec<Statement> {
        if !self.summary.certified {
            return Vec::new();
        }
        let round = self.summary.rounds.len();
        let statement = |kind, certificate: &Certificate| Statement { round, kind, certificate: certificate.clone() };
        vec![statement(StatementKind::Ladder, &self.proven), statement(StatementKind::Gate, &self.better)]
    }

    /// The same, for a file.
    pub fn certificates(&self) -> Certificates {
        Certificates { reward_range: self.inputs.reward, statements: self.statements() }
    }

    /// The ledger of this one call. The rounds were collected before it, by policies that it does not know. Fails if the
    /// result is a candidate of the user's own, which has no fingerprint.
    pub fn ledger(&self, rounds: &[Logs]) -> Result<Ledger> {
        let Some(policy) = self.policy.identity() else {
            return Err(Error::setting("the policy of a ledger", "one with a fingerprint", "a candidate of your own"));
        };
        let mut ledger = Ledger::open(Opening {
            first: self.prior.fingerprint(),
            actions: self.prior.actions(),
            protocol: self.learner.protocol.clone(),
            gate: Gate::Improvement,
            redeploys: true,
            shifts: false,
            terms: Terms {
                reward_range: self.inputs.reward,
                inputs: Some(self.inputs.fingerprint()),
                rounds_end: "collected before this ledger was opened".into(),
            },
        });
        for (round, logs) in rounds.iter().enumerate() {
            ledger.append(Entry::Collect { round, by: None, logs: logs.fingerprint(), records: logs.len() });
        }
        ledger.append(Entry::Learn {
            round: rounds.len() - 1,
            policy,
            fixed_since: self.step.fixed_since,
            hand_over: None,
        });
        for statement in self.statements() {
            let (round, kind, certificate) = (statement.round, statement.kind, hash_of(&statement));
            ledger.append(Entry::State { round, kind, certificate });
        }
        Ok(ledger)
    }
}
