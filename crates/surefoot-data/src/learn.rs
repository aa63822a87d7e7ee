//! LEARN: the next policy from the logs of others, and what is known of it, in rewards.
//!
//! One function of one request: the command line, the Python package and a service print what comes back.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use surefoot::audit::{self, Provenance, Statement, StatementKind};
use surefoot::contexts::Labelled;
use surefoot::learn::{Retrained, StepReport, retrain};
use surefoot::observer::Observer;
use surefoot::{Certificate, FeatureMap, Learner, LinearGaussian, Logs, Policy, RewardRange};

use crate::error::{Error, Result};
use crate::logs::LogReader;
use crate::policy_file::{Inputs, Lineage, PolicyReader};
use crate::rounds::{ReadRequest, Rounds};

/// What is asked of [`learn`].
#[derive(Debug, Clone)]
pub struct LearnRequest {
    /// How the logs are read: rounds, features, rewards. With a prior from a file its features are taken.
    pub read: ReadRequest,
    /// The prior, which must have been fixed before the records.
    pub prior: Prior,
    /// Whether a prior that was learned itself was learned from earlier logs only.
    pub prior_is_older: bool,
    /// How it is learned; what it says of records held back is not used.
    pub learner: Learner,
    /// The share of all records, the newest, that only choose and certify: in `[0, 0.5]`.
    pub held_back: f64,
    /// The share of decisions that are drawn uniformly, where the prior is not given.
    pub exploration: f64,
    /// Whether a constant feature is added, where the prior is not given.
    pub intercept: bool,
}

/// The prior of a search.
#[derive(Debug, Clone)]
pub enum Prior {
    /// It prefers no action.
    Uniform,
    /// It prefers the actions that were logged in the records set aside.
    Estimated,
    /// A policy.
    Policy {
        /// The policy, a linear Gaussian one.
        policy: Arc<dyn Policy>,
        /// How it understands records, if it says so.
        inputs: Option<Arc<Inputs>>,
    },
}

impl Prior {
    /// The prior of a file.
    pub fn read(path: &Path) -> Result<Self> {
        let (policy, inputs) = PolicyReader::default().read_with(path)?;
        let inputs = inputs.ok_or_else(|| Error::Malformed {
            place: path.display().to_string(),
            reason: "the policy does not say how records become its features".into(),
        })?;
        Ok(Prior::Policy { policy, inputs: Some(Arc::new(inputs)) })
    }

    /// How a given prior understands records.
    pub fn inputs(&self) -> Option<&Inputs> {
        match self {
            Prior::Policy { inputs, .. } => inputs.as_deref(),
            Prior::Uniform | Prior::Estimated => None,
        }
    }
}

/// A policy that was learned from logs, and what is known of it. Numbers are rewards.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Learned {
    /// The policy.
    pub policy: LinearGaussian,
    /// The prior of its search.
    pub prior: LinearGaussian,
    /// How both understand records, and where the policy comes from.
    pub inputs: Inputs,
    /// The settings of the learner, as they were used.
    pub learner: Learner,
    /// What the search reports.
    pub step: StepReport,
    /// What is known of it.
    pub summary: LearnSummary,
    /// What is proven of its risk, in costs.
    pub proven: Certificate,
    /// What is proven of its risk minus that of what collected the newest round, in costs.
    pub better: Certificate,
}

/// What is known of a learned policy, in rewards: what front ends show.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct LearnSummary {
    /// The rounds: their names, and how many records each has.
    pub rounds: Vec<RoundSummary>,
    /// How many records were set aside.
    pub set_aside: usize,
    /// How many of the newest records were held back.
    pub held_back: usize,
    /// How many records were skipped, as the logger asks.
    pub skipped: usize,
    /// The number of features.
    pub features: usize,
    /// The number of actions.
    pub actions: usize,
    /// The lambda that was used.
    pub lambda: f64,
    /// The divergence of the policy from its prior.
    pub kl: f64,
    /// Whether what is certified rests on nothing that was fitted to the records it is certified on.
    pub certified: bool,
    /// The mean reward of the newest round, and its standard error.
    pub logged: [f64; 2],
    /// The reward of the new policy by self-normalised importance weights, on what was held back (on all records, if
    /// nothing was), and its standard error.
    pub estimate: [f64; 2],
    /// What it is at least, if that says anything.
    pub at_least: Option<f64>,
    /// How much more than the newest round it brings at least; below 0 if it is not shown to bring more.
    pub better_by: f64,
    /// The probability with which each of the two holds.
    pub confidence: f64,
    /// What its user should not overlook.
    pub warnings: Vec<String>,
}

/// A round that was learned from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoundSummary {
    /// Its name.
    pub name: String,
    /// How many records it has.
    pub records: usize,
}

/// Reads the logs and learns the next policy from all their rounds.
pub fn learn(reader: &LogReader, request: &LearnRequest, observer: &mut dyn Observer) -> Result<Learned> {
    learn_from(&Rounds::read(reader, &request.read, request.prior.inputs())?, request, observer)
}

/// The same from rounds that were read before; how they are to be read is not looked at.
pub fn learn_from(rounds: &Rounds, request: &LearnRequest, observer: &mut dyn Observer) -> Result<Learned> {
    if !(0.0..=0.5).contains(&request.held_back) {
        return Err(Error::setting("the share held back", "in [0, 0.5]", request.held_back));
    }
    let prior = prior(rounds, request)?;
    let provenance = Provenance {
        prior_learned: match &request.prior {
            // Of a policy that does not say where it comes from, the worst is assumed.
            Prior::Policy { inputs, .. } => inputs.as_ref().is_none_or(|inputs| !inputs.lineage.logs.is_empty()),
            Prior::Uniform | Prior::Estimated => false,
        },
        prior_is_older: request.prior_is_older,
        features: rounds.features_from,
    };
    let logs = &rounds.rounds;
    let records: usize = logs.iter().map(Logs::len).sum();
    let newest = logs.last().map_or(1, Logs::len);
    let held_back = request.held_back * records as f64 / newest as f64;
    let learner = Learner { held_back, ..request.learner.clone() };
    let Retrained { policy, round: step, proven, better, logged, estimate, held_back, .. } =
        retrain(&learner, &prior, logs, observer)?;
    let certified = provenance.certified();
    let mut warnings = audit::warnings(certified, &proven, &better);
    if rounds.interleaved {
        warnings.push("rounds are interleaved: a policy goes on after another has begun".into());
    }
    let [lo, hi] = rounds.reward_range;
    let (range, width) = (RewardRange::new(lo, hi)?, hi - lo);
    let round = |logs: &Logs| RoundSummary { name: logs.policy_version().into(), records: logs.len() };
    let summary = LearnSummary {
        rounds: logs.iter().map(round).collect(),
        set_aside: rounds.set_aside.as_ref().map_or(0, |(_, actions)| actions.len()),
        held_back,
        skipped: rounds.skipped,
        features: rounds.encoding.width(),
        actions: policy.actions(),
        lambda: step.lambda,
        kl: step.kl,
        certified,
        logged: [range.reward(logged.0), logged.1 * width],
        estimate: [range.reward(estimate.value), estimate.standard_error * width],
        at_least: (!proven.vacuous).then(|| range.reward(proven.upper)),
        better_by: -better.upper * width,
        confidence: 1.0 - learner.protocol.delta,
        warnings,
    };
    let lineage = Lineage {
        prior: Some(prior.fingerprint()),
        logs: logs.iter().map(Logs::fingerprint).collect(),
        learner: Some(learner.clone()),
        made_by: format!("surefoot {}", env!("CARGO_PKG_VERSION")),
    };
    let inputs = Inputs::new(rounds.actions.clone(), rounds.encoding.clone(), rounds.reward_range, lineage);
    Ok(Learned { policy, prior, inputs, learner, step, summary, proven, better })
}

impl Learned {
    /// What is claimed of the policy.
    pub fn statements(&self) -> Vec<Statement> {
        let round = self.summary.rounds.len();
        let statement = |kind, certificate: &Certificate| Statement { round, kind, certificate: certificate.clone() };
        vec![statement(StatementKind::Ladder, &self.proven), statement(StatementKind::Gate, &self.better)]
    }
}

fn prior(rounds: &Rounds, request: &LearnRequest) -> Result<LinearGaussian> {
    let actions = rounds.actions.len();
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
