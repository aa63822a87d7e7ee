//! A reward model of the rounds so far.

use std::sync::Arc;

use crate::error::Result;
use crate::features::FeatureMap;
use crate::logs::Logs;
use crate::model::{Regression, RewardModel, Statistics};

/// A reward model in the making: its features, and the statistics of whole rounds. Clones share the data.
///
/// A round always adds to the statistics as a whole, so they have the same bits however often they are made again.
#[derive(Debug, Clone)]
pub(super) struct Model {
    map: FeatureMap,
    actions: usize,
    /// The statistics of the oldest rounds, and their number.
    known: Option<(usize, Arc<Statistics>)>,
}

impl Model {
    pub(super) fn new(map: FeatureMap, actions: usize) -> Self {
        Model { map, actions, known: None }
    }

    pub(super) fn map(&self) -> &FeatureMap {
        &self.map
    }

    pub(super) fn actions(&self) -> usize {
        self.actions
    }

    /// Fits the model to the records that are seen: the first of the rounds as a whole, and then parts.
    pub(super) fn fit(&mut self, rounds: &[Arc<Logs>], seen: &[Arc<Logs>]) -> Result<RewardModel> {
        let whole = seen.iter().zip(rounds).take_while(|(seen, round)| Arc::ptr_eq(seen, round)).count();
        let (known, statistics) = match self.known.take() {
            Some((known, statistics)) if known <= whole => (known, Arc::unwrap_or_clone(statistics)),
            _ => (0, Statistics::new(self.actions, self.map.output())?),
        };
        let mut statistics = statistics;
        for logs in &seen[known..whole] {
            statistics.add_logs(&self.map, logs)?;
        }
        let statistics = Arc::new(statistics);
        self.known = Some((whole, Arc::clone(&statistics)));
        let kinds = self.map.kinds();
        match &seen[whole..] {
            [] => Regression::default().fit(&statistics, &kinds),
            parts => {
                let mut with_parts = Statistics::clone(&statistics);
                parts.iter().try_for_each(|logs| with_parts.add_logs(&self.map, logs))?;
                Regression::default().fit(&with_parts, &kinds)
            }
        }
    }
}
