//! `surefoot verify`: recomputes every certificate of a saved run from its logs and policies.

use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use surefoot::audit::{Checked, Report, audit};
use surefoot_data::RunFiles;
use surefoot_terminal::{Failure, Result, Running, progress};

/// Recompute every certificate of a saved run from its logs and policies alone
///
/// Nothing that the learner reported is trusted: fingerprints, logged propensities, divergences and bounds are
/// recomputed. A prior must have been deployed before the records that it is used on. Facts that no file can show, such
/// as that no record was dropped, are listed with each certificate as assumptions. If there is any difference, it is
/// reported, and the exit code is 1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot simulate --rounds 5 --save run\n  \
    surefoot verify run\n  \
    surefoot verify --certificates c.json --logs 0.safetensors 1.safetensors --policies p.safetensors")]
pub(crate) struct Verify {
    /// Folder written by simulate --save or learn --save
    #[arg(required_unless_present = "certificates", conflicts_with_all = ["certificates", "logs", "policies"])]
    folder: Option<PathBuf>,
    /// File of the certificates, instead of a folder; needs --logs and --policies
    #[arg(long, value_name = "FILE", requires = "logs", requires = "policies", help_heading = "Parts")]
    certificates: Option<PathBuf>,
    /// Log files of all rounds, in order
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "certificates", help_heading = "Parts")]
    logs: Vec<PathBuf>,
    /// Policy files, in any order: all policies that the certificates name, and all logging policies
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "certificates", help_heading = "Parts")]
    policies: Vec<PathBuf>,
    #[command(flatten)]
    running: Running,
}

/// The result, as it is written with `--json`.
#[derive(Debug, Serialize)]
struct Output {
    version: &'static str,
    #[serde(flatten)]
    report: Report,
}

impl Verify {
    pub(crate) fn run(self) -> Result<()> {
        self.running.start()?;
        let files = match (self.folder, self.certificates) {
            (Some(folder), _) => RunFiles::of(&folder).map_err(|e| not_a_run(&folder, &e))?,
            (None, Some(certificates)) => RunFiles { certificates, rounds: self.logs, policies: self.policies },
            (None, None) => unreachable!("one of them is required"),
        };
        let run = files.read().map_err(Failure::new)?;
        let bar = progress::bar_of(run.rounds.len() + run.statements.len(), "checks", self.running.quiet);
        let report = audit(&run, || bar.inc(1));
        bar.finish_and_clear();
        let output = Output { version: env!("CARGO_PKG_VERSION"), report };
        let report = &output.report;
        self.running.answer(&output, || format!("{}\n\n{}", table(&report.certificates), closing(report)))?;
        match &report.all_differences()[..] {
            [] => Ok(()),
            all => Err(Failure::new(format!("{}:\n  {}", count(all.len(), "difference"), all.join("\n  ")))),
        }
    }
}

/// The failure if a folder cannot be verified.
fn not_a_run(folder: &Path, error: &surefoot_data::Error) -> Failure {
    let failure = Failure::new(error);
    match error {
        surefoot_data::Error::Malformed { place, .. } if *place == folder.display().to_string() => failure.hint(
            "the folder should be one that simulate --save or learn --save wrote; the certificates are written last, so \
             an interrupted run has none",
        ),
        _ => failure,
    }
}

fn table(certificates: &[Checked]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["round", "kind", "theorem", "upper", "verdict"]);
    for judged in certificates {
        let verdict = match (&judged.differences[..], judged.vacuous, judged.on_trust) {
            ([], true, _) => "verified, vacuous",
            ([], _, true) => "verified, on trust",
            ([], ..) => "verified",
            _ => "DIFFERS",
        };
        let theorem = serde_json::to_value(judged.theorem).unwrap_or_default();
        table.add_row([
            judged.round.to_string(),
            judged.kind.to_string(),
            theorem.as_str().unwrap_or_default().to_owned(),
            format!("{:.4}", judged.upper),
            verdict.to_owned(),
        ]);
    }
    for column in [0, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn closing(output: &Report) -> String {
    let certificates = count(output.certificates.len(), "certificate");
    let propensities = count(output.propensities, "logged propensity");
    let trust = match output.certificates.iter().any(|judged| judged.on_trust) {
        true => {
            "\non trust: that a policy was fixed before the records and chosen from a set of at most the stated size, \
             or \
             which policy collected the records"
        }
        false => "",
    };
    match output.all_differences().len() {
        0 => {
            let rounds = count(output.rounds, "round");
            format!("{certificates} and {propensities} are reproduced from {rounds} of logs{trust}")
        }
        n => format!("NOT verified: {}", count(n, "difference")),
    }
}

/// A number with its noun, in the plural where needed.
fn count(n: usize, noun: &str) -> String {
    match (n, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (n, Some(stem)) => format!("{n} {stem}ies"),
        (n, None) => format!("{n} {noun}s"),
    }
}
