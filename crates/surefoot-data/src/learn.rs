//! LEARN: learns the next policy from existing logs, and certifies it. All numbers are rewards.
//!
//! [`learn`] takes one request and returns one result. The command line, the Python package and a service print that
//! result.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use surefoot::audit::{
    self, ActionsFrom, Entry, Ledger, Opening, Provenance, Statement, StatementKind, Terms, hash_of,
};
use surefoot::contexts::Labelled;
use surefoot::learn::{
    Contender, ContenderReport, Coverage, Family, MemberKind, MemberReport, Retrained, StepReport, retrain_among,
};
use surefoot::observer::Observer;
use surefoot::policy::{Posterior, Scale};
use surefoot::{Certificate, FeatureMap, Gate, Learner, LinearGaussian, Logs, Policy, RewardRange};

use crate::certificate_file::Certificates;
use crate::encoding::{Field, Identity};
use crate::error::{Error, Result};
use crate::inputs::{Inputs, Lineage};
use crate::logs::{Actions, LogReader};
use crate::policy_file::PolicyReader;
use crate::rounds::{ReadRequest, Rounds};

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

/// A summary of a learned policy, in rewards, for the front ends to show.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct LearnSummary {
    /// The rounds: their names and numbers of records.
    pub rounds: Vec<RoundSummary>,
    /// The number of records that were set aside.
    pub set_aside: usize,
    /// The number of held-out records, which are the newest.
    pub held_back: usize,
    /// The number of records that were skipped because the logger asked for it.
    pub skipped: usize,
    /// The number of features.
    pub features: usize,
    /// The columns that became features.
    pub columns: Vec<String>,
    /// The number of actions, or the largest number of candidates of a record.
    pub actions: usize,
    /// The features of candidates, if records have candidates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<CandidateSummary>,
    /// The number of decisions without a label, which were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub unlabelled: usize,
    /// The lambda that was used; 0 for a portfolio, which has none.
    pub lambda: f64,
    /// The KL divergence of the policy from its prior; 0 for a portfolio.
    pub kl: f64,
    /// The members of a portfolio.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberSummary>,
    /// The coverage of the new policy on the newest round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    /// The candidates of the user's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contenders: Vec<ContenderSummary>,
    /// Whether the certificate is valid: nothing it depends on was fitted to the records it is computed from.
    pub certified: bool,
    /// The mean reward of the newest round, and its standard error.
    pub logged: [f64; 2],
    /// The self-normalised importance sampling estimate of the new policy's reward, and its standard error. It uses the
    /// held-out records, or all records if none were held out.
    pub estimate: [f64; 2],
    /// The certified lower bound of its reward, unless it is vacuous or not certified.
    pub at_least: Option<f64>,
    /// The certified lower bound of its improvement over the newest round, unless it is not certified. Negative if no
    /// improvement is proven.
    pub better_by: Option<f64>,
    /// The confidence of each of the two bounds.
    pub confidence: f64,
    /// The raw values of the logs that the files of the policy contain.
    pub reveals: Reveals,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The features of candidates, and the joint features of contexts and candidates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CandidateSummary {
    /// The number of features of a candidate.
    pub features: usize,
    /// The fields of candidates that became features.
    pub columns: Vec<String>,
    /// The number of joint features: those of candidates, and products of context features and candidate features.
    pub joint: usize,
    /// Whether the joint features are hashed, so that some of them share a weight.
    pub hashed: bool,
}

impl CandidateSummary {
    fn of(rounds: &Rounds, policy: &LinearGaussian) -> Option<Self> {
        let (inputs, joint) = (rounds.candidates.as_ref()?, policy.joint()?);
        Some(CandidateSummary {
            features: inputs.encoding.width(),
            columns: inputs.encoding.columns().into_iter().map(str::to_owned).collect(),
            joint: joint.output(),
            hashed: joint.is_hashed(),
        })
    }
}

/// A member of a portfolio, in rewards.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MemberSummary {
    /// Its name.
    pub member: MemberKind,
    /// Whether its policy is the result.
    pub leads: bool,
    /// The estimated reward of its policy by which it was chosen or not: doubly robust, with the best of the reward models, on
    /// the newer part of the records that are not held out. The policy was learned from the older part.
    pub estimate: Option<f64>,
    /// A lower bound of that reward by the same records, for this member alone.
    pub at_least: Option<f64>,
    /// Seconds for learning.
    pub seconds: f64,
}

/// A candidate of the user's own, in rewards.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ContenderSummary {
    /// Its name.
    pub name: String,
    /// Whether it is the result.
    pub leads: bool,
    /// Its estimated reward, as that of a member.
    pub estimate: f64,
}

/// The raw values of the logs that everybody who has the files of a policy can read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reveals {
    /// The columns whose values are listed.
    pub vocabularies: Vec<Vocabulary>,
    /// The number of actions whose names are listed.
    pub action_names: usize,
    /// The number of contexts that are stored as landmarks of kernel features.
    pub landmarks: usize,
    /// The number of thresholds of tree features. Each is the middle between two contexts' values of a feature.
    pub thresholds: usize,
}

/// A column whose values a policy file lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Vocabulary {
    /// The column.
    pub column: String,
    /// The number of its values.
    pub values: usize,
}

impl Reveals {
    fn of(rounds: &Rounds, policy: &dyn Policy) -> Self {
        let map = policy.class().features();
        let listed = fields(rounds).flat_map(Field::vocabularies);
        let vocabulary = |(column, values): (&str, usize)| Vocabulary { column: column.into(), values };
        Reveals {
            vocabularies: listed.map(vocabulary).collect(),
            action_names: match &rounds.actions {
                Actions::Names(names) => names.len(),
                Actions::Count(_) => 0,
            },
            landmarks: map.and_then(FeatureMap::kernel_parts).map_or(0, |kernel| kernel.landmarks().len()),
            thresholds: map.and_then(FeatureMap::tree_parts).map_or(0, |trees| trees.splits()),
        }
    }
}

/// The fields of contexts and candidates.
fn fields(rounds: &Rounds) -> impl Iterator<Item = &Field> {
    let candidates = rounds.candidates.iter().flat_map(|candidates| candidates.encoding.fields());
    rounds.encoding.fields().iter().chain(candidates)
}

/// A warning for each column that looks like an identity.
fn identity_warnings(rounds: &Rounds) -> Vec<String> {
    let warning = |(column, identity): &(String, Identity)| {
        let mut listed = fields(rounds).flat_map(Field::vocabularies);
        let what = match listed.any(|(other, _)| other == column) {
            true => "the policy file lists its values",
            false => "it is hashed, and the policy file does not list its values",
        };
        format!(
            "column {column} looks like an identity ({}): {what}; leave the column out unless it should be a feature",
            identity.describe()
        )
    };
    rounds.identities.iter().map(warning).collect()
}

/// A round that was learned from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoundSummary {
    /// Its name.
    pub name: String,
    /// Its number of records.
    pub records: usize,
}

/// Reads the logs and learns the next policy from all their rounds.
pub fn learn(reader: &LogReader, request: &LearnRequest, observer: &mut dyn Observer) -> Result<Learned> {
    learn_from(&Rounds::read(reader, &request.read, request.prior.inputs())?, request, observer)
}

/// Like [`learn`], from rounds that were already read; `request.read` is ignored.
pub fn learn_from(rounds: &Rounds, request: &LearnRequest, observer: &mut dyn Observer) -> Result<Learned> {
    if !(0.0..=0.5).contains(&request.held_back) {
        return Err(Error::setting("the share held back", "in [0, 0.5]", request.held_back));
    }
    let prior = prior(rounds, request)?;
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
        set_aside: rounds.set_aside.as_ref().map_or(0, |(_, actions)| actions.len()),
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

/// The largest number of parameters of a learned policy, one per action and feature: 2 GiB.
const MOST_PARAMETERS: usize = 1 << 28;

/// Checks the size of a policy before memory is taken for it: a large number of an action, or a large index of a
/// feature, takes few bytes in a file.
fn check_parameters(actions: usize, features: usize) -> Result<()> {
    match actions.checked_mul(features) {
        Some(..=MOST_PARAMETERS) => Ok(()),
        _ => {
            let allowed = format!("at most {MOST_PARAMETERS}");
            let found = format!("{actions} actions x {features} features");
            Err(Error::setting("the number of parameters", &allowed, found))
        }
    }
}

/// The prior over candidates.
fn prior_over_candidates(rounds: &Rounds, request: &LearnRequest) -> Result<LinearGaussian> {
    let actions = rounds.actions.len();
    match (&request.prior, &rounds.joint) {
        (Prior::Policy { policy, inputs }, _) => {
            let same = |inputs: &Inputs| inputs.encoding == rounds.encoding && inputs.candidates == rounds.candidates;
            if inputs.as_ref().is_some_and(|inputs| !same(inputs)) {
                return Err(Error::setting("the prior", "one over the features of the rounds", "another"));
            }
            let gaussian = policy.as_gaussian().filter(|policy| policy.joint().is_some());
            let gaussian = gaussian
                .ok_or_else(|| Error::setting("the prior", "a linear Gaussian policy over candidates", "another"))?;
            Ok(gaussian.with_most_candidates(actions)?)
        }
        (Prior::Uniform, Some(joint)) => {
            check_parameters(1, joint.output())?;
            let posterior = Posterior::over_candidates(vec![0.0; joint.output()], Scale::Shared(1.0))?;
            let map = FeatureMap::identity(rounds.encoding.width());
            let made = LinearGaussian::over_candidates(map, joint.clone(), actions, posterior)?;
            Ok(made.with_exploration(request.exploration)?)
        }
        (Prior::Uniform, None) => {
            Err(Error::setting("the prior", "the policy whose features the rounds have", "uniform"))
        }
        (Prior::Estimated, _) => {
            let allowed = "uniform or a policy file, as the records have candidates with features";
            Err(Error::setting("the prior", allowed, "estimated"))
        }
    }
}

fn prior(rounds: &Rounds, request: &LearnRequest) -> Result<LinearGaussian> {
    if rounds.candidates.is_some() {
        return prior_over_candidates(rounds, request);
    }
    let actions = rounds.actions.len();
    check_parameters(actions, rounds.encoding.width().saturating_add(usize::from(request.intercept)))?;
    let map = || {
        let map = FeatureMap::identity(rounds.encoding.width());
        if request.intercept { map.with_intercept() } else { map }
    };
    let made = match &request.prior {
        Prior::Policy { policy, inputs } => {
            if inputs.as_ref().is_some_and(|inputs| inputs.encoding != rounds.encoding) {
                return Err(Error::setting("the prior", "one over the features of the rounds", "another"));
            }
            let gaussian = policy.as_gaussian().cloned();
            return gaussian.ok_or_else(|| Error::setting("the prior", "a linear Gaussian policy", "another"));
        }
        Prior::Uniform => LinearGaussian::standard(map(), actions)?,
        Prior::Estimated => {
            let first = &rounds.rounds[0];
            let (contexts, labels) = match &rounds.set_aside {
                Some((contexts, labels)) => (contexts.clone(), labels.clone()),
                None => (first.contexts().clone(), first.action().to_vec()),
            };
            LinearGaussian::imitating(map(), &Labelled::new(contexts, labels)?, actions)?
        }
    };
    Ok(made.with_exploration(request.exploration)?)
}
