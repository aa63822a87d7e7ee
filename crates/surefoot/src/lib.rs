//! Surefoot.

mod contexts;
mod environment;
mod error;
mod estimate;
mod features;
mod gibbs;
mod learner;
mod logs;
mod math;
mod objective;
mod optim;
mod policy;
mod regularizer;
mod schedule;
mod simulation;

pub use contexts::{Contexts, Row};
pub use environment::{Dataset, Environment, LabelBandit, Labelled, Synthetic, SyntheticSettings, Truth, Turn};
pub use error::{Error, Result};
pub use estimate::estimate;
pub use features::FeatureMap;
pub use gibbs::Gibbs;
pub use learner::{Algorithm, Crm, Lambda, Learner, Round, Shape, Start, State, Window};
pub use logs::{Eligible, Logs, RewardRange};
pub use objective::{Criterion, Objective, ObjectiveParts};
pub use optim::{Adam, Decay, Lbfgs, Optimiser, Trace};
pub use policy::{
    Basis, Decision, LinearGaussian, Mixture, Policy, Posterior, Scale, Softmax, SoftmaxTraining, Uniform,
};
pub use regularizer::Regularizer;
pub use schedule::Schedule;
pub use simulation::{SimulatedRound, simulate};
