//! The research behind Surefoot: the paper's experiments, and studies of what the theory says against what is seen.
//!
//! - [`Paper`] is `surefoot paper`: the paper's tables and figures, with the paper's numbers beside them.
//! - [`Study`] is `surefoot study`: coverage, gates, rates, shifts, and what a better certificate costs.
//! - [`Options`] are the settings of a simulation: flags, a TOML file and defaults. A [`Config`] has them all.
//! - [`Experiment`] is made of a configuration: a world, a first policy, a learner and the sizes of the rounds.
//!   [`over_seeds`] runs many.
//!
//! `surefoot simulate` and `surefoot demo` take their settings and their worlds from here too. What is computed is in the
//! core, and whatever talks or draws is in `surefoot-terminal`.

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
