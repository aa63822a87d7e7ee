//! `surefoot evaluate`: estimates the values of policies from logs.

use std::path::PathBuf;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use surefoot::evaluation::Interval;
use surefoot_data::{EvaluateRequest, Evaluated, ModelRequest, NamedEstimate, evaluate};
use surefoot_terminal::figure::{self, Forest, Mark};
use surefoot_terminal::{Failure, Result, Running, percent, progress};

use super::Versioned;
use crate::logs::{LogFlags, POLICY, RewardFlags, logs_failure, policies};

/// Estimate the values of target policies from logs, by every estimator and with intervals
///
/// It reads the logs once (three times if a linear reward model is fitted), in memory that does not grow with the logs.
/// Values are mean rewards. There are three kinds of intervals. The anytime interval is proven, and holds however often
/// you look at it. Bernstein's interval is proven if the number of records was fixed in advance and the largest weight
/// is known. The bootstrap interval is only asymptotically valid. These two are for what the estimator estimates on average:
/// if it has a bias, the value of the policy may lie outside. Look at the weights first: a mean that differs
/// significantly from 1 indicates wrong propensities; with a small effective sample size, the logs say little about the
/// policy.
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
    #[arg(long, value_name = "POLICY", required = true, help = format!("A target policy: {POLICY}. Repeat \
        the option for several policies"))]
    policy: Vec<String>,
    /// Reward model of the direct method, doubly robust and switch: none, linear (one ridge regression per action on
    /// the columns of the logs, cross-fitted), columns:PREFIX or list:COLUMN (columns with predicted rewards)
    #[arg(long, value_name = "MODEL", default_value = "none", help_heading = "Estimators")]
    model: String,
    /// Columns that the linear model does not use, separated by commas
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Estimators")]
    ignore: Vec<String>,
    /// Estimators, separated by commas: ips, snips, clipped:MAX, es:BETA, ix:GAMMA, power-mean:LAMBDA,
    /// shrinkage:LAMBDA, ls:LAMBDA, dm, dr, sndr, switch:TAU [default: all; dm, dr, sndr and switch only with a reward
    /// model]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Estimators")]
    estimators: Option<Vec<String>>,
    /// Failure probability of each interval, in (0, 1)
    #[arg(long, default_value_t = 0.05, help_heading = "Intervals")]
    delta: f64,
    /// Number of bootstrap replicates; 0 for no bootstrap
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Intervals")]
    replicates: usize,
    /// Largest possible importance weight, for Bernstein's intervals: 1 over the smallest possible propensity [default:
    /// unknown; then only estimators with bounded weights have Bernstein's intervals]
    #[arg(long, value_name = "W", help_heading = "Intervals")]
    largest_weight: Option<f64>,
    /// Seed of the bootstrap
    #[arg(long, default_value_t = 1, help_heading = "Intervals")]
    seed: u64,
    /// Draw the intervals into STEM.svg and STEM.png
    #[arg(long, value_name = "STEM")]
    figure: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
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
        let evaluated = evaluate(&self.logs.reader()?, &request, |records| bar.inc(records as u64));
        bar.finish_and_clear();
        let evaluated = evaluated.map_err(logs_failure)?;
        if let Some(stem) = &self.figure {
            let paths = forest(&evaluated).write(stem)?;
            surefoot_terminal::note(&format!("wrote {} and {}\n", paths[0].display(), paths[1].display()));
        }
        self.running.answer(&Versioned::new(&evaluated), || text(&evaluated))
    }
}

fn text(output: &Evaluated) -> String {
    let percent = percent(output.confidence);
    let interval = |i: &Interval| format!("{:.4} .. {:.4}", i.lower, i.upper);
    let mut parts = Vec::new();
    for policy in &output.policies {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "estimator",
            "reward",
            "± se",
            "bias",
            &format!("bootstrap {percent}"),
            &format!("Bernstein {percent}"),
        ]);
        // The unbiased ones first.
        let mut estimates: Vec<&NamedEstimate> = policy.estimates.iter().collect();
        estimates.sort_by_key(|estimate| estimate.bias);
        for NamedEstimate { name, bias, estimate: e, .. } in estimates {
            table.add_row([
                name.clone(),
                format!("{:.4}", e.value),
                format!("{:.4}", e.standard_error),
                bias.to_string(),
                e.bootstrap.as_ref().map_or("-".into(), interval),
                e.bernstein.as_ref().map_or("-".into(), interval),
            ]);
        }
        for column in 1..6 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let w = &policy.weights;
        let proven = if output.certified { "proven, at any time" } else { "NOT proven" };
        let chosen = policy.estimates.iter().find(|estimate| Some(&estimate.name) == policy.recommended.as_ref());
        let recommended = match chosen {
            Some(NamedEstimate { name, estimate: e, .. }) => {
                format!("recommended: {name}, {:.4} ± {:.4}: {}", e.value, e.standard_error, policy.reason)
            }
            None => format!("recommended: no estimate: {}", policy.reason),
        };
        parts.push(format!(
            "{}\n\n{proven}: {} ({percent})\n{recommended}\nweights: mean {:.4} ± {:.4}, largest {:.1}, effective sample \
             size {:.0} of {}\n\n{}",
            policy.name,
            interval(&policy.anytime),
            w.mean,
            w.standard_error,
            w.largest,
            w.effective,
            output.records,
            table.trim_fmt()
        ));
    }
    parts.push(OUTSIDE.into());
    parts.extend(output.warnings.iter().map(|warning| format!("warning: {warning}")));
    parts.join("\n\n")
}

const OUTSIDE: &str = "bootstrap and Bernstein: for what the estimator estimates on average; if it has a bias, the value may lie \
                       outside";

/// A number with commas between its thousands.
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
            "What {} logged records say, with {} intervals",
            grouped(output.records),
            percent(output.confidence)
        ),
        x_label: "reward".into(),
        note: "thick: bootstrap, and the proven interval; thin: empirical Bernstein; an estimator with a bias may miss"
            .into(),
        groups,
    }
}
