//! What all commands of Surefoot share: failures with hints, progress, answers as table or JSON, pictures.
//!
//! - [`Failure`] is what a command says when it cannot do its work, with a hint where there is something to try.
//! - [`progress`] draws bars on standard error, and nothing in a pipe.
//! - [`Running`] is the flags that every command has; it writes the answer to standard output.
//! - [`figure`] draws lines with bands, and intervals in rows, as SVG and PNG with the same look.
//!
//! What is computed is not here, and neither is any command.

mod failure;
pub mod figure;
pub mod progress;
mod running;

pub use failure::{Failure, Result};
pub use running::{Running, print, threads};
