//! `surefoot lint`: checks logs for errors, and measures how well they support the evaluation of policies.

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use surefoot_data::PolicyReader;
use surefoot_data::lint::{Finding, LintSettings, Linted, Row, Summary, lint};
use surefoot_terminal::{Failure, Result, Running, progress};

use super::Versioned;
use crate::logs::{self, LogFlags, POLICY, RewardFlags};

/// Check logs for errors, and report how well they support the evaluation of policies
///
/// It reads the files once and keeps no records in memory. An error makes estimates and certificates wrong, or is
/// refused by learn and evaluate: impossible values, duplicate records, and propensities that do not match the logged
/// actions. The test of the propensities needs no rewards. If the propensities are right, the mean importance weight is
/// 1 for every policy that takes only actions that the logging policy could take. Each statistical check has the
/// significance level 0.0001, divided by the number of its tests.
///
/// The exit code is 1 if there is an error (with --strict, also if there is a warning), and 0 otherwise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot lint logs.csv\n  \
    surefoot lint monday.parquet tuesday.parquet --reward-range 0,5 --strict\n  \
    surefoot lint logs.jsonl --policy new.safetensors --deployed v1=v1.safetensors --json")]
pub(crate) struct Lint {
    #[command(flatten)]
    logs: LogFlags,
    #[command(flatten)]
    reward: RewardFlags,
    #[arg(long, value_name = "POLICY", help = format!("A target policy, to test the propensities and to measure its \
        effective sample size: {POLICY}. Repeat the option for several policies"))]
    policy: Vec<String>,
    /// The logging policy of a policy version, or without VERSION= of all records: each logged propensity is recomputed
    /// and compared
    #[arg(long, value_name = "[VERSION=]FILE")]
    deployed: Vec<String>,
    /// Fail if there is a warning, too
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    running: Running,
}

impl Lint {
    pub(crate) fn run(self) -> Result<()> {
        self.running.start()?;
        let (policies, _) = logs::policies(&self.policy)?;
        let settings = LintSettings {
            rewards: self.reward.reward_range,
            policies: policies.into_iter().map(|named| (named.name, named.policy)).collect(),
            deployed: deployed(&self.deployed)?,
            ..LintSettings::default()
        };
        let bar = progress::records(self.running.quiet);
        let linted = lint(&self.logs.reader()?, settings, |records| bar.inc(records as u64));
        bar.finish_and_clear();
        let linted = linted.map_err(logs::columns_failure)?;
        self.running.answer(&Versioned::new(&linted), || linted.text())?;
        match (linted.errors, linted.warnings) {
            (1.., _) => Err(Failure::new("the logs have errors")),
            (0, 1..) if self.strict => Err(Failure::new("the logs have warnings, and --strict allows none")),
            _ => Ok(()),
        }
    }
}

/// The logging policies, with their versions.
fn deployed(texts: &[String]) -> Result<Vec<(Option<String>, surefoot_data::RecordPolicy)>> {
    let mut reader = PolicyReader::default();
    let one = |text: &String| {
        let (version, file) = match text.split_once('=') {
            Some((version, file)) if !version.is_empty() => (Some(version.to_owned()), file),
            _ => (None, text.as_str()),
        };
        Ok((version, logs::opened(file, &mut reader)?))
    };
    texts.iter().map(one).collect()
}

/// The text form of the result, or of a part of it.
trait Text {
    fn text(&self) -> String;
}

impl Text for Linted {
    fn text(&self) -> String {
        let mut text = self.report.summary.text();
        for finding in &self.report.findings {
            text += "\n";
            text += &finding.text();
        }
        format!("{text}\n\n{}", verdict(self.errors, self.warnings))
    }
}

fn verdict(errors: usize, warnings: usize) -> String {
    let of = |n: usize, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
    match (errors, warnings) {
        (0, 0) => "no errors: these logs can be used for learning".into(),
        (0, n) => format!("no errors, {}: these logs can be used for learning, but see above", of(n, "warning")),
        (n, m) => {
            format!("{}, {}: these logs cannot be used for learning as they are", of(n, "error"), of(m, "warning"))
        }
    }
}

impl Text for Summary {
    fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let skipped = if self.skipped > 0 { format!(", {} skipped", self.skipped) } else { String::new() };
        table.add_row(["records".into(), format!("{}{skipped}", self.records)]);
        if let Some([fewest, most]) = self.candidates {
            let number = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
            table.add_row(["candidates".into(), format!("{number} per record")]);
        }
        let actions = match (self.candidates, self.actions) {
            (None, n) => Some(("actions", n)),
            (Some(_), 0) => None,
            (Some(_), n) => Some(("identities", n)),
        };
        if let Some((name, n)) = actions {
            table.add_row([name.into(), format!("{n}, {} chosen", self.chosen)]);
        }
        let reward = match (self.mean_reward, self.reward_error) {
            (Some(mean), Some(error)) => format!("{mean:.4} ± {error:.4}"),
            (Some(mean), None) => format!("{mean:.4}"),
            _ => "none".into(),
        };
        table.add_row(["mean reward".into(), reward]);
        table.add_row(["policy versions".into(), self.versions.map_or("not logged".into(), |n| n.to_string())]);
        let mut text = table.trim_fmt() + "\n";
        if !self.policies.is_empty() {
            let mut table = Table::new();
            table.load_style(presets::NOTHING);
            table.set_header(["policy", "mean weight", "z", "effective sample size", "largest weight"]);
            for support in &self.policies {
                let mean = fixed(support.mean_weight, 4);
                let [mean, z] = match support.z {
                    // One record has no standard error.
                    z if z.is_nan() => [mean, "-".into()],
                    // Adding 0 turns the -0 that rounding can give into 0.
                    z => [
                        format!("{mean} ± {}", fixed(support.standard_error, 4)),
                        fixed((z * 10.0).round() / 10.0 + 0.0, 1),
                    ],
                };
                table.add_row([
                    support.policy.clone(),
                    mean,
                    z,
                    format!("{:.0}", support.effective),
                    fixed(support.largest, 1),
                ]);
            }
            for column in 1..5 {
                if let Some(column) = table.column_mut(column) {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
            text += &format!("\n{}\n", table.trim_fmt());
        }
        text
    }
}

/// A number with this many decimals, or as a power of ten if it is huge.
fn fixed(x: f64, decimals: usize) -> String {
    if x.abs() < 1e9 || !x.is_finite() { format!("{x:.decimals$}") } else { format!("{x:.2e}") }
}

impl Text for Finding {
    fn text(&self) -> String {
        let mut text = format!("{:<8} {}: {}", self.severity, self.check, self.message);
        let indent = " ".repeat(9);
        let more = if self.count > self.rows.len() { ", ..." } else { "" };
        if let Some(Row { file, .. }) = self.rows.first() {
            let one = |row: &Row| match row.file == *file {
                true => format!("{} ({})", row.row, row.found),
                false => format!("{} row {} ({})", row.file, row.row, row.found),
            };
            let rows: Vec<String> = self.rows.iter().map(one).collect();
            text += &format!("\n{indent}{file}, row {}{more}", rows.join(", "));
        }
        if let Some(hint) = &self.hint {
            text += &format!("\n{indent}hint: {hint}");
        }
        text
    }
}
