//! `surefoot demo`: five methods on the digits that ship with Surefoot.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use surefoot::simulate::SimulatedRound;
use surefoot_lab::{Beginning, Config, Options, Text, mean_and_deviation, over_seeds};
use surefoot_terminal::figure::{self, Figure, Series};
use surefoot_terminal::{Failure, Result, Running};

use super::count;

/// Learn from handwritten digits with five methods, and compare them in a table and a figure
///
/// The digits are learned from bandit feedback: a policy guesses the digit and sees a noisy reward, but never the right
/// answer. All methods start from the same poor first policy and have the same number of interactions. The figure shows
/// the true risk per round, with its mean and standard deviation over the seeds.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  surefoot demo\n  surefoot demo --seeds 10 --output figures/demo --json")]
pub(crate) struct Demo {
    /// Number of seeds per method, from 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Number of rounds of deploying, logging and learning, from 1 to 12 (the rounds of SCRM double in size)
    #[arg(long, value_name = "K", default_value_t = 10,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=12))]
    rounds: usize,
    /// Write the figure to STEM.svg and STEM.png
    #[arg(long, value_name = "STEM", default_value = "surefoot-demo")]
    output: PathBuf,
    #[command(flatten)]
    running: Running,
}

/// The methods, in the order of the table.
fn methods() -> [(&'static str, Options); 5] {
    let algorithm =
        |name: &str| Options { algorithm: Some(name.into()), lambda: Some(Text("0.4".into())), ..Options::default() };
    [
        ("batch LS (never redeploys)", algorithm("batch-ls")),
        ("SeqLS", algorithm("seq-ls")),
        ("SeqAdjLS", algorithm("seq-adj-ls")),
        ("SCRM", algorithm("scrm")),
        ("Surefoot", best()),
    ]
}

/// Surefoot's own setting: the adjusted estimator with a large lambda and one scale per principal axis of the contexts.
/// Random Fourier features would give a lower risk, but also a better first policy, so the comparison would not be
/// fair.
fn best() -> Options {
    Options {
        algorithm: Some("seq-adj-ls".into()),
        posterior: Some("shaped".into()),
        lambda: Some(Text("0.9".into())),
        ..Options::default()
    }
}

/// The result, as it is written with `--json`.
#[derive(Debug, Serialize)]
struct Output<'a> {
    version: &'static str,
    seeds: u64,
    rounds: usize,
    methods: &'a [MethodResult],
}

/// The result of a method.
#[derive(Debug, Serialize)]
struct MethodResult {
    method: &'static str,
    config: Config,
    runs: Vec<Run>,
}

/// The result of one seed.
#[derive(Debug, Serialize)]
struct Run {
    seed: u64,
    initial: Beginning,
    /// The true risk after each round.
    true_risk: Vec<f64>,
    accuracy: Vec<f64>,
    /// The certified risk after each round: the best rung of the ladder.
    certified: Vec<f64>,
    /// The mean reward over all interactions.
    mean_reward: f64,
    seconds: f64,
}

impl Demo {
    pub(crate) fn run(self) -> Result<()> {
        self.running.start()?;
        figure::check(&self.output)?;
        let configs = methods().map(|(method, options)| {
            let common = Options { rounds: Some(self.rounds), certify: Some(true), ..Options::default() };
            (method, options.or(common).complete())
        });
        let clock = Instant::now();
        let runs = over_seeds(
            &configs.clone().map(|(_, config)| config),
            self.seeds,
            self.running.quiet,
            |config, experiment, outcome| {
                let rounds = &outcome.rounds;
                Ok(Run {
                    seed: config.seed,
                    initial: experiment.beginning()?,
                    true_risk: rounds.iter().map(|r| r.true_risk).collect(),
                    accuracy: rounds.iter().map(|r| r.accuracy).collect(),
                    certified: rounds.iter().map(certified).collect(),
                    mean_reward: outcome.mean_reward(),
                    seconds: rounds.iter().map(|r| r.seconds).sum(),
                })
            },
        )?;
        let results: Vec<MethodResult> = configs
            .into_iter()
            .zip(runs)
            .map(|((method, config), runs)| MethodResult { method, config, runs })
            .collect();
        let paths = self.figure(&results).write(&self.output).map_err(|e| Failure::file(&self.output, "written", e))?;
        let output =
            Output { version: env!("CARGO_PKG_VERSION"), seeds: self.seeds, rounds: self.rounds, methods: &results };
        self.running.answer(&output, || {
            format!(
                "Handwritten digits from bandit feedback: {}, {}, {:.0} s\n\n{}\n\n\
             Risk is the expected cost of the last policy, from -0.8 (always right) to -0.2 (always wrong).\n\
             Certified is a proven upper bound on the risk; it holds with probability 95 % in all rounds at once.\n\
             Figure: {} and {}",
                count(self.rounds, "round"),
                count(self.seeds as usize, "seed"),
                clock.elapsed().as_secs_f64(),
                table(&results),
                paths[0].display(),
                paths[1].display(),
            )
        })
    }

    fn figure(&self, results: &[MethodResult]) -> Figure {
        let series = results.iter().rev().map(|result| {
            let spread: Vec<(f64, f64)> = (0..=self.rounds)
                .map(|k| {
                    let at = |run: &Run| if k == 0 { run.initial.true_risk } else { run.true_risk[k - 1] };
                    mean_and_deviation(result.runs.iter().map(at))
                })
                .collect();
            Series {
                label: result.method.into(),
                points: spread.iter().enumerate().map(|(k, s)| (k as f64, s.0)).collect(),
                band: (self.seeds > 1).then(|| spread.iter().map(|(mean, sd)| (mean - sd, mean + sd)).collect()),
                ..Series::default()
            }
        });
        Figure {
            title: "Learning to recognise digits from bandit feedback".into(),
            x_label: "round".into(),
            y_label: match self.seeds {
                1 => "true risk (lower is better)".into(),
                seeds => format!("true risk (lower is better), mean and deviation over {seeds} seeds"),
            },
            series: series.collect(),
            ..Figure::default()
        }
    }
}

/// The certified risk of the policy of a round.
fn certified(round: &SimulatedRound) -> f64 {
    round.proven.as_ref().and_then(|proven| proven.ladder.as_ref()).map_or(f64::NAN, |ladder| ladder.upper)
}

fn table(results: &[MethodResult]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["method", "risk", "certified", "accuracy", "reward while learning", "seconds per run"]);
    for result in results {
        let last = |values: &[f64]| values.last().copied().unwrap_or(f64::NAN);
        let (risk, deviation) = mean_and_deviation(result.runs.iter().map(|r| last(&r.true_risk)));
        let (certified, _) = mean_and_deviation(result.runs.iter().map(|r| last(&r.certified)));
        let (accuracy, _) = mean_and_deviation(result.runs.iter().map(|r| last(&r.accuracy)));
        let (reward, _) = mean_and_deviation(result.runs.iter().map(|r| r.mean_reward));
        let (seconds, _) = mean_and_deviation(result.runs.iter().map(|r| r.seconds));
        table.add_row([
            result.method.to_string(),
            // One run has no deviation.
            if result.runs.len() > 1 { format!("{risk:.4} ± {deviation:.4}") } else { format!("{risk:.4}") },
            format!("{certified:.4}"),
            format!("{accuracy:.3}"),
            format!("{reward:.3}"),
            format!("{seconds:.1}"),
        ]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}
