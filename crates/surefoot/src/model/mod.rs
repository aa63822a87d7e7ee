//! REWARD MODELS: the reward of every action in a context by Bayesian regression, linear or logistic, and the policy of the
//! linear Gaussian class that it gives.
//!
//! 1. [`Statistics`] are sums over records, per action. They are merged over shards and grow round by round.
//! 2. [`Regression::fit`] turns them into a [`RewardModel`]. Prior and noise maximise the evidence.
//! 3. [`RewardModel::policy`] is Thompson sampling with one covariance for all actions: a
//!    [`LinearGaussian`](crate::LinearGaussian) policy, with exact propensities and the same files.
//!
//! For rewards that are clicks, [`Logistic::fit`] goes on from the linear model: with few clicks, probabilities are far from
//! linear in the features.
//!
//! For candidates with features there is one model of joint features, [`JointModel`].
//!
//! No record is weighted by its propensity, and records of reward 0 count like any other.
//!
//! # Should features have an intercept?
//! Not where the policy explores, if there are kernel features. An action that was tried in a few wrong contexts gets a
//! low intercept, and with it a low score in *all* contexts: it may never be tried again where it is right. Without an
//! intercept, an action has the mean reward of all records wherever it was not tried. With the contexts alone as
//! features, and for logs of a fixed policy, an intercept is needed for the different mean rewards of actions.
//!
//! ```
//! use surefoot::model::{Regression, Statistics};
//! use surefoot::worlds::{Environment, Synthetic, SyntheticSettings, Turn};
//! use surefoot::{FeatureMap, LinearGaussian};
//!
//! let world = Synthetic::new(SyntheticSettings::default())?;
//! let map = FeatureMap::identity(10).with_intercept();
//! let mut policy = LinearGaussian::standard(map.clone(), world.actions())?;
//! let mut statistics = Statistics::new(world.actions(), map.output())?;
//! for round in 0..3 {
//!     let logs = world.collect(&policy, Turn { round, start: 500 * round, n: 500 })?;
//!     statistics.add_logs(&map, &logs)?;
//!     policy = Regression::default().fit(&statistics, &map.kinds())?.policy(&map, 0.5)?;
//! }
//! let truth = world.truth(3)?;
//! assert!(truth.risk(&policy)? < truth.risk(&world.first_policy(map, 0.0)?)?);
//! # Ok::<(), surefoot::Error>(())
//! ```

mod evidence;
mod joint;
mod logistic;
mod regression;
mod reward;
mod sparse;
mod statistics;

pub use joint::JointModel;
pub use logistic::Logistic;
pub(crate) use logistic::{Coefficients, LogisticTask};
pub use regression::Regression;
pub use reward::{Link, Prediction, RewardModel};
pub use statistics::Statistics;
pub(crate) use statistics::StatisticsTask;

#[cfg(test)]
mod tests;
