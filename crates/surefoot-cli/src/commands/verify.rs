//! `surefoot verify`: recomputes every certificate of a saved run from its logs and policies.

use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use surefoot::Fingerprint;
use surefoot::audit::{Checked, Report, audit};
use surefoot::certificate::Quantity;
use surefoot_data::RunFiles;
use surefoot_terminal::{Failure, Result, Running, percent, progress};

use super::{Versioned, count};

/// Recompute every certificate of a saved run from its logs and policies alone
///
/// Nothing that the learner reported is trusted: fingerprints, logged propensities, divergences and bounds are
/// recomputed. The ledger tells what was fixed when: the order of the rounds, the policy of every certificate, its share
/// of delta and every deployment are checked against it. What no file can show is listed as taken on trust. If there is
/// any difference, it is reported, and the exit code is 1.
///
/// Whoever was given the head of the ledger (a hash that every run prints) before a round was collected can pass it with
/// --head. Then nobody can have chosen the protocol or the policy of that round afterwards.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot simulate --rounds 5 --save run\n  \
    surefoot verify run\n  \
    surefoot verify run --head 3f0c...\n  \
    surefoot verify --ledger ledger.jsonl --certificates c.json --logs 0.safetensors 1.safetensors --policies p.safetensors")]
pub(crate) struct Verify {
    /// Folder written by simulate --save or learn --save
    #[arg(required_unless_present = "certificates", conflicts_with_all = ["certificates", "ledger", "logs", "policies"])]
    folder: Option<PathBuf>,
    /// File of the certificates, instead of a folder; needs --logs and --policies
    #[arg(long, value_name = "FILE", requires = "logs", requires = "policies", help_heading = "Parts")]
    certificates: Option<PathBuf>,
    /// Ledger of the run; without it, the order of the rounds and the spending of delta are taken on trust
    #[arg(long, value_name = "FILE", requires = "certificates", help_heading = "Parts")]
    ledger: Option<PathBuf>,
    /// Log files of all rounds, in order
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "certificates", help_heading = "Parts")]
    logs: Vec<PathBuf>,
    /// Policy files, in any order: all policies that the certificates name, and all logging policies
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "certificates", help_heading = "Parts")]
    policies: Vec<PathBuf>,
    /// Head of the ledger as it was given to you before a round was collected; may be repeated
    #[arg(long, value_name = "HASH")]
    head: Vec<Fingerprint>,
    #[command(flatten)]
    running: Running,
}

impl Verify {
    pub(crate) fn run(self) -> Result<()> {
        self.running.start()?;
        let files = match (self.folder, self.certificates) {
            (Some(folder), _) => RunFiles::of(&folder).map_err(|e| not_a_run(&folder, &e))?,
            (None, Some(certificates)) => {
                RunFiles { ledger: self.ledger, certificates, rounds: self.logs, policies: self.policies }
            }
            (None, None) => unreachable!("one of them is required"),
        };
        let run = files.read().map_err(Failure::new)?;
        let bar = progress::bar_of(run.rounds.len() + run.statements.len(), "checks", self.running.quiet);
        let report = audit(&run, &self.head, || bar.inc(1));
        bar.finish_and_clear();
        let text = || format!("{}\n\n{}", table(&report.certificates), closing(&report));
        self.running.answer(&Versioned::new(&report), text)?;
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
    table.set_header(["round", "kind", "theorem", "proven", "verdict"]);
    for judged in certificates {
        let verdict = match (&judged.differences[..], judged.vacuous, judged.on_trust) {
            ([], ..) if judged.lost > 0 => "records erased",
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
            proven(judged),
            verdict.to_owned(),
        ]);
    }
    if let Some(column) = table.column_mut(0) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// The bound in words: a reward, an improvement, or a cost if the reward range is not known.
fn proven(judged: &Checked) -> String {
    match (judged.bounds, judged.at_least) {
        _ if judged.vacuous => "nothing".into(),
        (_, None) => format!("cost at most {:.4}", judged.upper),
        (Quantity::Difference | Quantity::MeanDifference, Some(gain)) => format!("better by {gain:.4}"),
        (_, Some(reward)) => format!("at least {reward:.4}"),
    }
}

fn closing(report: &Report) -> String {
    let mut lines = Vec::new();
    match report.all_differences().len() {
        0 => lines.push(format!(
            "{} and {} are reproduced from {} of logs",
            count(report.certificates.len() - report.lost, "certificate"),
            count(report.propensities, "logged propensity"),
            count(report.rounds, "round")
        )),
        n => lines.push(format!("NOT verified: {}", count(n, "difference"))),
    }
    if report.lost > 0 {
        lines.push(format!(
            "{} cannot be recomputed, because records of them were erased: nobody can check what they say",
            count(report.lost, "certificate")
        ));
    }
    if let Some(delta) = report.delta {
        lines.push(format!(
            "delta {delta}: the statements of each kind hold together with probability {}",
            percent(1.0 - delta)
        ));
        let all = report.budget.len() as f64 * delta;
        if report.budget.len() > 1 && all < 1.0 {
            let kinds = count(report.budget.len(), "kind");
            lines.push(format!("all {kinds} together: {}", percent(1.0 - all)));
        }
        for budget in &report.budget {
            lines.push(format!(
                "  {}: {}, spent {:.4} of {delta}",
                budget.kind,
                count(budget.statements, "statement"),
                budget.spent
            ));
        }
    }
    if let Some(margins) = report.margins {
        lines.push(format!(
            "margins of all promotions together: the running policy may earn {margins:.4} less than the first"
        ));
    }
    if let Some(head) = &report.head {
        lines.push(format!("head of the ledger: {head}"));
    }
    let mut trust: Vec<&String> =
        report.trust.iter().chain(report.certificates.iter().flat_map(|c| &c.trust)).collect();
    trust.sort();
    trust.dedup();
    const SHOWN: usize = 8;
    if !trust.is_empty() {
        lines.push("on trust:".into());
        lines.extend(trust.iter().take(SHOWN).map(|what| format!("  {what}")));
        if trust.len() > SHOWN {
            lines.push(format!("  and {} more (--json has all)", trust.len() - SHOWN));
        }
    }
    lines.join("\n")
}
