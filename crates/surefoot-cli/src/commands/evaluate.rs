//! `surefoot evaluate`: what the logs say of policies that did not collect them.

use std::path::PathBuf;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::ProgressBar;
use serde::Serialize;
use surefoot::evaluation::{Estimator, Evaluation, EvaluationSettings, Interval, Weights};
use surefoot::{Evaluator, Protocol, RewardRange};
use surefoot_data::{Actions, LogReader, RewardModel, observe};

use super::Running;
use crate::failure::{Failure, Result};
use crate::figure::{self, Forest, Mark};
use crate::logs::{LogFlags, Named, POLICY, RewardFlags, learned, policies};
use crate::progress;

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
    /// ColumnNames that the linear model does not look at
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
    records: usize,
    skipped: usize,
    reward_range: [f64; 2],
    confidence: f64,
    policies: Vec<PolicyOutput>,
    warnings: Vec<String>,
}

/// What is known of a policy, in rewards.
#[derive(Debug, Serialize)]
struct PolicyOutput {
    name: String,
    anytime: Interval,
    weights: Weights,
    estimates: Vec<EstimateOutput>,
}

#[derive(Debug, Serialize)]
struct EstimateOutput {
    name: String,
    estimator: Estimator,
    value: f64,
    standard_error: f64,
    bootstrap: Option<Interval>,
    bernstein: Option<Interval>,
}

impl Evaluate {
    pub(crate) fn run(self) -> Result<()> {
        self.running.start()?;
        if let Some(stem) = &self.figure {
            figure::check(stem)?;
        }
        let range = self.reward.range()?;
        let policies = policies(&self.policy)?;
        let reader = self.logs.reader();
        let actions = actions_of(&policies, &reader)?;
        let settings = self.settings()?;
        let bar = progress::records(self.running.quiet);
        let model = self.model(&reader, &actions, range, &bar)?;
        let (evaluators, skipped) = observe_all(&model, &policies, &reader, &actions, range, &settings, &bar)?;
        let named = policies.iter().zip(&evaluators);
        let found = named.map(|(Named { name, .. }, evaluator)| Ok((name.clone(), evaluator.finish()?)));
        let mut output = self.output(found.collect::<Result<_>>()?, range, skipped);
        output.warnings.extend(learned(&policies));
        if let Some(stem) = &self.figure {
            forest(&output).write(stem).map_err(|e| Failure::file(stem, "written", e))?;
        }
        self.running.answer(&output, || text(&output))
    }

    fn settings(&self) -> Result<EvaluationSettings> {
        let modelled = self.model != "none";
        let mut settings = if modelled { EvaluationSettings::with_model() } else { EvaluationSettings::default() };
        if let Some(names) = &self.estimators {
            settings.estimators = names.iter().map(|name| name.parse()).collect::<surefoot::Result<_>>()?;
        }
        if let Some(estimator) = settings.estimators.iter().find(|estimator| estimator.needs_model() && !modelled) {
            return Err(Failure::new(format!("{estimator} needs a reward model")).hint("--model linear fits one"));
        }
        Ok(EvaluationSettings {
            protocol: Protocol { delta: self.delta, ..Protocol::default() },
            replicates: self.replicates,
            seed: self.seed,
            largest_weight: self.largest_weight,
            ..settings
        })
    }

    /// The reward model; a linear one takes a pass over the logs, and another one before it to see what columns there are.
    fn model(
        &self,
        reader: &LogReader,
        actions: &Actions,
        range: RewardRange,
        bar: &ProgressBar,
    ) -> Result<RewardModel> {
        match self.model.as_str() {
            "none" => Ok(RewardModel::None),
            "linear" => {
                let on_batch = |records: usize| bar.inc(records as u64);
                let model = RewardModel::linear(reader, actions, range, &self.ignore, on_batch)
                    .map_err(|e| Failure::new(e).hint("columns are left out with --ignore"))?;
                bar.reset();
                Ok(model)
            }
            cells => cells.parse().map(RewardModel::Given).map_err(|()| {
                Failure::new(format!("the model should be none, linear, columns:PREFIX or list:COLUMN, but is {cells}"))
            }),
        }
    }

    fn output(&self, found: Vec<(String, Evaluation)>, range: RewardRange, skipped: usize) -> Output {
        let width = range.reward(-1.0) - range.reward(0.0);
        // A cost is a reward turned around.
        let rewards = |i: Interval| Interval { lower: range.reward(i.upper), upper: range.reward(i.lower) };
        let records = found.first().map_or(0, |(_, evaluation)| evaluation.records);
        let warnings = |(name, evaluation): &(String, Evaluation)| {
            let warnings = evaluation.weights.warnings(records).into_iter();
            warnings.map(|warning| format!("{name}: {warning}")).collect::<Vec<_>>()
        };
        let warnings = found.iter().flat_map(warnings).collect();
        let policy = |(name, evaluation): (String, Evaluation)| PolicyOutput {
            name,
            anytime: rewards(evaluation.anytime),
            weights: evaluation.weights,
            estimates: evaluation
                .estimates
                .into_iter()
                .map(|e| EstimateOutput {
                    name: e.estimator.to_string(),
                    estimator: e.estimator,
                    value: range.reward(e.value),
                    standard_error: e.standard_error * width,
                    bootstrap: e.bootstrap.map(rewards),
                    bernstein: e.bernstein.map(rewards),
                })
                .collect(),
        };
        Output {
            version: env!("CARGO_PKG_VERSION"),
            records,
            skipped,
            reward_range: self.reward.reward_range,
            confidence: 1.0 - self.delta,
            policies: found.into_iter().map(policy).collect(),
            warnings,
        }
    }
}

/// The actions that the policies know, or else those that are in the logs.
pub(super) fn actions_of(policies: &[Named], reader: &LogReader) -> Result<Actions> {
    let named = policies.iter().map(|Named { name, policy, .. }| (name.as_str(), policy));
    surefoot_data::actions_of(named, reader).map_err(Failure::new)
}

/// One pass over the logs: a evaluator for each policy, and how many records were skipped.
pub(super) fn observe_all(
    model: &RewardModel,
    policies: &[Named],
    reader: &LogReader,
    actions: &Actions,
    range: RewardRange,
    settings: &EvaluationSettings,
    bar: &ProgressBar,
) -> Result<(Vec<Evaluator>, usize)> {
    let judged: Vec<_> = policies.iter().map(|named| &named.policy).collect();
    let on_batch = |records: usize| bar.inc(records as u64);
    let observed = observe(model, &judged, reader, actions, range, settings, on_batch)
        .map_err(|e| Failure::new(e).hint("surefoot lint tells all that is wrong with logs at once"))?;
    bar.finish_and_clear();
    Ok(observed)
}

fn text(output: &Output) -> String {
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
        for e in &policy.estimates {
            table.add_row([
                e.name.clone(),
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
fn forest(output: &Output) -> Forest {
    let mut groups = Vec::new();
    for policy in &output.policies {
        let mut marks = vec![Mark {
            label: "proven, at any time".into(),
            value: None,
            thick: Some((policy.anytime.lower, policy.anytime.upper)),
            thin: None,
        }];
        let ends = |i: &Interval| (i.lower, i.upper);
        marks.extend(policy.estimates.iter().map(|e| Mark {
            label: e.name.clone(),
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
