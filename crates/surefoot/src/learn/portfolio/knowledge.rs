//! What a first policy knows, for reward models to begin with.

use std::sync::Arc;

use super::tasks::Calibration;
use crate::error::Result;
use crate::features::SoftmaxFeatures;
use crate::logs::{Logs, Task};
use crate::policy::{LinearGaussian, Policy};

/// What a first policy knows: its means, feature-major, without the part that all actions share. `None` if it prefers no
/// action anywhere.
pub(super) fn direction(first: &LinearGaussian) -> Option<Vec<f64>> {
    let k = first.actions();
    let mut mean = first.posterior().mean_in(None);
    for row in mean.chunks_exact_mut(k) {
        let shared = row.iter().sum::<f64>() / k as f64;
        row.iter_mut().for_each(|mean| *mean -= shared);
    }
    mean.iter().any(|&mean| mean != 0.0).then_some(mean)
}

/// The same as a softmax, if the features of the policy are the contexts themselves.
pub(super) fn softmax(first: &LinearGaussian) -> Result<Option<Arc<SoftmaxFeatures>>> {
    let (map, k) = (first.features(), first.actions());
    let Some(mut weights) = direction(first).filter(|_| map.is_linear()) else { return Ok(None) };
    let constants = if map.intercept() { weights.split_off(map.input() * k) } else { vec![0.0; k] };
    Ok(Some(Arc::new(SoftmaxFeatures::new(map.input(), weights, constants)?)))
}

/// The factors of a first policy's scores that are tried: it may have been flattened in order to explore.
const SHARPER: [f64; 10] = [1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0];

/// The softmax of the scores times the factor at which the probabilities of the chosen actions explain most of the rewards
/// that are seen.
pub(super) fn calibrated(knows: &SoftmaxFeatures, seen: &[Arc<Logs>]) -> Result<SoftmaxFeatures> {
    let all = SHARPER.map(|factor| knows.sharpened(factor)).into_iter().collect::<Result<Vec<_>>>()?;
    let task = Calibration(&all);
    let mut sums = vec![[0.0; 5]; all.len()];
    for logs in seen {
        if let Some(next) = logs.over(&task)? {
            task.merge(&mut sums, next);
        }
    }
    let mut best: Option<(SoftmaxFeatures, f64)> = None;
    for (softmax, [n, p, r, squares, product]) in all.into_iter().zip(sums) {
        let (covariance, variance) = (product - p * r / n, squares - p * p / n);
        let explained = if variance > 0.0 { covariance * covariance.abs() / variance } else { 0.0 };
        if best.as_ref().is_none_or(|(_, most)| explained > *most) {
            best = Some((softmax, explained));
        }
    }
    Ok(best.expect("several factors are tried").0)
}
