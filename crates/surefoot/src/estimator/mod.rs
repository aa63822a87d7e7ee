//! ESTIMATOR: the term `h(p, q, c)` of one record.

mod custom;
mod regularizer;

pub use custom::{Custom, CustomEstimator};
pub use regularizer::Regularizer;
