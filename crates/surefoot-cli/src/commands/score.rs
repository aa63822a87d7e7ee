//! `surefoot score`: the decisions of a policy on raw records.

use std::cell::Cell;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use surefoot_data::{
    ColumnNames, Format, LogReader, PolicyReader, RecordPolicy, Scorer, check_not_read, check_output, write_table,
    write_table_to,
};
use surefoot_terminal::{Failure, Result, print};

use crate::logs::{CandidateFlags, unopened};

/// Decide on raw records with a policy: write actions with their propensities
///
/// The policy file defines how columns become features. A decision depends only on the features, the seed and the id of
/// the event. So the same event always gets the same action, alone or among others. An event without an id gets a new
/// random one, which is written with its decision. Log event_id, action, pscore and policy_version together with the
/// reward: surefoot lint and learn need them. If the policy chooses among candidates, the action is the identity of the
/// chosen candidate if the policy knows identities, and otherwise its place, counted from 0.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot score next.safetensors visitors.csv --seed 7 --out decisions.parquet\n  \
    surefoot score next.safetensors visitors.jsonl --probabilities")]
pub(crate) struct Score {
    /// Policy file written by surefoot learn, or mixture written by surefoot select
    policy: PathBuf,
    /// Files of contexts, in any of the log formats; may be compressed, a folder of files, or - for the standard input
    #[arg(required = true)]
    contexts: Vec<PathBuf>,
    #[arg(long, help = format!("Format of the files of contexts, if their names do not show it: {}", Format::names()))]
    format: Option<Format>,
    /// Column of the event's id [default: event_id or EventId, if it exists]
    #[arg(long, value_name = "COLUMN")]
    event_id: Option<String>,
    #[command(flatten)]
    candidates: CandidateFlags,
    /// Seed of the decisions; use a new one for each deployment
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write the probabilities of all actions
    #[arg(long)]
    probabilities: bool,
    #[arg(long, short, value_name = "FILE", help = format!(
        "File to write the decisions to; its name ends in {} [default: standard output, as CSV]", extensions()))]
    out: Option<PathBuf>,
    /// Write JSON lines to standard output instead of CSV
    #[arg(long, conflicts_with = "out")]
    json: bool,
    /// Number of threads, at most 1024; 0 for one per core. The result is the same for any number
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1024))]
    threads: u64,
}

const DRAWN: &str = "the records have no event ids, so each decision has a new random one: log it with the decision";
/// Whether decisions can be written in this format: they have columns of their own.
fn takes_decisions(format: Format) -> bool {
    !format.has_fixed_columns()
}

fn extensions() -> String {
    Format::extensions_of(takes_decisions)
}

impl Score {
    pub(crate) fn run(self) -> Result<()> {
        surefoot_terminal::threads(self.threads)?;
        let written = self.out.as_deref().map(writable).transpose()?;
        if let Some(out) = &self.out {
            check_not_read(out, self.contexts.iter().chain([&self.policy]).map(PathBuf::as_path))
                .map_err(Failure::new)?;
        }
        let mut files = PolicyReader::default();
        let policy = RecordPolicy::open_file(&self.policy, &mut files).map_err(|error| {
            let what = "a policy that decides is a file written by learn, or a mixture written by select";
            unopened(&self.policy, error, what)
        })?;
        let scorer = Scorer::new(policy, self.seed, self.probabilities).map_err(Failure::new)?;
        let columns = self.candidates.columns(ColumnNames { event_id: self.event_id, ..ColumnNames::default() });
        let reader = LogReader::new(self.contexts, self.format, columns)
            .without_labels()
            .with_catalogue(self.candidates.catalogue()?);
        let drawn = Cell::new(false);
        let decisions = reader.batches().map(|batch| {
            let batch = batch?;
            drawn.set(drawn.get() | scorer.draws_ids(&batch)?);
            scorer.score(&batch)
        });
        let mut decisions = decisions.peekable();
        let Some((path, format)) = self.out.zip(written) else {
            let format = if self.json { Format::JsonLines } else { Format::Csv };
            // Nothing is printed for an input that cannot be read, not even the names of the columns.
            if let Some(Err(unreadable)) = decisions.next_if(|batch| batch.is_err()) {
                return Err(Failure::new(unreadable));
            }
            let mut out = std::io::stdout();
            let written = write_table_to("standard output", &mut out, format, scorer.schema(), &mut decisions);
            if drawn.get() {
                eprintln!("note: {DRAWN}");
            }
            return match written {
                // It is not an error if the reader closes the pipe early.
                Err(surefoot_data::Error::Write { reason, .. }) if reason.kind() == ErrorKind::BrokenPipe => Ok(()),
                written => written.map_err(Failure::new),
            };
        };
        let n = write_table(&path, format, scorer.schema(), &mut decisions).map_err(Failure::new)?;
        let drawn = if drawn.get() { format!("\nnote: {DRAWN}") } else { String::new() };
        print(&format!("wrote {n} decisions to {}{drawn}", path.display()))
    }
}

/// The format of the file of decisions, after checking that it can be written.
fn writable(path: &Path) -> Result<Format> {
    let format = Format::of(path).map_err(Failure::new)?;
    if !takes_decisions(format) {
        return Err(Failure::new(format!("{}: decisions can be written as {}", path.display(), extensions())));
    }
    check_output(path).map_err(Failure::new)?;
    Ok(format)
}
