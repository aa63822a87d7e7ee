//! Features that members learn from earlier records: landmarks of a kernel, and trees.

use std::sync::Arc;

use super::knowledge::calibrated;
use crate::contexts::Contexts;
use crate::error::Result;
use crate::features::{Boosting, FeatureMap, SoftmaxFeatures};
use crate::learn::model::Model;
use crate::logs::Logs;
use crate::model::Link;

/// The largest number of kernel features.
const MOST_FEATURES: f64 = 500.0;

/// Solving the regressions of all actions takes the cube of the number of features per action: at most this.
const MOST_WORK: f64 = 6e9;

/// Trees are grown from at most this many records. They are held in memory, and more hardly move a threshold.
const MOST_GROWN: usize = 1 << 20;

/// The bandwidth of the kernel, as a share of the median distance between contexts.
const BANDWIDTH: f64 = 0.5;

/// The contexts are beside kernel features if they are at most this part of all features.
const FEW_CONTEXTS: usize = 4;

/// Features that are learned from the records seen. They are learned again when the number of records has doubled.
#[derive(Debug, Clone, Copy)]
pub(super) enum Learned {
    /// With the contexts beside kernel features, or without.
    Kernel {
        contexts: bool,
    },
    Trees,
}

impl Learned {
    /// With this many records, more do not change the features any more, or not for the better.
    pub(super) fn enough(self) -> usize {
        match self {
            Learned::Kernel { .. } => FeatureMap::MOST_LANDMARKS,
            Learned::Trees => usize::MAX,
        }
    }

    /// A new model with features of the records that are seen.
    pub(super) fn model(self, seen: &[Arc<Logs>], actions: usize, knows: Option<&SoftmaxFeatures>) -> Result<Model> {
        let map = match self {
            Learned::Kernel { contexts } => kernel(seen, actions, contexts)?,
            Learned::Trees => trees(seen, actions)?,
        };
        let Some(knows) = knows else { return Ok(Model::new(map, actions, Link::Identity, None)) };
        let map = map.with_softmax(Arc::new(calibrated(knows, seen)?))?;
        // After the contexts, each action has one of the probabilities.
        let first = if map.contexts() { map.input() } else { 0 };
        let mut direction = vec![0.0; map.output() * actions];
        (0..actions).for_each(|a| direction[(first + a) * actions + a] = 1.0);
        Ok(Model::new(map, actions, Link::Identity, Some(Arc::new(direction))))
    }
}

/// The number of features of a reward model for this many actions.
fn most_features(actions: usize) -> usize {
    (MOST_FEATURES.min((MOST_WORK / actions as f64).cbrt()) as usize).max(1)
}

/// Kernel features whose landmarks are some of the contexts that are seen.
fn kernel(seen: &[Arc<Logs>], actions: usize, contexts: bool) -> Result<FeatureMap> {
    let records: usize = seen.iter().map(|logs| logs.len()).sum();
    // The same share of every round.
    let step = records.div_ceil(FeatureMap::MOST_LANDMARKS).max(1);
    let known = Contexts::stacked(&seen.iter().map(|logs| logs.rows(step)).collect::<Result<Vec<_>>>()?)?;
    let most = most_features(actions);
    let contexts = contexts && known.features() <= most / FEW_CONTEXTS;
    let count = if contexts { most - known.features() } else { most };
    let map = FeatureMap::kernel_at_most(&known, count, BANDWIDTH * FeatureMap::rule_of_thumb(&known))?;
    Ok(if contexts { map.with_contexts() } else { map })
}

/// The leaves of trees that are grown from the records that are seen, or from the same share of every round.
fn trees(seen: &[Arc<Logs>], actions: usize) -> Result<FeatureMap> {
    let records: usize = seen.iter().map(|logs| logs.len()).sum();
    let step = records.div_ceil(MOST_GROWN).max(1);
    let contexts = Contexts::stacked(&seen.iter().map(|logs| logs.rows(step)).collect::<Result<Vec<_>>>()?)?;
    let action: Vec<u32> = seen.iter().flat_map(|logs| logs.action().iter().copied().step_by(step)).collect();
    let reward: Vec<f64> = seen.iter().flat_map(|logs| logs.cost().iter().step_by(step).map(|cost| -cost)).collect();
    let boosting = Boosting::default();
    let trees = (most_features(actions) / boosting.leaves).clamp(1, boosting.trees);
    FeatureMap::trees(&Boosting { trees, ..boosting }, actions, &contexts, &action, &reward)
}
