//! EVALUATE: off-policy evaluation of several policies in one pass over the logs. All results are rewards.
//!
//! [`evaluate`] takes one request and returns one result. The command line, the Python package and a service print that
//! result.

mod elsewhere;
mod model;
mod pass;

pub(crate) use elsewhere::{EVALUATE, propensities};
pub use model::ModelRequest;
pub(crate) use model::RewardModel;
pub(crate) use pass::{Seen, actions_of, learned, observe};

use elsewhere::without_model;
use serde::Serialize;
use surefoot::audit;
use surefoot::evaluation::{Bias, Estimate, Evaluation, EvaluationSettings, Interval, Recommendation, Weights};
use surefoot::{Evaluator, Protocol, RewardRange};

use crate::error::{Error, Result, at};
use crate::logs::LogReader;
use crate::record_policy::RecordPolicy;

/// A policy with a name.
#[derive(Debug, Clone)]
pub struct NamedPolicy {
    /// Its name.
    pub name: String,
    /// The policy.
    pub policy: RecordPolicy,
}

/// The arguments of [`evaluate`].
#[derive(Debug, Clone)]
pub struct EvaluateRequest {
    /// The target policies.
    pub policies: Vec<NamedPolicy>,
    /// The lowest and the highest possible reward.
    pub reward_range: [f64; 2],
    /// The reward model, for the estimators that need one.
    pub model: ModelRequest,
    /// The estimators. `None`: all that the model allows.
    pub estimators: Option<Vec<surefoot::evaluation::Estimator>>,
    /// The failure probability of each interval.
    pub delta: f64,
    /// The number of bootstrap replicates.
    pub replicates: usize,
    /// The largest possible importance weight, if known.
    pub largest_weight: Option<f64>,
    /// The seed of the bootstrap.
    pub seed: u64,
}

impl Default for EvaluateRequest {
    fn default() -> Self {
        EvaluateRequest {
            policies: Vec::new(),
            reward_range: [0.0, 1.0],
            model: ModelRequest::None,
            estimators: None,
            delta: 0.05,
            replicates: 1000,
            largest_weight: None,
            seed: 1,
        }
    }
}

/// The result of [`evaluate`], in rewards.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Evaluated {
    /// The number of records.
    pub records: usize,
    /// The number of records that were skipped because the logger asked for it.
    pub skipped: usize,
    /// The lowest and the highest possible reward.
    pub reward_range: [f64; 2],
    /// The confidence of each interval.
    pub confidence: f64,
    /// Whether the anytime intervals are proven: the logs have no flaw that their proof does not allow for.
    pub certified: bool,
    /// One result per policy, in the order of the request.
    pub policies: Vec<EvaluatedPolicy>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// The evaluation of one policy, in rewards.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct EvaluatedPolicy {
    /// Its name.
    pub name: String,
    /// The anytime-valid interval: it holds at all times simultaneously.
    pub anytime: Interval,
    /// Whether that interval is proven: the logs have no flaw that its proof does not allow for.
    pub certified: bool,
    /// The importance weights.
    pub weights: Weights,
    /// One estimate per estimator.
    pub estimates: Vec<NamedEstimate>,
    /// The name of the estimator to use; `None` if only the anytime interval should be used.
    pub recommended: Option<String>,
    /// Why it is recommended, or why none is.
    pub reason: String,
    /// Warnings about this policy.
    pub warnings: Vec<String>,
}

impl EvaluatedPolicy {
    /// Converts an evaluation to rewards.
    pub fn new(name: &str, evaluation: Evaluation, range: RewardRange) -> Self {
        let Recommendation { estimate: place, reason, .. } = evaluation.recommended();
        let Evaluation { anytime, weights, estimates, records, .. } = evaluation.in_rewards(range);
        let recommended = place.map(|place| estimates[place].estimator.to_string());
        let named = |estimate: Estimate| NamedEstimate {
            name: estimate.estimator.to_string(),
            bias: estimate.estimator.bias(),
            estimate,
        };
        EvaluatedPolicy {
            certified: true,
            recommended,
            reason,
            name: name.into(),
            anytime,
            weights,
            estimates: estimates.into_iter().map(named).collect(),
            warnings: weights.warnings(records),
        }
    }
}

/// The estimate of one estimator.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct NamedEstimate {
    /// The name of the estimator.
    pub name: String,
    /// Its bias.
    pub bias: Bias,
    /// The estimate.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// Evaluates all policies at once. In each pass, `on_batch` is called with the number of records of each batch. If the reader
/// has an engine, that computes the probabilities of learned policies, with the same bits.
pub fn evaluate(reader: &LogReader, request: &EvaluateRequest, mut on_batch: impl FnMut(usize)) -> Result<Evaluated> {
    let modelled = request.model != ModelRequest::None;
    let base = if modelled { EvaluationSettings::with_model() } else { EvaluationSettings::default() };
    let settings = EvaluationSettings {
        estimators: request.estimators.clone().unwrap_or(base.estimators),
        protocol: Protocol { delta: request.delta, ..Protocol::default() },
        replicates: request.replicates,
        seed: request.seed,
        largest_weight: request.largest_weight,
    };
    if let Some(estimator) = settings.estimators.iter().find(|estimator| estimator.needs_model() && !modelled) {
        return Err(Error::setting("the reward model", &format!("given, as {estimator} needs one"), "none"));
    }
    if reader.engine().is_some() {
        without_model(&request.model)?;
    }
    let [lo, hi] = request.reward_range;
    let range = RewardRange::new(lo, hi)?;
    let actions = actions_of(&request.policies, reader)?;
    let model = match &request.model {
        ModelRequest::None => RewardModel::None,
        ModelRequest::Linear { ignore } => {
            // Lists with the probabilities of a policy are not features.
            let lists = request.policies.iter().filter_map(|named| named.policy.list());
            let ignore: Vec<String> = ignore.iter().map(String::as_str).chain(lists).map(str::to_owned).collect();
            RewardModel::linear(reader, &actions, range, &ignore, &mut on_batch)?
        }
        ModelRequest::Given(cells) => RewardModel::Given(cells.clone()),
    };
    let Seen { evaluators, skipped, flaws } =
        observe(&model, &request.policies, reader, &actions, request.reward_range, &settings, on_batch)?;
    let records = evaluators.first().map_or(0, Evaluator::records);
    let (place, mut policies) = (reader.place(), Vec::new());
    for (NamedPolicy { name, policy }, evaluator) in request.policies.iter().zip(&evaluators) {
        let mut evaluated = EvaluatedPolicy::new(name, at(&place, evaluator.finish())?, range);
        evaluated.warnings.extend(learned(policy));
        policies.push(evaluated);
    }
    let named = |policy: &EvaluatedPolicy| -> Vec<String> {
        policy.warnings.iter().map(|warning| format!("{}: {warning}", policy.name)).collect()
    };
    let flawed = audit::not_certified(&flaws);
    let warnings = flawed.iter().cloned().chain(policies.iter().flat_map(named)).collect();
    for policy in &mut policies {
        policy.certified = flaws.is_empty();
        policy.warnings.splice(0..0, flawed.iter().cloned());
    }
    let (reward_range, confidence, certified) = (request.reward_range, 1.0 - request.delta, flaws.is_empty());
    Ok(Evaluated { records, skipped, reward_range, confidence, certified, policies, warnings })
}
