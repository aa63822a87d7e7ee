//! A reward model with many sparse weights, by adaptive gradient steps (AdaGrad; Duchi, Hazan and Singer 2011).
//!
//! A step costs what is not 0 in its record. Weights that no record has touched stay 0.

use std::sync::Arc;

use crate::error::Result;
use crate::features::{FeatureMap, Joint};
use crate::logs::Logs;

/// The step sizes that are tried: the one with the smallest errors in the first pass, each record predicted before it is
/// learned from, goes on.
const STEPS: [f32; 3] = [0.03, 0.1, 0.3];

/// The largest number of passes.
const PASSES: usize = 6;

/// The share of records, the newest ones, that decide when to stop.
const JUDGES: f64 = 0.1;

/// The prior precision of a weight, in units of the mean square of its feature over the records that have it: as if it
/// had been seen this many times, predicting nothing.
const PRIOR: f64 = 4.0;

/// The number of records whose contexts are mapped at once.
const CHUNK: usize = 8192;

/// What is fitted.
pub(super) struct Adaptive {
    pub(super) weights: Vec<f64>,
    pub(super) offset: f64,
    /// The deviation of each weight, from a diagonal posterior.
    pub(super) deviations: Vec<f64>,
}

/// A weight with what its steps need.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    value: f32,
    /// The sum of squared gradients.
    squares: f32,
    /// The largest feature so far: steps are divided by it, so that the unit of a feature does not matter.
    largest: f32,
}

/// Weights in the making.
#[derive(Debug, Clone)]
struct Steps {
    weights: Vec<Weight>,
    step: f32,
    offset: f32,
    /// The sum of squared errors of predictions for records that were new.
    errors: f64,
}

impl Steps {
    fn predict(&self, entries: &[(u32, f32)]) -> f32 {
        entries.iter().map(|&(f, v)| self.weights[f as usize].value * v).sum::<f32>() + self.offset
    }

    fn learn(&mut self, entries: &[(u32, f32)], reward: f32) {
        let error = self.predict(entries) - reward;
        self.errors += f64::from(error.clamp(-1.0, 1.0)).powi(2);
        if error == 0.0 {
            return;
        }
        // The step of a whole record is divided among its features.
        let share = self.step / (entries.len() as f32).sqrt();
        for &(f, v) in entries {
            let weight = &mut self.weights[f as usize];
            weight.largest = weight.largest.max(v.abs());
            let gradient = error * v / weight.largest;
            weight.squares += gradient * gradient;
            if weight.squares > 0.0 {
                weight.value -= share * gradient / (weight.squares.sqrt() * weight.largest);
            }
        }
    }
}

impl Adaptive {
    pub(super) fn fit(features: &FeatureMap, joint: &Joint, rounds: &[Arc<Logs>]) -> Result<Self> {
        let records: usize = rounds.iter().map(|logs| logs.len()).sum();
        let judges = (JUDGES * records as f64) as usize;
        let rewards: f64 = rounds.iter().flat_map(|logs| logs.cost()).map(|c| -c).sum();
        let offset = rewards / records.max(1) as f64;
        let start =
            |step| Steps { weights: vec![Weight::default(); joint.output()], step, offset: offset as f32, errors: 0.0 };
        let mut tried: Vec<Steps> = STEPS.iter().map(|&step| start(step)).collect();
        each(features, joint, rounds, 0..records - judges, |entries, reward| {
            tried.iter_mut().for_each(|steps| steps.learn(entries, reward));
        })?;
        let best = tried.into_iter().min_by(|a, b| a.errors.total_cmp(&b.errors));
        let mut steps = best.expect("some steps are tried");
        let judge = |steps: &Steps| -> Result<f64> {
            let mut errors = 0.0;
            each(features, joint, rounds, records - judges..records, |entries, reward| {
                errors += f64::from(steps.predict(entries) - reward).powi(2);
            })?;
            Ok(errors)
        };
        let mut errors = judge(&steps)?;
        for _ in 1..PASSES {
            let mut next = steps.clone();
            each(features, joint, rounds, 0..records - judges, |entries, reward| next.learn(entries, reward))?;
            let found = judge(&next)?;
            if found >= errors {
                break;
            }
            (steps, errors) = (next, found);
        }
        // What the judges say is learned too, and the second moments are summed up on the way.
        each(features, joint, rounds, records - judges..records, |entries, reward| steps.learn(entries, reward))?;
        let mut moments = vec![(0.0f32, 0.0f32); joint.output()];
        let mut squared = 0.0;
        each(features, joint, rounds, 0..records, |entries, reward| {
            squared += f64::from(steps.predict(entries) - reward).powi(2);
            for &(f, v) in entries {
                let (count, sum) = &mut moments[f as usize];
                (*count, *sum) = (*count + 1.0, *sum + v * v);
            }
        })?;
        let (count, sum) = moments.iter().fold((0.0, 0.0), |(n, sum), m| (n + f64::from(m.0), sum + f64::from(m.1)));
        let usual = if count > 0.0 { sum / count } else { 1.0 };
        // As for exact regressions, the noise is bounded from below.
        let noise = (squared / records.max(1) as f64).max(0.1 * offset * (1.0 - offset)).max(1e-6);
        let deviation = |&(count, sum): &(f32, f32)| {
            let mean = if count > 0.0 { f64::from(sum / count) } else { usual };
            (noise / (f64::from(sum) + PRIOR * mean.max(1e-12))).sqrt()
        };
        let deviations = moments.iter().map(deviation).collect();
        Ok(Adaptive { weights: steps.weights.iter().map(|w| f64::from(w.value)).collect(), offset, deviations })
    }
}

/// Calls `visit(entries, reward)` for the records of a range of all rounds, in order: the joint features of the chosen
/// candidate, and its reward.
fn each(
    features: &FeatureMap,
    joint: &Joint,
    rounds: &[Arc<Logs>],
    range: std::ops::Range<usize>,
    mut visit: impl FnMut(&[(u32, f32)], f32),
) -> Result<()> {
    let (mut room, mut entries) = (Vec::new(), Vec::new());
    let mut before = 0;
    for logs in rounds {
        let from = range.start.clamp(before, before + logs.len()) - before;
        let to = range.end.clamp(before, before + logs.len()) - before;
        before += logs.len();
        for start in (from..to).step_by(CHUNK) {
            let part = logs.slice(start..(start + CHUNK).min(to));
            let x = features.apply(part.contexts())?;
            let eligible = part.eligible().expect("candidates have features");
            for (i, (&a, &c)) in part.action().iter().zip(part.cost()).enumerate() {
                entries.clear();
                let candidate = eligible.candidate(i, a as usize).expect("candidates have features");
                joint.at(x.row(i), &mut room).visit(candidate, |f, v| entries.push((f as u32, v as f32)));
                visit(&entries, -c as f32);
            }
        }
    }
    Ok(())
}
