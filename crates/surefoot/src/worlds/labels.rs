//! A classification data set turned into a bandit: the action is a guess of the label.

use std::sync::OnceLock;

use rand::seq::SliceRandom;

use super::{Dataset, Environment, Truth, Turn, interact};
use crate::contexts::Labelled;
use crate::error::{Error, Result, check_setting};
use crate::features::FeatureMap;
use crate::logs::Logs;
use crate::math::random::{Purpose, stream};
use crate::policy::{LinearGaussian, Policy, Posterior, Scale, Softmax, SoftmaxTraining};

/// The right label brings a reward with probability `1 - noise`, any other label with probability `noise`.
///
/// The training split is shuffled and cut in two. The first policy is trained on a small part; the rest is used for
/// interactions in that order, each record once. Risks are computed on the test split. Rows are divided by their norms,
/// in a copy unless [`Dataset::unit_rows`] has already done that; then the data is shared.
#[derive(Debug, Clone)]
pub struct LabelBandit {
    name: String,
    classes: usize,
    noise: f64,
    seed: u64,
    logging: Labelled,
    stream: Labelled,
    test: Labelled,
    /// The softmax behind the first policy, fitted on first use: the same for every `alpha`.
    trained: OnceLock<Softmax>,
}

impl LabelBandit {
    /// The share of the training split on which the first policy is trained, as in the paper.
    pub const LOGGING_SHARE: f64 = 0.05;

    /// `noise` is in `[0, 0.5]`; the seed determines the split, the decisions and the rewards.
    pub fn new(data: &Dataset, noise: f64, seed: u64) -> Result<Self> {
        check_setting("the noise", noise, (0.0..=0.5).contains(&noise), "in [0, 0.5]")?;
        let n = data.train().len();
        let logging = ((n as f64 * Self::LOGGING_SHARE).round() as usize).max(1);
        if logging >= n {
            return Err(Error::size("the training split", "at least 2 rows", n));
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.shuffle(&mut stream(seed, Purpose::Split, 0));
        let train = data.train().clone().unit_rows();
        Ok(LabelBandit {
            name: data.name().to_owned(),
            classes: data.classes(),
            noise,
            seed,
            logging: train.select(&order[..logging]),
            stream: train.select(&order[logging..]),
            test: data.test().clone().unit_rows(),
            trained: OnceLock::new(),
        })
    }

    /// The same bandit with features of the contexts as its contexts; they are not divided by their norms again.
    ///
    /// A policy with a feature map applies it at every call. Here all contexts are mapped once, and policies use them
    /// as they are. A simulation gives the same result in a fraction of the time.
    pub fn with_features(self, map: &FeatureMap) -> Result<Self> {
        // No row is in more than one of them.
        Ok(LabelBandit {
            logging: self.logging.map(|x| map.apply(x))?,
            stream: self.stream.map(|x| map.apply(x))?,
            test: self.test.map(|x| map.apply(x))?,
            trained: OnceLock::new(),
            ..self
        })
    }

    /// The data set's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of interactions available.
    pub fn interactions(&self) -> usize {
        self.stream.len()
    }

    /// The records on which the first policy is trained. Anything that must be fixed "before the data" may use them.
    pub fn logging_split(&self) -> &Labelled {
        &self.logging
    }

    /// The first policy `N(alpha W, I)`. `W` are the weights of a softmax fitted to the logging split, and `alpha` is
    /// its inverse temperature; 0 gives the uniform policy.
    pub fn first_policy(&self, features: FeatureMap, alpha: f64) -> Result<LinearGaussian> {
        let softmax = self.softmax(&features)?.with_alpha(alpha)?;
        let mean = softmax.weights().iter().map(|w| alpha * w).collect();
        LinearGaussian::new(features, Posterior::new(self.classes, mean, Scale::Shared(1.0))?)
    }

    /// The softmax fitted to the logging split.
    fn softmax(&self, features: &FeatureMap) -> Result<Softmax> {
        if let Some(trained) = self.trained.get().filter(|trained| trained.features() == features) {
            return Ok(trained.clone());
        }
        let training = SoftmaxTraining { seed: self.seed, ..SoftmaxTraining::default() };
        let softmax = Softmax::train(features.clone(), &self.logging, self.classes, &training)?;
        // Only the first value is kept.
        let _ = self.trained.set(softmax.clone());
        Ok(softmax)
    }

    /// The expected costs of the right label and of any other.
    fn costs(&self) -> (f64, f64) {
        (self.noise - 1.0, -self.noise)
    }
}

impl Environment for LabelBandit {
    fn actions(&self) -> usize {
        self.classes
    }

    fn collect(&self, policy: &dyn Policy, turn: Turn) -> Result<Logs> {
        let end = turn.start.saturating_add(turn.n);
        if end > self.stream.len() {
            return Err(Error::setting("the interactions", format!("at most {}", self.stream.len()), end));
        }
        let contexts = self.stream.contexts().slice(turn.start..end);
        let (right, wrong) = self.costs();
        interact(policy, contexts, None, turn, self.seed, |i, a| {
            if self.stream.labels()[turn.start + i] as usize == a { right } else { wrong }
        })
    }

    fn truth(&self, _round: usize) -> Result<Truth> {
        let (right, wrong) = self.costs();
        Truth::two_values(self.test.contexts().clone(), self.classes, self.test.labels().to_vec(), right, wrong)
    }
}
