//! Random Fourier features (Rahimi and Recht 2007).

use std::sync::Arc;

use rand_distr::{Distribution, StandardNormal, Uniform};

use crate::contexts::Contexts;
use crate::error::{Error, Result, check_setting};
use crate::math::linear::map_rows;
use crate::math::random::{Purpose, stream};

/// `sqrt(2/D) cos(W'x + b)`. Inner products of these features approach the kernel `exp(-|x - y|^2/(2 bandwidth^2))`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fourier {
    pub(super) count: usize,
    pub(super) bandwidth: f64,
    pub(super) seed: u64,
    /// `W`, input-major, and `b`: determined by the three numbers above and the number of input features.
    weights: Arc<(Vec<f64>, Vec<f64>)>,
}

impl Fourier {
    pub(super) fn new(input: usize, count: usize, bandwidth: f64, seed: u64) -> Result<Self> {
        if count == 0 || count > u32::MAX as usize {
            return Err(Error::setting("the number of Fourier features", "from 1 to 4294967295", count));
        }
        check_setting("the bandwidth", bandwidth, bandwidth > 0.0, "above 0")?;
        // 1 GB of weights. They are not in a policy file, so the size of the file does not limit them.
        if input.saturating_mul(count) > 1 << 27 {
            let value = format!("{input} x {count}");
            return Err(Error::setting("features that go in x Fourier features", "at most 134217728", value));
        }
        let mut rng = stream(seed, Purpose::Features, 0);
        let normals = StandardNormal.sample_iter(&mut rng);
        let w: Vec<f64> = normals.take(input * count).map(|v: f64| v / bandwidth).collect();
        let turn = Uniform::new(0.0, std::f64::consts::TAU).expect("0 < tau");
        let b = turn.sample_iter(&mut rng).take(count).collect();
        Ok(Fourier { count, bandwidth, seed, weights: Arc::new((w, b)) })
    }

    pub(super) fn apply(&self, contexts: &Contexts) -> Result<Contexts> {
        let (w, b) = self.weights.as_ref();
        let norm = (2.0 / self.count as f64).sqrt();
        let values = map_rows(contexts, w, self.count, |j, v| (norm * (v + b[j]).cos()) as f32)?;
        Contexts::dense(values, self.count)
    }
}
