//! The research behind Surefoot: the paper's experiments, and studies that compare the theory with observations.
//!
//! - [`Paper`] is `surefoot paper`: the paper's tables and figures, beside the paper's numbers.
//! - [`Study`] is `surefoot study`: coverage, gates, rates, shifts, and the cost of a better certificate.
//! - [`Options`] are the settings of a simulation: flags, a TOML file and defaults. A [`Config`] has all of them.
//! - [`Experiment`] is built from a configuration: a world, a first policy, a learner and the sizes of the rounds.
//!   [`over_seeds`] runs many.
//!
//! `surefoot simulate` and `surefoot demo` take their settings and their worlds from here too. The core computes, and
//! `surefoot-terminal` prints and draws.

mod experiment;
mod options;
mod paper;
pub mod sets;
mod statistics;
mod study;

pub use experiment::{Beginning, Experiment, World, dataset, over_seeds};
pub use options::{Config, Options, Text};
pub use paper::Paper;
pub use statistics::mean_and_deviation;
pub use study::Study;
