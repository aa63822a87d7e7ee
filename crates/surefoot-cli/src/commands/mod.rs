//! The subcommands.

pub(crate) mod demo;
pub(crate) mod simulate;
pub(crate) mod study;
pub(crate) mod verify;

use std::io::{ErrorKind, Write};

use surefoot::Certificate;

use crate::failure::{Failure, Result};

/// Works with so many threads; 0 for one a core.
fn use_threads(threads: u64) -> Result<()> {
    rayon::ThreadPoolBuilder::new().num_threads(threads as usize).build_global().map_err(Failure::new)
}

/// The range of `--threads`.
fn threads() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(0..=1024)
}

/// A line that tells what certificates take on trust.
fn on_trust<'a>(certificates: impl Iterator<Item = &'a Certificate>) -> String {
    let mut all: Vec<&str> = Vec::new();
    for assumption in certificates.flat_map(|certificate| &certificate.assumptions) {
        if !all.contains(&assumption.as_str()) {
            all.push(assumption);
        }
    }
    format!("\non trust: {}", all.join("; "))
}

/// Writes a line to standard output. A reader that has seen enough is not an error.
fn print(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::new(format!("standard output: {e}"))),
        _ => Ok(()),
    }
}
