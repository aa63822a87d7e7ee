//! `surefoot data`: lists, checks and converts the data sets of the paper's experiments.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use serde::Serialize;
use surefoot_data::catalogue::{self, Entry, Presence, Report, Shape};
use surefoot_lab::sets;
use surefoot_terminal::{Failure, Result, Running, progress};

/// List, check and convert the data sets of the paper's experiments
///
/// Without a command it lists them. It never downloads anything; scripts/get-data downloads MNIST and Fashion-MNIST.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    surefoot data\n  \
    surefoot data check --data path/to/folder\n  \
    surefoot data convert cifar-100 cifar.npz"
)]
pub(crate) struct Data {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    Check(Check),
    Convert(Convert),
}

impl Data {
    pub(crate) fn run(self) -> Result<()> {
        match self.command {
            None => self.list.run(),
            Some(Command::List(list)) => list.run(),
            Some(Command::Check(check)) => check.run(),
            Some(Command::Convert(convert)) => convert.run(),
        }
    }
}

/// The flag of the data folder.
#[derive(Debug, Args)]
struct Folder {
    /// Folder of the data sets
    #[arg(long, value_name = "FOLDER", env = sets::VARIABLE, default_value = sets::FOLDER, hide_env_values = true)]
    data: PathBuf,
}

/// List the data sets, whether they are present, and how to get the missing ones
///
/// It only looks for the files and does not open them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot data list\n  \
    surefoot data list --data path/to/folder --json")]
struct List {
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    running: Running,
}

/// The list, as it is written with `--json`.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    version: &'static str,
    #[serde(serialize_with = "surefoot_terminal::shown")]
    folder: &'a Path,
    sets: Vec<ListedSet>,
}

/// A set, as it is written with `--json`.
#[derive(Debug, Serialize)]
struct ListedSet {
    key: &'static str,
    title: &'static str,
    #[serde(flatten)]
    shape: Shape,
    state: State,
    #[serde(serialize_with = "surefoot_terminal::shown")]
    path: PathBuf,
    missing: Vec<String>,
    licence: &'static str,
    how_to_get: &'static str,
    stands_in_for: Option<&'static str>,
    stand_in: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    There,
    Incomplete,
    /// Missing, but a stand-in is present.
    StandIn,
    Missing,
}

impl List {
    fn run(self) -> Result<()> {
        let folder = &self.folder.data;
        let sets = catalogue::all().iter().map(|entry| ListedSet::new(entry, folder)).collect();
        let listed = Listed { version: env!("CARGO_PKG_VERSION"), folder, sets };
        self.running.answer(&listed, || listed.text())
    }
}

impl ListedSet {
    fn new(entry: &Entry, folder: &Path) -> Self {
        let stands_in = |other: &&Entry| other.stands_in_for == Some(entry.key) && other.find(folder).is_some();
        let (state, missing) = match entry.presence(folder) {
            Presence::There(_) => (State::There, Vec::new()),
            Presence::Incomplete(missing) => (State::Incomplete, missing),
            _ if catalogue::all().iter().any(|other| stands_in(&other)) => (State::StandIn, Vec::new()),
            _ => (State::Missing, Vec::new()),
        };
        ListedSet {
            key: entry.key,
            title: entry.title,
            shape: entry.shape,
            state,
            path: entry.path(folder),
            missing,
            licence: entry.licence,
            how_to_get: entry.how_to_get,
            stands_in_for: entry.stands_in_for,
            stand_in: entry.stand_in,
        }
    }
}

impl Listed<'_> {
    fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["set", "content", "train / test x features", "state"]);
        for set in &self.sets {
            let state = match set.state {
                State::There => "present",
                State::Incomplete => "incomplete",
                State::StandIn => "missing, a stand-in is present",
                State::Missing => "missing",
            };
            table.add_row([set.key, set.title, &set.shape.to_string(), state]);
        }
        let mut text = format!("{}\n\nlooked for in {}", table.trim_fmt(), self.folder.display());
        for set in &self.sets {
            if let (Some(other), Some(what)) = (set.stands_in_for, set.stand_in) {
                text += &format!("\n{} stands in for {other}: {what}", set.key);
            }
        }
        for set in self.sets.iter().filter(|set| set.state == State::Incomplete) {
            text += &format!("\n{} is incomplete, without {}", set.key, set.missing.join(", "));
        }
        let absent: Vec<&ListedSet> = self.sets.iter().filter(|set| set.state != State::There).collect();
        if !absent.is_empty() {
            text += "\n\nhow to get the missing sets:";
        }
        for set in absent {
            text += &format!("\n  {}: {}", set.key, set.how_to_get);
        }
        text
    }
}

/// Check sizes, hashes and shapes of the data sets that are present
///
/// Gzipped files are unpacked before they are compared. A missing set is an error only if it is named on the command
/// line. If there is an error, it is reported, and the exit code is 1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot data check\n  \
    surefoot data check mnist fashion-mnist --data path/to/folder --json")]
struct Check {
    /// Sets to check [default: all that are present]
    #[arg(value_name = "SET", value_parser = PossibleValuesParser::new(catalogue::all().iter().map(|entry| entry.key)))]
    sets: Vec<String>,
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    running: Running,
}

/// The result of a check, as it is written with `--json`.
#[derive(Debug, Serialize)]
struct Checked<'a> {
    version: &'static str,
    #[serde(serialize_with = "surefoot_terminal::shown")]
    folder: &'a Path,
    right: bool,
    sets: Vec<CheckedSet>,
}

/// A set that was checked.
#[derive(Debug, Serialize)]
struct CheckedSet {
    key: &'static str,
    verdict: Verdict,
    #[serde(flatten)]
    report: Option<Report>,
    /// The error, if there is no report.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Right,
    /// Sizes and shape are right, but no hash is known.
    RightShape,
    Wrong,
    Missing,
}

impl Check {
    fn run(self) -> Result<()> {
        self.running.start()?;
        let folder = &self.folder.data;
        let named = |entry: &&Entry| self.sets.is_empty() || self.sets.iter().any(|key| key == entry.key);
        let entries: Vec<&Entry> = catalogue::all().iter().filter(named).collect();
        let there: Vec<&&Entry> = entries.iter().filter(|entry| entry.find(folder).is_some()).collect();
        let bar = progress::bar_of(there.iter().map(|entry| entry.steps()).sum(), "checks", self.running.quiet);
        let one = |entry: &&Entry| {
            bar.set_message(entry.key);
            match entry.presence(folder) {
                Presence::Missing if self.sets.is_empty() => CheckedSet::missing(entry),
                found => {
                    let checked = CheckedSet::new(entry, entry.check_with(folder, || bar.inc(1)));
                    let verdict = if found == Presence::Missing { Verdict::Missing } else { checked.verdict };
                    CheckedSet { verdict, ..checked }
                }
            }
        };
        let sets: Vec<CheckedSet> = entries.iter().map(one).collect();
        bar.finish_and_clear();
        let wrong: Vec<String> = sets.iter().flat_map(CheckedSet::differences).collect();
        let checked = Checked { version: env!("CARGO_PKG_VERSION"), folder, right: wrong.is_empty(), sets };
        self.running.answer(&checked, || checked.text())?;
        match wrong.len() {
            0 => Ok(()),
            1 => Err(Failure::new(&wrong[0])),
            n => Err(Failure::new(format!("{n} differences:\n  {}", wrong.join("\n  ")))),
        }
    }
}

impl CheckedSet {
    fn missing(entry: &Entry) -> Self {
        CheckedSet { key: entry.key, verdict: Verdict::Missing, report: None, error: None }
    }

    fn new(entry: &Entry, result: surefoot_data::Result<Report>) -> Self {
        let (verdict, report, error) = match result {
            Ok(report) if !report.differences.is_empty() => (Verdict::Wrong, Some(report), None),
            Ok(report) if report.files.iter().all(|file| file.known) => (Verdict::Right, Some(report), None),
            Ok(report) => (Verdict::RightShape, Some(report), None),
            Err(error) => (Verdict::Wrong, None, Some(error.to_string())),
        };
        CheckedSet { key: entry.key, verdict, report, error }
    }

    fn differences(&self) -> Vec<String> {
        let reported = self.report.iter().flat_map(|report| &report.differences);
        reported.chain(&self.error).cloned().collect()
    }
}

impl Checked<'_> {
    fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["set", "train / test x features", "verdict", "fingerprint"]);
        for set in &self.sets {
            let report = set.report.as_ref();
            let verdict = match set.verdict {
                Verdict::Right => "right",
                Verdict::RightShape => "sizes and shape are right, no hash is known",
                Verdict::Wrong => "WRONG",
                Verdict::Missing => "missing",
            };
            table.add_row([
                set.key,
                &report.and_then(|report| report.shape).map_or(String::new(), |shape| shape.to_string()),
                verdict,
                // The first digits are enough to tell sets apart; the JSON has all digits.
                report.map_or("", |report| &report.fingerprint[..16]),
            ]);
        }
        format!("{}\n\nlooked for in {}", table.trim_fmt(), self.folder.display())
    }
}

/// Write a data set as an .npz file, which NumPy can read
///
/// The values are those that Surefoot learns from, before rows are scaled: pixels divided by 255, as 32-bit numbers.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot data convert mnist mnist.npz\n  \
    surefoot data convert path/to/cifar-10-batches-bin cifar-10.npz --force")]
struct Convert {
    /// A set that surefoot data lists, digits, or the path of a data set that simulate --dataset reads
    #[arg(value_name = "FROM")]
    from: String,
    /// File to write; its name ends in .npz
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    running: Running,
}

/// The result, as it is written with `--json`.
#[derive(Debug, Serialize)]
struct Converted<'a> {
    version: &'static str,
    from: &'a str,
    #[serde(serialize_with = "surefoot_terminal::shown")]
    to: &'a Path,
    #[serde(flatten)]
    shape: Shape,
}

impl Convert {
    fn run(self) -> Result<()> {
        self.running.start()?;
        let to = self.to.display();
        if !self.to.extension().is_some_and(|end| end.eq_ignore_ascii_case("npz")) {
            return Err(Failure::new(format!("the file to write should end in .npz, but is {to}")));
        }
        if self.to.exists() && !self.force {
            return Err(Failure::new(format!("{to}: already exists")).hint("--force replaces it"));
        }
        surefoot_data::check_output(&self.to).map_err(Failure::new)?;
        let data = sets::load(&self.from, &self.folder.data)?;
        surefoot_data::write_npz(&self.to, &data).map_err(Failure::new)?;
        let shape = Shape::of(&data);
        let converted = Converted { version: env!("CARGO_PKG_VERSION"), from: &self.from, to: &self.to, shape };
        self.running.answer(&converted, || format!("wrote {to}: {shape}"))
    }
}
