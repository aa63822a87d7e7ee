//! The subcommands.

pub(crate) mod demo;
pub(crate) mod simulate;
pub(crate) mod study;

use std::io::{ErrorKind, Write};

use crate::failure::{Failure, Result};

/// Works with so many threads; 0 for one a core.
fn use_threads(threads: u64) -> Result<()> {
    rayon::ThreadPoolBuilder::new().num_threads(threads as usize).build_global().map_err(Failure::new)
}

/// The range of `--threads`.
fn threads() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(0..=1024)
}

/// Writes a line to standard output. A reader that has seen enough is not an error.
fn print(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::new(format!("standard output: {e}"))),
        _ => Ok(()),
    }
}
