//! The reward model, which some estimators need.

use surefoot::RewardRange;
use surefoot::evaluation::{CostModel, ModelFit};

use crate::encoding::{Encoding, EncodingFit, EncodingSettings};
use crate::error::{Error, Result, at};
use crate::logs::{Actions, Check, LogBatch, LogReader};
use crate::record_policy::Cells;

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

/// Predicts the reward of every action. Some estimators need such a model.
#[derive(Debug)]
pub(crate) enum RewardModel {
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
    pub(super) fn linear(
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
            if batch.has_candidates() {
                let allowed = "none, list:COLUMN or columns of fixed actions, as the records have candidates";
                return Err(Error::setting("the reward model", allowed, "linear, which has one regression per action"));
            }
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
    pub(super) fn predict(&self, batch: &LogBatch, actions: &Actions, range: RewardRange) -> Result<Option<Vec<f64>>> {
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
