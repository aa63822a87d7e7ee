//! The flags that all commands share, and the output of their answers.

use std::io::{ErrorKind, Write};

use clap::Args;
use serde::Serialize;

use crate::failure::{Failure, Result};

/// The flags that all commands share.
#[derive(Debug, Args)]
pub struct Running {
    /// Number of threads, at most 1024; 0 for one per core. The result is the same for any number
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1024))]
    threads: u64,
    /// Write the results as one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

impl Running {
    /// Sets up the number of threads.
    pub fn start(&self) -> Result<()> {
        threads(self.threads)
    }

    /// Writes the result to standard output: as JSON with `--json`, else as text.
    pub fn answer(&self, result: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
        print(&if self.json { serde_json::to_string_pretty(result).map_err(Failure::new)? } else { text() })
    }
}

/// Sets up this many threads; 0 for one per core.
pub fn threads(threads: u64) -> Result<()> {
    rayon::ThreadPoolBuilder::new().num_threads(threads as usize).build_global().map_err(Failure::new)
}

/// Writes a line to standard output. A closed pipe is not an error.
pub fn print(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::new(format!("standard output: {e}"))),
        _ => Ok(()),
    }
}

/// The exit code of a process that was interrupted, as shells report it.
const INTERRUPTED: i32 = 130;

/// Removes temporary files if the process is told to end, by Ctrl-C or otherwise. A signal that the caller has set to
/// be ignored (`nohup`) stays ignored; then no signal is handled.
pub fn clean_up_on_interrupt() {
    // The only error is that the signals are handled already.
    let _ = ctrlc::try_set_handler(|| surefoot_data::interrupted(INTERRUPTED));
}
