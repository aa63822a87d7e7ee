//! What a first policy knows, for reward models to begin with.

use std::sync::Arc;

use crate::error::Result;
use crate::features::SoftmaxFeatures;
use crate::logs::Logs;
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
    let mut best: Option<(SoftmaxFeatures, f64)> = None;
    for factor in SHARPER {
        let softmax = knows.sharpened(factor)?;
        let (mut n, mut sums, mut squares, mut product) = (0.0, [0.0; 2], 0.0, 0.0);
        for logs in seen {
            let p = softmax.apply(logs.contexts())?;
            for (i, (&a, &c)) in logs.action().iter().zip(logs.cost()).enumerate() {
                let p = f64::from(p.row(i).values()[a as usize]);
                n += 1.0;
                sums[0] += p;
                sums[1] -= c;
                squares += p * p;
                product -= p * c;
            }
        }
        let (covariance, variance) = (product - sums[0] * sums[1] / n, squares - sums[0] * sums[0] / n);
        let explained = if variance > 0.0 { covariance * covariance.abs() / variance } else { 0.0 };
        if best.as_ref().is_none_or(|(_, most)| explained > *most) {
            best = Some((softmax, explained));
        }
    }
    Ok(best.expect("several factors are tried").0)
}
