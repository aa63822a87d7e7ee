//! FEATURES: maps `x -> phi(x)` that are fixed before the data, so that every bound remains valid.

mod fourier;
mod joint;
mod kernel;
mod softmax;
mod trees;
mod wire;

pub use joint::{Cross, Joint};
pub use kernel::KernelFeatures;
pub use softmax::SoftmaxFeatures;
pub use trees::{Boosting, TreeFeatures};

use std::ops::Range;
use std::sync::Arc;

use rand::seq::SliceRandom;

use self::fourier::Fourier;
use crate::contexts::Contexts;
use crate::error::{Error, Result};
use crate::fingerprint::Hasher;
use crate::math::random::{Purpose, stream};

/// Maps raw contexts to the features of a policy. It is part of the policy, which applies it to every context.
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
    made: Made,
    /// Whether the contexts themselves come before the made features.
    contexts: bool,
    /// Softmax features that come before the made features.
    softmax: Option<Arc<SoftmaxFeatures>>,
    intercept: bool,
}

/// The kind of features.
#[derive(Debug, Clone, PartialEq)]
enum Made {
    /// The contexts themselves.
    Plain,
    Fourier(Fourier),
    Kernel(Arc<KernelFeatures>),
    Trees(Arc<TreeFeatures>),
}

impl FeatureMap {
    /// The largest number of landmarks of [`kernel`](FeatureMap::kernel).
    pub const MOST_LANDMARKS: usize = kernel::MOST_LANDMARKS;

    /// The contexts unchanged.
    pub fn identity(input: usize) -> Self {
        FeatureMap { input, made: Made::Plain, contexts: false, softmax: None, intercept: false }
    }

    /// `count` random Fourier features (Rahimi and Recht 2007) of contexts with `input` features. The entries of `W`
    /// have standard deviation `1/bandwidth`; [`rule_of_thumb`](FeatureMap::rule_of_thumb) proposes one.
    pub fn fourier(input: usize, count: usize, bandwidth: f64, seed: u64) -> Result<Self> {
        let made = Made::Fourier(Fourier::new(input, count, bandwidth, seed)?);
        Ok(FeatureMap { input, made, contexts: false, softmax: None, intercept: false })
    }

    /// The `count` leading principal components of the kernel `k(x, y) = exp(-|x - y|^2/(2 bandwidth^2))`:
    ///
    /// `phi(x) = Lambda^{-1/2} V' k(L, x)`. The landmarks `L` are drawn from the known contexts (all of them, up to
    /// [`MOST_LANDMARKS`](FeatureMap::MOST_LANDMARKS)). `V` and `Lambda` are the leading eigenpairs of
    /// `k(L, L) = V Lambda V'`. Inner products of `phi` approach the kernel as `count` and the number of landmarks
    /// grow. For the same kernel this needs far fewer features than random Fourier features.
    ///
    /// The map must be fixed before the data that a policy learns from: use contexts seen earlier. A good bandwidth is
    /// somewhat smaller than the [`rule_of_thumb`](FeatureMap::rule_of_thumb): half of it on MNIST.
    pub fn kernel(known: &Contexts, count: usize, bandwidth: f64) -> Result<Self> {
        Ok(Self::of_kernel(KernelFeatures::principal(known, count, bandwidth, false)?))
    }

    /// Like [`kernel`](FeatureMap::kernel), with at most `most` features: fewer if there are fewer contexts, or if they
    /// do not support as many at this bandwidth.
    pub fn kernel_at_most(known: &Contexts, most: usize, bandwidth: f64) -> Result<Self> {
        Ok(Self::of_kernel(KernelFeatures::principal(known, most, bandwidth, true)?))
    }

    /// The features `P' k(L, x)` from the values of [`kernel_parts`](FeatureMap::kernel_parts): landmarks, bandwidth
    /// and the projection `P`, row-major with one row per landmark.
    pub fn kernel_from_parts(landmarks: Contexts, bandwidth: f64, projection: Vec<f64>) -> Result<Self> {
        Ok(Self::of_kernel(KernelFeatures::from_parts(landmarks, bandwidth, projection)?))
    }

    /// The leaves of boosted trees, grown on logged records over `actions` actions with rewards in `[0, 1]`.
    ///
    /// Each tree has one feature per leaf: `1/sqrt(number of trees)` for the contexts in the leaf, and 0 for others. So
    /// `|phi(x)| = 1`, and a reward model that is linear in the features is a boosted ensemble with new values in its
    /// leaves. Every tree splits on features of the context, where this improves the squared error of all actions
    /// together; a record counts for its own action only.
    ///
    /// The map must be fixed before the data that certifies a policy: use records of earlier rounds. The thresholds are
    /// midpoints between two contexts' values of a feature, near quantiles; nothing else of the records is stored. If
    /// the records support no split, there is one feature, which is always 1.
    ///
    /// ```
    /// use surefoot::features::Boosting;
    /// use surefoot::{Contexts, FeatureMap};
    ///
    /// // Action 1 is right above 0.5, action 0 below.
    /// let x: Vec<f32> = (0..200).map(|i| i as f32 / 200.0).collect();
    /// let action: Vec<u32> = (0..200).map(|i| i % 2).collect();
    /// let right = |(x, a): (&f32, &u32)| f64::from(u8::from((*x > 0.5) == (*a == 1)));
    /// let reward: Vec<f64> = x.iter().zip(&action).map(right).collect();
    ///
    /// let boosting = Boosting { trees: 1, leaves: 2, ..Boosting::default() };
    /// let map = FeatureMap::trees(&boosting, 2, &Contexts::dense(x, 1)?, &action, &reward)?;
    /// let phi = map.apply(&Contexts::dense(vec![0.3, 0.7], 1)?)?.to_dense();
    /// assert_eq!((phi.row(0).values(), phi.row(1).values()), (&[1.0, 0.0][..], &[0.0, 1.0][..]));
    /// # Ok::<(), surefoot::Error>(())
    /// ```
    pub fn trees(
        boosting: &Boosting,
        actions: usize,
        contexts: &Contexts,
        action: &[u32],
        reward: &[f64],
    ) -> Result<Self> {
        Ok(Self::of_trees(boosting.grow(actions, contexts, action, reward, |_| ())?))
    }

    /// The features from the values of [`tree_parts`](FeatureMap::tree_parts): the feature and the threshold of each
    /// node, in the order of [`TreeFeatures`].
    pub fn trees_from_parts(input: usize, features: Vec<u32>, thresholds: Vec<f32>) -> Result<Self> {
        Ok(Self::of_trees(TreeFeatures::from_parts(input, features, thresholds)?))
    }

    /// Builds a map from its name: `raw`, `rff:NUMBER[:BANDWIDTH]` or `kernel:NUMBER[:BANDWIDTH]`. The default
    /// bandwidth is the [`rule_of_thumb`](FeatureMap::rule_of_thumb) of the known contexts, and half of that for a
    /// kernel.
    pub fn named(text: &str, known: &Contexts, seed: u64) -> Result<Self> {
        let bad = || Error::setting("features", "raw, rff:NUMBER[:BANDWIDTH] or kernel:NUMBER[:BANDWIDTH]", text);
        let (kind, count, bandwidth) = match text.split(':').collect::<Vec<_>>()[..] {
            ["raw"] => return Ok(FeatureMap::identity(known.features())),
            [kind, count] => (kind, count.parse().map_err(|_| bad())?, None),
            [kind, count, bandwidth] => {
                (kind, count.parse().map_err(|_| bad())?, Some(bandwidth.parse().map_err(|_| bad())?))
            }
            _ => return Err(bad()),
        };
        let bandwidth = |factor: f64| bandwidth.unwrap_or_else(|| factor * FeatureMap::rule_of_thumb(known));
        match kind {
            "rff" => FeatureMap::fourier(known.features(), count, bandwidth(1.0), seed),
            // Measured on MNIST, where factors of 0.4 and 0.5 are better than 0.7 and 1.
            "kernel" => FeatureMap::kernel_at_most(known, count, bandwidth(0.5)),
            _ => Err(bad()),
        }
    }

    fn of_kernel(kernel: KernelFeatures) -> Self {
        let input = kernel.landmarks().features();
        FeatureMap { input, made: Made::Kernel(Arc::new(kernel)), contexts: false, softmax: None, intercept: false }
    }

    fn of_trees(trees: TreeFeatures) -> Self {
        FeatureMap {
            input: trees.input(),
            made: Made::Trees(Arc::new(trees)),
            contexts: false,
            softmax: None,
            intercept: false,
        }
    }

    /// Puts the contexts themselves before Fourier, kernel or tree features: a policy is then linear in both. The
    /// [`identity`](FeatureMap::identity) stays as it is.
    #[must_use]
    pub fn with_contexts(mut self) -> Self {
        self.contexts = !matches!(self.made, Made::Plain);
        self
    }

    /// Puts the probabilities of a softmax before Fourier, kernel or tree features, and after the contexts if they are there
    /// too.
    pub fn with_softmax(mut self, softmax: Arc<SoftmaxFeatures>) -> Result<Self> {
        if matches!(self.made, Made::Plain) {
            return Err(Error::setting("softmax features", "beside Fourier, kernel or tree features", "alone"));
        }
        if softmax.input() != self.input {
            let expected = format!("{} features, as the feature map", self.input);
            return Err(Error::size("the contexts of a softmax", expected, softmax.input()));
        }
        self.softmax = Some(softmax);
        Ok(self)
    }

    /// The same map without softmax features.
    #[must_use]
    pub fn without_softmax(mut self) -> Self {
        self.softmax = None;
        self
    }

    /// Appends a feature that is always 1.
    #[must_use]
    pub fn with_intercept(mut self) -> Self {
        self.intercept = true;
        self
    }

    /// The median distance between the contexts (Gretton et al. 2012): a bandwidth at which pairs look neither all
    /// alike nor all unrelated. The median is over at most 1,000 pairs; it is 1 if all contexts are equal.
    ///
    /// The bandwidth must be fixed before the data that a policy learns from: use contexts seen earlier.
    pub fn rule_of_thumb(contexts: &Contexts) -> f64 {
        // In a random order, because data may be sorted by class, and pairs would come from the same class.
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

    /// The number of input features.
    pub fn input(&self) -> usize {
        self.input
    }

    /// The number of output features.
    pub fn output(&self) -> usize {
        let made = match &self.made {
            Made::Plain => self.input,
            Made::Fourier(fourier) => fourier.count,
            Made::Kernel(kernel) => kernel.count(),
            Made::Trees(trees) => trees.count(),
        };
        made + self.beside().iter().sum::<usize>() + usize::from(self.intercept)
    }

    /// The numbers of contexts' features and of softmax features that come before the made features.
    fn beside(&self) -> [usize; 2] {
        [if self.contexts { self.input } else { 0 }, self.softmax.as_ref().map_or(0, |softmax| softmax.count())]
    }

    /// The features of each kind, in order: the contexts, the softmax features, the made features, the intercept.
    /// Kinds that are absent are left out.
    pub fn kinds(&self) -> Vec<Range<usize>> {
        let (end, made) = (self.output(), self.output() - usize::from(self.intercept));
        let [contexts, softmax] = self.beside();
        let kinds = [0..contexts, contexts..contexts + softmax, contexts + softmax..made, made..end];
        kinds.into_iter().filter(|kind| !kind.is_empty()).collect()
    }

    /// The count, bandwidth and seed of the Fourier features, if there are any.
    pub fn fourier_settings(&self) -> Option<(usize, f64, u64)> {
        match &self.made {
            Made::Fourier(fourier) => Some((fourier.count, fourier.bandwidth, fourier.seed)),
            _ => None,
        }
    }

    /// The parts of the kernel features, if there are any.
    pub fn kernel_parts(&self) -> Option<&KernelFeatures> {
        match &self.made {
            Made::Kernel(kernel) => Some(kernel),
            _ => None,
        }
    }

    /// The parts of the tree features, if there are any.
    pub fn tree_parts(&self) -> Option<&TreeFeatures> {
        match &self.made {
            Made::Trees(trees) => Some(trees),
            _ => None,
        }
    }

    /// The softmax features that come before the made features, if there are any.
    pub fn softmax(&self) -> Option<&Arc<SoftmaxFeatures>> {
        self.softmax.as_ref()
    }

    /// Whether the features are the contexts themselves.
    pub fn is_identity(&self) -> bool {
        self.is_linear() && !self.intercept
    }

    /// Whether the features are the contexts, with or without an intercept. Functions that are linear in the contexts
    /// are then linear in the features.
    pub(crate) fn is_linear(&self) -> bool {
        matches!(self.made, Made::Plain)
    }

    /// Whether the contexts themselves come before the made features.
    pub fn contexts(&self) -> bool {
        self.contexts
    }

    /// Whether a constant feature is added.
    pub fn intercept(&self) -> bool {
        self.intercept
    }

    /// Adds itself to a fingerprint, without kernel and tree features, which were introduced later:
    /// [`hash_made`](FeatureMap::hash_made) adds those at the end.
    pub(crate) fn hash(&self, hasher: &mut Hasher) {
        hasher.count(self.input);
        hasher.count(usize::from(self.intercept));
        let (count, bandwidth, seed) = self.fourier_settings().unwrap_or((0, 0.0, 0));
        hasher.count(count);
        hasher.double(bandwidth);
        hasher.text(&seed.to_string());
    }

    /// Adds its kernel or tree features to a fingerprint, if there are any, and what comes before made features.
    pub(crate) fn hash_made(&self, hasher: &mut Hasher) {
        if let Some(kernel) = self.kernel_parts() {
            hasher.text("kernel");
            hasher.text(&kernel.fingerprint().to_string());
        }
        if let Some(trees) = self.tree_parts() {
            hasher.text("trees");
            hasher.text(&trees.fingerprint().to_string());
        }
        if self.contexts {
            hasher.text("contexts");
        }
        if let Some(softmax) = &self.softmax {
            hasher.text("softmax");
            hasher.text(&softmax.fingerprint().to_string());
        }
    }

    /// Maps contexts to features.
    pub fn apply(&self, contexts: &Contexts) -> Result<Contexts> {
        if contexts.features() != self.input {
            let expected = format!("{} features, as the policy", self.input);
            return Err(Error::size("contexts", expected, contexts.features()));
        }
        if contexts.is_absent() {
            return Err(Error::setting(
                "the contexts",
                "in this process",
                "held by an engine, which cannot do this work",
            ));
        }
        let mapped = match &self.made {
            Made::Plain => contexts.clone(),
            Made::Fourier(fourier) => fourier.apply(contexts)?,
            Made::Kernel(kernel) => kernel.apply(contexts)?,
            Made::Trees(trees) => trees.apply(contexts)?,
        };
        let mapped = match &self.softmax {
            Some(softmax) => softmax.apply(contexts)?.beside(&mapped)?,
            None => mapped,
        };
        let mapped = if self.contexts { contexts.beside(&mapped)? } else { mapped };
        if self.intercept { mapped.with_ones() } else { Ok(mapped) }
    }
}

#[cfg(test)]
mod tests;
