//! Gaussian distributions over linear predictors, and the divergence between them.

use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use super::SecondMoments;
use crate::contexts::{Contexts, Row};
use crate::error::{Error, Result};
use crate::features::FeatureMap;
use crate::fingerprint::{Fingerprint, Hasher};
use crate::logs::Logs;
use crate::math::linear::{eigenvectors, map_rows, rotate, second_moments};

/// The standard deviations of a [`Posterior`].
#[derive(Debug, Clone, PartialEq)]
pub enum Scale {
    /// One scale for all features and actions: `N(mu, sigma^2 I)`, as in the paper.
    Shared(f64),
    /// One scale per feature of the basis, shared by the actions: `N(mu, S x I_K)`, `S = U diag(sigma_f^2) U'`.
    PerFeature(Vec<f64>),
}

impl Scale {
    /// `sqrt(x'Sx)`, the standard deviation of every score of a context with this norm.
    pub(crate) fn deviation(&self, x: Row<'_>, norm: f64) -> f64 {
        match self {
            Scale::Shared(sigma) => sigma * norm,
            Scale::PerFeature(sigmas) => {
                let mut sum = 0.0;
                x.for_each(|f, v| sum += (sigmas[f] * v) * (sigmas[f] * v));
                sum.sqrt()
            }
        }
    }

    /// `sigma_f`.
    pub(crate) fn get(&self, f: usize) -> f64 {
        match self {
            Scale::Shared(sigma) => *sigma,
            Scale::PerFeature(sigmas) => sigmas[f],
        }
    }
}

/// An orthonormal basis of the feature space.
///
/// A Gaussian with one shared scale looks the same in every orthonormal basis. So a basis may be taken from the data
/// without invalidating a bound whose prior is such a Gaussian.
#[derive(Debug)]
pub struct Basis {
    pub(super) features: usize,
    /// The basis vectors are the columns of this row-major matrix.
    pub(super) axes: Vec<f64>,
    /// Computed on first use.
    pub(super) fingerprint: OnceLock<Fingerprint>,
}

impl PartialEq for Basis {
    fn eq(&self, other: &Self) -> bool {
        self.axes == other.axes
    }
}

impl Basis {
    /// From a row-major `p x p` matrix whose columns are orthonormal (to 1e-10).
    pub fn new(axes: Vec<f64>, features: usize) -> Result<Self> {
        let p = features;
        if axes.len() != p * p {
            return Err(Error::size("a basis", format!("{p} x {p} entries"), axes.len()));
        }
        let gram = rotate(&axes, true, &axes, p, p);
        for i in 0..p {
            for j in 0..p {
                let expected = f64::from(u8::from(i == j));
                let found = gram[i * p + j];
                if (found - expected).abs() > 1e-10 || found.is_nan() {
                    let column = format!("the product of basis vectors {i} and {j}");
                    return Err(Error::value(i, column, expected, found));
                }
            }
        }
        Ok(Basis { features, axes, fingerprint: OnceLock::new() })
    }

    /// The largest number of features for which principal axes are computed: their matrix then takes 3 GB.
    pub const MOST_FEATURES: usize = 20_000;

    /// The principal axes of the contexts: the eigenvectors of their second moments.
    pub fn principal(contexts: &Contexts) -> Result<Self> {
        let features = contexts.features();
        Self::check_axes(features)?;
        Self::of_moments(&second_moments(contexts, features, |some| Ok(some.clone()))?, features)
    }

    /// The principal axes of features of logged contexts.
    pub(crate) fn principal_of(logs: &Logs, map: &FeatureMap) -> Result<Self> {
        let features = map.output();
        Self::check_axes(features)?;
        let moments = logs.over(&SecondMoments { map })?;
        Self::of_moments(&moments.unwrap_or_else(|| vec![0.0; features * features]), features)
    }

    fn check_axes(features: usize) -> Result<()> {
        if features > Self::MOST_FEATURES {
            let allowed = format!("at most {} for principal axes", Self::MOST_FEATURES);
            return Err(Error::setting("the number of features", allowed, features));
        }
        Ok(())
    }

    fn of_moments(moments: &[f64], features: usize) -> Result<Self> {
        let (_, axes) = eigenvectors(moments, features)
            .ok_or_else(|| Error::setting("the second moments of the contexts", "finite and diagonalisable", "not"))?;
        Ok(Basis { features, axes, fingerprint: OnceLock::new() })
    }

    /// The number of features.
    pub fn features(&self) -> usize {
        self.features
    }

    /// The basis vectors, as the columns of a row-major matrix.
    pub fn axes(&self) -> &[f64] {
        &self.axes
    }

    /// The fingerprint of the basis.
    pub fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.get_or_init(|| {
            let mut hasher = Hasher::new("basis");
            hasher.doubles(&self.axes);
            hasher.finish()
        })
    }

    /// The contexts in the coordinates of this basis.
    pub(crate) fn apply(&self, contexts: &Contexts) -> Result<Contexts> {
        let p = self.features;
        Contexts::dense(map_rows(contexts, &self.axes, p, |_, v| v as f32)?, p)
    }
}

/// Whether two bases are equal; bases that share their storage are not compared.
pub(crate) fn same_basis(a: Option<&Arc<Basis>>, b: Option<&Arc<Basis>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// A Gaussian over the parameters of `f_theta(x) = argmax_a <x, theta_a>`: the `Q` of `pi_Q`.
///
/// All actions share one covariance over the features. So the scores of a context are independent with the same
/// variance `x'Sx`, and only `s_a = <x, mu_a> / sqrt(x'Sx)` matters.
#[derive(Debug, Clone, PartialEq)]
pub struct Posterior {
    actions: usize,
    mean: Vec<f64>,
    scale: Scale,
    basis: Option<Arc<Basis>>,
}

impl Posterior {
    /// The allowed range of a scale: its square neither underflows nor overflows.
    pub const SCALES: RangeInclusive<f64> = crate::math::SCALES;

    /// A posterior from its mean and scales in the given features. The mean is feature-major: feature `f` and action
    /// `a` are at `f * actions + a`.
    pub fn new(actions: usize, mean: Vec<f64>, scale: Scale) -> Result<Self> {
        if actions < 2 {
            return Err(Error::setting("the number of actions", "at least 2", actions));
        }
        Self::checked(actions, mean, scale)
    }

    /// A posterior over the weights of joint features, for a policy over candidates: its number of actions is 1.
    pub fn over_candidates(mean: Vec<f64>, scale: Scale) -> Result<Self> {
        Self::checked(1, mean, scale)
    }

    /// Whether it is over the weights of joint features.
    pub fn is_over_candidates(&self) -> bool {
        self.actions == 1
    }

    fn checked(actions: usize, mean: Vec<f64>, scale: Scale) -> Result<Self> {
        if mean.is_empty() || !mean.len().is_multiple_of(actions) {
            let expected = format!("{actions} entries for each feature");
            return Err(Error::size("the mean", expected, mean.len()));
        }
        if let Some(i) = mean.iter().position(|m| !m.is_finite()) {
            let column = format!("the mean of action {}", i % actions);
            return Err(Error::value(i / actions, column, "finite", mean[i]));
        }
        let p = mean.len() / actions;
        let sigmas = match &scale {
            Scale::Shared(sigma) => std::slice::from_ref(sigma),
            Scale::PerFeature(sigmas) if sigmas.len() == p => sigmas,
            Scale::PerFeature(sigmas) => {
                let expected = format!("{p} entries, one for each feature");
                return Err(Error::size("the scales", expected, sigmas.len()));
            }
        };
        if let Some(row) = sigmas.iter().position(|s| !Self::SCALES.contains(s)) {
            let allowed = format!("in [{:e}, {:e}]", Self::SCALES.start(), Self::SCALES.end());
            return Err(Error::value(row, "scale", allowed, sigmas[row]));
        }
        Ok(Posterior { actions, mean, scale, basis: None })
    }

    /// `N(0, I)`, whose policy is the uniform one.
    pub fn standard(features: usize, actions: usize) -> Result<Self> {
        Self::new(actions, vec![0.0; features * actions], Scale::Shared(1.0))
    }

    /// Interprets mean and scales as coordinates in a basis.
    pub fn with_basis(mut self, basis: Arc<Basis>) -> Result<Self> {
        if basis.features() != self.features() {
            let expected = format!("{} features, as the mean", self.features());
            return Err(Error::size("the basis", expected, basis.features()));
        }
        self.basis = Some(basis);
        Ok(self)
    }

    /// The same actions and basis with another mean and scale.
    pub(crate) fn with(&self, mean: Vec<f64>, scale: Scale) -> Result<Self> {
        Ok(Posterior { basis: self.basis.clone(), ..Posterior::checked(self.actions, mean, scale)? })
    }

    /// The number of features, `p`.
    pub fn features(&self) -> usize {
        self.mean.len() / self.actions
    }

    /// The number of actions, `K`.
    pub fn actions(&self) -> usize {
        self.actions
    }

    /// The mean, feature-major, in the coordinates of the basis.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The scales, in the coordinates of the basis.
    pub fn scale(&self) -> &Scale {
        &self.scale
    }

    /// The basis; `None` for the basis of the features themselves.
    pub fn basis(&self) -> Option<&Arc<Basis>> {
        self.basis.as_ref()
    }

    /// Adds itself to a fingerprint.
    pub(crate) fn hash(&self, hasher: &mut Hasher) {
        hasher.count(self.actions);
        hasher.doubles(&self.mean);
        match &self.scale {
            Scale::Shared(sigma) => hasher.doubles(&[*sigma]),
            // Distinguishes this from a shared scale even if there is only one feature.
            Scale::PerFeature(sigmas) => {
                hasher.text("per feature");
                hasher.doubles(sigmas);
            }
        }
        hasher.text(&self.basis.as_ref().map_or(String::new(), |basis| basis.fingerprint().to_string()));
    }

    /// The same distribution in another basis. Possible if it has one shared scale, or already has that basis.
    pub(crate) fn in_basis(&self, basis: Option<&Arc<Basis>>) -> Option<Posterior> {
        if same_basis(self.basis.as_ref(), basis) {
            return Some(self.clone());
        }
        if matches!(self.scale, Scale::PerFeature(_)) {
            return None;
        }
        Some(Posterior { mean: self.mean_in(basis.map(Arc::as_ref)), basis: basis.cloned(), ..self.clone() })
    }

    /// The means in a basis, or in the features themselves.
    pub(crate) fn mean_in(&self, basis: Option<&Basis>) -> Vec<f64> {
        let (p, k) = (self.features(), self.actions);
        let mean = match &self.basis {
            Some(own) => rotate(&own.axes, false, &self.mean, p, k),
            None => self.mean.clone(),
        };
        match basis {
            Some(basis) => rotate(&basis.axes, true, &mean, p, k),
            None => mean,
        }
    }

    /// `KL(self || prior)`, for any two scales and bases:
    ///
    /// `1/2 sum_f [ K (v_f/t_f - 1 + ln t_f - ln s_f) + sum_a d_fa^2/t_f ]`
    ///
    /// in the prior's basis. Here `t_f` are the variances of the prior, `s_f` those of this posterior, `v_f` is the
    /// variance of this posterior *along* the prior's axis `f` (which is `s_f` if the bases agree), and `d` is the
    /// difference of the means.
    pub fn kl(&self, prior: &Posterior) -> Result<f64> {
        if (self.features(), self.actions) != (prior.features(), prior.actions) {
            let expected = format!("{} features x {} actions", self.features(), self.actions);
            return Err(Error::size("the mean of the prior", expected, prior.mean.len()));
        }
        let (p, k) = (self.features(), self.actions);
        let same = same_basis(self.basis.as_ref(), prior.basis.as_ref());
        let mean = if same { self.mean.clone() } else { self.mean_in(prior.basis.as_deref()) };
        let square = |x: f64| x * x;
        let spread: Vec<f64> = match &self.scale {
            Scale::Shared(sigma) => vec![square(*sigma); p],
            Scale::PerFeature(sigmas) if same => sigmas.iter().map(|&s| square(s)).collect(),
            Scale::PerFeature(sigmas) => {
                // The columns of `W` are this posterior's axes in the prior's basis: `v_f = sum_j W_fj^2 s_j`.
                let mut w = match &self.basis {
                    Some(basis) => basis.axes.clone(),
                    None => (0..p * p).map(|i| f64::from(u8::from(i / p == i % p))).collect(),
                };
                if let Some(basis) = &prior.basis {
                    w = rotate(&basis.axes, true, &w, p, p);
                }
                w.chunks_exact(p).map(|row| row.iter().zip(sigmas).map(|(w, s)| square(w * s)).sum()).collect()
            }
        };
        let mut total = 0.0;
        for f in 0..p {
            let t = square(prior.scale.get(f));
            let log_ratio = 2.0 * (self.scale.get(f).ln() - prior.scale.get(f).ln());
            let means = mean[f * k..(f + 1) * k].iter().zip(&prior.mean[f * k..(f + 1) * k]);
            let distance: f64 = means.map(|(a, b)| square(a - b)).sum();
            total += k as f64 * (spread[f] / t - 1.0 - log_ratio) + distance / t;
        }
        Ok(0.5 * total)
    }
}
