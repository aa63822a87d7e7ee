//! The live loop of Surefoot: decisions over HTTP with exact propensities, durable logs, rewards that are joined when they
//! come, learning when a round is complete, certificates, the gate, and redeployment.
//!
//! ```text
//! HTTP (`http/`) -> requests, checked (`request.rs`) -> `queue.rs` -> one thread per loop (`sequencer.rs`)
//!                                                                     |
//!                                     rules (`engine/`) -> commit (`store/`) -> answers
//!                                                                     |
//!                                     rounds that are final -> `learning.rs` -> the next policy
//! ```
//!
//! This crate holds no rule of certification: a loop is a [`Session`](surefoot::Session) whose rounds come over HTTP. What
//! must be true of the records so that its certificates hold is in `docs/service.md`.

pub mod clock;
pub mod config;
pub mod demo;
pub mod engine;
mod error;
mod export;
mod http;
mod init;
mod learning;
mod logs;
mod metrics;
mod policies;
mod queue;
pub mod request;
mod run;
mod sequencer;
pub mod store;
mod time;

pub use error::{Error, Result};
pub use export::{Exported, export, export_postgres};
pub use http::{Limits, Server};
pub use init::init;
pub use logs::round_logs;
pub use run::{open_all, run, run_with};
pub use sequencer::{Event, Loop};
