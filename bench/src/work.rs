//! The measured work: an epoch of SeqAdjLS with the paper's settings, and synthetic logs of any size.

use std::error::Error;
use std::time::Instant;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use surefoot::learn::State;
use surefoot::optim::{Adam, Optimiser};
use surefoot::policy::{Posterior, Scale};
use surefoot::{Algorithm, Contexts, FeatureMap, Lambda, Learner, LinearGaussian, Logs};

/// Any error ends a measurement.
pub(crate) type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// The learner with the paper's settings.
pub(crate) fn learner(epochs: usize, batch_size: usize, seed: u64) -> Learner {
    Learner {
        algorithm: Algorithm::SeqAdjLs,
        lambda: Lambda::Fixed(0.1),
        optimiser: Optimiser::Adam(Adam { learning_rate: 1e-3, epochs, batch_size, ..Adam::default() }),
        seed,
        ..Learner::default()
    }
}

/// The policy of `N(mean, I)` on raw features.
pub(crate) fn policy(actions: usize, mean: Vec<f64>) -> Result<LinearGaussian> {
    let posterior = Posterior::new(actions, mean, Scale::Shared(1.0))?;
    Ok(LinearGaussian::new(FeatureMap::identity(posterior.features()), posterior)?)
}

/// Runs some work, and returns the seconds and the result.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let clock = Instant::now();
    let out = work();
    (clock.elapsed().as_secs_f64(), out)
}

/// A pool of `count` threads.
pub(crate) fn threads(count: usize) -> Result<rayon::ThreadPool> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(count).build()?)
}

/// Synthetic logs, and their assumed logging policy.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) logs: Logs,
    state: State,
}

impl Task {
    /// Records of which a share `rewarded` has a cost other than 0, and so contributes to the gradient.
    pub(crate) fn new(contexts: Contexts, actions: usize, rewarded: f64) -> Result<Self> {
        let (n, p) = (contexts.len(), contexts.features());
        let mut rng = random();
        let action = (0..n).map(|_| rng.random_range(0..actions as u32)).collect();
        let cost = (0..n).map(|_| if rng.random::<f64>() < rewarded { -1.0 } else { 0.0 }).collect();
        let logs = Logs::new(actions, contexts, action, vec![1.0 / actions as f64; n], cost)?;
        let mean = (0..p * actions).map(|_| symmetric(&mut rng)).collect();
        Ok(Task { logs, state: State::new(policy(actions, mean)?) })
    }

    /// One pass over the records.
    pub(crate) fn epoch(&self, batch: usize) -> Result<()> {
        learner(1, batch, 0).step(&self.state, &self.logs)?;
        Ok(())
    }
}

/// A generator with a fixed seed, for the same numbers in every measurement.
fn random() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(1)
}

fn symmetric(rng: &mut impl Rng) -> f64 {
    2.0 * rng.random::<f64>() - 1.0
}

/// Dense rows, in which a share `filled` of the values is not zero.
pub(crate) fn dense(rows: usize, features: usize, filled: f64) -> Result<Contexts> {
    let mut rng = random();
    let mut value = || if filled >= 1.0 || rng.random::<f64>() < filled { symmetric(&mut rng) as f32 } else { 0.0 };
    Ok(Contexts::dense((0..rows * features).map(|_| value()).collect(), features)?)
}

/// Sparse rows of `filled` values each: one in every stretch of `features/filled` features, which keeps them in order
/// without sorting. Nothing is stored twice.
pub(crate) fn sparse(rows: usize, features: usize, filled: usize) -> Result<Contexts> {
    let mut rng = random();
    let stretch = features / filled;
    let (mut indices, mut values) = (Vec::with_capacity(rows * filled), Vec::with_capacity(rows * filled));
    for _ in 0..rows {
        for part in 0..filled {
            let bits = rng.next_u64();
            indices.push((part * stretch) as u32 + (bits >> 32) as u32 % stretch as u32);
            values.push(bits as u32 as f32 / u32::MAX as f32);
        }
    }
    Ok(Contexts::sparse((0..=rows).map(|row| row * filled).collect(), indices, values, features)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synthetic_rows_have_the_asked_shape() {
        let x = sparse(100, 1000, 16).unwrap();
        assert_eq!((x.len(), x.features(), x.is_sparse()), (100, 1000, true));
        assert!(x.iter().all(|row| row.values().len() == 16));
        assert!(dense(100, 50, 0.2).unwrap().compact().is_sparse());
    }

    #[test]
    fn an_epoch_is_learned() {
        Task::new(dense(50, 4, 1.0).unwrap(), 3, 0.5).unwrap().epoch(16).unwrap();
    }
}
