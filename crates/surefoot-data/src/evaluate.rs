//! EVALUATE: off-policy evaluation of several policies in one pass over the logs. All results are rewards.
//!
//! [`evaluate`] and [`select`] each take one request and return one result. The command line, the Python package and a
//! service print that result.

use serde::Serialize;
use surefoot::audit;
use surefoot::evaluation::{
    Bias, CostModel, Estimate, Evaluation, EvaluationSettings, Interval, ModelFit, Modelled, Observed, Recommendation,
    Selection, Standing, Weights,
};
use surefoot::{Evaluator, Protocol, RewardRange};

use crate::encoding::{Encoding, EncodingFit, EncodingSettings};
use crate::error::{Error, Result, at};
use crate::lint::Screen;
use crate::logs::{Actions, Check, LogBatch, LogReader, Records};
use crate::record_policy::{Cells, RecordPolicy};
use crate::scan::{Grouping, Scan};

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

/// Which reward model to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelRequest {
    /// None.
    None,
    /// A linear model, fitted to the logs themselves.
    Linear {
        /// Columns that the model does not use.
        ignore: Vec<String>,
    },
    /// The predictions are columns of the logs.
    Given(Cells),
}

impl ModelRequest {
    /// Parses `none`, `linear` (without the columns to ignore), `columns:PREFIX` or `list:COLUMN`.
    pub fn named(text: &str, ignore: &[String]) -> Result<Self> {
        match text {
            "none" => Ok(ModelRequest::None),
            "linear" => Ok(ModelRequest::Linear { ignore: ignore.to_vec() }),
            cells => cells
                .parse()
                .map(ModelRequest::Given)
                .map_err(|()| Error::setting("the reward model", "none, linear, columns:PREFIX or list:COLUMN", cells)),
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

/// Evaluates all policies at once. In each pass, `on_batch` is called with the number of records of each batch.
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
        observe(&model, &request.policies, reader, &actions, range, &settings, on_batch)?;
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

/// The arguments of [`select`].
#[derive(Debug, Clone)]
pub struct SelectRequest {
    /// The candidates. All must have been fixed before the records were logged.
    pub policies: Vec<NamedPolicy>,
    /// Their prior weights, up to a common factor. `None`: equal weights.
    pub prior: Option<Vec<f64>>,
    /// The lowest and the highest possible reward.
    pub reward_range: [f64; 2],
    /// The failure probability of all bounds together.
    pub delta: f64,
}

/// The result of [`select`]: bounds for several policies that hold simultaneously, in rewards.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Selected {
    /// The number of records.
    pub records: usize,
    /// The probability with which all bounds hold.
    pub confidence: f64,
    /// Whether the bounds are proven: the logs have no flaw that their proof does not allow for.
    pub certified: bool,
    /// The name of the candidate with the highest lower bound.
    pub chosen: String,
    /// The candidates, in the order of the request.
    pub candidates: Vec<SelectedCandidate>,
    /// The bound for the best mixture.
    pub mixture: ProvenReward,
    /// The assumptions about logs and candidates that cannot be checked from the logs.
    pub assumption: &'static str,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// A candidate and its bound.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SelectedCandidate {
    /// Its name.
    pub name: String,
    /// Its weight in the mixture.
    pub weight: f64,
    /// The bound for its reward.
    #[serde(flatten)]
    pub proven: ProvenReward,
}

/// A lower bound for a policy's reward.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProvenReward {
    /// The estimate behind the bound.
    pub estimate: f64,
    /// The reward is at least this.
    pub at_least: f64,
    /// The lambda of the bound.
    pub lambda: f64,
}

impl ProvenReward {
    fn of(standing: &Standing, range: RewardRange) -> Self {
        let Standing { estimate, upper, lambda, .. } = *standing;
        ProvenReward { estimate: range.reward(estimate), at_least: range.reward(upper), lambda }
    }
}

const ASSUMPTION: &str = "every candidate was fixed before the records, each propensity is right, no record was \
    dropped for its reward, and contexts are independent, from one distribution";

/// Bounds the rewards of several policies and chooses among them. `on_batch` is called with the number of records of
/// each batch.
pub fn select(reader: &LogReader, request: &SelectRequest, on_batch: impl FnMut(usize)) -> Result<Selected> {
    let [lo, hi] = request.reward_range;
    let range = RewardRange::new(lo, hi)?;
    let actions = actions_of(&request.policies, reader)?;
    // The bounds need only sums that every evaluator keeps, so one estimator is enough.
    let settings = EvaluationSettings {
        estimators: EvaluationSettings::default().estimators[..1].to_vec(),
        protocol: Protocol { delta: request.delta, ..Protocol::default() },
        replicates: 0,
        ..EvaluationSettings::default()
    };
    let Seen { evaluators, flaws, .. } =
        observe(&RewardModel::None, &request.policies, reader, &actions, range, &settings, on_batch)?;
    let evaluators: Vec<&Evaluator> = evaluators.iter().collect();
    let selection = Selection::of(&evaluators, request.prior.as_deref()).map_err(|reason| match reason {
        surefoot::Error::Refuted { .. } => Error::Content { place: reader.place(), reason },
        reason => reason.into(),
    })?;
    let names: Vec<&str> = request.policies.iter().map(|named| named.name.as_str()).collect();
    let mut selected = Selected::new(&names, &selection, range);
    selected.certified = flaws.is_empty();
    selected.warnings.splice(0..0, audit::not_certified(&flaws));
    for NamedPolicy { name, policy } in &request.policies {
        selected.warnings.extend(learned(policy).map(|warning| format!("{name}: {warning}")));
    }
    Ok(selected)
}

impl Selected {
    /// Converts a selection among policies with these names to rewards.
    pub fn new(names: &[&str], selection: &Selection, range: RewardRange) -> Self {
        let candidates = names.iter().zip(&selection.candidates).zip(&selection.weights);
        let candidate = |((name, standing), &weight): ((&&str, &Standing), &f64)| SelectedCandidate {
            name: (*name).into(),
            weight,
            proven: ProvenReward::of(standing, range),
        };
        let mixture = ProvenReward::of(&selection.mixture, range);
        let nothing = mixture.at_least <= range.reward(0.0);
        Selected {
            records: selection.records,
            confidence: 1.0 - selection.delta,
            certified: true,
            chosen: names[selection.best].into(),
            candidates: candidates.map(candidate).collect(),
            mixture,
            assumption: ASSUMPTION,
            warnings: nothing.then(|| "these logs prove nothing about any candidate".into()).into_iter().collect(),
        }
    }
}

/// A warning about a policy that was learned from logs: if it was learned from these logs, the results are too
/// optimistic.
fn learned(policy: &RecordPolicy) -> Option<String> {
    let text = "was learned from logs: if these logs are among them, its results here are too optimistic";
    policy.was_learned().then(|| text.into())
}

/// Predicts the reward of every action. Some estimators need such a model.
#[derive(Debug)]
enum RewardModel {
    /// No model.
    None,
    /// A linear model, fitted to the logs themselves by cross-fitting: the model that predicts a record was not fitted
    /// to it.
    Linear {
        /// How records become its features.
        encoding: Encoding,
        /// The model.
        model: CostModel,
    },
    /// The predictions are columns of the logs.
    Given(Cells),
}

/// Folds and penalty of the linear model. Each record is predicted by a model fitted to the other two thirds of the
/// records. With this penalty, a standardised feature needs a few records before it has weight.
const FOLDS: usize = 3;
const PENALTY: f64 = 1.0;

impl RewardModel {
    /// Fits a linear model without the columns to ignore. It takes two passes over the logs: the first finds the
    /// columns, the second fits. In each, `on_batch` is called with the number of records of each batch.
    fn linear(
        reader: &LogReader,
        actions: &Actions,
        range: RewardRange,
        ignore: &[String],
        mut on_batch: impl FnMut(usize),
    ) -> Result<Self> {
        let settings = EncodingSettings { ignore: ignore.to_vec(), ..EncodingSettings::default() };
        let place = reader.place();
        let mut fit = EncodingFit::new(settings).map_err(|reason| Error::Malformed { place: place.clone(), reason })?;
        for batch in reader.batches() {
            let batch = batch?;
            on_batch(batch.len());
            fit.add(&batch)?;
        }
        let encoding = fit.finish(&place)?;
        let mut fit = at(&place, ModelFit::new(actions.len(), encoding.width(), FOLDS, PENALTY))?;
        let mut check = Check::new(actions.clone(), range);
        for batch in reader.batches() {
            let batch = batch?;
            on_batch(batch.len());
            let records = check.records(&batch)?;
            at(&place, fit.add(&encoding.encode(&batch)?, &records.action, &records.cost))?;
        }
        Ok(RewardModel::Linear { encoding, model: at(&place, fit.finish())? })
    }

    /// The predicted costs of all actions.
    fn predict(&self, batch: &LogBatch, actions: &Actions, range: RewardRange) -> Result<Option<Vec<f64>>> {
        match self {
            RewardModel::None => Ok(None),
            RewardModel::Linear { encoding, model } => {
                let contexts = encoding.encode(batch)?;
                at(batch.place(), model.predict(batch.row(), &contexts)).map(Some)
            }
            RewardModel::Given(given) => {
                let rewards = given.read(batch, actions)?;
                let costs = range.costs(&rewards).map_err(|e| match e {
                    surefoot::Error::Value { row, allowed, value, .. } => {
                        let (file, place) = batch.place_of(row / actions.len());
                        let action = actions.name(row % actions.len());
                        let column = format!("the predicted reward of action {action}");
                        Error::Field { place: format!("{file}, row {place}"), column, allowed, found: value }
                    }
                    reason => Error::Content { place: batch.place().to_owned(), reason },
                })?;
                Ok(Some(costs))
            }
        }
    }
}

/// The actions that the user gave or that the policies know, or else those in the logs. All that know their actions must
/// agree.
///
/// A uniform policy needs actions that do not come from the logs. Over the actions that happen to occur, it is not a
/// fixed policy: it depends on the records, and its value is overestimated.
fn actions_of(policies: &[NamedPolicy], reader: &LogReader) -> Result<Actions> {
    let Some(first) = reader.batches().next().transpose()? else {
        return Ok(Scan::of(reader, &Grouping::File)?.actions);
    };
    let mut known: Option<(&str, Actions)> =
        reader.given_actions().map(|actions| ("the option actions", reader.named(actions)));
    for NamedPolicy { name, policy } in policies {
        let Some(actions) = policy.actions(&first)? else { continue };
        match &known {
            Some((other, found)) if *found != actions => {
                return Err(Error::Malformed {
                    place: name.to_owned(),
                    reason: format!(
                        "should have the same actions as {other}, {}, but has {}",
                        described(found),
                        described(&actions)
                    ),
                });
            }
            Some(_) => {}
            None => known = Some((name, actions)),
        }
    }
    match known {
        Some((_, actions)) => Ok(actions),
        None => {
            let scan = Scan::of(reader, &Grouping::File)?;
            let uniform = policies.iter().find(|named| named.policy.needs_actions());
            match uniform.filter(|_| !scan.eligible) {
                None => Ok(scan.actions),
                Some(NamedPolicy { name, .. }) => Err(Error::Malformed {
                    place: name.clone(),
                    reason:
                        "the uniform policy needs all actions, and not only those that occur in the logs: give them \
                        (option actions), or log the eligible actions of every record"
                            .into(),
                }),
            }
        }
    }
}

fn described(actions: &Actions) -> String {
    match actions {
        Actions::Count(k) => format!("{k} numbers"),
        Actions::Names(names) => format!("{} names from {:?}", names.len(), names.first()),
    }
}

/// The result of a pass over the logs.
struct Seen {
    /// An evaluator for each policy.
    evaluators: Vec<Evaluator>,
    /// The number of skipped records.
    skipped: usize,
    /// Flaws of the logs for which nothing may be called certified.
    flaws: Vec<String>,
}

/// Goes over the logs once. `on_batch` is called with the number of records of each batch.
fn observe(
    model: &RewardModel,
    policies: &[NamedPolicy],
    reader: &LogReader,
    actions: &Actions,
    range: RewardRange,
    settings: &EvaluationSettings,
    mut on_batch: impl FnMut(usize),
) -> Result<Seen> {
    let place = reader.place();
    let mut evaluators: Vec<Evaluator> =
        policies.iter().map(|_| at(&place, Evaluator::new(settings))).collect::<Result<_>>()?;
    let mut check = Check::new(actions.clone(), range);
    let mut screen = Screen::default();
    let mut batches = reader.batches();
    for batch in batches.by_ref() {
        let batch = batch?;
        let records = check.records(&batch)?;
        screen.add(&batch, &records)?;
        let predicted = model.predict(&batch, actions, range)?;
        for (NamedPolicy { policy, .. }, evaluator) in policies.iter().zip(&mut evaluators) {
            add(evaluator, policy, &batch, &records, actions, predicted.as_deref())?;
        }
        on_batch(batch.len());
    }
    Ok(Seen { evaluators, skipped: batches.skipped(), flaws: screen.flaws(&place, actions, |_| "")? })
}

/// Adds the records of a batch to the evaluator of a policy.
fn add(
    evaluator: &mut Evaluator,
    policy: &RecordPolicy,
    batch: &LogBatch,
    records: &Records,
    actions: &Actions,
    predicted: Option<&[f64]>,
) -> Result<()> {
    let (q, c) = (&records.propensity[..], &records.cost[..]);
    let Some(predicted) = predicted else {
        let p = policy.propensity(batch, records, actions)?;
        return at(batch.place(), evaluator.add(&Observed { p: &p, q, c, model: None, custom: &[] }));
    };
    let k = actions.len();
    let distribution = policy.distribution(batch, records.eligible.as_ref(), actions)?;
    let place = |row: usize| row * k + records.action[row] as usize;
    let p: Vec<f64> = (0..batch.len()).map(|row| distribution[place(row)]).collect();
    let logged: Vec<f64> = (0..batch.len()).map(|row| predicted[place(row)]).collect();
    let rows = distribution.chunks_exact(k).zip(predicted.chunks_exact(k));
    let mean: Vec<f64> = rows.map(|(p, c)| p.iter().zip(c).map(|(p, c)| p * c).sum()).collect();
    let model = Some(Modelled { logged: &logged, mean: &mean });
    at(batch.place(), evaluator.add(&Observed { p: &p, q, c, model, custom: &[] }))
}
