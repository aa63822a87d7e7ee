//! `surefoot convert`: converts log files from one format to another.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use surefoot_data::{Converted, Format, check_not_read, check_output, convert};
use surefoot_terminal::{Failure, Result, Running, progress};

use crate::logs::LogFlags;

/// Convert log files from one format to another
///
/// Columns with a role get Surefoot's names: propensity_score becomes pscore, click becomes reward, and cost becomes
/// reward with the opposite sign. Other columns keep their names. Values are neither checked (see surefoot lint) nor
/// repaired. No column is left out without --ignore, but for timestamp, policy_version and probabilities, which vw has no
/// place for: the answer names what was left out.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot convert decisions.dsjson --out logs.parquet\n  \
    surefoot convert monday.csv tuesday.csv --out both.jsonl\n  \
    surefoot convert logs.parquet --out logs.vw")]
pub(crate) struct Convert {
    #[command(flatten)]
    logs: LogFlags,
    /// File to write; the ending of its name determines the format
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// Format of the written file, if its name does not show it; the names are those of --format
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,
    /// Columns to leave out, separated by commas, such as those that the format cannot store; pi_* means all columns
    /// that begin with pi_
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    ignore: Vec<String>,
    #[command(flatten)]
    running: Running,
}

#[derive(Debug, Serialize)]
struct Output<'a> {
    version: &'static str,
    #[serde(serialize_with = "surefoot_terminal::shown")]
    file: &'a PathBuf,
    records: u64,
    renamed: &'a [(String, String)],
    #[serde(skip_serializing_if = "Option::is_none")]
    numbered: Option<&'a [String]>,
    left_out: &'a [String],
}

impl Convert {
    pub(crate) fn run(self) -> Result<()> {
        self.running.start()?;
        let format = self.to.map_or_else(|| Format::of(&self.out), Ok).map_err(Failure::new)?;
        check_output(&self.out).map_err(Failure::new)?;
        check_not_read(&self.out, self.logs.files()).map_err(Failure::new)?;
        let bar = progress::doing("converting", self.running.quiet);
        let Converted { records, renamed, numbered, left_out } =
            convert(&self.logs.reader()?, &self.out, format, &self.ignore)
                .map_err(|error| failure(error, &self.out))?;
        bar.finish_and_clear();
        let version = env!("CARGO_PKG_VERSION");
        let output = Output {
            version,
            file: &self.out,
            records,
            renamed: &renamed,
            numbered: numbered.as_deref(),
            left_out: &left_out,
        };
        self.running.answer(&output, || {
            let mut text = format!("wrote {records} records to {}", self.out.display());
            if !left_out.is_empty() {
                text.push_str(&format!("\n  left out, as {format} has no place for it: {}", left_out.join(", ")));
            }
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

/// The failure of a conversion. If it is about the written file, the format may refuse a column.
fn failure(error: surefoot_data::Error, out: &Path) -> Failure {
    let written =
        !matches!(error, surefoot_data::Error::Write { .. }) && error.to_string().starts_with(&*out.to_string_lossy());
    let failure = Failure::new(error);
    if written { failure.hint("use --ignore to leave out columns that the format cannot store") } else { failure }
}
