//! The binary as its users run it: one test binary, since linking takes longer than the tests.

mod candidates;
mod data;
mod logs;
mod matrix;
mod obp;
mod paper;
mod rates;
mod scale;
mod serve;
mod service;
mod simulate;
mod snapshots;
mod streams;
mod study;
mod verify;
