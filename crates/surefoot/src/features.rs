//! FEATURES: maps `x -> phi(x)` that are fixed before the data, so that every bound stays as it is.

use std::sync::Arc;

use rand::seq::SliceRandom;
use rand_distr::{Distribution, StandardNormal, Uniform};

use crate::contexts::Contexts;
use crate::error::{Error, Result, check_setting};
use crate::math::linear::map_rows;
use crate::math::random::{Purpose, stream};

/// How a raw context becomes the features of a policy. Part of the policy: it maps what it is asked about itself.
///
/// ```
/// use surefoot::{Contexts, FeatureMap};
///
/// let x = Contexts::dense(vec![0.6, 0.8], 2)?;
/// let map = FeatureMap::fourier(2, 100, 1.0, 7)?.with_intercept();
/// assert_eq!(map.apply(&x)?.features(), 101);
/// # Ok::<(), surefoot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureMap {
    input: usize,
    fourier: Option<Fourier>,
    intercept: bool,
}

/// `sqrt(2/D) cos(W'x + b)`, whose inner products approach the kernel `exp(-|x - y|^2/(2 bandwidth^2))`.
#[derive(Debug, Clone, PartialEq)]
struct Fourier {
    count: usize,
    bandwidth: f64,
    seed: u64,
    /// `W`, input-major, and `b`: a function of the three numbers above and of the input's size.
    weights: Arc<(Vec<f64>, Vec<f64>)>,
}

impl FeatureMap {
    /// The contexts as they are.
    pub fn identity(input: usize) -> Self {
        FeatureMap { input, fourier: None, intercept: false }
    }

    /// `count` random Fourier features (Rahimi and Recht 2007) of contexts with `input` features. The entries of `W`
    /// have standard deviation `1/bandwidth`; [`rule_of_thumb`](FeatureMap::rule_of_thumb) proposes one.
    pub fn fourier(input: usize, count: usize, bandwidth: f64, seed: u64) -> Result<Self> {
        if count == 0 || count > u32::MAX as usize {
            return Err(Error::setting("the number of Fourier features", "from 1 to 4294967295", count));
        }
        check_setting("the bandwidth", bandwidth, bandwidth > 0.0, "above 0")?;
        // 8 GB of weights.
        if input.saturating_mul(count) > 1 << 30 {
            let value = format!("{input} x {count}");
            return Err(Error::setting("features that go in x Fourier features", "at most 1073741824", value));
        }
        let mut rng = stream(seed, Purpose::Features, 0);
        let normals = StandardNormal.sample_iter(&mut rng);
        let w: Vec<f64> = normals.take(input * count).map(|v: f64| v / bandwidth).collect();
        let turn = Uniform::new(0.0, std::f64::consts::TAU).expect("0 < tau");
        let b = turn.sample_iter(&mut rng).take(count).collect();
        Ok(FeatureMap {
            input,
            fourier: Some(Fourier { count, bandwidth, seed, weights: Arc::new((w, b)) }),
            intercept: false,
        })
    }

    /// Adds a feature that is always 1, the last one.
    pub fn with_intercept(mut self) -> Self {
        self.intercept = true;
        self
    }

    /// The median distance between the contexts (Gretton et al. 2012): a bandwidth at which neither all pairs look
    /// alike nor all look unrelated. Taken over at most 1,000 pairs; 1 if they are all equal.
    ///
    /// The map has to be fixed before the data that it learns from: ask for it on contexts seen earlier.
    pub fn rule_of_thumb(contexts: &Contexts) -> f64 {
        // In a random order, lest data that is sorted by class pairs like with like.
        let mut order: Vec<usize> = (0..contexts.len()).collect();
        order.shuffle(&mut stream(0, Purpose::Features, 1));
        let mut x = vec![0.0; contexts.features()];
        let mut distances: Vec<f64> = order
            .chunks_exact(2)
            .take(1000)
            .map(|pair| {
                x.fill(0.0);
                contexts.row(pair[0]).for_each(|f, v| x[f] += v);
                contexts.row(pair[1]).for_each(|f, v| x[f] -= v);
                x.iter().map(|v| v * v).sum::<f64>().sqrt()
            })
            .filter(|d| *d > 0.0)
            .collect();
        distances.sort_by(f64::total_cmp);
        distances.get(distances.len() / 2).copied().unwrap_or(1.0)
    }

    /// The number of features that go in.
    pub fn input(&self) -> usize {
        self.input
    }

    /// The number of features that come out.
    pub fn output(&self) -> usize {
        self.fourier.as_ref().map_or(self.input, |f| f.count) + usize::from(self.intercept)
    }

    /// Count, bandwidth and seed of the Fourier features, if there are any.
    pub fn fourier_settings(&self) -> Option<(usize, f64, u64)> {
        self.fourier.as_ref().map(|f| (f.count, f.bandwidth, f.seed))
    }

    /// Whether the features are the contexts themselves.
    pub fn is_identity(&self) -> bool {
        self.fourier.is_none() && !self.intercept
    }

    /// Whether a constant feature is added.
    pub fn intercept(&self) -> bool {
        self.intercept
    }

    /// The features of the contexts.
    pub fn apply(&self, contexts: &Contexts) -> Result<Contexts> {
        if contexts.features() != self.input {
            let expected = format!("{} features, as the policy", self.input);
            return Err(Error::size("contexts", expected, contexts.features()));
        }
        let mapped = match &self.fourier {
            None => contexts.clone(),
            Some(Fourier { count, weights, .. }) => {
                let (w, b) = weights.as_ref();
                let norm = (2.0 / *count as f64).sqrt();
                let values = map_rows(contexts, w, *count, |j, v| (norm * (v + b[j]).cos()) as f32)?;
                Contexts::dense(values, *count)?
            }
        };
        if self.intercept { mapped.with_ones() } else { Ok(mapped) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(a: &Contexts, i: usize, j: usize) -> f64 {
        let pairs = a.row(i).values().iter().zip(a.row(j).values());
        pairs.map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
    }

    #[test]
    fn inner_products_of_fourier_features_approach_the_kernel() {
        let x = Contexts::dense(vec![0.6, 0.8, 1.0, 0.0, 0.0, 0.0], 2).unwrap();
        let phi = FeatureMap::fourier(2, 20_000, 0.7, 1).unwrap().apply(&x).unwrap();
        for (i, j, distance2) in [(0, 1, 0.8), (0, 2, 1.0), (1, 1, 0.0)] {
            let kernel = f64::exp(-distance2 / (2.0 * 0.49));
            assert!((dot(&phi, i, j) - kernel).abs() < 0.03, "{i} {j}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_map_and_storage_does_not_matter() {
        let x = Contexts::dense(vec![0.0, 1.5, -2.0, 0.0, 0.0, 0.5], 3).unwrap();
        let map = || FeatureMap::fourier(3, 8, 1.0, 5).unwrap().with_intercept();
        let (a, b) = (map().apply(&x).unwrap(), map().apply(&x.to_sparse()).unwrap());
        assert_eq!(a.row(1).values(), b.row(1).values());
        assert_eq!(a.row(0).values()[8], 1.0);
        assert_ne!(map(), FeatureMap::fourier(3, 8, 1.0, 6).unwrap().with_intercept());
    }

    #[test]
    fn the_intercept_is_the_last_feature_in_both_storages() {
        let x = Contexts::dense(vec![0.0, 2.0], 2).unwrap();
        for x in [x.clone(), x.to_sparse()] {
            let mapped = FeatureMap::identity(2).with_intercept().apply(&x).unwrap();
            assert_eq!(mapped.to_dense().row(0).values(), [0.0, 2.0, 1.0]);
        }
    }

    #[test]
    fn the_rule_of_thumb_is_the_median_distance() {
        // Sorted: the median distance of two points of [0, 1] is 1 - sqrt(1/2).
        let x = Contexts::dense((0..1000).map(|i| i as f32 / 1000.0).collect(), 1).unwrap();
        assert!((FeatureMap::rule_of_thumb(&x) - 0.293).abs() < 0.05);
        assert_eq!(FeatureMap::rule_of_thumb(&x.slice(0..1)), 1.0);
    }

    #[test]
    fn settings_and_sizes_are_checked() {
        assert_eq!(
            FeatureMap::fourier(3, 0, 1.0, 1).unwrap_err().to_string(),
            "the number of Fourier features should be from 1 to 4294967295, but is 0"
        );
        assert_eq!(
            FeatureMap::fourier(3, 5, 0.0, 1).unwrap_err().to_string(),
            "the bandwidth should be above 0, but is 0"
        );
        assert_eq!(
            FeatureMap::fourier(1 << 20, 1 << 20, 1.0, 1).unwrap_err().to_string(),
            "features that go in x Fourier features should be at most 1073741824, but is 1048576 x 1048576"
        );
        let x = Contexts::dense(vec![1.0], 1).unwrap();
        assert_eq!(
            FeatureMap::identity(2).apply(&x).unwrap_err().to_string(),
            "contexts should have 2 features, as the policy, but has 1"
        );
    }
}
