//! The crate as its users see it: one binary, since linking takes longer than the tests.

#![allow(missing_docs)]

mod challengers;
mod common;
mod delayed;
mod document;
mod erasing;
mod faults;
mod flaky;
mod http;
mod kills;
mod limits;
mod live;
mod machine;
mod postgres;
mod servers;
