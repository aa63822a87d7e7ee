//! The live loop of Surefoot: decisions over HTTP with exact propensities, durable logs, rewards that are joined when they
//! come, learning when a round is complete, certificates, the gate, and redeployment.
//!
//! ```text
//! HTTP (`http/`) -> requests, checked (`request.rs`) -> one thread per loop (`sequencer.rs`)
//!                                                                     |
//!                                     rules (`engine/`) -> commit (`store/`) -> answers
//!                                                                     |
//!                                     rounds that are final -> `learning.rs` -> the next policy
//! ```
//!
//! This crate holds no rule of certification: a loop is a [`Session`](surefoot::Session) whose rounds come over HTTP. What
//! must be true of the records so that its certificates hold is in `docs/service.md`.

mod client;
pub mod clock;
pub mod config;
pub mod demo;
pub mod engine;
mod error;
mod export;
mod history;
mod http;
mod init;
mod learning;
mod logs;
mod mcp;
mod metrics;
mod policies;
pub mod request;
mod run;
mod sequencer;
pub mod store;
mod telemetry;
mod time;
mod verdict;

pub use client::{Client, Reply, check_health};
pub use error::{Error, Result};
pub use export::{Exported, export, export_postgres};
pub use history::{Imported, import};
pub use http::{Limits, Server};
pub use init::init;
pub use logs::round_logs;
pub use mcp::mcp;
pub use run::{open_all, run, run_with};
pub use sequencer::{Event, Loop};
pub use telemetry::{LogStyle, OtlpConfig, Telemetry};
