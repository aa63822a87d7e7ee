//! The crate as its users see it: one binary, since linking takes longer than the tests. `tests/memory.rs` measures its own
//! process, and is alone.

#![allow(missing_docs)]

mod actions;
mod cache;
mod candidates;
mod catalogue;
mod cifar;
mod common;
mod convert_candidates;
mod digits;
mod engines;
mod formats_agree;
mod frames;
mod idx;
mod inputs;
mod kinds;
mod limits;
mod logs;
mod npz;
mod refuted;
mod saved;
mod saved_candidates;
mod shards;
mod table_binary;
mod table_corpus;
mod table_round_trip;
mod table_text;
