//! The work of a portfolio on records: predictions, estimates of policies, and the calibration of what a first policy knows.

use crate::contexts::Contexts;
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

impl<'a> Predictor<'a> {
    /// The rewards of all actions, within `[0, 1]`.
    fn predict(self, logs: &Logs, mapped: &mut Mapped<'a>) -> Result<Vec<f64>> {
        let mut predicted = match self {
            Predictor::Features(map, model) => model.predict(&mapped.by(map, logs)?)?,
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

/// The features of the contexts of some records, for each map so far. The policy of a reward model has the map of the model,
/// and some maps take long.
#[derive(Debug, Default)]
struct Mapped<'a>(Vec<(&'a FeatureMap, Contexts)>);

impl<'a> Mapped<'a> {
    fn by(&mut self, map: &'a FeatureMap, logs: &Logs) -> Result<Contexts> {
        if let Some((_, known)) = self.0.iter().find(|(known, _)| *known == map) {
            return Ok(known.clone());
        }
        let contexts = map.apply(logs.contexts())?;
        self.0.push((map, contexts.clone()));
        Ok(contexts)
    }
}

/// Minus the squared error of each prediction for the action of its record.
fn errors(predicted: &[f64], logs: &Logs) -> Vec<f64> {
    let records = predicted.chunks_exact(logs.actions()).zip(logs.action().iter().zip(logs.cost()));
    let error = |(row, (&a, &c)): (&[f64], (&u32, &f64))| row[a as usize] + c;
    records.map(|record| -error(record).powi(2)).collect()
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
        Ok(errors(&self.0.predict(logs, &mut Mapped::default())?, logs))
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

/// What records say about reward models and policies that have not seen them. It is one task, so that contexts are mapped to
/// features once.
#[derive(Debug)]
pub(crate) struct Trial<'a> {
    pub(crate) policies: &'a [&'a dyn Policy],
    /// `None` predicts a reward of 0 for every action.
    pub(crate) predictors: Vec<Option<Predictor<'a>>>,
    /// The largest importance weight.
    pub(crate) most: f64,
}

/// What records say with one of the predictors.
#[derive(Debug)]
pub(crate) struct Tried {
    /// Minus the squared error of the prediction for each record.
    pub(crate) errors: Vec<f64>,
    /// For each policy, the doubly robust estimate of the reward of each record: `sum_a p_a rhat_a + w (r - rhat)`.
    pub(crate) rewards: Vec<Vec<f64>>,
}

impl<'a> Trial<'a> {
    fn distribution(&self, policy: &'a dyn Policy, logs: &Logs, mapped: &mut Mapped<'a>) -> Result<Vec<f64>> {
        let all = 0..logs.len();
        match policy.as_gaussian().filter(|policy| policy.joint().is_none()) {
            Some(policy) => {
                let contexts = mapped.by(policy.features(), logs)?;
                distribution_of(&policy.on_features(), &contexts, logs.eligible(), &all)
            }
            None => distribution_of(policy, logs.contexts(), logs.eligible(), &all),
        }
    }
}

impl<'a> Task for Trial<'a> {
    const NAME: &'static str = "trial";

    /// One per predictor.
    type Output = Vec<Tried>;

    fn write(&self, out: &mut Writer) -> Result<()> {
        out.double(self.most);
        out.count(self.predictors.len());
        for predictor in &self.predictors {
            out.flag(predictor.is_some());
            predictor.map_or(Ok(()), |predictor| predictor.write(out))?;
        }
        out.count(self.policies.len());
        self.policies.iter().try_for_each(|policy| write_policy(*policy, out))
    }

    fn chunk(&self, logs: &Logs) -> Result<Vec<Tried>> {
        let k = logs.actions();
        let mut mapped = Mapped::default();
        let nothing = || Ok(vec![0.0; logs.len() * k]);
        let predict = |predictor: &Option<Predictor<'a>>| {
            let predicted = predictor.map_or_else(nothing, |predictor| predictor.predict(logs, &mut mapped))?;
            Ok((Tried { errors: errors(&predicted, logs), rewards: Vec::new() }, predicted))
        };
        let mut tried: Vec<(Tried, Vec<f64>)> = self.predictors.iter().map(predict).collect::<Result<_>>()?;
        for policy in self.policies {
            let p = self.distribution(*policy, logs, &mut mapped)?;
            for (tried, predicted) in &mut tried {
                let rows = p.chunks_exact(k).zip(predicted.chunks_exact(k)).enumerate();
                let reward = |(i, (p, predicted)): (usize, (&[f64], &[f64]))| {
                    let a = logs.action()[i] as usize;
                    let weight = (p[a] / logs.propensity()[i]).min(self.most);
                    let model: f64 = p.iter().zip(predicted).map(|(p, r)| p * r).sum();
                    model + weight * (-logs.cost()[i] - predicted[a])
                };
                tried.rewards.push(rows.map(reward).collect());
            }
        }
        Ok(tried.into_iter().map(|(tried, _)| tried).collect())
    }

    fn merge(&self, sum: &mut Vec<Tried>, next: Vec<Tried>) {
        for (sum, next) in sum.iter_mut().zip(next) {
            sum.errors.extend(next.errors);
            sum.rewards.iter_mut().zip(next.rewards).for_each(|(sum, next)| sum.extend(next));
        }
    }

    fn write_output(&self, output: &Vec<Tried>, out: &mut Writer) {
        for Tried { errors, rewards } in output {
            out.doubles(errors);
            rewards.iter().for_each(|rewards| out.doubles(rewards));
        }
    }

    fn read_output(&self, from: &mut Reader<'_>) -> Result<Vec<Tried>> {
        let one = |from: &mut Reader<'_>| -> Result<Tried> {
            let errors = from.doubles()?;
            Ok(Tried { errors, rewards: self.policies.iter().map(|_| from.doubles()).collect::<Result<_>>()? })
        };
        self.predictors.iter().map(|_| one(from)).collect()
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
