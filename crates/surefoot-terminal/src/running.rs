//! The flags that all commands share, and the output of their answers.

use std::borrow::Cow;
use std::io::{ErrorKind, Write};
use std::path::Path;

use clap::Args;
use serde::{Serialize, Serializer};

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
        if self.json {
            return line(&serde_json::to_string_pretty(result).map_err(Failure::new)?);
        }
        print(&text())
    }
}

/// Sets up this many threads; 0 for one per core.
pub fn threads(threads: u64) -> Result<()> {
    rayon::ThreadPoolBuilder::new().num_threads(threads as usize).build_global().map_err(Failure::new)
}

/// Writes a text to standard output, with control characters escaped. A closed pipe is not an error.
pub fn print(text: &str) -> Result<()> {
    line(&escaped(text))
}

/// Writes a text to standard error, with control characters escaped. If that fails, there is nobody to tell.
pub fn note(text: &str) {
    let _ = std::io::stderr().write_all(escaped(text).as_bytes());
}

/// Escapes characters that control a terminal: names of columns come from files. Lines and tabs stay.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let controls = |c: char| {
        // The last two ranges change the direction of the text around them.
        (c.is_control() && c != '\n' && c != '\t')
            || ('\u{202a}'..='\u{202e}').contains(&c)
            || ('\u{2066}'..='\u{2069}').contains(&c)
    };
    if !text.contains(controls) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if controls(c) { safe.extend(c.escape_unicode()) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}

/// A probability in percent, with as many digits as it needs: 99.99 % must not read as 100 %.
pub fn percent(probability: f64) -> String {
    let digits = format!("{:.6}", 100.0 * probability);
    format!("{} %", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// Serialises a path as text. Bytes that are not UTF-8 become the replacement character.
pub fn shown<S: Serializer>(path: &impl AsRef<Path>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(&path.as_ref().display())
}

fn line(text: &str) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probability_below_1_never_reads_as_100_percent() {
        for (probability, text) in
            [(0.95, "95 %"), (0.999, "99.9 %"), (1.0 - 1e-6, "99.9999 %"), (1.0, "100 %"), (0.2, "20 %")]
        {
            assert_eq!(percent(probability), text);
        }
    }
}
