//! `surefoot evaluate`: what the logs say of policies that did not collect them.

use std::path::PathBuf;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use surefoot::evaluation::Interval;
use surefoot_data::{EvaluateRequest, Evaluated, ModelRequest, NamedEstimate, evaluate};
use surefoot_terminal::figure::{self, Forest, Mark};
use surefoot_terminal::{Failure, Result, Running, progress};

use crate::logs::{LogFlags, POLICY, RewardFlags, logs_failure, policies};

/// What the logs say of policies that did not collect them: the value by every estimator, with intervals
///
/// One pass (three where a linear reward model is fitted), in memory that does not grow with the logs. Values are rewards. The
/// anytime interval is proven and may be looked at as often as one likes; Bernstein's is proven for a number of records that
/// was fixed before, where the largest weight is known; the bootstrap's holds in the limit. Look at the weights first: a mean
/// away from 1 tells of wrong propensities, a small effective sample size that the logs know little of the policy.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot evaluate logs.parquet --policy next.safetensors --policy uniform\n  \
    surefoot evaluate logs.csv --policy columns:pi_ --figure forest\n  \
    surefoot evaluate logs.npz --policy new=list:action_dist --policy old=logged --model linear --json")]
pub(crate) struct Evaluate {
    #[command(flatten)]
    logs: LogFlags,
    #[command(flatten)]
    reward: RewardFlags,
    #[arg(long, value_name = "POLICY", required = true, help = format!("A policy to judge: {POLICY}"))]
    policy: Vec<String>,
    /// The reward model of the direct method, doubly robust and switch: none, linear (ridge regression an action, on the
    /// logs' own columns, each record predicted by what others say), columns:PREFIX or list:COLUMN (predicted rewards)
    #[arg(long, value_name = "MODEL", default_value = "none", help_heading = "Estimators")]
    model: String,
    /// Columns that the linear model does not look at
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Estimators")]
    ignore: Vec<String>,
    /// Estimators, separated by commas [default: all; those that need a reward model, if there is one]: ips, snips,
    /// clipped:MAX, es:BETA, ix:GAMMA, power-mean:LAMBDA, shrinkage:LAMBDA, ls:LAMBDA, dm, dr, sndr, switch:TAU
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Estimators")]
    estimators: Option<Vec<String>>,
    /// Probability with which each interval may be wrong
    #[arg(long, default_value_t = 0.05, help_heading = "Intervals")]
    delta: f64,
    /// Replicates of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Intervals")]
    replicates: usize,
    /// The largest weight that can occur, for Bernstein's intervals: 1 over the smallest propensity that the logger allows
    #[arg(long, value_name = "W", help_heading = "Intervals")]
    largest_weight: Option<f64>,
    /// Seed of the bootstrap
    #[arg(long, default_value_t = 1, help_heading = "Intervals")]
    seed: u64,
    /// Draw the intervals to STEM.svg and STEM.png
    #[arg(long, value_name = "STEM")]
    figure: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
}

/// The result, as it is written with `--json`.
#[derive(Debug, Serialize)]
struct Output {
    version: &'static str,
    #[serde(flatten)]
    evaluated: Evaluated,
}

impl Evaluate {
    pub(crate) fn run(self) -> Result<()> {
        self.running.start()?;
        if let Some(stem) = &self.figure {
            figure::check(stem)?;
        }
        let estimators = self.estimators.as_ref().map(|names| names.iter().map(|name| name.parse()).collect());
        let request = EvaluateRequest {
            policies: policies(&self.policy)?.0,
            reward_range: self.reward.reward_range,
            model: ModelRequest::named(&self.model, &self.ignore).map_err(Failure::new)?,
            estimators: estimators.transpose()?,
            delta: self.delta,
            replicates: self.replicates,
            largest_weight: self.largest_weight,
            seed: self.seed,
        };
        let bar = progress::records(self.running.quiet);
        let evaluated = evaluate(&self.logs.reader(), &request, |records| bar.inc(records as u64));
        bar.finish_and_clear();
        let evaluated = evaluated.map_err(logs_failure)?;
        if let Some(stem) = &self.figure {
            forest(&evaluated).write(stem)?;
        }
        let output = Output { version: env!("CARGO_PKG_VERSION"), evaluated };
        self.running.answer(&output, || text(&output.evaluated))
    }
}

fn text(output: &Evaluated) -> String {
    let percent = format!("{:.0} %", 100.0 * output.confidence);
    let interval = |i: &Interval| format!("{:.4} .. {:.4}", i.lower, i.upper);
    let mut parts = Vec::new();
    for policy in &output.policies {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "estimator",
            "reward",
            "± se",
            &format!("bootstrap {percent}"),
            &format!("Bernstein {percent}"),
        ]);
        for NamedEstimate { name, estimate: e, .. } in &policy.estimates {
            table.add_row([
                name.clone(),
                format!("{:.4}", e.value),
                format!("{:.4}", e.standard_error),
                e.bootstrap.as_ref().map_or("-".into(), interval),
                e.bernstein.as_ref().map_or("-".into(), interval),
            ]);
        }
        for column in 1..5 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let w = &policy.weights;
        parts.push(format!(
            "{}\n\n{}\n\nproven, at any time: {} ({percent})\nweights: mean {:.4} ± {:.4}, largest {:.1}, effective sample \
             size {:.0} of {}",
            policy.name,
            table.trim_fmt(),
            interval(&policy.anytime),
            w.mean,
            w.standard_error,
            w.largest,
            w.effective,
            output.records
        ));
    }
    parts.extend(output.warnings.iter().map(|warning| format!("warning: {warning}")));
    parts.join("\n\n")
}

/// A number with its thousands apart.
fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let parts: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|part| std::str::from_utf8(part).ok()).collect();
    parts.join(",")
}

/// The intervals of all policies.
fn forest(output: &Evaluated) -> Forest {
    let mut groups = Vec::new();
    for policy in &output.policies {
        let mut marks = vec![Mark {
            label: "proven, at any time".into(),
            value: None,
            thick: Some((policy.anytime.lower, policy.anytime.upper)),
            thin: None,
        }];
        let ends = |i: &Interval| (i.lower, i.upper);
        marks.extend(policy.estimates.iter().map(|NamedEstimate { name, estimate: e, .. }| Mark {
            label: name.clone(),
            value: Some(e.value),
            thick: e.bootstrap.as_ref().map(ends),
            thin: e.bernstein.as_ref().map(ends),
        }));
        groups.push((policy.name.clone(), marks));
    }
    Forest {
        title: format!(
            "What {} logged records say, with {:.0} % intervals",
            grouped(output.records),
            100.0 * output.confidence
        ),
        x_label: "reward".into(),
        note: "thick: bootstrap, and the proven interval; thin: empirical Bernstein".into(),
        groups,
    }
}
