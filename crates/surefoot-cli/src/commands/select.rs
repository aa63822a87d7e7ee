//! `surefoot select`: chooses among several policies by their proven rewards.

use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use surefoot::Policy;
use surefoot_data::{
    NamedPolicy, Part, ProvenReward, RecordPolicy, SelectRequest, Selected, check_mixture_to, check_not_read, select,
    write_mixture,
};
use surefoot_terminal::{Failure, Result, Running, percent, progress};

use super::Versioned;
use crate::logs::{LogFlags, POLICY, RewardFlags, logs_failure, policies};

/// Choose among policies by their proven rewards, and mix them
///
/// The policy with the highest proven reward is chosen, not the one with the highest estimate: where the effective
/// sample size is small, an estimate may be high by chance. All policies must have been fixed before the logs were
/// collected. The mixture follows each policy with a probability that is learned from the logs (the Gibbs posterior).
/// Its proven reward is never below the proven reward of any single policy. All proven rewards hold together, and at
/// any time.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot select newer.parquet --policy a.safetensors --policy b.safetensors --policy uniform\n  \
    surefoot select newer.parquet --policy a.safetensors --policy b.safetensors --mixture mixed.json")]
pub(crate) struct Select {
    #[command(flatten)]
    logs: LogFlags,
    #[command(flatten)]
    reward: RewardFlags,
    #[arg(long, value_name = "POLICY", required = true, help = format!("A candidate: {POLICY}. Repeat the option \
        for several policies"))]
    policy: Vec<String>,
    /// Prior weights of the candidates, in the order of --policy, separated by commas [default: equal]
    #[arg(long, value_name = "WEIGHTS", value_delimiter = ',')]
    prior: Option<Vec<f64>>,
    /// Failure probability of all proven rewards together, in (0, 1)
    #[arg(long, default_value_t = 0.05)]
    delta: f64,
    /// Write the mixture to a file that other commands accept as a policy; its name ends in .json, and all candidates
    /// must be policy files in the same folder
    #[arg(long, value_name = "FILE")]
    mixture: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
}

impl Select {
    pub(crate) fn run(self) -> Result<()> {
        self.running.start()?;
        if let Some(path) = &self.mixture {
            check_mixture_to(path).map_err(Failure::new)?;
        }
        let (policies, files) = policies(&self.policy)?;
        if let Some(path) = &self.mixture {
            check_not_read(path, self.logs.files().chain(files.iter().map(Path::new))).map_err(Failure::new)?;
        }
        let request = SelectRequest {
            policies,
            prior: self.prior.clone(),
            reward_range: self.reward.reward_range,
            delta: self.delta,
        };
        let bar = progress::records(self.running.quiet);
        let selected =
            select(&self.logs.reader()?, &request, |records| bar.inc(records as u64)).map_err(logs_failure)?;
        bar.finish_and_clear();
        if let Some(path) = &self.mixture {
            let weights = selected.candidates.iter().map(|candidate| candidate.weight);
            write_mixture(path, parts(&request.policies, &files, weights, path)?).map_err(Failure::new)?;
        }
        self.running.answer(&Versioned::new(&selected), || text(&selected, self.mixture.as_deref()))
    }
}

/// The files of the candidates, for the file of the mixture.
fn parts(
    policies: &[NamedPolicy],
    files: &[String],
    weights: impl Iterator<Item = f64>,
    path: &Path,
) -> Result<Vec<Part>> {
    // The folder of an object of a store is its prefix.
    let resolved = |folder: &Path| folder.join(".").canonicalize().unwrap_or_else(|_| folder.to_owned());
    let folder = |path: &Path| path.parent().map(resolved);
    let part = |((NamedPolicy { name, policy }, file), weight): ((&NamedPolicy, &String), f64)| {
        let file = Path::new(file);
        match policy {
            RecordPolicy::Encoded { policy, .. } if folder(file) == folder(path) => Ok(Part {
                file: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                fingerprint: policy.identity().expect("it has a fingerprint"),
                weight,
            }),
            _ => Err(Failure::new(format!(
                "{name}: every candidate of a written mixture should be a policy file in the folder of the mixture"
            ))),
        }
    };
    policies.iter().zip(files).zip(weights).map(part).collect()
}

fn text(output: &Selected, written: Option<&Path>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let proven = if output.certified { "" } else { "NOT certified: " };
    let at_least = format!("{proven}at least ({})", percent(output.confidence));
    table.set_header(["policy", "estimate", at_least.as_str(), "weight", ""]);
    for candidate in &output.candidates {
        let ProvenReward { estimate, at_least, .. } = candidate.proven;
        let chosen = if candidate.name == output.chosen { "<- chosen" } else { "" };
        let cells = [estimate, at_least, candidate.weight].map(|x| format!("{x:.4}"));
        table.add_row([&candidate.name, &cells[0], &cells[1], &cells[2], chosen]);
    }
    let ProvenReward { estimate, at_least, .. } = output.mixture;
    table.add_row(["mixture", &format!("{estimate:.4}"), &format!("{at_least:.4}"), "1.0000", ""]);
    for column in 1..4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("{}\n\nfrom {} records; on trust: {}", table.trim_fmt(), output.records, output.assumption);
    output.warnings.iter().for_each(|warning| text.push_str(&format!("\nwarning: {warning}")));
    if let Some(path) = written {
        text.push_str(&format!("\nwrote {}", path.display()));
    }
    text
}
