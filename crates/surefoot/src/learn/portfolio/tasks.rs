//! The work of a portfolio on records: predictions, estimates of policies, and the calibration of what a first policy knows.

use crate::error::{Error, Result};
use crate::features::{FeatureMap, SoftmaxFeatures};
use crate::logs::{Logs, Task, numbers};
use crate::model::{JointModel, RewardModel};
use crate::policy::{Policy, distribution_of, write_policy};
use crate::wire::{Reader, Writer};

/// A reward model that has been fitted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Predictor<'a> {
    /// One of features.
    Features(&'a FeatureMap, &'a RewardModel),
    /// One of joint features.
    Joint(&'a JointModel),
}

impl Predictor<'_> {
    /// The rewards of all actions, within `[0, 1]`.
    fn predict(self, logs: &Logs) -> Result<Vec<f64>> {
        let mut predicted = match self {
            Predictor::Features(map, model) => model.predict(&map.apply(logs.contexts())?)?,
            Predictor::Joint(model) => model.predict(logs)?,
        };
        predicted.iter_mut().for_each(|reward| *reward = reward.clamp(0.0, 1.0));
        Ok(predicted)
    }

    fn write(self, out: &mut Writer) -> Result<()> {
        match self {
            Predictor::Features(map, model) => {
                map.write(out);
                model.write(out);
                Ok(())
            }
            Predictor::Joint(_) => Err(Error::setting("a model for another process", "of features", "of candidates")),
        }
    }
}

/// Minus the squared error of the prediction for each record.
#[derive(Debug)]
pub(crate) struct Errors<'a>(pub(crate) Predictor<'a>);

impl Task for Errors<'_> {
    const NAME: &'static str = "errors";

    type Output = Vec<f64>;

    fn write(&self, out: &mut Writer) -> Result<()> {
        self.0.write(out)
    }

    fn chunk(&self, logs: &Logs) -> Result<Vec<f64>> {
        let predicted = self.0.predict(logs)?;
        let records = predicted.chunks_exact(logs.actions()).zip(logs.action().iter().zip(logs.cost()));
        let error = |(row, (&a, &c)): (&[f64], (&u32, &f64))| row[a as usize] + c;
        Ok(records.map(|record| -error(record).powi(2)).collect())
    }

    fn merge(&self, sum: &mut Vec<f64>, next: Vec<f64>) {
        sum.extend(next);
    }

    fn write_output(&self, output: &Vec<f64>, out: &mut Writer) {
        numbers::write(output, out);
    }

    fn read_output(&self, from: &mut Reader<'_>) -> Result<Vec<f64>> {
        numbers::read(from)
    }
}

/// The doubly robust estimate of the reward of each record, for each policy: `sum_a p_a rhat_a + w (r - rhat)`, with weights of
/// at most `most`; with `rhat = 0` if there is no model.
#[derive(Debug)]
pub(crate) struct Rewards<'a> {
    pub(crate) policies: &'a [&'a dyn Policy],
    pub(crate) predictor: Option<Predictor<'a>>,
    pub(crate) most: f64,
}

impl Task for Rewards<'_> {
    const NAME: &'static str = "rewards";

    /// One list per policy.
    type Output = Vec<Vec<f64>>;

    fn write(&self, out: &mut Writer) -> Result<()> {
        out.double(self.most);
        out.flag(self.predictor.is_some());
        if let Some(predictor) = self.predictor {
            predictor.write(out)?;
        }
        out.count(self.policies.len());
        self.policies.iter().try_for_each(|policy| write_policy(*policy, out))
    }

    fn chunk(&self, logs: &Logs) -> Result<Vec<Vec<f64>>> {
        let k = logs.actions();
        let predicted = self.predictor.map(|predictor| predictor.predict(logs)).transpose()?;
        let predicted = predicted.unwrap_or_else(|| vec![0.0; logs.len() * k]);
        let of = |policy: &&dyn Policy| {
            let p = distribution_of(*policy, logs.contexts(), logs.eligible(), &(0..logs.len()))?;
            let rows = p.chunks_exact(k).zip(predicted.chunks_exact(k)).enumerate();
            let reward = |(i, (p, predicted)): (usize, (&[f64], &[f64]))| {
                let a = logs.action()[i] as usize;
                let weight = (p[a] / logs.propensity()[i]).min(self.most);
                let model: f64 = p.iter().zip(predicted).map(|(p, r)| p * r).sum();
                model + weight * (-logs.cost()[i] - predicted[a])
            };
            Ok(rows.map(reward).collect())
        };
        self.policies.iter().map(of).collect()
    }

    fn merge(&self, sum: &mut Vec<Vec<f64>>, next: Vec<Vec<f64>>) {
        sum.iter_mut().zip(next).for_each(|(sum, next)| sum.extend(next));
    }

    fn write_output(&self, output: &Vec<Vec<f64>>, out: &mut Writer) {
        output.iter().for_each(|rewards| out.doubles(rewards));
    }

    fn read_output(&self, from: &mut Reader<'_>) -> Result<Vec<Vec<f64>>> {
        self.policies.iter().map(|_| from.doubles()).collect()
    }

    /// Functions of others are called one after the other.
    fn parallel(&self) -> bool {
        self.policies.iter().all(|policy| policy.as_gaussian().is_some())
    }
}

/// Sums over records that say how well the probabilities of each softmax explain the rewards.
#[derive(Debug)]
pub(crate) struct Calibration<'a>(pub(crate) &'a [SoftmaxFeatures]);

/// `n`, `sum p`, `sum r`, `sum p^2` and `sum p r`, with the probability `p` of the chosen action.
pub(crate) type Explained = [f64; 5];

impl Task for Calibration<'_> {
    const NAME: &'static str = "calibration";

    /// The sums of each softmax.
    type Output = Vec<Explained>;

    fn write(&self, out: &mut Writer) -> Result<()> {
        out.count(self.0.len());
        self.0.iter().for_each(|softmax| softmax.write(out));
        Ok(())
    }

    fn chunk(&self, logs: &Logs) -> Result<Vec<Explained>> {
        let of = |softmax: &SoftmaxFeatures| {
            let p = softmax.apply(logs.contexts())?;
            let mut sums = [0.0; 5];
            for (i, (&a, &c)) in logs.action().iter().zip(logs.cost()).enumerate() {
                let p = f64::from(p.row(i).values()[a as usize]);
                let terms = [1.0, p, -c, p * p, -p * c];
                sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
            }
            Ok(sums)
        };
        self.0.iter().map(of).collect()
    }

    fn merge(&self, sum: &mut Vec<Explained>, next: Vec<Explained>) {
        let add = |(sum, next): (&mut Explained, Explained)| {
            sum.iter_mut().zip(next).for_each(|(sum, next)| *sum += next);
        };
        sum.iter_mut().zip(next).for_each(add);
    }

    fn write_output(&self, output: &Vec<Explained>, out: &mut Writer) {
        output.iter().flatten().for_each(|x| out.double(*x));
    }

    fn read_output(&self, from: &mut Reader<'_>) -> Result<Vec<Explained>> {
        let one = |from: &mut Reader<'_>| -> Result<Explained> {
            let mut sums = [0.0; 5];
            for sum in &mut sums {
                *sum = from.double()?;
            }
            Ok(sums)
        };
        self.0.iter().map(|_| one(from)).collect()
    }
}
