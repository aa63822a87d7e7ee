//! A reward model over joint features of context and candidate.

use std::sync::Arc;

use super::reward::Gram;
use super::sparse::{Explains, Sparse};
use super::{Regression, Statistics};
use crate::contexts::Contexts;
use crate::error::{Error, Result, check_setting};
use crate::features::{FeatureMap, Joint};
use crate::logs::Logs;
use crate::math::linear::{eigenvectors, rotate};
use crate::policy::{Basis, LinearGaussian, Posterior, Scale};

/// With at most this many weights they are fitted exactly, by their second moments.
const MOST_EXACT: usize = 400;

/// The number of records whose features are held at once.
const CHUNK: usize = 8192;

/// The reward of a candidate, `rhat(x, b) = offset + <x, c> + <phi(x, b), m>`, with the uncertainty of the weights `m`.
///
/// The part `<x, c>` is the same for all candidates of a record. It explains rewards, but no choice depends on it. Few
/// weights are fitted exactly, by Bayesian linear regression with prior and noise by evidence. Many weights are fitted by
/// ridge regression with conjugate gradients, whose passes cost what is not 0; their posterior is taken as diagonal.
#[derive(Debug, Clone)]
pub struct JointModel {
    features: FeatureMap,
    joint: Joint,
    weights: Vec<f64>,
    context: Vec<f64>,
    offset: f64,
    spread: Spread,
    passes: usize,
}

/// The deviations of the weights.
#[derive(Debug, Clone)]
enum Spread {
    /// Along the axes of a basis.
    Axes(Arc<Basis>, Vec<f64>),
    /// Of each weight.
    Each(Vec<f64>),
}

impl JointModel {
    /// Fits the model to the records of some rounds, whose candidates have features.
    pub fn fit(features: &FeatureMap, joint: &Joint, rounds: &[Arc<Logs>]) -> Result<Self> {
        for logs in rounds {
            check(features, joint, logs)?;
        }
        let exact = joint.output() <= MOST_EXACT && !joint.is_hashed();
        if exact { Self::exact(features, joint, rounds) } else { Self::sparse(features, joint, rounds) }
    }

    fn exact(features: &FeatureMap, joint: &Joint, rounds: &[Arc<Logs>]) -> Result<Self> {
        let p = joint.output();
        // Too many context features are left out: they only explain rewards.
        let beside = Some(joint.contexts()).filter(|&beside| p + beside <= MOST_EXACT).unwrap_or(0);
        let mut statistics = Statistics::joint(p + beside)?;
        for logs in rounds {
            let reward: Vec<f64> = logs.cost().iter().map(|c| -c).collect();
            for start in (0..logs.len()).step_by(CHUNK) {
                let part = logs.slice(start..(start + CHUNK).min(logs.len()));
                let rows = chosen(features, joint, &part, beside)?;
                statistics.add(&rows, &vec![0; part.len()], &reward[start..start + part.len()])?;
            }
        }
        let mut kinds = joint.kinds();
        if beside > 0 {
            kinds.push(p..p + beside);
        }
        let model = Regression::default().fit(&statistics, &kinds)?;
        let unfit = || Error::setting("the second moments of the features", "finite and diagonalisable", "not");
        let Gram::Full(moments) = &model.gram else { return Err(unfit()) };
        let precision = moments.marginal(model.precision(), p).ok_or_else(unfit)?;
        let (values, vectors) = eigenvectors(&precision, p).ok_or_else(unfit)?;
        // No eigenvalue is below the smallest precision of the prior, except by rounding.
        let least = model.precision()[..p].iter().copied().fold(f64::INFINITY, f64::min);
        let deviations = values.into_iter().map(|value| (model.noise() / value.max(least)).sqrt()).collect();
        Ok(JointModel {
            features: features.clone(),
            joint: joint.clone(),
            weights: model.mean()[..p].to_vec(),
            context: model.mean()[p..].to_vec(),
            offset: model.offset(),
            spread: Spread::Axes(Arc::new(Basis::new(vectors, p)?), deviations),
            passes: 1,
        })
    }

    fn sparse(features: &FeatureMap, joint: &Joint, rounds: &[Arc<Logs>]) -> Result<Self> {
        let found = Sparse::fit(features, Explains::Joint(joint), rounds)?;
        let Sparse { weights, offset, squares, precision, noise, passes } = found;
        let deviations = squares.iter().map(|square| (noise / (square + precision)).sqrt()).collect();
        Ok(JointModel {
            features: features.clone(),
            joint: joint.clone(),
            weights,
            context: Vec::new(),
            offset,
            spread: Spread::Each(deviations),
            passes,
        })
    }

    /// The weights of the joint features, `m`.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The number of passes over the records that the fit took.
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// The predicted rewards of all candidates, in rows of as many as a record of the logs may have, with 0 where a record
    /// has fewer. They are not limited to `[0, 1]`.
    pub fn predict(&self, logs: &Logs) -> Result<Vec<f64>> {
        check(&self.features, &self.joint, logs)?;
        let x = self.features.apply(logs.contexts())?;
        let eligible = logs.eligible().expect("it has been checked");
        let (mut room, mut out) = (Vec::new(), vec![0.0; logs.len() * logs.actions()]);
        for (i, out) in out.chunks_exact_mut(logs.actions()).enumerate() {
            let mut shared = self.offset;
            if !self.context.is_empty() {
                x.row(i).for_each(|f, v| shared += self.context[f] * v);
            }
            let crossing = self.joint.at(x.row(i), &mut room);
            for (a, out) in (0..eligible.get(i).len()).zip(out) {
                let candidate = eligible.candidate(i, a).expect("it has been checked");
                *out = shared;
                crossing.visit(candidate, |f, v| *out += self.weights[f] * v);
            }
        }
        Ok(out)
    }

    /// Thompson sampling: the policy `m_b + v_b e_b` with the predicted differences `m_b = <phi_b, m>` and `v` times
    /// their deviations, for at most `actions` candidates per record. A candidate with features that were never seen has a
    /// large deviation and is explored.
    pub fn policy(&self, actions: usize, v: f64) -> Result<LinearGaussian> {
        check_setting("the sharpness v", v, v > 0.0, "above 0")?;
        let scaled = |deviations: &[f64]| Scale::PerFeature(deviations.iter().map(|s| v * s).collect());
        let posterior = match &self.spread {
            Spread::Each(deviations) => Posterior::over_candidates(self.weights.clone(), scaled(deviations))?,
            Spread::Axes(basis, deviations) => {
                let p = self.weights.len();
                let mean = rotate(basis.axes(), true, &self.weights, p, 1);
                Posterior::over_candidates(mean, scaled(deviations))?.with_basis(Arc::clone(basis))?
            }
        };
        LinearGaussian::over_candidates(self.features.clone(), self.joint.clone(), actions, posterior)
    }
}

fn check(features: &FeatureMap, joint: &Joint, logs: &Logs) -> Result<()> {
    let candidates = logs.eligible().and_then(|eligible| eligible.features());
    if candidates != Some(joint.candidates()) {
        let expected = format!("{} features, as the policy", joint.candidates());
        return Err(Error::size("the candidates of the logs", expected, candidates.unwrap_or(0)));
    }
    if logs.contexts().features() != features.input() {
        let expected = format!("{} features, as the feature map", features.input());
        return Err(Error::size("the contexts of the logs", expected, logs.contexts().features()));
    }
    if !logs.is_complete() {
        return Err(Error::setting("the logs", "with the contexts of all records", "without some of them"));
    }
    Ok(())
}

/// The joint features of the chosen candidates, which are not hashed, and beside them the first `beside` features of the contexts.
fn chosen(features: &FeatureMap, joint: &Joint, logs: &Logs, beside: usize) -> Result<Contexts> {
    let p = joint.output();
    let x = features.apply(logs.contexts())?;
    let eligible = logs.eligible().expect("it has been checked");
    let (mut room, mut entries) = (Vec::new(), Vec::new());
    let (mut offsets, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for (i, &a) in logs.action().iter().enumerate() {
        entries.clear();
        let candidate = eligible.candidate(i, a as usize).expect("it has been checked");
        joint.at(x.row(i), &mut room).visit(candidate, |f, v| entries.push((f as u32, v as f32)));
        entries.sort_unstable_by_key(|entry| entry.0);
        if beside > 0 {
            x.row(i).for_each(|f, v| entries.push(((p + f) as u32, v as f32)));
        }
        indices.extend(entries.iter().map(|entry| entry.0));
        values.extend(entries.iter().map(|entry| entry.1));
        offsets.push(indices.len());
    }
    Contexts::sparse(offsets, indices, values, p + beside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::worlds::{Articles, ArticlesSettings, Environment, Turn};

    #[test]
    fn conjugate_gradients_come_near_the_exact_fit() {
        let world = Articles::new(ArticlesSettings::default()).unwrap();
        let first = world.first_policy().unwrap();
        let logs = Arc::new(world.collect(&first, Turn { round: 0, start: 0, n: 4000 }).unwrap());
        let (map, joint, truth) = (first.features(), first.joint().unwrap(), world.truth(0).unwrap());
        let rounds = [logs];
        let exact = JointModel::exact(map, joint, &rounds).unwrap();
        let sparse = JointModel::sparse(map, joint, &rounds).unwrap();
        let risk = |model: &JointModel| truth.risk(&model.policy(first.actions(), 0.1).unwrap()).unwrap();
        let (exact, sparse, best) = (risk(&exact), risk(&sparse), truth.optimal_risk());
        let start = truth.risk(&first).unwrap();
        assert!((start - sparse) / (start - best) > 0.9, "{sparse}, exactly {exact}, at best {best}");
        assert!(exact < sparse + 0.005, "{exact} {sparse}");
    }

    #[test]
    fn predictions_are_near_the_expected_rewards_and_zero_beyond_the_candidates() {
        let world = Articles::new(ArticlesSettings { candidates: 3, ..ArticlesSettings::default() }).unwrap();
        let first = world.first_policy().unwrap().with_most_candidates(4).unwrap();
        let logs = world.collect(&first, Turn { round: 0, start: 0, n: 4000 }).unwrap();
        let model =
            JointModel::fit(first.features(), first.joint().unwrap(), &[Arc::new(logs.slice(0..3000))]).unwrap();
        let new = logs.slice(3000..4000);
        let predicted = model.predict(&new).unwrap();
        assert!(predicted.chunks_exact(4).all(|row| row[3] == 0.0 && row[0] != 0.0));
        let error = |offset: f64| -> f64 {
            let rows = predicted.chunks_exact(4).zip(new.action().iter().zip(new.cost()));
            rows.map(|(row, (&a, c))| if offset.is_nan() { row[a as usize] + c } else { offset + c })
                .map(|error| error * error)
                .sum()
        };
        assert!(error(f64::NAN) < 0.85 * error(0.5), "{} {}", error(f64::NAN), error(0.5));
        assert_eq!(first.actions(), 4);
    }
}
