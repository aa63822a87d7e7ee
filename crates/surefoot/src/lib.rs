//! Sequential off-policy learning: from the logs of a deployed policy to the next one, again and again.
//!
//! A stochastic policy picks an action for a context, and what comes back is a cost for that action only. Surefoot
//! learns the next policy from such logs by minimising an upper bound of its risk (PAC-Bayes with logarithmic
//! smoothing), keeps exact propensities of everything it deploys, says after each round with a proof how good the
//! policy is, and simulates the whole loop where the truth is known.
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
//! The data walks through the house once, front to back, and comes out where it went in.
//!
//! | room | what is in it |
//! | --- | --- |
//! | [`contexts`], [`features`] | feature rows, dense or sparse; maps that are fixed before the data |
//! | [`logs`] | what a policy left behind, checked once; rewards of any range |
//! | [`estimator`] | the term `h(p, q, c)` of one record, and its slope |
//! | [`policy`] | what can be deployed, and the posteriors behind it |
//! | [`evaluation`] | every estimator at once, with intervals, in one pass over a stream |
//! | [`objective`], [`optim`] | `mean h + KL/(lambda N)`, value and gradient; a closure in, a minimiser out |
//! | [`certificate`] | what is proven about a policy, from logs and policies alone; the ladder and the gate |
//! | [`audit`] | what may be called certified, and what a verifier checks |
//! | [`learn`] | the pure step `(state, logs) -> (state, report)`; all rounds at once |
//! | [`session`] | a loop under way, simulated or live: logs in, what runs next out |
//! | [`worlds`], [`simulate`](mod@simulate) | worlds in which everything is known, and the loop closed in them |
//! | [`fingerprint`], [`observer`] | names by content; who is told how far a search is |
//!
//! Each room may use those above it, and none below: a test reads the imports (`tests/layers.rs`).
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
pub mod objective;
pub mod observer;
pub mod optim;
pub mod policy;
pub mod session;
pub mod simulate;
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
