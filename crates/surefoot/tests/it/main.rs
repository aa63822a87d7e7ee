//! The crate as its users see it: one binary, since linking takes longer than the tests.

#![allow(missing_docs)]

mod candidates;
mod certificates;
mod challengers;
mod elsewhere;
mod forgeries;
mod golden;
mod layers;
mod learning;
