//! Sequential off-policy learning: from the logs of a deployed policy to the next one, again and again.
//!
//! A stochastic policy picks an action for a context, and what comes back is a cost for that action only. Surefoot
//! learns the next policy from such logs by minimising an upper bound of its risk (PAC-Bayes with logarithmic
//! smoothing), keeps exact propensities of everything it deploys, says after each round with a proof how good the
//! policy is, and simulates the whole loop where the truth is known.
//!
//! ```
//! use surefoot::{Algorithm, Environment, FeatureMap, Lambda, Learner, Shape, State, Synthetic, SyntheticSettings, Turn};
//!
//! // A world to act in; in production this is yours, and what it logs comes in through `Logs::new`.
//! let world = Synthetic::new(SyntheticSettings::default())?;
//! let first = world.first_policy(FeatureMap::identity(10), 0.0)?;
//!
//! let learner = Learner {
//!     algorithm: Algorithm::SeqAdjLs,
//!     lambda: Lambda::Fixed(0.4),
//!     shape: Shape::Principal,
//!     ..Learner::default()
//! };
//! let mut state = State::new(first);
//! for round in 0..3 {
//!     let logs = world.collect(state.current(), Turn { round, start: 500 * round, n: 500 })?;
//!     let (next, report) = learner.step(&state, &logs)?;
//!     println!("round {round}: KL {:.1} after {} records", report.kl, report.records);
//!     state = next;
//! }
//! let truth = world.truth(3)?;
//! assert!(truth.risk(state.current())? < truth.risk(state.first())?);
//! # Ok::<(), surefoot::Error>(())
//! ```
//!
//! # The tour
//!
//! The data walks through the house once, front to back, and comes out where it went in.
//!
//! | room | what is in it |
//! | --- | --- |
//! | [`Contexts`], [`FeatureMap`] | feature rows, dense or sparse; maps that are fixed before the data |
//! | [`Logs`], [`Eligible`], [`RewardRange`] | what a policy left behind, checked once |
//! | [`Regularizer`], [`OwnTerms`], [`estimate()`] | the estimator `h(p, q, c)`, and the risk of a policy that did not collect the logs |
//! | [`Tally`], [`Evaluation`], [`Estimator`], [`CostModel`] | every estimator at once, with intervals, in one pass over a stream |
//! | [`Criterion`], [`Objective`] | `mean h + KL/(lambda N)`, value and gradient |
//! | [`Optimiser`], [`Adam`], [`Lbfgs`] | a closure in, a minimiser and its trace out |
//! | [`Policy`], [`LinearGaussian`], [`Posterior`] | what can be deployed, and the distribution over predictors behind it |
//! | [`Learner`], [`State`] | the loop's pure step `(state, logs) -> (state, round)`; [`Algorithm`] and [`Lambda`] choose it |
//! | [`Certificate`], [`ladder()`], [`Gate`], [`verify()`] | what is proven about a policy, from logs and policies alone; [`Terms`] are fixed before the data |
//! | [`retrain()`] | all of that at once: the next policy from all rounds, and what is known of it |
//! | [`Gibbs`], [`Mixture`] | the exact posterior over a finite set of policies |
//! | [`Environment`], [`LabelBandit`], [`Synthetic`], [`Finite`], [`Truth`] | worlds in which everything is known |
//! | [`Course`], [`Taken`], [`Proven`] | a loop under way, simulated or live: logs in, what runs next out |
//! | [`simulate()`], [`Plan`], [`Schedule`] | the loop closed; a [`Watch`] looks on, and may stop it |
//!
//! # Conventions
//!
//! Costs are in `[-1, 0]`, lower is better; a risk is an expected cost. Symbols are the paper's: `p` the probability
//! under the policy that is judged, `q` the logged propensity, `c` the cost, `K` actions. Features are `f32`, and so is
//! the inside of a search with Adam ([`Precision`]); propensities, estimates and parameters are `f64`. Matrices are
//! feature-major. Randomness is an argument: the same seed gives the same bits, whatever the number of threads. Data is
//! checked in constructors, and the [`Error`] names the row, the column, what is allowed and what came.
//!
//! # What is not here
//!
//! Files, the network and the command line (other crates of this workspace); continuous actions; policies that are not
//! linear in (mapped) features.

mod certificate;
mod contexts;
mod course;
mod environment;
mod error;
mod estimate;
mod evaluation;
mod features;
mod fingerprint;
mod gibbs;
mod learner;
mod logs;
mod math;
mod objective;
mod optim;
mod own;
mod policy;
mod regularizer;
mod retrain;
mod schedule;
mod simulation;
mod watch;

pub use certificate::{
    Birth, Case, Certificate, Challenger, Difference, Form, Gate, Quantity, Share, Since, Smoothing, Spending, Terms,
    Theorem, Verdict, ladder, verify,
};
pub use contexts::{Contexts, ContextsBuilder, Indices, Memory, Row};
pub use course::{Course, Past, Proven, Taken};
pub use environment::{
    Dataset, Environment, Finite, LabelBandit, Labelled, Profile, Synthetic, SyntheticSettings, Truth, Turn,
};
pub use error::{Error, Result};
pub use estimate::estimate;
pub use evaluation::{
    Contrast, CostModel, Estimate, Estimator, Evaluation, EvaluationSettings, Interval, ModelFit, Modelled, Observed,
    Selection, Standing, Tally, Weights,
};
pub use features::{FeatureMap, KernelFeatures};
pub use fingerprint::Fingerprint;
pub use gibbs::Gibbs;
pub use learner::{
    Algorithm, Candidate, Crm, Lambda, Learner, Precision, Round, Shape, Sharpness, Start, State, Window,
};
pub use logs::{Eligible, Logs, RewardRange};
pub use objective::{Criterion, Objective, ObjectiveParts};
pub use optim::{Adam, Decay, Lbfgs, Optimiser, Trace};
pub use own::{Own, OwnTerms};
pub use policy::{
    Basis, Decision, LinearGaussian, Mixture, Policy, Posterior, Scale, Softmax, SoftmaxTraining, Uniform,
};
pub use regularizer::Regularizer;
pub use retrain::{Retrained, retrain};
pub use schedule::Schedule;
pub use simulation::{Certify, GateDecision, Outcome, Plan, SimulatedRound, simulate, simulate_watched};
pub use watch::{Unwatched, Watch};

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// What only benchmarks look at: no part of the interface.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::math::linear::products;
}
