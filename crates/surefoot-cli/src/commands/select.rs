//! `surefoot select`: which of several policies the logs let one trust.

use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use surefoot::evaluation::{EvaluationSettings, Selection, Standing};
use surefoot::{Evaluator, Policy, Protocol, RewardRange};
use surefoot_data::{Part, RecordPolicy, RewardModel, write_mixture};

use super::Running;
use crate::commands::evaluate::{actions_of, observe_all};
use crate::failure::{Failure, Result};
use crate::logs::{LogFlags, Named, POLICY, RewardFlags, learned, policies};
use crate::progress;

/// Choose among policies by what the logs prove of each, and mix them
///
/// The policy with the highest proven reward is chosen, not the one with the highest estimate: an estimate is high by luck
/// where the logs know little. All policies must have been fixed before the logs. The mixture takes each policy with a
/// probability that the logs choose (the Gibbs posterior); what is proven of it is never below what is proven of any one of
/// them. All that is proven holds together, at any time.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot select newer.parquet --policy a.safetensors --policy b.safetensors --policy uniform\n  \
    surefoot select newer.parquet --policy a.safetensors --policy b.safetensors --mixture mixed.json")]
pub(crate) struct Select {
    #[command(flatten)]
    logs: LogFlags,
    #[command(flatten)]
    reward: RewardFlags,
    #[arg(long, value_name = "POLICY", required = true, help = format!("A candidate: {POLICY}"))]
    policy: Vec<String>,
    /// Prior weights of the candidates, in their order, separated by commas [default: equal]
    #[arg(long, value_name = "WEIGHTS", value_delimiter = ',')]
    prior: Option<Vec<f64>>,
    /// Probability with which anything that is said to be proven may be wrong
    #[arg(long, default_value_t = 0.05)]
    delta: f64,
    /// Write the mixture, if all candidates are policy files; other commands take it as a policy
    #[arg(long, value_name = "FILE")]
    mixture: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
}

/// The result, as it is written with `--json`; rewards, not costs.
#[derive(Debug, Serialize)]
struct Output {
    version: &'static str,
    records: usize,
    confidence: f64,
    chosen: String,
    candidates: Vec<CandidateOutput>,
    mixture: Proven,
    assumption: &'static str,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct CandidateOutput {
    name: String,
    /// Its weight in the mixture.
    weight: f64,
    #[serde(flatten)]
    proven: Proven,
}

#[derive(Debug, Serialize)]
struct Proven {
    estimate: f64,
    at_least: f64,
    lambda: f64,
}

impl Proven {
    fn of(standing: &Standing, range: RewardRange) -> Self {
        let Standing { estimate, upper, lambda } = *standing;
        Proven { estimate: range.reward(estimate), at_least: range.reward(upper), lambda }
    }
}

const ASSUMPTION: &str = "every candidate was fixed before the records, each record has its right propensity, none was dropped for its reward, \
     and contexts are independent, from one distribution";

impl Select {
    pub(crate) fn run(self) -> Result<()> {
        self.running.start()?;
        let range = self.reward.range()?;
        let policies = policies(&self.policy)?;
        let reader = self.logs.reader();
        let actions = actions_of(&policies, &reader)?;
        // The bounds come from sums that every evaluator has; other estimators are not asked.
        let settings = EvaluationSettings {
            estimators: EvaluationSettings::default().estimators[..1].to_vec(),
            protocol: Protocol { delta: self.delta, ..Protocol::default() },
            replicates: 0,
            ..EvaluationSettings::default()
        };
        let bar = progress::records(self.running.quiet);
        let (evaluators, _) = observe_all(&RewardModel::None, &policies, &reader, &actions, range, &settings, &bar)?;
        let selection = Selection::of(&evaluators.iter().collect::<Vec<&Evaluator>>(), self.prior.as_deref())?;
        if let Some(path) = &self.mixture {
            write_mixture(path, self.parts(&policies, &selection.weights, path)?).map_err(Failure::new)?;
        }
        let candidates = policies.iter().zip(&selection.candidates).zip(&selection.weights);
        let output = Output {
            version: env!("CARGO_PKG_VERSION"),
            records: selection.records,
            confidence: 1.0 - self.delta,
            chosen: policies[selection.best].name.clone(),
            candidates: candidates
                .map(|((Named { name, .. }, standing), &weight)| CandidateOutput {
                    name: name.clone(),
                    weight,
                    proven: Proven::of(standing, range),
                })
                .collect(),
            mixture: Proven::of(&selection.mixture, range),
            assumption: ASSUMPTION,
            warnings: learned(&policies).collect(),
        };
        self.running.answer(&output, || text(&output, range, self.mixture.as_deref()))
    }

    /// The files of the candidates, as the file of the mixture names them.
    fn parts(&self, policies: &[Named], weights: &[f64], path: &Path) -> Result<Vec<Part>> {
        let folder = |path: &Path| path.parent().and_then(|folder| folder.join(".").canonicalize().ok());
        policies
            .iter()
            .zip(weights)
            .map(|(Named { name, file, policy }, &weight)| match (policy, file) {
                (RecordPolicy::Encoded { policy, .. }, Some(file)) if folder(file) == folder(path) => Ok(Part {
                    file: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                    fingerprint: policy.identity().expect("its content names it"),
                    weight,
                }),
                _ => Err(Failure::new(format!("{name}: a mixture is written of policy files in its own folder"))),
            })
            .collect()
    }
}

fn text(output: &Output, range: RewardRange, written: Option<&Path>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let at_least = format!("at least ({:.0} %)", 100.0 * output.confidence);
    table.set_header(["policy", "estimate", at_least.as_str(), "weight", ""]);
    for candidate in &output.candidates {
        let Proven { estimate, at_least, .. } = candidate.proven;
        let chosen = if candidate.name == output.chosen { "<- chosen" } else { "" };
        let cells = [estimate, at_least, candidate.weight].map(|x| format!("{x:.4}"));
        table.add_row([&candidate.name, &cells[0], &cells[1], &cells[2], chosen]);
    }
    let Proven { estimate, at_least, .. } = output.mixture;
    table.add_row(["mixture", &format!("{estimate:.4}"), &format!("{at_least:.4}"), "1.0000", ""]);
    for column in 1..4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("{}\n\nfrom {} records; on trust: {}", table.trim_fmt(), output.records, output.assumption);
    if at_least <= range.reward(0.0) {
        text.push_str("\nwarning: these logs prove nothing of any candidate");
    }
    output.warnings.iter().for_each(|warning| text.push_str(&format!("\nwarning: {warning}")));
    if let Some(path) = written {
        text.push_str(&format!("\nwrote {}", path.display()));
    }
    text
}
