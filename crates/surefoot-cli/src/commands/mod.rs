//! The subcommands.

pub(crate) mod convert;
pub(crate) mod data;
pub(crate) mod demo;
pub(crate) mod evaluate;
pub(crate) mod learn;
pub(crate) mod lint;
pub(crate) mod paper;
pub(crate) mod score;
pub(crate) mod select;
pub(crate) mod simulate;
pub(crate) mod study;
pub(crate) mod verify;

use std::io::{ErrorKind, Write};

use clap::Args;
use serde::Serialize;
use surefoot::Certificate;

use crate::failure::{Failure, Result};

/// How a command runs, and how it answers: flags that all of them have.
#[derive(Debug, Args)]
pub(crate) struct Running {
    /// Threads; 0 for one a core. It does not change the result
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1024))]
    threads: u64,
    /// Write the results as one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

impl Running {
    /// Works with so many threads.
    fn start(&self) -> Result<()> {
        threads(self.threads)
    }

    /// Writes the result to standard output, for a program or for a reader.
    fn answer(&self, result: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
        print(&if self.json { serde_json::to_string_pretty(result).map_err(Failure::new)? } else { text() })
    }
}

/// Works with so many threads.
fn threads(threads: u64) -> Result<()> {
    rayon::ThreadPoolBuilder::new().num_threads(threads as usize).build_global().map_err(Failure::new)
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
