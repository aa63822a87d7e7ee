//! The crate as its users see it: one binary, since linking takes longer than the tests.

#![allow(missing_docs)]

mod challengers;
mod common;
mod delayed;
mod erasing;
mod evidence;
mod faults;
mod flaky;
mod history;
mod http;
mod kills;
mod limits;
mod live;
mod machine;
mod mcp;
mod personalizer;
mod postgres;
mod servers;
