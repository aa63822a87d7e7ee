//! EVALUATE: what logs say of policies that did not collect them, in one pass, in rewards.
//!
//! [`evaluate`] and [`select`] are functions of one request each: the command line, the Python package and a service print
//! what comes back.

use serde::Serialize;
use surefoot::evaluation::{
    CostModel, Estimate, Evaluation, EvaluationSettings, Interval, ModelFit, Modelled, Observed, Selection, Standing,
    Weights,
};
use surefoot::{Evaluator, Protocol, RewardRange};

use crate::encoding::{Encoding, EncodingFit, EncodingSettings};
use crate::error::{Error, Result, at};
use crate::logs::{Actions, Check, LogBatch, LogReader, Records};
use crate::record_policy::{Cells, RecordPolicy};
use crate::scan::{Grouping, Scan};

/// A policy, and what it is called.
#[derive(Debug, Clone)]
pub struct NamedPolicy {
    /// Its name.
    pub name: String,
    /// The policy.
    pub policy: RecordPolicy,
}

/// What is asked of [`evaluate`].
#[derive(Debug, Clone)]
pub struct EvaluateRequest {
    /// The policies.
    pub policies: Vec<NamedPolicy>,
    /// The lowest and the highest reward that there can be.
    pub reward_range: [f64; 2],
    /// The reward model, for the estimators that need one.
    pub model: ModelRequest,
    /// The estimators; `None` for all that the model allows.
    pub estimators: Option<Vec<surefoot::evaluation::Estimator>>,
    /// The probability with which each interval may be wrong.
    pub delta: f64,
    /// The replicates of the bootstrap.
    pub replicates: usize,
    /// The largest weight that can occur, if it is known.
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

/// Which reward model is to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelRequest {
    /// None.
    None,
    /// A linear one, fitted to the logs themselves.
    Linear {
        /// Columns that it does not look at.
        ignore: Vec<String>,
    },
    /// The predictions are in the logs.
    Given(Cells),
}

impl ModelRequest {
    /// By name: `none`, `linear` (without the columns to ignore), `columns:PREFIX` or `list:COLUMN`.
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

/// What logs say of policies, in rewards.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Evaluated {
    /// The number of records.
    pub records: usize,
    /// How many were skipped, as the logger asks.
    pub skipped: usize,
    /// The lowest and the highest reward that there can be.
    pub reward_range: [f64; 2],
    /// The probability with which each interval holds.
    pub confidence: f64,
    /// One for each policy, in their order.
    pub policies: Vec<EvaluatedPolicy>,
    /// What one should not overlook.
    pub warnings: Vec<String>,
}

/// What logs say of one policy, in rewards.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct EvaluatedPolicy {
    /// Its name.
    pub name: String,
    /// The interval that holds at all times at once.
    pub anytime: Interval,
    /// The importance weights.
    pub weights: Weights,
    /// One for each estimator.
    pub estimates: Vec<NamedEstimate>,
    /// What one should not overlook of it.
    pub warnings: Vec<String>,
}

impl EvaluatedPolicy {
    /// What an evaluation says, in rewards.
    pub fn new(name: &str, evaluation: Evaluation, range: RewardRange) -> Self {
        let Evaluation { anytime, weights, estimates, records, .. } = evaluation.in_rewards(range);
        let named = |estimate: Estimate| NamedEstimate { name: estimate.estimator.to_string(), estimate };
        EvaluatedPolicy {
            name: name.into(),
            anytime,
            weights,
            estimates: estimates.into_iter().map(named).collect(),
            warnings: weights.warnings(records),
        }
    }
}

/// What one estimator says.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct NamedEstimate {
    /// What the estimator is called.
    pub name: String,
    /// What it says.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// Asks the logs about all policies at once. `on_batch` is told how many records have been looked at, in each pass.
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
        ModelRequest::Linear { ignore } => RewardModel::linear(reader, &actions, range, ignore, &mut on_batch)?,
        ModelRequest::Given(cells) => RewardModel::Given(cells.clone()),
    };
    let (evaluators, skipped) = observe(&model, &request.policies, reader, &actions, range, &settings, on_batch)?;
    let records = evaluators.first().map_or(0, Evaluator::records);
    let mut policies = Vec::new();
    for (NamedPolicy { name, policy }, evaluator) in request.policies.iter().zip(&evaluators) {
        let mut evaluated = EvaluatedPolicy::new(name, evaluator.finish()?, range);
        evaluated.warnings.extend(learned(policy));
        policies.push(evaluated);
    }
    let named = |policy: &EvaluatedPolicy| -> Vec<String> {
        policy.warnings.iter().map(|warning| format!("{}: {warning}", policy.name)).collect()
    };
    let warnings = policies.iter().flat_map(named).collect();
    let reward_range = request.reward_range;
    Ok(Evaluated { records, skipped, reward_range, confidence: 1.0 - request.delta, policies, warnings })
}

/// What is asked of [`select`].
#[derive(Debug, Clone)]
pub struct SelectRequest {
    /// The candidates, all fixed before the records.
    pub policies: Vec<NamedPolicy>,
    /// Their prior weights, in proportion; equal ones, if there are none.
    pub prior: Option<Vec<f64>>,
    /// The lowest and the highest reward that there can be.
    pub reward_range: [f64; 2],
    /// The probability with which anything that is proven may be wrong.
    pub delta: f64,
}

/// What logs prove of several policies at once, in rewards.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Selected {
    /// The number of records.
    pub records: usize,
    /// The probability with which all of it holds.
    pub confidence: f64,
    /// The name of the candidate of which most is proven.
    pub chosen: String,
    /// The candidates, in their order.
    pub candidates: Vec<SelectedCandidate>,
    /// What is proven of the best mixture.
    pub mixture: ProvenReward,
    /// What must be true of logs and candidates, since it cannot be seen in them.
    pub assumption: &'static str,
    /// What one should not overlook.
    pub warnings: Vec<String>,
}

/// What is proven of a candidate.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SelectedCandidate {
    /// Its name.
    pub name: String,
    /// Its weight in the mixture.
    pub weight: f64,
    /// What is proven of it.
    #[serde(flatten)]
    pub proven: ProvenReward,
}

/// What is proven of a policy's reward.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProvenReward {
    /// The estimate behind the bound.
    pub estimate: f64,
    /// What it is at least.
    pub at_least: f64,
    /// The lambda of the bound.
    pub lambda: f64,
}

impl ProvenReward {
    fn of(standing: &Standing, range: RewardRange) -> Self {
        let Standing { estimate, upper, lambda } = *standing;
        ProvenReward { estimate: range.reward(estimate), at_least: range.reward(upper), lambda }
    }
}

const ASSUMPTION: &str = "every candidate was fixed before the records, each record has its right propensity, none was \
                          dropped for its reward, and contexts are independent, from one distribution";

/// Asks the logs which of several policies to trust. `on_batch` is told how many records have been looked at.
pub fn select(reader: &LogReader, request: &SelectRequest, on_batch: impl FnMut(usize)) -> Result<Selected> {
    let [lo, hi] = request.reward_range;
    let range = RewardRange::new(lo, hi)?;
    let actions = actions_of(&request.policies, reader)?;
    // The bounds come from sums that every evaluator has; other estimators are not asked.
    let settings = EvaluationSettings {
        estimators: EvaluationSettings::default().estimators[..1].to_vec(),
        protocol: Protocol { delta: request.delta, ..Protocol::default() },
        replicates: 0,
        ..EvaluationSettings::default()
    };
    let (evaluators, _) = observe(&RewardModel::None, &request.policies, reader, &actions, range, &settings, on_batch)?;
    let selection = Selection::of(&evaluators.iter().collect::<Vec<_>>(), request.prior.as_deref())?;
    let names: Vec<&str> = request.policies.iter().map(|named| named.name.as_str()).collect();
    let mut selected = Selected::new(&names, &selection, range);
    for NamedPolicy { name, policy } in &request.policies {
        selected.warnings.extend(learned(policy).map(|warning| format!("{name}: {warning}")));
    }
    Ok(selected)
}

impl Selected {
    /// What a selection among policies of these names says, in rewards.
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
            chosen: names[selection.best].into(),
            candidates: candidates.map(candidate).collect(),
            mixture,
            assumption: ASSUMPTION,
            warnings: nothing.then(|| "these logs prove nothing of any candidate".into()).into_iter().collect(),
        }
    }
}

/// A warning about a policy that was learned from logs: of these, if they are the same, it knows too much.
fn learned(policy: &RecordPolicy) -> Option<String> {
    let text = "was learned from logs: if these are among them, what is said of it here is too good to be true";
    policy.was_learned().then(|| text.into())
}

/// What predicts the reward of every action; some estimators need it.
#[derive(Debug)]
enum RewardModel {
    /// Nothing does.
    None,
    /// A linear one, fitted to the logs themselves: each record is predicted by what was fitted to others.
    Linear {
        /// How records become its features.
        encoding: Encoding,
        /// The model.
        model: CostModel,
    },
    /// The predictions are in the logs.
    Given(Cells),
}

/// Folds and penalty of the linear model: each record is predicted by two thirds of the others, and a feature that is
/// standardised needs a few records before it counts.
const FOLDS: usize = 3;
const PENALTY: f64 = 1.0;

impl RewardModel {
    /// Fits a linear one, without the columns to ignore: a pass over the logs, and another one before it to see what columns
    /// there are. `on_batch` is told how many records have been looked at, in each.
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

/// The actions that the policies know, or else those that are in the logs. They must be the same for all that say.
fn actions_of(policies: &[NamedPolicy], reader: &LogReader) -> Result<Actions> {
    let Some(first) = reader.batches().next().transpose()? else {
        return Ok(Scan::of(reader, &Grouping::File)?.actions);
    };
    let mut known: Option<(&str, Actions)> = None;
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
        None => Ok(Scan::of(reader, &Grouping::File)?.actions),
    }
}

fn described(actions: &Actions) -> String {
    match actions {
        Actions::Count(k) => format!("{k} numbers"),
        Actions::Names(names) => format!("{} names from {:?}", names.len(), names.first()),
    }
}

/// One pass over the logs: a evaluator for each policy, and how many records were skipped. `on_batch` is told how many records
/// have been looked at.
fn observe(
    model: &RewardModel,
    policies: &[NamedPolicy],
    reader: &LogReader,
    actions: &Actions,
    range: RewardRange,
    settings: &EvaluationSettings,
    mut on_batch: impl FnMut(usize),
) -> Result<(Vec<Evaluator>, usize)> {
    let place = reader.place();
    let mut evaluators: Vec<Evaluator> =
        policies.iter().map(|_| at(&place, Evaluator::new(settings))).collect::<Result<_>>()?;
    let mut check = Check::new(actions.clone(), range);
    let mut batches = reader.batches();
    for batch in batches.by_ref() {
        let batch = batch?;
        let records = check.records(&batch)?;
        let predicted = model.predict(&batch, actions, range)?;
        for (NamedPolicy { policy, .. }, evaluator) in policies.iter().zip(&mut evaluators) {
            add(evaluator, policy, &batch, &records, actions, predicted.as_deref())?;
        }
        on_batch(batch.len());
    }
    Ok((evaluators, batches.skipped()))
}

/// Adds the records of a batch to what is known of a policy.
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
