//! The shared parts of all commands of Surefoot: failures with hints, progress, answers as table or JSON, pictures.
//!
//! - [`Failure`] is the error of a command, with a hint if there is something to try.
//! - [`progress`] draws bars on standard error, and nothing in a pipe.
//! - [`Running`] has the flags that all commands share. It writes the answer to standard output.
//! - [`figure`] draws lines with bands, and intervals in rows, as SVG and PNG with the same look.
//!
//! This crate has no computations and no commands.

mod failure;
pub mod figure;
pub mod progress;
mod running;

pub use failure::{Failure, Result};
pub use running::{Running, clean_up_on_interrupt, escaped, note, percent, print, shown, threads};
