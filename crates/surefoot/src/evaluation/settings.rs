//! The settings of an evaluation, all fixed before the data.

use serde::{Deserialize, Serialize};

use super::Estimator;
use crate::certificate::Protocol;
use crate::error::{Error, Result, check_setting};
use crate::estimator::Regularizer;

/// The estimators of an evaluation and the protocol of its intervals, fixed before the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluationSettings {
    /// The estimators.
    pub estimators: Vec<Estimator>,
    /// The confidence of each interval, and the lambdas of the anytime interval.
    pub protocol: Protocol,
    /// The number of bootstrap replicates; 0 for no bootstrap.
    pub replicates: usize,
    /// The seed of the bootstrap weights. Two policies with the same records and seed are resampled in the same way.
    pub seed: u64,
    /// The largest possible weight, if it is known: 1 over the smallest propensity that the logging policy allows. A
    /// record with a larger weight is an error.
    pub largest_weight: Option<f64>,
}

impl Default for EvaluationSettings {
    /// The estimators that need no cost model; confidence 95 %, 1,000 replicates.
    ///
    /// Their parameters are constants, chosen before any data: weights clipped at 10, `beta` 1/2, `gamma` 0.01, a
    /// harmonic mean with a tenth of its weight at 1, shrinkage by 100 (which halves a weight of 10), `lambda` 0.1.
    fn default() -> Self {
        EvaluationSettings {
            estimators: vec![
                Estimator::Weighted(Regularizer::Ips),
                Estimator::SelfNormalised,
                Estimator::Weighted(Regularizer::ClippedWeight { max: 10.0 }),
                Estimator::Weighted(Regularizer::ExponentialSmoothing { beta: 0.5 }),
                Estimator::Weighted(Regularizer::ImplicitExploration { gamma: 0.01 }),
                Estimator::Weighted(Regularizer::PowerMean { lambda: 0.1, s: -1.0 }),
                Estimator::Weighted(Regularizer::Shrinkage { lambda: 100.0 }),
                Estimator::Weighted(Regularizer::Ls { lambda: 0.1 }),
            ],
            protocol: Protocol::default(),
            replicates: 1000,
            seed: 0,
            largest_weight: None,
        }
    }
}

impl EvaluationSettings {
    /// The [default](Self::default) plus the estimators that need a cost model; the switch is at a weight of 10.
    pub fn with_model() -> Self {
        let mut settings = Self::default();
        settings.estimators.extend([
            Estimator::DirectMethod,
            Estimator::DoublyRobust,
            Estimator::SelfNormalisedDoublyRobust,
            Estimator::Switch { tau: 10.0 },
        ]);
        settings
    }

    /// Fails and names the allowed range if a setting is outside it.
    pub fn check(&self) -> Result<()> {
        if self.estimators.is_empty() {
            return Err(Error::size("the list of estimators", "at least one entry", 0));
        }
        self.estimators.iter().try_for_each(Estimator::check)?;
        let custom = self
            .estimators
            .iter()
            .filter_map(|e| if let Estimator::Custom { column } = e { Some(column) } else { None });
        if let Some((place, column)) = custom.enumerate().find(|(place, column)| place != *column) {
            return Err(Error::setting(
                "the column of a custom estimator",
                format!("{place}, its place among them"),
                column,
            ));
        }
        self.largest_weight.map_or(Ok(()), |w| check_setting("the largest weight", w, w > 0.0, "in (0, inf)"))?;
        self.protocol.check()
    }
}
