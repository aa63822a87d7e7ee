//! Adam (Kingma and Ba 2014) on minibatches.

use std::str::FromStr;

use rand::Rng;
use rand::seq::SliceRandom;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::Trace;
use crate::error::{Error, Result, check_setting};
use crate::math::kernels::{PIECE, wide};
use crate::math::real::Real;

/// How the learning rate decays over the steps of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decay {
    /// Constant.
    #[default]
    None,
    /// Linear, to 0.
    Linear,
    /// To 0 along half a cosine.
    Cosine,
}

impl FromStr for Decay {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "none" => Ok(Decay::None),
            "linear" => Ok(Decay::Linear),
            "cosine" => Ok(Decay::Cosine),
            _ => Err(Error::setting("decay", "none, linear or cosine", text)),
        }
    }
}

impl Decay {
    /// The factor after a share `t` in `[0, 1)` of the run.
    fn factor(self, t: f64) -> f64 {
        match self {
            Decay::None => 1.0,
            Decay::Linear => 1.0 - t,
            Decay::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * t).cos()),
        }
    }
}

/// The settings of Adam; the default is that of the paper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    /// The step size: above 0.
    pub learning_rate: f64,
    /// The decay of the step size.
    pub decay: Decay,
    /// The number of passes over the records: at least 1.
    pub epochs: usize,
    /// The number of records per step: at least 1.
    pub batch_size: usize,
    /// The decay rate of the mean gradient: in `[0, 1)`.
    pub beta1: f64,
    /// The decay rate of the mean squared gradient: in `[0, 1)`.
    pub beta2: f64,
    /// Keeps the division finite: above 0.
    pub epsilon: f64,
    /// Stops after an epoch whose mean objective improves on the last epoch's by less than this; 0 never stops early.
    pub tolerance: f64,
}

impl Default for Adam {
    fn default() -> Self {
        Adam {
            learning_rate: 1e-3,
            decay: Decay::None,
            epochs: 10,
            batch_size: 128,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            tolerance: 0.0,
        }
    }
}

impl Adam {
    /// Checks the settings. The error names the allowed range.
    pub fn check(&self) -> Result<()> {
        let rate = self.learning_rate;
        check_setting("the learning rate", rate, rate > 0.0, "above 0")?;
        for (name, count) in [("epochs", self.epochs), ("the batch size", self.batch_size)] {
            if count == 0 {
                return Err(Error::setting(name, "at least 1", count));
            }
        }
        for (name, beta) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            check_setting(name, beta, (0.0..1.0).contains(&beta), "in [0, 1)")?;
        }
        check_setting("epsilon", self.epsilon, self.epsilon > 0.0, "above 0")?;
        check_setting("the tolerance", self.tolerance, self.tolerance >= 0.0, "at least 0")
    }

    /// Minimises `f(x, batch, gradient) -> value` over minibatches of the records `0..records`, in a new random order
    /// each epoch; `f` overwrites the gradient. A single batch of all records is not shuffled, so such runs use no
    /// randomness.
    pub fn minimise(
        &self,
        start: Vec<f64>,
        records: usize,
        rng: &mut impl Rng,
        f: impl FnMut(&[f64], &[usize], &mut [f64]) -> f64,
    ) -> Result<(Vec<f64>, Trace)> {
        self.search(start, records, rng, f)
    }

    /// Like [`minimise`](Adam::minimise), in `f32` or `f64`.
    pub(crate) fn search<R: Real>(
        &self,
        start: Vec<R>,
        records: usize,
        rng: &mut impl Rng,
        mut f: impl FnMut(&[R], &[usize], &mut [R]) -> f64,
    ) -> Result<(Vec<R>, Trace)> {
        self.check()?;
        let mut x = start;
        let mut gradient = vec![R::ZERO; x.len()];
        let (mut m, mut v) = (gradient.clone(), gradient.clone());
        // Four bytes per record: the order is the largest list of a search in many records.
        let Ok(count) = u32::try_from(records) else {
            return Err(Error::size("the records of Adam", "at most 4294967295 entries", records));
        };
        let mut order: Vec<u32> = (0..count).collect();
        let mut places = Vec::with_capacity(self.batch_size.min(records));
        let total = self.epochs * records.div_ceil(self.batch_size);
        let mut trace = Trace::default();
        for _ in 0..self.epochs {
            if self.batch_size < records {
                order.shuffle(rng);
            }
            let mut sum = 0.0;
            for batch in order.chunks(self.batch_size) {
                places.clear();
                places.extend(batch.iter().map(|&place| place as usize));
                let value = f(&x, &places, &mut gradient);
                if !value.is_finite() {
                    let at = trace.evaluations;
                    return Err(Error::Optimiser(format!("the objective is {value} at step {at}")));
                }
                sum += value * batch.len() as f64;
                let progress = trace.evaluations as f64 / total as f64;
                trace.evaluations += 1;
                // Both averages start at 0; dividing by 1 - beta^t makes them unbiased.
                let t = i32::try_from(trace.evaluations).unwrap_or(i32::MAX);
                let rate = self.learning_rate * self.decay.factor(progress) / (1.0 - self.beta1.powi(t));
                let unbias = 1.0 / (1.0 - self.beta2.powi(t));
                let update = Update {
                    beta1: R::of(self.beta1),
                    rest1: R::of(1.0 - self.beta1),
                    beta2: R::of(self.beta2),
                    rest2: R::of(1.0 - self.beta2),
                    rate: R::of(rate),
                    unbias: R::of(unbias),
                    epsilon: R::of(self.epsilon),
                };
                let pieces = x.par_chunks_mut(PIECE).zip(gradient.par_chunks(PIECE));
                let pieces = pieces.zip(m.par_chunks_mut(PIECE)).zip(v.par_chunks_mut(PIECE)).with_min_len(2);
                pieces.for_each(|(((x, g), m), v)| update.apply(x, g, m, v));
            }
            let mean = sum / records as f64;
            let before = trace.objective.last().copied();
            trace.objective.push(mean);
            if before.is_some_and(|before| self.tolerance > 0.0 && before - mean < self.tolerance) {
                trace.converged = true;
                break;
            }
        }
        Ok((x, trace))
    }
}

/// The constants of one step.
struct Update<R> {
    beta1: R,
    rest1: R,
    beta2: R,
    rest2: R,
    rate: R,
    unbias: R,
    epsilon: R,
}

impl<R: Real> Update<R> {
    fn apply(&self, x: &mut [R], g: &[R], m: &mut [R], v: &mut [R]) {
        wide(
            #[inline(always)]
            || {
                for (((x, &g), m), v) in x.iter_mut().zip(g).zip(m.iter_mut()).zip(v.iter_mut()) {
                    *m = self.beta1 * *m + self.rest1 * g;
                    *v = self.beta2 * *v + self.rest2 * g * g;
                    *x -= self.rate * *m / ((*v * self.unbias).sqrt() + self.epsilon);
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernels::same_on_every_level;
    use crate::math::random::{Purpose, stream};
    use rand::RngExt;

    /// `mean_i |x - i|^2`, which is least at the mean of the records.
    fn spread(x: &[f64], batch: &[usize], g: &mut [f64]) -> f64 {
        g.fill(0.0);
        let n = batch.len() as f64;
        let mut value = 0.0;
        for &i in batch {
            let d = x[0] - i as f64;
            value += d * d / n;
            g[0] += 2.0 * d / n;
        }
        value
    }

    fn run(adam: &Adam, seed: u64) -> (Vec<f64>, Trace) {
        adam.minimise(vec![40.0], 100, &mut stream(seed, Purpose::Shuffle, 0), spread).unwrap()
    }

    #[test]
    fn it_finds_the_minimum_of_a_quadratic_under_every_decay() {
        for decay in [Decay::None, Decay::Linear, Decay::Cosine] {
            let adam = Adam { learning_rate: 0.1, decay, epochs: 1000, batch_size: 100, ..Adam::default() };
            let (x, trace) = run(&adam, 1);
            assert!((x[0] - 49.5).abs() < 0.1, "{decay:?}: {x:?}");
            assert_eq!((trace.objective.len(), trace.evaluations), (1000, 1000));
        }
    }

    #[test]
    fn the_seed_decides_the_order_and_nothing_else_does() {
        let adam = Adam { learning_rate: 0.1, epochs: 3, batch_size: 7, ..Adam::default() };
        assert_eq!(run(&adam, 1), run(&adam, 1));
        assert_ne!(run(&adam, 1).0, run(&adam, 2).0);
        let whole = Adam { batch_size: 100, ..adam };
        assert_eq!(run(&whole, 1), run(&whole, 2));
    }

    #[test]
    fn an_update_has_the_same_bits_on_every_instruction_set() {
        fn check<R: Real>() {
            for n in [1, 7, 16, 45, 200] {
                let mut rng = stream(7, Purpose::Shuffle, n);
                let mut numbers = || (0..n).map(|_| R::of(rng.random::<f64>() - 0.5)).collect::<Vec<R>>();
                let (x, g, m, v) = (numbers(), numbers(), numbers(), numbers());
                let v: Vec<R> = v.into_iter().map(|v| v * v).collect();
                let update = Update {
                    beta1: R::of(0.9),
                    rest1: R::of(0.1),
                    beta2: R::of(0.999),
                    rest2: R::of(0.001),
                    rate: R::of(0.3),
                    unbias: R::of(1.7),
                    epsilon: R::of(1e-8),
                };
                let run = || {
                    let (mut x, mut m, mut v) = (x.clone(), m.clone(), v.clone());
                    update.apply(&mut x, &g, &mut m, &mut v);
                    [x, m, v].concat().iter().map(|x| x.to_f64().to_bits()).collect::<Vec<u64>>()
                };
                same_on_every_level(run);
            }
        }
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn the_tolerance_ends_it_early() {
        let adam = Adam { learning_rate: 0.5, epochs: 5000, batch_size: 100, tolerance: 1e-6, ..Adam::default() };
        let (_, trace) = run(&adam, 1);
        assert!(trace.converged && trace.objective.len() < 5000);
    }

    #[test]
    fn settings_outside_their_range_are_refused() {
        let text = |adam: Adam| adam.check().unwrap_err().to_string();
        assert_eq!(
            text(Adam { learning_rate: 0.0, ..Adam::default() }),
            "the learning rate should be above 0, but is 0"
        );
        assert_eq!(text(Adam { batch_size: 0, ..Adam::default() }), "the batch size should be at least 1, but is 0");
        assert_eq!(text(Adam { beta2: 1.0, ..Adam::default() }), "beta2 should be in [0, 1), but is 1");
        assert!(Adam { epochs: 0, ..Adam::default() }.check().is_err());
        assert!(Adam { epsilon: 0.0, ..Adam::default() }.check().is_err());
        assert!(Adam { tolerance: f64::NAN, ..Adam::default() }.check().is_err());
    }

    #[test]
    fn an_objective_that_is_not_finite_is_an_error() {
        let mut rng = stream(1, Purpose::Shuffle, 0);
        let result = Adam::default().minimise(vec![0.0], 1, &mut rng, |_, _, _| f64::NAN);
        assert_eq!(result.unwrap_err().to_string(), "the optimiser stopped: the objective is NaN at step 0");
    }
}
