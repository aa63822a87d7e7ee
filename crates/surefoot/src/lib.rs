//! Sequential off-policy learning: learn the next policy from the logs of the deployed one, deploy it, and repeat.
//!
//! A stochastic policy chooses an action for a context and observes the cost of that action only. Surefoot learns the
//! next policy from such logs by minimising an upper bound on its risk (PAC-Bayes with logarithmic smoothing). It
//! computes exact propensities for every policy it deploys, and after each round it certifies a bound on the policy's
//! risk. It also simulates the whole loop in worlds where the true risk is known.
//!
//! ```
//! use surefoot::learn::{Family, State};
//! use surefoot::worlds::{Environment, Synthetic, SyntheticSettings, Turn};
//! use surefoot::{Algorithm, FeatureMap, Lambda, Learner};
//!
//! // A world to act in; in production this is yours, and what it logs comes in through `Logs::new`.
//! let world = Synthetic::new(SyntheticSettings::default())?;
//! let first = world.first_policy(FeatureMap::identity(10), 0.0)?;
//!
//! let learner = Learner {
//!     algorithm: Algorithm::SeqAdjLs,
//!     lambda: Lambda::Fixed(0.4),
//!     family: Family::Shaped,
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
//! The modules in the order in which data passes through them:
//!
//! | module | contents |
//! | --- | --- |
//! | [`contexts`], [`features`] | feature rows, dense or sparse; feature maps that are fixed before the data |
//! | [`logs`] | the logged records of a policy, checked once; conversion of rewards to costs |
//! | [`estimator`] | the term `h(p, q, c)` of one record, and its slope |
//! | [`policy`] | the policies that can be deployed, and the posteriors behind them |
//! | [`model`] | reward models, by Bayesian linear regression, and Thompson sampling with them |
//! | [`evaluation`] | off-policy evaluation by many estimators, with intervals, in one pass over a stream |
//! | [`objective`], [`optim`] | `mean h + KL/(lambda N)` with its gradient; optimisers that minimise a closure |
//! | [`certificate`] | proven bounds on a policy's risk from logs and policies alone; the ladder and the gate |
//! | [`audit`] | which numbers may be called certified, and what a verifier checks |
//! | [`learn`] | the pure step `(state, logs) -> (state, report)`; learning from all rounds at once |
//! | [`work`] | the part of learning that reads contexts, for processes that hold some of them |
//! | [`session`] | a running loop, simulated or live: takes logs, returns the policy to run next |
//! | [`worlds`], [`simulate`](mod@simulate) | worlds with known truth, and the closed loop in them |
//! | [`fingerprint`], [`observer`] | names that depend on content only; progress reports of a search |
//!
//! Which module may use which others is listed in `tests/it/layers.rs`, which checks the imports.
//!
//! # Conventions
//!
//! Costs are in `[-1, 0]`, lower is better; a risk is an expected cost. Symbols are the paper's: `p` is the probability
//! under the target policy, `q` the logged propensity, `c` the cost, and `K` the number of actions. Features are `f32`,
//! and so are the computations of a search with Adam ([`Precision`](learn::Precision)); propensities, estimates and parameters are `f64`.
//! Matrices are feature-major. Every random function takes a seed: the same seed gives the same bits on any number of
//! threads. Constructors check their data, and an [`Error`] names the row, the column, the allowed values and the value
//! found.
//!
//! # Out of scope
//!
//! Files, the network and the command line (see the other crates of this workspace); continuous actions; policies that
//! are not linear in the (mapped) features.

pub mod audit;
pub mod certificate;
pub mod contexts;
mod error;
pub mod estimator;
pub mod evaluation;
pub mod features;
pub mod fingerprint;
pub mod learn;
pub mod logs;
mod math;
pub mod model;
pub mod objective;
pub mod observer;
pub mod optim;
pub mod policy;
pub mod session;
pub mod simulate;
mod wire;
pub mod work;
pub mod worlds;

pub use certificate::{Certificate, Gate, Protocol};
pub use contexts::Contexts;
pub use error::{Error, Result};
pub use evaluation::Evaluator;
pub use features::FeatureMap;
pub use fingerprint::Fingerprint;
pub use learn::{Algorithm, Lambda, Learner};
pub use logs::{Logs, RewardRange};
pub use policy::{LinearGaussian, Policy};
pub use session::Session;
pub use simulate::simulate;

/// Compiles the example of docs/rust.md as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
struct Page;

/// For benchmarks only; not part of the public interface.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::math::linear::products;
}
