//! `surefoot study gate`: the benefit and the cost of the gate.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use surefoot::simulate::Outcome;
use surefoot_terminal::figure::{self, Figure, Series};
use surefoot_terminal::{Failure, Result, Running};

use crate::experiment::over_seeds;
use crate::options::{Config, Options};
use crate::statistics::mean_and_deviation;

/// Compare the rules of the gate over many seeds: steps back, promotions, and speed of learning
///
/// A step back is a promotion that increases the true risk (for a non-inferiority rule: by more than its margin). Under
/// the rules improvement and non-inferiority, the probability that a run has a step back is at most delta. Sizes of
/// rounds (--schedule, --rounds) are fixed in advance; to compare them, give all of them the same --goal. The defaults
/// are --algorithm seq-adj-ls and --posterior shaped in this study.
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  surefoot study gate\n  surefoot study gate --dataset synthetic --interactions 20000 --json\n  \
    surefoot study gate --seeds 20 --schedule growing:1.3 --goal -0.6969"
)]
pub(super) struct Gate {
    #[command(flatten)]
    options: Options,
    /// Number of seeds per rule, from 1 to 100,000
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    /// Rules to compare with the rule always, separated by commas; each as in --gate
    #[arg(
        long,
        value_name = "RULES",
        value_delimiter = ',',
        default_value = "improvement,non-inferiority:0.01,certified-risk"
    )]
    rules: Vec<String>,
    /// Risk to reach [default: nine tenths of the way from the first policy to where the rule always ends]
    #[arg(long, value_name = "RISK")]
    goal: Option<f64>,
    /// Write a figure to STEM.svg and STEM.png
    #[arg(long, value_name = "STEM")]
    output: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
}

/// The result of one loop.
struct Run {
    /// The true risk before the first round and after each round.
    risk: Vec<f64>,
    /// The number of interactions before the first round and after each round.
    interactions: Vec<usize>,
    promotions: usize,
    stepped_back: bool,
    mean_reward: f64,
}

/// The result of a rule, over seeds.
#[derive(Debug, Serialize)]
struct RuleResult {
    rule: String,
    runs: usize,
    /// The number of runs with a promotion that increased the true risk by more than the margin.
    stepped_back: usize,
    /// The mean number of promotions per run.
    promotions: f64,
    /// The mean true risk before the first round and after each round, and its standard deviation over seeds.
    risk: Vec<f64>,
    deviation: Vec<f64>,
    /// The number of interactions before the first round and after each round.
    interactions: Vec<usize>,
    /// The final risk minus that of the rule always with the same seed, and the standard error of its mean.
    price: f64,
    price_error: f64,
    /// The mean reward of all interactions.
    mean_reward: f64,
    /// The number of rounds and of interactions until the mean risk is at the goal; `None` if it never is.
    rounds_to_goal: Option<f64>,
    interactions_to_goal: Option<f64>,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Output<'a> {
    version: &'static str,
    seeds: u64,
    config: &'a Config,
    goal: f64,
    rules: &'a [RuleResult],
}

impl Gate {
    pub(super) fn run(self) -> Result<()> {
        self.running.start()?;
        if let Some(stem) = &self.output {
            figure::check(stem)?;
        }
        if self.options.gate.is_some() {
            return Err(Failure::new("--gate is what this study varies").hint("use --rules, a list"));
        }
        let (algorithm, posterior) = (Some("seq-adj-ls".into()), Some("shaped".into()));
        let shaped = Options { algorithm, posterior, ..Options::default() };
        let config = self.options.or(shaped).complete();
        let rules: Vec<String> = std::iter::once("always".into()).chain(self.rules).collect();
        // All rules hold back the records that the gate needs, so that the learners differ only in the gate.
        let configs: Vec<Config> = rules.iter().map(|rule| with_rule(&config, rule)).collect();
        let clock = Instant::now();
        let runs = over_seeds(&configs, self.seeds, self.running.quiet, |config, experiment, outcome| {
            Ok(run(experiment.beginning()?.true_risk, &outcome, margin(&config.gate)))
        })?;
        let mut results: Vec<RuleResult> =
            rules.iter().zip(&runs).map(|(rule, of_rule)| summary(rule, of_rule, &runs[0])).collect();
        let always = &results[0].risk;
        let goal = self.goal.unwrap_or(always[0] + 0.9 * (always[always.len() - 1] - always[0]));
        for result in &mut results {
            let rounds = reaches(&result.risk, goal);
            result.rounds_to_goal = rounds;
            result.interactions_to_goal = rounds.map(|rounds| interpolated(&result.interactions, rounds));
        }
        if let Some(stem) = &self.output {
            let figure = figure(&config, &results, self.seeds);
            let paths = figure.write(stem)?;
            surefoot_terminal::note(&format!("wrote {} and {}\n", paths[0].display(), paths[1].display()));
        }
        let (version, seeds) = (env!("CARGO_PKG_VERSION"), self.seeds);
        let always_rounds = results[0].risk.len() - 1;
        let output = Output { version, seeds, config: &config, goal, rules: &results };
        self.running.answer(&output, || {
            format!(
                "The gate on {}: {} rounds, {} seeds, delta {}, {:.0} s\n\n{}\n\n\
             A step back is a promotion that increased the true risk (beyond the margin, where there is one).\n\
             Price: the final risk minus that of always promoting, paired by seed, with its standard error.\n\
             Goal: the mean risk is at most {goal:.4}{}.",
                config.dataset,
                always_rounds,
                self.seeds,
                config.delta,
                clock.elapsed().as_secs_f64(),
                table(&results),
                if self.goal.is_some() { "" } else { ", nine tenths of the way to where promoting always ends" },
            )
        })
    }
}

fn with_rule(config: &Config, rule: &str) -> Config {
    let held_back = if config.held_back.0 == "auto" { "1".parse().expect("a text") } else { config.held_back.clone() };
    Config { gate: rule.into(), held_back, ..config.clone() }
}

/// The margin of a rule; 0 if it has none.
fn margin(rule: &str) -> f64 {
    rule.split_once(':').and_then(|(_, margin)| margin.parse().ok()).unwrap_or(0.0)
}

fn run(initial: f64, outcome: &Outcome, margin: f64) -> Run {
    let (mut risk, mut interactions) = (vec![initial], vec![0]);
    let (mut promotions, mut stepped_back) = (0, false);
    for round in &outcome.rounds {
        // Without a gate, every policy is promoted.
        if round.decision.as_ref().is_none_or(|decision| decision.promoted) {
            promotions += 1;
            stepped_back |= round.true_risk > risk[risk.len() - 1] + margin;
        }
        risk.push(round.true_risk);
        interactions.push(interactions[interactions.len() - 1] + round.learned.n);
    }
    Run { risk, interactions, promotions, stepped_back, mean_reward: outcome.mean_reward() }
}

/// The result of a rule; `always` has the runs of the rule always with the same seeds.
fn summary(rule: &str, runs: &[Run], always: &[Run]) -> RuleResult {
    let mean = |value: &dyn Fn(&Run) -> f64| mean_and_deviation(runs.iter().map(value)).0;
    let at = |k: usize| mean_and_deviation(runs.iter().map(|run| run.risk[k]));
    let risks: Vec<(f64, f64)> = (0..runs[0].risk.len()).map(at).collect();
    let end = |run: &Run| run.risk[run.risk.len() - 1];
    let (price, deviation) = mean_and_deviation(runs.iter().zip(always).map(|(run, other)| end(run) - end(other)));
    RuleResult {
        rule: rule.into(),
        runs: runs.len(),
        stepped_back: runs.iter().filter(|run| run.stepped_back).count(),
        promotions: mean(&|run| run.promotions as f64),
        risk: risks.iter().map(|r| r.0).collect(),
        deviation: risks.iter().map(|r| r.1).collect(),
        interactions: runs[0].interactions.clone(),
        price,
        price_error: deviation / (runs.len() as f64).sqrt(),
        mean_reward: mean(&|run| run.mean_reward),
        rounds_to_goal: None,
        interactions_to_goal: None,
    }
}

/// The first point at which the interpolated risk falls to a level.
fn reaches(risk: &[f64], level: f64) -> Option<f64> {
    let after = risk.iter().position(|&r| r <= level)?;
    match after.checked_sub(1) {
        None => Some(0.0),
        Some(before) => Some(before as f64 + (risk[before] - level) / (risk[before] - risk[after])),
    }
}

/// The number of interactions at a point between rounds.
fn interpolated(interactions: &[usize], rounds: f64) -> f64 {
    let before = (rounds.floor() as usize).min(interactions.len() - 1);
    let after = (before + 1).min(interactions.len() - 1);
    interactions[before] as f64 + (rounds - before as f64) * (interactions[after] - interactions[before]) as f64
}

fn table(results: &[RuleResult]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "gate",
        "runs with a step back",
        "promotions a run",
        "risk",
        "price",
        "reward while learning",
        "rounds to the goal",
        "interactions",
    ]);
    for r in results {
        let last = r.risk.len() - 1;
        table.add_row([
            r.rule.clone(),
            format!("{} ({:.1} %)", r.stepped_back, 100.0 * r.stepped_back as f64 / r.runs as f64),
            format!("{:.1}", r.promotions),
            format!("{:.4} ± {:.4}", r.risk[last], r.deviation[last]),
            format!("{:+.4} ± {:.4}", r.price, r.price_error),
            format!("{:.3}", r.mean_reward),
            r.rounds_to_goal.map_or("never".into(), |rounds| format!("{rounds:.1}")),
            r.interactions_to_goal.map_or("never".into(), |interactions| format!("{interactions:.0}")),
        ]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}

fn figure(config: &Config, results: &[RuleResult], seeds: u64) -> Figure {
    let series = results.iter().map(|r| Series {
        label: r.rule.clone(),
        points: r.risk.iter().enumerate().map(|(k, &risk)| (k as f64, risk)).collect(),
        band: Some(r.risk.iter().zip(&r.deviation).map(|(risk, sd)| (risk - sd, risk + sd)).collect()),
        ..Series::default()
    });
    Figure {
        title: format!("The gate on {}", config.dataset),
        x_label: "round".into(),
        y_label: format!("true risk (lower is better), mean and deviation over {seeds} seeds"),
        series: series.collect(),
        ..Figure::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_reached_where_the_line_crosses_it() {
        assert_eq!(reaches(&[0.0, -1.0, -2.0], -1.5), Some(1.5));
        assert_eq!(reaches(&[0.0, -1.0], 0.0), Some(0.0));
        assert_eq!(reaches(&[0.0, -1.0], -2.0), None);
    }

    #[test]
    fn interactions_between_rounds_are_interpolated() {
        let sizes = [0, 10, 30];
        assert_eq!([0.0, 0.5, 1.0, 1.25, 2.0].map(|rounds| interpolated(&sizes, rounds)), [0.0, 5.0, 10.0, 15.0, 30.0]);
    }

    #[test]
    fn a_step_back_beyond_the_margin_counts() {
        assert_eq!(margin("non-inferiority:0.02"), 0.02);
        assert_eq!(margin("improvement"), 0.0);
    }
}
