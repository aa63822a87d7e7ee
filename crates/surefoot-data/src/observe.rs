//! OBSERVED: one pass over logs, for policies that did not collect them.

use surefoot::evaluation::{CostModel, EvaluationSettings, ModelFit, Modelled, Observed};
use surefoot::{Evaluator, RewardRange};

use crate::encoding::{Encoding, EncodingFit, EncodingSettings};
use crate::error::{Error, Result, at};
use crate::logs::{Actions, Check, LogBatch, LogReader, Records};
use crate::record_policy::{Cells, RecordPolicy};
use crate::scan::{Grouping, Scan};

/// What predicts the reward of every action; some estimators need it.
#[derive(Debug)]
pub enum RewardModel {
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
    pub fn linear(
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
pub fn actions_of<'a>(
    policies: impl IntoIterator<Item = (&'a str, &'a RecordPolicy)>,
    reader: &LogReader,
) -> Result<Actions> {
    let Some(first) = reader.batches().next().transpose()? else {
        return Ok(Scan::of(reader, &Grouping::File)?.actions);
    };
    let mut known: Option<(&str, Actions)> = None;
    for (name, policy) in policies {
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
pub fn observe(
    model: &RewardModel,
    policies: &[&RecordPolicy],
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
        for (policy, evaluator) in policies.iter().zip(&mut evaluators) {
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
