//! `surefoot convert`: log files from one format to another.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use surefoot_data::{Converted, Format, convert};
use surefoot_terminal::{Failure, Result, Running, progress};

use crate::logs::LogFlags;

/// Convert log files between Parquet, CSV, JSON lines, dsjson, Vowpal Wabbit's text and Open Bandit Pipeline's npz
///
/// Columns get Surefoot's names (propensity_score becomes pscore, click becomes reward, cost becomes reward with its sign
/// turned); those that have no role keep theirs. Values are not checked (see surefoot lint), not repaired, and not left out unless asked.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot convert decisions.dsjson --out logs.parquet\n  \
    surefoot convert monday.csv tuesday.csv --out both.jsonl\n  \
    surefoot convert logs.parquet --out logs.vw")]
pub(crate) struct Convert {
    #[command(flatten)]
    logs: LogFlags,
    /// The file that is written; the end of its name tells the format
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// Its format, if its name does not tell
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,
    /// Columns to leave out, such as those that the format has no place for; pi_* stands for all that begin with pi_
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    ignore: Vec<String>,
    #[command(flatten)]
    running: Running,
}

#[derive(Debug, Serialize)]
struct Output<'a> {
    version: &'static str,
    file: &'a PathBuf,
    records: u64,
    renamed: &'a [(String, String)],
    #[serde(skip_serializing_if = "Option::is_none")]
    numbered: Option<&'a [String]>,
}

impl Convert {
    pub(crate) fn run(self) -> Result<()> {
        self.running.start()?;
        let format = self.to.map_or_else(|| Format::of(&self.out), Ok).map_err(Failure::new)?;
        let bar = progress::doing("converting", self.running.quiet);
        let Converted { records, renamed, numbered } = convert(&self.logs.reader(), &self.out, format, &self.ignore)
            .map_err(|e| {
                Failure::new(e).hint("columns that the format has no place for can be left out with --ignore")
            })?;
        bar.finish_and_clear();
        let version = env!("CARGO_PKG_VERSION");
        let output = Output { version, file: &self.out, records, renamed: &renamed, numbered: numbered.as_deref() };
        self.running.answer(&output, || {
            let mut text = format!("wrote {records} records to {}", self.out.display());
            for (from, to) in &renamed {
                text.push_str(&format!("\n  {from} is now {to}"));
            }
            for (number, name) in numbered.iter().flatten().enumerate() {
                text.push_str(&format!("\n  action {name:?} is now {number}"));
            }
            text
        })
    }
}
